//! Network cards, accelerators, processors and NUMA nodes of a machine, and the choice of cards.
//!
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_transfer::topology::{Near, Topology};
//!
//! // Recorded. `SysFolder::default()` is this machine's `/sys`, with feature `std`.
//! let sys = [
//!     ("devices/system/node/node0/cpulist", "0-31"),
//!     ("devices/system/node/node1/cpulist", "32-63"),
//!     ("class/infiniband/mlx5_0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
//!     ("class/infiniband/mlx5_1/device", "devices/pci0000:ba/0000:ba:00.0/0000:bb:00.0"),
//!     ("bus/pci/devices/0000:3b:00.0/numa_node", "0"),
//!     ("bus/pci/devices/0000:bb:00.0/numa_node", "1"),
//! ];
//! let topology = Topology::read_in(&sys[..], Global)?;
//! let near: Vec<_> = topology.nearest(Near::Node(1)).map(|card| card.name()).collect();
//! assert_eq!(near, ["mlx5_1", "mlx5_0"]);
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # Sources
//! Linux's `Documentation/ABI`: `sysfs-class-infiniband`, `sysfs-class-net`, `sysfs-bus-pci`,
//! `sysfs-devices-node`, `sysfs-devices-system-cpu`. A missing or malformed file leaves out its
//! device or value.

mod devices;
mod machine;
mod nodes;
mod pci;
mod policy;
mod sys_fs;

#[cfg(all(feature = "std", target_os = "linux"))]
mod affinity;
#[cfg(feature = "std")]
mod folder;

#[cfg(all(feature = "std", target_os = "linux"))]
pub use self::affinity::{Bound, bind_thread};
pub use self::devices::{Accelerator, Card};
#[cfg(feature = "std")]
pub use self::folder::SysFolder;
pub use self::machine::Topology;
pub use self::nodes::Node;
pub use self::pci::PciAddress;
pub use self::policy::Near;
pub use self::sys_fs::SysFs;

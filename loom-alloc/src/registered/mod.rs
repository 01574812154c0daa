//! Buffers and an allocator over memory that is registered once.
//!
//! For providers with local registration (`FI_MR_LOCAL`): slabs for one thread or many, of buffers
//! to post ([`Slab`]), that peers reach ([`ExposedSlab`]) or in device memory ([`DeviceSlab`]), and
//! a [`RegisteredHeap`].

mod attr;
mod buffers;
#[cfg(feature = "bytes")]
mod bytes;
mod device;
mod exposed;
mod heap;
mod lease;
mod parts;
#[cfg(feature = "bytemuck")]
mod plain_data;
mod slab;
mod zeroed;

pub use attr::SlabAttr;
pub use device::{DeviceLease, DeviceSlab};
pub use exposed::{ExposedLease, ExposedSlab, RegionSlab, SharedExposedSlab};
pub use heap::{HeapMemory, RegisteredHeap};
pub use lease::{Lease, SharedLease};
pub use parts::NotJoined;
pub(crate) use parts::Parts;
pub use slab::{RegisteredSlab, SharedSlab, Slab};
pub use zeroed::Zeroed;

/// Rejected programs, each beside a similar accepted one.
///
/// A lease does not outlive its slab:
///
/// ```compile_fail,E0505
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Slab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
/// let lease = slab.lease();
/// drop(slab);
/// drop(lease);
/// ```
///
/// ```
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Slab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
/// let lease = slab.lease();
/// drop(lease);
/// drop(slab);
/// ```
///
/// A posted lease does not either: queues that may be forgotten take leases of `'static` slabs, and
/// a scope ends first:
///
/// ```compile_fail,E0505
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Lease, Slab, SlabAttr}};
/// # use loom_core::{cq::Cq, domain::Domain, scope, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
/// scope(|s| {
///     let cq = Cq::<_, Lease<'_>>::open(&s.domain(&domain), 16).unwrap();
///     let lease = slab.lease();
///     drop(slab);
///     drop(lease);
/// });
/// ```
///
/// ```
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Lease, Slab, SlabAttr}};
/// # use loom_core::{cq::Cq, domain::Domain, scope, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = Slab::open_in(&domain, SlabAttr::new(1, 64), Global).unwrap();
/// scope(|s| {
///     let cq = Cq::<_, Lease<'_>>::open(&s.domain(&domain), 16).unwrap();
///     let lease = slab.lease();
///     drop(lease);
/// });
/// drop(slab);
/// ```
///
/// With a lease, a slab's memory is not moved out, nor its region closed:
///
/// ```compile_fail,E0505
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{ExposedSlab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}, vocabulary::Access};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = ExposedSlab::open_in(&domain, SlabAttr::new(1, 64), Access::REMOTE_READ, Global).unwrap();
/// let lease = slab.lease();
/// drop(slab.into_region());
/// drop(lease);
/// ```
///
/// ```
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{ExposedSlab, SlabAttr}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}, vocabulary::Access};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let slab = ExposedSlab::open_in(&domain, SlabAttr::new(1, 64), Access::REMOTE_READ, Global).unwrap();
/// let lease = slab.lease();
/// drop(lease);
/// drop(slab.into_region());
/// ```
///
/// A window does not outlive its exposed lease, so none exists when the lease becomes postable:
///
/// ```compile_fail,E0505
/// use loom_alloc::registered::ExposedLease;
/// fn case(lease: ExposedLease<'_>) {
///     let window = lease.window();
///     // SAFETY: never called.
///     drop(unsafe { lease.into_lease() });
///     window.len();
/// }
/// ```
///
/// ```
/// use loom_alloc::registered::ExposedLease;
/// fn case(lease: ExposedLease<'_>) {
///     let window = lease.window();
///     window.len();
///     // SAFETY: never called.
///     drop(unsafe { lease.into_lease() });
/// }
/// ```
///
/// A lease of one thread stays there, and its slab is not shared:
///
/// ```compile_fail,E0277
/// fn sends<T: Send>() {}
/// sends::<loom_alloc::registered::Lease<'static>>();
/// ```
///
/// ```
/// fn sends<T: Send + Sync>() {}
/// sends::<loom_alloc::registered::SharedLease<'static>>();
/// ```
///
/// ```compile_fail,E0277
/// # use loom_alloc::{Arena, registered::{Slab, Zeroed}};
/// # use loom_core::soft::Soft;
/// fn shares<T: Sync>() {}
/// type Alloc = &'static Arena<'static>;
/// shares::<Slab<'static, Soft<'static>, Zeroed<Alloc>, Alloc>>();
/// ```
///
/// ```
/// # use loom_alloc::{Arena, registered::{SharedSlab, Zeroed}};
/// # use loom_core::soft::Soft;
/// fn shares<T: Sync>() {}
/// type Alloc = &'static Arena<'static>;
/// shares::<SharedSlab<'static, Soft<'static>, Zeroed<Alloc>, Alloc>>();
/// ```
///
/// A heap's memory is not dropped or read before the heap is dropped:
///
/// ```compile_fail,E0505
/// # use loom_alloc::{allocator_api2::{alloc::Global, vec::Vec}, registered::{HeapMemory, RegisteredHeap}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let mut memory = HeapMemory::open_in(&domain, core::alloc::Layout::new::<[u8; 64]>(), Global).unwrap();
/// // Also where the allocator inside does not borrow the memory: the descriptor does.
/// let heap = RegisteredHeap::new(&mut memory, |_| Global);
/// drop(memory);
/// Vec::<u8, _>::new_in(&heap);
/// ```
///
/// ```
/// # use loom_alloc::{allocator_api2::{alloc::Global, vec::Vec}, registered::{HeapMemory, RegisteredHeap}};
/// # use loom_core::{domain::Domain, soft::{Network, NetworkAttr}};
/// # let network = Network::new(NetworkAttr::default()).unwrap();
/// # let domain = Domain::open(&network.info()).unwrap();
/// let mut memory = HeapMemory::open_in(&domain, core::alloc::Layout::new::<[u8; 64]>(), Global).unwrap();
/// let heap = RegisteredHeap::new(&mut memory, |_| Global);
/// Vec::<u8, _>::new_in(&heap);
/// drop(memory);
/// ```
#[cfg(doctest)]
struct Refused;

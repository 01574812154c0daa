//! Registered memory: buffers, and allocation, from a region that was registered once.
//!
//! Providers that ask for local registration (`FI_MR_LOCAL`) take no other buffers, and for others, too, registering is what makes
//! posting arbitrary memory slow. So memory is registered when a program starts, and cut up:
//!
//! - [`Slab`] and [`SharedSlab`] have buffers of one size. A [`Lease`] of one moves into a post and comes back with its completion; it can be
//!   filled and read piece by piece, [split](Lease::split) and [rejoined](Lease::rejoin).
//! - [`ExposedSlab`] and [`SharedExposedSlab`] have buffers that peers reach: an [`ExposedLease`] has a window, and what a peer is to be
//!   told.
//! - A [`DeviceSlab`] has buffers in the memory of a device, whose bytes the host does not see.
//! - [`RegisteredHeap`] is an allocator: a `Box<[u8], _>` or `Vec<u8, _>` of it can be posted.

mod attr;
mod buffers;
#[cfg(feature = "bytes")]
mod bytes;
mod device;
mod exposed;
mod heap;
mod lease;
mod parts;
mod slab;
#[cfg(feature = "bytemuck")]
mod views;
mod zeroed;

pub use attr::SlabAttr;
pub use device::{DeviceLease, DeviceSlab};
pub use exposed::{ExposedLease, ExposedSlab, RegionSlab, SharedExposedSlab};
pub use heap::{HeapMemory, RegisteredHeap};
pub use lease::{Lease, OutOfLease, SharedLease};
pub use parts::NotJoined;
pub(crate) use parts::Parts;
pub use slab::{RegisteredSlab, SharedSlab, Slab};
#[cfg(feature = "bytemuck")]
pub use views::ViewError;
pub use zeroed::Zeroed;

/// What the types refuse, each case beside one that differs in nothing else and is accepted.
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
/// Nor does it when it is posted: a queue that may be forgotten takes leases of slabs that are there for ever, and a scope ends
/// before the slab.
///
/// ```compile_fail,E0505
/// # use loom_alloc::{allocator_api2::alloc::Global, registered::{Lease, Slab, SlabAttr}};
/// # use loom_core::{cq::Cq, domain::Domain, scope::scope, soft::{Network, NetworkAttr}};
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
/// # use loom_core::{cq::Cq, domain::Domain, scope::scope, soft::{Network, NetworkAttr}};
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
/// A slab's memory is not taken out of it while a lease is there, nor its region closed:
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
/// A window of an exposed lease does not outlive it, so that no window is there when the lease becomes one to post:
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
/// What was registered for a heap is not dropped, or shown, before the heap:
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

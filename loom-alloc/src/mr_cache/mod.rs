//! [`MrCache`]: cached registrations of arbitrary buffers.
//!
//! [`MrCache::register`] returns a [`Cached`] buffer, and finds its region when the memory is
//! posted again. For peers, open an [`Mr`](loom_core::mr::Mr).
//!
//! # Rules
//! 1. **Pages.** A region covers the whole pages ([`MrCacheAttr::page_size`]) of a buffer with
//!    headroom: it keeps its memory while the buffer stays.
//! 2. **Hit.** A region serves a buffer that it covers if it has the buffer's access: read if the
//!    buffer is initialised, write if it is writable.
//! 3. **Miss.** Otherwise the buffer's pages are registered.
//! 4. **Users.** A region has its [`Cached`] buffers as users, forgotten ones forever, and is not
//!    closed while it has users.
//! 5. **Overlap.** A miss replaces the regions that its pages overlap. The new region has the
//!    access of all, and covers them up to [`MrCacheAttr::merged`] bytes. If that is refused, only
//!    the buffer's pages are registered, with its access.
//! 6. **Hidden.** Look-ups do not return replaced, evicted or invalidated regions. They are closed
//!    at once, or with their last user.
//! 7. **Limits.** The cache has at most [capacity](MrCacheAttr::new) regions and
//!    [`MrCacheAttr::bytes`] bytes, including hidden ones with users. Beyond that, or if the
//!    provider is out of resources (`ENOMEM`, `ENOSPC`, `ENOMR`,
//!    [`OpenError::Limit`](loom_core::error::OpenError::Limit)), the regions unused for longest are
//!    closed. Without such regions the buffer is refused.
//! 8. **Unmapped memory.** Each look-up first hides regions that the [monitor](MemoryMonitor)
//!    reported. During a notice, and in memory that the monitor cannot watch, a buffer gets its own
//!    region, closed with it.
//! 9. **Failure to close.** The region is leaked and counted, and the domain stays open.
//! 10. **Device memory** is refused.
//!
//! # Example
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
//! use loom_core::error::PostError;
//! use loom_core::{Cq, CqAttr, Source, scope};
//! # use loom_core::soft::{RequiredModes, Network, NetworkAttr};
//! # use loom_core::{Av, Domain, Forever};
//! # static GREETING: [u8; 5] = *b"hello";
//! # let network = Network::new(NetworkAttr::default())?;
//! # // Like hardware, the network refuses unregistered buffers.
//! # let domain = Domain::open(&network.info_requiring(RequiredModes::LOCAL_REGISTRATION))?;
//! # let av = Av::open(&domain, 2)?;
//! # let mut room = [0; 5];
//!
//! // SAFETY: only a static and this function's stack are registered, which stay mapped.
//! let monitor = unsafe { Notified::new() };
//! let cache = MrCache::open_in(&domain, MrCacheAttr::new(16), monitor, Global)?;
//! // The cache outlives the queue, whose operations use its registrations.
//! scope(|s| {
//!     let cq = Cq::open(&s.domain(&domain), CqAttr::new(16))?;
//! #   let endpoint = cq.endpoint(&av)?;
//! #   let me = av.insert(&endpoint.address()?)?;
//!     let buf = cache.register(&mut room[..]).map_err(|refused| refused.error)?;
//!     let received = endpoint.recv(Source::Any, buf).map_err(PostError::from)?;
//! #   cq.retry(Forever, || endpoint.inject(me, &GREETING))?;
//!     assert_eq!(cq.finish(received, Forever)?.into_buf().into_inner(), b"hello");
//!     assert_eq!((cache.stats().misses, cache.stats().in_use, cache.stats().found), (1, 0, 1));
//! #   Ok::<_, Box<dyn core::error::Error>>(())
//! })?;
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```
//!
//! # References
//! - `man fi_mr`, *Memory registration cache*: the caches of hardware providers, used without
//!   `FI_MR_LOCAL`

mod address_index;
mod array;
mod attr;
mod cache;
mod cached;
mod entries;
mod monitor;

pub use self::attr::{MrCacheAttr, MrCacheStats};
pub use self::cache::MrCache;
pub use self::cached::Cached;
#[cfg(all(feature = "os", target_os = "linux"))]
pub use self::monitor::Userfaultfd;
pub use self::monitor::{MemoryMonitor, Notices, Notified};

//! [`MrCache`]: registrations of arbitrary buffers, kept for the next time.
//!
//! Some providers take only buffers that are registered (`FI_MR_LOCAL`). Registering costs a system call and pins pages, so
//! buffers that are posted again and again are best registered once, and leased. For programs that post whatever memory they have at hand
//! there is this: [`MrCache::register`] makes a [`Cached`] of a buffer, which is posted like any other. Its region stays in the cache when
//! the buffer comes back, and is found when the same memory is posted again.
//!
//! It is for local use alone: peers get no access. What they reach is a [`Mr`](loom_core::mr::Mr).
//!
//! # Rules
//!
//! 1. **Pages.** A region consists of whole pages ([`MrCacheAttr::page_size`]): of those that the buffer, with its headroom, lies
//!    on. What the system maps and unmaps are pages, so a region of a buffer holds no memory that could go while the buffer stays.
//! 2. **Hit.** A region is found for a buffer if it covers it and has the access that the buffer allows: to be read by the transport if
//!    the buffer is initialised, to be written if it may be. Regions that can be found never overlap, so there is one at most.
//! 3. **Miss.** Otherwise the pages of the buffer are registered. A buffer that needs none passes: it is empty, or brings a
//!    descriptor along.
//! 4. **Users.** A region has as many users as there are [`Cached`] buffers with it, of which one that was forgotten counts for ever. It is never
//!    closed while it has users.
//! 5. **Overlap.** A miss whose pages overlap regions replaces these: they are not found any more from then on. The new region has the
//!    access of all of them, and covers all of them, if that is no more than [`MrCacheAttr::merged`] bytes; otherwise the buffer's pages alone.
//!    If the provider, or a limit of the cache, refuses that (because some of the memory may not be written, for example), the buffer's pages
//!    are registered with the buffer's access.
//! 6. **Not found any more** (replaced, evicted, invalidated) means: no look-up from then on returns the region. It is closed at
//!    once if it has no users, or with its last.
//! 7. **Limits.** There are no more regions than [the capacity](MrCacheAttr::new), and no more bytes than [`MrCacheAttr::bytes`], those
//!    counted that are not found any more and have users. Where there would be, regions without users are closed, beginning
//!    with that whose last user left longest ago. The same if the provider says that it has no room (`ENOMEM`, `ENOSPC`, `ENOMR`,
//!    [`OpenError::Limit`](loom_core::error::OpenError::Limit)). If there are none, the buffer is refused and comes back. Where closing all of them would leave too many bytes, none is closed.
//! 8. **Unmapped memory.** Before each look-up, what the [monitor](MemoryMonitor) has given notice of is not found any more. So a region
//!    that is found never names pages that have gone. While a notice is being given, and for memory that the monitor cannot watch, a buffer gets a
//!    region for itself, which is closed with it.
//! 9. **Failure to close.** A region that the provider fails to close is leaked, and counted; the domain then stays open.
//! 10. **Memory of devices** is refused: its allocators move and free it in ways that no monitor here hears of.
//! 11. **Memory.** All that the cache needs it takes when it is opened, as one block ([`MrCache::layout`]).
//!
//! # Costs
//!
//! A hit takes the same however many regions there are, but for what reaching memory costs: a memo says which region a page was found in
//! last. Where that is wrong the regions are searched by address. A miss costs the registration, and moves 12 bytes for each region
//! at a higher address: some microseconds at 10,000 regions, which registering takes anyway.
//!
//! # Threads
//!
//! One thread has a cache, as it has a queue, and its endpoints: a hit is then two or three lines of memory without an atomic
//! instruction but one load. Threads that post the same buffers register them once each; providers pin pages once for all. A monitor
//! is shared by any number of caches.
//!
//! # Example
//!
//! ```
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_alloc::mr_cache::{MrCache, MrCacheAttr, Notified};
//! use loom_core::error::PostError;
//! use loom_core::{av::Av, cq::{Cq, CqAttr}, deadline::Forever, domain::Domain};
//! use loom_core::{endpoint::Source, scope::scope};
//! use loom_core::soft::{RequiredModes, Network, NetworkAttr};
//!
//! static GREETING: [u8; 5] = *b"hello";
//!
//! let network = Network::new(NetworkAttr::default())?;
//! // As over hardware: other buffers are refused.
//! let domain = Domain::open(&network.info_requiring(RequiredModes::none().local_registration()))?;
//! let av = Av::open(&domain, 2)?;
//! let mut room = [0; 5];
//! // SAFETY: a static, and this function's stack, which is mapped as long as its thread runs.
//! let monitor = unsafe { Notified::new() };
//! let cache = MrCache::open_in(&domain, MrCacheAttr::new(16), monitor, Global)?;
//! // The queue lives as long as the cache, whose registrations are lent to it, or shorter.
//! scope(|s| {
//!     let cq = Cq::open(&s.domain(&domain), CqAttr::new(16))?;
//!     let endpoint = cq.endpoint(&av)?;
//!     let me = av.insert(&endpoint.address()?)?;
//!     let buf = cache.register(&mut room[..]).map_err(|refused| refused.error)?;
//!     let received = endpoint.recv(Source::Any, buf).map_err(PostError::from)?;
//!     cq.retry(Forever, || endpoint.inject(me, &GREETING))?;
//!     let done = cq.finish(received, Forever)?;
//!     assert_eq!(done.into_buf().into_inner(), b"hello");
//!     assert_eq!((cache.stats().misses, cache.stats().in_use, cache.stats().found), (1, 0, 1));
//!     Ok::<_, Box<dyn core::error::Error>>(())
//! })?;
//! # Ok::<_, Box<dyn core::error::Error>>(())
//! ```
//!
//! # References
//! - `man fi_mr`, *Memory registration cache*: some providers of hardware have one inside, where `FI_MR_LOCAL` is not asked for

mod array;
mod attr;
mod cache;
mod cached;
mod entries;
mod monitor;
mod ordered;

pub use self::attr::{MrCacheAttr, MrCacheStats};
pub use self::cache::MrCache;
pub use self::cached::{CacheError, Cached};
#[cfg(all(feature = "os", target_os = "linux"))]
pub use self::monitor::Userfaultfd;
pub use self::monitor::{MemoryMonitor, Notices, Notified};

//! A cache beside its oracle, over a software network that requires registered buffers. Each buffer
//! can be used: it moves its bytes, and fails if its region is not open or does not cover it.

pub(crate) mod memory;
pub(crate) mod oracle;

use std::collections::HashMap;
use std::ops::Range;

use loom_alloc::mr_cache::{Cached, MemoryMonitor, MrCache, MrCacheAttr, Notices, Notified};
use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::buffer::Descriptor;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::engine::peer_table::Peer;
use loom_core::error::OpenError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::Access;

use self::memory::{Memory, PAGE, Part, Use};
use self::oracle::{Limits, Oracle, Outcome, Wanted};

/// Pages of the memory of buffers. The last one cannot be watched.
pub(crate) const PAGES: usize = 12;

/// Number of notices that exceeds the cache's backlog.
const FLOOD: usize = 65;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Registers a buffer.
    Register {
        at: usize,
        len: usize,
        headroom: usize,
        use_: Use,
    },
    /// Registers a buffer during a notice for these pages.
    RegisterMeanwhile {
        at: usize,
        len: usize,
        use_: Use,
        pages: (usize, usize),
    },
    /// Uses a registered buffer.
    Use {
        nth: usize,
    },
    Release {
        nth: usize,
    },
    Forget {
        nth: usize,
    },
    /// Invalidates pages at once.
    Invalidate {
        at: usize,
        len: usize,
    },
    Flush,
    /// Invalidates pages through the monitor.
    Notify {
        at: usize,
        len: usize,
    },
    /// Sends more notices than the backlog of the cache.
    Flood,
}

/// Monitor that does not watch the memory from an address on.
struct Monitor {
    told: Notified,
    until: usize,
}

// SAFETY: no memory is unmapped.
unsafe impl MemoryMonitor for Monitor {
    fn notices(&self) -> &Notices {
        self.told.notices()
    }

    fn watch(&self, start: usize, len: usize) -> bool {
        start + len <= self.until
    }
}

type Buf<'c> = Cached<'c, 'static, Soft<'static>, Part>;

struct World<'c> {
    memory: Memory,
    cache: &'c MrCache<'static, Soft<'static>, &'c Monitor, Global>,
    monitor: &'c Monitor,
    oracle: Oracle,
    /// Notices that the cache has not read.
    told: Vec<Range<usize>>,
    bufs: Vec<(Buf<'c>, Outcome)>,
    descriptors: HashMap<usize, Descriptor>,
}

impl<'c> World<'c> {
    fn read_notices(&mut self) {
        if self.told.len() >= FLOOD {
            self.told.clear();
            self.told.push(0..usize::MAX);
        }
        for range in self.told.drain(..) {
            self.oracle.invalidate(&range);
        }
    }

    fn register(&mut self, part: Part, bytes: Range<usize>, use_: Use, certain: bool) {
        let read = matches!(use_, Use::Read | Use::Both);
        let write = matches!(use_, Use::Write | Use::Both);
        let last = bytes.end.next_multiple_of(PAGE);
        let wanted = Wanted { watched: last <= self.monitor.until, bytes, read, write };
        if certain && !wanted.bytes.is_empty() {
            self.read_notices();
        }
        let outcome = self.oracle.register(&wanted, certain);
        let addr = part.addr();
        match self.cache.register(part) {
            Ok(buf) => {
                match outcome {
                    Outcome::Passes => assert_eq!(buf.descriptor(), None),
                    Outcome::Region(id) => {
                        let descriptor = buf.descriptor().expect("a region");
                        assert_eq!(*self.descriptors.entry(id).or_insert(descriptor), descriptor, "its own region");
                    }
                    Outcome::InUse | Outcome::TooLong => panic!("registered, where there is no room: {wanted:?}"),
                }
                self.bufs.push((buf, outcome));
            }
            Err(refused) => {
                let is_expected = match outcome {
                    // Limit of the provider, or of the cache.
                    Outcome::InUse => matches!(refused.error, OpenError::Limit(_)),
                    Outcome::TooLong => refused.error == OpenError::TooLong { limit: self.limit() },
                    _ => false,
                };
                assert!(is_expected, "{refused:#}, {wanted:?}");
                assert_eq!(refused.value.addr(), addr, "the buffer comes back");
            }
        }
    }

    fn limit(&self) -> usize {
        self.oracle.limits().bytes
    }

    fn apply(&mut self, action: Action, post: &Posts<'c>) {
        let nth = |nth: usize| nth.checked_rem(self.bufs.len());
        match action {
            Action::Register { at, len, headroom, use_ } => {
                let part = self.memory.part(at, len, use_).with_headroom(headroom.min(len));
                let start = self.memory.addr(at);
                // Read-only buffers have no headroom, only fewer bytes.
                let cut = if use_ == Use::Read { headroom.min(len) } else { 0 };
                self.register(part, start + cut..start + len, use_, true);
            }
            Action::RegisterMeanwhile { at, len, use_, pages } => {
                let part = self.memory.part(at, len, use_);
                let (start, monitor) = (self.memory.addr(at), self.monitor);
                let gone = self.memory.addr(pages.0)..self.memory.addr(pages.0) + pages.1;
                monitor.notices().give_what(|| {
                    self.register(part, start..start + len, use_, false);
                    Some((gone.start, gone.len()))
                });
                self.told.push(gone);
            }
            Action::Use { nth: n } => {
                let Some(n) = nth(n) else { return };
                let (buf, outcome) = self.bufs.swap_remove(n);
                self.bufs.push((post.use_buf(buf), outcome));
            }
            Action::Release { nth: n } => {
                let Some(n) = nth(n) else { return };
                let (buf, outcome) = self.bufs.swap_remove(n);
                drop(buf);
                if let Outcome::Region(id) = outcome {
                    self.oracle.leave(id);
                }
            }
            Action::Forget { nth: n } => {
                let Some(n) = nth(n) else { return };
                std::mem::forget(self.bufs.swap_remove(n));
            }
            Action::Invalidate { at, len } => {
                let start = self.memory.addr(at);
                self.cache.invalidate(start, len);
                self.oracle.invalidate(&(start..start + len));
            }
            Action::Flush => {
                self.cache.flush();
                self.oracle.invalidate(&(0..usize::MAX));
            }
            Action::Notify { at, len } => {
                let start = self.memory.addr(at);
                self.monitor.notices().give(start, len);
                self.told.push(start..start + len);
            }
            Action::Flood => {
                for _ in 0..FLOOD {
                    self.monitor.notices().give(1, 1);
                    self.told.push(1..2);
                }
            }
        }
        assert_eq!(self.cache.stats(), self.oracle.stats(), "after {action:?}");
    }
}

/// Endpoint that posts buffers to itself, over the peer's region.
struct Posts<'c> {
    cq: Cq<'c, Soft<'static>, Buf<'c>>,
    endpoint: Endpoint<'c, Soft<'static>, Buf<'c>>,
    me: Peer,
    region: RemoteRegion,
}

impl<'c> Posts<'c> {
    /// Moves the bytes, in the permitted directions of the buffer.
    fn use_buf(&self, mut buf: Buf<'c>) -> Buf<'c> {
        use loom_core::buffer::Buffer;
        let lent = buf.lend();
        let wait = |key| {
            let done = self.cq.wait(key, Forever).expect("the queue works").expect("the operation ends");
            let (buf, result) = done.into_parts();
            result.expect("the region is open, and covers the buffer");
            buf
        };
        if lent.readable {
            buf.fill(7);
            buf = wait(self.endpoint.write(self.me, &self.region, 0, buf).expect("posted"));
        }
        if lent.writable {
            buf.fill(9);
            buf = wait(self.endpoint.read(self.me, &self.region, 0, buf).expect("posted"));
            if lent.readable {
                assert!(buf.bytes().iter().all(|byte| *byte == 7), "what was written is read");
            }
        }
        buf
    }
}

/// Plays a story. Returns the number of actions.
pub(crate) fn play(limits: Limits, actions: impl IntoIterator<Item = Action>) -> usize {
    let regions = u16::try_from(limits.regions + 1).expect("a few");
    let attr = NetworkAttr { endpoints: 1, tx_depth: 4, rx_depth: 4, regions, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).expect("network");
    let asks = RequiredModes::LOCAL_REGISTRATION;
    let domain = Domain::open(&network.info_requiring(asks)).expect("domain");
    let av = Av::open(&domain, 1).expect("address vector");
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let exposed = Mr::open(&domain, vec![0; PAGES * PAGE], access).expect("a region for peers");
    let memory = Memory::new(PAGES);
    // SAFETY: the memory is mapped until the end.
    let told = unsafe { Notified::new() };
    let monitor = Monitor { told, until: memory.addr((PAGES - 1) * PAGE) };
    let attr = MrCacheAttr::new(limits.capacity).bytes(limits.bytes).merged(limits.merged);
    let cache = MrCache::open_in(&domain, attr, &monitor, Global).expect("cache");
    let played = scope(|s| {
        let cq = Cq::<_, Buf<'_>>::open(&s.domain(&domain), CqAttr { endpoints: 1, ..CqAttr::new(4) }).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let me = av.insert(&endpoint.address().expect("address")).expect("a place in the vector");
        let posts = Posts { cq, endpoint, me, region: exposed.remote() };
        let mut world = World {
            memory,
            cache: &cache,
            monitor: &monitor,
            oracle: Oracle::new(limits),
            told: vec![],
            bufs: vec![],
            descriptors: HashMap::new(),
        };
        let mut played = 0;
        for action in actions {
            world.apply(action, &posts);
            played += 1;
        }
        // All held buffers stay usable to the end.
        for nth in 0..world.bufs.len() {
            world.apply(Action::Use { nth }, &posts);
        }
        let free = std::iter::from_fn(|| Mr::open(&domain, vec![0; 1], Access::REMOTE_READ).ok()).collect::<Vec<_>>();
        assert_eq!(free.len() + world.oracle.open_regions(), limits.regions, "what is not open is closed");
        played
    });
    drop(cache);
    let all = std::iter::from_fn(|| Mr::open(&domain, vec![0; 1], Access::REMOTE_READ).ok()).collect::<Vec<_>>();
    assert_eq!(all.len(), limits.regions, "a cache that is dropped has closed everything, also what was forgotten");
    played
}

//! Loom's raw functions, which are unsafe and have no table of operations in flight, over any
//! transport.

use std::borrow::Borrow;
use std::ptr::NonNull;
use std::time::Duration;

use loom_core::atomic::{FetchOp, Operation as _};
use loom_core::av::Av;
use loom_core::buffer::Lent;
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Endpoint;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::transport::{Context, Refusal, RmaTarget, Transport};
use loom_core::vocabulary::{Access, Caps, FabricAddr, ImmediateData, Mode, MrMode, Tag, TagMatch};

use super::{FULL, LONGEST, Operation, Side, WORD, drain, timed, work};

/// Two endpoints on one queue. The objects keep them open, and raw posts and polls bypass the
/// objects.
struct Raw<'m, T: Transport> {
    cq: Cq<'m, T, ()>,
    a: Endpoint<'m, T, ()>,
    b: Endpoint<'m, T, ()>,
    to_b: FabricAddr,
    region: RemoteRegion,
    // Memory of operations, longer than any of them. Only the operations access it while they run.
    from: Vec<u8>,
    into: Vec<u8>,
    /// Scratch space for providers that require it: for a transmit, and for the receives that fill
    /// the queue.
    contexts: Vec<[u64; 8]>,
}

const TAG: Tag = Tag(7);

// The memory and the contexts of every post stay in place until `reap` has seen its event (L1, L2),
// or until the endpoints are closed. The endpoints and the queue are open, and everything stays on
// this thread (H1, T1). `to_b` is in their vector (O1). The info requires no registration of local
// memory and no prefix (L3, L4), as `on_transport` checks.
impl<T: Transport> Raw<'_, T> {
    fn from(&self, len: usize) -> Lent {
        Lent::source(NonNull::from_ref(&self.from[..len]).cast(), len)
    }

    fn into(&mut self, len: usize) -> Lent {
        Lent::both(NonNull::from_mut(&mut self.into[..len]).cast(), len)
    }

    fn context(&mut self, index: usize) -> Context {
        Context::space(&raw mut self.contexts[index])
    }

    /// Posts until the post succeeds, like the C side.
    #[inline(always)]
    fn post(&self, post: impl Fn() -> Result<(), Refusal>) {
        while let Err(refusal) = post() {
            assert_eq!(refusal, Refusal::Again);
            self.cq.progress().expect("the queue works");
        }
    }

    #[inline(always)]
    fn poll(&self) -> bool {
        // SAFETY: see above.
        let event = unsafe { T::cq_poll(self.cq.raw().0) }.expect("the queue works");
        event.is_some_and(|event| {
            assert!(!event.borrow().is_error(), "the operation succeeds");
            true
        })
    }

    #[inline(always)]
    fn reap(&self, count: usize) {
        let mut missing = count;
        while missing > 0 {
            missing -= usize::from(self.poll());
        }
    }

    fn target(&self, len: usize) -> RmaTarget {
        assert!(len as u64 <= self.region.len, "the region is longer");
        RmaTarget { to: self.to_b, addr: self.region.base, key: self.region.key }
    }

    #[inline(never)]
    fn message(&mut self, len: usize, count: u32) {
        let (from, into, sent, received) = (self.from(len), self.into(len), self.context(0), self.context(1));
        for _ in 0..count {
            // SAFETY: see above, also for those below.
            self.post(|| unsafe { T::recv(self.b.raw(), FabricAddr::UNSPEC, &into, None, received) });
            // SAFETY: as above.
            self.post(|| unsafe { T::send(self.a.raw(), self.to_b, &from, None, None, sent) });
            self.reap(2);
        }
    }

    #[inline(never)]
    fn tagged(&mut self, len: usize, count: u32) {
        let (from, into, sent, received) = (self.from(len), self.into(len), self.context(0), self.context(1));
        let tag = TagMatch::exact(TAG);
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::recv(self.b.raw(), FabricAddr::UNSPEC, &into, Some(tag), received) });
            // SAFETY: see above.
            self.post(|| unsafe { T::send(self.a.raw(), self.to_b, &from, Some(TAG), None, sent) });
            self.reap(2);
        }
    }

    #[inline(never)]
    fn unexpected(&mut self, len: usize, count: u32) {
        let (from, into, sent, received) = (self.from(len), self.into(len), self.context(0), self.context(1));
        let tag = TagMatch::exact(TAG);
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::send(self.a.raw(), self.to_b, &from, Some(TAG), None, sent) });
            let is_sent = self.poll();
            // SAFETY: see above.
            self.post(|| unsafe { T::recv(self.b.raw(), FabricAddr::UNSPEC, &into, Some(tag), received) });
            self.reap(if is_sent { 1 } else { 2 });
        }
    }

    #[inline(never)]
    fn inject(&mut self, len: usize, count: u32) {
        let (into, received) = (self.into(len), self.context(1));
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::recv(self.b.raw(), FabricAddr::UNSPEC, &into, None, received) });
            // SAFETY: see above.
            self.post(|| unsafe { T::inject(self.a.raw(), self.to_b, &self.from[..len], None, None) });
            self.reap(1);
        }
    }

    #[inline(never)]
    fn write(&mut self, len: usize, count: u32, data: Option<ImmediateData>) {
        let (from, target, context) = (self.from(len), self.target(len), self.context(0));
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::write(self.a.raw(), target, &from, data, context) });
            self.reap(if data.is_some() { 2 } else { 1 });
        }
    }

    #[inline(never)]
    fn read(&mut self, len: usize, count: u32) {
        let (into, target, context) = (self.into(len), self.target(len), self.context(0));
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::read(self.a.raw(), target, &into, context) });
            self.reap(1);
        }
    }

    #[inline(never)]
    fn fetch_add(&mut self, count: u32) {
        let (target, context, add) = (self.target(WORD), self.context(0), FetchOp::<u64>::SUM.atomic());
        let (mut one, mut last) = (1_u64, None);
        let one = Lent::source(NonNull::from_mut(&mut one).cast(), WORD);
        let before = self.into(WORD);
        for _ in 0..count {
            // SAFETY: see above.
            self.post(|| unsafe { T::fetch_atomic(self.a.raw(), target, &one, &before, add, context) });
            self.reap(1);
            let fetched = u64::from_ne_bytes(self.into[..WORD].try_into().expect("a word"));
            assert!(
                last.replace(fetched).is_none_or(|last| fetched == last + 1),
                "each fetch finds one more than the last"
            );
        }
    }

    #[inline(never)]
    fn poll_empty(&self, count: u32) {
        for _ in 0..count {
            // SAFETY: see above.
            let event = unsafe { T::cq_poll(self.cq.raw().0) }.expect("the queue works");
            assert!(event.is_none(), "nothing was posted");
        }
    }

    #[inline(never)]
    fn fill(&mut self) {
        let tag = TagMatch::exact(TAG);
        for index in 0..FULL {
            let (into, context) = (self.into(8), self.context(1 + index));
            // SAFETY: see above.
            self.post(|| unsafe { T::recv(self.b.raw(), FabricAddr::UNSPEC, &into, Some(tag), context) });
        }
        for _ in 0..FULL {
            // SAFETY: see above.
            self.post(|| unsafe { T::inject(self.a.raw(), self.to_b, &[5; 8], Some(TAG), None) });
        }
    }

    fn poll_full(&mut self, count: u32) -> Duration {
        drain(count, self, Self::fill, |side| side.reap(FULL))
    }
}

impl<T: Transport> Side for Raw<'_, T> {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration {
        match operation {
            Operation::Inject => timed(|| self.inject(len, count)),
            Operation::Message => timed(|| self.message(len, count)),
            Operation::Tagged => timed(|| self.tagged(len, count)),
            Operation::Unexpected => timed(|| self.unexpected(len, count)),
            Operation::Write => timed(|| self.write(len, count, None)),
            Operation::WriteData => timed(|| self.write(len, count, Some(ImmediateData(9)))),
            Operation::Read => timed(|| self.read(len, count)),
            Operation::FetchAdd => timed(|| self.fetch_add(count)),
            Operation::PollEmpty => timed(|| self.poll_empty(count)),
            Operation::PollFull(_) => self.poll_full(count),
        }
    }
}

pub(crate) fn on_transport<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn Side)) {
    let attributes = info.attributes();
    assert!(!attributes.domain.mr_mode.contains(MrMode::LOCAL), "local memory needs no registration");
    assert!(!attributes.mode.contains(Mode::MSG_PREFIX), "messages need no prefix");
    let inject_size = attributes.tx.inject_size;
    let mut window = vec![0; LONGEST];
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open(&domain, 4).expect("address vector");
        let mr = Mr::open(&domain, &mut window[..], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("region");
        let cq = Cq::open(&domain, CqAttr::new(2 * FULL)).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint a");
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let to_b = av.peer_table().addr(to_b).expect("just inserted");
        let (from, into) = (vec![0x5a; LONGEST], vec![0; LONGEST]);
        let mut side = Raw { cq, a, b, to_b, region: mr.remote(), from, into, contexts: vec![[0; 8]; 1 + FULL] };
        for (operation, len) in work(inject_size, attributes.caps.contains(Caps::ATOMIC)) {
            side.into[..len].fill(0);
            side.run(operation, len, 3);
            let is_received =
                !matches!(operation, Operation::Write | Operation::WriteData | Operation::Read | Operation::FetchAdd);
            assert!(!is_received || side.into[..len] == side.from[..len], "{operation:?} of {len} bytes moves bytes");
        }
        measure(&mut side);
    });
}

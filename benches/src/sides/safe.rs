//! Loom's safe objects, as a program uses them, over any transport.

use std::fmt;
use std::time::Duration;

use loom_core::atomic::FetchOp;
use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Granted;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, ImmediateData, Tag};

use super::{FULL, LONGEST, Operation, SIZES, Side, drain, timed, work};

/// A buffer with a separate type for each site.
///
/// The compiler inlines a post if it has only one caller, as in a program with one use. Operations
/// with equal posts would prevent that, so they have queues of different types.
struct Own<'b, const SITE: u8>(&'b mut [u8]);

// SAFETY: the bytes of the slice.
unsafe impl<const SITE: u8> Buffer for Own<'_, SITE> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}
impl<const SITE: u8> SourceBuffer for Own<'_, SITE> {}
impl<const SITE: u8> TargetBuffer for Own<'_, SITE> {}

/// Site of all other operations.
const MOST: u8 = 0;
const UNEXPECTED: u8 = 1;
const POLL_FULL: u8 = 2;

type Buffers<'b, const SITE: u8> = (Own<'b, SITE>, Own<'b, SITE>);

struct Pair<'m, 'b, T: Transport, const SITE: u8> {
    cq: Cq<'m, T, Own<'b, SITE>>,
    a: Endpoint<'m, T, Own<'b, SITE>>,
    b: Endpoint<'m, T, Own<'b, SITE>>,
    to_b: Peer,
}

const TAG: Tag = Tag(7);

impl<'m, 'b: 'm, T: Transport, const SITE: u8> Pair<'m, 'b, T, SITE> {
    fn open(domain: &Domain<'m, T>, av: &Av<'m, T>) -> Self {
        let cq = Cq::open(domain, CqAttr::new(2 * FULL)).expect("queue");
        let a = cq.endpoint(av).expect("endpoint a");
        let b = cq.endpoint(av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        Pair { cq, a, b, to_b }
    }
}

impl<'b, T: Transport, const SITE: u8> Pair<'_, 'b, T, SITE> {
    /// Posts until the post succeeds, like the C side.
    #[inline(always)]
    fn post(
        &self,
        mut buf: Own<'b, SITE>,
        post: impl Fn(Own<'b, SITE>) -> Result<OpKey, Rejected<Own<'b, SITE>>>,
    ) -> OpKey {
        loop {
            match post(buf) {
                Ok(key) => return key,
                Err(rejected) if rejected.error.is_transient() => {
                    buf = rejected.value;
                    self.cq.progress().expect("the queue works");
                }
                Err(rejected) => panic!("not posted: {}", rejected.error),
            }
        }
    }

    #[inline(always)]
    fn poll(&self) -> Option<(OpKey, Own<'b, SITE>)> {
        let Some(Completion::Op(done)) = self.cq.poll().expect("the queue works") else { return None };
        done.result().expect("the operation succeeds");
        Some((done.key(), done.into_buf()))
    }

    #[inline(always)]
    fn completed(&self) -> (OpKey, Own<'b, SITE>) {
        loop {
            if let Some(completed) = self.poll() {
                return completed;
            }
        }
    }

    #[inline(always)]
    fn both(&self, received: OpKey) -> Buffers<'b, SITE> {
        let (one, other) = (self.completed(), self.completed());
        if one.0 == received { (other.1, one.1) } else { (one.1, other.1) }
    }
}

/// Takes an unexpected completion. It is outside of the loop, as in a program.
#[cold]
#[inline(never)]
fn nothing_was_posted<B: fmt::Debug>(completion: Completion<'_, B>) {
    panic!("nothing was posted: {completion:?}");
}

impl<const SITE: u8> fmt::Debug for Own<'_, SITE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

// Each operation is its own function, as on the C side.
impl<'b, T: Transport> Pair<'_, 'b, T, MOST> {
    #[inline(never)]
    fn message(&self, (mut from, mut into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            let received = self.post(into, |buf| self.b.recv(Source::Any, buf));
            self.post(from, |buf| self.a.send(self.to_b, buf));
            (from, into) = self.both(received);
        }
        (from, into)
    }

    #[inline(never)]
    fn tagged(&self, (mut from, mut into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            let received = self.post(into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
            self.post(from, |buf| self.a.tagged_send(self.to_b, TAG, buf));
            (from, into) = self.both(received);
        }
        (from, into)
    }

    #[inline(never)]
    fn inject(&self, (from, mut into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            self.post(into, |buf| self.b.recv(Source::Any, buf));
            while let Err(error) = self.a.inject(self.to_b, from.0) {
                assert!(error.is_transient(), "{error:#}");
                self.cq.progress().expect("the queue works");
            }
            into = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn write(&self, region: &RemoteRegion, (mut from, into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            self.post(from, |buf| self.a.write(self.to_b, region, 0, buf));
            from = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn write_data(&self, region: &RemoteRegion, (mut from, into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            self.post(from, |buf| self.a.write_data(self.to_b, region, 0, ImmediateData(9), buf));
            let (mut buf, mut told) = (None, false);
            while buf.is_none() || !told {
                match self.cq.poll().expect("the queue works") {
                    Some(Completion::Op(done)) => {
                        done.result().expect("the operation succeeds");
                        buf = Some(done.into_buf());
                    }
                    Some(Completion::Remote(_)) => told = true,
                    _ => {}
                }
            }
            from = buf.expect("it came");
        }
        (from, into)
    }

    #[inline(never)]
    fn read(&self, region: &RemoteRegion, (from, mut into): Buffers<'b, MOST>, count: u32) -> Buffers<'b, MOST> {
        for _ in 0..count {
            self.post(into, |buf| self.a.read(self.to_b, region, 0, buf));
            into = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn fetch_add(&self, region: &RemoteRegion, add: Granted<FetchOp<u64>>, count: u32) {
        let mut last = None;
        for _ in 0..count {
            let key = self.cq.retry(Forever, || self.a.fetch_value(self.to_b, region, 0, add, 1)).expect("posted");
            let fetched = self.cq.wait_value(key, Forever).expect("the queue works").expect("there is no deadline");
            let fetched = fetched.value::<u64>().expect("the operation succeeds").expect("a word");
            assert!(
                last.replace(fetched).is_none_or(|last| fetched == last + 1),
                "each fetch finds one more than the last"
            );
        }
    }

    #[inline(never)]
    fn poll_empty(&self, count: u32) {
        for _ in 0..count {
            if let Some(completion) = self.cq.poll().expect("the queue works") {
                nothing_was_posted(completion);
            }
        }
    }
}

impl<'b, T: Transport> Pair<'_, 'b, T, UNEXPECTED> {
    /// The message arrives before the receive is posted. Some providers complete the send only
    /// after that.
    #[inline(never)]
    fn unexpected(&self, (mut from, mut into): Buffers<'b, UNEXPECTED>, count: u32) -> Buffers<'b, UNEXPECTED> {
        for _ in 0..count {
            self.post(from, |buf| self.a.tagged_send(self.to_b, TAG, buf));
            let sent = self.poll();
            let received = self.post(into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
            (from, into) = match sent {
                Some((_, from)) => (from, self.completed().1),
                None => self.both(received),
            };
        }
        (from, into)
    }
}

impl<'b, T: Transport> Pair<'_, 'b, T, POLL_FULL> {
    #[inline(never)]
    fn fill(&self, buffers: &mut Vec<Own<'b, POLL_FULL>>) {
        while let Some(into) = buffers.pop() {
            self.post(into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
        }
        for _ in 0..FULL {
            while let Err(error) = self.a.tagged_inject(self.to_b, TAG, &[SENT; 8]) {
                assert!(error.is_transient(), "{error:#}");
                self.cq.progress().expect("the queue works");
            }
        }
    }

    #[inline(never)]
    fn take(&self, buffers: &mut Vec<Own<'b, POLL_FULL>>) {
        for _ in 0..FULL {
            buffers.push(self.completed().1);
        }
    }
}

/// Buffers of each length. `None` while they are in flight.
struct Memory<'b, const SITE: u8>(Vec<Option<Buffers<'b, SITE>>>);

impl<'b, const SITE: u8> Memory<'b, SITE> {
    fn new(memory: &'b mut [(Vec<u8>, Vec<u8>)]) -> Self {
        let of = |((from, into), len): (&'b mut (Vec<u8>, Vec<u8>), usize)| {
            Some((Own(&mut from[..len]), Own(&mut into[..len])))
        };
        Memory(memory.iter_mut().zip(SIZES).map(of).collect())
    }

    fn of(&mut self, len: usize) -> &mut Option<Buffers<'b, SITE>> {
        let at = SIZES.iter().position(|size| *size == len).expect("one of the lengths");
        &mut self.0[at]
    }

    fn lend(&mut self, len: usize, run: impl FnOnce(Buffers<'b, SITE>) -> Buffers<'b, SITE>) -> Duration {
        let buffers = self.of(len);
        let lent = buffers.take().expect("at hand");
        timed(|| *buffers = Some(run(lent)))
    }

    /// Returns the bytes of the last receive, and clears the buffer.
    fn received(&mut self, len: usize) -> Vec<u8> {
        let (_, into) = self.of(len).as_mut().expect("at hand");
        let received = into.0.to_vec();
        into.0.fill(0);
        received
    }
}

struct Safe<'m, 'b, T: Transport> {
    most: Pair<'m, 'b, T, MOST>,
    unexpected: Pair<'m, 'b, T, UNEXPECTED>,
    full: Pair<'m, 'b, T, POLL_FULL>,
    region: RemoteRegion,
    /// Granted addition, if the transport has atomic operations.
    add: Option<Granted<FetchOp<u64>>>,
    buffers: Memory<'b, MOST>,
    of_unexpected: Memory<'b, UNEXPECTED>,
    of_full: Vec<Own<'b, POLL_FULL>>,
}

impl<T: Transport> Side for Safe<'_, '_, T> {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration {
        let Safe { most, region, buffers, .. } = self;
        match operation {
            Operation::Inject => buffers.lend(len, |lent| most.inject(lent, count)),
            Operation::Message => buffers.lend(len, |lent| most.message(lent, count)),
            Operation::Tagged => buffers.lend(len, |lent| most.tagged(lent, count)),
            Operation::Unexpected => self.of_unexpected.lend(len, |lent| self.unexpected.unexpected(lent, count)),
            Operation::Write => buffers.lend(len, |lent| most.write(region, lent, count)),
            Operation::WriteData => buffers.lend(len, |lent| most.write_data(region, lent, count)),
            Operation::Read => buffers.lend(len, |lent| most.read(region, lent, count)),
            Operation::FetchAdd => {
                let add = self.add.expect("they are granted");
                timed(|| most.fetch_add(region, add, count))
            }
            Operation::PollEmpty => timed(|| most.poll_empty(count)),
            Operation::PollFull(_) => {
                drain(count, &mut self.of_full, |buffers| self.full.fill(buffers), |buffers| self.full.take(buffers))
            }
        }
    }
}

const SENT: u8 = 0x5a;
const READ: u8 = 0x33;

impl<T: Transport> Safe<'_, '_, T> {
    fn check(&mut self, inject_size: usize, mr: &Mr<'_, T, &mut [u8]>) {
        let is_all = |bytes: &[u8], byte| bytes.iter().all(|it| *it == byte);
        for (operation, len) in work(inject_size, self.add.is_some()) {
            mr.window().copy_from(0, &vec![READ; len]).expect("the window is longer");
            self.run(operation, len, 3);
            let moved = match operation {
                // These check their results themselves.
                Operation::PollEmpty | Operation::FetchAdd => true,
                Operation::PollFull(_) => self.of_full.iter_mut().all(|into| is_all(into.0, SENT)),
                Operation::Unexpected => is_all(&self.of_unexpected.received(len), SENT),
                Operation::Read => is_all(&self.buffers.received(len), READ),
                Operation::Write | Operation::WriteData => {
                    // Completed writes over TCP may be on their way.
                    for _ in 0..1000 {
                        self.most.cq.progress().expect("the queue works");
                    }
                    let mut written = vec![0; len];
                    mr.window().copy_to(0, &mut written).expect("the window is longer");
                    is_all(&written, SENT)
                }
                Operation::Inject | Operation::Message | Operation::Tagged => is_all(&self.buffers.received(len), SENT),
            };
            assert!(moved, "{operation:?} of {len} bytes moves bytes");
        }
    }
}

pub(crate) fn on_transport<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn Side)) {
    // As long as those of the other sides, with the same alignment, which affects a copy of 4 KiB.
    let memory = || SIZES.map(|_| (vec![SENT; LONGEST], vec![0; LONGEST]));
    let (mut memory, mut of_unexpected, mut of_full) = (memory(), memory(), vec![0; FULL * 8]);
    let (buffers, of_unexpected) = (Memory::new(&mut memory), Memory::new(&mut of_unexpected));
    let of_full = of_full.chunks_exact_mut(8).map(Own).collect();
    let mut window = vec![0; LONGEST];
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open(&domain, 4).expect("address vector");
        let mr = Mr::open(&domain, &mut window[..], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("region");
        let (most, unexpected, full) = (Pair::open(&domain, &av), Pair::open(&domain, &av), Pair::open(&domain, &av));
        let add = domain.query_atomic(FetchOp::<u64>::SUM).ok();
        let mut side = Safe { most, unexpected, full, region: mr.remote(), add, buffers, of_unexpected, of_full };
        side.check(info.attributes().tx.inject_size, &mr);
        measure(&mut side);
    });
}

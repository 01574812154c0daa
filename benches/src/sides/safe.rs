//! Loom's safe objects, as a program uses them, over any transport.

use core::fmt;
use std::time::Duration;

use loom_core::completion::Completion;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::info::Info;
use loom_core::objects::mr::{Mr, RemoteRegion};
use loom_core::objects::scope::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, ImmediateData, Tag};

use super::{FULL, LONGEST, Operation, SIZES, Side, drain, timed, work};

type Buffer<'b> = &'b mut [u8];

/// The buffers of one length: `None` while they are in flight.
struct Buffers<'b> {
    len: usize,
    from: Option<Buffer<'b>>,
    into: Option<Buffer<'b>>,
}

/// Two endpoints on one queue.
struct Safe<'m, 'b, T: Transport> {
    cq: Cq<'m, T, Buffer<'b>>,
    a: Endpoint<'m, T, Buffer<'b>>,
    b: Endpoint<'m, T, Buffer<'b>>,
    to_b: Peer,
    region: RemoteRegion,
    buffers: Vec<Buffers<'b>>,
    /// For as many receives as fill the queue.
    full: Vec<Buffer<'b>>,
}

const TAG: Tag = Tag(7);

/// Posts until it is taken, as the C side does.
#[inline(always)]
fn retry<'b, T: Transport>(
    cq: &Cq<'_, T, Buffer<'b>>,
    mut buf: Buffer<'b>,
    post: impl Fn(Buffer<'b>) -> Result<OpKey, Rejected<Buffer<'b>>>,
) -> OpKey {
    loop {
        match post(buf) {
            Ok(key) => return key,
            Err(rejected) if rejected.error.is_transient() => {
                buf = rejected.buf;
                cq.progress().expect("the queue works");
            }
            Err(rejected) => panic!("not posted: {rejected}"),
        }
    }
}

/// Takes what no queue should have: away from the loop around it, as what a program does with a completion is.
#[cold]
#[inline(never)]
fn unexpected<B: fmt::Debug>(completion: Completion<'_, B>) {
    panic!("nothing was posted: {completion:?}");
}

/// The two buffers of an operation, which come back with its completions.
type Pair<'b> = (Buffer<'b>, Buffer<'b>);

// Each operation is its own function, as on the C side.
impl<'b, T: Transport> Safe<'_, 'b, T> {
    /// The next operation that is over, and its buffer.
    #[inline(always)]
    fn completed(&self) -> (OpKey, Buffer<'b>) {
        loop {
            if let Some(Completion::Op(done)) = self.cq.poll().expect("the queue works") {
                done.result().expect("the operation succeeds");
                return (done.key(), done.into_buf());
            }
        }
    }

    /// Both buffers, of which one is that of `received`.
    #[inline(always)]
    fn both(&self, received: OpKey) -> Pair<'b> {
        let (one, other) = (self.completed(), self.completed());
        if one.0 == received { (other.1, one.1) } else { (one.1, other.1) }
    }

    #[inline(never)]
    fn message(&self, (mut from, mut into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            let received = retry(&self.cq, into, |buf| self.b.recv(Source::Any, buf));
            retry(&self.cq, from, |buf| self.a.send(self.to_b, buf));
            (from, into) = self.both(received);
        }
        (from, into)
    }

    #[inline(never)]
    fn tagged(&self, (mut from, mut into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            let received = retry(&self.cq, into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
            retry(&self.cq, from, |buf| self.a.tagged_send(self.to_b, TAG, buf));
            (from, into) = self.both(received);
        }
        (from, into)
    }

    /// The message is there before the receive.
    #[inline(never)]
    fn unexpected(&self, (mut from, mut into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            retry(&self.cq, from, |buf| self.a.tagged_send(self.to_b, TAG, buf));
            from = self.completed().1;
            retry(&self.cq, into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
            into = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn inject(&self, (from, mut into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            retry(&self.cq, into, |buf| self.b.recv(Source::Any, buf));
            while let Err(error) = self.a.inject(self.to_b, from) {
                assert!(error.is_transient(), "{error}");
                self.cq.progress().expect("the queue works");
            }
            into = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn write(&self, (mut from, into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            retry(&self.cq, from, |buf| self.a.write(self.to_b, &self.region, 0, buf));
            from = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn write_data(&self, (mut from, into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            retry(&self.cq, from, |buf| self.a.write_data(self.to_b, &self.region, 0, ImmediateData(9), buf));
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
    fn read(&self, (from, mut into): Pair<'b>, count: u32) -> Pair<'b> {
        for _ in 0..count {
            retry(&self.cq, into, |buf| self.a.read(self.to_b, &self.region, 0, buf));
            into = self.completed().1;
        }
        (from, into)
    }

    #[inline(never)]
    fn poll_empty(&self, count: u32) {
        for _ in 0..count {
            if let Some(completion) = self.cq.poll().expect("the queue works") {
                unexpected(completion);
            }
        }
    }

    /// Sends as many messages as fill the queue.
    #[inline(never)]
    fn fill(&self, buffers: &mut Vec<Buffer<'b>>) {
        while let Some(into) = buffers.pop() {
            retry(&self.cq, into, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
        }
        for _ in 0..FULL {
            while let Err(error) = self.a.tagged_inject(self.to_b, TAG, &[5; 8]) {
                assert!(error.is_transient(), "{error}");
                self.cq.progress().expect("the queue works");
            }
        }
    }

    fn poll_full(&mut self, count: u32) -> Duration {
        let buffers = std::cell::RefCell::new(std::mem::take(&mut self.full));
        let took = drain(
            count,
            || self.fill(&mut buffers.borrow_mut()),
            || {
                let buffer = self.completed().1;
                buffers.borrow_mut().push(buffer);
            },
        );
        self.full = buffers.into_inner();
        took
    }

    fn buffers(&mut self, len: usize) -> &mut Buffers<'b> {
        self.buffers.iter_mut().find(|buffers| buffers.len == len).expect("buffers of each length")
    }
}

impl<T: Transport> Side for Safe<'_, '_, T> {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration {
        match operation {
            Operation::PollEmpty => return timed(|| self.poll_empty(count)),
            Operation::PollFull(_) => return self.poll_full(count),
            _ => {}
        }
        let buffers = self.buffers(len);
        let pair = (buffers.from.take().expect("at hand"), buffers.into.take().expect("at hand"));
        let mut moved = None;
        let took = timed(|| {
            moved = Some(match operation {
                Operation::Inject => self.inject(pair, count),
                Operation::Tagged => self.tagged(pair, count),
                Operation::Unexpected => self.unexpected(pair, count),
                Operation::Write => self.write(pair, count),
                Operation::WriteData => self.write_data(pair, count),
                Operation::Read => self.read(pair, count),
                Operation::Message | Operation::PollEmpty | Operation::PollFull(_) => self.message(pair, count),
            });
        });
        let (from, into) = moved.expect("done");
        *self.buffers(len) = Buffers { len, from: Some(from), into: Some(into) };
        took
    }
}

/// Opens the side over a transport, does everything once, checks what was moved, and measures.
pub(crate) fn on_transport<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn Side)) {
    let inject_size = info.attributes().tx.inject_size;
    let mut memory: Vec<_> = SIZES.map(|len| (vec![0x5a_u8; len], vec![0_u8; len])).into();
    let mut full = vec![0; FULL * 8];
    let mut window = vec![0; LONGEST];
    let buffers = memory.iter_mut().map(|(from, into)| Buffers {
        len: from.len(),
        from: Some(&mut from[..]),
        into: Some(&mut into[..]),
    });
    let (buffers, full) = (buffers.collect(), full.chunks_exact_mut(8).collect());
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open(&domain, 4).expect("address vector");
        let mr = Mr::open(&domain, &mut window[..], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("region");
        let cq = Cq::open(&domain, CqAttr::new(2 * FULL)).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint a");
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let mut side = Safe { cq, a, b, to_b, region: mr.remote(), buffers, full };
        for (operation, len) in work(inject_size) {
            if operation == Operation::Read {
                // What is read differs from what was sent.
                mr.window().copy_from(0, &vec![0x33; len]).expect("the window is longer");
            } else if let Some(into) = side.buffers.iter_mut().find(|buffers| buffers.len == len) {
                into.into.as_mut().expect("at hand").fill(0);
            }
            side.run(operation, len, 3);
            check(operation, len, &mut side, |bytes| mr.window().copy_to(0, bytes).expect("the window is longer"));
        }
        measure(&mut side);
    });
}

/// Checks that an operation has moved its bytes.
fn check<T: Transport>(operation: Operation, len: usize, side: &mut Safe<'_, '_, T>, window: impl FnOnce(&mut [u8])) {
    match operation {
        Operation::PollEmpty => {}
        Operation::PollFull(_) => assert!(side.full.iter().all(|bytes| **bytes == [5; 8]), "{operation:?} moves bytes"),
        Operation::Write | Operation::WriteData => {
            let mut written = vec![0; len];
            window(&mut written);
            assert!(written.iter().all(|byte| *byte == 0x5a), "{operation:?} moves bytes");
        }
        _ => {
            let expected = if operation == Operation::Read { 0x33 } else { 0x5a };
            let into = side.buffers(len).into.as_deref().expect("at hand");
            assert!(into.iter().all(|byte| *byte == expected), "{operation:?} of {len} bytes moves bytes");
        }
    }
}

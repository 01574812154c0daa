//! What is measured, and loom's side of it, written once for every transport.

use core::fmt;

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

/// Bytes of a short operation.
pub(crate) const SHORT: usize = 64;

/// What is measured, each with everything that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Receive, send, both completions.
    Message,
    /// Tagged receive, tagged send, both completions.
    Tagged,
    /// Receive, injected message, the receive's completion.
    Inject,
    /// Write and its completion.
    Write,
    /// Write with immediate data, its completion and the peer's event.
    WriteData,
    /// Poll of an empty queue.
    PollEmpty,
}

impl Operation {
    pub(crate) const ALL: [Operation; 6] = [
        Operation::Message,
        Operation::Tagged,
        Operation::Inject,
        Operation::Write,
        Operation::WriteData,
        Operation::PollEmpty,
    ];

    /// As metrics call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Operation::Message => "message.64B",
            Operation::Tagged => "tagged.64B",
            Operation::Inject => "inject.64B",
            Operation::Write => "write.64B",
            Operation::WriteData => "write_data.64B",
            Operation::PollEmpty => "poll_empty",
        }
    }

    /// As `raw.c` calls it.
    #[cfg(feature = "libfabric")]
    pub(crate) const fn raw_name(self) -> &'static str {
        match self {
            Operation::Message => "raw_message",
            Operation::Tagged => "raw_tagged",
            Operation::Inject => "raw_inject",
            Operation::Write => "raw_write",
            Operation::WriteData => "raw_write_data",
            Operation::PollEmpty => "raw_poll_empty",
        }
    }
}

/// Two endpoints that do an operation so many times, one after the other.
pub(crate) trait Side {
    fn run(&mut self, operation: Operation, count: u32);
}

/// A side that also has long buffers.
pub(crate) trait LongSide: Side {
    /// Tagged receive, tagged send of 4 MiB, both completions.
    fn large(&mut self, count: u32);
}

type Buffer<'b> = &'b mut [u8];

/// Loom's side.
struct Loom<'m, 'b, T: Transport> {
    cq: Cq<'m, T, Buffer<'b>>,
    a: Endpoint<'m, T, Buffer<'b>>,
    b: Endpoint<'m, T, Buffer<'b>>,
    to_b: Peer,
    region: RemoteRegion,
    short: Buffers<'b>,
    long: Buffers<'b>,
}

/// The buffers of one size: `None` while they are in flight.
struct Buffers<'b> {
    from: Option<Buffer<'b>>,
    into: Option<Buffer<'b>>,
}

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

impl<'b, T: Transport> Loom<'_, 'b, T> {
    // Its own function, as on the C side, for both sizes.
    #[inline(never)]
    fn exchange(&self, buffers: Buffers<'b>, count: u32) -> Buffers<'b> {
        let (mut from, mut into) = (buffers.from.expect("at hand"), buffers.into.expect("at hand"));
        for _ in 0..count {
            let received = retry(&self.cq, into, |buf| self.b.tagged_recv(Source::Any, Tag(7), buf));
            retry(&self.cq, from, |buf| self.a.tagged_send(self.to_b, Tag(7), buf));
            let (one, other) = (self.completed(), self.completed());
            (into, from) = if one.0 == received { (one.1, other.1) } else { (other.1, one.1) };
        }
        Buffers { from: Some(from), into: Some(into) }
    }

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
}

impl<'b, T: Transport> Loom<'_, 'b, T> {
    #[inline(never)]
    fn message(&mut self, count: u32) {
        let (mut from, mut into) = self.short.take();
        for _ in 0..count {
            let received = retry(&self.cq, into, |buf| self.b.recv(Source::Any, buf));
            retry(&self.cq, from, |buf| self.a.send(self.to_b, buf));
            let (one, other) = (self.completed(), self.completed());
            (into, from) = if one.0 == received { (one.1, other.1) } else { (other.1, one.1) };
        }
        self.short = Buffers { from: Some(from), into: Some(into) };
    }

    #[inline(never)]
    fn inject(&mut self, count: u32) {
        let (from, mut into) = self.short.take();
        for _ in 0..count {
            retry(&self.cq, into, |buf| self.b.recv(Source::Any, buf));
            while let Err(error) = self.a.inject(self.to_b, from) {
                assert!(error.is_transient(), "{error}");
                self.cq.progress().expect("the queue works");
            }
            into = self.completed().1;
        }
        self.short = Buffers { from: Some(from), into: Some(into) };
    }

    #[inline(never)]
    fn write(&mut self, count: u32) {
        let mut from = self.short.from.take().expect("at hand");
        for _ in 0..count {
            retry(&self.cq, from, |buf| self.a.write(self.to_b, &self.region, 0, buf));
            from = self.completed().1;
        }
        self.short.from = Some(from);
    }

    #[inline(never)]
    fn write_data(&mut self, count: u32) {
        let mut from = self.short.from.take().expect("at hand");
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
        self.short.from = Some(from);
    }

    fn poll_empty(&mut self, count: u32) {
        for _ in 0..count {
            if let Some(completion) = self.cq.poll().expect("the queue works") {
                unexpected(completion);
            }
        }
    }
}

impl<'b> Buffers<'b> {
    fn take(&mut self) -> (Buffer<'b>, Buffer<'b>) {
        (self.from.take().expect("at hand"), self.into.take().expect("at hand"))
    }
}

impl<T: Transport> Side for Loom<'_, '_, T> {
    fn run(&mut self, operation: Operation, count: u32) {
        match operation {
            Operation::Message => self.message(count),
            Operation::Tagged => {
                let (from, into) = self.short.take();
                self.short = self.exchange(Buffers { from: Some(from), into: Some(into) }, count);
            }
            Operation::Inject => self.inject(count),
            Operation::Write => self.write(count),
            Operation::WriteData => self.write_data(count),
            Operation::PollEmpty => self.poll_empty(count),
        }
    }
}

impl<T: Transport> LongSide for Loom<'_, '_, T> {
    fn large(&mut self, count: u32) {
        let (from, into) = self.long.take();
        self.long = self.exchange(Buffers { from: Some(from), into: Some(into) }, count);
    }
}

/// Opens loom's side over a transport, moves one message and checks it, and measures.
pub(crate) fn on_transport<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn LongSide)) {
    const LONG: usize = 4 << 20;
    let (mut short_from, mut short_into) = (vec![0x5a; SHORT], vec![0; SHORT]);
    let (mut long_from, mut long_into) = (vec![0xa5; LONG], vec![0; LONG]);
    let mut memory = vec![0; 4096];
    let short = Buffers { from: Some(&mut short_from[..]), into: Some(&mut short_into[..]) };
    let long = Buffers { from: Some(&mut long_from[..]), into: Some(&mut long_into[..]) };
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open(&domain, 4).expect("address vector");
        let mr = Mr::open(&domain, &mut memory[..], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("region");
        let cq = Cq::open(&domain, CqAttr::new(64)).expect("queue");
        let a = cq.endpoint(&av).expect("endpoint a");
        let b = cq.endpoint(&av).expect("endpoint b");
        let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
        let mut side = Loom { cq, a, b, to_b, region: mr.remote(), short, long };
        for operation in Operation::ALL {
            side.run(operation, 100);
        }
        side.large(2);
        let arrived = |buffers: &Buffers<'_>| buffers.into.as_deref() == buffers.from.as_deref();
        assert!(arrived(&side.short) && arrived(&side.long), "what is measured moves bytes");
        let mut written = [0; SHORT];
        mr.window().copy_to(0, &mut written).expect("the window is longer");
        assert_eq!(Some(&written[..]), side.short.from.as_deref(), "what is measured moves bytes");
        measure(&mut side);
    });
}

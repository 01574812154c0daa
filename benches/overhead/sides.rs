//! What is measured, and loom's side of it, written once for every transport.

use loom_core::completion::Completion;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{self, Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::info::Info;
use loom_core::objects::mr::{self, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Tag};

/// Two endpoints that do so many of an operation, one after the other.
pub(crate) trait Side {
    /// Tagged receive, tagged send of 64 bytes, both completions.
    fn tagged(&mut self, count: u32);
    /// Write of 64 bytes and its completion.
    fn write(&mut self, count: u32);
    /// Poll of an empty queue.
    fn poll_empty(&mut self, count: u32);
    /// Tagged receive, tagged send of 4 MiB, both completions.
    fn large(&mut self, count: u32);
}

type Buffer<'b> = &'b mut [u8];

/// Loom's side.
struct Loom<'q, 'd, 'b, T: Transport> {
    cq: &'q Cq<'d, T, Buffer<'b>>,
    a: Endpoint<'q, 'd, T, Buffer<'b>>,
    b: Endpoint<'q, 'd, T, Buffer<'b>>,
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
fn insist<'b, T: Transport>(
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

impl<'b, T: Transport> Loom<'_, '_, 'b, T> {
    // Its own function, as on the C side, for both sizes.
    #[inline(never)]
    fn exchange(&self, buffers: Buffers<'b>, count: u32) -> Buffers<'b> {
        let (mut from, mut into) = (buffers.from.expect("at hand"), buffers.into.expect("at hand"));
        for _ in 0..count {
            let received = insist(self.cq, into, |buf| self.b.tagged_recv(Source::Any, Tag(7), buf));
            insist(self.cq, from, |buf| self.a.tagged_send(self.to_b, Tag(7), buf));
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

impl<T: Transport> Side for Loom<'_, '_, '_, T> {
    fn tagged(&mut self, count: u32) {
        let buffers = Buffers { from: self.short.from.take(), into: self.short.into.take() };
        self.short = self.exchange(buffers, count);
    }

    fn write(&mut self, count: u32) {
        let mut from = self.short.from.take().expect("at hand");
        for _ in 0..count {
            insist(self.cq, from, |buf| self.a.write(self.to_b, &self.region, 0, buf));
            from = self.completed().1;
        }
        self.short.from = Some(from);
    }

    fn poll_empty(&mut self, count: u32) {
        for _ in 0..count {
            assert!(self.cq.poll().expect("the queue works").is_none());
        }
    }

    fn large(&mut self, count: u32) {
        let buffers = Buffers { from: self.long.from.take(), into: self.long.into.take() };
        self.long = self.exchange(buffers, count);
    }
}

/// Opens loom's side over a transport, moves one message and checks it, and measures.
pub(crate) fn on_transport<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn Side)) {
    const SHORT: usize = 64;
    const LONG: usize = 4 << 20;
    let domain = Domain::open(info).expect("domain");
    let av = Av::open(&domain, 4).expect("address vector");
    let (mut short_from, mut short_into) = (vec![0x5a; SHORT], vec![0; SHORT]);
    let (mut long_from, mut long_into) = (vec![0xa5; LONG], vec![0; LONG]);
    let mut memory = vec![0; 4096];
    let short = Buffers { from: Some(&mut short_from[..]), into: Some(&mut short_into[..]) };
    let long = Buffers { from: Some(&mut long_from[..]), into: Some(&mut long_into[..]) };
    mr::scope(&domain, &mut memory[..], Access::REMOTE_READ | Access::REMOTE_WRITE, |mr| {
        cq::scope(&domain, CqAttr::<64>::new(), |cq| {
            let a = cq.endpoint(&av).enable().expect("endpoint a");
            let b = cq.endpoint(&av).enable().expect("endpoint b");
            let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
            let mut side = Loom { cq, a, b, to_b, region: mr.remote(), short, long };
            side.tagged(1000);
            side.large(2);
            side.write(100);
            let arrived = |buffers: &Buffers<'_>| buffers.into.as_deref() == buffers.from.as_deref();
            assert!(arrived(&side.short) && arrived(&side.long), "what is measured moves bytes");
            let mut written = [0; SHORT];
            mr.window().copy_to(0, &mut written).expect("the window is longer");
            assert_eq!(Some(&written[..]), side.short.from.as_deref(), "what is measured moves bytes");
            measure(&mut side);
        })
    })
    .expect("region")
    .expect("queue");
}

//! The tagged exchange over the software transport between two queues, as between two threads, but in one.

use loom_core::completion::Completion;
use loom_core::engine::peer_table::Peer;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::endpoint::{Endpoint, Source};
use loom_core::objects::info::Info;
use loom_core::objects::scope::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::Tag;

type Buffer<'b> = &'b mut [u8];
type Half<'m, 'b, T> = (Cq<'m, T, Buffer<'b>>, Endpoint<'m, T, Buffer<'b>>);

fn take<'b, T: Transport>(cq: &Cq<'_, T, Buffer<'b>>) -> Buffer<'b> {
    loop {
        if let Some(Completion::Op(done)) = cq.poll().expect("the queue works") {
            done.result().expect("the operation succeeds");
            return done.into_buf();
        }
    }
}

/// Tagged receive, tagged send of 64 bytes, both completions, so many times.
#[inline(never)]
fn exchange<'b, T: Transport>(
    (cq_a, a): &Half<'_, 'b, T>,
    (cq_b, b): &Half<'_, 'b, T>,
    to_b: Peer,
    (mut from, mut into): (Buffer<'b>, Buffer<'b>),
    count: u32,
) -> (Buffer<'b>, Buffer<'b>) {
    for _ in 0..count {
        b.tagged_recv(Source::Any, Tag(7), into).expect("there is room");
        a.tagged_send(to_b, Tag(7), from).expect("there is room");
        (from, into) = (take(cq_a), take(cq_b));
    }
    (from, into)
}

/// Opens two queues with an endpoint each, and hands `measure` what does so many exchanges between them.
pub(crate) fn on_two_queues<T: Transport>(info: &Info<T>, measure: impl FnOnce(&mut dyn FnMut(u32))) {
    let (mut from, mut into) = ([0x5a; 64], [0; 64]);
    let mut buffers = Some((&mut from[..], &mut into[..]));
    scope(|s| {
        let domain = s.open(info).expect("domain");
        let av = Av::open(&domain, 4).expect("address vector");
        let half = || {
            let cq = Cq::open(&domain, CqAttr::new(64)).expect("queue");
            let endpoint = cq.endpoint(&av).expect("endpoint");
            (cq, endpoint)
        };
        let (a, b) = (half(), half());
        let to_b = av.insert(&b.1.address().expect("address of b")).expect("b in the vector");
        measure(&mut |count| {
            let moved = exchange(&a, &b, to_b, buffers.take().expect("at hand"), count);
            assert_eq!(moved.0, moved.1, "what is measured moves bytes");
            buffers = Some(moved);
        });
    });
}

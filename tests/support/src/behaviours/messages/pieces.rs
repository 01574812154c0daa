//! Operations with several buffers, and with options.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::buffer::{Buffer, IoVecs, SourceBuffer, TargetBuffer};
use loom_core::completion::{Completion, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::endpoint::{CompletionLevel, ReadOptions, RecvOptions, SendOptions};
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, ImmediateData, Tag};

use crate::behaviours::needs::{Behaviour, MSG, RMA, tags};
use crate::behaviours::pair::{
    Bytes, LIMIT, OrCut, carries_data, is_old, is_tested, limit, most, pattern, post_on, room,
};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("messages_of_several_buffers_arrive", MSG, messages_of_several_buffers_arrive),
        ("reads_and_writes_of_several_buffers_and_parts", RMA, reads_and_writes_of_several_buffers_and_parts),
        ("pieces_beyond_the_limit_are_refused", MSG, pieces_beyond_the_limit_are_refused),
        ("operations_end_at_every_level", MSG, operations_end_at_every_level),
        ("delivery_is_awaited", MSG, delivery_is_awaited),
        ("more_operations_may_follow", MSG, more_operations_may_follow),
        ("a_fence_holds_or_is_refused", MSG, a_fence_holds_or_is_refused),
    ]
}

/// Two endpoints on a queue with any kind of buffer.
struct Two<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    a: Endpoint<'d, T, B>,
    b: Endpoint<'d, T, B>,
    to_b: Peer,
}

impl<T: Transport + 'static, B: Buffer + 'static> Two<'_, '_, T, B> {
    fn post(&self, buf: B, post: impl Fn(B) -> Result<OpKey, Rejected<B>>) -> OpKey {
        post_on(self.cq, buf, post)
    }

    fn finish(&self, key: OpKey) -> (B, Transfer) {
        let done = self.cq.wait(key, limit()).or_cut("the queue works").expect("the operation ends in time");
        let (buf, result) = done.into_parts();
        (buf, result.or_cut("the operation succeeds"))
    }
}

fn with_two<T: Transport + 'static, B: Buffer + 'static>(
    info: &Info<T>,
    test: impl FnOnce(&Two<'_, '_, T, B>, &Domain<'_, T>),
) {
    let domain = Domain::open(info).expect("domain");
    let av = Av::open_in(&domain, 8, allocator()).expect("address vector");
    let cq = Cq::<T, B>::open_in(&domain, CqAttr::new(64), allocator()).expect("queue");
    let (a, b) = (cq.endpoint(&av).expect("a"), cq.endpoint(&av).expect("b"));
    let to_b = av.insert(&b.address().expect("address of b")).expect("b in the vector");
    test(&Two { cq: &cq, a, b, to_b }, &domain);
}

/// Lengths of `N` pieces with the sum `total`, rising or falling. Some may be empty.
fn lengths<const N: usize>(total: usize, rising: bool) -> [usize; N] {
    let mut lengths = [0; N];
    let (mut left, mut share) = (total, N * (N + 1) / 2);
    for (place, length) in lengths.iter_mut().enumerate() {
        let part = if rising { place + 1 } else { N - place };
        *length = if share == part { left } else { left * part / share };
        (left, share) = (left - *length, share - part);
    }
    lengths
}

/// Cuts bytes into pieces of these lengths.
fn cut<const N: usize>(bytes: &[u8], lengths: [usize; N]) -> [Bytes; N] {
    let mut at = 0;
    lengths.map(|len| {
        at += len;
        bytes[at - len..at].into()
    })
}

fn messages_of_several_buffers_arrive<T: Transport + 'static>(info: &Info<T>) {
    fn with<T: Transport + 'static, const N: usize>(info: &Info<T>) {
        if N > info.attributes().tx.iov_limit.min(info.attributes().rx.iov_limit) {
            return;
        }
        with_two::<T, [Bytes; N]>(info, |two, _| {
            for (seed, len) in [0, 1, 100, 5000, 1 << 20].map(|len| most(info, len)).into_iter().enumerate() {
                let bytes = pattern(len, seed);
                let (out, into) = (cut(&bytes, lengths(len, true)), cut(&room(len), lengths(len, false)));
                let received = two.post(into.clone(), |buf| two.b.recv_with(Source::Any, RecvOptions::default(), buf));
                let sent = two.post(out.clone(), |buf| two.a.send_with(two.to_b, SendOptions::default(), buf));
                let (buf, transfer) = two.finish(received);
                assert_eq!(transfer.len, len);
                assert!(buf.concat() == *bytes, "a message of {len} bytes in {N} pieces");
                assert!(two.finish(sent).0 == out, "what was sent comes back as it was");

                if !tags(info) {
                    continue;
                }
                let data = carries_data(info).then_some(ImmediateData(9));
                let options = data
                    .map_or(SendOptions::default(), |data| SendOptions { data: Some(data), ..SendOptions::default() });
                let into =
                    two.post(into, |buf| two.b.tagged_recv_with(Source::Any, Tag(5), RecvOptions::default(), buf));
                let sent = two.post(out, |buf| two.a.tagged_send_with(two.to_b, Tag(5), options, buf));
                let (buf, transfer) = two.finish(into);
                assert_eq!((transfer.len, transfer.data, transfer.tag), (len, data, Some(Tag(5))));
                assert!(buf.concat() == *bytes, "a tagged message of {len} bytes in {N} pieces");
                two.finish(sent);
            }
        });
    }
    if info.attributes().tx.iov_limit.min(info.attributes().rx.iov_limit) < 2 {
        crate::report::not_granted();
    }
    with::<T, 1>(info);
    with::<T, 2>(info);
    with::<T, 3>(info);
    with::<T, 4>(info);
    with::<T, 8>(info);
}

fn reads_and_writes_of_several_buffers_and_parts<T: Transport + 'static>(info: &Info<T>) {
    fn with<T: Transport + 'static, const N: usize>(info: &Info<T>) {
        let limits = &info.attributes().tx;
        if N > limits.iov_limit.min(limits.rma_iov_limit) {
            return;
        }
        with_two::<T, [Bytes; N]>(info, |two, domain| {
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
            let regions = [(); N].map(|()| Mr::open_in(domain, room(4096), access, allocator()).expect("a region"));
            for len in [1, 100, 4000] {
                let bytes = pattern(len, N);
                let out = cut(&bytes, lengths(len, true));
                // The parts have other lengths than the buffers.
                let parts: Vec<_> = regions
                    .iter()
                    .zip(lengths::<N>(len, false))
                    .map(|(region, len)| region.remote().part(8, len).expect("within"))
                    .collect();
                // The read may overtake a write that is not delivered.
                let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
                let written = two.post(out, |buf| two.a.write_with(two.to_b, &parts, options, buf));
                two.finish(written);
                let into = cut(&room(len), lengths(len, true));
                let read = two.post(into, |buf| two.a.read_with(two.to_b, &parts, ReadOptions::default(), buf));
                assert!(two.finish(read).0.concat() == *bytes, "{len} bytes in {N} parts");

                // Lengths that differ.
                let into = cut(&room(len + 1), lengths(len + 1, true));
                let refused = two.a.read_with(two.to_b, &parts, ReadOptions::default(), into).unwrap_err();
                assert_eq!(refused.error, PostError::OutOfBounds);
            }
            let part = regions[0].remote().part(0, 0).expect("within");
            let limit = limits.rma_iov_limit;
            for parts in [&[][..], &vec![part; limit + 1]] {
                let nothing = cut(&[], [0; N]);
                let refused = two.a.write_with(two.to_b, parts, SendOptions::default(), nothing).unwrap_err();
                assert_eq!(refused.error, PostError::TooManyPieces { limit: limit.min(IoVecs::MOST) });
            }
            assert!(regions[0].remote().part(4096, 1).is_none());
        });
    }
    let limits = &info.attributes().tx;
    if limits.iov_limit.min(limits.rma_iov_limit) < 2 {
        crate::report::not_granted();
    }
    with::<T, 1>(info);
    with::<T, 2>(info);
    with::<T, 4>(info);
    with::<T, 8>(info);
}

fn pieces_beyond_the_limit_are_refused<T: Transport + 'static>(info: &Info<T>) {
    fn with<T: Transport + 'static, const N: usize>(info: &Info<T>) {
        let (tx, rx) = (info.attributes().tx.iov_limit, info.attributes().rx.iov_limit);
        with_two::<T, [Bytes; N]>(info, |two, _| {
            let pieces = || cut(&pattern(100, 1), lengths::<N>(100, true));
            if N > tx.min(IoVecs::MOST) {
                let refused = two.a.send_with(two.to_b, SendOptions::default(), pieces()).unwrap_err();
                assert_eq!(refused.error, PostError::TooManyPieces { limit: tx.min(IoVecs::MOST) });
                assert!(refused.value == pieces());
            }
            if N > rx.min(IoVecs::MOST) {
                let refused = two.b.recv_with(Source::Any, RecvOptions::default(), pieces()).unwrap_err();
                assert_eq!(refused.error, PostError::TooManyPieces { limit: rx.min(IoVecs::MOST) });
            }
            // The calls with one range accept no array of several.
            if N > 1 {
                assert_eq!(two.a.send(two.to_b, pieces()).unwrap_err().error, PostError::Access);
                assert_eq!(two.b.recv(Source::Any, pieces()).unwrap_err().error, PostError::Access);
            }
            assert_eq!(two.cq.in_flight(), 0);
        });
    }
    with::<T, 2>(info);
    with::<T, 5>(info);
    with::<T, 9>(info);
}

/// Sends one message with options, and compares it.
fn message<T: Transport + 'static, B>(two: &Two<'_, '_, T, B>, out: B, into: B, options: SendOptions)
where
    B: SourceBuffer + TargetBuffer + PartialEq + Clone + 'static,
{
    let received = two.post(into, |buf| two.b.recv_with(Source::Any, RecvOptions::default(), buf));
    let sent = two.post(out.clone(), |buf| two.a.send_with(two.to_b, options, buf));
    assert!(two.finish(received).0 == out);
    two.finish(sent);
}

fn operations_end_at_every_level<T: Transport + 'static>(info: &Info<T>) {
    with_two::<T, Bytes>(info, |two, domain| {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = info
            .caps()
            .contains(Caps::RMA)
            .then(|| Mr::open_in(domain, room(1 << 20), access, allocator()).expect("a region"));
        for level in [CompletionLevel::Inject, CompletionLevel::Transmit, CompletionLevel::Delivery] {
            let options = SendOptions { level: Some(level), ..SendOptions::default() };
            for len in [0, 8, 1 << 20].map(|len| most(info, len)) {
                if is_old(info, "shm") && len == 0 && level == CompletionLevel::Delivery {
                    crate::report::partly(
                        "The delivery of an empty message (`CompletionLevel::Delivery`) is never \
                        reported",
                    );
                    continue;
                }
                message(two, pattern(len, 1), room(len), options);
                let Some(region) = &region else { continue };
                let part = region.remote().part(0, len).expect("within");
                let written = two.post(pattern(len, 2), |buf| two.a.write_with(two.to_b, &[part], options, buf));
                two.finish(written);
                let (mut there, mut deadline) = (room(len), limit());
                loop {
                    region.window().copy_to(0, &mut there).expect("within");
                    if there == pattern(len, 2) {
                        break;
                    }
                    assert!(level != CompletionLevel::Delivery, "a delivered write has arrived");
                    assert!(!deadline.passed(), "the write arrives");
                    two.cq.progress().or_cut("the queue works");
                }
                let read = two.post(room(len), |buf| two.a.read_with(two.to_b, &[part], ReadOptions::default(), buf));
                assert!(two.finish(read).0 == pattern(len, 2), "{level:?}");
            }
        }
    });
}

fn delivery_is_awaited<T: Transport + 'static>(info: &Info<T>) {
    with_two::<T, Bytes>(info, |two, _| {
        // Connects.
        message(two, pattern(8, 1), room(8), SendOptions::default());
        let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
        let sent = two.post(pattern(8, 2), |buf| two.a.send_with(two.to_b, options, buf));
        // libfabric leaves open if a message in the provider's buffer at the peer is delivered.
        let buffers = !["soft", "shm", "net", "tcp", "loom-tcp"].contains(&info.provider());
        // `shm` of libfabric 2.6 does, too. Other versions are unknown.
        let known = is_tested(info);
        let until = Instant::now() + if buffers && known { LIMIT } else { Duration::from_millis(20) };
        let mut early = None;
        while early.is_none() && Instant::now() < until {
            early = two.cq.poll().or_cut("works").map(|completion| match completion {
                Completion::Op(done) => {
                    assert_eq!(done.key(), sent);
                    done.result().or_cut("sent");
                }
                other => panic!("not expected: {other:?}"),
            });
        }
        assert!(!known || early.is_some() == buffers, "whether it is over before it is received");
        if buffers || early.is_some() {
            crate::report::partly("A message counts as delivered when the provider has buffered it at the peer");
        }
        let received = two.post(room(8), |buf| two.b.recv(Source::Any, buf));
        assert_eq!(two.finish(received).0, pattern(8, 2));
        if early.is_none() {
            two.finish(sent);
        }
    });
}

fn more_operations_may_follow<T: Transport + 'static>(info: &Info<T>) {
    with_two::<T, Bytes>(info, |two, _| {
        let options = RecvOptions::default();
        let received = [RecvOptions { more: true }, RecvOptions { more: true }, options]
            .map(|options| two.post(room(8), |buf| two.b.recv_with(Source::Any, options, buf)));
        let options = SendOptions::default();
        let more = SendOptions { more: true, ..options };
        let sent = [(1, more), (2, more), (3, options)]
            .map(|(seed, options)| two.post(pattern(8, seed), |buf| two.a.send_with(two.to_b, options, buf)));
        assert_eq!(received.map(|key| two.finish(key).0), [1, 2, 3].map(|seed| pattern(8, seed)));
        for sent in sent {
            two.finish(sent);
        }
    });
}

fn a_fence_holds_or_is_refused<T: Transport + 'static>(info: &Info<T>) {
    with_two::<T, Bytes>(info, |two, domain| {
        let options = SendOptions { fence: true, ..SendOptions::default() };
        if !info.caps().contains(Caps::FENCE) {
            crate::report::not_granted();
            let refused = two.a.send_with(two.to_b, options, pattern(8, 1)).unwrap_err();
            assert_eq!((refused.error, refused.value), (PostError::NotGranted(Caps::FENCE), pattern(8, 1)));
            return;
        }
        message(two, pattern(8, 1), room(8), options);
        if !info.caps().contains(Caps::RMA) {
            return;
        }
        let region =
            Mr::open_in(domain, room(8), Access::REMOTE_READ | Access::REMOTE_WRITE, allocator()).expect("a region");
        let part = region.remote().part(0, 8).expect("within");
        let mut deadline = limit();
        for seed in 0..10 {
            let written = two.post(pattern(8, seed), |buf| two.a.write_with(two.to_b, &[part], options, buf));
            let fenced = ReadOptions { fence: true, ..ReadOptions::default() };
            let read = two.post(room(8), |buf| two.a.read_with(two.to_b, &[part], fenced, buf));
            assert_eq!(two.finish(read).0, pattern(8, seed));
            two.finish(written);
            assert!(!deadline.passed());
        }
    });
}

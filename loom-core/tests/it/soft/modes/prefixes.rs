//! Room in front of messages (`FI_MSG_PREFIX`).

use core::mem::MaybeUninit;

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Prefixed};
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::endpoint::{CompletionLevel, RecvOptions, SendOptions};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::registered::Registered;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::{Access, Caps, Errno, ImmediateData, Mode, Tag};
use loom_core::{Scope, scope};

type Bytes = Box<[u8]>;
type Room = Prefixed<Bytes>;

const ROOM: usize = 40;
/// Empty, short enough to be copied at once, and too long for that.
const LENGTHS: [usize; 4] = [0, 1, 900, 10_000];

fn message(len: usize) -> Room {
    let mut buf = Prefixed { buf: vec![0x11; ROOM + len].into(), room: ROOM };
    buf.bytes_mut().iter_mut().zip(0..).for_each(|(byte, at)| *byte = u8::try_from(at % 251).unwrap());
    buf
}

fn room(len: usize) -> Room {
    Prefixed { buf: vec![0xee; ROOM + len].into(), room: ROOM }
}

fn posted<B>(post: Result<OpKey, Rejected<B>>) -> OpKey {
    post.map_err(PostError::from).unwrap()
}

/// Runs a test on two endpoints of a queue. The first one can reach the second.
fn on_pair<'env, B: Buffer + 'env>(
    info: &Info<Soft<'static>>,
    attr: CqAttr,
    test: impl FnOnce(&Cq<'_, Soft<'static>, B>, &Endpoint<'_, Soft<'static>, B>, &Endpoint<'_, Soft<'static>, B>),
) {
    scope(|s: &Scope<'_, 'env>| {
        let domain = s.open(info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::open(&domain, attr).unwrap();
        let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
        av.insert(&a.address().unwrap()).unwrap();
        test(&cq, &a, &b);
    });
}

/// Checks that the transport has written to the room before the message.
fn is_used(buf: Room) -> bool {
    let whole = buf.buf;
    let prefix = &whole[..ROOM];
    let used = prefix.iter().all(|byte| *byte == 0xa5);
    assert!(used || prefix.iter().all(|byte| *byte == prefix[0] && [0x11, 0xee].contains(byte)), "by half");
    used
}

/// One program, over networks with and without prefixes, with and without contexts, and on queues
/// of both kinds.
#[test]
fn messages_are_the_bytes_behind_the_prefix() {
    let asks = RequiredModes::empty();
    for (asks, prefixes) in [
        (asks, false),
        (asks | RequiredModes::CONTEXTS, false),
        (asks | RequiredModes::PREFIXES, true),
        (asks | RequiredModes::PREFIXES | RequiredModes::LARGE_CONTEXTS, true),
    ] {
        for attr in [CqAttr::new(16), CqAttr { separate: true, ..CqAttr::new(16) }] {
            let network = Network::new(NetworkAttr::default()).unwrap();
            let info = network.info_requiring(asks);
            let attributes = info.attributes();
            assert_eq!(attributes.endpoint.msg_prefix_size, if prefixes { ROOM } else { 0 });
            assert_eq!(attributes.mode.contains(Mode::MSG_PREFIX), prefixes);
            on_pair(&info, attr, |cq, a, b| {
                for len in LENGTHS {
                    exchange(cq, a, b, len, prefixes);
                }
            });
        }
    }
}

fn exchange(
    cq: &Cq<'_, Soft<'_>, Room>,
    a: &Endpoint<'_, Soft<'_>, Room>,
    b: &Endpoint<'_, Soft<'_>, Room>,
    len: usize,
    prefixes: bool,
) {
    let to_b = a.av().insert(&b.address().unwrap()).unwrap();
    let tag = Tag(7);
    let done = |key: OpKey| cq.wait(key, Spins(100)).unwrap().unwrap();
    let delivered = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    // Receives before and after their messages, with each call that takes a buffer.
    type Step<'s> = Box<dyn Fn() -> OpKey + 's>;
    let sends: [Step<'_>; 5] = [
        Box::new(|| posted(a.send(to_b, message(len)))),
        Box::new(|| posted(a.send_data(to_b, ImmediateData(5), message(len)))),
        Box::new(|| posted(a.send_with(to_b, delivered, message(len)))),
        Box::new(|| posted(a.tagged_send(to_b, tag, message(len)))),
        Box::new(|| posted(a.tagged_send_with(to_b, tag, SendOptions::default(), message(len)))),
    ];
    for (which, send) in sends.iter().enumerate() {
        let receives: [Step<'_>; 2] = if which < 3 {
            [
                Box::new(|| posted(b.recv(Source::Any, room(len + 3)))),
                Box::new(|| posted(b.recv_with(Source::Any, RecvOptions::default(), room(len + 3)))),
            ]
        } else {
            [
                Box::new(|| posted(b.tagged_recv(Source::Any, tag, room(len + 3)))),
                Box::new(|| posted(b.tagged_recv_with(Source::Any, tag, RecvOptions::default(), room(len + 3)))),
            ]
        };
        for receive in &receives {
            for receive_first in [true, false] {
                let (sent, received) = if receive_first {
                    let received = receive();
                    (send(), received)
                } else {
                    let sent = send();
                    assert!(cq.poll_direction(Direction::Receive).unwrap().is_none());
                    (sent, receive())
                };
                let received = done(received);
                let transfer = received.result().unwrap();
                assert_eq!((transfer.len, transfer.data.is_some()), (len, which == 1));
                let buf = received.into_buf();
                assert_eq!(&buf.bytes()[..len], message(len).bytes());
                assert!(buf.bytes()[len..].iter().all(|byte| *byte == 0xee), "nothing beyond");
                assert_eq!(is_used(buf), prefixes);
                let sent = done(sent);
                assert_eq!(sent.result().unwrap().len, len);
                let buf = sent.into_buf();
                assert_eq!(buf.bytes(), message(len).bytes());
                assert_eq!(is_used(buf), prefixes);
            }
        }
    }
    // Too long for its buffer.
    if len > 0 {
        let received = posted(b.recv(Source::Any, room(len - 1)));
        let sent = posted(a.send(to_b, message(len)));
        let received = done(received);
        let error = received.result().unwrap_err();
        assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(len - 1), Some(1)));
        assert_eq!(received.buf().bytes(), &message(len).bytes()[..len - 1]);
        assert!(done(sent).result().is_ok());
    }
    // Injected messages, which do not have a prefix.
    let inject_size = a.inject_size();
    assert_eq!(inject_size, if prefixes { 1024 - ROOM } else { 1024 });
    let injected = [
        a.inject(to_b, message(len).bytes()),
        a.inject_data(to_b, ImmediateData(5), message(len).bytes()),
        a.tagged_inject(to_b, tag, message(len).bytes()),
        a.tagged_inject_data(to_b, tag, ImmediateData(5), message(len).bytes()),
    ];
    for (which, injected) in injected.into_iter().enumerate() {
        if len > inject_size {
            assert_eq!(injected, Err(PostError::TooLong { limit: inject_size }));
            continue;
        }
        injected.unwrap();
        let buf = room(len);
        let received = posted(if which < 2 { b.recv(Source::Any, buf) } else { b.tagged_recv(Source::Any, tag, buf) });
        let received = done(received);
        assert_eq!(received.result().unwrap().len, len);
        assert_eq!(received.buf().bytes(), message(len).bytes());
    }
    // Cancelled.
    let cancelled = posted(b.recv(Source::Any, room(len)));
    b.cancel(cancelled).unwrap();
    let error = done(cancelled).result().unwrap_err();
    assert_eq!((error.errno, error.len), (Errno::ECANCELED, None));
    assert!(cq.poll().unwrap().is_none());
}

#[test]
fn the_first_of_several_buffers_has_the_room() {
    for asks in [RequiredModes::empty(), RequiredModes::PREFIXES] {
        let network = Network::new(NetworkAttr::default()).unwrap();
        on_pair(&network.info_requiring(asks), CqAttr::new(16), |cq, a, b| {
            let to_b = a.av().insert(&b.address().unwrap()).unwrap();
            for first in [0, 10, 2000] {
                let rest = |len: usize| Prefixed { buf: message(len).bytes().into(), room: 0 };
                let received = posted(b.recv_with(
                    Source::Any,
                    RecvOptions::default(),
                    [room(3), Prefixed { buf: vec![0; 3000].into(), room: 0 }],
                ));
                let sent = posted(a.send_with(to_b, SendOptions::default(), [message(first), rest(20)]));
                let received = cq.wait(received, Spins(100)).unwrap().unwrap();
                assert_eq!(received.result().unwrap().len, first + 20);
                let all = [received.buf()[0].bytes(), received.buf()[1].bytes()].concat();
                assert_eq!(&all[..first + 20], [message(first).bytes(), message(20).bytes()].concat());
                assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
            }
        });
    }
}

#[test]
fn buffers_without_the_room_are_refused() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_requiring(RequiredModes::PREFIXES);
    on_pair(&info, CqAttr::new(16), |_, a, b| {
        let to_b = a.av().insert(&b.address().unwrap()).unwrap();
        let short = || Prefixed { buf: Bytes::from([1; 100]), room: ROOM - 1 };
        let too_short = || Prefixed { buf: Bytes::from([1; ROOM - 1]), room: ROOM };
        for buf in [short, too_short] {
            for rejected in [
                a.send(to_b, buf()).unwrap_err(),
                a.send_with(to_b, SendOptions::default(), buf()).unwrap_err(),
                a.tagged_send(to_b, Tag(1), buf()).unwrap_err(),
                a.tagged_send_with(to_b, Tag(1), SendOptions::default(), buf()).unwrap_err(),
                b.recv(Source::Any, buf()).unwrap_err(),
                b.recv_with(Source::Any, RecvOptions::default(), buf()).unwrap_err(),
                b.tagged_recv(Source::Any, Tag(1), buf()).unwrap_err(),
                b.tagged_recv_with(Source::Any, Tag(1), RecvOptions::default(), buf()).unwrap_err(),
            ] {
                assert_eq!((rejected.error, rejected.value), (PostError::NoPrefix { needed: ROOM }, buf()));
            }
        }
        // libfabric does not define the prefix of these operations.
        let rejected = b.multi_recv(Source::Any, room(100)).unwrap_err();
        assert_eq!(rejected.error, PostError::NotGranted(Caps::MULTI_RECV));
        let rejected = b.tagged_multi_recv(Source::Any, Tag(1), room(100)).unwrap_err();
        assert_eq!(rejected.error, PostError::NotGranted(Caps::TAGGED_MULTI_RECV));
        let refused = Err(PostError::Errno(Errno::EOPNOTSUPP));
        assert_eq!(b.tagged_peek(Source::Any, Tag(1)), refused);
        assert_eq!(b.tagged_peek_claim(Source::Any, Tag(1)), refused);
    });
    on_pair(&info, CqAttr::new(16), |_, a, b| {
        let to_b = a.av().insert(&b.address().unwrap()).unwrap();
        let refused = PostError::NoPrefix { needed: ROOM };
        let bytes: &'static [u8] = &[1; 100];
        assert_eq!(
            a.send(to_b, Prefixed { buf: bytes, room: ROOM }).unwrap_err().error,
            refused,
            "nobody may write there"
        );
    });
    on_pair(&info, CqAttr::new(16), |_, a, b| {
        let to_b = a.av().insert(&b.address().unwrap()).unwrap();
        let refused = PostError::NoPrefix { needed: ROOM };
        assert_eq!(a.send(to_b, Bytes::from([1; 100])).unwrap_err().error, refused);
        assert_eq!(b.recv(Source::Any, Bytes::from([1; 100])).unwrap_err().error, refused);
    });
    on_pair(&info, CqAttr::new(16), |_, a, b| {
        let to_b = a.av().insert(&b.address().unwrap()).unwrap();
        let second = || [Prefixed { buf: Bytes::from([1; 100]), room: 0 }, room(10)];
        let refused = PostError::NoPrefix { needed: ROOM };
        assert_eq!(a.send_with(to_b, SendOptions::default(), second()).unwrap_err().error, refused);
        assert_eq!(b.recv_with(Source::Any, RecvOptions::default(), second()).unwrap_err().error, refused);
    });
}

#[test]
fn remote_memory_is_read_and_written_without_the_room() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info_requiring(RequiredModes::PREFIXES)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let mr = Mr::open(&domain, vec![0_u8; 100], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let cq = Cq::<_, Room>::open(&domain, CqAttr::new(16)).unwrap();
    let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let region = mr.remote();
    let written = posted(a.write_data(to_b, &region, 10, ImmediateData(3), message(50)));
    let done = cq.wait(written, Spins(100)).unwrap().unwrap();
    assert!(!is_used(done.into_buf()));
    let Some(Completion::Remote(event)) = cq.poll_direction(Direction::Receive).unwrap() else { panic!("it was told") };
    assert_eq!((event.data(), event.len), (Some(ImmediateData(3)), 50));
    a.inject_write(to_b, &region, 0, &[9; 10]).unwrap();
    let read = posted(a.read(to_b, &region, 0, room(60)));
    let done = cq.wait(read, Spins(100)).unwrap().unwrap();
    assert_eq!(done.result().unwrap().len, 60);
    assert_eq!(done.buf().bytes(), [&[9; 10], message(50).bytes()].concat());
    assert!(!is_used(done.into_buf()));
    // Buffers of RMA do not require a prefix.
    let plain = posted(a.write(to_b, &region, 0, Prefixed { buf: Bytes::from([1; 5]), room: 0 }));
    assert!(cq.wait(plain, Spins(100)).unwrap().unwrap().result().is_ok());
}

#[test]
fn room_is_registered_with_the_message() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain =
        Domain::open(&network.info_requiring(RequiredModes::PREFIXES | RequiredModes::LOCAL_REGISTRATION)).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    // Registered and prefixed, in either nesting.
    {
        let cq = Cq::<_, Registered<'_, _, Room>>::open(&domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        for len in LENGTHS {
            let [inbox, outbox] = [room(len), message(len)].map(|buf| Registered::new(&domain, buf).unwrap());
            let received = posted(endpoint.recv(Source::Any, inbox));
            posted(endpoint.send(me, outbox));
            let done = cq.wait(received, Spins(100)).unwrap().unwrap();
            assert_eq!(done.into_buf().bytes(), message(len).bytes());
        }
    }
    let cq = Cq::<_, Prefixed<Registered<'_, _, Bytes>>>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let [inbox, outbox] = [vec![0; ROOM + 9], message(9).buf.into()]
        .map(|buf| Prefixed { buf: Registered::new(&domain, Bytes::from(buf)).unwrap(), room: ROOM });
    let received = posted(endpoint.recv(Source::Any, inbox));
    posted(endpoint.send(me, outbox));
    let done = cq.wait(received, Spins(100)).unwrap().unwrap();
    assert_eq!(done.result().unwrap().len, 9);
    assert_eq!(done.into_buf().buf.into_inner()[ROOM..], *message(9).bytes());
}

#[test]
fn memory_that_is_not_initialised_has_room_too() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let mut memory = [MaybeUninit::new(0xee); ROOM + 8];
    on_pair(&network.info_requiring(RequiredModes::PREFIXES), CqAttr::new(16), |cq, a, b| {
        let to_b = a.av().insert(&b.address().unwrap()).unwrap();
        let received = posted(b.recv(Source::Any, Prefixed { buf: &mut memory[..], room: ROOM }));
        a.inject(to_b, b"hello").unwrap();
        let done = cq.wait(received, Spins(100)).unwrap().unwrap();
        let received = done.into_received().unwrap();
        assert_eq!((&*received.bytes, received.rest.len()), (&b"hello"[..], 3));
    });
}

#[test]
fn endpoints_of_a_queue_have_one_prefix() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (with, without) = (network.info_requiring(RequiredModes::PREFIXES), network.info());
    for (info, other) in [(&with, &without), (&without, &with)] {
        let domain = Domain::open(info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::<_, Room>::open(&domain, CqAttr::new(16)).unwrap();
        assert_eq!(cq.endpoint(Binding::to(&av).info(other.clone())).unwrap_err(), OpenError::OtherDomain);
    }
}

//! Operations without completions (`FI_SELECTIVE_COMPLETION`) over connections, beside operations
//! with them.

use std::ptr::NonNull;
use std::time::Instant;

use loom_core::buffer::Lent;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, ThePeer};
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::eq::{EqAttr, EventQueue};
use loom_core::error::{OpenError, PostError};
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, Caps, Counted, Errno, ImmediateData, Tag};
use support::library_version;

use super::Case;
use super::sides::{Bytes, LIMIT, T, client_info, meet, pattern, room, with_sides};
use crate::connected::Found;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("unsignaled_operations_arrive_and_are_counted", unsignaled_operations_arrive_and_are_counted),
        (
            "a_connection_that_is_not_selective_reports_everything",
            a_connection_that_is_not_selective_reports_everything,
        ),
    ]
}

fn source(bytes: &[u8]) -> Lent {
    Lent::source(NonNull::from_ref(bytes).cast(), bytes.len())
}

fn finish(cq: &Cq<'_, T, Bytes>, key: OpKey) -> (Bytes, Option<ImmediateData>) {
    let done = cq.wait(key, Instant::now() + LIMIT).expect("the queue works").expect("it ends in time");
    let (bytes, result) = done.into_parts();
    (bytes, result.expect("it succeeds").data)
}

/// Posts until the provider accepts it.
fn retry(cq: &Cq<'_, T, Bytes>, post: impl Fn() -> Result<(), PostError>) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = post() {
        assert!(error.is_transient() && Instant::now() < deadline, "{error:#}");
        cq.progress().expect("the queue works");
    }
}

fn unsignaled_operations_arrive_and_are_counted(info: &Info<T>) {
    // Lent memory outlives the endpoints.
    let bytes = [8, 3000, 1 << 20].map(|len| pattern(len, len));
    let answer = pattern(64, 5);
    let mut back = room(1 << 20);
    let domain = Domain::open(info).expect("domain");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let counter = Counter::open(&domain, CounterAttr::default()).expect("a counter");
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(16)).expect("queue");
    let listener = eq.listen(info).expect("listens");
    let address = listener.address().expect("its address");
    let of_client = client_info(info, &address);
    let counted = Counted::SEND | Counted::READ | Counted::WRITE;
    let client = match cq.msg_endpoint(Binding::to(&eq).counter(counted, &counter).selective(), &of_client) {
        Ok(client) => client,
        Err(error) => {
            assert_eq!(error, OpenError::Errno(Errno::EOPNOTSUPP));
            if !T::is_tested(info) {
                return crate::connected::report::not_granted();
            }
            assert!(["net", "tcp"].contains(&info.provider()) && library_version().major < 2);
            return crate::connected::report::not_run(
                "loom refuses unsignaled operations, because the provider reports them all \
                the same (`…-selective-completion-reports-everything`)",
            );
        }
    };
    let client = client.connect(&address, &[]).expect("asks");
    // The endpoint of a request is selective as well.
    let (server, client) = meet(&eq, client, |request| request.endpoint(&cq, Binding::to(&eq).selective()));
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open_for(&domain, &server, room(1 << 20), access).expect("a region");
    let remote = region.remote();
    let mut over = 0;
    let mut reaches = |more: u64| {
        over += more;
        let deadline = Instant::now() + LIMIT;
        while counter.read() < over {
            assert!(Instant::now() < deadline, "{} instead of {over}", counter.read());
            assert!(cq.poll().expect("the queue works").is_none(), "nothing is reported");
        }
        assert_eq!((counter.read(), counter.read_error()), (over, 0));
    };
    let tagged = info.caps().contains(Caps::TAGGED);
    for (round, bytes) in bytes.iter().enumerate() {
        let (lent, data) = (source(bytes), ImmediateData(7));
        let received = server.recv(ThePeer, room(bytes.len())).expect("posts");
        // SAFETY: the bytes are read only, and outlive the endpoint, as do those below.
        retry(&cq, || unsafe {
            client.send_unsignaled(ThePeer, None, SendOptions { data: Some(data), ..SendOptions::default() }, &lent)
        });
        assert_eq!(finish(&cq, received), (bytes.clone(), Some(data)));
        reaches(1);

        if tagged {
            let received = server.tagged_recv(ThePeer, Tag(9), room(bytes.len())).expect("posts");
            // SAFETY: as above.
            retry(&cq, || unsafe { client.send_unsignaled(ThePeer, Some(Tag(9)), SendOptions::default(), &lent) });
            assert_eq!(&finish(&cq, received).0, bytes);
            reaches(1);
        } else {
            // SAFETY: the post is refused.
            let refused = unsafe { client.send_unsignaled(ThePeer, Some(Tag(9)), SendOptions::default(), &lent) };
            assert!(matches!(refused, Err(PostError::NotGranted(_))), "{refused:?}");
        }

        // SAFETY: as above.
        retry(&cq, || unsafe { client.write_unsignaled(ThePeer, &remote, 0, SendOptions::default(), &lent) });
        reaches(1);
        let room = Lent::target(NonNull::from_mut(&mut *back).cast(), bytes.len());
        // SAFETY: the memory outlives the endpoint, and is not used before the counter reports the
        // end of the read.
        retry(&cq, || unsafe { client.read_unsignaled(ThePeer, &remote, 0, ReadOptions::default(), &room) });
        reaches(1);
        assert_eq!(back.get(..bytes.len()), Some(&bytes[..]));

        // All other operations report.
        let received = server.recv(ThePeer, self::room(64)).expect("posts");
        let sent = match round % 2 {
            0 => client.send(ThePeer, pattern(64, round)),
            _ => client.send_with(ThePeer, SendOptions::default(), pattern(64, round)),
        };
        assert_eq!(finish(&cq, sent.expect("posts")).0, pattern(64, round));
        assert_eq!(finish(&cq, received).0, pattern(64, round));
        reaches(1);
    }
    let received = client.recv(ThePeer, room(64)).expect("posts");
    // SAFETY: as above.
    retry(&cq, || unsafe { server.send_unsignaled(ThePeer, None, SendOptions::default(), &source(&answer)) });
    assert_eq!(finish(&cq, received).0, answer);
    let received = client.recv(ThePeer, room(64)).expect("posts");
    let sent = server.send(ThePeer, answer.clone()).expect("posts");
    assert_eq!((finish(&cq, sent).0, finish(&cq, received).0), (answer.clone(), answer.clone()));
    let beyond = source(&[0; 8]);
    // SAFETY: the post is refused.
    let refused = unsafe { client.write_unsignaled(ThePeer, &remote, 1 << 20, SendOptions::default(), &beyond) };
    assert_eq!(refused, Err(PostError::OutOfBounds));
    assert_eq!((cq.in_flight(), cq.strays()), (0, 0));
}

fn a_connection_that_is_not_selective_reports_everything(info: &Info<T>) {
    with_sides(info, |sides| {
        let (server, client) = sides.pair();
        // SAFETY: the post is refused.
        let refused = unsafe { client.send_unsignaled(ThePeer, None, SendOptions::default(), &source(&[1; 8])) };
        assert_eq!(refused, Err(PostError::NotSelective));
        let received = sides.post(room(8), |buf| server.recv(ThePeer, buf));
        let sent = sides.post(pattern(8, 1), |buf| client.send_with(ThePeer, SendOptions::default(), buf));
        sides.finish(sent);
        sides.finish(received);
    });
}

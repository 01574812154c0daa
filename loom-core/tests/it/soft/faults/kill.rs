//! Endpoints killed in the middle of operations.

use loom_core::completion::Completion;
use loom_core::endpoint::{Binding, Source};
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::soft::{Every, Plan};
use loom_core::vocabulary::{Access, Errno, Tag};

use crate::soft::faults::{LONG, World, bytes, end, next, under};

const GONE: PostError = PostError::Errno(Errno::ESHUTDOWN);

/// A world in which the fourth post kills `a`. Before, `a` has posted a receive, a long message and
/// a short one.
fn dying(seed: u64, test: impl FnOnce(&World)) {
    under(Plan { kill: Every::Nth(4), ..Plan::new(seed) }, |world| {
        world.a.recv(Source::Any, bytes(0, LONG)).unwrap();
        world.a.send(world.to_b, bytes(1, LONG)).unwrap();
        world.a.inject(world.to_b, &[7]).unwrap();
        assert_eq!(world.injected().killed, 0);
        test(world);
    });
}

/// Posts the operation that kills the endpoint.
fn last_post(world: &World) {
    let refused = world.a.send(world.to_b, bytes(2, 8)).unwrap_err();
    assert_eq!((refused.error, refused.value), (GONE, bytes(2, 8)));
    assert_eq!(world.injected().killed, 1);
}

#[test]
fn peers_see_errors() {
    dying(1, |world| {
        let region = Mr::open(&world.domain, bytes(0, 8), Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        // Both messages are on their way, and the second has no receive.
        let early = [bytes(3, LONG), bytes(4, LONG)].map(|buf| world.b.tagged_send(world.to_a, Tag(1), buf).unwrap());
        let write = |seed| world.b.write(world.to_a, &region.remote(), 0, bytes(seed, 8)).unwrap();
        let before = write(5);
        assert!(end(world.b.cq(), before).1.is_ok());
        last_post(world);
        for (key, seed) in early.into_iter().zip([3, 4]) {
            let (buf, result) = end(world.b.cq(), key);
            assert_eq!((buf, result.unwrap_err().errno), (bytes(seed, LONG), Errno::ECONNRESET));
        }
        let sends = [world.b.send(world.to_a, bytes(6, 8)), world.b.send(world.to_a, bytes(6, LONG))];
        let read = world.b.read(world.to_a, &region.remote(), 0, bytes(0, 8));
        for key in sends.into_iter().chain([read, Ok(write(9))]) {
            assert_eq!(end(world.b.cq(), key.unwrap()).1.unwrap_err().errno, Errno::EHOSTUNREACH);
        }
        assert_eq!(world.b.inject(world.to_a, &[1]), Err(PostError::Errno(Errno::EHOSTUNREACH)));
        assert_eq!(region.close().unwrap(), bytes(5, 8), "nothing is written through it any more");
    });
}

#[test]
fn its_messages_end_and_those_that_were_sent_arrive() {
    dying(1, |world| {
        last_post(world);
        for _ in 0..2 {
            world.b.recv(Source::Any, bytes(0, LONG)).unwrap();
        }
        let done = next(world.b.cq(), 10).expect("the short one was on its way");
        assert_eq!((done.result().unwrap().len, done.into_buf()[0]), (1, 7));
        assert!(next(world.b.cq(), 100).is_none(), "the long one was to be fetched from it");
    });
}

#[test]
fn killed_endpoint_is_inactive_and_can_be_closed() {
    let network = loom_core::soft::Network::new(crate::soft::faults::ATTR).unwrap();
    let plan = Plan { kill: Every::Nth(3), ..Plan::new(1) };
    let domain = loom_core::domain::Domain::open(&network.info_with_faults(plan)).unwrap();
    let av = loom_core::av::Av::open(&domain, 4).unwrap();
    let cq = crate::soft::faults::Queue::open(&domain, 16).unwrap();
    let sound = network.info();
    let other = cq.endpoint(Binding::to(&av).info(sound.clone())).unwrap();
    let to_other = av.insert(&other.address().unwrap()).unwrap();
    // More rounds than ports, and than places in the raw queue.
    for round in 0..90 {
        let a = cq.endpoint(&av).unwrap();
        let to_a = av.insert(&a.address().unwrap()).unwrap();
        let received = a.recv(Source::Any, bytes(1, 8)).unwrap();
        let offered = a.send(to_other, bytes(2, LONG)).unwrap();
        assert_eq!(a.recv(Source::Any, bytes(3, 8)).unwrap_err().error, GONE);
        assert_eq!(a.tagged_peek(Source::Any, Tag(1)), Err(GONE));
        assert_eq!(a.inject(to_other, &[1]), Err(GONE));
        a.cancel(received).unwrap();
        for _ in 0..20 {
            assert!(cq.poll().unwrap().is_none(), "round {round}");
        }
        // The other endpoint of the queue is not affected.
        let own = other.send(to_other, bytes(4, 8)).unwrap();
        let into = other.recv(Source::Any, bytes(0, 8)).unwrap();
        assert!(end(&cq, own).1.is_ok());
        assert_eq!(end(&cq, into).0, bytes(4, 8));
        assert_eq!(end(&cq, other.send(to_a, bytes(5, 8)).unwrap()).1.unwrap_err().errno, Errno::EHOSTUNREACH);
        drop(a);
        for (key, buf) in [(received, bytes(1, 8)), (offered, bytes(2, LONG))] {
            let (back, result) = end(&cq, key);
            assert_eq!((back, result.unwrap_err().errno), (buf, Errno::ECANCELED), "round {round}");
        }
        assert_eq!(cq.in_flight(), 0);
        assert!(av.remove(to_a));
    }
    assert_eq!(network.injected().killed, 90);
}

#[test]
fn the_post_is_drawn() {
    let mut posts = Vec::new();
    for seed in 0..30 {
        under(Plan { kill: Every::About(5), ..Plan::new(seed) }, |world| {
            posts.push((1..).find(|_| world.a.inject(world.to_b, &[1]).is_err()).unwrap());
        });
    }
    posts.sort_unstable();
    assert!(posts[0] < 3 && posts[29] > 7 && posts[29] <= 9, "{posts:?}");
}

#[test]
fn late_writes_die_with_their_endpoint() {
    under(Plan { reorder: 1000, kill: Every::Nth(2), ..Plan::new(1) }, |world| {
        let region = Mr::open(&world.domain, bytes(0, 8), Access::REMOTE_WRITE).unwrap();
        world.a.write(world.to_b, &region.remote(), 0, bytes(5, 8)).unwrap();
        assert_eq!(world.a.inject(world.to_b, &[1]), Err(GONE));
        for _ in 0..3000 {
            assert!(!matches!(world.a.cq().poll().unwrap(), Some(Completion::Op(_))));
        }
        assert_eq!(region.close().unwrap(), bytes(0, 8));
    });
}

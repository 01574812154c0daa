//! Posts refused with a transient error.

use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::soft::{Every, Plan};
use loom_core::vocabulary::{Access, Tag};

use crate::soft::faults::{World, bytes, end, under};

#[test]
fn every_third_post_is_refused_and_returns_its_buffer() {
    under(Plan { refuse: Every::Nth(3), ..Plan::new(1) }, |world| {
        for round in 0..30 {
            match world.a.tagged_recv(Source::Any, Tag(1), bytes(round, 8)) {
                Ok(_) => assert_ne!(round % 3, 2, "post {round}"),
                Err(rejected) => {
                    assert_eq!((rejected.error, rejected.value), (PostError::Again, bytes(round, 8)));
                    assert_eq!(round % 3, 2, "post {round}");
                }
            }
        }
        assert_eq!((world.injected().refused, world.a.cq().in_flight()), (10, 20));
        assert_eq!(world.injected().total(), 10, "nothing else goes wrong");
    });
}

/// Returns the refused ones of this number of posts.
fn refused(plan: Plan, posts: usize) -> Vec<usize> {
    let mut refused = Vec::new();
    under(plan, |world| refused = (0..posts).filter(|_| world.a.inject(world.to_b, &[1]).is_err()).collect());
    refused
}

#[test]
fn the_gaps_are_drawn_and_not_too_long() {
    let refused = refused(Plan { refuse: Every::About(4), ..Plan::new(5) }, 60);
    let gaps: Vec<_> = refused.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (1..=7).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap != gaps[0]), "{gaps:?}");
}

#[test]
fn no_kind_of_post_comes_by() {
    fn all(world: &World) -> Vec<Option<PostError>> {
        let region = Mr::open(&world.domain, bytes(0, 64), Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let (a, to, remote) = (&world.a, world.to_b, region.remote());
        let part = remote.part(0, 8).unwrap();
        let buf = || bytes(1, 8);
        let post = |post: Result<_, loom_core::error::Rejected<_>>| post.err().map(|rejected| rejected.error);
        vec![
            post(a.send(to, buf())),
            post(a.tagged_send(to, Tag(1), buf())),
            post(a.send_with(to, Default::default(), buf())),
            post(a.tagged_send_with(to, Tag(1), Default::default(), buf())),
            post(a.recv(Source::Any, buf())),
            post(a.tagged_recv(Source::Any, Tag(1), buf())),
            post(a.recv_with(Source::Any, Default::default(), buf())),
            post(a.tagged_recv_with(Source::Any, Tag(1), Default::default(), buf())),
            post(a.multi_recv(Source::Any, buf())),
            post(a.tagged_multi_recv(Source::Any, Tag(1), buf())),
            post(a.write(to, &remote, 0, buf())),
            post(a.read(to, &remote, 0, buf())),
            post(a.write_with(to, &[part], Default::default(), buf())),
            post(a.read_with(to, &[part], Default::default(), buf())),
            a.inject(to, &[1]).err(),
            a.tagged_inject(to, Tag(1), &[1]).err(),
            a.inject_write(to, &remote, 0, &[1]).err(),
            a.tagged_peek(Source::Any, Tag(1)).err(),
        ]
    }
    under(Plan { refuse: Every::Nth(1), ..Plan::new(1) }, |world| {
        let refused = all(world);
        assert!(refused.iter().all(|error| *error == Some(PostError::Again)), "{refused:?}");
        assert_eq!(world.injected().refused, refused.len() as u64);
        assert_eq!(world.a.cq().in_flight(), 0);
    });
    // Without a fault, every post succeeds.
    under(Plan::new(1), |world| assert!(all(world).iter().all(Option::is_none)));
}

#[test]
fn refused_operation_can_be_posted_again() {
    under(Plan { refuse: Every::About(2), ..Plan::new(9) }, |world| {
        for round in 0..50 {
            let received = world.b.recv(Source::Any, bytes(0, 200)).unwrap();
            let sent =
                crate::soft::faults::post(world.a.cq(), bytes(round, 4 * round), |buf| world.a.send(world.to_b, buf));
            let (buf, result) = end(world.b.cq(), received);
            assert_eq!(buf[..result.unwrap().len], bytes(round, 4 * round)[..]);
            assert!(end(world.a.cq(), sent).1.is_ok());
        }
        assert!(world.injected().refused > 10);
    });
}

//! Members that go: nobody waits for them in vain, and every buffer comes back once.

use loom_core::collective::ReduceOp;
use loom_core::error::{OpenError, PostError};
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::soft::{Every, Plan};
use loom_core::{Done, Errno, OpKey, Spins, scope};

use crate::world::{Buf, Group, LIMIT, Members, Queue, join, with_room};

/// A member's number, and room for a sum.
fn number(group: &Group) -> Buf {
    with_room(&[group.rank() as u64], 1)
}

fn post_sums(members: &Members, groups: &[Group]) -> Vec<OpKey> {
    let post = |group: &Group| members.post(number(group), |buf| group.all_reduce(ReduceOp::<u64>::SUM, buf));
    groups.iter().map(post).collect()
}

fn errno(done: &Done<Buf>) -> Option<Errno> {
    done.result().err().map(|error| error.errno)
}

fn finish(cq: &Queue, key: OpKey) -> Done<Buf> {
    cq.finish(key, LIMIT).expect("it ends")
}

#[test]
fn operations_end_with_an_error_when_a_member_leaves_that_has_called() {
    let members = Members::new(4);
    let mut groups = members.join();
    let keys = post_sums(&members, &groups[1..]);
    let last = groups.pop().unwrap();
    drop(last);
    let ends: Vec<_> = keys.into_iter().map(|key| finish(&members.cq, key)).collect();
    let errors: Vec<_> = ends.iter().map(errno).collect();
    assert_eq!(errors, [Some(Errno::ECONNRESET), Some(Errno::ECONNRESET), Some(Errno::ECANCELED)]);
    for (rank, done) in (1..).zip(ends) {
        assert_eq!(done.into_buf(), with_room(&[u64::try_from(rank).unwrap()], 1), "it comes back as it was");
    }
    for group in &groups {
        assert_eq!(group.is_joined(), Err(Errno::ECONNRESET));
        let rejected = group.all_reduce(ReduceOp::<u64>::SUM, number(group)).unwrap_err();
        assert_eq!((rejected.error, rejected.buf), (PostError::Errno(Errno::ECONNRESET), number(group)));
    }
}

#[test]
fn operations_end_with_an_error_when_a_member_leaves_that_has_not_called() {
    let members = Members::new(3);
    let mut groups = members.join();
    let keys = post_sums(&members, &groups[..2]);
    drop(groups.pop());
    for key in keys {
        assert_eq!(errno(&finish(&members.cq, key)), Some(Errno::ECONNRESET));
    }
}

#[test]
fn members_that_leave_after_the_last_operation_do_not_spoil_it_for_others() {
    let members = Members::new(4);
    let mut groups = members.join();
    let keys = post_sums(&members, &groups);
    // Nobody has polled yet.
    groups.truncate(1);
    for (rank, key) in keys.into_iter().enumerate() {
        let (buf, result) = finish(&members.cq, key).into_parts();
        assert_eq!((result.map(|transfer| transfer.len()), buf), (Ok(16), crate::world::bytes(&[rank as u64, 6])));
    }
}

/// What is borrowed for an operation is free again when the scope ends, whatever was forgotten in it.
#[test]
fn operations_end_with_an_error_when_the_scope_of_a_member_ends_that_has_forgotten_its_group() {
    let mut members = Members::new(3);
    drop(members.endpoints.pop());
    let mut borrowed = with_room(&[2_u64], 1);
    let mut keys = Vec::new();
    let mut groups = Vec::new();
    scope(|scope| {
        let domain = scope.domain(&members.domain);
        let av = Av::open(&domain, 3).unwrap();
        let cq = Cq::<_, &mut [u8]>::open(&domain, CqAttr::new(8)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        members.av.insert(&endpoint.address().unwrap()).unwrap();
        let mut set = av.set_in(3, allocator_api2::alloc::Global).unwrap();
        for peer in members.av.peers() {
            let peer = av.insert(&members.av.address(peer).unwrap().unwrap()).unwrap();
            assert!(set.insert(peer).unwrap());
        }
        let group = endpoint.join_collective(&set).unwrap();
        groups = join(&members);
        let key = cq.post(borrowed.as_mut_slice(), LIMIT, |buf| group.all_reduce(ReduceOp::<u64>::SUM, buf)).unwrap();
        assert!(cq.wait(key, Spins(10)).unwrap().is_none());
        keys.push(members.post(number(&groups[0]), |buf| groups[0].all_reduce(ReduceOp::<u64>::SUM, buf)));
        std::mem::forget(group);
    });
    assert_eq!(borrowed, with_room(&[2_u64], 1));
    borrowed.fill(0);
    assert_eq!(errno(&finish(&members.cq, keys[0])), Some(Errno::ECONNRESET));
    assert_eq!(groups[1].barrier(), Err(PostError::Errno(Errno::ECONNRESET)));
}

#[test]
fn members_that_wait_for_one_that_closes_before_it_joins_are_told() {
    let mut members = Members::new(3);
    let last = members.endpoints.pop().unwrap();
    let groups = join(&members);
    assert!(groups.iter().all(|group| group.is_joined() == Ok(false)));
    assert_eq!(groups[0].barrier(), Err(PostError::Again));
    drop(last);
    assert!(groups.iter().all(|group| group.is_joined() == Err(Errno::ECONNRESET)));
    assert_eq!(groups[0].barrier(), Err(PostError::Errno(Errno::ECONNRESET)));
    let late = members.endpoints[0].join_collective(&members.set());
    assert_eq!(late.map(|_| ()), Err(OpenError::Errno(Errno::EHOSTUNREACH)));
}

/// The third post of each is its last.
#[test]
fn operations_end_with_an_error_when_a_member_is_killed() {
    let members = Members::with_faults(3, Some(Plan::new(7).kill(Every::Nth(3))));
    let groups = members.join();
    for _ in 0..2 {
        members.all(post_sums(&members, &groups));
    }
    let killed = groups[0].all_reduce(ReduceOp::<u64>::SUM, number(&groups[0])).unwrap_err();
    assert_eq!(killed.error, PostError::Errno(Errno::ESHUTDOWN));
    for group in &groups[1..] {
        assert_eq!(group.is_joined(), Err(Errno::ECONNRESET));
    }
    drop(groups);
}

#[test]
fn operations_end_with_an_error_when_the_call_of_a_member_is_lost() {
    let members = Members::with_faults(3, Some(Plan::new(7).lose(Every::Nth(2))));
    let groups = members.join();
    members.all(post_sums(&members, &groups));
    let lost = members.post(number(&groups[0]), |buf| groups[0].all_reduce(ReduceOp::<u64>::SUM, buf));
    assert_eq!(errno(&finish(&members.cq, lost)), Some(Errno::ECONNABORTED));
    assert_eq!(groups[1].barrier(), Err(PostError::Errno(Errno::ECONNRESET)));
    assert_eq!(members.network.injected().lost, 1);
}

#[test]
fn the_places_of_groups_that_all_members_have_left_are_used_again() {
    let members = Members::new(2);
    for _ in 0..5 {
        let (first, second) = (members.join(), members.join());
        let full = members.endpoints[0].join_collective(&members.set());
        assert_eq!(full.map(|_| ()), Err(OpenError::Errno(Errno::ENOSPC)));
        for groups in [&second, &first] {
            members.all(post_sums(&members, groups));
        }
    }
}

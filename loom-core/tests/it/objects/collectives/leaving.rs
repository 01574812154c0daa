//! Members that leave: no other member waits in vain, and each buffer is returned once.

use loom_core::av::Av;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::cq::{Cq, CqAttr};
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Every, Plan};
use loom_core::{Binding, Done, Errno, OpKey, Spins, scope};

use crate::objects::collectives::world::{Buf, Group, LIMIT, Members, Queue, join, with_room};

/// A member's number, and room for a sum.
fn number(group: &Group) -> Buf {
    with_room(&[group.rank() as u64], 1)
}

fn post_sums(members: &Members, groups: &[Group]) -> Vec<OpKey> {
    let post = |group: &Group| {
        members.post(number(group), |buf| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf))
    };
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
        let rejected = group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, number(group)).unwrap_err();
        assert_eq!((rejected.error, rejected.value), (PostError::Errno(Errno::ECONNRESET), number(group)));
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
    // Before the first poll.
    groups.truncate(1);
    for (rank, key) in keys.into_iter().enumerate() {
        let (buf, result) = finish(&members.cq, key).into_parts();
        assert_eq!(
            (result.map(|transfer| transfer.len), buf),
            (Ok(16), crate::objects::collectives::world::bytes(&[rank as u64, 6]))
        );
    }
}

/// A scope that ends frees the borrowed buffers of its operations, even if objects were forgotten
/// in it.
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
        for peer in members.av.peer_table().iter() {
            let peer = av.insert(&members.av.address(peer).unwrap().unwrap()).unwrap();
            assert!(set.insert(peer).unwrap());
        }
        let group = endpoint.join_collective(&set).unwrap();
        groups = join(&members);
        let key = cq
            .post(borrowed.as_mut_slice(), LIMIT, |buf| {
                group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf)
            })
            .unwrap();
        assert!(cq.wait(key, Spins(10)).unwrap().is_none());
        keys.push(
            members
                .post(number(&groups[0]), |buf| groups[0].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf)),
        );
        std::mem::forget(group);
    });
    assert_eq!(borrowed, with_room(&[2_u64], 1));
    borrowed.fill(0);
    assert_eq!(errno(&finish(&members.cq, keys[0])), Some(Errno::ECONNRESET));
    assert_eq!(groups[1].barrier(), Err(PostError::Errno(Errno::ECONNRESET)));
}

#[test]
fn members_get_an_error_if_another_closes_before_it_joins() {
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

/// One member has a plan.
#[test]
fn waits_for_a_member_end_with_an_error_when_it_is_killed() {
    let mut members = Members::new(3);
    drop(members.endpoints.pop());
    let doomed = members.network.info_with_faults(Plan { kill: Every::Nth(1), ..Plan::new(7) });
    members.endpoints.push(members.cq.endpoint(Binding::to(&members.av).info(doomed.clone())).unwrap());
    members.av.insert(&members.endpoints[2].address().unwrap()).unwrap();
    let groups = join(&members);
    let keys = post_sums(&members, &groups[..2]);
    assert!(members.cq.wait(keys[0], Spins(10)).unwrap().is_none());
    let killed = groups[2].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, number(&groups[2])).unwrap_err();
    assert_eq!((killed.error, killed.value), (PostError::Errno(Errno::ESHUTDOWN), number(&groups[2])));
    for (rank, key) in keys.into_iter().enumerate() {
        let done = finish(&members.cq, key);
        assert_eq!(errno(&done), Some(Errno::ECONNRESET));
        assert_eq!(done.into_buf(), with_room(&[rank as u64], 1));
    }
    assert_eq!(groups[0].is_joined(), Err(Errno::ECONNRESET));
    // The others find a new group in its place, which is not the dead member's.
    let dead = groups.into_iter().next_back();
    drop(members.endpoints.pop());
    let set = {
        let mut set = members.av.set_in(2, allocator_api2::alloc::Global).unwrap();
        for endpoint in &members.endpoints {
            assert!(set.insert(members.av.find(&endpoint.address().unwrap()).unwrap()).unwrap());
        }
        set
    };
    let again: Vec<_> = members.endpoints.iter().map(|endpoint| endpoint.join_collective(&set).unwrap()).collect();
    assert!(again.iter().all(|group| group.is_joined() == Ok(true)));
    assert_eq!(dead.map(|dead| dead.is_joined()), Some(Err(Errno::ESHUTDOWN)));
}

#[test]
fn operations_end_with_an_error_when_the_call_of_a_member_is_lost() {
    let members = Members::with_faults(3, Some(Plan { lose: Every::Nth(2), ..Plan::new(7) }));
    let groups = members.join();
    members.all(post_sums(&members, &groups));
    let lost =
        members.post(number(&groups[0]), |buf| groups[0].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf));
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
        assert_eq!(full.map(|_| ()), Err(OpenError::Limit("NetworkAttr::groups")));
        for groups in [&second, &first] {
            members.all(post_sums(&members, groups));
        }
    }
}

/// Runs operations under a plan. Each ends once, and those that succeed return the expected
/// elements.
fn play(size: usize, plan: Plan, seed: u64) -> u64 {
    let members = Members::with_faults(size, Some(plan));
    let groups = members.join();
    let (mut ended, mut posted) = (0, 0);
    'rounds: for round in 0..12_u64 {
        let mut keys = Vec::new();
        for group in &groups {
            let buf = with_room(&[round * seed + group.rank() as u64], size);
            match members.cq.post(buf, Spins(100), |buf| group.post(Collective::all_gather::<u64>(), 0, buf)) {
                Ok(key) => keys.push(key),
                Err(refused) => assert!(refused.value.len() == 8 * (1 + size), "the buffer comes back"),
            }
        }
        posted += keys.len();
        for key in keys {
            let Some(done) = members.cq.wait(key, Spins(1000)).unwrap() else {
                // If a member was refused for good, the others wait for it and end with their
                // groups.
                drop(groups);
                while ended < posted {
                    match members.cq.poll().unwrap() {
                        Some(loom_core::Completion::Op(done)) => assert!(done.result().is_err()),
                        other => panic!("{other:?}: {ended} of {posted} have ended"),
                    }
                    ended += 1;
                }
                break 'rounds;
            };
            ended += 1;
            if done.result().is_ok() {
                let all: Vec<u64> = (0..size as u64).map(|rank| round * seed + rank).collect();
                assert_eq!(done.into_buf()[8..], crate::objects::collectives::world::bytes(&all));
            }
        }
    }
    assert_eq!((ended, members.cq.in_flight()), (posted, 0));
    members.network.injected().total()
}

#[test]
fn every_operation_ends_once_whatever_is_refused_failed_lost_or_killed() {
    let mut injected = 0;
    for seed in 1..40 {
        let plan = Plan::new(seed);
        let about = Every::About(u32::try_from(5 + seed % 20).unwrap());
        for (at, plan) in [
            Plan { fail: about, ..plan },
            Plan { lose: about, ..plan },
            Plan { kill: about, ..plan },
            Plan { refuse: about, lose: about, fail: about, ..plan },
        ]
        .into_iter()
        .enumerate()
        {
            injected += play([2, 3, 5, 16][at], plan, seed);
        }
    }
    assert!(injected > 100, "plans that never strike test nothing");
}

//! Refused operations, the return of their buffers, and groups side by side.

use allocator_api2::alloc::Global;
use loom_core::atomic::Complex;
use loom_core::av::Av;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::engine::op_table::Direction;
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Plan, RequiredModes};
use loom_core::vocabulary::{AtomicOp, CollectiveOp, Datatype};
use loom_core::{Caps, Errno, Hints};

use crate::objects::collectives::world::{Buf, LIMIT, Members, bytes, join, network, with_room};

#[test]
fn a_member_has_four_operations_under_way_which_end_in_their_order() {
    let members = Members::new(2);
    let groups = members.join();
    let number = |at: u64| with_room(&[at], 1);
    let first: Vec<_> =
        (0..4).map(|at| groups[0].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, number(at)).unwrap()).collect();
    let rejected = groups[0].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, number(4)).unwrap_err();
    assert_eq!((rejected.error, rejected.value), (PostError::Again, number(4)));
    for (at, key) in (0..).zip(first) {
        let second = groups[1].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, number(10 * at)).unwrap();
        for (mine, key) in [(at, key), (10 * at, second)] {
            let done = members.cq.finish(key, LIMIT).unwrap();
            assert_eq!(done.into_buf(), bytes(&[mine, 11 * at]));
        }
    }
    assert!(groups[0].barrier().is_ok(), "there is room again");
}

#[test]
fn calls_that_differ_fail_for_every_member_and_keep_the_buffers() {
    let members = Members::new(3);
    let groups = members.join();
    let buf = || with_room(&[1_u32, 2], 2);
    let differing: [fn(&crate::objects::collectives::world::Group, Buf) -> _; 4] = [
        |group, buf| group.post(Collective::all_reduce(ReduceOp::<u32>::MAX), 0, buf),
        |group, buf| group.post(Collective::all_reduce(ReduceOp::<i32>::SUM), 0, buf),
        |group, mut buf| group.post(Collective::all_reduce(ReduceOp::<u32>::SUM), 0, (buf.truncate(8), buf).1),
        |group, buf| group.post(Collective::broadcast::<u32>(), 1, buf),
    ];
    for differ in differing {
        let mut keys = vec![differ(&groups[0], buf()).unwrap()];
        keys.extend(
            groups[1..].iter().map(|group| group.post(Collective::all_reduce(ReduceOp::<u32>::SUM), 0, buf()).unwrap()),
        );
        for key in keys {
            let (after, result) = members.cq.finish(key, LIMIT).unwrap().into_parts();
            assert_eq!(result.map(|_| ()).map_err(|error| error.errno), Err(Errno::EINVAL));
            assert!(buf().starts_with(&after));
        }
    }
    let keys: Vec<_> =
        groups.iter().map(|group| group.post(Collective::broadcast::<u32>(), 1, buf()).unwrap()).collect();
    assert_eq!(members.all(keys).len(), 3, "and the group goes on");
}

#[test]
fn buffers_that_do_not_fit_the_operation_come_back() {
    let members = Members::new(3);
    let groups = members.join();
    let [group, other, _] = groups.as_slice() else { panic!("three") };
    let not_elements = PostError::NotElements { size: 4 };
    let refused = [
        (group.post(Collective::broadcast::<u32>(), 0, vec![0; 6]), not_elements),
        (group.post(Collective::broadcast::<u32>(), 3, vec![0; 4]), PostError::NotMember),
        (group.post(Collective::broadcast::<u32>(), 0, vec![]), not_elements),
        (group.post(Collective::all_reduce(ReduceOp::<u32>::SUM), 0, vec![0; 12]), not_elements),
        (group.post(Collective::reduce(ReduceOp::<u32>::SUM), 0, vec![0; 4]), not_elements),
        (group.post(Collective::reduce_scatter(ReduceOp::<u32>::SUM), 0, vec![0; 12]), not_elements),
        (group.post(Collective::all_gather::<u32>(), 0, vec![0; 12]), not_elements),
        (group.post(Collective::gather::<u32>(), 0, vec![0; 4]), not_elements),
        (group.post(Collective::scatter::<u32>(), 0, vec![0; 12]), not_elements),
        (group.post(Collective::all_to_all::<u32>(), 0, vec![0; 12]), not_elements),
        (other.post(Collective::gather::<u32>(), 0, vec![0; 5]), not_elements),
        (group.post(Collective::scatter::<u32>(), 9, vec![0; 4]), PostError::NotMember),
    ];
    for (at, (result, error)) in refused.into_iter().enumerate() {
        let rejected = result.expect_err("it is refused");
        assert_eq!(rejected.error, error, "{at}");
    }
    assert_eq!(group.broadcast_value(3, 1_u8), Err(PostError::NotMember));
    assert_eq!(members.cq.in_flight(), 0);
}

#[test]
fn groups_have_their_own_order_also_where_they_have_the_same_members() {
    let members = Members::new(3);
    let (first, second) = (members.join(), members.join());
    // One group continues while the other one waits, and the members call in another order.
    let waiting: Vec<_> = first[..2].iter().map(|group| group.all_reduce_value(ReduceOp::SUM, 1_u8).unwrap()).collect();
    let going: Vec<_> =
        second.iter().rev().map(|group| group.all_reduce_value(ReduceOp::SUM, 10_u8).unwrap()).collect();
    let value = |key| members.cq.wait_value(key, LIMIT).unwrap().map(|fetched| fetched.value::<u8>().unwrap());
    for key in going {
        assert_eq!(value(key), Some(Some(30)));
    }
    let last = first[2].all_reduce_value(ReduceOp::SUM, 1_u8).unwrap();
    for key in waiting.into_iter().chain([last]) {
        assert_eq!(value(key), Some(Some(3)));
    }
}

/// The newer group has a slot of the network before that of the older group.
#[test]
fn members_that_join_two_groups_of_the_same_peers_mean_the_same_by_the_first() {
    let members = Members::new(2);
    let set = members.set();
    let join = |at: usize| members.endpoints[at].join_collective(&set).unwrap();
    let before = members.join();
    let first = join(0);
    drop(before);
    let second = join(0);
    let (others_first, others_second) = (join(1), join(1));
    let sums = [(&first, 1_u8), (&second, 10), (&others_first, 2), (&others_second, 20)];
    let keys = sums.map(|(group, value)| group.all_reduce_value(ReduceOp::SUM, value).unwrap());
    let value = |key| members.cq.wait_value(key, LIMIT).unwrap().unwrap().value::<u8>().unwrap();
    assert_eq!(keys.map(value), [Some(3), Some(30), Some(3), Some(30)]);
}

#[test]
fn ranks_are_those_of_the_set_which_need_not_have_every_peer() {
    let members = Members::new(4);
    let peers: Vec<_> = members.av.peer_table().iter().collect();
    let mut set = members.av.set_in(4, Global).unwrap();
    for at in [3, 0, 2] {
        assert!(set.insert(peers[at]).unwrap());
    }
    let joined = |at: usize| members.endpoints[at].join_collective(&set).unwrap();
    let groups = [joined(0), joined(2), joined(3)];
    assert_eq!(groups.each_ref().map(|group| group.rank()), [1, 2, 0]);
    let post = |group: &crate::objects::collectives::world::Group| {
        group.post(Collective::all_gather::<u8>(), 0, vec![u8::try_from(group.rank()).unwrap(), 9, 9, 9])
    };
    let keys = groups.iter().map(|group| post(group).unwrap()).collect();
    assert_eq!(members.all(keys), [[1, 0, 1, 2], [2, 0, 1, 2], [0, 0, 1, 2]]);
    let outside = members.endpoints[1].join_collective(&set);
    assert_eq!(outside.map(|_| ()), Err(OpenError::NotMember));
    assert!(members.av.remove(peers[2]));
    let stale = members.endpoints[0].join_collective(&set);
    assert_eq!(stale.map(|_| ()), Err(OpenError::UnknownPeer));
}

#[test]
fn a_network_without_groups_grants_no_collective_operations() {
    let none = network(2, 0);
    let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
    assert!(none.query(&hints).is_err());
    let domain = Domain::open(&none.info()).unwrap();
    assert_eq!(domain.query_collective(Collective::BARRIER), Err(Errno::EOPNOTSUPP));
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Buf>::open(&domain, CqAttr::new(4)).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();
    let mut set = av.set_in(2, Global).unwrap();
    assert!(set.insert(av.insert(&endpoint.address().unwrap()).unwrap()).unwrap());
    let joined = endpoint.join_collective(&set);
    assert_eq!(joined.map(|_| ()), Err(OpenError::NotGranted(Caps::COLLECTIVE)));
}

#[test]
fn a_domain_reports_its_collectives_and_member_limit() {
    let members = Members::new(5);
    let granted = [
        Collective::BARRIER,
        Collective::broadcast::<u128>(),
        Collective::all_reduce(ReduceOp::<Complex<f64>>::PROD),
        Collective::reduce_scatter(ReduceOp::<i8>::BXOR),
        Collective::all_to_all::<f32>(),
    ];
    for collective in granted {
        assert_eq!(members.domain.query_collective(collective).map(|attr| attr.max_members), Ok(5), "{collective:?}");
    }
}

/// Contexts in memory. A call with a value stores its context apart from the value.
#[test]
fn operations_work_where_contexts_are_memory() {
    let plan = Plan { required: RequiredModes::LARGE_CONTEXTS, ..Plan::new(0) };
    let members = Members::with_faults(3, Some(plan));
    let groups = join(&members);
    let keys: Vec<_> =
        groups.iter().map(|group| group.all_reduce_value(ReduceOp::MAX, group.rank() as u64).unwrap()).collect();
    for key in keys {
        let fetched = members.cq.wait_value(key, LIMIT).unwrap().unwrap();
        assert_eq!(fetched.value::<u64>(), Ok(Some(2)));
    }
    let keys = groups
        .iter()
        .map(|group| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, with_room(&[1_u64], 1)).unwrap())
        .collect();
    assert_eq!(members.all(keys), [bytes(&[1_u64, 3]), bytes(&[1_u64, 3]), bytes(&[1_u64, 3])]);
}

#[test]
fn operations_complete_into_the_queue_of_transmits() {
    let network = network(2, 1);
    let domain = Domain::open(&crate::objects::collectives::world::info(&network)).unwrap();
    let (av, cq) = (
        Av::open(&domain, 2).unwrap(),
        Cq::<_, Buf>::open(&domain, CqAttr { separate: true, ..CqAttr::new(8) }).unwrap(),
    );
    let endpoints = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
    let mut set = av.set_in(2, Global).unwrap();
    for endpoint in &endpoints {
        assert!(set.insert(av.insert(&endpoint.address().unwrap()).unwrap()).unwrap());
    }
    let groups = endpoints.each_ref().map(|endpoint| endpoint.join_collective(&set).unwrap());
    for group in &groups {
        group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, with_room(&[1_u64], 1)).unwrap();
    }
    assert!(cq.poll_direction(Direction::Receive).unwrap().is_none());
    for _ in &groups {
        match cq.poll_direction(Direction::Transmit).unwrap() {
            Some(loom_core::Completion::Op(done)) => assert_eq!(done.into_buf(), bytes(&[1_u64, 2])),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn operations_by_their_numbers_are_those_that_have_types() {
    let reduces = [CollectiveOp::ALLREDUCE, CollectiveOp::REDUCE, CollectiveOp::REDUCE_SCATTER];
    let mut there = 0;
    let plain = (0..=Datatype::DOUBLE_COMPLEX.as_raw() + 40).map(Datatype::from_raw);
    for datatype in plain.filter(|datatype| *datatype != Datatype::VOID).chain([Datatype::VOID]) {
        for op in (0..20).map(CollectiveOp::from_raw) {
            for reduction in (0..=AtomicOp::NOOP.as_raw()).map(AtomicOp::from_raw) {
                let Some(collective) = Collective::new(op, datatype, reduction) else { continue };
                there += 1;
                assert_eq!((collective.op(), collective.datatype(), collective.reduce_op()), (op, datatype, reduction));
                assert_eq!(reduces.contains(&op), reduction != AtomicOp::NOOP, "{collective:?}");
                assert_eq!(op == CollectiveOp::BARRIER, datatype.size().is_none(), "{collective:?}");
            }
        }
    }
    // Five that move, of 14 types. Three that reduce: 10 of 10 integers, 7 of 2 floats, 5 of 2
    // complex numbers. And the barrier.
    assert_eq!(there, 5 * 14 + 3 * (10 * 10 + 7 * 2 + 5 * 2) + 1);
    assert_eq!(Collective::new(CollectiveOp::BARRIER, Datatype::VOID, AtomicOp::NOOP), Some(Collective::BARRIER));
    let bits = |datatype| Collective::new(CollectiveOp::REDUCE, datatype, AtomicOp::BXOR);
    assert_eq!(bits(Datatype::INT16), Some(Collective::reduce(ReduceOp::<i16>::BXOR)));
    assert_eq!(bits(Datatype::FLOAT), None);
}

#[test]
fn an_operation_by_numbers_has_the_result_of_the_typed_one() {
    let members = Members::new(3);
    let groups = members.join();
    let sum = Collective::new(CollectiveOp::ALLREDUCE, Datatype::UINT32, AtomicOp::SUM).unwrap();
    assert_eq!(groups[0].admits(sum, 2), Ok(()));
    let post = |group: &crate::objects::collectives::world::Group| {
        // The last operation, typed, is equal to the untyped one.
        let buf = with_room(&[u32::try_from(group.rank()).unwrap(), 7], 2);
        if group.rank() == 2 {
            group.post(Collective::all_reduce(ReduceOp::<u32>::SUM), 0, buf)
        } else {
            group.post(sum, 0, buf)
        }
    };
    let keys = groups.iter().map(|group| post(group).unwrap()).collect();
    let results: Vec<Buf> = members.all(keys);
    for (rank, result) in (0_u32..).zip(results) {
        assert_eq!(result, bytes(&[rank, 7, 3, 21]));
    }
    assert_eq!(groups[0].post(sum, 0, vec![0; 12]).unwrap_err().error, PostError::NotElements { size: 4 });
    assert_eq!(groups[0].post(sum, 3, vec![0; 8]).unwrap_err().error, PostError::NotMember);
}

#[test]
fn a_barrier_with_a_buffer_gives_it_back_as_it_was() {
    let members = Members::new(2);
    let groups = members.join();
    for buf in [vec![], vec![1, 2, 3]] {
        let keys: Vec<_> =
            groups.iter().map(|group| group.post(Collective::BARRIER, 0, buf.clone()).unwrap()).collect();
        assert_eq!(members.all(keys), [buf.clone(), buf]);
    }
}

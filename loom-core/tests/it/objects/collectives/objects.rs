//! Collective operations beside the endpoint's other objects: registered buffers, counters.

use allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::buffer::Buffer;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, CollectiveGroup, Endpoint};
use loom_core::error::PostError;
use loom_core::registered::Registered;
use loom_core::soft::{Network, NetworkAttr, Plan, RequiredModes, Soft};
use loom_core::vocabulary::Counted;

use crate::objects::collectives::world::{Buf, LIMIT, bytes, info, network, with_room};

/// Joins two endpoints that are not in a vector yet.
fn joined<B: Buffer>(
    av: &Av<'static, Soft<'static>>,
    endpoints: &[Endpoint<'static, Soft<'static>, B>; 2],
) -> [CollectiveGroup<'static, Soft<'static>, B>; 2] {
    let mut set = av.set_in(2, Global).unwrap();
    for endpoint in endpoints {
        assert!(set.insert(av.insert(&endpoint.address().unwrap()).unwrap()).unwrap());
    }
    endpoints.each_ref().map(|endpoint| endpoint.join_collective(&set).unwrap())
}

/// A domain that requires registered buffers.
fn wants_registered_buffers() -> Domain<'static, Soft<'static>> {
    let network = Network::new(NetworkAttr { endpoints: 2, regions: 2, groups: 1, ..NetworkAttr::DEFAULT }).unwrap();
    let modes = RequiredModes::LOCAL_REGISTRATION;
    Domain::open(&network.info_with_faults(Plan { required: modes, ..Plan::new(0) })).unwrap()
}

#[test]
fn buffers_are_registered_where_the_domain_wants_it() {
    let domain = wants_registered_buffers();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, CqAttr::new(8)).unwrap());
    let endpoints = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
    let groups = joined(&av, &endpoints);
    let registered = |value: u64| Registered::new(&domain, with_room(&[value], 1)).unwrap();
    let keys = [1, 2].map(|value| {
        let group = &groups[usize::try_from(value).unwrap() - 1];
        group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, registered(value)).map_err(PostError::from).unwrap()
    });
    for (value, key) in [1_u64, 2].into_iter().zip(keys) {
        assert_eq!(cq.finish(key, LIMIT).unwrap().into_buf().into_inner(), bytes(&[value, 3]));
    }
}

#[test]
fn buffers_that_are_not_registered_come_back_where_the_domain_wants_it() {
    let domain = wants_registered_buffers();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Buf>::open(&domain, CqAttr::new(8)).unwrap());
    let endpoints = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
    let groups = joined(&av, &endpoints);
    let buf = || with_room(&[1_u64], 1);
    let rejected = groups[0].post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf()).unwrap_err();
    assert_eq!((rejected.error, rejected.value), (PostError::NotRegistered, buf()));
    let rejected = groups[1].post(Collective::broadcast::<u64>(), 0, buf()).unwrap_err();
    assert_eq!((rejected.error, rejected.value), (PostError::NotRegistered, buf()));
    // Barriers do not have a buffer.
    for key in groups.each_ref().map(|group| group.barrier().unwrap()) {
        cq.wait_value(key, LIMIT).unwrap().unwrap().result().unwrap();
    }
}

#[test]
fn counters_of_other_operations_do_not_count_them() {
    let network = network(2, 1);
    let domain = Domain::open(&info(&network)).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, CqAttr::new(8)).unwrap());
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let every = Counted::SEND | Counted::RECV | Counted::READ | Counted::WRITE;
    let endpoints =
        [(); 2].map(|()| cq.endpoint(Binding::to(&av).counter(every, &counter)).expect("a counter for all of it"));
    let groups = joined(&av, &endpoints);
    let keys = groups
        .each_ref()
        .map(|group| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, with_room(&[3_u64], 1)).unwrap());
    for key in keys {
        assert_eq!(cq.finish(key, LIMIT).unwrap().into_buf(), bytes(&[3_u64, 6]));
    }
    assert_eq!((counter.read(), counter.read_error()), (0, 0));
    // Control: the counter counts a send.
    let to = av.peer_table().iter().next().unwrap();
    endpoints[1].inject(to, &[]).unwrap();
    assert_eq!(counter.read(), 1);
}

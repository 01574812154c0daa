//! Collective operations over libfabric. `tcp;ofi_rxm` of libfabric 2 has them. Loom does not use
//! those of libfabric 1.17.

use support::report::{self, Section};

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::atomic::{Element, Integer, Ordered};
use loom_core::av::Av;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, CollectiveGroup, Endpoint};
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::{Caps, EndpointAddr, Errno};
use loom_core::{Done, OpKey};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_group::CollectiveError;
use loom_group::collective::{Combine, Running, Sum, Team, TeamAttr};
use loom_group::{PeerIndex, Prepared};
use support::library_version;

type T = Ofi<Local>;
type Buf = Vec<u8>;
type Group = CollectiveGroup<'static, T, Buf>;

const LIMIT: Duration = Duration::from_secs(60);

fn until() -> Instant {
    Instant::now() + LIMIT
}

fn info() -> Info<T> {
    info_with(Caps::MSG | Caps::COLLECTIVE)
}

fn info_with(caps: Caps) -> Info<T> {
    let hints =
        Hints { caps, provider: Some("tcp;ofi_rxm"), node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    T::query(&hints).unwrap().next().expect("both versions have it")
}

/// Returns `true` if loom uses the collective operations of this libfabric.
fn has_them() -> bool {
    library_version().major >= 2 && info().raw().is_tested()
}

struct Members {
    domain: Domain<'static, T>,
    av: Av<'static, T>,
    cq: Cq<'static, T, Buf>,
    endpoints: Vec<Endpoint<'static, T, Buf>>,
}

impl Members {
    fn new(size: usize) -> Self {
        let domain = Domain::open(&info()).unwrap();
        let av = Av::open(&domain, size).unwrap();
        let cq = Cq::open(&domain, CqAttr::new(64)).unwrap();
        let endpoints: Vec<_> = (0..size).map(|_| cq.endpoint(&av).unwrap()).collect();
        for endpoint in &endpoints {
            av.insert(&endpoint.address().unwrap()).unwrap();
        }
        Members { domain, av, cq, endpoints }
    }

    fn join(&self) -> Vec<Group> {
        let groups = self.begin_join();
        let until = until();
        while !groups.iter().all(|group| group.is_joined().unwrap()) {
            assert!(self.cq.poll().unwrap().is_none() && Instant::now() < until);
        }
        groups
    }

    fn begin_join(&self) -> Vec<Group> {
        let mut set = self.av.set_in(self.endpoints.len(), Global).unwrap();
        for endpoint in &self.endpoints {
            assert!(set.insert(self.av.find(&endpoint.address().unwrap()).unwrap()).unwrap());
        }
        self.endpoints.iter().map(|endpoint| endpoint.join_collective(&set).unwrap()).collect()
    }

    fn finish(&self, key: OpKey) -> Done<Buf> {
        self.cq.finish(key, until()).unwrap()
    }

    fn all(
        &self,
        groups: &[Group],
        buf: impl Fn(usize) -> Buf,
        post: impl Fn(&Group, Buf) -> Result<OpKey, Rejected<Buf>>,
    ) -> Vec<Buf> {
        let post = |group: &Group| self.cq.post(buf(group.rank()), until(), |buf| post(group, buf)).unwrap();
        let keys: Vec<_> = groups.iter().map(post).collect();
        let finish = |key| {
            let (buf, result) = self.finish(key).into_parts();
            assert_eq!(result.unwrap().len, buf.len());
            buf
        };
        keys.into_iter().map(finish).collect()
    }
}

fn numbers(rank: usize, count: usize) -> Vec<u64> {
    (0..count as u64).map(|at| (rank as u64 + 1) * 1000 + at).collect()
}

fn bytes(numbers: &[u64]) -> Buf {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn with_room(numbers: &[u64], room: usize) -> Buf {
    let mut buf = bytes(numbers);
    buf.resize(buf.len() + room * 8, 0xa5);
    buf
}

fn then(numbers: &[u64], results: &[u64]) -> Buf {
    [bytes(numbers), bytes(results)].concat()
}

fn of_each_size(test: impl Fn(&Members, &[Group], usize, usize)) {
    for size in 1..=7 {
        let members = Members::new(size);
        let groups = members.join();
        for (count, root) in [(1, 0), (3, size - 1), (290, size / 2)] {
            test(&members, &groups, count, root);
        }
    }
}

fn barriers_end() {
    of_each_size(|members, groups, _, _| {
        let keys: Vec<_> = groups.iter().map(|group| members.cq.retry(until(), || group.barrier()).unwrap()).collect();
        for key in keys {
            assert!(members.cq.wait_value(key, until()).unwrap().unwrap().result().is_ok());
        }
    });
}

fn a_removed_member_stays_in_its_groups() {
    let members = Members::new(2);
    let groups = members.join();
    let removed = members.av.find(&members.endpoints[1].address().unwrap()).unwrap();
    assert!(members.av.remove(removed));
    // Unused addresses: more than the places that a vector gives to removed peers.
    for port in 1..100 {
        let address: EndpointAddr = SocketAddr::from(([127, 0, 0, 2], port)).into();
        if let Ok(peer) = members.av.insert(&address) {
            assert!(members.av.remove(peer));
        }
    }
    for _ in 0..3 {
        let keys: Vec<_> = groups.iter().map(|group| members.cq.retry(until(), || group.barrier()).unwrap()).collect();
        for key in keys {
            members.cq.finish_value(key, until()).unwrap().result().unwrap();
        }
    }
}

fn broadcast_reaches_every_member() {
    of_each_size(|members, groups, count, root| {
        let mine = |rank| bytes(&numbers(rank, count * groups.len()));
        let got = members.all(groups, mine, |group, buf| group.post(Collective::broadcast::<u64>(), root, buf));
        assert_eq!(got, vec![mine(root); groups.len()], "{count} of {root}");
    });
}

fn all_members_have_the_sum() {
    of_each_size(|members, groups, count, _| {
        let mine = |rank| numbers(rank, count);
        let sum: Vec<u64> = (0..count).map(|at| (0..groups.len()).map(|rank| mine(rank)[at]).sum()).collect();
        let got = members.all(
            groups,
            |rank| with_room(&mine(rank), count),
            |group, buf| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf),
        );
        assert_eq!(got, (0..groups.len()).map(|rank| then(&mine(rank), &sum)).collect::<Vec<_>>(), "{count}");
    });
}

fn all_members_have_the_greatest_value() {
    of_each_size(|members, groups, _, _| {
        let value =
            |group: &Group| members.cq.retry(until(), || group.all_reduce_value(ReduceOp::MAX, group.rank() as u64));
        let keys: Vec<_> = groups.iter().map(|group| value(group).unwrap()).collect();
        for key in keys {
            let max = members.cq.wait_value(key, until()).unwrap().unwrap().value::<u64>();
            assert_eq!(max, Ok(Some(groups.len() as u64 - 1)));
        }
    });
}

fn all_gather_gives_each_member_all_parts() {
    of_each_size(|members, groups, count, _| {
        let (size, mine) = (groups.len(), |rank| numbers(rank, count));
        let all: Vec<u64> = (0..size).flat_map(mine).collect();
        let got = members.all(
            groups,
            |rank| with_room(&mine(rank), size * count),
            |group, buf| group.post(Collective::all_gather::<u64>(), 0, buf),
        );
        assert_eq!(got, (0..size).map(|rank| then(&mine(rank), &all)).collect::<Vec<_>>(), "{count}");
    });
}

fn scatter_gives_each_member_its_part() {
    of_each_size(|members, groups, count, root| {
        let many = numbers(root, count * groups.len());
        let own = |rank: usize| if rank == root { &many[..] } else { &[] };
        let got = members.all(
            groups,
            |rank| with_room(own(rank), count),
            |group, buf| group.post(Collective::scatter::<u64>(), root, buf),
        );
        let part = |rank: usize| &many[rank * count..(rank + 1) * count];
        let expected: Vec<_> = (0..groups.len()).map(|rank| then(own(rank), part(rank))).collect();
        assert_eq!(got, expected, "{count} of {root}");
    });
}

/// Reduces two elements at three members. Granted operations are computed, and others refused.
/// Returns `true` if it was granted.
fn reduction<E: Element + PartialEq>(
    members: &Members,
    groups: &[Group],
    op: ReduceOp<E>,
    elements: [E; 3],
    expected: E,
) -> bool {
    let granted = members.domain.query_collective(Collective::all_reduce(op)).is_ok();
    let post = |group: &Group| group.all_reduce_value(op, elements[group.rank()]);
    if !granted {
        assert!(matches!(post(&groups[0]), Err(PostError::Errno(_))), "{op:?}");
        return false;
    }
    let keys: Vec<_> = groups.iter().map(|group| members.cq.retry(until(), || post(group)).unwrap()).collect();
    for key in keys {
        let value = members.cq.wait_value(key, until()).unwrap().unwrap().value::<E>();
        assert_eq!(value, Ok(Some(expected)), "{op:?} of {}", std::any::type_name::<E>());
    }
    true
}

fn of_ordered<E: Ordered + PartialEq + From<u8>>(members: &Members, groups: &[Group]) -> usize {
    let e = |number: u8| E::from(number);
    let granted = [
        reduction(members, groups, ReduceOp::<E>::SUM, [e(1), e(2), e(3)], e(6)),
        reduction(members, groups, ReduceOp::<E>::PROD, [e(2), e(3), e(4)], e(24)),
        reduction(members, groups, ReduceOp::<E>::MIN, [e(7), e(2), e(9)], e(2)),
        reduction(members, groups, ReduceOp::<E>::MAX, [e(7), e(2), e(9)], e(9)),
        reduction(members, groups, ReduceOp::<E>::LOR, [e(0), e(2), e(0)], e(1)),
        reduction(members, groups, ReduceOp::<E>::LAND, [e(3), e(2), e(0)], e(0)),
        reduction(members, groups, ReduceOp::<E>::LXOR, [e(3), e(2), e(5)], e(1)),
    ];
    granted.into_iter().filter(|granted| *granted).count()
}

fn of_integers<E: Integer + PartialEq + From<u8>>(members: &Members, groups: &[Group]) -> usize {
    let e = |number: u8| E::from(number);
    let granted = [
        reduction(members, groups, ReduceOp::<E>::BOR, [e(1), e(2), e(12)], e(15)),
        reduction(members, groups, ReduceOp::<E>::BAND, [e(7), e(6), e(12)], e(4)),
        reduction(members, groups, ReduceOp::<E>::BXOR, [e(1), e(3), e(12)], e(14)),
    ];
    of_ordered::<E>(members, groups) + granted.into_iter().filter(|granted| *granted).count()
}

fn every_reduction_equals_a_plain_computation_or_is_refused() {
    let members = Members::new(3);
    let groups = members.join();
    let granted = [
        of_integers::<u8>(&members, &groups),
        of_integers::<u16>(&members, &groups),
        of_integers::<u32>(&members, &groups),
        of_integers::<u64>(&members, &groups),
        of_integers::<i16>(&members, &groups),
        of_integers::<i32>(&members, &groups),
        of_integers::<i64>(&members, &groups),
        of_integers::<u128>(&members, &groups),
        of_integers::<i128>(&members, &groups),
        of_ordered::<f32>(&members, &groups),
        of_ordered::<f64>(&members, &groups),
    ];
    println!("reductions by type: {granted:?}");
    assert!(granted[..7].iter().all(|count| *count == 10), "{granted:?}");
}

fn collectives_that_the_provider_lacks_or_limits_are_refused() {
    let members = Members::new(3);
    let groups = members.join();
    let refused = [
        groups[0].post(Collective::gather::<u64>(), 0, vec![0; 32]),
        groups[0].post(Collective::reduce(ReduceOp::<u64>::SUM), 0, vec![0; 16]),
        groups[0].post(Collective::reduce_scatter(ReduceOp::<u64>::SUM), 0, vec![0; 32]),
        groups[0].post(Collective::all_to_all::<u64>(), 0, vec![0; 48]),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().error, PostError::Errno(Errno::ENOSYS));
    }
    let long = groups[0].post(Collective::all_gather::<u64>(), 0, vec![0; 4 * (16 << 10) + 32]).unwrap_err();
    assert_eq!(long.error, PostError::Errno(Errno::EMSGSIZE));
    let uneven = groups[0].post(Collective::broadcast::<u64>(), 0, vec![1; 32]).unwrap_err();
    assert_eq!((uneven.error, uneven.value), (PostError::Errno(Errno::EINVAL), vec![1; 32]));
    assert_eq!(members.domain.query_collective(Collective::gather::<u64>()), Err(Errno::ENOSYS));
    assert_eq!(members.cq.in_flight(), 0);
}

/// Checks the longest operations that are accepted.
fn operations_of_16_kib_end() {
    for size in [2, 3, 5] {
        let members = Members::new(size);
        let groups = members.join();
        let mine = |rank| numbers(rank, 2048);
        let got = members.all(
            &groups,
            |rank| with_room(&mine(rank), 2048),
            |group, buf| group.post(Collective::all_reduce(ReduceOp::<u64>::MAX), 0, buf),
        );
        assert_eq!(got, (0..size).map(|rank| then(&mine(rank), &mine(size - 1))).collect::<Vec<_>>());
        let all: Vec<u64> = (0..size).flat_map(mine).collect();
        let got = members.all(
            &groups,
            |rank| with_room(&mine(rank), size * 2048),
            |group, buf| group.post(Collective::all_gather::<u64>(), 0, buf),
        );
        assert_eq!(got, (0..size).map(|rank| then(&mine(rank), &all)).collect::<Vec<_>>());
        let many = numbers(0, 2048 / size * size);
        let own = |rank: usize| if rank == 0 { &many[..] } else { &[] };
        let got = members.all(
            &groups,
            |rank| with_room(own(rank), 2048 / size),
            |group, buf| group.post(Collective::scatter::<u64>(), 0, buf),
        );
        assert_eq!(got.iter().skip(1).flatten().copied().collect::<Buf>(), bytes(&many[2048 / size..]));
        let got =
            members.all(&groups, |_| bytes(&many), |group, buf| group.post(Collective::broadcast::<u64>(), 0, buf));
        assert_eq!(got, vec![bytes(&many); size]);
    }
}

fn an_endpoint_joins_several_groups_one_after_the_other() {
    let members = Members::new(3);
    let mut all = Vec::new();
    for number in 0..8 {
        let groups = members.join();
        let got = members.all(
            &groups,
            |_| with_room(&[number], 1),
            |group, buf| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf),
        );
        assert_eq!(got, vec![then(&[number], &[3 * number]); 3]);
        // The first ones leave, and their places are not reused.
        if number > 3 {
            all.push(groups);
        }
    }
    let got = members.all(
        &all[2],
        |_| with_room(&[1], 1),
        |group, buf| group.post(Collective::all_reduce(ReduceOp::<u64>::SUM), 0, buf),
    );
    assert_eq!(got, vec![then(&[1], &[3]); 3]);
    let mut set = members.av.set_in(3, Global).unwrap();
    members.av.peer_table().iter().for_each(|peer| assert!(set.insert(peer).unwrap()));
    let full = members.endpoints[0].join_collective(&set);
    assert_eq!(full.map(|_| ()), Err(OpenError::Errno(Errno::ENOSPC)));
}

/// Closes an endpoint at any stage of an operation: its buffers return once, and stay unchanged.
fn endpoints_are_closed_in_the_middle_of_operations_and_of_joins() {
    for round in 0..60_usize {
        let mut members = Members::new(3);
        let joined = round % 6 != 5;
        let groups = if joined { members.join() } else { members.begin_join() };
        let count = [1, 100, 1000, 2048][round % 4];
        let mut keys = Vec::new();
        if joined {
            for group in groups.iter().skip(round % 2) {
                let buf = with_room(&numbers(group.rank(), count), 3 * count);
                keys.push(
                    members.cq.post(buf, until(), |buf| group.post(Collective::all_gather::<u64>(), 0, buf)).unwrap(),
                );
            }
        }
        for _ in 0..round {
            if !keys.is_empty() {
                drop(members.cq.wait(keys[0], loom_core::Spins(1)).unwrap().map(|done| done.into_buf()));
            }
            if !members.cq.poll().is_ok_and(|completion| completion.is_none()) {
                break;
            }
        }
        drop(groups);
        // The order differs each time.
        while !members.endpoints.is_empty() {
            let at = round % members.endpoints.len();
            drop(members.endpoints.remove(at));
            let _ = members.cq.poll().unwrap();
        }
        drop(members);
    }
}

fn peers(size: usize) -> Vec<Peers> {
    let prepared: Vec<_> =
        (0..size).map(|_| Prepared::<_, Buf, _>::open(&Domain::open(&info()).unwrap(), size, 64).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address().unwrap()).collect();
    prepared.into_iter().map(|prepared| prepared.connect(&addresses).unwrap()).collect()
}

type Peers = loom_group::Group<'static, T, Buf, Global>;
type Begin<'b> = &'b dyn Fn(&Teams<'_>) -> Result<(), CollectiveError>;
type Teams<'g> = Team<'g, 'static, T, Buf, Global>;
type Run<'t, 'b, E, C> = Running<'t, 'b, 'static, T, Buf, Global, E, C>;

fn open_team(group: &Peers, rank: u32) -> Result<Teams<'_>, CollectiveError> {
    let members = u32::try_from(group.capacity()).unwrap();
    let packets = std::iter::repeat_with(|| Vec::with_capacity(96 << 10));
    // The number has few bits, because tags are not granted here.
    Team::open(group, TeamAttr::new(0).with_packets(2).with_at_once(2), (0..members).map(PeerIndex), rank, packets)
}

fn turn_all<E: loom_group::collective::Element, C: Combine<E>>(mut running: Vec<Run<'_, '_, E, C>>) {
    let until = until();
    while !running.is_empty() {
        assert!(Instant::now() < until);
        running.retain_mut(|one| !one.turn().unwrap());
    }
}

/// Checks teams over an info without tagged messages: each success is that of the provider.
fn teams_use_the_collectives_of_the_provider() {
    for size in 1..=5 {
        let groups = peers(size);
        let join = |group: &Peers| {
            let mut set = group.av().unwrap().set_in(size, Global).unwrap();
            for peer in group.peers() {
                assert!(set.insert(group.peer(peer).unwrap()).unwrap());
            }
            group.endpoint().unwrap().join_collective(&set).unwrap()
        };
        let mut joined: Vec<_> = groups.iter().map(join).collect();
        let team = |(rank, (group, joined))| open_team(group, rank).unwrap().with_provider(joined).unwrap();
        let teams: Vec<_> = (0..).zip(groups.iter().zip(&mut joined)).map(team).collect();
        let root = u32::try_from(size - 1).unwrap();
        // A team has fewer numbers.
        for _ in 0..100 {
            turn_all(teams.iter().map(|team| team.barrier().unwrap()).collect());
        }
        for count in [size, 8 * size, 2048 / size * size] {
            let mine: Vec<_> = (0..size).map(|rank| numbers(rank, count)).collect();
            let mut given = mine.clone();
            turn_all(teams.iter().zip(&mut given).map(|(team, own)| team.broadcast(root, own).unwrap()).collect());
            assert_eq!(given, vec![mine[size - 1].clone(); size]);

            let mut sums = vec![vec![0; count]; size];
            let calls = teams.iter().zip(&mine).zip(&mut sums);
            turn_all(calls.map(|((team, own), out)| team.all_reduce(Sum, own, out).unwrap()).collect());
            let sum: Vec<u64> = (0..count).map(|at| mine.iter().map(|own| own[at]).sum()).collect();
            assert_eq!(sums, vec![sum; size]);

            let mut all = vec![vec![0; count * size]; size];
            let calls = teams.iter().zip(&mine).zip(&mut all);
            turn_all(calls.map(|((team, own), out)| team.all_gather(own, out).unwrap()).collect());
            assert_eq!(all, vec![mine.concat(); size]);

            let part = count / size;
            let mut parts = vec![vec![0; part]; size];
            let calls = teams.iter().zip(&mut parts);
            let given = |team: &Teams<'_>| if team.rank() == root { &mine[size - 1][..] } else { &[] };
            turn_all(calls.map(|(team, out)| team.scatter(root, given(team), out).unwrap()).collect());
            assert_eq!(parts.concat(), mine[size - 1]);
        }
        for group in &groups {
            assert_eq!(group.cq().in_flight(), 0);
        }
    }
}

/// Checks that operations that the provider lacks or limits use messages. Such an info does not
/// grant them, so the result is a typed error.
fn teams_use_messages_for_collectives_the_provider_lacks_or_limits() {
    let long = vec![1_u64; 3000];
    let lacking: [Begin<'_>; 4] = [
        &|team| team.gather(0, &[1_u64], &mut [0; 3]).map(|_| ()),
        &|team| team.all_to_all(&[1_u64; 3], &mut [0; 3]).map(|_| ()),
        // Fewer elements than members.
        &|team| team.broadcast(0, &mut [1_u64; 4]).map(|_| ()),
        // More than 16 KiB.
        &|team| team.all_reduce(Sum, &long, &mut vec![0; 3000]).map(|_| ()),
    ];
    let groups = peers(3);
    let mut set = groups[0].av().unwrap().set_in(3, Global).unwrap();
    groups[0].av().unwrap().peer_table().iter().for_each(|peer| assert!(set.insert(peer).unwrap()));
    let mut joined = groups[0].endpoint().unwrap().join_collective(&set).unwrap();
    for (number, call) in (1..).zip(lacking) {
        let packets = std::iter::repeat_with(|| Vec::with_capacity(96 << 10));
        let attr = TeamAttr::new(number).with_packets(2);
        let team = Team::open(&groups[0], attr, (0..3).map(PeerIndex), 0, packets).unwrap();
        let error = call(&team.with_provider(&mut joined).unwrap()).unwrap_err();
        assert!(matches!(error, CollectiveError::Post { error: PostError::NotGranted(Caps::TAGGED), .. }), "{error:?}");
    }
}

fn collective_operations_are_refused() {
    report::not_granted();
    let members = Members::new(1);
    assert_eq!(members.domain.query_collective(Collective::BARRIER), Err(Errno::EOPNOTSUPP));
    let mut set = members.av.set_in(1, Global).unwrap();
    members.av.peer_table().iter().for_each(|peer| assert!(set.insert(peer).unwrap()));
    let refused = members.endpoints[0].join_collective(&set);
    assert_eq!(refused.map(|_| ()), Err(OpenError::Errno(Errno::EOPNOTSUPP)));
}

/// Checks a refusal: `ofi_rxm` would use an object that the domain lacks.
fn an_endpoint_with_collectives_that_its_domain_lacks_is_refused() {
    let domain = Domain::open(&info_with(Caps::MSG)).unwrap();
    let av = Av::open(&domain, 1).unwrap();
    let cq = Cq::<T, Buf>::open(&domain, 4).unwrap();
    let refused = cq.endpoint(Binding::to(&av).info(info()));
    assert_eq!(refused.map(drop).unwrap_err(), OpenError::NotGranted(Caps::COLLECTIVE));
}

fn cases() -> report::Cases {
    vec![
        (
            "an_endpoint_with_collectives_that_its_domain_lacks_is_refused",
            an_endpoint_with_collectives_that_its_domain_lacks_is_refused,
        ),
        ("barriers_end", barriers_end),
        ("a_removed_member_stays_in_its_groups", a_removed_member_stays_in_its_groups),
        ("broadcast_reaches_every_member", broadcast_reaches_every_member),
        ("all_members_have_the_sum", all_members_have_the_sum),
        ("all_members_have_the_greatest_value", all_members_have_the_greatest_value),
        (
            "every_reduction_equals_a_plain_computation_or_is_refused",
            every_reduction_equals_a_plain_computation_or_is_refused,
        ),
        ("all_gather_gives_each_member_all_parts", all_gather_gives_each_member_all_parts),
        ("scatter_gives_each_member_its_part", scatter_gives_each_member_its_part),
        ("operations_of_16_kib_end", operations_of_16_kib_end),
        (
            "collectives_that_the_provider_lacks_or_limits_are_refused",
            collectives_that_the_provider_lacks_or_limits_are_refused,
        ),
        ("an_endpoint_joins_several_groups_one_after_the_other", an_endpoint_joins_several_groups_one_after_the_other),
        ("teams_use_the_collectives_of_the_provider", teams_use_the_collectives_of_the_provider),
        (
            "teams_use_messages_for_collectives_the_provider_lacks_or_limits",
            teams_use_messages_for_collectives_the_provider_lacks_or_limits,
        ),
        (
            "endpoints_are_closed_in_the_middle_of_operations_and_of_joins",
            endpoints_are_closed_in_the_middle_of_operations_and_of_joins,
        ),
    ]
}

pub(crate) fn section() -> Section {
    const SECTION: &str = "collectives";
    const PROVIDER: &str = "tcp;ofi_rxm";
    let refused: report::Cases = vec![
        (
            "an_endpoint_with_collectives_that_its_domain_lacks_is_refused",
            an_endpoint_with_collectives_that_its_domain_lacks_is_refused,
        ),
        ("collective_operations_are_refused", collective_operations_are_refused),
    ];
    let cases = if has_them() { cases() } else { refused };
    Section { name: SECTION, providers: vec![PROVIDER], trials: report::trials(SECTION, PROVIDER, cases) }
}

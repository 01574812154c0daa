use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom_core::allocator_api2::alloc::Global;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::endpoint::CollectiveGroup;
use loom_core::error::PostError;
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::{Caps, Completion, Domain, Errno, Hints};
use loom_group::CollectiveError;
use loom_group::collective::{
    Associative, BitAnd, BitOr, BitXor, Combine, Element, Max, Min, Product, Running, Sum, Team, TeamAttr,
};
use loom_group::schedule::Blocks;
use loom_group::{PeerIndex, Prepared};

type Side = Soft<'static>;
type Group = loom_group::Group<'static, Side, Vec<u8>, Global>;
type Joined = CollectiveGroup<'static, Side, Vec<u8>>;
type Members<'g> = Team<'g, 'static, Side, Vec<u8>, Global>;
type Run<'t, 'b, E, C> = Running<'t, 'b, 'static, Side, Vec<u8>, Global, E, C>;

/// First peer index of members without a connection: only the provider can run their collectives.
const PROVIDER_ONLY: u32 = 1000;
const BOTH: u32 = 0;

const CAPACITY: usize = 256;

fn groups(n: u32) -> Vec<Group> {
    let network = network(n);
    let hints = Hints { caps: Caps::MSG | Caps::TAGGED | Caps::COLLECTIVE, ..Hints::default() };
    connected(n, |_| Domain::open(&network.query(&hints).unwrap()).unwrap())
}

fn network(n: u32) -> Network<'static> {
    let attr = NetworkAttr { endpoints: n as u16, regions: 0, groups: 2, ..NetworkAttr::DEFAULT };
    Network::new(attr).unwrap()
}

fn connected(n: u32, domain: impl Fn(u32) -> Domain<'static, Side>) -> Vec<Group> {
    let prepared: Vec<_> = (0..n).map(|rank| Prepared::open(&domain(rank), n as usize, 64).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address().unwrap()).collect();
    prepared.into_iter().map(|prepared| prepared.connect(&addresses).unwrap()).collect()
}

fn join(group: &Group) -> Joined {
    let mut set = group.av().unwrap().set_in(group.capacity(), Global).unwrap();
    for peer in group.peers() {
        assert!(set.insert(group.peer(peer).unwrap()).unwrap());
    }
    group.endpoint().unwrap().join_collective(&set).unwrap()
}

fn team(group: &Group, first: u32, rank: u32, at_once: usize) -> Members<'_> {
    let attr = TeamAttr::new(1).with_packets(4).with_at_once(at_once);
    let packets = std::iter::repeat_with(|| Vec::with_capacity(CAPACITY));
    Team::open(group, attr, (first..first + group.capacity() as u32).map(PeerIndex), rank, packets).unwrap()
}

fn teams<'g>(groups: &'g [Group], joined: &'g mut [Joined], first: u32, at_once: usize) -> Vec<Members<'g>> {
    let with = |(rank, (group, joined)): (u32, (&'g Group, &'g mut Joined))| {
        team(group, first, rank, at_once).with_provider(joined).unwrap()
    };
    (0..).zip(groups.iter().zip(joined)).map(with).collect()
}

trait Turn {
    fn turn(&mut self) -> Result<bool, CollectiveError>;
}

impl<E: Element, C: Combine<E>> Turn for Run<'_, '_, E, C> {
    fn turn(&mut self) -> Result<bool, CollectiveError> {
        Running::turn(self)
    }
}

fn finish<R: Turn>(running: impl IntoIterator<Item = R>) {
    let mut running: Vec<R> = running.into_iter().collect();
    for _ in 0..100_000 {
        running.retain_mut(|one| !one.turn().unwrap());
        if running.is_empty() {
            return;
        }
    }
    panic!("{} are not over", running.len());
}

fn each<'t, C: Combine<u64>>(
    teams: &'t [Members<'t>],
    inputs: &[Vec<u64>],
    len: impl Fn(u32) -> usize,
    call: impl for<'b> Fn(&'t Members<'t>, &'b [u64], &'b mut [u64]) -> Result<Run<'t, 'b, u64, C>, CollectiveError>,
) -> Vec<Vec<u64>> {
    let mut outputs: Vec<_> = teams.iter().map(|team| vec![0; len(team.rank())]).collect();
    let calls = teams.iter().zip(inputs).zip(&mut outputs);
    finish(calls.map(|((team, input), output)| call(team, input, output).unwrap()).collect::<Vec<_>>());
    outputs
}

fn values(rank: u32, len: usize) -> Vec<u64> {
    (0..len as u64).map(|place| u64::from(rank) * 1000 + place).collect()
}

fn sums(of: &[Vec<u64>]) -> Vec<u64> {
    (0..of[0].len()).map(|at| of.iter().map(|own| own[at]).sum()).collect()
}

fn check_all(teams: &[Members<'_>], count: usize) {
    let n = teams.len() as u32;
    let (size, root) = (n as usize, n / 2);
    let mine: Vec<_> = (0..n).map(|rank| values(rank, count)).collect();
    let many: Vec<_> = (0..n).map(|rank| values(rank, count * size)).collect();
    let only = |rank: u32, at_root: &[u64]| if rank == root { at_root.to_vec() } else { vec![] };
    let ranks = |of: &dyn Fn(u32) -> Vec<u64>| -> Vec<_> { (0..n).map(of).collect() };
    let block = |rank: u32, of: &[u64]| of[rank as usize * count..][..count].to_vec();
    let (all, own) = (|len: usize| move |_: u32| len, |len: usize| move |rank| if rank == root { len } else { 0 });

    finish(teams.iter().map(|team| team.barrier().unwrap()).collect::<Vec<_>>());
    let mut given = mine.clone();
    finish(teams.iter().zip(&mut given).map(|(team, own)| team.broadcast(root, own).unwrap()).collect::<Vec<_>>());
    assert_eq!(given, vec![mine[root as usize].clone(); size]);

    let got = each(teams, &mine, own(count), |team, input, output| team.reduce(root, Sum, input, output));
    assert_eq!(got, ranks(&|rank| only(rank, &sums(&mine))));
    let got = each(teams, &mine, all(count), |team, input, output| team.all_reduce(Sum, input, output));
    assert_eq!(got, vec![sums(&mine); size]);
    let got = each(teams, &many, all(count), |team, input, output| team.reduce_scatter(Sum, input, output));
    assert_eq!(got, ranks(&|rank| block(rank, &sums(&many))));
    let got = each(teams, &mine, own(count * size), |team, input, output| team.gather(root, input, output));
    assert_eq!(got, ranks(&|rank| only(rank, &mine.concat())));
    let got = each(teams, &mine, all(count * size), |team, input, output| team.all_gather(input, output));
    assert_eq!(got, vec![mine.concat(); size]);
    let of_root = ranks(&|rank| only(rank, &many[root as usize]));
    let got = each(teams, &of_root, all(count), |team, input, output| team.scatter(root, input, output));
    assert_eq!(got, ranks(&|rank| block(rank, &many[root as usize])));
    let got = each(teams, &many, all(count * size), |team, input, output| team.all_to_all(input, output));
    assert_eq!(got, ranks(&|rank| many.iter().flat_map(|of| block(rank, of)).collect()));
}

fn idle(groups: &[Group]) {
    for group in groups {
        assert_eq!(group.cq().in_flight(), 0);
    }
}

#[test]
fn the_provider_runs_the_collectives_that_it_has() {
    for n in 1..=8 {
        let groups = groups(n);
        let mut joined: Vec<_> = groups.iter().map(join).collect();
        let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 1);
        for count in [1, 2] {
            check_all(&teams, count);
        }
        for _ in 0..300 {
            finish(teams.iter().map(|team| team.barrier().unwrap()).collect::<Vec<_>>());
        }
        idle(&groups);
    }
}

#[test]
fn a_schedule_needs_messages_which_the_provider_does_not() {
    let groups = groups(2);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 1);
    no_message(teams[0].scan(Sum, &[1_u64], &mut [0]));
    let long = [1_u64; CAPACITY];
    no_message(teams[1].all_reduce(Sum, &long, &mut [0; CAPACITY]));
    no_message(team_without(&groups[0], 0).barrier());
}

fn team_without(group: &Group, rank: u32) -> Members<'_> {
    let packets = std::iter::repeat_with(|| Vec::with_capacity(CAPACITY));
    let members = (PROVIDER_ONLY..PROVIDER_ONLY + group.capacity() as u32).map(PeerIndex);
    Team::open(group, TeamAttr::new(2).with_packets(4), members, rank, packets).unwrap()
}

fn no_message<E: Element, C: Combine<E>>(begun: Result<Run<'_, '_, E, C>, CollectiveError>) {
    let error = begun.map(|_| ()).unwrap_err();
    assert!(matches!(error, CollectiveError::Post { error: PostError::UnknownPeer, .. }), "{error:?}");
}

#[test]
fn every_combination_that_the_provider_has_is_the_providers() {
    let groups = groups(3);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 1);
    fn reduced<E: Element, C: Combine<E> + Copy>(teams: &[Members<'_>], combine: C, of: [E; 3]) -> Vec<E> {
        let mut outputs = of.map(|own| [own]);
        let inputs = of.map(|own| [own]);
        let calls = teams.iter().zip(&inputs).zip(&mut outputs);
        finish(calls.map(|((team, own), out)| team.all_reduce(combine, own, out).unwrap()).collect::<Vec<_>>());
        outputs.concat()
    }
    macro_rules! integers {
        ($($number:ty)*) => {$(
            assert_eq!(reduced::<$number, _>(&teams, Sum, [1, 2, 3]), [6; 3]);
            assert_eq!(reduced::<$number, _>(&teams, Product, [2, 3, 4]), [24; 3]);
            assert_eq!(reduced::<$number, _>(&teams, Min, [7, 2, 9]), [2; 3]);
            assert_eq!(reduced::<$number, _>(&teams, Max, [7, 2, 9]), [9; 3]);
            assert_eq!(reduced::<$number, _>(&teams, BitOr, [1, 2, 12]), [15; 3]);
            assert_eq!(reduced::<$number, _>(&teams, BitAnd, [7, 6, 12]), [4; 3]);
            assert_eq!(reduced::<$number, _>(&teams, BitXor, [1, 3, 12]), [14; 3]);
        )*};
    }
    integers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
    assert_eq!(reduced(&teams, Sum, [0.5_f32, 1.0, 2.0]), [3.5; 3]);
    assert_eq!(reduced(&teams, Product, [0.5_f64, 4.0, 2.0]), [4.0; 3]);
    // Providers do not specify the minimum of an operand that is not a number.
    no_message(teams[0].all_reduce(Min, &[1.0_f64], &mut [0.0]));
}

#[test]
fn collectives_that_the_provider_lacks_run_between_the_others() {
    for n in [1, 2, 3, 5] {
        let groups = groups(n);
        let mut joined: Vec<_> = groups.iter().map(join).collect();
        let teams = teams(&groups, &mut joined, BOTH, 1);
        let size = n as usize;
        // Schedules have their own numbers, and a barrier before every 64th.
        for round in 0..70 {
            let mine: Vec<_> = (0..n).map(|rank| values(rank + round, 3)).collect();
            let got = each(&teams, &mine, |_| 3, |team, input, output| team.scan(Sum, input, output));
            assert_eq!(got, (1..=size).map(|ranks| sums(&mine[..ranks])).collect::<Vec<_>>());
            check_all(&teams, [1, 16, CAPACITY][round as usize % 3]);
            let got = each(
                &teams,
                &mine,
                |_| 3,
                |team, input, output| {
                    team.all_reduce(Associative(u64::wrapping_add as fn(u64, u64) -> u64), input, output)
                },
            );
            assert_eq!(got, vec![sums(&mine); size]);
            let blocks = Blocks::Split(3);
            let own: Vec<_> =
                (0..size).map(|rank| vec![rank as u64; 3 / size + usize::from(rank < 3 % size)]).collect();
            let got = each(&teams, &own, |_| 3, |team, input, output| team.all_gather_blocks(blocks, input, output));
            assert_eq!(got, vec![own.concat(); size]);
        }
        check_all(&teams, 0);
        idle(&groups);
    }
}

#[test]
fn several_collectives_run_at_once_and_end_in_any_order() {
    const AT_ONCE: usize = 9;
    let groups = groups(3);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, AT_ONCE);
    for round in 0..50_u64 {
        let inputs: Vec<Vec<[u64; 2]>> =
            (0..3).map(|rank| (0..AT_ONCE as u64).map(|at| [rank + 10 * at, round]).collect()).collect();
        let mut outputs = vec![vec![[0; 2]; AT_ONCE]; 3];
        let mut running = Vec::new();
        for ((team, inputs), outputs) in teams.iter().zip(&inputs).zip(&mut outputs) {
            for (input, output) in inputs.iter().zip(outputs) {
                running.push(team.all_reduce(Sum, input, output).unwrap());
            }
            assert!(matches!(team.barrier(), Err(CollectiveError::Busy)));
        }
        if round % 2 == 0 {
            running.reverse();
        }
        finish(running);
        for outputs in outputs {
            let expected = (0..AT_ONCE as u64).map(|at| [3 + 30 * at, 3 * round]);
            assert_eq!(outputs, expected.collect::<Vec<_>>());
        }
    }
    idle(&groups);
}

#[test]
fn calls_that_were_refused_are_posted_in_their_order() {
    let groups = groups(2);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 6);
    let [one, two] = teams.as_slice() else { panic!("two") };
    let mut outputs = [[[0_u64; 2]; 2]; 7];
    let mut outputs = outputs.iter_mut();
    let mut output = || outputs.next().unwrap();
    let inputs = [[1], [10]];

    // The provider takes four, and two wait.
    let mut firsts: Vec<_> = (0..5).map(|_| output()).collect();
    let mut theirs = Vec::new();
    let mut firsts = firsts
        .iter_mut()
        .map(|[mine, their]| {
            theirs.push(their);
            one.all_reduce(Sum, &inputs[0], &mut mine[..1]).unwrap()
        })
        .collect::<Vec<_>>();
    let [sixth, their_sixth] = output();
    let mut sixth = one.all_gather(&inputs[0], sixth).unwrap();
    let mut theirs = theirs.into_iter();
    let mut their = || two.all_reduce(Sum, &inputs[1], &mut theirs.next().unwrap()[..1]).unwrap();

    let their_first = their();
    finish([&mut firsts.remove(0) as &mut dyn Turn, &mut { their_first }].map(ByRef));
    let [seventh, their_seventh] = output();
    let mut seventh = one.all_reduce(Sum, &inputs[0], &mut seventh[..1]).unwrap();
    for _ in 1..5 {
        let theirs = their();
        finish([&mut firsts.remove(0) as &mut dyn Turn, &mut { theirs }].map(ByRef));
    }
    let their_sixth = two.all_gather(&inputs[1], their_sixth).unwrap();
    let their_seventh = two.all_reduce(Sum, &inputs[1], &mut their_seventh[..1]).unwrap();
    finish([&mut sixth as &mut dyn Turn, &mut { their_sixth }].map(ByRef));
    finish([&mut seventh as &mut dyn Turn, &mut { their_seventh }].map(ByRef));
    idle(&groups);
}

#[test]
fn calls_wait_for_members_that_have_not_joined_and_any_of_them_posts_those_before_it() {
    let groups = groups(2);
    let mut first = join(&groups[0]);
    let early = team(&groups[0], PROVIDER_ONLY, 0, 2).with_provider(&mut first).unwrap();
    let (mut one, mut two) = ([1_u64], [2_u64]);
    let mut called_first = early.broadcast(0, &mut one).unwrap();
    let mut called_second = early.broadcast(1, &mut two).unwrap();
    for _ in 0..100 {
        assert!(!called_second.turn().unwrap());
    }
    assert_eq!(groups[0].cq().in_flight(), 0);

    let mut second = join(&groups[1]);
    let late = team(&groups[1], PROVIDER_ONLY, 1, 2).with_provider(&mut second).unwrap();
    let (mut other_one, mut other_two) = ([0_u64], [7_u64]);
    let other_first = late.broadcast(0, &mut other_one).unwrap();
    let other_second = late.broadcast(1, &mut other_two).unwrap();
    finish([&mut called_second as &mut dyn Turn, &mut { other_second }, &mut { other_first }].map(ByRef));
    finish([&mut called_first as &mut dyn Turn].map(ByRef));
    drop((called_first, called_second));
    assert_eq!((one, two, other_one, other_two), ([1], [7], [1], [7]));
    idle(&groups);
}

struct ByRef<'r>(&'r mut dyn Turn);

impl Turn for ByRef<'_> {
    fn turn(&mut self) -> Result<bool, CollectiveError> {
        self.0.turn()
    }
}

#[test]
fn a_member_that_dies_ends_the_collective_of_the_others_and_their_team() {
    let mut groups = groups(3);
    let dying = groups.pop().unwrap();
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let its_own = join(&dying);
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 1);
    let inputs = [[1_u64], [2]];
    let mut outputs = [[7_u64], [7]];
    let calls = teams.iter().zip(&inputs).zip(&mut outputs);
    let mut running: Vec<_> = calls.map(|((team, own), out)| team.all_reduce(Sum, own, out).unwrap()).collect();
    running.iter_mut().for_each(|one| assert!(!one.turn().unwrap()));
    drop(its_own);
    drop(dying);
    for one in &mut running {
        let error = (0..1000).find_map(|_| one.turn().err()).expect("it ends");
        let CollectiveError::ProviderOperation(error) = error else { panic!("{error:?}") };
        assert_eq!(error.errno, Errno::ECONNRESET);
    }
    drop(running);
    assert_eq!(outputs, [[7], [7]]);
    for team in &teams {
        assert!(team.is_over());
        assert!(matches!(team.barrier(), Err(CollectiveError::Over)));
    }
    idle(&groups);
}

#[test]
fn a_collective_of_a_group_that_a_member_has_left_is_refused() {
    let mut groups = groups(2);
    let (mut first, second) = (join(&groups[0]), join(&groups[1]));
    let team = team(&groups[0], PROVIDER_ONLY, 0, 1).with_provider(&mut first).unwrap();
    drop(second);
    let refused = team.barrier().map(|_| ()).unwrap_err();
    assert_eq!(refused, CollectiveError::Provider(PostError::Errno(Errno::ECONNRESET)));
    assert!(team.is_over());
    drop(team);
    drop(first);
    groups.clear();
}

#[test]
fn a_packet_of_a_collective_that_was_given_up_comes_out_of_the_queue_once() {
    for is_joined in [false, true] {
        let groups = groups(2);
        let mut first = join(&groups[0]);
        let second = is_joined.then(|| join(&groups[1]));
        let team = team(&groups[0], PROVIDER_ONLY, 0, 1).with_provider(&mut first).unwrap();
        let mut output = [0_u64];
        drop(team.all_reduce(Sum, &[1], &mut output).unwrap());
        assert!(team.is_over());
        drop(team);
        // The provider holds the posted packet until its group is left.
        assert_eq!(groups[0].cq().in_flight(), usize::from(is_joined));
        drop(first);
        let mut packets = 0;
        for _ in 0..100 {
            if let Some(Completion::Op(done)) = groups[0].cq().poll().unwrap() {
                let (packet, result) = done.into_parts();
                assert_eq!((packet.capacity(), result.unwrap_err().errno), (CAPACITY, Errno::ECANCELED));
                packets += 1;
            }
        }
        assert_eq!(packets, usize::from(is_joined));
        idle(&groups);
        drop(second);
    }
}

#[test]
fn a_group_of_other_members_or_of_another_queue_is_refused() {
    let groups = groups(3);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    fn refused<'g>(team: Members<'g>, joined: &'g mut Joined) -> CollectiveError {
        team.with_provider(joined).map(|_| ()).unwrap_err()
    }
    assert_eq!(refused(team(&groups[0], PROVIDER_ONLY, 1, 1), &mut joined[0]), CollectiveError::ProviderGroup);
    assert_eq!(refused(team(&groups[0], PROVIDER_ONLY, 1, 1), &mut joined[1]), CollectiveError::ProviderGroup);
    let attr = TeamAttr::new(1).with_packets(2);
    let packets = std::iter::repeat_with(|| Vec::with_capacity(8));
    let two = Team::open(&groups[0], attr, (0..2).map(PeerIndex), 0, packets).unwrap();
    assert_eq!(refused(two, &mut joined[0]), CollectiveError::ProviderGroup);
    assert!(team(&groups[0], PROVIDER_ONLY, 0, 1).with_provider(&mut joined[0]).is_ok());
}

#[test]
fn tasks_await_the_providers_collectives_also_before_all_have_joined() {
    let groups = groups(3);
    let drivers: Vec<_> = groups.iter().map(|group| CqDriver::open(group.cq(), Unclaimed::Drop).unwrap()).collect();
    let mut joined = [None, None, None];
    let [early @ .., late] = &mut joined;
    let story = async |rank: u32, joined: &mut Option<Joined>| {
        let (group, driver) = (&groups[rank as usize], &drivers[rank as usize]);
        let joined = joined.get_or_insert_with(|| join(group));
        let team = team(group, PROVIDER_ONLY, rank, 2).with_provider(joined).unwrap();
        for round in 0..40 {
            let (mine, mut sum, mut all) = ([u64::from(rank) + round], [0], [0; 3]);
            let mut first = team.all_reduce(Sum, &mine, &mut sum).unwrap();
            let mut second = team.all_gather(&mine, &mut all).unwrap();
            second.finish(driver).await.unwrap();
            first.finish(driver).await.unwrap();
            drop((first, second));
            assert_eq!((sum, all), ([3 + 3 * round], [round, 1 + round, 2 + round]));
        }
    };
    let mut tasks: Vec<_> = early.iter_mut().zip(0..).map(|(joined, rank)| Box::pin(story(rank, joined))).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut late = Some(late);
    for turn in 0..100_000 {
        if let Some(late) = late.take_if(|_| turn == 50) {
            tasks.push(Box::pin(story(2, late)));
        }
        tasks.retain_mut(|task| pin!(task).poll(&mut context) == Poll::Pending);
        for driver in &drivers {
            driver.turn(16);
        }
        if turn > 50 && tasks.is_empty() {
            break;
        }
    }
    assert!(tasks.is_empty());
    idle(&groups);
}

#[test]
fn refusals_and_delays_change_no_result() {
    for seed in 0..12 {
        let plan = Plan::new(seed);
        let plan = if seed % 2 == 0 {
            Plan { refuse: Every::About(2), ..plan }
        } else {
            Plan { delay: 7, reorder: 7, ..plan }
        };
        let network = network(3);
        let groups = connected(3, |_| Domain::open(&network.info_with_faults(plan)).unwrap());
        let mut joined: Vec<_> = groups.iter().map(join).collect();
        let teams = teams(&groups, &mut joined, BOTH, 2);
        for count in [1, 3] {
            check_all(&teams, count);
        }
        idle(&groups);
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn tasks_of_the_providers_collectives_are_woken() {
    let groups = groups(3);
    let mut joined: Vec<_> = groups.iter().map(join).collect();
    let drivers: Vec<_> = groups.iter().map(|group| CqDriver::open(group.cq(), Unclaimed::Drop).unwrap()).collect();
    let teams = teams(&groups, &mut joined, PROVIDER_ONLY, 9);
    for backwards in [false, true] {
        for _ in 0..50 {
            type Task<'t> = (Pin<Box<dyn Future<Output = Result<(), CollectiveError>> + 't>>, Arc<Woken>);
            let mut outputs = vec![[[0_u64]; 9]; 3];
            let inputs: Vec<[u64; 1]> = (0..3).map(|rank| [rank + 1]).collect();
            let mut tasks: Vec<Task<'_>> = vec![];
            for (at, outputs) in outputs.iter_mut().enumerate() {
                for output in outputs {
                    let mut run = teams[at].all_reduce(Sum, &inputs[at], output).unwrap();
                    let driver = &drivers[at];
                    let future = Box::pin(async move { run.finish(driver).await });
                    tasks.push((future, Arc::new(Woken(AtomicBool::new(true)))));
                }
            }
            if backwards {
                tasks.reverse();
            }
            for _ in 0..10_000 {
                tasks.retain_mut(|(task, woken)| {
                    !woken.0.swap(false, Ordering::Relaxed)
                        || task.as_mut().poll(&mut Context::from_waker(&Waker::from(woken.clone()))) == Poll::Pending
                });
                if tasks.is_empty() {
                    break;
                }
                drivers.iter().for_each(|driver| _ = driver.turn(3));
            }
            assert!(tasks.is_empty(), "{} tasks were not woken", tasks.len());
            drop(tasks);
            assert_eq!(outputs, vec![[[6]; 9]; 3]);
        }
    }
}

#[test]
fn a_team_with_a_forgotten_collective_takes_no_providers_group() {
    let groups = groups(2);
    let (mut first, mut second) = (join(&groups[0]), join(&groups[0]));
    let team = team(&groups[0], PROVIDER_ONLY, 0, 2).with_provider(&mut first).unwrap();
    let mut lost = [7_u64];
    std::mem::forget(team.broadcast(0, &mut lost).unwrap());
    assert_eq!(team.with_provider(&mut second).map(|_| ()), Err(CollectiveError::Busy));
}

//! Random stories of teams that share members, under every fault.
//!
//! Invariants: completed collectives have correct results, an error names a member and ends the
//! team, and every packet returns. Without faults all complete.

use std::collections::HashSet;

use loom_core::Completion;
use loom_core::soft::{Every, Plan};
use loom_group::CollectiveError;
use loom_group::PeerIndex;
use loom_group::collective::{Team, TeamAttr};
use loom_group::schedule::{Switch, Table};
use proptest::prelude::*;

use crate::teams::calls::{Bounds, Call, KINDS};
use crate::teams::counted::Counted;
use crate::teams::world::{FINE, Group, Members, Size, Turn, groups, harmless};

#[derive(Clone, Debug)]
struct TeamStory {
    /// Members in the order of ranks.
    ranks: Vec<u32>,
    attr: TeamAttr,
    capacity: usize,
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Harmless,
    Fail,
    Lose,
    Overrun,
    Kill,
    Remove,
    GiveUp,
}

const FAULTS: [Fault; 9] = [
    Fault::None,
    Fault::Harmless,
    Fault::Harmless,
    Fault::Fail,
    Fault::Lose,
    Fault::Overrun,
    Fault::Kill,
    Fault::Remove,
    Fault::GiveUp,
];

#[derive(Clone, Debug)]
struct Story {
    members: u32,
    teams: Vec<TeamStory>,
    fault: Fault,
    seed: u64,
    eager: u32,
}

fn team_story(members: u32, number: u8) -> impl Strategy<Value = TeamStory> {
    let ranks = Just((0..members).collect::<Vec<_>>()).prop_shuffle();
    let call = (0..KINDS.len(), 0..14_usize, any::<u32>());
    let table = prop_oneof![Just(Table::DEFAULT), Just(Table::of(Switch::ALWAYS)), Just(Table::of(Switch::NEVER))];
    // Some stories pass 256 collectives, where numbers repeat.
    let calls = prop_oneof![9 => prop::collection::vec(call.clone(), 1..20), 1 => prop::collection::vec(call, 300)];
    (ranks, 1..=members, 1..4_usize, 2..6_usize, 1..6_usize, table, calls).prop_map(
        move |(mut ranks, size, at_once, packets, elements, table, calls)| {
            ranks.truncate(size as usize);
            let call = |(kind, count, seed): (usize, usize, u32)| Call::new(KINDS[kind], size, count, seed.into());
            TeamStory {
                ranks,
                attr: TeamAttr::new(number).with_at_once(at_once).with_packets(packets).with_table(table),
                capacity: 8 * elements + 3,
                calls: calls.into_iter().map(call).collect(),
            }
        },
    )
}

fn story() -> impl Strategy<Value = Story> {
    let fault = prop::sample::select(&FAULTS[..]);
    (1..7_u32, 1..4_u8).prop_flat_map(move |(members, teams)| {
        let teams: Vec<_> = (1..=teams).map(|number| team_story(members, number)).collect();
        (teams, fault.clone(), any::<u32>(), prop_oneof![Just(0_u32), Just(16), Just(64)])
            .prop_map(move |(teams, fault, seed, eager)| Story { members, teams, fault, seed: seed.into(), eager })
    })
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

type Room<'s> = (&'s [u64], &'s Bounds, &'s mut [u64]);

struct Acts<'s> {
    story: &'s TeamStory,
    rank: u32,
    team: &'s Members<'s>,
    rooms: Vec<Option<Room<'s>>>,
    next: usize,
    running: Vec<(usize, Box<dyn Turn + 's>)>,
    over: Vec<usize>,
    kept: Vec<Box<dyn Turn + 's>>,
    error: Option<CollectiveError>,
}

/// Number of a call, including the barriers before it.
fn number(call: usize) -> usize {
    (call + call / 63).saturating_sub(usize::from(call.is_multiple_of(63)))
}

impl Acts<'_> {
    fn is_done(&self) -> bool {
        self.error.is_some() || (self.next == self.story.calls.len() && self.running.is_empty())
    }

    fn act(&mut self, draw: &mut Draw) {
        if self.error.is_some() {
            return;
        }
        let Self { story, team, .. } = *self;
        if self.next < story.calls.len() && draw.below(3) == 0 {
            let is_far = self.running.iter().any(|(call, _)| number(self.next) - number(*call) >= 63);
            if team.under_way() == story.attr.at_once || is_far {
                // A collective far behind may have completed: a turn detects it.
                let busy = if team.is_over() { CollectiveError::Over } else { CollectiveError::Busy };
                assert!(team.under_way() < story.attr.at_once || team.barrier().map(drop) == Err(busy));
                return;
            }
            let Some((input, bounds, output)) = self.rooms[self.next].take() else { return };
            match story.calls[self.next].begin(team, bounds, input, output) {
                Ok(running) => self.running.push((self.next, running)),
                Err(error) => self.fail(error),
            }
            self.next += 1;
        } else if !self.running.is_empty() {
            let which = draw.below(self.running.len());
            match self.running[which].1.turn() {
                Ok(false) => {}
                Ok(true) => {
                    let (call, mut running) = self.running.swap_remove(which);
                    assert_eq!(running.turn(), Ok(true));
                    self.over.push(call);
                    self.kept.push(running);
                    if self.kept.len() > 3 {
                        self.kept.swap_remove(draw.below(3));
                    }
                }
                Err(error) => self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: CollectiveError) {
        let (rank, size) = (self.rank, self.team.size());
        match error {
            CollectiveError::Operation { member, .. } | CollectiveError::Post { member, .. } => {
                assert!(member < size && member != rank, "{error:?} at {rank} of {size}");
            }
            // The queue's error affects all teams of the group.
            CollectiveError::Queue(_) => {
                self.running.clear();
            }
            CollectiveError::Over => {}
            _ => panic!("{error:?}"),
        }
        self.end(error);
    }

    fn end(&mut self, error: CollectiveError) {
        if !self.team.is_over() {
            assert!(self.running.is_empty(), "{error:?}");
            self.error = Some(error);
            return;
        }
        assert_eq!(self.team.barrier().map(drop), Err(CollectiveError::Over));
        self.error = Some(error);
    }

    fn give_up(&mut self, draw: &mut Draw) {
        if self.running.is_empty() {
            return;
        }
        let (call, running) = self.running.swap_remove(draw.below(self.running.len()));
        drop(running);
        if self.team.is_over() {
            self.end(CollectiveError::Over);
        } else {
            // The collective had completed when it began.
            self.over.push(call);
        }
    }
}

fn faults(story: &Story, rank: u32) -> Plan {
    let plan = Plan::new(story.seed);
    match story.fault {
        Fault::None | Fault::Remove => FINE,
        Fault::Harmless | Fault::GiveUp => harmless(story.seed),
        Fault::Fail => Plan { fail: Every::About(40), ..plan },
        Fault::Lose => Plan { lose: Every::About(40), refuse: Every::About(5), ..plan },
        Fault::Overrun => Plan { overrun: Every::About(60), ..plan },
        Fault::Kill if rank == story.seed as u32 % story.members => Plan { kill: Every::About(30), ..plan },
        Fault::Kill => FINE,
    }
}

const PATIENCE: usize = 4_000;

fn play(story: &Story) {
    let size = Size { tx_depth: 64, eager: story.eager, ..Size::new(story.members) };
    let groups = groups(size, |rank| faults(story, rank));
    let mut packets = vec![HashSet::new(); groups.len()];
    let teams: Vec<Vec<Members<'_>>> = story.teams.iter().map(|story| open(&groups, story, &mut packets)).collect();
    let expected: Vec<Vec<_>> =
        story.teams.iter().map(|story| story.calls.iter().map(Call::expected).collect()).collect();

    let mut buffers: Vec<Vec<Vec<_>>> = Vec::new();
    for (story, expected) in story.teams.iter().zip(&expected) {
        let ranks = 0..story.ranks.len();
        let of = |rank: usize| {
            let calls = story.calls.iter().zip(expected);
            let room = |(call, expected): (&Call, &Vec<Vec<u64>>)| {
                let output = call.output(rank as u32, &expected[rank]);
                (call.input(rank as u32), call.bounds(rank as u32), output)
            };
            calls.map(room).collect()
        };
        buffers.push(ranks.map(of).collect());
    }
    let mut acts = Vec::new();
    for ((story, teams), buffers) in story.teams.iter().zip(&teams).zip(&mut buffers) {
        for (team, buffers) in teams.iter().zip(buffers) {
            let rooms = buffers.iter_mut().map(|(input, bounds, output)| Some((&**input, &*bounds, &mut **output)));
            acts.push(Acts {
                story,
                rank: team.rank(),
                team,
                rooms: rooms.collect(),
                next: 0,
                running: vec![],
                over: vec![],
                kept: vec![],
                error: None,
            });
        }
    }

    let calls: usize = story.teams.iter().map(|story| story.calls.len() * story.ranks.len()).sum();
    let mut draw = Draw(story.seed | 1 << 40);
    let mut acted = 0;
    for _ in 0..PATIENCE * calls {
        let which = draw.below(acts.len());
        acts[which].act(&mut draw);
        acted += 1;
        if acted % 64 == 0 {
            if acts.iter().all(Acts::is_done) {
                break;
            }
            match story.fault {
                Fault::Remove if draw.below(4) == 0 => {
                    groups[draw.below(groups.len())].remove(PeerIndex(draw.below(groups.len()) as u32));
                }
                Fault::GiveUp if draw.below(4) == 0 => acts[which].give_up(&mut draw),
                _ => {}
            }
            // Stops when members wait for failed members.
            if acts.iter().any(|acts| acts.error.is_some()) && acted > 20_000 + 200 * calls {
                break;
            }
        }
    }
    let is_fatal = !matches!(story.fault, Fault::None | Fault::Harmless);
    let mut over = Vec::new();
    let mut failed = false;
    assert!(acts.iter().all(Acts::is_done) || acts.iter().any(|acts| acts.error.is_some()));
    for acts in acts {
        assert!(
            acts.is_done() || is_fatal,
            "all is over: member {} of {:?}, {:?}",
            acts.rank,
            acts.story.ranks,
            acts.over
        );
        assert!(acts.error.is_none() || is_fatal, "{:?}", acts.error);
        failed |= acts.error.is_some();
        over.push(acts.over.clone());
        let (team, given_up) = (acts.team, !acts.running.is_empty());
        drop(acts);
        assert!(team.is_over() || !given_up);
        assert_eq!(team.under_way(), 0);
    }
    let mut over = over.into_iter();
    for ((story, expected), buffers) in story.teams.iter().zip(&expected).zip(&buffers) {
        for (rank, buffers) in buffers.iter().enumerate() {
            for call in over.next().unwrap() {
                assert!(
                    buffers[call].2 == expected[call][rank],
                    "{:?} of member {rank}: {:?}",
                    story.calls[call],
                    buffers[call].2
                );
            }
        }
    }
    if !failed && !is_fatal {
        assert!(teams.iter().flatten().all(|team| !team.is_over()));
    }
    drop(teams);
    all_come_back(story, &groups, packets);
}

fn open<'g>(groups: &'g [Group], story: &TeamStory, packets: &mut [HashSet<usize>]) -> Vec<Members<'g>> {
    let open = |(rank, member): (u32, &u32)| {
        let noted = &mut packets[*member as usize];
        let packets = std::iter::repeat_with(|| {
            let packet = Counted::new(story.capacity);
            noted.insert(packet.addr());
            packet
        });
        let peers = story.ranks.iter().map(|member| PeerIndex(*member));
        Team::open(&groups[*member as usize], story.attr, peers, rank, packets).unwrap()
    };
    (0..).zip(&story.ranks).map(open).collect()
}

fn all_come_back(story: &Story, groups: &[Group], mut packets: Vec<HashSet<usize>>) {
    for _ in 0..200 {
        for (group, packets) in groups.iter().zip(&mut packets) {
            while let Ok(Some(completion)) = group.cq().poll() {
                let Completion::Op(done) = completion else { continue };
                assert!(packets.remove(&done.into_buf().addr()), "a packet comes back once");
            }
        }
    }
    let is_dead = matches!(story.fault, Fault::Kill | Fault::Overrun);
    for group in groups {
        assert!(group.cq().in_flight() == 0 || is_dead, "nothing stays in flight");
    }
}

fn stories(cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(story in story())| play(&story));
}

#[test]
fn teams_of_one_to_six_members() {
    stories(300);
}

//! Runs all members of a schedule in memory and checks the rules of `loom_group::schedule`.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use loom_group::schedule::{Op, Part, Schedule, Side, Which};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    Buffered,
    /// Completes after the receive of the peer.
    Synchronous,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// No member can continue.
    Deadlock { waiting: usize },
    /// A message differs from its receive.
    Mismatch { member: u32, peer: u32, round: u32 },
    /// Messages without a receive.
    LeftOver(usize),
    /// Read of an unwritten element.
    Unwritten { member: u32, round: u32, part: Part },
    /// Access outside its buffer, or in a buffer that the operation must not write.
    Outside { member: u32, round: u32, part: Part },
    /// Overlap in a round, or different lengths.
    Overlap { member: u32, round: u32 },
    /// Another violated rule.
    Rule(u8),
    /// Members with different numbers of rounds.
    Rounds,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome<E> {
    pub(crate) outputs: Vec<Vec<Option<E>>>,
    pub(crate) messages: u64,
    pub(crate) elements: u64,
}

/// Elements of a member. `None` is unwritten.
struct Node<E> {
    input: Vec<Option<E>>,
    output: Vec<Option<E>>,
    scratch: Vec<Option<E>>,
    round: u32,
    receives: Vec<(u32, Part)>,
    local: Vec<Op>,
    sent: Vec<u32>,
    began: bool,
}

impl<E: Clone> Node<E> {
    fn buffer(&mut self, which: Which) -> &mut Vec<Option<E>> {
        match which {
            Which::Input => &mut self.input,
            Which::Output => &mut self.output,
            Which::Scratch => &mut self.scratch,
        }
    }

    fn read(&mut self, member: u32, part: Part) -> Result<Vec<E>, Broken> {
        let round = self.round;
        let elements = self.buffer(part.buffer).get(part.range()).ok_or(Broken::Outside { member, round, part })?;
        elements.iter().cloned().collect::<Option<_>>().ok_or(Broken::Unwritten { member, round, part })
    }

    fn write(&mut self, member: u32, part: Part, elements: Vec<E>) -> Result<(), Broken> {
        let outside = Broken::Outside { member, round: self.round, part };
        if part.buffer == Which::Input {
            return Err(outside);
        }
        for (to, from) in self.buffer(part.buffer).get_mut(part.range()).ok_or(outside)?.iter_mut().zip(elements) {
            *to = Some(from);
        }
        Ok(())
    }
}

fn overlap(a: Part, b: Part) -> bool {
    let (x, y): (Range<usize>, Range<usize>) = (a.range(), b.range());
    a.buffer == b.buffer && x.start < y.end && y.start < x.end
}

type Channels<E> = HashMap<(u32, u32), VecDeque<(u32, Vec<E>)>>;

pub(crate) fn run<S: Schedule, E: Clone>(
    schedules: &[S],
    sends: Sends,
    inputs: Vec<Vec<E>>,
    given: Vec<Vec<E>>,
    combine: impl Fn(&E, &E) -> E,
) -> Result<Outcome<E>, Broken> {
    let rounds = schedules[0].rounds();
    let mut nodes = Vec::new();
    for ((schedule, input), given) in schedules.iter().zip(inputs).zip(given) {
        let needs = schedule.needs();
        assert_eq!(needs.input, input.len(), "the test gives an input of the right length");
        let past = (schedule.width(rounds)..schedule.width(rounds) + 3).chain(0..3);
        if schedule.rounds() != rounds || past.into_iter().any(|index| schedule.op(rounds, index).is_some()) {
            return Err(Broken::Rounds);
        }
        let mut output: Vec<_> = given.into_iter().map(Some).collect();
        output.resize(needs.output, None);
        nodes.push(Node {
            input: input.into_iter().map(Some).collect(),
            output,
            scratch: vec![None; needs.scratch],
            round: 0,
            receives: vec![],
            local: vec![],
            sent: vec![],
            began: false,
        });
    }

    let mut channels = Channels::new();
    let (mut messages, mut elements) = (0, 0);
    loop {
        let mut progress = false;
        for (member, (node, schedule)) in (0..).zip(nodes.iter_mut().zip(schedules)) {
            while node.round < rounds {
                if !node.began {
                    begin(member, node, schedule)?;
                    for op in schedule.ops(node.round) {
                        let Op::Send { peer, from } = op else { continue };
                        let message = node.read(member, from)?;
                        messages += 1;
                        elements += message.len() as u64;
                        channels.entry((member, peer)).or_default().push_back((node.round, message));
                    }
                    node.began = true;
                    progress = true;
                }
                progress |= receive(member, node, &mut channels)?;
                let unreceived = |peer: &u32| {
                    channels.get(&(member, *peer)).is_some_and(|it| it.iter().any(|(round, _)| *round == node.round))
                };
                if !node.receives.is_empty() || (sends == Sends::Synchronous && node.sent.iter().any(unreceived)) {
                    break;
                }
                finish(member, node, &combine)?;
                progress = true;
            }
        }
        let waiting = nodes.iter().filter(|node| node.round < rounds).count();
        if waiting == 0 {
            break;
        }
        if !progress {
            return Err(Broken::Deadlock { waiting });
        }
    }
    let left = channels.values().map(VecDeque::len).sum();
    if left > 0 {
        return Err(Broken::LeftOver(left));
    }
    Ok(Outcome { outputs: nodes.into_iter().map(|node| node.output).collect(), messages, elements })
}

fn begin<S: Schedule, E: Clone>(member: u32, node: &mut Node<E>, schedule: &S) -> Result<(), Broken> {
    let round = node.round;
    let kind = |op: &Op| match op {
        Op::Recv { .. } => 0,
        Op::Send { .. } => 1,
        _ => 2,
    };
    let ops: Vec<_> = schedule.ops(round).collect();
    if !ops.is_sorted_by_key(kind) {
        return Err(Broken::Rule(1));
    }
    if (0..3).any(|more| schedule.op(round, schedule.width(round) + more).is_some()) {
        return Err(Broken::Rounds);
    }
    node.receives = ops
        .iter()
        .filter_map(|op| if let Op::Recv { peer, into } = op { Some((*peer, *into)) } else { None })
        .collect();
    let sent: Vec<_> = ops
        .iter()
        .filter_map(|op| if let Op::Send { peer, from } = op { Some((*peer, *from)) } else { None })
        .collect();
    node.sent = sent.iter().map(|(peer, _)| *peer).collect();
    node.local = ops.iter().copied().filter(|op| kind(op) == 2).collect();
    for side in [&sent, &node.receives] {
        let mut peers: Vec<_> = side.iter().map(|(peer, _)| *peer).collect();
        peers.sort_unstable();
        if !peers.is_sorted_by(|a, b| a < b) {
            return Err(Broken::Rule(3));
        }
        if peers.contains(&member) {
            return Err(Broken::Rule(4));
        }
    }
    if sent.len().max(node.receives.len()) > 1 && sent.len().min(node.receives.len()) > 0 {
        return Err(Broken::Rule(5));
    }
    let mut into: Vec<_> = node.receives.iter().map(|(_, part)| *part).collect();
    into.sort_unstable_by_key(|part| (part.buffer as u8, part.start));
    let crossing = into.iter().any(|a| sent.iter().any(|(_, b)| overlap(*a, *b)));
    if crossing || into.windows(2).any(|pair| overlap(pair[0], pair[1])) {
        return Err(Broken::Overlap { member, round });
    }
    Ok(())
}

fn receive<E: Clone>(member: u32, node: &mut Node<E>, channels: &mut Channels<E>) -> Result<bool, Broken> {
    let before = node.receives.len();
    for (peer, into) in std::mem::take(&mut node.receives) {
        let Some((round, message)) = channels.get_mut(&(peer, member)).and_then(VecDeque::pop_front) else {
            node.receives.push((peer, into));
            continue;
        };
        if round != node.round || message.len() != into.len {
            return Err(Broken::Mismatch { member, peer, round: node.round });
        }
        node.write(member, into, message)?;
    }
    Ok(node.receives.len() < before)
}

fn finish<E: Clone>(member: u32, node: &mut Node<E>, combine: impl Fn(&E, &E) -> E) -> Result<(), Broken> {
    for op in std::mem::take(&mut node.local) {
        let (Op::Copy { from, into } | Op::Combine { from, into, .. }) = op else { continue };
        if from.len != into.len || overlap(from, into) {
            return Err(Broken::Overlap { member, round: node.round });
        }
        let mut result = node.read(member, from)?;
        if let Op::Combine { side, .. } = op {
            for (from, into) in result.iter_mut().zip(node.read(member, into)?) {
                *from = match side {
                    Side::Left => combine(from, &into),
                    Side::Right => combine(&into, from),
                };
            }
        }
        node.write(member, into, result)?;
    }
    node.round += 1;
    node.began = false;
    Ok(())
}

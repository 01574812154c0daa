use loom_group::schedule::*;

use crate::schedules::simulator::{Outcome, Sends, run};
use crate::schedules::{bounds, counts, edges, group, levels, outcome, ranges, roots, sizes, value, values};

fn never(_: &u64, _: &u64) -> u64 {
    panic!("this schedule combines nothing");
}

fn sent(outcome: &Outcome<u64>) -> (u64, u64) {
    (outcome.messages, outcome.elements)
}

fn placed(len: usize, ranges: &[std::ops::Range<usize>], element: impl Fn(usize, usize) -> u64) -> Vec<Option<u64>> {
    let mut buffer = vec![None; len];
    for (block, range) in ranges.iter().enumerate() {
        for place in range.clone() {
            buffer[place] = Some(element(block, place - range.start));
        }
    }
    buffer
}

#[test]
fn barrier_takes_ceil_log2_rounds() {
    for n in sizes().chain([1000]) {
        let members = group(n, Barrier::new);
        assert_eq!(u64::from(members[0].rounds()), levels(n));
        assert_eq!(sent(&outcome(&members, vec![vec![]; n as usize], never)), (u64::from(n) * levels(n), 0));
    }
    assert_eq!(Barrier::new(Member::new(0, 1000).unwrap()).rounds(), 10);
}

#[test]
fn barrier_waits_for_all() {
    for n in sizes() {
        let members = group(n, Barrier::new);
        let mut heard: Vec<Vec<bool>> = (0..n).map(|r| (0..n).map(|s| r == s).collect()).collect();
        for round in 0..members[0].rounds() {
            let before = heard.clone();
            for (member, heard) in members.iter().zip(&mut heard) {
                for op in member.ops(round) {
                    let Op::Recv { peer, .. } = op else { continue };
                    heard.iter_mut().zip(&before[peer as usize]).for_each(|(all, peer)| *all |= peer);
                }
            }
        }
        assert!(heard.iter().flatten().all(|heard| *heard), "{n} members");
    }
}

fn broadcasts<S: Schedule + std::fmt::Debug>(members: &[S], root: u32, count: usize) -> (u64, u64) {
    let given = (0..members.len()).map(|r| if r == root as usize { values(r, count) } else { vec![] }).collect();
    let sends = if members.len().is_multiple_of(2) { Sends::Buffered } else { Sends::Synchronous };
    let outcome = run(members, sends, vec![vec![]; members.len()], given, never)
        .unwrap_or_else(|broken| panic!("{broken:?} of {} members: {:?}", members.len(), members[0]));
    let expected: Vec<_> = values(root as usize, count).into_iter().map(Some).collect();
    assert!(outcome.outputs.iter().all(|output| *output == expected));
    sent(&outcome)
}

#[test]
fn broadcast_comes_to_all() {
    for n in sizes() {
        for (root, count) in roots(n).into_iter().flat_map(|root| counts(n).into_iter().map(move |c| (root, c))) {
            let (edge, c) = (u64::from(n) - 1, count as u64);
            let tree = broadcasts(&group(n, |m| BroadcastTree::new(m, root, count).unwrap()), root, count);
            assert_eq!(tree, if count == 0 { (0, 0) } else { (edge, edge * c) });

            let ring = broadcasts(&group(n, |m| BroadcastRing::new(m, root, count).unwrap()), root, count);
            let blocks = ranges(Blocks::Split(count), n);
            let tree: u64 = (0..n).map(|r| edges(r, root) * blocks[r as usize].len() as u64).sum();
            assert_eq!(ring.1 + 2 * c, tree + u64::from(n) * c + blocks[root as usize].len() as u64);
            if count >= n as usize {
                assert_eq!(ring.0, u64::from(n) * edge);
            }
        }
    }
    assert_eq!(broadcasts(&group(1000, |m| BroadcastTree::new(m, 333, 2).unwrap()), 333, 2), (999, 1998));
    broadcasts(&group(1000, |m| BroadcastRing::new(m, 333, 1).unwrap()), 333, 1);
}

fn each_blocks(n: u32, mut f: impl FnMut(Blocks<'_>)) {
    counts(n).into_iter().for_each(|count| f(Blocks::Equal(count)));
    for (begin, least) in [(0, 0), (3, 0), (2, 1)] {
        f(Blocks::Bounds(&bounds(n, begin, least)));
    }
    f(Blocks::Split(2 * n as usize + 1));
}

fn gathers<S: Schedule + std::fmt::Debug>(
    members: &[S],
    blocks: &[std::ops::Range<usize>],
    roots: &[u32],
) -> (u64, u64) {
    let inputs = blocks.iter().enumerate().map(|(r, block)| values(r, block.len())).collect();
    let outcome = outcome(members, inputs, never);
    let all = placed(blocks.last().unwrap().end, blocks, value);
    for (r, output) in (0..).zip(&outcome.outputs) {
        assert_eq!(*output, if roots.contains(&r) { all.clone() } else { vec![] });
    }
    sent(&outcome)
}

fn scatters<S: Schedule + std::fmt::Debug>(members: &[S], blocks: &[std::ops::Range<usize>], root: u32) -> (u64, u64) {
    let all = values(root as usize, blocks.last().unwrap().end);
    let inputs = (0..members.len()).map(|r| if r == root as usize { all.clone() } else { vec![] }).collect();
    let outcome = outcome(members, inputs, never);
    for (block, output) in blocks.iter().zip(&outcome.outputs) {
        assert_eq!(*output, all[block.clone()].iter().copied().map(Some).collect::<Vec<_>>());
    }
    sent(&outcome)
}

fn checks_rooted(n: u32, root: u32, blocks: Blocks<'_>) {
    let (at, edge) = (ranges(blocks, n), u64::from(n) - 1);
    let tree = (0..n).map(|r| edges(r, root) * at[r as usize].len() as u64).sum();
    let linear = (0..n).filter(|r| *r != root).map(|r| at[r as usize].len() as u64).sum();
    let all = [
        (gathers(&group(n, |m| GatherTree::new(m, root, blocks).unwrap()), &at, &[root]), tree),
        (gathers(&group(n, |m| GatherLinear::new(m, root, blocks).unwrap()), &at, &[root]), linear),
        (scatters(&group(n, |m| ScatterTree::new(m, root, blocks).unwrap()), &at, root), tree),
        (scatters(&group(n, |m| ScatterLinear::new(m, root, blocks).unwrap()), &at, root), linear),
    ];
    for ((messages, elements), formula) in all {
        assert_eq!(elements, formula, "{n} members, root {root}, {blocks:?}");
        if at.iter().all(|block| !block.is_empty()) {
            assert_eq!(messages, edge);
        }
    }
}

#[test]
fn gather_and_scatter_move_each_block() {
    for n in sizes() {
        for root in roots(n) {
            each_blocks(n, |blocks| checks_rooted(n, root, blocks));
        }
    }
    checks_rooted(1000, 0, Blocks::Equal(1));
    checks_rooted(1000, 717, Blocks::Bounds(&bounds(1000, 0, 0)));
}

#[test]
fn all_gather_brings_each_block_to_all() {
    let check = |n: u32, blocks: Blocks<'_>| {
        let (at, all) = (ranges(blocks, n), (0..n).collect::<Vec<_>>());
        let elements = (u64::from(n) - 1) * at.iter().map(|block| block.len() as u64).sum::<u64>();
        let bruck = gathers(&group(n, |m| AllGatherBruck::new(m, blocks).unwrap()), &at, &all);
        let ring = gathers(&group(n, |m| AllGatherRing::new(m, blocks).unwrap()), &at, &all);
        assert_eq!((bruck.1, ring.1), (elements, elements));
        if at.iter().all(|block| !block.is_empty()) {
            assert_eq!((bruck.0, ring.0), (u64::from(n) * levels(n), u64::from(n) * (u64::from(n) - 1)));
        }
    };
    for n in sizes() {
        each_blocks(n, |blocks| check(n, blocks));
    }
    let bruck = group(1000, |m| AllGatherBruck::new(m, Blocks::Equal(1)).unwrap());
    let at = ranges(Blocks::Equal(1), 1000);
    let all = (0..1000).collect::<Vec<_>>();
    assert_eq!(gathers(&bruck, &at, &all), (10_000, 999_000));
    let ring = group(1000, |m| AllGatherRing::new(m, Blocks::Equal(1)).unwrap());
    assert_eq!(gathers(&ring, &at, &all), (999_000, 999_000));
}

fn exchanges<S: Schedule + std::fmt::Debug>(members: &[S], len: impl Fn(usize, usize) -> usize) -> (u64, u64) {
    let n = members.len();
    let block = |r: usize, s: usize| (0..len(r, s)).map(move |place| value(r * n + s, place));
    let outcome = outcome(members, (0..n).map(|r| (0..n).flat_map(|s| block(r, s)).collect()).collect(), never);
    for (s, output) in outcome.outputs.iter().enumerate() {
        assert!(output.iter().copied().eq((0..n).flat_map(|r| block(r, s)).map(Some)), "member {s} of {n}");
    }
    sent(&outcome)
}

#[test]
fn all_to_all_exchanges_equal_blocks() {
    let bruck = |n: u32, count: usize| {
        let sent = exchanges(&group(n, |m| AllToAllBruck::new(m, count).unwrap()), |_, _| count);
        let bits: u64 = (0..u64::from(n)).map(|j| u64::from(j.count_ones())).sum();
        let messages = if count == 0 { 0 } else { u64::from(n) * levels(n) };
        assert_eq!(sent, (messages, u64::from(n) * count as u64 * bits));
    };
    for n in sizes() {
        for count in counts(n.min(9)) {
            bruck(n, count);
            let (blocks, pairs) = (Blocks::Equal(count), u64::from(n) * (u64::from(n) - 1));
            let members = group(n, |m| AllToAllPairwise::new(m, blocks, blocks).unwrap());
            let messages = if count == 0 { 0 } else { pairs };
            assert_eq!(exchanges(&members, |_, _| count), (messages, pairs * count as u64));
        }
    }
    bruck(1000, 1);
    let blocks = Blocks::Equal(1);
    let pairs = group(300, |m| AllToAllPairwise::new(m, blocks, blocks).unwrap());
    assert_eq!(exchanges(&pairs, |_, _| 1), (89_700, 89_700));
}

#[test]
fn all_to_all_exchanges_blocks_that_differ() {
    let len = |r: usize, s: usize| (r * 5 + s * 3) % 7;
    let ends = |lens: &mut dyn Iterator<Item = usize>| {
        std::iter::once(0).chain(lens.scan(0, |at, len| (*at += len, Some(*at)).1)).collect::<Vec<_>>()
    };
    for members in sizes() {
        let n = members as usize;
        let sent: Vec<_> = (0..n).map(|r| ends(&mut (0..n).map(|s| len(r, s)))).collect();
        let got: Vec<_> = (0..n).map(|s| ends(&mut (0..n).map(|r| len(r, s)))).collect();
        let members = group(members, |m| {
            let rank = m.rank() as usize;
            AllToAllPairwise::new(m, Blocks::Bounds(&sent[rank]), Blocks::Bounds(&got[rank])).unwrap()
        });
        let others = (0..n).flat_map(|r| (0..n).map(move |s| (r, s))).filter(|(r, s)| r != s);
        let lens: Vec<_> = others.map(|(r, s)| len(r, s)).filter(|len| *len > 0).collect();
        assert_eq!(exchanges(&members, len), (lens.len() as u64, lens.iter().sum::<usize>() as u64));
    }
}

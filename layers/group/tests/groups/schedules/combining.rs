use std::fmt::Debug;

use loom_group::schedule::*;

use crate::schedules::simulator::Outcome;
use crate::schedules::{bounds, counts, group, levels, outcome, ranges, roots, sizes, value, values};

/// Operation that is neither commutative nor associative.
fn mix(left: &u64, right: &u64) -> u64 {
    left.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(23) ^ right.wrapping_mul(3)
}

fn sum(left: &u64, right: &u64) -> u64 {
    left.wrapping_add(*right)
}

type Matrix = [u64; 4];

/// Operation that is associative and not commutative.
fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let cell = |row: usize, column: usize| {
        a[2 * row].wrapping_mul(b[column]).wrapping_add(a[2 * row + 1].wrapping_mul(b[2 + column]))
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

fn matrix(rank: usize, place: usize) -> Matrix {
    [value(rank, place) | 1, rank as u64 + 1, place as u64 + 2, value(place, rank)]
}

fn runs<S: Schedule + Debug, E: Clone>(
    members: &[S],
    count: usize,
    element: impl Fn(usize, usize) -> E,
    op: impl Fn(&E, &E) -> E,
) -> Outcome<E> {
    let inputs = (0..members.len()).map(|r| (0..count).map(|place| element(r, place)).collect()).collect();
    outcome(members, inputs, op)
}

fn fold<E>(ranks: impl IntoIterator<Item = usize>, element: impl Fn(usize) -> E, op: impl Fn(&E, &E) -> E) -> E {
    ranks.into_iter().map(element).reduce(|a, b| op(&a, &b)).unwrap()
}

fn halves(mut operands: Vec<u64>) -> u64 {
    while operands.len() > 1 {
        operands = operands.chunks(2).map(|pair| if let [a, b] = pair { mix(a, b) } else { pair[0] }).collect();
    }
    operands[0]
}

mod documented {
    use super::{halves, mix};

    pub(super) fn reduce(x: &[u64]) -> u64 {
        halves(x.to_vec())
    }

    pub(super) fn doubling(x: &[u64]) -> u64 {
        let pairs = x.len() - (1 << x.len().ilog2());
        let first = x[..2 * pairs].chunks(2).map(|pair| mix(&pair[0], &pair[1]));
        halves(first.chain(x[2 * pairs..].iter().copied()).collect())
    }

    pub(super) fn ring(x: &[u64], block: usize) -> u64 {
        (1..=x.len()).map(|after| x[(block + after) % x.len()]).reduce(|a, b| mix(&a, &b)).unwrap()
    }

    pub(super) fn scan(x: &[u64], rank: usize) -> u64 {
        let mut now = x.to_vec();
        let mut distance = 1;
        while distance < x.len() {
            let last = now.clone();
            (distance..x.len()).for_each(|r| now[r] = mix(&last[r - distance], &last[r]));
            distance *= 2;
        }
        now[rank]
    }

    pub(super) fn pairwise(x: &[u64], rank: usize) -> u64 {
        let from_right = |x: &[u64]| x.iter().rev().copied().reduce(|right, left| mix(&left, &right));
        let first = from_right(&x[..=rank]).unwrap();
        from_right(&x[rank + 1..]).map_or(first, |second| mix(&first, &second))
    }
}

fn operands(n: usize, place: usize) -> Vec<u64> {
    (0..n).map(|r| value(r, place)).collect()
}

#[test]
fn reduce_keeps_the_order_of_ranks() {
    let check = |n: u32, root: u32, count: usize| {
        let members = group(n, |m| ReduceTree::new(m, root, count).unwrap());
        let (size, edge) = (n as usize, u64::from(n) - 1);
        let at_root = |r: usize| r == root as usize;
        let mixed = runs(&members, count, value, mix);
        let added = runs(&members, count, value, sum);
        let multiplied = runs(&members, count, matrix, product);
        for r in 0..size {
            let count = if at_root(r) { count } else { 0 };
            let exactly = (0..count).map(|place| Some(documented::reduce(&operands(size, place))));
            assert!(mixed.outputs[r].iter().copied().eq(exactly), "{n} members, root {root}");
            let sums = (0..count).map(|place| Some(fold(0..size, |r| value(r, place), sum)));
            assert!(added.outputs[r].iter().copied().eq(sums));
            let products = (0..count).map(|place| Some(fold(0..size, |r| matrix(r, place), product)));
            assert!(multiplied.outputs[r].iter().copied().eq(products));
        }
        let messages = if count == 0 { 0 } else { edge };
        assert_eq!((mixed.messages, mixed.elements), (messages, edge * count as u64));
    };
    for n in sizes() {
        for (root, count) in roots(n).into_iter().flat_map(|root| counts(n).into_iter().map(move |c| (root, c))) {
            check(n, root, count);
        }
    }
    check(1000, 0, 2);
    check(1000, 717, 1);
}

#[test]
fn all_reduce_by_doubling_keeps_the_order_of_ranks() {
    let check = |n: u32, count: usize| {
        let members = group(n, |m| AllReduceDoubling::new(m, count));
        let size = n as usize;
        let mixed = runs(&members, count, value, mix);
        let exactly: Vec<_> = (0..count).map(|place| Some(documented::doubling(&operands(size, place)))).collect();
        assert!(mixed.outputs.iter().all(|output| *output == exactly), "{n} members");
        let multiplied = runs(&members, count, matrix, product);
        let products: Vec<_> = (0..count).map(|place| Some(fold(0..size, |r| matrix(r, place), product))).collect();
        assert!(multiplied.outputs.iter().all(|output| *output == products), "{n} members");

        let p = 1u32 << n.ilog2();
        let messages = if count == 0 { 0 } else { u64::from(p * p.ilog2() + 2 * (n - p)) };
        assert_eq!((mixed.messages, mixed.elements), (messages, messages * count as u64));
    };
    for n in sizes() {
        counts(n).into_iter().for_each(|count| check(n, count));
    }
    check(1000, 1);
}

#[test]
fn all_reduce_in_a_ring_needs_a_commutative_operation() {
    let check = |n: u32, count: usize| {
        let members = group(n, |m| AllReduceRing::new(m, count).unwrap());
        let size = n as usize;
        let added = runs(&members, count, value, sum);
        let sums: Vec<_> = (0..count).map(|place| Some(fold(0..size, |r| value(r, place), sum))).collect();
        assert!(added.outputs.iter().all(|output| *output == sums), "{n} members");

        let mixed = runs(&members, count, value, mix);
        let blocks = ranges(Blocks::Split(count), n);
        let block = |place: usize| blocks.iter().position(|block| block.contains(&place)).unwrap();
        let exactly = |place| Some(documented::ring(&operands(size, place), block(place)));
        let exactly: Vec<_> = (0..count).map(exactly).collect();
        assert!(mixed.outputs.iter().all(|output| *output == exactly), "{n} members");

        let edge = u64::from(n) - 1;
        assert_eq!(added.elements, 2 * edge * count as u64);
        if count >= size {
            assert_eq!(added.messages, 2 * u64::from(n) * edge);
        }
    };
    for n in sizes() {
        counts(n).into_iter().for_each(|count| check(n, count));
    }
    check(300, 300);
}

#[test]
fn scan_keeps_the_order_of_ranks() {
    let check = |n: u32, count: usize| {
        let members = group(n, |m| Scan::new(m, count));
        let mixed = runs(&members, count, value, mix);
        let multiplied = runs(&members, count, matrix, product);
        let mut products: Vec<Option<Matrix>> = vec![None; count];
        for r in 0..n as usize {
            if n < 100 {
                let exactly = (0..count).map(|place| Some(documented::scan(&operands(n as usize, place), r)));
                assert!(mixed.outputs[r].iter().copied().eq(exactly), "{n} members");
            }
            for (place, all) in products.iter_mut().enumerate() {
                *all = Some(all.map_or(matrix(r, place), |all| product(&all, &matrix(r, place))));
            }
            assert_eq!(multiplied.outputs[r], products, "{n} members");
        }
        let messages = if count == 0 { 0 } else { u64::from(n) * levels(n) - ((1 << levels(n)) - 1) };
        assert_eq!((mixed.messages, mixed.elements), (messages, messages * count as u64));
    };
    for n in sizes() {
        counts(n).into_iter().for_each(|count| check(n, count));
    }
    check(1000, 2);
}

#[test]
fn reduce_scatter_keeps_the_order_of_ranks() {
    let check = |n: u32, blocks: Blocks<'_>| {
        let members = group(n, |m| ReduceScatter::new(m, blocks).unwrap());
        let (at, size) = (ranges(blocks, n), n as usize);
        let len = at.last().unwrap().end;
        let mixed = runs(&members, len, value, mix);
        let multiplied = runs(&members, len, matrix, product);
        for (r, block) in at.iter().enumerate() {
            let exactly = block.clone().map(|place| Some(documented::pairwise(&operands(size, place), r)));
            assert!(mixed.outputs[r].iter().copied().eq(exactly), "{n} members");
            let products = block.clone().map(|place| Some(fold(0..size, |r| matrix(r, place), product)));
            assert!(multiplied.outputs[r].iter().copied().eq(products), "{n} members");
        }
        let edge = u64::from(n) - 1;
        assert_eq!(mixed.elements, edge * at.iter().map(|block| block.len() as u64).sum::<u64>());
        if at.iter().all(|block| !block.is_empty()) {
            assert_eq!(mixed.messages, u64::from(n) * edge);
        }
    };
    for n in sizes() {
        for blocks in [0, 1, 2, 7].map(Blocks::Equal) {
            check(n, blocks);
        }
        check(n, Blocks::Bounds(&bounds(n, 0, 0)));
        check(n, Blocks::Bounds(&bounds(n, 3, 1)));
        check(n, Blocks::Split(3 * n as usize / 2));
    }
    check(300, Blocks::Equal(1));
}

#[test]
fn all_reduce_gives_all_members_the_same_bits() {
    let element = |r: usize, place: usize| f64::from_bits(value(r, place) >> 12 | 0x3ff0_0000_0000_0000) * 1e3 - 1e3;
    fn check<S: Schedule + Debug>(members: &[S], count: usize, element: impl Fn(usize, usize) -> f64) {
        let bits = || {
            let outcome = runs(members, count, &element, |a, b| a + b);
            outcome.outputs.into_iter().map(|output| output.iter().map(|x| x.unwrap().to_bits()).collect()).collect()
        };
        let (first, second): (Vec<Vec<u64>>, Vec<Vec<u64>>) = (bits(), bits());
        assert_eq!(first, second);
        assert!(first.iter().all(|output| *output == first[0]));
    }
    for n in sizes() {
        let count = 2 * n as usize + 3;
        check(&group(n, |m| AllReduceDoubling::new(m, count)), count, element);
        check(&group(n, |m| AllReduceRing::new(m, count).unwrap()), count, element);
    }
}

#[test]
fn table_chooses_by_bytes_and_members() {
    let table = Table { all_reduce: Switch { bytes: 64, members: 4 }, ..Table::DEFAULT };
    let plan =
        |n: u32, count: usize, commutes| table.all_reduce(Member::new(0, n).unwrap(), count, 8, commutes).unwrap();
    assert!(matches!(plan(4, 8, Commutes::Yes), Plan::AllReduceRing(_)));
    for (n, count, commutes) in
        [(4, 7, Commutes::Yes), (3, 8, Commutes::Yes), (4, 8, Commutes::No), (9, 8, Commutes::Yes)]
    {
        assert!(matches!(plan(n, count, commutes), Plan::AllReduceDoubling(_)));
    }
    let plans = group(6, |m| table.all_reduce(m, 8, 8, Commutes::Yes).unwrap());
    let through = outcome(&plans, (0..6).map(|r| values(r, 8)).collect(), sum);
    let direct = outcome(&group(6, |m| AllReduceRing::new(m, 8).unwrap()), (0..6).map(|r| values(r, 8)).collect(), sum);
    assert_eq!(through, direct);

    let member = Member::new(1, 8).unwrap();
    let [always, never] = [Switch::ALWAYS, Switch::NEVER].map(|s| Table {
        broadcast: s,
        all_reduce: s,
        gather: s,
        scatter: s,
        all_gather: s,
        all_to_all: s,
    });
    let blocks = Blocks::Equal(1);
    assert!(matches!(always.broadcast(member, 0, 1, 1), Ok(Plan::BroadcastRing(_))));
    assert!(matches!(never.broadcast(member, 0, 1, 1), Ok(Plan::BroadcastTree(_))));
    assert!(matches!(always.gather(member, 0, blocks, 1), Ok(Plan::GatherLinear(_))));
    assert!(matches!(never.gather(member, 0, blocks, 1), Ok(Plan::GatherTree(_))));
    assert!(matches!(always.scatter(member, 0, blocks, 1), Ok(Plan::ScatterLinear(_))));
    assert!(matches!(never.scatter(member, 0, blocks, 1), Ok(Plan::ScatterTree(_))));
    assert!(matches!(always.all_gather(member, blocks, 1), Ok(Plan::AllGatherRing(_))));
    assert!(matches!(never.all_gather(member, blocks, 1), Ok(Plan::AllGatherBruck(_))));
    assert!(matches!(always.all_to_all(member, 1, 1), Ok(Plan::AllToAllPairwise(_))));
    assert!(matches!(never.all_to_all(member, 1, 1), Ok(Plan::AllToAllBruck(_))));
}

//! Results of collective operations, compared with a plain computation.

use loom_core::atomic::Complex;
use loom_core::collective::{Collective, ReduceOp};
use loom_core::soft::{Every, Plan};
use loom_core::vocabulary::AtomicOp;

use crate::objects::collectives::world::{Buf, Group, Members, Plain, bytes, drawn, with_room};

/// Every operation in a group, on random elements.
struct Round<'w> {
    members: &'w Members,
    groups: &'w [Group],
    seed: u64,
    /// Elements of a part.
    count: usize,
    root: usize,
}

impl Round<'_> {
    fn size(&self) -> usize {
        self.groups.len()
    }

    fn at_root(&self, rank: usize, parts: usize) -> usize {
        if rank == self.root { parts } else { 0 }
    }

    /// Posts a buffer for each member and compares the results with the expected ones.
    fn check(
        &self,
        what: &str,
        buf: impl Fn(usize) -> Buf,
        post: impl Fn(&Group, Buf) -> Result<loom_core::OpKey, loom_core::error::Rejected<Buf>>,
        expected: impl Fn(usize) -> Buf,
    ) {
        let keys =
            self.groups.iter().enumerate().map(|(rank, group)| self.members.post(buf(rank), |buf| post(group, buf)));
        for (rank, got) in self.members.all(keys.collect()).into_iter().enumerate() {
            assert!(got == expected(rank), "{what}: {self} at {rank}");
        }
    }

    fn all(&self) {
        let (size, count, root) = (self.size(), self.count, self.root);
        let ones = drawn::<u32>(self.seed, size, count);
        let many = drawn::<u32>(self.seed ^ 1, size, size * count);
        let sum = |of: &dyn Fn(usize) -> Vec<u32>| {
            let add = |sum: Vec<u32>, next: Vec<u32>| sum.iter().zip(next).map(|(a, b)| a.wrapping_add(b)).collect();
            (0..size).map(of).reduce(add).expect("a member")
        };
        let part = |of: &[u32], at: usize| of[at * count..(at + 1) * count].to_vec();
        let then = |operands: &[u32], results: &[u32]| [bytes(operands), bytes(results)].concat();
        let gathered = ones.concat();
        let total = sum(&|rank| ones[rank].clone());

        self.check(
            "broadcast",
            |rank| bytes(&ones[rank]),
            |group, buf| group.post(Collective::broadcast::<u32>(), root, buf),
            |_| bytes(&ones[root]),
        );
        self.check(
            "all_reduce",
            |rank| with_room(&ones[rank], count),
            |group, buf| group.post(Collective::all_reduce(ReduceOp::<u32>::SUM), 0, buf),
            |rank| then(&ones[rank], &total),
        );
        self.check(
            "reduce",
            |rank| with_room(&ones[rank], self.at_root(rank, count)),
            |group, buf| group.post(Collective::reduce(ReduceOp::<u32>::SUM), root, buf),
            |rank| then(&ones[rank], if rank == root { &total } else { &[] }),
        );
        self.check(
            "reduce_scatter",
            |rank| with_room(&many[rank], count),
            |group, buf| group.post(Collective::reduce_scatter(ReduceOp::<u32>::SUM), 0, buf),
            |rank| then(&many[rank], &sum(&|from| part(&many[from], rank))),
        );
        self.check(
            "all_gather",
            |rank| with_room(&ones[rank], size * count),
            |group, buf| group.post(Collective::all_gather::<u32>(), 0, buf),
            |rank| then(&ones[rank], &gathered),
        );
        self.check(
            "gather",
            |rank| with_room(&ones[rank], self.at_root(rank, size * count)),
            |group, buf| group.post(Collective::gather::<u32>(), root, buf),
            |rank| then(&ones[rank], if rank == root { &gathered } else { &[] }),
        );
        self.check(
            "scatter",
            |rank| if rank == root { with_room(&many[root], count) } else { with_room::<u32>(&[], count) },
            |group, buf| group.post(Collective::scatter::<u32>(), root, buf),
            |rank| then(if rank == root { &many[root] } else { &[] }, &part(&many[root], rank)),
        );
        self.check(
            "all_to_all",
            |rank| with_room(&many[rank], size * count),
            |group, buf| group.post(Collective::all_to_all::<u32>(), 0, buf),
            |rank| then(&many[rank], &many.iter().flat_map(|from| part(from, rank)).collect::<Vec<_>>()),
        );
        self.values(&ones, total[0]);
    }

    /// Operations without a buffer.
    fn values(&self, ones: &[Vec<u32>], total: u32) {
        let barrier: Vec<_> = self.groups.iter().map(|group| self.members.retry(|| group.barrier())).collect();
        let sent = |group: &Group| self.members.retry(|| group.broadcast_value(self.root, ones[group.rank()][0]));
        let sent: Vec<_> = self.groups.iter().map(sent).collect();
        let summed =
            |group: &Group| self.members.retry(|| group.all_reduce_value(ReduceOp::SUM, ones[group.rank()][0]));
        let summed: Vec<_> = self.groups.iter().map(summed).collect();
        let value = |key| {
            self.members
                .cq
                .wait_value(key, crate::objects::collectives::world::LIMIT)
                .expect("a queue")
                .expect("it ends")
                .value::<u32>()
        };
        assert!(barrier.into_iter().all(|key| value(key) == Ok(None)), "{self}");
        assert!(sent.into_iter().all(|key| value(key) == Ok(Some(ones[self.root][0]))), "{self}");
        assert!(summed.into_iter().all(|key| value(key) == Ok(Some(total))), "{self}");
    }
}

impl std::fmt::Display for Round<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Round { seed, count, root, .. } = self;
        write!(f, "{} members, {count} elements, root {root}, seed {seed}", self.size())
    }
}

fn rounds(size: usize, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let plan = Plan { refuse: Every::About(3), delay: 2, ..Plan::new(seed) };
        let members = Members::with_faults(size, Some(plan));
        let groups = members.join();
        let drawn = usize::try_from(seed).expect("small") * 7 + size * 3;
        Round { members: &members, groups: &groups, seed, count: 1 + drawn % 5, root: drawn % size }.all();
        assert!(members.network.injected().refused > 0, "a plan that never strikes tests nothing");
    }
}

#[test]
fn every_operation_brings_the_right_result_in_groups_of_1_to_64_under_faults() {
    (1..=64).for_each(|size| rounds(size, 0..3));
}

#[test]
fn every_operation_brings_the_right_result_in_a_group_of_1000_under_faults() {
    rounds(1000, 0..1);
}

/// Every reduction of a type.
fn reductions<E: Plain>(ops: &[(ReduceOp<E>, AtomicOp)]) {
    let members = Members::new(5);
    let groups = members.join();
    for (op, plain) in ops {
        let elements = drawn::<E>(u64::from(plain.as_raw()), 5, 9);
        let post = |group: &Group| {
            members.post(with_room(&elements[group.rank()], 9), |buf| group.post(Collective::all_reduce(*op), 0, buf))
        };
        let keys: Vec<_> = groups.iter().map(post).collect();
        let combine =
            |one: Vec<E>, other: &Vec<E>| one.iter().zip(other).map(|(a, b)| a.combined(*plain, *b)).collect();
        let expected = elements[1..].iter().fold(elements[0].clone(), combine);
        for (buf, operands) in members.all(keys).into_iter().zip(&elements) {
            assert_eq!(buf, [bytes(operands), bytes(&expected)].concat(), "{plain} of {}", std::any::type_name::<E>());
        }
    }
}

macro_rules! ops {
    ($($NAME:ident)*) => { &[$((ReduceOp::$NAME, AtomicOp::$NAME)),*] };
}

macro_rules! integers {
    ($($Type:ty)*) => { $(reductions::<$Type>(ops![SUM PROD LOR LAND LXOR MIN MAX BOR BAND BXOR]);)* };
}

#[test]
fn every_reduction_of_every_type_equals_a_plain_computation() {
    integers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);
    reductions::<f32>(ops![SUM PROD LOR LAND LXOR MIN MAX]);
    reductions::<f64>(ops![SUM PROD LOR LAND LXOR MIN MAX]);
    reductions::<Complex<f32>>(ops![SUM PROD LOR LAND LXOR]);
    reductions::<Complex<f64>>(ops![SUM PROD LOR LAND LXOR]);
}

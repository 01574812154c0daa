//! Random stories of leases, their parts and their data, beside a naive account of who has which byte.

use std::collections::HashMap;
use std::mem;

use loom_alloc::allocator_api2::alloc::Global;
use loom_alloc::registered::{Lease, NotJoined, RegisteredSlab, SlabAttr};
use loom_alloc::{Owner, Shared, Sharing};
use loom_core::buffer::Buffer;
use loom_core::objects::domain::Domain;
use loom_core::objects::registered::Registered;

use crate::network;

const COUNT: usize = 5;
const SIZE: usize = 24;
const ALIGN: usize = 32;
const SEEDS: u64 = if cfg!(debug_assertions) { 20 } else { 200 };

/// A xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// What a lease is to be: byte numbers in all of the memory.
struct Account {
    part: std::ops::Range<usize>,
    data: std::ops::Range<usize>,
}

impl Account {
    fn settle(mut self) -> Self {
        if self.data.is_empty() {
            self.data = self.part.start..self.part.start;
        }
        self
    }

    fn within(&self, part: std::ops::Range<usize>) -> Account {
        let data = self.data.start.clamp(part.start, part.end)..self.data.end.clamp(part.start, part.end);
        Account { part, data }.settle()
    }
}

struct World<'t, 's, L: Sharing> {
    lease: &'t dyn Fn() -> Option<Lease<'s, L>>,
    /// Where the memory begins.
    begin: usize,
    leases: Vec<(Lease<'s, L>, Account)>,
    /// The bytes of all buffers, as far as somebody has written them.
    bytes: HashMap<usize, u8>,
    /// Forgotten parts.
    lost: Vec<std::ops::Range<usize>>,
    happened: HashMap<&'static str, u32>,
    random: Random,
}

impl<L: Sharing> World<'_, '_, L> {
    fn check(&mut self) {
        let mut owner = HashMap::new();
        for (lease, account) in &mut self.leases {
            assert_eq!(lease.capacity(), account.part.len());
            assert_eq!(lease.room(), account.part.end - account.data.end);
            assert_eq!(lease.len(), account.data.len());
            let lent = lease.lend();
            let posted = if account.data.is_empty() { account.part.clone() } else { account.data.clone() };
            assert_eq!((lent.ptr().addr().get() - self.begin, lent.len()), (posted.start, posted.len()));
            assert_eq!(lent.is_readable(), !account.data.is_empty());
            for (at, byte) in account.data.clone().zip(&lease[..]) {
                assert_eq!(self.bytes.get(&at), Some(byte), "somebody else has written to byte {at}");
            }
            for at in account.part.clone() {
                assert!(owner.insert(at, ()).is_none(), "byte {at} has two owners");
            }
        }
    }

    /// The buffers that somebody has a part of.
    fn out(&self) -> Vec<usize> {
        let parts = self.leases.iter().map(|(_, account)| &account.part).chain(&self.lost);
        let mut out: Vec<_> = parts.map(|part| part.start / ALIGN).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    fn take(&mut self) -> &'static str {
        let out = self.out();
        let Some(mut lease) = (self.lease)() else {
            assert_eq!(out.len(), COUNT, "no lease, and there are free buffers");
            return "none left";
        };
        let start = lease.lend().ptr().addr().get() - self.begin;
        assert!(start.is_multiple_of(ALIGN) && !out.contains(&(start / ALIGN)));
        self.leases.push((lease, Account { part: start..start + SIZE, data: start..start }));
        "taken"
    }

    fn split(&mut self, at: usize) -> &'static str {
        let (lease, account) = self.leases.swap_remove(at);
        let middle = self.random.below(account.part.len() + 2);
        match lease.split(middle) {
            Ok((first, second)) => {
                assert!(middle > 0 && middle < account.part.len());
                let middle = account.part.start + middle;
                let parts = [account.within(account.part.start..middle), account.within(middle..account.part.end)];
                self.leases.extend([first, second].into_iter().zip(parts));
                "split"
            }
            Err(lease) => {
                assert!(middle == 0 || middle >= account.part.len());
                self.leases.push((lease, account));
                "not split"
            }
        }
    }

    fn rejoin(&mut self, at: usize) -> &'static str {
        let (lease, account) = self.leases.swap_remove(at);
        if self.leases.is_empty() {
            self.leases.push((lease, account));
            return "alone";
        }
        // A neighbour more often than not.
        let neighbour = self
            .leases
            .iter()
            .position(|(_, other)| other.part.start == account.part.end || other.part.end == account.part.start);
        let chosen = neighbour.filter(|_| self.random.below(4) > 0).unwrap_or(self.random.below(self.leases.len()));
        let (other_lease, other) = self.leases.swap_remove(chosen);
        let [first, second] =
            if account.part.start < other.part.start { [&account, &other] } else { [&other, &account] };
        let neighbours = first.part.end == second.part.start && first.part.start / ALIGN == second.part.start / ALIGN;
        let gap = !first.data.is_empty() && !second.data.is_empty() && first.data.end != second.data.start;
        match lease.rejoin(other_lease) {
            Ok(joined) => {
                assert!(neighbours && !gap);
                let data = match (first.data.is_empty(), second.data.is_empty()) {
                    (false, false) => first.data.start..second.data.end,
                    (false, true) => first.data.clone(),
                    _ => second.data.clone(),
                };
                let joined_account = Account { part: first.part.start..second.part.end, data }.settle();
                self.leases.push((joined, joined_account));
                "joined"
            }
            Err(NotJoined { lease, other: other_lease }) => {
                assert!(!neighbours || gap);
                self.leases.extend([(lease, account), (other_lease, other)]);
                if gap && neighbours { "a gap" } else { "no neighbours" }
            }
        }
    }

    fn write(&mut self, at: usize, fill: u8) -> &'static str {
        let (lease, account) = &mut self.leases[at];
        let len = self.random.below(SIZE / 2);
        let done = lease.append(&vec![fill; len]);
        assert_eq!(done.is_ok(), len <= account.part.end - account.data.end);
        if done.is_err() {
            return "no room";
        }
        self.bytes.extend((account.data.end..account.data.end + len).map(|at| (at, fill)));
        account.data.end += len;
        "written"
    }

    fn read(&mut self, at: usize) -> &'static str {
        let (lease, account) = &mut self.leases[at];
        let len = self.random.below(SIZE / 2);
        let done = lease.consume(len);
        assert_eq!(done.is_ok(), len <= account.data.len());
        if done.is_err() {
            return "no data";
        }
        account.data.start += len;
        *account = account.within(account.part.clone());
        "consumed"
    }

    fn set_len(&mut self, at: usize) -> &'static str {
        let (lease, account) = &mut self.leases[at];
        let len = self.random.below(SIZE + 2);
        let done = lease.set_len(len);
        assert_eq!(done.is_ok(), len <= account.part.end - account.data.start);
        if done.is_err() {
            return "not so long";
        }
        account.data.end = account.data.start + len;
        // What was room has what anybody left there.
        self.bytes.extend(account.data.clone().zip(lease.iter().copied()));
        *account = account.within(account.part.clone());
        "set"
    }

    fn step(&mut self, step: usize) {
        let fill = u8::try_from(step % 251).unwrap();
        let chosen = (!self.leases.is_empty()).then(|| self.random.below(self.leases.len()));
        let happened = match (self.random.below(20), chosen) {
            (0..=2, _) | (_, None) => self.take(),
            (3..=6, Some(at)) => self.split(at),
            (7..=10, Some(at)) => self.rejoin(at),
            (11..=13, Some(at)) => self.write(at, fill),
            (14 | 15, Some(at)) => self.read(at),
            (16, Some(at)) => self.set_len(at),
            (17 | 18, Some(at)) => {
                drop(self.leases.swap_remove(at));
                "dropped"
            }
            // Seldom: a buffer of which a part is forgotten never comes back.
            (_, Some(at)) if self.random.below(60) == 0 && self.lost.len() < 3 => {
                let (lease, account) = self.leases.swap_remove(at);
                mem::forget(lease);
                self.lost.push(account.part);
                "forgotten"
            }
            (_, Some(at)) => {
                let (lease, account) = &mut self.leases[at];
                lease.clear();
                account.data = account.part.start..account.part.start;
                "cleared"
            }
        };
        *self.happened.entry(happened).or_default() += 1;
    }
}

fn stories<L: Sharing>() {
    let network = network();
    let domain = Domain::open(&network.info()).unwrap();
    let mut happened = HashMap::new();
    for seed in 1..SEEDS {
        let memory: Box<[u8]> = vec![0; (COUNT + 1) * ALIGN].into();
        let begin = memory.as_ptr().addr().next_multiple_of(ALIGN);
        let memory = Registered::new(&domain, memory).unwrap();
        let attr = SlabAttr::new(COUNT, SIZE).align(ALIGN);
        let slab = RegisteredSlab::<_, _, _, L>::over(memory, attr, Global).unwrap();
        let mut world = World {
            lease: &|| slab.lease(),
            begin,
            leases: vec![],
            bytes: HashMap::new(),
            lost: vec![],
            happened: mem::take(&mut happened),
            random: Random(0x9e37_79b9_7f4a_7c15 ^ seed << 20),
        };
        for step in 0..2000 {
            world.step(step);
            world.check();
        }
        // All that was not forgotten comes back.
        world.leases.clear();
        let lost = world.out();
        happened = world.happened;
        let left: Vec<_> = std::iter::from_fn(|| slab.lease()).collect();
        assert_eq!(left.len() + lost.len(), COUNT);
        assert!(left.iter().all(|lease| lease.capacity() == SIZE));
    }
    for what in [
        "taken",
        "none left",
        "split",
        "not split",
        "joined",
        "a gap",
        "no neighbours",
        "written",
        "no room",
        "consumed",
        "no data",
        "set",
        "not so long",
        "dropped",
        "forgotten",
        "cleared",
    ] {
        assert!(happened.get(what).is_some_and(|count| *count > 5), "{what}: {happened:?}");
    }
}

#[test]
fn owned_leases_do_as_the_account_says() {
    stories::<Owner>();
}

#[test]
fn shared_leases_do_as_the_account_says() {
    stories::<Shared>();
}

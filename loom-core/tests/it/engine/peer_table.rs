//! The peer table alone: beside a `BTreeMap`, and with readers during changes.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use loom_core::engine::peer_table::{Peer, PeerSlot, PeerTable};
use loom_core::vocabulary::FabricAddr;
use proptest::prelude::*;

fn places(count: usize) -> Vec<PeerSlot> {
    (0..count).map(|_| PeerSlot::default()).collect()
}

/// Returns an address with this index. `rest` distinguishes addresses of one index.
const fn addr(rest: u32, index: u32) -> FabricAddr {
    FabricAddr((rest as u64) << 32 | index as u64)
}

#[test]
fn a_peer_is_found_both_ways() {
    let mut entries = places(4);
    let mut table = PeerTable::new(&mut entries);
    for index in 0..4 {
        let peer = table.insert(addr(7, index)).unwrap();
        assert_eq!(table.addr(peer), Some(addr(7, index)));
        assert_eq!(table.peer(addr(7, index)), Some(peer));
        assert_eq!(peer.index(), index as usize);
    }
    assert_eq!(table.iter().count(), 4);
}

#[test]
fn an_empty_table_has_no_peers() {
    let mut entries = places(3);
    let table = PeerTable::new(&mut entries);
    for rest in [0, 1, u32::MAX] {
        for index in [0, 2, 3, u32::MAX] {
            assert_eq!(table.peer(addr(rest, index)), None);
        }
    }
    assert_eq!(table.iter().count(), 0);
    assert_eq!(PeerTable::new(&mut []).insert(addr(0, 0)), None);
}

#[test]
fn an_index_beyond_the_table_is_refused() {
    let mut entries = places(2);
    let mut table = PeerTable::new(&mut entries);
    for index in [2, 3, 1 << 16, u32::MAX] {
        assert_eq!(table.insert(addr(1, index)), None);
        assert_eq!(table.peer(addr(1, index)), None);
    }
    assert_eq!(table.insert(FabricAddr::UNSPEC), None);
    assert_eq!(table.peer(FabricAddr::UNSPEC), None);
    assert_eq!(table.iter().count(), 0);
}

#[test]
fn the_same_address_is_the_same_peer() {
    let mut entries = places(1);
    let mut table = PeerTable::new(&mut entries);
    let peer = table.insert(addr(0, 0)).unwrap();
    assert_eq!(table.insert(addr(0, 0)), Some(peer));
    assert_eq!(table.iter().collect::<Vec<_>>(), [peer]);
}

#[test]
fn another_address_in_the_same_place_makes_the_handle_stale() {
    let mut entries = places(1);
    let mut table = PeerTable::new(&mut entries);
    let old = table.insert(addr(1, 0)).unwrap();
    let new = table.insert(addr(2, 0)).unwrap();
    assert_ne!(old, new);
    assert_eq!((table.addr(old), table.addr(new)), (None, Some(addr(2, 0))));
    assert_eq!((table.peer(addr(1, 0)), table.peer(addr(2, 0))), (None, Some(new)));
    assert_eq!(table.remove(old), None);
    assert_eq!(table.addr(new), Some(addr(2, 0)), "a stale handle removes nobody");
}

#[test]
fn a_handle_never_reaches_a_later_peer() {
    let mut entries = places(1);
    let mut table = PeerTable::new(&mut entries);
    let mut old: Vec<Peer> = Vec::new();
    for round in 0..100 {
        // Also reuses the same address: after a removal it is a new peer.
        let peer = table.insert(addr(round / 2, 0)).unwrap();
        assert!(!old.contains(&peer));
        assert!(old.iter().all(|old| table.addr(*old).is_none() && table.remove(*old).is_none()));
        assert_eq!(table.remove(peer), Some(addr(round / 2, 0)));
        assert_eq!(table.remove(peer), None);
        assert_eq!(table.peer(addr(round / 2, 0)), None);
        old.push(peer);
    }
}

#[test]
fn a_handle_of_a_larger_table_is_unknown() {
    let (mut large, mut small) = (places(8), places(2));
    let peer = PeerTable::new(&mut large).insert(addr(1, 5)).unwrap();
    let mut small = PeerTable::new(&mut small);
    assert_eq!((small.addr(peer), small.at(5), small.remove(peer)), (None, None, None));
}

#[test]
fn an_address_may_have_every_bit_set_beyond_its_index() {
    let mut entries = places(1);
    let mut table = PeerTable::new(&mut entries);
    let peer = table.insert(addr(u32::MAX, 0)).unwrap();
    assert_eq!(table.addr(peer), Some(addr(u32::MAX, 0)));
}

const PLACES: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert {
        rest: u32,
        index: u32,
    },
    /// The `nth` handle ever returned, counted from the newest.
    Remove {
        nth: usize,
    },
}

/// A table, and its oracle: index to handle and address.
#[derive(Default)]
struct Oracle {
    there: BTreeMap<u32, (Peer, FabricAddr)>,
    given: Vec<Peer>,
}

impl Oracle {
    fn apply(&mut self, table: &mut PeerTable<'_>, step: Step) {
        match step {
            Step::Insert { index, rest } if index >= PLACES => {
                assert_eq!(table.insert(addr(rest, index)), None);
            }
            Step::Insert { index, rest } => {
                let wanted = addr(rest, index);
                let peer = table.insert(wanted).unwrap();
                match self.there.get(&index) {
                    Some((there, known)) if *known == wanted => assert_eq!(peer, *there),
                    _ => {
                        assert!(!self.given.contains(&peer), "handles are not given out twice");
                        self.given.push(peer);
                        self.there.insert(index, (peer, wanted));
                    }
                }
            }
            Step::Remove { nth } => {
                let Some(at) = self.given.len().checked_sub(1 + nth) else { return };
                let peer = self.given[at];
                let there = self.there.iter().find(|(_, (there, _))| *there == peer).map(|(index, _)| *index);
                let removed = there.and_then(|index| self.there.remove(&index)).map(|(_, addr)| addr);
                assert_eq!(table.remove(peer), removed);
            }
        }
        self.check(table);
    }

    fn check(&self, table: &PeerTable<'_>) {
        for peer in &self.given {
            let known = self.there.values().find(|(there, _)| there == peer).map(|(_, addr)| *addr);
            assert_eq!(table.addr(*peer), known);
        }
        for index in 0..=PLACES {
            for rest in 0..3 {
                let known = self.there.get(&index).filter(|(_, known)| *known == addr(rest, index));
                assert_eq!(table.peer(addr(rest, index)), known.map(|(peer, _)| *peer));
            }
        }
        let there: Vec<Peer> = self.there.values().map(|(peer, _)| *peer).collect();
        assert_eq!(table.iter().collect::<Vec<_>>(), there);
    }
}

#[test]
fn every_sequence_of_five_steps() {
    let inserts = [(0, 0), (1, 0), (0, 1), (0, PLACES)].map(|(rest, index)| Step::Insert { rest, index });
    let removes = [0, 1, 2, 3].map(|nth| Step::Remove { nth });
    let steps = [inserts, removes].concat();
    let sequences = steps.len().pow(5);
    for number in 0..sequences {
        let mut entries = places(PLACES as usize);
        let mut table = PeerTable::new(&mut entries);
        let mut oracle = Oracle::default();
        let mut digits = number;
        for _ in 0..5 {
            oracle.apply(&mut table, steps[digits % steps.len()]);
            digits /= steps.len();
        }
    }
    assert_eq!(sequences, 32768);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_sequences(steps in prop::collection::vec(prop_oneof![
        3 => (0u32..3, 0..PLACES + 1).prop_map(|(rest, index)| Step::Insert { rest, index }),
        2 => (0usize..6).prop_map(|nth| Step::Remove { nth }),
    ], 0..200)) {
        let mut entries = places(PLACES as usize);
        let mut table = PeerTable::new(&mut entries);
        let mut oracle = Oracle::default();
        for step in steps {
            oracle.apply(&mut table, step);
        }
    }
}

/// Readers hold handles with known addresses. During all changes, a handle gives no address but its
/// own.
///
/// The writer does not use an address for two handles, so a reader can derive the handle from the
/// address.
#[test]
fn concurrent_readers_never_see_another_peers_address() {
    const ROUNDS: u32 = 30_000;
    const READERS: usize = 2;
    /// The writer continues until each reader has found this many removed handles, under any
    /// schedule.
    const CHANGES: u64 = 20;
    let changes: [AtomicU64; READERS] = Default::default();
    let mut entries = places(2);
    let mut table = PeerTable::new(&mut entries);
    let peers = *table;
    // Newest address in each place. The reader derives a handle from it through the table.
    let newest = [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)];
    let stop = AtomicBool::new(false);
    let start = Barrier::new(READERS + 1);
    let (mut hits, mut misses) = (0, 0);
    thread::scope(|scope| {
        let readers: Vec<_> = changes
            .iter()
            .map(|changes| {
                let (newest, stop, start) = (&newest, &stop, &start);
                scope.spawn(move || {
                    start.wait();
                    let (mut hits, mut misses) = (0u64, 0u64);
                    // Handles by address: a handle keeps its first address.
                    let mut known: Vec<(Peer, FabricAddr)> = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        for newest in newest {
                            let wanted = FabricAddr(newest.load(Ordering::Relaxed));
                            if let Some(peer) = peers.peer(wanted) {
                                known.push((peer, wanted));
                            }
                        }
                        let before = misses;
                        for (peer, wanted) in &known {
                            match peers.addr(*peer) {
                                Some(found) => {
                                    assert_eq!(found, *wanted, "{peer} has one address");
                                    hits += 1;
                                }
                                None => misses += 1,
                            }
                        }
                        for peer in peers.iter() {
                            // Removed, or still with its first address.
                            if let (Some(found), Some((_, wanted))) =
                                (peers.addr(peer), known.iter().find(|(known, _)| *known == peer))
                            {
                                assert_eq!(found, *wanted);
                            }
                        }
                        if known.len() > 16 {
                            known.drain(..8);
                        }
                        changes.fetch_add(u64::from(misses > before), Ordering::Relaxed);
                    }
                    (hits, misses)
                })
            })
            .collect();
        start.wait();
        let limit = Instant::now() + Duration::from_secs(60);
        let were_seen = || changes.iter().all(|changes| changes.load(Ordering::Relaxed) >= CHANGES);
        for round in 0.. {
            let index = round % 2;
            let fresh = addr(round, index);
            // Removes every third peer first. The others are displaced.
            if round % 3 == 0
                && let Some(peer) = peers.iter().next()
            {
                assert!(table.remove(peer).is_some());
            }
            let peer = table.insert(fresh).unwrap();
            newest[index as usize].store(fresh.0, Ordering::Relaxed);
            assert_eq!(table.addr(peer), Some(fresh));
            if round % 64 == 0 {
                if round > ROUNDS && (were_seen() || Instant::now() > limit) {
                    break;
                }
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            let (hit, missed) = reader.join().unwrap();
            hits += hit;
            misses += missed;
        }
    });
    println!("{hits} handles reached their peer, {misses} were stale");
    assert!(hits > 0, "the readers read something");
    assert!(changes.into_iter().all(|changes| changes.into_inner() >= CHANGES), "while it changed");
}

/// A handle is plain data, possibly of another table. It can find a peer of this table by chance,
/// but only an inserted address.
#[test]
fn handles_of_another_table_never_find_an_address_that_was_not_inserted() {
    const PLACES: u32 = 1024;
    const ROUNDS: u32 = 2000;
    let mut foreign = places(PLACES as usize);
    let mut foreign = PeerTable::new(&mut foreign);
    let foreign: Vec<Peer> = (0..PLACES).map(|index| foreign.insert(addr(1, index)).unwrap()).collect();
    for round in 1..=ROUNDS {
        let mut entries = places(PLACES as usize);
        let mut table = PeerTable::new(&mut entries);
        let peers = *table;
        let start = Barrier::new(2);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                start.wait();
                for index in 0..PLACES {
                    table.insert(addr(round, index)).unwrap();
                }
            });
            start.wait();
            // From the last place on, so that the writer meets the reader.
            for (index, peer) in (0..PLACES).zip(&foreign).rev() {
                for _ in 0..50 {
                    let found = peers.addr(*peer);
                    assert!(found.is_none_or(|found| found == addr(round, index)), "{found:?} was never inserted");
                }
            }
            writer.join().unwrap();
        });
    }
}

/// ThreadSanitizer checks that the table orders the two accesses. This machine orders them anyway.
#[test]
fn reader_that_finds_a_peer_sees_earlier_writes_of_its_inserter() {
    struct Written(UnsafeCell<u64>);
    // SAFETY: the cell is written before the peer is inserted, and read by a thread that has found
    // it.
    unsafe impl Sync for Written {}
    let mut found = 0;
    for round in 0..200 {
        let mut entries = places(1);
        let mut table = PeerTable::new(&mut entries);
        let (peers, written) = (*table, &Written(UnsafeCell::new(0)));
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                for _ in 0..100_000 {
                    if peers.peer(addr(1, 0)).is_some() {
                        // SAFETY: the table orders the write before this read.
                        return Some(unsafe { *written.0.get() });
                    }
                    spin_loop();
                }
                None
            });
            // SAFETY: the reader waits for the peer.
            unsafe { *written.0.get() = round };
            table.insert(addr(1, 0)).unwrap();
            if let Some(seen) = reader.join().unwrap() {
                assert_eq!(seen, round);
                found += 1;
            }
        });
    }
    assert!(found > 0, "no reader has waited long enough");
}

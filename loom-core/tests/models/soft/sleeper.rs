//! A delivery at the start of a sleep is found or wakes the thread up, and no peer rings the bell
//! of a closed queue.

use core::ptr::NonNull;
use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{Cells, open_inbox};
use crate::soft::lane::{LANE_CELL, Lane, SLOT_BYTES, Slot, SlotWord, cells_of_lane};
use crate::soft::shared::cell::{MessageCell, Revocations};
use crate::soft::shared::list::{Inbox, Returns};
use crate::soft::shared::sleeper::{Sleeper, Sleeps, Watch};
use crate::vocabulary::WaitObj;

#[repr(C, align(64))]
struct LaneCell {
    cell: MessageCell,
    _room: [u8; SLOT_BYTES],
}

const _: () = assert!(size_of::<LaneCell>() == LANE_CELL);

const SLOTS: u32 = 2;
const FIRST: u64 = 1;

struct World {
    inbox: Inbox,
    generation: u32,
    mail: Cells,
    returns: Returns,
    revocations: Revocations,
    lane: Lane,
    _slots: Vec<Slot>,
    _cells: Vec<LaneCell>,
    watch: Watch,
    sleeper: Sleeper,
}

impl World {
    fn new() -> Arc<Self> {
        let slots: Vec<_> = (0..SLOTS).map(|_| Slot::new()).collect();
        let cells =
            (0..cells_of_lane(SLOTS)).map(|number| LaneCell { cell: MessageCell::new(number), _room: [0; SLOT_BYTES] });
        let cells: Vec<_> = cells.collect();
        // SAFETY: the slots and cells are in the same world as the lane, and do not move in it.
        let lane = unsafe { Lane::new(0, NonNull::from(&slots[..]).cast(), SLOTS, NonNull::from(&cells[..]).cast()) };
        assert_eq!(lane.request(7), FIRST);
        assert!(lane.accept(true));
        let (inbox, generation) = open_inbox();
        let world = Arc::new(World {
            inbox,
            generation,
            mail: Cells::new(2),
            returns: Returns::new(),
            revocations: Revocations::new(),
            lane,
            _slots: slots,
            _cells: cells,
            watch: Watch::new(),
            sleeper: Sleeper::new(WaitObj::FD).unwrap(),
        });
        // SAFETY: the sleeper stays in the world as long as the threads run.
        assert!(unsafe { world.watch.open([Some(&world.sleeper), None]) });
        world
    }

    fn push(&self, cell: u32) {
        assert!(self.inbox.push(self.generation, cell, self.mail.link(cell)));
    }

    fn falls_asleep(&self, how: Sleeps, way: Way) -> bool {
        let quiet = self.sleeper.set_asleep(how);
        (way.say)(&self.watch);
        let asleep = quiet && !(way.has)(self);
        if !asleep {
            self.sleeper.set_awake();
        }
        asleep
    }

    fn was_woken(&self, how: Sleeps) -> bool {
        let (rung, shown) = self.sleeper.bell().rings();
        if how == Sleeps::InCall { rung > 0 } else { shown > 0 }
    }
}

#[derive(Clone, Copy)]
struct Way {
    bring: fn(&World),
    say: fn(&Watch),
    has: fn(&World) -> bool,
}

const INBOX: Way =
    Way { bring: |world| world.push(0), say: Watch::set_asleep, has: |world| !world.inbox.is_empty_for_sleeper() };

const OTHERS: [Way; 3] = [
    Way {
        bring: |world| world.returns.push(0, world.mail.link(0)),
        has: |world| !world.returns.is_empty_for_sleeper(),
        ..INBOX
    },
    Way {
        bring: |world| world.revocations.notify(),
        has: |world| world.revocations.are_pending_for_sleeper(),
        ..INBOX
    },
    Way {
        bring: |world| world.lane.send(true, SlotWord::of(0, None, None).0, (0, 0), |_| {}),
        has: |world| world.lane.recheck_before_sleep(FIRST),
        ..INBOX
    },
];

const BOTH: [Sleeps; 2] = [Sleeps::InCall, Sleeps::OnDescriptor];

fn one_peer_model(how: Sleeps, way: Way) {
    loom::model(move || {
        let world = World::new();
        let peer = {
            let world = world.clone();
            thread::spawn(move || {
                (way.bring)(&world);
                world.watch.wake();
            })
        };
        let asleep = world.falls_asleep(how, way);
        peer.join().unwrap();
        assert!(!asleep || world.was_woken(how), "sleeps for ever");
    });
}

#[test]
fn whatever_comes_when_a_sleep_begins_is_found_or_wakes_the_thread() {
    for how in BOTH {
        one_peer_model(how, INBOX);
        for way in OTHERS {
            one_peer_model(how, way);
        }
    }
}

fn late_peer_model(how: Sleeps) {
    loom::model(move || {
        let world = World::new();
        world.push(0);
        assert_eq!(world.mail.follow(world.inbox.take(world.generation)), [0]);
        let late = {
            let world = world.clone();
            thread::spawn(move || world.watch.wake())
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                world.push(1);
                world.watch.wake();
            })
        };
        let asleep = world.falls_asleep(how, INBOX);
        late.join().unwrap();
        other.join().unwrap();
        assert!(!asleep || world.was_woken(how), "sleeps for ever");
    });
}

#[test]
fn peer_that_is_late_takes_no_wake_up_away() {
    for how in BOTH {
        late_peer_model(how);
    }
}

#[test]
fn signal_that_comes_when_a_sleep_begins_is_not_lost() {
    for how in BOTH {
        loom::model(move || {
            let world = World::new();
            let other = {
                let world = world.clone();
                thread::spawn(move || world.sleeper.signal())
            };
            let asleep = world.falls_asleep(how, INBOX);
            other.join().unwrap();
            assert!(!asleep || world.was_woken(how), "sleeps for ever");
            assert!(asleep || world.falls_asleep(how, INBOX));
        });
    }
}

#[test]
fn bell_is_not_rung_when_its_queue_is_closed() {
    loom::model(|| {
        let world = World::new();
        let peer = {
            let world = world.clone();
            thread::spawn(move || {
                world.push(0);
                world.watch.wake();
            })
        };
        world.falls_asleep(Sleeps::InCall, INBOX);
        world.watch.close();
        world.sleeper.bell().end();
        peer.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn control_look_that_only_loads() {
    one_peer_model(Sleeps::InCall, Way { has: |world| !world.inbox.is_empty(), ..INBOX });
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn control_slot_that_is_stored() {
    let bring = |world: &World| world.lane.send(false, SlotWord::of(0, None, None).0, (0, 0), |_| {});
    one_peer_model(Sleeps::InCall, Way { bring, ..OTHERS[2] });
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn control_look_before_the_word() {
    loom::model(|| {
        let world = World::new();
        let peer = {
            let world = world.clone();
            thread::spawn(move || {
                world.push(0);
                world.watch.wake();
            })
        };
        let found = !world.inbox.is_empty_for_sleeper();
        let asleep = world.falls_asleep(Sleeps::InCall, Way { has: |_| false, ..INBOX }) && !found;
        peer.join().unwrap();
        assert!(!asleep || world.was_woken(Sleeps::InCall), "sleeps for ever");
    });
}

//! Models of lanes.

use core::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{Cells, Plain, open_inbox};
use crate::soft::lane::{LANE_CELL, Lane, Room, SLOT_BYTES, Slot, SlotWord, cells_of_lane};
use crate::soft::shared::cell::MessageCell;
use crate::soft::shared::list::Inbox;

const SLOTS: u32 = 2;

#[repr(C, align(64))]
struct LaneCell {
    cell: MessageCell,
    _room: [u8; SLOT_BYTES],
}

const _: () = assert!(size_of::<LaneCell>() == LANE_CELL);

struct World {
    lane: Lane,
    _slots: Vec<Slot>,
    _cells: Vec<LaneCell>,
    carried: Vec<Plain>,
    inbox: Inbox,
    generation: u32,
    mail: Cells,
}

const FIRST: u64 = 1;

impl World {
    fn open() -> Arc<Self> {
        let world = Self::idle();
        assert_eq!(world.lane.request(7), FIRST);
        assert!(world.lane.accept(false));
        world
    }

    fn idle() -> Arc<Self> {
        let slots: Vec<_> = (0..SLOTS).map(|_| Slot::new()).collect();
        let cells =
            (0..cells_of_lane(SLOTS)).map(|number| LaneCell { cell: MessageCell::new(number), _room: [0; SLOT_BYTES] });
        let cells: Vec<_> = cells.collect();
        // SAFETY: the slots and cells are in the same world as the lane, and do not move in it.
        let lane = unsafe { Lane::new(0, NonNull::from(&slots[..]).cast(), SLOTS, NonNull::from(&cells[..]).cast()) };
        let (inbox, generation) = open_inbox();
        let carried = (0..SLOTS).map(|_| Plain::new(0)).collect();
        Arc::new(World { lane, _slots: slots, _cells: cells, carried, inbox, generation, mail: Cells::new(1) })
    }

    fn carried(&self, number: u64) -> &Plain {
        &self.carried[(number % u64::from(SLOTS)) as usize]
    }

    fn send(&self, number: u64) -> bool {
        let room = self.lane.room() == Room::Free;
        if room {
            self.lane.send(false, SlotWord::of(0, None, None).0, (0, 0), |_| self.carried(number).write(number as u32));
        }
        room
    }

    fn receive(&self, number: u64, report_done: fn(&Lane, u64)) -> bool {
        let arrived = self.lane.arrived(number).is_some();
        if arrived {
            assert_eq!(self.carried(number).read(), number as u32, "another message");
            report_done(&self.lane, number + 1);
        }
        arrived
    }
}

fn slots_model(report_done: fn(&Lane, u64)) {
    loom::model(move || {
        let world = World::open();
        let receiver = {
            let world = world.clone();
            thread::spawn(move || {
                let mut next = FIRST;
                for _ in 0..3 {
                    next += u64::from(world.receive(next, report_done));
                }
            })
        };
        for number in FIRST..FIRST + 3 {
            if !world.send(number) {
                break;
            }
        }
        receiver.join().unwrap();
    });
}

#[test]
fn slots_are_filled_again_when_they_have_been_read() {
    slots_model(Lane::report_done);
}

fn both_ways_model(lane_first: bool) {
    loom::model(move || {
        let world = World::open();
        let receiver = {
            let world = world.clone();
            thread::spawn(move || {
                let cells = world.mail.follow(world.inbox.take(world.generation));
                if cells == [0] {
                    assert!(world.receive(FIRST, Lane::report_done), "not there yet");
                }
            })
        };
        let by_inbox = || assert!(world.inbox.push(world.generation, 0, world.mail.link(0)));
        if !lane_first {
            by_inbox();
        }
        assert!(world.send(FIRST));
        if lane_first {
            by_inbox();
        }
        receiver.join().unwrap();
    });
}

#[test]
fn messages_of_the_lane_arrive_before_later_ones_of_the_inbox() {
    both_ways_model(true);
}

fn leaving_model(leave: fn(&Lane)) {
    loom::model(move || {
        let world = World::open();
        assert!(world.send(FIRST));
        let receiver = {
            let world = world.clone();
            thread::spawn(move || {
                assert!(world.receive(FIRST, |_, _| {}));
                leave(&world.lane);
            })
        };
        if world.lane.is_idle() {
            assert_eq!(world.lane.request(8), FIRST + 1);
            assert!(world.send(FIRST + 1));
            assert!(world.send(FIRST + 2));
        }
        receiver.join().unwrap();
    });
}

#[test]
fn lane_that_a_receiver_has_left_can_be_used_for_another() {
    leaving_model(Lane::leave);
}

#[test]
fn lane_is_accepted_or_withdrawn() {
    loom::model(|| {
        let world = World::idle();
        world.lane.request(7);
        let receiver = {
            let world = world.clone();
            thread::spawn(move || world.lane.accept(false))
        };
        let withdrawn = world.lane.withdraw();
        assert_eq!(receiver.join().unwrap(), !withdrawn, "one of the two");
        assert_eq!(world.lane.is_idle(), withdrawn);
        assert_eq!(world.lane.is_open(), !withdrawn);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_reported_before_read() {
    loom::model(|| {
        let world = World::open();
        let receiver = {
            let world = world.clone();
            thread::spawn(move || {
                if world.lane.arrived(FIRST).is_some() {
                    world.lane.report_done(FIRST + 1);
                    world.carried(FIRST).read();
                }
            })
        };
        for number in FIRST..FIRST + 3 {
            if !world.send(number) {
                break;
            }
        }
        receiver.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "not there yet")]
fn control_inbox_before_lane() {
    both_ways_model(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_left_without_release() {
    leaving_model(Lane::leave_without_release);
}

#[test]
fn numbers_and_slots_of_one_thread() {
    loom::model(|| {
        let world = World::open();
        assert!(world.send(1) && world.send(2) && !world.send(3));
        assert_eq!(world.lane.room(), Room::Full);
        assert!(world.receive(1, Lane::report_done));
        assert_eq!(vec![world.lane.room()], [Room::Free]);
    });
}

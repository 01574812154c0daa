//! The address table against its oracle.

use arbitrary::{Arbitrary, Unstructured};
use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
use loom_core::vocabulary::{AddressFormat, AvType};

use super::world::{Action, Address, World};

/// Sizes of the table.
#[derive(Arbitrary, Debug)]
struct Size {
    places: u8,
    singles: u8,
    cells: u8,
    ranges: u8,
    format: u8,
    map: bool,
    seed: u8,
}

impl Size {
    fn attr(&self) -> AddressTableAttr {
        AddressTableAttr {
            places: 1 + usize::from(self.places % 8),
            // Most stories insert all of them.
            singles: if self.singles < 160 { usize::MAX } else { usize::from(self.singles % 8) },
            bytes: usize::from(self.cells % 8) * 32,
            ranges: usize::from(self.ranges % 4),
            format: AddressFormat::from_raw(u32::from(self.format % 14)),
            av_type: if self.map { AvType::MAP } else { AvType::TABLE },
            seed: self.seed.into(),
        }
    }
}

/// Address. Most are sockets, and few differ.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum At {
    V4 { place: u8 },
    V4Written { place: u8, form: u8 },
    V6 { place: u8, bits: u8 },
    Raw { format: u8, len: u8, last: bool },
    Long { len: u16 },
}

impl From<At> for Address {
    fn from(at: At) -> Address {
        let v4 = |place: u8, form| {
            let port = place >> 4;
            Address::V4 { ip: place % 8, port: if port == 15 { u8::MAX } else { port % 4 }, form }
        };
        match at {
            At::V4 { place } => v4(place, 0),
            At::V4Written { place, form } => v4(place, form),
            At::V6 { place, bits } => Address::V6 {
                ip: place % 8,
                port: (place >> 4) % 4,
                flow: bits & 1 != 0,
                scope: bits & 2 != 0,
                mapped: bits & 4 != 0,
                form: bits >> 3,
            },
            At::Raw { format, len, last } => Address::Raw { format, len: (len % 64).into(), last: last.into() },
            At::Long { len } => Address::Raw { format: 9, len, last: 0 },
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    Insert(At),
    InsertAll([At; 3]),
    InsertAt { address: At, at: u8, rest: u8 },
    InsertUnnamed { at: u8, rest: u8 },
    InsertRange { first: At, sides: u8 },
    InsertRangeAt { first: At, sides: u8, at: u8 },
    Remove { nth: u8 },
    RemoveNewest,
    Find(At),
    SetInsert { set: bool, nth: u8 },
    SetRemove { set: bool, nth: u8 },
    Sets { set: bool, which: u8 },
    SetRange { set: bool, first: u8, last: u8, stride: u8 },
}

impl Step {
    fn action(self) -> Action {
        let sides = |sides: u8| (sides % 4, (sides >> 4) % 4);
        match self {
            Step::Insert(at) => Action::Insert(at.into()),
            Step::InsertAll(all) => Action::InsertAll(all.map(Address::from)),
            Step::InsertAt { address, at, rest } => Action::InsertAt { address: address.into(), at, rest: rest % 3 },
            Step::InsertUnnamed { at, rest } => Action::InsertUnnamed { at, rest: rest % 3 },
            Step::InsertRange { first, sides: both } => {
                let (nodes, services) = sides(both);
                Action::InsertRange { first: first.into(), nodes, services }
            }
            Step::InsertRangeAt { first, sides: both, at } => {
                let (nodes, services) = sides(both);
                Action::InsertRangeAt { first: first.into(), nodes, services, at, rest: at >> 7 }
            }
            Step::Remove { nth } => Action::Remove { nth: nth % 32 },
            Step::RemoveNewest => Action::Remove { nth: 0 },
            Step::Find(at) => Action::Find(at.into()),
            Step::SetInsert { set, nth } => Action::SetInsert { set, nth: nth % 16 },
            Step::SetRemove { set, nth } => Action::SetRemove { set, nth: nth % 16 },
            Step::Sets { set, which } => match which % 3 {
                0 => Action::SetUnion { set },
                1 => Action::SetIntersect { set },
                _ => Action::SetDifference { set },
            },
            Step::SetRange { set, first, last, stride } => {
                Action::SetRange { set, first: first % 32, last: last % 32, stride }
            }
        }
    }
}

/// Plays inserts (single, in batches, by range, and in chosen places), removals, look-ups both
/// ways, and sets.
pub(super) fn play(data: &[u8]) -> usize {
    const MOST: usize = 10;
    let mut bytes = Unstructured::new(data);
    let Ok(size) = bytes.arbitrary::<Size>() else { return 0 };
    let attr = size.attr();
    let mut memory = AddressTableMemory::new_in(attr, Global).expect("the sizes are small");
    let mut world = World::new(memory.table(), attr);
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step>() else { break };
        world.apply(&step.action());
        played += 1;
    }
    world.close();
    played
}

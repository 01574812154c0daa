#![allow(unsafe_code, reason = "writes lanes into a network's block")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::group::{Group, Member};
use super::matching_memory::{MatchingLayout, WaitsLayout};
use super::region::Region;
use super::{EndpointState, Net, NetworkAttr, Sending};
use crate::engine::tag_matcher::Table;
use crate::error::OpenError;
use crate::soft::faults::Faults;
use crate::soft::faults::strict::Contact;
use crate::soft::lane::{LANE_CELL, Lane, MOST_SLOTS, Slot, cells_of_lane};
use crate::soft::shared::address::NO_PORT;
use crate::soft::shared::cell::MessageCell;
use crate::soft::shared::list::NIL;
use crate::storage::handle::Plan;
use crate::storage::{Part, array, extend, fill};

impl NetworkAttr {
    /// Layout of a network's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::OutOfRange`] if a number is zero (regions, groups and the eager size may be) or
    /// too large. [`OpenError::Size`] if the block exceeds an address space.
    pub fn layout<A: Allocator>(&self) -> Result<Layout, OpenError> {
        Ok(self.in_environment().places::<A>()?.plan.layout())
    }

    pub(super) fn places<A: Allocator>(&self) -> Result<Places, OpenError> {
        let in_range = [
            ("NetworkAttr::endpoints", self.endpoints != 0 && self.endpoints != NO_PORT),
            ("NetworkAttr::tx_depth", self.tx_depth != 0),
            ("NetworkAttr::rx_depth", self.rx_depth != 0),
            ("NetworkAttr::regions", self.regions != u16::MAX),
        ];
        if let Some((attribute, _)) = in_range.iter().find(|(_, good)| !good) {
            return Err(OpenError::OutOfRange(attribute));
        }
        let tx_depth = self.tx_depth.checked_next_power_of_two();
        let tx_depth = tx_depth.ok_or(OpenError::OutOfRange("NetworkAttr::tx_depth"))?;
        let cells = u32::from(self.endpoints).checked_mul(tx_depth).filter(|cells| *cells < NIL - 1);
        let cells = cells.ok_or(OpenError::Size)?;
        let lanes_each = if self.strict { 0 } else { self.lanes.min(self.endpoints) };
        let lane_slots = tx_depth.min(MOST_SLOTS);
        let lane_count = u32::from(self.endpoints) * u32::from(lanes_each);
        let lane_cells = lane_count.checked_mul(cells_of_lane(lane_slots)).ok_or(OpenError::Size)?;
        let all_cells = cells.checked_add(lane_cells).filter(|cells| *cells < NIL - 1).ok_or(OpenError::Size)?;
        let waits = WaitsLayout::new(all_cells)?;
        let all_slots = array::<Slot>(lane_count as usize * lane_slots as usize)?;
        let lane_cells = Layout::from_size_align(LANE_CELL, align_of::<MessageCell>()).map_err(|_| OpenError::Size)?;
        let lane_cells = repeated(lane_cells, (all_cells - cells) as usize)?;
        let matching = MatchingLayout::new(self.rx_depth, tx_depth, all_cells)?;
        let cells = cells as usize;
        let cell = Layout::new::<MessageCell>();
        let (cell, _) = extend(cell, array::<u8>(self.eager_size as usize)?)?;
        let cell = cell.pad_to_align();
        let own_cells = repeated(cell, cells)?;

        let mut plan = Plan::of::<Net, A>()?;
        let ports = plan.add(array::<EndpointState>(self.endpoints.into())?)?;
        let faults = plan.add(array::<Faults>(self.endpoints.into())?)?;
        let regions = Part::of(&mut plan.layout, self.regions.into())?;
        let matchings_at = plan.add(repeated(matching.layout, self.endpoints.into())?)?;
        let waits_at = plan.add(waits.layout)?;
        let sendings = Part::of(&mut plan.layout, cells)?;
        let cells_at = plan.add(own_cells)?;
        let lanes = plan.add(array::<Lane>(lane_count as usize)?)?;
        let slots = plan.add(all_slots)?;
        let lane_cells = plan.add(lane_cells)?;
        let endpoints = if self.strict { usize::from(self.endpoints) } else { 0 };
        let contacts = Part::of(&mut plan.layout, endpoints * endpoints)?;
        let groups = Part::of(&mut plan.layout, self.groups.into())?;
        let members = Part::of(&mut plan.layout, usize::from(self.groups) * usize::from(self.endpoints))?;
        Ok(Places {
            plan,
            ports,
            faults,
            regions,
            matching,
            matchings_at,
            waits,
            waits_at,
            sendings,
            cells: cells_at,
            lanes,
            slots,
            lane_cells,
            lanes_each: lanes_each.into(),
            lane_slots,
            contacts,
            groups,
            members,
            cell_stride: cell.size(),
            tx_shift: tx_depth.trailing_zeros(),
        })
    }
}

pub(super) struct Places {
    pub(super) plan: Plan,
    pub(super) ports: usize,
    pub(super) faults: usize,
    pub(super) regions: Part<Region>,
    /// One for each port.
    pub(super) matching: MatchingLayout,
    pub(super) matchings_at: usize,
    pub(super) waits: WaitsLayout,
    pub(super) waits_at: usize,
    pub(super) sendings: Part<Cell<Option<Sending>>>,
    pub(super) cells: usize,
    pub(super) lanes: usize,
    pub(super) slots: usize,
    pub(super) lane_cells: usize,
    pub(super) lanes_each: u32,
    pub(super) lane_slots: u32,
    pub(super) contacts: Part<Cell<Option<Contact>>>,
    pub(super) groups: Part<Group>,
    pub(super) members: Part<Member>,
    pub(super) cell_stride: usize,
    pub(super) tx_shift: u32,
}

impl Places {
    /// # Safety
    /// The network's block has the lanes and their cells, and has their slots from `slots` on.
    pub(super) unsafe fn build_lanes(&self, net: &Net, slots: NonNull<Slot>, port: u16) -> Table<Lane> {
        let first = u32::from(port) * self.lanes_each;
        for lane in first..first + self.lanes_each {
            let lane_cells = cells_of_lane(self.lane_slots);
            // SAFETY: the caller guarantees the slots.
            let slots = unsafe { slots.add(lane as usize * self.lane_slots as usize) };
            // SAFETY: the caller guarantees the slots.
            unsafe { fill(slots.cast(), self.lane_slots as usize, |_| Slot::new()) };
            // SAFETY: the caller guarantees the lanes' cells.
            let cells = unsafe { net.lane_cells.add((lane * lane_cells) as usize * LANE_CELL) };
            for at in 0..lane_cells {
                // SAFETY: the caller guarantees the lanes' cells.
                let cell = unsafe { cells.add(at as usize * LANE_CELL) };
                // SAFETY: the caller guarantees the lanes' cells.
                unsafe { cell.cast().write(MessageCell::new(net.cell_count + lane * lane_cells + at)) };
            }
            // SAFETY: the caller guarantees the lanes.
            let place = unsafe { net.lanes.add(lane as usize) };
            // SAFETY: the slots and cells are written above, and belong to no other lane.
            let built = unsafe { Lane::new(lane, slots, self.lane_slots, cells) };
            // SAFETY: the caller guarantees the lanes.
            unsafe { place.write(built) };
        }
        // SAFETY: the caller guarantees the lanes.
        let of_port = unsafe { net.lanes.add(first as usize) };
        // SAFETY: the lanes are written above, and looked up by numbers below the count.
        unsafe { Table::new(of_port, self.lanes_each) }
    }
}

fn repeated(one: Layout, count: usize) -> Result<Layout, OpenError> {
    let size = one.size().checked_mul(count).ok_or(OpenError::Size)?;
    Layout::from_size_align(size, one.align()).map_err(|_| OpenError::Size)
}

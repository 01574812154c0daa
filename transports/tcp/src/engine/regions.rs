//! Memory regions that peers reach.

use loom_core::vocabulary::{Access, Errno};
use rustix::rand::{GetRandomFlags, getrandom};

use super::Engine;
use super::connection::{Inbound, Item, Partial, To};
use super::loss::Loss;
use crate::memory::{Span, Spans};
use crate::wire::{MAX_PARTS, RemoteRange, Violation};

/// Attempts to draw a key for a free place.
const DRAWS: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Region {
    key: u64,
    memory: Span,
    access: Access,
    counter: Option<u16>,
}

/// Indices of the regions that a frame names.
pub(super) type RegionIndices = heapless::Vec<u32, MAX_PARTS>;

pub(super) fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(Errno::EIO),
    }
}

impl Engine {
    /// Opens a region, and returns its index and its key of 64 random bits. The lowest bits of a
    /// key are the index: keys are drawn until they name a free place.
    pub(crate) fn open_region(&mut self, memory: Span, access: Access) -> Result<(u32, u64), Errno> {
        if self.open_regions >= self.attr.regions {
            return Err(Errno::ENOMR);
        }
        for _ in 0..DRAWS {
            let key = random()?;
            let index = self.place_of(key);
            let place = &mut self.regions[index as usize];
            if place.is_none() {
                *place = Some(Region { key, memory, access, counter: None });
                self.open_regions += 1;
                return Ok((index, key));
            }
        }
        Err(Errno::ENOMR)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most 2^17 places, of which the lowest bits remain"
    )]
    fn place_of(&self, key: u64) -> u32 {
        (key as usize & (self.regions.len() - 1)) as u32
    }

    pub(crate) fn bind_region(&mut self, region: u32, counter: u16) {
        if let Some(region) = &mut self.regions[region as usize] {
            region.counter = Some(counter);
        }
    }

    /// Closes a region, and the connections that are transferring its bytes.
    pub(crate) fn close_region(&mut self, region: u32) {
        self.regions[region as usize] = None;
        self.open_regions -= 1;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let is_written = match &connection.inbound {
                Inbound::Payload { to: To::Regions { regions, .. }, .. } => regions.contains(&region),
                _ => false,
            };
            let current = match &connection.current {
                Some(Partial { item: Item::Response(response), .. }) => Some(response),
                _ => None,
            };
            let is_read = connection.responses.iter().chain(current).any(|response| response.regions.contains(&region));
            if is_written || is_read {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 connections")]
                self.lose(index as u32, Loss::Violation(Violation::RegionClosed));
            }
        }
    }

    /// Memory of the ranges that a peer names, and the regions of it.
    pub(super) fn memory_of(
        &self,
        parts: &[RemoteRange],
        access: Access,
        data: Option<u64>,
    ) -> Result<(Spans, RegionIndices), Violation> {
        let (mut spans, mut regions) = (Spans::default(), RegionIndices::new());
        match (data, parts.iter().all(|part| part.len == 0)) {
            // Without a key, a stranger could make events.
            (Some(_), _) if parts.is_empty() => return Err(Violation::RemoteMemory),
            // No byte is accessed: the region may have been closed since.
            (None, true) => return Ok((spans, regions)),
            _ => {}
        }
        for part in parts {
            let index = self.place_of(part.key);
            let region = self.regions[index as usize].as_ref().filter(|region| region.key == part.key);
            let region = region.filter(|region| region.access.contains(access)).ok_or(Violation::RemoteMemory)?;
            let span = region.memory.part(part.addr, part.len).ok_or(Violation::RemoteMemory)?;
            spans.push(span).ok_or(Violation::RemoteMemory)?;
            let _ = regions.push(index);
        }
        Ok((spans, regions))
    }

    /// Counts an operation of a peer on regions.
    pub(super) fn count_regions(&mut self, regions: &[u32]) {
        for region in regions {
            let counter = self.regions[*region as usize].as_ref().and_then(|region| region.counter);
            if let Some(counter) = counter {
                self.count_on(counter, true);
            }
        }
    }
}

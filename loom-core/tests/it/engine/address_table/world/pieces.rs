//! Pieces of ranges, place by place.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use loom_core::engine::address_table::SymmetricRange;

/// A place of a piece, and its member.
#[derive(Clone, Copy, Debug)]
struct Part {
    piece: u32,
    range: SymmetricRange,
    number: u32,
    socket: SocketAddr,
    is_there: bool,
}

/// Pieces of a table. A piece with an occupied place has a record.
#[derive(Clone, Debug)]
pub(super) struct IoVecs {
    places: Vec<Option<Part>>,
    begun: u32,
}

impl IoVecs {
    pub(super) fn new(places: usize) -> Self {
        IoVecs { places: vec![None; places], begun: 0 }
    }

    fn part(&self, place: usize) -> Option<&Part> {
        self.places.get(place)?.as_ref()
    }

    /// Number of records.
    pub(super) fn count(&self) -> usize {
        let there = self.places.iter().flatten().filter(|part| part.is_there);
        there.map(|part| part.piece).collect::<BTreeSet<_>>().len()
    }

    /// Checks that the place is in a piece.
    pub(super) fn covers(&self, place: usize) -> bool {
        self.part(place).is_some()
    }

    /// Address that the place has or had in its piece.
    pub(super) fn socket(&self, place: usize) -> Option<SocketAddr> {
        Some(self.part(place)?.socket)
    }

    /// Returns a removed member to its place.
    pub(super) fn come_back(&mut self, place: usize) {
        self.places[place].as_mut().expect("it was there").is_there = true;
    }

    /// Removes the peer in a place. A piece without peers releases its places.
    pub(super) fn leave(&mut self, place: usize) {
        if let Some(part) = self.places[place].as_mut() {
            part.is_there = false;
        }
        let there = self.places.iter().flatten().filter(|part| part.is_there);
        let there: BTreeSet<_> = there.map(|part| part.piece).collect();
        for place in &mut self.places {
            *place = place.filter(|part| there.contains(&part.piece));
        }
    }

    /// Puts a member in a place and cuts its previous piece in two.
    pub(super) fn put(&mut self, range: SymmetricRange, number: u32, socket: SocketAddr, place: usize) {
        let next = |pieces: &mut IoVecs| {
            pieces.begun += 1;
            pieces.begun
        };
        if let Some(Part { piece, .. }) = self.part(place).copied() {
            let behind = next(self);
            for part in self.places[place + 1..].iter_mut().flatten().filter(|part| part.piece == piece) {
                part.piece = behind;
            }
            self.leave(place);
            self.places[place] = None;
            self.leave(place);
        }
        let before = place.checked_sub(1).and_then(|place| self.part(place));
        let follows = before.filter(|part| part.range == range && part.number + 1 == number).map(|part| part.piece);
        let piece = follows.unwrap_or_else(|| next(self));
        self.places[place] = Some(Part { piece, range, number, socket, is_there: true });
    }
}

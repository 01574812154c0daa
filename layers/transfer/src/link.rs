//! [`Link`]: state of a peer's control messages, and of the numbers that it grants.

use loom_core::vocabulary::{MemoryKey, RemoteAddr};
use loom_core::{Access, CqError, Error, Peer, RemoteRegion};

use crate::control::Hello;
use crate::peers::PeerKey;
use crate::rail::RailSet;
use crate::remote::MAX_RAILS;

/// Maximum of [`EngineAttr::notifications`](crate::EngineAttr::notifications).
pub(crate) const MAX_NUMBERS: usize = 16;

/// Bytes of the memory for writes of no bytes.
pub(crate) const SCRATCH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// The peer's engine, or this one, has no control messages.
    Absent,
    /// The hello of the peer has not arrived, or not all connections exist.
    Greeting,
    Ready,
    Failed(Error),
}

impl LinkState {
    pub(crate) const SILENT: LinkState = LinkState::Failed(Error::Queue(CqError::TimedOut));

    pub(crate) const fn of(exists: bool) -> Self {
        if exists { LinkState::Greeting } else { LinkState::Absent }
    }
}

/// Message that the engine has yet to send to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    Hello = 1,
    /// Hello that answers that of the peer.
    Answer = 2,
    Ping = 4,
    Pong = 8,
    Wait = 16,
}

/// Number of a notification, from those that the peer grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) state: LinkState,
    pub(crate) route: Option<Peer>,
    /// Bit for each [`Debt`].
    pub(crate) debts: u8,
    /// Name of this engine at the peer.
    pub(crate) name: PeerKey,
    /// Epoch that was granted to the peer, and the one that it has granted.
    pub(crate) granted: u32,
    pub(crate) epoch: Option<u32>,
    first: u32,
    bits: u32,
    /// Generations in immediate data to the peer, and from it.
    mask: u32,
    pub(crate) counted_mask: u32,
    /// Bit for each number in use.
    used: u32,
    generations: [u32; MAX_NUMBERS],
    /// Fragments that the peer has room for.
    pub(crate) credits: u32,
    /// Fragments not released, by notification.
    lent: [u32; MAX_NUMBERS],
    /// The peer was informed, or will be, that the engine waits for room.
    pub(crate) waits: bool,
    /// Rails without a connection.
    pub(crate) cold: RailSet,
    pub(crate) owed_rails: RailSet,
    described: (RailSet, Option<u32>),
    /// Base and key of each rail's memory for the first write.
    scratch: [(u64, u64); MAX_RAILS],
    /// Time of the last message, and of a request for a sign of life since.
    pub(crate) heard: Option<u64>,
    pub(crate) pinged: Option<u64>,
}

impl Link {
    pub(crate) const fn new(state: LinkState) -> Self {
        Link {
            state,
            route: None,
            debts: 0,
            name: PeerKey { index: 0, generation: 0 },
            granted: 0,
            epoch: None,
            first: 0,
            bits: 0,
            mask: 0,
            counted_mask: 0,
            used: 0,
            generations: [0; MAX_NUMBERS],
            credits: 0,
            lent: [0; MAX_NUMBERS],
            waits: false,
            cold: RailSet::EMPTY,
            owed_rails: RailSet::EMPTY,
            described: (RailSet::EMPTY, None),
            scratch: [(0, 0); MAX_RAILS],
            heard: None,
            pinged: None,
        }
    }

    pub(crate) const fn owe(&mut self, debt: Debt) {
        self.debts |= debt as u8;
    }

    pub(crate) fn greet(&mut self, hello: &Hello, mask: u32, rails: usize) -> bool {
        if self.epoch == Some(hello.epoch) && self.name == hello.from {
            return false;
        }
        self.name = hello.from;
        self.epoch = Some(hello.epoch);
        (self.first, self.bits, self.mask) = (hello.first, hello.bits.into(), mask);
        (self.used, self.credits, self.waits) = (0, hello.layout.fragments.into(), false);
        (self.generations, self.lent) = ([hello.epoch; MAX_NUMBERS], [0; MAX_NUMBERS]);
        (self.cold, self.owed_rails) = (RailSet::all(rails), RailSet::all(rails));
        self.state = LinkState::Greeting;
        true
    }

    pub(crate) fn describe(&mut self, rail: usize, epoch: u32, (base, key): (u64, u64)) {
        if self.described.1 != Some(epoch) {
            self.described = (RailSet::EMPTY, Some(epoch));
        }
        if let Some(scratch) = self.scratch.get_mut(rail) {
            *scratch = (base, key);
            self.described.0.insert(rail);
        }
    }

    pub(crate) fn is_described(&self, rails: usize) -> bool {
        self.epoch.is_some() && self.described == (RailSet::all(rails), self.epoch)
    }

    pub(crate) fn scratch(&self, rail: usize) -> Option<RemoteRegion> {
        let (base, key) = *self.scratch.get(rail)?;
        let (base, key) = (RemoteAddr(base), MemoryKey(key));
        Some(RemoteRegion { base, len: SCRATCH as u64, key, access: Access::REMOTE_WRITE })
    }

    /// Frees a number that the peer has not learned of.
    pub(crate) fn give_back(&mut self, number: Number) {
        if self.generations.get(number.index as usize) == Some(&number.generation) {
            self.used &= !(1 << number.index);
        }
    }

    pub(crate) const fn has_number(&self, numbers: u32) -> bool {
        self.used.trailing_ones() < numbers
    }

    pub(crate) fn acquire(&mut self, numbers: u32) -> Option<Number> {
        let index = self.used.trailing_ones();
        if index >= numbers {
            return None;
        }
        self.used |= 1 << index;
        Some(Number { index, generation: *self.generations.get(index as usize)? })
    }

    pub(crate) fn value(&self, number: Number) -> u64 {
        (u64::from(self.first) + u64::from(number.index)) | u64::from(number.generation & self.mask) << self.bits
    }

    pub(crate) fn spend(&mut self, number: Number, fragments: u32) -> bool {
        let Some(credits) = self.credits.checked_sub(fragments) else { return false };
        self.credits = credits;
        if let Some(lent) = self.lent.get_mut(number.index as usize) {
            *lent = fragments;
        }
        true
    }

    pub(crate) fn release(&mut self, number: Number) -> bool {
        let at = number.index as usize;
        let known = self.generations.get(at) == Some(&number.generation) && self.used & 1 << number.index != 0;
        if known {
            self.credits += core::mem::take(&mut self.lent[at]);
            self.used &= !(1 << number.index);
            self.generations[at] = number.generation.wrapping_add(1);
        }
        known
    }
}

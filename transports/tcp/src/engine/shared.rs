//! Memory shared with peers of the same host.
//!
//! ```text
//! initiator                           acceptor
//!     │ request, with the feature ASKS    │
//!     ├──────────────────────────────────►│ makes memory, if the peer is on its host
//!     │ response, with the feature OFFERS │
//!     │◄──────────────────────────────────┤
//!     │ offer: descriptor, nonce          │
//!     │◄──────────────────────────────────┤
//!     │ opens it by `/proc`               │
//!     │ answer: 1, or 0 if it cannot      │
//!     ├──────────────────────────────────►│
//! ```
//!
//! All frames then go through the memory, or all through the socket. Only privileged peers of other
//! users can open the memory. libfabric up to 2.6 answers with `ASKS` or no feature.

use rustix::event::epoll::EventFlags;
use rustix::io;
use rustix::time::{ClockId, clock_gettime};

use super::Engine;
use super::connection::{Inbound, State};
use super::loss::Loss;
use super::progress::NO_QUEUE;
use super::regions::random;
use super::socket::{self, errno};
use crate::memory::{Inconsistent, Offer, Pipe};
use crate::wire::{ByteOrder, Violation};

/// Features of a request, and of the response to it.
pub(super) const ASKS: u8 = 1 << 1;
pub(super) const OFFERS: u8 = 1 << 2;

/// Polls between two looks at the kernel's events, within a tick of its coarse clock.
pub(super) const LOOKS: u32 = 1024;

/// Reads of a connection that its peer has ended.
const LAST_READS: usize = 1024;

impl From<Inconsistent> for Violation {
    fn from(_: Inconsistent) -> Self {
        Violation::SharedMemory
    }
}

impl Engine {
    /// Features of a request to a peer.
    pub(super) fn requested_features(&self, index: u32) -> u8 {
        let shares = self.attr.shared_memory > 0 && self.tls.is_none();
        let peer = self.connections[index as usize].address.ip();
        if shares && self.local_address(index).is_some_and(|own| own.ip() == peer) { ASKS } else { 0 }
    }

    /// Makes the memory for a request with these features.
    pub(super) fn prepare_offer(&mut self, index: u32, features: u8) -> Option<Offer> {
        let is_native = self.connections[index as usize].order == ByteOrder::NATIVE;
        if features & ASKS == 0 || !is_native || self.requested_features(index) == 0 {
            return None;
        }
        let (nonce, capacity) = ([random().ok()?, random().ok()?], self.attr.shared_memory);
        let (pipe, file) = Pipe::create(capacity, nonce).ok()?;
        let offer = Offer::of(&file, capacity, nonce);
        let connection = &mut self.connections[index as usize];
        (connection.pipe, connection.offered) = (Some(pipe), Some(file));
        Some(offer)
    }

    /// Sends an offer behind the response, and awaits the answer.
    pub(super) fn send_offer(&mut self, index: u32, offer: &Offer) {
        if self.send_whole(index, &offer.encode()) {
            let connection = &mut self.connections[index as usize];
            (connection.state, connection.inbound) = (State::Offered, Inbound::Answer);
            // A peer may answer late, as it may poll an open connection.
            self.end_opening();
        }
    }

    /// Opens the memory of an offer, and answers.
    pub(super) fn handle_offer(&mut self, index: u32, offer: &Offer) {
        // The peer may not make this side allocate more than it has chosen.
        let is_accepted = offer.capacity <= self.attr.shared_memory;
        let pipe = is_accepted.then(|| Pipe::open(self.connections[index as usize].pid, offer).ok()).flatten();
        if self.send_whole(index, &[pipe.is_some().into()]) {
            self.connections[index as usize].pipe = pipe;
            self.set_open(index);
        }
    }

    pub(super) fn handle_answer(&mut self, index: u32, answer: u8) {
        let connection = &mut self.connections[index as usize];
        connection.offered = None;
        if answer != 1 {
            connection.pipe = None;
        }
        self.set_open(index);
    }

    /// Adds an open connection with shared memory to those that polls look at.
    pub(super) fn add_shared(&mut self, index: u32) {
        if self.connections[index as usize].pipe.is_some()
            && let Some(place) = self.shared.get_mut(self.shared_count)
        {
            *place = index;
            self.shared_count += 1;
        }
    }

    pub(super) fn remove_shared(&mut self, index: u32) {
        let listed = self.shared.get_mut(..self.shared_count).unwrap_or_default();
        if let Some(at) = listed.iter().position(|shared| *shared == index) {
            listed.swap(at, self.shared_count - 1);
            self.shared_count -= 1;
        }
    }

    /// Reads the connections with shared memory, and sends. Returns `true` if there were bytes.
    #[inline]
    pub(super) fn poll_shared(&mut self, queue: u16) -> bool {
        self.turn += 1;
        self.polled = queue;
        let has_read = self.read_shared();
        self.send_dirty();
        self.polled = NO_QUEUE;
        has_read
    }

    /// Returns `true` if it is time for the kernel's events.
    #[inline]
    pub(super) fn has_to_look(&mut self) -> bool {
        self.looks += 1;
        if self.looks >= LOOKS || self.opening > 0 || self.try_paused && self.paused > 0 {
            return true;
        }
        // A program may poll seldom.
        let now = clock_gettime(ClockId::MonotonicCoarse).tv_nsec;
        core::mem::replace(&mut self.looked_at, now) != now
    }

    /// Returns `true` if there were bytes.
    pub(super) fn read_shared(&mut self) -> bool {
        let (mut has_read, mut at) = (false, 0);
        while let Some(index) = self.shared.get(at).copied().filter(|_| at < self.shared_count) {
            let connection = &self.connections[index as usize];
            if !connection.is_paused && connection.pipe.as_ref().is_some_and(Pipe::has_bytes) {
                has_read = true;
                self.read(index);
            }
            at += 1;
        }
        has_read
    }

    /// Requests wakes of all peers with shared memory. Returns `false` if this side may not sleep.
    pub(super) fn arm_shared(&mut self) -> bool {
        (0..self.shared_count).filter(|at| !self.arm(self.shared[*at])).count() == 0
    }

    fn arm(&mut self, index: u32) -> bool {
        let connection = &mut self.connections[index as usize];
        let (unsent, reads) = (connection.has_frames(&self.sends), !connection.is_paused);
        connection.pipe.as_mut().is_none_or(|pipe| pipe.arm(unsent, reads))
    }

    /// Reads a byte that has woken this side, or notices the end of the peer.
    pub(super) fn read_wakes(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        let (is_paused, Some(socket)) = (connection.is_paused, &connection.socket) else { return };
        // The kernel reports further bytes again.
        let ended = match socket::receive(socket, &mut [0; 1024]) {
            Ok(Some(0)) => io::Errno::NOTCONN,
            Ok(_) => {
                self.flush(index);
                self.read(index);
                // The program may poll this queue no more.
                return self.wake_sleepers();
            }
            Err(error) => error,
        };
        if is_paused {
            // Until there is room.
            return self.watch(index, EventFlags::empty());
        }
        for _ in 0..LAST_READS {
            self.read(index);
            let connection = &self.connections[index as usize];
            if connection.is_paused {
                return;
            }
            if connection.pipe.as_ref().is_none_or(|pipe| !pipe.has_bytes()) {
                break;
            }
        }
        self.lose(index, Loss::Ended(errno(ended)));
    }
}

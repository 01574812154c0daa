//! The protocol sends long data in chunks, each a message with its position. Chunks may arrive in
//! any order, repeatedly, and from malicious peers. The protocol uses loom's objects without a
//! named transport: the fuzzed code over the software transport also runs over a fabric.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loom_core::vocabulary::FabricAddr;
use loom_core::{Done, Endpoint, Errno, OpKey, Peer, PostError, Rejected, Source, Transport};

use crate::memory::Memory;

/// Bytes of number, length of the whole and offset of the chunk, four each in little-endian order.
/// The chunk follows.
pub const HEADER: usize = 12;
pub const MOST_CHUNK: usize = 16;
/// Maximum length of accepted data, and maximum number of incomplete transfers of one peer.
pub const LONGEST: usize = 256;
pub const MOST_TRANSFERS: usize = 4;
/// Number of completed transfers to remember for each peer.
const MOST_COMPLETED: usize = 64;

/// Reason for the refusal of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Short,
    TooLong,
    /// The chunk exceeds its data.
    Outside,
    /// Another chunk contradicts it.
    Contradiction,
    TooMany,
}

struct Partial {
    data: Vec<u8>,
    here: Vec<bool>,
}

/// State of the receiver.
#[derive(Default)]
pub struct Incoming {
    partial: BTreeMap<(FabricAddr, u32), Partial>,
    /// Last completed transfers. Their late chunks do not begin new ones.
    completed: BTreeSet<(FabricAddr, u32)>,
}

impl Incoming {
    /// Takes a message, and returns the data that it completes.
    pub fn take(&mut self, from: FabricAddr, message: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        let Some((header, chunk)) = message.split_at_checked(HEADER) else { return Err(Refused::Short) };
        let number = |at: usize| header[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let (transfer, whole, offset) = ((from, number(0)), number(4) as usize, number(8) as usize);
        if whole > LONGEST {
            return Err(Refused::TooLong);
        }
        if offset.checked_add(chunk.len()).is_none_or(|end| end > whole) || chunk.is_empty() && whole > 0 {
            return Err(Refused::Outside);
        }
        if self.completed.contains(&transfer) {
            return Ok(None);
        }
        let of_this_peer = self.partial.keys().filter(|(peer, _)| *peer == from).count();
        if !self.partial.contains_key(&transfer) && of_this_peer >= MOST_TRANSFERS {
            return Err(Refused::TooMany);
        }
        let new = || Partial { data: vec![0; whole], here: vec![false; whole] };
        let partial = self.partial.entry(transfer).or_insert_with(new);
        if partial.data.len() != whole {
            return Err(Refused::Contradiction);
        }
        for (at, byte) in (offset..).zip(chunk) {
            if partial.here[at] && partial.data[at] != *byte {
                return Err(Refused::Contradiction);
            }
            (partial.data[at], partial.here[at]) = (*byte, true);
        }
        if !partial.here.iter().all(|here| *here) {
            return Ok(None);
        }
        let others = self.completed.iter().filter(|(peer, _)| *peer == from);
        if others.clone().count() >= MOST_COMPLETED
            && let Some(oldest) = others.min().copied()
        {
            self.completed.remove(&oldest);
        }
        self.completed.insert(transfer);
        Ok(self.partial.remove(&transfer).map(|partial| partial.data))
    }
}

/// One side, which sends data to a peer and receives from any peer.
pub struct Link<T: Transport> {
    pub endpoint: Endpoint<'static, T, Memory>,
    to: Peer,
    next: u32,
    /// Data to send later, with the length of its chunks.
    offered: VecDeque<(Vec<u8>, usize)>,
    /// Messages to send, and messages in flight.
    waiting: VecDeque<Vec<u8>>,
    sending: Vec<(OpKey, Vec<u8>)>,
    receiving: Vec<OpKey>,
    incoming: Incoming,
}

impl<T: Transport> Link<T> {
    pub fn new(endpoint: Endpoint<'static, T, Memory>, to: Peer) -> Self {
        let (offered, waiting) = (VecDeque::new(), VecDeque::new());
        let (sending, receiving) = (Vec::new(), Vec::new());
        Link { endpoint, to, next: 0, offered, waiting, sending, receiving, incoming: Incoming::default() }
    }

    /// Sends data in chunks of `chunk` bytes.
    pub fn offer(&mut self, data: &[u8], chunk: usize) {
        self.offered.push_back((data.to_vec(), chunk));
    }

    fn begin(&mut self, data: &[u8], chunk: usize) {
        let message = |offset: usize, bytes: &[u8]| {
            let header = [self.next, data.len() as u32, offset as u32].map(u32::to_le_bytes);
            [header.as_flattened(), bytes].concat()
        };
        let chunks = data.chunks(chunk).enumerate().map(|(number, bytes)| message(number * chunk, bytes));
        self.waiting.extend(chunks);
        if data.is_empty() {
            self.waiting.push_back(message(0, &[]));
        }
        self.next += 1;
    }

    /// Posts as many operations as the queue has room for.
    pub fn drive(&mut self, receives: usize) {
        if self.waiting.is_empty()
            && self.sending.is_empty()
            && let Some((data, chunk)) = self.offered.pop_front()
        {
            self.begin(&data, chunk);
        }
        while let Some(message) = self.waiting.pop_front() {
            match self.endpoint.send(self.to, Memory::new(&message)) {
                Ok(key) => self.sending.push((key, message)),
                Err(Rejected { error, .. }) => {
                    // The post is repeated later. Without a peer, it is dropped.
                    if error.is_transient() {
                        self.waiting.push_front(message);
                    }
                    break;
                }
            }
        }
        while self.receiving.len() < receives {
            let room = Memory::new(&[0; HEADER + MOST_CHUNK]);
            match self.endpoint.recv(Source::Any, room).map_err(PostError::from) {
                Ok(key) => self.receiving.push(key),
                Err(_) => break,
            }
        }
    }

    /// Sends a chunk in flight again, as after a timeout.
    pub fn is_impatient(&mut self) {
        self.waiting.extend(self.sending.first().map(|(_, message)| message.clone()));
    }

    /// Returns an operation to cancel.
    pub fn some_send(&self, nth: usize) -> Option<OpKey> {
        self.sending.get(nth % self.sending.len().max(1)).map(|(key, _)| *key)
    }

    /// Processes a completion of this side, and returns the data that it completes or the reason
    /// for a refusal. Returns `None` for completions of others.
    pub fn on(&mut self, done: &Done<Memory>) -> Option<Result<Option<Vec<u8>>, Refused>> {
        if let Some(at) = self.sending.iter().position(|(key, _)| *key == done.key()) {
            let (_, message) = self.sending.swap_remove(at);
            if done.result().is_err_and(|error| error.errno == Errno::ECANCELED) {
                // The message has not arrived.
                self.waiting.push_back(message);
            }
            return Some(Ok(None));
        }
        let at = self.receiving.iter().position(|key| *key == done.key())?;
        self.receiving.swap_remove(at);
        Some(match done.result() {
            Ok(transfer) => match transfer.source {
                Some(from) => self.incoming.take(from, &done.buf().bytes()[..transfer.len]),
                None => Ok(None),
            },
            Err(error) if error.errno == Errno::ETRUNC => Err(Refused::TooLong),
            Err(_) => Ok(None),
        })
    }

    /// Returns `true` when all data was sent.
    pub fn is_idle(&self) -> bool {
        self.offered.is_empty() && self.waiting.is_empty() && self.sending.is_empty()
    }
}

//! [`MessageBuffer`]: buffer of one control message, and [`MessageBuffers`], all of them.

#![allow(unsafe_code, reason = "lends parts of one block as buffers")]

use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Descriptor, Lent};
use loom_core::error::OpenError;
use loom_core::registered::Registered;
use loom_core::storage::Array;
use loom_core::{Buffer, Domain, Peer, SourceBuffer, TargetBuffer, Transport};

use crate::event::TransferKey;
use crate::memory::Shared;
use crate::peers::PeerKey;

pub(crate) struct Bytes<A: Allocator>(Array<u8, A>);

impl<A: Allocator> Bytes<A> {
    pub(crate) fn new(len: usize, alloc: A) -> Result<Self, OpenError> {
        Array::new_in(len, alloc, |_| 0).map(Bytes)
    }
}

// SAFETY: the array owns its initialised bytes, which do not move with it.
unsafe impl<A: Allocator> Buffer for Bytes<A> {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from_mut(&mut *self.0).cast(), self.0.len())
    }
}
impl<A: Allocator> SourceBuffer for Bytes<A> {}
impl<A: Allocator> TargetBuffer for Bytes<A> {}

type Block<'m, T, A> = Shared<Registered<'m, T, Bytes<A>>, A>;

/// The only owner of its part of the block.
pub(crate) struct MessageBuffer<'m, T: Transport, A: Allocator> {
    ptr: NonNull<u8>,
    capacity: usize,
    len: usize,
    descriptor: Option<Descriptor>,
    pub(super) index: u32,
    _block: Block<'m, T, A>,
}

impl<T: Transport, A: Allocator> MessageBuffer<'_, T, A> {
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer owns these initialised bytes, and is not posted while it is borrowed.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer owns these initialised bytes, and is not posted while it is borrowed.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.capacity) }
    }
}

// SAFETY: the buffer owns the range, `_block` keeps it allocated and registered, and `len` changes
// only between two posts.
unsafe impl<T: Transport, A: Allocator> Buffer for MessageBuffer<'_, T, A> {
    fn lend(&mut self) -> Lent {
        Lent { descriptor: self.descriptor, ..Lent::both(self.ptr, self.len) }
    }
}
impl<T: Transport, A: Allocator> SourceBuffer for MessageBuffer<'_, T, A> {}
impl<T: Transport, A: Allocator> TargetBuffer for MessageBuffer<'_, T, A> {}

const NONE: u32 = u32::MAX;

/// List of buffers, each in at most one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NONE, last: NONE, len: 0 };

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// `None` for an engine that is no peer.
    pub(crate) peer: Option<PeerKey>,
    pub(crate) route: Peer,
    pub(crate) transfer: Option<TransferKey>,
}

impl Destination {
    pub(crate) fn of(peer: PeerKey, route: Peer) -> Self {
        Destination { peer: Some(peer), route, transfer: None }
    }
}

struct Entry<'m, T: Transport, A: Allocator> {
    /// `None` while posted.
    buffer: Option<MessageBuffer<'m, T, A>>,
    next: u32,
    /// `None` for buffers to receive.
    to: Option<Destination>,
}

/// First those to send, then those to receive.
pub(crate) struct MessageBuffers<'m, T: Transport, A: Allocator> {
    entries: Array<Entry<'m, T, A>, A>,
    sends: u32,
    free: List,
}

impl<'m, T: Transport + 'm, A: Allocator + Clone + Send + 'm> MessageBuffers<'m, T, A> {
    pub(super) fn new(
        domain: &Domain<'m, T>,
        (sends, receives): (usize, usize),
        capacity: usize,
        alloc: &A,
    ) -> Result<Self, OpenError> {
        let count = sends.checked_add(receives).ok_or(OpenError::Size)?;
        let whole = count.checked_mul(capacity).ok_or(OpenError::Size)?;
        let sends = u32::try_from(sends).map_err(|_| OpenError::Size)?;
        u32::try_from(count).ok().filter(|count| *count < NONE).ok_or(OpenError::Size)?;
        let bytes = Registered::new(domain, Bytes::new(whole, alloc.clone())?).map_err(|rejected| rejected.error)?;
        let block = Shared::new(bytes, alloc.clone())?;
        let lent = block.lent();
        let entries = Array::new_in(count, alloc.clone(), |index| {
            let buffer = MessageBuffer {
                // SAFETY: the block has `count` parts of this capacity.
                ptr: unsafe { lent.ptr.add(index * capacity) },
                capacity,
                len: capacity,
                descriptor: lent.descriptor,
                #[expect(clippy::cast_possible_truncation, reason = "the number of buffers is a `u32`")]
                index: index as u32,
                _block: block.clone(),
            };
            Entry { buffer: Some(buffer), next: NONE, to: None }
        })?;
        let mut buffers = MessageBuffers { entries, sends, free: List::EMPTY };
        let mut free = List::EMPTY;
        for index in 0..sends {
            buffers.push(&mut free, index);
        }
        buffers.free = free;
        Ok(buffers)
    }
}

impl<'m, T: Transport, A: Allocator> MessageBuffers<'m, T, A> {
    pub(super) fn receives(&self) -> impl Iterator<Item = u32> + use<T, A> {
        #[expect(clippy::cast_possible_truncation, reason = "the number of buffers is a `u32`")]
        let count = self.entries.len() as u32;
        self.sends..count
    }

    pub(crate) const fn free(&self) -> usize {
        self.free.len as usize
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        let mut free = self.free;
        let index = self.pop(&mut free)?;
        self.free = free;
        Some(index)
    }

    pub(super) fn give_back(&mut self, index: u32) {
        let mut free = self.free;
        self.push(&mut free, index);
        self.free = free;
    }

    pub(super) fn give_back_all(&mut self, mut list: List) {
        while let Some(index) = self.pop(&mut list) {
            self.give_back(index);
        }
    }

    pub(super) fn push(&mut self, list: &mut List, index: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.next = NONE;
        }
        match self.entries.get_mut(list.last as usize) {
            Some(last) if list.len > 0 => last.next = index,
            _ => list.first = index,
        }
        list.last = index;
        list.len += 1;
    }

    pub(super) fn pop(&mut self, list: &mut List) -> Option<u32> {
        if list.len == 0 {
            return None;
        }
        let index = list.first;
        list.first = self.next(index);
        list.len -= 1;
        Some(index)
    }

    pub(super) fn append(&mut self, list: &mut List, mut more: List) {
        while let Some(index) = self.pop(&mut more) {
            self.push(list, index);
        }
    }

    pub(super) fn next(&self, index: u32) -> u32 {
        self.entries.get(index as usize).map_or(NONE, |entry| entry.next)
    }

    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = u32> + use<'_, 'm, T, A> {
        let mut at = list.first;
        (0..list.len).map(move |_| {
            let next = self.next(at);
            core::mem::replace(&mut at, next)
        })
    }

    pub(super) fn get(&self, index: u32) -> Option<&MessageBuffer<'m, T, A>> {
        self.entries.get(index as usize)?.buffer.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut MessageBuffer<'m, T, A>> {
        self.entries.get_mut(index as usize)?.buffer.as_mut()
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<MessageBuffer<'m, T, A>> {
        self.entries.get_mut(index as usize)?.buffer.take()
    }

    pub(super) fn restore(&mut self, buffer: MessageBuffer<'m, T, A>) -> u32 {
        let index = buffer.index;
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.buffer = Some(buffer);
        }
        index
    }

    pub(super) fn set_destination(&mut self, index: u32, to: Destination) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.to = Some(to);
        }
    }

    pub(super) fn destination(&self, index: u32) -> Option<Destination> {
        self.entries.get(index as usize)?.to
    }
}

//! What endpoints do whose domains [ask](super::required_modes) for something: they look whether they were given it, and use it. Those with a
//! [plan of faults](super::faults) come by here, too.

#![allow(unsafe_code, reason = "writes to what was lent with an operation besides its bytes")]

use core::ptr::{self, NonNull};

use heapless::Vec;

use super::endpoint_state::LocalState;
use super::handles::SoftEndpoint;
use super::queue::Queue;
use super::receive::RecvBuffer;
use super::required_modes::RequiredModes;
use super::send::Outgoing;
use crate::buffer::{IoVecs, Lent};
use crate::engine::tag_matcher::Want;
use crate::transport::{Context, Event, Msg, Refusal, RmaTarget};
use crate::vocabulary::{
    Access, CompletionFlags, Errno, FabricAddr, ImmediateData, MemoryKey, Mode, MrMode, Tag, TagMatch,
};

/// How many words of memory the context of an operation points to.
const fn context_words(modes: RequiredModes) -> usize {
    if modes.mode.contains(Mode::CONTEXT2) {
        8
    } else if modes.mode.contains(Mode::CONTEXT) {
        4
    } else {
        0
    }
}

/// What the transport writes into a word of a context's memory while the operation is under way.
const fn seal(context: u64, word: u64) -> u64 {
    !context.rotate_left(17).wrapping_add(word)
}

/// An operation begins: its context's memory is the transport's.
///
/// # Safety
/// The contract of callers of [`Transport`](crate::transport::Transport): the memory that the domain asks for is there until
/// the event.
unsafe fn begin(modes: RequiredModes, context: Context) {
    let memory = context.as_ptr().cast::<u64>();
    // For the end of the operation, which has the number alone.
    let _ = memory.expose_provenance();
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the caller's promise.
        let place = unsafe { memory.add(at) };
        // SAFETY: as above.
        unsafe { place.write(seal(context.addr(), word)) };
    }
}

/// An operation ends, with this context: whether its memory is as the transport left it. It is written once more.
///
/// # Safety
/// The operation was [begun](begin), and its event has not been polled.
unsafe fn end(modes: RequiredModes, context: u64) -> bool {
    const { assert!(usize::BITS == 64, "a context is an address") };
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
    let memory = ptr::with_exposed_provenance_mut::<u64>(context as usize);
    let mut intact = true;
    for (at, word) in (0..context_words(modes)).zip(0..) {
        // SAFETY: the caller's promise: the memory is lent until the event is polled, and its provenance was exposed.
        let place = unsafe { memory.add(at) };
        // SAFETY: as above.
        intact &= unsafe { place.read() } == seal(context, word);
        // The same again: a multi-receive has more than one event.
        // SAFETY: as above.
        unsafe { place.write(seal(context, word)) };
    }
    intact
}

impl SoftEndpoint<'_> {
    /// The bytes of one buffer where there are demands: they are met, or it is refused. Without the prefix.
    fn apply_modes(&self, lent: &Lent, access: Access, context: Context) -> Result<(*mut u8, usize), Refusal> {
        self.gate()?;
        self.lies_in_its_region(lent, access).map_err(Refusal::Errno)?;
        // SAFETY: the contract of callers: the context of a post is what the domain asks for.
        unsafe { begin(self.port().own().modes.get(), context) };
        let message = self.behind_prefix(lent, access)?;
        Ok((message.ptr().as_ptr(), message.len()))
    }

    /// What lies behind the prefix, if there is to be one, which is then written to.
    fn behind_prefix(&self, lent: &Lent, access: Access) -> Result<Lent, Refusal> {
        let prefix = self.port().own().modes.get().prefix();
        if prefix == 0 || !access.intersects(Access::SEND | Access::RECV) {
            return Ok(*lent);
        }
        if lent.len() < prefix {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        // As a provider does that puts a header there.
        // SAFETY: the contract of callers: what is lent begins with a prefix, which may be written to.
        unsafe { lent.ptr().write_bytes(0xa5, prefix) };
        Ok(lent.with_headroom(prefix))
    }

    /// An operation of several pieces, as [`apply_modes`](Self::apply_modes) has it of one. `room` is for what is changed of it.
    pub(super) fn pieces<'m>(
        &self,
        msg: &Msg<'m>,
        access: Access,
        room: &'m mut Vec<Lent, { IoVecs::MOST }>,
    ) -> Result<Msg<'m>, Refusal> {
        if !self.extra_checks {
            return Ok(*msg);
        }
        if !access.contains(Access::RECV) {
            self.meets(msg.address)?;
        }
        self.gate()?;
        if msg.pieces.len() > 1 && self.port().own().modes.get().mode.contains(Mode::ASYNC_IOV) {
            // The array is gone when the call has returned.
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        msg.pieces.iter().try_for_each(|lent| self.lies_in_its_region(lent, access)).map_err(Refusal::Errno)?;
        // SAFETY: as above.
        unsafe { begin(self.port().own().modes.get(), msg.context) };
        let several = Vec::from_slice(msg.pieces).map_err(|_| Refusal::Errno(Errno::EINVAL))?;
        *room = several;
        if let Some(first) = room.first_mut() {
            *first = self.behind_prefix(first, access)?;
        }
        Ok(Msg { pieces: room, ..*msg })
    }

    /// Posts a receive of one of the kinds of messages where there are demands.
    ///
    /// # Safety
    /// As [`Net::post_receive`](super::network::Net::post_receive), of what is lent.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn recv_checked(
        &self,
        kind: CompletionFlags,
        (from, tag): (FabricAddr, TagMatch),
        lent: &Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        let (ptr, len) = self.apply_modes(lent, Access::RECV, context)?;
        let room = RecvBuffer { ptr, len, context: context.addr(), min_left: 0 };
        // SAFETY: the caller's promise.
        unsafe { self.net.post_receive(self.port(), kind, Want { tag, source: from }, room) }
    }

    /// Sends a message where there are demands.
    ///
    /// # Safety
    /// As [`Net::send`](super::network::Net::send), of what is lent.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn send_checked(
        &self,
        to: FabricAddr,
        with: (Option<Tag>, Option<ImmediateData>),
        lent: &Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        self.meets(to)?;
        let (bytes, len) = self.apply_modes(lent, Access::SEND, context)?;
        // SAFETY: the caller's promise.
        unsafe { self.send_amid_faults(Outgoing { bytes, len, ..Outgoing::of(to, with, lent, context) }) }
    }

    /// Injects a message where there are demands: without its prefix.
    ///
    /// # Safety
    /// As [`Net::send`](super::network::Net::send), of as many bytes as can be injected behind the prefix.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn inject_checked(
        &self,
        to: FabricAddr,
        with: (Option<Tag>, Option<ImmediateData>),
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        self.meets(to)?;
        self.gate()?;
        let message = bytes.get(self.port().own().modes.get().prefix()..).ok_or(Refusal::Errno(Errno::EINVAL))?;
        // SAFETY: the caller's promise.
        unsafe { self.send_amid_faults(Outgoing::injected(to, with, message)) }
    }

    /// Writes where there are demands.
    ///
    /// # Safety
    /// What is lent is readable until the event of the context or until the endpoint is closed.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn write_checked(
        &self,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        self.meets(to.to)?;
        let to = self.aim(to);
        let (bytes, len) = self.apply_modes(lent, Access::WRITE, context)?;
        // SAFETY: the caller's promise.
        unsafe { self.write_amid_faults(to, (bytes.cast_const(), len), data, Some(context.addr())) }
    }

    /// Reads where there are demands.
    ///
    /// # Safety
    /// What is lent is writable until the event of the context or until the endpoint is closed.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn read_checked(&self, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal> {
        self.meets(from.to)?;
        let from = self.aim(from);
        let place = self.apply_modes(lent, Access::READ, context)?;
        // SAFETY: the caller's promise.
        unsafe { self.read_amid_faults(from, place, context.addr()) }
    }

    fn lies_in_its_region(&self, lent: &Lent, access: Access) -> Result<(), Errno> {
        if lent.len() == 0 || !self.port().own().modes.get().mr_mode.contains(MrMode::LOCAL) {
            return Ok(());
        }
        let key = MemoryKey(lent.descriptor().ok_or(Errno::EINVAL)?.raw() as u64);
        let domain = self.net.reach(self.port().own().addr.get())?;
        self.net.region(key).ok_or(Errno::ENOKEY)?.enter(key)?.covers(lent.ptr(), lent.len(), access, domain)
    }
}

impl LocalState {
    /// Sees to what an endpoint is asked beyond its operations, now that one of them has its event in the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn attend(&self, mut event: NonNull<Event>, queue: &Queue) {
        // SAFETY: just pushed, by this thread, which is the only one that reads or writes the queue.
        let event = unsafe { event.as_mut() };
        // SAFETY: an operation of this endpoint has this event, so that it was begun here, and nobody has polled it.
        if !unsafe { end(self.modes.get(), event.context) } {
            event.errno = Errno::EOTHER;
        }
        if event.flags.contains(CompletionFlags::RECV) && event.errno != Errno::ECANCELED {
            event.len += self.modes.get().prefix();
        }
        let kept = self.faults().note_end(event, queue);
        self.counters.count(event);
        if !kept {
            queue.lose_newest();
            // The next poll looks at this endpoint, and finds out.
            self.look_again();
        }
    }
}

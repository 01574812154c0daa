//! What endpoints do whose domains [ask](super::asks) for something: they look whether they were given it, and use it.

#![allow(unsafe_code, reason = "writes to what was lent with an operation besides its bytes")]

use core::ptr::{self, NonNull};

use super::asks::Asks;
use super::port::Own;
use crate::transport::{Context, Event};
use crate::vocabulary::{CompletionFlags, Errno, Mode};

/// How many words of memory the context of an operation points to.
const fn context_words(asks: Asks) -> usize {
    if asks.mode.contains(Mode::CONTEXT2) {
        8
    } else if asks.mode.contains(Mode::CONTEXT) {
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
pub(super) unsafe fn begin(asks: Asks, context: Context) {
    let memory = context.as_ptr().cast::<u64>();
    // For the end of the operation, which has the number alone.
    let _ = memory.expose_provenance();
    for (at, word) in (0..context_words(asks)).zip(0..) {
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
unsafe fn end(asks: Asks, context: u64) -> bool {
    const { assert!(usize::BITS == 64, "a context is an address") };
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
    let memory = ptr::with_exposed_provenance_mut::<u64>(context as usize);
    let mut intact = true;
    for (at, word) in (0..context_words(asks)).zip(0..) {
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

/// Writes to the prefix of a message, as a provider does that puts a header there.
///
/// # Safety
/// There are so many bytes in front of the message, lent with the operation.
pub(super) unsafe fn scribble(message: *mut u8, prefix: usize) {
    let start = message.wrapping_sub(prefix);
    // SAFETY: the caller's promise.
    unsafe { start.write_bytes(0xa5, prefix) };
}

impl Own {
    /// Sees to what an endpoint is asked beyond its operations, now that one of them has its event in the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn attend(&self, mut event: NonNull<Event>) {
        // SAFETY: just pushed, by this thread, which is the only one that reads or writes the queue.
        let event = unsafe { event.as_mut() };
        // SAFETY: an operation of this endpoint has this event, so that it was begun here, and nobody has polled it.
        if !unsafe { end(self.asks.get(), event.context) } {
            event.errno = Errno::EOTHER;
        }
        if event.flags.contains(CompletionFlags::RECV) && event.errno != Errno::ECANCELED {
            event.len += self.asks.get().prefix();
        }
        self.counters.count(event);
    }
}

//! Buffers that can be watched while they are lent, to find the middle of a transfer.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU8, Ordering};

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};

/// Bytes of a box, which becomes a box again.
#[derive(Debug)]
struct Memory(NonNull<[u8]>);

impl Memory {
    fn into_box(self) -> Box<[u8]> {
        let memory = ManuallyDrop::new(self);
        // SAFETY: the pointer is from a box, has no other owner, and is not used again.
        unsafe { Box::from_raw(memory.0.as_ptr()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box, and has no other owner.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[derive(Debug)]
pub(crate) struct Watched(Rc<Memory>);

impl From<Vec<u8>> for Watched {
    fn from(bytes: Vec<u8>) -> Self {
        Watched(Rc::new(Memory(NonNull::from(Box::leak(bytes.into_boxed_slice())))))
    }
}

impl Watched {
    pub(crate) fn watch(&self) -> Watch {
        Watch(Rc::downgrade(&self.0))
    }

    pub(crate) fn into_bytes(self) -> Box<[u8]> {
        Rc::into_inner(self.0).expect("watches do not own").into_box()
    }
}

// SAFETY: the memory does not move while the value exists, and no reference to it exists until the
// value is used up. The rule that memory which may be written is not read holds for all but single
// bytes, as for exposed memory: they are read atomically, and the writers are libfabric and the
// kernel, outside of Rust's memory model.
unsafe impl Buffer for Watched {
    fn lend(&mut self) -> Lent {
        let bytes = self.0.0;
        Lent::both(bytes.cast(), bytes.len())
    }
}
impl SourceBuffer for Watched {}
impl TargetBuffer for Watched {}

/// A watch of a buffer, which may be lent.
pub(crate) struct Watch(Weak<Memory>);

impl Watch {
    /// Returns `true` if the first byte has arrived. The buffer was all zeros.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_written(|_| 0)
    }

    /// Returns `true` if the last byte has arrived.
    pub(crate) fn is_full(&self) -> bool {
        self.is_written(|len| len - 1)
    }

    fn is_written(&self, at: impl FnOnce(usize) -> usize) -> bool {
        let memory = self.0.upgrade().expect("nobody has dropped it");
        let at = at(memory.0.len());
        assert!(at < memory.0.len());
        // SAFETY: within the memory, which exists as long as `memory`.
        let byte = unsafe { memory.0.cast::<u8>().add(at) };
        // SAFETY: initialised. Other accesses of Rust are atomic, or after the last watch.
        unsafe { AtomicU8::from_ptr(byte.as_ptr()) }.load(Ordering::Relaxed) != 0
    }

    /// Returns `true` if the buffer is dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Progress of a transfer that fills several buffers in sequence.
#[derive(PartialEq, Eq)]
pub(crate) enum Middle {
    Before,
    /// The first byte of all has arrived, and the last has not.
    Here,
    Missed,
}

impl Middle {
    pub(crate) fn of(filled: &[Watch]) -> Self {
        match filled {
            [.., last] if last.is_full() => Middle::Missed,
            [first, ..] if first.has_begun() => Middle::Here,
            _ => Middle::Before,
        }
    }
}

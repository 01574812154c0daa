//! [`MrOwner`]: a region together with its memory.

#![allow(unsafe_code, reason = "keeps memory until nobody reaches it")]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use allocator_api2::alloc::Allocator;

use super::Mr;
use crate::buffer::Buffer;
use crate::objects::lingering::{Kept, Lingers, Standstill};
use crate::transport::Transport;
use crate::vocabulary::Errno;

/// Owns a region and the memory that it registers.
///
/// Dropping it closes the region: peers' operations on it are refused from then on. The memory is dropped as soon as
/// nobody can reach it. Over the software transport that is at once. Over libfabric an operation that began before goes on,
/// so the domain keeps the memory until none of its endpoints is open, and drops it then. A program that closes regions
/// while endpoints stay open for long, and knows from its protocol when its peers have finished, gets the memory back with
/// [`close_finished`](Self::close_finished).
///
/// Some providers go on looking at a region that is closed in the middle of a peer's operation (libfabric 2's `shm`, `sockets`).
/// There a region that is dropped while endpoints of its domain are open is closed with the last of these, and peers reach
/// the memory, which stays, until then. [`close_finished`](Self::close_finished) closes it at once. A thread that opens an endpoint of the
/// domain meanwhile waits until the last of these regions is closed.
pub struct MrOwner<'d, T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static, H = ()> {
    pub(super) mr: Mr<'d, T>,
    memory: ManuallyDrop<Kept<Reached<T, M>, A>>,
    /// What the region keeps open. Dropped when it is closed, and never if that fails.
    hold: ManuallyDrop<H>,
}

impl<'d, T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static, H> MrOwner<'d, T, M, A, H> {
    /// The memory that a region takes from its allocator, in one block: the value that owns the registered memory, and how to
    /// drop it.
    pub const LAYOUT: Layout = Kept::<Reached<T, M>, A>::LAYOUT;

    pub(super) const fn new(mr: Mr<'d, T>, memory: Kept<Reached<T, M>, A>, hold: H) -> Self {
        MrOwner { mr, memory: ManuallyDrop::new(memory), hold: ManuallyDrop::new(hold) }
    }

    /// Closes the region and gives the memory back.
    ///
    /// # Errors
    /// - [`CloseError::EndpointsOpen`] if an endpoint of the domain is open, through which peers may still reach the memory;
    ///   never over the software transport. The region is as it was.
    /// - [`CloseError::Errno`] if the provider fails to close it: the memory is then leaked, because peers may still reach
    ///   it.
    pub fn close(self) -> Result<M, CloseError<Self>> {
        let mut this = ManuallyDrop::new(self);
        let domain = this.mr.domain;
        // Where closing is no fence, no endpoint is open now, and none is opened before the region is closed.
        let standstill = (!this.mr.fenced).then(|| domain.lingering().standstill());
        if standstill.as_ref().is_some_and(Standstill::has_endpoints) {
            drop(standstill);
            return Err(CloseError::EndpointsOpen(ManuallyDrop::into_inner(this)));
        }
        // SAFETY: called once: the owner ends here.
        let closed = unsafe { this.mr.deregister() };
        drop(standstill);
        closed.map_err(CloseError::Errno)?;
        this.mr.leave_counter();
        // SAFETY: as above. Peers do not reach the memory any more: no endpoint was open when the region was closed, or closing is a
        // fence.
        Ok(unsafe { this.take_memory() }.into_value().into_memory())
    }

    /// Closes the region and gives the memory back, while endpoints are open.
    ///
    /// # Errors
    /// The provider's, if it fails to close it: the memory is then leaked.
    ///
    /// # Safety
    /// No operation of a peer on the region is under way: the peers' protocol says that all have ended, and that none
    /// begins.
    pub unsafe fn close_finished(self) -> Result<M, Errno> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: called once: the owner ends here.
        unsafe { this.mr.deregister() }?;
        this.mr.leave_counter();
        // SAFETY: as above; peers have finished, says the caller.
        Ok(unsafe { this.take_memory() }.into_value().into_memory())
    }

    /// The memory of a region that is closed, or goes with its memory, and keeps nothing open any more.
    ///
    /// # Safety
    /// Called once, on an owner that is not dropped.
    unsafe fn take_memory(&mut self) -> Kept<Reached<T, M>, A> {
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::drop(&mut self.hold) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::take(&mut self.memory) }
    }
}

impl<'d, T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static, H> Deref for MrOwner<'d, T, M, A, H> {
    type Target = Mr<'d, T>;

    fn deref(&self) -> &Mr<'d, T> {
        &self.mr
    }
}

impl<T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static, H> Drop for MrOwner<'_, T, M, A, H> {
    fn drop(&mut self) {
        let close = |mr: &Mr<'_, T>| {
            // SAFETY: called once, below. If it fails, the region stays a child of the domain, and its memory is leaked, which peers may
            // still reach.
            unsafe { mr.deregister() }
        };
        // A provider that can close regions at any time closes this one before the lock is taken: what peers have begun on it ends with
        // the endpoints that are open now, and through those that are opened from now on they do not reach it.
        let mut closed = (!self.mr.is_used_when_closed()).then(|| close(&self.mr));
        let mut standstill = self.mr.domain.lingering().standstill();
        let reached = standstill.has_endpoints() && !self.mr.fenced;
        if closed.is_none() && !reached {
            closed = Some(close(&self.mr));
        }
        match closed {
            Some(Err(_)) => {}
            None => {
                // SAFETY: taken once: each arm ends the owner.
                let mut memory = unsafe { self.take_memory() };
                // SAFETY: read once, here: nobody uses this region under its name any more.
                memory.value().region = Some(unsafe { core::ptr::read(&raw const self.mr.raw) });
                // SAFETY: an endpoint is open. The region is a child of the domain, whose list this is.
                unsafe { standstill.keep_region(memory) };
            }
            Some(Ok(())) if reached => {
                // SAFETY: taken once: each arm ends the owner.
                let memory = unsafe { self.take_memory() };
                // SAFETY: an endpoint is open.
                unsafe { standstill.keep_memory(memory) };
            }
            Some(Ok(())) => {
                self.mr.leave_counter();
                // SAFETY: taken once: each arm ends the owner.
                let memory = unsafe { self.take_memory() };
                // User code runs, which may open endpoints: they do not reach the memory.
                drop(standstill);
                drop(memory);
            }
        }
    }
}

impl<T: Transport, M: Buffer + Send + 'static, A: Allocator + Send + 'static, H> fmt::Debug
    for MrOwner<'_, T, M, A, H>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.mr, f)
    }
}

/// Memory that peers reach, and the region, if that is to be closed before the memory is dropped.
pub(super) struct Reached<T: Transport, M> {
    memory: ManuallyDrop<M>,
    /// Open.
    region: Option<T::Mr>,
}

impl<T: Transport, M: Send> Lingers for Reached<T, M> {
    fn close(&mut self) -> Result<(), Errno> {
        let Some(region) = &self.region else { return Ok(()) };
        // SAFETY: the region is open, and its domain too (`MrOwner`). If it fails, it is not closed again: the caller leaks this.
        unsafe { T::mr_close(region) }?;
        self.region = None;
        Ok(())
    }
}

impl<T: Transport, M> Reached<T, M> {
    pub(super) const fn new(memory: M) -> Self {
        Reached { memory: ManuallyDrop::new(memory), region: None }
    }

    pub(super) fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The memory of a region that is closed.
    fn into_memory(self) -> M {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: this value ends here.
        unsafe { ManuallyDrop::take(&mut this.memory) }
    }
}

impl<T: Transport, M> Drop for Reached<T, M> {
    fn drop(&mut self) {
        if self.region.is_none() {
            // SAFETY: dropped once, here. Otherwise peers may reach the memory, which is leaked.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Why a region did not give its memory back.
pub enum CloseError<R> {
    /// An endpoint of the domain is open, and the transport cannot stop what peers do through it. Here is the region, still
    /// open.
    EndpointsOpen(R),
    /// The provider failed. The memory is leaked.
    Errno(Errno),
}

impl<R> fmt::Debug for CloseError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::EndpointsOpen(_) => f.write_str("EndpointsOpen"),
            CloseError::Errno(errno) => f.debug_tuple("Errno").field(errno).finish(),
        }
    }
}

impl<R> fmt::Display for CloseError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::EndpointsOpen(_) => {
                f.write_str("peers may reach the memory while endpoints of the domain are open")
            }
            CloseError::Errno(errno) => write!(f, "the provider failed to close the region: {errno}"),
        }
    }
}

impl<R> core::error::Error for CloseError<R> {}

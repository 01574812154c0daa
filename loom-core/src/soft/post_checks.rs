//! Checks before a post, of endpoints with [required modes](super::faults::required_modes) or a
//! [plan of faults](super::faults).

#![allow(unsafe_code, reason = "writes to what was lent with an operation besides its bytes")]

use heapless::Vec;

use super::endpoint::end;
use super::faults::required_modes::RequiredModes;
use super::faults::{Fault, strikes};
use super::handles::SoftEndpoint;
use super::network::endpoint_state::begin_context;
use crate::buffer::{IoVecs, Lent};
use crate::transport::{Context, Msg, Refusal};
use crate::vocabulary::{Access, Errno, MemoryKey};

impl SoftEndpoint<'_> {
    pub(super) fn refuse_or_kill(&self) -> Result<(), Refusal> {
        let faults = self.port().own().faults();
        if faults.dead.get() {
            return Err(Refusal::Errno(Errno::ESHUTDOWN));
        }
        if strikes(&faults.kill) {
            faults.tally.count(Fault::Killed);
            end(&self.net, self.port());
            faults.dead.set(true);
            return Err(Refusal::Errno(Errno::ESHUTDOWN));
        }
        if faults.strikes_again(&faults.refuse, |plan| plan.refuse) {
            faults.tally.count(Fault::Refused);
            return Err(Refusal::Again);
        }
        Ok(())
    }

    /// # Safety
    /// L2 and L4 for the post.
    pub(super) unsafe fn apply_modes(
        &self,
        lent: &Lent,
        access: Access,
        context: Context,
    ) -> Result<(*mut u8, usize), Refusal> {
        self.refuse_or_kill()?;
        self.lies_in_its_region(lent, access).map_err(Refusal::Errno)?;
        // SAFETY: the context points to the memory that the domain requires (L2).
        unsafe { begin_context(self.port().own().modes.get(), context) };
        // SAFETY: the caller guarantees the prefix (L4).
        let message = unsafe { self.behind_prefix(lent, access) }?;
        Ok((message.ptr.as_ptr(), message.len))
    }

    /// # Safety
    /// L4 for `lent`.
    unsafe fn behind_prefix(&self, lent: &Lent, access: Access) -> Result<Lent, Refusal> {
        let prefix = self.port().own().modes.get().prefix();
        if prefix == 0 || !access.intersects(Access::SEND | Access::RECV) {
            return Ok(*lent);
        }
        if lent.len < prefix {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        // Like a provider that writes a header there. SAFETY: the buffer begins with a writable
        // prefix (L4), and has its length, checked above.
        unsafe { lent.ptr.write_bytes(0xa5, prefix) };
        Ok(lent.with_headroom(prefix))
    }

    /// `room` holds changed pieces.
    ///
    /// # Safety
    /// See [`apply_modes`](Self::apply_modes).
    pub(super) unsafe fn pieces<'m>(
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
        self.refuse_or_kill()?;
        if msg.pieces.len() > 1 && self.port().own().modes.get().contains(RequiredModes::ASYNC_IOV) {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        msg.pieces.iter().try_for_each(|lent| self.lies_in_its_region(lent, access)).map_err(Refusal::Errno)?;
        // SAFETY: the context points to the memory that the domain requires (L2).
        unsafe { begin_context(self.port().own().modes.get(), msg.context) };
        let several = Vec::from_slice(msg.pieces).map_err(|_| Refusal::Errno(Errno::EINVAL))?;
        *room = several;
        if let Some(first) = room.first_mut() {
            // SAFETY: the caller guarantees a prefix in the first piece (L4).
            *first = unsafe { self.behind_prefix(first, access) }?;
        }
        Ok(Msg { pieces: room, ..*msg })
    }

    pub(super) fn lies_in_its_region(&self, lent: &Lent, access: Access) -> Result<(), Errno> {
        if lent.len == 0 || !self.port().own().modes.get().contains(RequiredModes::LOCAL_REGISTRATION) {
            return Ok(());
        }
        let key = MemoryKey(lent.descriptor.ok_or(Errno::EINVAL)?.raw() as u64);
        let domain = self.net.reach(self.port().own().addr.get())?;
        self.net.region(key).ok_or(Errno::ENOKEY)?.enter(key)?.covers(lent.ptr, lent.len, access, domain)
    }
}

//! Transfers: validation, submission, cancellation.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::vocabulary::RangeError;
use loom_core::{Access, Buffer, Error, Rejected, Transport};

use super::Engine;
use crate::control::Notice;
use crate::event::TransferKey;
use crate::link::LinkState;
use crate::peers::PeerKey;
use crate::plan::{Block, Plan};
use crate::rail::Rail;
use crate::request::Request;

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    /// Submits a transfer, which [`poll`](Self::poll) posts. Validates all blocks of the plan.
    ///
    /// # Errors
    /// The request, with
    /// - [`Error::Full`] beyond [`EngineAttr::transfers`]
    /// - the failure of the peer ([`Event::Peer`])
    /// - [`PostError::UnknownPeer`], [`PostError::OutOfBounds`], [`PostError::RemoteAccess`],
    ///   [`PostError::Access`] for local memory, [`PostError::DataWidth`]
    /// - [`PostError::TooLong`] for a write with data if a rail's `max_msg_size` is below the piece
    ///   of the peer's memory
    /// - [`RangeError::OutOfWindow`] for a block outside of the local memory
    /// - [`Error::Invalid`] if the queues of all rails have failed, for memory that is not
    ///   registered, a read with data, memory of another number of rails than the peer's, or a
    ///   [signal](Request::signal) without a block
    ///
    /// [`Event::Peer`]: crate::Event::Peer
    /// [`EngineAttr::transfers`]: crate::EngineAttr::transfers
    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    pub fn submit(&mut self, request: Request<P>) -> Result<TransferKey, Rejected<Request<P>, Error>> {
        let notice = request.data.and(self.control.as_ref()).map(|_| Notice::Failure);
        self.begin(request, notice)
    }

    /// Returns `true` if the peer is ready, and another notification does not wait behind earlier
    /// ones.
    #[must_use]
    pub fn can_notify(&self, peer: PeerKey) -> bool {
        let link = self.peers.link(peer).filter(|link| link.state == LinkState::Ready);
        link.is_some_and(|link| link.has_number(self.attr.notifications.into()))
    }

    /// Submits a transfer, and sends the peer a message after it, also if it fails. The peer
    /// reports it as [`Event::Notified`] once all writes of the transfer have arrived.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit), and
    /// - [`Error::Full`] if too few buffers are free ([`EngineAttr::messages`])
    /// - [`PostError::TooLong`] beyond [`EngineAttr::fragments`]
    /// - [`Error::Invalid`] for a request with data, or if this engine or the peer has no control
    ///   messages
    ///
    /// [`Event::Notified`]: crate::Event::Notified
    /// [`EngineAttr::messages`]: crate::EngineAttr::messages
    /// [`EngineAttr::fragments`]: crate::EngineAttr::fragments
    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    pub fn submit_and_notify(
        &mut self,
        request: Request<P>,
        message: &[u8],
    ) -> Result<TransferKey, Rejected<Request<P>, Error>> {
        if request.data.is_some() {
            let error = Error::Invalid(
                "the immediate data of a transfer with a notification is the engine's: submit it without data",
            );
            return Err(Rejected { value: request, error });
        }
        if let Err(error) = self.check_message(request.peer, message) {
            return Err(Rejected { value: request, error });
        }
        // Staged afterwards: the plan may panic.
        let peer = request.peer;
        let key = self.begin(request, None)?;
        let staged = self.control.as_mut().and_then(|control| control.stage(message));
        if let (Some(staged), Some(slot)) = (staged, self.transfers.named(key)) {
            slot.notice = Some(Notice::Message(staged));
            let link = self.peers.link_mut(peer).filter(|link| link.state == LinkState::Ready);
            slot.number = link.and_then(|link| link.acquire(self.attr.notifications.into()));
            slot.message_len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        }
        Ok(key)
    }

    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    fn begin(
        &mut self,
        request: Request<P>,
        notice: Option<Notice>,
    ) -> Result<TransferKey, Rejected<Request<P>, Error>> {
        let request = self.prepare(request)?;
        let (local, deadline) = (request.local, request.deadline);
        let target = if self.own_peer == Some(request.peer) { self.memory_of(&request.remote) } else { None };
        let key = match self.transfers.begin(request, notice) {
            Ok(key) => key,
            Err(value) => return Err(Rejected { value, error: Error::Full("EngineAttr::transfers") }),
        };
        self.memories.used(local, 1);
        if let (Some(slot), Some(target)) = (self.transfers.named(key), target) {
            slot.target = Some(target);
        }
        self.next_deadline = self.next_deadline.min(deadline);
        Ok(key)
    }

    /// Validates a request in advance: [`submit`](Self::submit) then skips the blocks of its plan,
    /// also when the request comes back in an [`Outcome`](crate::Outcome).
    ///
    /// # Errors
    /// See [`submit`](Self::submit).
    #[expect(clippy::result_large_err, reason = "the request is returned, which cannot be boxed without an allocator")]
    pub fn prepare(&self, mut request: Request<P>) -> Result<Request<P>, Rejected<Request<P>, Error>> {
        match self.check(&request) {
            Ok(()) => {
                request.checked = Some(self.number);
                Ok(request)
            }
            Err(error) => Err(Rejected { value: request, error }),
        }
    }

    fn check(&self, request: &Request<P>) -> Result<(), Error> {
        let Request { remote, plan, reads, .. } = request;
        if self.is_failed() {
            return Err(Error::Invalid("the queues of all rails have failed: open another engine"));
        }
        let rails = self.peers.rails(request.peer).ok_or(PostError::UnknownPeer)?;
        if let Some(LinkState::Failed(error)) = self.peers.link(request.peer).map(|link| link.state) {
            return Err(error);
        }
        if rails != remote.rails() {
            return Err(Error::Invalid(
                "the remote memory has another number of rails than the peer: use memory of that peer",
            ));
        }
        let local = self
            .memories
            .get(request.local)
            .ok_or(Error::Invalid("the memory is not registered: register it first"))?;
        if !local.allows(*reads) {
            return Err(PostError::Access.into());
        }
        let needed = if *reads { Access::REMOTE_READ } else { Access::REMOTE_WRITE };
        if !remote.access().contains(needed) {
            return Err(PostError::RemoteAccess(needed).into());
        }
        if let Some(value) = request.data {
            if *reads {
                return Err(Error::Invalid("a read carries no immediate data: notify the peer after it"));
            }
            for rail in self.rails.iter() {
                let limit = rail.domain.info().attributes().domain.cq_data_size;
                if limit < 8 && value >> (8 * limit) != 0 {
                    return Err(PostError::DataWidth { limit }.into());
                }
            }
        }
        if request.signals && plan.blocks() == 0 {
            return Err(Error::Invalid(
                "a plan without blocks has no write that signals: submit none, or one of 0 bytes",
            ));
        }
        let limit = self.rails.iter().map(Rail::max_msg_size).min().unwrap_or(0);
        if request.data.is_some() && !request.signals && remote.piece() > limit {
            return Err(PostError::TooLong { limit: usize::try_from(limit).unwrap_or(usize::MAX) }.into());
        }
        if request.checked == Some(self.number) {
            return Ok(());
        }
        let within = |offset: u64, len, whole| offset.checked_add(len).is_some_and(|end| end <= whole);
        for index in 0..plan.blocks() {
            let Block { local: from, remote: to, len } = plan.block(index);
            if !within(from, len, local.len()) {
                return Err(RangeError::OutOfWindow.into());
            }
            if !within(to, len, remote.len()) {
                return Err(PostError::OutOfBounds.into());
            }
        }
        Ok(())
    }

    /// Cancels a transfer: posts no more of its operations. Its outcome is
    /// [`Ending::Cancelled`](crate::Ending::Cancelled) once those in flight have completed, unless
    /// one has failed. The receiver's notification has the same ending. Returns `false` if all
    /// operations have completed.
    pub fn cancel(&mut self, transfer: TransferKey) -> bool {
        let stops = self.transfers.named(transfer).is_some_and(|slot| slot.cancel());
        if stops {
            self.transfers.settle(transfer.index);
        }
        stops
    }

    /// Number of operations in flight of a transfer, also after an outcome that has some. `None`
    /// once it has ended without any.
    #[must_use]
    pub fn operations_in_flight(&self, transfer: TransferKey) -> Option<u32> {
        self.transfers.in_flight(transfer)
    }
}

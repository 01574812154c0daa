//! [`Port`]: what endpoints of every kind have in common: a place in a queue, a raw handle, and posting through them.
//!
//! The kinds differ in how they say where a post goes: [`Endpoint`](super::endpoint::Endpoint) by a peer of its address
//! vector, [`MsgEndpoint`](super::msg_endpoint::MsgEndpoint) not at all, because it is connected to one.

#![allow(unsafe_code, reason = "opens, uses and closes the raw handle in the port's record")]

mod message;
mod msg;
mod peek;
mod post;
mod record;
mod rma;
mod tagged;
mod unreported;

use core::fmt;

pub(crate) use self::post::Limits;
pub(crate) use self::record::{Bound, Receives, Record};
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError};
use crate::objects::cq::Cq;
use crate::objects::info::Info;
use crate::transport::{Closing, EndpointError, Transport};
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr, Mode};

/// An open endpoint of any kind. Dropping it closes the endpoint.
pub(crate) struct Port<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    record: &'q Record<'d, T>,
    index: u16,
    pub(crate) limits: Limits,
}

impl<'q, 'd, T: Transport, B: Buffer> Port<'q, 'd, T, B> {
    /// Opens an endpoint in a free place of the queue. `open` opens it from `info` of the queue's domain, bound to the queues
    /// that it is given and to what `users` belong to, who count it already.
    pub(crate) fn open(
        cq: &'q Cq<'d, T, B>,
        info: &Info<T>,
        receives: Receives,
        users: Bound<'d>,
        open: impl FnOnce(&T::Cq, &T::Cq) -> Result<T::Endpoint, EndpointError>,
    ) -> Result<Self, OpenError> {
        let domain = cq.domain();
        let place = (0u16..).zip(cq.records()).find(|(_, record)| record.is_closed());
        if matches!(receives, Receives::OfWrites(1..)) && info.consumes_receives() && info.prefixes().rx > 0 {
            // Those are of no bytes.
            users.iter().for_each(|users| users.closed());
            return Err(OpenError::Mode(Mode::MSG_PREFIX));
        }
        let Some((index, record)) = place else {
            users.iter().for_each(|users| users.closed());
            return Err(OpenError::TooManyEndpoints);
        };
        let (tx, rx) = cq.raw();
        domain.lingering().endpoint_opened();
        match open(tx, rx) {
            Ok(raw) => {
                // SAFETY: the record is closed, so nobody refers to its handle; the endpoint is bound to what has these users.
                unsafe { record.open(raw, receives, users) };
                let port = Port { cq, record, index, limits: Limits::of(info, domain, receives) };
                if let Receives::OfWrites(count) = receives
                    && port.limits.consumes
                {
                    // Closes the endpoint again if it fails.
                    (0..count).try_for_each(|_| port.post_spare())?;
                }
                Ok(port)
            }
            Err(error) => {
                if error.left_open {
                    // What it is bound to keeps its user, and the queue finds out when it is dropped.
                    record.fail(receives, error.errno);
                } else {
                    users.iter().for_each(|users| users.closed());
                    domain.lingering().endpoint_closed();
                    domain.release();
                }
                Err(error.errno.into())
            }
        }
    }

    /// Says whether the endpoint was opened as selective.
    pub(crate) const fn with_selective(mut self, selective: bool) -> Self {
        self.limits.selective = selective;
        self
    }

    /// Its place in the queue.
    pub(crate) const fn index(&self) -> u16 {
        self.index
    }

    pub(crate) fn cq(&self) -> &'q Cq<'d, T, B> {
        self.cq
    }

    pub(crate) const fn record(&self) -> &'q Record<'d, T> {
        self.record
    }

    /// The raw handle.
    #[inline]
    pub(crate) fn raw(&self) -> &T::Endpoint {
        // SAFETY: the record is open from `open` until this value is dropped.
        unsafe { self.record.raw() }
    }

    /// Posts a receive of no bytes, for a peer's write to use up.
    fn post_spare(&self) -> Result<(), OpenError> {
        let posted = self.cq.ops().post_spare(self.index, |context| {
            // SAFETY: the endpoint is open, and nothing is lent but the context's space, which stays until the event or the
            // endpoint's close.
            post::taken(unsafe { T::recv(self.raw(), FabricAddr::UNSPEC, &().lend(), context) })
        });
        posted.map_err(|error| match error {
            PostError::Errno(errno) => errno.into(),
            _ => OpenError::Size,
        })
    }

    /// `fi_cancel`
    pub(crate) fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        if self.limits.consumes && self.cq.ops().cancel_used_up(key, self.index) {
            return Ok(());
        }
        let context = self.cq.ops().context_of(key, self.index).ok_or(Errno::ENOENT)?;
        // SAFETY: the endpoint is open and the context is one of its operations in flight.
        unsafe { T::cancel(self.raw(), context) }?;
        // Only now: what the provider has refused to cancel ends as any other. The event is read by a later poll.
        self.cq.cancelling(key);
        Ok(())
    }

    /// Ends the operations in flight, as far as they can be cancelled or end by themselves soon.
    pub(crate) fn cancel_and_settle(&self) {
        if self.limits.consumes {
            self.cq.ops().end_used_up(self.index);
        }
        self.record.cancel_all(self.cq.all_to_cancel(self.index));
        self.cq.settle(self.index);
    }

    /// `fi_getname`
    pub(crate) fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_address(self.raw()) }
    }
}

impl<T: Transport, B: Buffer> Drop for Port<'_, '_, T, B> {
    fn drop(&mut self) {
        let (ops, domain) = (self.cq.ops(), self.cq.domain());
        if self.limits.consumes {
            ops.end_used_up(self.index);
        }
        let close = || {
            // SAFETY: the record belongs to this endpoint, which is used no more.
            unsafe { self.cq.close_endpoint(self.index, self.record) }
        };
        let mut closed = close();
        if let Ok(Closing::Retired) = closed {
            self.record.cancel_all(self.cq.all_to_cancel(self.index));
            // What others receive through stays open as long as they do.
            if !self.cq.is_received_through(self.index) {
                self.cq.settle(self.index);
                closed = close();
            }
        }
        // A retired endpoint is closed with its queue. If closing failed, the queue finds out when it is dropped, and
        // does what has to be done.
        if let Ok(Closing::Closed) = closed {
            // What was over before the close is a completion like any other.
            self.cq.collect();
            // SAFETY: the endpoint is closed.
            unsafe { ops.abandon(self.index) };
            domain.release();
        }
    }
}

impl<T: Transport, B: Buffer> fmt::Debug for Port<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("index", &self.index).field("limits", &self.limits).finish_non_exhaustive()
    }
}

//! [`Opened`]: what endpoints of every kind have in common: a place in a queue, a raw handle, options.

#![allow(unsafe_code, reason = "opens, uses and closes the raw handle in the endpoint's record")]

use core::fmt;

use heapless::Vec;

use super::limits::Limits;
use super::post;
use super::record::{Bound, Receiving, Record};
use crate::buffer::Buffer;
use crate::engine::op_table::OpKey;
use crate::error::{OpenError, PostError};
use crate::objects::cq::Cq;
use crate::objects::info::Info;
use crate::transport::{Closing, EndpointError, Transport};
use crate::vocabulary::{EndpointAddr, EndpointOption, Errno, FabricAddr, Mode, OptionType, OptionValue};

/// An open endpoint of any kind. Dropping it closes the endpoint.
pub(super) struct Opened<'q, 'd, T: Transport, B: Buffer> {
    cq: &'q Cq<'d, T, B>,
    record: &'q Record<'d, T>,
    index: u16,
    pub(super) limits: Limits,
    /// What is in flight is ended before it is closed, as far as that can be soon.
    settles: bool,
}

impl<'q, 'd, T: Transport, B: Buffer> Opened<'q, 'd, T, B> {
    /// Opens an endpoint in a free place of the queue. `open` opens it from `info` of the queue's domain, bound to the queues
    /// that it is given and to what `users` belong to, who count it already.
    pub(super) fn open(
        cq: &'q Cq<'d, T, B>,
        info: &Info<T>,
        receives: Receiving,
        users: Bound<'d>,
        open: impl FnOnce(&T::Cq, &T::Cq) -> Result<T::Endpoint, EndpointError>,
    ) -> Result<Self, OpenError> {
        let domain = cq.domain();
        let place = (0u16..).zip(cq.records()).find(|(_, record)| record.is_closed());
        if matches!(receives, Receiving::OfWrites(1..)) && info.consumes_receives() && info.prefixes().rx > 0 {
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
                let opened = Opened { cq, record, index, limits: Limits::of(info, domain, receives), settles: false };
                if let Receiving::OfWrites(count) = receives
                    && opened.limits.consumes
                {
                    // Closes the endpoint again if it fails.
                    (0..count).try_for_each(|_| opened.post_spare())?;
                }
                Ok(opened)
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
    pub(super) const fn with_selective(mut self, selective: bool) -> Self {
        self.limits.selective = selective;
        self
    }

    /// Has it end what is in flight before it is closed.
    pub(super) const fn settling(mut self) -> Self {
        self.settles = true;
        self
    }

    /// Its place in the queue.
    pub(super) const fn index(&self) -> u16 {
        self.index
    }

    pub(super) const fn cq(&self) -> &'q Cq<'d, T, B> {
        self.cq
    }

    pub(super) const fn record(&self) -> &'q Record<'d, T> {
        self.record
    }

    /// The raw handle.
    #[inline]
    pub(super) fn raw(&self) -> &T::Endpoint {
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
    pub(super) fn cancel(&self, key: OpKey) -> Result<(), Errno> {
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

    /// `fi_getname`
    pub(super) fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_address(self.raw()) }
    }
}

impl<T: Transport, B: Buffer> Drop for Opened<'_, '_, T, B> {
    fn drop(&mut self) {
        let (ops, domain) = (self.cq.ops(), self.cq.domain());
        if self.limits.consumes {
            ops.end_used_up(self.index);
        }
        if self.settles {
            self.record.cancel_all(self.cq.all_to_cancel(self.index));
            self.cq.settle(self.index);
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

impl<T: Transport, B: Buffer> fmt::Debug for Opened<'_, '_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("index", &self.index).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Options to set between opening and enabling.
#[derive(Debug, Default)]
pub(super) struct Options {
    list: Vec<(u32, OptionValue), 8>,
    /// One cannot be set, or there were too many.
    wrong: bool,
}

impl Options {
    pub(super) const fn none() -> Self {
        Options { list: Vec::new(), wrong: false }
    }

    pub(super) fn set<V: OptionType>(&mut self, option: EndpointOption<V>, value: V) {
        self.wrong |= !is_sane(option, value) || self.list.push((option.as_raw(), value.into())).is_err();
    }

    /// For the transport.
    pub(super) fn raw(&self) -> Result<&[(u32, OptionValue)], OpenError> {
        if self.wrong { Err(OpenError::Errno(Errno::EINVAL)) } else { Ok(&self.list) }
    }
}

/// Whether an option can be set to this. Providers go on with multi-receives of which nothing is left, if that is not too
/// little.
fn is_sane<V: OptionType>(option: EndpointOption<V>, value: V) -> bool {
    let nothing_left =
        option.as_raw() == EndpointOption::MIN_MULTI_RECV.as_raw() && value.into() == OptionValue::Size(0);
    option.is_settable() && !nothing_left
}

impl<T: Transport, B: Buffer> Opened<'_, '_, T, B> {
    /// `fi_getopt`
    pub(super) fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        // SAFETY: the endpoint is open.
        let value = unsafe { T::endpoint_option(self.raw(), option.as_raw(), V::ANY.into()) }?;
        V::of(value).ok_or(Errno::EOTHER)
    }

    /// `fi_setopt`
    pub(super) fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        if !is_sane(option, value) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_set_option(self.raw(), option.as_raw(), value.into()) }
    }
}

#![allow(unsafe_code, reason = "calls libfabric, and implements the unsafe trait `Scalable`")]

use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use loom_core::transport::scalable::{ContextBindings, Contexts};
use loom_core::transport::{Closing, EndpointError, InFlight, Scalable};
use loom_core::vocabulary::{AddressFormat, Attributes, EndpointAddr, Errno};

use super::Endpoint;
use super::closing::Closable;
use super::open::enable;
use super::option::endpoint_set_option;
use crate::ofi::av::{Av, read_address};
use crate::ofi::control::{bind, close, opened};
use crate::ofi::endpoint::open;
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::entry;
use crate::ofi::info::RawInfo;
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::{Handle, Level};
use crate::ofi::transport::Ofi;

/// Unlike other endpoints it crosses threads, because it posts no operation.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct FidSep(sys::fid_ep);

/// A scalable endpoint, raw.
#[doc(alias = "fid_ep")]
#[derive(Debug)]
pub struct ScalableEndpoint<L> {
    fid: Handle<FidSep, L>,
    addr_format: AddressFormat,
    /// Copy that lives as long as the endpoint: `sockets` keeps pointers into it.
    info: ManuallyDrop<RawInfo>,
    family: Family,
}

/// The lock is for opening and closing contexts, which change the endpoint.
///
/// Only `sockets` has such endpoints. Beside an open context, a closed transmit context still
/// serves its sends, reads and writes in flight, but not injected messages
/// (`sockets-answer-to-a-closed-context-crashes`).
#[derive(Debug)]
pub(crate) struct Family {
    open: spin::Mutex<Open>,
    contexts: Contexts,
}

#[derive(Debug)]
struct Open {
    tx: u64,
    rx: u64,
    /// The last context was closed with operations in flight: their answers would reach a new one.
    over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Tx,
    Rx,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalableContext {
    /// Stays at its address while the context is open (S2).
    family: NonNull<Family>,
    direction: Direction,
    index: u16,
}

impl Open {
    fn bits(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        }
    }

    const fn is_last(&self) -> bool {
        self.tx.count_ones() + self.rx.count_ones() <= 1
    }
}

impl Family {
    const fn new(contexts: Contexts) -> Self {
        Family { open: spin::Mutex::new(Open { tx: 0, rx: 0, over: false }), contexts }
    }

    fn open<E>(
        &self,
        direction: Direction,
        index: u16,
        open: impl FnOnce() -> Result<E, EndpointError>,
    ) -> Result<E, EndpointError> {
        let count = match direction {
            Direction::Tx => self.contexts.tx,
            Direction::Rx => self.contexts.rx,
        };
        let bit = 1_u64.checked_shl(index.into()).filter(|_| index < count).ok_or(Errno::EINVAL)?;
        let mut state = self.open.lock();
        if state.over || *state.bits(direction) & bit != 0 {
            return Err(Errno::EBUSY.into());
        }
        let result = open();
        if !matches!(result, Err(EndpointError { left_open: false, .. })) {
            *state.bits(direction) |= bit;
        }
        result
    }
}

impl ScalableContext {
    pub(crate) fn close(
        self,
        in_flight: InFlight,
        close: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Closing, Errno> {
        // SAFETY: the context is open, so that its endpoint has not moved (S2).
        let family = unsafe { self.family.as_ref() };
        let mut state = family.open.lock();
        let answers = in_flight.transmits > 0;
        if answers && !state.is_last() {
            return Ok(Closing::Retired);
        }
        close()?;
        state.over |= answers;
        *state.bits(self.direction) &= !(1_u64.checked_shl(self.index.into()).unwrap_or(0));
        Ok(Closing::Closed)
    }
}

impl<L> ScalableEndpoint<L> {
    pub(crate) const fn fid(&self) -> Raw<sys::fid> {
        self.fid.fid()
    }

    const fn raw(&self) -> Raw<sys::fid_ep> {
        self.fid.raw().cast()
    }

    fn member(&self, direction: Direction, index: u16) -> Closable {
        Closable::context(ScalableContext { family: NonNull::from(&self.family), direction, index })
    }
}

unsafe fn open<L>(
    domain: &Domain<L>,
    info: &RawInfo,
    av: &Av<L>,
    contexts: Contexts,
) -> Result<ScalableEndpoint<L>, EndpointError> {
    let raw_domain = domain.raw();
    let open = entry!(raw_domain, ops => scalable_ep)?;
    if !domain.has_contexts() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let info = info.for_scalable_endpoint(contexts).ok_or(Errno::ENOMEM)?;
    let mut raw = ptr::null_mut();
    // SAFETY: open (H1), the info only read.
    let code = unsafe { open(raw_domain.as_ptr(), info.as_ptr(), &raw mut raw, ptr::null_mut()) };
    let family = Family::new(contexts);
    let fid = Handle::new(opened(code, raw)?.cast());
    let endpoint = ScalableEndpoint { fid, addr_format: domain.addr_format(), info: ManuallyDrop::new(info), family };
    // SAFETY: the endpoint was just opened, and the vector is open (H1). `fi_scalable_ep_bind` is
    // `fi_ep_bind`.
    let enabled = unsafe { bind(endpoint.fid.fid(), av.fid(), 0) }.and_then(|()| {
        // SAFETY: the endpoint was just opened.
        unsafe { enable(endpoint.fid.fid()) }
    });
    match enabled {
        Ok(()) => Ok(endpoint),
        Err(errno) => {
            // SAFETY: open, without contexts, not shared, and not used again.
            let left_open = unsafe { scalable_close(&endpoint) }.is_err();
            Err(EndpointError { errno, left_open })
        }
    }
}

unsafe fn scalable_close<L>(endpoint: &ScalableEndpoint<L>) -> Result<(), Errno> {
    // SAFETY: the endpoint is closed once (H1–H3).
    unsafe { close(endpoint.fid.fid()) }?;
    // SAFETY: freed once, here: the endpoint is not used again.
    drop(unsafe { ptr::read(&raw const *endpoint.info) });
    Ok(())
}

unsafe fn address<L>(endpoint: &ScalableEndpoint<L>) -> Result<EndpointAddr, Errno> {
    let raw = endpoint.raw();
    let getname = entry!(raw, cm => getname)?;
    let fid = endpoint.fid.fid().as_ptr();
    let _alone = endpoint.family.open.lock();
    // SAFETY: open (H1), and `bytes` has room for `len` bytes.
    read_address(endpoint.addr_format, |bytes, len| unsafe { getname(fid, bytes, len) })
}

unsafe fn bind_and_enable<L: Level>(
    context: &Endpoint<L>,
    bound: &ContextBindings<'_, Ofi<L>>,
    flags: u32,
) -> Result<(), Errno> {
    let fid = context.fid();
    // SAFETY: open (H1).
    unsafe { bind(fid, bound.cq.fid(), flags.into()) }?;
    for (counted, counter) in bound.counters {
        // SAFETY: open (H1).
        unsafe { bind(fid, counter.fid(), counted.bits()) }?;
    }
    for (option, value) in bound.options {
        // SAFETY: open (H1).
        unsafe { endpoint_set_option(context, *option, *value) }?;
    }
    // SAFETY: open (H1).
    unsafe { enable(fid) }
}

unsafe fn open_context<L: Level>(
    endpoint: &ScalableEndpoint<L>,
    (direction, index): (Direction, u16),
    (bound, flags): (&ContextBindings<'_, Ofi<L>>, u32),
    open: impl FnOnce(i32, *mut *mut sys::fid_ep) -> i32,
) -> Result<Endpoint<L>, EndpointError> {
    endpoint.family.open(direction, index, || {
        let mut raw = ptr::null_mut();
        let code = open(index.into(), &raw mut raw);
        let closable = endpoint.member(direction, index);
        let context = Endpoint::bare(opened(code, raw)?, endpoint.addr_format, closable);
        // SAFETY: the context was just opened, and the bound objects are open (H1).
        match unsafe { bind_and_enable(&context, bound, flags) } {
            Ok(()) => Ok(context),
            // SAFETY: open, without children.
            Err(errno) => Err(unsafe { open::close_after_failure(context, errno) }),
        }
    })
}

// SAFETY: libfabric keeps the promises, and this implementation passes them on (`man fi_endpoint`,
// `fi_domain`). Calls on a scalable endpoint hold the lock of its family, and contexts are closed
// only when the provider can close them (`ScalableContext::close`).
unsafe impl<L: Level> Scalable for Ofi<L> {
    type ScalableEndpoint = ScalableEndpoint<L>;

    fn serves_contexts(attributes: &Attributes) -> bool {
        L::serves_contexts(attributes.domain.threading)
    }

    unsafe fn scalable_open(
        domain: &Domain<L>,
        info: &RawInfo,
        av: &Av<L>,
        contexts: Contexts,
    ) -> Result<ScalableEndpoint<L>, EndpointError> {
        // SAFETY: open (H1).
        unsafe { open(domain, info, av, contexts) }
    }

    unsafe fn scalable_close(endpoint: &ScalableEndpoint<L>) -> Result<(), Errno> {
        // SAFETY: the endpoint is closed once (H1–H3).
        unsafe { scalable_close(endpoint) }
    }

    unsafe fn scalable_address(endpoint: &ScalableEndpoint<L>) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        unsafe { address(endpoint) }
    }

    fn injects_writes(_: &ScalableEndpoint<L>) -> bool {
        // Unreported, and a context cannot be closed before their answers.
        false
    }

    unsafe fn tx_context_open(
        endpoint: &ScalableEndpoint<L>,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Endpoint<L>, EndpointError> {
        let raw = endpoint.raw();
        let open = entry!(raw, ops => tx_ctx)?;
        let open = |index, context| {
            // SAFETY: open (H1), `context` receives the context, and null attributes are the
            // endpoint's.
            unsafe { open(raw.as_ptr(), index, ptr::null_mut(), context, ptr::null_mut()) }
        };
        // SAFETY: open (H1).
        unsafe { open_context(endpoint, (Direction::Tx, index), (&bind, sys::FI_TRANSMIT), open) }
    }

    unsafe fn rx_context_open(
        endpoint: &ScalableEndpoint<L>,
        index: u16,
        bind: ContextBindings<'_, Self>,
    ) -> Result<Endpoint<L>, EndpointError> {
        let raw = endpoint.raw();
        let open = entry!(raw, ops => rx_ctx)?;
        let open = |index, context| {
            // SAFETY: open (H1), `context` receives the context, and null attributes are the
            // endpoint's.
            unsafe { open(raw.as_ptr(), index, ptr::null_mut(), context, ptr::null_mut()) }
        };
        // SAFETY: open (H1).
        unsafe { open_context(endpoint, (Direction::Rx, index), (&bind, sys::FI_RECV), open) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ANSWER: InFlight = InFlight { transmits: 1, ..InFlight::NOTHING };

    fn family() -> Family {
        Family::new(Contexts { tx: 2, rx: 64 })
    }

    fn open(family: &Family, direction: Direction, index: u16) -> Result<ScalableContext, Errno> {
        let member = ScalableContext { family: NonNull::from(family), direction, index };
        family.open(direction, index, || Ok(member)).map_err(|error| error.errno)
    }

    fn close(member: ScalableContext, in_flight: InFlight) -> Closing {
        member.close(in_flight, || Ok(())).unwrap()
    }

    #[test]
    fn contexts_that_are_not_there_or_open_already_are_not_opened() {
        let family = family();
        let tx = open(&family, Direction::Tx, 1).unwrap();
        assert_eq!(open(&family, Direction::Tx, 1).unwrap_err(), Errno::EBUSY);
        assert_eq!(open(&family, Direction::Tx, 2).unwrap_err(), Errno::EINVAL);
        assert!(open(&family, Direction::Rx, 1).is_ok() && open(&family, Direction::Rx, 63).is_ok());
        assert_eq!(open(&family, Direction::Rx, 64).unwrap_err(), Errno::EINVAL);
        assert_eq!(open(&family, Direction::Rx, u16::MAX).unwrap_err(), Errno::EINVAL);
        assert_eq!(close(tx, InFlight::NOTHING), Closing::Closed);
        assert!(open(&family, Direction::Tx, 1).is_ok());
    }

    #[test]
    fn context_that_failed_to_open_or_close_keeps_its_number_if_it_is_open() {
        let family = family();
        for left_open in [false, true] {
            let error = EndpointError { errno: Errno::EIO, left_open };
            assert_eq!(family.open(Direction::Tx, 0, || Err::<(), _>(error)), Err(error));
        }
        assert_eq!(open(&family, Direction::Tx, 0).unwrap_err(), Errno::EBUSY);
        let other = open(&family, Direction::Tx, 1).unwrap();
        assert_eq!(other.close(InFlight::NOTHING, || Err(Errno::EIO)), Err(Errno::EIO));
        assert_eq!(open(&family, Direction::Tx, 1).unwrap_err(), Errno::EBUSY);
    }

    #[test]
    fn answers_find_an_open_context_or_no_context() {
        let family = family();
        let tx = open(&family, Direction::Tx, 0).unwrap();
        let rx = open(&family, Direction::Rx, 0).unwrap();
        assert_eq!(close(tx, ANSWER), Closing::Retired, "the other may find its answer");
        let receives = InFlight { receives: 3, ..InFlight::NOTHING };
        assert_eq!(close(rx, receives), Closing::Closed);
        assert_eq!(close(tx, ANSWER), Closing::Closed, "no context is left that may find its answer");
        assert_eq!(open(&family, Direction::Rx, 0).unwrap_err(), Errno::EBUSY, "it would find it");
    }
}

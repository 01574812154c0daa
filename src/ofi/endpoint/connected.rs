#![allow(unsafe_code, reason = "implements the unsafe trait `Connected`")]

use core::ffi::c_int;

use loom_core::transport::connected::{EqAttr, Fault, Fid, MsgBindings, Notice};
use loom_core::transport::{Connected, EndpointError};
use loom_core::vocabulary::{CmData, EndpointAddr, Errno};

use super::Endpoint;
use super::connection::{self, PassiveEndpoint};
use crate::ofi::endpoint::open;
use crate::ofi::fabric::Domain;
use crate::ofi::info::RawInfo;
use crate::ofi::queue::Cq;
use crate::ofi::queue::event_queue::{self, Eq, Read, Request};
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;

// SAFETY: libfabric keeps the promises, and this implementation passes them on. An event's kind and
// length are checked first. An endpoint refuses or cancels posts once its connection has ended
// (`man fi_cm`).
unsafe impl<L: Level> Connected for Ofi<L> {
    type Eq = Eq<L>;
    type PassiveEndpoint = PassiveEndpoint<L>;
    type Request = Request;

    unsafe fn eq_open(domain: &Domain<L>, attr: EqAttr) -> Result<Eq<L>, Errno> {
        // SAFETY: open (H1).
        unsafe { event_queue::open(domain, attr) }
    }

    unsafe fn eq_close(eq: &Eq<L>) -> Result<(), Errno> {
        // SAFETY: the queue is closed once (H1–H3).
        unsafe { event_queue::eq_close(eq) }
    }

    unsafe fn eq_read(eq: &Eq<L>, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Notice<Self>>, Errno> {
        // SAFETY: one thread uses the open queue (H1, T3).
        let read = unsafe { event_queue::read(eq, sleep, data) }?;
        Ok(read.map(|read| match read {
            Read::Request { listener, info, request } => Notice::Request { listener, info, request },
            Read::Connected(endpoint) => Notice::Connected(endpoint),
            Read::Shutdown(endpoint) => Notice::Shutdown(endpoint),
            Read::Joined { group, context } => Notice::Joined { group, context },
            Read::Entry(entry) => Notice::Entry(entry),
            Read::Failed(fault) => Notice::Failed(fault),
            Read::Other(kind) => Notice::Other(kind),
        }))
    }

    unsafe fn eq_read_error(eq: &Eq<L>, data: &mut CmData) -> Result<Option<Fault>, Errno> {
        // SAFETY: one thread uses the open queue (H1, T3).
        unsafe { event_queue::read_error(eq, data) }
    }

    unsafe fn eq_error_text(eq: &Eq<L>, provider_errno: i32, data: &CmData, out: &mut [u8]) -> usize {
        // SAFETY: open (H1).
        unsafe { event_queue::error_text(eq, provider_errno, data, out) }
    }

    unsafe fn eq_notify(eq: &Eq<L>, context: u64, data: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { event_queue::notify(eq, context, data) }
    }

    unsafe fn eq_wait_fd(eq: &Eq<L>) -> Result<c_int, Errno> {
        // SAFETY: open (H1), with a file descriptor.
        unsafe { event_queue::eq_wait_fd(eq) }
    }

    unsafe fn eq_may_sleep(domain: &Domain<L>, eq: &Eq<L>) -> Result<bool, Errno> {
        // SAFETY: open (H1), in this domain.
        unsafe { event_queue::eq_may_sleep(domain, eq) }
    }

    unsafe fn passive_open(
        domain: &Domain<L>,
        info: &RawInfo,
        eq: &Eq<L>,
    ) -> Result<PassiveEndpoint<L>, EndpointError> {
        // SAFETY: open (H1).
        unsafe { connection::listen(domain, info, eq) }
    }

    unsafe fn passive_close(passive: &PassiveEndpoint<L>) -> Result<(), Errno> {
        // SAFETY: the endpoint is closed once (H1, H3).
        unsafe { connection::passive_close(passive) }
    }

    fn passive_fid(passive: &PassiveEndpoint<L>) -> Fid {
        connection::passive_fid(passive)
    }

    unsafe fn passive_address(passive: &PassiveEndpoint<L>) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        unsafe { connection::passive_address(passive) }
    }

    unsafe fn passive_cm_data_size(passive: &PassiveEndpoint<L>) -> Result<usize, Errno> {
        // SAFETY: open (H1).
        unsafe { connection::passive_cm_data_size(passive) }
    }

    unsafe fn reject(passive: &PassiveEndpoint<L>, request: Request, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: the endpoint is open, and the request not used up (H1, E2).
        unsafe { connection::reject(passive, &request, data) }
    }

    unsafe fn shared_rx_open(domain: &Domain<L>, info: &RawInfo, rx: &Cq<L>) -> Result<Endpoint<L>, EndpointError> {
        // SAFETY: open (H1).
        unsafe { open::open_shared_rx(domain, info, rx) }
    }

    unsafe fn msg_endpoint_open(
        domain: &Domain<L>,
        info: &RawInfo,
        request: &mut Option<Request>,
        bind: MsgBindings<'_, Self>,
    ) -> Result<Endpoint<L>, EndpointError> {
        let MsgBindings { tx, rx, eq, shared_rx, counters, selective, options } = bind;
        let (vector_and_events, queues) = ([Some(eq.fid()), None], (tx, rx));
        let bound = open::EndpointSetup { vector_and_events, queues, shared_rx, counters, selective, options };
        // SAFETY: domain and bound objects are open, the request not used up (H1, E2).
        unsafe { open::open_msg(domain, info, request, &bound) }
    }

    fn endpoint_fid(endpoint: &Endpoint<L>) -> Fid {
        event_queue::named(endpoint.raw().as_ptr().cast())
    }

    unsafe fn connect(endpoint: &Endpoint<L>, to: &EndpointAddr, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { connection::connect(endpoint, to, data) }
    }

    unsafe fn accept(endpoint: &Endpoint<L>, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: open (H1), for a request.
        unsafe { connection::accept(endpoint, data) }
    }

    unsafe fn shutdown(endpoint: &Endpoint<L>) -> Result<(), Errno> {
        // SAFETY: open (H1), and was connected.
        unsafe { connection::shutdown(endpoint) }
    }

    unsafe fn peer_address(endpoint: &Endpoint<L>) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        unsafe { connection::peer_address(endpoint) }
    }
}

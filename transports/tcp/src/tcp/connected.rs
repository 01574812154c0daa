//! [`Connected`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use core::ffi::c_int;
use core::net::SocketAddr;

use loom_core::transport::connected::{EqAttr, EqEntry, Fault, Fid, MsgBindings, Notice};
use loom_core::transport::{Connected, EndpointError};
use loom_core::vocabulary::{CmData, EndpointAddr, EndpointType, Errno, EventKind};

use super::queue::waits;
use super::{Tcp, TcpCq, TcpDomain, TcpEndpoint, TcpEq, TcpPassiveEndpoint, TcpRequest};
use crate::engine::{Bound, EqEvent, Loss};
use crate::info::TcpInfo;
use crate::wire::MAX_CONNECT_DATA;

// SAFETY: see `Transport`:
// - P10: events of requests and connections are those of sockets.
// - P11: posts on an endpoint without a connection are refused, and receives cancelled when the
//   connection ends.
unsafe impl Connected for Tcp {
    type Eq = TcpEq;
    type PassiveEndpoint = TcpPassiveEndpoint;
    type Request = TcpRequest;

    unsafe fn eq_open(domain: &TcpDomain, attr: EqAttr) -> Result<TcpEq, Errno> {
        let waits = waits(attr.wait)?;
        // SAFETY: open (H1).
        let index = unsafe { domain.engine.get() }?.open_event_queue(attr.size, waits)?;
        Ok(TcpEq { engine: domain.engine, index })
    }

    unsafe fn eq_close(eq: &TcpEq) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { eq.engine.get() }?.close_event_queue(eq.index);
        Ok(())
    }

    unsafe fn eq_read(eq: &TcpEq, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Notice<Self>>, Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { eq.engine.get() }?;
        if !engine.has_eq_event(eq.index) {
            engine.drive(sleep.unwrap_or(0), |engine| engine.has_eq_event(eq.index))?;
        }
        let Some(queued) = engine.next_eq_event(eq.index, |event| !matches!(event, EqEvent::Failed { .. })) else {
            return if engine.has_eq_event(eq.index) { Err(Errno::EAVAIL) } else { Ok(None) };
        };
        *data = CmData::new(&queued.data).unwrap_or(CmData::EMPTY);
        Ok(Some(match queued.event {
            EqEvent::Request { listener, pending } => {
                let (attr, address, tls) = (engine.attr, engine.name_of_identity(listener), engine.tls.clone());
                let interface = engine.interface.clone();
                let destination = engine.address_of(pending);
                let info = TcpInfo { attr, address, destination, kind: EndpointType::MSG, tls, interface };
                Notice::Request { listener: Fid(listener), info, request: TcpRequest { pending } }
            }
            EqEvent::Connected { endpoint } => Notice::Connected(Fid(endpoint)),
            EqEvent::Shutdown { endpoint } => Notice::Shutdown(Fid(endpoint)),
            EqEvent::Program { context, data } => {
                Notice::Entry(EqEntry { kind: EventKind::NOTIFY, object: Fid(0), context, data })
            }
            EqEvent::Failed { .. } => return Ok(None),
        }))
    }

    unsafe fn eq_read_error(eq: &TcpEq, data: &mut CmData) -> Result<Option<Fault>, Errno> {
        // SAFETY: open (H1).
        let queued =
            unsafe { eq.engine.get() }?.next_eq_event(eq.index, |event| matches!(event, EqEvent::Failed { .. }));
        let Some(queued) = queued else { return Ok(None) };
        *data = CmData::new(&queued.data).unwrap_or(CmData::EMPTY);
        Ok(match queued.event {
            EqEvent::Failed { endpoint, errno, code } => {
                Some(Fault { object: Fid(endpoint), context: 0, data: 0, errno, provider_errno: code })
            }
            _ => None,
        })
    }

    unsafe fn eq_error_text(_: &TcpEq, provider_errno: i32, _: &CmData, out: &mut [u8]) -> usize {
        let text = Loss::text(provider_errno).as_bytes();
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text[..len]);
        len
    }

    unsafe fn eq_notify(eq: &TcpEq, context: u64, data: u64) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { eq.engine.get() }?.queue_own_event(eq.index, context, data)
    }

    unsafe fn eq_wait_fd(eq: &TcpEq) -> Result<c_int, Errno> {
        // SAFETY: open (H1).
        unsafe { eq.engine.get() }?.event_fd(eq.index)
    }

    unsafe fn eq_may_sleep(_: &TcpDomain, eq: &TcpEq) -> Result<bool, Errno> {
        // SAFETY: open (H1).
        unsafe { eq.engine.get() }?.may_await_event(eq.index)
    }

    unsafe fn passive_open(
        domain: &TcpDomain,
        info: &TcpInfo,
        eq: &TcpEq,
    ) -> Result<TcpPassiveEndpoint, EndpointError> {
        // SAFETY: open (H1).
        let engine = unsafe { domain.engine.get() }?;
        let index = engine.open_passive(info.address, eq.index)?;
        Ok(TcpPassiveEndpoint { engine: domain.engine, index, identity: engine.identity(index) })
    }

    unsafe fn passive_close(passive: &TcpPassiveEndpoint) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { passive.engine.get() }?.close_endpoint(passive.index);
        Ok(())
    }

    fn passive_fid(passive: &TcpPassiveEndpoint) -> Fid {
        Fid(passive.identity)
    }

    unsafe fn passive_address(passive: &TcpPassiveEndpoint) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { passive.engine.get() }?.name_of(passive.index).into())
    }

    unsafe fn passive_cm_data_size(_: &TcpPassiveEndpoint) -> Result<usize, Errno> {
        Ok(MAX_CONNECT_DATA)
    }

    unsafe fn reject(passive: &TcpPassiveEndpoint, request: TcpRequest, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { passive.engine.get() }?.reject_request(request.pending, data)
    }

    unsafe fn shared_rx_open(domain: &TcpDomain, _: &TcpInfo, rx: &TcpCq) -> Result<TcpEndpoint, EndpointError> {
        // SAFETY: open (H1).
        let engine = unsafe { domain.engine.get() }?;
        let index = engine.open_shared(rx.index)?;
        Ok(TcpEndpoint { engine: domain.engine, index, selective: false, identity: engine.identity(index) })
    }

    unsafe fn msg_endpoint_open(
        domain: &TcpDomain,
        info: &TcpInfo,
        request: &mut Option<TcpRequest>,
        bind: MsgBindings<'_, Self>,
    ) -> Result<TcpEndpoint, EndpointError> {
        // A refusal keeps the request.
        if !bind.options.is_empty() {
            return Err(Errno::ENOPROTOOPT.into());
        }
        let counters = bind.counters.iter().map(|(counted, counter)| (*counted, counter.index));
        let bound = Bound { tx: bind.tx.index, rx: bind.rx.index, vector: Bound::NO_VECTOR };
        let shared = bind.shared_rx.map(|shared| shared.index);
        // SAFETY: open (H1).
        let engine = unsafe { domain.engine.get() }?;
        let pending = request.as_ref().map(|request| request.pending);
        let index = engine.open_connected((info.address, bound, bind.eq.index), shared, counters, pending)?;
        *request = None;
        let (selective, identity) = (bind.selective, engine.identity(index));
        Ok(TcpEndpoint { engine: domain.engine, index, selective, identity })
    }

    fn endpoint_fid(endpoint: &TcpEndpoint) -> Fid {
        Fid(endpoint.identity)
    }

    unsafe fn connect(endpoint: &TcpEndpoint, to: &EndpointAddr, data: &[u8]) -> Result<(), Errno> {
        let to = SocketAddr::try_from(to).map_err(|_| Errno::EINVAL)?;
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.connect_to(endpoint.index, to, data)
    }

    unsafe fn accept(endpoint: &TcpEndpoint, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.accept_request(endpoint.index, data)
    }

    unsafe fn shutdown(endpoint: &TcpEndpoint) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.shut_down(endpoint.index)
    }

    unsafe fn peer_address(endpoint: &TcpEndpoint) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { endpoint.engine.get() }?.peer_of_endpoint(endpoint.index)?.into())
    }
}

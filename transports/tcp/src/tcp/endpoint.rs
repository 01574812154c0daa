//! [`Endpoints`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::transport::{Bindings, Closing, Context, EndpointError, Endpoints, InFlight};
use loom_core::vocabulary::{EndpointAddr, Errno, OptionValue};

use super::{Tcp, TcpDomain, TcpEndpoint};
use crate::engine::Bound;
use crate::info::TcpInfo;

// SAFETY: see `Transport`.
unsafe impl Endpoints for Tcp {
    type Endpoint = TcpEndpoint;

    unsafe fn endpoint_open(
        domain: &TcpDomain,
        info: &TcpInfo,
        bind: Bindings<'_, Self>,
    ) -> Result<TcpEndpoint, EndpointError> {
        if !bind.options.is_empty() {
            return Err(Errno::ENOPROTOOPT.into());
        }
        let counters = bind.counters.iter().map(|(counted, counter)| (*counted, counter.index));
        let bound = Bound { tx: bind.tx.index, rx: bind.rx.index, vector: bind.av.index };
        // SAFETY: the domain is open (H1).
        let index = unsafe { domain.engine.get() }?.open_endpoint(info.address, bound, counters)?;
        Ok(TcpEndpoint { engine: domain.engine, index, selective: bind.selective })
    }

    unsafe fn endpoint_close(endpoint: &TcpEndpoint, _: InFlight) -> Result<Closing, Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.close_endpoint(endpoint.index);
        Ok(Closing::Closed)
    }

    unsafe fn endpoint_leave(_: &TcpEndpoint, _: bool) -> bool {
        false
    }

    unsafe fn endpoint_address(endpoint: &TcpEndpoint) -> Result<EndpointAddr, Errno> {
        // SAFETY: the endpoint is open (H1).
        Ok(unsafe { endpoint.engine.get() }?.name_of(endpoint.index).into())
    }

    unsafe fn endpoint_option(_: &TcpEndpoint, _: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    unsafe fn endpoint_set_option(_: &TcpEndpoint, _: u32, _: OptionValue) -> Result<(), Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    unsafe fn cancel(endpoint: &TcpEndpoint, context: Context) -> Result<(), Errno> {
        // SAFETY: the endpoint is open (H1).
        unsafe { endpoint.engine.get() }?.cancel(endpoint.index, context.addr());
        Ok(())
    }
}

//! [`Endpoints`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::transport::{Bindings, Closing, Context, EndpointError, Endpoints, InFlight};
use loom_core::vocabulary::{EndpointAddr, EndpointOption, Errno, OptionValue};

use super::{Tcp, TcpDomain, TcpEndpoint};
use crate::engine::Bound;
use crate::info::TcpInfo;
use crate::wire::MAX_CONNECT_DATA;

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
        let engine = unsafe { domain.engine.get() }?;
        let index = engine.open_endpoint(info.address, bound, counters)?;
        let (selective, identity) = (bind.selective, engine.identity(index));
        Ok(TcpEndpoint { engine: domain.engine, index, selective, identity })
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

    unsafe fn endpoint_option(_: &TcpEndpoint, option: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        if option == EndpointOption::CM_DATA_SIZE.as_raw() {
            return Ok(MAX_CONNECT_DATA.into());
        }
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

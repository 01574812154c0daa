//! [`Endpoints`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::transport::{Bindings, Closing, Context, EndpointError, Endpoints, InFlight};
use loom_core::vocabulary::{EndpointAddr, EndpointOption, Errno, OptionValue};

use super::{Tcp, TcpDomain, TcpEndpoint};
use crate::engine::Bound;
use crate::info::TcpInfo;
use crate::wire::MAX_CONNECT_DATA;

/// Value of `FI_OPT_MIN_MULTI_RECV`, or an error for another option.
fn min_multi_recv(option: u32, value: OptionValue) -> Result<u64, Errno> {
    match value {
        OptionValue::Size(size) if option == EndpointOption::MIN_MULTI_RECV.as_raw() => Ok(size.max(1) as u64),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

// SAFETY: see `Transport`.
unsafe impl Endpoints for Tcp {
    type Endpoint = TcpEndpoint;

    unsafe fn endpoint_open(
        domain: &TcpDomain,
        info: &TcpInfo,
        bind: Bindings<'_, Self>,
    ) -> Result<TcpEndpoint, EndpointError> {
        let least =
            bind.options.iter().try_fold(None, |_, (option, value)| min_multi_recv(*option, *value).map(Some))?;
        let counters = bind.counters.iter().map(|(counted, counter)| (*counted, counter.index));
        let bound = Bound { tx: bind.tx.index, rx: bind.rx.index, vector: bind.av.index };
        // SAFETY: open (H1).
        let engine = unsafe { domain.engine.get() }?;
        let index = engine.open_endpoint(info.address, bound, counters)?;
        let (selective, identity) = (bind.selective, engine.identity(index));
        if let Some(least) = least {
            *engine.min_multi_recv(index) = least;
        }
        Ok(TcpEndpoint { engine: domain.engine, index, selective, identity })
    }

    unsafe fn endpoint_close(endpoint: &TcpEndpoint, _: InFlight) -> Result<Closing, Errno> {
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.close_endpoint(endpoint.index);
        Ok(Closing::Closed)
    }

    unsafe fn endpoint_leave(_: &TcpEndpoint, _: bool) -> bool {
        false
    }

    unsafe fn endpoint_address(endpoint: &TcpEndpoint) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        Ok(unsafe { endpoint.engine.get() }?.name_of(endpoint.index).into())
    }

    unsafe fn endpoint_option(endpoint: &TcpEndpoint, option: u32, _: OptionValue) -> Result<OptionValue, Errno> {
        if option == EndpointOption::CM_DATA_SIZE.as_raw() {
            return Ok(MAX_CONNECT_DATA.into());
        }
        if option == EndpointOption::MIN_MULTI_RECV.as_raw() {
            // SAFETY: open (H1).
            let least = *unsafe { endpoint.engine.get() }?.min_multi_recv(endpoint.index);
            return Ok(usize::try_from(least).unwrap_or(usize::MAX).into());
        }
        Err(Errno::ENOPROTOOPT)
    }

    unsafe fn endpoint_set_option(endpoint: &TcpEndpoint, option: u32, value: OptionValue) -> Result<(), Errno> {
        let least = min_multi_recv(option, value)?;
        // SAFETY: open (H1).
        *unsafe { endpoint.engine.get() }?.min_multi_recv(endpoint.index) = least;
        Ok(())
    }

    unsafe fn cancel(endpoint: &TcpEndpoint, context: Context) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.cancel(endpoint.index, context.addr());
        Ok(())
    }
}

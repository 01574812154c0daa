//! [`Tcp`], the type of this transport.

#![allow(unsafe_code, reason = "implements the unsafe traits of the boundary")]

mod address;
mod atomics;
mod connected;
mod endpoint;
mod message;
mod queue;
mod region;
mod rma;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use loom_core::info::Nic;
use loom_core::transport::{Fabrics, Name, ProviderQuirks, Transport};
use loom_core::vocabulary::{Attributes, EndpointAddr, Errno, Threading};

use crate::engine::{self, Engine, Full, PendingRequest};
use crate::info::{PROVIDER, TcpInfo, attributes};
use crate::memory::Block;

/// Transport over TCP sockets: all objects of a domain stay on one thread (`FI_THREAD_DOMAIN`).
///
/// ```
/// use loom_core::{Av, Cq, Domain, Forever, Hints, Source};
/// use loom_tcp::{TcpAttr, query};
///
/// let domain = Domain::open(&query(&Hints::default(), TcpAttr::DEFAULT)?)?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Tcp(());

/// Engine of a domain, in the domain's block.
#[derive(Clone, Copy)]
struct EngineRef(NonNull<Engine>);

impl EngineRef {
    /// # Safety
    /// The domain is open (H1), this thread uses it (T1: `Threading::DOMAIN`), and no other
    /// reference is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller guarantees that it is the only reference")]
    unsafe fn get(&self) -> Result<&mut Engine, Errno> {
        // SAFETY: `domain_open` has written the engine, and the caller guarantees the rest.
        let engine = unsafe { &mut *self.0.as_ptr() };
        if engine.process.is_here() { Ok(engine) } else { Err(Errno::OTHER_PROCESS) }
    }
}

macro_rules! handles {
    ($($(#[$meta:meta])* $Name:ident { $($field:ident: $Field:ty),* })*) => {$(
        $(#[$meta])*
        pub struct $Name {
            engine: EngineRef,
            $($field: $Field,)*
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Name))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    )*};
}
handles! {
    /// Raw domain.
    TcpDomain {}
    /// Raw address vector.
    TcpAv { index: u16 }
    /// Raw completion queue.
    TcpCq { index: u16 }
    /// Raw counter.
    TcpCounter { index: u16 }
    /// Raw endpoint.
    TcpEndpoint { index: u16, selective: bool, identity: u64 }
    /// Raw event queue.
    TcpEq { index: u16 }
    /// Raw listener.
    TcpPassiveEndpoint { index: u16, identity: u64 }
    /// Raw memory region.
    TcpMr { index: u32, key: u64 }
}

/// Request of a peer for a connection.
#[derive(Debug)]
pub struct TcpRequest {
    pending: PendingRequest,
}

// SAFETY: the objects of a domain stay on its thread, because `TcpDomain` is neither `Send` nor
// `Sync`. Counters and regions are closed there, too.
unsafe impl Send for TcpCounter {}
// SAFETY: as for counters.
unsafe impl Send for TcpMr {}

// SAFETY: the promises of `Transport`:
// - P1: `close_endpoint` drops the spans of all operations. System calls are over when they return.
// - P2: `close_region` ends the connections that transfer the region's bytes.
// - P3: each operation reports one event, and drops its spans before. Contexts are not interpreted.
// - P5: a receive reports the bytes that were written, and a read succeeds with all bytes.
// - P6: each message in a buffer has a part of its own, and the last event follows all others.
// - P7: spans hold lent memory, rings that of `cq_open`, and the block that of `domain_open`.
// - P8: indices come from the engine's tables, and numbers of peers are checked.
// - P9: domains are not `Sync`.
// - P20: `EngineRef::get` fails in another process.
unsafe impl Transport for Tcp {}

// SAFETY: see `Transport`.
unsafe impl Fabrics for Tcp {
    type Info = TcpInfo;
    type Fabric = ();
    type Domain = TcpDomain;

    fn duplicate(info: &TcpInfo) -> Result<TcpInfo, Errno> {
        Ok(info.clone())
    }

    fn attributes(info: &TcpInfo) -> Attributes {
        attributes(info)
    }

    fn name(info: &TcpInfo, name: Name) -> Option<&str> {
        Some(match name {
            Name::Provider => PROVIDER,
            Name::Fabric => "tcp",
            Name::Domain => &info.interface,
        })
    }

    fn source_address(info: &TcpInfo) -> Option<EndpointAddr> {
        Some(info.address.into())
    }

    fn destination_address(info: &TcpInfo) -> Option<EndpointAddr> {
        info.destination.map(EndpointAddr::from)
    }

    fn nic(_: &TcpInfo) -> Option<Nic<'_>> {
        None
    }

    fn serves_threading(attributes: &Attributes) -> bool {
        attributes.domain.threading == Threading::DOMAIN
    }

    fn quirks(_: &TcpInfo) -> ProviderQuirks {
        ProviderQuirks { tagged_multi_recv: false, ..ProviderQuirks::GOOD }
    }

    fn exhausted(refused: Errno) -> Option<&'static str> {
        Full::attribute(refused)
    }

    unsafe fn fabric_open(_: &TcpInfo) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn fabric_close((): &()) -> Result<(), Errno> {
        Ok(())
    }

    fn domain_layout(info: &TcpInfo) -> Result<Layout, Errno> {
        let tables = engine::layout(&info.attr, info.tls.as_ref()).ok_or(Errno::ENOMEM)?;
        Ok(Layout::new::<Engine>().extend(tables).map_err(|_| Errno::ENOMEM)?.0)
    }

    unsafe fn domain_open((): &(), info: &TcpInfo, memory: NonNull<u8>) -> Result<TcpDomain, Errno> {
        let tables = engine::layout(&info.attr, info.tls.as_ref()).ok_or(Errno::ENOMEM)?;
        let (_, at) = Layout::new::<Engine>().extend(tables).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the tables lie at this offset of the layout.
        let block = unsafe { memory.add(at) };
        // SAFETY: the memory has the layout of `domain_layout`, and stays with the domain (M1).
        let block = unsafe { Block::over(block, tables) };
        let engine = Engine::open(info, block)?;
        let place = memory.cast::<Engine>();
        // SAFETY: the layout begins with an engine.
        unsafe { place.write(engine) };
        Ok(TcpDomain { engine: EngineRef(place) })
    }

    fn is_here(domain: &TcpDomain) -> bool {
        // SAFETY: `domain_open` has written the engine, and the field does not change.
        unsafe { (*domain.engine.0.as_ptr()).process }.is_here()
    }

    unsafe fn domain_close(domain: &TcpDomain) -> Result<(), Errno> {
        // SAFETY: the objects of the domain are closed (H2), and it is closed once (H3).
        unsafe { domain.engine.0.drop_in_place() };
        Ok(())
    }
}

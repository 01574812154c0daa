//! [`AddressVectors`].

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use core::net::SocketAddr;

use loom_core::transport::{AddressVectors, AvRoom};
use loom_core::vocabulary::{EndpointAddr, Errno, FabricAddr};

use super::{Tcp, TcpAv, TcpDomain};
use crate::info::resolve;

// SAFETY: see `Transport`.
unsafe impl AddressVectors for Tcp {
    type Av = TcpAv;

    unsafe fn av_room(domain: &TcpDomain, _: usize) -> AvRoom {
        // SAFETY: open (H1).
        let peers = unsafe { domain.engine.get() }.map_or(0, |engine| engine.attr.peers as usize);
        AvRoom { places: peers, reused: Some(peers), limit: None }
    }

    unsafe fn av_open(domain: &TcpDomain, capacity: usize, rx_ctx_bits: u8) -> Result<TcpAv, Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { domain.engine.get() }?;
        if rx_ctx_bits > 0 {
            return Err(Errno::ENOSYS);
        }
        if capacity > engine.attr.peers as usize {
            return Err(Errno::ENOSPC);
        }
        Ok(TcpAv { engine: domain.engine, index: engine.open_vector()? })
    }

    unsafe fn av_close(av: &TcpAv) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { av.engine.get() }?.close_vector(av.index);
        Ok(())
    }

    unsafe fn av_insert(av: &TcpAv, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        let address = SocketAddr::try_from(address).map_err(|_| Errno::EINVAL)?;
        // SAFETY: open (H1).
        unsafe { av.engine.get() }?.insert_peer(av.index, address).map(|peer| FabricAddr(peer.into()))
    }

    unsafe fn av_insert_service(av: &TcpAv, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        // SAFETY: open (H1).
        let engine = unsafe { av.engine.get() }?;
        let address = match service {
            Some(_) => resolve(node, service, Some(engine.address.is_ipv4())),
            None => node.parse::<EndpointAddr>().ok().and_then(|address| SocketAddr::try_from(&address).ok()),
        };
        engine.insert_peer(av.index, address.ok_or(Errno::EINVAL)?).map(|peer| FabricAddr(peer.into()))
    }

    unsafe fn av_remove(av: &TcpAv, peer: FabricAddr) -> Result<(), Errno> {
        // SAFETY: open (H1).
        unsafe { av.engine.get() }?.remove_peer(av.index, peer.0)
    }

    unsafe fn av_lookup(av: &TcpAv, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        let address = unsafe { av.engine.get() }?.peer_address(av.index, peer.0).ok_or(Errno::EINVAL)?;
        Ok(address.into())
    }
}

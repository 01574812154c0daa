#![allow(unsafe_code, reason = "fills an `fi_info`, and lends it what it points to")]

use core::ffi::c_char;
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::ptr;

use loom_core::info::Hints;
use loom_core::vocabulary::{AddressFormat, Threading};

use super::RawInfo;
use super::encode;
use crate::ofi::ffi::text::CText;
use crate::ofi::sys;

/// Names, keys and addresses are lent for the call, and removed before libfabric frees the rest.
pub(crate) struct Request<'a> {
    info: RawInfo,
    lent: PhantomData<&'a CText>,
}

#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) provider: Option<&'a CText>,
    pub(crate) fabric: Option<&'a CText>,
    pub(crate) domain: Option<&'a CText>,
}

pub(crate) fn pointer(text: Option<&CText>) -> *const c_char {
    text.map_or(ptr::null(), CText::as_ptr)
}

/// libfabric reads the length of their format: whole socket addresses, or zero-terminated strings,
/// all of one format.
pub(crate) fn addresses_are_sound(hints: &Hints<'_>) -> bool {
    let mut formats = [hints.source, hints.destination].into_iter().flatten().map(|address| {
        let whole = match address.format() {
            AddressFormat::SOCKADDR_IN => SocketAddr::try_from(address).is_ok_and(|socket| socket.is_ipv4()),
            AddressFormat::SOCKADDR_IN6 => SocketAddr::try_from(address).is_ok_and(|socket| socket.is_ipv6()),
            AddressFormat::ADDR_STR => address.bytes().last() == Some(&0),
            _ => false,
        };
        (whole, address.format())
    });
    let requested = Some(hints.addr_format).filter(|format| *format != AddressFormat::UNSPEC);
    let Some(first) = formats.next() else { return true };
    let wanted = requested.unwrap_or(first.1);
    core::iter::once(first).chain(formats).all(|(whole, format)| whole && format == wanted)
}

impl<'a> Request<'a> {
    /// Requires sound addresses. `None` without memory.
    pub(crate) fn new(hints: &Hints<'a>, names: Names<'a>, threading: Threading) -> Option<Self> {
        let mut request = Request { info: RawInfo::empty()?, lent: PhantomData };
        let info = request.fields();
        encode::info(info, hints);
        if let (Some(address), AddressFormat::UNSPEC) = (hints.source.or(hints.destination), hints.addr_format) {
            info.addr_format = address.format().as_raw();
        }
        if let Some(address) = hints.source {
            info.src_addr = address.bytes().as_ptr().cast_mut().cast();
            info.src_addrlen = address.bytes().len();
        }
        if let Some(address) = hints.destination {
            info.dest_addr = address.bytes().as_ptr().cast_mut().cast();
            info.dest_addrlen = address.bytes().len();
        }
        let (endpoint, tx, rx) = (info.ep_attr, info.tx_attr, info.rx_attr);
        let (fabric, domain) = (info.fabric_attr, info.domain_attr);
        // SAFETY: null, or owned by the info.
        encode::tx(unsafe { tx.as_mut() }?, &hints.tx_attr);
        // SAFETY: null, or owned by the info.
        encode::rx(unsafe { rx.as_mut() }?, &hints.rx_attr);
        // SAFETY: null, or owned by the info.
        let endpoint = unsafe { endpoint.as_mut() }?;
        encode::endpoint(endpoint, &hints.endpoint_attr);
        if let Some(key) = hints.endpoint_auth_key {
            endpoint.auth_key = key.as_ptr().cast_mut();
            endpoint.auth_key_size = key.len();
        }
        // SAFETY: null, or owned by the info.
        let domain = unsafe { domain.as_mut() }?;
        encode::domain(domain, &hints.domain_attr, threading);
        if let Some(key) = hints.domain_auth_key {
            domain.auth_key = key.as_ptr().cast_mut();
            domain.auth_key_size = key.len();
        }
        domain.name = pointer(names.domain).cast_mut();
        // SAFETY: null, or owned by the info.
        let fabric = unsafe { fabric.as_mut() }?;
        fabric.prov_name = pointer(names.provider).cast_mut();
        fabric.name = pointer(names.fabric).cast_mut();
        Some(request)
    }

    pub(crate) const fn as_ptr(&self) -> *mut sys::fi_info {
        self.info.as_ptr()
    }

    fn fields(&mut self) -> &mut sys::fi_info {
        // SAFETY: the info is owned, and borrowed exclusively.
        unsafe { &mut *self.info.as_ptr() }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let info = self.fields();
        (info.src_addr, info.dest_addr) = (ptr::null_mut(), ptr::null_mut());
        let (endpoint, fabric, domain) = (info.ep_attr, info.fabric_attr, info.domain_attr);
        // SAFETY: null, or a part of the exclusively borrowed info.
        if let Some(attr) = unsafe { endpoint.as_mut() } {
            attr.auth_key = ptr::null_mut();
        }
        // SAFETY: null, or a part of the exclusively borrowed info.
        if let Some(attr) = unsafe { fabric.as_mut() } {
            (attr.prov_name, attr.name) = (ptr::null_mut(), ptr::null_mut());
        }
        // SAFETY: null, or a part of the exclusively borrowed info.
        if let Some(attr) = unsafe { domain.as_mut() } {
            (attr.name, attr.auth_key) = (ptr::null_mut(), ptr::null_mut());
        }
    }
}

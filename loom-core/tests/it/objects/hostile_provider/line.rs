//! The script's events of connections, groups and scalable endpoints, and its log of calls. Both
//! are kept by thread, because each test has one.

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::VecDeque;

use loom_core::transport::connected::{EqAttr, Fault, Fid, MsgBindings, Notice};
use loom_core::transport::scalable::{ContextBindings, Contexts};
use loom_core::transport::{Bindings, Connected, EndpointError, Multicast, Scalable, Signals};
use loom_core::vocabulary::{Attributes, CmData, EndpointAddr, Errno, FabricAddr};

use super::T;
use crate::scripted::{FD, Script};

#[derive(Default)]
pub(crate) struct Line {
    said: VecDeque<Result<Notice<T>, Fault>>,
    /// Data of each event.
    pub(crate) data: &'static [u8],
    /// Name of the next endpoint in events.
    next: u64,
    /// Context of the last join.
    pub(crate) join: u64,
    pub(crate) asked: Vec<Asked>,
    /// Error of a rejection.
    pub(crate) failure: Option<Errno>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    Connect(Vec<u8>),
    Accept(Vec<u8>),
    Reject(u64, Vec<u8>),
    Leave(u64),
}

thread_local! {
    static LINE: RefCell<Line> = RefCell::default();
}

pub(crate) fn line<R>(use_it: impl FnOnce(&mut Line) -> R) -> R {
    LINE.with_borrow_mut(use_it)
}

pub(crate) fn asked() -> Vec<Asked> {
    line(|line| std::mem::take(&mut line.asked))
}

pub(crate) fn say(notice: Notice<T>) {
    line(|line| line.said.push_back(Ok(notice)));
}

pub(crate) fn push_failed(fault: Fault) {
    line(|line| line.said.push_back(Err(fault)));
}

/// Sets the name in events of endpoints opened from now on.
pub(crate) fn name_endpoints(fid: u64) {
    line(|line| line.next = fid);
}

/// Name of the passive endpoint in events.
pub(crate) const LISTENER: Fid = Fid(100);

// SAFETY: the tests choose the events, which report only their own endpoints as connected. Lent
// memory is not accessed.
unsafe impl Connected for T {
    type Eq = ();
    type PassiveEndpoint = ();
    type Request = u64;

    unsafe fn eq_open(_: &Self::Domain, _: EqAttr) -> Result<Self::Eq, Errno> {
        Ok(())
    }
    unsafe fn eq_close(&(): &Self::Eq) -> Result<(), Errno> {
        Ok(())
    }
    unsafe fn eq_read(&(): &Self::Eq, _: Option<i32>, data: &mut CmData) -> Result<Option<Notice<Self>>, Errno> {
        line(|line| {
            *data = CmData::new(line.data).unwrap();
            match line.said.pop_front() {
                None => Ok(None),
                Some(Ok(notice)) => Ok(Some(notice)),
                Some(fault) => {
                    line.said.push_front(fault);
                    Err(Errno::EAVAIL)
                }
            }
        })
    }
    unsafe fn eq_read_error(&(): &Self::Eq, data: &mut CmData) -> Result<Option<Fault>, Errno> {
        line(|line| {
            *data = CmData::new(line.data).unwrap();
            Ok(line.said.pop_front().and_then(Result::err))
        })
    }
    unsafe fn eq_error_text(&(): &Self::Eq, _: i32, _: &CmData, _: &mut [u8]) -> usize {
        0
    }
    unsafe fn eq_notify(&(): &Self::Eq, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    unsafe fn eq_wait_fd(&(): &Self::Eq) -> Result<c_int, Errno> {
        Ok(FD)
    }
    unsafe fn eq_may_sleep(_: &Self::Domain, &(): &Self::Eq) -> Result<bool, Errno> {
        Ok(false)
    }
    unsafe fn passive_open(
        _: &Self::Domain,
        _: &Self::Info,
        &(): &Self::Eq,
    ) -> Result<Self::PassiveEndpoint, EndpointError> {
        Ok(())
    }
    unsafe fn passive_close(&(): &Self::PassiveEndpoint) -> Result<(), Errno> {
        Ok(())
    }
    fn passive_fid(&(): &Self::PassiveEndpoint) -> Fid {
        LISTENER
    }
    unsafe fn passive_address(&(): &Self::PassiveEndpoint) -> Result<EndpointAddr, Errno> {
        Err(Errno::ENOSYS)
    }
    unsafe fn passive_cm_data_size(&(): &Self::PassiveEndpoint) -> Result<usize, Errno> {
        Ok(crate::scripted::OPTION)
    }
    unsafe fn reject(&(): &Self::PassiveEndpoint, request: Self::Request, data: &[u8]) -> Result<(), Errno> {
        line(|line| {
            line.asked.push(Asked::Reject(request, data.to_vec()));
            line.failure.map_or(Ok(()), Err)
        })
    }
    unsafe fn shared_rx_open(
        domain: &Self::Domain,
        _: &Self::Info,
        _: &Self::Cq,
    ) -> Result<Self::Endpoint, EndpointError> {
        Ok(domain)
    }
    unsafe fn msg_endpoint_open(
        domain: &Self::Domain,
        _: &Self::Info,
        request: &mut Option<Self::Request>,
        _: MsgBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        *request = None;
        Ok(domain)
    }
    fn endpoint_fid(_: &Self::Endpoint) -> Fid {
        line(|line| Fid(line.next))
    }
    unsafe fn connect(_: &Self::Endpoint, _: &EndpointAddr, data: &[u8]) -> Result<(), Errno> {
        line(|line| line.asked.push(Asked::Connect(data.to_vec())));
        Ok(())
    }
    unsafe fn accept(_: &Self::Endpoint, data: &[u8]) -> Result<(), Errno> {
        line(|line| line.asked.push(Asked::Accept(data.to_vec())));
        Ok(())
    }
    unsafe fn shutdown(_: &Self::Endpoint) -> Result<(), Errno> {
        Ok(())
    }
    unsafe fn peer_address(_: &Self::Endpoint) -> Result<EndpointAddr, Errno> {
        Err(Errno::ENOTCONN)
    }
}

// SAFETY: as above. No message is sent to an address of a group.
unsafe impl Multicast for T {
    type Group = u64;

    unsafe fn multicast_endpoint_open(
        domain: &Self::Domain,
        _: &Self::Info,
        _: Bindings<'_, Self>,
        &(): &Self::Eq,
    ) -> Result<Self::Endpoint, EndpointError> {
        Ok(domain)
    }
    unsafe fn join(_: &Self::Endpoint, _: &EndpointAddr, context: u64) -> Result<Self::Group, Errno> {
        line(|line| {
            line.join = context;
            Ok(line.next)
        })
    }
    fn group_fid(group: &Self::Group) -> Fid {
        Fid(*group)
    }
    unsafe fn group_address(_: &Self::Group) -> FabricAddr {
        FabricAddr::UNSPEC
    }
    unsafe fn leave(_: &Self::Endpoint, group: &Self::Group) -> Result<(), Errno> {
        line(|line| line.asked.push(Asked::Leave(*group)));
        Ok(())
    }
}

// SAFETY: as above.
unsafe impl Scalable for T {
    type ScalableEndpoint = &'static Script;

    fn serves_contexts(_: &Attributes) -> bool {
        true
    }
    unsafe fn scalable_open(
        domain: &Self::Domain,
        _: &Self::Info,
        _: &Self::Av,
        _: Contexts,
    ) -> Result<Self::ScalableEndpoint, EndpointError> {
        Ok(domain)
    }
    unsafe fn scalable_close(_: &Self::ScalableEndpoint) -> Result<(), Errno> {
        Ok(())
    }
    unsafe fn scalable_address(_: &Self::ScalableEndpoint) -> Result<EndpointAddr, Errno> {
        Err(Errno::ENOSYS)
    }
    fn injects_writes(_: &Self::ScalableEndpoint) -> bool {
        true
    }
    unsafe fn tx_context_open(
        endpoint: &Self::ScalableEndpoint,
        _: u16,
        _: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        Ok(endpoint)
    }
    unsafe fn rx_context_open(
        endpoint: &Self::ScalableEndpoint,
        _: u16,
        _: ContextBindings<'_, Self>,
    ) -> Result<Self::Endpoint, EndpointError> {
        Ok(endpoint)
    }
}

// SAFETY: no call has an effect.
unsafe impl Signals for T {
    type Signal = ();

    unsafe fn cq_signal_of(_: &Self::Cq) -> Self::Signal {}

    unsafe fn cq_signal(&(): &Self::Signal) -> Result<(), Errno> {
        Ok(())
    }
}

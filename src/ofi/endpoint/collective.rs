//! Collective operations: groups, and the implementation of [`Collectives`].
//!
//! Only `tcp;ofi_rxm` of libfabric 2 has them (`prov/coll`). loom works around its faults:
//! - An operation keeps a pointer to its group. So groups are closed after their endpoint.
//! - `EINVAL` refuses broadcasts of a number of elements that is not a multiple of the members
//!   (`rxm-broadcast-writes-behind-its-buffer`).
//! - `EMSGSIZE` refuses operations that may need a message of more than 16 KiB
//!   (`rxm-collective-of-more-than-16-kib-never-ends`).
//! - A reduction that cannot be computed never completes. So each is queried before.
//! - An info with collectives grants no tags (`rxm-tag-beside-collectives-crashes`,
//!   `quirks::untrue_caps`).
//! - Joins of several sets are mixed up. So one runs at a time.

#![allow(unsafe_code, reason = "implements the unsafe trait `Collectives`, and calls libfabric")]

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ptr;

use heapless::Vec;
use loom_core::buffer::Lent;
use loom_core::collective::Collective;
use loom_core::transport::connected::EqAttr;
use loom_core::transport::{CollectiveAttr, CollectiveCall, Collectives, Context, Refusal};
use loom_core::vocabulary::{AtomicOp, Caps, CmData, CollectiveOp, Errno, FabricAddr, WaitObj};

use super::Endpoint;
use crate::ofi::av::Av;
use crate::ofi::control::{close, opened};
use crate::ofi::fabric::Domain;
use crate::ofi::ffi::call::{Memory, done, entry, later_entry, missing, posted};
use crate::ofi::info::RawInfo;
use crate::ofi::info::params::params;
use crate::ofi::queue::event_queue::{self, Eq, Read};
use crate::ofi::quirks::known_behaviour::Facts;
use crate::ofi::raw::Raw;
use crate::ofi::sys;
use crate::ofi::threading::{Handle, Level};
use crate::ofi::transport::Ofi;

const GROUPS: usize = 8;

/// Maximum message length of an operation in bytes: the provider's buffer size, which the
/// environment may reduce.
fn longest() -> usize {
    const LONGEST: usize = 16 << 10;
    let Ok(params) = params() else { return 0 };
    let size = params.iter().find(|param| param.name == "FI_OFI_RXM_BUFFER_SIZE").and_then(|param| param.value);
    size.map_or(LONGEST, |size| size.parse().map_or(0, |size: usize| size.min(LONGEST)))
}

/// Index of a collective group among its endpoint's.
#[derive(Debug)]
pub struct CollectiveGroup {
    at: usize,
}

#[derive(Debug)]
struct Joined<L> {
    mc: Handle<sys::fid_mc, L>,
    set: Handle<sys::fid_av_set, L>,
    size: usize,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Joining,
    Joined,
    Failed(Errno),
}

#[derive(Debug)]
pub(crate) struct Groups<L> {
    domain: Handle<sys::fid_domain, L>,
    av: Handle<sys::fid_av, L>,
    /// Reports only joins.
    eq: Eq<L>,
    longest: usize,
    joined: RefCell<Vec<Joined<L>, GROUPS>>,
}

impl<L> Groups<L> {
    pub(crate) unsafe fn open(domain: &Domain<L>, info: &RawInfo, av: &Av<L>) -> Result<Option<Self>, Errno> {
        if !domain.facts().contains(Facts::COLLECTIVES) || !info.attributes().caps.contains(Caps::COLLECTIVE) {
            return Ok(None);
        }
        let attr = EqAttr { size: 0, wait: WaitObj::NONE, write: false };
        // SAFETY: open (H1).
        let eq = unsafe { event_queue::open(domain, attr) }?;
        let (domain, av) = (Handle::new(domain.raw()), Handle::new(av.raw()));
        Ok(Some(Groups { domain, av, eq, longest: longest(), joined: RefCell::new(Vec::new()) }))
    }

    pub(crate) const fn eq(&self) -> &Eq<L> {
        &self.eq
    }

    /// # Safety
    /// The endpoint is closed, and its groups are not used any more.
    pub(crate) unsafe fn close(&self) -> Result<(), Errno> {
        let mut joined = self.joined.borrow_mut();
        while let Some(group) = joined.pop() {
            // SAFETY: the group is open, and its operations have ended with the endpoint.
            unsafe { close(group.mc.fid()) }?;
            // SAFETY: the set is open, and its group is closed.
            unsafe { close(group.set.fid()) }?;
        }
        // SAFETY: open, and has no bound object any more.
        unsafe { event_queue::eq_close(&self.eq) }
    }

    unsafe fn take_events(&self) {
        let joined = self.joined.borrow();
        let Some(group) = joined.last().filter(|group| group.state.get() == State::Joining) else { return };
        let mut data = CmData::EMPTY;
        // SAFETY: the queue is open with its endpoint (H1), on its thread (T3).
        match unsafe { event_queue::read(&self.eq, None, &mut data) } {
            Ok(Some(Read::Joined { .. })) => group.state.set(State::Joined),
            Ok(Some(Read::Failed(fault))) => group.state.set(State::Failed(fault.errno)),
            Ok(_) => {}
            Err(Errno::EAVAIL) => {
                // SAFETY: the queue is open with its endpoint (H1), on its thread (T3).
                let fault = unsafe { event_queue::read_error(&self.eq, &mut data) };
                let errno = fault.map_or_else(|errno| errno, |fault| fault.map_or(Errno::EOTHER, |fault| fault.errno));
                group.state.set(State::Failed(errno));
            }
            Err(errno) => group.state.set(State::Failed(errno)),
        }
    }

    /// # Safety
    /// The domain is open.
    unsafe fn admits(
        &self,
        group: &CollectiveGroup,
        collective: Collective,
        count: usize,
    ) -> Result<CollectiveAttr, Errno> {
        // SAFETY: the caller keeps the domain open.
        let attr = unsafe { query(self.domain.raw(), collective) }?;
        let size = self.joined.borrow().get(group.at).ok_or(Errno::EINVAL)?.size;
        // A scatter forwards several members' parts in one message.
        let parts = if collective.op() == CollectiveOp::SCATTER { size } else { 1 };
        let element = collective.datatype().size().unwrap_or(0);
        let longest = count.checked_mul(element).and_then(|bytes| bytes.checked_mul(parts));
        if longest.is_none_or(|longest| longest > self.longest) {
            return Err(Errno::EMSGSIZE);
        }
        if collective.op() == CollectiveOp::BROADCAST && !count.is_multiple_of(size) {
            return Err(Errno::EINVAL);
        }
        Ok(attr)
    }

    unsafe fn state(&self, group: &CollectiveGroup) -> State {
        // SAFETY: one thread uses the open endpoint (H1, T1).
        unsafe { self.take_events() };
        self.joined.borrow().get(group.at).map_or(State::Failed(Errno::EINVAL), |group| group.state.get())
    }
}

unsafe fn open_set<L>(
    av: Raw<sys::fid_av>,
    members: impl Iterator<Item = FabricAddr> + Clone,
) -> Result<Handle<sys::fid_av_set, L>, Errno> {
    let open = later_entry!(av, ops: sys::fi_ops_av => av_set)?;
    let mut attr = sys::fi_av_set_attr {
        count: members.clone().count(),
        start_addr: FabricAddr::NOTAVAIL.0,
        end_addr: FabricAddr::NOTAVAIL.0,
        ..Default::default()
    };
    let mut raw = ptr::null_mut();
    // SAFETY: open. The call keeps no pointer.
    let code = unsafe { open(av.as_ptr(), &raw mut attr, &raw mut raw, ptr::null_mut()) };
    let set = opened(code, raw)?;
    let inserted = members.clone().try_for_each(|member| {
        let insert = entry!(set, ops => insert)?;
        // SAFETY: the set is open with room for every member, and the vector has the address.
        done(unsafe { insert(set.as_ptr(), member.0) })
    });
    inserted.map(|()| Handle::new(set)).inspect_err(|_| {
        // SAFETY: just opened, in no group.
        let _ = unsafe { close(set.cast()) };
    })
}

unsafe fn join<L>(endpoint: &Endpoint<L>, set: Raw<sys::fid_av_set>) -> Result<Handle<sys::fid_mc, L>, Errno> {
    let raw = endpoint.raw();
    let join = later_entry!(raw, cm: sys::fi_ops_cm => join)?;
    let address_of = entry!(set, ops => addr)?;
    let mut coll_addr = 0;
    // SAFETY: the set is open, and the call writes one number.
    done(unsafe { address_of(set.as_ptr(), &raw mut coll_addr) })?;
    let address = sys::fi_collective_addr { set: set.as_ptr(), coll_addr };
    let mut mc = ptr::null_mut();
    // SAFETY: open (H1) with an event queue, the address is read in the call, and `mc` receives the
    // group.
    let code = unsafe {
        let (address, flags) = ((&raw const address).cast::<c_void>(), sys::FI_COLLECTIVE.into());
        join(raw.as_ptr(), address, flags, &raw mut mc, ptr::null_mut())
    };
    opened(code, mc).map(Handle::new)
}

unsafe fn query(domain: Raw<sys::fid_domain>, collective: Collective) -> Result<CollectiveAttr, Errno> {
    let query = later_entry!(domain, ops: sys::fi_ops_domain => query_collective)?;
    if collective.op() != CollectiveOp::BARRIER && collective.datatype().size().is_none() {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut attr = sys::fi_collective_attr {
        op: collective.reduce_op().as_raw(),
        datatype: collective.datatype().as_raw(),
        ..Default::default()
    };
    // SAFETY: open (H1), and the attributes are read and written in the call.
    done(unsafe { query(domain.as_ptr(), collective.op().as_raw(), &raw mut attr, 0) })?;
    Ok(CollectiveAttr { max_members: attr.max_members })
}

// SAFETY: the promises of `Transport`, and:
// - P18: an operation uses lent memory in messages of its endpoint, which end with it. Others'
//   memory belongs to their own endpoints.
// - P19: `query` decides both.
unsafe impl<L: Level> Collectives for Ofi<L> {
    type CollectiveGroup = CollectiveGroup;

    unsafe fn query_collective(domain: &Domain<L>, collective: Collective) -> Result<CollectiveAttr, Errno> {
        if !domain.facts().contains(Facts::COLLECTIVES) {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: open (H1).
        unsafe { query(domain.raw(), collective) }
    }

    unsafe fn join_collective(
        endpoint: &Endpoint<L>,
        members: impl Iterator<Item = FabricAddr> + Clone,
    ) -> Result<CollectiveGroup, Errno> {
        let groups = endpoint.collectives().ok_or(Errno::EOPNOTSUPP)?;
        // SAFETY: one thread uses the open endpoint (H1, T1).
        unsafe { groups.take_events() };
        let mut joined = groups.joined.borrow_mut();
        match joined.last().map(|group| group.state.get()) {
            Some(State::Joining) => return Err(Errno::EBUSY),
            // A late event of this join would be taken for the next one's.
            Some(State::Failed(errno)) => return Err(errno),
            Some(State::Joined) | None => {}
        }
        if joined.is_full() {
            return Err(Errno::ENOSPC);
        }
        // SAFETY: the vector is open with the endpoint (H2), and has the members (O1).
        let set = unsafe { open_set::<L>(groups.av.raw(), members.clone()) }?;
        let size = members.count();
        // SAFETY: the endpoint is open (H1), and the set was just opened.
        let mc = unsafe { join(endpoint, set.raw()) }.inspect_err(|_| {
            // SAFETY: just opened, in no group.
            let _ = unsafe { close(set.fid()) };
        })?;
        let at = joined.len();
        let group = Joined { mc, set, size, state: Cell::new(State::Joining) };
        let _ = joined.push(group);
        Ok(CollectiveGroup { at })
    }

    unsafe fn collective_joined(endpoint: &Endpoint<L>, group: &CollectiveGroup) -> Result<bool, Errno> {
        let groups = endpoint.collectives().ok_or(Errno::EOPNOTSUPP)?;
        // SAFETY: one thread uses the open endpoint (H1, T1).
        match unsafe { groups.state(group) } {
            State::Joining => Ok(false),
            State::Joined => Ok(true),
            State::Failed(errno) => Err(errno),
        }
    }

    unsafe fn admits_collective(
        endpoint: &Endpoint<L>,
        group: &CollectiveGroup,
        collective: Collective,
        count: usize,
    ) -> Result<CollectiveAttr, Errno> {
        let groups = endpoint.collectives().ok_or(Errno::EOPNOTSUPP)?;
        // SAFETY: the domain is open with the endpoint (H2).
        unsafe { groups.admits(group, collective, count) }
    }

    unsafe fn leave_collective(_: &Endpoint<L>, _: &CollectiveGroup) {}

    unsafe fn collective(
        endpoint: &Endpoint<L>,
        group: &CollectiveGroup,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        let groups = endpoint.collectives().ok_or(Refusal::Errno(Errno::EOPNOTSUPP))?;
        // SAFETY: one thread uses the open endpoint (H1, T1).
        match unsafe { groups.state(group) } {
            State::Joining => return Err(Refusal::Again),
            State::Joined => {}
            State::Failed(errno) => return Err(Refusal::Errno(errno)),
        }
        // SAFETY: the domain is open with the endpoint (H2).
        unsafe { groups.admits(group, call.collective, call.count) }.map_err(Refusal::Errno)?;
        let joined = groups.joined.borrow();
        let Some(group) = joined.get(group.at) else { return Err(Refusal::Errno(Errno::EINVAL)) };
        // SAFETY: the group is open.
        let address = unsafe { group.mc.raw().pointer().as_ref() }.fi_addr;
        // SAFETY: H1, T1, L1–L3, K1, K2. The group is joined, and `admits` has checked the
        // operation.
        unsafe { submit(endpoint.raw(), call, address, (operands, results), context.as_ptr().cast()) }
    }
}

/// # Safety
/// Contract of callers. The group of this address is joined, and open.
unsafe fn submit(
    raw: Raw<sys::fid_ep>,
    call: &CollectiveCall,
    address: u64,
    (operands, results): (&Lent, &Lent),
    context: *mut c_void,
) -> Result<(), Refusal> {
    let (ep, count, root) = (raw.as_ptr(), call.count, call.root as u64);
    let (datatype, op) = (call.collective.datatype().as_raw(), call.collective.reduce_op().as_raw());
    let (from, to) = (Memory::new(operands), Memory::new(results));
    let (send, send_desc, recv, recv_desc) = (from.start, from.descriptor, to.start, to.descriptor);
    debug_assert!(op <= AtomicOp::BXOR.as_raw() || op == AtomicOp::NOOP.as_raw(), "what `query` has admitted");
    // SAFETY: H1, T1, L1–L3, K1, K2. libfabric gets the rank of a root.
    posted(match call.collective.op() {
        CollectiveOp::BARRIER => {
            let barrier = entry!(raw, collective => barrier)?;
            // SAFETY: H1, T1 and K1.
            unsafe { barrier(ep, address, context) }
        }
        CollectiveOp::BROADCAST => {
            let broadcast = entry!(raw, collective => broadcast)?;
            if send != recv && from.len > 0 {
                // The value is broadcast from, and to, the place of the result.
                // SAFETY: both ranges are valid and do not overlap (L1, K2).
                unsafe { ptr::copy_nonoverlapping(send.cast::<u8>(), recv.cast(), from.len.min(to.len)) };
            }
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { broadcast(ep, recv, count, recv_desc, address, root, datatype, 0, context) }
        }
        CollectiveOp::ALLREDUCE => {
            let reduce = entry!(raw, collective => allreduce)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { reduce(ep, send, count, send_desc, recv, recv_desc, address, datatype, op, 0, context) }
        }
        CollectiveOp::ALLGATHER => {
            let gather = entry!(raw, collective => allgather)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { gather(ep, send, count, send_desc, recv, recv_desc, address, datatype, 0, context) }
        }
        CollectiveOp::ALLTOALL => {
            let all_to_all = entry!(raw, collective => alltoall)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { all_to_all(ep, send, count, send_desc, recv, recv_desc, address, datatype, 0, context) }
        }
        CollectiveOp::REDUCE_SCATTER => {
            let reduce = entry!(raw, collective => reduce_scatter)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { reduce(ep, send, count, send_desc, recv, recv_desc, address, datatype, op, 0, context) }
        }
        CollectiveOp::REDUCE => {
            let reduce = entry!(raw, collective => reduce)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { reduce(ep, send, count, send_desc, recv, recv_desc, address, root, datatype, op, 0, context) }
        }
        CollectiveOp::SCATTER => {
            let scatter = entry!(raw, collective => scatter)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { scatter(ep, send, count, send_desc, recv, recv_desc, address, root, datatype, 0, context) }
        }
        CollectiveOp::GATHER => {
            let gather = entry!(raw, collective => gather)?;
            // SAFETY: H1, T1, L1–L3, K1, K2.
            unsafe { gather(ep, send, count, send_desc, recv, recv_desc, address, root, datatype, 0, context) }
        }
        _ => return Err(missing().into()),
    })
}

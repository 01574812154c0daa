//! Endpoints that reach into each other's memory: `shm` (and `sm2`) within one process.
//!
//! Endpoints of these providers that are in one process use each other's shared region through a plain pointer, and
//! closing an endpoint unmaps its region: a neighbour that still has a command of it, or sends to it, crashes (seen with
//! libfabric 1.17). Closing one may also answer commands of a neighbour that is closed already (seen with libfabric 2.5).
//! So only the last of them is closed, when its queue is not polled any more. The others are retired, while their queues
//! are polled, and left open afterwards: their memory goes with the process.
//!
//! Neighbours are the endpoints of one domain, and of domains in whose address vectors they are.

#![allow(unsafe_code, reason = "pointers as names of endpoints; calls `shm_unlink`")]

use core::ffi::{c_char, c_int};
use core::ptr::NonNull;

use heapless::Vec;
use loom_core::transport::Closing;
use loom_core::vocabulary::{EndpointAddr, Errno};

use super::sys;

/// Who is there, and with that who may open and close at the moment: an endpoint that is opened while another one is
/// closed finds it gone.
static NEIGHBOURS: spin::Mutex<Neighbours> =
    spin::Mutex::new(Neighbours { parents: Vec::new(), endpoints: Vec::new() });

/// The most endpoints of such providers that a process can have open.
const ENDPOINTS: usize = 512;

/// Domains that know each other, by way of their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(u16);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    /// Closed as far as the user knows, but its queue is still polled.
    Retired,
    /// As `Retired`, and its queue is not polled at the moment.
    Left,
}

struct Entry {
    group: Group,
    address: EndpointAddr,
    fid: *mut sys::fid,
    state: State,
}

// SAFETY: the pointer is compared and never followed.
unsafe impl Send for Entry {}

struct Neighbours {
    /// By number of the group: another group that it has become one with, or itself.
    parents: Vec<u16, 1024>,
    endpoints: Vec<Entry, ENDPOINTS>,
}

impl Neighbours {
    fn root(&self, group: Group) -> u16 {
        let mut at = group.0;
        while let Some(parent) = self.parents.get(usize::from(at)).filter(|parent| **parent != at) {
            at = *parent;
        }
        at
    }

    /// The endpoints of a group.
    fn members(&self, root: u16) -> impl Iterator<Item = &Entry> {
        self.endpoints.iter().filter(move |entry| self.root(entry.group) == root)
    }

    fn entry(&mut self, fid: NonNull<sys::fid>) -> Option<&mut Entry> {
        self.endpoints.iter_mut().find(|entry| entry.fid == fid.as_ptr())
    }

    /// Takes an endpoint out of the list. If it stays open, its memory goes with the process; its name goes now.
    fn forget(&mut self, fid: NonNull<sys::fid>) {
        unsafe extern "C" {
            /// `man shm_unlink`
            fn shm_unlink(name: *const c_char) -> c_int;
        }
        let Some(place) = self.endpoints.iter().position(|entry| entry.fid == fid.as_ptr()) else { return };
        let entry = self.endpoints.swap_remove(place);
        // `fi_shm://123:0:1` is `/dev/shm/123:0:1`. The string ends with a zero byte, or it is left alone.
        if let Some(name) = entry.address.bytes().strip_prefix(b"fi_shm:/".as_slice())
            && name.last() == Some(&0)
        {
            // SAFETY: a string with its zero byte. That there is no such object is no error.
            let _ = unsafe { shm_unlink(name.as_ptr().cast()) };
        }
    }
}

impl Group {
    /// A group for a new domain. When there are no more, domains share the last one: their endpoints are only kept open
    /// longer.
    pub(super) fn new() -> Self {
        let mut neighbours = NEIGHBOURS.lock();
        let number = u16::try_from(neighbours.parents.len()).unwrap_or(u16::MAX);
        match neighbours.parents.push(number) {
            Ok(()) => Group(number),
            Err(_) => Group(number.saturating_sub(1)),
        }
    }

    /// An address was inserted into a vector of this group: whoever has it becomes a neighbour.
    pub(super) fn meets(self, address: &EndpointAddr) {
        let mut neighbours = NEIGHBOURS.lock();
        let own = neighbours.root(self);
        let found = neighbours.endpoints.iter().find(|entry| entry.address == *address).map(|entry| entry.group);
        if let Some(other) = found.map(|group| neighbours.root(group)).filter(|other| *other != own)
            && let Some(parent) = neighbours.parents.get_mut(usize::from(other))
        {
            *parent = own;
        }
    }

    /// Opens an endpoint in this group. `open` returns it with its handle and its name.
    ///
    /// # Errors
    /// Those of `open`; and `EMFILE` if there are as many endpoints as a process can have.
    pub(super) fn open<E, R: From<Errno>>(
        self,
        open: impl FnOnce() -> Result<(E, NonNull<sys::fid>, EndpointAddr), R>,
    ) -> Result<E, R> {
        let mut neighbours = NEIGHBOURS.lock();
        if neighbours.endpoints.is_full() {
            return Err(Errno::EMFILE.into());
        }
        let (endpoint, fid, address) = open()?;
        // There is room: seen above.
        let _ = neighbours.endpoints.push(Entry { group: self, address, fid: fid.as_ptr(), state: State::Active });
        Ok(endpoint)
    }

    /// Closes an endpoint if it is the only one of its group. Else it is left open, if nobody's queue is polled any more, or
    /// retired.
    pub(super) fn close(
        self,
        fid: NonNull<sys::fid>,
        close: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Closing, Errno> {
        let mut neighbours = NEIGHBOURS.lock();
        let root = neighbours.root(self);
        let others = neighbours.members(root).filter(|entry| entry.fid != fid.as_ptr());
        let (count, used) =
            others.fold((0, false), |(count, used), entry| (count + 1, used || entry.state != State::Left));
        let Some(entry) = neighbours.entry(fid) else { return Err(Errno::EINVAL) };
        if used || (entry.state != State::Left && count > 0) {
            entry.state = State::Retired;
            return Ok(Closing::Retired);
        }
        neighbours.forget(fid);
        if count > 0 { Ok(Closing::Left) } else { close().map(|()| Closing::Closed) }
    }

    /// The queue of a retired endpoint is not polled any more: until the endpoint is retired again, or for good.
    pub(super) fn leave(self, fid: NonNull<sys::fid>, for_good: bool) {
        let mut neighbours = NEIGHBOURS.lock();
        if for_good {
            neighbours.forget(fid);
        } else if let Some(entry) = neighbours.entry(fid) {
            entry.state = State::Left;
        }
    }
}

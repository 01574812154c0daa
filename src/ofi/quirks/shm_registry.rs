//! Endpoints that reach into each other's memory: `shm` within one process.
//!
//! They use each other's shared region through a plain pointer, and a close unmaps it. A neighbour
//! that has a command of the closed endpoint, or sends to it, crashes (1.17). A close may answer
//! commands of a closed neighbour (2.5). So only the last neighbour is closed. The others are
//! retired while their queues are polled, then left open. An endpoint whose address was inserted in
//! its own process stays open for good: a message would follow the pointer.
//!
//! Neighbours are the endpoints of one domain, and of domains with address vectors that contain
//! them. Those of untested providers without socket addresses are all neighbours, and may drive
//! each other: they do not count as left.
//!
//! Vectors refuse addresses of closed endpoints of this process: a later endpoint of the vector
//! would read their memory (1.17, `tests/libfabric/gone_addresses.rs`).

#![allow(unsafe_code, reason = "pointers as names of endpoints; calls `shm_unlink`")]

use core::ffi::{c_char, c_int};
use core::ptr::NonNull;

use heapless::Vec;
use loom_core::transport::Closing;
use loom_core::vocabulary::{EndpointAddr, Errno};

use super::known_behaviour::Facts;
use crate::ofi::fork::getpid;
use crate::ofi::sys;

/// The lock serialises opening and closing.
static NEIGHBOURS: spin::Mutex<Neighbours> = spin::Mutex::new(Neighbours {
    parents: Vec::new(),
    endpoints: Vec::new(),
    known: Vec::new(),
    gone: Vec::new(),
    untested: None,
    untested_met: false,
});

const ENDPOINTS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    number: u16,
    /// `true` if endpoints do not drive each other.
    left_in_peace: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    /// Closed by the user, with a polled queue.
    Retired,
    /// Closed by the user, with a queue that is not polled at the moment.
    Left,
}

struct Neighbour {
    group: Group,
    address: EndpointAddr,
    fid: *mut sys::fid,
    state: State,
}

// SAFETY: the pointer is compared and never followed.
unsafe impl Send for Neighbour {}

struct Neighbours {
    /// Parent of each group, by number: a group that it was united with, or itself.
    parents: Vec<u16, 1024>,
    endpoints: Vec<Neighbour, ENDPOINTS>,
    /// Inserted addresses, where endpoints may open later. If full, all endpoints are neighbours.
    known: Vec<Known, 2048>,
    /// Name hashes of closed endpoints that `is_given` does not recognise. If full, such endpoints
    /// stay open.
    gone: Vec<u64, 256>,
    /// Group of all domains of untested providers.
    untested: Option<Group>,
    /// Such an address has an unknown spelling: it may be any endpoint's.
    untested_met: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    /// A collision of unrelated endpoints is harmless.
    hash: u64,
    by: Group,
}

/// `shm` reads from behind the first `://` up to the first zero byte, which may be missing.
fn name(address: &EndpointAddr) -> impl Iterator<Item = u8> {
    let bytes = address.bytes();
    let begin = bytes.windows(3).position(|at| at == b"://").map_or(0, |at| at + 3);
    bytes.iter().copied().skip(begin).take_while(|byte| *byte != 0)
}

/// Such a name begins with the process number.
fn is_given(address: &EndpointAddr) -> bool {
    let number = name(address)
        .take_while(u8::is_ascii_digit)
        .try_fold(0_i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
    number == Some(getpid()) && name(address).any(|byte| byte == b':')
}

fn hash(address: &EndpointAddr) -> u64 {
    name(address).fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Neighbours {
    fn root(&self, group: Group) -> u16 {
        if self.known.is_full() {
            return 0;
        }
        let mut at = group.number;
        while let Some(parent) = self.parents.get(usize::from(at)).filter(|parent| **parent != at) {
            at = *parent;
        }
        at
    }

    fn members(&self, root: u16) -> impl Iterator<Item = &Neighbour> {
        self.endpoints.iter().filter(move |entry| self.root(entry.group) == root)
    }

    fn unite(&mut self, one: Group, other: Group) {
        let (one, other) = (self.root(one), self.root(other));
        if let Some(parent) = self.parents.get_mut(usize::from(other)) {
            *parent = one;
        }
    }

    fn is_known(&self, hash: u64) -> bool {
        self.known.is_full() || self.known.iter().any(|known| known.hash == hash)
    }

    /// In tested versions, a name that `shm` gave in this process is gone unless an endpoint has
    /// it.
    fn is_gone(&self, address: &EndpointAddr, is_tested: bool) -> bool {
        let hash = hash(address);
        let is_there = || self.endpoints.iter().any(|entry| self::hash(&entry.address) == hash);
        let stays = || self.known.iter().any(|known| known.hash == hash);
        self.gone.contains(&hash) || (is_tested && is_given(address) && !is_there() && !stays())
    }

    fn entry(&mut self, fid: NonNull<sys::fid>) -> Option<&mut Neighbour> {
        self.endpoints.iter_mut().find(|entry| entry.fid == fid.as_ptr())
    }

    /// An endpoint that stays open loses its name all the same.
    fn forget(&mut self, fid: NonNull<sys::fid>) {
        unsafe extern "C" {
            fn shm_unlink(name: *const c_char) -> c_int;
        }
        let Some(place) = self.endpoints.iter().position(|entry| entry.fid == fid.as_ptr()) else { return };
        let entry = self.endpoints.swap_remove(place);
        // `fi_shm://123:0:1` is `/dev/shm/123:0:1`. Strings without a final zero byte are ignored.
        if let Some(name) = entry.address.bytes().strip_prefix(b"fi_shm:/".as_slice())
            && name.last() == Some(&0)
        {
            // SAFETY: the string ends with a zero byte. A missing object is not an error.
            let _ = unsafe { shm_unlink(name.as_ptr().cast()) };
        }
    }
}

/// Untested providers' endpoints stay open in the child: the provider may list the parent's copies.
///
/// # Safety
/// This process has one thread, which does not hold the lock. Data that another thread of the
/// parent was writing at the fork is not read.
pub(crate) unsafe fn start_anew() {
    // SAFETY: the caller guarantees that no thread of this process holds the lock.
    unsafe { NEIGHBOURS.force_unlock() };
    let mut neighbours = NEIGHBOURS.lock();
    neighbours.parents.clear();
    neighbours.endpoints.clear();
    neighbours.known.clear();
    neighbours.gone.clear();
    neighbours.untested = None;
    neighbours.untested_met = true;
}

/// No endpoint is opened or closed during `change`.
pub(crate) fn alone<R>(change: impl FnOnce() -> R) -> R {
    let _neighbours = NEIGHBOURS.lock();
    change()
}

impl Group {
    pub(crate) fn of(facts: Facts) -> Self {
        let mut neighbours = NEIGHBOURS.lock();
        let left_in_peace = facts.contains(Facts::LEFT_IN_PEACE);
        if let Some(group) = neighbours.untested.filter(|_| !left_in_peace) {
            return group;
        }
        // When numbers run out, domains share the last group: endpoints stay open longer.
        let number = u16::try_from(neighbours.parents.len()).unwrap_or(u16::MAX);
        let number = neighbours.parents.push(number).map_or(number.saturating_sub(1), |()| number);
        let group = Group { number, left_in_peace };
        if !left_in_peace {
            neighbours.untested = Some(group);
        }
        group
    }

    /// Present and future endpoints with the address become neighbours. `EADDRNOTAVAIL` for the
    /// address of a closed endpoint of this process.
    pub(crate) fn meets<R>(self, address: &EndpointAddr, insert: impl FnOnce() -> R) -> Result<R, Errno> {
        let mut neighbours = NEIGHBOURS.lock();
        if neighbours.is_gone(address, self.left_in_peace) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        neighbours.untested_met |= !self.left_in_peace;
        let known = Known { hash: hash(address), by: self };
        if !neighbours.known.contains(&known) {
            // If full, all endpoints are neighbours.
            let _ = neighbours.known.push(known);
        }
        let there = neighbours.endpoints.iter().find(|entry| hash(&entry.address) == known.hash);
        if let Some(other) = there.map(|entry| entry.group) {
            neighbours.unite(self, other);
        }
        Ok(insert())
    }

    /// Refused if the address may be a neighbour's that must be recognised later.
    pub(crate) fn meets_unseen<R: From<Errno>>(self, insert: impl FnOnce() -> Result<(), R>) -> Result<(), R> {
        if self.left_in_peace {
            return Err(Errno::EINVAL.into());
        }
        let mut neighbours = NEIGHBOURS.lock();
        if !neighbours.gone.is_empty() {
            // The address may belong to a closed endpoint.
            return Err(Errno::EADDRNOTAVAIL.into());
        }
        neighbours.untested_met = true;
        insert()
    }

    /// `open` also returns the endpoint's handle and name.
    pub(crate) fn open<E, R: From<Errno>>(
        self,
        open: impl FnOnce() -> Result<(E, NonNull<sys::fid>, EndpointAddr), R>,
    ) -> Result<E, R> {
        let mut neighbours = NEIGHBOURS.lock();
        if neighbours.endpoints.is_full() {
            return Err(Errno::EMFILE.into());
        }
        let (endpoint, fid, address) = open()?;
        let hash = hash(&address);
        neighbours.gone.retain(|gone| *gone != hash);
        while let Some(known) =
            neighbours.known.iter().copied().find(|k| k.hash == hash && neighbours.root(k.by) != neighbours.root(self))
        {
            neighbours.unite(self, known.by);
        }
        let _ = neighbours.endpoints.push(Neighbour { group: self, address, fid: fid.as_ptr(), state: State::Active });
        Ok(endpoint)
    }

    /// Closes an endpoint if it is alone in its group and no vector of the process has its address.
    /// Otherwise leaves it open if no queue of the group is polled any more, or retires it, also
    /// while `needed`.
    pub(crate) fn close(
        self,
        fid: NonNull<sys::fid>,
        needed: bool,
        close: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Closing, Errno> {
        let mut neighbours = NEIGHBOURS.lock();
        let root = neighbours.root(self);
        let others = neighbours.members(root).filter(|entry| entry.fid != fid.as_ptr());
        let (count, used) =
            others.fold((0, false), |(count, used), entry| (count + 1, used || entry.state != State::Left));
        let Some(entry) = neighbours.entry(fid) else { return Err(Errno::EINVAL) };
        let (state, hash) = (entry.state, hash(&entry.address));
        let is_given_address = self.left_in_peace && is_given(&entry.address);
        let is_known = neighbours.is_known(hash) || (neighbours.untested_met && !self.left_in_peace);
        let stays = count > 0 || is_known || (!is_given_address && neighbours.gone.is_full());
        let Some(entry) = neighbours.entry(fid) else { return Err(Errno::EINVAL) };
        if needed || used || (stays && (state != State::Left || !self.left_in_peace)) {
            entry.state = State::Retired;
            return Ok(Closing::Retired);
        }
        if !stays {
            // An endpoint that fails to close stays a neighbour.
            close()?;
            if !is_given_address {
                let _ = neighbours.gone.push(hash);
            }
        }
        neighbours.forget(fid);
        Ok(if stays { Closing::Left } else { Closing::Closed })
    }

    /// Returns `true` if the provider may still drive the endpoint.
    pub(crate) fn leave(self, fid: NonNull<sys::fid>, for_good: bool) -> bool {
        let mut neighbours = NEIGHBOURS.lock();
        if for_good {
            neighbours.forget(fid);
        } else if let Some(entry) = neighbours.entry(fid) {
            entry.state = State::Left;
        }
        !self.left_in_peace
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::format;

    use loom_core::vocabulary::AddressFormat;

    use super::*;

    fn group() -> Group {
        Group::of(Facts::LEFT_IN_PEACE)
    }

    fn open(group: Group, name: &str, number: usize) -> NonNull<sys::fid> {
        let fid = NonNull::new(core::ptr::without_provenance_mut(number)).unwrap();
        group.open(|| Ok::<_, Errno>((fid, fid, address(name)))).unwrap()
    }

    fn address(name: &str) -> EndpointAddr {
        EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).unwrap()
    }

    fn close(group: Group, fid: NonNull<sys::fid>) -> Closing {
        group.close(fid, false, || Ok(())).unwrap()
    }

    #[test]
    fn strangers_close_at_any_time() {
        let (one, other) = (group(), group());
        let (a, b) = (open(one, "strangers/a", 0x110), open(other, "strangers/b", 0x120));
        assert_eq!(close(one, a), Closing::Closed);
        assert_eq!(close(other, b), Closing::Closed);
    }

    #[test]
    fn endpoints_are_neighbours_whether_they_or_their_addresses_come_first() {
        for (first, base) in [("address", 0x200), ("endpoint", 0x300)] {
            let name = format!("neighbours/{first}");
            let (one, other) = (group(), group());
            let a = open(one, &format!("{name}/a"), base);
            let b = if first == "address" {
                one.meets(&address(&format!("{name}/b\0")), || ()).unwrap();
                open(other, &format!("{name}/b"), base + 1)
            } else {
                let b = open(other, &format!("{name}/b"), base + 1);
                one.meets(&address(&format!("{name}/b")), || ()).unwrap();
                b
            };
            assert_eq!(close(other, b), Closing::Retired, "{first} first: a neighbour is active");
            other.leave(b, false);
            assert_eq!(close(one, a), Closing::Retired, "{first} first: it is not the only one");
            one.leave(a, false);
            assert_eq!(close(other, b), Closing::Left);
            assert_eq!(close(one, a), Closing::Closed, "{first} first: the last one");
        }
    }

    #[test]
    fn endpoint_that_is_needed_is_retired_even_alone() {
        let group = group();
        let fid = open(group, "needed", 0x400);
        assert_eq!(group.close(fid, true, || Ok(())), Ok(Closing::Retired));
        assert_eq!(close(group, fid), Closing::Closed);
    }

    #[test]
    fn endpoint_with_an_address_in_a_vector_stays_open() {
        for (inserted, number) in [("fi_shm://known/1", 0x610), ("x://known/2", 0x620), ("known/3", 0x630)] {
            let (one, other) = (group(), group());
            let a = open(one, &format!("fi_shm://known/{}", (number - 0x600) / 16), number);
            assert!(other.meets(&address(inserted), || true).unwrap());
            assert_eq!(close(one, a), Closing::Retired);
            one.leave(a, false);
            assert_eq!(close(one, a), Closing::Left, "{inserted}");
        }
    }

    #[test]
    fn the_address_of_a_closed_endpoint_of_this_process_is_refused() {
        let given = format!("fi_shm://{}:7:9", std::process::id());
        for (name, number) in [(given.as_str(), 0x710), ("gone/named", 0x720)] {
            let (one, other) = (group(), group());
            let endpoint = open(one, name, number);
            assert_eq!(close(one, endpoint), Closing::Closed);
            assert_eq!(other.meets(&address(name), || ()), Err(Errno::EADDRNOTAVAIL), "{name}");
            open(one, name, number + 1);
            assert_eq!(other.meets(&address(name), || ()), Ok(()), "{name}");
        }
        assert_eq!(group().meets(&address("fi_shm://1:7:9"), || ()), Ok(()));
    }

    #[test]
    fn the_address_of_a_closed_endpoint_of_an_untested_provider_is_refused() {
        let group = Group { number: 999, left_in_peace: false };
        let mut neighbours = NEIGHBOURS.lock();
        neighbours.gone.push(hash(&address("untested/gone"))).unwrap();
        drop(neighbours);
        assert_eq!(group.meets(&address("x://untested/gone"), || ()), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(group.meets_unseen::<Errno>(|| Ok(())), Err(Errno::EADDRNOTAVAIL));
    }

    #[test]
    fn endpoints_of_untested_providers_are_neighbours_and_never_count_as_left() {
        let [one, other] = [Facts::empty(), Facts::empty()].map(Group::of);
        let (a, b) = (open(one, "untested/a", 0x510), open(other, "untested/b", 0x520));
        assert_eq!(close(one, a), Closing::Retired, "a stranger is active");
        assert!(one.leave(a, false), "others may drive it");
        assert_eq!(close(other, b), Closing::Retired);
        assert!(other.leave(b, false));
        assert_eq!(close(one, a), Closing::Retired, "it is not the only one");
        assert!(one.leave(a, true));
        assert_eq!(close(other, b), Closing::Closed, "the last one");
    }
}

//! Endpoints that reach into each other's memory: `shm` within one process.
//!
//! Endpoints of it that are in one process use each other's shared region through a plain pointer, and
//! closing an endpoint unmaps its region: a neighbour that still has a command of it, or sends to it, crashes (seen with
//! libfabric 1.17). Closing one may also answer commands of a neighbour that is closed already (seen with libfabric 2.5).
//! So only the last of them is closed, when its queue is not polled any more. The others are retired, while their queues
//! are polled, and left open afterwards: their memory goes with the process.
//!
//! Endpoints of a provider that is not tested may do the same, unless they are called by socket addresses, and may be driven by each
//! other besides: there all of the process are neighbours, and none counts as left. (One whose queue has gone for good is forgotten here;
//! it stays open all the same, because its peers' addresses were inserted somewhere.)
//!
//! A vector that has an endpoint's address keeps that plain pointer: a message to the address, of whichever endpoint, follows it when
//! the endpoint has long been closed (seen with both). So an endpoint whose address was inserted in its own process is left open, too.
//!
//! Nor does a vector take the address of an endpoint of this process that has been closed: with libfabric 1.17 an endpoint of the vector that opens
//! later reads the memory that it had (`tests/gone_addresses.rs` crashes without).
//!
//! Neighbours are the endpoints of one domain, and of domains in whose address vectors they are, whether they were opened
//! before their addresses were inserted or after.

#![allow(unsafe_code, reason = "pointers as names of endpoints; calls `shm_unlink`")]

use core::ffi::{c_char, c_int};
use core::ptr::NonNull;

use heapless::Vec;
use loom_core::transport::Closing;
use loom_core::vocabulary::{EndpointAddr, Errno};

use super::known_behaviour::Facts;
use super::process::getpid;
use super::sys;

/// Who is there, and with that who may open and close at the moment: an endpoint that is opened while another one is
/// closed finds it gone.
static NEIGHBOURS: spin::Mutex<Neighbours> = spin::Mutex::new(Neighbours {
    parents: Vec::new(),
    endpoints: Vec::new(),
    known: Vec::new(),
    gone: Vec::new(),
    untested: None,
    untested_met: false,
});

/// The most endpoints of it that a process can have open.
const ENDPOINTS: usize = 512;

/// Domains that know each other, by way of their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    number: u16,
    /// An endpoint whose queue is not polled is not driven by others.
    left_in_peace: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    /// Closed as far as the user knows, but its queue is still polled.
    Retired,
    /// As `Retired`, and its queue is not polled at the moment.
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
    /// By number of the group: another group that it has become one with, or itself.
    parents: Vec<u16, 1024>,
    endpoints: Vec<Neighbour, ENDPOINTS>,
    /// Addresses that were inserted, and by whom: endpoints may yet be opened there. Once it is full, all are neighbours.
    known: Vec<Known, 2048>,
    /// Hashes of the names of closed endpoints that their form does not tell (`is_given`). Once it is full, such endpoints stay open.
    gone: Vec<u64, 256>,
    /// The group of all domains of providers that are not tested.
    untested: Option<Group>,
    /// An address was inserted there: how such a provider spells it is not known, so that it may be any endpoint's.
    untested_met: bool,
}

/// An address in a vector of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Two addresses with the same hash make neighbours of who is none, and do no harm by it.
    hash: u64,
    by: Group,
}

/// The name in an address: behind the first `://`, where `shm` begins to look, up to the first zero byte, which not every address has.
fn name(address: &EndpointAddr) -> impl Iterator<Item = u8> {
    let bytes = address.bytes();
    let begin = bytes.windows(3).position(|at| at == b"://").map_or(0, |at| at + 3);
    bytes.iter().copied().skip(begin).take_while(|byte| *byte != 0)
}

/// Whether this is a name as `shm` gives them to endpoints of this process: it begins with the number of the process.
fn is_given(address: &EndpointAddr) -> bool {
    let number = name(address)
        .take_while(u8::is_ascii_digit)
        .try_fold(0_i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
    number == Some(getpid()) && name(address).any(|byte| byte == b':')
}

/// FNV-1a of the name in an address.
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

    /// The endpoints of a group.
    fn members(&self, root: u16) -> impl Iterator<Item = &Neighbour> {
        self.endpoints.iter().filter(move |entry| self.root(entry.group) == root)
    }

    /// Makes one group of two.
    fn unite(&mut self, one: Group, other: Group) {
        let (one, other) = (self.root(one), self.root(other));
        if let Some(parent) = self.parents.get_mut(usize::from(other)) {
            *parent = one;
        }
    }

    /// Whether an address with this hash was ever inserted.
    fn is_known(&self, hash: u64) -> bool {
        self.known.is_full() || self.known.iter().any(|known| known.hash == hash)
    }

    /// Whether it may be the address of an endpoint of this process that is closed. (Those whose addresses were inserted stay open.) What names
    /// `shm` gives is known of the tested versions: there a name of this process is refused if no endpoint has it.
    fn is_gone(&self, address: &EndpointAddr, is_tested: bool) -> bool {
        let hash = hash(address);
        let is_there = || self.endpoints.iter().any(|entry| self::hash(&entry.address) == hash);
        let stays = || self.known.iter().any(|known| known.hash == hash);
        self.gone.contains(&hash) || (is_tested && is_given(address) && !is_there() && !stays())
    }

    fn entry(&mut self, fid: NonNull<sys::fid>) -> Option<&mut Neighbour> {
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

/// Forgets the parent's endpoints in a forked child, which never closes them or uses their vectors. Endpoints of providers that are not tested
/// stay open in the child: such a provider may still list the copies of the parent's endpoints.
///
/// # Safety
/// This process has one thread, which does not hold the lock. Another thread of the parent may have held it at the fork: what that
/// thread was writing is not read.
pub(super) unsafe fn start_anew() {
    // SAFETY: the caller's promise.
    unsafe { NEIGHBOURS.force_unlock() };
    let mut neighbours = NEIGHBOURS.lock();
    neighbours.parents.clear();
    neighbours.endpoints.clear();
    neighbours.known.clear();
    neighbours.gone.clear();
    neighbours.untested = None;
    neighbours.untested_met = true;
}

/// Calls `change`, which changes a vector of neighbours and may look into their endpoints, while none is opened or closed.
pub(super) fn alone<R>(change: impl FnOnce() -> R) -> R {
    let _neighbours = NEIGHBOURS.lock();
    change()
}

impl Group {
    /// The group of a new domain with these facts, whose endpoints may reach into each other's memory.
    pub(super) fn of(facts: Facts) -> Self {
        let mut neighbours = NEIGHBOURS.lock();
        let left_in_peace = facts.contains(Facts::LEFT_IN_PEACE);
        if let Some(group) = neighbours.untested.filter(|_| !left_in_peace) {
            return group;
        }
        // When there are no more, domains share the last one: their endpoints are only kept open longer.
        let number = u16::try_from(neighbours.parents.len()).unwrap_or(u16::MAX);
        let number = neighbours.parents.push(number).map_or(number.saturating_sub(1), |()| number);
        let group = Group { number, left_in_peace };
        if !left_in_peace {
            neighbours.untested = Some(group);
        }
        group
    }

    /// Inserts an address into a vector of this group: an endpoint that has it, or will have it, becomes a neighbour. No endpoint
    /// is opened or closed while `insert` runs, which may look for one of that name.
    ///
    /// # Errors
    /// `EADDRNOTAVAIL` for the address of an endpoint of this process that is closed.
    pub(super) fn meets<R>(self, address: &EndpointAddr, insert: impl FnOnce() -> R) -> Result<R, Errno> {
        let mut neighbours = NEIGHBOURS.lock();
        if neighbours.is_gone(address, self.left_in_peace) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        neighbours.untested_met |= !self.left_in_peace;
        let known = Known { hash: hash(address), by: self };
        if !neighbours.known.contains(&known) {
            // When there is no room, all are neighbours.
            let _ = neighbours.known.push(known);
        }
        let there = neighbours.endpoints.iter().find(|entry| hash(&entry.address) == known.hash);
        if let Some(other) = there.map(|entry| entry.group) {
            neighbours.unite(self, other);
        }
        Ok(insert())
    }

    /// The same of an address that the provider finds out itself; refused where it may be a neighbour's that is to be found again.
    /// No other thread opens or closes an endpoint of such a provider while it looks the name up, however long that takes.
    pub(super) fn meets_unseen<R: From<Errno>>(self, insert: impl FnOnce() -> Result<(), R>) -> Result<(), R> {
        if self.left_in_peace {
            return Err(Errno::EINVAL.into());
        }
        let mut neighbours = NEIGHBOURS.lock();
        if !neighbours.gone.is_empty() {
            // It may be one of those.
            return Err(Errno::EADDRNOTAVAIL.into());
        }
        neighbours.untested_met = true;
        insert()
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
        let hash = hash(&address);
        neighbours.gone.retain(|gone| *gone != hash);
        while let Some(known) =
            neighbours.known.iter().copied().find(|k| k.hash == hash && neighbours.root(k.by) != neighbours.root(self))
        {
            neighbours.unite(self, known.by);
        }
        // There is room: seen above.
        let _ = neighbours.endpoints.push(Neighbour { group: self, address, fid: fid.as_ptr(), state: State::Active });
        Ok(endpoint)
    }

    /// Closes an endpoint if it is the only one of its group, and no vector of the process has its address. Else
    /// it is left open, if no queue is polled any more, or retired; retired it is too while it is `needed` for other reasons.
    pub(super) fn close(
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
        let is_told_by_form = self.left_in_peace && is_given(&entry.address);
        let is_known = neighbours.is_known(hash) || (neighbours.untested_met && !self.left_in_peace);
        let stays = count > 0 || is_known || (!is_told_by_form && neighbours.gone.is_full());
        let Some(entry) = neighbours.entry(fid) else { return Err(Errno::EINVAL) };
        if needed || used || (stays && (state != State::Left || !self.left_in_peace)) {
            entry.state = State::Retired;
            return Ok(Closing::Retired);
        }
        if !stays {
            // One that fails to close stays a neighbour.
            close()?;
            if !is_told_by_form {
                // There is room: seen above.
                let _ = neighbours.gone.push(hash);
            }
        }
        neighbours.forget(fid);
        Ok(if stays { Closing::Left } else { Closing::Closed })
    }

    /// The queue of a retired endpoint is not polled any more: until the endpoint is retired again, or for good. Returns whether
    /// the provider may drive it all the same.
    pub(super) fn leave(self, fid: NonNull<sys::fid>, for_good: bool) -> bool {
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

    /// As that of a domain of `shm`.
    fn group() -> Group {
        Group::of(Facts::LEFT_IN_PEACE)
    }

    /// An endpoint that is a name and a number.
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
                // Some say addresses with their last zero byte and some without.
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
    fn endpoint_whose_address_is_in_a_vector_stays_open() {
        // As `shm` reads it, with its own prefix, with any, or with none.
        for (inserted, number) in [("fi_shm://known/1", 0x610), ("x://known/2", 0x620), ("known/3", 0x630)] {
            let (one, other) = (group(), group());
            let a = open(one, &format!("fi_shm://known/{}", (number - 0x600) / 16), number);
            // In a domain without endpoints, which may yet have one.
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
            // Another one of that name is there.
            open(one, name, number + 1);
            assert_eq!(other.meets(&address(name), || ()), Ok(()), "{name}");
        }
        // Of another process.
        assert_eq!(group().meets(&address("fi_shm://1:7:9"), || ()), Ok(()));
    }

    #[test]
    fn the_address_of_a_closed_endpoint_of_an_untested_provider_is_refused() {
        // In the group of all that are not tested.
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

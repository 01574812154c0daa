//! Many addresses in one call of `fi_av_insert`.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::c_void;
use core::net::SocketAddr;
use core::ptr;

use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

use super::call::entry;
use super::control::{Av, av_insert, takes};

/// How many addresses a call inserts at most.
const CHUNK: usize = 32;

/// The length of `struct sockaddr_in`.
const IN_LEN: usize = 16;
/// The length of `struct sockaddr_in6`.
const IN6_LEN: usize = 28;

/// Addresses behind each other. Zeros follow.
#[repr(C, align(16))]
struct Together([u8; CHUNK * IN6_LEN + 64]);

/// `fi_av_insert` of many addresses.
///
/// What a call of many refused is asked for once more by itself, and that answer counts: providers differ in what they say of
/// a part. `ofi_rxd` gives up at the first address that it refuses. `FI_SYNC_ERR` would not say more than this: `sockets`
/// refuses the flag, `shm` does not heed it, and the rest reports what loom does without.
///
/// # Safety
/// The contract of callers.
pub(super) unsafe fn av_insert_all<L>(
    av: &Av<L>,
    addresses: &[EndpointAddr],
    results: &mut [Result<FabricAddr, Errno>],
) {
    for (addresses, results) in addresses.chunks(CHUNK).zip(results.chunks_mut(CHUNK)) {
        // SAFETY: the caller's promise.
        let together = unsafe { insert_together(av, addresses) };
        for (at, (address, together)) in addresses.iter().zip(together).enumerate() {
            // Most providers count how often an address was inserted. Here it is once.
            let before = addresses.iter().take(at).position(|before| before == address);
            let result = match (before.and_then(|before| results.get(before).copied()), together) {
                (Some(result), _) => result,
                (None, Some(peer)) => Ok(peer),
                // SAFETY: the caller's promise.
                (None, None) => unsafe { av_insert(av, address) },
            };
            if let Some(place) = results.get_mut(at) {
                *place = result;
            }
        }
    }
}

/// Inserts what can stand in one array, and tells what became of it.
///
/// That is socket addresses, of one length, where all addresses of the domain are of that one family; but none that no endpoint can be
/// at, which are refused: `ofi_rxm` 1.17 takes as many as it has not refused for those that stand first, and crashes when
/// a message goes to one of the others. (The manual page has
/// strings stand there as pointers to them. The providers that read strings here read them one behind the other.)
///
/// # Safety
/// The contract of callers.
unsafe fn insert_together<L>(av: &Av<L>, addresses: &[EndpointAddr]) -> [Option<FabricAddr>; CHUNK] {
    let mut found = [None; CHUNK];
    let len = match av.addr_format() {
        AddressFormat::SOCKADDR_IN => IN_LEN,
        AddressFormat::SOCKADDR_IN6 => IN6_LEN,
        _ => return found,
    };
    let mut together = Together([0; _]);
    let mut places = together.0.chunks_exact_mut(len);
    let mut stand = [false; CHUNK];
    for (at, (address, stands)) in addresses.iter().zip(&mut stand).enumerate() {
        let again = addresses.iter().take(at).any(|before| before == address);
        if !again
            && takes(av.addr_format(), address)
            && address.bytes().len() == len
            && SocketAddr::try_from(address).is_ok_and(|socket| socket.port() != 0 && !socket.ip().is_unspecified())
            && let Some(place) = places.next()
        {
            place.copy_from_slice(address.bytes());
            *stands = true;
        }
    }
    let count = stand.iter().filter(|stands| **stands).count();
    let raw = av.raw();
    let Ok(insert) = entry!(raw, ops => insert) else { return found };
    if count < 2 {
        return found;
    }
    let mut peers = [FabricAddr::NOTAVAIL.0; CHUNK];
    let bytes = (&raw const together).cast::<c_void>();
    // SAFETY: the vector is open (C1); that number of addresses stands behind each other, in the form that the vector
    // reads, and memory for as many of the longest; there is a number for each. The vector has no event queue, so the call
    // finishes here.
    let inserted =
        av.turn().take(|| unsafe { insert(raw.as_ptr(), bytes, count, peers.as_mut_ptr(), 0, ptr::null_mut()) });
    let peers = peers.map(FabricAddr).map(|peer| (peer != FabricAddr::NOTAVAIL).then_some(peer));
    // All of them or none: of a part, and of who says two things, the addresses are asked for one by one, and are there already.
    if usize::try_from(inserted) == Ok(count) && peers.iter().flatten().count() == count {
        let stood = found.iter_mut().zip(stand).filter_map(|(found, stands)| stands.then_some(found));
        for (found, peer) in stood.zip(peers) {
            *found = peer;
        }
    }
    found
}

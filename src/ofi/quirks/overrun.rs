//! Room behind receives, for longer messages.
//!
//! A message longer than its receive:
//! - `ofi_rxm` of libfabric 2 divides messages between 16 KiB and `FI_OFI_RXM_SAR_LIMIT` (128 KiB)
//!   into segments, which match receives of later messages
//!   (`rxm-segments-of-a-truncated-message-use-up-receives`) and corrupt its lists
//!   (`rxm-close-after-a-truncated-long-message-crashes`).
//! - `ofi_rxm` and `net` of libfabric 1 end the connection
//!   (`rxm-nothing-arrives-after-a-truncated-message`,
//!   `net-message-behind-a-truncated-one-is-lost`). `tcp`:
//!   `tcp-message-for-a-receive-of-no-bytes-never-ends`.
//! - A poll of `shm` and `sm2` spins for ever (`shm-long-message-for-a-short-buffer-never-ends`).
//! - `ofi_rxd` and `udp` report a whole message (`rxd-truncated-message-is-whole`).
//!
//! So each receive over these providers has a last piece for the rest. The op table reports
//! `ETRUNC` by the event's length (P5).

#![allow(unsafe_code, reason = "shares memory that only providers write")]

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr;

use loom_core::buffer::Lent;
use loom_core::transport::Msg;
use loom_core::vocabulary::{HmemIface, OpFlags};

use crate::ofi::ffi::call::Memory;
use crate::ofi::info::params::params;
use crate::ofi::sys;

const LEN: usize = 1 << 20;

/// Several providers write it at a time, and it is never read. Its pages are allocated on first
/// write.
struct Rest(UnsafeCell<[u8; LEN]>);

// SAFETY: Rust code accesses no byte of it.
unsafe impl Sync for Rest {}

static REST: Rest = Rest(UnsafeCell::new([0; LEN]));

pub(crate) const fn rest() -> sys::iovec {
    sys::iovec { iov_base: REST.0.get().cast::<c_void>(), iov_len: LEN }
}

pub(crate) struct Longer {
    pub(crate) pieces: [sys::iovec; 2],
    pub(crate) descriptors: [*mut c_void; 2],
    pub(crate) count: usize,
}

impl Longer {
    #[inline]
    pub(crate) fn new(lent: &Lent) -> Self {
        let Memory { start, len, descriptor } = Memory::new(lent);
        let piece = sys::iovec { iov_base: start, iov_len: len };
        if !takes_rest(lent) {
            return Longer { pieces: [piece; 2], descriptors: [descriptor; 2], count: 1 };
        }
        if len == 0 {
            // A piece of no bytes in front would end a message of `tcp`.
            return Longer { pieces: [rest(); 2], descriptors: [ptr::null_mut(); 2], count: 1 };
        }
        Longer { pieces: [piece, rest()], descriptors: [descriptor, ptr::null_mut()], count: 2 }
    }
}

/// Providers copy to all pieces as to the first, which must not be device memory.
fn takes_rest(lent: &Lent) -> bool {
    lent.kind == HmemIface::SYSTEM
}

pub(crate) fn extends(msg: &Msg<'_>) -> bool {
    let others = OpFlags::MULTI_RECV | OpFlags::PEEK | OpFlags::DISCARD;
    !msg.flags.intersects(others) && msg.pieces.iter().all(takes_rest)
}

/// Variable with the maximum length that `ofi_rxm` of this process divides into segments.
pub(crate) const SEGMENTED: &str = "FI_OFI_RXM_SAR_LIMIT";

pub(crate) fn divides_longer() -> bool {
    let exceeds = |value: &str| value.parse::<usize>().map_or(true, |longest| longest > LEN);
    params().is_ok_and(|all| all.iter().any(|param| param.name == SEGMENTED && param.value.is_some_and(exceeds)))
}

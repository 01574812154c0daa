//! One object that talks to many peers.

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod collective;
mod peer_index;
pub mod schedule;

pub use self::peer_index::PeerIndex;

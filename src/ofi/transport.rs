#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::marker::PhantomData;

use loom_core::transport::Transport;

use super::threading::Level;

/// The libfabric transport at a threading level: `Ofi<Local>` or `Ofi<Shared>`, without values.
#[derive(Debug)]
pub struct Ofi<L: Level>(PhantomData<L>);

// SAFETY: libfabric keeps the promises, and this implementation passes them on:
// - P1, P2: closing an endpoint or a region is where the provider stops touching memory
//   (`man fi_endpoint`, `fi_mr`).
// - P3, P4, P6: the provider returns contexts as they were posted. An error entry is reported as an
//   error, whatever its fields, and a read without an entry reports no event (`queue`).
// - P5: lengths are the provider's. The rest of a longer message goes to memory that is never read
//   (`overrun`).
// - P7: only posts, and the batch in the memory of `cq_open`, keep pointers. Others are passed in
//   memory of the call.
// - P8: this code does not panic, and C does not call back.
// - P9: domains are `Sync` at level `Shared` only, with a model that serialises by queue and not
//   by thread (`threading`).
unsafe impl<L: Level> Transport for Ofi<L> {}

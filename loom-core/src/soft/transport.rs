#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::marker::PhantomData;

use crate::transport::Transport;

/// Software transport over a [`Network`](super::Network).
///
/// ```
/// use loom_core::{Av, Cq, Domain, Endpoint, Error, Info, soft::Soft};
///
/// /// Opens a node of a simulated cluster, with a domain of its own.
/// fn node(info: &Info<Soft<'static>>) -> Result<Endpoint<'static, Soft<'static>, Vec<u8>>, Error> {
///     let domain = Domain::open(info)?;
///     Ok(Cq::open(&domain, 16)?.endpoint(&Av::open(&domain, 8)?)?)
/// }
/// # fixture::domain!(network, domain);
/// let [a, b] = [node(&network.info())?, node(&network.info())?];
/// assert_ne!(a.address()?, b.address()?);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Soft<'n>(PhantomData<&'n ()>);

// SAFETY: the guarantees of `Transport`, kept here and in the other files of this module:
// - P1: `endpoint::end` revokes the endpoint's offers and waits for copies. Only its own thread
//   reaches its receives.
// - P2: `Region::close` waits for operations that use the region, and admits no later ones.
// - P3: each operation pushes one event, at its end. Contexts are not interpreted.
// - P4: `inbox::use_receive_up` removes a receive from the posted ones before it reports it.
// - P5: a receive copies `min(message, lent)` bytes and reports their number. A read copies all
//   lent bytes or fails.
// - P6: `receive::hand_on` moves the buffer's start behind each message, and is not called after
//   the last.
// - P7: of a caller's storage, only memory lent by posts and the queue's memory are kept.
// - P8: functions do not panic: indices come from the network's lists, and numbers from outside are
//   checked.
// - P9: a queue and its endpoints keep their state in the network, and none by thread.
unsafe impl Transport for Soft<'_> {}

//! [`Soft`], the type of the software transport, and its guarantees.

#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::marker::PhantomData;

use crate::transport::Transport;

/// Software transport over a [`Network`](super::Network).
///
/// Each queue stays on one thread with its endpoints.
///
/// ```
/// use loom_core::soft::{Network, NetworkAttr, Soft};
/// use loom_core::{Av, Cq, Domain, Endpoint, Error, Info};
///
/// /// A node of a simulated cluster, each of which has a domain of its own.
/// struct Node {
///     queue: Cq<'static, Soft<'static>, Vec<u8>>,
///     endpoint: Endpoint<'static, Soft<'static>, Vec<u8>>,
/// }
///
/// fn node(info: &Info<Soft<'static>>) -> Result<Node, Error> {
///     let domain = Domain::open(info)?;
///     let queue = Cq::open(&domain, 16)?;
///     let endpoint = queue.endpoint(&Av::open(&domain, 8)?)?;
///     Ok(Node { queue, endpoint })
/// }
///
/// let network = Network::new(NetworkAttr::default())?;
/// let [a, b] = [node(&network.info())?, node(&network.info())?];
/// assert_ne!(a.endpoint.address()?, b.endpoint.address()?);
/// # let _ = (a.queue, b.queue);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Soft<'n>(PhantomData<&'n ()>);

// SAFETY: the guarantees of `Transport`, kept here and in the other files of this module:
// - P1: `endpoint::end` revokes the endpoint's offers and waits for copies. Only its own thread
//   reaches its receives.
// - P2: `Region::close` waits for operations that use the region, and admits no later ones.
// - P3: each operation pushes one event, at its end. Contexts are not interpreted.
// - P4: `deliver::use_receive_up` removes a receive from the posted ones before it reports it.
// - P5: a receive copies `min(message, lent)` bytes and reports their number. A read copies all
//   lent bytes or fails.
// - P6: `receive::hand_on` moves the buffer's start behind each message, and is not called after
//   the last.
// - P7: of a caller's storage, only memory lent by posts and the queue's memory are kept.
// - P8: functions do not panic: indices come from the network's lists, and numbers from outside are
//   checked.
unsafe impl Transport for Soft<'_> {}

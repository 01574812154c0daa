//! [`Soft`]: the type that names the software transport, and what it promises.

#![allow(unsafe_code, reason = "implements the unsafe trait `Transport`")]

use core::marker::PhantomData;

use crate::transport::Transport;

/// The software transport over a [`Network`](super::Network).
///
/// Its domains, address vectors and regions can be shared between threads; each queue and its endpoints stay on one.
///
/// ```
/// # #[cfg(feature = "std")] {
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
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Soft<'n>(PhantomData<&'n ()>);

// SAFETY: the promises of `Transport`, here and in the files of its subjects:
// - P1: `endpoint::end` revokes what the endpoint has offered and waits for copies under way; receives are reached by the
//   endpoint's own thread only;
// - P2: `Region::close` waits for operations that use the region, and lets none in afterwards;
// - P3: an event is pushed once for each operation, where it ends; contexts are carried, not interpreted;
// - P4: `progress::use_receive_up` takes the receive out of the posted ones before it reports it;
// - P5: a receive copies `min(message, lent)` bytes and reports that many; a read copies all that was lent or fails;
// - P6: `receive::hand_on` moves the begin of the buffer behind each message, and is not called after the last one;
// - P7: of a caller's storage only what a post lent and the queue's memory are kept;
// - P8: no function panics: indices come from the network's own lists, and numbers from outside are checked.
unsafe impl Transport for Soft<'_> {}

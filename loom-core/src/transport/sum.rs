use super::{Atomics, MemoryRegions, Messages, Rma};

/// Network layer below the safe objects: the sum of the traits of a transport.
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, Peer, Source, Transport};
///
/// /// Sends a message over any transport, and returns its buffer.
/// fn send<T: Transport>(from: &Endpoint<'_, T, Vec<u8>>, to: Peer, message: Vec<u8>) -> Result<Vec<u8>, Error> {
///     let sent = from.cq().post(message, Forever, |message| from.send(to, message))?;
///     Ok(from.cq().finish(sent, Forever)?.into_result()?.0)
/// }
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// assert_eq!(send(&alice, to_bob, b"hello".to_vec())?, b"hello");
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Contract of callers
///
/// [H1 to H4, T1, T2, N1, N2, L1 to L4, O1 to O3, M1 to M3, and O4](super#contract-of-callers).
///
/// # Safety
///
/// Implementations of this trait and its supertraits promise [P1 to P8 and
/// P17](super#promises-of-implementations).
pub unsafe trait Transport: MemoryRegions + Messages + Rma + Atomics {}

//! Multi-receives: one buffer for many messages.

#![allow(unsafe_code, reason = "multi-receives over providers that do not keep to their buffer")]

use super::{Endpoint, Source};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::Rejected;
use crate::transport::Transport;

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Receives messages into one buffer, one behind the other, until less is left of it than the endpoint's
    /// [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV). Each is a
    /// [`Completion::Piece`](crate::completion::Completion::Piece), which shows the message where it lies. When the provider
    /// has released the buffer and all its pieces were dropped, the operation is over and the buffer comes back like any
    /// other's, with a length of zero. (The software transport releases one earlier if its queue has no place for all that has
    /// arrived before.)
    ///
    /// A message that is longer than what is left is truncated: a piece that has failed. So that none is, set that option to
    /// the length of the longest message.
    ///
    /// Messages of a multi-receive are events that no post of this side is behind, like those of peers'
    /// ([`PEER_EVENTS`](crate::objects::cq::PEER_EVENTS)): a program that waits for one operation and lets them lie is told to
    /// take them first. Waiting for the multi-receive itself ends with
    /// [`CqError::PiecesOut`](crate::objects::cq::CqError::PiecesOut) where nothing but its pieces is missing.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::completion::Completion;
    /// use loom_core::error::PostError;
    /// use loom_core::objects::{av::Av, cq::{self, CqAttr}, domain::Domain, endpoint::Source};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::EndpointOption;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let av = Av::open(&domain, 2)?;
    /// let mut memory = [0; 1000];
    /// cq::scope(&domain, CqAttr::<16>::new(), |cq| {
    ///     let alice = cq.endpoint(&av).enable()?;
    ///     let bob = cq.endpoint(&av).option(EndpointOption::MIN_MULTI_RECV, 400).enable()?;
    ///     let to_bob = av.insert(&bob.address()?)?;
    ///     let key = bob.multi_recv(Source::Any, &mut memory[..]).map_err(PostError::from)?;
    ///     for message in [&[1; 300][..], &[2; 20], &[3; 300]] {
    ///         alice.inject(to_bob, message)?;
    ///         let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///         assert_eq!(piece.bytes(), message);
    ///     }
    ///     // Fewer than 400 bytes are left.
    ///     let Some(Completion::Op(done)) = cq.poll()? else { panic!("the buffer") };
    ///     assert_eq!((done.key(), done.buf().len()), (key, 1000));
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })??;
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and
    /// - [`PostError::NotGranted`](crate::error::PostError::NotGranted) without
    ///   [`Caps::MULTI_RECV`](crate::vocabulary::Caps::MULTI_RECV), which has to be asked for;
    /// - [`PostError::DeviceMemory`](crate::error::PostError::DeviceMemory) for any memory of a device: messages are shown where
    ///   they lie;
    /// - [`PostError::NotSafe`](crate::error::PostError::NotSafe) over providers that may write behind the buffer, or to it when
    ///   it has come back. Those that are known not to are the software transport and, of libfabric 2, `tcp`. For the others
    ///   there is [`multi_recv_trusting`](Self::multi_recv_trusting).
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.port.multi_recv(|| self.plain_source(from), buf)
    }

    /// [`multi_recv`](Self::multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), but for `NotSafe`.
    ///
    /// # Safety
    /// The provider keeps to the buffer. Those of libfabric 1.17 and 2.5 do (but for what is said below) as long as
    /// - [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV) was set
    ///   [when the endpoint was opened](super::EndpointBuilder::option), and no peer sends a longer message: `shm`, `sockets`,
    ///   `tcp;ofi_rxm` and `udp;ofi_rxd` write it, or those that come after it, behind the buffer;
    /// - it is not cancelled, nor its endpoint closed, while a message is coming in: `net`, `tcp;ofi_rxm` (1.17), `udp;ofi_rxd`
    ///   and `shm` (1.17) go on writing to the buffer.
    ///
    /// Three release a buffer before all of it is there: `tcp;ofi_rxm` (1.17) if a message is longer than 16 KiB, `net` and
    /// `udp;ofi_rxd` if more than one peer sends. Nobody sends so, then.
    #[doc(alias = "FI_MULTI_RECV")]
    pub unsafe fn multi_recv_trusting(&self, from: Source, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        // SAFETY: the caller's promise.
        unsafe { self.port.multi_recv_trusting(|| self.plain_source(from), buf) }
    }
}

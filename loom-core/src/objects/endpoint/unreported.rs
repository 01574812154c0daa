//! Operations that do not report their success: `FI_SELECTIVE_COMPLETION` without `FI_COMPLETION`.

#![allow(unsafe_code, reason = "operations with memory that no completion gives back")]

use super::Endpoint;
use crate::buffer::{Buffer, Lent};
use crate::engine::peer_table::Peer;
use crate::error::PostError;
use crate::objects::mr::RemoteRegion;
use crate::objects::options::{ReadOptions, SendOptions};
use crate::transport::Transport;
use crate::vocabulary::Tag;

impl<T: Transport, B: Buffer> Endpoint<'_, '_, T, B> {
    /// Sends a message, and reports nothing if that succeeds: no completion, and nothing that keeps the memory.
    ///
    /// That it is over, a [`Counter`](crate::objects::counter::Counter) of the endpoint tells, which counts those that fail
    /// apart. So does the completion of a later operation where the provider completes them in order
    /// ([`CompOrder::STRICT`](crate::vocabulary::CompOrder::STRICT)). One that fails is a
    /// [`Completion::Unclaimed`](crate::completion::Completion::Unclaimed) besides: with more than
    /// [`PEER_EVENTS`](crate::objects::cq::PEER_EVENTS) in flight the queue might not have room for them.
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// # #[cfg(feature = "std")] {
    /// use core::ptr::NonNull;
    ///
    /// use loom_core::buffer::Lent;
    /// use loom_core::objects::counter::{Counter, CounterAttr};
    /// use loom_core::objects::{av::Av, cq::{self, CqAttr}, domain::Domain, endpoint::Source, options::SendOptions};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::Counted;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let av = Av::open(&domain, 2)?;
    /// let sends = Counter::open(&domain, CounterAttr::default())?;
    /// let message = *b"hello";
    /// cq::scope(&domain, CqAttr::<16>::new(), |cq| {
    ///     let alice = cq.endpoint(&av).counter(Counted::SEND, &sends).selective().enable()?;
    ///     let bob = cq.endpoint(&av).enable()?;
    ///     let to_bob = av.insert(&bob.address()?)?;
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     let lent = Lent::source(NonNull::from_ref(&message).cast(), message.len());
    ///     // SAFETY: the message is read only, and stays until the counter says that the send is over.
    ///     unsafe { alice.send_unreported(to_bob, SendOptions::new(), &lent) }?;
    ///     while sends.read() < 1 {
    ///         cq.progress()?;
    ///     }
    ///     // The receive is all that completes.
    ///     let completion = cq.poll()?;
    ///     assert!(completion.is_some() && cq.poll()?.is_none());
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })??;
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`PostError::NotSelective`] if the endpoint was not opened as
    ///   [selective](super::EndpointBuilder::selective);
    /// - any other [`PostError`] of a send but `Full`; [`PostError::Errno`] with `EOPNOTSUPP` where the provider wants
    ///   memory for each operation's context (`FI_CONTEXT`).
    ///
    /// # Safety
    /// What `lent` describes is memory that may be read. Until the operation is over
    /// - the memory stays where it is, and nobody writes to it;
    /// - the endpoint stays open: it is not dropped, and neither is its queue.
    #[doc(alias = "fi_sendmsg")]
    pub unsafe fn send_unreported(&self, to: Peer, options: SendOptions, lent: &Lent) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.send_unreported(|| self.peer(to), None, options, lent) }
    }

    /// Sends a tagged message, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported).
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported).
    #[doc(alias = "fi_tsendmsg")]
    pub unsafe fn tagged_send_unreported(
        &self,
        to: Peer,
        tag: Tag,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.send_unreported(|| self.peer(to), Some(tag), options, lent) }
    }

    /// Writes into a peer's region, from `offset` bytes into it, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported), and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported).
    #[doc(alias = "fi_writemsg")]
    pub unsafe fn write_unreported(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        options: SendOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.write_unreported(|| self.peer(peer), region, offset, options, lent) }
    }

    /// Reads from a peer's region, from `offset` bytes into it, as [`send_unreported`](Self::send_unreported).
    ///
    /// # Errors
    /// As [`send_unreported`](Self::send_unreported), and [`PostError::OutOfBounds`].
    ///
    /// # Safety
    /// As [`send_unreported`](Self::send_unreported), but it is memory that may be written, and nobody reads from it or refers
    /// to it until then.
    #[doc(alias = "fi_readmsg")]
    pub unsafe fn read_unreported(
        &self,
        peer: Peer,
        region: &RemoteRegion,
        offset: u64,
        options: ReadOptions,
        lent: &Lent,
    ) -> Result<(), PostError> {
        // SAFETY: the caller's promise.
        unsafe { self.port.read_unreported(|| self.peer(peer), region, offset, options, lent) }
    }
}

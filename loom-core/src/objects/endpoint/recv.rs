//! ReceiveMode messages, with tags and without: what `man fi_msg` and `man fi_tagged` describe.

#![allow(unsafe_code, reason = "posts through the raw endpoint what the op table has taken")]

use super::Endpoint;
use super::kind::Receives;
use super::post::{OpKind, map_refusal, required_caps};
use crate::buffer::{Buffer, TargetBuffer};
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::options::RecvOptions;
use crate::transport::{Msg, Transport};
use crate::vocabulary::{FabricAddr, HmemIface, OpFlags, TagMatch};

impl<T: Transport, B: Buffer, K: Receives<T>> Endpoint<'_, T, B, K> {
    /// The address that messages without tag come from.
    #[inline]
    fn plain_source(&self, from: K::From) -> Result<FabricAddr, PostError> {
        self.limits().directs(self.source(from)?)
    }

    /// Receives a message.
    ///
    /// A message that is longer than the buffer completes with `ETRUNC`: what fits is there, and the error says how
    /// much did not.
    ///
    /// # Errors
    /// [`PostError::NotGranted`] for a directed receive where the provider has none, or has none that works for messages
    /// without tag (`net` and `tcp` take anybody's, `shm` and `tcp;ofi_rxm` of libfabric 2 crash), or any other [`PostError`];
    /// the buffer comes back.
    #[doc(alias = "fi_recv")]
    // Always: see `post`.
    #[inline(always)]
    pub fn recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (from, how) = (from.into(), (required_caps::RECV, OpKind::Receive));
        self.opened.post(
            how,
            || self.plain_source(from),
            None,
            buf,
            |raw, from, lent, context| {
                // SAFETY: see `post`.
                map_refusal(unsafe { T::recv(raw, from, lent, context) })
            },
        )
    }

    /// Receives a message into one buffer or several, each filled before the next: see [`send_with`](Self::send_with).
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and [`PostError::TooManyPieces`].
    #[doc(alias = "fi_recvmsg")]
    #[doc(alias = "fi_recvv")]
    pub fn recv_with(&self, from: impl Into<K::From>, options: RecvOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (from, how) = (from.into(), (required_caps::RECV, OpKind::Receive, self.limits().rx_iov_limit));
        self.opened.post_msg(
            how,
            || self.plain_source(from),
            (None, options.flags),
            buf,
            |raw, msg, _| {
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::recvmsg(raw, msg) })
            },
        )
    }

    /// Receives a tagged message: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "fi_trecv")]
    #[inline]
    pub fn tagged_recv(&self, from: impl Into<K::From>, tag: impl Into<TagMatch>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (from, tag, how) = (from.into(), tag.into(), (required_caps::TAGGED_RECV, OpKind::TaggedReceive));
        self.opened.post(
            how,
            || self.source(from),
            None,
            buf,
            |raw, from, lent, context| {
                // SAFETY: see `post`.
                map_refusal(unsafe { T::tagged_recv(raw, from, lent, tag, context) })
            },
        )
    }

    /// Receives a tagged message into one buffer or several: the oldest one that `tag` accepts.
    ///
    /// # Errors
    /// As [`recv_with`](Self::recv_with).
    #[doc(alias = "fi_trecvmsg")]
    #[doc(alias = "fi_trecvv")]
    pub fn tagged_recv_with(
        &self,
        from: impl Into<K::From>,
        tag: impl Into<TagMatch>,
        options: RecvOptions,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (from, tag) = (from.into(), tag.into());
        let how = (required_caps::TAGGED_RECV, OpKind::TaggedReceive, self.limits().rx_iov_limit);
        self.opened.post_msg(
            how,
            || self.source(from),
            (None, options.flags),
            buf,
            |raw, msg, _| {
                // SAFETY: see `post_msg`.
                map_refusal(unsafe { T::tagged_recvmsg(raw, msg, tag) })
            },
        )
    }

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
    /// use loom_core::objects::{av::Av, cq::Cq, domain::Domain, endpoint::{Binding, Source}};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::vocabulary::EndpointOption;
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let domain = Domain::open(&network.info())?;
    /// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// let alice = cq.endpoint(&av)?;
    /// let bob = cq.endpoint(Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 400))?;
    /// let to_bob = av.insert(&bob.address()?)?;
    /// let key = bob.multi_recv(Source::Any, vec![0; 1000])?;
    /// for message in [&[1; 300][..], &[2; 20], &[3; 300]] {
    ///     alice.inject(to_bob, message)?;
    ///     let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
    ///     assert_eq!(piece.bytes(), message);
    /// }
    /// // Fewer than 400 bytes are left.
    /// let Some(Completion::Op(done)) = cq.poll()? else { panic!("the buffer") };
    /// assert_eq!((done.key(), done.buf().len()), (key, 1000));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and
    /// - [`PostError::NotGranted`] without
    ///   [`Caps::MULTI_RECV`](crate::vocabulary::Caps::MULTI_RECV), which has to be asked for;
    /// - [`PostError::DeviceMemory`] for any memory of a device: messages are shown where
    ///   they lie;
    /// - [`PostError::NotSafe`] over providers that may write behind the buffer, or to it when
    ///   it has come back. Those that are known not to are the software transport and, of libfabric 2, `tcp`. For the others
    ///   there is [`multi_recv_unchecked`](Self::multi_recv_unchecked).
    #[doc(alias = "FI_MULTI_RECV")]
    pub fn multi_recv(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let limits = self.limits();
        if !limits.quirks.multi_recv && limits.granted(required_caps::MULTI_RECV).is_ok() {
            return Err(Rejected { buf, error: PostError::NotSafe });
        }
        // SAFETY: the transport keeps to the buffer.
        unsafe { self.multi_recv_unchecked(from, buf) }
    }

    /// [`multi_recv`](Self::multi_recv) over any provider that grants it.
    ///
    /// # Errors
    /// As [`multi_recv`](Self::multi_recv), but for `NotSafe`.
    ///
    /// # Safety
    /// The provider keeps to the buffer. Those of libfabric 1.17 and 2.5 do (but for what is said below) as long as
    /// - [`MIN_MULTI_RECV`](crate::vocabulary::EndpointOption::MIN_MULTI_RECV) was set
    ///   [when the endpoint was opened](super::Binding::option), and no peer sends a longer message: `shm`, `sockets`,
    ///   `tcp;ofi_rxm` and `udp;ofi_rxd` write it, or those that come after it, behind the buffer;
    /// - it is not cancelled, nor its endpoint closed, while a message is coming in: `net`, `tcp;ofi_rxm` (1.17), `udp;ofi_rxd`
    ///   and `shm` (1.17) go on writing to the buffer.
    ///
    /// Three release a buffer before all of it is there: `tcp;ofi_rxm` (1.17) if a message is longer than 16 KiB, `net` and
    /// `udp;ofi_rxd` if more than one peer sends. Nobody sends so, then.
    #[doc(alias = "FI_MULTI_RECV")]
    pub unsafe fn multi_recv_unchecked(&self, from: impl Into<K::From>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: TargetBuffer,
    {
        let (from, opened) = (from.into(), &self.opened);
        let address = match opened.check(required_caps::MULTI_RECV, || self.plain_source(from), None) {
            Ok(address) => address,
            Err(error) => return Err(Rejected { buf, error }),
        };
        opened.cq().ops().post_multi(opened.index(), buf, |lent, context| {
            // Its messages are shown where they lie.
            if lent.kind() != HmemIface::SYSTEM {
                return Err(PostError::DeviceMemory);
            }
            // No prefix: these are not granted where one is asked for.
            opened.submit_checked(lent, OpKind::Receive, (context, address), |lent| {
                let pieces = core::slice::from_ref(lent);
                let flags = OpFlags::MULTI_RECV | OpFlags::COMPLETION;
                let msg = Msg { address, pieces, data: None, context, flags };
                // SAFETY: the endpoint is open, the address is one of its vector or none in particular, and what is lent is
                // writable and stays in the op table until the event that releases it or the endpoint's close.
                map_refusal(unsafe { T::recvmsg(opened.raw(), &msg) })
            })
        })
    }
}

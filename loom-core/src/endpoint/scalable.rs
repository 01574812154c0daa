#![allow(unsafe_code, reason = "opens, uses and closes a raw scalable endpoint")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::Allocator;

use super::Endpoint;
use super::binding::Binding;
use super::kind::{HasOptions, Peeks, Receives, Sealed, Source, Transmits};
use super::limits::Limits;
use super::opened::Opened;
use crate::av::Av;
use crate::buffer::Buffer;
use crate::cq::Cq;
use crate::cq::ReceiveMode;
use crate::domain::DomainInner;
use crate::engine::peer_table::RxPeer;
use crate::error::{OpenError, PostError};
use crate::info::Info;
use crate::storage::handle::{Bond, CrossesThreads, Ended, Handle, Object, Plan, Unfilled};
use crate::transport::Scalable;
use crate::transport::scalable::ContextBindings;
pub use crate::transport::scalable::Contexts;
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Caps, Counted, EndpointAddr, EndpointType, Errno, FabricAddr};

/// A connectionless endpoint with several transmit and receive contexts.
///
/// Each thread's queue can have its own contexts ([`Cq::tx_context`](crate::cq::Cq::tx_context),
/// [`Cq::rx_context`](crate::cq::Cq::rx_context)) of one endpoint with one address. Peers choose
/// the receive context of a message ([`RxPeer`]). Of libfabric's software providers only `sockets`
/// supports contexts.
///
/// A counted handle, which threads share if the transport's threading level allows it.
///
/// A message to a closed receive context waits until it opens, over `sockets` with all later
/// operations from the same scalable endpoint. Open the contexts before peers receive the address,
/// and close them together.
///
/// ```
/// use loom_core::{Av, AvAttr, Cq, Domain, Error};
/// use loom_core::{endpoint::{Contexts, RxContext, ScalableEndpoint, TxContext}, transport::Scalable};
///
/// /// Opens an endpoint with two contexts of each kind, and the first ones of them.
/// fn open<'m, T: Scalable>(
///     domain: &Domain<'m, T>, cq: &Cq<'m, T, Vec<u8>>,
/// ) -> Result<(TxContext<'m, T, Vec<u8>>, RxContext<'m, T, Vec<u8>>), Error> {
///     // One bit of an address selects one of two receive contexts.
///     let av = Av::open(domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(16) })?;
///     let endpoint = ScalableEndpoint::open(&av, domain.info(), Contexts { tx: 2, rx: 2 })?;
///     Ok((cq.tx_context(&endpoint, 0)?, cq.rx_context(&endpoint, 0)?))
/// }
/// ```
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_scalable_ep")]
#[doc(alias = "FI_CLASS_SEP")]
pub struct ScalableEndpoint<'m, T: Scalable> {
    body: Handle<'m, ScalableInner<T>>,
    av: Av<'m, T>,
}

pub(super) struct ScalableInner<T: Scalable> {
    raw: T::ScalableEndpoint,
    info: Info<T>,
    /// Dropped when the endpoint is closed or left open.
    av: ManuallyDrop<Bond>,
    domain: Handle<'static, DomainInner<T>>,
    contexts: Contexts,
}

// SAFETY: the bond is a handle of a vector, and the bounds name the other fields.
unsafe impl<T: Scalable<ScalableEndpoint: Send>> Send for ScalableInner<T>
where
    Info<T>: Send,
    Handle<'static, DomainInner<T>>: Send,
    Av<'static, T>: Send,
{
}
// SAFETY: shared references do not reach the bond, and the bounds name the other fields.
unsafe impl<T: Scalable<ScalableEndpoint: Sync>> Sync for ScalableInner<T>
where
    Info<T>: Sync,
    Handle<'static, DomainInner<T>>: Sync,
    Av<'static, T>: Sync,
{
}

impl<'m, T: Scalable> ScalableEndpoint<'m, T> {
    /// Opens an endpoint with these numbers of contexts, from an info of the vector's domain, in
    /// memory of `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`], [`OpenError::EndpointType`], [`OpenError::NotGranted`],
    ///   [`OpenError::TooManyContexts`], [`OpenError::OutOfMemory`]
    /// - [`OpenError::Threading`] if the provider requires one thread for all contexts and the
    ///   transport's type allows many
    /// - [`OpenError::Size`] for zero contexts
    /// - [`OpenError::Errno`] of the provider: `ENOSYS` without scalable endpoints, `EOPNOTSUPP`
    ///   over `sockets` with manual progress, which would continue to use a closed context
    #[doc(alias = "fi_scalable_ep")]
    #[doc(alias = "fi_scalable_ep_bind")]
    #[doc(alias = "fi_enable")]
    pub fn open_in<A: Allocator + Send + 'm>(
        av: &Av<'m, T>,
        info: &Info<T>,
        contexts: Contexts,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let domain = av.domain();
        domain.admits(info, &[EndpointType::RDM, EndpointType::DGRAM])?;
        let attributes = info.attributes();
        if !T::serves_contexts(domain.attributes()) || !T::serves_contexts(attributes) {
            return Err(OpenError::Threading);
        }
        if contexts == (Contexts { tx: 0, rx: 0 }) {
            return Err(OpenError::Size);
        }
        let limits = [(contexts.tx, attributes.domain.max_ep_tx_ctx), (contexts.rx, attributes.domain.max_ep_rx_ctx)];
        for (wanted, most) in limits {
            let limit = most.min(Self::MAX_CONTEXTS.into());
            if usize::from(wanted) > limit {
                return Err(OpenError::TooManyContexts { limit });
            }
        }
        let info = info.try_clone()?;
        let block = Unfilled::new(Plan::of::<ScalableInner<T>, A>()?, alloc)?;
        let bond = av.bond();
        // SAFETY: domain and vector are open (H1) and belong together (H4). The endpoint keeps both
        // open (S1).
        match unsafe { T::scalable_open(domain.raw(), info.raw(), av.raw(), contexts) } {
            Ok(raw) => {
                let (domain, av_bond) = (domain.clone(), ManuallyDrop::new(bond));
                let body = block.fill(ScalableInner { raw, info, av: av_bond, domain, contexts });
                Ok(ScalableEndpoint { body, av: av.clone() })
            }
            Err(error) => {
                // An endpoint that is left open keeps its vector open.
                if error.left_open {
                    bond.leave();
                }
                Err(error.errno.into())
            }
        }
    }

    /// [`ScalableEndpoint::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(av: &Av<'m, T>, info: &Info<T>, contexts: Contexts) -> Result<Self, OpenError> {
        Self::open_in(av, info, contexts, allocator_api2::alloc::Global)
    }

    /// Layout of a scalable endpoint's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<ScalableInner<T>, A>()?.layout())
    }

    /// Maximum contexts of each direction, regardless of the provider's.
    pub const MAX_CONTEXTS: u16 = 64;

    /// Address of the endpoint and all of its contexts.
    ///
    /// # Errors
    /// Those of the provider.
    #[doc(alias = "fi_getname")]
    pub fn address(&self) -> Result<EndpointAddr, Errno> {
        // SAFETY: open (H1).
        unsafe { T::scalable_address(&self.body.raw) }
    }

    /// Address vector with the contexts' peers.
    #[must_use]
    pub const fn av(&self) -> &Av<'m, T> {
        &self.av
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::ScalableEndpoint {
        &self.body.raw
    }
}

impl<T: Scalable> CrossesThreads for ScalableInner<T> where Self: Send + Sync {}

impl<T: Scalable> Object for ScalableInner<T> {
    const ONE_THREAD: bool = false;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(mut this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: `end` is called once, after the last handle has gone.
        let this = unsafe { this.as_mut() };
        // SAFETY: contexts hold handles of the endpoint, and the last handle has gone (S1). A
        // failed close is not retried (H3).
        let left = left || unsafe { T::scalable_close(&this.raw) }.is_err();
        // SAFETY: taken once, here.
        let av = unsafe { ManuallyDrop::take(&mut this.av) };
        if left {
            av.leave();
        }
        drop(av);
        Ended::Free
    }
}

clone_struct!([T: Scalable] ScalableEndpoint['_, T], body, av);

debug_struct!([T: Scalable] ScalableEndpoint['_, T], |it| contexts: it.body.contexts);

impl<'m, T: Scalable> Binding<'m, T, ScalableEndpoint<'m, T>> {
    fn check_context(&self, domain: &Handle<'_, DomainInner<T>>, countable: Counted) -> Result<(), OpenError> {
        let endpoint = &self.to.body;
        if !endpoint.domain.is(domain) {
            return Err(OpenError::OtherDomain);
        }
        if !domain.is_here() {
            return Err(OpenError::OtherProcess);
        }
        self.counters.check(domain, endpoint.info.caps())?;
        let all = self.counters.raw().iter().fold(Counted::empty(), |all, (counted, _)| all | *counted);
        if countable.contains(all) { Ok(()) } else { Err(OpenError::Counters) }
    }
}

const TX_COUNTABLE: Counted = Counted::SEND.union(Counted::READ).union(Counted::WRITE);

/// A transmit context of a [`ScalableEndpoint`]. Sends, reads and writes are ordered within a
/// context, not between contexts.
///
/// A destination is a [`Peer`](crate::engine::peer_table::Peer), or one of its receive contexts
/// ([`Peer::rx_context`](crate::engine::peer_table::Peer::rx_context)). RMA operations name a
/// context, too: their immediate data completes on its queue.
///
/// Over `sockets`, a dropped context closes at once only after its operations have ended, or as the
/// endpoint's last one, otherwise with its queue. If some never end, because the peer's context is
/// closed, was closed during an operation, or makes no progress, a long-lived queue leaks itself,
/// and a scope ends the process.
///
/// Example: [`TxCtx`].
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_tx_context")]
pub type TxContext<'m, T, B> = Endpoint<'m, T, B, TxCtx<'m, T>>;

/// Endpoint kind of [`TxContext`].
///
/// ```
/// use loom_core::{Error, Forever, Peer, endpoint::TxContext, transport::Scalable};
///
/// /// Sends to the third receive context of a peer.
/// fn send_to_third<T: Scalable>(tx: &TxContext<'_, T, Vec<u8>>, peer: Peer, message: Vec<u8>) -> Result<(), Error> {
///     tx.cq().post(message, Forever, |message| tx.send(peer.rx_context(2), message))?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct TxCtx<'m, T: Scalable> {
    av: Av<'m, T>,
    injects_writes: bool,
}

clone_struct!([T: Scalable] TxCtx['_, T], av, injects_writes);

impl<T: Scalable> Sealed for TxCtx<'_, T> {}
impl<T: Scalable> HasOptions for TxCtx<'_, T> {}

impl<T: Scalable> Transmits<T> for TxCtx<'_, T> {
    type To = RxPeer;

    #[inline]
    fn destination(&self, limits: &Limits, to: RxPeer) -> Result<FabricAddr, PostError> {
        if to.index != 0 {
            limits.admit(Caps::NAMED_RX_CTX, None)?;
        }
        self.av.rx_addr(to)
    }

    fn injects_writes(&self) -> bool {
        self.injects_writes
    }
}

impl<'m, T: Scalable, B: Buffer> Cq<'m, T, B> {
    /// Opens this transmit context, of `&endpoint` or a [`Binding`] with counters, in one of the
    /// queue's endpoint slots.
    ///
    /// # Errors
    /// - [`OpenError::OtherDomain`], [`OpenError::TooManyEndpoints`]
    /// - [`OpenError::Counters`], also for operations of the other direction
    /// - [`OpenError::Errno`]: `EINVAL` beyond the endpoint's contexts, `EBUSY` if the context is
    ///   open, or the last one was closed with operations in flight, or another error of the
    ///   provider
    #[doc(alias = "fi_tx_context")]
    pub fn tx_context(
        &self,
        bind: impl Into<Binding<'m, T, ScalableEndpoint<'m, T>>>,
        index: u16,
    ) -> Result<TxContext<'m, T, B>, OpenError> {
        let bind = bind.into();
        bind.check_context(self.domain(), TX_COUNTABLE)?;
        let (endpoint, options) = (&*bind.to.body, bind.options()?);
        if index >= endpoint.contexts.tx {
            return Err(Errno::EINVAL.into());
        }
        let bonds = bind.bonds(Some(bind.to.body.bond()));
        let opened = Opened::open(self, &endpoint.info, ReceiveMode::Nowhere, bonds, |tx, _| {
            let bind = ContextBindings { cq: tx, counters: &bind.counters.raw(), options };
            // SAFETY: endpoint, queue and counters are open (H1) and outlive the context: the queue
            // closes it before itself (S1), the others stay open and in place while bound (N1,
            // S1, S2).
            unsafe { T::tx_context_open(&endpoint.raw, index, bind) }
        })?;
        let kind = TxCtx { av: bind.to.av.clone(), injects_writes: T::injects_writes(&endpoint.raw) };
        Ok(Endpoint { opened, kind })
    }
}

const RX_COUNTABLE: Counted = Counted::RECV.union(Counted::REMOTE_READ).union(Counted::REMOTE_WRITE);

/// A receive context of a [`ScalableEndpoint`], for peers' messages to its number and RMA
/// operations.
///
/// A dropped context cancels its receives. Over `sockets`, closing it during a message blocks that
/// peer's messages to other contexts until the scalable endpoint closes.
///
/// Example: [`RxCtx`].
///
/// # References
/// - `man fi_endpoint`, *scalable endpoints*
#[doc(alias = "fi_rx_context")]
pub type RxContext<'m, T, B> = Endpoint<'m, T, B, RxCtx<'m, T>>;

/// Endpoint kind of [`RxContext`].
///
/// ```
/// use loom_core::{Endpoint, Error, Forever, Source, endpoint::RxCtx, transport::Scalable};
///
/// /// The next message of a receive context. It has no `send`, which is a transmit context's.
/// fn next<'m, T: Scalable>(rx: &Endpoint<'m, T, Vec<u8>, RxCtx<'m, T>>) -> Result<Vec<u8>, Error> {
///     let received = rx.recv(Source::Any, vec![0; 4096])?;
///     let (mut message, transfer) = rx.cq().finish(received, Forever)?.into_result()?;
///     message.truncate(transfer.len);
///     Ok(message)
/// }
/// ```
#[derive(Debug)]
pub struct RxCtx<'m, T: Scalable> {
    av: Av<'m, T>,
}

clone_struct!([T: Scalable] RxCtx['_, T], av);

impl<T: Scalable> Sealed for RxCtx<'_, T> {}
impl<T: Scalable> HasOptions for RxCtx<'_, T> {}
impl<T: Scalable> Peeks<T> for RxCtx<'_, T> {}

impl<T: Scalable> Receives<T> for RxCtx<'_, T> {
    type From = Source;

    const ANY: Source = Source::Any;

    #[inline]
    fn source(&self, limits: &Limits, from: Source) -> Result<FabricAddr, PostError> {
        from.address(limits, &self.av)
    }
}

impl<'m, T: Scalable, B: Buffer> Cq<'m, T, B> {
    /// Opens this receive context, of `&endpoint` or a [`Binding`] with counters, in one of the
    /// queue's endpoint slots.
    ///
    /// # Errors
    /// Those of [`Cq::tx_context`](crate::cq::Cq::tx_context).
    #[doc(alias = "fi_rx_context")]
    pub fn rx_context(
        &self,
        bind: impl Into<Binding<'m, T, ScalableEndpoint<'m, T>>>,
        index: u16,
    ) -> Result<RxContext<'m, T, B>, OpenError> {
        let bind = bind.into();
        bind.check_context(self.domain(), RX_COUNTABLE)?;
        let (endpoint, options) = (&*bind.to.body, bind.options()?);
        if index >= endpoint.contexts.rx {
            return Err(Errno::EINVAL.into());
        }
        let bonds = bind.bonds(Some(bind.to.body.bond()));
        let opened = Opened::open(self, &endpoint.info, ReceiveMode::Itself, bonds, |_, rx| {
            let bind = ContextBindings { cq: rx, counters: &bind.counters.raw(), options };
            // SAFETY: see `tx_context`.
            unsafe { T::rx_context_open(&endpoint.raw, index, bind) }
        })?;
        opened.endpoint_slot().settles.set(true);
        Ok(Endpoint { opened, kind: RxCtx { av: bind.to.av.clone() } })
    }
}

use loom_core::atomic::AnyOperation;
use loom_core::buffer::{SourceBuffer, TargetBuffer};
use loom_core::endpoint::{Endpoint, Granted, Receives, RecvOptions, SendOptions, Transmits};
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::mr::RemoteRegion;
use loom_core::transport::Transport;
use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};

/// Operation posted later: the method's arguments without the buffer.
///
/// ```
/// use loom_deferred::{Deferred, DeferredEvent, Work};
/// use loom_core::{Access, Av, Binding, Counted, Counter, CounterAttr, Cq, Domain, Forever, Mr, Source};
///
/// # fixture::queue!(network, domain, av, cq);
/// # let received = Counter::open(&domain, CounterAttr::default())?;
/// # let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
/// # let alice = cq.endpoint(&av)?;
/// # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
/// # let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// # let deferred = Deferred::open(&cq, 8)?;
/// // When bob has received the message, he writes to alice's memory.
/// let write = Work::Write { peer: to_alice, region: region.remote(), offset: 0, data: None };
/// let written = deferred.post((&received, 1), &bob, write, vec![7; 8])?;
/// bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// loop {
///     if let Some(DeferredEvent::Done(key, done)) = deferred.poll()? {
///         done.result()?;
///         assert_eq!(key, written);
///         break;
///     }
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_trigger_op")]
#[non_exhaustive]
pub enum Work<To, From> {
    /// [`Endpoint::send_with`].
    #[doc(alias = "FI_OP_SEND")]
    Send {
        /// Receiver.
        to: To,
        /// Options.
        options: SendOptions,
    },
    /// [`Endpoint::tagged_send_with`].
    #[doc(alias = "FI_OP_TSEND")]
    TaggedSend {
        /// Receiver.
        to: To,
        /// Tag of the message.
        tag: Tag,
        /// Options.
        options: SendOptions,
    },
    /// [`Endpoint::recv_with`].
    #[doc(alias = "FI_OP_RECV")]
    Recv {
        /// Sources.
        from: From,
    },
    /// [`Endpoint::tagged_recv_with`].
    #[doc(alias = "FI_OP_TRECV")]
    TaggedRecv {
        /// Sources.
        from: From,
        /// Tags.
        tag: TagMatch,
    },
    /// [`Endpoint::read`].
    #[doc(alias = "FI_OP_READ")]
    Read {
        /// Owner of the memory.
        peer: To,
        /// Memory.
        region: RemoteRegion,
        /// Offset in the region, in bytes.
        offset: u64,
    },
    /// [`Endpoint::write`], or [`Endpoint::write_data`].
    #[doc(alias = "FI_OP_WRITE")]
    Write {
        /// Owner of the memory.
        peer: To,
        /// Memory.
        region: RemoteRegion,
        /// Offset in the region, in bytes.
        offset: u64,
        /// Immediate data.
        data: Option<ImmediateData>,
    },
    /// [`Endpoint::atomic`].
    #[doc(alias = "FI_OP_ATOMIC")]
    #[doc(alias = "FI_OP_FETCH_ATOMIC")]
    #[doc(alias = "FI_OP_COMPARE_ATOMIC")]
    Atomic {
        /// Owner of the memory.
        peer: To,
        /// Memory.
        region: RemoteRegion,
        /// Offset in the region, in bytes.
        offset: u64,
        /// Granted operation.
        op: Granted<AnyOperation>,
    },
}

impl<To, From> Work<To, From> {
    /// Send with default options.
    pub fn send(to: impl Into<To>) -> Self {
        Work::Send { to: to.into(), options: SendOptions::default() }
    }

    /// Tagged send with default options.
    pub fn tagged_send(to: impl Into<To>, tag: Tag) -> Self {
        Work::TaggedSend { to: to.into(), tag, options: SendOptions::default() }
    }

    /// Receive.
    pub fn recv(from: impl Into<From>) -> Self {
        Work::Recv { from: from.into() }
    }

    /// Tagged receive.
    pub fn tagged_recv(from: impl Into<From>, tag: impl Into<TagMatch>) -> Self {
        Work::TaggedRecv { from: from.into(), tag: tag.into() }
    }

    pub(crate) fn post<T, B, K>(&self, endpoint: &Endpoint<'_, T, B, K>, buf: B) -> Result<OpKey, Rejected<B>>
    where
        T: Transport,
        B: SourceBuffer + TargetBuffer,
        K: Transmits<T, To = To> + Receives<T, From = From>,
        To: Copy,
        From: Copy,
    {
        match *self {
            Work::Send { to, options } => endpoint.send_with(to, options, buf),
            Work::TaggedSend { to, tag, options } => endpoint.tagged_send_with(to, tag, options, buf),
            Work::Recv { from } => endpoint.recv_with(from, RecvOptions::default(), buf),
            Work::TaggedRecv { from, tag } => endpoint.tagged_recv_with(from, tag, RecvOptions::default(), buf),
            Work::Read { peer, region, offset } => endpoint.read(peer, &region, offset, buf),
            Work::Write { peer, region, offset, data: None } => endpoint.write(peer, &region, offset, buf),
            Work::Write { peer, region, offset, data: Some(data) } => {
                endpoint.write_data(peer, &region, offset, data, buf)
            }
            Work::Atomic { peer, region, offset, op } => endpoint.atomic(peer, &region, offset, op, buf),
        }
    }
}

use crate::vocabulary::{ImmediateData, OpFlags};

/// Event that completes a send or write.
///
/// ```
/// use loom_core::{CompletionLevel, Forever, SendOptions, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// // The send is over when the message is in the peer's buffer, and not before.
/// let delivered = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
/// let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.send_with(to_bob, delivered, message))?;
/// cq.finish(sent, Forever)?.result()?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionLevel {
    /// The buffer could be reused.
    #[doc(alias = "FI_INJECT_COMPLETE")]
    Inject,
    /// The operation no longer depends on this side.
    #[doc(alias = "FI_TRANSMIT_COMPLETE")]
    Transmit,
    /// The data has arrived at the peer: in its memory, or in a buffer of its application.
    #[doc(alias = "FI_DELIVERY_COMPLETE")]
    Delivery,
}

impl CompletionLevel {
    /// Includes levels that exist only as defaults of endpoints.
    pub(crate) const ALL: OpFlags = OpFlags::INJECT_COMPLETE
        .union(OpFlags::TRANSMIT_COMPLETE)
        .union(OpFlags::DELIVERY_COMPLETE)
        .union(OpFlags::COMMIT_COMPLETE)
        .union(OpFlags::MATCH_COMPLETE);

    const fn flag(self) -> OpFlags {
        match self {
            CompletionLevel::Inject => OpFlags::INJECT_COMPLETE,
            CompletionLevel::Transmit => OpFlags::TRANSMIT_COMPLETE,
            CompletionLevel::Delivery => OpFlags::DELIVERY_COMPLETE,
        }
    }
}

/// Options of a send or an RMA write, by default those of the endpoint.
///
/// ```
/// use loom_core::{CompletionLevel, Forever, ImmediateData, SendOptions, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// // The message carries immediate data. The send completes when the message has arrived.
/// let options = SendOptions { data: Some(ImmediateData(7)), level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
/// let sent = cq.post(b"hello".to_vec(), Forever, |message| alice.send_with(to_bob, options, message))?;
/// cq.finish(sent, Forever)?.result()?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.data, Some(ImmediateData(7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SendOptions {
    /// Immediate data.
    ///
    /// ```
    /// use loom_core::{Forever, ImmediateData, SendOptions, Source};
    ///
    /// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// let numbered = SendOptions { data: Some(ImmediateData(7)), ..SendOptions::default() };
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send_with(to_bob, numbered, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.result()?.data, Some(ImmediateData(7)));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "FI_REMOTE_CQ_DATA")]
    pub data: Option<ImmediateData>,
    /// Announces that more operations follow immediately. The provider may delay this one until
    /// then.
    #[doc(alias = "FI_MORE")]
    pub more: bool,
    /// Begins after all operations to the same peer that were posted before, where the provider
    /// grants [`Caps::FENCE`](crate::vocabulary::Caps::FENCE).
    #[doc(alias = "FI_FENCE")]
    pub fence: bool,
    /// Completion level, by default that of the endpoint.
    pub level: Option<CompletionLevel>,
}

impl SendOptions {
    pub(crate) fn flags(self) -> OpFlags {
        flags(self.more, self.fence, self.level)
    }
}

fn flags(more: bool, fence: bool, level: Option<CompletionLevel>) -> OpFlags {
    let mut flags = level.map_or(OpFlags::empty(), CompletionLevel::flag);
    flags.set(OpFlags::MORE, more);
    flags.set(OpFlags::FENCE, fence);
    flags
}

/// Options of an RMA read, by default those of the endpoint.
///
/// ```
/// use loom_core::{Access, Forever, Mr, endpoint::ReadOptions};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let memory = Mr::open(&domain, (0..64).collect::<Vec<u8>>(), Access::REMOTE_READ)?;
/// // The first read takes two parts of the peer's memory. A second read follows at once.
/// let part = |offset| memory.remote().part(offset, 2).expect("it has 64 bytes");
/// let parts = [part(0), part(32)];
/// let more = ReadOptions { more: true, ..ReadOptions::default() };
/// let first = cq.post(vec![0; 4], Forever, |room| alice.read_with(to_bob, &parts, more, room))?;
/// let second = cq.post(vec![0; 4], Forever, |room| alice.read(to_bob, &memory.remote(), 60, room))?;
/// assert_eq!(cq.finish(first, Forever)?.into_buf(), [0, 1, 32, 33]);
/// assert_eq!(cq.finish(second, Forever)?.into_buf(), [60, 61, 62, 63]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ReadOptions {
    /// [`SendOptions::more`] for a read.
    #[doc(alias = "FI_MORE")]
    pub more: bool,
    /// [`SendOptions::fence`] for a read.
    #[doc(alias = "FI_FENCE")]
    pub fence: bool,
}

impl ReadOptions {
    pub(crate) fn flags(self) -> OpFlags {
        flags(self.more, self.fence, None)
    }
}

/// Options of an atomic operation, by default those of the endpoint.
///
/// ```
/// use loom_core::{Access, Caps, CompletionLevel, Forever, Mr, atomic::BaseOp, endpoint::AtomicOptions};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob; Caps::MSG | Caps::ATOMIC);
/// let memory = Mr::open(&domain, vec![3; 4], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// let (add, part) = (domain.query_atomic(BaseOp::<u8>::SUM)?, memory.remote().part(0, 4).expect("it has 4 bytes"));
/// // The operation completes when the peer's memory has changed.
/// let options = AtomicOptions { level: Some(CompletionLevel::Delivery), ..AtomicOptions::default() };
/// let post = |operands| alice.atomic_with(to_bob, &[part], add, options, operands);
/// let added = cq.post(vec![1, 2, 3, 4], Forever, post)?;
/// cq.finish(added, Forever)?.result()?;
/// let mut bytes = [0; 4];
/// memory.window().copy_to(0, &mut bytes)?;
/// assert_eq!(bytes, [4, 5, 6, 7]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AtomicOptions {
    /// [`SendOptions::more`] for an atomic operation.
    #[doc(alias = "FI_MORE")]
    pub more: bool,
    /// [`SendOptions::fence`] for an atomic operation.
    #[doc(alias = "FI_FENCE")]
    pub fence: bool,
    /// Completion level of a non-fetching operation.
    pub level: Option<CompletionLevel>,
}

impl AtomicOptions {
    pub(crate) fn flags(self) -> OpFlags {
        flags(self.more, self.fence, self.level)
    }
}

/// Options of a receive, by default those of the endpoint.
///
/// ```
/// use loom_core::{Forever, Source, endpoint::RecvOptions};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The provider may wait until the last of three receives is posted.
/// let more = RecvOptions { more: true };
/// let first = bob.recv_with(Source::Any, more, vec![0; 5])?;
/// bob.recv_with(Source::Any, more, vec![0; 5])?;
/// bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// assert_eq!(cq.finish(first, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RecvOptions {
    /// Announces that more receives follow immediately.
    #[doc(alias = "FI_MORE")]
    pub more: bool,
}

impl RecvOptions {
    pub(crate) fn flags(self) -> OpFlags {
        flags(self.more, false, None)
    }
}

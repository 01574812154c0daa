#![allow(unsafe_code, reason = "keeps the queue whose table a piece refers to")]

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::Cq;
use crate::buffer::Buffer;
use crate::engine::op_table::{self, Done, Fetched, OpError, OpKey, Peek};
use crate::storage::handle::{Erased, Head};
use crate::transport::{Event, Transport};
use crate::util::debug::debug_struct;
use crate::vocabulary::{CompletionFlags, FabricAddr, ImmediateData};

/// A peer's RMA write to this side's memory with immediate data.
///
/// ```
/// use loom_core::{Access, Completion, Forever, ImmediateData, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
/// let write = |part| alice.write_data(to_bob, &region.remote(), 8, ImmediateData(7), part);
/// cq.post(vec![1; 16], Forever, write)?;
/// // The peer's queue reports the write. Here it is the same queue, which reports the end of the operation, too.
/// let event = loop {
///     if let Some(Completion::Remote(event)) = cq.poll()? {
///         break event;
///     }
/// };
/// assert_eq!(event.data(), Some(ImmediateData(7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RemoteEvent {
    /// Kind of operation.
    pub flags: CompletionFlags,
    /// Bytes written, or zero if not reported.
    pub len: usize,
    /// Valid only with the flag `REMOTE_CQ_DATA`.
    data: ImmediateData,
    source: FabricAddr,
}

impl RemoteEvent {
    pub(crate) const fn of(event: &Event) -> Self {
        RemoteEvent { flags: event.flags, len: event.len, data: event.data, source: event.source }
    }

    /// Immediate data of the peer.
    #[must_use]
    pub fn data(&self) -> Option<ImmediateData> {
        self.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(self.data)
    }

    /// Address of the peer, where the provider grants `SOURCE`.
    #[must_use]
    pub fn source(&self) -> Option<FabricAddr> {
        (self.source != FabricAddr::UNSPEC).then_some(self.source)
    }
}

debug_struct!(RemoteEvent, |it| flags: it.flags, len: it.len, data: it.data(), source: it.source());

/// Item that a completion queue reports.
///
/// ```
/// use loom_core::{Access, Completion, Forever, ImmediateData, Mr};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE)?;
/// cq.post(vec![1; 8], Forever, |bytes| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(7), bytes))?;
/// let (mut written, mut told) = (false, false);
/// while !written || !told {
///     match cq.poll()? {
///         Some(Completion::Op(done)) => written = done.into_result().is_ok(),
///         Some(Completion::Remote(event)) => told = event.data() == Some(ImmediateData(7)),
///         _ => {}
///     }
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it may hold a buffer"]
#[non_exhaustive]
pub enum Completion<'m, B> {
    /// Completed operation.
    Op(Done<B>),
    /// A message arrived in the buffer of a [multi-receive](crate::endpoint::Endpoint::multi_recv).
    Piece(Piece<'m, B>),
    /// A [peek](crate::endpoint::Endpoint::tagged_peek) was answered.
    Peek(Peek),
    /// An atomic operation such as
    /// [`Endpoint::fetch_value`](crate::endpoint::Endpoint::fetch_value), or a collective such as
    /// [`CollectiveGroup::barrier`](crate::endpoint::CollectiveGroup::barrier), completed.
    Value(Fetched),
    /// Peer's write with immediate data.
    Remote(RemoteEvent),
    /// Failed operation without a key: an injected message, an [unsignaled
    /// operation](crate::endpoint::Endpoint::send_unsignaled), or a write of a peer that
    /// disappeared.
    Unclaimed(OpError),
}

/// A message in the buffer of a multi-receive.
///
/// The buffer completes once the provider has released it and all pieces are dropped. A piece keeps
/// its queue open.
///
/// ```
/// use loom_core::{Completion, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.multi_recv(Source::Any, vec![0; 4096])?;
/// alice.inject(to_bob, b"hello")?;
/// let Some(Completion::Piece(piece)) = cq.poll()? else { panic!("a message") };
/// assert_eq!((piece.key(), piece.bytes()), (received, &b"hello"[..]));
/// // The buffer completes when the receive has ended and its pieces are dropped.
/// bob.cancel(received)?;
/// assert!(cq.poll()?.is_none());
/// drop(piece);
/// let Some(Completion::Op(done)) = cq.poll()? else { panic!("the buffer") };
/// assert_eq!(done.buf().len(), 4096);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "it holds a message"]
pub struct Piece<'m, B> {
    piece: ManuallyDrop<op_table::Piece<'m, B>>,
    queue: ManuallyDrop<Erased>,
}

impl<B> Drop for Piece<'_, B> {
    // Inlined, with parts by value, to keep other completions out of memory.
    #[inline(always)]
    fn drop(&mut self) {
        /// # Safety
        /// The caller gives up `queue`, a handle of the queue with this table.
        #[cold]
        #[inline(never)]
        unsafe fn give_back<B>((table, key): (NonNull<op_table::OpTable<B>>, OpKey), queue: NonNull<Head>) {
            // SAFETY: the caller gives up this handle.
            let queue = unsafe { Erased::from_raw(queue) };
            // SAFETY: the table lies in the block that the handle keeps.
            let table = unsafe { table.as_ref() };
            table.give_back(key);
            table.wake_driver();
            drop(queue);
        }
        // SAFETY: both are this value's own, and are not used after this.
        unsafe { give_back(self.piece.place(), self.queue.as_raw()) };
    }
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    #[cold]
    #[inline(never)]
    pub(super) fn piece(&self, piece: op_table::Piece<'_, B>) -> Piece<'m, B> {
        // SAFETY: the new handle keeps the table's queue open.
        let piece = unsafe { piece.extended() };
        Piece { piece: ManuallyDrop::new(piece), queue: ManuallyDrop::new(self.body.erased()) }
    }
}

impl<'m, B> Deref for Piece<'m, B> {
    type Target = op_table::Piece<'m, B>;

    fn deref(&self) -> &Self::Target {
        &self.piece
    }
}

debug_struct!([B] Piece['_, B], |it| key: it.key(), result: it.result());

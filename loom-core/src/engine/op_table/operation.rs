use crate::error::{PostError, Rejected};
use core::fmt;

use crate::transport::Context;
use crate::vocabulary::CompletionFlags;

/// Name of a posted operation.
///
/// Valid for the queue of the post until the completion is taken, and unknown afterwards.
///
/// ```
/// use std::collections::HashMap;
/// use loom_core::{Completion, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The program's own data for each operation.
/// let mut names = HashMap::from([(bob.recv(Source::Any, vec![0; 5])?, "greeting")]);
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let key = loop {
///     if let Some(Completion::Op(done)) = cq.poll()? { break done.key(); }
/// };
/// assert_eq!(names.remove(&key), Some("greeting"));
/// assert!(bob.cancel(key).is_err(), "it is completed");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpKey(u64);

impl OpKey {
    pub(super) const fn before_first(index: u32) -> Self {
        OpKey((u32::MAX as u64) << 32 | index as u64)
    }

    #[inline]
    pub(super) const fn next(self) -> Self {
        OpKey(self.0.wrapping_add(2 << 32))
    }

    #[inline]
    pub(super) const fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) const fn from_word(word: u64) -> Self {
        OpKey(word)
    }

    /// Index of the operation's slot, below [`Cq::capacity`](crate::cq::Cq::capacity).
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half of the word")]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    pub(super) const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index(), self.generation())
    }
}

impl fmt::Debug for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpKey({self})")
    }
}

/// Side of a transfer, and so the provider queue that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sends, reads and writes.
    Transmit,
    /// Receives.
    Receive,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Transmit, Direction::Receive];

    pub(super) const fn list(self) -> usize {
        self as usize
    }
}

/// Kind of an operation.
///
/// ```
/// use loom_core::engine::op_table::{Direction, Kind};
///
/// // An RMA read fills its buffer, and completes on the transmit queue.
/// assert_eq!(Kind::Read.direction(), Direction::Transmit);
/// assert_eq!(Kind::MultiReceive.direction(), Direction::Receive);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Send or write: the buffer is read.
    Send,
    /// Read: a transmit that writes its buffer.
    Read,
    /// Atomic operation on a value: a transmit without a buffer.
    Value,
    /// Receive: the buffer is written.
    Receive,
    /// Receive of a tagged message.
    TaggedReceive,
    /// Receive of several messages into one buffer.
    MultiReceive,
    /// Peek at a message that has arrived.
    Peek,
    /// Peek that claims its message.
    PeekClaim,
    /// The table's own receive, without a buffer.
    Spare,
}

impl Kind {
    /// Direction of the queue that reports the operation.
    #[inline]
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Kind::Send | Kind::Read | Kind::Value => Direction::Transmit,
            _ => Direction::Receive,
        }
    }

    pub(super) const fn flags(self) -> CompletionFlags {
        match self {
            Kind::Send => CompletionFlags::SEND,
            Kind::Read => CompletionFlags::READ,
            Kind::Value => CompletionFlags::ATOMIC,
            Kind::Receive | Kind::TaggedReceive | Kind::Peek | Kind::PeekClaim | Kind::Spare => CompletionFlags::RECV,
            Kind::MultiReceive => CompletionFlags::RECV.union(CompletionFlags::MULTI_RECV),
        }
    }
}

/// Operation in flight.
///
/// ```
/// # #![allow(unsafe_code)]
/// use loom_core::engine::op_table::Kind;
/// # use loom_core::engine::op_table::{ContextKind, OpTable, Slot};
///
/// # let mut table = Box::<OpTable<Vec<u8>, [Slot<_>; 4]>>::new_uninit();
/// # // SAFETY: the box has room for the table.
/// # unsafe { OpTable::init(table.as_mut_ptr(), ContextKind::Word, 8, 0) };
/// # // SAFETY: `init` has written the table.
/// # let table: Box<OpTable<Vec<u8>>> = unsafe { table.assume_init() };
/// // A receive on endpoint 1, and a send on endpoint 2.
/// table.post(1, Kind::Receive, vec![0; 64], |_, _| Ok(()))?;
/// table.post(2, Kind::Send, vec![7; 8], |_, _| Ok(()))?;
/// // What has to end before endpoint 1 can be closed.
/// let receives = table.posted_on(1).filter(|posted| posted.kind == Kind::Receive);
/// assert_eq!(receives.map(|posted| posted.len).sum::<usize>(), 64);
/// # // SAFETY: no transport has a buffer.
/// # unsafe { table.drop_buffers() };
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Key of the operation.
    pub key: OpKey,
    /// Kind of the operation.
    pub kind: Kind,
    /// Number of lent bytes.
    pub len: usize,
    /// Context passed to the provider.
    pub context: Context,
}

/// Kind of an operation's context (rule 3).
///
/// ```
/// use loom_core::{engine::op_table::ContextKind, vocabulary::Mode};
///
/// /// What contexts are in a domain, by what its provider asks for.
/// fn contexts(mode: Mode) -> ContextKind {
///     if mode.intersects(Mode::CONTEXT | Mode::CONTEXT2) { ContextKind::Space } else { ContextKind::Word }
/// }
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// assert_eq!(contexts(network.info().attributes().mode), ContextKind::Word);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextKind {
    /// Number that the provider leaves alone.
    Word,
    /// Address of scratch space for the provider (`FI_CONTEXT`, `FI_CONTEXT2`).
    Space,
}

const _: () = {
    type Posted = Result<OpKey, Rejected<&'static [u8]>>;
    assert!(size_of::<Posted>() == size_of::<&[u8]>() + size_of::<PostError>());
};

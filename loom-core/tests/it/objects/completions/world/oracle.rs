//! Meaning of an event by the man pages and the promises of the types: derived from the event and
//! the state of its operation.

use loom_core::completion::{Found, OpError, RemoteEvent, Transfer};
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr, ImmediateData, Tag};

use super::story::Posting;

const PEERS: CompletionFlags = CompletionFlags::REMOTE_READ.union(CompletionFlags::REMOTE_WRITE);

/// Reported fields of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    pub flags: CompletionFlags,
    pub len: usize,
    pub tag: Option<Tag>,
    pub data: Option<ImmediateData>,
    pub source: Option<FabricAddr>,
}

pub type Ending = Result<Told, OpError>;

impl From<Transfer> for Told {
    fn from(transfer: Transfer) -> Self {
        Told {
            flags: transfer.flags,
            len: transfer.len,
            tag: transfer.tag,
            data: transfer.data,
            source: transfer.source,
        }
    }
}

impl From<RemoteEvent> for Told {
    fn from(event: RemoteEvent) -> Self {
        Told { flags: event.flags, len: event.len, tag: None, data: event.data(), source: event.source() }
    }
}

/// Reported fields of a found message, without the claim.
pub fn found(found: Found) -> (usize, Tag, Option<ImmediateData>) {
    (found.len, found.tag, found.data)
}

impl Posting {
    pub fn is_receive(self) -> bool {
        !matches!(self, Posting::Send | Posting::Gather | Posting::Write | Posting::Read)
    }

    pub fn is_peek(self) -> bool {
        matches!(self, Posting::Peek | Posting::PeekClaim | Posting::PeekDiscard)
    }

    /// Flags of a cancelled operation.
    pub fn cut_off_flags(self) -> CompletionFlags {
        match self {
            Posting::Send | Posting::Gather | Posting::Write => CompletionFlags::SEND,
            Posting::Read => CompletionFlags::READ,
            Posting::MultiReceive => CompletionFlags::RECV | CompletionFlags::MULTI_RECV,
            _ => CompletionFlags::RECV,
        }
    }

    /// Flags that providers set.
    pub fn usual_flags(self) -> CompletionFlags {
        match self {
            Posting::Send | Posting::Gather => CompletionFlags::MSG | CompletionFlags::SEND,
            Posting::Write => CompletionFlags::RMA | CompletionFlags::WRITE,
            Posting::Read => CompletionFlags::RMA | CompletionFlags::READ,
            Posting::Receive | Posting::Scatter | Posting::MultiReceive => CompletionFlags::MSG | CompletionFlags::RECV,
            _ => CompletionFlags::TAGGED | CompletionFlags::RECV,
        }
    }
}

/// Checks that the event is a peer's operation on this side's memory.
pub fn is_peers(event: &Event) -> bool {
    !event.is_error() && event.flags.intersects(PEERS)
}

fn data(event: &Event) -> Option<ImmediateData> {
    event.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(event.data)
}

pub fn of_peer(event: &Event) -> Told {
    let source = Some(event.source).filter(|source| *source != FabricAddr::UNSPEC);
    Told { flags: event.flags, len: event.len, tag: None, data: data(event), source }
}

/// A transfer by its flags. Fields without a flag are noise.
pub fn transfer(event: &Event, len: usize) -> Told {
    let received = event.flags.contains(CompletionFlags::RECV);
    let tagged = received && event.flags.contains(CompletionFlags::TAGGED);
    Told {
        flags: event.flags,
        len,
        tag: tagged.then_some(event.tag),
        data: data(event).filter(|_| received),
        source: Some(event.source).filter(|source| received && *source != FabricAddr::UNSPEC),
    }
}

pub fn error(event: &Event, errno: Errno, len: usize, overflow: usize) -> OpError {
    let told = transfer(event, len);
    OpError {
        errno,
        provider_errno: event.provider_errno,
        len: (len > 0 || overflow > 0).then_some(len),
        overflow: (overflow > 0).then_some(overflow),
        flags: event.flags,
        tag: told.tag.unwrap_or(Tag(0)),
        data: data(event).unwrap_or(ImmediateData(0)),
    }
}

/// End of an operation that completes with its first event. It was lent `lent` bytes behind a
/// prefix of `prefix` bytes.
pub fn ending(event: &Event, what: Posting, lent: usize, prefix: usize) -> Ending {
    let len = if what.is_receive() { event.len.saturating_sub(prefix) } else { event.len };
    if event.is_error() {
        let mut event = *event;
        event.flags.remove(CompletionFlags::MULTI_RECV);
        let is_whole = event.errno == Errno::ETRUNC && len > lent && what.is_receive();
        let overflow = if is_whole { len - lent } else { event.overflow_or_place };
        return Err(error(&event, event.errno, len.min(lent), overflow));
    }
    match len.checked_sub(lent) {
        // Only events of receives have lengths.
        _ if !what.is_receive() => Ok(transfer(event, lent)),
        None | Some(0) => Ok(transfer(event, len)),
        Some(beyond) => {
            let truncated = Event { provider_errno: Errno::ETRUNC.as_raw(), ..*event };
            Err(error(&truncated, Errno::ETRUNC, lent, beyond))
        }
    }
}

/// A message in the buffer of a multi-receive, which begins at `first`.
pub fn piece(event: &Event, first: usize, lent: usize) -> Ending {
    if event.is_error() {
        return Err(error(event, event.errno, event.len.min(lent), event.overflow_or_place));
    }
    let begin = event.overflow_or_place as u128;
    let within = begin >= first as u128 && begin + event.len as u128 <= first as u128 + lent as u128;
    if event.len == 0 || within {
        Ok(transfer(event, event.len))
    } else {
        Err(error(event, Errno::EOTHER, 0, event.len))
    }
}

use crate::atomic::{Atomic, Form};
use crate::engine::op_table::Kind;
use crate::info::Prefixes;
use crate::vocabulary::{AtomicOp, Caps, ImmediateData, OpFlags, Tag, TagMatch};

/// Operation of a post, which decides its capabilities, the access to its buffer, and its kind of
/// slot.
#[derive(Clone, Copy)]
pub(super) enum Op {
    Send { tag: Option<Tag>, data: Option<ImmediateData> },
    Multicast { data: Option<ImmediateData> },
    Recv { tag: Option<TagMatch> },
    MultiRecv { tag: Option<TagMatch> },
    Write { data: Option<ImmediateData> },
    Read,
    Atomic(Atomic),
    Collective,
}

impl Op {
    #[inline(always)]
    pub(super) const fn caps(self) -> Caps {
        const FETCH: Caps = Caps::ATOMIC.union(Caps::WRITE).union(Caps::READ);
        match self {
            Op::Send { tag: None, .. } => Caps::MSG.union(Caps::SEND),
            Op::Send { tag: Some(_), .. } => Caps::TAGGED.union(Caps::SEND),
            Op::Multicast { .. } => Caps::MSG.union(Caps::SEND).union(Caps::MULTICAST),
            Op::Recv { tag: None } => Caps::MSG.union(Caps::RECV),
            Op::Recv { tag: Some(_) } => Caps::TAGGED.union(Caps::RECV),
            Op::MultiRecv { tag: None } => Caps::MSG.union(Caps::RECV).union(Caps::MULTI_RECV),
            Op::MultiRecv { tag: Some(_) } => Caps::TAGGED.union(Caps::RECV).union(Caps::TAGGED_MULTI_RECV),
            Op::Write { .. } => Caps::RMA.union(Caps::WRITE),
            Op::Read => Caps::RMA.union(Caps::READ),
            Op::Atomic(Atomic { form: Form::Base, .. }) => Caps::ATOMIC.union(Caps::WRITE),
            Op::Atomic(Atomic { form: Form::Fetch, op: AtomicOp::READ, .. }) => Caps::ATOMIC.union(Caps::READ),
            Op::Atomic(Atomic { form: Form::Fetch | Form::Compare, .. }) => FETCH,
            Op::Collective => Caps::COLLECTIVE,
        }
    }

    #[inline(always)]
    pub(super) const fn data(self) -> Option<ImmediateData> {
        match self {
            Op::Send { data, .. } | Op::Multicast { data } | Op::Write { data } => data,
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) const fn kind(self) -> Kind {
        match self {
            Op::Send { .. } | Op::Multicast { .. } | Op::Write { .. } => Kind::Send,
            Op::Recv { tag: None } => Kind::Receive,
            Op::Recv { tag: Some(_) } => Kind::TaggedReceive,
            Op::MultiRecv { .. } => Kind::MultiReceive,
            Op::Atomic(Atomic { form: Form::Base, .. }) => Kind::Send,
            // Atomic operations and collectives write the buffer, too.
            Op::Read | Op::Atomic(_) | Op::Collective => Kind::Read,
        }
    }

    /// Required bytes in front of the buffer.
    #[inline(always)]
    pub(super) const fn prefix(self, prefixes: Prefixes) -> usize {
        match self {
            Op::Send { .. } | Op::Multicast { .. } => prefixes.tx,
            Op::Recv { .. } | Op::MultiRecv { .. } => prefixes.rx,
            Op::Write { .. } | Op::Read | Op::Atomic(_) | Op::Collective => 0,
        }
    }

    /// Peers' writes may consume the receive, which is then posted again, with its stored source.
    #[inline(always)]
    pub(super) const fn may_repost(self) -> bool {
        matches!(self, Op::Recv { tag: None })
    }

    #[inline(always)]
    pub(super) const fn buffer_use(self) -> Use {
        if matches!(self.kind(), Kind::Send) { Use::ReadFrom } else { Use::WrittenTo }
    }
}

/// Access of an operation to its buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    ReadFrom,
    WrittenTo,
}

pub(super) const fn with_fence(caps: Caps, flags: OpFlags) -> Caps {
    if flags.contains(OpFlags::FENCE) { caps.union(Caps::FENCE) } else { caps }
}

//! [`Messages`], and posts of all operations.

#![allow(unsafe_code, reason = "implements unsafe traits of the boundary")]

use loom_core::buffer::Lent;
use loom_core::engine::tag_matcher::Want;
use loom_core::transport::{Context, Messages, Msg, Refusal};
use loom_core::vocabulary::{Errno, FabricAddr, ImmediateData, OpFlags, Tag, TagMatch};

use super::{Tcp, TcpEndpoint};
use crate::attr::TcpAttr;
use crate::engine::{MessageKind, Post, Verb};
use crate::memory::Spans;
use crate::wire::{Frame, FrameFlags, Operation};

fn frame_flags(flags: OpFlags) -> FrameFlags {
    let wanted = flags.intersects(OpFlags::DELIVERY_COMPLETE | OpFlags::TRANSMIT_COMPLETE);
    if wanted { FrameFlags::DELIVERY_COMPLETE } else { FrameFlags::empty() }
}

fn message_of(tag: Option<Tag>, data: Option<ImmediateData>) -> (Verb, Operation) {
    let data = data.map(|data| data.0);
    match tag {
        None => (Verb::Message, Operation::Message { data }),
        Some(Tag(tag)) => (Verb::Tagged, Operation::Tagged { tag, data }),
    }
}

/// # Safety
/// The memory is valid until the operation ends (L1).
unsafe fn spans_of(pieces: &[Lent]) -> Result<Spans, Refusal> {
    // SAFETY: the caller guarantees the memory.
    unsafe { Spans::lent(pieces) }.ok_or(Refusal::Errno(Errno::EINVAL))
}

impl TcpEndpoint {
    /// # Safety
    /// The endpoint is open (H1), and spans are valid until the operation ends (L1).
    #[inline]
    pub(super) unsafe fn post(&self, post: Post<'_>) -> Result<(), Refusal> {
        // SAFETY: the caller guarantees that the endpoint is open.
        unsafe { self.engine.get() }?.post(self.index, post)
    }

    /// Posts an operation on one range.
    ///
    /// # Safety
    /// The endpoint is open (H1), and the range valid until the operation ends (L1).
    #[inline]
    pub(super) unsafe fn post_piece(
        &self,
        peer: FabricAddr,
        piece: &Lent,
        (verb, operation): (Verb, Operation),
        context: Context,
    ) -> Result<(), Refusal> {
        let payload = if verb == Verb::Read { 0 } else { piece.len as u64 };
        let post = Post {
            peer: peer.0,
            verb,
            frame: Frame { operation, flags: FrameFlags::empty(), payload },
            // SAFETY: the caller guarantees the memory.
            spans: unsafe { spans_of(core::slice::from_ref(piece)) }?,
            inject: None,
            context: Some(context),
            reports_success: true,
            more: false,
        };
        // SAFETY: the caller guarantees the endpoint and the memory.
        unsafe { self.post(post) }
    }

    /// # Safety
    /// The requirements of [`post`](Self::post).
    pub(super) unsafe fn post_msg(&self, msg: &Msg<'_>, (verb, operation): (Verb, Operation)) -> Result<(), Refusal> {
        let known = OpFlags::COMPLETION
            | OpFlags::MORE
            | OpFlags::INJECT
            | OpFlags::INJECT_COMPLETE
            | OpFlags::TRANSMIT_COMPLETE
            | OpFlags::DELIVERY_COMPLETE
            | OpFlags::REMOTE_CQ_DATA;
        if !known.contains(msg.flags) {
            return Err(Refusal::Errno(Errno::EOPNOTSUPP));
        }
        // SAFETY: the caller guarantees the memory.
        let spans = unsafe { spans_of(msg.pieces) }?;
        let payload = if verb == Verb::Read { 0 } else { spans.left() };
        let post = Post {
            peer: msg.address.0,
            verb,
            frame: Frame { operation, flags: frame_flags(msg.flags), payload },
            spans,
            inject: None,
            context: Some(msg.context),
            reports_success: !self.selective || msg.flags.contains(OpFlags::COMPLETION),
            more: msg.flags.contains(OpFlags::MORE),
        };
        // SAFETY: the caller guarantees the endpoint and the memory.
        unsafe { self.post(post) }
    }

    pub(super) fn injected<'b>(to: FabricAddr, bytes: &'b [u8], (verb, operation): (Verb, Operation)) -> Post<'b> {
        Post {
            peer: to.0,
            verb,
            frame: Frame { operation, flags: FrameFlags::empty(), payload: bytes.len() as u64 },
            spans: Spans::default(),
            inject: Some(bytes),
            context: None,
            reports_success: false,
            more: false,
        }
    }
}

// SAFETY: see `Transport`.
unsafe impl Messages for Tcp {
    #[inline]
    unsafe fn send(
        endpoint: &TcpEndpoint,
        to: FabricAddr,
        piece: &Lent,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_piece(to, piece, message_of(tag, data), context) }
    }

    #[inline]
    unsafe fn inject(
        endpoint: &TcpEndpoint,
        to: FabricAddr,
        bytes: &[u8],
        tag: Option<Tag>,
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if bytes.len() > TcpAttr::INJECT_SIZE {
            return Err(Refusal::Errno(Errno::EINVAL));
        }
        // SAFETY: open (H1), and no memory is lent.
        unsafe { endpoint.post(TcpEndpoint::injected(to, bytes, message_of(tag, data))) }
    }

    #[inline]
    unsafe fn recv(
        endpoint: &TcpEndpoint,
        from: FabricAddr,
        piece: &Lent,
        tag: Option<TagMatch>,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: valid until the operation ends (L1).
        let spans = unsafe { spans_of(core::slice::from_ref(piece)) }?;
        let (kind, want) = want_of(from, tag);
        // SAFETY: open (H1).
        unsafe { endpoint.engine.get() }?.post_receive(endpoint.index, kind, want, spans, context.addr())
    }

    unsafe fn sendmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal> {
        // SAFETY: open (H1), and the memory valid (L1).
        unsafe { endpoint.post_msg(msg, message_of(tag, msg.data)) }
    }

    unsafe fn recvmsg(endpoint: &TcpEndpoint, msg: &Msg<'_>, tag: Option<TagMatch>) -> Result<(), Refusal> {
        let of_waiting = msg.flags & (OpFlags::PEEK | OpFlags::CLAIM | OpFlags::DISCARD);
        if !of_waiting.is_empty() {
            // SAFETY: open (H1).
            let (engine, index, context) = (unsafe { endpoint.engine.get() }?, endpoint.index, msg.context.addr());
            if tag.is_none() || !(of_waiting | OpFlags::COMPLETION | OpFlags::MORE).contains(msg.flags) {
                return Err(Refusal::Errno(Errno::EOPNOTSUPP));
            }
            return if of_waiting.contains(OpFlags::PEEK) {
                engine.peek(index, &want_of(msg.address, tag).1, context, of_waiting)
            } else if of_waiting.contains(OpFlags::DISCARD) {
                engine.discard_claimed(index, context)
            } else {
                // SAFETY: valid until the operation ends (L1).
                engine.fetch_claimed(index, unsafe { spans_of(msg.pieces) }?, context)
            };
        }
        let is_multi = msg.flags.contains(OpFlags::MULTI_RECV);
        if is_multi && (tag.is_some() || msg.pieces.len() != 1) {
            return Err(Refusal::Errno(Errno::EOPNOTSUPP));
        }
        if !(OpFlags::COMPLETION | OpFlags::MORE | OpFlags::MULTI_RECV).contains(msg.flags) {
            return Err(Refusal::Errno(Errno::EOPNOTSUPP));
        }
        // SAFETY: valid until the operation ends (L1).
        let spans = unsafe { spans_of(msg.pieces) }?;
        let (kind, want) = want_of(msg.address, tag);
        // SAFETY: open (H1).
        let engine = unsafe { endpoint.engine.get() }?;
        if is_multi {
            return engine.post_multi_receive(endpoint.index, want, spans, msg.context.addr());
        }
        engine.post_receive(endpoint.index, kind, want, spans, msg.context.addr())
    }
}

fn want_of(source: FabricAddr, tag: Option<TagMatch>) -> (MessageKind, Want) {
    match tag {
        None => (MessageKind::Untagged, Want { tag: TagMatch::ANY, source }),
        Some(tag) => (MessageKind::Tagged, Want { tag, source }),
    }
}

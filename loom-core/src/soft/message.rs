#![allow(unsafe_code, reason = "implements the unsafe trait `Messages`")]

use heapless::Vec;

use super::delivery::receive::{discard_claimed, fetch_claimed, peek, post_receive, receive_msg};
use super::delivery::send::{Outgoing, lose, send, send_msg};
use super::handles::SoftEndpoint;
use super::network::endpoint_state::Report;
use super::network::matching_memory::RecvBuffer;
use super::progress::take_in;
use super::shared::copy::at_most;
use super::transport::Soft;
use crate::buffer::Lent;
use crate::engine::tag_matcher::Want;
use crate::transport::{Context, Messages, Msg, Refusal};
use crate::vocabulary::{Access, CompletionFlags, Errno, FabricAddr, ImmediateData, OpFlags, Tag, TagMatch};

impl Outgoing {
    #[inline]
    fn of(to: FabricAddr, (tag, data): (Option<Tag>, Option<ImmediateData>), lent: &Lent, context: Context) -> Self {
        let (bytes, len) = (lent.ptr.as_ptr(), lent.len);
        let tag = tag.map(|tag| tag.0);
        Outgoing { to: to.0, tag, data, bytes, len, context: Some(context.addr()), delay: None }
    }

    #[inline]
    fn injected(to: FabricAddr, (tag, data): (Option<Tag>, Option<ImmediateData>), bytes: &[u8]) -> Self {
        let (bytes, len) = (bytes.as_ptr(), bytes.len());
        Outgoing { to: to.0, tag: tag.map(|tag| tag.0), data, bytes, len, context: None, delay: None }
    }
}

impl SoftEndpoint<'_> {
    /// # Safety
    /// See [`post_receive`] for `lent`. L2 and L4.
    #[cold]
    #[inline(never)]
    unsafe fn recv_checked(
        &self,
        kind: CompletionFlags,
        want: Want,
        lent: Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: the caller guarantees `lent`, L2 and L4.
        let (ptr, len) = unsafe { self.apply_modes(&lent, Access::RECV, context) }?;
        let room = RecvBuffer { ptr, len, context: context.addr(), min_left: 0 };
        // SAFETY: the caller guarantees the buffer.
        unsafe { post_receive(&self.net, self.port(), kind, want, room) }
    }

    /// # Safety
    /// See [`send`] for `lent`. L2 and L4.
    #[cold]
    #[inline(never)]
    unsafe fn send_checked(
        &self,
        to: FabricAddr,
        with: (Option<Tag>, Option<ImmediateData>),
        lent: Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        self.meets(to)?;
        // SAFETY: the caller guarantees `lent`, L2 and L4.
        let (bytes, len) = unsafe { self.apply_modes(&lent, Access::SEND, context) }?;
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.send_amid_faults(Outgoing { bytes, len, ..Outgoing::of(to, with, &lent, context) }) }
    }

    /// # Safety
    /// See [`send`], for as many bytes as can be injected behind the prefix.
    #[cold]
    #[inline(never)]
    unsafe fn inject_checked(
        &self,
        to: FabricAddr,
        with: (Option<Tag>, Option<ImmediateData>),
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        self.meets(to)?;
        self.refuse_or_kill()?;
        let message = bytes.get(self.port().own().modes.get().prefix()..).ok_or(Refusal::Errno(Errno::EINVAL))?;
        // SAFETY: the caller passes at most the injectable bytes behind the prefix.
        unsafe { self.send_amid_faults(Outgoing::injected(to, with, message)) }
    }

    /// # Safety
    /// See [`send`].
    unsafe fn send_amid_faults(&self, outgoing: Outgoing) -> Result<(), Refusal> {
        if let Some(lost) = lose(self.port().own(), outgoing.context, outgoing.sent()) {
            return lost;
        }
        let outgoing = Outgoing { delay: self.port().own().faults().delay(), ..outgoing };
        // SAFETY: the caller guarantees the bytes.
        unsafe { send(&self.net, self.port(), outgoing, Report::All) }
    }
}

fn min_left(endpoint: &SoftEndpoint<'_>, flags: OpFlags) -> Result<usize, Refusal> {
    if !flags.contains(OpFlags::MULTI_RECV) {
        return Ok(0);
    }
    let own = endpoint.port().own();
    let modes = own.modes.get();
    if modes.prefix() > 0 || modes.consumes_receives() {
        return Err(Refusal::Errno(Errno::EINVAL));
    }
    Ok(own.min_left.get())
}

// SAFETY: see the implementation of `Transport`.
unsafe impl<'n> Messages for Soft<'n> {
    // Always inlined, like `inject` and `recv`: posts on one thread take 20 to 70 instructions
    // less.
    #[inline(always)]
    unsafe fn send(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        lent: &Lent,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: L1 for the buffer, L2 and L4 for the post.
            return unsafe { endpoint.send_checked(to, (tag, data), *lent, context) };
        }
        let outgoing = Outgoing::of(to, (tag, data), lent, context);
        // SAFETY: the buffer is valid (L1).
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline(always)]
    unsafe fn inject(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        bytes: &[u8],
        tag: Option<Tag>,
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: `bytes` has at most `inject_size` bytes, the eager size, and a prefix.
            return unsafe { endpoint.inject_checked(to, (tag, data), bytes) };
        }
        let outgoing = Outgoing::injected(to, (tag, data), bytes);
        // SAFETY: `bytes` has at most `inject_size` bytes, the eager size.
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline(always)]
    unsafe fn recv(
        endpoint: &SoftEndpoint<'n>,
        from: FabricAddr,
        lent: &Lent,
        tag: Option<TagMatch>,
        context: Context,
    ) -> Result<(), Refusal> {
        let (kind, want) = wanted(from, tag);
        if endpoint.extra_checks {
            // SAFETY: L1 for the buffer, L2 and L4 for the post.
            return unsafe { endpoint.recv_checked(kind, want, *lent, context) };
        }
        // SAFETY: the buffer is valid (L1).
        unsafe { post_receive(&endpoint.net, endpoint.port(), kind, want, RecvBuffer::of(lent, context)) }
    }

    unsafe fn sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: L2 and L4.
        let msg = &unsafe { endpoint.pieces(msg, Access::SEND, &mut room) }?;
        // SAFETY: the buffers are valid (L1).
        unsafe { send_msg(&endpoint.net, endpoint.port(), msg, tag, endpoint.report(msg)) }
    }

    unsafe fn recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Option<TagMatch>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: L2 and L4.
        let msg = &unsafe { endpoint.pieces(msg, Access::RECV, &mut room) }?;
        let (net, port, flags) = (endpoint.net, endpoint.port(), msg.flags);
        let (kind, want) = wanted(msg.address, tag);
        let of_waiting = flags.intersects(OpFlags::PEEK | OpFlags::CLAIM | OpFlags::DISCARD);
        if tag.is_none() || !of_waiting {
            // SAFETY: the buffers are valid (L1).
            return unsafe { receive_msg(&net, port, kind, msg, want, min_left(endpoint, flags)?) };
        }
        if flags.contains(OpFlags::PEEK) {
            take_in(&net, port);
            peek(&net, port, &want, msg.context.addr(), flags)
        } else if flags.contains(OpFlags::DISCARD) {
            discard_claimed(&net, port, msg.context.addr())
        } else {
            at_most(1, msg.pieces)?;
            // SAFETY: the buffer is valid (L1).
            unsafe { fetch_claimed(&net, port, &RecvBuffer::first_of(msg, 0)) }
        }
    }
}

#[inline(always)]
const fn wanted(source: FabricAddr, tag: Option<TagMatch>) -> (CompletionFlags, Want) {
    match tag {
        None => (CompletionFlags::MSG, Want { tag: TagMatch::ANY, source }),
        Some(tag) => (CompletionFlags::TAGGED, Want { tag, source }),
    }
}

//! Messages, with tags and without: what is posted goes by the checks that an endpoint's info asks for, and then to `send` and `receive`.

#![allow(unsafe_code, reason = "implements the unsafe traits `Messages` and `TaggedMessages`")]

use heapless::Vec;

use super::copy::at_most;
use super::endpoint_state::Report;
use super::handles::SoftEndpoint;
use super::matching::RecvBuffer;
use super::progress::take_in;
use super::receive::{discard_claimed, fetch_claimed, peek, post_receive, receive_msg};
use super::send::{Outgoing, lose, send, send_msg};
use super::transport::Soft;
use crate::buffer::Lent;
use crate::engine::tag_matcher::Want;
use crate::transport::{Context, Messages, Msg, Refusal, TaggedMessages};
use crate::vocabulary::{Access, CompletionFlags, Errno, FabricAddr, ImmediateData, OpFlags, Tag, TagMatch};

impl SoftEndpoint<'_> {
    /// Posts a receive of one of the kinds of messages where the domain requires modes or a plan may strike.
    ///
    /// # Safety
    /// As [`post_receive`], of what is lent; and C10 and C12.
    #[cold]
    #[inline(never)]
    unsafe fn recv_checked(
        &self,
        kind: CompletionFlags,
        (from, tag): (FabricAddr, TagMatch),
        lent: Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        // SAFETY: the caller's promise.
        let (ptr, len) = unsafe { self.apply_modes(&lent, Access::RECV, context) }?;
        let room = RecvBuffer { ptr, len, context: context.addr(), min_left: 0 };
        // SAFETY: the caller's promise.
        unsafe { post_receive(&self.net, self.port(), kind, Want { tag, source: from }, room) }
    }

    /// Sends a message where the domain requires modes or a plan may strike.
    ///
    /// # Safety
    /// As [`send`], of what is lent.
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
        // SAFETY: the caller's promise.
        let (bytes, len) = unsafe { self.apply_modes(&lent, Access::SEND, context) }?;
        // SAFETY: the caller's promise.
        unsafe { self.send_amid_faults(Outgoing { bytes, len, ..Outgoing::of(to, with, &lent, context) }) }
    }

    /// Injects a message where the domain requires modes or a plan may strike: without its prefix.
    ///
    /// # Safety
    /// As [`send`], of as many bytes as can be injected behind the prefix.
    #[cold]
    #[inline(never)]
    unsafe fn inject_checked(
        &self,
        to: FabricAddr,
        with: (Option<Tag>, Option<ImmediateData>),
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        self.meets(to)?;
        self.gate()?;
        let message = bytes.get(self.port().own().modes.get().prefix()..).ok_or(Refusal::Errno(Errno::EINVAL))?;
        // SAFETY: the caller's promise.
        unsafe { self.send_amid_faults(Outgoing::injected(to, with, message)) }
    }

    /// Sends a message that has come by the gate.
    ///
    /// # Safety
    /// As [`send`].
    unsafe fn send_amid_faults(&self, outgoing: Outgoing) -> Result<(), Refusal> {
        if let Some(lost) = lose(self.port().own(), outgoing.context, outgoing.sent()) {
            return lost;
        }
        let outgoing = Outgoing { delay: self.port().own().faults().delay(), ..outgoing };
        // SAFETY: the caller's promise.
        unsafe { send(&self.net, self.port(), outgoing, Report::All) }
    }
}

/// Of a receive with these flags: the bytes that are left at least, if it is a multi-receive that goes on; zero if it is none.
fn min_left(endpoint: &SoftEndpoint<'_>, flags: OpFlags) -> Result<usize, Refusal> {
    if !flags.contains(OpFlags::MULTI_RECV) {
        return Ok(0);
    }
    let own = endpoint.port().own();
    let modes = own.modes.get();
    if modes.prefix() > 0 || modes.consumes_receives() {
        // A buffer of many messages has room for one prefix. And no event tells how much of a buffer a peer's write uses up.
        return Err(Refusal::Errno(Errno::EINVAL));
    }
    Ok(own.min_left.get())
}

// SAFETY: as `Transport`.
unsafe impl<'n> Messages for Soft<'n> {
    #[inline]
    unsafe fn send(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: what is lent stays until its event or the endpoint's close (C9), and so does the context's space (C10).
            return unsafe { endpoint.send_checked(to, (None, data), *lent, context) };
        }
        let outgoing = Outgoing::of(to, (None, data), lent, context);
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline]
    unsafe fn inject(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: not longer than `inject_size`, which is the eager size, and a prefix: the contract of `inject`.
            return unsafe { endpoint.inject_checked(to, (None, data), bytes) };
        }
        let outgoing = Outgoing::injected(to, (None, data), bytes);
        // SAFETY: not longer than `inject_size`, which is the eager size: the contract of `inject`.
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline]
    unsafe fn recv(
        endpoint: &SoftEndpoint<'n>,
        from: FabricAddr,
        lent: &Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: what is lent stays until its event or the endpoint's close (C9), and so does the context's space (C10).
            return unsafe { endpoint.recv_checked(CompletionFlags::MSG, (from, TagMatch::any()), *lent, context) };
        }
        let (want, room) = (Want { tag: TagMatch::any(), source: from }, RecvBuffer::of(lent, context));
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { post_receive(&endpoint.net, endpoint.port(), CompletionFlags::MSG, want, room) }
    }

    unsafe fn sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: C10 and C12.
        let msg = &unsafe { endpoint.pieces(msg, Access::SEND, &mut room) }?;
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { send_msg(&endpoint.net, endpoint.port(), msg, None, endpoint.report(msg)) }
    }

    unsafe fn recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: C10 and C12.
        let msg = &unsafe { endpoint.pieces(msg, Access::RECV, &mut room) }?;
        let min_left = min_left(endpoint, msg.flags)?;
        // SAFETY: what is lent stays until its last event or the endpoint's close (C9).
        unsafe { receive_msg(&endpoint.net, endpoint.port(), CompletionFlags::MSG, msg, TagMatch::any(), min_left) }
    }
}

// SAFETY: as `Transport`.
unsafe impl<'n> TaggedMessages for Soft<'n> {
    #[inline]
    unsafe fn tagged_send(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        lent: &Lent,
        data: Option<ImmediateData>,
        tag: Tag,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: what is lent stays until its event or the endpoint's close (C9), and so does the context's space (C10).
            return unsafe { endpoint.send_checked(to, (Some(tag), data), *lent, context) };
        }
        let outgoing = Outgoing::of(to, (Some(tag), data), lent, context);
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline]
    unsafe fn tagged_inject(
        endpoint: &SoftEndpoint<'n>,
        to: FabricAddr,
        bytes: &[u8],
        data: Option<ImmediateData>,
        tag: Tag,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: not longer than `inject_size`, which is the eager size, and a prefix: the contract of `inject`.
            return unsafe { endpoint.inject_checked(to, (Some(tag), data), bytes) };
        }
        let outgoing = Outgoing::injected(to, (Some(tag), data), bytes);
        // SAFETY: not longer than `inject_size`, which is the eager size: the contract of `inject`.
        unsafe { send(&endpoint.net, endpoint.port(), outgoing, Report::All) }
    }

    #[inline]
    unsafe fn tagged_recv(
        endpoint: &SoftEndpoint<'n>,
        from: FabricAddr,
        lent: &Lent,
        tag: TagMatch,
        context: Context,
    ) -> Result<(), Refusal> {
        if endpoint.extra_checks {
            // SAFETY: what is lent stays until its event or the endpoint's close (C9), and so does the context's space (C10).
            return unsafe { endpoint.recv_checked(CompletionFlags::TAGGED, (from, tag), *lent, context) };
        }
        let (want, room) = (Want { tag, source: from }, RecvBuffer::of(lent, context));
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { post_receive(&endpoint.net, endpoint.port(), CompletionFlags::TAGGED, want, room) }
    }

    unsafe fn tagged_sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Tag) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: C10 and C12.
        let msg = &unsafe { endpoint.pieces(msg, Access::SEND, &mut room) }?;
        // SAFETY: what is lent stays until its event or the endpoint's close (C9).
        unsafe { send_msg(&endpoint.net, endpoint.port(), msg, Some(tag), endpoint.report(msg)) }
    }

    unsafe fn tagged_recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: TagMatch) -> Result<(), Refusal> {
        let mut room = Vec::new();
        // SAFETY: C10 and C12.
        let msg = &unsafe { endpoint.pieces(msg, Access::RECV, &mut room) }?;
        let (net, port, flags) = (endpoint.net, endpoint.port(), msg.flags);
        if flags.contains(OpFlags::PEEK) {
            take_in(&net, port);
            peek(&net, port, &Want { tag, source: msg.address }, msg.context.addr(), flags)
        } else if flags.contains(OpFlags::DISCARD) {
            discard_claimed(&net, port, msg.context.addr())
        } else if flags.contains(OpFlags::CLAIM) {
            at_most(1, msg.pieces)?;
            // SAFETY: what is lent stays until its event or the endpoint's close (C9).
            unsafe { fetch_claimed(&net, port, &RecvBuffer::first_of(msg, 0)) }
        } else {
            // SAFETY: what is lent stays until its event or the endpoint's close (C9).
            unsafe { receive_msg(&net, port, CompletionFlags::TAGGED, msg, tag, min_left(endpoint, flags)?) }
        }
    }
}

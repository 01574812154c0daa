//! Operations of a round on an endpoint that names its peer in each post, or is connected.

#![allow(unsafe_code, reason = "multi-receives over providers that do not keep to their buffer")]

use loom_core::endpoint::{CompletionLevel, RecvOptions, SendOptions};
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{PostError, Rejected};
use loom_core::mr::RemoteRegion;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, ImmediateData, Tag};

use crate::cases::Message;
use crate::failure::Failure;
use crate::rig::Buffer;

pub type Posted<'b> = Result<OpKey, Rejected<Buffer<'b>>>;

/// Endpoint with one peer. Only tagged messages use the tag, and only operations with immediate
/// data use that.
pub trait Verbs<'b> {
    fn send(&self, message: Message, tag: Tag, data: ImmediateData, out: Buffer<'b>) -> Posted<'b>;
    fn inject(&self, message: Message, tag: Tag, data: ImmediateData, out: &[u8]) -> Result<(), PostError>;
    fn receive(&self, message: Message, tag: Tag, into: Buffer<'b>) -> Posted<'b>;
    /// Posts a multi-receive for one peer, with the tag if given. The peer sends messages that fit,
    /// and the receive is not cancelled.
    fn multi_receive(&self, tag: Option<Tag>, into: Buffer<'b>) -> Posted<'b>;
    fn read(&self, remote: &RemoteRegion, into: Buffer<'b>) -> Posted<'b>;
    fn write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: Buffer<'b>) -> Posted<'b>;
    fn inject_write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: &[u8]) -> Result<(), PostError>;
    fn cancel(&self, key: OpKey) -> Result<(), Errno>;
    /// Checks the event queue, if the endpoint has one. It is empty while the connection works.
    fn look_for_events(&self) -> Result<(), Failure>;
}

/// Returns the options for a message.
pub fn send_options(message: Message, data: ImmediateData) -> SendOptions {
    let options = SendOptions { level: Some(CompletionLevel::Transmit), ..SendOptions::default() };
    SendOptions { data: message.data.then_some(data), ..options }
}

/// Endpoint without a connection.
pub struct Addressed<'d, 'b, T: Transport> {
    pub endpoint: Endpoint<'d, T, Buffer<'b>>,
    pub other: Peer,
}

impl<'b, T: Transport + 'static> Verbs<'b> for Addressed<'_, 'b, T> {
    fn send(&self, message: Message, tag: Tag, data: ImmediateData, out: Buffer<'b>) -> Posted<'b> {
        let (endpoint, to) = (&self.endpoint, self.other);
        match (message.tagged, message.data) {
            (false, _) if message.msg => endpoint.send_with(to, send_options(message, data), out),
            (true, _) if message.msg => endpoint.tagged_send_with(to, tag, send_options(message, data), out),
            (false, false) => endpoint.send(to, out),
            (false, true) => endpoint.send_data(to, data, out),
            (true, false) => endpoint.tagged_send(to, tag, out),
            (true, true) => endpoint.tagged_send_data(to, tag, data, out),
        }
    }

    fn inject(&self, message: Message, tag: Tag, data: ImmediateData, out: &[u8]) -> Result<(), PostError> {
        let (endpoint, to) = (&self.endpoint, self.other);
        match (message.tagged, message.data) {
            (false, false) => endpoint.inject(to, out),
            (false, true) => endpoint.inject_data(to, data, out),
            (true, false) => endpoint.tagged_inject(to, tag, out),
            (true, true) => endpoint.tagged_inject_data(to, tag, data, out),
        }
    }

    fn receive(&self, message: Message, tag: Tag, into: Buffer<'b>) -> Posted<'b> {
        let from = if message.directed { Source::Peer(self.other) } else { Source::Any };
        let (endpoint, options) = (&self.endpoint, RecvOptions::default());
        match (message.tagged, message.msg) {
            (true, true) => endpoint.tagged_recv_with(from, tag, options, into),
            (false, true) => endpoint.recv_with(from, options, into),
            (true, false) => endpoint.tagged_recv(from, tag, into),
            (false, false) => endpoint.recv(from, into),
        }
    }

    fn multi_receive(&self, tag: Option<Tag>, into: Buffer<'b>) -> Posted<'b> {
        // SAFETY: one peer sends messages that fit, and the receive is not cancelled.
        unsafe { self.endpoint.multi_recv_unchecked(Source::Any, tag.map(Into::into), into) }
    }

    fn read(&self, remote: &RemoteRegion, into: Buffer<'b>) -> Posted<'b> {
        self.endpoint.read(self.other, remote, 0, into)
    }

    fn write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: Buffer<'b>) -> Posted<'b> {
        match data {
            None => self.endpoint.write(self.other, remote, 0, out),
            Some(data) => self.endpoint.write_data(self.other, remote, 0, data, out),
        }
    }

    fn inject_write(&self, remote: &RemoteRegion, data: Option<ImmediateData>, out: &[u8]) -> Result<(), PostError> {
        match data {
            None => self.endpoint.inject_write(self.other, remote, 0, out),
            Some(data) => self.endpoint.inject_write_data(self.other, remote, 0, data, out),
        }
    }

    fn cancel(&self, key: OpKey) -> Result<(), Errno> {
        self.endpoint.cancel(key)
    }

    fn look_for_events(&self) -> Result<(), Failure> {
        Ok(())
    }
}

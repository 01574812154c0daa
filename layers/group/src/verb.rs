//! [`Verb`]: how a request is posted, at once or later.

use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::error::Rejected;
use loom_core::objects::endpoint::Source;
use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};
use loom_core::{Endpoint, OpKey, Peer, RemoteRegion, Transport};

/// A kind of request. Its function is inlined where a request is posted at once; a place that waits keeps a pointer to it.
pub(crate) trait Verb<T: Transport, B: Buffer> {
    /// Whether it receives messages.
    const RECEIVES: bool = false;

    /// Posts it. Each kind looks at what it needs: the region is that of reads and writes, the word is a tag, or immediate data.
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        region: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>;
}

pub(crate) enum Send {}

impl<T: Transport, B: SourceBuffer> Verb<T, B> for Send {
    #[inline(always)]
    fn post(endpoint: &Endpoint<'_, T, B>, peer: Peer, _: &RemoteRegion, _: u64, buf: B) -> Result<OpKey, Rejected<B>> {
        endpoint.send(peer, buf)
    }
}

pub(crate) enum Recv {}

impl<T: Transport, B: TargetBuffer> Verb<T, B> for Recv {
    const RECEIVES: bool = true;

    #[inline(always)]
    fn post(endpoint: &Endpoint<'_, T, B>, peer: Peer, _: &RemoteRegion, _: u64, buf: B) -> Result<OpKey, Rejected<B>> {
        endpoint.recv(Source::Peer(peer), buf)
    }
}

pub(crate) enum TaggedSend {}

impl<T: Transport, B: SourceBuffer> Verb<T, B> for TaggedSend {
    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        _: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.tagged_send(peer, Tag(word), buf)
    }
}

pub(crate) enum TaggedRecv {}

impl<T: Transport, B: TargetBuffer> Verb<T, B> for TaggedRecv {
    const RECEIVES: bool = true;

    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        _: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.tagged_recv(Source::Peer(peer), TagMatch::from(Tag(word)), buf)
    }
}

pub(crate) enum Read {}

impl<T: Transport, B: TargetBuffer> Verb<T, B> for Read {
    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        region: &RemoteRegion,
        _: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.read(peer, region, 0, buf)
    }
}

pub(crate) enum Write {}

impl<T: Transport, B: SourceBuffer> Verb<T, B> for Write {
    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        region: &RemoteRegion,
        _: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.write(peer, region, 0, buf)
    }
}

pub(crate) enum SendData {}

impl<T: Transport, B: SourceBuffer> Verb<T, B> for SendData {
    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        _: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.send_data(peer, ImmediateData(word), buf)
    }
}

pub(crate) enum WriteData {}

impl<T: Transport, B: SourceBuffer> Verb<T, B> for WriteData {
    #[inline(always)]
    fn post(
        endpoint: &Endpoint<'_, T, B>,
        peer: Peer,
        region: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<OpKey, Rejected<B>> {
        endpoint.write_data(peer, region, 0, ImmediateData(word), buf)
    }
}

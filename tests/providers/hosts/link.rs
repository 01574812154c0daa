//! Link to the other side: an endpoint and its peer, or a connection. Each call is that of the
//! endpoint.

use loom_core::buffer::{Buffer, IoVecs, Lent, SourceBuffer, TargetBuffer};
use loom_core::endpoint::{Endpoint, Source, ThePeer};
use loom_core::endpoint::{Established, MsgEndpoint};
use loom_core::endpoint::{ReadOptions, RecvOptions, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{PostError, Rejected};
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::{ImmediateData, Tag};
use loom_fabric::ofi::{Local, Ofi};

pub(crate) type T = Ofi<Local>;
pub(crate) type Posted = Result<OpKey, Rejected<Halves>>;

/// A buffer in two halves, for calls with several ranges.
#[derive(Debug, PartialEq)]
pub(crate) struct Halves(pub(crate) Box<[u8]>);

// SAFETY: lends the range of the box: whole, or in two ranges that do not overlap.
unsafe impl Buffer for Halves {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }

    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        let (mut one, mut other) = self.0.split_at_mut(self.0.len() / 3);
        pieces.push(one.lend());
        pieces.push(other.lend());
    }
}
impl SourceBuffer for Halves {}
impl TargetBuffer for Halves {}

pub(crate) enum Link<'d> {
    Peer(Endpoint<'d, T, Halves>, Peer),
    Connection(MsgEndpoint<'d, T, Halves, Established>),
}

impl Link<'_> {
    pub(crate) fn send(&self, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.send(*peer, buf),
            Link::Connection(endpoint) => endpoint.send(ThePeer, buf),
        }
    }

    pub(crate) fn send_data(&self, data: ImmediateData, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.send_data(*peer, data, buf),
            Link::Connection(endpoint) => endpoint.send_data(ThePeer, data, buf),
        }
    }

    pub(crate) fn inject(&self, bytes: &[u8]) -> Result<(), PostError> {
        match self {
            Link::Peer(endpoint, peer) => endpoint.inject(*peer, bytes),
            Link::Connection(endpoint) => endpoint.inject(ThePeer, bytes),
        }
    }

    pub(crate) fn recv(&self, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, _) => endpoint.recv(Source::Any, buf),
            Link::Connection(endpoint) => endpoint.recv(ThePeer, buf),
        }
    }

    pub(crate) fn send_with(&self, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.send_with(*peer, SendOptions::default(), buf),
            Link::Connection(endpoint) => endpoint.send_with(ThePeer, SendOptions::default(), buf),
        }
    }

    pub(crate) fn recv_with(&self, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, _) => endpoint.recv_with(Source::Any, RecvOptions::default(), buf),
            Link::Connection(endpoint) => endpoint.recv_with(ThePeer, RecvOptions::default(), buf),
        }
    }

    pub(crate) fn tagged_send(&self, tag: Tag, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.tagged_send(*peer, tag, buf),
            Link::Connection(endpoint) => endpoint.tagged_send(ThePeer, tag, buf),
        }
    }

    pub(crate) fn tagged_inject(&self, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        match self {
            Link::Peer(endpoint, peer) => endpoint.tagged_inject(*peer, tag, bytes),
            Link::Connection(endpoint) => endpoint.tagged_inject(ThePeer, tag, bytes),
        }
    }

    pub(crate) fn tagged_recv(&self, tag: Tag, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, _) => endpoint.tagged_recv(Source::Any, tag, buf),
            Link::Connection(endpoint) => endpoint.tagged_recv(ThePeer, tag, buf),
        }
    }

    pub(crate) fn write(&self, region: &RemoteRegion, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.write(*peer, region, 0, buf),
            Link::Connection(endpoint) => endpoint.write(ThePeer, region, 0, buf),
        }
    }

    pub(crate) fn write_data(&self, region: &RemoteRegion, data: ImmediateData, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.write_data(*peer, region, 0, data, buf),
            Link::Connection(endpoint) => endpoint.write_data(ThePeer, region, 0, data, buf),
        }
    }

    pub(crate) fn inject_write(&self, region: &RemoteRegion, bytes: &[u8]) -> Result<(), PostError> {
        match self {
            Link::Peer(endpoint, peer) => endpoint.inject_write(*peer, region, 0, bytes),
            Link::Connection(endpoint) => endpoint.inject_write(ThePeer, region, 0, bytes),
        }
    }

    pub(crate) fn read(&self, region: &RemoteRegion, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.read(*peer, region, 0, buf),
            Link::Connection(endpoint) => endpoint.read(ThePeer, region, 0, buf),
        }
    }

    pub(crate) fn write_with(&self, part: RemoteRegion, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.write_with(*peer, &[part], SendOptions::default(), buf),
            Link::Connection(endpoint) => endpoint.write_with(ThePeer, &[part], SendOptions::default(), buf),
        }
    }

    pub(crate) fn read_with(&self, part: RemoteRegion, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, peer) => endpoint.read_with(*peer, &[part], ReadOptions::default(), buf),
            Link::Connection(endpoint) => endpoint.read_with(ThePeer, &[part], ReadOptions::default(), buf),
        }
    }

    /// Posts a multi-receive, over any provider that grants it.
    pub(crate) fn safe_multi_recv(&self, buf: Halves) -> Posted {
        match self {
            Link::Peer(endpoint, _) => endpoint.multi_recv(Source::Any, buf),
            Link::Connection(endpoint) => endpoint.multi_recv(ThePeer, buf),
        }
    }

    pub(crate) fn multi_recv(&self, buf: Halves) -> Posted {
        let posted = self.safe_multi_recv(buf);
        let Err(Rejected { value: buf, error: PostError::NotSafe }) = posted else { return posted };
        match self {
            // SAFETY: the endpoint was opened with the length of the longest message. One peer
            // sends, as many as fit, and all arrive before any object closes.
            Link::Peer(endpoint, _) => unsafe { endpoint.multi_recv_unchecked(Source::Any, None, buf) },
            // SAFETY: as above.
            Link::Connection(endpoint) => unsafe { endpoint.multi_recv_unchecked(ThePeer, None, buf) },
        }
    }

    pub(crate) fn inject_size(&self) -> usize {
        match self {
            Link::Peer(endpoint, _) => endpoint.inject_size(),
            Link::Connection(endpoint) => endpoint.inject_size(),
        }
    }
}

use loom_core::atomic::{CompareOp, Element, FetchOp, OperationIn};
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::endpoint::Granted;
use loom_core::endpoint::SendOptions;
use loom_core::endpoint::{Endpoint, Joined, MsgEndpoint, MulticastGroup, Receives, ThePeer, Transmits};
use loom_core::engine::op_table::{Fetched, OpError, OpKey};
use loom_core::error::PostError;
use loom_core::mr::RemoteRegion;
use loom_core::transport::{Connected, Multicast, Transport};
use loom_core::vocabulary::{EndpointAddr, Errno, ImmediateData, Tag, TagMatch};

use super::{
    Atomics, Completes, Connection, Inject, MsgRecv, MsgSend, Outcome, Posted, Receiver, RmaRead, RmaWrite,
    TaggedInject, TaggedRecv, TaggedSend, Transmitter, Waited,
};

impl<T: Transport, B: Buffer, K> Completes for Endpoint<'_, T, B, K> {
    type Buf = B;
    type Key = OpKey;
    type PostError = PostError;
    type OpError = OpError;

    #[inline]
    fn wait(&mut self, key: OpKey, until: impl Deadline) -> Waited<Self> {
        let Some(done) = self.cq().wait(key, until)? else { return Ok(None) };
        let (buf, result) = done.into_parts();
        Ok(Some(Outcome { buf, result }))
    }

    #[inline]
    fn progress(&mut self) -> Result<bool, CqError> {
        self.cq().progress()
    }
}

impl<T: Transport, B: Buffer, K: Transmits<T>> Transmitter for Endpoint<'_, T, B, K> {
    type To = K::To;
}

impl<T: Transport, B: Buffer, K: Receives<T>> Receiver for Endpoint<'_, T, B, K> {
    type From = K::From;

    const ANY: K::From = K::ANY;
}

impl<T: Transport, B: SourceBuffer, K: Transmits<T>> MsgSend for Endpoint<'_, T, B, K> {
    #[inline]
    fn send(&mut self, to: K::To, buf: B) -> Posted<Self> {
        Endpoint::send(self, to, buf)
    }

    #[inline]
    fn send_data(&mut self, to: K::To, data: ImmediateData, buf: B) -> Posted<Self> {
        Endpoint::send_data(self, to, data, buf)
    }
}

impl<T: Transport, B: TargetBuffer, K: Receives<T>> MsgRecv for Endpoint<'_, T, B, K> {
    #[inline]
    fn recv(&mut self, from: K::From, buf: B) -> Posted<Self> {
        Endpoint::recv(self, from, buf)
    }
}

impl<T: Transport, B: SourceBuffer, K: Transmits<T>> TaggedSend for Endpoint<'_, T, B, K> {
    #[inline]
    fn tagged_send(&mut self, to: K::To, tag: Tag, buf: B) -> Posted<Self> {
        Endpoint::tagged_send(self, to, tag, buf)
    }

    #[inline]
    fn tagged_send_data(&mut self, to: K::To, tag: Tag, data: ImmediateData, buf: B) -> Posted<Self> {
        Endpoint::tagged_send_data(self, to, tag, data, buf)
    }
}

impl<T: Transport, B: TargetBuffer, K: Receives<T>> TaggedRecv for Endpoint<'_, T, B, K> {
    #[inline]
    fn tagged_recv(&mut self, from: K::From, tag: TagMatch, buf: B) -> Posted<Self> {
        Endpoint::tagged_recv(self, from, tag, buf)
    }
}

impl<T: Transport, B: TargetBuffer, K: Transmits<T>> RmaRead for Endpoint<'_, T, B, K> {
    #[inline]
    fn read(&mut self, peer: K::To, region: &RemoteRegion, offset: u64, buf: B) -> Posted<Self> {
        Endpoint::read(self, peer, region, offset, buf)
    }
}

impl<T: Transport, B: SourceBuffer, K: Transmits<T>> RmaWrite for Endpoint<'_, T, B, K> {
    #[inline]
    fn write(&mut self, peer: K::To, region: &RemoteRegion, offset: u64, buf: B) -> Posted<Self> {
        Endpoint::write(self, peer, region, offset, buf)
    }

    #[inline]
    fn write_data(
        &mut self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: B,
    ) -> Posted<Self> {
        Endpoint::write_data(self, peer, region, offset, data, buf)
    }
}

impl<T: Transport, B: SourceBuffer + TargetBuffer, K: Transmits<T>> Atomics for Endpoint<'_, T, B, K> {
    #[inline]
    fn atomic<O: OperationIn<B>>(
        &mut self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<O>,
        buf: B,
    ) -> Posted<Self> {
        Endpoint::atomic(self, peer, region, offset, op, buf)
    }

    #[inline]
    fn fetch_value<E: Element>(
        &mut self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<OpKey, PostError> {
        Endpoint::fetch_value(self, peer, region, offset, op, operand)
    }

    #[inline]
    fn compare_value<E: Element>(
        &mut self,
        peer: K::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<OpKey, PostError> {
        Endpoint::compare_value(self, peer, region, offset, op, compare, operand)
    }

    #[inline]
    fn wait_value(&mut self, key: OpKey, until: impl Deadline) -> Result<Option<Fetched>, CqError> {
        self.cq().wait_value(key, until)
    }
}

impl<T: Transport, B: SourceBuffer, K: Transmits<T>> Inject for Endpoint<'_, T, B, K> {
    #[inline]
    fn inject_size(&self, _: K::To) -> usize {
        Endpoint::inject_size(self)
    }

    #[inline]
    fn inject(&mut self, to: K::To, bytes: &[u8]) -> Result<(), PostError> {
        Endpoint::inject(self, to, bytes)
    }
}

impl<T: Transport, B: SourceBuffer, K: Transmits<T>> TaggedInject for Endpoint<'_, T, B, K> {
    #[inline]
    fn tagged_inject_size(&self, _: K::To) -> usize {
        Endpoint::inject_size(self)
    }

    #[inline]
    fn tagged_inject(&mut self, to: K::To, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        Endpoint::tagged_inject(self, to, tag, bytes)
    }
}

impl<T: Connected, B: Buffer> Connection for MsgEndpoint<'_, T, B> {
    const PEER: ThePeer = ThePeer;

    fn peer_address(&self) -> Result<EndpointAddr, Errno> {
        MsgEndpoint::peer_address(self)
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        MsgEndpoint::shutdown(self)
    }
}

impl<T: Multicast, B: Buffer> Completes for MulticastGroup<'_, T, B, Joined> {
    type Buf = B;
    type Key = OpKey;
    type PostError = PostError;
    type OpError = OpError;

    #[inline]
    fn wait(&mut self, key: OpKey, until: impl Deadline) -> Waited<Self> {
        let Some(done) = self.endpoint().cq().wait(key, until)? else { return Ok(None) };
        let (buf, result) = done.into_parts();
        Ok(Some(Outcome { buf, result }))
    }

    #[inline]
    fn progress(&mut self) -> Result<bool, CqError> {
        self.endpoint().cq().progress()
    }
}

/// A message goes to every member, so a send names no peer.
impl<T: Multicast, B: Buffer> Transmitter for MulticastGroup<'_, T, B, Joined> {
    type To = ();
}

impl<T: Multicast, B: SourceBuffer> MsgSend for MulticastGroup<'_, T, B, Joined> {
    #[inline]
    fn send(&mut self, (): (), buf: B) -> Posted<Self> {
        self.send_with(SendOptions::default(), buf)
    }

    #[inline]
    fn send_data(&mut self, (): (), data: ImmediateData, buf: B) -> Posted<Self> {
        self.send_with(SendOptions { data: Some(data), ..SendOptions::default() }, buf)
    }
}

//! Tagged and injected messages in the frames of the example.

use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};
use loom_fabric::loom_core;
use loom_static::protocol::{Inject, Posted, TaggedRecv, TaggedSend};

use crate::protocols::example::{FrameError, TRAILER, seal};

pub(crate) use crate::protocols::example::Framed;

impl<P> Framed<P> {
    pub(crate) fn new(below: P, longest: usize) -> Self {
        Framed { below, longest }
    }
}

impl<P: TaggedSend<Buf = Vec<u8>>> TaggedSend for Framed<P> {
    fn tagged_send(&mut self, to: P::To, tag: Tag, buf: Vec<u8>) -> Posted<Self> {
        self.send_frame(buf, |below, frame| below.tagged_send(to, tag, frame))
    }

    fn tagged_send_data(&mut self, to: P::To, tag: Tag, data: ImmediateData, buf: Vec<u8>) -> Posted<Self> {
        self.send_frame(buf, |below, frame| below.tagged_send_data(to, tag, data, frame))
    }
}

impl<P: TaggedRecv<Buf = Vec<u8>>> TaggedRecv for Framed<P> {
    fn tagged_recv(&mut self, from: P::From, tag: TagMatch, buf: Vec<u8>) -> Posted<Self> {
        self.receive_frame(buf, |below, room| below.tagged_recv(from, tag, room))
    }
}

impl<P: Inject<Buf = Vec<u8>>> Inject for Framed<P> {
    fn inject_size(&self, to: P::To) -> usize {
        self.below.inject_size(to).saturating_sub(TRAILER).min(self.longest)
    }

    fn inject(&mut self, to: P::To, bytes: &[u8]) -> Result<(), Self::PostError> {
        let limit = self.inject_size(to);
        if bytes.len() > limit {
            return Err(FrameError::TooLong { limit });
        }
        self.below.inject(to, &seal(bytes.to_vec())).map_err(FrameError::Below)
    }
}

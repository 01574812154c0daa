use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::engine::op_table::OpError;
use loom_core::error::PostError;
use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};
use loom_static::protocol::{
    Completes, Outcome, Posted, Receiver, TaggedInject, TaggedRecv, TaggedSend, Transmitter, Waited,
};

use crate::{Carrier, LinkId, Source, TaggedEndpoint, TaggedKey};

impl<C: Carrier, B: Buffer, A: Allocator> Completes for TaggedEndpoint<C, B, A> {
    type Buf = B;
    type Key = TaggedKey;
    type PostError = PostError;
    type OpError = OpError;

    fn wait(&mut self, key: TaggedKey, until: impl Deadline) -> Waited<Self> {
        let Some(done) = TaggedEndpoint::wait(self, key, until)? else { return Ok(None) };
        let (buf, result) = done.into_parts();
        Ok(Some(Outcome { buf, result }))
    }

    fn progress(&mut self) -> Result<bool, CqError> {
        TaggedEndpoint::progress(self)
    }
}

impl<C: Carrier, B: Buffer, A: Allocator> Transmitter for TaggedEndpoint<C, B, A> {
    type To = LinkId;
}

impl<C: Carrier, B: Buffer, A: Allocator> Receiver for TaggedEndpoint<C, B, A> {
    type From = Source;

    const ANY: Source = Source::Any;
}

impl<C: Carrier, B: SourceBuffer, A: Allocator> TaggedSend for TaggedEndpoint<C, B, A> {
    fn tagged_send(&mut self, to: LinkId, tag: Tag, buf: B) -> Posted<Self> {
        TaggedEndpoint::tagged_send(self, to, tag, buf)
    }

    fn tagged_send_data(&mut self, to: LinkId, tag: Tag, data: ImmediateData, buf: B) -> Posted<Self> {
        TaggedEndpoint::tagged_send_data(self, to, tag, data, buf)
    }
}

impl<C: Carrier, B: TargetBuffer, A: Allocator> TaggedRecv for TaggedEndpoint<C, B, A> {
    fn tagged_recv(&mut self, from: Source, tag: TagMatch, buf: B) -> Posted<Self> {
        TaggedEndpoint::tagged_recv(self, from, tag, buf)
    }
}

impl<C: Carrier, B: SourceBuffer, A: Allocator> TaggedInject for TaggedEndpoint<C, B, A> {
    fn tagged_inject_size(&self, to: LinkId) -> usize {
        self.eager_size(to)
    }

    fn tagged_inject(&mut self, to: LinkId, tag: Tag, bytes: &[u8]) -> Result<(), PostError> {
        TaggedEndpoint::tagged_inject(self, to, tag, bytes)
    }
}

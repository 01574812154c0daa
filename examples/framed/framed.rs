//! [`Framed`]: the protocol.

use std::error::Error;
use std::fmt;

use loom_fabric::{CqError, Rejected};
use loom_fabric::{Deadline, ImmediateData, Tag, TagMatch};
use loom_static::protocol::{
    Completes, Inject, MsgRecv, MsgSend, Outcome, PostFailure, Posted, Receiver, TaggedRecv, TaggedSend, Transmitter,
    Waited,
};

use super::frame::{self, FrameError, TRAILER};

/// Messages in frames, over a protocol with messages: an endpoint of any kind, or another of one's own.
#[derive(Debug)]
pub(crate) struct Framed<P> {
    below: P,
    longest: usize,
    /// For what is injected.
    scratch: Vec<u8>,
}

impl<P> Framed<P> {
    /// Over this protocol, for messages of at most `longest` bytes.
    pub(crate) fn new(below: P, longest: usize) -> Self {
        Framed { below, longest: longest.min(frame::longest()), scratch: Vec::new() }
    }

    /// The protocol below, where messages have no frames.
    pub(crate) fn below(&mut self) -> &mut P {
        &mut self.below
    }
}

/// What names an operation: a receive has a frame to be opened when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FramedKey<K> {
    Sent(K),
    Received(K),
}

/// Why an operation is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError<E> {
    /// The message does not go into a frame.
    Frame(FrameError),
    /// The protocol below refuses.
    Below(E),
}

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveError<E> {
    /// What has arrived is no frame.
    Frame(FrameError),
    /// The operation has failed below.
    Below(E),
}

impl<E: fmt::Display> fmt::Display for SendError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Frame(error) => error.fmt(f),
            SendError::Below(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ReceiveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::Frame(error) => error.fmt(f),
            ReceiveError::Below(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for SendError<E> {}
impl<E: Error> Error for ReceiveError<E> {}

impl<E: PostFailure> PostFailure for SendError<E> {
    fn is_transient(&self) -> bool {
        matches!(self, SendError::Below(error) if error.is_transient())
    }
}

impl<P: Completes<Buf = Vec<u8>>> Framed<P> {
    /// Posts a message in a frame.
    fn seal(&mut self, message: Vec<u8>, post: impl FnOnce(&mut P, Vec<u8>) -> Posted<P>) -> Posted<Self> {
        if message.len() > self.longest {
            return Err(Rejected {
                buf: message,
                error: SendError::Frame(FrameError::TooLong { limit: self.longest }),
            });
        }
        let key = post(&mut self.below, frame::seal(message)).map_err(without_trailer)?;
        Ok(FramedKey::Sent(key))
    }

    /// Posts room for a message, with room for what a frame adds.
    fn make_room(&mut self, mut room: Vec<u8>, post: impl FnOnce(&mut P, Vec<u8>) -> Posted<P>) -> Posted<Self> {
        room.resize(room.len() + TRAILER, 0);
        let key = post(&mut self.below, room).map_err(without_trailer)?;
        Ok(FramedKey::Received(key))
    }
}

/// The refusal of a frame: the buffer is as it was given.
fn without_trailer<E>(refused: Rejected<Vec<u8>, E>) -> Rejected<Vec<u8>, SendError<E>> {
    let mut buf = refused.buf;
    buf.truncate(buf.len().saturating_sub(TRAILER));
    Rejected { buf, error: SendError::Below(refused.error) }
}

impl<P: Completes<Buf = Vec<u8>>> Completes for Framed<P> {
    type Buf = Vec<u8>;
    type Key = FramedKey<P::Key>;
    type PostError = SendError<P::PostError>;
    type OpError = ReceiveError<P::OpError>;

    fn wait(&mut self, key: Self::Key, until: impl Deadline) -> Waited<Self> {
        let (FramedKey::Sent(below) | FramedKey::Received(below)) = key;
        let Some(Outcome { mut buf, result }) = self.below.wait(below, until)? else { return Ok(None) };
        let result = result.map_err(ReceiveError::Below).and_then(|transfer| match key {
            FramedKey::Sent(_) => Ok(transfer.with_len(transfer.len().saturating_sub(TRAILER))),
            FramedKey::Received(_) => {
                let arrived = buf.get(..transfer.len()).unwrap_or(&buf);
                frame::open(arrived).map(|len| transfer.with_len(len)).map_err(ReceiveError::Frame)
            }
        });
        // As it was given.
        buf.truncate(buf.len().saturating_sub(TRAILER));
        Ok(Some(Outcome { buf, result }))
    }

    fn progress(&mut self) -> Result<bool, CqError> {
        self.below.progress()
    }
}

impl<P: Transmitter<Buf = Vec<u8>>> Transmitter for Framed<P> {
    type To = P::To;
}

impl<P: Receiver<Buf = Vec<u8>>> Receiver for Framed<P> {
    type From = P::From;

    const ANY: P::From = P::ANY;
}

impl<P: MsgSend<Buf = Vec<u8>>> MsgSend for Framed<P> {
    fn send(&mut self, to: P::To, buf: Vec<u8>) -> Posted<Self> {
        self.seal(buf, |below, frame| below.send(to, frame))
    }

    fn send_data(&mut self, to: P::To, data: ImmediateData, buf: Vec<u8>) -> Posted<Self> {
        self.seal(buf, |below, frame| below.send_data(to, data, frame))
    }
}

impl<P: MsgRecv<Buf = Vec<u8>>> MsgRecv for Framed<P> {
    fn recv(&mut self, from: P::From, buf: Vec<u8>) -> Posted<Self> {
        self.make_room(buf, |below, room| below.recv(from, room))
    }
}

impl<P: TaggedSend<Buf = Vec<u8>>> TaggedSend for Framed<P> {
    fn tagged_send(&mut self, to: P::To, tag: Tag, buf: Vec<u8>) -> Posted<Self> {
        self.seal(buf, |below, frame| below.tagged_send(to, tag, frame))
    }

    fn tagged_send_data(&mut self, to: P::To, tag: Tag, data: ImmediateData, buf: Vec<u8>) -> Posted<Self> {
        self.seal(buf, |below, frame| below.tagged_send_data(to, tag, data, frame))
    }
}

impl<P: TaggedRecv<Buf = Vec<u8>>> TaggedRecv for Framed<P> {
    fn tagged_recv(&mut self, from: P::From, tag: TagMatch, buf: Vec<u8>) -> Posted<Self> {
        self.make_room(buf, |below, room| below.tagged_recv(from, tag, room))
    }
}

impl<P: Inject<Buf = Vec<u8>>> Inject for Framed<P> {
    fn inject_size(&self, to: P::To) -> usize {
        self.below.inject_size(to).saturating_sub(TRAILER).min(self.longest)
    }

    fn inject(&mut self, to: P::To, bytes: &[u8]) -> Result<(), Self::PostError> {
        let limit = self.inject_size(to);
        if bytes.len() > limit {
            return Err(SendError::Frame(FrameError::TooLong { limit }));
        }
        let mut message = std::mem::take(&mut self.scratch);
        message.clear();
        message.extend_from_slice(bytes);
        self.scratch = frame::seal(message);
        self.below.inject(to, &self.scratch).map_err(SendError::Below)
    }
}

//! A protocol of one's own: messages in frames with a length and a checksum, over any endpoint.
//!
//! Over memory: `cargo run --example framed`. Over a provider: with `--features libfabric -- shm`.

#![forbid(unsafe_code)]

mod common;

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::{Av, Caps, Cq, CqError, Deadline, Domain, Hints, ImmediateData, Info, Rejected, Transfer, Transport};
use loom_static::protocol::{Completes, MsgRecv, MsgSend, Outcome, PostFailure, Posted, Receiver, Transmitter, Waited};

use common::Failure;
pub(crate) use loom_fabric::Program;

/// Length and CRC-32, 4 bytes each, little-endian, behind the message, whose buffer becomes the
/// frame's.
pub(crate) const TRAILER: usize = 8;

/// Fault of a frame, or error of the protocol below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError<E> {
    TooLong { limit: usize },
    Short { len: usize },
    Length { stated: u32, len: usize },
    Checksum,
    Below(E),
}

impl<E: fmt::Display> fmt::Display for FrameError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::TooLong { limit } => write!(f, "a frame takes at most {limit} bytes"),
            FrameError::Short { len } => write!(f, "a frame has at least {TRAILER} bytes, not {len}"),
            FrameError::Length { stated, len } => write!(f, "the frame states {stated} bytes and has {len}"),
            FrameError::Checksum => f.write_str("the frame has another checksum than it states"),
            FrameError::Below(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for FrameError<E> {}

impl<E: PostFailure> PostFailure for FrameError<E> {
    fn is_transient(&self) -> bool {
        matches!(self, FrameError::Below(error) if error.is_transient())
    }
}

pub(crate) fn seal(mut message: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    message.extend_from_slice(&len.to_le_bytes());
    let checksum = crc32fast::hash(&message);
    message.extend_from_slice(&checksum.to_le_bytes());
    message
}

pub(crate) fn open<E>(frame: &[u8]) -> Result<usize, FrameError<E>> {
    let short = FrameError::Short { len: frame.len() };
    let Some((sealed, checksum)) = frame.split_last_chunk() else { return Err(short) };
    let Some((message, len)) = sealed.split_last_chunk() else { return Err(short) };
    let (stated, len) = (u32::from_le_bytes(*len), message.len());
    if usize::try_from(stated) != Ok(len) {
        return Err(FrameError::Length { stated, len });
    }
    if u32::from_le_bytes(*checksum) == crc32fast::hash(sealed) { Ok(len) } else { Err(FrameError::Checksum) }
}

#[derive(Debug)]
pub(crate) struct Framed<P> {
    pub(crate) below: P,
    /// In bytes.
    pub(crate) longest: usize,
}

impl<P: Completes<Buf = Vec<u8>>> Framed<P> {
    pub(crate) fn send_frame<F>(&mut self, message: Vec<u8>, post: F) -> Posted<Self>
    where
        F: FnOnce(&mut P, Vec<u8>) -> Posted<P>,
    {
        if message.len() > self.longest {
            return Err(Rejected { value: message, error: FrameError::TooLong { limit: self.longest } });
        }
        post(&mut self.below, seal(message)).map(|key| (false, key)).map_err(without_trailer)
    }

    pub(crate) fn receive_frame<F>(&mut self, mut room: Vec<u8>, post: F) -> Posted<Self>
    where
        F: FnOnce(&mut P, Vec<u8>) -> Posted<P>,
    {
        room.resize(room.len() + TRAILER, 0);
        post(&mut self.below, room).map(|key| (true, key)).map_err(without_trailer)
    }
}

fn without_trailer<E>(Rejected { value: mut buf, error }: Rejected<Vec<u8>, E>) -> Rejected<Vec<u8>, FrameError<E>> {
    buf.truncate(buf.len() - TRAILER);
    Rejected { value: buf, error: FrameError::Below(error) }
}

impl<P: Completes<Buf = Vec<u8>>> Completes for Framed<P> {
    type Buf = Vec<u8>;
    /// `true` stands for a receive.
    type Key = (bool, P::Key);
    type PostError = FrameError<P::PostError>;
    type OpError = FrameError<P::OpError>;

    fn wait(&mut self, (received, key): Self::Key, until: impl Deadline) -> Waited<Self> {
        let Some(Outcome { mut buf, result }) = self.below.wait(key, until)? else { return Ok(None) };
        let result = result.map_err(FrameError::Below).and_then(|transfer| {
            let frame = &buf[..transfer.len.min(buf.len())];
            let len = if received { open(frame)? } else { frame.len().saturating_sub(TRAILER) };
            Ok(Transfer { len, ..transfer })
        });
        buf.truncate(buf.len() - TRAILER);
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
        self.send_frame(buf, |below, frame| below.send(to, frame))
    }

    fn send_data(&mut self, to: P::To, data: ImmediateData, buf: Vec<u8>) -> Posted<Self> {
        self.send_frame(buf, |below, frame| below.send_data(to, data, frame))
    }
}

impl<P: MsgRecv<Buf = Vec<u8>>> MsgRecv for Framed<P> {
    fn recv(&mut self, from: P::From, buf: Vec<u8>) -> Posted<Self> {
        self.receive_frame(buf, |below, room| below.recv(from, room))
    }
}

/// Sends bytes to a receiver of frames.
fn exchange<S: MsgSend<Buf = Vec<u8>>, R: MsgRecv<Buf = Vec<u8>>>(
    (from, to): (&mut S, S::To),
    receiver: &mut R,
    bytes: Vec<u8>,
) -> Result<Result<String, String>, Failure> {
    let until = Instant::now() + Duration::from_secs(10);
    let received = receiver.post(vec![0; 64], until, |receiver, room| receiver.recv(R::ANY, room));
    let sent = from.post(bytes, until, |from, bytes| from.send(to, bytes)).map_err(|refused| refused.to_string())?;
    let received = receiver.wait(received.map_err(|refused| refused.to_string())?, until)?.ok_or("no message")?;
    from.wait(sent, until)?.ok_or("the send has not completed")?.result.map_err(|error| error.to_string())?;
    let message = |len| String::from_utf8_lossy(&received.buf[..len]).into_owned();
    Ok(received.result.map(|it| message(it.len)).map_err(|error| error.to_string()))
}

/// Sends a frame, a damaged frame, and a message that is too long.
pub(crate) struct Frames;

impl Program for Frames {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 2)?, Cq::<T, Vec<u8>>::open(&domain, 16)?);
        let (mut alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
        let to_bob = av.insert(&bob.address()?)?;
        let (mut framed, mut bob) = (Framed { below: alice.clone(), longest: 64 }, Framed { below: bob, longest: 64 });
        let message = exchange((&mut framed, to_bob), &mut bob, b"hello".to_vec())??;
        let mut damaged = seal(b"hello".to_vec());
        damaged[1] ^= 0x20;
        let error = exchange((&mut alice, to_bob), &mut bob, damaged)?.err().ok_or("a damaged frame was received")?;
        let long = framed.send(to_bob, vec![7; 65]).err().ok_or("a message of 65 bytes was sent")?.error;
        Ok(format!("a frame: {message}\na damaged frame: {error}\na long message: {long}\n"))
    }
}

fn main() -> ExitCode {
    let provider = std::env::args().nth(1).unwrap_or("soft".to_owned());
    common::exit("framed", common::over(&Hints { caps: Caps::MSG, ..Hints::local(&provider) }, Frames))
}

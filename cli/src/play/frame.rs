//! Each side first sends [`MAGIC`], then frames: one byte for the kind, the length as 32 bits
//! (little-endian, at most [`MAX_FRAME`]), and the bytes. Other input is an error.

use std::fmt;

/// The last byte is the version of the format.
pub(crate) const MAGIC: [u8; 8] = *b"LOOM-PP\x01";
pub(crate) const MAX_FRAME: usize = 4096;
const HEADER: usize = 5;
const DATA: u8 = 0;
const FAILED: u8 = 1;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Data(Vec<u8>),
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    Stranger,
    Garbled,
    TooLong,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameError::Stranger => "is not `loom` of this version",
            FrameError::Garbled => "sent what is not a frame",
            FrameError::TooLong => "a message is too long for the other process",
        })
    }
}

#[derive(Default)]
pub(crate) struct Inbox {
    pending: Vec<u8>,
    greeted: bool,
}

impl Inbox {
    pub(crate) fn arrived(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    pub(crate) fn take(&mut self) -> Result<Option<Message>, FrameError> {
        if !self.greeted {
            let Some(magic) = self.pending.first_chunk() else { return Ok(None) };
            if *magic != MAGIC {
                return Err(FrameError::Stranger);
            }
            self.pending.drain(..MAGIC.len());
            self.greeted = true;
        }
        let Some((message, len)) = decode(&self.pending)? else { return Ok(None) };
        self.pending.drain(..len);
        Ok(Some(message))
    }
}

pub(crate) fn encode(message: &Message) -> Result<Vec<u8>, FrameError> {
    let (kind, bytes) = match message {
        Message::Data(bytes) => (DATA, &bytes[..]),
        Message::Failed(reason) => (FAILED, &reason.as_bytes()[..reason.len().min(MAX_FRAME)]),
    };
    let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME).ok_or(FrameError::TooLong)?;
    let mut frame = vec![kind];
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(frame)
}

fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, FrameError> {
    let Some([kind, len @ ..]) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let len = usize::try_from(u32::from_le_bytes(*len)).ok().filter(|len| *len <= MAX_FRAME);
    let len = len.ok_or(FrameError::Garbled)?;
    let Some(payload) = bytes.get(HEADER..HEADER + len) else { return Ok(None) };
    let message = match *kind {
        DATA => Message::Data(payload.to_vec()),
        // Control characters could harm a terminal.
        FAILED => Message::Failed(String::from_utf8_lossy(payload).replace(char::is_control, " ")),
        _ => return Err(FrameError::Garbled),
    };
    Ok(Some((message, HEADER + len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole_or_not_at_all() {
        for message in [Message::Data(vec![]), Message::Data(vec![7; MAX_FRAME]), Message::Failed("why".into())] {
            let Ok(frame) = encode(&message) else { panic!("fits") };
            for len in 0..frame.len() {
                assert!(matches!(decode(&frame[..len]), Ok(None)));
            }
            assert!(matches!(decode(&frame), Ok(Some((same, len))) if same == message && len == frame.len()));
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        assert!(decode(&[9, 0, 0, 0, 0]).is_err());
        assert!(decode(&[DATA, 1, 16, 0, 0]).is_err());
        assert!(decode(&[DATA, 255, 255, 255, 255]).is_err());
        assert!(encode(&Message::Data(vec![0; MAX_FRAME + 1])).is_err());
        let mut inbox = Inbox::default();
        inbox.arrived(b"GET / HTTP/1.1");
        assert_eq!(inbox.take(), Err(FrameError::Stranger));
    }
}

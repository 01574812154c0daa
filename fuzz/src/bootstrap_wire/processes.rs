//! Messages between the processes of programs.

use std::io::{self, Read, Write};

use arbitrary::Arbitrary;
use loom_core::vocabulary::{AddressFormat, EndpointAddr};

use super::frame::{self, FrameError, Inbox, MAGIC, MAX_FRAME, Message};
use super::items;

#[derive(Arbitrary, Debug)]
pub enum Frame<'a> {
    Data(&'a [u8]),
    Failed(&'a str),
    /// Message of up to the maximum length, or longer.
    Long(u16),
    Bytes(&'a [u8]),
}

impl Frame<'_> {
    /// Bytes on the wire, and the message to be read, if they are not refused.
    fn expected(&self) -> (Vec<u8>, Option<Message>) {
        let message = match self {
            Frame::Data(bytes) => Message::Data(bytes.to_vec()),
            Frame::Failed(reason) => Message::Failed((*reason).to_owned()),
            Frame::Long(len) => Message::Data(vec![7; usize::from(*len) % (2 * MAX_FRAME)]),
            Frame::Bytes(bytes) => return (bytes.to_vec(), None),
        };
        match frame::encode(&message) {
            Ok(bytes) => {
                let read = match message {
                    Message::Failed(reason) => Message::Failed(reason.replace(char::is_control, " ")),
                    data => data,
                };
                (bytes, Some(read))
            }
            Err(error) => {
                assert!(
                    error == FrameError::TooLong && matches!(message, Message::Data(data) if data.len() > MAX_FRAME)
                );
                (Vec::new(), None)
            }
        }
    }
}

/// Checks that the same messages result from any division of the bytes into pieces.
pub fn frames(greeting: Option<[u8; 8]>, frames: &[Frame<'_>], cut: u8) {
    let magic = greeting.unwrap_or(MAGIC);
    let mut wire = magic.to_vec();
    let mut wanted = Some(Vec::new());
    for frame in frames.iter().take(8) {
        let (bytes, message) = frame.expected();
        wire.extend_from_slice(&bytes);
        match (message, &mut wanted) {
            (Some(message), Some(wanted)) => wanted.push(message),
            // The content is undefined from here on.
            (None, _) if !bytes.is_empty() => wanted = None,
            _ => {}
        }
    }
    let whole = receive(&wire, wire.len());
    assert_eq!(whole, receive(&wire, 1 + usize::from(cut) % 64));
    if magic != MAGIC {
        assert_eq!(whole, (vec![], Some(FrameError::Stranger)));
    } else if let Some(wanted) = wanted {
        assert_eq!(whole, (wanted, None));
    }
}

fn receive(wire: &[u8], piece: usize) -> (Vec<Message>, Option<FrameError>) {
    let (mut inbox, mut messages) = (Inbox::default(), Vec::new());
    for bytes in wire.chunks(piece) {
        inbox.arrived(bytes);
        loop {
            match inbox.take() {
                Ok(Some(message)) => {
                    assert!(
                        matches!(&message, Message::Data(bytes) if bytes.len() <= MAX_FRAME)
                            || matches!(&message, Message::Failed(text) if !text.contains(char::is_control))
                    );
                    messages.push(message);
                }
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

/// Connection with an end that has sent all its bytes.
struct Said<'a> {
    theirs: &'a [u8],
    ours: Vec<u8>,
}

impl Read for Said<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.theirs.read(room)
    }
}

impl Write for Said<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ours.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn name(bytes: &[u8]) {
    let mut rest = bytes;
    let read = items::receive_name(&mut rest);
    let wanted = (bytes.len() >= 8).then(|| {
        let (len, format) = (bytes[..4].try_into().expect("four"), bytes[4..8].try_into().expect("four"));
        (u32::from_be_bytes(len) as usize, u32::from_ne_bytes(format))
    });
    let wanted = wanted.filter(|(len, _)| *len <= EndpointAddr::MAX_LEN && bytes.len() - 8 >= *len);
    match (read, wanted) {
        (Ok(name), Some((len, format))) => {
            assert_eq!((name.format(), name.bytes()), (AddressFormat::from_raw(format), &bytes[8..8 + len]));
            let mut written = Vec::new();
            items::send_name(&mut written, &name).expect("there is room");
            assert_eq!(written, bytes[..8 + len]);
            assert_eq!(rest, &bytes[8 + len..], "no more is read");
        }
        (Err(_), None) => {}
        (read, wanted) => panic!("{read:?} for {wanted:?}"),
    }
}

pub fn settle(bytes: &[u8], is_client: bool, received: u64) {
    let mut other = Said { theirs: bytes, ours: Vec::new() };
    let settled = items::settle(&mut other, is_client, received);
    if is_client {
        let text = received.to_string();
        let fits = text.len() <= 10;
        assert_eq!(settled.is_ok(), fits && bytes.starts_with(b"cnt ok\0"));
        if fits {
            assert_eq!(other.ours, [text.as_bytes(), &[0; 10][text.len()..]].concat());
        }
    } else {
        let told = bytes.get(..10).map(String::from_utf8_lossy);
        let told = told.and_then(|told| told.trim_end_matches('\0').parse::<u64>().ok());
        assert_eq!(settled.ok(), told);
        assert_eq!(other.ours, if told.is_some() { &b"cnt ok\0"[..] } else { &[] });
    }
    // A peer with another greeting is refused.
    let mut other = Said { theirs: bytes, ours: Vec::new() };
    assert_eq!(items::meet(&mut other, is_client).is_ok(), bytes.starts_with(if is_client { b"a\0" } else { b"q\0" }));
}

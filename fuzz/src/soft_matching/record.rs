//! What was posted and what was reported, written down as it comes, with what can be said of each report by itself.
//! Who should have got which message is the oracle's question, at the end.

use loom_core::completion::Done;
use loom_core::engine::op_table::{Direction, OpKey};
use loom_core::engine::peer_table::Peer;
use loom_core::error::PostError;
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr, TagMatch};

use super::{DEPTH, EAGER, ENDPOINTS, RX_DEPTH, TX_DEPTH};
use crate::memory::Memory;

/// An endpoint that was ever open.
pub struct Life {
    pub peer: Peer,
    pub addr: FabricAddr,
    pub queue: usize,
    pub open: bool,
}

/// A message that was handed to an inbox.
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub bytes: Vec<u8>,
    pub fate: Fate,
    /// Whether its receiver has moved on since its sender took it back.
    pub let_go: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Its sender does not know, or no more than that it is on its way.
    Sent,
    /// Its sender was told that it was copied from the buffer.
    Copied,
    /// Taken back before anybody saw it.
    Revoked,
    /// The receiver closed first.
    Refused,
}

/// A receive that was posted.
pub struct Receive {
    pub at: usize,
    pub from: Option<usize>,
    pub tag: Option<TagMatch>,
    pub len: usize,
    pub end: End,
}

#[derive(Debug, PartialEq)]
pub enum End {
    Waiting,
    Got(Got),
    Cancelled,
    Closed,
}

/// What a receive says that it got.
#[derive(Debug, PartialEq)]
pub struct Got {
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub bytes: Vec<u8>,
    pub overflow: usize,
    /// Not told of a message that was cut short.
    pub source: Option<FabricAddr>,
}

/// What an operation in flight is.
pub struct Op {
    pub queue: usize,
    pub key: OpKey,
    pub buffer: usize,
    pub life: usize,
    pub what: What,
    pub cancelled: bool,
}

#[derive(Clone, Copy)]
pub enum What {
    Message(usize),
    /// To somebody who is gone: it fails.
    Unreachable,
    Receive(usize),
}

/// Everything that has happened. Numbers in it are places in its lists.
#[derive(Default)]
pub struct Record {
    pub lives: Vec<Life>,
    pub messages: Vec<Message>,
    pub receives: Vec<Receive>,
    pub ops: Vec<Op>,
}

impl Record {
    /// One of the endpoints that were ever open; mostly one of the last.
    pub fn some_life(&self, number: u8) -> usize {
        self.lives.len() - 1 - usize::from(number) % self.lives.len().min(2 * ENDPOINTS)
    }

    /// Whether no later endpoint has been in the same place.
    pub fn is_newest(&self, life: usize) -> bool {
        let place = |life: &Life| life.addr.0 as u32;
        !self.lives[life + 1..].iter().any(|later| place(later) == place(&self.lives[life]))
    }

    /// A post was refused for lack of room: there must be a reason.
    pub fn assert_transient(&self, error: PostError, life: usize, direction: Direction) {
        let queue = self.lives[life].queue;
        match error {
            PostError::Full => {
                let in_flight = self.ops.iter().filter(|op| op.queue == queue).count();
                // Late events of a closed endpoint may take room in the queue's table.
                let closed = self.lives.iter().any(|life| life.queue == queue && !life.open);
                assert!(in_flight >= DEPTH || closed, "{in_flight} operations are too many");
            }
            PostError::Again if direction == Direction::Transmit => {
                // Cells stay with the place, so those of earlier endpoints in it count. A cell is home for certain when
                // somebody has told of its message, or its receiver has let go of it.
                let place = self.lives[life].addr.0 as u32;
                let told = |message: &Message| matches!(message.fate, Fate::Copied | Fate::Refused) || message.let_go;
                let sent = self.messages.iter().filter(|message| self.lives[message.from].addr.0 as u32 == place);
                let away = sent.filter(|message| !told(message)).count();
                assert!(away >= TX_DEPTH, "{away} cells are away");
            }
            PostError::Again => {
                let posted = |op: &&Op| op.life == life && matches!(op.what, What::Receive(_));
                let posted = self.ops.iter().filter(posted).count();
                assert!(posted >= RX_DEPTH, "{posted} receives are posted");
            }
            error => panic!("refused: {error}"),
        }
    }

    /// Writes down what a completion says.
    pub fn taken(&mut self, queue: usize, done: Done<Memory>) -> What {
        let at = self.ops.iter().position(|op| (op.queue, op.key) == (queue, done.key()));
        let op = self.ops.swap_remove(at.expect("a completion of an operation in flight, once"));
        let closed = !self.lives[op.life].open;
        let (buf, result) = done.into_parts();
        assert_eq!(buf.id, op.buffer);
        match op.what {
            What::Unreachable => {
                let errno = result.expect_err("nobody is there").errno;
                assert!(errno == Errno::EHOSTUNREACH || errno == Errno::ECANCELED && closed);
            }
            What::Message(message) => {
                let gone = !self.lives[self.messages[message].to].open;
                let message = &mut self.messages[message];
                assert!(buf.bytes()[..] == message.bytes[..], "a source is not written");
                let offered = message.bytes.len() > EAGER;
                match result {
                    Ok(transfer) => {
                        assert_eq!(transfer.len(), message.bytes.len());
                        if offered {
                            message.fate = Fate::Copied;
                        }
                    }
                    Err(error) => match error.errno {
                        Errno::ECANCELED => {
                            assert!(offered && op.cancelled || closed);
                            if offered {
                                message.fate = Fate::Revoked;
                            }
                        }
                        Errno::ECONNRESET => {
                            assert!(offered && gone);
                            message.fate = Fate::Refused;
                        }
                        errno => panic!("a send ended with {errno}"),
                    },
                }
            }
            What::Receive(receive) => {
                let receive = &mut self.receives[receive];
                assert_eq!(receive.end, End::Waiting);
                receive.end = match result {
                    Ok(transfer) => {
                        assert!(
                            buf.bytes()[transfer.len()..].iter().all(|byte| *byte == 0xee),
                            "written beyond its length"
                        );
                        End::Got(Got {
                            tag: transfer.tag().map(|tag| tag.0),
                            data: transfer.data().map(|data| data.0),
                            bytes: buf.bytes()[..transfer.len()].to_vec(),
                            overflow: 0,
                            source: transfer.source(),
                        })
                    }
                    Err(error) if error.errno == Errno::ETRUNC => {
                        assert_eq!(error.len, receive.len);
                        let has_data = error.flags.contains(CompletionFlags::REMOTE_CQ_DATA);
                        End::Got(Got {
                            tag: receive.tag.map(|_| error.tag.0),
                            data: has_data.then_some(error.data.0),
                            bytes: buf.bytes().to_vec(),
                            overflow: error.overflow,
                            source: None,
                        })
                    }
                    Err(error) => {
                        assert_eq!(error.errno, Errno::ECANCELED);
                        assert!(buf.bytes().iter().all(|byte| *byte == 0xee), "written although it was cancelled");
                        if op.cancelled {
                            End::Cancelled
                        } else {
                            assert!(closed);
                            End::Closed
                        }
                    }
                };
            }
        }
        op.what
    }

    /// All endpoints of a queue have moved on until there was nothing more to do: they keep nothing that was taken back
    /// before.
    pub fn moved_on(&mut self, queue: usize) {
        for message in &mut self.messages {
            message.let_go |= message.fate == Fate::Revoked && self.lives[message.to].queue == queue;
        }
    }

    /// Nothing is in flight but what nobody can end yet.
    pub fn assert_settled(&self) {
        for op in &self.ops {
            match op.what {
                // Nobody wants it yet.
                What::Message(message) => {
                    let message = &self.messages[message];
                    assert!(message.bytes.len() > EAGER && self.lives[message.to].open && self.lives[op.life].open);
                }
                What::Receive(_) => assert!(self.lives[op.life].open),
                What::Unreachable => panic!("it has failed"),
            }
        }
    }
}

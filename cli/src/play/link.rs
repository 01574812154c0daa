use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::failure::Failure;
use crate::play::bootstrap::Connection;
use crate::play::frame::Message;

enum Carrier {
    Alone,
    Thread { to: Sender<Message>, from: Receiver<Message> },
    Process(Connection),
}

/// Calls never wait: the [session](crate::play::session) does.
pub(crate) struct Link {
    carrier: Carrier,
    arrived: VecDeque<Vec<u8>>,
}

impl Link {
    pub(crate) fn alone() -> Self {
        Link::over(Carrier::Alone)
    }

    pub(crate) fn to_process(connection: Connection) -> Self {
        Link::over(Carrier::Process(connection))
    }

    pub(crate) fn between_threads() -> (Self, Self) {
        let ((to_one, from_other), (to_other, from_one)) = (channel(), channel());
        (
            Link::over(Carrier::Thread { to: to_other, from: from_other }),
            Link::over(Carrier::Thread { to: to_one, from: from_one }),
        )
    }

    fn over(carrier: Carrier) -> Self {
        Link { carrier, arrived: VecDeque::new() }
    }

    pub(crate) fn send(&mut self, message: Message) -> Result<(), Failure> {
        match &mut self.carrier {
            Carrier::Alone => {
                if let Message::Data(data) = message {
                    self.arrived.push_back(data);
                }
                Ok(())
            }
            // A side that has ended sent its reason before, which `receive` returns.
            Carrier::Thread { to, .. } => to.send(message).or(Ok(())),
            Carrier::Process(connection) => {
                let sent = connection.send(&message);
                if sent.is_err() {
                    // The other side's last message explains more than the lost connection.
                    self.watch()?;
                }
                sent
            }
        }
    }

    pub(crate) fn receive(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.watch()?;
        Ok(self.arrived.pop_front())
    }

    pub(crate) fn watch(&mut self) -> Result<(), Failure> {
        if !self.arrived.is_empty() {
            return Ok(());
        }
        let message = match &mut self.carrier {
            Carrier::Alone => None,
            Carrier::Thread { from, .. } => match from.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(Failure::OtherSide("ended early".into())),
            },
            Carrier::Process(connection) => connection.receive()?,
        };
        match message {
            Some(Message::Data(data)) => self.arrived.push_back(data),
            Some(Message::Failed(reason)) => return Err(Failure::OtherSide(format!("failed: {reason}"))),
            None => {}
        }
        Ok(())
    }
}

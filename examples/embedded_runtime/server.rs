//! The server: sends every request back, out of the buffer that it came in.

use std::time::Instant;

use heapless::Deque;
use loom_fabric::{Peer, Transport};

use crate::fabric::{Back, Buffer, Fabric, RECEIVES};
use crate::runtime::{Failure, Task};

pub(crate) struct Server<T: Transport> {
    fabric: Fabric<T>,
    client: Peer,
    budget: u32,
    /// Answers that had no room yet. No request is received into their buffers meanwhile, so there are never more.
    waiting: Deque<Buffer, RECEIVES>,
    /// Answers that are under way.
    sending: usize,
}

impl<T: Transport> Server<T> {
    pub(crate) const fn new(fabric: Fabric<T>, client: Peer, budget: u32) -> Self {
        Server { fabric, client, budget, waiting: Deque::new(), sending: 0 }
    }

    /// Sends what waits, as far as there is room.
    fn send(&mut self) -> Result<(), Failure> {
        while let Some(buffer) = self.waiting.pop_front() {
            if let Some(buffer) = self.fabric.send(self.client, buffer)? {
                self.waiting.push_front(buffer).map_err(|_| Failure("there is a buffer too many"))?;
                break;
            }
            self.sending += 1;
        }
        Ok(())
    }
}

impl<T: Transport> Task for Server<T> {
    fn turn(&mut self, _: Instant) -> Result<(), Failure> {
        for _ in 0..self.budget {
            match self.fabric.next()? {
                Some(Back::Sent(buffer)) => {
                    self.sending -= 1;
                    self.fabric.receive(buffer)?;
                }
                Some(Back::Received(buffer)) => {
                    self.waiting.push_back(buffer).map_err(|_| Failure("there is a buffer too many"))?;
                }
                None => break,
            }
        }
        self.send()
    }

    fn timer(&mut self, _: Instant, _: Instant) -> Result<(), Failure> {
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        None
    }

    fn stop(&mut self) {}

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sending == 0
    }
}

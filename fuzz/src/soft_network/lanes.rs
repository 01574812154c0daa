//! Lanes before a story: each endpoint sends short messages to the next one, until they use a lane.

use loom_core::completion::Completion;
use loom_core::endpoint::Source;

use super::world::World;
use super::{ENDPOINTS, QUEUES};
use crate::memory::Memory;

/// Number of messages. An endpoint requests a lane with the sixteenth message outside of one, and
/// uses it from the thirty-second on.
const MESSAGES: usize = 33;

impl World<'_> {
    /// Opens a lane from every endpoint to the next one, if no fault prevents it. The story does
    /// not record these messages.
    pub fn open_lanes(&mut self) {
        for from in 0..ENDPOINTS {
            let to = (from + 1) % ENDPOINTS;
            let [Some((_, sender)), Some((life, receiver))] = [&self.places[from], &self.places[to]] else { return };
            let (peer, _) = self.peer(*life);
            for _ in 0..MESSAGES {
                receiver.recv(Source::Any, Memory::new(&[0])).expect("there is room for one");
                sender.inject(peer, &[1]).expect("there is room for one");
                let received = self.queues[to % QUEUES].poll().expect("the queue works");
                assert!(matches!(received, Some(Completion::Op(done)) if done.result().is_ok()), "it has come");
            }
        }
        self.counters().iter().flatten().for_each(|counter| counter.set(0).expect("it is open"));
    }
}

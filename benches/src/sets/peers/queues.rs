//! Queues between the threads of one process. Messages are values, moved into the queue and out of
//! it.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crossbeam_queue::ArrayQueue;

use super::CAPACITY;
use super::end::{End, check};

/// Two queues, one for each direction. `push` returns `true` if the queue had room.
pub(crate) struct Queues<Push, Pop> {
    push: Push,
    pop: Pop,
}

impl<const WORDS: usize, Push, Pop> End for Queues<Push, Pop>
where
    Push: FnMut([u64; WORDS]) -> bool,
    Pop: FnMut() -> Option<[u64; WORDS]>,
{
    #[inline]
    fn send(&mut self, number: u64) {
        while !(self.push)([number; WORDS]) {}
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        loop {
            if let Some(words) = (self.pop)() {
                return check(&words, number);
            }
        }
    }
}

// All of them are polled. A thread that blocks sleeps at some time, and the operating system wakes
// it.

/// Crossbeam's bounded channel: many senders, many receivers.
pub(crate) fn crossbeam_channel<const WORDS: usize>() -> (impl End + Send, impl End + Send) {
    let (there, received) = crossbeam_channel::bounded::<[u64; WORDS]>(CAPACITY);
    let (back, answers) = crossbeam_channel::bounded::<[u64; WORDS]>(CAPACITY);
    (
        Queues { push: move |words| there.try_send(words).is_ok(), pop: move || answers.try_recv().ok() },
        Queues { push: move |words| back.try_send(words).is_ok(), pop: move || received.try_recv().ok() },
    )
}

/// Crossbeam's bounded queue, without a blocking wait.
pub(crate) fn crossbeam_queue<const WORDS: usize>() -> (impl End + Send, impl End + Send) {
    let queue = || Arc::new(ArrayQueue::<[u64; WORDS]>::new(CAPACITY));
    let (there, back) = (queue(), queue());
    let (received, answers) = (Arc::clone(&there), Arc::clone(&back));
    (
        Queues { push: move |words| there.push(words).is_ok(), pop: move || answers.pop() },
        Queues { push: move |words| back.push(words).is_ok(), pop: move || received.pop() },
    )
}

/// The bounded channel of the standard library: many senders, one receiver.
pub(crate) fn std_channel<const WORDS: usize>() -> (impl End + Send, impl End + Send) {
    let (there, received) = sync_channel::<[u64; WORDS]>(CAPACITY);
    let (back, answers) = sync_channel::<[u64; WORDS]>(CAPACITY);
    (
        Queues { push: move |words| there.try_send(words).is_ok(), pop: move || answers.try_recv().ok() },
        Queues { push: move |words| back.try_send(words).is_ok(), pop: move || received.try_recv().ok() },
    )
}

/// The ring of `rtrb`: one sender, one receiver.
pub(crate) fn rtrb<const WORDS: usize>() -> (impl End + Send, impl End + Send) {
    let (mut there, mut received) = rtrb::RingBuffer::<[u64; WORDS]>::new(CAPACITY);
    let (mut back, mut answers) = rtrb::RingBuffer::<[u64; WORDS]>::new(CAPACITY);
    (
        Queues { push: move |words| there.push(words).is_ok(), pop: move || answers.pop().ok() },
        Queues { push: move |words| back.push(words).is_ok(), pop: move || received.pop().ok() },
    )
}

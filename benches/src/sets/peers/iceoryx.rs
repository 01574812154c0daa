//! iceoryx2: publish and subscribe with one publisher and one subscriber for each direction,
//! polled.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample_mut_uninit::SampleMutUninit;
use std::mem::MaybeUninit;

use super::CAPACITY;
use super::end::{End, Exchange, Play, check};

/// Both ports of an end. The message is written in place, into a sample that was borrowed before,
/// as in iceoryx2's own benchmark.
pub(crate) struct Iceoryx<S: Service, const WORDS: usize> {
    publisher: Publisher<S, [u64; WORDS], ()>,
    subscriber: Subscriber<S, [u64; WORDS], ()>,
    loan: Option<SampleMutUninit<S, MaybeUninit<[u64; WORDS]>, ()>>,
    _node: Node<S>,
}

impl<S: Service, const WORDS: usize> Iceoryx<S, WORDS> {
    /// Opens an end of the connection `name`. `is_near` distinguishes the two.
    pub(crate) fn open(name: &str, is_near: bool, play: Play, exchange: Exchange<'_>) -> Self {
        let node = NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled).create::<S>().expect("node");
        // A ping-pong has one message in transit.
        let size = if play == Play::Answer { 1 } else { CAPACITY };
        let service = |direction: &str| {
            let name: ServiceName = format!("loom benches/{name}/{direction}").as_str().try_into().expect("a name");
            let builder = node.service_builder(&name).publish_subscribe::<[u64; WORDS]>();
            // For exactly these two, and without loss of messages.
            let builder = builder.max_publishers(1).max_subscribers(1).max_nodes(2).history_size(0);
            builder.subscriber_max_buffer_size(size).enable_safe_overflow(false).open_or_create().expect("service")
        };
        let (there, back) = if is_near { ("there", "back") } else { ("back", "there") };
        let (there, back) = (service(there), service(back));
        let publisher = there.publisher_builder().max_loaned_samples(2);
        let publisher = publisher.backpressure_strategy(BackpressureStrategy::RetryUntilDelivered);
        let publisher = publisher.create().expect("publisher");
        let subscriber = back.subscriber_builder().create().expect("subscriber");
        // Waits until both ends have their ports.
        exchange("");
        Iceoryx { publisher, subscriber, loan: None, _node: node }
    }
}

impl<S: Service, const WORDS: usize> End for Iceoryx<S, WORDS> {
    #[inline]
    fn send(&mut self, number: u64) {
        let mut sample = self.loan.take().unwrap_or_else(|| self.publisher.loan_uninit().expect("a sample is free"));
        let words = sample.payload_mut().as_mut_ptr().cast::<u64>();
        for word in 0..WORDS {
            // SAFETY: a word of the array.
            unsafe { words.add(word).write(number) };
        }
        // SAFETY: all of its words have been written.
        let sample = unsafe { sample.assume_init() };
        assert_eq!(sample.send().expect("sent"), 1, "there is one subscriber");
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        loop {
            if let Some(sample) = self.subscriber.receive().expect("the subscriber works") {
                return check(sample.payload(), number);
            }
        }
    }

    /// Borrows the next sample.
    #[inline]
    fn rest(&mut self) {
        if self.loan.is_none() {
            self.loan = Some(self.publisher.loan_uninit().expect("a sample is free"));
        }
    }
}

//! Messages that are longer than their receive, in each protocol of providers, by length.

use loom_core::completion::OpError;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Errno, Tag};

use crate::behaviours::needs::{Behaviour, MSG, tags};
use crate::behaviours::pair::{Bytes, OrCut, Pair, is_old, most, on_pair, pattern, retry, room};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("short_message_is_truncated_with_an_error", MSG, short_message_is_truncated_with_an_error),
        ("long_message_is_truncated_with_an_error", MSG, long_message_is_truncated_with_an_error),
        ("message_of_segments_is_truncated_with_an_error", MSG, message_of_segments_is_truncated_with_an_error),
        ("fetched_message_is_truncated_with_an_error", MSG, fetched_message_is_truncated_with_an_error),
        ("very_long_message_is_truncated_with_an_error", MSG, very_long_message_is_truncated_with_an_error),
    ]
}

/// Checks lengths that can be injected.
fn short_message_is_truncated_with_an_error<T: Transport + 'static>(info: &Info<T>) {
    are_truncated(info, &[1, 8, 200]);
}

/// Checks lengths that most providers copy into one packet.
fn long_message_is_truncated_with_an_error<T: Transport + 'static>(info: &Info<T>) {
    are_truncated(info, &[8 << 10]);
}

/// Checks lengths that `ofi_rxm` divides into segments.
fn message_of_segments_is_truncated_with_an_error<T: Transport + 'static>(info: &Info<T>) {
    are_truncated(info, &[17_000, 40_000, 1 << 17]);
}

/// Checks lengths that most providers fetch from their sender.
fn fetched_message_is_truncated_with_an_error<T: Transport + 'static>(info: &Info<T>) {
    are_truncated(info, &[200 << 10, 1 << 20]);
}

/// Checks messages that exceed their receive by more than the 1 MiB of room behind it.
fn very_long_message_is_truncated_with_an_error<T: Transport + 'static>(info: &Info<T>) {
    if info.provider() == "tcp;ofi_rxm" && !is_old(info, info.provider()) {
        crate::report::partly(
            "After a message that was more than 1 MiB too long, loom leaves the endpoint open, because closing it can \
                crash (`rxm-close-after-a-truncated-long-message-crashes`)",
        );
    }
    are_truncated(info, &[3 << 20]);
}

/// Sends messages of these lengths, with and without tags, to receives that lack a byte or all.
/// Later messages arrive whole.
fn are_truncated<T: Transport + 'static>(info: &Info<T>, lens: &[usize]) {
    on_pair(info, |pair| {
        pair.warm_up();
        for tagged in [false, true] {
            if tagged && !tags(info) {
                continue;
            }
            let walk = Walk { pair, tagged };
            for len in lens.iter().map(|len| most(info, *len)) {
                for (short, posted_first) in [(0, true), (4.min(len - 1), false), (len - 1, true)] {
                    // Two in sequence.
                    walk.truncate(len, short, posted_first);
                    walk.truncate(len, short, posted_first);
                    walk.go_on(len);
                }
            }
        }
    });
}

struct Walk<'p, 'q, 'd, T: Transport> {
    pair: &'p Pair<'q, 'd, T>,
    tagged: bool,
}

impl<T: Transport + 'static> Walk<'_, '_, '_, T> {
    fn receive(&self, at_b: bool, len: usize) -> OpKey {
        let at = if at_b { &self.pair.b } else { &self.pair.a };
        self.pair.post(room(len), |buf| match self.tagged {
            true => at.tagged_recv(Source::Any, Tag(3), buf),
            false => at.recv(Source::Any, buf),
        })
    }

    fn send(&self, to_b: bool, message: Bytes) -> OpKey {
        let pair = self.pair;
        let (from, to) = if to_b { (&pair.a, pair.to_b) } else { (&pair.b, pair.to_a) };
        pair.post(message, |buf| match self.tagged {
            true => from.tagged_send(to, Tag(3), buf),
            false => from.send(to, buf),
        })
    }

    /// Sends `len` bytes to a receive of `short` bytes.
    fn truncate(&self, len: usize, short: usize, posted_first: bool) {
        let pair = self.pair;
        let early = posted_first.then(|| self.receive(true, short));
        let sent = if len <= pair.domain.info().attributes().tx.inject_size {
            let message = pattern(len, 1);
            retry(pair.cq, || match self.tagged {
                true => pair.a.tagged_inject(pair.to_b, Tag(3), &message),
                false => pair.a.inject(pair.to_b, &message),
            });
            None
        } else {
            Some(self.send(true, pattern(len, 1)))
        };
        for _ in 0..if posted_first { 0 } else { 100 } {
            pair.cq.progress().or_cut("the queue works");
        }
        let received = early.unwrap_or_else(|| self.receive(true, short));
        let (buf, error) = pair.fail(received, Errno::ETRUNC);
        assert_eq!(buf.len(), short, "the buffer comes back");
        assert!(!pair.cq.error_text(&error).as_str().is_empty(), "the provider has a text for it");
        reports(&error, &buf, len);
        if let Some(sent) = sent {
            assert!(pair.end(sent).0 == pattern(len, 1), "the sender's buffer comes back unchanged");
        }
    }

    /// Sends messages in both directions, to receives of their length and longer ones.
    fn go_on(&self, len: usize) {
        let there = [(2, 16, 16), (3, 16, 1 << 16), (4, len, len), (5, 0, 0)].map(|message| (true, message));
        // Longer messages both ways crash a provider (`shm-longer-messages-both-ways-crash`).
        let back = [(6, 16, 16), (7, 16, 1 << 16)].map(|message| (false, message));
        for (to_b, (seed, len, room)) in there.into_iter().chain(back) {
            let received = self.receive(to_b, room);
            let sent = self.send(to_b, pattern(len, seed));
            let (buf, transfer) = self.pair.finish(received);
            assert_eq!((transfer.len, buf.len()), (len, room));
            assert!(buf[..len] == pattern(len, seed)[..], "{len} bytes arrive unchanged");
            self.pair.finish(sent);
        }
    }
}

/// Checks that the lengths in the error are those of the message if the provider reports them, or
/// unknown.
fn reports(error: &OpError, buf: &[u8], len: usize) {
    let fits = buf.len();
    match (error.len, error.overflow) {
        (Some(moved), Some(overflow)) => {
            assert_eq!((moved, overflow), (fits, len - fits));
            assert!(*buf == pattern(len, 1)[..fits], "the bytes that fit are in the buffer");
        }
        lens => {
            assert_eq!(lens, (None, None));
            crate::report::partly("If a message is more than 1 MiB longer than its buffer, its length is unknown");
        }
    }
}

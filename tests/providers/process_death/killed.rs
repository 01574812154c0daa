//! Peer process that is killed during a transfer. Every operation ends within a bound, at the
//! latest with its endpoint, and messages with others continue.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use loom_core::completion::Done;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};
use loom_core::info::Info;
use loom_core::vocabulary::{Errno, ImmediateData};

use super::Case;
use super::scene::{
    BEGIN, LEFT, LIMIT, LONG, LONGEST_ANSWER, MISSED, Player, RECEIVED, Scene, T, TAKEN, TRAIN, full, post, room,
    with_scene, with_scene_in_a_scope,
};
use crate::connected::Found;
use crate::process_death::report;
use crate::process_death::watched::{Middle, Watch, Watched};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("a_receiver_is_killed_in_the_middle_of_a_long_message", a_receiver_is_killed),
        ("a_sender_is_killed_in_the_middle_of_a_long_message", a_sender_is_killed),
        ("a_sender_is_killed_before_the_receive_of_its_long_message", a_sender_is_killed_before_its_receive),
        ("a_target_is_killed_in_the_middle_of_writes", a_target_of_writes_is_killed),
        ("a_target_is_killed_in_the_middle_of_reads", a_target_of_reads_is_killed),
        ("a_target_is_killed_in_the_middle_of_writes_with_immediate_data", a_target_of_writes_with_data_is_killed),
        ("a_sender_is_killed_in_the_middle_of_filling_one_buffer", a_filler_is_killed),
        ("a_receiver_is_killed_among_injected_messages", a_receiver_of_injected_messages_is_killed),
        ("a_target_is_killed_among_injected_writes", a_target_of_injected_writes_is_killed),
        ("closing_right_after_peers_were_killed_gives_every_buffer_back", closing_right_after_kills),
        ("posts_to_a_dead_peer_disturb_no_other_peer", posts_to_a_dead_peer),
    ]
}

const LATE: &str =
    "An operation to a killed peer ends only when its endpoint is closed (`rxd-message-to-a-killed-peer-never-ends`)";

#[derive(Default)]
struct Posted {
    keys: Vec<OpKey>,
    watches: Vec<Watch>,
    /// Buffers of this side, filled in sequence.
    filled: Vec<Watch>,
    /// Ended operations, with their buffers, which are compared.
    ended: Vec<Done<Watched>>,
    /// Number of operations that end only with their endpoint.
    stay: usize,
}

impl Posted {
    fn post(
        &mut self,
        scene: &Scene<'_, '_>,
        mut buf: Watched,
        post: impl Fn(Watched) -> Result<OpKey, Rejected<Watched>>,
    ) {
        self.watches.push(buf.watch());
        let deadline = Instant::now() + LIMIT;
        loop {
            match post(buf) {
                Ok(key) => return self.keys.push(key),
                Err(rejected) if rejected.error.is_transient() && Instant::now() < deadline => {
                    buf = rejected.value;
                    scene.cq.progress().expect("the queue works");
                }
                // The peer has killed itself by now: `sockets` has its own threads.
                Err(rejected) if scene.is("sockets") && rejected.error == PostError::Errno(Errno::ENOENT) => return,
                Err(rejected) => panic!("not posted: {}", rejected.error),
            }
        }
    }

    /// Posts a long operation that fills a buffer of this side.
    fn post_to_fill(&mut self, scene: &Scene<'_, '_>, post: impl Fn(Watched) -> Result<OpKey, Rejected<Watched>>) {
        let buf = room(LONG);
        self.filled.push(buf.watch());
        self.post(scene, buf, post);
    }

    /// Posts a receive from any source: it stays when one of its possible senders is killed.
    fn post_open_receive(&mut self, scene: &Scene<'_, '_>) {
        self.post(scene, room(64), |buf| scene.a.recv(Source::Any, buf));
        self.stay += 1;
    }

    /// Kills the peer during the operation, here, or by itself if the middle is visible there.
    /// Returns `false` if the middle was missed.
    fn middle(&mut self, scene: &Scene<'_, '_>, killed: &mut Player) -> bool {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            assert!(Instant::now() < deadline, "never in the middle: {:?} left, {:?} ended", self.keys, self.ended);
            match Middle::of(&self.filled) {
                Middle::Before => {}
                Middle::Here => killed.process.kill(),
                Middle::Missed => return false,
            }
            if let Some(status) = killed.process.ended() {
                break status;
            }
            self.ended.append(&mut scene.take(&mut self.keys));
        };
        if status.code() == Some(MISSED) {
            return false;
        }
        assert_eq!(status.signal(), Some(9), "{status}");
        true
    }
}

/// Kills the sender of a message that waits for its receive. The message arrives whole, or its
/// receive fails, or stays.
fn a_sender_is_killed_before_its_receive(info: &Info<T>) {
    with_scene(info, ["leaves"], |scene, [mut killed]| {
        scene.exchange(2);
        killed.process.kill();
        let deadline = Instant::now() + LIMIT;
        while killed.process.ended().is_none() {
            assert!(Instant::now() < deadline, "the process ends");
            scene.cq.progress().expect("the queue works");
        }
        scene.exchange(2);
        let into = room(LEFT);
        let watch = into.watch();
        let mut keys = vec![post(scene.cq, into, |buf| scene.a.tagged_recv(Source::Any, RECEIVED, buf))];
        scene.exchange(2);
        for done in scene.take(&mut keys) {
            let (bytes, result) = done.into_parts();
            println!("{result:?}");
            let is_whole = |len| len == LEFT && bytes.into_bytes() == vec![1; LEFT].into();
            assert!(result.is_err() || result.is_ok_and(|transfer| is_whole(transfer.len)), "other bytes");
        }
        vec![watch]
    });
}

/// Repeats a case that has missed the middle: some providers continue while this process is not
/// running.
pub(crate) fn until_in_the_middle(case: impl Fn() -> bool) {
    assert!((0..5).any(|_| case()), "never in the middle");
}

type Posts = fn(&Scene<'_, '_>, &Player, &mut Posted);

/// Kills a peer during an operation. The other peer continues, and every operation ends.
fn kill_in_the_middle(info: &Info<T>, part: &str, posts: Posts) {
    until_in_the_middle(|| {
        let mut met = false;
        kill_once(info, part, posts, &mut met);
        met
    });
}

fn kill_once(info: &Info<T>, part: &str, posts: Posts, met: &mut bool) {
    with_scene(info, [part], |scene, [mut killed]| {
        scene.exchange(1);
        let mut posted = Posted::default();
        posts(&scene, &killed, &mut posted);
        *met = posted.middle(&scene, &mut killed);
        if !*met {
            return posted.watches;
        }
        scene.exchange(2);

        let Posted { mut keys, watches, mut stay, .. } = posted;
        if scene.is("udp;ofi_rxd") {
            report::partly(LATE);
            stay = keys.len();
        } else if scene.is("tcp;ofi_rxm") && part == "receives" {
            report::partly(
                "A long message to a killed peer ends only when its endpoint is closed \
                    (`rxm-long-message-to-a-killed-peer-never-ends`)",
            );
            stay += TRAIN + 1;
        }
        let deadline = Instant::now() + LIMIT;
        while keys.len() > stay {
            assert!(Instant::now() < deadline, "{keys:?} never ended");
            scene.take(&mut keys);
        }
        scene.exchange(1);
        close_first(scene, &mut keys);
        watches
    });
}

/// Reason for an untested provider.
const KEPT: &str = "An operation that never ends keeps its buffer, endpoint and queue";

/// Checks that operations end with their endpoint at the latest, and that others stay.
fn close_first(scene: Scene<'_, '_>, keys: &mut Vec<OpKey>) {
    let deadline = Instant::now() + LIMIT;
    drop(scene.a);
    assert!(Instant::now() < deadline, "closing took too long");
    let scene = Scene { a: scene.cq.endpoint(scene.av).expect("another endpoint"), ..scene };
    scene.take(keys);
    if T::is_tested(scene.info) {
        assert!(keys.is_empty(), "{keys:?} have not ended with their endpoint");
    } else {
        report::partly(KEPT);
    }
    scene.exchange_from(&scene.b, 1, LONGEST_ANSWER, 9);
}

fn receives(scene: &Scene<'_, '_>, to: &Player, posted: &mut Posted) {
    posted.post_open_receive(scene);
    for _ in 0..TRAIN {
        posted.post(scene, full(LONG), |buf| scene.a.tagged_send(to.peer, RECEIVED, buf));
    }
    // And messages without a receive there.
    for len in [64, 64, 64, 64, LONG] {
        posted.post(scene, full(len), |buf| scene.a.send(to.peer, buf));
    }
}

fn sends(scene: &Scene<'_, '_>, from: &Player, posted: &mut Posted) {
    for _ in 0..TRAIN {
        posted.post_to_fill(scene, |buf| scene.a.tagged_recv(Source::Any, RECEIVED, buf));
    }
    // At most one has begun.
    posted.stay += TRAIN - 1;
    posted.post_open_receive(scene);
    posted.post(scene, full(1), |buf| scene.a.tagged_send(from.peer, BEGIN, buf));
}

fn places() -> impl Iterator<Item = u64> {
    (0..TRAIN).map(|number| u64::try_from(number * LONG).expect("small"))
}

fn is_written(scene: &Scene<'_, '_>, to: &Player, posted: &mut Posted) {
    posted.post_open_receive(scene);
    for place in places() {
        posted.post(scene, full(LONG), |buf| scene.a.write(to.peer, &to.region, place, buf));
    }
}

fn is_written_with_data(scene: &Scene<'_, '_>, to: &Player, posted: &mut Posted) {
    posted.post_open_receive(scene);
    for place in places() {
        let data = ImmediateData(0x1234_5678);
        posted.post(scene, full(LONG), |buf| scene.a.write_data(to.peer, &to.region, place, data, buf));
    }
}

fn fills(scene: &Scene<'_, '_>, from: &Player, posted: &mut Posted) {
    let buf = room(TRAIN * LONG);
    posted.filled.push(buf.watch());
    posted.post(scene, buf, |buf| match scene.a.multi_recv(Source::Any, buf) {
        Err(Rejected { value: buf, error: PostError::NotSafe }) => {
            report::partly(
                "Only the `unsafe` form of multi-receives is tested with a killed sender \
                (`…-multi-receive-…`)",
            );
            // SAFETY: the endpoint was opened with the length of the messages. As many arrive as
            // fit, from one peer, which is killed before the endpoint closes. The exchanges with
            // the others take the rest of its messages.
            unsafe { scene.a.multi_recv_unchecked(Source::Any, None, buf) }
        }
        result => result,
    });
    // It waits for other senders.
    posted.stay += 1;
    posted.post(scene, full(1), |buf| scene.a.tagged_send(from.peer, BEGIN, buf));
}

fn is_read(scene: &Scene<'_, '_>, to: &Player, posted: &mut Posted) {
    posted.post_open_receive(scene);
    for place in places() {
        posted.post_to_fill(scene, |buf| scene.a.read(to.peer, &to.region, place, buf));
    }
}

fn a_receiver_is_killed(info: &Info<T>) {
    kill_in_the_middle(info, "receives", receives);
}

fn a_sender_is_killed(info: &Info<T>) {
    kill_in_the_middle(info, "sends", sends);
}

fn a_target_of_writes_is_killed(info: &Info<T>) {
    kill_in_the_middle(info, "is-written", is_written);
}

fn a_target_of_reads_is_killed(info: &Info<T>) {
    kill_in_the_middle(info, "is-read", is_read);
}

fn a_target_of_writes_with_data_is_killed(info: &Info<T>) {
    kill_in_the_middle(info, "is-written", is_written_with_data);
}

fn a_filler_is_killed(info: &Info<T>) {
    if !T::is_tested(info) {
        // The remaining room of a returned buffer is unknown: the safe form is refused.
        return with_scene(info, [], |scene, []| {
            let posted = scene.a.multi_recv(Source::Any, room(8)).map_err(|rejected| rejected.error);
            assert!(matches!(posted, Err(PostError::NotSafe | PostError::NotGranted(_))), "{posted:?}");
            crate::process_death::report::not_granted();
            Vec::new()
        });
    }
    kill_in_the_middle(info, "fills", fills);
}

type Injects = fn(&Scene<'_, '_>, &Player, u64) -> Result<(), PostError>;

/// Kills a peer among injected messages: without operations, no end is checked, but others
/// continue.
fn kill_among(info: &Info<T>, part: &str, inject: Injects) {
    with_scene(info, [part], |scene, [mut killed]| {
        scene.exchange(1);
        let mut posted = Posted::default();
        posted.post_open_receive(&scene);
        let Posted { mut keys, watches, .. } = posted;
        let deadline = Instant::now() + LIMIT;
        let mut number = 0;
        let status = loop {
            assert!(Instant::now() < deadline, "it does not end");
            // A limit, so that failures without an operation, which are not taken, do not fill the
            // queue.
            if number < TAKEN + 20 && inject(&scene, &killed, number).is_ok() {
                number += 1;
            }
            scene.take(&mut keys);
            if let Some(status) = killed.process.ended() {
                assert!(number >= TAKEN, "killed before its time");
                break status;
            }
        };
        assert_eq!(status.signal(), Some(9), "{status}");
        for number in 0..20 {
            // The post may be refused, because the peer is dead.
            let _ = inject(&scene, &killed, number);
            scene.take(&mut keys);
        }
        scene.exchange(2);
        close_first(scene, &mut keys);
        watches
    });
}

fn a_receiver_of_injected_messages_is_killed(info: &Info<T>) {
    kill_among(info, "takes", |scene, to, number| match number % 2 {
        0 => scene.a.inject(to.peer, &[1; 64]),
        _ => scene.a.tagged_inject(to.peer, RECEIVED, &[1; 64]),
    });
}

fn a_target_of_injected_writes_is_killed(info: &Info<T>) {
    kill_among(info, "is-written", |scene, to, number| {
        // It checks the first byte, and the last.
        let place = if number % TAKEN == TAKEN - 1 { 0 } else { 64 };
        match number % 2 {
            0 => scene.a.inject_write(to.peer, &to.region, place, &[1; 64]),
            _ => scene.a.inject_write_data(to.peer, &to.region, place, ImmediateData(number), &[1; 64]),
        }
    });
}

/// Closes objects before the provider has noticed the death, at last with a forgotten endpoint,
/// which leaks its buffers.
fn closing_right_after_kills(info: &Info<T>) {
    for forgets in [false, true] {
        until_in_the_middle(|| {
            let mut met = true;
            close_once(info, forgets, &mut met);
            met
        });
    }
}

fn close_once(info: &Info<T>, forgets: bool, met: &mut bool) {
    let parts = ["receives", "sends", "is-written", "is-read"];
    // A scope would end the process if lent memory does not return. For such a provider the
    // forgotten endpoint keeps its queue.
    let in_scope = T::is_tested(info);
    if forgets && in_scope {
        with_scene_in_a_scope(info, parts, |scene, mut killed| {
            let (watches, mut keys) = kill_all(&scene, &mut killed, met);
            drop(scene.take(&mut keys));
            let in_flight = scene.cq.in_flight();
            std::mem::forget(scene.a);
            (watches, in_flight)
        });
    } else {
        with_scene(info, parts, |scene, mut killed| {
            let (watches, mut keys) = kill_all(&scene, &mut killed, met);
            if forgets {
                std::mem::forget(scene.a);
            } else {
                close_first(scene, &mut keys);
            }
            watches
        });
    }
}

/// Kills each peer in its part. Returns the buffers, and the operations that have not ended.
fn kill_all(scene: &Scene<'_, '_>, killed: &mut [Player; 4], met: &mut bool) -> (Vec<Watch>, Vec<OpKey>) {
    scene.exchange(1);
    let posts: [Posts; 4] = [receives, sends, is_written, is_read];
    let mut watches = Vec::new();
    let mut keys = Vec::new();
    for (killed, posts) in killed.iter_mut().zip(posts) {
        let mut posted = Posted { keys: std::mem::take(&mut keys), ..Posted::default() };
        posts(scene, killed, &mut posted);
        *met &= posted.middle(scene, killed);
        watches.append(&mut posted.watches);
        keys = posted.keys;
    }
    (watches, keys)
}

/// Posts operations of every kind to a dead peer: once when the death may be unnoticed, and once
/// more.
fn posts_to_a_dead_peer(info: &Info<T>) {
    with_scene(info, ["idle"], |scene, [mut killed]| {
        killed.process.kill();
        let deadline = Instant::now() + LIMIT;
        while killed.process.ended().is_none() {
            assert!(Instant::now() < deadline, "it does not end");
        }
        let (a, to) = (&scene.a, &killed);
        let posts: [&dyn Fn(Watched) -> Result<OpKey, Rejected<Watched>>; 4] = [
            &|buf| a.send(to.peer, buf),
            &|buf| a.tagged_send(to.peer, RECEIVED, buf),
            &|buf| a.write(to.peer, &to.region, 0, buf),
            &|buf| a.read(to.peer, &to.region, 0, buf),
        ];
        let (mut watches, mut keys) = (Vec::new(), Vec::new());
        let refuses = ["tcp;ofi_rxm", "net", "tcp"].into_iter().any(|provider| scene.is(provider));
        if refuses {
            report::partly("Posts to a killed peer are refused as `PostError::Again` for ever");
        }
        let patience = if refuses { Duration::from_millis(50) } else { LIMIT };
        let mut refused = false;
        for _ in 0..2 {
            for (post, len) in posts.iter().flat_map(|post| [(post, 64), (post, 1 << 20)]) {
                let mut buf = full(len);
                watches.push(buf.watch());
                let until = Instant::now() + patience;
                loop {
                    match post(buf) {
                        Ok(key) => break keys.push(key),
                        Err(rejected) if rejected.error.is_transient() && Instant::now() < until => {
                            buf = rejected.value;
                            scene.take(&mut keys);
                        }
                        Err(rejected) => {
                            refused |= rejected.error.is_transient();
                            break;
                        }
                    }
                }
            }
            scene.exchange(1);
            if scene.is("udp;ofi_rxd") {
                report::partly(LATE);
                break;
            }
            while !keys.is_empty() {
                assert!(Instant::now() < deadline, "{keys:?} never ended");
                scene.take(&mut keys);
            }
        }
        assert_eq!(refused, refuses, "whether it says \"try again\", however often it is tried");
        close_first(scene, &mut keys);
        watches
    });
}

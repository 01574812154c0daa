//! Roles of the other processes.

use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Instant;

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, EndpointAddr, Tag};

use super::initiators;
use super::scene::{
    BEGIN, ECHO, LEFT, LIMIT, LONG, LONGEST_ANSWER, MISSED, RECEIVED, T, TAKEN, TRAIN, finish, full, piece_len, post,
    room,
};
use crate::process_death::watched::{Middle, Watched};

/// Plays a part until it is killed, or kills itself, depending on the part.
pub(crate) fn play(role: &str) {
    // The input ends with the process that has started this one.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let [provider, part, hello, a, b] = role.split(' ').collect::<Vec<_>>().try_into().expect("five words");
    let info = super::offer(provider).expect("the provider");
    let domain = Domain::open(&info).expect("domain");
    let av = Av::open(&domain, 8).expect("address vector");
    let [a, b] = [a, b].map(|address| {
        let address: EndpointAddr = address.parse().expect("an address");
        av.insert(&address).expect("in the vector")
    });
    // The value differs for reads, to separate read bytes from missing ones.
    let content = u8::from(part == "is-read");
    let region =
        Mr::open(&domain, vec![content; TRAIN * LONG], Access::REMOTE_READ | Access::REMOTE_WRITE).expect("a region");
    let cq = Cq::<T, Watched>::open(&domain, CqAttr::new(64)).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let own = endpoint.address().expect("its address").to_string();
    // Posted before any message arrives, so that no message has to wait for it.
    let incoming: Vec<_> = (0..if part == "receives" { TRAIN } else { 0 })
        .map(|_| {
            let into = room(LONG);
            let watch = into.watch();
            post(&cq, into, |buf| endpoint.tagged_recv(Source::Any, RECEIVED, buf));
            watch
        })
        .collect();
    let hello = Tag(hello.parse().expect("a number"));
    let place = [&region.remote().to_bytes(), own.as_bytes()].concat();
    let said = post(&cq, place.into(), |buf| endpoint.tagged_send(a, hello, buf));
    finish(&cq, said);
    if part == "sends" || part == "fills" {
        // A message without a receive has no visible middle.
        let begins = post(&cq, room(1), |buf| endpoint.tagged_recv(Source::Any, BEGIN, buf));
        finish(&cq, begins);
    }
    if part == "sends" {
        for _ in 0..TRAIN {
            post(&cq, full(LONG), |buf| endpoint.tagged_send(a, RECEIVED, buf));
        }
    }
    if part == "leaves" {
        post(&cq, full(LEFT), |buf| endpoint.tagged_send(a, RECEIVED, buf));
    }
    if part == "fills" {
        let len = piece_len(provider);
        for _ in 0..TRAIN * LONG / len {
            post(&cq, full(len), |buf| endpoint.send(a, buf));
            while cq.poll().expect("works").is_some() {}
        }
    }
    let incoming = if initiators::PARTS.contains(&part) { initiators::play(part, &cq, &endpoint, a) } else { incoming };
    if part == "takes" {
        for _ in 0..TAKEN / 2 {
            let plain = post(&cq, room(64), |buf| endpoint.recv(Source::Any, buf));
            let tagged = post(&cq, room(64), |buf| endpoint.tagged_recv(Source::Any, RECEIVED, buf));
            finish(&cq, plain);
            finish(&cq, tagged);
        }
        kill_itself();
    }
    let listen = || post(&cq, room(LONGEST_ANSWER), |buf| endpoint.tagged_recv(Source::Any, ECHO, buf));
    let mut listens = (part == "answers").then(listen);
    let mut ended = Vec::new();
    let window = region.window();
    let byte = |at| window.load(at, Ordering::Relaxed).expect("within the region");
    // Longer than the test, as a limit for a forgotten peer.
    let deadline = Instant::now() + 6 * LIMIT;
    while Instant::now() < deadline {
        match cq.poll().expect("works") {
            Some(Completion::Op(done)) if Some(done.key()) == listens => {
                let (buf, result) = done.into_parts();
                let len = result.expect("a question").len;
                let mut bytes = buf.into_bytes().into_vec();
                bytes.truncate(len);
                let to = if bytes[0] == 0 { a } else { b };
                bytes.iter_mut().for_each(|byte| *byte += 1);
                listens = Some(listen());
                // Its completion is not awaited.
                post(&cq, bytes.into(), |buf| endpoint.tagged_send(to, ECHO, buf));
            }
            // Received messages are still compared.
            Some(Completion::Op(done)) => ended.push(done),
            Some(_) => {}
            None => std::thread::yield_now(),
        }
        let middle = match part {
            "is-written" if byte(TRAIN * LONG - 1) != 0 => Middle::Missed,
            "is-written" if byte(0) != 0 => Middle::Here,
            _ => Middle::of(&incoming),
        };
        if middle == Middle::Missed {
            std::process::exit(MISSED);
        }
        if middle == Middle::Here {
            kill_itself();
        }
    }
}

fn kill_itself() {
    // SAFETY: the only effect is the end of the process.
    unsafe { libc::raise(libc::SIGKILL) };
}

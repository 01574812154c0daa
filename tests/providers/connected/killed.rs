//! Peer process that is killed during a transfer: every operation ends within a bound, the event
//! queue reports the end, and other connections continue.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

use loom_core::Error;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::ThePeer;
use loom_core::engine::op_table::OpKey;
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::{PostError, Rejected};
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::MemoryRegions;
use loom_core::vocabulary::{Access, EndpointAddr, ImmediateData};

use super::Case;
use super::sides::{Bytes, Endpoint, LIMIT, Sides, T, client_info, room, with_sides};

/// Environment variable of a peer's process: the provider, the server's address, and its part.
pub(crate) const ROLE: &str = "LOOM_CONNECTED_PEER";

/// Length that takes many polls.
const LONG: usize = 32 << 20;

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("a_receiver_is_killed_in_the_middle_of_a_message", a_receiver_is_killed_in_the_middle_of_a_message),
        ("a_sender_is_killed_in_the_middle_of_a_message", a_sender_is_killed_in_the_middle_of_a_message),
        ("a_target_is_killed_in_the_middle_of_writes", a_target_is_killed_in_the_middle_of_writes),
        ("a_target_is_killed_in_the_middle_of_reads", a_target_is_killed_in_the_middle_of_reads),
        ("a_target_is_killed_in_the_middle_of_writes_with_immediate_data", a_target_is_killed_in_the_middle_of_data),
        ("a_peer_is_killed_after_injected_operations", a_peer_is_killed_after_injected_operations),
        ("an_initiator_is_killed_in_the_middle_of_writes", |info| an_initiator_is_killed(info, "writes")),
        ("an_initiator_is_killed_in_the_middle_of_writes_with_immediate_data", |info| {
            an_initiator_is_killed(info, "writes-data");
        }),
        ("an_initiator_is_killed_in_the_middle_of_reads", |info| an_initiator_is_killed(info, "reads")),
    ]
}

pub(crate) fn play(role: &str) {
    let [provider, address, part] = role.split(' ').collect::<Vec<_>>().try_into().expect("three words");
    let address: EndpointAddr = address.parse().expect("an address");
    let info = client_info(&super::offer(provider).expect("the provider"), &address);
    let domain = Domain::open(&info).expect("domain");
    let region = Mr::open(&domain, room(LONG), Access::REMOTE_READ | Access::REMOTE_WRITE).expect("a region");
    let eq = EventQueue::open(&domain, EqAttr::default()).expect("event queue");
    let cq = Cq::<T, Bytes>::open(&domain, CqAttr::new(64)).expect("queue");
    let endpoint = cq.msg_endpoint(&eq, &info).expect("endpoint");
    let connecting = endpoint.connect(&address, b"pair").expect("asks");
    let deadline = Instant::now() + LIMIT;
    let endpoint = loop {
        assert!(Instant::now() < deadline, "not connected within {LIMIT:?}");
        if let Some(EqEvent::Connected(event)) = eq.poll().expect("works") {
            break connecting.established(&event).expect("about this one");
        }
    };
    let told = endpoint.send(ThePeer, region.remote().to_bytes().to_vec().into()).expect("posts");
    cq.wait(told, deadline).expect("works").expect("in time").result().expect("sent");
    match part {
        "receives" => drop(endpoint.recv(ThePeer, room(LONG)).expect("posts")),
        "sends" => drop(endpoint.send(ThePeer, room(LONG)).expect("posts")),
        "exposes" => {}
        initiates => initiate(initiates, &cq, &endpoint),
    }
    // Longer than the test, as a limit for a forgotten peer.
    let deadline = Instant::now() + 3 * LIMIT;
    while Instant::now() < deadline {
        while cq.poll().expect("works").is_some() {}
        let _ = eq.poll();
    }
}

/// Accesses the region that the other side sends. Reports the end of the first operation, and then
/// of the last.
fn initiate(part: &str, cq: &Cq<'_, T, Bytes>, endpoint: &Endpoint<'_>) {
    let finish = |key| {
        let ended = cq.wait(key, Instant::now() + LIMIT).expect("works").expect("in time");
        let (bytes, result) = ended.into_parts();
        result.expect("it succeeds");
        bytes
    };
    let bytes = finish(endpoint.recv(ThePeer, room(RemoteRegion::WIRE_LEN)).expect("posts"));
    let region = RemoteRegion::from_bytes(&(*bytes).try_into().expect("as long as a region"));
    let initiated = [0, 1, 2, 3].map(|number: u64| {
        let (at, buf) = (GAP as u64, vec![WRITTEN; LONG].into());
        crate::connected::posting::post(cq, buf, |buf| match part {
            "reads" | "visits-reading" => endpoint.read(ThePeer, &region, at, buf),
            "writes" | "visits-writing" => endpoint.write(ThePeer, &region, at, buf),
            _ => endpoint.write_data(ThePeer, &region, at, ImmediateData(number), buf),
        })
    });
    let [first, between @ .., last] = initiated;
    let told = |key| {
        let bytes = finish(key);
        assert!(part != "visits-reading" || *bytes == *vec![READ; LONG]);
        finish(crate::connected::posting::post(cq, vec![1].into(), |buf| endpoint.send(ThePeer, buf)));
    };
    told(first);
    for key in between {
        finish(key);
    }
    told(last);
}

/// A process that plays a part. Drop kills it.
struct Peer(Child);

impl Peer {
    fn kill(&mut self) {
        self.0.kill().expect("kills");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const GAP: usize = 1000;
const UNTOUCHED: u8 = 0xa5;
const READ: u8 = 2;
const WRITTEN: u8 = 1;

/// Starts a peer, and accepts its connection. Returns the region that the peer sends.
fn peer<'d>(sides: &Sides<'_, 'd>, part: &str) -> (Peer, Endpoint<'d>, RemoteRegion) {
    let role = format!("{} {} {part}", sides.domain.info().provider(), sides.address);
    let process = Command::new(std::env::current_exe().expect("this program"))
        .env(ROLE, role)
        .stdout(Stdio::null())
        .spawn()
        .expect("a second process");
    let process = Peer(process);
    let endpoint = sides.request().endpoint(sides.cq, sides.server).expect("an endpoint");
    let told = endpoint.recv(ThePeer, room(RemoteRegion::WIRE_LEN)).expect("posts");
    let accepting = endpoint.accept(&[]).expect("accepts");
    let endpoint = sides.established(sides.server, accepting);
    let (bytes, _) = sides.finish(told);
    (process, endpoint, RemoteRegion::from_bytes(&(*bytes).try_into().expect("as long as a region")))
}

/// Kills a peer during an operation, and checks that every operation ends. Another peer continues.
fn kill_in_the_middle(
    info: &Info<T>,
    part: &str,
    post: fn(&Sides<'_, '_>, &Endpoint<'_>, &RemoteRegion) -> Vec<OpKey>,
) {
    with_sides(info, |sides| {
        let (_stays, other, _) = peer(sides, "receives");
        let (mut killed, endpoint, region) = peer(sides, part);
        let mut left = post(sides, &endpoint, &region);
        let polls = Instant::now() + std::time::Duration::from_millis(5);
        let mut ended = 0;
        while Instant::now() < polls {
            ended += usize::from(taken(sides, &mut left).is_some());
        }
        killed.kill();
        // The queue reports it, unless this side only writes, over a provider that does not check
        // then.
        let deadline = Instant::now() + LIMIT;
        let mut told = false;
        while !told && Instant::now() < deadline {
            ended += usize::from(taken(sides, &mut left).is_some());
            match sides.server.poll().expect("works") {
                Some(EqEvent::Shutdown(event)) => told = event.is_of(&endpoint),
                Some(EqEvent::Failed(failure)) => told = failure.is_of(&endpoint),
                Some(event) => panic!("the end of the connection, not {event:?}"),
                None if info.provider() == "sockets" => break,
                None => {}
            }
        }
        if info.provider() == "sockets" {
            crate::connected::report::partly(
                "The provider does not always report the end of a connection to which it writes",
            );
        } else {
            assert!(told, "not told within {LIMIT:?}");
        }
        drop(endpoint);
        while !left.is_empty() {
            assert!(Instant::now() < deadline, "{left:?} never ended");
            ended += usize::from(taken(sides, &mut left).is_some());
        }
        println!("{ended} operations ended");
        assert!(ended > 0);
        // The other peer still receives.
        let sent = sides.post(room(LONG), |buf| other.send(ThePeer, buf));
        sides.finish(sent);
        assert_eq!(sides.cq.in_flight(), 0);
    });
}

fn taken(sides: &Sides<'_, '_>, left: &mut Vec<OpKey>) -> Option<OpKey> {
    match sides.cq.poll().expect("works")? {
        Completion::Op(done) => {
            let at = left.iter().position(|key| *key == done.key()).expect("each once");
            Some(left.swap_remove(at))
        }
        // Failures without an operation: those of injected operations, and further ones over
        // `sockets`.
        Completion::Unclaimed(error) => {
            println!("of nothing: {error:?}");
            None
        }
        other => panic!("not expected: {other:?}"),
    }
}

fn a_receiver_is_killed_in_the_middle_of_a_message(info: &Info<T>) {
    kill_in_the_middle(info, "receives", |_, endpoint, _| {
        let waits = endpoint.recv(ThePeer, room(64)).expect("posts");
        let message = endpoint.send(ThePeer, room(LONG)).expect("posts");
        let more = endpoint.send(ThePeer, room(LONG)).expect("posts");
        vec![waits, message, more]
    });
}

fn a_sender_is_killed_in_the_middle_of_a_message(info: &Info<T>) {
    kill_in_the_middle(info, "sends", |_, endpoint, _| {
        vec![endpoint.recv(ThePeer, room(LONG)).expect("posts"), endpoint.recv(ThePeer, room(64)).expect("posts")]
    });
}

fn a_target_is_killed_in_the_middle_of_writes(info: &Info<T>) {
    kill_in_the_middle(info, "exposes", |_, endpoint, region| {
        let waits = endpoint.recv(ThePeer, room(64)).expect("posts");
        let writes = (0..4).map(|_| endpoint.write(ThePeer, region, 0, room(LONG)).expect("posts"));
        std::iter::once(waits).chain(writes).collect()
    });
}

fn a_target_is_killed_in_the_middle_of_reads(info: &Info<T>) {
    kill_in_the_middle(info, "exposes", |_, endpoint, region| {
        let waits = endpoint.recv(ThePeer, room(64)).expect("posts");
        let reads = (0..4).map(|_| endpoint.read(ThePeer, region, 0, room(LONG)).expect("posts"));
        std::iter::once(waits).chain(reads).collect()
    });
}

fn a_target_is_killed_in_the_middle_of_data(info: &Info<T>) {
    kill_in_the_middle(info, "exposes", |_, endpoint, region| {
        let waits = endpoint.recv(ThePeer, room(64)).expect("posts");
        let data = ImmediateData(0x1234_5678);
        let writes = (0..4).map(|_| endpoint.write_data(ThePeer, region, 0, data, room(LONG)).expect("posts"));
        std::iter::once(waits).chain(writes).collect()
    });
}

/// Kills a peer after injected operations: those behind a long write are lost with it.
fn a_peer_is_killed_after_injected_operations(info: &Info<T>) {
    kill_in_the_middle(info, "exposes", |_, endpoint, region| {
        let waits = endpoint.recv(ThePeer, room(64)).expect("posts");
        let write = endpoint.write(ThePeer, region, 0, room(LONG)).expect("posts");
        for _ in 0..4 {
            for injected in [endpoint.inject(ThePeer, &[1; 64]), endpoint.inject_write(ThePeer, region, 0, &[1; 64])] {
                assert!(injected.is_ok() || injected.is_err_and(PostError::is_transient), "{injected:?}");
            }
        }
        vec![waits, write]
    });
}

fn an_initiator_is_killed(info: &Info<T>, part: &str) {
    assert!((0..5).any(|_| an_initiator_is_killed_in_time(info, part)), "never in the middle");
}

fn an_initiator_is_killed_in_time(info: &Info<T>, part: &str) -> bool {
    let mut met = true;
    with_sides(info, |sides| {
        let memory: Bytes = [vec![UNTOUCHED; GAP], vec![READ; LONG], vec![UNTOUCHED; GAP]].concat().into();
        let region = Mr::open(sides.domain, memory, Access::REMOTE_READ | Access::REMOTE_WRITE).expect("a region");
        let reads = part == "reads";
        let (_visits, other, _) = peer(sides, if reads { "visits-reading" } else { "visits-writing" });
        let (mut killed, endpoint, _) = peer(sides, part);
        let begin = |endpoint: &Endpoint<'_>| {
            let told = [(); 2].map(|()| sides.post(room(1), |buf| endpoint.recv(ThePeer, buf)));
            let region: Bytes = region.remote().to_bytes().to_vec().into();
            sides.finish(sides.post(region, |buf| endpoint.send(ThePeer, buf)));
            told
        };
        let [first, last] = begin(&endpoint);
        if reads {
            sides.finish(first);
        } else {
            // A message would arrive only after the written bytes.
            let deadline = Instant::now() + LIMIT;
            while region.window().load(GAP, Ordering::Relaxed) != Ok(WRITTEN) {
                assert!(Instant::now() < deadline, "never in the middle");
                sides.cq.progress().expect("works");
            }
        }
        killed.kill();
        let deadline = Instant::now() + LIMIT;
        loop {
            sides.cq.progress().expect("works");
            match sides.server.poll().expect("works") {
                Some(EqEvent::Shutdown(event)) if event.is_of(&endpoint) => break,
                Some(EqEvent::Failed(failure)) if failure.is_of(&endpoint) => break,
                Some(event) => panic!("the end of the connection, not {event:?}"),
                None => assert!(Instant::now() < deadline, "not told within {LIMIT:?}"),
            }
        }
        drop(endpoint);
        met = sides.end(last).1.is_err();
        if !reads {
            assert!(sides.end(first).1.is_err(), "it is behind the last write");
        }
        if !met {
            return;
        }
        // The other peer continues, and only completed writes are reported.
        for told in begin(&other) {
            sides.finish(told);
        }
        let (mut data, mut failures) = (Vec::new(), 0);
        while let Some(completion) = sides.cq.poll().expect("works") {
            match completion {
                Completion::Remote(event) => data.push(event.data().expect("immediate data").0),
                Completion::Unclaimed(error) => {
                    println!("of nothing: {error:?}");
                    failures += 1;
                }
                other => panic!("not expected: {other:?}"),
            }
        }
        assert!([0, 1, 2].starts_with(&data) && (part == "writes-data" || data.is_empty()), "{data:?}");
        assert!(failures <= usize::from(!reads), "one write at most was in its middle");
        assert_eq!(sides.cq.in_flight(), 0);
        let memory = match region.close() {
            Ok(memory) if T::MR_CLOSE_FENCES => memory,
            Err(Rejected { value: Some(region), error: Error::StillReached }) => {
                drop(other);
                region.close().expect("it is closed")
            }
            _ => panic!("peers may reach the memory"),
        };
        let (before, rest) = memory.split_at(GAP);
        let (range, behind) = rest.split_at(LONG);
        assert!([before, behind] == [&[UNTOUCHED; GAP]; 2], "outside of the range");
        assert!(*range == *vec![if reads { READ } else { WRITTEN }; LONG]);
    });
    met
}

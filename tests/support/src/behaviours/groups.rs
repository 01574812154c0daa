//! Groups of peers: one side scatters to the others, and gathers from them.

use loom_core::Spins;
use loom_core::deadline::Deadline;
use loom_core::domain::Domain;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Tag};
use loom_group::{Group, Outcome, PeerIndex, PeerRegion, Place, Prepared, Scope, Summary};

use crate::behaviours::needs::{Behaviour, MSG, RMA, tags};
use crate::behaviours::pair::{Bytes, OrCut, limit, most, pattern, room};
use crate::memory::{Memory, allocator};

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("group_scatters_messages_and_gathers_answers", MSG, group_scatters_messages_and_gathers_answers),
        ("group_writes_and_reads_regions_of_its_peers", RMA, group_writes_and_reads_regions_of_its_peers),
    ]
}

const MEMBERS: u32 = 3;
const ANSWER: Tag = Tag(7);

type Member<T> = Group<'static, T, Bytes, Memory>;

/// Returns members, in their order. Each is a peer of all, and of itself.
fn members<T: Transport + 'static>(domain: &Domain<'static, T>) -> Vec<Member<T>> {
    let open = |_| Prepared::open_in(domain, MEMBERS as usize, 16, allocator()).expect("prepared");
    let prepared: Vec<_> = (0..MEMBERS).map(open).collect();
    let addresses: Vec<_> = prepared.iter().map(|member| member.address().expect("address")).collect();
    prepared.into_iter().map(|member| member.connect(&addresses).expect("connected")).collect()
}

/// Returns the first member's peers, without itself.
fn others() -> impl Iterator<Item = PeerIndex> {
    (1..MEMBERS).map(PeerIndex)
}

fn places<T: Transport + 'static>() -> Vec<Place<'static, T, Bytes>> {
    others().map(|_| Place::EMPTY).collect()
}

/// Checks that all requests are done, unless a plan of faults prevents it.
fn complete<T: Transport + 'static>(summary: Summary, places: &[Place<'static, T, Bytes>]) {
    for place in places {
        match place.outcome() {
            Outcome::Done { .. } => {}
            Outcome::Failed { error, .. } => Err(*error).or_cut("done"),
            Outcome::NotPosted { error, .. } => Err(*error).or_cut("posted"),
            other => panic!("{other:?}"),
        }
    }
    assert!(summary.is_complete(), "{summary:?}");
}

/// Ends the requests of a scope, while the other members take part.
fn finish<T: Transport + 'static>(scope: &mut Scope<'_, 'static, T, Bytes, Memory>, others: &[Member<T>]) -> Summary {
    let mut deadline = limit();
    while !scope.is_over() {
        assert!(!deadline.passed(), "requests end: {scope:?}");
        scope.turn().or_cut("the queue works");
        for other in others {
            other.cq().progress().or_cut("the queue works");
        }
    }
    scope.finish(Spins(1)).or_cut("the queue works")
}

fn group_scatters_messages_and_gathers_answers<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open_in(info, allocator()).expect("domain");
    let members = members(&domain);
    let (first, others_of_it) = members.split_first().expect("members");
    // Most providers that grant receives from one peer refuse them without tags.
    let directed = tags(info) && info.caps().contains(Caps::DIRECTED_RECV);
    for len in [1, 64, most(info, 1 << 16)] {
        // Longer ones both ways crash libfabric 2's `shm` in one process.
        let back = len.min(64);
        let keys: Vec<_> = others_of_it
            .iter()
            .map(|other| {
                other
                    .cq()
                    .post(room(len), limit(), |buf| other.recv_any(buf))
                    .map_err(|refused| refused.error)
                    .or_cut("posted")
            })
            .collect();
        let mut places = places();
        let summary = first.scope(&mut places, |scope| {
            for peer in others() {
                scope.send(peer, pattern(len, peer.0 as usize)).expect("a place");
            }
            finish(scope, others_of_it)
        });
        complete(summary, &places);
        for ((number, other), key) in (1..).zip(others_of_it).zip(keys) {
            let mut deadline = limit();
            let done = loop {
                if let Some(done) = other.cq().wait(key, Spins(100)).or_cut("the queue works") {
                    break done;
                }
                first.cq().progress().or_cut("the queue works");
                assert!(!deadline.passed(), "it arrives");
            };
            done.result().or_cut("received");
            assert!(done.into_buf() == pattern(len, number), "the message for member {number}");
            let mut answer = pattern(back, number + 10);
            while let Err(refused) = match directed {
                true => other.tagged_send(PeerIndex(0), ANSWER, answer),
                false => other.send(PeerIndex(0), answer),
            } {
                if !refused.error.is_transient() || deadline.passed() {
                    Err(refused.error).or_cut("posted")
                }
                answer = refused.value;
                first.cq().progress().or_cut("the queue works");
                other.cq().progress().or_cut("the queue works");
            }
        }
        if !directed {
            // A receive does not report its peer.
            crate::report::partly("A group receives answers from any peer, because receives have no source");
            gather_of_any(first, others_of_it, back);
            continue;
        }
        let summary = first.scope(&mut places, |scope| {
            for peer in others() {
                scope.tagged_recv(peer, ANSWER, room(back)).expect("a place");
            }
            finish(scope, others_of_it)
        });
        complete(summary, &places);
        for (peer, place) in others().zip(&mut places) {
            assert!(place.take().into_buf().expect("back") == pattern(back, peer.0 as usize + 10), "{peer}'s answer");
        }
    }
}

/// Gathers the answers, in any order.
fn gather_of_any<T: Transport + 'static>(first: &Member<T>, others_of_it: &[Member<T>], len: usize) {
    let mut left: Vec<_> = others().map(|peer| pattern(len, peer.0 as usize + 10)).collect();
    while !left.is_empty() {
        let key = first
            .cq()
            .post(room(len), limit(), |buf| first.recv_any(buf))
            .map_err(|refused| refused.error)
            .or_cut("posted");
        let mut deadline = limit();
        let done = loop {
            if let Some(done) = first.cq().wait(key, Spins(100)).or_cut("the queue works") {
                break done;
            }
            for other in others_of_it {
                other.cq().progress().or_cut("the queue works");
            }
            assert!(!deadline.passed(), "it arrives");
        };
        let answer = done.into_buf();
        left.swap_remove(left.iter().position(|expected| *expected == answer).expect("each once"));
    }
}

fn group_writes_and_reads_regions_of_its_peers<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open_in(info, allocator()).expect("domain");
    let members = members(&domain);
    let (first, others_of_it) = members.split_first().expect("members");
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let open = |_| Mr::open_in(&domain, room(100), access, allocator()).expect("region");
    let regions: Vec<_> = others().map(open).collect();
    let whole = || others().zip(&regions).map(|(peer, region)| PeerRegion::new(peer, region.remote()));
    let mut places = places();
    let written = first.scope(&mut places, |scope| {
        for region in whole() {
            let part = region.slice(10..60).expect("within");
            scope.write(&part, pattern(50, region.peer().0 as usize)).expect("a place");
        }
        finish(scope, others_of_it)
    });
    complete(written, &places);
    let read = first.scope(&mut places, |scope| {
        for region in whole() {
            scope.read(&region, room(100)).expect("a place");
        }
        finish(scope, others_of_it)
    });
    complete(read, &places);
    for (peer, place) in others().zip(&mut places) {
        let bytes = place.take().into_buf().expect("back");
        assert_eq!(bytes[10..60], pattern(50, peer.0 as usize)[..]);
        assert!(bytes[..10] == room(10)[..] && bytes[60..] == room(40)[..]);
    }
}

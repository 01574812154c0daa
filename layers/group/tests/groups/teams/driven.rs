use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{Access, ImmediateData};
use loom_core::{Domain, Mr, RemoteRegion, Spins};
use loom_group::CollectiveError;
use loom_group::collective::{Packet, Team, TeamAttr};
use loom_group::{PeerIndex, PeerRegion, Prepared};

use crate::teams::counted::Counted;
use crate::teams::world::{FINE, Group, Members, Size, packets};

fn plain(depth: usize) -> Vec<Group> {
    let network = Network::new(NetworkAttr { endpoints: 2, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let prepared: Vec<_> = (0..2).map(|_| Prepared::open(&domain, 2, depth).unwrap()).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address().unwrap()).collect();
    prepared.into_iter().map(|prepared| prepared.connect(&addresses).unwrap()).collect()
}

fn member(group: &Group, rank: u32, number: u8, at_once: usize) -> Members<'_> {
    let attr = TeamAttr::new(number).with_packets(4).with_at_once(at_once);
    Team::open(group, attr, (0..2).map(PeerIndex), rank, packets(256)).unwrap()
}

fn team(group: &Group, number: u8, at_once: usize) -> Members<'_> {
    member(group, 0, number, at_once)
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn completed_collective_gives_the_queue_back() {
    let groups = crate::teams::world::groups(Size::new(1), |_| FINE);
    let team =
        Team::open(&groups[0], TeamAttr::new(1).with_packets(2), [PeerIndex(0)].into_iter(), 0, packets(8)).unwrap();
    let driver = CqDriver::open(groups[0].cq(), Unclaimed::Drop).unwrap();
    let mut run = team.barrier().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(run.finish(&driver)).poll(&mut context), Poll::Ready(Ok(())));
    drop(driver);
    assert!(groups[0].cq().poll().is_ok_and(|none| none.is_none()));
    assert_eq!(run.turn(), Ok(true));
}

#[test]
fn message_of_too_many_pieces_is_refused_before_it_is_posted() {
    let groups = plain(64);
    let attr = TeamAttr::new(1).with_packets(2);
    let team = Team::open(&groups[0], attr, (0..2).map(PeerIndex), 0, packets(1)).unwrap();
    let mut long = vec![1_u8; (1 << 15) + 1];
    assert_eq!(team.broadcast(0, &mut long).map(drop), Err(CollectiveError::TooLong));
    assert!(!team.is_over());
}

#[test]
fn collective_that_was_never_awaited_gives_its_room_back_under_a_driver() {
    for is_awaited in [true, false] {
        let groups = plain(16);
        let driver = CqDriver::open(groups[0].cq(), Unclaimed::Drop).unwrap();
        for number in 0..60 {
            let team = team(&groups[0], number, 1);
            let begun = team.barrier();
            let mut run = match begun {
                Ok(run) => run,
                Err(error) => panic!("awaited: {is_awaited}, team {number}: {error}"),
            };
            if is_awaited {
                let mut context = Context::from_waker(Waker::noop());
                assert!(pin!(run.finish(&driver)).poll(&mut context).is_pending());
            }
            drop(run);
            for _ in 0..100 {
                driver.turn(16);
            }
        }
        let room = (0..).take_while(|_| groups[0].recv_any(Counted::new(8)).is_ok()).count();
        assert_eq!(room, groups[0].cq().capacity(), "awaited: {is_awaited}");
    }
}

#[test]
fn events_of_peers_that_are_not_taken_leave_a_collective_under_way() {
    let groups = plain(16);
    let region = Mr::open(groups[0].domain(), vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let at = PeerRegion::new(PeerIndex(0), RemoteRegion::from_bytes(&region.remote().to_bytes()));
    let (ours, theirs) = (team(&groups[0], 1, 1), member(&groups[1], 1, 1, 1));
    let write = || {
        for _ in 0..2000 {
            let mut bytes = Counted::new(8);
            bytes.sized(8);
            if let Ok(key) = groups[1].write_data(&at, ImmediateData(1), bytes) {
                let _ = groups[1].cq().wait(key, Spins(100));
            }
        }
    };
    let mut run = ours.barrier().unwrap();
    write();
    assert_eq!(run.wait(Spins(100)), Err(CollectiveError::Queue(CqError::PeerEvents)));
    assert!(!ours.is_over());
    while groups[0].cq().poll().unwrap().is_some() {}

    write();
    let driver = CqDriver::open(groups[0].cq(), Unclaimed::Drop).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut awaited = Poll::Pending;
    for _ in 0..100 {
        awaited = pin!(run.finish(&driver)).poll(&mut context);
        driver.turn(16);
    }
    assert_eq!(awaited, Poll::Ready(Err(CollectiveError::Queue(CqError::PeerEvents))));
    assert!(!ours.is_over());
    let mut their_run = theirs.barrier().unwrap();
    let mut are_over = [false; 2];
    for _ in 0..10_000 {
        while pin!(driver.next_event()).poll(&mut context).is_ready() {}
        driver.turn(16);
        are_over[0] |= pin!(run.finish(&driver)).poll(&mut context) == Poll::Ready(Ok(()));
        are_over[1] |= their_run.turn().unwrap();
    }
    assert_eq!(are_over, [true; 2]);
}

#[test]
fn tasks_are_woken_when_the_team_ends() {
    let groups = plain(16);
    let driver = CqDriver::open(groups[0].cq(), Unclaimed::Drop).unwrap();
    let team = team(&groups[0], 1, 2);
    let (mut given_up, mut waits) = (team.barrier().unwrap(), team.barrier().unwrap());
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut first = Box::pin(given_up.finish(&driver));
    let mut second = pin!(waits.finish(&driver));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for _ in 0..100 {
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        driver.turn(16);
    }
    woken.0.store(false, Ordering::Relaxed);
    drop(first);
    drop(given_up);
    assert!(team.is_over());
    for _ in 0..10_000 {
        driver.turn(16);
    }
    let is_woken = woken.0.load(Ordering::Relaxed);
    let ended = second.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!((is_woken, ended), (true, Poll::Ready(Err(CollectiveError::Over))));
}

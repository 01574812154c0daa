//! Control messages: notifications after their data, and failed transfers that notify the receiver.

use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Every, Plan as Faults};
use loom_core::{Access, CqError, Error, Info, PostError, Transport};
use loom_fabric::loom_core;
use loom_transfer::{Ending, Engine, EngineAttr, Event, NotificationKey, Outcome, Pages, PeerKey, Plan, Request};
use support::posting::{LIMIT, pattern};

use super::sides::{AnyPlan, Side, Sides, address, block, faulty, moved, network, network_of, rails, small, soft};

pub(super) fn talking() -> EngineAttr {
    EngineAttr { message: 1024, notifications: 2, fragments: 4, messages: 16, piece: 1000, ..small() }
}

/// Attributes for short messages. Longer ones both ways within a process crash `shm` of libfabric
/// 2.5.
#[cfg(feature = "libfabric")]
fn talking_over(provider: &str) -> EngineAttr {
    let (message, fragments) = if provider == "shm" { (192, 32) } else { (1024, 4) };
    EngineAttr { message, fragments, messages: 64, ..talking() }
}

pub(super) fn pages() -> AnyPlan {
    AnyPlan::Pages(Pages::new((0..30).collect(), (0..30).rev().collect(), 1500).unwrap())
}

/// Events of both sides until a condition holds.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) outcomes: Vec<Outcome<AnyPlan>>,
    /// Message, sender and end of each notification.
    pub(super) notified: Vec<(Vec<u8>, PeerKey, Ending)>,
    pub(super) failed_waits: Vec<Error>,
    pub(super) late_writes: Vec<Option<u64>>,
    pub(super) arrived: u64,
    /// Reports of the initiator about peers, and of the target.
    pub(super) peers: [Vec<(PeerKey, Result<(), Error>)>; 2],
    pub(super) now: u64,
}

fn read<T: Transport>(side: &mut Side<T>, key: NotificationKey) -> (Vec<u8>, PeerKey, Ending) {
    let notification = side.notification(key).unwrap();
    let mut bytes = vec![0; notification.len()];
    notification.copy_to(&mut bytes).unwrap();
    (bytes, notification.peer(), notification.ending())
}

impl Seen {
    pub(super) fn until<T: Transport + 'static>(
        &mut self,
        sides: &mut Sides<T>,
        holds: impl Fn(&Self, &Sides<T>) -> bool,
    ) {
        let until = Instant::now() + LIMIT;
        while !holds(self, sides) {
            for (number, side) in [&mut sides.initiator, &mut sides.target].into_iter().enumerate() {
                match side.poll(self.now).unwrap() {
                    Some(Event::Ended(outcome)) => self.outcomes.push(outcome),
                    Some(Event::Arrived(_)) => self.arrived += 1,
                    Some(Event::WaitFailed { error, late_writes, .. }) => {
                        self.failed_waits.push(error);
                        self.late_writes.push(late_writes);
                    }
                    Some(Event::Notified(key)) => self.notified.push(read(side, key)),
                    Some(Event::Peer { peer, result }) => self.peers[number].push((peer, result)),
                    None => {}
                }
            }
            assert!(Instant::now() < until, "within {LIMIT:?}");
        }
    }
}

pub(super) fn submit<T: Transport + 'static>(sides: &mut Sides<T>, plan: &AnyPlan, message: &[u8]) {
    let request = Request::write(sides.peer, sides.local, &sides.remote, plan.clone());
    sides.initiator.submit_and_notify(request, message).unwrap();
}

/// Sends notifications of all lengths, each verified with its data when it is reported.
fn check<T: Transport + 'static>(sides: &mut Sides<T>) {
    let mut seen = Seen::default();
    let mut expected = sides.exposed_bytes();
    for (number, len) in [0, 1, 984, 985, 3936, 7].into_iter().enumerate() {
        let plan = if number % 2 == 0 { pages() } else { block(5, 100 * number as u64, 33_333) };
        let message = pattern(len, number);
        submit(sides, &plan, &message);
        seen.until(sides, |seen, _| seen.notified.len() > number);
        // The notification alone implies that the data is complete.
        moved(&plan, &sides.local_bytes(), &mut expected, false);
        assert!(sides.exposed_bytes() == expected, "{number}");
        assert_eq!((&seen.notified[number].0, seen.notified[number].2), (&message, Ending::Done));
        seen.until(sides, |seen, _| seen.outcomes.len() > number);
        assert_eq!((seen.outcomes[number].ending, seen.outcomes[number].bytes), (Ending::Done, plan.bytes()));
    }
    let sender = seen.peers[1][0].0;
    assert!(seen.notified.iter().all(|notified| notified.1 == sender));
    assert_eq!((&seen.peers[0], &seen.peers[1]), (&vec![(sides.peer, Ok(()))], &vec![(sender, Ok(()))]));
    // The other direction, without a transfer.
    sides.target.notify(sender, b"done with all").unwrap();
    seen.until(sides, |seen, _| seen.notified.len() == 7);
    assert_eq!((&seen.notified[6].0[..], seen.notified[6].1), (&b"done with all"[..], sides.peer));
    assert_eq!((sides.initiator.strays(), sides.target.strays()), (0, 0));
}

#[test]
fn notifications_of_all_lengths_follow_their_data() {
    for rails in [1, 3] {
        check(&mut soft(rails, talking()));
    }
}

#[cfg(feature = "libfabric")]
#[test]
fn notifications_follow_their_data_over_providers_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for (provider, count) in [("shm", 1), ("shm", 2), ("tcp;ofi_rxm", 1), ("tcp;ofi_rxm", 2)] {
        let info = crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA);
        check(&mut Sides::open(&rails(&info, count), &rails(&info, count), talking_over(provider)));
    }
}

#[test]
fn notifications_follow_their_data_in_any_order_of_arrival() {
    for seed in 0..40 {
        let faults = Faults {
            reorder: 7,
            delay: 5,
            refuse: Every::About(3),
            unordered: true,
            narrow_data: true,
            ..Faults::new(seed)
        };
        let mut sides = faulty(1 + seed as usize % 4, faults, EngineAttr { batch: 1 + seed as usize % 3, ..talking() });
        let mut seen = Seen::default();
        let mut expected = sides.exposed_bytes();
        for number in 0..6 {
            let plan = block(number, 10_000 * number, 9999);
            submit(&mut sides, &plan, &pattern(2000, number as usize));
            seen.until(&mut sides, |seen, _| seen.notified.len() as u64 > number);
            moved(&plan, &sides.local_bytes(), &mut expected, false);
            assert!(sides.exposed_bytes() == expected, "seed {seed}");
            assert!(seen.notified[number as usize].0 == pattern(2000, number as usize), "seed {seed}");
        }
    }
}

#[test]
fn many_transfers_share_few_numbers() {
    let mut sides = soft(2, EngineAttr { notifications: 1, fragments: 1, ..talking() });
    let mut seen = Seen::default();
    let mut submitted = 0_u32;
    while submitted < 500 {
        let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 2500));
        match sides.initiator.submit_and_notify(request, &submitted.to_le_bytes()) {
            Ok(_) => submitted += 1,
            Err(rejected) => assert_eq!(rejected.error, Error::Full("EngineAttr::transfers")),
        }
        let before = seen.outcomes.len();
        seen.until(&mut sides, |seen, _| submitted < 8 || seen.outcomes.len() > before);
    }
    seen.until(&mut sides, |seen, _| seen.notified.len() == 500 && seen.outcomes.len() == 500);
    let mut numbers: Vec<_> =
        seen.notified.iter().map(|notified| u32::from_le_bytes(notified.0[..].try_into().unwrap())).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..500));
    assert_eq!(sides.target.strays(), 0);
}

#[test]
fn released_numbers_return_together_and_at_once_to_a_peer_that_waits() {
    let mut sides = soft(1, EngineAttr { notifications: 8, fragments: 8, ..talking() });
    let (mut seen, peer) = (Seen::default(), sides.peer);
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let settle = |sides: &mut Sides<_>, seen: &mut Seen, all: usize| {
        seen.until(sides, |seen, _| seen.notified.len() == all);
        for _ in 0..100 {
            assert!(sides.initiator.poll(0).unwrap().is_none() && sides.target.poll(0).unwrap().is_none());
        }
    };
    let send = |sides: &mut Sides<_>, seen: &mut Seen, count: usize| {
        (0..count).for_each(|_| sides.initiator.notify(peer, b"short").unwrap());
        let all = seen.notified.len() + count;
        settle(sides, seen, all);
    };
    send(&mut sides, &mut seen, 3);
    // The initiator does not have the room of these three back.
    send(&mut sides, &mut seen, 5);
    assert_eq!(sides.initiator.notify(peer, &[7; 984 * 4]), Ok(()), "room returns once half of it is used");
    settle(&mut sides, &mut seen, 9);
    // Less than half of the room, and the next message needs all of it.
    send(&mut sides, &mut seen, 2);
    assert_eq!(sides.initiator.notify(peer, &[8; 984 * 8]), Err(Error::Full("EngineAttr::fragments")));
    settle(&mut sides, &mut seen, 11);
    sides.initiator.notify(peer, &[8; 984 * 8]).unwrap();
    settle(&mut sides, &mut seen, 12);
    // The message of a transfer needs all of it, too.
    send(&mut sides, &mut seen, 3);
    submit(&mut sides, &block(0, 0, 10), &[9; 984 * 8]);
    seen.until(&mut sides, |seen, _| seen.notified.len() == 16 && seen.outcomes.len() == 1);
    assert_eq!((sides.initiator.strays(), sides.target.strays()), (0, 0));
}

#[test]
fn released_numbers_return_while_other_transfers_are_under_way() {
    let attr = EngineAttr { notifications: 8, fragments: 16, budget: 5, ..talking() };
    let mut sides = soft(1, attr);
    let (mut seen, peer) = (Seen::default(), sides.peer);
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    (0..3).for_each(|_| sides.initiator.notify(peer, b"short").unwrap());
    seen.until(&mut sides, |seen, _| seen.notified.len() == 3);
    (0..5).for_each(|_| submit(&mut sides, &pages(), b"long"));
    for _ in 0..12 {
        assert!(sides.initiator.poll(0).unwrap().is_none() && sides.target.poll(0).unwrap().is_none());
    }
    (0..3).for_each(|_| sides.initiator.notify(peer, b"short").unwrap());
    seen.until(&mut sides, |seen, _| seen.notified.len() == 11 && seen.outcomes.len() == 5);
    assert_eq!((sides.initiator.strays(), sides.target.strays()), (0, 0));
}

#[test]
fn a_failed_transfer_notifies_its_receiver_once() {
    let (mut failed, mut done) = (0, 0);
    for seed in 0..40 {
        let (fail, lose) =
            if seed % 2 == 0 { (Every::About(50), Every::Nth(0)) } else { (Every::Nth(0), Every::About(50)) };
        // Control messages fail as well, and then their transfer or their peer.
        let mut sides = faulty(2, Faults { fail, lose, reorder: 3, ..Faults::new(seed) }, talking());
        let mut seen = Seen::default();
        submit(&mut sides, &pages(), b"pages");
        seen.until(&mut sides, |seen, _| {
            let told = seen.notified.len() == 1 || seen.outcomes.iter().any(|outcome| outcome.ending != Ending::Done);
            seen.outcomes.len() == 1 && told
        });
        let (outcome, notified) = (&seen.outcomes[0], seen.notified.first());
        match (outcome.ending, notified) {
            (Ending::Done, Some((message, _, Ending::Done))) => {
                done += 1;
                assert_eq!(message, b"pages");
            }
            (Ending::Failed(_), Some((message, _, Ending::Failed(Error::Provider(_))))) => {
                failed += 1;
                assert_eq!(message, b"pages");
            }
            (Ending::Failed(_), _) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(failed > 3 && done > 3, "{failed} {done}");
}

#[test]
fn a_cancelled_transfer_notifies_its_receiver_of_writes_that_may_be_late() {
    let mut sides = soft(1, EngineAttr { depth: 4, budget: 4, ..talking() });
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages());
    let key = sides.initiator.submit_and_notify(request, b"cut").unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    assert!(sides.initiator.cancel(key));
    seen.until(&mut sides, |seen, _| seen.notified.len() == 1 && seen.outcomes.len() == 1);
    assert_eq!((seen.outcomes[0].ending, seen.notified[0].2), (Ending::Cancelled, Ending::Cancelled));
    assert!(seen.outcomes[0].operations > 0 && seen.outcomes[0].operations < 60);
}

#[test]
fn a_transfer_is_cancelled_while_its_last_writes_are_in_flight() {
    let faults = Faults { reorder: 500, ..Faults::new(5) };
    let mut sides = faulty(1, faults, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 5000));
    let key = sides.initiator.submit_and_notify(request, b"all posted").unwrap();
    while sides.initiator.operations_in_flight(key) != Some(5) {
        assert!(sides.initiator.poll(0).unwrap().is_none());
    }
    assert!(sides.initiator.cancel(key));
    seen.until(&mut sides, |seen, _| seen.notified.len() == 1 && seen.outcomes.len() == 1);
    assert_eq!((seen.outcomes[0].ending, seen.notified[0].2), (Ending::Cancelled, Ending::Cancelled));
    assert_eq!(seen.outcomes[0].operations, 5, "all were written");
    assert!(!sides.initiator.cancel(key), "it has ended");
}

#[test]
fn late_writes_are_counted_until_the_notification_is_dropped() {
    // Writes stay in flight beyond the deadline.
    let faults = Faults { reorder: 500, ..Faults::new(3) };
    let mut sides = faulty(1, faults, talking());
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages()).deadline(10);
    sides.initiator.submit_and_notify(request, b"late").unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    let Some(Event::Ended(outcome)) = sides.initiator.poll(10).unwrap() else { panic!("the deadline has passed") };
    assert!(outcome.ending == Ending::Deadline && outcome.in_flight > 0);
    let (until, mut lowest, mut kept) = (Instant::now() + LIMIT, u64::MAX, None);
    while lowest > 0 {
        assert!(sides.initiator.poll(11).unwrap().is_none());
        if let Some(Event::Notified(key)) = sides.target.poll(11).unwrap() {
            kept = Some(key);
        }
        if let Some(key) = kept {
            let notification = sides.target.notification(key).unwrap();
            assert_eq!(notification.ending(), Ending::Deadline);
            assert!(notification.late_writes() <= lowest);
            lowest = notification.late_writes();
            notification.keep();
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
    drop(sides.target.notification(kept.unwrap()));
    assert!(sides.target.notification(kept.unwrap()).is_none());
    assert_eq!(sides.target.strays(), 0);
}

#[test]
fn a_read_notifies_the_owner_of_its_memory() {
    let mut sides = soft(2, talking());
    let room = sides.initiator.register(vec![0; 5000], Access::empty()).unwrap();
    let request = Request::read(sides.peer, room, &sides.remote, block(0, 0, 5000));
    sides.initiator.submit_and_notify(request, b"read").unwrap();
    let mut seen = Seen::default();
    seen.until(&mut sides, |seen, _| seen.notified.len() == 1 && seen.outcomes.len() == 1);
    assert_eq!((&seen.notified[0].0[..], seen.outcomes[0].bytes), (&b"read"[..], 5000));
}

#[test]
fn an_engine_with_messages_moves_data_to_one_without_and_refuses_notifications() {
    let info = network().info();
    let mut target = Side::open_in(&rails(&info, 1), small(), Global).unwrap();
    let exposed = target.register(vec![0; 5000], Access::REMOTE_WRITE).unwrap();
    let mut initiator = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
    let local = initiator.register(pattern(5000, 1), Access::empty()).unwrap();
    let peer = initiator.insert_peer(&address(&target)).unwrap();
    let request = Request::write(peer, local, &target.remote(exposed).unwrap(), block(0, 0, 5000));
    let refused = Error::Invalid("`EngineAttr::message` is 0, here or at the peer: set it on both sides");
    assert_eq!(initiator.submit_and_notify(request.clone(), b"").unwrap_err().error, refused);
    initiator.submit(request).unwrap();
    let until = Instant::now() + LIMIT;
    loop {
        assert!(target.poll(0).unwrap().is_none());
        if let Some(Event::Ended(outcome)) = initiator.poll(0).unwrap() {
            assert_eq!(outcome.result(), Ok(5000));
            break;
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
}

#[test]
fn a_failed_transfer_to_a_peer_without_messages_ends() {
    let info = network().info();
    let mut target = Side::open_in(&rails(&info, 1), small(), Global).unwrap();
    let exposed = target.register(vec![0; 5000], Access::REMOTE_WRITE).unwrap();
    let remote = target.remote(exposed).unwrap();
    let mut initiator = Side::open_in(&rails(&info, 1), talking(), Global).unwrap();
    let local = initiator.register(pattern(5000, 1), Access::empty()).unwrap();
    let peer = initiator.insert_peer(&address(&target)).unwrap();
    target.deregister(exposed).unwrap();
    initiator.submit(Request::write(peer, local, &remote, block(0, 0, 5000)).data(1)).unwrap();
    let until = Instant::now() + LIMIT;
    let outcome = loop {
        assert!(target.poll(0).unwrap().is_none());
        if let Some(Event::Ended(outcome)) = initiator.poll(0).unwrap() {
            break outcome;
        }
        assert!(Instant::now() < until, "ended within {LIMIT:?}");
    };
    assert!(matches!(outcome.ending, Ending::Failed(Error::Operation(_))));
}

#[test]
fn a_transfer_that_is_cancelled_before_its_peer_answers_ends_at_once() {
    let mut sides = soft(1, talking());
    let request = || Request::write(sides.peer, sides.local, &sides.remote, pages());
    let (noticed, counted) = (request(), request().data(1));
    let noticed = sides.initiator.submit_and_notify(noticed, b"never").unwrap();
    let counted = sides.initiator.submit(counted).unwrap();
    assert!(sides.initiator.poll(0).unwrap().is_none());
    assert!(sides.initiator.cancel(noticed) && sides.initiator.cancel(counted));
    // The target is not polled.
    let ended: Vec<_> = (0..10).filter_map(|_| sides.initiator.poll(0).unwrap()).collect();
    assert_eq!(ended.len(), 2);
    for event in ended {
        let Event::Ended(outcome) = event else { panic!("{event:?}") };
        assert_eq!((outcome.ending, outcome.operations), (Ending::Cancelled, 0));
    }
}

#[test]
fn a_peer_does_not_fail_by_a_clock_that_begins_late_or_a_pause_of_polls() {
    let mut sides = soft(1, EngineAttr { silence: 1000, ..talking() });
    let mut seen = Seen { now: 1 << 40, ..Seen::default() };
    seen.until(&mut sides, |seen, _| seen.peers.iter().all(|peers| peers.len() == 1));
    for pause in 1..20 {
        // Longer than the permitted silence of peers.
        seen.now += 5000 + pause;
        let notified = seen.notified.len();
        submit(&mut sides, &pages(), b"after a pause");
        seen.until(&mut sides, |seen, _| seen.notified.len() > notified && seen.outcomes.len() > notified);
    }
    assert!(seen.outcomes.iter().all(|outcome| outcome.ending == Ending::Done));
    assert!(seen.peers.iter().flatten().all(|report| report.1.is_ok()), "{:?}", seen.peers);
}

#[test]
fn a_request_to_a_failed_peer_is_refused_and_one_under_way_ends() {
    let mut sides = soft(1, EngineAttr { silence: 1000, ..talking() });
    submit(&mut sides, &pages(), b"early");
    // The target is not polled.
    let until = Instant::now() + LIMIT;
    let mut events = Vec::new();
    for now in (0..).step_by(100) {
        events.extend(sides.initiator.poll(now).unwrap());
        if events.len() == 2 {
            break;
        }
        assert!(Instant::now() < until, "within {LIMIT:?}");
    }
    let silent = Error::Queue(CqError::TimedOut);
    assert!(events.iter().any(|event| matches!(event, Event::Ended(outcome) if outcome.result() == Err(silent))));
    let request = Request::write(sides.peer, sides.local, &sides.remote, pages());
    assert_eq!(sides.initiator.submit_and_notify(request, b"").unwrap_err().error, silent);
}

#[test]
fn a_message_that_is_too_long_or_without_a_buffer_is_refused_with_its_request() {
    let mut sides = soft(1, EngineAttr { messages: 4, ..talking() });
    let request = Request::write(sides.peer, sides.local, &sides.remote, block(0, 0, 10));
    let mut refuse = |request: Request<AnyPlan>, len| {
        let rejected = sides.initiator.submit_and_notify(request, &vec![0; len]).unwrap_err();
        assert!(rejected.value.plan().blocks() == 1);
        rejected.error
    };
    assert_eq!(refuse(request.clone(), 4 * 984 + 1), PostError::TooLong { limit: 4 * 984 }.into());
    let data = "the immediate data of a transfer with a notification is the engine's: submit it without data";
    assert_eq!(refuse(request.clone().data(1), 1), Error::Invalid(data));
    sides.initiator.submit_and_notify(request.clone(), &[0; 4 * 984]).unwrap();
    let rejected = sides.initiator.submit_and_notify(request, &[0]).unwrap_err();
    assert_eq!(rejected.error, Error::Full("EngineAttr::messages"));
}

#[test]
fn an_engine_is_dropped_amid_messages() {
    for rounds in 0..40 {
        let mut sides = soft(2, talking());
        submit(&mut sides, &pages(), &[1; 3000]);
        for _ in 0..rounds {
            let _ = (sides.initiator.poll(0).unwrap(), sides.target.poll(0).unwrap());
        }
        if rounds % 2 == 0 {
            drop(sides.target);
        }
    }
}

#[test]
fn sizes_of_messages_are_checked_when_the_engine_is_opened() {
    let info = network().info();
    let open = |attr| Engine::<_, Vec<u8>, AnyPlan, _>::open_in(&rails(&info, 1), attr, Global).map(drop).unwrap_err();
    let size = Error::Open(loom_core::OpenError::Size);
    assert_eq!(open(EngineAttr { message: 30, ..talking() }), size);
    assert_eq!(open(EngineAttr { notifications: 17, ..talking() }), size);
    assert_eq!(open(EngineAttr { fragments: 65, ..talking() }), size);
    let short = "`EngineAttr::message` is too short for an address: increase it";
    assert_eq!(open(EngineAttr { message: 60, ..talking() }), Error::Invalid(short));
}

/// Exchanges transfers and messages of a hub with few addresses and its many peers.
fn take_turns<T: Transport + 'static>(info: &Info<T>, (count, addresses): (usize, usize), talking: EngineAttr) {
    let attr = EngineAttr { peers: count, addresses, transfers: 4, ..talking };
    let mut hub = Side::open_in(&rails(info, 2), attr, Global).unwrap();
    let local = hub.register(pattern(5000, 1), Access::empty()).unwrap();
    let mut others: Vec<_> = (0..count)
        .map(|_| {
            let mut side = Side::open_in(&rails(info, 1), talking, Global).unwrap();
            let exposed = side.register(vec![0; 5000], Access::REMOTE_WRITE).unwrap();
            let peer = hub.insert_peer(&address(&side)).unwrap();
            (peer, side, exposed)
        })
        .collect();
    let until = Instant::now() + LIMIT;
    for round in 0..2_u8 {
        let (mut submitted, mut ended, mut notified, mut answered) = (0, 0, 0, 0);
        while ended < count || notified < count || answered < count {
            if submitted < count {
                let (peer, side, exposed) = &others[submitted];
                let request = Request::write(*peer, local, &side.remote(*exposed).unwrap(), block(0, 0, 5000));
                submitted += usize::from(hub.submit_and_notify(request, &[round; 1500]).is_ok());
            }
            match hub.poll(0).unwrap() {
                Some(Event::Ended(outcome)) => {
                    assert_eq!(outcome.ending, Ending::Done);
                    ended += 1;
                }
                Some(Event::Notified(key)) => {
                    let (message, from, ending) = read(&mut hub, key);
                    assert!(others.iter().any(|other| other.0 == from) && ending == Ending::Done);
                    assert_eq!(message, [round; 40]);
                    answered += 1;
                }
                Some(Event::Peer { result: Ok(()), .. }) | None => {}
                Some(event) => panic!("{event:?}"),
            }
            for (_, side, exposed) in &mut others {
                if let Some(Event::Notified(key)) = side.poll(0).unwrap() {
                    let (message, from, ending) = read(side, key);
                    assert_eq!((message, ending), (vec![round; 1500], Ending::Done));
                    let mut bytes = vec![0; 5000];
                    side.window(*exposed).unwrap().copy_to(0, &mut bytes).unwrap();
                    assert!(bytes == pattern(5000, 1));
                    side.notify(from, &[round; 40]).unwrap();
                    notified += 1;
                }
            }
            assert!(Instant::now() < until, "within {LIMIT:?}: {ended} {notified} {answered}");
        }
    }
    assert_eq!(hub.strays(), 0);
}

#[test]
fn peers_far_beyond_the_address_vectors_take_turns_in_them() {
    take_turns(&network_of(800).info(), (260, 3), talking());
}

#[cfg(feature = "libfabric")]
#[test]
fn peers_take_turns_in_the_address_vectors_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for provider in ["shm", "tcp;ofi_rxm"] {
        let info = crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA);
        // Untested providers use each place of a vector once.
        let addresses = if info.raw().is_tested() { 3 } else { 8 };
        take_turns(&info, (8, addresses), talking_over(provider));
    }
}

//! Overrun queues.

use std::cell::Cell;
use std::rc::Rc;

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::Direction;
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Every, Network, Plan};
use loom_core::vocabulary::Errno;

use crate::soft::faults::{bytes, next, under};

const OVERRUN: CqError = CqError::Queue(Errno::EOVERRUN);

#[test]
fn earlier_completions_are_polled_before_the_overrun_error() {
    under(Plan { overrun: Every::Nth(3), ..Plan::new(1) }, |world| {
        let keys: Vec<_> = (0..4).map(|seed| world.a.send(world.to_b, bytes(seed, 8)).ok()).collect();
        assert_eq!(world.injected().overrun, 1);
        for key in &keys[..2] {
            let done = next(world.a.cq(), 1).expect("it was there before");
            assert_eq!(Some(done.key()), *key);
            assert!(done.result().is_ok());
        }
        let lost = keys[2].expect("it was posted");
        // The event is lost, and every call fails from now on.
        for _ in 0..5 {
            assert_eq!(world.a.cq().poll().unwrap_err(), OVERRUN);
            assert_eq!(world.a.cq().poll_direction(Direction::Receive).unwrap_err(), OVERRUN);
            assert_eq!(world.a.cq().progress().unwrap_err(), OVERRUN);
            assert_eq!(world.a.cq().wait(lost, Forever).unwrap_err(), OVERRUN);
        }
        assert!(keys[3].is_none(), "posts are told to try again");
        assert_eq!(world.a.recv(Source::Any, bytes(0, 8)).unwrap_err().error, PostError::Again);
        let another = world.a.cq().endpoint(world.a.av());
        assert_eq!(another.unwrap_err(), OpenError::Errno(Errno::EOVERRUN));
        // The messages have arrived.
        for seed in 0..3 {
            world.b.recv(Source::Any, bytes(0, 8)).unwrap();
            assert_eq!(next(world.b.cq(), 10).expect("it was sent").into_buf(), bytes(seed, 8));
        }
    });
}

/// A buffer that is counted while it exists.
#[derive(Debug)]
struct Counted(Box<[u8]>, Rc<Cell<usize>>);

// SAFETY: the box owns its bytes, wherever the value is.
#[allow(unsafe_code, reason = "lends what the box lends")]
unsafe impl Buffer for Counted {
    fn lend(&mut self) -> Lent {
        self.0.lend()
    }
}
impl SourceBuffer for Counted {}
impl TargetBuffer for Counted {}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

#[test]
fn every_buffer_comes_back_from_closed_endpoints() {
    let alive = Rc::new(Cell::new(0));
    let counted = |len| {
        alive.set(alive.get() + 1);
        Counted(vec![0; len].into(), alive.clone())
    };
    for separate in [false, true] {
        for after in 1..12 {
            let network = Network::new(crate::soft::faults::ATTR).unwrap();
            let domain =
                Domain::open(&network.info_with_faults(Plan { overrun: Every::Nth(after), ..Plan::new(1) })).unwrap();
            let av = Av::open(&domain, 2).unwrap();
            let attr = if separate { CqAttr { separate: true, ..CqAttr::new(16) } } else { CqAttr::new(16) };
            let cq = Cq::open(&domain, attr).unwrap();
            let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
            let to_b = av.insert(&b.address().unwrap()).unwrap();
            let mut failed = false;
            for round in 0..20 {
                let _ = b.recv(Source::Any, counted(100));
                let _ = a.send(to_b, counted(if round % 2 == 0 { 8 } else { 100 }));
                for _ in 0..3 {
                    match cq.poll() {
                        Ok(Some(Completion::Op(done))) => assert!(done.result().is_ok()),
                        Ok(None) => {}
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => failed = error == OVERRUN,
                    }
                }
            }
            assert!(failed && network.injected().overrun > 0, "after {after}");
            drop(b);
            drop(a);
            // The closed endpoints return operations without an event. Then the queue fails again.
            let failed = loop {
                match cq.poll() {
                    Ok(Some(Completion::Op(done))) => {
                        assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
                    }
                    other => break other.unwrap_err(),
                }
            };
            assert_eq!(failed, OVERRUN);
            assert_eq!((alive.get(), cq.in_flight()), (0, 0), "after {after}");
        }
    }
}

#[test]
fn another_queue_of_the_network_goes_on() {
    under(Plan { overrun: Every::Nth(1), ..Plan::new(1) }, |world| {
        world.a.inject(world.to_b, &[1]).unwrap();
        world.a.send(world.to_b, bytes(1, 8)).unwrap();
        assert_eq!(world.a.cq().poll().unwrap_err(), OVERRUN);
        for round in 0..20 {
            world.b.recv(Source::Any, bytes(0, 8)).unwrap();
            let sent = world.b.send(world.to_b, bytes(round, 8)).unwrap();
            assert!(crate::soft::faults::end(world.b.cq(), sent).1.is_ok());
            assert!(next(world.b.cq(), 5).is_some());
        }
        assert_eq!(world.a.cq().poll().unwrap_err(), OVERRUN);
    });
}

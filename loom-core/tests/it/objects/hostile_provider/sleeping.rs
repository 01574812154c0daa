//! Sleeping on queues and counters, and deadlines.

use std::time::Duration;

use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::deadline::{Deadline, Spins};
use loom_core::error::OpenError;
use loom_core::vocabulary::{Errno, WaitObj};

use super::{Scene, attributes};
use crate::scripted::FD;

#[test]
fn a_queue_is_slept_on_as_it_was_opened() {
    let scene = Scene::new(attributes());
    let open = |wait, separate| {
        scene.script.info();
        Cq::<_, Vec<u8>>::open(&scene.domain, CqAttr { wait, separate, ..CqAttr::new(4) })
    };
    let with_fd = open(WaitObj::FD, false).unwrap();
    assert_eq!((with_fd.wait_fd(), with_fd.may_sleep()), (Ok(FD), Ok(true)));
    for (wait, separate) in [(WaitObj::NONE, false), (WaitObj::NONE, true), (WaitObj::UNSPEC, false)] {
        let queue = open(wait, separate).unwrap();
        assert_eq!(queue.wait_fd(), Err(CqError::NotOpenedFor), "{wait:?}, {separate}");
        assert_eq!(queue.may_sleep(), Err(CqError::NotOpenedFor), "{wait:?}, {separate}");
        let slept_on = wait != WaitObj::NONE;
        assert_eq!(queue.signaller().is_ok(), slept_on, "{wait:?}, {separate}");
        let slept = if slept_on { Ok(()) } else { Err(CqError::NotOpenedFor) };
        assert_eq!(queue.poll_for(Duration::from_millis(1)).map(|told| assert!(told.is_none())), slept);
    }
    // A sleep on two provider queues is not possible.
    for wait in [WaitObj::UNSPEC, WaitObj::FD] {
        assert_eq!(open(wait, true).map(drop), Err(OpenError::Errno(Errno::EINVAL)));
    }
    assert!(with_fd.signaller().is_ok());
}

#[test]
fn a_counter_is_slept_on_as_it_was_opened() {
    let scene = Scene::new(attributes());
    let open = |wait| Counter::open(&scene.domain, CounterAttr { wait }).unwrap();
    let (none, fd, any) = (open(WaitObj::NONE), open(WaitObj::FD), open(WaitObj::UNSPEC));
    assert_eq!(none.wait_for(1, Duration::ZERO), Err(CqError::NotOpenedFor));
    for slept_on in [&fd, &any] {
        assert_eq!(slept_on.wait_for(1, Duration::ZERO), Ok(true));
    }
    assert_eq!((fd.wait_fd(), fd.may_sleep()), (Ok(FD), Ok(true)));
    for other in [&none, &any] {
        assert_eq!(other.wait_fd(), Err(CqError::NotOpenedFor));
        assert_eq!(other.may_sleep(), Err(CqError::NotOpenedFor));
    }
}

#[test]
fn a_deadline_of_looks_passes_after_these() {
    let mut spins = Spins(2);
    assert_eq!([(); 4].map(|()| spins.passed()), [false, false, true, true]);
}

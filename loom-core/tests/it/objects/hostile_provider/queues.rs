//! Completion queues: turns of the directions, and kept events.

use std::cell::Cell;

use loom_core::completion::Completion;
use loom_core::cq::CqAttr;
use loom_core::deadline::{Deadline, Spins};
use loom_core::endpoint::Source;
use loom_core::error::{PostError, Rejected};
use loom_core::transport::Event;
use loom_core::vocabulary::{CompletionFlags, Errno};

use super::{Scene, attributes};
use crate::scripted::Said;

/// A peer's write of `len` bytes.
fn write(len: usize) -> Said {
    Said::Event(Event::success(0, CompletionFlags::REMOTE_WRITE | CompletionFlags::RMA, len))
}

/// Neither direction starves the other.
#[test]
fn the_two_provider_queues_take_turns() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(CqAttr { separate: true, ..CqAttr::new(4) });
    let [tx, rx] = &scene.script.queues;
    tx.borrow_mut().extend([write(1), write(2), write(3)]);
    rx.borrow_mut().extend([write(10), write(20)]);
    let next = || match queue.poll().unwrap() {
        Some(Completion::Remote(event)) => event.len,
        other => panic!("{other:?}"),
    };
    assert_eq!([(); 5].map(|()| next()), [1, 10, 2, 20, 3]);
}

#[test]
fn a_refused_post_is_tried_again_until_the_deadline_if_it_is_refused_for_the_moment() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let posts = |error| {
        let posts = Cell::new(0);
        let post = |buf| {
            posts.set(posts.get() + 1);
            Err(Rejected { value: buf, error })
        };
        assert_eq!(queue.post(vec![0; 8], Spins(3), post).unwrap_err().error, error);
        posts.get()
    };
    assert_eq!(posts(PostError::Again), 4);
    assert_eq!(posts(PostError::Errno(Errno::EIO)), 1);
    scene.script.queues[0].borrow_mut().push_back(Said::Failure(Errno::EIO));
    assert_eq!(posts(PostError::Again), 1, "the queue cannot go on");
}

/// A deadline that has passed, with its number of checks.
pub(super) struct Passed<'a>(pub(super) &'a Cell<u32>);

impl Deadline for Passed<'_> {
    fn passed(&mut self) -> bool {
        self.0.set(self.0.get() + 1);
        true
    }
}

#[test]
fn a_wait_looks_at_the_clock_now_and_then_while_the_queue_is_busy() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    let key = endpoint.recv(Source::Any, vec![0; 8]).unwrap();
    // Event without an operation.
    let stray = Said::Event(Event::success(u64::MAX, CompletionFlags::RECV, 0));
    scene.script.queues[0].borrow_mut().extend([stray; 1000]);
    let looks = Cell::new(0);
    assert!(queue.wait(key, Passed(&looks)).unwrap().is_none());
    let left = scene.script.queues[0].borrow().len();
    assert!((500..950).contains(&left) && looks.get() == 1, "{left} events are left after {} looks", looks.get());
}

/// The event was in the provider's queue before the endpoint closed.
#[test]
fn operation_completed_before_a_close_keeps_its_result() {
    let scene = Scene::new(attributes());
    for separate in [false, true] {
        scene.script.info();
        let queue = scene.queue(CqAttr { separate, ..CqAttr::new(4) });
        let endpoint = scene.endpoint(&queue);
        endpoint.recv(Source::Any, vec![0; 8]).unwrap();
        let event = Event::success(scene.last_context(), CompletionFlags::RECV | CompletionFlags::MSG, 5);
        // Behind as many peers' events as the provider's queue has room for.
        let mut events = scene.script.queues[usize::from(separate)].borrow_mut();
        events.extend([write(1); 3]);
        events.push_back(Said::Event(event));
        drop(events);
        drop(endpoint);
        let told = std::iter::from_fn(|| queue.poll().unwrap()).find_map(|told| match told {
            Completion::Op(done) => Some(done.result().map(|transfer| transfer.len)),
            _ => None,
        });
        assert!(matches!(told, Some(Ok(5))), "{told:?}");
    }
}

#[test]
fn a_queue_equals_its_own_handles_alone() {
    let scene = Scene::new(attributes());
    let [one, other] = [(); 2].map(|()| scene.queue(4));
    assert!(one == one.clone() && one != other);
}

#[test]
fn progress_returns_whether_an_event_was_read() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(CqAttr { separate: true, ..CqAttr::new(4) });
    for provider_queue in &scene.script.queues {
        assert_eq!(queue.progress(), Ok(false));
        provider_queue.borrow_mut().push_back(write(1));
        assert_eq!(queue.progress(), Ok(true));
    }
    assert_eq!(queue.progress(), Ok(false));
}

#[test]
fn a_failed_operation_comes_with_the_words_and_the_data_of_the_provider() {
    let scene = Scene::new(attributes());
    let queue = scene.queue(4);
    let endpoint = scene.endpoint(&queue);
    endpoint.recv(Source::Any, vec![0; 8]).unwrap();
    let event = Event::success(scene.last_context(), CompletionFlags::RECV | CompletionFlags::MSG, 0);
    scene.script.queues[0].borrow_mut().push_back(Said::Error(Event { errno: Errno::EIO, provider_errno: 7, ..event }));
    let Some(Completion::Op(done)) = queue.poll().unwrap() else { panic!("it failed") };
    let error = done.result().unwrap_err();
    assert_eq!((error.errno, error.provider_errno), (Errno::EIO, 7));
    *scene.script.text.borrow_mut() = b"a broken wire".into();
    assert_eq!(queue.error_text(&error).as_str(), "a broken wire");
    let mut data = [0; 16];
    assert_eq!(queue.error_data(&error, &mut data), 13);
    assert_eq!(data[..13], *b"a broken wire");
}

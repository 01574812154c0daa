//! Notices under the model checker `loom`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom_model" cargo test -p loom-fabric-alloc --lib model --release
//! ```
//!
//! A flag with the memory orders of program or kernel stands for the news that memory is gone.

use std::vec::Vec;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{NOTICE, Notices, Read};

fn might_find(notices: &Notices, range: (usize, usize)) -> bool {
    if notices.is_at(0) {
        return true;
    }
    let mut ranges = Vec::new();
    match notices.read(0, |start, end| ranges.push((start, end))) {
        Read::UpTo(_) => !ranges.contains(&range),
        Read::Lost(_) | Read::Busy => false,
    }
}

fn given_before(another: bool) {
    let notices = Arc::new(Notices::new());
    let gone = Arc::new(AtomicBool::new(false));
    let giver = thread::spawn({
        let (notices, gone) = (notices.clone(), gone.clone());
        move || {
            notices.give(3, 4);
            gone.store(true, Ordering::Release);
        }
    });
    let other = another.then(|| {
        let notices = notices.clone();
        thread::spawn(move || notices.give(100, 1))
    });
    if gone.load(Ordering::Acquire) {
        assert!(!might_find(&notices, (3, 7)), "a stale region is found");
    }
    giver.join().expect("the giver");
    other.map(|other| other.join().expect("the other giver"));
    assert!(!might_find(&notices, (3, 7)), "the notice is lost");
}

#[test]
fn model_a_notice_that_was_given_is_read() {
    loom::model(|| given_before(false));
}

#[test]
fn model_a_notice_that_was_given_is_read_while_another_is_given() {
    loom::model(|| given_before(true));
}

/// The kernel releases the unmapping thread when the event is read, before the notice.
fn read_of_an_event(within_the_notice: bool) {
    let notices = Arc::new(Notices::new());
    let released = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let (notices, released) = (notices.clone(), released.clone());
        move || {
            let read = || released.store(true, Ordering::Release);
            if within_the_notice {
                notices.give_what(|| {
                    read();
                    Some((3, 4))
                });
            } else {
                read();
                notices.give(3, 4);
            }
        }
    });
    if released.load(Ordering::Acquire) {
        assert!(!might_find(&notices, (3, 7)), "a stale region is found");
    }
    reader.join().expect("the reader");
    assert!(!might_find(&notices, (3, 7)), "the notice is lost");
}

#[test]
fn model_user_that_continues_after_an_event_finds_no_stale_region() {
    loom::model(|| read_of_an_event(true));
}

#[test]
#[should_panic(expected = "a stale region is found")]
fn model_control_an_event_that_is_read_before_its_notice_begins() {
    loom::model(|| read_of_an_event(false));
}

#[test]
fn model_an_overtaken_reader_reports_lost_notices() {
    loom::model(|| {
        let notices = Arc::new(Notices::new());
        notices.give(1, 10);
        let giver = thread::spawn({
            let notices = notices.clone();
            move || (2..4).for_each(|number| notices.give(number, 10))
        });
        let mut ranges = Vec::new();
        if let Read::UpTo(version) = notices.read(0, |start, end| ranges.push((start, end))) {
            let whole = (1..4).map(|number| (number, number + 10));
            assert_eq!(ranges, whole.take(ranges.len()).collect::<Vec<_>>());
            assert_eq!(ranges.len() as u64 * NOTICE, version);
        }
        giver.join().expect("the giver");
    });
}

//! [`Slots`] under the model checker `loom`.

use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::ENDED;
use super::slots::{Done, Ending, Mail, NIL, Slots, Work};
use crate::peers::PeerKey;

type Table = Arc<Slots<()>>;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn changed() -> Ending<()> {
    Ok(Done::Changed(PeerKey { index: 1, generation: 1 }, Ok(())))
}

fn submit(slots: &Table) -> u32 {
    slots.submit(Work::Watch, 0, |_| ()).map_err(|refused| refused.1).expect("a free slot")
}

fn mail(slots: &Table) -> u32 {
    loop {
        let first = slots.take_mail(false);
        if first != NIL {
            return first;
        }
        thread::yield_now();
    }
}

fn wait(slots: &Table, slot: u32) -> Ending<()> {
    loop {
        let flag = std::sync::Arc::new(Flag(AtomicBool::new(false)));
        if let Some(ending) = slots.poll(slot, &Waker::from(flag.clone())) {
            return ending;
        }
        while !flag.0.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

#[test]
fn model_a_waiter_is_woken_and_its_slot_is_used_again() {
    loom::model(|| {
        let slots: Table = Arc::new(Slots::new(1).expect("a number of slots"));
        let worker = thread::spawn({
            let slots = slots.clone();
            move || {
                let mut done = 0;
                while done < 2 {
                    let mut first = mail(&slots);
                    while let Some((slot, mail)) = slots.next(&mut first) {
                        assert!(matches!(mail, Mail::Submitted));
                        assert!(slots.complete(slot, changed()).is_none());
                        done += 1;
                    }
                }
            }
        });
        for _ in 0..2 {
            assert!(wait(&slots, submit(&slots)).is_ok());
        }
        worker.join().expect("the worker");
    });
}

#[test]
fn model_an_abandoned_result_returns_to_the_thread_once_and_so_does_its_slot() {
    loom::model(|| {
        let slots: Table = Arc::new(Slots::new(1).expect("a number of slots"));
        let caller = thread::spawn({
            let slots = slots.clone();
            move || {
                let slot = submit(&slots);
                slots.abandon(slot);
            }
        });
        let mut first = mail(&slots);
        let mut returned = 0;
        while let Some((slot, mail)) = slots.next(&mut first) {
            assert!(matches!(mail, Mail::Submitted | Mail::Abandoned));
            returned += usize::from(slots.complete(slot, changed()).is_some());
        }
        caller.join().expect("the caller");
        let mut first = slots.take_mail(false);
        while let Some((slot, mail)) = slots.next(&mut first) {
            if matches!(mail, Mail::Returned) {
                returned += usize::from(slots.take_returned(slot).is_some());
            }
        }
        assert_eq!(returned, 1);
        submit(&slots);
        assert!(slots.submit(Work::Watch, 0, |_| ()).is_err());
    });
}

#[test]
fn model_a_submission_beside_the_end_is_refused_or_ended() {
    loom::model(|| {
        let slots: Table = Arc::new(Slots::new(1).expect("a number of slots"));
        let caller = thread::spawn({
            let slots = slots.clone();
            move || match slots.submit(Work::Watch, 0, |_| ()) {
                Ok(slot) => assert!(wait(&slots, slot).is_err()),
                Err((_, error)) => assert_eq!(error, ENDED),
            }
        });
        let mut first = slots.take_mail(true);
        while let Some((slot, _)) = slots.next(&mut first) {
            assert!(slots.complete(slot, Err(ENDED)).is_none());
        }
        caller.join().expect("the caller");
        assert!(slots.submit(Work::Watch, 0, |_| ()).is_err_and(|refused| refused.1 == ENDED));
    });
}

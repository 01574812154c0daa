//! Behaviours of which each side has a thread.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use loom_core::deadline::Deadline;

use super::{Cut, Limit, PATIENCE, TOGETHER, cut_like_another};

/// What one thread does.
pub type Side<'s> = Box<dyn FnOnce() + Send + 's>;

/// Runs the sides of a behaviour, each on a thread that waits as this one does. What cuts one short cuts the others short as
/// well, and what one of them fails with is what the behaviour fails with.
pub fn on_threads<const N: usize>(sides: [Side<'_>; N]) {
    let (patience, together) = (PATIENCE.get(), TOGETHER.with_borrow(Arc::clone));
    let ended = std::thread::scope(|scope| {
        let threads = sides.map(|side| {
            let together = Arc::clone(&together);
            scope.spawn(move || {
                PATIENCE.set(patience);
                TOGETHER.set(together);
                side();
            })
        });
        threads.map(|thread| thread.join().err())
    });
    if let Some(worst) = ended.into_iter().flatten().min_by_key(|payload| rank(&**payload)) {
        resume_unwind(worst);
    }
}

/// Failures come before what may explain them, and that before what follows from it.
fn rank(payload: &(dyn Any + Send)) -> u8 {
    match payload.downcast_ref() {
        None => 0,
        Some(Cut::Error(_)) => 1,
        Some(Cut::InVain) => 2,
    }
}

/// Tells another side something.
#[track_caller]
pub fn tell<V>(to: &Sender<V>, what: V) {
    if to.send(what).is_err() {
        cut_like_another();
        panic!("the other side is gone");
    }
}

/// What another side tells next; nothing if it has left.
#[track_caller]
pub fn hear<V>(from: &Receiver<V>) -> Option<V> {
    let mut limit = Limit::new();
    loop {
        match from.try_recv() {
            Ok(what) => return Some(what),
            Err(TryRecvError::Disconnected) => {
                cut_like_another();
                return None;
            }
            Err(TryRecvError::Empty) => assert!(!limit.passed(), "the other side says nothing"),
        }
        std::thread::yield_now();
    }
}

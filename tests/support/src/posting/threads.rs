//! Behaviours with a thread for each side.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use loom_core::deadline::Deadline;

use super::{Cut, Limit, PATIENCE, TOGETHER, cut_like_another};

/// Body of one thread.
pub type Side<'s> = Box<dyn FnOnce() + Send + 's>;

/// Runs the sides of a behaviour, each on a thread with the limits of this one. If one is cut
/// short, the others are too, and the failure of one is the failure of the behaviour.
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

/// Rank of a panic: failures, then their possible causes, then their effects.
fn rank(payload: &(dyn Any + Send)) -> u8 {
    match payload.downcast_ref() {
        None => 0,
        Some(Cut::Error(_)) => 1,
        Some(Cut::InVain) => 2,
    }
}

/// Sends a value to another side.
#[track_caller]
pub fn tell<V>(to: &Sender<V>, what: V) {
    if to.send(what).is_err() {
        cut_like_another();
        panic!("the other side is gone");
    }
}

/// Returns the next value of another side, or `None` if it has left.
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

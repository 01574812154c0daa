//! [`block_on`]: one future, and no executor.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use loom_core::objects::driver::Drive;

use super::BUDGET;

/// Runs a future to its end, and drives what it waits for.
///
/// The future is polled again after every [turn](Drive::turn), woken or not. So its waker has nothing to do and needs no memory, and no
/// wake-up can be lost, whichever thread it comes from. Where many futures wait at once, tasks of a [`LocalExecutor`](super::LocalExecutor) are
/// polled only when they are woken.
pub fn block_on<D: Drive + ?Sized, M: Future>(drive: &D, future: M) -> M::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        drive.turn(BUDGET);
    }
}

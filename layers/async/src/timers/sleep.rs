#![allow(unsafe_code, reason = "projects pins")]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::Timers;
use super::heap::{Place, State};
use crate::clock::Clock;

/// Waits for a time: [`Timers::sleep`], [`Timers::sleep_until`].
///
/// ```
/// use core::pin::pin;
/// use core::task::{Context, Waker};
/// use core::time::Duration;
///
/// use loom_async::clock::ManualClock;
/// use loom_async::timers::Timers;
///
/// let timers = Timers::new(ManualClock::new());
/// {
///     let mut sleep = pin!(timers.sleep(Duration::from_secs(3)));
///     assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
///     assert!(timers.next_deadline().is_some());
/// }
/// // It brings its own place, which goes with it.
/// assert_eq!(timers.next_deadline(), None);
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep<'t, C> {
    timers: &'t Timers<C>,
    deadline: Duration,
    place: Place,
}

impl<'t, C> Sleep<'t, C> {
    pub(super) const fn new(timers: &'t Timers<C>, deadline: Duration) -> Self {
        Sleep { timers, deadline, place: Place::new() }
    }

    /// Deadline.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl<C: Clock> Future for Sleep<'_, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.into_ref();
        match this.place.state() {
            State::Due => return Poll::Ready(()),
            State::Waiting => {
                this.place.store(cx.waker());
                // User code in `store` may have run a turn.
                if matches!(this.place.state(), State::Due) {
                    return Poll::Ready(());
                }
            }
            State::Out => {
                if this.timers.clock.now() >= this.deadline {
                    return Poll::Ready(());
                }
                this.place.store(cx.waker());
                // SAFETY: a field of a pinned value, never moved out of it.
                let place = unsafe { this.map_unchecked(|sleep| &sleep.place) };
                // SAFETY: the place is used with the heap of these timers only, and removed on
                // drop. Places in the heap do not move. The heap may move once no future borrows
                // it: forgotten places point to each other and never to the heap.
                unsafe { this.timers.heap.add(place, this.deadline) };
            }
        }
        Poll::Pending
    }
}

impl<C> Drop for Sleep<'_, C> {
    fn drop(&mut self) {
        self.timers.heap.remove(&self.place);
    }
}

impl<C> fmt::Debug for Sleep<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).field("state", &self.place.state()).finish()
    }
}

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;

use loom_core::Error;

use super::slots::Done;
use super::{OWN_THREAD, Shared};

/// Work of an agent: a future, and a handle to block on.
///
/// Dropping it abandons the result: a transfer goes on, and another submission receives the
/// notification. Fails with the reason if the agent ends.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{CqError, Domain, Error};
/// use loom_transfer::{Agent, AgentAttr, Block, Engine, EngineAttr, Wait};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let info = Network::new(NetworkAttr::default())?.info();
///
/// let open = move || Engine::open_in(&[Domain::open(&info)?], EngineAttr::default(), Global);
/// let agent = Agent::<Block>::spawn(AgentAttr::default(), open)?;
/// let soon = Instant::now() + Duration::from_millis(2);
/// // 16 writes with the value 5.
/// let mut arrived = agent.wait(Wait { deadline: agent.time(soon), ..Wait::new(5, 16) })?;
/// assert!(arrived.wait_until(Instant::now()).is_none());
/// assert_eq!(arrived.wait(), Err(Error::Queue(CqError::TimedOut)));
/// # Ok::<_, Error>(())
/// ```
#[must_use = "it holds the result"]
pub struct Submission<P, R> {
    pub(super) shared: Arc<Shared<P>>,
    pub(super) slot: Option<u32>,
    pub(super) result: fn(Done<P>) -> Option<R>,
}

struct Parker(Thread);

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

std::thread_local! {
    static PARKER: Waker = Waker::from(Arc::new(Parker(thread::current())));
}

impl<P, R> Submission<P, R> {
    /// Blocks until the work has ended. Fails on the agent's own thread.
    pub fn wait(mut self) -> Result<R, Error> {
        self.block(None).unwrap_or(Err(OWN_THREAD))
    }

    /// Blocks until the work has ended. `None` at the deadline.
    pub fn wait_until(&mut self, deadline: Instant) -> Option<Result<R, Error>> {
        self.block(Some(deadline))
    }

    fn block(&mut self, deadline: Option<Instant>) -> Option<Result<R, Error>> {
        let waker = PARKER.with(Waker::clone);
        loop {
            if let Some(result) = self.take(&waker) {
                return Some(result);
            }
            if self.shared.is_own_thread() {
                return None;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(rest) if rest.is_zero() => return None,
                Some(rest) => thread::park_timeout(rest),
            }
        }
    }

    /// Stops a transfer as [`Engine::cancel`](crate::Engine::cancel), or ends other work.
    pub fn cancel(&self) {
        if let Some(slot) = self.slot {
            self.shared.slots.cancel(slot);
            self.shared.unpark();
        }
    }

    fn take(&mut self, waker: &Waker) -> Option<Result<R, Error>> {
        const TAKEN: Error = Error::Invalid("the result of a submission was taken: poll it until its end only");
        let Some(slot) = self.slot else { return Some(Err(TAKEN)) };
        let ending = self.shared.slots.poll(slot, waker)?;
        self.slot = None;
        Some(ending.and_then(|done| (self.result)(done).ok_or(TAKEN)))
    }
}

impl<P, R> Future for Submission<P, R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.take(cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<P, R> Drop for Submission<P, R> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.shared.slots.abandon(slot);
            self.shared.unpark();
        }
    }
}

impl<P, R> fmt::Debug for Submission<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("slot", &self.slot).finish_non_exhaustive()
    }
}

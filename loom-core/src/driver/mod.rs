//! Futures over a fabric, and the drivers that wake them.
//!
//! A [`CqDriver`] polls a completion queue and wakes the futures of its operations. The executor
//! calls [`Drive::turn`] between rounds of its tasks. `loom-fabric-async` has an executor, and runs
//! drivers under tokio.
//!
//! ```
//! use core::{pin::pin, task::{Context, Waker}};
//! use loom_core::{Source, driver::Drive};
//!
//! # fixture::driver!(network, domain, cq, driver, alice, bob, to_bob);
//! let mut task = pin!(async {
//!     let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
//!     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?;
//!     assert_eq!(driver.finish(received).await?.into_buf(), b"hello");
//!     Ok::<_, loom_core::Error>(())
//! });
//! while task.as_mut().poll(&mut Context::from_waker(Waker::noop()))?.is_pending() {
//!     driver.turn(16);
//! }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # What can be awaited
//! Endpoints post as usual and return an [`OpKey`](crate::OpKey), which futures wait for:
//!
//! | | |
//! |---|---|
//! | [`CqDriver::run`] | posts a buffer, waits for completion, and returns [`Done`](crate::Done) |
//! | [`CqDriver::post`] | posts a buffer |
//! | [`CqDriver::retry`] | posts injected messages, atomic operations on values, collectives, peeks |
//! | [`CqDriver::finish`], [`finish_value`](CqDriver::finish_value), [`finish_peek`](CqDriver::finish_peek) | wait for completion of a buffer, a value, a peek |
//! | [`CqDriver::next_event`] | waits for an event of a peer, or a piece of a multi-receive |
//! | [`CqDriver::next_unclaimed`] | waits for a completed operation without a future |
//! | [`AwaitedArrivals::reached`], [`CounterDriver::reached`] | wait for arrivals of immediate data, or a counter's threshold |
//! | [`EqDriver::connect`], [`EqDriver::accept`], [`EqDriver::join`] | wait for a connection, or membership in a multicast group |
//! | [`EqDriver::next_event`] | waits for a connection request, or the end of a connection |
//!
//! # What they promise
//! - **A future may be dropped at any point.** It holds a key and no buffer. Its operation
//!   continues, and on completion its buffer is dropped or can be taken ([`Unclaimed`]). A future
//!   that has not posted yet drops its buffer.
//! - **Posts wait for room in order of arrival.** A post with a transient error
//!   ([`PostError::is_transient`](crate::error::PostError::is_transient)) is retried after a turn,
//!   the oldest first. Every turn without events and every sixteenth turn also tries one post
//!   further behind. Only posts of one task keep their order.
//! - **Constant time.** An event finds its waiter by slot number.
//! - **Early completion.** The first poll of a future takes one event of the queue. After 128
//!   operations that completed so, the next one waits for a turn.
//! - **Errors reach every waiter.** If a queue fails, all its current and later futures return the
//!   error.
//!
//! # Driven queues
//! A queue has at most one driver. Meanwhile [`Cq::poll`](crate::Cq::poll) and
//! [`Cq::wait`](crate::Cq::wait) fail with [`CqError::Driven`](crate::cq::CqError::Driven). A
//! driver and its futures stay on the thread of their queue.
//!
//! # Sleeping
//! An idle executor may sleep ([`Sleepable`]). After direct posts, for example with
//! [`Endpoint::inject`](crate::Endpoint::inject), call [`Cq::progress`](crate::Cq::progress).

mod arrivals;
mod counter;
mod cq_driver;
mod entry;
mod eq_driver;
mod events;
mod finish;
mod post;
mod sleepable;
mod wait;
mod wait_list;

pub use self::arrivals::{AwaitedArrivals, ReachedArrivals};
pub use self::counter::{CounterDriver, Reached};
pub use self::cq_driver::{CqDriver, Unclaimed};
pub use self::eq_driver::{EqDriver, NextEqEvent};
pub use self::events::{Next, NextEvent, NextUnclaimed};
pub use self::finish::{Finish, FinishPeek, FinishValue};
pub use self::post::{Post, Retry, Run, RunError};
pub use self::sleepable::Sleepable;

/// One driver, or a tuple, array or slice of drivers.
///
/// ```
/// use loom_core::{Cq, CqDriver, Unclaimed, driver::Drive};
///
/// # fixture::domain!(network, domain);
/// let [first, second] = [Cq::<_, Vec<u8>>::open(&domain, 16)?, Cq::<_, Vec<u8>>::open(&domain, 16)?];
/// let first = CqDriver::open(&first, Unclaimed::Drop)?;
/// let second = CqDriver::open(&second, Unclaimed::Drop)?;
/// // The executor drives both: a turn takes at most 16 events of each queue.
/// let drivers = [first, second];
/// assert_eq!(drivers.turn(16), 0);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Drive {
    /// Takes at most `budget` events of each queue, wakes their waiters, and returns the number of
    /// events.
    ///
    /// The executor continues after a turn without events, which makes progress.
    fn turn(&self, budget: usize) -> usize;
}

impl<D: Drive + ?Sized> Drive for &D {
    fn turn(&self, budget: usize) -> usize {
        (**self).turn(budget)
    }
}

impl<D: Drive> Drive for [D] {
    fn turn(&self, budget: usize) -> usize {
        self.iter().map(|driver| driver.turn(budget)).sum()
    }
}

impl<D: Drive, const N: usize> Drive for [D; N] {
    fn turn(&self, budget: usize) -> usize {
        self.as_slice().turn(budget)
    }
}

macro_rules! drive_tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Drive),*> Drive for ($($name,)*) {
            #[allow(non_snake_case, reason = "values are named like their types")]
            fn turn(&self, budget: usize) -> usize {
                let ($($name,)*) = self;
                0 $(+ $name.turn(budget))*
            }
        }
    )*};
}

drive_tuples! { (A) (A B) (A B C) (A B C D) }

//! Futures over a fabric, and the drivers that wake them.
//!
//! A [`CqDriver`] polls a completion queue, and its futures wait for operations of that queue. It is the executor's part to call
//! [`Drive::turn`] again and again, between two rounds of its tasks. Nothing else is needed: no thread, no operating system, and no allocation after the
//! driver was opened. Any executor does, whose tasks stay on one thread. The package `loom-fabric-async` has one for `no_std`, and drives under
//! tokio.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::pin::pin;
//! use core::task::{Context, Poll, Waker};
//!
//! use loom_core::driver::{CqDriver, Drive, Unclaimed};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain, Source};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
//! let to_bob = av.insert(&bob.address()?)?;
//! let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
//!
//! let greeted = async {
//!     let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
//!     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?;
//!     Ok::<_, loom_core::Error>(driver.finish(received).await?.into_result()?.0)
//! };
//!
//! // The smallest executor: one task, which is asked again after each turn.
//! let mut task = pin!(greeted);
//! let greeting = loop {
//!     match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
//!         Poll::Ready(greeting) => break greeting?,
//!         Poll::Pending => driver.turn(16),
//!     };
//! };
//! assert_eq!(greeting, b"hello");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # What can be awaited
//!
//! Endpoints post as ever. What they return is an [`OpKey`](crate::OpKey), and that is what futures wait for:
//!
//! | | posts | waits for its end |
//! |---|---|---|
//! | [`CqDriver::run`] | an operation with a buffer, as soon as it is taken | yes: [`Done`](crate::Done) |
//! | [`CqDriver::post`] | the same | no: [`OpKey`](crate::OpKey) |
//! | [`CqDriver::retry`] | what has no buffer: injected messages, atomic operations on values, collectives, peeks | no |
//! | [`CqDriver::finish`] | | of an operation with a buffer |
//! | [`CqDriver::finish_value`] | | of an operation on a value |
//! | [`CqDriver::finish_peek`] | | of a peek |
//! | [`CqDriver::next_event`] | | the next event of a peer, or piece of a multi-receive |
//! | [`CqDriver::next_unclaimed`] | | the next operation that no future waits for any more |
//! | [`AwaitedArrivals::reached`] | | immediate data, so often |
//! | [`CounterDriver::reached`] | | a counter's threshold |
//! | [`DeferredDriver::finish`] | | of deferred work |
//! | [`EqDriver::connect`], [`EqDriver::accept`], [`EqDriver::join`] | | a connection, or being in a multicast group |
//! | [`EqDriver::next_event`] | | the next request for a connection, or end of one |
//!
//! # What they promise
//!
//! - **A future may be dropped at any point.** It holds a key and no buffer. Its operation goes on in its slot, and when that is over, its buffer
//!   is dropped or can be taken back, as [`Unclaimed`] says. An operation that is to end early is [cancelled](Finish::cancel): the call
//!   cancels it, and the future that it returns awaits the outcome. A future that has not posted yet holds its buffer, and drops it.
//! - **A post waits for room in order of arrival.** What the queue or the provider refuses for the moment
//!   ([`PostError::is_transient`](crate::error::PostError::is_transient)) is tried again after a turn, the oldest first. A post that comes later waits
//!   behind those that wait. So that a peer that takes nothing does not hold up the others for ever, one of those further behind is tried, too,
//!   each time another: in a turn that finds no event, and in every sixteenth. Posts of one task keep their order; those of several may then
//!   overtake each other.
//! - **Constant time.** An event wakes who waits for its operation, whom it finds by the number of the slot. A turn takes no more events than
//!   its budget. It wakes no other task, but of the posts that wait for room one more than there were events, and the one whose turn it is.
//! - **A first look.** The first poll of a future takes one event of the queue: most operations that are short are over by then, and no task needs to be
//!   woken. After 128 operations that were over at their first look, the next one waits for a turn: other tasks, timers and sockets have theirs.
//! - **Errors reach those who wait.** If a queue fails, each of its futures ends with the error, and so does every later one. An operation that
//!   fails is the result of its own future alone.
//!
//! # Queues that are driven
//!
//! A queue has one driver at a time. As long as it has one, [`Cq::poll`](crate::Cq::poll) and [`Cq::wait`](crate::Cq::wait) are refused
//! ([`CqError::Driven`](crate::cq::CqError::Driven)), because they would take completions away from futures.
//!
//! A driver and its futures stay on the thread of their queue.
//!
//! # Sleeping
//!
//! An executor that has nothing to do may sleep, if the queues were opened with descriptors: [`Sleepable`] has the contract, for any runtime that
//! can wait for descriptors. What is posted by way of a driver is looked after. Who posts by hand meanwhile, as with
//! [`Endpoint::inject`](crate::Endpoint::inject), has it looked after by [`Cq::progress`](crate::Cq::progress).

mod arrivals;
mod counter;
mod cq_driver;
mod deferred;
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
pub use self::deferred::{DeferredDriver, FinishWork, WorkError};
pub use self::eq_driver::{ConnectError, EqDriver, NextEqEvent};
pub use self::events::{NextEvent, NextUnclaimed};
pub use self::finish::{Finish, FinishPeek, FinishValue};
pub use self::post::{Post, Retry, Run, RunError};
pub use self::sleepable::{SleepError, Sleepable};

/// What has to be driven for futures to go on: a driver, or several.
///
/// Tuples, arrays and slices of drivers, and references to one, are driven as one: each in turn has the whole budget.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::driver::{CqDriver, Drive, Unclaimed};
/// use loom_core::{Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// let [first, second] = [Cq::<_, Vec<u8>>::open(&domain, 16)?, Cq::<_, Vec<u8>>::open(&domain, 16)?];
/// let first = CqDriver::open(&first, Unclaimed::Drop)?;
/// let second = CqDriver::open(&second, Unclaimed::Drop)?;
/// // The executor drives both: a turn takes at most 16 events of each queue.
/// let drivers = [first, second];
/// assert_eq!(drivers.turn(16), 0);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Drive {
    /// Takes events, as many as `budget` at most of each queue, and wakes whom they are for. Says how many there were.
    ///
    /// Between two turns the executor polls what was woken. A turn that has found nothing is no reason to stop: providers make progress in
    /// these calls.
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

/// Implements [`Drive`] for tuples.
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

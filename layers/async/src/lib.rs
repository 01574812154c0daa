//! Async programs over loom, with neither `std` nor an allocator of their own.
//!
//! The futures of a fabric are in [`loom_core::driver`], and any executor runs them whose tasks stay on one thread. This crate has
//! one that needs nothing but memory, and what programs want beside it:
//!
//! - [`LocalExecutor`]: a fixed number of tasks in one block of the caller's allocator. Wake-ups come from any thread, in constant time.
//!   [`block_on`] runs one future without an executor.
//! - [`timers`]: waiting for a time, and futures that have until a time, by any [clock](clock::Clock).
//! - [`stream`]: events of peers, and operations that were given up, as streams.
//! - [`window`]: transfers in many parts, of which a fixed number is in flight, with one outcome.
//!
//! Everything is driven by the caller: a round of the executor polls what was woken, then takes a turn of what is driven, timers and
//! queues. There are no hidden threads, and after opening nothing is allocated.
//!
//! # Example
//!
//! Two tasks, and a timer for the one that may wait in vain:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use core::future::Future;
//! use core::pin::{Pin, pin};
//! use core::time::Duration;
//!
//! use loom_async::LocalExecutor;
//! use loom_async::clock::StdClock;
//! use loom_async::timers::Timers;
//! use loom_core::driver::{CqDriver, Unclaimed};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain, Error, Source};
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.info())?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
//! let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
//! let (driver, timers) = (CqDriver::open(&cq, Unclaimed::Drop)?, Timers::new(StdClock::new()));
//!
//! // Bob sends back what comes.
//! let mut echoes = pin!(async {
//!     loop {
//!         let received = driver.run(vec![0; 5], |room| bob.recv(Source::Any, room)).await.expect("a message");
//!         driver.run(received.into_buf(), |message| bob.send(to_alice, message)).await.expect("alice").result().expect("sent");
//!     }
//! });
//! let executor = LocalExecutor::<Pin<&mut dyn Future<Output = ()>>>::new(1)?;
//! executor.spawn(echoes.as_mut())?;
//!
//! let echo = executor.run_until(&(&timers, &driver), async {
//!     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
//!     let received = driver.run(vec![0; 5], |room| alice.recv(Source::Any, room));
//!     Ok::<_, Error>(timers.timeout(Duration::from_secs(10), received).await??.into_buf())
//! })?;
//! assert_eq!(echo, b"hello");
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! `docs/async.md` in loom's repository has more: what may be dropped, what errors carry, and how operations are composed (callbacks, `then`,
//! `when_all`, timeouts, retries, read-modify-write, other threads) with the combinators of `futures-util`.
//!
//! # Why an executor of its own
//!
//! None of the others does with memory of the caller what a fabric needs. `embassy-executor` has tasks in statics only (`'static` futures of a macro, or an
//! arena of a size that is set when it is built), is woken through a symbol that the program links, and has nowhere to poll a fabric
//! between two rounds. `cassette` runs one future. The `LocalPool` of `futures-executor` needs `std` and parks its thread; its task
//! set, `FuturesUnordered`, allocates each task with the global allocator, as do `async-executor` and `edge-executor`. What they agree on is
//! taken over: a lock-free list of woken tasks, which is taken whole (embassy, `FuturesUnordered`), and rounds in which each task has one turn
//! (embassy).
//!
//! # Features
//!
//! - `tokio`: `tokio`, driving in a runtime of that name. With `std`. Off by default.
//! - `std`: `std::time::Instant` as a clock, and constructors with the global allocator. Off by default.

#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

pub use executor::{BUDGET, Full, LocalExecutor, Round, Spawner, TaskId, block_on};

pub mod clock;
mod executor;
pub mod stream;
mod sync;
pub mod timers;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod window;

/// The code of the page about async programs compiles and runs.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/async.md")]
struct PageDoctests;

/// The code in the README compiles and runs.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

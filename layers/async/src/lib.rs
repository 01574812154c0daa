//! Async programs over loom, without `std` or a global allocator.
//!
//! Adds an [executor](LocalExecutor) of fixed size, [`timers`], [streams](stream) and transfers in
//! parts ([`window`]) to the futures of [`loom_core::driver`].
//!
//! # Example
//! Bob's task returns a message. Alice waits for it at most 10 s:
//!
//! ```
//! use core::time::Duration;
//!
//! use loom_async::LocalExecutor;
//! use loom_async::clock::StdClock;
//! use loom_async::timers::Timers;
//! use loom_core::driver::{CqDriver, Unclaimed};
//! use loom_core::{Error, Source};
//! # use loom_core::{Av, Cq, Domain};
//! # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
//! # let to_alice = av.insert(&alice.address()?)?;
//!
//! let (driver, timers) = (CqDriver::open(&cq, Unclaimed::Drop)?, Timers::new(StdClock::new()));
//! let executor = LocalExecutor::new(1)?;
//! executor.spawn(async {
//!     let received = driver.run(vec![0; 5], |room| bob.recv(Source::Any, room)).await.expect("a message");
//!     driver.run(received.into_buf(), |message| bob.send(to_alice, message)).await.expect("a completion");
//! })?;
//!
//! let echo = executor.run_until(&(&timers, &driver), async {
//!     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
//!     let received = driver.run(vec![0; 5], |room| alice.recv(Source::Any, room));
//!     Ok::<_, Error>(timers.timeout(Duration::from_secs(10), received).await??.into_buf())
//! })?;
//! assert_eq!(echo, b"hello");
//! # Ok::<_, Error>(())
//! ```
//!
//! See also `docs/async.md`.
//!
//! # Features
//!
//! ## `std`
//! `std::time::Instant` as a clock, and constructors with the global allocator.
//!
//! ## `tokio`
//! Module `tokio`: drives queues in a tokio runtime. Requires `std`.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
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

#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../../../docs/async.md")]
struct PageDoctests;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

//! Deferred work: operations posted when a counter reaches a threshold, as in `man fi_trigger`.
//!
//! [`Deferred::poll`] posts the work, over every transport.
//!
//! A receive is answered automatically:
//!
//! ```
//! use loom_deferred::{Deferred, DeferredEvent, Work};
//! use loom_core::{av::Av, counter::Counter, cq::Cq, deadline::Forever, domain::Domain};
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Binding, Counted, CounterAttr, Source};
//!
//! # let network = Network::new(NetworkAttr::default())?;
//! # let domain = Domain::open(&network.info())?;
//! # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
//! // It counts what bob has received.
//! let received = Counter::open(&domain, CounterAttr::default())?;
//! let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
//! # let alice = cq.endpoint(&av)?;
//! # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
//!
//! // When bob has received one message, he sends one.
//! let deferred = Deferred::open(&cq, 8)?;
//! let answer = deferred.post((&received, 1), &bob, Work::send(to_alice), b"it is here".to_vec())?;
//!
//! let answered = cq.post(vec![0; 10], Forever, |room| alice.recv(Source::Any, room))?;
//! cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
//! # loop {
//! match deferred.poll()? {
//!     Some(DeferredEvent::Done(key, done)) => assert!(key == answer && done.result().is_ok()),
//!     Some(DeferredEvent::Other(loom_core::Completion::Op(done))) if done.key() == answered => {
//! #       assert_eq!(done.into_buf(), b"it is here");
//! #       break;
//!     }
//! #   _ => {}
//! }
//! # }
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! # What it promises
//! - **Order.** Work of one counter starts in the order of thresholds, then of posting. After a
//!   transient error ([`PostError::is_transient`](loom_core::error::PostError::is_transient)) the
//!   next poll retries it before the counter's other work.
//! - **Thresholds include failures**, as in `fi_trigger`, so that a chain does not hang. To end a
//!   chain, [flush](Deferred::flush).
//! - **Each buffer is returned once.** The [`Deferred`] drops buffers of waiting work with itself.
//!   Cancelled, flushed or refused work is [returned](DeferredEvent::Returned).
//! - **Chains.** Counters of endpoints
//!   ([`Binding::counter`](loom_core::endpoint::Binding::counter)) count deferred work too.
//!   [`Deferred::post_then`] adds another counter.
//! - **Bounded.** A poll starts at most the work that exists when it begins.
//!
//! # References
//! - `man fi_trigger`, section *Deferred Work Queues*; `man fi_cntr`

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod deferred;
mod driver;
mod run;
mod work;
pub mod work_table;

pub use self::deferred::{Deferred, DeferredEvent};
pub use self::driver::{DeferredDriver, FinishWork};
pub use self::work::Work;
pub use self::work_table::WorkKey;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

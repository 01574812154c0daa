//! Checks by the compiler: a program's requirements of endpoints and providers, as types and
//! constants.
//!
//! Requirements of endpoints are [queries](query), guarantees of providers [`profiles`]. Code that
//! is generic over endpoints uses [`protocol`].
//!
//! ```
//! use loom_core::soft::{Network, NetworkAttr};
//! use loom_core::{Av, Cq, Domain, Forever, Source};
//! use loom_static::protocol::{MsgRecv, MsgSend};
//! use loom_static::query::{Messages, Query, Rdm};
//!
//! type Wanted = (Rdm, Messages);
//!
//! let network = Network::new(NetworkAttr::default())?;
//! let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
//! let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
//! let (mut alice, mut bob) = (Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?);
//! let to_bob = av.insert(&bob.whole().address()?)?;
//! let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
//! cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
//! assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
//! # Ok::<_, loom_core::Error>(())
//! ```

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod only;
mod profiled;
pub mod profiles;
pub mod protocol;
pub mod query;

pub use self::only::{Narrows, Only, OnlyEndpoint, WithoutConnections};
pub use self::profiled::{Profiled, Unmet};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

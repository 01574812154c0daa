//! Media flows over the fabric: grains of video and data, and samples of audio, from one
//! [`Initiator`] to many [`Target`]s.
//!
//! A flow is a ring in registered memory on each side. The initiator writes grains, slices or
//! blocks of samples straight into the rings of its targets, and notifies each of arrivals.
//!
//! ```
//! use loom_core::Domain;
//! use loom_core::allocator_api2::alloc::Global;
//! use loom_media::{FlowLayout, GrainLayout, Initiator, MediaAttr, Release, Target, TargetEvent};
//!
//! # fixture::domain!(network, domain);
//! # let attr = MediaAttr { peers: 2, transfers: 8, depth: 16, ..MediaAttr::default() };
//! # let mut initiator = Initiator::open_in(&[domain.clone()], attr, Global)?;
//! # let mut target = Target::open_in(&[domain], attr, Global)?;
//! # let mut record = [0; 1024];
//! // Rings of 4 grains of a small picture.
//! let layout = GrainLayout::v210(96, 16);
//! let ring = FlowLayout::Grains(layout, 4);
//! let received = target.add_flow(vec![0; ring.bytes() as usize], ring, Release::Keep(1))?;
//! let sent = initiator.add_flow(vec![0; ring.bytes() as usize], ring, 100)?;
//! let len = target.record(received, &mut record)?;
//! let to = initiator.add_target(sent, &record[..len])?;
//! # while initiator.room(to).is_none() {
//! #     initiator.poll(0)?;
//! #     target.poll(0)?;
//! # }
//!
//! let picture = vec![7; layout.len() as usize];
//! initiator.grain(sent, 100)?.expect("the ring is empty").copy_from(0, &picture)?;
//! assert_eq!(initiator.send_grain(sent, 100, 0..layout.slices)?.submitted, 1);
//! let grain = loop {
//!     # initiator.poll(0)?;
//!     if let Some(TargetEvent::Complete { index, .. }) = target.poll(0)? { break target.grain(received, index); }
//! };
//! # let grain = grain.expect("it is not released");
//! # let mut bytes = vec![0; picture.len()];
//! # grain.window.copy_to(0, &mut bytes)?;
//! # assert_eq!((grain.index, bytes), (100, picture));
//! # Ok::<_, loom_core::Error>(())
//! ```

//!
//! # What it promises
//! - **A complete grain has all of its bytes, and stays as it is until it is released.** An
//!   initiator writes only where the target has granted room, in any order of arrival. [`Target`]
//!   states the exceptions.
//! - **Each grain and sample** that an attached initiator sends is reported once: as arrived, or as
//!   lapped.
//! - **Each target is independent of the others.** Parts without room are deferred while they are
//!   in the initiator's ring, then passed over. [`Initiator::lap`] cancels those in flight.
//! - **After a failure**, initiator and target go on by another attachment, once all operations
//!   have completed.
//! - **After opening, no allocation**, except for flows.
//!
//! # Features
//!
//! ## `std`
//! Examples of the documentation, with the global allocator.
//!
//! ## `mxl`
//! MXL's formats, its flows in shared memory, and its own peers, on Linux: over connections (`tcp`,
//! or `loom-tcp` without libfabric) and without (`shm`, with one version of libfabric on both
//! sides. `efa` is untested). Enables `std`.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::unwrap_used)]
#[cfg(any(test, feature = "std"))]
extern crate std;

mod attr;
mod backlog;
mod flow;
mod inflow;
mod initiator;
mod layout;
mod link;
mod message;
#[cfg(all(feature = "mxl", target_os = "linux"))]
pub mod mxl;
mod outflow;
mod peer_cache;
mod ranges;
mod record;
mod ring;
mod span;
mod stream;
mod target;

pub use self::attr::MediaAttr;
pub use self::flow::{FlowKey, Grain, Samples};
pub use self::initiator::{Fanout, Initiator, InitiatorEvent};
pub use self::layout::{FlowLayout, GrainLayout, MAX_PLANES, Rate, SampleLayout, wire_len};
pub use self::link::{TargetKey, TargetStatus};
pub use self::ring::{ReadError, RingReader, RingWriter};
pub use self::stream::Stream;
pub use self::target::{Release, Target, TargetEvent};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

//! MXL's fabrics on the wire.
//!
//! An initiator writes the header and slices of a grain into the slot of the target, or a block of
//! samples into the next entry of its bounce buffer. The immediate data of the last write names the
//! slot or entry.

#![allow(unsafe_code, reason = "lends parts of registered memory")]

mod arrivals;
mod connectionless;
mod connections;
mod event;
mod initiator;
mod links;
mod posting;
mod target;

use core::hash::{BuildHasher, Hasher};
use core::ptr::NonNull;
use std::hash::RandomState;
use std::rc::Rc;
use std::vec::Vec;

use loom_core::buffer::Lent;
use loom_core::error::PostError;
use loom_core::mr::MrAttr;
use loom_core::vocabulary::{EndpointType, MemoryKey, MrMode, MsgOrder};
use loom_core::{
    Access, Buffer, Domain, EndpointAddr, Errno, Error, Mr, RemoteRegion, SendOptions, SourceBuffer, Transport,
};

pub use self::event::FabricsEvent;
pub use self::initiator::FabricsInitiator;
pub use self::target::FabricsTarget;
use super::FlowDefinition;
use super::wire::HEADER_LEN;
use crate::layout::FlowLayout;
use crate::stream::Stream;

/// Sizes of a [`FabricsTarget`] or a [`FabricsInitiator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricsAttr {
    /// Maximum number of targets of an initiator.
    pub targets: u16,
    /// Maximum number of unfinished transfers to a target. MXL's targets have queues of 8.
    pub transfers: u16,
    /// Depth of the completion queue: writes of an initiator that are in flight, or writes with
    /// immediate data between two polls of a target. At least the transfers of one ring.
    pub depth: usize,
    /// Maximum number of samples of a block, up to a third of the ring: 10 ms at MXL's targets.
    pub batch: u32,
    /// Time in nanoseconds after which an initiator connects to a failed target again. 0: a target
    /// fails for good.
    pub retry: u64,
    /// Time in nanoseconds for a target to accept a connection, or, if connectionless, a write.
    /// 0: no limit.
    pub connect: u64,
}

impl Default for FabricsAttr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FabricsAttr {
    const DEFAULT: Self =
        FabricsAttr { targets: 16, transfers: 4, depth: 256, batch: 480, retry: 5_000_000_000, connect: 5_000_000_000 };

    /// Sizes for a stream, like [`MediaAttr::for_streams`](crate::MediaAttr::for_streams), without
    /// division into pieces.
    ///
    /// ```
    /// use loom_media::mxl::FabricsAttr;
    /// use loom_media::{FlowLayout, Rate, SampleLayout, Stream};
    ///
    /// // Blocks of 1 ms, each in one write, and polls each 10 ms.
    /// let rate = Rate::new(48_000, 1);
    /// let layout = FlowLayout::Samples(SampleLayout::mxl(4, 64, rate, 200_000_000));
    /// let attr = FabricsAttr::for_stream(&Stream { layout, rate, part: 48 }, 32, 10_000_000);
    /// assert_eq!((attr.transfers, attr.depth, attr.batch), (20, 20 * 32, 48));
    /// ```
    ///
    /// # Panics
    /// If a part is 0.
    #[must_use]
    pub const fn for_stream(stream: &Stream, targets: u16, poll_ns: u64) -> Self {
        let (transfers, ring) = stream.transfers(poll_ns);
        let (writes, batch) = match stream.layout {
            FlowLayout::Grains(..) => (stream.writes(u64::MAX), Self::DEFAULT.batch),
            FlowLayout::Samples(_) => (1, stream.part),
        };
        let depth = transfers.saturating_mul(writes).saturating_mul(targets as usize);
        #[expect(clippy::cast_possible_truncation, reason = "the comparison")]
        let transfers = if transfers > u16::MAX as usize { u16::MAX } else { transfers as u16 };
        FabricsAttr { targets, transfers, depth: if depth < ring { ring } else { depth }, batch, ..Self::DEFAULT }
    }
}

fn register<'m, T: Transport, M: Buffer + Send + 'm>(
    domain: &Domain<'m, T>,
    memory: M,
    layout: &FlowLayout,
    access: Access,
    attr: &FabricsAttr,
) -> Result<Mr<'m, T, M>, Error> {
    let fits = match layout {
        FlowLayout::Grains(layout, slots) => layout.header == HEADER_LEN && *slots <= FlowDefinition::MAX_SLOTS,
        FlowLayout::Samples(layout) => (1..=layout.len / 3).contains(&attr.batch),
    };
    if attr.targets == 0 || attr.transfers == 0 || attr.depth == 0 {
        return Err(Error::Invalid("`FabricsAttr` has no targets, transfers or depth: use at least 1 of each"));
    }
    if !layout.is_valid() || !fits {
        return Err(Error::Invalid(
            "the layout is not of MXL: use slices with a header of 8,192 bytes, or samples for `FabricsAttr::batch`",
        ));
    }
    let is_remote = access.contains(Access::REMOTE_WRITE);
    let attr = if is_remote { with_random_key(domain, access) } else { MrAttr::new(access) };
    let region = Mr::open(domain, memory, attr)?;
    if (region.window().len() as u64) < layout.bytes() {
        return Err(Error::Invalid("the memory is shorter than the ring of the flow: use `FlowLayout::bytes`"));
    }
    Ok(region)
}

type Outcome = (usize, Result<(), Errno>);

trait Outgoing<'m, T: Transport, M: Buffer + Send> {
    /// Returns `true` if no event follows.
    fn open(&mut self, index: usize, to: &EndpointAddr) -> Result<bool, Error>;

    /// Operations in flight complete with an error, if the provider can close the endpoint.
    fn close(&mut self, index: usize);

    /// Without operations in flight.
    fn release(&mut self, index: usize) {
        self.close(index);
    }

    /// Target that is connected, or no longer.
    fn next(&mut self) -> Result<Option<Outcome>, Error>;

    fn write(
        &self,
        index: usize,
        to: &RemoteRegion,
        options: SendOptions,
        part: Part<'m, T, M>,
    ) -> Result<(), PostError>;
}

trait Incoming {
    fn address(&self) -> Result<EndpointAddr, Error>;

    fn is_open(&self) -> bool;

    fn next(&mut self) -> Result<Option<Change>, Error>;

    fn accept(&mut self) -> Result<(), Error>;

    fn close(&mut self) -> bool;
}

enum Change {
    Requested,
    Attached,
    Unconnected(Error),
    Ended(Option<Error>),
}

fn has_connections<T: Transport>(domain: &Domain<'_, T>) -> bool {
    domain.info().attributes().endpoint.kind == EndpointType::MSG
}

fn orders_writes(granted: MsgOrder, ordered: u64, piece: u64) -> bool {
    granted.intersects(MsgOrder::WAW | MsgOrder::RMA_WAW) && ordered >= piece
}

/// Name in the info of a target. MXL has no name for `loom-tcp`, which has the wire format of
/// `tcp`.
fn provider<'d, T: Transport>(domain: &'d Domain<'_, T>) -> &'d str {
    match domain.info().provider() {
        "loom-tcp" => "tcp",
        name => name,
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Key that infos of former targets do not have, if the program chooses keys.
fn with_random_key<'m, T: Transport>(domain: &Domain<'m, T>, access: Access) -> MrAttr<'m, T> {
    let attributes = domain.info().attributes().domain;
    let bits = 8 * u32::try_from(attributes.mr_key_size.min(8)).unwrap_or(8);
    if attributes.mr_mode.contains(MrMode::PROV_KEY) || bits == 0 {
        return MrAttr::new(access);
    }
    MrAttr::new(access).key(MemoryKey(random() >> (64 - bits)))
}

/// Keeps its region open.
struct Part<'m, T: Transport, M: Buffer + Send> {
    at: NonNull<u8>,
    len: usize,
    region: Source<'m, T, M>,
    sending: usize,
}

enum Source<'m, T: Transport, M: Buffer + Send> {
    Ring(Rc<Mr<'m, T, M>>),
    Blocks(Rc<Mr<'m, T, Vec<u8>>>),
}

impl<'m, T: Transport, M: Buffer + Send> Part<'m, T, M> {
    fn new(region: &Source<'m, T, M>, offset: u64, len: u64, sending: usize) -> Option<Self> {
        let region = match region {
            Source::Ring(region) => Source::Ring(region.clone()),
            Source::Blocks(region) => Source::Blocks(region.clone()),
        };
        let window = match &region {
            Source::Ring(region) => region.window(),
            Source::Blocks(region) => region.window(),
        };
        let len = usize::try_from(len).ok()?;
        let at = NonNull::new(window.slice(usize::try_from(offset).ok()?, len).ok()?.as_ptr())?;
        Some(Part { at, len, region, sending })
    }
}

// SAFETY: the range lies within a region, which the part keeps open. The memory is exposed: this
// module posts parts in RMA writes alone, and safe code cannot obtain them.
unsafe impl<T: Transport, M: Buffer + Send> Buffer for Part<'_, T, M> {
    #[inline]
    fn lend(&mut self) -> Lent {
        let descriptor = match &self.region {
            Source::Ring(region) => region.descriptor(),
            Source::Blocks(region) => region.descriptor(),
        };
        Lent { descriptor: Some(descriptor), ..Lent::source(self.at, self.len) }
    }
}
impl<T: Transport, M: Buffer + Send> SourceBuffer for Part<'_, T, M> {}

#[cfg(test)]
mod tests {
    use loom_core::soft::{Network, NetworkAttr, Plan};
    use std::vec;

    use super::super::GrainHeader;
    use super::*;
    use crate::layout::{GrainLayout, Rate};

    #[test]
    fn grains_longer_than_an_operation_arrive_in_parts() {
        const GRAIN: GrainLayout = GrainLayout { header: 8192, slice_len: [300, 200, 0, 0], slices: 9, slot_align: 1 };
        let flow = FlowLayout::Grains(GRAIN, 4);
        let ring = || vec![0; usize::try_from(flow.bytes()).expect("short")];
        for (piece, reorder) in [(1000, 0), (1000, 9), (777, 9), (1 << 20, 9)] {
            let network = Network::new(NetworkAttr::default()).expect("memory");
            let info = network.info_with_faults(Plan { reorder, ..Plan::new(piece) });
            let domain = Domain::open(&info).expect("memory");
            let attr = FabricsAttr { targets: 1, ..FabricsAttr::default() };
            let mut target = FabricsTarget::open_connectionless(&domain, ring(), flow, attr).expect("memory");
            let mut initiator = FabricsInitiator::open_connectionless(&domain, ring(), flow, 0, attr).expect("memory");
            (initiator.piece, initiator.is_ordered) = (piece, reorder == 0);
            initiator.add_target(target.info().expect("an address")).expect("the same flow");
            while initiator.poll(0).expect("no fault").is_none() {}
            for index in 0..10 {
                let header = GrainHeader { index, is_invalid: false, grain_size: 4500, total: 9, valid: 9 };
                let mut bytes: Vec<u8> = (0..GRAIN.len()).map(|at| (at * 7 + index).to_ne_bytes()[0]).collect();
                bytes[..GrainHeader::LEN].copy_from_slice(&header.to_bytes());
                initiator.grain(index).expect("later").expect("free").copy_from(0, &bytes).expect("its slot");
                for &(start, end) in if index % 2 == 0 { &[(0, 9)][..] } else { &[(0, 4), (4, 9)] } {
                    _ = initiator.send_grain(index, start..end).expect("in turn");
                }
                let mut polls = 0..100_000;
                while target.poll().expect("no fault") != Some(FabricsEvent::Complete { index }) {
                    _ = initiator.poll(0).expect("no fault");
                    assert!(polls.next().is_some(), "grain {index} in time");
                }
                let mut found = vec![0; bytes.len()];
                target.grain(index).expect("complete").window.copy_to(0, &mut found).expect("its slot");
                assert!(found == bytes, "grain {index}, {piece} bytes");
                while initiator.in_progress() > 0 {
                    _ = initiator.poll(0).expect("no fault");
                }
            }
        }
    }

    #[test]
    fn depths_are_of_all_targets_and_at_least_of_a_ring() {
        let grains = FlowLayout::Grains(GrainLayout::v210a(1920, 1080).with_header(8192), 12);
        let depths = |part, targets, poll_ns| {
            let stream = Stream { layout: grains, rate: Rate::new(60, 1), part };
            let attr = FabricsAttr::for_stream(&stream, targets, poll_ns);
            (attr.transfers, attr.depth)
        };
        assert_eq!(depths(1080, 1, 0), (2, 12));
        assert_eq!(depths(1080, 50, 16_000_000), (2, 100));
        assert_eq!(depths(1080, 50, 17_000_000), (4, 200));
        assert_eq!(depths(540, 8, 0), (4, 4 * 2 * 8));
        assert_eq!(depths(540, 1, 10_000_000_000), (24, 48));
    }

    #[test]
    fn writes_are_in_order_up_to_the_granted_length() {
        for order in [MsgOrder::WAW, MsgOrder::RMA_WAW] {
            assert!(orders_writes(order, 100, 100));
            assert!(!orders_writes(order, 99, 100));
        }
        assert!(!orders_writes(MsgOrder::SAS, 100, 100));
    }
}

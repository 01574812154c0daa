//! MXL's fabrics on the wire, over connections (`FI_EP_MSG`).
//!
//! An initiator writes the header and slices of a grain into the slot of the target, or a block of
//! samples into the next entry of its bounce buffer. The immediate data of the last write names the
//! slot or entry.

#![allow(unsafe_code, reason = "lends parts of registered memory")]

mod arrivals;
mod initiator;
mod posting;
mod target;

use core::hash::{BuildHasher, Hasher};
use core::ptr::NonNull;
use std::hash::RandomState;
use std::rc::Rc;
use std::vec::Vec;

use loom_core::buffer::Lent;
use loom_core::mr::MrAttr;
use loom_core::vocabulary::{EndpointType, MemoryKey, MrMode, MsgOrder};
use loom_core::{Access, Buffer, Domain, Error, Mr, SourceBuffer, Transport};

pub use self::initiator::FabricsInitiator;
pub use self::target::{FabricsEvent, FabricsTarget};
use super::FlowDefinition;
use super::wire::HEADER_LEN;
use crate::layout::FlowLayout;

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
    /// Time in nanoseconds for a target to accept a connection. 0: no limit.
    pub connect: u64,
}

impl Default for FabricsAttr {
    fn default() -> Self {
        FabricsAttr { targets: 16, transfers: 4, depth: 256, batch: 480, retry: 5_000_000_000, connect: 5_000_000_000 }
    }
}

fn register<'m, T: Transport, M: Buffer + Send + 'm>(
    domain: &Domain<'m, T>,
    memory: M,
    layout: &FlowLayout,
    access: Access,
    attr: &FabricsAttr,
) -> Result<Mr<'m, T, M>, Error> {
    if domain.info().attributes().endpoint.kind != EndpointType::MSG {
        return Err(Error::Invalid("the domain has no connections: query it for `EndpointType::MSG`"));
    }
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

const NO_ORDER: Error = Error::Invalid("the provider does not order the writes of a transfer: use whole grains");

/// Returns `true` if a provider orders writes of at most `piece` bytes. Fails if it does not, and
/// the longest transfer is several.
fn orders_writes(granted: MsgOrder, ordered: u64, piece: u64, longest: u64) -> Result<bool, Error> {
    let is_ordered = granted.intersects(MsgOrder::WAW | MsgOrder::RMA_WAW) && ordered >= piece;
    if longest > piece && !is_ordered { Err(NO_ORDER) } else { Ok(is_ordered) }
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
    use super::*;

    #[test]
    fn transfers_of_several_writes_require_their_order() {
        const MIB: u64 = 1 << 20;
        for order in [MsgOrder::WAW, MsgOrder::RMA_WAW] {
            assert_eq!(orders_writes(order, MIB, MIB, 6 * MIB), Ok(true));
            assert_eq!(orders_writes(order, MIB - 1, MIB, MIB), Ok(false));
            assert_eq!(orders_writes(order, 0, MIB, MIB + 1), Err(NO_ORDER));
        }
        assert_eq!(orders_writes(MsgOrder::SAS, MIB, MIB, MIB + 1), Err(NO_ORDER));
        assert_eq!(orders_writes(MsgOrder::SAS, MIB, MIB, MIB), Ok(false));
    }
}

use core::cell::Cell;

use loom_core::collective::Collective;
use loom_core::endpoint::CollectiveGroup;
use loom_core::error::Rejected;
use loom_core::transport::Collectives;
use loom_core::vocabulary::{AtomicOp, CollectiveOp};
use loom_core::{Cq, OpKey, Transport};

use super::{Combine, Element, Packet};

pub(super) trait Provides<'m, T: Transport, B: Packet> {
    fn place(&self) -> (usize, usize);
    fn queue(&self) -> &Cq<'m, T, B>;
    fn has(&self, collective: Collective, count: usize) -> bool;
    fn call(&self, collective: Collective, root: usize, packet: B) -> Result<OpKey, Rejected<B>>;
}

impl<'m, T: Collectives, B: Packet> Provides<'m, T, B> for CollectiveGroup<'m, T, B> {
    fn place(&self) -> (usize, usize) {
        (self.rank(), self.size())
    }

    fn queue(&self) -> &Cq<'m, T, B> {
        self.cq()
    }

    fn has(&self, collective: Collective, count: usize) -> bool {
        self.admits(collective, count).is_ok()
    }

    fn call(&self, collective: Collective, root: usize, packet: B) -> Result<OpKey, Rejected<B>> {
        self.post(collective, root, packet)
    }
}

/// Provider's group of a team's members, for [`Team::with_provider`](super::Team::with_provider): a
/// [`CollectiveGroup`].
#[expect(private_bounds, reason = "other crates do not implement it")]
pub trait ProviderGroup<'m, T: Transport, B: Packet>: Provides<'m, T, B> {}

impl<'m, T: Collectives, B: Packet> ProviderGroup<'m, T, B> for CollectiveGroup<'m, T, B> {}

pub(super) struct Provider<'g, 'm, T: Transport, B: Packet> {
    pub(super) group: &'g dyn ProviderGroup<'m, T, B>,
    pub(super) called: Cell<u64>,
    pub(super) posted: Cell<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) op: CollectiveOp,
    /// Rank of the root, or 0.
    pub(super) root: u32,
    pub(super) count: usize,
}

impl Wanted {
    pub(super) fn collective<E: Element, C: Combine<E>>(self) -> Option<Collective> {
        match self.op {
            CollectiveOp::BARRIER => return Some(Collective::BARRIER),
            _ if self.count == 0 => return None,
            _ => {}
        }
        let reduces = matches!(self.op, CollectiveOp::ALLREDUCE | CollectiveOp::REDUCE | CollectiveOp::REDUCE_SCATTER);
        let reduction = if reduces { C::PROVIDER_OP? } else { AtomicOp::NOOP };
        let datatype = E::PROVIDER_TYPE.filter(|datatype| datatype.size() == Some(size_of::<E>()))?;
        Collective::new(self.op, datatype, reduction)
    }
}

#[derive(Debug)]
pub(super) struct Call<B> {
    pub(super) number: u64,
    pub(super) collective: Collective,
    pub(super) root: usize,
    pub(super) results: usize,
    pub(super) stage: Stage<B>,
}

#[derive(Debug)]
pub(super) enum Stage<B> {
    Waits(B),
    Flies(OpKey),
}

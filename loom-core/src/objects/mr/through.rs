//! [`Through`]: the endpoint through which peers reach a region, and [`Bound`], which keeps it open as long.

use core::cell::Cell;
use core::fmt;

use super::MrOwner;
use crate::buffer::Buffer;
use crate::objects::count::Count;
use crate::objects::domain::Domain;
use crate::objects::endpoint::{Endpoint, HasAddress, Record};
use crate::transport::Transport;

/// A region that peers reach through one endpoint: [`MrBuilder::open_for_in`](super::MrBuilder::open_for_in). It stays on the
/// endpoint's thread.
///
/// Where the domain binds regions to endpoints, the endpoint is not closed before the region. If the region is forgotten, the
/// endpoint stays open when it is dropped, and is left to its queue; a queue that may be forgotten then leaks itself, and one of
/// a [`cq::scope`](super::super::cq::scope) aborts the process.
pub type EndpointMr<'e, 'd, T, M, A> = MrOwner<'d, T, M, A, Bound<'e>>;

/// The endpoint through which peers reach a region: made from a reference to it.
pub struct Through<'e, 'd, T: Transport> {
    pub(super) record: &'e Record<'d, T>,
    pub(super) domain: &'d Domain<T>,
}

impl<'e, 'd, T: Transport, B: Buffer, K: HasAddress> From<&'e Endpoint<'_, 'd, T, B, K>> for Through<'e, 'd, T> {
    fn from(endpoint: &'e Endpoint<'_, 'd, T, B, K>) -> Self {
        Through { record: endpoint.record(), domain: endpoint.cq().domain() }
    }
}

impl<T: Transport> fmt::Debug for Through<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Through").field(self.record).finish()
    }
}

/// Keeps an endpoint open for a region that is bound to it; part of an [`EndpointMr`].
pub struct Bound<'e>(Option<&'e Cell<Count>>);

impl<'e> Bound<'e> {
    /// One region more of those that a record counts; of none, where the domain does not bind them.
    pub(super) fn to(regions: Option<&'e Cell<Count>>) -> Self {
        if let Some(regions) = regions {
            regions.set(regions.get().one_more());
        }
        Bound(regions)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        if let Some(regions) = self.0 {
            regions.set(regions.get().one_less());
        }
    }
}

impl fmt::Debug for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bound").field(&self.0.is_some()).finish()
    }
}

//! [`Through`]: the endpoint through which peers reach a region.

use core::fmt;
use core::marker::PhantomData;

use super::Mr;
use crate::buffer::Buffer;
use crate::handle::Handle;
use crate::objects::cq::EndpointSlot;
use crate::objects::domain::{Brand, DomainInner};
use crate::objects::endpoint::{Endpoint, HasAddress, Kept};
use crate::transport::Transport;

/// A region that peers reach through one endpoint: [`MrBuilder::open_for_in`](super::MrBuilder::open_for_in). It stays on the
/// endpoint's thread.
///
/// Where the domain binds regions to endpoints, the endpoint is not closed before the region: if it is dropped, or its queue is, it
/// stays open until the region is closed.
pub type EndpointMr<'m, T, M> = Mr<'m, T, M, Kept>;

/// The endpoint through which peers reach a region: made from a reference to it.
pub struct Through<'e, 'm, T: Transport> {
    pub(super) endpoint_slot: &'e EndpointSlot<T>,
    pub(super) domain: &'e Handle<'m, DomainInner<T>>,
    /// Keeps the endpoint open.
    pub(super) keep: Kept,
    /// A region of a scope is not bound to an endpoint that is kept.
    pub(super) lives: Brand<'m>,
}

impl<'e, 'm, T: Transport, B: Buffer, K: HasAddress> From<&'e Endpoint<'m, T, B, K>> for Through<'e, 'm, T> {
    fn from(endpoint: &'e Endpoint<'m, T, B, K>) -> Self {
        Through {
            endpoint_slot: endpoint.endpoint_slot(),
            domain: endpoint.cq().domain(),
            keep: endpoint.keep(),
            lives: PhantomData,
        }
    }
}

impl<T: Transport> fmt::Debug for Through<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Through").field(self.endpoint_slot).finish()
    }
}

//! Two endpoints with a queue each, a counter of the first one's operations, and a region of the
//! second one's.

use loom_core::av::Av;
use loom_core::counter::Counter;
use loom_core::cq::Cq;
use loom_core::endpoint::Binding;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Counted, EndpointOption};

use crate::cases::takes_many;
use crate::failure::Failure;
use crate::verbs::Addressed;

/// Buffer of sends and receives.
pub type Buffer<'b> = &'b mut [u8];

/// Region over a buffer.
pub type Region<'d, 'b, T> = Mr<'d, T, Buffer<'b>>;

/// Endpoint, and its queue.
pub struct Side<'q, 'd, 'b, T: Transport, V> {
    pub cq: &'q Cq<'d, T, Buffer<'b>>,
    pub verbs: V,
}

/// Pair of sides: `a` sends, reads and writes, `b` receives, and has the region if a round requires
/// one.
pub struct Rig<'q, 'd, 'b, T: Transport, V> {
    pub info: &'q Info<T>,
    pub a: Side<'q, 'd, 'b, T, V>,
    pub b: Side<'q, 'd, 'b, T, V>,
    pub region: Option<&'q Region<'d, 'b, T>>,
}

/// Counted operations of `a`.
pub const EVERYTHING: Counted = Counted::SEND.union(Counted::RECV).union(Counted::READ).union(Counted::WRITE);

/// Opens both sides, without a connection.
pub fn addressed<'q, 'd, 'b, T: Transport + 'static>(
    info: &Info<T>,
    cq_a: &'q Cq<'d, T, Buffer<'b>>,
    cq_b: &'q Cq<'d, T, Buffer<'b>>,
    av: &Av<'d, T>,
    counter: Option<&Counter<'d, T>>,
) -> Result<[Side<'q, 'd, 'b, T, Addressed<'d, 'b, T>>; 2], Failure> {
    let a = cq_a.endpoint(match counter {
        Some(counter) => Binding::to(av).counter(EVERYTHING, counter),
        None => Binding::to(av),
    })?;
    let b = cq_b.endpoint(match takes_many(info) {
        true => Binding::to(av).option(EndpointOption::MIN_MULTI_RECV, 1),
        false => Binding::to(av),
    })?;
    let (to_a, to_b) = (av.insert(&a.address()?)?, av.insert(&b.address()?)?);
    Ok([(cq_a, a, to_b), (cq_b, b, to_a)]
        .map(|(cq, endpoint, other)| Side { cq, verbs: Addressed { endpoint, other } }))
}

/// Buffers of a round that are not in flight.
pub struct Buffers<'b> {
    pub out: Option<Buffer<'b>>,
    pub into: Option<Buffer<'b>>,
    /// Buffer of half the length.
    pub half: Option<Buffer<'b>>,
    /// Copy of the region's contents.
    pub scratch: Vec<u8>,
}

/// Takes a buffer that is not in flight.
pub fn take<'b>(buffer: &mut Option<Buffer<'b>>) -> Result<Buffer<'b>, Failure> {
    buffer.take().ok_or(Failure::Wrong("a buffer was lost"))
}

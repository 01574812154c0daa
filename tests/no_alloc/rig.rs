//! Two endpoints with a queue each, a counter of the first one's operations, and a region of the second one's.

use loom_core::engine::peer_table::Peer;
use loom_core::objects::av::Av;
use loom_core::objects::counter::Counter;
use loom_core::objects::cq::Cq;
use loom_core::objects::endpoint::Endpoint;
use loom_core::objects::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, Counted, EndpointOption};

use crate::failure::Failure;

/// Every buffer can be sent and received into.
pub type Buffer<'b> = &'b mut [u8];

/// An endpoint, its queue, and its name for the other one.
pub struct Side<'q, 'd, 'b, T: Transport> {
    pub cq: &'q Cq<'d, T, Buffer<'b>>,
    pub endpoint: Endpoint<'q, 'd, T, Buffer<'b>>,
    pub other: Peer,
}

/// `a` sends, reads and writes; `b` receives, and has the region.
pub struct Rig<'q, 'd, 'b, T: Transport> {
    pub a: Side<'q, 'd, 'b, T>,
    pub b: Side<'q, 'd, 'b, T>,
    pub region: &'q Mr<'q, T>,
    pub remote: RemoteRegion,
}

impl<'q, 'd, 'b, T: Transport> Rig<'q, 'd, 'b, T> {
    pub fn open(
        cq_a: &'q Cq<'d, T, Buffer<'b>>,
        cq_b: &'q Cq<'d, T, Buffer<'b>>,
        av: &'d Av<'d, T>,
        region: &'q Mr<'q, T>,
        counter: &'d Counter<'d, T>,
    ) -> Result<Self, Failure> {
        let everything = Counted::SEND | Counted::RECV | Counted::READ | Counted::WRITE;
        let a = cq_a.endpoint(av).counter(everything, counter).enable()?;
        let b = cq_b.endpoint(av);
        let b = match cq_b.domain().info().caps().contains(Caps::MULTI_RECV) {
            true => b.option(EndpointOption::MIN_MULTI_RECV, 1),
            false => b,
        };
        let b = b.enable()?;
        let (to_a, to_b) = (av.insert(&a.address()?)?, av.insert(&b.address()?)?);
        Ok(Rig {
            a: Side { cq: cq_a, endpoint: a, other: to_b },
            b: Side { cq: cq_b, endpoint: b, other: to_a },
            region,
            remote: region.remote(),
        })
    }
}

/// The buffers that a round uses, whenever they are not in flight.
pub struct Buffers<'b> {
    pub out: Option<Buffer<'b>>,
    pub into: Option<Buffer<'b>>,
    /// Half as long.
    pub half: Option<Buffer<'b>>,
    /// To look at the region's contents.
    pub scratch: Vec<u8>,
}

/// A buffer that is not in flight.
pub fn take<'b>(buffer: &mut Option<Buffer<'b>>) -> Result<Buffer<'b>, Failure> {
    buffer.take().ok_or(Failure::Wrong("a buffer was lost"))
}

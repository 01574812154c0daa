//! Messages on the software transport: who gets which, and that every buffer comes back once.
//!
//! An input is a list of steps ([`step`]). They are played on endpoints of one network ([`world`]) with buffers that
//! count their drops ([`memory`]); what was posted and reported is written down and checked as far as it can be at once
//! ([`record`]), and in the end compared with what matching means ([`oracle`]).

mod oracle;
mod record;
mod step;
mod world;

use arbitrary::Unstructured;
use loom_core::allocator_api2::alloc::Global;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr, CqOwner};
use loom_core::objects::domain::Domain;
use loom_core::soft::{Asks, Network, NetworkAttr, Soft};

use crate::memory::{self, Memory};
use step::Step;
use world::World;

const ENDPOINTS: usize = 3;
const TX_DEPTH: usize = 4;
const RX_DEPTH: usize = 4;
const EAGER: usize = 8;
const DEPTH: usize = 12;
/// One queue for both directions, and one with a raw queue for each.
const QUEUES: usize = 2;

type Owner<'d, 'n> = CqOwner<'d, Soft<'n>, Memory, Global, DEPTH>;

/// Sends, tagged sends, injections, directed and masked receives, cancels, truncation, unexpected messages, endpoints that
/// open and close in the middle of it, on two queues. Each story is played twice: as it is, and where the transport asks for room
/// in front of messages and in contexts, and uses both.
pub fn soft_matching(data: &[u8]) -> usize {
    let steps = play(data, Asks::nothing());
    assert_eq!(play(data, Asks::nothing().for_prefixes().for_larger_contexts()), steps);
    steps
}

fn play(data: &[u8], asks: Asks) -> usize {
    const MOST: usize = 300;
    memory::begin();
    let attr = NetworkAttr {
        endpoints: ENDPOINTS as u16,
        tx_depth: TX_DEPTH as u32,
        rx_depth: RX_DEPTH as u32,
        eager_size: EAGER as u32,
        regions: 0,
        ..NetworkAttr::DEFAULT
    };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info_that_asks(asks)).expect("a network opens");
    let av = Av::open(&domain, ENDPOINTS).expect("the sizes are small");
    let mut played = 0;
    {
        let one: Owner<'_, '_> = Cq::open(&domain, CqAttr::new()).expect("the sizes are small");
        let two: Owner<'_, '_> = Cq::open(&domain, CqAttr::new().separate()).expect("the sizes are small");
        let mut world = World::new([&one, &two], &av);
        let mut bytes = Unstructured::new(data);
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            world.play(step);
            played += 1;
        }
        world.finish();
    }
    memory::assert_dropped_once();
    played
}

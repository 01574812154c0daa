//! Software network: matching, contents of memory, and the single return of every buffer.
//!
//! An input is a setting with faults ([`faults`]) and a list of steps ([`step`]). The steps run on
//! endpoints of one network ([`world`], [`memory`], [`looks`]) with buffers that count their drops.
//! Posts and reports are recorded and checked at once as far as possible ([`record`]), and in the
//! end compared with the definition of matching ([`oracle`]).
//!
//! Messages use lanes where the setting requires it ([`lanes`]). Where faults or lanes leave the
//! matching open, its invariants are checked ([`stable`]). Where faults leave the times of reads
//! and writes open, memory is checked by [`late`]. Finally the network has its initial state
//! ([`afterwards`]).

mod afterwards;
mod faults;
mod got;
mod lanes;
mod late;
mod looks;
mod memory;
mod oracle;
mod record;
mod stable;
mod step;
mod world;

use arbitrary::Unstructured;
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};

use crate::memory::Memory;
use faults::Faults;
use step::{Asked, Setting, Step};
use world::{Around, World};

const ENDPOINTS: usize = 3;
const TX_DEPTH: usize = 4;
const RX_DEPTH: usize = 6;
/// Minimum size for messages out of several buffers.
const EAGER: usize = 64;
const DEPTH: usize = 12;
/// Queues: one for both directions, and one with a raw queue for each.
const QUEUES: usize = 2;
const REGIONS: usize = 2;
/// Bytes of a region.
const REGION: usize = 96;
/// Minimum rest of a multi-receive that continues.
const MIN_LEFT: usize = 64;

type Queue = Cq<'static, Soft<'static>, Memory>;

/// Plays sends and receives of all kinds, with and without tags, immediate data and several
/// buffers. Stories contain injections, directed and masked receives, multi-receives, peeks, claims
/// and discards, cancels, truncation, unexpected messages, reads and writes. Endpoints and regions
/// open and close at any time, on two queues, with counters.
pub fn soft_network(data: &[u8]) -> usize {
    const MOST: usize = 100;
    let mut bytes = Unstructured::new(data);
    let Ok(Setting { asked, faults }) = bytes.arbitrary::<Setting>() else { return 0 };
    let faults = faults.unwrap_or(Faults::NONE);
    crate::memory::begin();
    let attr = NetworkAttr {
        endpoints: ENDPOINTS as u16,
        tx_depth: TX_DEPTH as u32,
        rx_depth: RX_DEPTH as u32,
        eager_size: EAGER as u32,
        regions: REGIONS as u16,
        lanes: faults.lanes(),
        ..NetworkAttr::DEFAULT
    };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info_requiring(asked.asks())).expect("a network opens");
    let infos: [_; ENDPOINTS] =
        core::array::from_fn(|place| network.info_with_faults(faults.plan(place, asked.asks())));
    let av = Av::open(&domain, ENDPOINTS).expect("the sizes are small");
    let counters =
        [[(); 4]; ENDPOINTS].map(|of| of.map(|()| Counter::open(&domain, CounterAttr::default()).expect("it counts")));
    let mut played = 0;
    {
        let attr = CqAttr::new(DEPTH);
        let queues = [attr, CqAttr { separate: true, ..attr }]
            .map(|attr| Queue::open(&domain, attr).expect("the sizes are small"));
        let around = Around { domain: &domain, av: &av, infos: &infos, counters: &counters };
        let mut world = World::new(queues, around, faults, matches!(asked, Asked::Prefixes));
        if faults.lanes() > 0 && !faults.any() && matches!(asked, Asked::Nothing) {
            world.open_lanes();
        }
        while played < MOST && !bytes.is_empty() {
            let Ok(step) = bytes.arbitrary::<Step>() else { break };
            world.play(step);
            played += 1;
        }
        world.finish();
    }
    if network.injected().total() > 0 {
        afterwards::assert_as_new(&domain, &av);
    }
    crate::memory::assert_dropped_once();
    played
}

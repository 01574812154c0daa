//! Objects over a script that acts as a hostile provider: connections, groups and scalable
//! endpoints, which the software transport does not have, and answers that any provider can give.

mod addresses;
mod connections;
mod endpoints;
mod events;
mod groups;
mod infos;
mod line;
mod queues;
mod regions;
mod scalable;
mod sleeping;
mod values;

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::info::Info;
use loom_core::vocabulary::{
    Attributes, Caps, DomainAttributes, EndpointAttributes, EndpointType, RxAttributes, TxAttributes,
};

use crate::scripted::{Noted, Script, Scripted};

type T = Scripted<'static>;
type Queue = Cq<'static, T, Vec<u8>>;

const LONGEST: usize = 1000;

fn attributes() -> Attributes {
    let caps = Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::MULTI_RECV | Caps::DIRECTED_RECV | Caps::RMA_EVENT;
    Attributes {
        caps,
        endpoint: EndpointAttributes {
            kind: EndpointType::RDM,
            max_msg_size: LONGEST,
            ..EndpointAttributes::default()
        },
        domain: DomainAttributes {
            mr_key_size: 8,
            max_ep_tx_ctx: 4,
            max_ep_rx_ctx: 4,
            max_ep_srx_ctx: 1,
            ..DomainAttributes::default()
        },
        tx: TxAttributes { inject_size: 8, iov_limit: 4, rma_iov_limit: 4, ..TxAttributes::default() },
        rx: RxAttributes { iov_limit: 4, ..RxAttributes::default() },
        ..Attributes::default()
    }
}

/// A script, and a domain that it opened.
struct Scene {
    script: &'static Script,
    domain: Domain<'static, T>,
}

impl Scene {
    fn new(attributes: Attributes) -> Self {
        let script: &'static Script = Box::leak(Box::new(Script::new(attributes)));
        let domain = Domain::open(&script.info()).unwrap();
        Scene { script, domain }
    }

    /// Gives the script room for this number of regions.
    fn with_regions(self, places: usize) -> Self {
        self.script.regions.lock().unwrap().places = places;
        self
    }

    fn queue(&self, attr: impl Into<CqAttr>) -> Queue {
        Cq::open(&self.domain, attr).unwrap()
    }

    fn vector(&self) -> Av<'static, T> {
        Av::open(&self.domain, 4).unwrap()
    }

    fn endpoint(&self, queue: &Queue) -> Endpoint<'static, T, Vec<u8>> {
        queue.endpoint(&self.vector()).unwrap()
    }

    fn posts(&self) -> usize {
        self.script.notes.borrow().iter().filter(|noted| matches!(noted, Noted::Posted { .. })).count()
    }

    fn last_context(&self) -> u64 {
        let context = |noted: &Noted| match noted {
            Noted::Posted { context, .. } => Some(*context),
            Noted::Said(_) => None,
        };
        self.script.notes.borrow().iter().rev().find_map(context).unwrap()
    }
}

/// An info of a script with these attributes.
fn info(attributes: Attributes) -> Info<T> {
    Box::leak(Box::new(Script::new(attributes))).info()
}

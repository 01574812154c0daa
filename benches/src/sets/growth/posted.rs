//! Posted receives. Each message has the tag of a random one.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::info::Info;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::vocabulary::Tag;

use super::{Buffer, Growth, Labels, Random, completed, ratio};
use crate::Failure;
use crate::report::{Goal, Run};

struct Posted<T: Transport> {
    cq: Cq<'static, T, Buffer>,
    from: Endpoint<'static, T, Buffer>,
    to: Endpoint<'static, T, Buffer>,
    peer: Peer,
    posted: u32,
    random: Random,
}

impl<T: Transport + 'static> Posted<T> {
    fn open(info: &Info<T>, posted: u32) -> Result<Self, Failure> {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 4)?, Cq::open(&domain, posted as usize + 16)?);
        let (from, to) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
        let peer = av.insert(&to.address()?)?;
        for tag in 0..posted {
            to.tagged_recv(Source::Any, Tag(tag.into()), vec![0; 8].into())?;
        }
        let mut opened = Posted { cq, from, to, peer, posted, random: Random::new() };
        // Posts receives again, so that they are no longer in the order of their tags.
        opened.run(posted.min(1024));
        Ok(opened)
    }

    #[inline(never)]
    fn run(&mut self, count: u32) -> Duration {
        let begin = Instant::now();
        for _ in 0..count {
            let tag = u64::from(self.random.below(self.posted));
            while let Err(error) = self.from.tagged_inject(self.peer, Tag(tag), &tag.to_ne_bytes()) {
                assert!(error.is_transient(), "{error:#}");
                self.cq.progress().expect("the queue works");
            }
            let buffer = completed(&self.cq);
            assert_eq!(*buffer, tag.to_ne_bytes(), "the message arrives where it belongs");
            self.to.tagged_recv(Source::Any, Tag(tag), buffer).expect("there is room");
        }
        begin.elapsed()
    }
}

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    const SOFT: &str = "software transport";
    const POSTED: [u32; 9] = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536];
    let mut growth = Growth::new("posted");
    for posted in POSTED {
        let attr = NetworkAttr { endpoints: 2, rx_depth: posted.max(16), ..NetworkAttr::DEFAULT };
        let mut soft = Posted::open(&Network::new(attr)?.info(), posted)?;
        growth = growth.point(SOFT, posted, move |count| soft.run(count));
    }
    // `shm` accepts this number by default.
    #[cfg(feature = "libfabric")]
    for posted in POSTED.into_iter().filter(|posted| *posted < 1024) {
        let mut shm = Posted::open(&crate::sides::Provider::SHM.info()?, posted)?;
        growth = growth.point("loom over shm, which walks a list", posted, move |count| shm.run(count));
    }
    let labels = Labels {
        name: "posted",
        title: "A tagged message of 8 B for any of the posted receives, and the receive posted again, on one thread",
        note: "Messages come in an order that the caches do not foresee. What grows over the software transport is memory that is no longer at hand.",
        x: "posted receives",
        y: "ns per message",
    };
    let outcome = growth.run(run, labels);
    ratio(run, &outcome, "growth.posted.65536_over_1", (SOFT, 65_536, 1), Goal::Lower);
    ratio(run, &outcome, "growth.posted.1024_over_1", (SOFT, 1024, 1), Goal::Lower);
    Ok(())
}

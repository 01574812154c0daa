//! Cost of a message in a vector with a million other peers.

use std::net::SocketAddr;
use std::time::Instant;

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::info::Hints;
use loom_core::vocabulary::{EndpointAddr, Tag};
use loom_fabric::ofi::{Local, Ofi};

use crate::measure::{metric, ratio};
use crate::work::Work;

const ROUNDS: usize = 21;

/// Messages in a round.
const MESSAGES: u32 = 500;

type Failed = Box<dyn std::error::Error>;

/// An endpoint of `tcp;ofi_rxm` that sends tagged messages of 64 bytes to itself, as the last of
/// some peers. Returns nanoseconds per message.
fn to_itself(others: &[EndpointAddr]) -> Result<impl FnMut() -> Result<f64, Failed>, Failed> {
    let hints = Hints { provider: Some("tcp;ofi_rxm"), node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let info = Ofi::<Local>::query(&hints)?.next().ok_or("libfabric offers no tcp;ofi_rxm")?;
    let domain = Domain::open(&info)?;
    let av = Av::open(&domain, others.len() + 1)?;
    let cq: Cq<'static, _, Vec<u8>> = Cq::open(&domain, CqAttr { endpoints: 1, ..CqAttr::new(16) })?;
    let endpoint = cq.endpoint(&av)?;
    let inserted = av.insert_all(others, |peer| assert!(peer.is_ok(), "{peer:?}"));
    assert_eq!(inserted, others.len());
    let itself = av.insert(&endpoint.address()?)?;
    let mut buffers = Some((vec![0; 64], vec![7; 64]));
    Ok(move || {
        let begin = Instant::now();
        for _ in 0..MESSAGES {
            let (into, out) = buffers.take().ok_or("the last message failed")?;
            let received = cq.post(into, Forever, |into| endpoint.tagged_recv(Source::Any, Tag(7), into));
            let received = received.map_err(|rejected| rejected.error)?;
            let sent = cq.post(out, Forever, |out| endpoint.tagged_send(itself, Tag(7), out));
            let sent = sent.map_err(|rejected| rejected.error)?;
            let [into, out] = [received, sent].map(|key| cq.wait(key, Forever));
            let (into, out) = (into?.ok_or("no deadline")?.into_buf(), out?.ok_or("no deadline")?.into_buf());
            assert_eq!(into, out);
            buffers = Some((into, out));
        }
        Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES))
    })
}

pub(crate) fn run() -> Result<(), Failed> {
    const PEERS: u32 = 1_000_000;
    let work = Work::new(PEERS - 1);
    let others: Vec<EndpointAddr> = work.sockets.iter().map(|socket| SocketAddr::V4(*socket).into()).collect();
    let (mut among_many, mut alone) = (to_itself(&others)?, to_itself(&[])?);
    let (mut of_many, mut of_one) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (many, one) = (among_many()?, alone()?);
        // The first round opens connections.
        if round > 0 {
            of_many.push(many);
            of_one.push(one);
        }
    }
    println!("a tagged message of 64 bytes to itself over tcp;ofi_rxm, in a vector of {PEERS} peers beside one of 1");
    metric(&format!("growth.peers.{PEERS}_over_1"), ratio(&of_many, &of_one), "ratio");
    Ok(())
}

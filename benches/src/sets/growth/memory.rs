//! Memory as numbers grow, as computed by the layouts.

use std::alloc::Layout;

use loom_core::allocator_api2::alloc::Global;
use loom_core::av::AvAttr;
use loom_core::cq::CqAttr;
use loom_core::domain::Domain;
use loom_core::engine::address_table::AddressTableAttr;
use loom_core::engine::tag_matcher::TagMatcherAttr;
use loom_core::soft::{Network, NetworkAttr, Soft};

use super::{Buffer, Labels, exact};
use crate::Failure;
use crate::report::{Curve, Goal, Point, Run};
use crate::statistics::Summary;

/// Returns the bytes per item, for `count` items.
fn each(count: u32, layout: Layout) -> Point {
    exact(count, layout.size() as f64 / f64::from(count))
}

fn curve(name: &str, counts: &[u32], layout: impl Fn(u32) -> Result<Layout, Failure>) -> Result<Curve, Failure> {
    let point = |count: &u32| Ok(each(*count, layout(*count)?));
    Ok(Curve { name: name.into(), points: counts.iter().map(point).collect::<Result<_, Failure>>()? })
}

fn with(endpoints: u32, attr: NetworkAttr) -> NetworkAttr {
    NetworkAttr { endpoints: u16::try_from(endpoints).expect("not that many"), ..attr }
}

pub(super) fn measure(run: &mut Run) -> Result<(), Failure> {
    const ENDPOINTS: [u32; 4] = [1, 10, 100, 1000];
    const MANY: [u32; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
    let small = NetworkAttr { tx_depth: 16, rx_depth: 16, eager_size: 64, regions: 0, ..NetworkAttr::DEFAULT };
    let on_default = |endpoints| Ok(with(endpoints, NetworkAttr::DEFAULT).layout::<Global>()?);
    let on_small = |endpoints| Ok(with(endpoints, small).layout::<Global>()?);
    let socket = |peers| Ok(AddressTableAttr::new(peers as usize).layout()?);
    let soft_peer = |peers| {
        let network = Network::new(with(peers, small))?;
        Ok(AvAttr::new(peers as usize).layout::<Soft<'_>, Global>(&Domain::open(&network.info())?)?)
    };
    let operation =
        |depth| Ok(CqAttr { endpoints: 1, ..CqAttr::new(depth as usize) }.layout::<Soft<'_>, Buffer, Global>()?);
    let receive = |receives| Ok(TagMatcherAttr { receives, messages: 1, ..TagMatcherAttr::DEFAULT }.layout()?);
    let curves = vec![
        curve("endpoint of a default network", &ENDPOINTS, on_default)?,
        curve("endpoint, 16 messages of 64 B each way", &ENDPOINTS, on_small)?,
        curve("peer, IPv4 socket", &MANY, socket)?,
        curve("peer of the software transport", &ENDPOINTS, soft_peer)?,
        curve("operation in flight", &MANY, operation)?,
        curve("posted receive, matcher", &MANY, receive)?,
    ];
    let last = |curve: usize| curves[curve].points.last().map_or(f64::NAN, |point| point.y.median);
    let figures = [("endpoint", last(0)), ("endpoint_small", last(1)), ("peer", last(2)), ("operation", last(4))];
    let labels = Labels {
        name: "memory",
        title: "Memory of each endpoint, peer, operation and receive, by the number of them that are open",
        note: "From the layouts that the objects say they take. libfabric's own memory is not in it.",
        x: "how many",
        y: "bytes for each",
    };
    run.plot(labels.plot(curves));
    for (name, bytes) in figures {
        run.summary(&format!("growth.memory.{name}"), ("B", Goal::Lower), Summary::exact(bytes));
    }
    Ok(())
}

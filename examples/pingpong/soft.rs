//! The software transport: one network, one domain, shared by both threads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::objects::domain::Domain;
use loom_core::objects::info::Hints;
use loom_core::soft::{Network, NetworkAttr};

use crate::failure::Failure;
use crate::open;
use crate::options::{Options, Place};
use crate::report::Report;

pub(crate) fn run(options: &Options, interrupted: &Arc<AtomicBool>, report: &mut Report) -> Result<(), Failure> {
    let network = Network::new(NetworkAttr { endpoints: 2, ..NetworkAttr::DEFAULT })
        .map_err(Failure::when("making the software network"))?;
    let hints = Hints { caps: options.caps(), ..Hints::default() };
    let info = network.query(&hints).ok_or_else(|| {
        let missing = hints.caps.difference(network.info().caps());
        Failure::Unavailable(format!("the software transport does not grant {missing}"))
    })?;
    let domain = Domain::open(&info).map_err(Failure::when("opening the domain"))?;
    report.begin("software transport", "soft", &options.place)?;
    match options.place {
        Place::OneThread => open::play_both(&domain, options, interrupted, report),
        _ => open::in_two_threads(
            options,
            interrupted,
            |session| open::play_one(&domain, options, session, Some(report)),
            |session| open::play_one(&domain, options, session, None),
        ),
    }
}

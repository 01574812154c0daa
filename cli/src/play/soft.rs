use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::domain::Domain;
use loom_core::info::Hints;
use loom_core::soft::{Network, NetworkAttr};

use crate::failure::Failure;
use crate::play::open;
use crate::play::setup::{Place, Report, Setup};

pub(crate) fn run(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    let network = Network::new(NetworkAttr { endpoints: 2, ..NetworkAttr::DEFAULT })
        .map_err(Failure::when("making the software network"))?;
    let hints = Hints { caps: setup.caps(), ..Hints::default() };
    let info = network.query(&hints).map_err(|error| Failure::Unavailable(format!("{error:#}")))?;
    let domain = Domain::open(&info).map_err(Failure::when("opening the domain"))?;
    report.begin("software transport", "soft", &setup.place)?;
    match setup.place {
        Place::OneThread => open::play_both(&domain, setup, interrupted, report),
        _ => open::in_two_threads(
            setup,
            interrupted,
            |session| open::play_one(&domain, setup, session, Some(report)),
            |session| open::play_one(&domain, setup, session, None),
        ),
    }
}

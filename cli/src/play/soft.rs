use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loom_core::domain::Domain;
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::Caps;

use crate::failure::Failure;
use crate::play::open;
use crate::play::setup::{Place, Report, Setup};

pub(crate) fn info(endpoints: u16, caps: Caps) -> Result<Info<Soft<'static>>, Failure> {
    let network = Network::new(NetworkAttr { endpoints, ..NetworkAttr::DEFAULT })
        .map_err(Failure::when("making the software network"))?;
    let hints = Hints { caps, ..Hints::default() };
    network.query(&hints).map_err(|error| Failure::Unavailable(format!("{error:#}")))
}

pub(crate) fn run(setup: &Setup, interrupted: &Arc<AtomicBool>, report: &mut dyn Report) -> Result<(), Failure> {
    let info = info(2, setup.caps())?;
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

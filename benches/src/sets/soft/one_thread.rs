//! The software transport on one thread, compared with C over libfabric's `shm` and with a copy of
//! equal size.

use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr, Soft};

use crate::Failure;
use crate::contest::{Contest, Outcome, Settings};
use crate::report::{Goal, Ratio, Run};
use crate::sets::machine::Copies;
use crate::sets::over_openings;
use crate::sides::{CAPS, Operation, Side, safe, size_name};

/// The measured network, which copies messages of up to 4 KiB into cells, as `shm` does.
pub(crate) fn network() -> Result<Network<'static>, Failure> {
    Ok(Network::new(NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT })?)
}

/// Offer of the network with the required capabilities.
pub(crate) fn info() -> Result<Info<Soft<'static>>, Failure> {
    Ok(network()?.query(&Hints { caps: CAPS, ..Hints::default() }).expect("the software transport has all of it"))
}

/// Lengths that are compared with a copy, and their targets.
const COPIED: [(usize, Goal); 2] = [(64 << 10, Goal::Lower), (1 << 20, Goal::AtMost(1.15))];

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let outcomes = over_openings(&run.settings.clone(), |settings| {
        let mut outcomes = Vec::new();
        safe::on_transport(&info()?, |soft| {
            outcomes.extend(COPIED.map(|(len, _)| beside_a_copy(settings, soft, len)));
        });
        Ok(outcomes)
    })?;
    for (outcome, (len, goal)) in outcomes.iter().zip(COPIED) {
        run.contest(outcome);
        let name = format!("soft_over_memcpy.{}", size_name(len));
        run.ratio(outcome, Ratio { name: &name, of: "soft", over: "memcpy", goal });
    }
    over_c(run)
}

/// Compares one message with one copy, between the same two buffers each time.
fn beside_a_copy(settings: &Settings, soft: &mut dyn Side, len: usize) -> Outcome {
    let mut copies = Copies::warm(len);
    Contest::new(format!("soft.tagged.{} and a copy", size_name(len)))
        .side("memcpy", |count| copies.copy(count))
        .side_that_measures("soft", |count| soft.run(Operation::Tagged, len, count))
        .run(settings)
}

#[cfg(feature = "libfabric")]
fn over_c(run: &mut Run) -> Result<(), Failure> {
    use loom_core::vocabulary::Version;
    use loom_fabric::ofi::Library;

    use crate::sides::c::{C, Calls};
    use crate::sides::{Provider, work};

    let outcomes = over_openings(&run.settings.clone(), |settings| {
        let mut c = C::open(Provider::SHM, Calls::Inline)?;
        let (info, mut outcomes) = (info()?, Vec::new());
        let inject_size = info.attributes().tx.inject_size.min(c.inject_size());
        safe::on_transport(&info, |soft| {
            let contests = work(inject_size, true).map(|(operation, len)| {
                Contest::new(operation.name(len))
                    .side_that_measures("C over shm", |count| c.run(operation, len, count))
                    .side_that_measures("soft", |count| soft.run(operation, len, count))
                    .run(settings)
            });
            outcomes.extend(contests);
        });
        Ok(outcomes)
    })?;
    let is_newer = Library::get().is_ok_and(|library| library.version() >= Version::new(2, 0));
    for outcome in &outcomes {
        run.contest(outcome);
        let goal = match &outcome.name[..] {
            // From version 2 on, `shm` is faster with `FI_THREAD_DOMAIN`.
            "tagged.64B" if is_newer => Goal::AtMost(0.45),
            "tagged.64B" | "unexpected.64B" | "fetch_add.8B" => Goal::AtMost(0.25),
            _ => Goal::Lower,
        };
        let name = format!("soft_over_c_shm.{}", outcome.name);
        run.ratio(outcome, Ratio { name: &name, of: "soft", over: "C over shm", goal });
    }
    Ok(())
}

#[cfg(not(feature = "libfabric"))]
fn over_c(_: &mut Run) -> Result<(), Failure> {
    println!("C over shm: skipped, the feature `libfabric` is off");
    Ok(())
}

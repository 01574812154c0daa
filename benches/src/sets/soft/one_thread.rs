//! The software transport on one thread, beside C over libfabric's `shm`, and beside a copy of the same size.

use loom_core::objects::info::Info;
use loom_core::soft::{Network, NetworkAttr, Soft};

use crate::contest::Contest;
use crate::report::{Goal, Ratio, Run};
use crate::sets::Failure;
use crate::sets::machine::Copies;
use crate::sides::{Operation, Side, safe, size_name};

/// The network that is measured: its messages of up to 4 KiB are copied into cells, as `shm` does.
pub(crate) fn network() -> Result<Network<'static>, Failure> {
    Ok(Network::new(NetworkAttr { eager_size: 4096, ..NetworkAttr::DEFAULT })?)
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let network = network()?;
    let info: Info<Soft<'_>> = network.info();
    let mut result = Ok(());
    safe::on_transport(&info, |soft| {
        over_memcpy(run, soft);
        result = over_c(run, soft, info.attributes().tx.inject_size);
    });
    result
}

/// One message beside one copy, between the same two buffers each time.
fn over_memcpy(run: &mut Run, soft: &mut dyn Side) {
    for (len, goal) in [(64 << 10, Goal::Lower), (1 << 20, Goal::AtMost(1.15))] {
        let mut copies = Copies::warm(len);
        let size = size_name(len);
        let outcome = Contest::new(format!("tagged.{size} and a copy"))
            .side("memcpy", |count| copies.copy(count))
            .side_that_measures("soft", |count| soft.run(Operation::Tagged, len, count))
            .run(&run.settings);
        run.contest(&outcome);
        run.ratio(&outcome, Ratio { name: &format!("soft_over_memcpy.{size}"), of: "soft", over: "memcpy", goal });
    }
}

#[cfg(feature = "libfabric")]
fn over_c(run: &mut Run, soft: &mut dyn Side, inject_size: usize) -> Result<(), Failure> {
    use crate::sides::c::C;
    use crate::sides::{Provider, work};

    let mut c = C::open(Provider::SHM)?;
    for (operation, len) in work(inject_size.min(c.inject_size())) {
        let name = operation.name(len);
        let outcome = Contest::new(format!("soft.{name}"))
            .side_that_measures("C over shm", |count| c.run(operation, len, count))
            .side_that_measures("soft", |count| soft.run(operation, len, count))
            .run(&run.settings);
        run.contest(&outcome);
        let goal = match (operation, len) {
            (Operation::Tagged | Operation::Unexpected, 64) => Goal::AtMost(0.25),
            _ => Goal::Lower,
        };
        run.ratio(&outcome, Ratio { name: &format!("soft_over_c_shm.{name}"), of: "soft", over: "C over shm", goal });
    }
    Ok(())
}

#[cfg(not(feature = "libfabric"))]
fn over_c(run: &mut Run, soft: &mut dyn Side, inject_size: usize) -> Result<(), Failure> {
    for (operation, len) in crate::sides::work(inject_size) {
        let outcome = Contest::new(format!("soft.{}", operation.name(len)))
            .side_that_measures("soft", |count| soft.run(operation, len, count))
            .run(&run.settings);
        run.contest(&outcome);
    }
    println!("C over shm: skipped, the feature `libfabric` is off");
    Ok(())
}

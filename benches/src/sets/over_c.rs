//! Cost of loom over libfabric: its safe objects and its raw functions, compared with the same loop
//! in C over the same provider, and with bindings that call C functions.

use std::fs::read_dir;

use crate::Failure;
use crate::contest::{Contest, Outcome, Settings};
use crate::report::{Goal, Ratio, Run};
use crate::sets::over_openings;
use crate::sides::c::{C, Calls};
use crate::sides::{Provider, Side, raw, safe, work};

/// Target of loom's time relative to C.
const TARGET: Goal = Goal::AtMost(1.05);
const TARGET_OF_ATOMICS: Goal = Goal::AtMost(1.10);

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    for provider in [Provider::SHM, Provider::TCP] {
        for outcome in over_openings(&run.settings.clone(), |settings| contests(settings, provider))? {
            run.contest(&outcome);
            let target = if outcome.name.contains("fetch_add") { TARGET_OF_ATOMICS } else { TARGET };
            for (metric, of, goal) in [
                ("loom_over_c", "loom", target),
                ("loom_raw_over_c", "loom, raw", target),
                ("shim_over_c", "shim", Goal::Lower),
            ] {
                let name = format!("{metric}.{}", outcome.name);
                run.ratio(&outcome, Ratio { name: &name, of, over: "C", goal });
            }
        }
    }
    Ok(())
}

/// Opens all sides, and runs the contest of each operation and length.
fn contests(settings: &Settings, provider: Provider) -> Result<Vec<Outcome>, Failure> {
    let info = provider.info()?;
    let [mut c, mut shim] = [C::open(provider, Calls::Inline)?, C::open(provider, Calls::Shim)?];
    let inject_size = c.inject_size().min(info.attributes().tx.inject_size);
    let mut outcomes = Vec::new();
    safe::on_transport(&info, |safe| {
        raw::on_transport(&info, |raw| {
            unpaced().expect("the descriptors of this process");
            outcomes = work(inject_size, provider.atomics)
                .map(|(operation, len)| {
                    Contest::new(format!("{}.{}", provider.metric, operation.name(len)))
                        .side_that_measures("C", |count| c.run(operation, len, count))
                        .side_that_measures("loom", |count| safe.run(operation, len, count))
                        .side_that_measures("loom, raw", |count| raw.run(operation, len, count))
                        .side_that_measures("shim", |count| shim.run(operation, len, count))
                        .run(settings)
                })
                .collect();
        });
    });
    Ok(outcomes)
}

/// Sets the congestion control `reno`, with which the kernel sends over every TCP connection of
/// this process at once. BBR, the default on some machines, paces a connection at its estimate of
/// the bandwidth, and some of the connections then take twice as long as the others.
pub(super) fn unpaced() -> std::io::Result<()> {
    const RENO: &[u8] = b"reno";
    for file in read_dir("/proc/self/fd")? {
        let Some(descriptor) = file?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: the kernel reads `RENO.len()` bytes in the call. A descriptor that is no TCP
        // socket refuses the option.
        unsafe {
            libc::setsockopt(
                descriptor,
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                RENO.as_ptr().cast(),
                RENO.len() as libc::socklen_t,
            )
        };
    }
    Ok(())
}

//! Instructions of an operation on one thread, of 64 bytes if its length is variable. Valgrind's
//! callgrind counts them, with the same figures on a busy machine.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::process::Command;

use crate::Failure;
use crate::report::{Goal, INSTRUCTIONS, Run};
use crate::sets::soft::one_thread::info;
use crate::sets::transfer;
use crate::sides::group::{Group, Together};
use crate::sides::{Operation, Side, WORD, finish, raw, safe};
#[cfg(feature = "libfabric")]
use crate::sides::{
    Provider,
    c::{C, Calls},
};
use crate::statistics::Summary;
use loom_core::{Hints, Transport};
use loom_tcp::TcpAttr;

/// Repetitions of an operation. One-time work vanishes in the division.
const COUNT: u32 = 1000;

/// Sides, by their names in metrics and in `only`. Those of `soft` do not require libfabric.
#[cfg(feature = "libfabric")]
const SIDES: &[&str] = &["c", "shim", "shm", "shm_raw", "soft", "soft_raw"];
#[cfg(not(feature = "libfabric"))]
const SIDES: &[&str] = &["soft", "soft_raw"];

/// Sides that wait by key.
const FINISHES: &[&str] = if cfg!(feature = "libfabric") { &["soft", "shm"] } else { &["soft"] };

/// Operations, except polls of a full queue: the instructions that fill it would be counted.
fn operations() -> impl Iterator<Item = Operation> {
    Operation::SIZED.into_iter().chain([Operation::PollEmpty])
}

const fn len(operation: Operation) -> usize {
    if matches!(operation, Operation::FetchAdd) { WORD } else { 64 }
}

/// Target of a tagged exchange over the software transport.
const TAGGED: f64 = 450.0;
/// Target of loom's addition to C's path.
const ADDED: f64 = 25.0;

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        if error.kind() != ErrorKind::NotFound {
            return Err(error.into());
        }
        println!("instructions: skipped, valgrind is not installed");
        return Ok(());
    }
    let mut counts = HashMap::new();
    for side in SIDES {
        for operation in operations() {
            let count = count(side, &operation.name(len(operation)))?;
            counts.insert((*side, operation.name(len(operation))), count);
            let goal = match (*side, operation) {
                ("soft", Operation::Tagged) => Goal::AtMost(TAGGED),
                _ => Goal::Lower,
            };
            let name = format!("{side}.instructions.{}", operation.name(len(operation)));
            run.summary(&name, (INSTRUCTIONS, goal), Summary::exact(count));
        }
    }
    for side in FINISHES {
        let name = format!("{side}.instructions.{}", finish::NAME);
        run.summary(&name, (INSTRUCTIONS, Goal::Lower), Summary::exact(count(side, finish::NAME)?));
    }
    for operation in Together::ALL {
        let name = format!("soft.instructions.{}", operation.name());
        run.summary(&name, (INSTRUCTIONS, Goal::Lower), Summary::exact(count("soft", &operation.name())?));
    }
    // A list of writes, over shm beside C.
    let listed = |side| count(side, transfer::NAME);
    run.summary(
        &format!("soft.instructions.{}", transfer::NAME),
        (INSTRUCTIONS, Goal::Lower),
        Summary::exact(listed("soft")?),
    );
    #[cfg(feature = "libfabric")]
    {
        let (loom, c) = (listed("shm")?, listed("c")?);
        let name = format!("transfer_over_c.instructions.shm.{}", transfer::NAME);
        run.summary(&name, ("ratio", Goal::AtMost(1.10)), Summary::exact(loom / c));
    }
    // TCP in Rust beside libfabric's, both without the kernel. The loop in C has both ends, too.
    #[cfg(feature = "libfabric")]
    if Provider::NET.info().is_ok() {
        for operation in operations().filter(|operation| !matches!(operation, Operation::FetchAdd)) {
            let name = operation.name(64);
            let (tcp, net) = (count("tcp", &name)?, count("net", &name)?);
            run.summary(&format!("tcp.instructions.{name}"), (INSTRUCTIONS, Goal::Lower), Summary::exact(tcp));
            let ratio = format!("tcp_over_net.instructions.{}", operation.kind());
            run.summary(&ratio, ("ratio", Goal::Lower), Summary::exact(tcp / net));
        }
    }
    // Loom's addition, over the one provider with all its instructions in user space.
    for (side, name, goal) in
        [("shm", "loom_minus_c", Goal::AtMost(ADDED)), ("shm_raw", "loom_raw_minus_c", Goal::Lower)]
    {
        for operation in operations() {
            let count = |side| counts.get(&(side, operation.name(len(operation))));
            if let (Some(loom), Some(c)) = (count(side), count("c")) {
                let name = format!("{name}.instructions.{}", operation.kind());
                run.summary(&name, (INSTRUCTIONS, goal), Summary::exact(loom - c));
            }
        }
    }
    Ok(())
}

/// Counts instructions of an operation of a side: runs this program under callgrind, with [`only`].
fn count(side: &str, operation: &str) -> Result<f64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*instructions*counted*"])
        .arg(std::env::current_exe()?)
        .args(["only", side, operation, &COUNT.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<f64>().ok());
    match collected {
        Some(collected) if output.status.success() && collected > 0.0 => Ok((collected / f64::from(COUNT)).floor()),
        _ => Err(format!("nothing was counted of {operation} of {side}:\n{said}").into()),
    }
}

/// Does one operation of one side `count` times without any measurement, for callgrind. `name` is
/// that of the metrics.
///
/// # Errors
/// If the side or operation does not exist, or cannot be opened.
pub fn only(side: &str, name: &str, count: u32) -> Result<(), Failure> {
    if let Some(operation) = Together::ALL.into_iter().find(|operation| side == "soft" && operation.name() == name) {
        counted_together(&Group::open()?, operation, count);
        return Ok(());
    }
    if name == transfer::NAME {
        return transfer::only(side, |run| counted_list(run, count));
    }
    if name == finish::NAME {
        match side {
            "soft" => counted_by_finish(&finish::Pair::open(&info()?)?, count),
            #[cfg(feature = "libfabric")]
            "shm" => counted_by_finish(&finish::Pair::open(&Provider::SHM.info()?)?, count),
            side => return Err(format!("{side} does not wait by key").into()),
        }
        return Ok(());
    }
    let operation =
        Operation::SIZED.into_iter().chain(Operation::POLLS).find(|operation| operation.name(len(*operation)) == name);
    let operation = operation.ok_or_else(|| format!("there is no operation '{name}'"))?;
    match side {
        "soft" => safe::on_transport(&info()?, |soft| counted(soft, operation, count)),
        "tcp" => {
            let info = loom_tcp::query(&Hints::default(), TcpAttr::DEFAULT)?;
            safe::on_transport(&info, |tcp| counted(tcp, operation, count))
        }
        #[cfg(feature = "libfabric")]
        "net" => counted(&mut C::open(Provider::NET, Calls::Inline)?, operation, count),
        "soft_raw" => raw::on_transport(&info()?, |soft| counted(soft, operation, count)),
        #[cfg(feature = "libfabric")]
        "shm" => safe::on_transport(&Provider::SHM.info()?, |shm| counted(shm, operation, count)),
        #[cfg(feature = "libfabric")]
        "shm_raw" => raw::on_transport(&Provider::SHM.info()?, |shm| counted(shm, operation, count)),
        #[cfg(feature = "libfabric")]
        "c" => counted(&mut C::open(Provider::SHM, Calls::Inline)?, operation, count),
        #[cfg(feature = "libfabric")]
        "shim" => counted(&mut C::open(Provider::SHM, Calls::Shim)?, operation, count),
        side => return Err(format!("there is no side '{side}': {}", SIDES.join(", ")).into()),
    }
    Ok(())
}

// A separate function: callgrind counts from its first to its last instruction.
#[inline(never)]
fn counted(side: &mut dyn Side, operation: Operation, count: u32) {
    side.run(operation, len(operation), count);
}

/// Counterpart of [`counted`] for waits by key.
#[inline(never)]
fn counted_by_finish<T: Transport + 'static>(pair: &finish::Pair<T>, count: u32) {
    pair.run(count);
}

/// Counterpart of [`counted`] for collectives.
#[inline(never)]
fn counted_together(group: &Group, operation: Together, count: u32) {
    group.run(operation, count);
}

/// Counterpart of [`counted`] for lists.
#[inline(never)]
fn counted_list(run: &mut dyn FnMut(u32), count: u32) {
    run(count);
}

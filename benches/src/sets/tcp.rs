//! Loom's transport over TCP between two processes, compared with libfabric's providers over TCP
//! and with a stream socket. Both processes are bound to a core and poll. Every message is checked.

use super::processes::{Kind, between_processes};
use crate::Failure;
use crate::contest::Contest;
use crate::cores;
use crate::report::{Goal, Ratio, Run};
use crate::sets::peers::end::Play;
use crate::sides::size_name;

/// Returns the providers of this version of libfabric.
fn providers() -> Vec<Kind> {
    let has = |kind: &Kind| {
        use loom_core::info::Hints;
        use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};
        let endpoint_attr = EndpointAttributes::of(EndpointType::RDM);
        let provider = kind.provider().unwrap_or_default();
        let hints = Hints { caps: Caps::TAGGED, endpoint_attr, ..Hints::local(provider) };
        loom_fabric::ofi::Ofi::<loom_fabric::ofi::Local>::query(&hints).is_ok_and(|mut infos| infos.next().is_some())
    };
    [Kind::Net, Kind::FabricTcp, Kind::Rxm].into_iter().filter(has).collect()
}

fn contest<const WORDS: usize>(run: &mut Run, play: Play, what: &str, goals: (Goal, Goal)) -> Result<(), Failure> {
    let size = size_name(8 * WORDS);
    let providers = providers();
    let mut contest = Contest::new(format!("{what} of {size} over TCP between processes"));
    // A socket has no remote memory.
    let socket = Some(Kind::Tcp).filter(|_| play != Play::Write);
    for kind in [Kind::LoomTcp].iter().chain(&socket).chain(&providers) {
        contest = contest.side_that_measures(kind.name(), between_processes::<WORDS>(*kind, play)?);
    }
    let outcome = contest.run(&run.settings);
    run.contest(&outcome);
    for kind in providers.iter().chain(&socket) {
        let name = format!("tcp_over.{}.{what}.{size}", kind.name());
        let goal = if *kind == Kind::Tcp { goals.1 } else { goals.0 };
        run.ratio(&outcome, Ratio { name: &name, of: Kind::LoomTcp.name(), over: kind.name(), goal });
    }
    Ok(())
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("tcp") {
        return Ok(());
    }
    contest::<8>(run, Play::Answer, "half_rtt", (Goal::AtMost(0.9), Goal::AtMost(1.3)))?;
    contest::<512>(run, Play::Answer, "half_rtt", (Goal::Lower, Goal::Lower))?;
    // Three times the rate is a third of the time per message.
    contest::<8>(run, Play::Stream, "message_time", (Goal::AtMost(1.0 / 3.0), Goal::Lower))?;
    contest::<{ 1 << 17 }>(run, Play::Stream, "message_time", (Goal::AtMost(1.0), Goal::Lower))?;
    // One and a half times the rate.
    contest::<512>(run, Play::Write, "write_time", (Goal::AtMost(2.0 / 3.0), Goal::Lower))
}

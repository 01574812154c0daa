//! The transfer agent: from a submission by this thread to the first byte in the target's memory.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Access, Domain};
use loom_transfer::{Agent, AgentAttr, Block, Engine, EngineAttr, Request};

use crate::Failure;
use crate::contest::Contest;
use crate::cores;
use crate::report::{Goal, Run};

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("agent") {
        return Ok(());
    }
    cores::pin(0);
    let info = Network::new(NetworkAttr::DEFAULT)?.info();
    let mut target = Engine::<_, _, Block, _>::open_in(&[Domain::open(&info)?], EngineAttr::default(), Global)?;
    let memory = target.register(vec![0_u8; 8], Access::REMOTE_WRITE)?;
    let (remote, mut record) = (target.remote(memory)?, [0; 1024]);
    let len = target.address(&mut record)?;
    // Without pauses, which a submission would end by a system call.
    let agent = Agent::spawn(AgentAttr { spin: Duration::MAX, ..AgentAttr::default() }, move || {
        cores::pin(1);
        Engine::open_in(&[Domain::open(&info)?], EngineAttr::default(), Global)
    })?;
    let peer = agent.insert_peer(&record[..len])?;
    // A byte of each round differs from that of the last one.
    let bytes = [1_u8, 2];
    let local = agent.register(bytes.to_vec(), Access::empty())?;
    let mut number = 0;
    let outcome = Contest::new("agent.submission")
        .side_that_measures("first byte", |count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                number = 1 - number;
                let block = Block { local: number as u64, remote: 0, len: 1 };
                let window = target.window(memory).expect("memory");
                let begin = Instant::now();
                let submission = agent.submit(Request::write(peer, local, &remote, block)).expect("a slot");
                while window.load(0, Ordering::Acquire).expect("the byte") != bytes[number] {
                    spin_loop();
                }
                total += begin.elapsed();
                submission.wait().and_then(|outcome| outcome.result()).expect("a transfer");
            }
            total
        })
        .run(&run.settings);
    run.contest(&outcome);
    run.figure(&outcome, ("agent.submit_to_first_byte.ns", "first byte"), ("ns", Goal::Lower), |nanoseconds| {
        nanoseconds
    });
    Ok(())
}

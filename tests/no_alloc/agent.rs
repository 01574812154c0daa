//! Transfers through an agent: in each round a write, a wait for its arrival and a notification.
//! Allocations of the agent's thread are counted, too.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Access, Domain, Error};
use loom_transfer::{Agent, AgentAttr, Block, Engine, EngineAttr, Plan, Request, Wait};

use crate::allocators::{Seal, gate};
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const LEN: u64 = 4096;

/// Opens an agent, warms up, and counts.
pub fn run(seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let wrong = |_: Error| Failure::Wrong("a transfer of an agent");
    let before = gate::calls_of_helpers();
    let info = Network::new(NetworkAttr::default())?.info();
    let attr = EngineAttr { message: 1024, ..EngineAttr::default() };
    let agent = Agent::<Block>::spawn(AgentAttr::default(), move || {
        gate::watch_this_thread();
        Engine::open_in(&[Domain::open(&info)?], attr, Global)
    });
    let agent = agent.map_err(wrong)?;
    // The control: opening allocates.
    if gate::calls_of_helpers() == before {
        return Err(Failure::Wrong("the agent's thread is not counted"));
    }
    let itself = agent.insert_peer(agent.address().map_err(wrong)?).map_err(wrong)?;
    let source = agent.register((0..LEN).map(|at| at as u8).collect(), Access::empty()).map_err(wrong)?;
    let target = agent.register(vec![0; LEN as usize], Access::REMOTE_WRITE).map_err(wrong)?;
    let remote = agent.remote(target).map_err(wrong)?;
    let page = Block { local: 0, remote: 0, len: LEN };
    let operations = page.operations(attr.piece);
    let (mut arrived, mut buffer) = (0, Vec::with_capacity(64));
    let mut round = |_| {
        arrived += operations;
        let arrival = agent.wait(Wait::new(1, arrived)).map_err(wrong)?;
        let write = Request::write(itself, source, &remote, page);
        let written = agent.submit(write.data(1)).map_err(|rejected| wrong(rejected.error))?;
        let notification = agent.next_notification(core::mem::take(&mut buffer)).map_err(wrong)?;
        let notified = agent.notify(itself, b"it is there").map_err(wrong)?;
        let written = written.wait().and_then(|outcome| outcome.result());
        arrival.wait().map_err(wrong)?;
        notified.wait().map_err(wrong)?;
        let message = notification.wait().map_err(wrong)?;
        buffer = message.bytes;
        match (written, &buffer[..]) {
            (Ok(LEN), b"it is there") => Ok(()),
            _ => Err(Failure::Wrong("other bytes")),
        }
    };
    for number in 0..20 {
        round(number)?;
    }
    counted(seal, plant, 0..rounds, round)
}

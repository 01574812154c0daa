//! The network, in memory of a `static`.

use core::fmt::Write;

use loom_alloc::{Arena, StaticArena};
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::mr::Mr;
use loom_core::objects::scope::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::vocabulary::Access;

use crate::bare::Output;
use crate::failure::Failure;
use crate::figures::measure;
use crate::pair::{Buffers, Pair};

/// Everything that loom allocates comes from here.
static MEMORY: StaticArena<{ 80 * 1024 }> = StaticArena::new();

const NETWORK: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 16, rx_depth: 16, eager_size: 1024, regions: 1, ..NetworkAttr::DEFAULT };
const QUEUE: CqAttr = CqAttr::new(16).endpoints(2);

/// Copied into a cell, and from there.
const SHORT: usize = 64;
/// Longer than `eager_size`: copied once, from the sender's buffer.
const LONG: usize = 4096;

/// Opens the network, moves and checks data, and prints what operations cost.
pub fn run(out: &mut Output) -> Result<(), Failure> {
    let arena = MEMORY.take_shared().ok_or(Failure::Memory("the arena was taken before"))?;
    if MEMORY.take().is_some() {
        return Err(Failure::Memory("the arena can be taken twice"));
    }
    let network = Network::new_in(NETWORK, arena)?;
    let mut short = [[0; SHORT]; 2];
    let mut long = [[0; LONG]; 2];
    let mut exposed = [0; LONG];
    let [here, there] = &mut short;
    let mut short = Buffers::new(here, there);
    let [here, there] = &mut long;
    let mut long = Buffers::new(here, there);
    // The buffers are this function's: so everything is closed when the scope ends.
    scope(|s| {
        let domain = s.open_in(&network.info(), arena)?;
        let av = Av::open_in(&domain, 2, arena)?;
        let region = Mr::open_in(&domain, &mut exposed[..], Access::REMOTE_WRITE, arena)?;
        let cq = Cq::open_in(&domain, QUEUE, arena)?;
        let pair = Pair::open(cq, &av, region)?;
        let opened = arena.with(Arena::used);
        writeln!(out, "{}", network.info())?;
        writeln!(out, "{opened} of {} bytes are used", arena.with(Arena::capacity))?;
        // Before and after the measurement: every byte.
        for seed in [1, 2] {
            pair.check(&mut short, seed)?;
            pair.check(&mut long, seed)?;
            if seed == 1 {
                report(out, &pair, &mut short, &mut long)?;
            }
        }
        if (arena.with(Arena::used), arena.with(Arena::high_water)) != (opened, opened) {
            return Err(Failure::Memory("operations have taken memory"));
        }
        writeln!(out, "every byte arrived, and no operation took memory")?;
        Ok(())
    })
}

/// Prints what operations cost. A message is a send, a receive, and both completions.
fn report<'b, T: Transport + 'static>(
    out: &mut Output,
    pair: &Pair<'_, 'b, T>,
    short: &mut Buffers<'b>,
    long: &mut Buffers<'b>,
) -> Result<(), Failure> {
    writeln!(out, "nothing at all             {}", measure(1, |_| Ok::<_, Failure>(()))?)?;
    writeln!(out, "poll of an empty queue     {}", measure(1, |_| pair.poll_empty())?)?;
    for (buffers, size) in [(short, SHORT), (long, LONG)] {
        let figures = measure(2, |round| pair.ping_pong(buffers, round))?;
        writeln!(out, "tagged message,   {size:>4} bytes {figures}")?;
        let figures = measure(1, |round| pair.write(buffers, round))?;
        writeln!(out, "write with data,  {size:>4} bytes {figures}")?;
    }
    Ok(())
}

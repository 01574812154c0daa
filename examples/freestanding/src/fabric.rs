use core::fmt::Write;
use core::pin::pin;

use loom_alloc::StaticArena;
use loom_async::LocalExecutor;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Access, Av, Cq, CqAttr, CqDriver, Error, Mr, Unclaimed, scope};

use crate::buffers::Buffers;
use crate::failure::Failure;
use crate::operations::{self, AllBuffers};
use crate::pair::Pair;
use crate::tasks::{Task, Trips};
use crate::world::Output;

static MEMORY: StaticArena<{ 256 * 1024 }> = StaticArena::new();

const NETWORK: NetworkAttr =
    NetworkAttr { endpoints: 4, tx_depth: 16, rx_depth: 16, eager_size: 1024, regions: 1, ..NetworkAttr::DEFAULT };
/// Longer than `eager_size`.
const LONGEST: usize = 4096;
const QUEUE: CqAttr = CqAttr { endpoints: 2, ..CqAttr::new(16) };

/// Verifies and measures every operation, and checks that operations do not allocate.
pub fn run(out: &mut Output) -> Result<(), Failure> {
    let arena = MEMORY.take_shared().ok_or(Failure::Wrong("the arena was taken before"))?;
    if MEMORY.take().is_some() {
        return Err(Failure::Wrong("the arena can be taken twice"));
    }
    let network = Network::new_in(NETWORK, arena)?;
    let (mut of_8, mut of_64, mut of_4096) = ([[0; 8]; 2], [[0; 64]; 2], [[0; LONGEST]; 2]);
    let mut buffers =
        AllBuffers { of_8: buffers(&mut of_8), of_64: buffers(&mut of_64), of_4096: buffers(&mut of_4096) };
    let (mut exposed, mut answered) = ([0; LONGEST], [0; 64]);
    // The buffers are borrowed, so the scope closes all objects.
    scope(|s| {
        let domain = s.open_in(&network.info(), arena)?;
        let av = Av::open_in(&domain, 4, arena)?;
        let region = Mr::open_in(&domain, &mut exposed[..], Access::REMOTE_WRITE, arena)?;
        let cq = Cq::open_in(&domain, QUEUE, arena)?;
        let mut pair = Pair::open(cq, &av, region)?;
        let driver = CqDriver::open_in(&Cq::open_in(&domain, QUEUE, arena)?, Unclaimed::Drop, arena)?;
        let trips = Trips::open(driver, &av)?;
        let (mut asks, mut answers) = (pin!(trips.asks(&av)), pin!(trips.answers(&av, &mut answered)));
        let executor = LocalExecutor::<Task<'_>>::new_in(2, arena)?;
        executor.spawn(asks.as_mut()).map_err(Error::from)?;
        executor.spawn(answers.as_mut()).map_err(Error::from)?;
        let opened = arena.used();
        writeln!(out, "{}", network.info())?;
        writeln!(out, "{opened} of {} bytes are used", arena.capacity())?;
        trips.times_out()?;
        operations::run(out, &mut pair, &mut buffers, |buffers| trips.trip(&executor, buffers))?;
        if (arena.used(), arena.high_water()) != (opened, opened) {
            return Err(Failure::Wrong("operations have taken memory"));
        }
        writeln!(out, "every byte arrived, and no operation took memory")?;
        Ok(())
    })
}

fn buffers<const N: usize>(both: &mut [[u8; N]; 2]) -> Buffers<'_> {
    let [here, there] = both;
    Buffers::new(here, there)
}

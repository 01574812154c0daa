// Start of every example of docs/async.md. The page shows the code of `Pair::open` once.

pub use core::time::Duration;

pub use loom_async::clock::StdClock;
pub use loom_async::timers::Timers;
pub use loom_async::block_on;
pub use loom_core::driver::{CqDriver, Unclaimed};
pub use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
pub use loom_core::{
    Access, Av, Caps, Cq, Domain, Done, Endpoint, Errno, Error, Hints, ImmediateData, Mr, Peer, Source, Tag,
    Transfer,
};

/// Two endpoints of one queue, memory of bob that alice may access, and their driver.
pub struct Pair {
    pub alice: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub bob: Endpoint<'static, Soft<'static>, Vec<u8>>,
    pub to_alice: Peer,
    pub to_bob: Peer,
    pub region: Mr<'static, Soft<'static>, Vec<u8>>,
    pub driver: CqDriver<'static, Soft<'static>, Vec<u8>>,
    pub timers: Timers<StdClock>,
    pub domain: Domain<'static, Soft<'static>>,
    pub av: Av<'static, Soft<'static>>,
}

impl Pair {
    pub fn open() -> Result<Pair, Error> {
        let network = Network::new(NetworkAttr::default())?;
        let hints = Hints { caps: Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC, ..Hints::default() };
        Pair::over(Domain::open(&network.query(&hints).expect("it has these"))?)
    }

    pub fn failing(plan: Plan) -> Result<Pair, Error> {
        Pair::over(Domain::open(&Network::new(NetworkAttr::default())?.info_with_faults(plan))?)
    }

    fn over(domain: Domain<'static, Soft<'static>>) -> Result<Pair, Error> {
        let (av, cq) = (Av::open(&domain, 4)?, Cq::open(&domain, 16)?);
        let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
        let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
        let region = Mr::open(&domain, vec![0; 1 << 16], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
        let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
        Ok(Pair { alice, bob, to_alice, to_bob, region, driver, timers: Timers::new(StdClock::new()), domain, av })
    }
}

pub fn run(example: impl AsyncFnOnce(&Pair) -> Result<(), Error>) -> Result<(), Error> {
    run_over(Pair::open()?, example)
}

pub fn run_over(pair: Pair, example: impl AsyncFnOnce(&Pair) -> Result<(), Error>) -> Result<(), Error> {
    block_on(&(&pair.driver, &pair.timers), example(&pair))
}

pub fn done<B, E: Into<Error>>(ended: Result<Done<B>, E>) -> Result<(B, Transfer), Error> {
    Ok(ended.map_err(Into::into)?.into_result()?)
}

/// A completed write may arrive later.
pub async fn arrived(region: &Mr<'static, Soft<'static>, Vec<u8>>, expected: &[u8]) {
    let (mut found, mut polls) = (vec![0; expected.len()], 0);
    core::future::poll_fn(|cx| {
        region.window().copy_to(0, &mut found).expect("it is as long");
        if found == expected {
            return core::task::Poll::Ready(());
        }
        polls += 1;
        assert!(polls < 10_000, "other bytes are there: {:?}", &found[..expected.len().min(16)]);
        cx.waker().wake_by_ref();
        core::task::Poll::Pending
    })
    .await;
}

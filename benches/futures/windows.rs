//! What windows are worth: pages of 256 KiB that are written with 1, 8 and 32 in flight, over libfabric's providers.

#[cfg(not(feature = "libfabric"))]
pub(crate) fn run() {
    println!("windows: skipped, without libfabric there is no provider");
}

#[cfg(feature = "libfabric")]
pub(crate) fn run() {
    libfabric::run();
}

#[cfg(feature = "libfabric")]
mod libfabric {
    use std::time::Instant;

    use loom_async::block_on;
    use loom_async::window::{Window, transfer};
    use loom_fabric::loom_core::objects::driver::{CqDriver, Unclaimed};
    use loom_fabric::loom_core::{Access, Av, Caps, Cq, Domain, Endpoint, Hints, Mr, Peer, RemoteRegion};
    use loom_fabric::ofi::{Local, Ofi, library_version};

    use crate::measure::{median, metric, ratio};

    type T = Ofi<Local>;

    const PAGE: usize = 256 << 10;
    const PAGES: usize = 128;
    const ROUNDS: usize = 11;

    /// Both sides of a transfer, in one thread.
    struct Pair {
        driver: CqDriver<'static, T, Vec<u8>>,
        endpoint: Endpoint<'static, T, Vec<u8>>,
        peer: Peer,
        remote: RemoteRegion,
        // Its memory is written to.
        _region: Mr<'static, T, Vec<u8>>,
        _target: Endpoint<'static, T, Vec<u8>>,
    }

    fn open(provider: &str) -> Option<Pair> {
        let node = (provider != "shm").then_some("127.0.0.1");
        let caps = Caps::MSG | Caps::RMA;
        let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
        let info = Ofi::<Local>::query(&hints).ok()?.next()?;
        let domain = Domain::open(&info).ok()?;
        let (av, cq) = (Av::open(&domain, 4).ok()?, Cq::open(&domain, 128).ok()?);
        let [endpoint, target] = [cq.endpoint(&av).ok()?, cq.endpoint(&av).ok()?];
        let peer = av.insert(&target.address().ok()?).ok()?;
        let region = Mr::open(&domain, vec![0; PAGE * PAGES], Access::REMOTE_WRITE).ok()?;
        let remote = region.remote();
        let driver = CqDriver::open(&cq, Unclaimed::Drop).ok()?;
        Some(Pair { driver, endpoint, peer, remote, _region: region, _target: target })
    }

    /// Seconds for all pages.
    fn time<const N: usize>(pair: &Pair, window: Window<N>) -> f64 {
        let pages: Vec<_> = (0..PAGES).map(|page| vec![u8::try_from(page).unwrap_or(u8::MAX); PAGE]).collect();
        let begin = Instant::now();
        let outcome = block_on(
            &pair.driver,
            transfer(&pair.driver, window, pages, |page, buf| {
                let at = u64::try_from(page * PAGE).unwrap_or(u64::MAX);
                pair.endpoint.write(pair.peer, &pair.remote, at, buf)
            }),
        );
        assert_eq!((outcome.parts, outcome.failed), (PAGES, None), "every page is written");
        begin.elapsed().as_secs_f64()
    }

    pub(super) fn run() {
        println!("writes of {PAGES} pages of {} KiB, libfabric {}", PAGE >> 10, library_version());
        for provider in ["tcp;ofi_rxm", "shm"] {
            let Some(pair) = open(provider) else {
                println!("    {provider}: skipped, it is not here");
                continue;
            };
            let mut times = [const { Vec::new() }; 3];
            for round in 0..=ROUNDS {
                let round_times = [time(&pair, Window::<1>), time(&pair, Window::<8>), time(&pair, Window::<32>)];
                if round > 0 {
                    times.iter_mut().zip(round_times).for_each(|(times, time)| times.push(time));
                }
            }
            let [one, eight, many] = &times;
            let rate = |times: &[f64]| {
                let bytes = u32::try_from(PAGE * PAGES).map_or(f64::NAN, f64::from);
                bytes / median(times) / 1e9
            };
            println!(
                "    {provider}: {:.2} GB/s with a window of 1, {:.2} with 8, {:.2} with 32",
                rate(one),
                rate(eight),
                rate(many)
            );
            let name = provider.replace(";ofi", "");
            metric(&format!("window.8_over_1.{name}"), ratio(one, eight), "ratio");
            metric(&format!("window.32_over_1.{name}"), ratio(one, many), "ratio");
        }
    }
}

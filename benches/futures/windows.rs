//! Benefit of windows: pages of 256 KiB written to another thread over libfabric's providers, with
//! 1, 8 and 32 in flight.

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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use loom_async::block_on;
    use loom_async::window::{Window, transfer};
    use loom_fabric::loom_core::driver::{CqDriver, Unclaimed};
    use loom_fabric::loom_core::{
        Access, Av, Caps, Cq, Domain, Endpoint, EndpointAddr, Hints, Info, Mr, Peer, RemoteRegion,
    };
    use loom_fabric::ofi::{Local, Ofi};
    use support::library_version;

    use crate::measure::{median, metric, ratio};

    type T = Ofi<Local>;

    const PAGE: usize = 256 << 10;
    const PAGES: usize = 128;
    const ROUNDS: usize = 11;
    /// Maximum wait for the other thread.
    const LIMIT: Duration = Duration::from_secs(30);

    /// The side that writes. Its peer is another thread, which polls.
    struct Writer {
        driver: CqDriver<'static, T, Vec<u8>>,
        endpoint: Endpoint<'static, T, Vec<u8>>,
        peer: Peer,
        remote: RemoteRegion,
    }

    fn info(provider: &str) -> Option<Info<T>> {
        let node = (provider != "shm").then_some("127.0.0.1");
        let caps = Caps::MSG | Caps::RMA;
        let hints = Hints { caps, provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
        Ofi::<Local>::query(&hints).ok()?.next()
    }

    /// Polls for a peer that writes, until that signals the end.
    fn is_written_to(provider: &str, tell: &Sender<(EndpointAddr, RemoteRegion)>, over: &AtomicBool) -> Option<()> {
        let domain = Domain::open(&info(provider)?).ok()?;
        let (av, cq) = (Av::open(&domain, 4).ok()?, Cq::<T, Vec<u8>>::open(&domain, 16).ok()?);
        let endpoint = cq.endpoint(&av).ok()?;
        let region = Mr::open(&domain, vec![0; PAGE * PAGES], Access::REMOTE_WRITE).ok()?;
        tell.send((endpoint.address().ok()?, region.remote())).ok()?;
        while !over.load(Ordering::Acquire) {
            cq.progress().ok()?;
        }
        Some(())
    }

    fn writer(provider: &str, (address, remote): (EndpointAddr, RemoteRegion)) -> Option<Writer> {
        let domain = Domain::open(&info(provider)?).ok()?;
        let (av, cq) = (Av::open(&domain, 4).ok()?, Cq::open(&domain, 64).ok()?);
        let (endpoint, peer) = (cq.endpoint(&av).ok()?, av.insert(&address).ok()?);
        let driver = CqDriver::open(&cq, Unclaimed::Drop).ok()?;
        Some(Writer { driver, endpoint, peer, remote })
    }

    /// Returns seconds for all pages.
    fn time<const N: usize>(writer: &Writer, window: Window<N>) -> f64 {
        let pages: Vec<_> = (0..PAGES).map(|page| vec![u8::try_from(page).unwrap_or(u8::MAX); PAGE]).collect();
        let begin = Instant::now();
        let outcome = block_on(
            &writer.driver,
            transfer(&writer.driver, window, pages, |page, buf| {
                let at = u64::try_from(page * PAGE).unwrap_or(u64::MAX);
                writer.endpoint.write(writer.peer, &writer.remote, at, buf)
            }),
        );
        assert_eq!((outcome.parts, outcome.failed), (PAGES, None), "every page is written");
        begin.elapsed().as_secs_f64()
    }

    /// Returns the times of each window.
    fn measure(writer: &Writer) -> [Vec<f64>; 3] {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..=ROUNDS {
            let of_round = [time(writer, Window::<1>), time(writer, Window::<8>), time(writer, Window::<32>)];
            // The first round warms up.
            if round > 0 {
                times.iter_mut().zip(of_round).for_each(|(times, time)| times.push(time));
            }
        }
        times
    }

    pub(super) fn run() {
        println!("writes of {PAGES} pages of {} KiB, libfabric {}", PAGE >> 10, library_version());
        for provider in ["tcp;ofi_rxm", "shm"] {
            let over = AtomicBool::new(false);
            let (tell, hear) = channel();
            let times = thread::scope(|scope| {
                scope.spawn(|| is_written_to(provider, &tell, &over));
                let times = hear
                    .recv_timeout(LIMIT)
                    .ok()
                    .and_then(|peer| writer(provider, peer))
                    .map(|writer| measure(&writer));
                over.store(true, Ordering::Release);
                times
            });
            let Some(times) = times else {
                println!("    {provider}: skipped, it is not here");
                continue;
            };
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

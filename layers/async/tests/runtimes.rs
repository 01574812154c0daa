//! Runtimes that loom knows nothing of drive a fabric by the contract of `Sleepable`: a loop around `poll`, and smol.

#![allow(missing_docs, unsafe_code, clippy::unwrap_used, reason = "tests: they call the system, and fail by panicking")]

use core::pin::pin;
use core::task::{Context, Poll};
use std::future::Future;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use loom_core::objects::driver::{CqDriver, Sleepable, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::{Av, Cq, CqAttr, Domain, Endpoint, EndpointAddr, Source};

type S = Soft<'static>;

const ROUNDS: u8 = 200;
/// The longest sleep: a wake-up that is lost shows as one.
const LIMIT: Duration = Duration::from_secs(20);

struct Side {
    driver: CqDriver<'static, S, Vec<u8>>,
    endpoint: Endpoint<'static, S, Vec<u8>>,
    av: Av<'static, S>,
}

fn side(domain: &Domain<'static, S>) -> Side {
    let (av, cq) = (Av::open(domain, 2).unwrap(), Cq::open(domain, CqAttr::new(8).with_fd()).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();
    Side { driver: CqDriver::open(&cq, Unclaimed::Drop).unwrap(), endpoint, av }
}

/// One side of a ping-pong.
async fn plays(side: &Side, peer: &EndpointAddr, begins: bool) {
    let (driver, endpoint, peer) = (&side.driver, &side.endpoint, side.av.insert(peer).unwrap());
    for round in 0..ROUNDS {
        if begins {
            driver.run(vec![round; 9], |buf| endpoint.send(peer, buf)).await.unwrap().result().unwrap();
        }
        let received = driver.run(vec![0; 9], |buf| endpoint.recv(Source::Any, buf)).await.unwrap();
        assert_eq!(received.into_buf(), [round; 9]);
        if !begins {
            driver.run(vec![round; 9], |buf| endpoint.send(peer, buf)).await.unwrap().result().unwrap();
        }
    }
}

/// Plays between two threads, each with its own way of running a future.
fn play(run: fn(&Side, &EndpointAddr, bool)) {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (tell_a, hear_b) = std::sync::mpsc::channel();
    let (tell_b, hear_a) = std::sync::mpsc::channel();
    let other = thread::spawn({
        let domain = domain.clone();
        move || {
            let side = side(&domain);
            tell_b.send(side.endpoint.address().unwrap()).unwrap();
            run(&side, &hear_b.recv_timeout(LIMIT).unwrap(), false);
        }
    });
    let side = side(&domain);
    tell_a.send(side.endpoint.address().unwrap()).unwrap();
    run(&side, &hear_a.recv_timeout(LIMIT).unwrap(), true);
    other.join().unwrap();
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs a future, and sleeps in `poll` while there is nothing to do. (Wakers of other threads would need a descriptor, too.)
fn block_on_poll<V>(drive: &impl Sleepable, future: impl Future<Output = V>) -> V {
    let mut fds = Vec::new();
    drive.wait_fds(&mut |fd| fds.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 })).unwrap();
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(flag.clone());
    let mut future = pin!(future);
    loop {
        if flag.0.swap(false, Ordering::Acquire)
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        // Descriptors are level-triggered here: there is nothing to forget before it is asked.
        if drive.turn(16) == 0 && !flag.0.load(Ordering::Acquire) && drive.may_sleep(&waker).unwrap() {
            let limit = i32::try_from(LIMIT.as_millis()).unwrap();
            // SAFETY: as many entries as it is told, of descriptors that are open.
            let woken = unsafe { libc::poll(fds.as_mut_ptr(), fds.len().try_into().unwrap(), limit) };
            assert!(woken > 0, "a wake-up is lost");
        }
    }
}

#[test]
fn loop_around_poll_drives_a_fabric() {
    play(|side, peer, begins| block_on_poll(&side.driver, plays(side, peer, begins)));
}

/// A descriptor that smol waits for, and its owner keeps.
struct Lent(RawFd);

impl std::os::fd::AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the driver (`Sleepable`), which is there as long as this.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// Drives in smol for as long as a future takes.
async fn run_in_smol<V>(drive: impl Sleepable, future: impl Future<Output = V>) -> V {
    let mut fds = Vec::new();
    drive.wait_fds(&mut |fd| fds.push(smol::Async::new_nonblocking(Lent(fd)).unwrap())).unwrap();
    let drives = async {
        loop {
            if drive.turn(16) > 0 {
                smol::future::yield_now().await;
                continue;
            }
            // One-shot: from here on the runtime wakes this task when a descriptor is readable.
            let mut readable = pin!(fds[0].readable());
            let mut asleep = false;
            core::future::poll_fn(|cx| {
                if readable.as_mut().poll(cx).is_ready() || asleep {
                    return Poll::Ready(());
                }
                asleep = drive.may_sleep(cx.waker()).unwrap();
                if asleep { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            smol::future::yield_now().await;
        }
    };
    smol::future::or(future, drives).await
}

#[test]
fn smol_drives_a_fabric() {
    play(|side, peer, begins| {
        let too_late = async {
            smol::Timer::after(LIMIT).await;
            panic!("it does not end in time");
        };
        smol::block_on(run_in_smol(&side.driver, smol::future::or(plays(side, peer, begins), too_late)));
    });
}

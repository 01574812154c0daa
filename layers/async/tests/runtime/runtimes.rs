//! Foreign runtimes drive a fabric by the contract of `Sleepable`: an epoll loop and smol.

use core::cell::Cell;
use core::ffi::c_int;
use core::pin::pin;
use core::task::{Context, Poll};
use std::future::Future;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use loom_core::driver::{CqDriver, Drive, Sleepable, Unclaimed};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::{Av, Cq, CqAttr, CqError, Domain, Endpoint, EndpointAddr, Source, WaitObj};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

type S = Soft<'static>;

const ROUNDS: u8 = 200;
const LIMIT: Duration = Duration::from_secs(20);

type Driver = CqDriver<'static, S, Vec<u8>>;

struct Side {
    /// Driver without events, which is driven first. A runtime that waits only for the first
    /// descriptor sleeps for ever.
    idle: Driver,
    driver: Driver,
    endpoint: Endpoint<'static, S, Vec<u8>>,
    av: Av<'static, S>,
}

fn side(domain: &Domain<'static, S>) -> Side {
    let [idle, driver] = [(); 2].map(|()| driver(domain));
    let av = Av::open(domain, 2).unwrap();
    let endpoint = driver.cq().endpoint(&av).unwrap();
    Side { idle, driver, endpoint, av }
}

fn driver(domain: &Domain<'static, S>) -> Driver {
    CqDriver::open(&Cq::open(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(8) }).unwrap(), Unclaimed::Drop).unwrap()
}

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

fn play(run: fn(&Side, &EndpointAddr, bool)) {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (send_a, receive_b) = std::sync::mpsc::channel();
    let (send_b, receive_a) = std::sync::mpsc::channel();
    let other = thread::spawn({
        let domain = domain.clone();
        move || {
            let side = side(&domain);
            send_b.send(side.endpoint.address().unwrap()).unwrap();
            run(&side, &receive_b.recv_timeout(LIMIT).unwrap(), false);
        }
    });
    let side = side(&domain);
    send_a.send(side.endpoint.address().unwrap()).unwrap();
    run(&side, &receive_a.recv_timeout(LIMIT).unwrap(), true);
    other.join().unwrap();
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

struct Lent(RawFd);

impl std::os::fd::AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the driver (`Sleepable`), which outlives this
        // value.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

fn block_on_epoll<V>(drive: &impl Sleepable, future: impl Future<Output = V>) -> V {
    let fds = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let add = &mut |fd| epoll::add(&fds, Lent(fd), epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    drive.wait_fds(add).unwrap();
    let limit = Timespec::try_from(LIMIT).unwrap();
    let mut events = Vec::with_capacity(4);
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(flag.clone());
    let mut future = pin!(future);
    loop {
        if flag.0.swap(false, Ordering::Acquire)
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        // Level-triggered descriptors need no reset. The flag is checked last because `may_sleep`
        // may set it.
        if drive.turn(16) == 0 && drive.may_sleep(&waker).unwrap() && !flag.0.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&fds, rustix::buffer::spare_capacity(&mut events), Some(&limit)) {
                Ok(woken) => assert!(woken > 0, "a wake-up is lost"),
                Err(error) => assert_eq!(error, Errno::INTR),
            }
        }
    }
}

#[test]
fn loop_around_epoll_drives_a_fabric() {
    play(|side, peer, begins| block_on_epoll(&(&side.idle, &side.driver), plays(side, peer, begins)));
}

struct WakesOnRequest<'a> {
    driver: &'a Driver,
    task: &'a Cell<Option<Waker>>,
}

impl Drive for WakesOnRequest<'_> {
    fn turn(&self, budget: usize) -> usize {
        self.driver.turn(budget)
    }
}

// SAFETY: the wrapped driver keeps the contract of `Sleepable`.
unsafe impl Sleepable for WakesOnRequest<'_> {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        self.driver.wait_fds(each)
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        let may = self.driver.may_sleep(waker)?;
        if let Some(task) = self.task.take() {
            task.wake();
        }
        Ok(may)
    }
}

fn wake_on_request(run: impl FnOnce(WakesOnRequest<'_>, &mut dyn FnMut(&mut Context<'_>) -> Poll<()>)) {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let driver = driver(&Domain::open(&network.info()).unwrap());
    let task = Cell::new(None);
    let mut is_first = true;
    let mut polled = |cx: &mut Context<'_>| {
        if core::mem::take(&mut is_first) {
            task.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        Poll::Ready(())
    };
    run(WakesOnRequest { driver: &driver, task: &task }, &mut polled);
    assert!(task.take().is_none(), "it was asked");
}

#[test]
fn loop_around_epoll_does_not_sleep_when_the_question_has_woken_it() {
    wake_on_request(|drive, polled| block_on_epoll(&drive, core::future::poll_fn(polled)));
}

async fn run_in_smol<V>(drive: impl Sleepable, future: impl Future<Output = V>) -> V {
    let mut fds = Vec::new();
    drive.wait_fds(&mut |fd| fds.push(smol::Async::new_nonblocking(Lent(fd)).unwrap())).unwrap();
    let drives = async {
        loop {
            if drive.turn(16) > 0 {
                smol::future::yield_now().await;
                continue;
            }
            // One-shot: each readable descriptor wakes this task once.
            let mut readable: Vec<_> = fds.iter().map(|fd| Box::pin(fd.readable())).collect();
            let mut asleep = false;
            core::future::poll_fn(|cx| {
                // Polls every descriptor to register this task with each.
                let ready = readable.iter_mut().map(|fd| fd.as_mut().poll(cx)).filter(Poll::is_ready).count();
                if ready > 0 || asleep {
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
        let drives = (&side.idle, &side.driver);
        smol::block_on(run_in_smol(drives, smol::future::or(plays(side, peer, begins), too_late())));
    });
}

#[test]
fn smol_does_not_sleep_when_the_question_has_woken_it() {
    wake_on_request(|drive, polled| {
        let polled = core::future::poll_fn(polled);
        smol::block_on(run_in_smol(drive, smol::future::or(polled, too_late())));
    });
}

async fn too_late() {
    smol::Timer::after(LIMIT).await;
    panic!("it does not end in time");
}

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use loom_async::tokio::{Mode, drive, run};
use loom_core::{CqAttr, CqError, Domain, EndpointAddr, Errno, Error, Source, WaitObj};

use tokio::task::LocalSet;

use crate::tokio::{LIMIT, S, Side, domain, on_one_thread, pair};

#[allow(unsafe_code, reason = "asks the system for the time")]
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write of the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn player(
    domain: &Domain<'static, S>,
    mode: Mode,
    (mine, theirs): (mpsc::Sender<EndpointAddr>, mpsc::Receiver<EndpointAddr>),
    begins: bool,
    rounds: u32,
) {
    on_one_thread(async {
        let side = Side::open(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        mine.send(side.endpoint.address().unwrap()).unwrap();
        let peer = side.av.insert(&theirs.recv_timeout(LIMIT).unwrap()).unwrap();
        let Side { driver, endpoint, .. } = &side;
        run(driver, mode, async {
            let mut buf = vec![0; 300];
            for round in 0..rounds {
                let byte = u8::try_from(round % 251).unwrap();
                if begins {
                    buf.fill(byte);
                    let sent = driver.run(buf, |buf| endpoint.send(peer, buf)).await.unwrap();
                    sent.result().unwrap();
                    buf = sent.into_buf();
                }
                let received = driver.run(buf, |buf| endpoint.recv(Source::Any, buf)).await.unwrap();
                received.result().unwrap();
                buf = received.into_buf();
                assert!(buf.iter().all(|it| *it == byte));
                if !begins {
                    let sent = driver.run(buf, |buf| endpoint.send(peer, buf)).await.unwrap();
                    sent.result().unwrap();
                    buf = sent.into_buf();
                }
            }
        })
        .await
        .unwrap();
    });
}

#[test]
fn threads_that_sleep_wake_each_other_up() {
    for (mode, rounds) in
        [(Mode::Sleep, 2000), (Mode::Hybrid { spin: Duration::from_micros(20) }, 2000), (Mode::Busy, 50)]
    {
        let domain = domain();
        let ((to_b, of_a), (to_a, of_b)) = (mpsc::channel(), mpsc::channel());
        let other = thread::spawn({
            let domain = domain.clone();
            move || player(&domain, mode, (to_a, of_a), false, rounds)
        });
        player(&domain, mode, (to_b, of_b), true, rounds);
        other.join().unwrap();
    }
}

#[test]
fn idle_fabric_costs_no_processor_time_and_a_message_wakes_it() {
    const IDLE: Duration = Duration::from_secs(1);
    on_one_thread(async {
        let [(a, to_b), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        run((&a.driver, &b.driver), Mode::Sleep, async {
            let receives = b.driver.run(vec![0; 4], |buf| b.endpoint.recv(Source::Any, buf));
            let sends = async {
                let before = thread_time();
                tokio::time::sleep(IDLE).await;
                let used = thread_time() - before;
                assert!(used < Duration::from_millis(10), "{used:?} of {IDLE:?}");
                a.endpoint.inject(to_b, b"here").unwrap();
                Instant::now()
            };
            let (received, sent) = tokio::join!(receives, sends);
            println!("metric wake.us {} us", sent.elapsed().as_micros());
            assert!(sent.elapsed() < Duration::from_secs(5));
            assert_eq!(received.unwrap().into_buf(), b"here");
        })
        .await
        .unwrap();
    });
}

#[test]
fn spinning_thread_costs_processor_time_which_is_the_control() {
    on_one_thread(async {
        let [(a, _), _] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        let (before, until) = (thread_time(), Instant::now() + Duration::from_secs(60));
        // Other programs may have the processor for most of the time.
        while thread_time() - before < Duration::from_millis(20) {
            assert!(Instant::now() < until, "it takes processor time");
            run(&a.driver, Mode::Busy, tokio::time::sleep(Duration::from_millis(200))).await.unwrap();
        }
    });
}

#[test]
fn queue_without_a_descriptor_refuses_sleep() {
    on_one_thread(async {
        let [(a, _), _] = pair(CqAttr::new(16));
        let asleep = run(&a.driver, Mode::Sleep, core::future::pending::<()>()).await;
        assert!(matches!(asleep, Err(Error::Queue(CqError::NotOpenedFor))));
        run(&a.driver, Mode::Busy, tokio::task::yield_now()).await.unwrap();
    });
}

#[test]
fn endpoint_that_closes_wakes_waiters_for_its_operations() {
    on_one_thread(LocalSet::new().run_until(async {
        let [(a, _), (b, _)] = pair(CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) });
        let Side { driver, endpoint, .. } = b;
        // Separate tasks: a wake-up of one does not poll the other.
        let drives = drive((a.driver.clone(), driver.clone()), Mode::Sleep).unwrap();
        let driving = tokio::task::spawn_local(drives);
        let received = endpoint.recv(Source::Any, vec![0; 4]).unwrap();
        let waits = tokio::task::spawn_local(driver.finish(received));
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(endpoint);
        let done = waits.await.unwrap().unwrap();
        assert_eq!(done.result().unwrap_err().errno, Errno::ECANCELED);
        driving.abort();
    }));
}

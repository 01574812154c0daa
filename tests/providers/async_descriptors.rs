//! Libfabric's providers in a runtime of tokio. An idle fabric uses no processor time, a message
//! wakes it, and the runtime serves sockets during large transfers. The tests also run over the
//! software transport.
//!
//! A separate program: the tests measure processor time per process, and run in sequence.

use support::alone::trial;

use std::cell::Cell;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use loom_async::tokio::{Mode, run};
use loom_core::driver::{CqDriver, Unclaimed};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::{Av, Caps, Cq, CqAttr, Domain, Endpoint, Hints, Info, Peer, Source, WaitObj};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_tcp::TcpAttr;
use support::library_version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

type Bytes = Vec<u8>;

/// Limit of a wait, which a working fabric never reaches.
const LIMIT: Duration = Duration::from_secs(120);

fn process_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes the time into `time`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

struct Pair<T: Transport + 'static> {
    drivers: [CqDriver<'static, T, Bytes>; 2],
    a: Endpoint<'static, T, Bytes>,
    b: Endpoint<'static, T, Bytes>,
    to_b: Peer,
}

fn pair<T: Transport + 'static>(info: &Info<T>) -> Pair<T> {
    let domain = Domain::open(info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let queues = [(); 2].map(|()| Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(64) }).unwrap());
    let [a, b] = queues.each_ref().map(|cq| cq.endpoint(&av).unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    Pair { drivers: queues.map(|cq| CqDriver::open(&cq, Unclaimed::Drop).unwrap()), a, b, to_b }
}

fn name<T: Transport>(info: &Info<T>) -> String {
    info.provider().replace(';', "_").replace("ofi_", "")
}

fn on_one_thread<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.expect("it ends in time") })
}

impl<T: Transport + 'static> Pair<T> {
    /// Sends a message from `a` to `b`, and connects them afterwards.
    async fn message(&self, byte: u8, len: usize) {
        let [of_a, of_b] = &self.drivers;
        let (sent, received) = tokio::join!(
            of_a.run(vec![byte; len], |buf| self.a.send(self.to_b, buf)),
            of_b.run(vec![0; len], |buf| self.b.recv(Source::Any, buf)),
        );
        sent.unwrap().result().unwrap();
        let received = received.unwrap();
        received.result().unwrap();
        assert!(received.buf().iter().all(|it| *it == byte));
    }
}

/// Time that the fabric idles: `LOOM_IDLE` in milliseconds.
fn idle_time() -> Duration {
    let asked = std::env::var("LOOM_IDLE").ok().and_then(|asked| asked.parse().ok());
    Duration::from_millis(asked.unwrap_or(5000))
}

/// Checks fabrics that idle at once. The measured time is the sum of all of them.
async fn an_idle_fabric_uses_no_cpu_time_and_a_message_wakes_it<T: Transport + 'static>(info: &Info<T>, all: &Barrier) {
    let pair = pair(info);
    let [of_a, of_b] = &pair.drivers;
    run(&pair.drivers, Mode::Sleep, async {
        pair.message(1, 100).await;
        let receives = of_b.run(vec![0; 100], |buf| pair.b.recv(Source::Any, buf));
        let sends = async {
            all.wait().await;
            // Connections still exchange messages at first.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let before = process_time();
            tokio::time::sleep(idle_time()).await;
            let used = process_time() - before;
            println!("metric idle.{}.ms {:.3} ms", name(info), used.as_secs_f64() * 1e3);
            assert!(used < Duration::from_millis(10), "{used:?} of {:?}", idle_time());
            all.wait().await;
            let begin = Instant::now();
            of_a.run(vec![7; 100], |buf| pair.a.send(pair.to_b, buf)).await.unwrap().result().unwrap();
            begin
        };
        let receives = async { (receives.await, Instant::now()) };
        let ((received, end), begin) = tokio::join!(receives, sends);
        println!("metric wake.{}.us {} us", name(info), (end - begin).as_micros());
        assert!(end - begin < Duration::from_secs(5), "a bound that a working fabric never meets");
        assert_eq!(received.unwrap().into_buf(), [7; 100]);
    })
    .await
    .unwrap();
}

/// Runs each in a separate runtime, so that the activity of one wakes no other.
fn idle_fabrics_use_no_cpu_time_and_a_message_wakes_each() {
    let all = &Barrier::new(4);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let network = Network::new(NetworkAttr::default()).unwrap();
            on_one_thread(an_idle_fabric_uses_no_cpu_time_and_a_message_wakes_it(&network.info(), all));
        });
        threads.spawn(|| {
            let info = support::tcp::query(&Hints::default(), TcpAttr::DEFAULT).unwrap();
            on_one_thread(an_idle_fabric_uses_no_cpu_time_and_a_message_wakes_it(&info, all));
        });
        for provider in ["tcp;ofi_rxm", "sockets"] {
            threads.spawn(move || {
                on_one_thread(an_idle_fabric_uses_no_cpu_time_and_a_message_wakes_it(&info(provider), all));
            });
        }
    });
}

fn sockets_are_served_while_a_gibibyte_moves<T: Transport + 'static>(info: &Info<T>) {
    const LEN: usize = 4 << 20;
    const MESSAGES: usize = (1 << 30) / LEN;
    on_one_thread(async {
        let pair = pair(info);
        let [of_a, of_b] = &pair.drivers;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        run(&pair.drivers, Mode::Sleep, async {
            pair.message(1, 100).await;
            let over = Cell::new(false);
            let sends = async {
                let mut buf = vec![5; LEN];
                for _ in 0..MESSAGES {
                    let sent = of_a.run(buf, |buf| pair.a.send(pair.to_b, buf)).await.unwrap();
                    sent.result().unwrap();
                    buf = sent.into_buf();
                }
            };
            let receives = async {
                let mut buf = vec![0; LEN];
                for _ in 0..MESSAGES {
                    buf[0] = 0;
                    buf[LEN - 1] = 0;
                    let received = of_b.run(buf, |buf| pair.b.recv(Source::Any, buf)).await.unwrap();
                    assert_eq!(received.result().unwrap().len, LEN);
                    buf = received.into_buf();
                    assert_eq!((buf[0], buf[LEN - 1]), (5, 5));
                }
                over.set(true);
            };
            let serves = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut byte = [0];
                while socket.read(&mut byte).await.unwrap() == 1 {
                    socket.write_all(&byte).await.unwrap();
                }
            };
            let asks = async {
                let mut socket = TcpStream::connect(at).await.unwrap();
                let (mut answers, mut slowest, mut byte) = (0_u32, Duration::ZERO, [7]);
                while !over.get() {
                    let begin = Instant::now();
                    socket.write_all(&byte).await.unwrap();
                    socket.read_exact(&mut byte).await.unwrap();
                    slowest = slowest.max(begin.elapsed());
                    answers += 1;
                }
                (answers, slowest)
            };
            let ((), (), (), (answers, slowest)) = tokio::join!(sends, receives, serves, asks);
            println!("metric socket_answers.{} {answers} count", name(info));
            println!("metric socket_slowest.{}.us {} us", name(info), slowest.as_micros());
            assert!(answers > 50, "{answers} while {MESSAGES} messages moved");
        })
        .await
        .unwrap();
    });
}

/// Info of a provider of every libfabric.
fn info(provider: &str) -> Info<Ofi<Local>> {
    let hints =
        Hints { caps: Caps::MSG, provider: Some(provider), node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    let mut infos = Ofi::<Local>::query(&hints).unwrap();
    infos.next().unwrap_or_else(|| panic!("libfabric {} has no {provider}", library_version()))
}

/// Trials, each in a separate process, because processor time is measured per process.
pub(crate) fn trials() -> Vec<Trial> {
    // Queues of untested providers have no descriptors.
    if !["tcp;ofi_rxm", "sockets"].into_iter().all(|provider| info(provider).raw().is_tested()) {
        return Vec::new();
    }
    let mut trials =
        vec![trial("async_descriptors::idle_fabrics_use_no_cpu_time_and_a_message_wakes_each".to_owned(), || {
            idle_fabrics_use_no_cpu_time_and_a_message_wakes_each();
            Ok(())
        })];
    for provider in ["soft", "loom-tcp", "tcp;ofi_rxm", "sockets"] {
        let name =
            format!("async_descriptors::{}::sockets_are_served_while_a_gibibyte_moves", provider.replace(';', "_"));
        trials.push(trial(name, move || {
            match provider {
                "soft" => {
                    let network = Network::new(NetworkAttr::default()).unwrap();
                    sockets_are_served_while_a_gibibyte_moves(&network.info());
                }
                "loom-tcp" => {
                    let info = support::tcp::query(&Hints::default(), TcpAttr::DEFAULT).unwrap();
                    sockets_are_served_while_a_gibibyte_moves(&info);
                }
                _ => sockets_are_served_while_a_gibibyte_moves(&info(provider)),
            }
            Ok(())
        }));
    }
    trials
}

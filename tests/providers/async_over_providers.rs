//! Async programs over libfabric's providers and over the software transport: streams of events and
//! connections, transfers in many parts, counters and deferred work. Tasks are polled only after
//! they are woken.

use support::behaviours::pair::is_tested;
use support::posting::{LIMIT, pattern};

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use libtest_mimic::Trial;
use loom_async::LocalExecutor;
use loom_async::stream::{connections, events};
use loom_async::tokio::Mode;
use loom_async::window::{Window, ranges, transfer, transfer_each};
use loom_core::CqError;
use loom_core::driver::{CounterDriver, CqDriver, Drive, EqDriver, Sleepable, Unclaimed};
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Connected;
use loom_core::vocabulary::{EndpointAttributes, EndpointType};
use loom_core::{
    Access, Av, Binding, Caps, Completion, Counted, Counter, CounterAttr, Cq, CqAttr, Domain, Endpoint, Errno, Hints,
    ImmediateData, Info, Mr, Peer, Source, ThePeer, Transport, WaitObj,
};
use loom_deferred::{Deferred, DeferredDriver, Work};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_tcp::{Tcp, TcpAttr};
use support::library_version;

/// Maximum length of a message, also where the provider allows longer ones.
const MOST: usize = 2_000;

type Bytes = Vec<u8>;
type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct Bounded<D>(D, Instant);

impl<D: Drive> Drive for Bounded<D> {
    fn turn(&self, budget: usize) -> usize {
        assert!(self.1.elapsed() < LIMIT, "not over within {LIMIT:?}");
        self.0.turn(budget)
    }
}

fn run<'a>(drive: impl Drive, tasks: impl IntoIterator<Item = Task<'a>>) {
    let tasks: Vec<_> = tasks.into_iter().collect();
    let executor = LocalExecutor::new(tasks.len()).unwrap();
    for task in tasks {
        executor.spawn(task).unwrap();
    }
    executor.run(&Bounded(drive, Instant::now()));
}

struct Pair<T: Transport + 'static> {
    driver: CqDriver<'static, T, Bytes>,
    a: Endpoint<'static, T, Bytes>,
    b: Endpoint<'static, T, Bytes>,
    to_a: Peer,
    to_b: Peer,
}

impl<T: Transport + 'static> Pair<T> {
    /// Opens a side. `received` counts the receives of the second endpoint.
    fn open(domain: &Domain<'static, T>, received: Option<&Counter<'static, T>>) -> Self {
        let (av, cq) = (Av::open(domain, 4).unwrap(), Cq::open(domain, 64).unwrap());
        let bound = received.map_or(Binding::to(&av), |received| Binding::to(&av).counter(Counted::RECV, received));
        let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(bound).unwrap());
        let (to_a, to_b) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());
        Pair { driver: CqDriver::open(&cq, Unclaimed::Drop).unwrap(), a, b, to_a, to_b }
    }
}

/// Waits for a condition without an event: a completed write may reach the peer's memory later.
async fn until(mut is_so: impl FnMut() -> bool) {
    poll_fn(|cx| {
        if is_so() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn writes_with_immediate_data_are_a_stream<T: Transport + 'static>(info: &Info<T>) {
    // Exceeds the queue's capacity.
    const WRITES: usize = 200;
    const LEN: usize = 100;
    let domain = Domain::open(info).unwrap();
    let Pair { driver, a, to_b, .. } = &Pair::open(&domain, None);
    let region = Mr::open(&domain, vec![0; WRITES * LEN], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let at = region.remote();
    let writes = async {
        for number in 0..WRITES {
            let (data, offset) = (ImmediateData(number as u64), (number * LEN) as u64);
            let write = |buf| a.write_data(*to_b, &at, offset, data, buf);
            driver.run(pattern(LEN, number), write).await.unwrap().result().unwrap();
        }
    };
    let takes = async {
        let mut told = Vec::new();
        let mut events = pin!(events(driver).take(WRITES));
        while let Some(event) = events.next().await {
            let Completion::Remote(event) = event.unwrap() else { panic!("an event of the peer") };
            let number = usize::try_from(event.data().unwrap().0).unwrap();
            // The bytes of a write arrive at the latest with its immediate data.
            let mut bytes = vec![0; LEN];
            region.window().copy_to(number * LEN, &mut bytes).unwrap();
            assert!(bytes == pattern(LEN, number), "write {number}");
            told.push(number);
        }
        told.sort_unstable();
        assert!(told.into_iter().eq(0..WRITES), "each once");
    };
    run(driver, [Box::pin(writes) as Task<'_>, Box::pin(takes)]);
}

fn parts_of_a_transfer_are_written_and_read<T: Transport + 'static>(info: &Info<T>) {
    const LEN: usize = 1_000_003;
    const PART: usize = 64 << 10;
    let domain = Domain::open(info).unwrap();
    let Pair { driver, a, to_b, .. } = &Pair::open(&domain, None);
    let region = Mr::open(&domain, vec![0; LEN], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let (at, expected) = (region.remote(), pattern(LEN, 1));
    let parts: Vec<_> = ranges(info, LEN, PART).collect();
    assert!(parts.len() >= LEN.div_ceil(PART));
    let moves = async {
        let bytes = parts.iter().map(|part| expected[part.clone()].to_vec());
        let write = |part: usize, buf| a.write(*to_b, &at, parts[part].start as u64, buf);
        let written = transfer(driver, Window::<4>, bytes, write).await;
        assert_eq!((written.parts, written.result().unwrap()), (parts.len(), LEN as u64));
        let mut found = vec![0; LEN];
        until(|| {
            region.window().copy_to(0, &mut found).unwrap();
            found == expected
        })
        .await;

        let mut found = vec![0; LEN];
        let rooms = parts.iter().map(|part| vec![0; part.len()]);
        let read = |part: usize, buf| a.read(*to_b, &at, parts[part].start as u64, buf);
        let keep = |part: usize, done: loom_core::Done<Bytes>| found[parts[part].clone()].copy_from_slice(done.buf());
        let read = transfer_each(driver, Window::<4>, rooms, read, keep).await;
        assert_eq!((read.parts, read.result().unwrap()), (parts.len(), LEN as u64));
        assert!(found == expected, "what was read is what was written");
    };
    run(driver, [Box::pin(moves) as Task<'_>]);
}

fn parts_of_a_transfer_are_as_long_as_messages_may_be<T: Transport + 'static>(info: &Info<T>) {
    const LEN: usize = 20_001;
    let domain = Domain::open(info).unwrap();
    let Pair { driver, a, b, to_b, .. } = &Pair::open(&domain, None);
    let longest = info.attributes().endpoint.max_msg_size.min(MOST);
    let (parts, bytes) = (ranges(info, LEN, MOST), pattern(LEN, 2));
    let parts: Vec<Bytes> = parts.map(|part| bytes[part].to_vec()).collect();
    assert!(parts.iter().rev().skip(1).all(|part| part.len() == longest) && parts.concat() == bytes);
    let sends = async {
        let sent = transfer(driver, Window::<4>, parts.iter().cloned(), |_, buf| a.send(*to_b, buf)).await;
        assert_eq!((sent.parts, sent.result().unwrap()), (parts.len(), LEN as u64));
    };
    let receives = async {
        // Datagrams have no order.
        let mut left = parts.clone();
        while !left.is_empty() {
            let received = driver.run(vec![0; longest], |room| b.recv(Source::Any, room)).await.unwrap();
            let (mut message, transfer) = received.into_result().unwrap();
            message.truncate(transfer.len);
            left.swap_remove(left.iter().position(|part| *part == message).expect("each part once"));
        }
    };
    run(driver, [Box::pin(receives) as Task<'_>, Box::pin(sends)]);
}

fn counter_that_reaches_thresholds_wakes_their_tasks<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let pair = Pair::open(&domain, Some(&counter));
    let Pair { driver, a, b, to_b, .. } = &pair;
    let counted = &CounterDriver::open(&counter).unwrap();
    let reached = &RefCell::new(Vec::new());
    let waits = [3, 1, 9].map(|threshold| {
        Box::pin(async move {
            let count = counted.reached(threshold).await.unwrap();
            assert!((threshold..=9).contains(&count));
            reached.borrow_mut().push(threshold);
        }) as Task<'_>
    });
    let talks = async {
        for number in 0..9 {
            let received = driver.post(vec![0; 50], |room| b.recv(Source::Any, room)).await.unwrap();
            driver.run(pattern(50, number), |message| a.send(*to_b, message)).await.unwrap().result().unwrap();
            assert!(driver.finish(received).await.unwrap().into_result().unwrap().0 == pattern(50, number));
        }
    };
    run((driver, counted), waits.into_iter().chain([Box::pin(talks) as Task<'_>]));
    reached.borrow_mut().sort_unstable();
    assert_eq!((counter.read(), counter.read_error(), &**reached.borrow()), (9, 0, &[1, 3, 9][..]));
}

fn deferred_work_is_awaited<T: Transport + 'static>(info: &Info<T>) {
    let domain = Domain::open(info).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let pair = Pair::open(&domain, Some(&counter));
    let Pair { driver, a, b, to_a, to_b } = &pair;
    let deferred = Deferred::open(driver.cq(), 4).unwrap();
    let works = &DeferredDriver::new(&deferred, driver).unwrap();
    // After two messages to b, b sends one and the counter is raised. Further work waits for more.
    let answer = deferred.post((&counter, 2), b, Work::send(*to_a), pattern(80, 7)).unwrap();
    let raised = deferred.add((&counter, 2), &counter, 10).unwrap();
    let last = deferred.post((&counter, 100), b, Work::send(*to_a), pattern(10, 8)).unwrap();
    let waits = async {
        let (sent, _) = works.finish(answer).await.unwrap().expect("an operation").into_result().unwrap();
        assert!(sent == pattern(80, 7), "the buffer comes back");
        deferred.cancel(last).unwrap();
    };
    let is_raised = async { assert!(works.finish(raised).await.unwrap().is_none()) };
    let is_cancelled = async {
        let Err(refused) = works.finish(last).await else { panic!("it was cancelled") };
        assert!((refused.error, refused.value) == (PostError::Errno(Errno::ECANCELED).into(), Some(pattern(10, 8))));
    };
    let talks = async {
        let answered = driver.post(vec![0; 80], |room| a.recv(Source::Any, room)).await.unwrap();
        for number in 0..2 {
            let received = driver.post(vec![0; 50], |room| b.recv(Source::Any, room)).await.unwrap();
            driver.run(pattern(50, number), |message| a.send(*to_b, message)).await.unwrap().result().unwrap();
            assert!(driver.finish(received).await.unwrap().into_result().unwrap().0 == pattern(50, number));
        }
        assert!(driver.finish(answered).await.unwrap().into_result().unwrap().0 == pattern(80, 7));
    };
    let tasks: [Task<'_>; 4] = [Box::pin(waits), Box::pin(is_raised), Box::pin(is_cancelled), Box::pin(talks)];
    run((driver, works), tasks);
    assert_eq!((counter.read(), deferred.len()), (12, 0));
}

fn requests_and_ends_of_connections_are_a_stream<T: Connected + Debug + 'static>(
    provider: &str,
    info: fn(&Hints<'_>) -> Info<T>,
) {
    const CLIENTS: u16 = 5;
    let of_connections = |hints| info(&Hints { endpoint_attr: EndpointAttributes::of(EndpointType::MSG), ..hints });
    let for_tcp = Hints { caps: Caps::MSG, provider: Some(provider), ..Hints::default() };
    let listening = of_connections(Hints { node: Some("127.0.0.1"), listen: true, ..for_tcp.clone() });
    let domain = Domain::open(&listening).unwrap();
    let [server, client] = [(); 2].map(|()| EventQueue::open(&domain, EqAttr::default()).unwrap());
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr { endpoints: 2 * CLIENTS, ..CqAttr::new(64) }).unwrap();
    let listener = server.listen(&listening).unwrap();
    let address = listener.address().unwrap();
    let connecting = of_connections(Hints { domain: Some(listening.domain()), destination: Some(&address), ..for_tcp });
    let driver = &CqDriver::open(&cq, Unclaimed::Drop).unwrap();
    let [serving, asking] = [&server, &client].map(|eq| EqDriver::open(eq, 64).unwrap());

    let serves = async {
        let (mut served, mut ended) = (Vec::new(), Vec::new());
        let mut requests = Box::pin(connections(&serving));
        while served.len() < CLIENTS.into() {
            match requests.next().await.expect("it does not end").unwrap() {
                EqEvent::Request(request) => {
                    // Other clients connect meanwhile, and wait for the stream.
                    let endpoint = serving.accept(request.endpoint(&cq, &server).unwrap(), b"welcome").await.unwrap();
                    let question = driver.run(vec![0; 100], |room| endpoint.recv(ThePeer, room)).await.unwrap();
                    let (mut bytes, _) = question.into_result().unwrap();
                    bytes.reverse();
                    driver.run(bytes, |bytes| endpoint.send(ThePeer, bytes)).await.unwrap().result().unwrap();
                    served.push(endpoint);
                }
                EqEvent::Shutdown(endpoint) => ended.push(endpoint),
                other => panic!("a request or an end, not {other:?}"),
            }
        }
        // The next stream returns the events that this one has kept.
        drop(requests);
        let mut ends = pin!(connections(&serving));
        while ended.len() < CLIENTS.into() {
            match ends.next().await.expect("it does not end").unwrap() {
                EqEvent::Shutdown(endpoint) => ended.push(endpoint),
                other => panic!("the end of a connection, not {other:?}"),
            }
        }
        for endpoint in served {
            assert_eq!(ended.iter().filter(|ended| ended.is_of(&endpoint)).count(), 1, "each ends once");
        }
    };
    let asks = (0..usize::from(CLIENTS)).map(|number| {
        let (cq, client, connecting, address, asking) = (&cq, &client, &connecting, &address, &asking);
        Box::pin(async move {
            let idle = cq.msg_endpoint(client, connecting).unwrap();
            let (endpoint, welcome) = asking.connect(idle, address, &[]).await.unwrap();
            assert_eq!(welcome[..7], *b"welcome");
            let answered = driver.post(vec![0; 100], |room| endpoint.recv(ThePeer, room)).await.unwrap();
            let question = pattern(100, number);
            driver.run(question, |question| endpoint.send(ThePeer, question)).await.unwrap().result().unwrap();
            let (mut answer, _) = driver.finish(answered).await.unwrap().into_result().unwrap();
            answer.reverse();
            assert!(answer == pattern(100, number), "the answer to client {number}");
        }) as Task<'_>
    });
    run((driver, &serving, &asking), [Box::pin(serves) as Task<'_>].into_iter().chain(asks));
}

struct Turns<'a, D>(&'a D, Cell<usize>);

impl<D: Drive> Drive for Turns<'_, D> {
    fn turn(&self, budget: usize) -> usize {
        self.1.set(self.1.get() + 1);
        self.0.turn(budget)
    }
}

// SAFETY: the descriptors are those of the borrowed driver.
unsafe impl<D: Sleepable> Sleepable for Turns<'_, D> {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        self.0.wait_fds(each)
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        self.0.may_sleep(waker)
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        self.0.sleeps_for(waker)
    }
}

/// Ends clients of one queue in turn, while the thread sleeps between their messages.
fn clients_of_one_queue_end_while_others_sleep<T: Transport + 'static>(info: &Info<T>, clients: usize) {
    const ROUNDS: usize = 3;
    let domain = Domain::open(info).unwrap();
    let av = Av::open(&domain, clients + 1).unwrap();
    let cq = match Cq::open(&domain, CqAttr { wait: WaitObj::FD, endpoints: 64, ..CqAttr::new(256) }) {
        Ok(cq) => cq,
        Err(error) => {
            assert!(!is_tested(info) && error == OpenError::Errno(Errno::ENOSYS), "{error:#}");
            return;
        }
    };
    let server = cq.endpoint(&av).unwrap();
    let to_server = av.insert(&server.address().unwrap()).unwrap();
    let driver = &CqDriver::open(&cq, Unclaimed::Drop).unwrap();
    let serves = async {
        // Each client sends one message more than its predecessor.
        for _ in 0..(0..clients).map(|number| number % ROUNDS + 1).sum() {
            let (bytes, _) = driver.run(vec![0; 64], |room| server.recv(Source::Any, room)).await.unwrap().into_parts();
            let number = usize::from(bytes[0]);
            assert!(bytes[1..] == pattern(64, number)[1..], "of client {number}");
        }
    };
    let all_clients = (0..clients).map(|number| {
        let endpoint = cq.endpoint(&av).unwrap();
        async move {
            for _ in 0..number % ROUNDS + 1 {
                let mut bytes = pattern(64, number);
                bytes[0] = number.try_into().unwrap();
                driver.run(bytes, |bytes| endpoint.send(to_server, bytes)).await.unwrap().result().unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            drop(endpoint);
        }
    });
    let turns = Turns(driver, Cell::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = async {
        tokio::join!(serves, futures_util::future::join_all(all_clients));
        let (begin, before) = (Instant::now(), turns.1.get());
        tokio::time::sleep(Duration::from_millis(200)).await;
        let idle = turns.1.get() - before;
        // A spinning loop takes some 100,000 turns.
        assert!(idle < 2000, "{idle} turns in {:?}", begin.elapsed());
        // The queue still works.
        let another = cq.endpoint(&av).unwrap();
        let received = driver.run(vec![0; 8], |room| server.recv(Source::Any, room));
        let sent = driver.run(pattern(8, 1), |bytes| another.send(to_server, bytes));
        let (received, sent) = tokio::join!(received, sent);
        sent.unwrap().result().unwrap();
        assert_eq!(received.unwrap().into_buf(), pattern(8, 1));
    };
    let driven = async { loom_async::tokio::run(&turns, Mode::Sleep, tokio::time::timeout(LIMIT, all)).await };
    runtime.block_on(driven).unwrap().expect("it ends in time");
}

/// Info of every libfabric.
fn info(hints: &Hints<'_>) -> Info<Ofi<Local>> {
    let mut infos = Ofi::query(hints).unwrap();
    infos.next().unwrap_or_else(|| panic!("libfabric {} has no {hints:?}", library_version()))
}

fn loom_tcp(hints: &Hints<'_>) -> Info<Tcp> {
    support::tcp::query(hints, TcpAttr::DEFAULT).unwrap()
}

fn connectionless(provider: &str, caps: Caps, kind: EndpointType) -> Info<Ofi<Local>> {
    let node = (provider != "shm").then_some("127.0.0.1");
    let endpoint_attr = EndpointAttributes::of(kind);
    info(&Hints { caps, provider: Some(provider), node, listen: node.is_some(), endpoint_attr, ..Hints::default() })
}

type Case<T> = (&'static str, fn(&Info<T>));

fn cases<T: Transport + 'static>() -> [Case<T>; 5] {
    [
        ("writes_with_immediate_data_are_a_stream", writes_with_immediate_data_are_a_stream),
        ("parts_of_a_transfer_are_written_and_read", parts_of_a_transfer_are_written_and_read),
        messages(),
        ("counter_that_reaches_thresholds_wakes_their_tasks", counter_that_reaches_thresholds_wakes_their_tasks),
        ("deferred_work_is_awaited", deferred_work_is_awaited),
    ]
}

fn messages<T: Transport + 'static>() -> Case<T> {
    ("parts_of_a_transfer_are_as_long_as_messages_may_be", parts_of_a_transfer_are_as_long_as_messages_may_be)
}

pub(crate) fn trials() -> Vec<Trial> {
    const CAPS: Caps = Caps::MSG.union(Caps::RMA);
    let mut trials = Vec::new();
    let mut add = |name: String, run: Box<dyn FnOnce() + Send>| {
        trials.push(Trial::test(format!("async_over_providers::{name}"), move || {
            run();
            Ok(())
        }));
    };
    for (name, strict) in [("soft", false), ("strict", true)] {
        for (case, run) in cases() {
            let run = move || {
                let network = Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap();
                run(&network.query(&Hints { caps: CAPS, ..Hints::default() }).unwrap());
            };
            add(format!("{name}::{case}"), Box::new(run));
        }
    }
    for provider in ["shm", "tcp;ofi_rxm"] {
        for (case, run) in cases() {
            let run = move || run(&connectionless(provider, CAPS, EndpointType::RDM));
            add(format!("{provider}::{case}"), Box::new(run));
        }
    }
    for (case, run) in cases() {
        let run = move || run(&loom_tcp(&Hints { caps: CAPS, ..Hints::default() }));
        add(format!("loom-tcp::{case}"), Box::new(run));
    }
    for provider in ["soft", "loom-tcp", "tcp;ofi_rxm", "sockets"] {
        let run = move || match provider {
            "loom-tcp" => {
                let attr = TcpAttr { endpoints: 64, connections: 128, ..TcpAttr::DEFAULT };
                clients_of_one_queue_end_while_others_sleep(&support::tcp::query(&Hints::default(), attr).unwrap(), 50);
            }
            "soft" => {
                let attr = NetworkAttr { endpoints: 64, ..NetworkAttr::DEFAULT };
                clients_of_one_queue_end_while_others_sleep(&Network::new(attr).unwrap().info(), 50);
            }
            _ => {
                // 25 endpoints and 24 connections: the limit of `tcp;ofi_rxm` 2.5 (its page).
                let clients = if provider == "sockets" { 50 } else { 24 };
                let info = connectionless(provider, Caps::MSG, EndpointType::RDM);
                clients_of_one_queue_end_while_others_sleep(&info, clients);
            }
        };
        add(format!("{provider}::clients_of_one_queue_end_while_others_sleep"), Box::new(run));
    }
    let (case, run) = messages();
    let over_udp = move || {
        let info = connectionless("udp", Caps::MSG, EndpointType::DGRAM);
        assert!(info.attributes().endpoint.max_msg_size < MOST, "its messages are short");
        run(&info);
    };
    add(format!("udp::{case}"), Box::new(over_udp));
    add(
        "tcp::requests_and_ends_of_connections_are_a_stream".into(),
        Box::new(|| {
            requests_and_ends_of_connections_are_a_stream("tcp", info);
        }),
    );
    add(
        "loom-tcp::requests_and_ends_of_connections_are_a_stream".into(),
        Box::new(|| {
            requests_and_ends_of_connections_are_a_stream("loom-tcp", loom_tcp);
        }),
    );
    trials
}

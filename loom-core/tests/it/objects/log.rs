//! Logged events, and the absence of operations among them.

use std::cell::RefCell;
use std::mem::forget;
use std::process::Command;
use std::{env, thread};

use log::{LevelFilter, Log, Metadata, Record};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::{
    Access, Av, AvAttr, Caps, Completion, Cq, CqAttr, Domain, Endpoint, EndpointAddr, Hints, ImmediateData, Mr, Peer,
    Source, Tag,
};

/// A logger that keeps the lines of each thread, and panics at a line that a test chooses.
struct Collector;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        assert!(env::var_os(PANICS).is_none(), "told to panic");
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    fn flush(&self) {}
}

/// Set in the environment of a process with a panicking logger.
const PANICS: &str = "LOOM_TEST_LOGGER_PANICS";

fn collect() {
    // Another test may have set it.
    let _ = log::set_logger(&Collector);
    log::set_max_level(LevelFilter::Trace);
}

/// Returns the lines of this thread since the last call, without the name of the domain.
fn lines() -> Vec<String> {
    let lines = LINES.take();
    let numbered = |line: String| {
        let Some((before, after)) = line.split_once("domain ") else { return line };
        format!("{before}domain {}", after.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start())
    };
    lines.into_iter().map(numbered).collect()
}

fn network(strict: bool) -> Network<'static> {
    Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap()
}

type Bytes = Vec<u8>;
type Side = Endpoint<'static, Soft<'static>, Bytes>;

struct World {
    region: Mr<'static, Soft<'static>, Bytes>,
    a: Side,
    b: Side,
    to_b: Peer,
    cq: Cq<'static, Soft<'static>, Bytes>,
    av: Av<'static, Soft<'static>>,
    domain: Domain<'static, Soft<'static>>,
}

impl World {
    fn open(network: &Network<'static>) -> Self {
        let hints = Hints { caps: Caps::MSG | Caps::TAGGED | Caps::RMA, ..Hints::default() };
        let domain = Domain::open(&network.query(&hints).unwrap()).unwrap();
        let av = Av::open(&domain, AvAttr::new(4)).unwrap();
        let cq = Cq::open(&domain, CqAttr::new(64)).unwrap();
        let [a, b] = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        World { region, a, b, to_b, cq, av, domain }
    }
}

/// Checks the lines of this thread since the last call.
#[track_caller]
fn assert_lines(wanted: &[&str]) {
    assert_eq!(lines(), wanted);
}

#[test]
fn opening_and_closing_are_logged_with_names_and_sizes() {
    collect();
    let network = network(false);
    assert_lines(&[]);
    let World { region, a, b, cq, av, domain, .. } = World::open(&network);
    let key = region.remote().key;
    let told = lines();
    assert!(!told.iter().any(|line| line.contains(&key.to_string()[2..])), "a line has the key: {told:#?}");
    let caps = domain.info().caps();
    let addresses = [&a, &b].map(|side| side.address().unwrap().to_string());
    let most = isize::MAX;
    assert_eq!(
        told,
        [
            format!("DEBUG loom::open domain (\"memory\" of soft) of fabric \"soft\" is open: EP_RDM, {caps}"),
            format!(
                "DEBUG loom::open domain (\"memory\" of soft) grants THREAD_COMPLETION, PROGRESS_MANUAL, mr_mode PROV_KEY, \
                 messages of {most} bytes, injects of 1024, 128 transmits, 1024 receives, immediate data of 8 bytes"
            ),
            "DEBUG loom::open address vector for 4 peers is open on domain (\"memory\" of soft): 8 places".into(),
            "DEBUG loom::open completion queue of 64 operations and 16 endpoints is open on domain (\"memory\" of soft): \
             128 events, WAIT_NONE"
                .into(),
            format!(
                "DEBUG loom::open endpoint 0 is open on domain (\"memory\" of soft): EP_RDM, messages of {most} bytes, \
                 128 transmits, 1024 receives"
            ),
            format!("DEBUG loom::open endpoint 0 on domain (\"memory\" of soft) is at {}", addresses[0]),
            format!(
                "DEBUG loom::open endpoint 1 is open on domain (\"memory\" of soft): EP_RDM, messages of {most} bytes, \
                 128 transmits, 1024 receives"
            ),
            format!("DEBUG loom::open endpoint 1 on domain (\"memory\" of soft) is at {}", addresses[1]),
            "DEBUG loom::open region of 64 bytes is open on domain (\"memory\" of soft): REMOTE_READ | REMOTE_WRITE".into(),
        ]
    );

    drop(a);
    assert_lines(&["DEBUG loom::close endpoint 0 is closed on domain (\"memory\" of soft)"]);
    drop(region);
    assert_lines(&["DEBUG loom::close region of 64 bytes is closed"]);
    drop((b, av, domain));
    assert_lines(&[
        "DEBUG loom::close endpoint 1 is closed on domain (\"memory\" of soft)",
        "DEBUG loom::close address vector of 8 places is closed on domain (\"memory\" of soft)",
    ]);
    drop(cq);
    assert_lines(&[
        "DEBUG loom::close completion queue of 64 operations is closed on domain (\"memory\" of soft)",
        "DEBUG loom::close domain (\"memory\" of soft) and its fabric are closed",
    ]);
}

#[test]
fn decisions_of_quirks_are_logged_when_a_domain_opens() {
    collect();
    let world = World::open(&network(true));
    let decided: Vec<_> = lines().into_iter().filter(|line| line.contains("loom::quirk")).collect();
    let prefix = "INFO loom::quirk domain (\"strict\" of soft): ";
    assert_eq!(decided.len(), 7, "{decided:#?}");
    for wanted in ["peeks are refused", "directed receives of messages without tag are refused", "claims are refused"] {
        assert!(decided.contains(&format!("{prefix}{wanted}")), "{decided:#?}");
    }
    // A region that peers can still reach.
    drop(world.region);
    assert_lines(&["DEBUG loom::quirk memory of a region of 64 bytes is kept until no endpoint of its domain is open"]);
    drop((world.a, world.b));
    let told = lines();
    let kept = "DEBUG loom::close regions that were kept until no endpoint was open are closed: 1";
    assert_eq!(told.iter().filter(|line| *line == kept).count(), 1, "{told:#?}");
}

#[test]
fn a_refused_address_is_logged() {
    collect();
    let world = World::open(&network(false));
    lines();
    let foreign: EndpointAddr = "127.0.0.1:4242".parse().unwrap();
    let errno = world.av.insert(&foreign).unwrap_err();
    let told = format!(
        "DEBUG loom::quirk address fi_sockaddr_in://127.0.0.1:4242 is not inserted on domain (\"memory\" of soft): {errno:#}"
    );
    assert_lines(&[&told]);
    let there = world.b.address().unwrap();
    assert_eq!(world.av.insert_all(&[foreign, there], |_| {}), 1);
    assert_lines(&[&told]);
    assert!(world.av.insert_service("nowhere", None).is_err());
    assert_eq!(lines().len(), 1);
}

#[test]
fn forgotten_objects_are_logged() {
    collect();
    let network = network(false);
    let mut inbox = [0; 8];
    scope(|scope| {
        let domain = scope.open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::open(&domain, 16).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, &mut inbox[..]).unwrap();
        forget(Mr::open(&domain, vec![0; 9], Access::REMOTE_READ).unwrap());
        forget(endpoint);
        lines();
    });
    assert_lines(&[
        "DEBUG loom::close completion queue of 16 operations is closed on domain (\"memory\" of soft)",
        "WARN loom::left completion queue of 16 operations was forgotten in a scope: leaked are the buffers in flight, 1",
        "WARN loom::left region of 9 bytes was forgotten in a scope: its memory is leaked",
    ]);
}

#[test]
fn no_operation_has_a_line() {
    collect();
    for strict in [false, true] {
        let world = World::open(&network(strict));
        lines();
        let World { region, a, b, to_b, cq, av, .. } = &world;
        let remote = region.remote();
        for _ in 0..1000 {
            let received = b.recv(Source::Any, vec![0; 8]).unwrap();
            let tagged = b.tagged_recv(Source::Any, Tag(7), vec![0; 8]).unwrap();
            let post = |post: &dyn Fn(Bytes) -> _| cq.post(vec![1; 8], loom_core::Spins(1 << 20), post).unwrap();
            let keys = [
                received,
                tagged,
                post(&|bytes| a.send(*to_b, bytes)),
                post(&|bytes| a.tagged_send(*to_b, Tag(7), bytes)),
                post(&|bytes| a.write(*to_b, &remote, 0, bytes)),
                post(&|bytes| a.read(*to_b, &remote, 8, bytes)),
            ];
            for key in keys {
                cq.finish(key, loom_core::Spins(1 << 20)).unwrap().result().unwrap();
            }
        }
        // Refused posts, and peers' events.
        let peer = av.insert(&a.address().unwrap()).unwrap();
        let directed = b.recv(Source::Peer(peer), vec![0; 8]);
        assert_eq!(directed.is_err(), strict);
        assert!(a.write(*to_b, &remote, 64, vec![0; 1]).is_err());
        let told = cq.post(vec![1; 8], loom_core::Spins(1 << 20), |bytes| {
            a.write_data(*to_b, &remote, 0, ImmediateData(7), bytes)
        });
        let (mut own, mut peers) = (0, 0);
        while own + peers < 2 {
            match cq.poll().unwrap() {
                Some(Completion::Op(done)) => own += usize::from(done.key() == *told.as_ref().unwrap()),
                Some(_) => peers += 1,
                None => {}
            }
        }
        assert_eq!((own, peers), (1, 1));
        assert_lines(&[]);
        drop(world);
        assert!(!lines().is_empty());
    }
}

#[test]
fn threads_that_open_and_close_log_separately() {
    collect();
    let counts = [1, 2, 3].map(|times| {
        thread::spawn(move || {
            for _ in 0..times {
                World::open(&network(false));
            }
            lines().iter().filter(|line| line.contains("its fabric are closed")).count()
        })
    });
    assert_eq!(counts.map(|thread| thread.join().unwrap()), [1, 2, 3]);
}

/// Runs only in the process of the test below.
#[test]
#[ignore = "ends the process"]
fn a_logger_panics() {
    collect();
    World::open(&network(false));
}

#[test]
fn a_logger_that_panics_ends_the_process() {
    let program = env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", "objects::log::a_logger_panics", "--nocapture"]).env(PANICS, "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("told to panic") && said.contains("a logger panicked in the middle of loom"), "{said}");
}

//! Log lines over libfabric: of opened and closed objects, workarounds for providers, and objects
//! that stay open. Operations have no lines.

use support::shared_memory;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::loom_core::vocabulary::{EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Level, Local, Ofi, Shared};
use loom_fabric::{Av, Caps, Cq, Domain, EndpointAddr, Hints, Info, Source, Spins};
use loom_group::{Connections, PeerError, PeerIndex};
use support::library_version;

/// Keeps the lines of each thread.
struct Collector;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Used during the next line.
    static CONNECTOR: RefCell<Option<Rc<Connector>>> = const { RefCell::new(None) };
}

type Connector = Connections<'static, Ofi<Local>, Vec<u8>, Global>;

impl Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        LINES.with_borrow_mut(|lines| lines.push(format!("{} {} {}", record.level(), record.target(), record.args())));
        if let Some(connector) = CONNECTOR.take() {
            // Without members. The call first forgets the attempt that has written the line.
            let members: [EndpointAddr; 0] = [];
            let Err(error) = connector.join(PeerIndex(0), members, Spins(0)) else { panic!("a group of nobody") };
            assert_eq!(error.error, PeerError::NoSuchPlace);
        }
    }

    fn flush(&self) {}
}

fn collect() {
    // Another test may have set it.
    let _ = log::set_logger(&Collector);
    log::set_max_level(LevelFilter::Trace);
}

fn info<L: Level>(provider: &str) -> Info<Ofi<L>> {
    collect();
    shared_memory::remove_at_exit();
    let node = (provider != "shm").then_some("127.0.0.1");
    let hints = Hints {
        caps: Caps::MSG | Caps::RMA,
        provider: Some(provider),
        node,
        listen: node.is_some(),
        ..Hints::default()
    };
    let mut infos = Ofi::<L>::query(&hints).unwrap();
    infos.next().unwrap_or_else(|| panic!("libfabric {} has no {provider}", library_version()))
}

#[track_caller]
fn has(lines: &[String], start: &str, part: &str) {
    assert!(lines.iter().any(|line| line.starts_with(start) && line.contains(part)), "{part} is not in {lines:#?}");
}

/// Exchanges messages between two endpoints of one queue, and closes them. Returns the lines of
/// opening, and those of closing.
fn exchange<L: Level + 'static>(info: &Info<Ofi<L>>) -> [Vec<String>; 2] {
    let deadline = Instant::now() + Duration::from_secs(60);
    let domain = Domain::open(info).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 64).unwrap());
    let [alice, bob] = [cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap()];
    let to_bob = av.insert(&bob.address().unwrap()).unwrap();
    let opened = LINES.take();
    for _ in 0..1000 {
        let received = bob.recv(Source::Any, vec![0; 8]).unwrap();
        let sent = cq.post(vec![1; 8], deadline, |bytes| alice.send(to_bob, bytes)).unwrap();
        for key in [received, sent] {
            cq.finish(key, deadline).unwrap().result().unwrap();
        }
    }
    assert_eq!(LINES.take(), [""; 0], "operations have lines");
    drop((alice, bob, cq, av, domain));
    [opened, LINES.take()]
}

#[test]
fn logger_may_use_the_connections_of_a_group_that_are_being_made() {
    collect();
    let hints = Hints {
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some("sockets"),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    let domain = Domain::open(&Ofi::<Local>::query(&hints).unwrap().next().unwrap()).unwrap();
    let connector = Rc::new(Connector::open(&domain, 2, 16).unwrap());
    // The other member has the same address, and does not answer.
    let members = [(); 2].map(|()| connector.address().unwrap());
    LINES.take();
    CONNECTOR.set(Some(Rc::clone(&connector)));
    let Err(error) = connector.join(PeerIndex(0), members, Spins(100)) else { panic!("no member is there") };
    assert_eq!(error.peer, PeerIndex(1));
    has(&LINES.take(), "DEBUG loom::open endpoint ", "");
    assert!(CONNECTOR.take().is_none(), "the logger has used it");
}

#[test]
fn names_sizes_and_decisions_of_quirks_are_logged() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let info = info::<Shared>(provider);
        let [opened, closed] = exchange(&info);
        let domain = format!("({:?} of {provider})", info.domain());
        has(&opened, "DEBUG loom::open domain ", &format!("{domain} of fabric {:?} is open: EP_RDM", info.fabric()));
        has(&opened, "DEBUG loom::open domain ", &format!("injects of {}", info.attributes().tx.inject_size));
        has(&opened, "DEBUG loom::open completion queue of 64 operations", &domain);
        has(&opened, "DEBUG loom::open endpoint 1", "is at fi_");
        has(&opened, "INFO loom::quirk domain ", "FI_THREAD_SAFE");
        if provider == "shm" {
            has(&opened, "INFO loom::quirk domain ", "FI_ORDER_WAW");
            has(&opened, "INFO loom::quirk domain ", "sleeping on them is refused");
        }
        if !info.raw().is_tested() {
            has(&opened, "INFO loom::quirk domain ", "no test has run over this version");
        }
        assert!(!closed.is_empty());
    }
}

#[test]
fn endpoints_that_shm_cannot_close_beside_each_other_are_logged() {
    let info = info::<Local>("shm");
    let [opened, closed] = exchange(&info);
    has(
        &opened,
        "INFO loom::quirk domain ",
        "endpoints that have met in this process are not closed beside each other",
    );
    has(&closed, "DEBUG loom::quirk endpoint 0 on domain ", "cannot be closed now: it is closed with its queue");
    has(&closed, "WARN loom::left completion queue of 64 operations stays open on domain ", "endpoints");
    has(&closed, "WARN loom::left domain ", "stays open, and so does its fabric");
}

#[test]
fn closing_over_sockets_is_complete() {
    let info = info::<Local>("tcp;ofi_rxm");
    if !info.raw().is_tested() {
        return;
    }
    let [_, closed] = exchange(&info);
    has(&closed, "DEBUG loom::close endpoint 1 is closed", "");
    has(&closed, "DEBUG loom::close domain ", "and its fabric are closed");
    assert!(!closed.iter().any(|line| line.starts_with("WARN")), "{closed:#?}");
}

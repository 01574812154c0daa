//! Failures during the opening of an object, over a fake libfabric (`open_then_fail.c`): each call
//! of each object fails once.
//!
//! The tests exclude aliases, shared transmit contexts and device memory, which no safe object has.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use loom_core::allocator_api2::alloc::Global;
use loom_core::endpoint::{Contexts, ScalableEndpoint};
use loom_core::error::OpenError;
use loom_core::vocabulary::{
    Access, AddressFormat, Counted, CqEntry, DomainAttributes, EndpointAddr, EndpointAttributes, EndpointOption,
    MrMode, WaitObj,
};
use loom_core::{
    Av, Binding, Caps, Counter, CounterAttr, Cq, CqAttr, Domain, EndpointType, EqAttr, EqEvent, Errno, Error,
    EventQueue, Hints, Info, Mr, MrAttr,
};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi, PollSet, WaitSet};

type T = Ofi<Local>;
type Queue = Cq<'static, T, Vec<u8>>;
type Opened = Result<(), Error>;
type Object = (&'static str, fn(Walk) -> Opened);

const FAILURE: Errno = Errno::EREMOTEIO;

/// Objects to open. The provider's name selects the decisions of `src/ofi/quirks`.
const OBJECTS: &[Object] = &[
    ("domain and fabric", |walk| walk.open(|| Domain::open(&info("sockets", Caps::MSG))).map(drop)),
    ("address vector", |walk| {
        let domain = Domain::open(&info("tcp;ofi_rxm", Caps::MSG))?;
        walk.open(|| Av::open(&domain, 4)).map(drop)
    }),
    ("completion queue", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        walk.open(|| Queue::open(&domain, CqAttr::new(4))).map(drop)
    }),
    ("completion queues for each direction", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        walk.open(|| Queue::open(&domain, CqAttr { separate: true, ..CqAttr::new(4) })).map(drop)
    }),
    ("completion queue with a descriptor", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        let cq = walk.open(|| Queue::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(4) }))?;
        Ok(cq.wait_fd().map(drop)?)
    }),
    ("counter", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        walk.open(|| Counter::open(&domain, CounterAttr { wait: WaitObj::FD })).map(drop)
    }),
    ("event queue", |walk| {
        let domain = Domain::open(&info("tcp", Caps::MSG))?;
        walk.open(|| EventQueue::open(&domain, EqAttr { wait: WaitObj::FD, ..EqAttr::default() })).map(drop)
    }),
    ("endpoint with counters, options and collectives", |walk| {
        let side = Side::new("tcp;ofi_rxm", Caps::MSG | Caps::RMA | Caps::COLLECTIVE)?;
        let counter = Counter::open(&side.domain, CounterAttr::default())?;
        let bind = || Binding::to(&side.av).counter(Counted::SEND, &counter).counter(Counted::RECV, &counter);
        let bind = || bind().option(EndpointOption::MIN_MULTI_RECV, 64).selective();
        walk.open(|| side.cq.endpoint(bind())).map(drop)
    }),
    ("endpoint of shm", |walk| {
        let side = Side::new("shm", Caps::MSG)?;
        let bind = || Binding::to(&side.av).option(EndpointOption::MIN_MULTI_RECV, 64);
        walk.open(|| side.cq.endpoint(bind())).map(drop)
    }),
    ("endpoint of an untested provider", |walk| {
        let side = Side::new("fake", Caps::MSG)?;
        walk.open(|| side.cq.endpoint(&side.av)).map(drop)
    }),
    ("endpoint of sm2", |walk| {
        let side = Side::new("sm2", Caps::MSG)?;
        let bind = || Binding::to(&side.av).option(EndpointOption::MIN_MULTI_RECV, 64);
        walk.open(|| side.cq.endpoint(bind())).map(drop)
    }),
    ("endpoint of sm2 after one without an entry", |walk| {
        let side = Side::new("sm2", Caps::MSG)?;
        let insertion = Walk { fail_at: 4, ..Walk::WHOLE };
        let full = insertion.open(|| side.cq.endpoint(&side.av));
        assert!(matches!(full, Err(Error::Open(OpenError::Limit(_)))), "{full:?}");
        walk.open(|| side.cq.endpoint(&side.av)).map(drop)
    }),
    ("connecting endpoint", |walk| {
        let (side, eq) = connected()?;
        let bind = || Binding::to(&eq).option(EndpointOption::MIN_MULTI_RECV, 64);
        let to = EndpointAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        let endpoint = || Ok::<_, Error>(side.cq.msg_endpoint(bind(), side.domain.info())?.connect(&to, b"data")?);
        walk.open(endpoint).map(drop)
    }),
    ("accepting endpoint", |walk| {
        let (side, eq) = connected()?;
        let _listener = eq.listen(side.domain.info())?;
        let Some(EqEvent::Request(request)) = eq.poll()? else { panic!("no request") };
        walk.open(|| Ok::<_, Error>(request.endpoint(&side.cq, &eq)?.accept(b"data")?)).map(drop)
    }),
    ("passive endpoint", |walk| {
        let (side, eq) = connected()?;
        walk.open(|| eq.listen(side.domain.info())).map(drop)
    }),
    ("shared receive context and its endpoint", |walk| {
        let (side, eq) = connected()?;
        let shared = || side.cq.shared_rx(side.domain.info());
        let to = EndpointAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 9)));
        let endpoint = || Ok::<_, Error>(shared()?.msg_endpoint(&eq, side.domain.info())?.connect(&to, b"data")?);
        walk.open(endpoint).map(drop)
    }),
    ("memory region", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG | Caps::RMA))?;
        walk.open(|| Mr::open(&domain, vec![0_u8; 8], Access::REMOTE_WRITE)).map(drop)
    }),
    ("memory region of an endpoint and a counter", |walk| {
        let side = Side::new("sockets", Caps::MSG | Caps::RMA | Caps::RMA_EVENT)?;
        let counter = Counter::open(&side.domain, CounterAttr::default())?;
        let endpoint = side.cq.endpoint(&side.av)?;
        let attr = || MrAttr::new(Access::REMOTE_WRITE).counter(&counter);
        walk.open(|| Mr::open_for(&side.domain, &endpoint, vec![0_u8; 8], attr())).map(drop)
    }),
    ("scalable endpoint and its contexts", |walk| {
        let side = Side::new("sockets", Caps::MSG)?;
        let counter = Counter::open(&side.domain, CounterAttr::default())?;
        let open = || ScalableEndpoint::open(&side.av, side.domain.info(), Contexts { tx: 1, rx: 1 });
        let contexts = || {
            let endpoint = open()?;
            let bind = || Binding::to(&endpoint).option(EndpointOption::MIN_MULTI_RECV, 64);
            let tx = side.cq.tx_context(bind().counter(Counted::SEND, &counter), 0)?;
            Ok::<_, Error>((tx, side.cq.rx_context(bind().counter(Counted::RECV, &counter), 0)?))
        };
        walk.open(contexts).map(drop)
    }),
    ("collective group", |walk| {
        let side = Side::new("tcp;ofi_rxm", Caps::MSG | Caps::COLLECTIVE)?;
        let endpoint = side.cq.endpoint(&side.av)?;
        let mut set = side.av.set_in(1, Global)?;
        set.insert(side.av.insert(&endpoint.address()?)?)?;
        let join = || {
            let group = endpoint.join_collective(&set)?;
            assert!(group.is_joined()?);
            Ok::<_, Error>(group)
        };
        walk.open(join).map(drop)
    }),
    ("multicast endpoint and its group", |walk| {
        let side = Side::new("udp", Caps::MSG | Caps::MULTICAST | Caps::RECV)?;
        let eq = EventQueue::open(&side.domain, EqAttr::default())?;
        let group = EndpointAddr::from(SocketAddr::from((GROUP, 4000)));
        let join = || {
            let endpoint = side.cq.multicast_endpoint(&side.av, &eq)?;
            let group = if can_join() { Some(endpoint.join(&group)?) } else { None };
            Ok::<_, Error>((endpoint, group))
        };
        walk.open(join).map(drop)
    }),
    ("wait set", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        // SAFETY: the domain is open.
        let set = walk.open(|| unsafe { WaitSet::open(domain.raw(), WaitObj::FD) })?;
        // SAFETY: the set is open, without queues, and closed once.
        Ok(unsafe { set.close() }?)
    }),
    ("queue of a wait set", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        // SAFETY: the domain is open.
        let set = unsafe { WaitSet::open(domain.raw(), WaitObj::FD) }?;
        // SAFETY: domain and set are open.
        let queue = walk.open(|| unsafe { set.open_queue::<CqEntry>(domain.raw(), 4) });
        // SAFETY: the queue is open, and closed once.
        let closed = queue.as_ref().map_or(Ok(()), |queue| unsafe { queue.close() });
        // SAFETY: the set is open, its queue is closed, and it is closed once.
        closed.and(unsafe { set.close() })?;
        queue.map(drop)
    }),
    ("poll set", |walk| {
        let domain = Domain::open(&info("sockets", Caps::MSG))?;
        // SAFETY: the domain is open.
        let set = walk.open(|| unsafe { PollSet::open(domain.raw()) })?;
        // SAFETY: the set is open, empty, and closed once.
        Ok(unsafe { set.close() }?)
    }),
];

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Returns `true` if loom can join: it joins with a socket of the system first, which requires a
/// route.
fn can_join() -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED).is_ok()
}

fn info(provider: &str, caps: Caps) -> Info<T> {
    let kind = match provider {
        "tcp" => EndpointType::MSG,
        "udp" => EndpointType::DGRAM,
        _ => EndpointType::RDM,
    };
    let has_names = ["fake", "shm", "sm2"].contains(&provider);
    let hints = Hints {
        caps,
        provider: Some(provider),
        addr_format: if has_names { AddressFormat::ADDR_STR } else { AddressFormat::SOCKADDR_IN },
        endpoint_attr: EndpointAttributes::of(kind),
        domain_attr: DomainAttributes { mr_mode: MrMode::ENDPOINT, ..DomainAttributes::UNSPEC },
        ..Hints::default()
    };
    Ofi::query(&hints).unwrap().next().unwrap()
}

struct Side {
    domain: Domain<'static, T>,
    av: Av<'static, T>,
    cq: Queue,
}

impl Side {
    fn new(provider: &str, caps: Caps) -> Result<Self, Error> {
        let domain = Domain::open(&info(provider, caps))?;
        Ok(Side { av: Av::open(&domain, 4)?, cq: Cq::open(&domain, CqAttr::new(4))?, domain })
    }
}

fn connected() -> Result<(Side, EventQueue<'static, T>), Error> {
    let side = Side::new("tcp", Caps::MSG)?;
    let eq = EventQueue::open(&side.domain, EqAttr::default())?;
    Ok((side, eq))
}

struct Fake {
    begin: unsafe extern "C" fn(c_int, c_int, c_int),
    end: unsafe extern "C" fn(),
    report: unsafe extern "C" fn() -> *const c_char,
}

static FAKE: LazyLock<Fake> = LazyLock::new(|| {
    let path = std::env::var_os("LOOM_LIBFABRIC").unwrap();
    // SAFETY: the fake has no constructors.
    let fake = ManuallyDrop::new(unsafe { libloading::Library::new(path) }.unwrap());
    // SAFETY: the type is that in the source, here and below.
    let begin = unsafe { fake.get(b"fake_begin") };
    // SAFETY: as above.
    let end = unsafe { fake.get(b"fake_end") };
    // SAFETY: as above.
    let report = unsafe { fake.get(b"fake_report") };
    Fake { begin: *begin.unwrap(), end: *end.unwrap(), report: *report.unwrap() }
});

/// Failure of one call of `open`, counted from 1, or also of all calls after it.
#[derive(Clone, Copy, Debug)]
struct Walk {
    fail_at: usize,
    and_later: bool,
}

impl Walk {
    const WHOLE: Self = Walk { fail_at: 0, and_later: false };

    fn open<R, E: Into<Error>>(self, open: impl FnOnce() -> Result<R, E>) -> Result<R, Error> {
        // SAFETY: numbers, on the only thread that uses the fake.
        unsafe { (FAKE.begin)(self.fail_at.try_into().unwrap(), self.and_later.into(), FAILURE.as_raw()) };
        let opened = open();
        // SAFETY: no arguments, on the same thread.
        unsafe { (FAKE.end)() };
        opened.map_err(Into::into)
    }

    /// Opens and closes the object, and checks that the calls are permitted. Returns their number.
    fn run(self, name: &str, object: fn(Walk) -> Opened) -> usize {
        let opened = object(self);
        // SAFETY: the text is copied before the next call.
        let report = unsafe { CStr::from_ptr((FAKE.report)()) }.to_str().unwrap().to_owned();
        let [calls, failed, fault, left, log] = report.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let case = format!("{name}, {failed} fails, {self:?}: {opened:?}\n{log}");
        assert!(fault.is_empty(), "fault: {fault}: {case}");
        // A failed close is not repeated, and `sm2` cannot close an endpoint that is bound by half.
        let unclosable = failed.starts_with("close")
            || name.ends_with("without an entry") && ["bind(ep)", "enable(ep)"].contains(&failed);
        assert!(left.is_empty() || self.and_later || unclosable, "left open: {left}: {case}");
        let errno = opened.as_ref().err().and_then(|error| error.source()?.downcast_ref());
        // A full table.
        let has_no_entry = matches!(opened, Err(Error::Open(OpenError::Limit(_)))) && failed == "insert(av)";
        let is_typed = if self.fail_at == 0 { opened.is_ok() } else { errno == Some(&FAILURE) || has_no_entry };
        assert!(is_typed, "error: {case}");
        calls.parse().unwrap()
    }
}

static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("open-then-fail-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (levels, library) = (folder.join("levels"), folder.join("fake.so"));
    std::fs::write(&levels, LEVELS).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([&library, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libfabric/open_then_fail.c")])
        .arg(format!("-Wl,--version-script={}", levels.display()))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    library
});

const LEVELS: &str = "
FABRIC_1.0 { global: fi_version; fi_getparams; fi_freeparams; fake_*; local: *; };
FABRIC_1.1 { global: fi_fabric; };
FABRIC_1.3 { global: fi_getinfo; fi_freeinfo; fi_dupinfo; };
FABRIC_1.4 { global: fi_tostr_r; };
";

/// Runs [`walk`] in a process with the fake.
fn walked(plant: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open_then_fail::walk", "--ignored", "--nocapture"])
        .env("LOOM_LIBFABRIC", &*LIBRARY)
        .env("FAKE_PLANT", plant)
        .env_remove("LOOM_UNTESTED")
        .env_remove("FI_HOOK")
        .output()
        .unwrap()
}

#[test]
#[ignore = "a process of the other tests"]
fn walk() {
    for (name, object) in OBJECTS {
        let calls = Walk::WHOLE.run(name, *object);
        assert!(calls > 0, "{name}");
        println!("walked: {name}: {calls} calls");
        for fail_at in 1..=calls {
            for and_later in [false, true] {
                Walk { fail_at, and_later }.run(name, *object);
            }
        }
    }
}

#[test]
fn object_that_fails_to_open_is_closed_once_before_its_parents() {
    let walked = walked("");
    let printed = String::from_utf8_lossy(&walked.stdout);
    assert!(walked.status.success(), "{printed}{}", String::from_utf8_lossy(&walked.stderr));
    let objects = printed.lines().filter(|line| line.starts_with("walked: "));
    assert_eq!(objects.inspect(|line| println!("{line}")).count(), OBJECTS.len());
}

#[test]
fn control_walk_detects_planted_faults() {
    for (plant, found) in [
        ("open queue", "close of a domain before its cq"),
        ("closed by a failure", "close of a closed "),
        ("failed by a bind", " of a failed ep"),
    ] {
        let walked = walked(plant);
        let printed = String::from_utf8_lossy(&walked.stderr);
        assert!(!walked.status.success() && printed.contains(found), "{plant}: {printed}");
    }
}

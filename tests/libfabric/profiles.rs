//! Profiles, each compared with the infos of `fi_getinfo` for every provider on this machine, and
//! with the atomic operations of its domains.

use std::process::Command;

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::eq::{EqAttr, EventQueue};
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{AtomicOp, Caps, Datatype, EndpointType, MsgOrder, Progress, TxAttributes, Version};
use loom_fabric::ofi::{Local, Ofi};
use loom_static::profiles::{
    ALL, AtomicSet, Lnx, Net, Profile, ProfileError, Promise, Shm, Sm2, Sockets, SocketsMsg, Software, Tcp, TcpRdm,
    TcpRxm, Udp, UdpRxd,
};
use support::library_version;

fn all(hints: &Hints<'_>) -> Vec<Info<Ofi<Local>>> {
    match Ofi::<Local>::query(hints) {
        Ok(infos) => infos.collect(),
        Err(error) if error.is_no_match() => Vec::new(),
        Err(error) => panic!("{error:#}"),
    }
}

/// Returns hints with capabilities and orders alone. The first offer for them has to keep the
/// profile too: its bounds are those of the provider, and not of hints that name them. (`shm` of
/// libfabric 2 has a second info for device memory.)
fn capabilities_alone(promise: &Promise) -> Hints<'static> {
    let hints = promise.hints();
    let tx_attr = TxAttributes { msg_order: hints.tx_attr.msg_order, ..TxAttributes::default() };
    let mut domain_attr = hints.domain_attr;
    domain_attr.cq_data_size = 0;
    (domain_attr.control_progress, domain_attr.data_progress) = (Progress::UNSPEC, Progress::UNSPEC);
    Hints { tx_attr, domain_attr, ..hints }
}

/// Returns `true` if libfabric has endpoints of this kind and provider, with any grants.
fn is_here(promise: &Promise) -> bool {
    let mut hints = Hints { provider: Some(promise.name), ..Hints::default() };
    hints.endpoint_attr.kind = promise.endpoint;
    hints.domain_attr.mr_mode = promise.mr_mode;
    !all(&hints).is_empty()
}

/// Returns the number of infos of the provider that keep a promise, or the first difference.
fn compare(promise: &Promise) -> Result<usize, String> {
    let asked = all(&promise.hints());
    let unasked = all(&capabilities_alone(promise));
    if asked.is_empty() || unasked.is_empty() {
        return Err(format!("{}: it is here, and does not grant what its profile asks for", promise.name));
    }
    for info in asked.iter().chain(unasked.first()) {
        promise.check(info).map_err(|error| format!("{info}: {error:#}"))?;
    }
    Ok(asked.len() + 1)
}

#[test]
fn every_profile_holds_for_every_provider_here() {
    let (mut here, mut absent) = (Vec::new(), Vec::new());
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    for promise in ALL {
        if promise.name == Software::NAME {
            promise.check(&network.query(&promise.hints()).expect("it keeps its profile")).unwrap();
            here.push(promise);
        } else if is_here(promise) {
            let infos = compare(promise).unwrap_or_else(|difference| panic!("{difference}"));
            println!("{} ({}): {infos} infos keep the profile", promise.name, promise.endpoint);
            here.push(promise);
        } else {
            absent.push(format!("{} ({})", promise.name, promise.endpoint));
        }
    }
    println!("libfabric {}: {} profiles compared; not here: {}", library_version(), here.len(), absent.join(", "));
    for expected in software_providers() {
        assert!(here.contains(&&expected), "{} ({}) is not here", expected.name, expected.endpoint);
    }
}

/// Providers that require no hardware, and are in every libfabric of the tests.
fn software_providers() -> Vec<Promise> {
    let mut those = vec![
        Promise::of::<Software>(),
        Promise::of::<Shm>(),
        Promise::of::<Tcp>(),
        Promise::of::<TcpRxm>(),
        Promise::of::<Udp>(),
        Promise::of::<UdpRxd>(),
        Promise::of::<Sockets>(),
        Promise::of::<SocketsMsg>(),
    ];
    match library_version() {
        Version { major: 1, minor: 17 } => those.push(Promise::of::<Net>()),
        Version { major: 2, minor: 5 } => those.extend([Promise::of::<TcpRdm>(), Promise::of::<Sm2>()]),
        _ => {}
    }
    those
}

/// Opens an endpoint with a profile, if the provider is installed.
fn open<P: Profile>(opened: &mut Vec<(&'static str, EndpointType)>) {
    let infos = all(&P::hints());
    let Some(info) = infos.first() else { return };
    let domain = Domain::open(info).unwrap();
    let cq = Cq::<_, Vec<u8>>::open(&domain, 8).unwrap();
    let checked = if P::ENDPOINT == EndpointType::MSG {
        let eq = EventQueue::open(&domain, EqAttr::default()).unwrap();
        P::endpoint(cq.msg_endpoint(&eq, info).unwrap()).map(drop).map_err(|refused| refused.error)
    } else {
        let av = Av::open(&domain, 2).unwrap();
        P::endpoint(cq.endpoint(&av).unwrap()).map(drop).map_err(|refused| refused.error)
    };
    checked.unwrap_or_else(|error| panic!("{info}: {error:#}"));
    opened.push((P::NAME, P::ENDPOINT));
}

#[test]
fn endpoints_open_with_their_profiles_and_have_their_atomic_operations() {
    let mut opened = Vec::new();
    open::<Shm>(&mut opened);
    open::<Sm2>(&mut opened);
    open::<Tcp>(&mut opened);
    open::<TcpRdm>(&mut opened);
    open::<TcpRxm>(&mut opened);
    open::<Net>(&mut opened);
    open::<Udp>(&mut opened);
    open::<UdpRxd>(&mut opened);
    open::<Sockets>(&mut opened);
    open::<SocketsMsg>(&mut opened);
    println!("endpoints with a profile: {opened:?}");
    for expected in software_providers().iter().filter(|promise| promise.name != Software::NAME) {
        assert!(opened.contains(&(expected.name, expected.endpoint)), "{}: {opened:?}", expected.name);
    }
}

/// Checks, as a control, that each promise without a grant is found and named.
#[test]
fn a_profile_that_promises_too_much_is_found() {
    type Change = fn(&mut Promise);
    let shm = Promise::of::<Shm>();
    let [info] = &all(&shm.hints())[..1] else { panic!("shm is everywhere") };
    let changes: [(Change, &str); 7] = [
        (|promise| promise.caps |= Caps::NAMED_RX_CTX, "capabilities that are not granted: NAMED_RX_CTX"),
        (|promise| promise.msg_order |= MsgOrder::SAW, "orders that are not granted: SAW"),
        (|promise| promise.inject_size += 1, "injects 4097 bytes"),
        (|promise| promise.cq_data_size = 9, "9 bytes of immediate data"),
        (|promise| promise.data_progress = Progress::AUTO, "data progress is PROGRESS_AUTO"),
        (|promise| promise.mr_mode = Default::default(), "registration modes beyond the profile's: VIRT_ADDR"),
        (|promise| promise.endpoint = EndpointType::MSG, "endpoints of type EP_MSG"),
    ];
    for (change, named) in changes {
        let mut greedy = shm;
        change(&mut greedy);
        let error = greedy.check(info).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error:#}");
    }
    // The comparison above also finds it.
    let greedy = Promise { inject_size: 1 << 20, ..shm };
    assert!(compare(&greedy).unwrap_err().contains("shm"));
    assert!(compare(&shm).is_ok());
}

#[test]
fn an_atomic_operation_too_much_is_found() {
    struct Greedy;
    impl Profile for Greedy {
        const NAME: &'static str = Shm::NAME;
        const ENDPOINT: EndpointType = Shm::ENDPOINT;
        const CAPS: Caps = Shm::CAPS;
        const MR_MODE: loom_core::vocabulary::MrMode = Shm::MR_MODE;
        const ATOMICS: AtomicSet =
            AtomicSet { datatypes: &[Datatype::DOUBLE], base: &[AtomicOp::SUM, AtomicOp::BXOR], ..AtomicSet::NONE };
    }
    let infos = all(&Greedy::hints());
    let domain = Domain::open(&infos[0]).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 8).unwrap());
    let refused = Greedy::endpoint(cq.endpoint(&av).unwrap()).unwrap_err();
    let ProfileError::Atomic { missing } = refused.error else { panic!("{}", refused.error) };
    assert_eq!((missing.datatype, missing.op), (Datatype::DOUBLE, AtomicOp::BXOR));
}

/// Checks `lnx` in a separate process. It exists only if an environment variable names its links,
/// and grants to all queries the request of the first one.
#[test]
fn the_profile_of_linked_providers_holds() {
    const LINKS: &str = "FI_LNX_PROV_LINKS";
    let lnx = Promise::of::<Lnx>();
    if std::env::var_os(LINKS).is_some() {
        println!("{}: {} infos keep the profile", lnx.name, compare(&lnx).unwrap());
        return;
    }
    if library_version() < Version::new(2, 5) {
        println!("skipped: libfabric {} has no `lnx`, or by another name", library_version());
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "profiles::the_profile_of_linked_providers_holds", "--nocapture"])
        .env(LINKS, "shm+tcp")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("lnx: 2 infos keep the profile"), "{text}");
}

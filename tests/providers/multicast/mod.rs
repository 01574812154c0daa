//! Multicast groups over `udp`, between hosts and on one host, if its routes lead to groups. The
//! run is compared with its table in `tests/behaviours`.

mod hosts;
use support::posting;
use support::report::{self, Section};

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use libtest_mimic::Trial;
use loom_alloc::Budget;
use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::completion::Transfer;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::driver::EqDriver;
use loom_core::endpoint::Source;
use loom_core::endpoint::{MulticastEndpoint, MulticastGroup, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::eq::{EqAttr, EqEvent, EventQueue};
use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::scope;
use loom_core::vocabulary::{Caps, EndpointAddr, EndpointAttributes, EndpointType, Errno, OpFlags, TxAttributes};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use loom_static::protocol::MsgSend;

use posting::{LIMIT, post};

type T = Ofi<Local>;

/// A group that no other program uses: of the range for use within an organisation.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 7, 1);

fn hints(caps: Caps) -> Hints<'static> {
    let endpoint_attr = EndpointAttributes { kind: EndpointType::DGRAM, ..EndpointAttributes::default() };
    Hints { caps, provider: Some("udp"), listen: true, endpoint_attr, ..Hints::default() }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at + 7 * seed) % 251).unwrap()).collect()
}

fn info(node: &str, service: Option<&str>) -> Info<T> {
    let hints = Hints { node: Some(node), service, ..hints(Caps::MSG | Caps::MULTICAST | Caps::SOURCE) };
    T::query(&hints).unwrap().next().expect("udp has multicast")
}

struct Side<'q, 'd> {
    domain: &'q Domain<'d, T>,
    cq: &'q Cq<'d, T, Vec<u8>>,
    av: &'q Av<'d, T>,
    eq: &'q EventQueue<'d, T>,
    addresses: RefCell<Vec<EndpointAddr>>,
}

fn with_side(node: &str, service: Option<&str>, test: impl FnOnce(&Side<'_, '_>)) {
    let budget: &Budget<Global> = Box::leak(Box::new(Budget::new(Global, usize::MAX)));
    let domain = Domain::open_in(&info(node, service), budget).unwrap();
    let addresses = play_on(&domain, test);
    drop(domain);
    assert_eq!(budget.blocks(), 0, "something has a handle of the domain");
    are_free(addresses);
}

/// Runs a test, and closes every endpoint afterwards, also forgotten ones.
fn with_side_in_a_scope(node: &str, service: Option<&str>, test: impl FnOnce(&Side<'_, '_>)) {
    are_free(scope(|s| play_on(&s.open(&info(node, service)).unwrap(), test)));
}

fn play_on(domain: &Domain<'_, T>, test: impl FnOnce(&Side<'_, '_>)) -> Vec<EndpointAddr> {
    let av = Av::open(domain, 8).unwrap();
    let eq = EventQueue::open(domain, EqAttr::default()).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(domain, CqAttr::new(64)).unwrap();
    let side = Side { domain, cq: &cq, av: &av, eq: &eq, addresses: RefCell::default() };
    test(&side);
    side.addresses.into_inner()
}

/// Checks that endpoints at these addresses are closed: another endpoint can have them, at the
/// latest when another test with one of them has ended.
fn are_free(addresses: Vec<EndpointAddr>) {
    let deadline = Instant::now() + LIMIT;
    for address in addresses {
        let address = SocketAddr::try_from(&address).unwrap();
        while let Err(error) = UdpSocket::bind(address) {
            assert!(Instant::now() < deadline, "an endpoint at {address} is still open: {error:#}");
        }
    }
}

type Endpoint<'d> = MulticastEndpoint<'d, T, Vec<u8>>;

impl<'d> Side<'_, 'd> {
    fn endpoint(&self) -> Endpoint<'d> {
        let endpoint = self.cq.multicast_endpoint(self.av, self.eq).unwrap();
        self.addresses.borrow_mut().push(endpoint.address().unwrap());
        endpoint
    }

    fn receive(&self, endpoint: &Endpoint<'_>) -> OpKey {
        post(self.cq, vec![0; 1472], |buf| endpoint.recv(Source::Any, buf))
    }

    fn finish(&self, key: OpKey) -> (Vec<u8>, Transfer) {
        let (buf, result) = self.cq.wait(key, Instant::now() + LIMIT).unwrap().expect("in time").into_parts();
        (buf, result.unwrap())
    }

    fn received(&self, key: OpKey) -> Vec<u8> {
        let (mut buf, transfer) = self.finish(key);
        buf.truncate(transfer.len);
        buf
    }

    /// Sends to a group with code that runs over any protocol.
    fn send_to(&self, group: &mut impl MsgSend<To = (), Buf = Vec<u8>>, bytes: Vec<u8>) {
        let until = Instant::now() + LIMIT;
        let sent = group.post(bytes.clone(), until, |group, buf| group.send((), buf)).unwrap();
        let outcome = group.wait(sent, until).unwrap().expect("in time");
        assert!(outcome.result.is_ok() && outcome.buf == bytes);
    }
}

fn join<'d>(endpoint: &Endpoint<'d>, address: &EndpointAddr) -> Result<MulticastGroup<'d, T, Vec<u8>>, Errno> {
    let (mut joining, deadline) = (endpoint.join(address)?, Instant::now() + LIMIT);
    loop {
        match endpoint.eq().poll_for(LIMIT).unwrap() {
            Some(EqEvent::Joined(event)) => match joining.joined(&event) {
                Ok(group) => return Ok(group),
                Err(another) => joining = another,
            },
            Some(other) => panic!("in the group, not {other:?}"),
            None => assert!(Instant::now() < deadline, "no event within {LIMIT:?}"),
        }
    }
}

/// Returns the address of this host on the interface that leads to groups. Without one the case
/// cannot run, and reports so.
fn route_to_groups() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    match socket.connect((GROUP, 9)).and_then(|()| socket.local_addr()) {
        Ok(SocketAddr::V4(local)) => Some(*local.ip()),
        other => {
            report::cannot_run_here(&format!("no route to {GROUP}: {other:?}"));
            None
        }
    }
}

fn group(last: u8, port: u16) -> EndpointAddr {
    let [a, b, c, _] = GROUP.octets();
    SocketAddr::new(Ipv4Addr::new(a, b, c, last).into(), port).into()
}

fn a_message_to_a_group_reaches_its_member_and_names_its_sender() {
    let Some(host) = route_to_groups() else { return };
    with_side(&GROUP.to_string(), None, |there| {
        with_side(&host.to_string(), None, |here| {
            let (member, sender) = (there.endpoint(), here.endpoint());
            let address = member.address().unwrap();
            let peer = there.av.insert(&sender.address().unwrap()).unwrap();
            let _member_of = join(&member, &address).unwrap();
            let mut group = join(&sender, &address).unwrap();
            for (seed, len) in [1, 100, 1472, 0].into_iter().enumerate() {
                let received = there.receive(&member);
                here.send_to(&mut group, bytes(len, seed));
                let (buf, transfer) = there.finish(received);
                assert_eq!(transfer.len, len);
                assert!(buf[..len] == bytes(len, seed), "{len} bytes");
                assert_eq!(transfer.source.and_then(|source| there.av.peer(source)), Some(peer));
            }
            let limit = here.domain.info().attributes().endpoint.max_msg_size;
            let longer = group.send_with(SendOptions::default(), vec![0; limit + 1]).unwrap_err();
            assert_eq!(longer.value.len(), limit + 1, "the buffer comes back: {}", longer.error);
            // Its members are still peers.
            let to_sender = there.av.insert(&sender.address().unwrap()).unwrap();
            let received = here.receive(&sender);
            there.finish(post(there.cq, b"alone".to_vec(), |buf| member.send(to_sender, buf)));
            assert_eq!(here.received(received), b"alone");
        });
    });
}

fn a_join_is_awaited() {
    let Some(host) = route_to_groups() else { return };
    with_side(&GROUP.to_string(), None, |there| {
        with_side(&host.to_string(), None, |here| {
            let (member, sender) = (there.endpoint(), here.endpoint());
            let address = member.address().unwrap();
            let of_member = EqDriver::open(member.eq(), 4).unwrap();
            let of_sender = EqDriver::open(sender.eq(), 4).unwrap();
            let drivers = (&of_member, &of_sender);
            let joins =
                async { futures_util::join!(of_member.join(&member, &address), of_sender.join(&sender, &address)) };
            let (joined, group) = loom_async::block_on(&drivers, joins);
            let (_member_of, mut group) = (joined.unwrap(), group.unwrap());
            let received = there.receive(&member);
            here.send_to(&mut group, bytes(100, 1));
            assert!(there.finish(received).0[..100] == bytes(100, 1));
            // A wait on the driver of another queue would not end, and so it is refused.
            let (other, another) = (there.endpoint(), EventQueue::open(there.domain, EqAttr::default()).unwrap());
            let of_another = EqDriver::open(&another, 4).unwrap();
            let refused = loom_async::block_on(&of_another, of_another.join(&other, &address)).map(drop);
            assert_eq!(refused.unwrap_err().error, OpenError::Unconnected(Errno::EINVAL));
        });
    });
}

fn invalid_joins_are_refused_without_side_effects() {
    let Some(host) = route_to_groups() else { return };
    with_side(&host.to_string(), None, |side| {
        let endpoint = side.endpoint();
        let refused = |address: &EndpointAddr| endpoint.join(address).map(|_| ()).unwrap_err();
        assert_eq!(refused(&endpoint.address().unwrap()), Errno::EINVAL, "one endpoint's address");
        let six: SocketAddr = "[ff15::77]:9".parse().unwrap();
        assert_eq!(refused(&six.into()), Errno::EINVAL, "another format");
        let first = join(&endpoint, &group(1, 9)).unwrap();
        assert_eq!(refused(&group(1, 9)), Errno::EADDRINUSE, "twice");
        assert_eq!(refused(&group(1, 10)), Errno::EADDRINUSE, "the port makes no difference");
        let others: Vec<_> = (2..9).map(|last| join(&endpoint, &group(last, 9)).unwrap()).collect();
        assert_eq!(refused(&group(9, 9)), Errno::ENOBUFS, "more than eight");
        first.leave().unwrap();
        let mut again = join(&endpoint, &group(1, 9)).unwrap();
        drop(others);
        side.send_to(&mut again, b"to nobody else".to_vec());
    });
}

fn an_event_is_taken_by_its_own_join_only() {
    let Some(host) = route_to_groups() else { return };
    with_side(&host.to_string(), None, |side| {
        let endpoint = side.endpoint();
        // Left before its event is read: a later object may have its name.
        for last in 1..5 {
            drop(endpoint.join(&group(last, 9)).unwrap());
        }
        let mut joining = endpoint.join(&group(5, 9)).unwrap();
        for _ in 1..5 {
            let Some(EqEvent::Joined(event)) = side.eq.poll_for(LIMIT).unwrap() else { panic!("an event") };
            joining = joining.joined(&event).expect_err("an earlier one");
        }
        let Some(EqEvent::Joined(event)) = side.eq.poll_for(LIMIT).unwrap() else { panic!("an event") };
        let group = joining.joined(&event).expect("this one");
        assert_eq!(event.group(), group.fid());
        assert!(side.eq.poll().unwrap().is_none());
    });
}

fn forgotten_groups_are_left_with_their_endpoint() {
    let Some(host) = route_to_groups() else { return };
    with_side_in_a_scope(&host.to_string(), None, |side| {
        let endpoint = side.endpoint();
        std::mem::forget(join(&endpoint, &group(1, 9)).unwrap());
        std::mem::forget(endpoint.join(&group(2, 9)).unwrap());
        assert_eq!(endpoint.join(&group(1, 9)).map(|_| ()).unwrap_err(), Errno::EADDRINUSE, "it still is in it");
        let receive = side.receive(&endpoint);
        drop(endpoint);
        assert!(side.cq.wait(receive, Instant::now()).unwrap().is_none(), "a group is a handle of its endpoint");

        let forgotten = side.endpoint();
        std::mem::forget(join(&forgotten, &group(1, 9)).unwrap());
        side.receive(&forgotten);
        std::mem::forget(forgotten);
    });
}

fn multicast_requires_a_grant() {
    let local = |hints: &Hints<'_>| T::query(&Hints { node: Some("127.0.0.1"), ..*hints }).unwrap().next().unwrap();
    let refused = |info: &Info<T>| {
        let domain = Domain::open(info).unwrap();
        let (av, eq) = (Av::open(&domain, 1).unwrap(), EventQueue::open(&domain, EqAttr::default()).unwrap());
        let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(4)).unwrap();
        cq.multicast_endpoint(&av, &eq).map(|_| ()).unwrap_err()
    };
    let not_granted = OpenError::NotGranted(Caps::MULTICAST);
    assert_eq!(refused(&local(&Hints { provider: Some("sockets"), ..hints(Caps::MSG) })), not_granted);
    assert_eq!(refused(&local(&hints(Caps::MSG))), not_granted, "it was not asked for");
    // tests/provider_faults: `udp-endpoint-that-only-sends-cannot-leave`.
    let sends = local(&hints(Caps::MSG | Caps::SEND | Caps::MULTICAST));
    assert!(!sends.caps().contains(Caps::RECV));
    assert_eq!(refused(&sends), OpenError::Errno(Errno::EOPNOTSUPP));
    // Sends to peers would take the provider's value of a peer's address as a pointer.
    let tx_attr = TxAttributes { op_flags: OpFlags::MULTICAST, ..TxAttributes::default() };
    match T::query(&Hints { tx_attr, node: Some("127.0.0.1"), ..hints(Caps::MSG | Caps::MULTICAST) }) {
        Err(error) => assert!(error.is_no_match(), "{error:#}"),
        Ok(infos) => infos.for_each(|info| {
            assert_eq!(Domain::open(&info).map(|_| ()).unwrap_err(), OpenError::OpFlags(OpFlags::MULTICAST));
        }),
    }

    let (domain, other) = (Domain::open(&sends).unwrap(), Domain::open(&sends).unwrap());
    let (av, eq) = (Av::open(&domain, 1).unwrap(), EventQueue::open(&other, EqAttr::default()).unwrap());
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::new(4)).unwrap();
    assert_eq!(cq.multicast_endpoint(&av, &eq).map(|_| ()).unwrap_err(), OpenError::OtherDomain);
}

fn cases() -> report::Cases {
    vec![
        (
            "a_message_to_a_group_reaches_its_member_and_names_its_sender",
            a_message_to_a_group_reaches_its_member_and_names_its_sender,
        ),
        ("a_join_is_awaited", a_join_is_awaited),
        ("invalid_joins_are_refused_without_side_effects", invalid_joins_are_refused_without_side_effects),
        ("an_event_is_taken_by_its_own_join_only", an_event_is_taken_by_its_own_join_only),
        ("forgotten_groups_are_left_with_their_endpoint", forgotten_groups_are_left_with_their_endpoint),
        ("multicast_requires_a_grant", multicast_requires_a_grant),
    ]
}

/// Checks the refusal by an untested provider.
fn multicast_endpoints_are_refused() {
    report::not_granted();
    with_side("127.0.0.1", None, |side| {
        let refused = side.cq.multicast_endpoint(side.av, side.eq).map(drop);
        assert_eq!(refused, Err(OpenError::Errno(Errno::EOPNOTSUPP)));
    });
}

pub(crate) fn section() -> Section {
    const SECTION: &str = "multicast";
    let refused: report::Cases = vec![("multicast_endpoints_are_refused", multicast_endpoints_are_refused)];
    let is_tested = info("127.0.0.1", None).raw().is_tested();
    let mut trials = report::trials(SECTION, "udp", if is_tested { cases() } else { refused });
    if is_tested {
        // These require hosts: `.ci/run multicast`.
        trials.extend(hosts::cases().into_iter().map(|(name, case)| {
            let run = move || {
                case();
                Ok(())
            };
            Trial::test(format!("{SECTION}::hosts::{name}"), run).with_ignored_flag(true)
        }));
    }
    Section { name: SECTION, providers: vec!["udp"], trials }
}

//! Scalable endpoints (`fi_scalable_ep`) over `sockets`, the only provider here with them, and the
//! refusals of the others. The run is compared with its table in `tests/behaviours`.

mod bound;
mod closing;
mod killed;
use support::posting;
use support::report::{self, Section};
use support::shared_memory;

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use loom_core::av::{Av, AvAttr};
use loom_core::buffer::Buffer;
use loom_core::completion::{Completion, OpError, RemoteEvent, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{Contexts, RxContext, ScalableEndpoint, TxContext};
use loom_core::endpoint::{RecvOptions, SendOptions};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::{OpenError, PostError};
use loom_core::info::{Hints, Info};
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::vocabulary::{
    Access, Caps, DomainAttributes, EndpointAttributes, EndpointType, Errno, ImmediateData, Progress, Tag,
};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Level, Local, Ofi, Shared};
use support::library_version;

use posting::{LIMIT, pattern, post};

type T = Ofi<Local>;
type Bytes = Vec<u8>;
type Queue<'d, L = Local> = Cq<'d, Ofi<L>, Bytes>;

/// Length that exceeds the provider's buffers.
const LONG: usize = 1 << 20;

fn caps() -> Caps {
    Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::SOURCE | Caps::DIRECTED_RECV | Caps::NAMED_RX_CTX
}

fn sockets_hints() -> Hints<'static> {
    Hints {
        caps: caps(),
        provider: Some("sockets"),
        node: Some("127.0.0.1"),
        listen: true,
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        ..Hints::default()
    }
}

fn info<L: Level>() -> Info<Ofi<L>> {
    Ofi::<L>::query(&sockets_hints()).unwrap().next().expect("every libfabric has sockets")
}

fn two_of_each() -> Contexts {
    Contexts { tx: 2, rx: 2 }
}

fn end<L: Level, B: Buffer>(cq: &Cq<'_, Ofi<L>, B>, key: OpKey) -> (B, Result<Transfer, OpError>) {
    let deadline = Instant::now() + LIMIT;
    cq.wait(key, deadline).unwrap().expect("it ends in time").into_parts()
}

fn finish<L: Level, B: Buffer>(cq: &Cq<'_, Ofi<L>, B>, key: OpKey) -> (B, Transfer) {
    let (buf, result) = end(cq, key);
    (buf, result.expect("it succeeds"))
}

fn remote_event(cq: &Queue<'_>) -> RemoteEvent {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        match cq.poll().unwrap() {
            Some(Completion::Remote(event)) => return event,
            Some(other) => panic!("a peer's event, not {other:?}"),
            None => {}
        }
    }
    panic!("no event of a peer within {LIMIT:?}");
}

fn exchange<L: Level>(
    tx: &TxContext<'_, Ofi<L>, Bytes>,
    (peer, index): (Peer, u16),
    rx: &RxContext<'_, Ofi<L>, Bytes>,
    len: usize,
    seed: usize,
) -> Transfer {
    let received = post(rx.cq(), vec![0; len], |buf| rx.recv(Source::Any, buf));
    let sent = post(tx.cq(), pattern(len, seed), |buf| tx.send(peer.rx_context(index), buf));
    let (bytes, transfer) = finish(rx.cq(), received);
    assert!(bytes == pattern(len, seed) && transfer.len == len);
    finish(tx.cq(), sent);
    transfer
}

fn messages_arrive_at_the_context_that_they_name_and_nowhere_else() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [Contexts { tx: 2, rx: 1 }, Contexts { tx: 1, rx: 3 }]
        .map(|contexts| ScalableEndpoint::open(&av, &info, contexts).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(64)).unwrap();
    let tx: Vec<_> = (0..2).map(|index| cq.tx_context(&a, index).unwrap()).collect();
    let rx: Vec<_> = (0..3).map(|index| cq.rx_context(&b, index).unwrap()).collect();
    let _its_own = cq.rx_context(&a, 0).unwrap();
    let (from, to) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());

    let wait_in_vain: Vec<_> = rx
        .iter()
        .flat_map(|rx| {
            let tagged = post(cq, vec![0; 64], |buf| rx.tagged_recv(Source::Any, Tag(99), buf));
            [(rx, tagged)]
        })
        .collect();
    for (number, (tx, index)) in tx.iter().flat_map(|tx| (0..3).map(move |index| (tx, index))).enumerate() {
        let (target, there) = (to.rx_context(index), &rx[usize::from(index)]);
        for len in [0, 8, LONG] {
            let transfer = exchange(tx, (to, index), there, len, number);
            assert_eq!(transfer.source.and_then(|source| av.peer(source)), Some(from));
        }
        let tag = Tag(u64::from(index));
        let elsewhere =
            post(cq, vec![0; 64], |buf| rx[(usize::from(index) + 1) % 3].tagged_recv(Source::Any, tag, buf));
        let tagged = post(cq, vec![0; 64], |buf| there.tagged_recv(Source::Peer(from), tag, buf));
        let sent = post(cq, pattern(64, number), |buf| tx.tagged_send_data(target, tag, ImmediateData(7), buf));
        let (bytes, transfer) = finish(cq, tagged);
        assert_eq!((bytes, transfer.tag), (pattern(64, number), Some(tag)));
        finish(cq, sent);
        assert_eq!(cq.in_flight(), wait_in_vain.len() + 1, "nobody else was told");
        rx[(usize::from(index) + 1) % 3].cancel(elsewhere).unwrap();
        assert_eq!(end(cq, elsewhere).1.unwrap_err().errno, Errno::ECANCELED);

        // Copies, and the forms with options.
        let received = post(cq, vec![0; 64], |buf| there.recv_with(Source::Any, RecvOptions::default(), buf));
        tx.inject(target, &pattern(24, 1)).unwrap();
        assert_eq!(finish(cq, received).0[..24], pattern(24, 1));
        let received =
            post(cq, vec![0; 64], |buf| there.tagged_recv_with(Source::Any, tag, RecvOptions::default(), buf));
        tx.tagged_inject(target, tag, &pattern(24, 2)).unwrap();
        assert_eq!(finish(cq, received).0[..24], pattern(24, 2));
        let received = post(cq, vec![0; 64], |buf| there.recv(Source::Any, buf));
        let sent = post(cq, pattern(64, 3), |buf| {
            tx.send_with(target, SendOptions { data: Some(ImmediateData(5)), ..SendOptions::default() }, buf)
        });
        let (bytes, transfer) = finish(cq, received);
        assert_eq!((bytes, transfer.data), (pattern(64, 3), Some(ImmediateData(5))));
        finish(cq, sent);
    }
    for (rx, key) in wait_in_vain {
        rx.cancel(key).unwrap();
        assert_eq!(end(cq, key).1.unwrap_err().errno, Errno::ECANCELED);
        assert_eq!(rx.cancel(key), Err(Errno::ENOENT), "it is over");
    }
    assert_eq!((cq.in_flight(), cq.strays()), (0, 0));
}

fn contexts_of_one_endpoint_are_on_several_queues() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    // Receives and transmits of one queue may use two of the provider's queues.
    let queues =
        [CqAttr::new(16), CqAttr { separate: true, ..CqAttr::new(16) }].map(|attr| Queue::open(&domain, attr).unwrap());
    let tx = [0, 1].map(|index| queues[usize::from(index)].tx_context(&a, index).unwrap());
    let rx = [0, 1].map(|index| queues[usize::from(index)].rx_context(&b, index).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    for (from, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        exchange(&tx[from], (to, index), &rx[usize::from(index)], 300, from);
    }
    assert_eq!(queues.each_ref().map(|cq| (cq.in_flight(), cq.strays())), [(0, 0); 2]);

    // Writes and reads of peers: the queue of the named context reports them.
    let region = Mr::open(&domain, pattern(LONG, 1), Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    for (from, index) in [(0, 1), (1, 0)] {
        let (tx, target, cq) = (&tx[from], to.rx_context(index), &queues[from]);
        let there = &queues[usize::from(index)];
        let data = ImmediateData(70 + u64::from(index));
        let written = post(cq, pattern(LONG / 2, 2 + from), |buf| tx.write_data(target, &remote, 0, data, buf));
        finish(cq, written);
        assert_eq!(remote_event(there).data(), Some(data));
        let part = [remote.part(8, 64).unwrap()];
        let written = post(cq, pattern(64, 9), |buf| tx.write_with(target, &part, SendOptions::default(), buf));
        finish(cq, written);
        let read = post(cq, vec![0; LONG], |buf| tx.read(target, &remote, 0, buf));
        let mut expected = pattern(LONG, 1);
        expected[..LONG / 2].copy_from_slice(&pattern(LONG / 2, 2 + from));
        expected[8..72].copy_from_slice(&pattern(64, 9));
        assert!(finish(cq, read).0 == expected);
        // Its answer is not reported, and the context has to stay open until then.
        assert_eq!(tx.inject_write(target, &remote, 0, b"no"), Err(PostError::Errno(Errno::EOPNOTSUPP)));
        let refused = tx.write(target, &remote, 1, vec![0; LONG]).unwrap_err();
        assert_eq!((refused.error, refused.value.len()), (PostError::OutOfBounds, LONG));
    }
}

fn threads_have_contexts_of_their_own() {
    const THREADS: u16 = 3;
    const ROUNDS: usize = 20;
    let info = &info::<Shared>();
    let domain = &Domain::open(info).unwrap();
    let av = &Av::open(domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    let each = Contexts { tx: THREADS, rx: THREADS };
    let [a, b] = &[(); 2].map(|()| ScalableEndpoint::open(av, info, each).unwrap());
    let to_a = av.insert(&a.address().unwrap()).unwrap();
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    // All contexts are open before the first send, and stay open until the last thread has ended.
    let (opened, done) = (&AtomicU16::new(0), &AtomicU16::new(0));
    let meet = |at: &AtomicU16| {
        let deadline = Instant::now() + LIMIT;
        at.fetch_add(1, Ordering::AcqRel);
        while at.load(Ordering::Acquire) < THREADS {
            assert!(Instant::now() < deadline, "the others come");
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for index in 0..THREADS {
            scope.spawn(move || {
                let cq: &Queue<'_, Shared> = &Cq::open(domain, CqAttr::new(16)).unwrap();
                let (tx_a, tx_b) = (cq.tx_context(a, index).unwrap(), cq.tx_context(b, index).unwrap());
                let (rx_a, rx_b) = (cq.rx_context(a, index).unwrap(), cq.rx_context(b, index).unwrap());
                meet(opened);
                let next = (index + 1) % THREADS;
                for round in 0..ROUNDS {
                    let seed = round * 10 + usize::from(index);
                    let from = round * 10 + usize::from((index + THREADS - 1) % THREADS);
                    let len = if round % 10 == 9 { 1 << 17 } else { 64 };
                    // To the neighbour's context of the other endpoint, both ways.
                    let received = [&rx_a, &rx_b].map(|rx| post(cq, vec![0; len], |buf| rx.recv(Source::Any, buf)));
                    let sent = [(&tx_a, to_b), (&tx_b, to_a)]
                        .map(|(tx, to)| post(cq, pattern(len, seed), |buf| tx.send(to.rx_context(next), buf)));
                    for key in received {
                        assert!(finish(cq, key).0 == pattern(len, from), "round {round} of thread {index}");
                    }
                    for key in sent {
                        finish(cq, key);
                    }
                }
                meet(done);
                assert_eq!((cq.in_flight(), cq.strays()), (0, 0));
            });
        }
    });
}

fn ordinary_endpoints_are_peers_and_so_are_endpoints_with_one_kind_of_context() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    let [sends, receives] = [Contexts { tx: 1, rx: 0 }, Contexts { tx: 0, rx: 1 }]
        .map(|contexts| ScalableEndpoint::open(&av, &info, contexts).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
    let ordinary = cq.endpoint(&av).unwrap();
    let (tx, rx) = (cq.tx_context(&sends, 0).unwrap(), cq.rx_context(&receives, 0).unwrap());
    let to_ordinary = av.insert(&ordinary.address().unwrap()).unwrap();
    let to_contexts = av.insert(&receives.address().unwrap()).unwrap();
    exchange(&tx, (to_contexts, 0), &rx, 64, 1);
    let received = post(cq, vec![0; 64], |buf| ordinary.recv(Source::Any, buf));
    let sent = post(cq, pattern(64, 2), |buf| tx.send(to_ordinary, buf));
    assert_eq!(finish(cq, received).0, pattern(64, 2));
    finish(cq, sent);
    let received = post(cq, vec![0; 64], |buf| rx.recv(Source::Peer(to_ordinary), buf));
    let sent = post(cq, pattern(64, 3), |buf| ordinary.send(to_contexts, buf));
    assert_eq!(finish(cq, received).0, pattern(64, 3));
    finish(cq, sent);
}

fn datagrams_have_contexts_too() {
    let caps = Caps::MSG | Caps::TAGGED | Caps::SOURCE | Caps::NAMED_RX_CTX;
    let endpoint_attr = EndpointAttributes::of(EndpointType::DGRAM);
    let info = T::query(&Hints { caps, endpoint_attr, ..sockets_hints() }).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: AvAttr::MAX_RX_CTX_BITS, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let (from, to) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(16)).unwrap();
    let tx = [0, 1].map(|index| cq.tx_context(&a, index).unwrap());
    let rx = [0, 1].map(|index| cq.rx_context(&b, index).unwrap());
    for (tx, index) in tx.iter().flat_map(|tx| [(tx, 0), (tx, 1)]) {
        let transfer = exchange(tx, (to, index), &rx[usize::from(index)], 300, 1);
        assert_eq!(transfer.source.and_then(|source| av.peer(source)), Some(from));
    }
}

fn buffers_of_a_scope_are_borrowed() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let end_point = ScalableEndpoint::open(&av, &info, two_of_each()).unwrap();
    let to_itself = av.insert(&end_point.address().unwrap()).unwrap();
    let (mut from, mut into) = (pattern(300, 1), vec![0; 300]);
    scope(|s| {
        let cq = Cq::<T, &mut [u8]>::open(&s.domain(&domain), CqAttr::new(16)).unwrap();
        let (tx, rx) = (cq.tx_context(&end_point, 1).unwrap(), cq.rx_context(&end_point, 1).unwrap());
        let received = rx.recv(Source::Any, &mut into).unwrap();
        let sent = tx.send(to_itself.rx_context(1), &mut from).unwrap();
        finish(&cq, received);
        finish(&cq, sent);
        std::mem::forget((tx, rx));
    });
    assert_eq!(into, pattern(300, 1));
}

fn invalid_arguments_are_refused() {
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    assert_eq!(Av::open(&domain, AvAttr { rx_ctx_bits: 9, ..AvAttr::new(4) }).unwrap_err(), OpenError::Size);
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    let without_bits = Av::open(&domain, 4).unwrap();
    let open = |tx, rx| ScalableEndpoint::open(&av, &info, Contexts { tx, rx }).map(drop);
    assert_eq!(open(0, 0), Err(OpenError::Size));
    let limit = info.attributes().domain.max_ep_tx_ctx;
    let beyond = u16::try_from(limit).unwrap() + 1;
    assert_eq!(open(beyond, 1), Err(OpenError::TooManyContexts { limit }));
    assert_eq!(open(1, u16::MAX), Err(OpenError::TooManyContexts { limit: info.attributes().domain.max_ep_rx_ctx }));

    let a = ScalableEndpoint::open(&av, &info, two_of_each()).unwrap();
    let other = ScalableEndpoint::open(&without_bits, &info, two_of_each()).unwrap();
    let itself = av.insert(&a.address().unwrap()).unwrap();
    let other_domain = Domain::open(&info).unwrap();
    let foreign = Queue::open(&other_domain, CqAttr::new(4)).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr { endpoints: 4, ..CqAttr::new(4) }).unwrap();
    let (tx, rx) = (cq.tx_context(&a, 0).unwrap(), cq.rx_context(&a, 1).unwrap());
    for index in [2, 63, 64, u16::MAX] {
        assert_eq!(cq.tx_context(&a, index).unwrap_err(), OpenError::Errno(Errno::EINVAL));
        assert_eq!(cq.rx_context(&a, index).unwrap_err(), OpenError::Errno(Errno::EINVAL));
    }
    assert_eq!(cq.tx_context(&a, 0).unwrap_err(), OpenError::Errno(Errno::EBUSY));
    assert_eq!(cq.rx_context(&a, 1).unwrap_err(), OpenError::Errno(Errno::EBUSY));
    assert_eq!(foreign.tx_context(&a, 1).map(drop), Err(OpenError::OtherDomain));

    // Two bits are four contexts, and no bits are one.
    for index in [4, 255, u16::MAX] {
        let refused = tx.send(itself.rx_context(index), vec![1; 8]).unwrap_err();
        assert_eq!((refused.error, refused.value), (PostError::BeyondContexts { limit: 4 }, vec![1; 8]));
    }
    let tx_without = cq.tx_context(&other, 0).unwrap();
    let peer = without_bits.insert(&a.address().unwrap()).unwrap();
    assert_eq!(tx_without.inject(peer.rx_context(1), b"no"), Err(PostError::BeyondContexts { limit: 1 }));
    av.remove(itself);
    assert_eq!(tx.inject(itself, b"no"), Err(PostError::UnknownPeer));
    let fourth = cq.rx_context(&other, 0).unwrap();
    assert_eq!(cq.rx_context(&other, 1).unwrap_err(), OpenError::TooManyEndpoints);
    drop((tx, rx, tx_without, fourth));

    // Contexts of peers have no names if that is not granted.
    let hints = Hints { caps: Caps::MSG, ..sockets_hints() };
    let plain = T::query(&hints).unwrap().next().unwrap();
    assert!(!plain.caps().contains(Caps::NAMED_RX_CTX));
    let b = ScalableEndpoint::open(&av, &plain, two_of_each()).unwrap();
    let peer = av.insert(&b.address().unwrap()).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(4)).unwrap();
    let tx = cq.tx_context(&b, 0).unwrap();
    assert_eq!(tx.inject(peer.rx_context(1), b"no"), Err(PostError::NotGranted(Caps::NAMED_RX_CTX)));
}

/// Checks the refusal of manual progress: `sockets` still drives closed contexts.
fn manual_progress_is_refused() {
    let domain_attr = DomainAttributes { data_progress: Progress::MANUAL, ..DomainAttributes::default() };
    let manual = T::query(&Hints { domain_attr, ..sockets_hints() }).unwrap().next().unwrap();
    let domain = Domain::open(&manual).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    // Progress of the domain, whichever info is used.
    for info in [&manual, &info::<Local>()] {
        let refused = ScalableEndpoint::open(&av, info, two_of_each()).unwrap_err();
        assert_eq!(refused, OpenError::Errno(Errno::EOPNOTSUPP));
    }
}

fn other_providers_refuse_scalable_endpoints() {
    shared_memory::remove_at_exit();
    let either = if library_version().major < 2 { "net" } else { "tcp" };
    for provider in ["shm", "tcp;ofi_rxm", "udp;ofi_rxd", either] {
        let node = (provider != "shm").then_some("127.0.0.1");
        let endpoint_attr = EndpointAttributes::of(EndpointType::RDM);
        let hints = Hints {
            caps: Caps::MSG,
            provider: Some(provider),
            node,
            endpoint_attr,
            listen: node.is_some(),
            ..Hints::default()
        };
        let info = T::query(&hints).unwrap().next().unwrap_or_else(|| panic!("no {provider}"));
        let domain = Domain::open(&info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let open = |contexts| ScalableEndpoint::open(&av, &info, contexts).unwrap_err();
        assert_eq!(open(two_of_each()), OpenError::TooManyContexts { limit: 1 }, "{provider}");
        // The provider has no contexts, or none that a test has shown.
        let refused = open(Contexts { tx: 1, rx: 1 });
        let errnos = [Errno::ENOSYS, Errno::EOPNOTSUPP].map(OpenError::Errno);
        assert!(errnos.contains(&refused), "{provider}: {refused:?}");
    }
}

/// Checks the refusal by an untested provider.
fn scalable_endpoints_are_refused() {
    report::not_granted();
    let info = info::<Local>();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 2, ..AvAttr::new(4) }).unwrap();
    let refused = ScalableEndpoint::open(&av, &info, two_of_each()).map(drop);
    assert_eq!(refused, Err(OpenError::Errno(Errno::EOPNOTSUPP)));
}

fn cases() -> report::Cases {
    vec![
        (
            "messages_arrive_at_the_context_that_they_name_and_nowhere_else",
            messages_arrive_at_the_context_that_they_name_and_nowhere_else,
        ),
        ("contexts_of_one_endpoint_are_on_several_queues", contexts_of_one_endpoint_are_on_several_queues),
        ("threads_have_contexts_of_their_own", threads_have_contexts_of_their_own),
        (
            "ordinary_endpoints_are_peers_and_so_are_endpoints_with_one_kind_of_context",
            ordinary_endpoints_are_peers_and_so_are_endpoints_with_one_kind_of_context,
        ),
        ("datagrams_have_contexts_too", datagrams_have_contexts_too),
        ("buffers_of_a_scope_are_borrowed", buffers_of_a_scope_are_borrowed),
        ("invalid_arguments_are_refused", invalid_arguments_are_refused),
        ("manual_progress_is_refused", manual_progress_is_refused),
        ("other_providers_refuse_scalable_endpoints", other_providers_refuse_scalable_endpoints),
    ]
}

/// Plays the role in a process that a case has started.
pub(crate) fn plays() -> bool {
    std::env::var(killed::ROLE).is_ok_and(|role| {
        killed::play(&role);
        true
    })
}

pub(crate) fn section() -> Section {
    const SECTION: &str = "scalable";
    let refused: report::Cases = vec![("scalable_endpoints_are_refused", scalable_endpoints_are_refused)];
    let is_tested = info::<Local>().raw().is_tested();
    let all = || [cases(), bound::cases(), closing::cases(), killed::cases()].concat();
    let trials = report::trials(SECTION, "sockets", if is_tested { all() } else { refused });
    Section { name: SECTION, providers: vec!["sockets"], trials }
}

//! Raw functions of the transport over the providers of this machine, with a comparison of every
//! byte.
//!
//! Run with `--nocapture` to see the reports of each provider for each kind of operation.

mod adopted;
mod formats;
mod loopback;
#[cfg(all(libfabric_has_poll_open, libfabric_has_wait_open))]
mod sets;
use support::shared_memory;

use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use loom_core::buffer::Lent;
use loom_core::info::{Hints, Info};
use loom_core::transport::{
    AddressVectors, Bindings, Closing, CompletionQueues, Context, Endpoints, Event, Fabrics, InFlight, MemoryRegions,
    Messages, Refusal, RegionAttr, Rma, RmaTarget,
};
use loom_core::vocabulary::{
    Access, Attributes, Caps, CompletionFlags, EndpointAttributes, EndpointType, Errno, Excerpt, FabricAddr,
    ImmediateData, MemoryKey, MrMode, RemoteAddr, Tag, TagMatch, WaitObj,
};
use loom_fabric::ofi::{Level, Local, Ofi, QueryError, Shared, TextField};
use support::library_version;

const LIMIT: Duration = Duration::from_secs(60);
const DEPTH: usize = 64;

/// Provider, and the node that its endpoints listen on.
const PROVIDERS: &[(&str, Option<&str>)] = &[
    ("shm", None),
    ("tcp;ofi_rxm", Some("127.0.0.1")),
    ("tcp", Some("127.0.0.1")),
    ("net", Some("127.0.0.1")),
    ("sockets", Some("127.0.0.1")),
    ("udp;ofi_rxd", Some("127.0.0.1")),
];

type Raw<L> = Ofi<L>;

struct Side<L: Level> {
    cq: <Raw<L> as CompletionQueues>::Cq,
    endpoint: <Raw<L> as Endpoints>::Endpoint,
    memory: NonNull<u8>,
}

struct Pair<L: Level> {
    attributes: Attributes,
    fabric: <Raw<L> as Fabrics>::Fabric,
    domain: <Raw<L> as Fabrics>::Domain,
    av: <Raw<L> as AddressVectors>::Av,
    a: Side<L>,
    b: Side<L>,
    to_a: FabricAddr,
    to_b: FabricAddr,
}

fn layout<L: Level>() -> Layout {
    Raw::<L>::cq_layout(DEPTH)
}

impl<L: Level> Side<L> {
    fn open(
        domain: &<Raw<L> as Fabrics>::Domain,
        info: &Info<Raw<L>>,
        av: &<Raw<L> as AddressVectors>::Av,
        with_source: bool,
    ) -> Self {
        shared_memory::remove_at_exit();
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { std::alloc::alloc(layout::<L>()) }).unwrap();
        // SAFETY: an open domain. Memory of the right layout.
        let cq = unsafe { Raw::<L>::cq_open(domain, DEPTH, with_source, WaitObj::NONE, memory) }.unwrap();
        let bind = Bindings { tx: &cq, rx: &cq, av, counters: &[], selective: false, options: &[] };
        // SAFETY: everything is open and of one domain.
        let endpoint = unsafe { Raw::<L>::endpoint_open(domain, info.raw(), bind) }.unwrap();
        Side { cq, endpoint, memory }
    }

    fn poll(&self) -> Option<Event> {
        // SAFETY: the queue is open.
        match unsafe { Raw::<L>::cq_poll(&self.cq) } {
            // SAFETY: as above.
            Err(Errno::EAVAIL) => unsafe { Raw::<L>::cq_read_error(&self.cq) }.unwrap(),
            event => event.unwrap(),
        }
    }

    fn close_endpoint(&self) -> Closing {
        // SAFETY: open or retired, and used no more.
        unsafe { Raw::<L>::endpoint_close(&self.endpoint, InFlight::NOTHING) }.unwrap()
    }

    fn close_queue(self) {
        // SAFETY: open, its endpoint is closed, and used no more.
        unsafe { Raw::<L>::cq_close(&self.cq) }.unwrap();
        // SAFETY: the queue is closed. The layout is that of the allocation.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), layout::<L>()) };
    }
}

impl<L: Level> Pair<L> {
    fn open(info: &Info<Raw<L>>) -> Self {
        let attributes = *info.attributes();
        assert!(Raw::<L>::serves_threading(&attributes), "granted {}", attributes.domain.threading);
        let with_source = attributes.caps.contains(Caps::SOURCE);
        // SAFETY: no demands.
        let fabric = unsafe { Raw::<L>::fabric_open(info.raw()) }.unwrap();
        // SAFETY: the fabric is open.
        let domain = unsafe { Raw::<L>::domain_open(&fabric, info.raw(), NonNull::dangling()) }.unwrap();
        // SAFETY: the domain is open.
        let av = unsafe { Raw::<L>::av_open(&domain, 8, 0) }.unwrap();
        let a = Side::open(&domain, info, &av, with_source);
        let b = Side::open(&domain, info, &av, with_source);
        let insert = |side: &Side<L>| {
            // SAFETY: the endpoint is open.
            let address = unsafe { Raw::<L>::endpoint_address(&side.endpoint) }.unwrap();
            // SAFETY: the vector is open.
            let peer = unsafe { Raw::<L>::av_insert(&av, &address) }.unwrap();
            // SAFETY: just inserted.
            let back = unsafe { Raw::<L>::av_lookup(&av, peer) };
            println!("  address {address} is {peer:?}; looked up: {back:?}");
            peer
        };
        let (to_a, to_b) = (insert(&a), insert(&b));
        assert_ne!(to_a, to_b);
        Pair { attributes, fabric, domain, av, a, b, to_a, to_b }
    }

    fn post(&self, mut post: impl FnMut() -> Result<(), Refusal>) {
        let end = Instant::now() + LIMIT;
        loop {
            match post() {
                Ok(()) => return,
                Err(Refusal::Again) => {
                    assert!(self.a.poll().is_none() && self.b.poll().is_none(), "an event while nothing is posted");
                }
                Err(refusal) => panic!("refused: {refusal:?}"),
            }
            assert!(Instant::now() < end, "still refused");
        }
    }

    fn events(&self, what: &str, of_a: usize, of_b: usize) -> (Vec<Event>, Vec<Event>) {
        let end = Instant::now() + LIMIT;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        while a.len() < of_a || b.len() < of_b {
            a.extend(self.a.poll());
            b.extend(self.b.poll());
            assert!(Instant::now() < end, "{what}: {} of {of_a} and {} of {of_b} events", a.len(), b.len());
        }
        assert_eq!((a.len(), b.len()), (of_a, of_b), "{what}: more events than posts");
        for (side, events) in [("sender", &a), ("receiver", &b)] {
            for event in events {
                println!(
                    "  {what}, {side}: context {:#x}, flags {}, len {}, tag {}, data {:?}, source {:?}, errno {}, own \
                     {}, overflow {}",
                    event.context,
                    event.flags,
                    event.len,
                    event.tag,
                    event.data,
                    event.source,
                    event.errno,
                    event.provider_errno,
                    event.overflow_or_place
                );
            }
        }
        (a, b)
    }

    fn close(self) {
        // Over shm, one may have to wait for the other, and both for those of other tests, which
        // they outlive.
        let first = self.a.close_endpoint();
        let b = self.b.close_endpoint();
        let a = if first == Closing::Closed { first } else { self.a.close_endpoint() };
        if (a, b) != (Closing::Closed, Closing::Closed) {
            return;
        }
        self.a.close_queue();
        self.b.close_queue();
        // SAFETY: open, the endpoints are closed, and used no more.
        unsafe { Raw::<L>::av_close(&self.av) }.unwrap();
        // SAFETY: open, without children, and used no more.
        unsafe { Raw::<L>::domain_close(&self.domain) }.unwrap();
        // SAFETY: open, without children, and used no more.
        unsafe { Raw::<L>::fabric_close(&self.fabric) }.unwrap();
    }
}

/// Bytes that differ from their neighbours and from message to message.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap().wrapping_mul(7).wrapping_add(seed)).collect()
}

fn source(bytes: &[u8]) -> Lent {
    Lent::source(NonNull::from_ref(bytes).cast(), bytes.len())
}

fn target(bytes: &mut [u8]) -> Lent {
    Lent::both(NonNull::from_mut(bytes).cast(), bytes.len())
}

/// Returns a context like those of the op table.
fn word(index: u64) -> Context {
    Context::word(7 << 32 | index)
}

fn one(events: &[Event], context: Context) -> Event {
    assert_eq!(events[0].context, context.addr());
    assert!(!events[0].is_error(), "{:?}", events[0]);
    events[0]
}

fn tagged<L: Level>(pair: &Pair<L>, len: usize) {
    let sent = pattern(3, len);
    let mut room = vec![0; len + 10];
    let into = target(&mut room);
    let from = source(&sent);
    let tag = Tag(0x1234_5678_9abc);
    // SAFETY: memory outlives the events that are waited for. The peers are in the vector, and
    // words are no pointers.
    pair.post(|| unsafe {
        Raw::<L>::recv(&pair.b.endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(tag)), word(1))
    });
    // SAFETY: as above.
    pair.post(|| unsafe { Raw::<L>::send(&pair.a.endpoint, pair.to_b, &from, Some(tag), None, word(2)) });
    let (a, b) = pair.events("tagged", 1, 1);
    one(&a, word(2));
    let received = one(&b, word(1));
    assert_eq!((received.len, received.tag), (len, tag));
    assert!(received.flags.contains(CompletionFlags::TAGGED | CompletionFlags::RECV));
    assert_eq!(&room[..len], sent);
    assert!(room[len..].iter().all(|byte| *byte == 0));
    if pair.attributes.caps.contains(Caps::SOURCE) {
        assert_eq!(received.source, pair.to_a);
    }
}

fn with_data<L: Level>(pair: &Pair<L>) {
    let (sent, data) = (pattern(5, 100), ImmediateData(0xfeed_0001));
    let mut room = vec![0; 100];
    let (into, from) = (target(&mut room), source(&sent));
    let directed = if pair.attributes.caps.contains(Caps::DIRECTED_RECV) { pair.to_a } else { FabricAddr::UNSPEC };
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::recv(&pair.b.endpoint, directed, &into, None, word(3)) });
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::send(&pair.a.endpoint, pair.to_b, &from, None, Some(data), word(4)) });
    let (a, b) = pair.events("send with data", 1, 1);
    one(&a, word(4));
    let received = one(&b, word(3));
    assert!(received.flags.contains(CompletionFlags::MSG | CompletionFlags::RECV | CompletionFlags::REMOTE_CQ_DATA));
    assert_eq!((received.len, received.data), (100, data));
    assert_eq!(room, sent);
}

fn injected<L: Level>(pair: &Pair<L>) {
    let mut sent = pattern(9, 16);
    let mut room = vec![0; 16];
    let into = target(&mut room);
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe {
        Raw::<L>::recv(&pair.b.endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(Tag(5))), word(5))
    });
    let data = Some(ImmediateData(0x77));
    // SAFETY: shorter than any `inject_size`.
    pair.post(|| unsafe { Raw::<L>::inject(&pair.a.endpoint, pair.to_b, &sent, Some(Tag(5)), data) });
    let expected = sent.clone();
    sent.fill(0);
    let (_, b) = pair.events("tagged inject with data", 0, 1);
    assert_eq!(one(&b, word(5)).data, ImmediateData(0x77));
    assert_eq!(room, expected);
    while let Some(event) = pair.a.poll() {
        println!("  tagged inject: the sender has an event all the same: {event:?}");
    }
}

fn rma<L: Level>(pair: &Pair<L>) {
    let mut window = vec![0; 4096];
    let memory = target(&mut window);
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    // SAFETY: the window outlives the region.
    let region = unsafe {
        Raw::<L>::mr_open(&pair.domain, &memory, RegionAttr { access, key: MemoryKey(42), ..Default::default() })
    }
    .unwrap();
    let key = Raw::<L>::mr_key(&region);
    let by_address = pair.attributes.domain.mr_mode.intersects(MrMode::VIRT_ADDR | MrMode::BASIC);
    let base = if by_address { memory.ptr.as_ptr().addr() as u64 } else { 0 };
    println!("  region: key {key:?}, descriptor {:#x}, base {base:#x}", Raw::<L>::mr_descriptor(&region));
    let at = |offset: u64| RmaTarget { to: pair.to_b, addr: RemoteAddr(base + offset), key };

    let sent = pattern(11, 1000);
    let from = source(&sent);
    let data = ImmediateData(0xabcd);
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::write(&pair.a.endpoint, at(96), &from, Some(data), word(6)) });
    let (a, b) = pair.events("write with data", 1, 1);
    one(&a, word(6));
    assert_eq!(b[0].data, data);
    assert!(b[0].flags.contains(CompletionFlags::REMOTE_CQ_DATA));
    // SAFETY: the write is complete, and no other one to the window is in flight.
    let written = unsafe { std::slice::from_raw_parts(memory.ptr.as_ptr(), 4096) };
    assert_eq!(&written[96..1096], sent);
    assert!(written[..96].iter().chain(&written[1096..]).all(|byte| *byte == 0));

    let mut back = vec![0; 500];
    let into = target(&mut back);
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::read(&pair.a.endpoint, at(196), &into, word(7)) });
    let (a, _) = pair.events("read", 1, 0);
    one(&a, word(7));
    assert_eq!(back, sent[100..600]);

    // SAFETY: shorter than any `inject_size`.
    pair.post(|| unsafe { Raw::<L>::inject_write(&pair.a.endpoint, at(2000), &sent[..8], Some(data)) });
    let (_, b) = pair.events("inject write with data", 0, 1);
    assert_eq!(b[0].data, data);
    while let Some(event) = pair.a.poll() {
        println!("  inject write: the sender has an event all the same: {event:?}");
    }
    // SAFETY: as above.
    assert_eq!(unsafe { std::slice::from_raw_parts(memory.ptr.as_ptr(), 4096) }[2000..2008], sent[..8]);
    // SAFETY: open, and used no more.
    unsafe { Raw::<L>::mr_close(&region) }.unwrap();
}

fn cancelled<L: Level>(pair: &Pair<L>) {
    let mut room = vec![0; 8];
    let into = target(&mut room);
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe {
        Raw::<L>::recv(&pair.b.endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(Tag(99))), word(8))
    });
    // SAFETY: the endpoint is open.
    let result = unsafe { Raw::<L>::cancel(&pair.b.endpoint, word(8)) };
    println!("  cancel returns {result:?}");
    let (_, b) = pair.events("cancelled receive", 0, 1);
    assert_eq!((b[0].context, b[0].errno), (word(8).addr(), Errno::ECANCELED));
    // SAFETY: the endpoint is open.
    println!("  cancel of a context never posted returns {:?}", unsafe {
        Raw::<L>::cancel(&pair.b.endpoint, word(1000))
    });
    let mut text = [0; 64];
    // SAFETY: the queue is open.
    let len = unsafe { Raw::<L>::cq_error_text(&pair.b.cq, b[0].provider_errno, &mut text) };
    println!("  the provider's words: {:?}", String::from_utf8_lossy(&text[..len]));
    assert!(len > 0 && len <= text.len());
}

/// Checks that bytes beyond the receive buffer are unchanged after a longer message.
///
/// `sockets` reports `ETRUNC`. Receives of the other providers end with a piece that is never read:
/// the provider reports the length of the message, and the operation table compares it with the
/// length of the buffer. `truncated.rs` of the behaviours has the other results of such messages.
fn truncated<L: Level>(pair: &Pair<L>) {
    let sent = pattern(13, 64);
    let mut room = [0xee; 64];
    let (into, from) = (target(&mut room[..16]), source(&sent));
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::recv(&pair.b.endpoint, FabricAddr::UNSPEC, &into, None, word(9)) });
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::send(&pair.a.endpoint, pair.to_b, &from, None, None, word(10)) });
    let (a, b) = pair.events("truncated", 1, 1);
    assert_eq!((a[0].context, b[0].context), (word(10).addr(), word(9).addr()));
    assert!(b[0].errno == Errno::ETRUNC || (!b[0].is_error() && b[0].len == 64), "{:?}", b[0]);
    assert!(room[16..].iter().all(|byte| *byte == 0xee));
}

/// Writes with an unknown key. The reports differ: an error, an error without a context (shm 1.17),
/// or success, because success only means that the buffer was taken.
fn refused_by_key<L: Level>(pair: &Pair<L>) {
    let sent = pattern(17, 8);
    let from = source(&sent);
    let target = RmaTarget { to: pair.to_b, addr: RemoteAddr(0), key: MemoryKey(0x0bad) };
    // SAFETY: as in `tagged`.
    pair.post(|| unsafe { Raw::<L>::write(&pair.a.endpoint, target, &from, None, word(11)) });
    let end = Instant::now() + Duration::from_millis(300);
    while Instant::now() < end {
        for (side, event) in [("writer", pair.a.poll()), ("target", pair.b.poll())] {
            if let Some(event) = event {
                println!("  write with a wrong key, {side}: {event:?}");
                assert!([0, word(11).addr()].contains(&event.context));
            }
        }
    }
}

/// Runs all operations over one provider. Returns `false` if it is not on this machine.
fn exercise<L: Level>(provider: &str, node: Option<&str>, more: Caps) -> bool {
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA | more,
        provider: Some(provider),
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        node,
        listen: node.is_some(),
        ..Hints::default()
    };
    let mut infos = match Ofi::<L>::query(&hints) {
        Ok(infos) => infos,
        Err(error) if error.is_no_match() => {
            println!("{provider} with {more}: none");
            return false;
        }
        Err(error) => panic!("{provider}: {error:#}"),
    };
    println!("{provider} with {more}: {infos:?}, libfabric {}", library_version());
    let info = infos.next().unwrap();
    assert_eq!(info.provider(), provider);
    let copy = info.clone();
    drop((infos, info));
    let attributes = *copy.attributes();
    println!(
        "  caps {}\n  mode {}, mr_mode {}, threading {}, inject {}, source address {:?}",
        copy.caps(),
        attributes.mode,
        attributes.domain.mr_mode,
        attributes.domain.threading,
        attributes.tx.inject_size,
        copy.source_address()
    );
    assert!(copy.caps().contains(hints.caps));
    let pair = Pair::<L>::open(&copy);
    tagged(&pair, 64);
    tagged(&pair, 100_000);
    with_data(&pair);
    injected(&pair);
    rma(&pair);
    cancelled(&pair);
    assert!(pair.a.poll().is_none() && pair.b.poll().is_none());
    pair.close();
    for misuse in [truncated, refused_by_key] {
        let pair = Pair::<L>::open(&copy);
        tagged(&pair, 64);
        misuse(&pair);
        pair.close();
    }
    true
}

fn every_provider<L: Level>() {
    let mut ran = Vec::new();
    for (provider, node) in PROVIDERS {
        // `ofi_rxd` has directed receives, without reliable sources.
        for more in [Caps::empty(), Caps::DIRECTED_RECV, Caps::SOURCE | Caps::DIRECTED_RECV] {
            if exercise::<L>(provider, *node, more) {
                ran.push((*provider, more));
            }
        }
    }
    println!("ran over {ran:?}");
    assert!(!ran.is_empty(), "no provider was exercised");
}

#[test]
fn bytes_move_on_one_thread() {
    every_provider::<Local>();
}

#[test]
fn bytes_move_at_the_shared_level() {
    every_provider::<Shared>();
}

#[test]
fn names_are_exact() {
    let query = |provider| Ofi::<Local>::query(&Hints { provider: Some(provider), ..Hints::default() });
    for provider in ["tcp", "TCP", "shm"] {
        if let Ok(infos) = query(provider) {
            assert!(infos.len() > 0);
            for info in infos {
                assert!(info.provider().eq_ignore_ascii_case(provider), "{provider} gave {info}");
            }
        }
    }
    for wrong in ["no such provider", "sh", "^shm", "ofi_rxm"] {
        assert!(query(wrong).unwrap_err().is_no_match(), "{wrong}");
    }
    for info in Ofi::<Local>::query(&Hints::default()).unwrap() {
        let hints = Hints {
            provider: Some(info.provider()),
            fabric: Some(info.fabric()),
            domain: Some(info.domain()),
            endpoint_attr: EndpointAttributes::of(info.attributes().endpoint.kind),
            ..Hints::default()
        };
        for same in Ofi::<Local>::query(&hints).unwrap() {
            assert_eq!((same.fabric(), same.domain()), (info.fabric(), info.domain()));
        }
        let elsewhere = Hints { domain: Some("no such domain"), ..hints };
        let name = Excerpt::of("no such domain");
        let unknown = QueryError::Unknown { field: TextField::Domain, name, listen: false };
        assert_eq!(Ofi::<Local>::query(&elsewhere).unwrap_err(), unknown);
    }
}

#[test]
fn texts_that_c_cannot_take_are_refused() {
    let long = "x".repeat(256);
    let query = |hints: &Hints<'_>| Ofi::<Shared>::query(hints).unwrap_err();
    assert_eq!(
        query(&Hints { node: Some(&long), ..Hints::default() }),
        QueryError::TooLong { field: TextField::Node, max: 255 }
    );
    assert_eq!(
        query(&Hints { provider: Some("sh\0m"), ..Hints::default() }),
        QueryError::InteriorNul(TextField::Provider)
    );
    assert_eq!(query(&Hints { listen: true, ..Hints::default() }), QueryError::NothingToListenOn);
}

#[test]
fn an_address_of_another_kind_is_refused() {
    let hints =
        Hints { provider: Some("shm"), endpoint_attr: EndpointAttributes::of(EndpointType::RDM), ..Hints::default() };
    let Some(info) = Ofi::<Local>::query(&hints).ok().and_then(|mut infos| infos.next()) else {
        println!("no shm here");
        return;
    };
    let pair = Pair::<Local>::open(&info);
    let elsewhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    // SAFETY: the vector is open.
    let refused = unsafe { Raw::<Local>::av_insert(&pair.av, &elsewhere.into()) };
    assert_eq!(refused.unwrap_err(), Errno::EINVAL);
    pair.close();
}

#[test]
fn operations_without_a_requested_capability_are_refused() {
    use loom_core::error::PostError;
    use loom_core::{av::Av, cq::Cq, cq::CqAttr, domain::Domain, mr::RemoteRegion};

    let caps = Caps::MSG | Caps::RECV | Caps::RMA | Caps::REMOTE_WRITE;
    let hints =
        Hints { provider: Some("tcp;ofi_rxm"), node: Some("127.0.0.1"), listen: true, caps, ..Hints::default() };
    let info = Ofi::<Local>::query(&hints).unwrap().next().expect("tcp;ofi_rxm");
    println!("granted: {}", info.caps());
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(4)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let itself = av.insert(&endpoint.address().unwrap()).unwrap();
    let region = RemoteRegion {
        base: RemoteAddr(0),
        len: 8,
        key: MemoryKey(1),
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
    };
    let refused = |caps| PostError::NotGranted(caps);
    let write = endpoint.write(itself, &region, 0, vec![0; 8].into()).unwrap_err();
    assert_eq!((write.error, write.value.len()), (refused(Caps::WRITE), 8));
    assert_eq!(endpoint.read(itself, &region, 0, vec![0; 8].into()).unwrap_err().error, refused(Caps::READ));
    assert_eq!(endpoint.send(itself, vec![0; 8].into()).unwrap_err().error, refused(Caps::SEND));
    assert_eq!(endpoint.inject(itself, &[0]).unwrap_err(), refused(Caps::SEND));
    let tagged = endpoint.tagged_send(itself, Tag(0), vec![0; 8].into()).unwrap_err();
    assert_eq!(tagged.error, refused(Caps::TAGGED | Caps::SEND));
}

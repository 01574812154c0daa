//! Endpoints of `loom-fabric-tcp` with those of libfabric's provider `net` (1.17) or `tcp` (from
//! 1.18 on), in both directions. Each trial transfers data and compares it.

use libtest_mimic::{Failed, Trial};
use loom_core::transport::{Connected, Transport};
use loom_core::vocabulary::{EndpointAttributes, EndpointType, Version};
use loom_core::{
    Access, Av, Caps, CompletionLevel, Cq, CqAttr, Deadline, Domain, Driving, Endpoint, EqAttr, EqEvent, Errno,
    EventQueue, Hints, ImmediateData, Info, Mr, MsgEndpoint, OpKey, Peer, SendOptions, Source, Tag, TagMatch, ThePeer,
};
use loom_fabric::ofi::{Local, Ofi};
use loom_tcp::{Tcp, TcpAttr};
use support::alone::is_alone_with;
use support::behaviours::pair::{Bytes, limit, pattern, room};
use support::library_version;

const SIZES: [usize; 8] = [0, 1, 64, 128, 4_000, 32_768, 100_000, 1 << 20];
const LONG: usize = 64 << 20;
const MANY: u16 = 64;

struct Side<T: Transport + 'static> {
    domain: Domain<'static, T>,
    av: Av<'static, T>,
    cq: Cq<'static, T, Bytes>,
    endpoint: Endpoint<'static, T, Bytes>,
}

impl<T: Transport + 'static> Side<T> {
    fn open(info: &Info<T>) -> Result<Self, Failed> {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 4)?, Cq::open(&domain, 64)?);
        let endpoint = cq.endpoint(&av)?;
        Ok(Side { domain, av, cq, endpoint })
    }

    fn knows<U: Transport>(&self, other: &Side<U>) -> Result<Peer, Failed> {
        Ok(self.av.insert(&other.endpoint.address()?)?)
    }

    /// Waits for an operation, and drives the other side.
    fn finish<U: Transport>(&self, other: &Side<U>, key: OpKey) -> Result<(Bytes, loom_core::Transfer), Failed> {
        let drive = || other.cq.progress();
        let done = self.cq.finish(key, Driving::new(limit(), drive))?;
        Ok(done.into_result().map_err(|failed| format!("{failed:?}"))?)
    }

    fn post<U: Transport>(
        &self,
        other: &Side<U>,
        buf: Bytes,
        post: impl FnMut(Bytes) -> Result<OpKey, loom_core::Rejected<Bytes>>,
    ) -> Result<OpKey, Failed> {
        Ok(self.cq.post(buf, Driving::new(limit(), || other.cq.progress()), post)?)
    }
}

fn messages<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    for (seed, len) in SIZES.into_iter().chain([LONG]).enumerate() {
        let received = to.endpoint.recv(Source::Any, room(len))?;
        let sent = from.post(to, pattern(len, seed), |buf| from.endpoint.send(peer, buf))?;
        let (buf, transfer) = to.finish(from, received)?;
        assert!(buf == pattern(len, seed), "{len} bytes");
        assert_eq!(transfer.len, len);
        from.finish(to, sent)?;
        if len == LONG {
            break;
        }
        // With acknowledgement, and with immediate data.
        let options = SendOptions {
            data: Some(ImmediateData(0x0123_4567_89ab_cdef)),
            level: Some(CompletionLevel::Delivery),
            ..SendOptions::default()
        };
        let received = to.endpoint.recv(Source::Any, room(len))?;
        let sent = from.post(to, pattern(len, seed + 100), |buf| from.endpoint.send_with(peer, options, buf))?;
        from.finish(to, sent)?;
        let (buf, transfer) = to.finish(from, received)?;
        assert!(buf == pattern(len, seed + 100), "{len} bytes");
        assert_eq!(transfer.data, options.data);
    }
    Ok(())
}

fn bursts<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    for burst in 0..50 {
        let posted: Result<Vec<_>, _> = (0..16).map(|_| to.endpoint.recv(Source::Any, room(200))).collect();
        let mut sent = Vec::new();
        for message in 0..16 {
            let (len, seed) = (message * 11 % 200, burst * 16 + message);
            match message % 3 {
                0 => {
                    let retry = Driving::new(limit(), || to.cq.progress());
                    let bytes = pattern(len.min(64), seed);
                    from.cq.retry(retry, || from.endpoint.inject(peer, &bytes))?;
                }
                _ => sent.push(from.post(to, pattern(len, seed), |buf| from.endpoint.send(peer, buf))?),
            }
        }
        for (message, received) in posted?.into_iter().enumerate() {
            let (buf, transfer) = to.finish(from, received)?;
            let (len, seed) = (message * 11 % 200, burst * 16 + message);
            let len = if message % 3 == 0 { len.min(64) } else { len };
            assert!(transfer.len == len && buf[..len] == pattern(len, seed)[..], "message {message} of burst {burst}");
        }
        for key in sent {
            from.finish(to, key)?;
        }
    }
    Ok(())
}

fn tagged_messages<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    let long = *SIZES.last().expect("sizes");
    let received = to.endpoint.tagged_recv(Source::Any, Tag(1), room(long))?;
    let sent = from.post(to, pattern(long, 1), |buf| from.endpoint.tagged_send(peer, Tag(1), buf))?;
    assert!(to.finish(from, received)?.0 == pattern(long, 1));
    from.finish(to, sent)?;
    // Provider `net` keeps unexpected messages of at most 128 bytes.
    let most = if library_version() < Version::new(2, 0) { 128 } else { 100_000 };
    for (seed, len) in SIZES.into_iter().filter(|len| *len <= most).enumerate() {
        // The second message is received first, by a masked receive.
        let sent = [0x700, 0x842].map(|tag| {
            from.post(to, pattern(len, seed + tag), |buf| from.endpoint.tagged_send(peer, Tag(tag as u64), buf))
        });
        let mask = TagMatch { tag: Tag(0x800), ignore: 0xff };
        let masked = to.post(from, room(len), |buf| to.endpoint.tagged_recv(Source::Any, mask, buf))?;
        let (buf, transfer) = to.finish(from, masked)?;
        assert!(buf == pattern(len, seed + 0x842), "{len} bytes");
        assert_eq!(transfer.tag, Some(Tag(0x842)));
        let exact = to.post(from, room(len), |buf| to.endpoint.tagged_recv(Source::Any, Tag(0x700), buf))?;
        let (buf, _) = to.finish(from, exact)?;
        assert!(buf == pattern(len, seed + 0x700), "{len} bytes");
        for key in sent {
            from.finish(to, key?)?;
        }
    }
    Ok(())
}

fn remote_memory<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    for (seed, len) in SIZES.into_iter().enumerate().filter(|(_, len)| *len > 0) {
        let memory = Mr::open(&to.domain, room(len + 16), access)?;
        let remote = memory.remote();
        let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
        let parts =
            [remote.part(8, len / 2).expect("within"), remote.part(8 + len as u64 / 2, len - len / 2).expect("within")];
        let written = from.post(to, pattern(len, seed), |buf| from.endpoint.write_with(peer, &parts, options, buf))?;
        from.finish(to, written)?;
        let mut bytes = room(len + 16);
        memory.window().copy_to(0, &mut bytes)?;
        assert!(bytes[..8] == room(8)[..] && bytes[8..8 + len] == pattern(len, seed)[..], "{len} bytes");
        let read = from.post(to, room(len), |buf| from.endpoint.read(peer, &remote, 8, buf))?;
        let (buf, transfer) = from.finish(to, read)?;
        assert!(buf == pattern(len, seed), "{len} bytes");
        assert_eq!(transfer.len, len);
        // Immediate data announces the bytes.
        let data = ImmediateData(seed as u64 + 1);
        let written =
            from.post(to, pattern(len, seed + 100), |buf| from.endpoint.write_data(peer, &remote, 8, data, buf))?;
        let mut until = limit();
        let event = loop {
            from.cq.progress()?;
            match to.cq.poll()? {
                Some(loom_core::Completion::Remote(event)) => break event,
                Some(other) => return Err(format!("{other:?}").into()),
                None => assert!(!Deadline::passed(&mut until), "the event arrives"),
            }
        };
        assert_eq!(event.data(), Some(data));
        memory.window().copy_to(0, &mut bytes)?;
        assert!(bytes[8..8 + len] == pattern(len, seed + 100)[..], "{len} bytes");
        from.finish(to, written)?;
    }
    Ok(())
}

fn wrong_keys<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    let memory = Mr::open(&to.domain, room(64), Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    let mut forged = memory.remote();
    forged.key.0 ^= 0x4000_0000;
    let read = from.post(to, room(8), |buf| from.endpoint.read(peer, &forged, 0, buf))?;
    let done = from.cq.finish(read, Driving::new(limit(), || to.cq.progress()))?;
    let (_, result) = done.into_parts();
    assert!(result.is_err(), "{result:?}");
    // The next operation opens another connection.
    let received = to.endpoint.recv(Source::Any, room(8))?;
    let sent = from.post(to, pattern(8, 1), |buf| from.endpoint.send(peer, buf))?;
    let (buf, _) = to.finish(from, received)?;
    assert!(buf == pattern(8, 1));
    from.finish(to, sent)?;
    Ok(())
}

fn truncated<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    let received = to.endpoint.recv(Source::Any, room(10))?;
    let sent = from.post(to, pattern(5_000, 1), |buf| from.endpoint.send(peer, buf))?;
    let done = to.cq.finish(received, Driving::new(limit(), || from.cq.progress()))?;
    let (buf, result) = done.into_parts();
    assert_eq!(result.map_err(|failed| failed.errno).err(), Some(Errno::ETRUNC));
    assert!(buf[..] == pattern(5_000, 1)[..10]);
    let _ = from.cq.finish(sent, Driving::new(limit(), || to.cq.progress()))?;
    Ok(())
}

/// As many clients as `MANY` send to one server at once.
fn many_clients<A: Transport, B: Transport + 'static>(server: &Side<A>, clients: &Info<B>) -> Result<(), Failed> {
    let domain = Domain::open(clients)?;
    let (av, cq) = (Av::open(&domain, 4)?, Cq::open(&domain, CqAttr { endpoints: MANY, ..CqAttr::new(256) })?);
    let to = av.insert(&server.endpoint.address()?)?;
    let clients: Vec<Endpoint<'_, B, Bytes>> = (0..MANY).map(|_| cq.endpoint(&av)).collect::<Result<_, _>>()?;
    let tag = |number: usize| Tag(number as u64);
    let received: Vec<_> = (0..clients.len())
        .map(|number| server.endpoint.tagged_recv(Source::Any, tag(number), room(5_000)))
        .collect::<Result<_, _>>()?;
    let sent: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let drive = Driving::new(limit(), || server.cq.progress());
            cq.post(pattern(5_000, number), drive, |buf| client.tagged_send(to, tag(number), buf))
        })
        .collect::<Result<_, _>>()?;
    for (number, key) in received.into_iter().enumerate() {
        let done = server.cq.finish(key, Driving::new(limit(), || cq.progress()))?;
        assert!(done.into_result().map_err(|failed| format!("{failed:?}"))?.0 == pattern(5_000, number), "{number}");
    }
    for key in sent {
        cq.finish(key, Driving::new(limit(), || server.cq.progress()))?
            .into_result()
            .map_err(|failed| format!("{failed:?}"))?;
    }
    Ok(())
}

fn for_many() -> Result<Info<Tcp>, Failed> {
    Ok(loom_tcp::query(&Hints::default(), TcpAttr { endpoints: MANY, connections: MANY, ..TcpAttr::DEFAULT })?)
}

fn both_at_once<A: Transport, B: Transport>(a: &Side<A>, b: &Side<B>) -> Result<(), Failed> {
    let (to_b, to_a) = (a.knows(b)?, b.knows(a)?);
    let received = (a.endpoint.recv(Source::Any, room(100))?, b.endpoint.recv(Source::Any, room(100))?);
    // Both open a connection before either has polled.
    let mut sent = (None, None);
    let mut until = limit();
    while sent.0.is_none() || sent.1.is_none() {
        assert!(!Deadline::passed(&mut until), "both are posted");
        if sent.0.is_none() {
            sent.0 = a.endpoint.send(to_b, pattern(100, 1)).ok();
        }
        if sent.1.is_none() {
            sent.1 = b.endpoint.send(to_a, pattern(100, 2)).ok();
        }
        a.cq.progress()?;
        b.cq.progress()?;
    }
    assert!(a.finish(b, received.0)?.0 == pattern(100, 2));
    assert!(b.finish(a, received.1)?.0 == pattern(100, 1));
    Ok(())
}

struct ConnectedSide<T: Connected + 'static> {
    domain: Domain<'static, T>,
    eq: EventQueue<'static, T>,
    cq: Cq<'static, T, Bytes>,
    info: Info<T>,
}

type Established<T> = MsgEndpoint<'static, T, Bytes>;

impl<T: Connected + 'static> ConnectedSide<T> {
    fn open(info: Info<T>) -> Result<Self, Failed> {
        let domain = Domain::open(&info)?;
        let (eq, cq) = (EventQueue::open(&domain, EqAttr::default())?, Cq::open(&domain, 64)?);
        Ok(ConnectedSide { domain, eq, cq, info })
    }

    fn finish<U: Connected>(
        &self,
        other: &ConnectedSide<U>,
        key: OpKey,
    ) -> Result<(Bytes, loom_core::Transfer), Failed> {
        let done = self.cq.finish(key, Driving::new(limit(), || other.cq.progress()))?;
        Ok(done.into_result().map_err(|failed| format!("{failed:?}"))?)
    }

    fn post<U: Connected>(
        &self,
        other: &ConnectedSide<U>,
        buf: Bytes,
        post: impl FnMut(Bytes) -> Result<OpKey, loom_core::Rejected<Bytes>>,
    ) -> Result<OpKey, Failed> {
        Ok(self.cq.post(buf, Driving::new(limit(), || other.cq.progress()), post)?)
    }
}

fn connect<A: Connected, B: Connected>(
    server: &ConnectedSide<A>,
    client: &ConnectedSide<B>,
) -> Result<(Established<A>, Established<B>), Failed> {
    let listener = server.eq.listen(&server.info)?;
    let endpoint = client.cq.msg_endpoint(&client.eq, &client.info)?;
    let connecting = endpoint.connect(&listener.address()?, b"please").map_err(|refused| refused.error)?;
    let (mut accepting, mut connecting, mut ends) = (None, Some(connecting), (None, None));
    let mut until = limit();
    while ends.0.is_none() || ends.1.is_none() {
        assert!(!Deadline::passed(&mut until), "connected");
        server.cq.progress()?;
        client.cq.progress()?;
        match server.eq.poll()? {
            Some(EqEvent::Request(request)) => {
                assert_eq!(request.data[..6], *b"please");
                let endpoint = request.endpoint(&server.cq, &server.eq)?;
                accepting = Some(endpoint.accept(b"welcome").map_err(|refused| refused.error)?);
            }
            Some(EqEvent::Connected(event)) => {
                ends.0 = accepting.take().and_then(|accepting| accepting.established(&event).ok());
            }
            Some(_) => return Err("another event".into()),
            None => {}
        }
        match client.eq.poll()? {
            Some(EqEvent::Connected(event)) => {
                let answer = connecting.as_ref().map(|connecting| connecting.answer(&event).starts_with(b"welcome"));
                assert_eq!(answer, Some(true));
                ends.1 = connecting.take().and_then(|connecting| connecting.established(&event).ok());
            }
            Some(_) => return Err("another event".into()),
            None => {}
        }
    }
    match ends {
        (Some(server), Some(client)) => Ok((server, client)),
        _ => Err("not connected".into()),
    }
}

fn over_connections<A: Connected, B: Connected>(
    server: &ConnectedSide<A>,
    client: &ConnectedSide<B>,
) -> Result<(), Failed> {
    let (there, here) = connect(server, client)?;
    for (seed, len) in SIZES.into_iter().chain([LONG]).enumerate() {
        let received = there.recv(ThePeer, room(len))?;
        let sent = client.post(server, pattern(len, seed), |buf| here.send(ThePeer, buf))?;
        assert!(server.finish(client, received)?.0 == pattern(len, seed), "{len} bytes");
        client.finish(server, sent)?;
        let received = here.recv(ThePeer, room(len))?;
        let options = SendOptions {
            data: Some(ImmediateData(0x0123_4567_89ab_cdef)),
            level: Some(CompletionLevel::Delivery),
            ..SendOptions::default()
        };
        let sent = server.post(client, pattern(len, seed + 1), |buf| there.send_with(ThePeer, options, buf))?;
        server.finish(client, sent)?;
        let (buf, transfer) = client.finish(server, received)?;
        assert!(buf == pattern(len, seed + 1), "{len} bytes");
        assert_eq!(transfer.data, options.data);
    }
    for (seed, len) in [0, 1, 64].into_iter().enumerate() {
        let received = there.recv(ThePeer, room(len))?;
        let retry = Driving::new(limit(), || server.cq.progress());
        client.cq.retry(retry, || here.inject(ThePeer, &pattern(len, seed)))?;
        assert!(server.finish(client, received)?.0 == pattern(len, seed), "{len} bytes");
    }
    let memory = Mr::open(&server.domain, room(100_000), Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    let remote = memory.remote();
    let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    let parts = [remote.part(8, 40_000).expect("within"), remote.part(40_008, 50_000).expect("within")];
    let written = client.post(server, pattern(90_000, 3), |buf| here.write_with(ThePeer, &parts, options, buf))?;
    client.finish(server, written)?;
    let read = client.post(server, room(90_000), |buf| here.read(ThePeer, &remote, 8, buf))?;
    assert!(client.finish(server, read)?.0 == pattern(90_000, 3));
    // The end of one side reaches the other one.
    drop(here);
    let mut until = limit();
    loop {
        assert!(!Deadline::passed(&mut until), "the end is reported");
        client.cq.progress()?;
        server.cq.progress()?;
        match server.eq.poll()? {
            Some(EqEvent::Shutdown(event)) => break assert!(event.is_of(&there)),
            Some(_) => return Err("another event".into()),
            None => {}
        }
    }
    Ok(())
}

fn rejections<A: Connected, B: Connected>(server: &ConnectedSide<A>, client: &ConnectedSide<B>) -> Result<(), Failed> {
    let listener = server.eq.listen(&server.info)?;
    let endpoint = client.cq.msg_endpoint(&client.eq, &client.info)?;
    let connecting = endpoint.connect(&listener.address()?, b"please").map_err(|refused| refused.error)?;
    let mut until = limit();
    loop {
        assert!(!Deadline::passed(&mut until), "the rejection is reported");
        if let Some(EqEvent::Request(request)) = server.eq.poll()? {
            request.reject(b"no").map_err(|refused| refused.error)?;
        }
        match client.eq.poll()? {
            Some(EqEvent::Failed(failure)) => {
                assert_eq!((failure.fault.object, failure.fault.errno), (connecting.id().fid, Errno::ECONNREFUSED));
                assert_eq!(failure.data[..2], *b"no");
                return Ok(());
            }
            Some(_) => return Err("another event".into()),
            None => {}
        }
    }
}

fn with_connections(provider: Option<&str>) -> Hints<'_> {
    Hints {
        caps: Caps::MSG | Caps::RMA,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider,
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    }
}

fn connected_ofi(provider: &str) -> Result<ConnectedSide<Ofi<Local>>, Failed> {
    let info = Ofi::<Local>::query(&with_connections(Some(provider)))?.next().ok_or("no such provider")?;
    ConnectedSide::open(info)
}

fn connected_tcp() -> Result<ConnectedSide<loom_tcp::Tcp>, Failed> {
    ConnectedSide::open(loom_tcp::query(&with_connections(None), TcpAttr::DEFAULT)?)
}

/// Providers with connections on the wire of `tcp`.
fn connected_providers() -> &'static [&'static str] {
    if library_version().major < 2 { &["tcp", "net"] } else { &["tcp"] }
}

fn ofi() -> Result<Info<Ofi<Local>>, Failed> {
    let provider = if library_version().major < 2 { "net" } else { "tcp" };
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA,
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        ..Hints::local(provider)
    };
    let missing = || format!("libfabric {} has no {provider}", library_version());
    Ok(Ofi::<Local>::query(&hints)?.next().ok_or_else(missing)?)
}

fn tcp() -> Result<Info<loom_tcp::Tcp>, Failed> {
    Ok(loom_tcp::query(&Hints::default(), TcpAttr::DEFAULT)?)
}

/// Long tagged messages on request (rendezvous), which libfabric does not send by default.
fn rendezvous<A: Transport, B: Transport>(from: &Side<A>, to: &Side<B>) -> Result<(), Failed> {
    let peer = from.knows(to)?;
    to.knows(from)?;
    for (seed, len) in [17_000, 100_000, 1 << 20].into_iter().enumerate() {
        for level in [CompletionLevel::Transmit, CompletionLevel::Delivery] {
            let options = SendOptions { data: Some(ImmediateData(11)), level: Some(level), ..SendOptions::default() };
            let send = |tag| {
                from.post(to, pattern(len, seed), |buf| from.endpoint.tagged_send_with(peer, Tag(tag), options, buf))
            };
            // Before its receive: the bytes wait, and a short message passes them.
            let long = send(1)?;
            let short = from.post(to, pattern(64, 2), |buf| from.endpoint.tagged_send(peer, Tag(2), buf))?;
            let received = to.endpoint.tagged_recv(Source::Any, Tag(2), room(64))?;
            assert!(to.finish(from, received)?.0 == pattern(64, 2));
            from.finish(to, short)?;
            for _ in 0..100 {
                from.cq.progress()?;
                to.cq.progress()?;
            }
            assert_eq!(from.cq.has_succeeded(long)?, None, "{len} bytes are sent on request");
            // And after a receive.
            for (number, sent) in [Some(long), None].into_iter().enumerate() {
                let received = to.endpoint.tagged_recv(Source::Any, Tag(1), room(len))?;
                let sent = sent.map_or_else(|| send(1), Ok)?;
                let (bytes, transfer) = to.finish(from, received)?;
                assert!(bytes == pattern(len, seed), "{len} bytes, {number}");
                assert_eq!((transfer.len, transfer.data), (len, options.data));
                from.finish(to, sent)?;
            }
        }
    }
    Ok(())
}

/// Trial of rendezvous in a process in which libfabric sends them, too.
fn rendezvous_trial(name: &'static str, run: fn() -> Result<(), Failed>) -> Trial {
    let name = format!("tcp_with_libfabric::{name}");
    let test = name.clone();
    Trial::test(name, move || {
        let variables = [("FI_TCP_MAX_SAVED_SIZE", "16384")];
        if is_alone_with(&test, &variables) { run() } else { Ok(()) }
    })
}

fn announcing() -> Result<Side<Tcp>, Failed> {
    let hints = Hints { node: Some("127.0.0.1"), listen: true, ..Hints::default() };
    Side::open(&loom_tcp::query(&hints, TcpAttr { rendezvous_size: 16_384, ..TcpAttr::DEFAULT })?)
}

pub(crate) fn trials() -> Vec<Trial> {
    macro_rules! both_ways {
        ($($case:ident),*) => {
            [$(
                Trial::test(concat!("tcp_with_libfabric::", stringify!($case), "_to_libfabric"), || {
                    let (tcp, ofi) = (Side::open(&tcp()?)?, Side::open(&ofi()?)?);
                    $case(&tcp, &ofi)
                }),
                Trial::test(concat!("tcp_with_libfabric::", stringify!($case), "_from_libfabric"), || {
                    let (tcp, ofi) = (Side::open(&tcp()?)?, Side::open(&ofi()?)?);
                    $case(&ofi, &tcp)
                }),
            )*]
        };
    }
    let mut trials: Vec<_> =
        both_ways!(messages, bursts, tagged_messages, remote_memory, wrong_keys, truncated, both_at_once).into();
    trials.extend([
        Trial::test("tcp_with_libfabric::many_clients_to_libfabric", || {
            many_clients(&Side::open(&ofi()?)?, &for_many()?)
        }),
        Trial::test("tcp_with_libfabric::many_clients_from_libfabric", || {
            many_clients(&Side::open(&for_many()?)?, &ofi()?)
        }),
    ]);
    if library_version().major >= 2 {
        trials.extend([
            rendezvous_trial("rendezvous_to_libfabric", || rendezvous(&announcing()?, &Side::open(&ofi()?)?)),
            rendezvous_trial("rendezvous_from_libfabric", || rendezvous(&Side::open(&ofi()?)?, &announcing()?)),
        ]);
    }
    for provider in connected_providers() {
        let name = |what: &str| format!("tcp_with_libfabric::connections_{provider}::{what}");
        trials.extend([
            Trial::test(name("to_libfabric"), || over_connections(&connected_ofi(provider)?, &connected_tcp()?)),
            Trial::test(name("from_libfabric"), || over_connections(&connected_tcp()?, &connected_ofi(provider)?)),
            Trial::test(name("rejected_by_libfabric"), || rejections(&connected_ofi(provider)?, &connected_tcp()?)),
            Trial::test(name("rejected_by_tcp"), || rejections(&connected_tcp()?, &connected_ofi(provider)?)),
        ]);
    }
    trials
}

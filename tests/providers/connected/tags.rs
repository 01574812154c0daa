//! Tagged messages over connections of plain ones (`loom_tagged`), over every provider of
//! connections, with or without tags.

use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::completion::{OpError, Transfer};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{MsgEndpoint, ThePeer};
use loom_core::eq::{EqAttr, EqEvent, EventQueue, PassiveEndpoint};
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::vocabulary::{EndpointAddr, Errno, ImmediateData, Tag, TagMatch};
use loom_tagged::{LinkError, LinkId, Packet, Source, TaggedAttr, TaggedEndpoint, TaggedEvent, TaggedKey, Violation};

use super::Case;
use super::sides::{Bytes, LIMIT, T, client_info, pattern, room};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("tags_over_plain_messages_match", tags_over_plain_messages_match),
        ("a_flood_of_tags_over_plain_messages_is_held_back", a_flood_is_held_back),
        ("a_peer_of_tags_over_plain_messages_goes", a_peer_goes),
        ("a_peer_of_tags_over_plain_messages_sends_junk", a_peer_sends_junk),
    ]
}

type Connection<'d, B> = MsgEndpoint<'d, T, B>;
type Layer<'d> = TaggedEndpoint<Connection<'d, Packet<Bytes>>, Bytes, Global>;

/// Attributes with small packets, so that a long message takes many.
const ATTR: TaggedAttr =
    TaggedAttr { links: 2, packet_size: 1024, messages: 8, control: 8, sends: 8, ..TaggedAttr::DEFAULT };
const FITS: usize = ATTR.eager_size();

fn packets() -> impl Iterator<Item = Bytes> {
    (0..ATTR.packets_per_link()).map(|_| room(ATTR.packet_size as usize))
}

/// Factor that reduces transfers over `sockets`: on few processors its threads take milliseconds
/// per message.
fn slowness(info: &Info<T>) -> usize {
    if info.provider() == "sockets" { 25 } else { 1 }
}

/// Objects that open connections.
struct Place<'p, 'd> {
    server: &'p EventQueue<'d, T>,
    client: &'p EventQueue<'d, T>,
    _listener: PassiveEndpoint<'d, T>,
    address: EndpointAddr,
    info: Info<T>,
}

fn with_place(info: &Info<T>, test: impl for<'d> FnOnce(&Domain<'d, T>, &Place<'_, 'd>)) {
    let domain = Domain::open(info).expect("domain");
    let [server, client] = [(), ()].map(|()| EventQueue::open(&domain, EqAttr::default()).expect("event queue"));
    let listener = server.listen(info).expect("listens");
    let address = listener.address().expect("the listener's address");
    let info = client_info(info, &address);
    test(&domain, &Place { server: &server, client: &client, _listener: listener, address, info });
}

impl<'d> Place<'_, 'd> {
    /// Returns the next event of one queue, while both make progress.
    fn event(&self, of: &EventQueue<'d, T>) -> EqEvent<'d, T> {
        let other = if std::ptr::eq(of, self.server) { self.client } else { self.server };
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(event) = of.poll().expect("the event queue works") {
                return event;
            }
            if let Some(event) = other.poll().expect("the other event queue works") {
                panic!("the other side has {event:?}");
            }
        }
        panic!("no event within {LIMIT:?}");
    }

    fn connect<P: loom_core::buffer::Buffer, B: loom_core::buffer::Buffer>(
        &self,
        servers: &Cq<'d, T, P>,
        clients: &Cq<'d, T, B>,
    ) -> (Connection<'d, P>, Connection<'d, B>) {
        let idle = clients.msg_endpoint(self.client, &self.info).expect("a client's endpoint");
        let connecting = idle.connect(&self.address, b"tags").expect("asks for a connection");
        let request = loop {
            match self.event(self.server) {
                // The bytes of a stranger can look like a request.
                EqEvent::Request(request) if *request.data == *b"tags" => break request,
                EqEvent::Request(_) => {}
                other => panic!("a request, not {other:?}"),
            }
        };
        let accepting = request.endpoint(servers, self.server).expect("an endpoint").accept(&[]).expect("accepts");
        let (mut connecting, mut accepting) = (Some(connecting), Some(accepting));
        let (mut client, mut server) = (None, None);
        let deadline = Instant::now() + LIMIT;
        while client.is_none() || server.is_none() {
            assert!(Instant::now() < deadline, "not connected within {LIMIT:?}");
            if let Some(EqEvent::Connected(event)) = self.client.poll().expect("works") {
                client = connecting.take().and_then(|connecting| connecting.established(&event).ok());
            }
            if let Some(EqEvent::Connected(event)) = self.server.poll().expect("works") {
                server = accepting.take().and_then(|accepting| accepting.established(&event).ok());
            }
        }
        (server.expect("a server"), client.expect("a client"))
    }
}

fn queue<'d>(domain: &Domain<'d, T>) -> Cq<'d, T, Packet<Bytes>> {
    Cq::<T, Packet<Bytes>>::open(domain, CqAttr { endpoints: 4, ..CqAttr::new(64) }).expect("queue")
}

/// Waits for an operation of the first layer, while the others continue.
fn end<'d>(layers: &mut [&mut Layer<'d>], key: TaggedKey) -> (Bytes, Result<Transfer, OpError>) {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        for layer in layers.iter_mut() {
            layer.progress().expect("the queue works");
        }
        if let Some(done) = layers[0].wait(key, Instant::now()).expect("the queue works") {
            return done.into_parts();
        }
    }
    panic!("it does not end within {LIMIT:?}");
}

fn greet(a: &mut Layer<'_>, b: &mut Layer<'_>, links: [LinkId; 2]) {
    let deadline = Instant::now() + LIMIT;
    while !a.is_up(links[0]) || !b.is_up(links[1]) {
        assert!(Instant::now() < deadline, "no greeting within {LIMIT:?}");
        a.progress().expect("works");
        b.progress().expect("works");
    }
}

fn send(from: &mut Layer<'_>, to: &mut Layer<'_>, link: LinkId, tag: u64, mut buf: Bytes) -> TaggedKey {
    let deadline = Instant::now() + LIMIT;
    loop {
        match from.tagged_send_data(link, Tag(tag), ImmediateData(tag + 1), buf) {
            Ok(key) => return key,
            Err(rejected) => {
                assert!(rejected.error.is_transient() && Instant::now() < deadline, "{}", rejected.error);
                buf = rejected.value;
                from.progress().expect("works");
                to.progress().expect("works");
            }
        }
    }
}

fn with_pair(info: &Info<T>, test: impl for<'d> FnOnce(&mut Layer<'d>, &mut Layer<'d>, LinkId)) {
    with_place(info, |domain, place| {
        let (servers, clients) = (queue(domain), queue(domain));
        let (server, client) = place.connect(&servers, &clients);
        let mut a = TaggedEndpoint::open(servers.clone(), ATTR).expect("an endpoint");
        let mut b = TaggedEndpoint::open(clients.clone(), ATTR).expect("an endpoint");
        let links = [a.add_link(server, packets()), b.add_link(client, packets())].map(|link| link.expect("a link"));
        assert_eq!(links[0], links[1]);
        greet(&mut a, &mut b, links);
        test(&mut a, &mut b, links[0]);
        assert_eq!((a.waiting(), b.waiting()), (0, 0));
    });
}

fn tags_over_plain_messages_match(info: &Info<T>) {
    with_pair(info, |a, b, link| {
        let long = (1 << 20) / slowness(info);
        for (seed, len) in [0, 1, FITS - 1, FITS, FITS + 1, 3 * FITS, long].into_iter().enumerate() {
            for expected in [true, false] {
                let want = TagMatch { tag: Tag(0x50), ignore: 0xf };
                let before = expected.then(|| b.tagged_recv(Source::Any, want, room(len)).expect("posts"));
                // The younger one, with another tag, and the same way back.
                let sent = send(a, b, link, 0x57, pattern(len, seed));
                let other = send(a, b, link, 0x60, pattern(7, seed));
                let received = b.tagged_recv(link, Tag(0x60), room(7)).expect("posts");
                assert_eq!(end(&mut [b, a], received).0, pattern(7, seed));
                let received = before.unwrap_or_else(|| {
                    assert_eq!(b.tagged_peek(link, want).expect("it is here").len, len as u64);
                    b.tagged_recv(link, want, room(len)).expect("posts")
                });
                let (bytes, result) = end(&mut [b, a], received);
                let transfer = result.expect("it arrives");
                assert_eq!((transfer.len, transfer.tag), (len, Some(Tag(0x57))));
                assert_eq!(transfer.data, Some(ImmediateData(0x58)));
                assert!(bytes == pattern(len, seed), "a message of {len} bytes");
                for key in [sent, other] {
                    end(&mut [a, b], key).1.expect("it was sent");
                }
            }
        }
        // Messages that are too long, and then one that is cancelled.
        for (len, fits) in [(FITS, 10), (20_000, 19_000), (long, 0)] {
            let sent = send(a, b, link, 1, pattern(len, 3));
            let received = b.tagged_recv(Source::Any, Tag(1), room(fits)).expect("posts");
            let (bytes, result) = end(&mut [b, a], received);
            let error = result.expect_err("it is too long");
            assert_eq!((error.errno, error.len, error.overflow), (Errno::ETRUNC, Some(fits), Some(len - fits)));
            assert!(bytes[..] == pattern(len, 3)[..fits]);
            end(&mut [a, b], sent).1.expect("the sender is not told");
        }
        let sent = send(a, b, link, 2, pattern(100_000, 4));
        a.cancel(sent).expect("it is in flight");
        let (bytes, result) = end(&mut [a, b], sent);
        assert_eq!(result.expect_err("nobody has asked for it").errno, Errno::ECANCELED);
        assert!(bytes == pattern(100_000, 4));
    });
}

fn a_flood_is_held_back(info: &Info<T>) {
    let messages = 2000 / slowness(info);
    let len = |nth: usize| [8, FITS, 5000, 0, 70, 20_000][nth % 6];
    with_pair(info, |a, b, link| {
        let (mut sent, mut refused) = (0, 0);
        let deadline = Instant::now() + LIMIT;
        // Fills the available memory, and then is refused.
        while b.waiting() < ATTR.messages as usize || refused < 200 {
            assert!(Instant::now() < deadline, "{sent} messages were sent, and {} came", b.waiting());
            match a.tagged_send(link, Tag(0), pattern(len(sent), sent)) {
                Ok(_) => (sent, refused) = (sent + 1, 0),
                Err(rejected) => {
                    assert_eq!(rejected.error, PostError::Again);
                    refused += 1;
                }
            }
            a.progress().expect("works");
            b.progress().expect("works");
        }
        assert_eq!((sent, b.waiting()), (ATTR.messages as usize, ATTR.messages as usize));
        let mut back = 0;
        for nth in 0..messages {
            let received = b.tagged_recv(Source::Any, Tag(0), room(len(nth))).expect("posts");
            while sent < messages {
                match a.tagged_send(link, Tag(0), pattern(len(sent), sent)) {
                    Ok(_) => sent += 1,
                    Err(rejected) => {
                        assert!(rejected.error.is_transient(), "{}", rejected.error);
                        break;
                    }
                }
            }
            let (bytes, result) = end(&mut [b, a], received);
            result.expect("it arrives");
            assert!(bytes == pattern(len(nth), nth), "message {nth}");
            while let Some(event) = a.poll().expect("works") {
                let TaggedEvent::Op(done) = event else { panic!("{event:?}") };
                done.result().expect("it was sent");
                back += 1;
            }
        }
        let deadline = Instant::now() + LIMIT;
        while back < messages {
            assert!(Instant::now() < deadline, "{back} sends of {messages} have ended");
            b.progress().expect("works");
            back += usize::from(a.poll().expect("works").is_some());
        }
    });
}

fn a_peer_goes(info: &Info<T>) {
    with_place(info, |domain, place| {
        let (servers, clients, others) = (queue(domain), queue(domain), queue(domain));
        let (of_client, client) = place.connect(&servers, &clients);
        let (of_other, other) = place.connect(&servers, &others);
        let gone = of_client.id();
        let mut a = TaggedEndpoint::open(servers.clone(), ATTR).expect("an endpoint");
        let mut b = TaggedEndpoint::open(clients.clone(), ATTR).expect("an endpoint");
        let mut c = TaggedEndpoint::open(others.clone(), ATTR).expect("an endpoint");
        let to_b = a.add_link(of_client, packets()).expect("a link");
        let from_b = b.add_link(client, packets()).expect("a link");
        greet(&mut a, &mut b, [to_b, from_b]);
        let to_c = a.add_link(of_other, packets()).expect("a link");
        let from_c = c.add_link(other, packets()).expect("a link");
        greet(&mut a, &mut c, [to_c, from_c]);

        let whole = send(&mut b, &mut a, from_b, 5, pattern(9, 5));
        end(&mut [&mut b, &mut a], whole).1.expect("it was sent");
        let waits = a.tagged_recv(to_b, Tag(1), room(64)).expect("posts");
        let anybody = a.tagged_recv(Source::Any, Tag(2), room(64)).expect("posts");
        let long = send(&mut a, &mut b, to_b, 3, pattern(8 << 20, 1));
        let half = b.tagged_recv(from_b, Tag(3), room(8 << 20)).expect("posts");
        let deadline = Instant::now() + LIMIT;
        while a.tagged_peek(to_b, Tag(5)).is_none() {
            assert!(Instant::now() < deadline, "the message that is whole does not come");
            a.progress().expect("works");
            b.progress().expect("works");
        }
        let mut back = Vec::new();
        b.close(|done| back.push((done.key(), done.result().err().map(|error| error.errno))));
        assert_eq!(back, [(half, Some(Errno::ECANCELED))]);

        let mut ended = Vec::new();
        let mut failed = false;
        let tells = info.provider() != "sockets";
        if !tells {
            crate::connected::report::partly(
                "The provider does not always report the end of a connection to which it writes",
            );
        }
        let patience = Instant::now() + if tells { LIMIT } else { Duration::from_secs(1) };
        while ended.len() < 2 || !failed {
            match a.poll().expect("works") {
                Some(TaggedEvent::Op(done)) => ended.push((done.key(), done.result().is_err())),
                Some(TaggedEvent::LinkFailed { link, .. }) => {
                    assert_eq!((link, failed), (to_b, false));
                    failed = true;
                }
                Some(event) => panic!("{event:?}"),
                None => {}
            }
            match place.server.poll().expect("works") {
                Some(EqEvent::Shutdown(event)) => {
                    assert!(event.is_of(gone));
                    a.close_link(to_b);
                }
                Some(event) => panic!("{event:?}"),
                None if Instant::now() > patience => {
                    assert!(!tells, "the end of the connection is told");
                    a.close_link(to_b);
                }
                None => {}
            }
        }
        ended.sort_by_key(|(key, _)| *key != waits);
        assert_eq!(ended, [(waits, true), (long, true)]);
        // Messages that have arrived are received, and the other layer continues.
        let received = a.tagged_recv(to_b, Tag(5), room(9)).expect("posts");
        assert_eq!(end(&mut [&mut a], received).0, pattern(9, 5));
        send(&mut c, &mut a, from_c, 2, pattern(64, 2));
        assert_eq!(end(&mut [&mut a, &mut c], anybody).0, pattern(64, 2));
    });
}

fn a_peer_sends_junk(info: &Info<T>) {
    with_place(info, |domain, place| {
        let servers = queue(domain);
        let strangers = Cq::<T, Bytes>::open(domain, CqAttr::new(16)).expect("queue");
        let (server, stranger) = place.connect(&servers, &strangers);
        let mut a = TaggedEndpoint::<_, Bytes, _>::open(servers.clone(), ATTR).expect("an endpoint");
        let link = a.add_link(server, packets()).expect("a link");
        let waits = a.tagged_recv(link, Tag(1), room(64)).expect("posts");
        stranger.send(ThePeer, pattern(100, 1)).expect("posts");
        let deadline = Instant::now() + LIMIT;
        let (mut error, mut ended) = (None, None);
        while error.is_none() || ended.is_none() {
            assert!(Instant::now() < deadline, "the link lives on");
            strangers.progress().expect("works");
            match a.poll().expect("works") {
                Some(TaggedEvent::LinkFailed { error: why, .. }) => error = Some(why),
                Some(TaggedEvent::Op(done)) => ended = Some((done.key(), done.result().err().map(|error| error.errno))),
                Some(event) => panic!("{event:?}"),
                None => {}
            }
        }
        assert_eq!(error, Some(LinkError::Protocol(Violation::Magic)));
        assert_eq!(ended, Some((waits, Some(Errno::EPROTO))));
    });
}

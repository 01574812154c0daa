//! The endpoint, the connections of the stranger, and the messages between them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use loom_core::endpoint::RecvOptions;
use loom_core::vocabulary::{Access, CompletionFlags, EndpointAddr, MemoryKey, RemoteAddr};
use loom_core::{
    Av, Caps, Completion, CompletionLevel, Cq, Domain, Done, Endpoint, Errno, Hints, ImmediateData, Mr, OpKey, Peer,
    RemoteRegion, SendOptions, Source, Tag, TagMatch,
};
use loom_tcp::wire::{ConnectKind, Frame, FrameFlags, MAX_PARTS, Operation, RdmData, RemoteRange};
use loom_tcp::{Tcp, TcpAttr, query};

use super::guarded::{Guarded, UNTOUCHED};
use super::line::Line;
use super::{End, LINES, PAYLOAD, Part, Port, REGION, Sent, Step, Verb};

/// Connection slots of the endpoint, fewer than those of a story.
const CONNECTIONS: u16 = 4;

/// Maximum number of rounds until all operations complete, and number of those without a pause.
const ROUNDS: usize = 1000;
const AT_ONCE: usize = 200;
const PATIENT: usize = 20;

/// Number of the message that the friend sends.
const OF_FRIEND: usize = 1 << 20;

/// Bytes of message `number`. The first eight contain the number.
fn pattern(number: usize) -> impl Iterator<Item = u8> {
    let name = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0_usize..).map(move |at| name[at % 8] ^ (at / 8) as u8)
}

fn holding(number: usize, len: usize, cut: usize) -> Guarded {
    let bytes: Vec<u8> = pattern(number).take(len).collect();
    Guarded::holding(bytes.into_iter(), cut)
}

/// Endpoint with its own domain. Fields are closed in this order.
struct Side {
    endpoint: Endpoint<'static, Tcp, Guarded>,
    cq: Cq<'static, Tcp, Guarded>,
    av: Av<'static, Tcp>,
    domain: Domain<'static, Tcp>,
}

impl Side {
    fn open(at: Ipv4Addr) -> Self {
        let attr = TcpAttr {
            endpoints: 1,
            connections: CONNECTIONS,
            event_queues: 0,
            queues: 2,
            counters: 1,
            regions: 2,
            vectors: 1,
            peers: 4,
            tx_depth: 8,
            rx_depth: 8,
            unexpected: 8,
            rendezvous_size: u32::MAX,
            unexpected_size: 16384,
            receive_buffer: 4096,
            // For strangers that ask for it.
            shared_memory: 4096,
            connect_timeout: 1000,
            allowed: &[],
        };
        let at = at.to_string();
        let caps = Caps::MSG | Caps::TAGGED | Caps::RMA;
        let info = query(&Hints { caps, node: Some(&at), listen: true, ..Hints::default() }, attr).expect("an address");
        let domain = Domain::open(&info).expect("memory and descriptors");
        let (av, cq) = (Av::open(&domain, 4).expect("a vector"), Cq::open(&domain, 24).expect("a queue"));
        let endpoint = cq.endpoint(&av).expect("a free port");
        Side { endpoint, cq, av, domain }
    }
}

struct Message {
    line: usize,
    tag: Option<u64>,
    data: Option<u64>,
    len: usize,
    has_arrived: bool,
}

enum What {
    Receive(Option<TagMatch>),
    /// Sends bytes that do not change.
    Send(usize),
    Read,
}

pub struct World {
    listener: TcpListener,
    lines: Vec<Option<Line>>,
    /// Honesty of all lines, also closed ones.
    honest: Vec<bool>,
    /// Last untagged message of each line.
    last: Vec<usize>,
    messages: Vec<Message>,
    /// Numbers and ranges of writes.
    writes: Vec<(usize, Vec<RemoteRange>)>,
    numbers: usize,
    posted: Vec<(OpKey, What)>,
    friend_came: bool,
    /// Number of messages without numbers, because they or their buffers are short.
    unnamed: usize,
    /// Rounds of the current wait.
    rounds: usize,
    /// Possible events of writes.
    news: usize,
    known: Peer,
    /// Regions. Peers write only to the first one.
    regions: [Mr<'static, Tcp, Guarded>; 2],
    side: Side,
}

impl World {
    pub fn open() -> Self {
        let side = Side::open(Ipv4Addr::LOCALHOST);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let known = side.av.insert(&EndpointAddr::from(listener.local_addr().expect("it has one"))).expect("a place");
        let regions = [Access::REMOTE_READ | Access::REMOTE_WRITE, Access::REMOTE_READ]
            .map(|access| Mr::open(&side.domain, Guarded::room(REGION, REGION), access).expect("a place"));
        World {
            listener,
            lines: Vec::new(),
            honest: Vec::new(),
            last: Vec::new(),
            messages: Vec::new(),
            writes: Vec::new(),
            numbers: 0,
            posted: Vec::new(),
            friend_came: false,
            unnamed: 0,
            rounds: 0,
            news: 0,
            known,
            regions,
            side,
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::try_from(&self.side.endpoint.address().expect("it is open")).expect("a socket's")
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers - 1
    }

    pub fn play(&mut self, step: Step) {
        match step {
            Step::Connect { port, pid, version, is_foreign } => {
                if let Some(line) = self.dial() {
                    self.greet(
                        line,
                        ConnectKind::Request,
                        port,
                        RdmData { version, features: 0, port: 0, pid: pid.into() },
                        is_foreign,
                    );
                }
            }
            Step::Dial => {
                self.dial();
            }
            Step::PickUp => {
                if self.lines.len() < LINES
                    && let Ok((stream, _)) = self.listener.accept()
                {
                    self.add(Line::over(stream, true));
                }
            }
            Step::Greet { line, kind, port, pid } => {
                let kind = [ConnectKind::Response, ConnectKind::Reject, ConnectKind::Request][usize::from(kind % 3)];
                if let Some(line) = self.some(line) {
                    self.greet(line, kind, port, RdmData { version: 0, features: 0, port: 0, pid: pid.into() }, false);
                }
            }
            Step::Frame { line, frame, is_held } => {
                if let Some(at) = self.some(line) {
                    self.frame(at, frame);
                    if !is_held && let Some(line) = &mut self.lines[at] {
                        line.send(usize::MAX);
                    }
                }
            }
            Step::AnyFrame { line, frame, payload } => self.garble(line, |line| {
                line.header(&frame.0);
                line.raw(&vec![0x77; 1 + usize::from(payload) % PAYLOAD]);
            }),
            Step::Raw { line, bytes } => self.garble(line, |line| line.raw(&bytes)),
            Step::Flip { line, back, mask } => self.garble(line, |line| line.flip(back.into(), mask)),
            Step::Send { line, count } => self.garble(line, |line| line.send(count.into())),
            Step::Close { line, how } => {
                let Some(at) = self.some(line) else { return };
                match (how, &mut self.lines[at]) {
                    (End::ShutDown, Some(line)) => return line.shut_down(),
                    (End::Linger, Some(line)) => line.linger(),
                    _ => {}
                }
                self.lines[at] = None;
            }
            Step::Poll(times) => (0..=times % 8).for_each(|_| self.progress()),
            Step::Receive { tag, len, cut, from_known } => {
                let tag = tag.map(|(tag, ignore)| TagMatch { tag: Tag(tag.into()), ignore: ignore.into() });
                self.receive(tag, usize::from(len) % PAYLOAD, cut.into(), from_known);
            }
            Step::Post { verb, len, cut, level, data } => {
                self.post(verb, usize::from(len) % PAYLOAD, cut.into(), level, data)
            }
            Step::Cancel(which) => {
                if let Some((key, _)) = self.posted.get(usize::from(which) % self.posted.len().max(1)) {
                    self.side.endpoint.cancel(*key).expect("it is in flight");
                }
            }
        }
    }

    /// Position of an open line.
    fn some(&self, line: u8) -> Option<usize> {
        let open: Vec<usize> = (0..self.lines.len()).filter(|at| self.lines[*at].is_some()).collect();
        open.get(usize::from(line) % open.len().max(1)).copied()
    }

    /// Changes a line, which may become dishonest.
    fn garble(&mut self, line: u8, change: impl FnOnce(&mut Line)) {
        let Some(at) = self.some(line) else { return };
        let Some(line) = &mut self.lines[at] else { return };
        change(line);
        self.honest[at] &= line.is_honest;
    }

    fn add(&mut self, line: Line) -> usize {
        self.lines.push(Some(line));
        self.honest.push(true);
        self.last.push(0);
        self.lines.len() - 1
    }

    fn dial(&mut self) -> Option<usize> {
        if self.lines.len() >= LINES {
            return None;
        }
        let stream = TcpStream::connect(self.address()).expect("the kernel accepts it");
        Some(self.add(Line::over(stream, false)))
    }

    fn greet(&mut self, at: usize, kind: ConnectKind, port: Port, data: RdmData, is_foreign: bool) {
        let port = match port {
            // Below the ports that the kernel assigns.
            Port::New => 1000 + at as u16,
            Port::Known => self.listener.local_addr().expect("it has one").port(),
            Port::Own => self.address().port(),
            Port::Of(line) => self.some(line).and_then(|line| self.lines[line].as_ref()?.port).unwrap_or(999),
            Port::Any(port) => port,
        };
        let is_alone = matches!(1000..1000 + LINES as u16, range if range.contains(&port));
        let mut others = self.lines.iter_mut().flatten().filter(|line| line.port == Some(port)).peekable();
        // Rules that other tests check end one of them.
        let is_lasting = is_alone && others.peek().is_none();
        others.for_each(|line| line.is_lasting = false);
        if let Some(line) = &mut self.lines[at] {
            line.connect(kind, RdmData { port, ..data }, is_foreign);
            line.is_lasting &= is_lasting;
            self.honest[at] &= line.is_honest;
            line.send(usize::MAX);
        }
    }

    fn frame(&mut self, at: usize, sent: Sent) {
        let number = self.number();
        let flags = |flags: u8| FrameFlags::from_bits_truncate((flags & 0xc).into());
        let keys = [0, 1].map(|region| self.regions[region].remote().key.0);
        let range = |part: &Part| {
            let offset = usize::from(part.at) % (REGION + 1);
            // Sometimes beyond the region.
            let (addr, len) = (offset as u64, (usize::from(part.len) % (REGION + 9 - offset)) as u64);
            let key = keys.get(usize::from(part.region % 3)).copied().unwrap_or(keys[0] ^ 1 << 40);
            match part.wild {
                None => RemoteRange { addr, len, key },
                Some((true, addr)) => RemoteRange { addr, len, key },
                Some((false, len)) => RemoteRange { addr, len, key },
            }
        };
        let ranges = |parts: &[Part]| parts.iter().take(MAX_PARTS).map(range).collect::<Vec<_>>();
        // Returns `true` if peers may access the ranges. Without bytes and immediate data, keys
        // have no effect.
        let may = |ranges: &[RemoteRange], keys: &[u64], data: Option<u64>| {
            let fits = |range: &RemoteRange| range.addr.checked_add(range.len).is_some_and(|end| end <= REGION as u64);
            match data {
                None if ranges.iter().all(|range| range.len == 0) => true,
                Some(_) if ranges.is_empty() => false,
                _ => ranges.iter().all(|range| fits(range) && keys.contains(&range.key)),
            }
        };
        let Some(line) = &mut self.lines[at] else { return };
        let frame = |operation, flags, payload: usize| Frame { operation, flags, payload: payload as u64 };
        let (frame, payload) = match sent {
            Sent::Message { tag, data, flags: level, len } => {
                let (len, tag) = (usize::from(len) % PAYLOAD, tag.map(u64::from));
                let operation = match tag {
                    None => Operation::Message { data },
                    Some(tag) => Operation::Tagged { tag, data },
                };
                self.messages.push(Message { line: at, tag, data, len, has_arrived: false });
                line.acks += usize::from(!flags(level).is_empty());
                (frame(operation, flags(level), len), self.messages.len() - 1)
            }
            Sent::Acknowledgement => {
                line.is_lasting &= line.acks_owed > 0;
                line.acks_owed = line.acks_owed.saturating_sub(1);
                (frame(Operation::Acknowledgement, FrameFlags::empty(), 0), number)
            }
            Sent::Read { parts, flags: level } => {
                let ranges = ranges(&parts);
                let is_allowed = may(&ranges, &keys, None);
                line.is_lasting &= is_allowed;
                if is_allowed {
                    line.reads.push_back(ranges.iter().map(|range| range.len).sum());
                }
                (frame(Operation::ReadRequest { parts: ranges.into_iter().collect() }, flags(level), 0), number)
            }
            Sent::Response { other } => {
                let owed = line.reads_owed.pop_front();
                line.is_lasting &= owed.is_some() && other.is_none();
                let len = other.map_or(owed.unwrap_or(0), u64::from).min(PAYLOAD as u64) as usize;
                (frame(Operation::ReadResponse, FrameFlags::empty(), len), number)
            }
            Sent::Write { parts, data, flags: level } => {
                let ranges = ranges(&parts);
                let is_allowed = may(&ranges, &keys[..1], data);
                line.is_lasting &= is_allowed;
                let sum = ranges.iter().fold(0_u64, |sum, range| sum.wrapping_add(range.len));
                let operation = Operation::Write { data, parts: ranges.iter().copied().collect() };
                if is_allowed {
                    line.acks += usize::from(!flags(level).is_empty());
                    self.news += usize::from(data.is_some());
                    self.writes.push((number, ranges));
                    (frame(operation, flags(level), sum as usize), number)
                } else {
                    // A header alone, because the endpoint reads no further.
                    let payload = sum.min(1 << 40);
                    line.header(&Frame { operation, flags: flags(level), payload });
                    return;
                }
            }
        };
        let name = if matches!(frame.operation, Operation::Message { .. } | Operation::Tagged { .. }) {
            payload
        } else {
            OF_FRIEND + 1 + payload
        };
        line.header(&frame);
        line.payload(pattern(name).take(frame.payload as usize));
        self.honest[at] &= line.is_honest;
    }

    fn receive(&mut self, tag: Option<TagMatch>, len: usize, cut: usize, from_known: bool) {
        let from = if from_known { Source::Peer(self.known) } else { Source::Any };
        let (endpoint, buf) = (&self.side.endpoint, Guarded::room(len, cut));
        let key = match tag {
            None => endpoint.recv_with(from, RecvOptions::default(), buf),
            Some(tag) => endpoint.tagged_recv_with(from, tag, RecvOptions::default(), buf),
        };
        match key {
            Ok(key) => self.posted.push((key, What::Receive(tag))),
            Err(rejected) => drop(rejected.value.bytes()),
        }
    }

    /// Posts an operation of the endpoint to the stranger's possible peer.
    fn post(&mut self, verb: Verb, len: usize, cut: usize, level: u8, data: Option<u64>) {
        let number = OF_FRIEND + 1 + self.number();
        let Side { endpoint, .. } = &self.side;
        let level = [None, Some(CompletionLevel::Delivery)][usize::from(level % 2)];
        let options = SendOptions { data: data.map(ImmediateData), level, ..SendOptions::default() };
        let region = RemoteRegion {
            base: RemoteAddr(0),
            len: u64::MAX >> 1,
            key: MemoryKey(7),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        let (buf, what) = match verb {
            Verb::Read => (Guarded::room(len, cut), What::Read),
            _ => (holding(number, len, cut), What::Send(number)),
        };
        let posted = match verb {
            Verb::Send => endpoint.send_with(self.known, options, buf),
            Verb::Tagged(tag) => endpoint.tagged_send_with(self.known, Tag(tag.into()), options, buf),
            Verb::Read => endpoint.read(self.known, &region, 0, buf),
            Verb::Write => endpoint.write_with(self.known, &[region.part(0, len).expect("within")], options, buf),
            Verb::Inject => {
                let _ = endpoint.inject(self.known, &buf.bytes()[..len.min(TcpAttr::INJECT_SIZE)]);
                return;
            }
        };
        if let Ok(key) = posted {
            self.posted.push((key, what));
        }
    }

    /// Polls each side once.
    fn progress(&mut self) {
        for line in self.lines.iter_mut().flatten() {
            line.receive();
        }
        for _ in 0..ROUNDS {
            match self.side.cq.poll().expect("the queue works") {
                None => break,
                Some(Completion::Op(done)) => self.completed(done),
                Some(Completion::Remote(event)) => {
                    let is_known = self.news > 0 || !self.honest.iter().all(|honest| *honest);
                    assert!(is_known, "{event:?} of no write");
                    self.news = self.news.saturating_sub(1);
                }
                Some(Completion::Unclaimed(_)) => {}
                Some(other) => panic!("{other:?} of no operation"),
            }
        }
    }

    fn completed(&mut self, done: Done<Guarded>) {
        let at = self.posted.iter().position(|(key, _)| *key == done.key()).expect("it was posted, and not completed");
        let (_, what) = self.posted.swap_remove(at);
        let (buf, result) = done.into_parts();
        let bytes = buf.bytes();
        match (what, result) {
            (What::Send(number), _) => assert!(bytes.iter().copied().eq(pattern(number).take(bytes.len())), "changed"),
            (What::Read, Ok(transfer)) => assert_eq!(transfer.len, bytes.len()),
            (What::Receive(wanted), Ok(got)) => {
                let (message, rest) = bytes.split_at(got.len);
                assert!(rest.iter().all(|byte| *byte == UNTOUCHED), "bytes behind {} bytes", got.len);
                self.got(wanted, message, got.len, got.tag.map(|tag| tag.0), got.data.map(|data| data.0));
            }
            (What::Receive(wanted), Err(error)) if error.errno == Errno::ETRUNC => {
                let overflow = error.overflow.expect("the rest is known");
                let data = error.flags.contains(CompletionFlags::REMOTE_CQ_DATA);
                let len = bytes.len().saturating_add(overflow);
                self.got(wanted, bytes, len, wanted.map(|_| error.tag.0), data.then_some(error.data.0));
            }
            _ => {}
        }
    }

    /// Checks the received bytes of a message, up to the room of its buffer.
    fn got(&mut self, wanted: Option<TagMatch>, bytes: &[u8], len: usize, tag: Option<u64>, data: Option<u64>) {
        assert_eq!(wanted.is_some(), tag.is_some(), "tags of tagged messages");
        if let (Some(wanted), Some(tag)) = (wanted, tag) {
            assert_eq!((wanted.tag.0 ^ tag) & !wanted.ignore, 0, "{tag} for {wanted:?}");
        }
        if bytes.len() < 8 {
            self.unnamed += 1;
            return;
        }
        let is_of = |number| bytes[..8].iter().copied().eq(pattern(number).take(8));
        if is_of(OF_FRIEND) {
            self.friend_came = true;
            return;
        }
        let Some(number) = (0..self.messages.len()).find(|number| is_of(*number)) else {
            return assert!(!self.honest.iter().all(|honest| *honest), "{bytes:?}, which nobody sent");
        };
        let message = &mut self.messages[number];
        if !self.honest[message.line] {
            return;
        }
        assert!(bytes.iter().copied().eq(pattern(number).take(bytes.len())), "bytes of message {number}");
        assert_eq!((len, tag, data), (message.len, message.tag, message.data), "message {number}");
        assert!(!message.has_arrived, "message {number} arrives twice");
        message.has_arrived = true;
        if tag.is_none() {
            assert!(self.last[message.line] <= number, "message {number} after {}", self.last[message.line]);
            self.last[message.line] = number;
        }
    }

    fn cancel_all(&self) {
        for (key, _) in &self.posted {
            self.side.endpoint.cancel(*key).expect("it is in flight");
        }
    }

    /// Posts receives for any message. After a while they outnumber the messages that never end.
    fn receive_anything(&mut self) {
        let count = if self.rounds < PATIENT { 1 } else { 5 };
        for tag in [None, Some(TagMatch::ANY)] {
            let is_posted = |what: &What| matches!(what, What::Receive(wanted) if *wanted == tag);
            let posted = self.posted.iter().filter(|(_, what)| is_posted(what)).count();
            for _ in posted..count {
                self.receive(tag, PAYLOAD, PAYLOAD, false);
            }
        }
    }

    /// Runs rounds until a condition holds, with pauses in a long wait.
    fn until(&mut self, what: &str, mut is_over: impl FnMut(&mut Self) -> bool) {
        for round in 0..ROUNDS {
            self.rounds = round;
            if is_over(self) {
                return;
            }
            if round > AT_ONCE {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("{what}, which takes too long");
    }

    /// Waits until all that the endpoint owes to intact connections has arrived.
    pub fn settle(&mut self) {
        self.cancel_all();
        for _ in 0..4 {
            self.progress();
        }
        // With that to the known peer, connections may exceed the slots: some end for others.
        let is_crowded = self.lines.len() >= usize::from(CONNECTIONS);
        self.until("messages and answers of lasting connections", |world| {
            world.receive_anything();
            for line in world.lines.iter_mut().flatten() {
                line.send(usize::MAX);
            }
            world.progress();
            let mut missing = 0;
            let mut lasting = world.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.as_ref()?)));
            let is_done = lasting.all(|(at, line)| {
                if !line.is_lasting || !line.is_accepted || (is_crowded && line.is_over) {
                    return true;
                }
                let awaited = |message: &&Message| message.line == at && message.len >= 8 && !message.has_arrived;
                missing += world.messages.iter().filter(awaited).count();
                line.is_sent() && line.acks == 0 && line.reads.is_empty()
            });
            is_done && missing <= world.unnamed
        });
    }

    /// Closes the stranger. Operations to it end.
    pub fn part(&mut self) {
        self.lines.fill_with(|| None);
        self.until("operations without a peer", |world| {
            while let Ok((stream, _)) = world.listener.accept() {
                drop(Line::over(stream, true));
            }
            world.progress();
            for (key, what) in &world.posted {
                if !matches!(what, What::Receive(_)) {
                    world.side.endpoint.cancel(*key).expect("it is in flight");
                }
            }
            world.receive_anything();
            world.posted.iter().all(|(_, what)| matches!(what, What::Receive(_)))
        });
    }

    pub fn exchange(&mut self) {
        static FRIENDS: AtomicU32 = AtomicU32::new(0);
        // Another address each time, because ports of closed connections wait for late packets.
        let count = FRIENDS.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() << 10);
        let friend = Side::open(Ipv4Addr::from(0x7f01_0000 | count & 0xff_ffff));
        let address = friend.endpoint.address().expect("it is open");
        let to_friend = self.side.av.insert(&address).expect("a place");
        let to_side = friend.av.insert(&self.side.endpoint.address().expect("it is open")).expect("a place");
        let sent = friend.endpoint.send(to_side, holding(OF_FRIEND, 100, 100)).expect("it is the first one");
        self.until("the friend's message", |world| {
            world.receive_anything();
            friend.cq.progress().expect("the queue works");
            world.progress();
            world.friend_came
        });
        let answered =
            friend.endpoint.recv(Source::Peer(to_side), Guarded::room(100, 100)).expect("it is the first one");
        let answer = self.side.endpoint.send(to_friend, holding(OF_FRIEND, 100, 100)).expect("all others are over");
        self.posted.push((answer, What::Send(OF_FRIEND)));
        let mut received = None;
        self.until("the answer", |world| {
            world.progress();
            friend.cq.progress().expect("the queue works");
            received = received.take().or_else(|| friend.cq.take(answered).expect("the queue works"));
            received.is_some()
        });
        let (buf, result) = received.expect("it was").into_parts();
        assert_eq!(result.map(|got| got.len), Ok(100));
        assert!(buf.bytes().iter().copied().eq(pattern(OF_FRIEND).take(100)), "the answer");
        friend.cq.take(sent).expect("the queue works").expect("it was received").result().expect("it was received");
    }

    /// Checks that memory has only changes that peers may make.
    pub fn close(self) {
        let World { regions, side, writes, honest, posted, .. } = self;
        drop(posted);
        let [written, constant] =
            regions.map(|region| region.close().unwrap_or_else(|_| panic!("it closes at any time")));
        assert!(constant.bytes().iter().all(|byte| *byte == UNTOUCHED), "peers may read it only");
        let written = written.bytes();
        if honest.iter().all(|honest| *honest) {
            let mut may_be: Vec<Vec<u8>> = vec![vec![UNTOUCHED]; REGION];
            for (number, ranges) in writes {
                let mut bytes = pattern(OF_FRIEND + 1 + number);
                for range in ranges.iter().filter(|range| range.len > 0) {
                    let places = &mut may_be[range.addr as usize..][..range.len as usize];
                    places.iter_mut().zip(&mut bytes).for_each(|(place, byte)| place.push(byte));
                }
            }
            let wrong = written.iter().zip(may_be).position(|(byte, may_be)| !may_be.contains(byte));
            assert_eq!(wrong, None, "position of a byte that no peer wrote");
        }
        drop(side);
    }
}

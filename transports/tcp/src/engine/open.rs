//! Memory and descriptors of an engine.

use core::alloc::Layout;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use loom_core::engine::tag_matcher::{TagMatcher, TagMatcherAttr};
use loom_core::error::OpenError;
use loom_core::vocabulary::Errno;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::process::getpid;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::connected::ConnectData;
use super::connection::Connection;
use super::endpoints::{Bound, Endpoint, EndpointKind};
use super::event_queues::{EventQueue, OWN_EVENTS, QueuedEvent};
use super::list::Free;
use super::matching::{PIECE, Piece, Receive, Unexpected};
use super::progress::NO_QUEUE;
use super::queues::{Counter, Queue};
use super::regions::{Region, random};
use super::send::Send;
use super::socket::{Token, errno};
use super::{Engine, Injected, MessageKind, NIL, OUTBOX, Page};
use crate::attr::TcpAttr;
use crate::info::TcpInfo;
use crate::memory::{Block, Process, Ranges};
use crate::tls::{Records, Tls};

const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

fn matcher(attr: &TcpAttr, seed: u64) -> TagMatcherAttr {
    TagMatcherAttr { receives: attr.rx_depth, messages: attr.unexpected, seed, ..TagMatcherAttr::DEFAULT }
}

/// Lengths of tables.
struct Counts {
    endpoints: usize,
    connections: usize,
    regions: usize,
    peers: usize,
    routes: usize,
    sends: usize,
    receives: usize,
    unexpected: usize,
    pieces: usize,
    buffers: usize,
    shared: usize,
    events: usize,
    records: usize,
}

impl Counts {
    fn of(attr: &TcpAttr, tls: Option<&Tls>) -> Self {
        let (endpoints, connections) = (usize::from(attr.endpoints), usize::from(attr.connections));
        Counts {
            endpoints,
            connections,
            regions: (usize::from(attr.regions) * 2).next_power_of_two(),
            peers: usize::from(attr.vectors) * attr.peers as usize,
            routes: endpoints * attr.peers as usize,
            sends: endpoints * attr.tx_depth as usize,
            receives: endpoints * MessageKind::COUNT * attr.rx_depth as usize,
            unexpected: endpoints * MessageKind::COUNT * attr.unexpected as usize,
            pieces: (attr.unexpected_size as usize).div_ceil(PIECE),
            // A connection has one event before it is read, an endpoint two, and the program some.
            events: usize::from(attr.event_queues) * (connections + 2 * endpoints + OWN_EVENTS as usize),
            shared: if attr.shared_memory > 0 { connections } else { 0 },
            records: tls.map_or(0, |_| connections),
            buffers: connections * (attr.receive_buffer / TcpAttr::MIN_BUFFER) as usize,
        }
    }
}

/// Layout of the tables of an engine, in the order in which `open` makes them.
pub(crate) fn layout(attr: &TcpAttr, tls: Option<&Tls>) -> Option<Layout> {
    let counts = Counts::of(attr, tls);
    let matcher = matcher(attr, 0).layout().ok();
    let before = [
        Layout::array::<Queue>(attr.queues.into()).ok(),
        Layout::array::<Counter>(attr.counters.into()).ok(),
        Layout::array::<Option<Region>>(counts.regions).ok(),
        Layout::array::<bool>(attr.vectors.into()).ok(),
        Layout::array::<Option<SocketAddr>>(counts.peers).ok(),
        Layout::array::<Endpoint>(counts.endpoints).ok(),
    ];
    // Matchers are made with their endpoints.
    let matchers = core::iter::repeat_n(matcher, counts.endpoints * MessageKind::COUNT);
    let behind = [
        Layout::array::<u32>(counts.routes).ok(),
        Layout::array::<Connection>(counts.connections).ok(),
        Layout::array::<u32>(counts.shared).ok(),
        Layout::array::<Page>(counts.buffers).ok(),
        Layout::array::<Send>(counts.sends).ok(),
        Layout::array::<Injected>(counts.sends).ok(),
        Layout::array::<Receive>(counts.receives).ok(),
        Layout::array::<Unexpected>(counts.unexpected).ok(),
        Layout::array::<Piece>(counts.pieces).ok(),
        Layout::array::<u8>(OUTBOX).ok(),
        Layout::array::<EventQueue>(attr.event_queues.into()).ok(),
        Layout::array::<Option<QueuedEvent>>(counts.events).ok(),
        Layout::array::<Records>(counts.records).ok(),
    ];
    Block::layout(before.into_iter().chain(matchers).chain(behind))
}

fn number(error: OpenError) -> Errno {
    match error {
        OpenError::Errno(errno) => errno,
        _ => Errno::ENOMEM,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "counts are checked to be below `NIL`")]
const fn index(number: usize) -> u32 {
    number as u32
}

impl Engine {
    /// Makes an engine with tables in `block`, which has the layout of the info.
    pub(crate) fn open(info: &TcpInfo, block: Block) -> Result<Self, Errno> {
        let TcpInfo { attr, address, tls, interface, .. } = info.clone();
        let counts = Counts::of(&attr, tls.as_ref());
        let all = [
            counts.sends,
            counts.receives,
            counts.unexpected,
            counts.pieces,
            counts.routes,
            counts.peers,
            counts.events,
        ];
        if all.into_iter().any(|count| count >= NIL as usize) {
            return Err(Errno::ENOMEM);
        }
        let process = Process::current().ok_or(Errno::ENOMEM)?;
        let seed = random()?;
        let (epoll, timer) = descriptors().map_err(errno)?;
        let matchers = || TagMatcher::new_in(matcher(&attr, seed), block);
        Ok(Engine {
            attr,
            process,
            pid: getpid().as_raw_nonzero().get().unsigned_abs(),
            address,
            interface,
            epoll,
            timer,
            unwatched: 0,
            opened: 0,
            requested: 0,
            is_ticking: false,
            opening: 0,
            paused: 0,
            try_paused: false,
            polled: NO_QUEUE,
            last: NIL,
            delays: 0,
            polls_of_last: 0,
            last_had_bytes: false,
            reads_of_last: 0,
            turn: 0,
            dirty: NIL,
            retried: NIL,
            queues: table(attr.queues.into(), block, |_| Queue::default())?,
            counters: table(attr.counters.into(), block, |_| Counter::default())?,
            regions: table(counts.regions, block, |_| None)?,
            open_regions: 0,
            vectors: table(attr.vectors.into(), block, |_| false)?,
            peers: table(counts.peers, block, |_| None)?,
            endpoints: super::Table::try_new_in(counts.endpoints, block, |number| {
                let first = index(number) * attr.tx_depth;
                Ok(Endpoint {
                    kind: EndpointKind::Free,
                    generation: 0,
                    events: 0,
                    receiver: 0,
                    connection: NIL,
                    has_ended: false,
                    data: ConnectData::new(),
                    remote: None,
                    listener: None,
                    is_unwatched: false,
                    name: NOWHERE,
                    bound: Bound { tx: 0, rx: 0, vector: Bound::NO_VECTOR },
                    counters: Default::default(),
                    matchers: [matchers()?, matchers()?],
                    free_sends: Free::all(first, attr.tx_depth),
                    min_multi_recv: 0,
                })
            })
            .map_err(number)?,
            routes: table(counts.routes, block, |_| NIL)?,
            connections: table(counts.connections, block, |number| {
                Connection::free(Free::chained(index(number), index(counts.connections)))
            })?,
            free_connections: Free::all(0, index(counts.connections)),
            shared: table(counts.shared, block, |_| NIL)?,
            shared_count: 0,
            looks: 0,
            looked_at: 0,
            buffers: table(counts.buffers, block, |_| [0; _])?,
            sends: table(counts.sends, block, |number| {
                let number = index(number);
                let end = number - number % attr.tx_depth + attr.tx_depth;
                Send::free(Free::chained(number, end))
            })?,
            injected: table(counts.sends, block, |_| [0; TcpAttr::INJECT_SIZE])?,
            receives: table(counts.receives, block, |_| Receive::default())?,
            unexpected: table(counts.unexpected, block, |_| Unexpected::free())?,
            pieces: table(counts.pieces, block, |number| {
                Piece::free(Free::chained(index(number), index(counts.pieces)))
            })?,
            free_pieces: Free::all(0, index(counts.pieces)),
            outbox: table(OUTBOX, block, |_| 0)?,
            ranges: Ranges::default(),
            event_queues: table(attr.event_queues.into(), block, |_| EventQueue::default())?,
            events: table(counts.events, block, |_| None)?,
            records: table(counts.records, block, |_| Records::EMPTY)?,
            tls,
        })
    }
}

fn table<V>(len: usize, block: Block, value: impl FnMut(usize) -> V) -> Result<super::Table<V>, Errno> {
    super::Table::new_in(len, block, value).map_err(number)
}

fn descriptors() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    epoll::add(&epoll, &timer, Token::Timer.data(), epoll::EventFlags::IN)?;
    Ok((epoll, timer))
}

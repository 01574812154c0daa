//! Tagged endpoints over plain ones of the software transport, each linked to all others.

use std::cell::{Cell, RefCell};

use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::domain::Domain;
use loom_core::error::{PostError, Rejected};
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{ImmediateData, Tag};
use loom_tagged::{
    Carrier, Ended, LinkId, Packet, TaggedAttr, TaggedDone, TaggedEndpoint, TaggedEvent, TaggedKey, WithPeer,
};

pub(crate) type Buf = Box<[u8]>;
type Queue = Cq<'static, Soft<'static>, Packet<Buf>>;
type Plain = WithPeer<'static, Soft<'static>, Buf>;

/// Carrier that may hold packets and forward them in another order.
pub(crate) struct Wire {
    inner: Plain,
    keeps: Cell<bool>,
    kept: RefCell<Vec<Packet<Buf>>>,
    /// Number of sent packets.
    pub(crate) sent: Cell<usize>,
    /// Number of packets that overtook others.
    pub(crate) overtook: Cell<usize>,
}

impl Wire {
    /// Forwards one held packet. Returns `false` if no packet is held.
    fn release(&self, choice: usize) -> bool {
        let mut kept = self.kept.borrow_mut();
        if kept.is_empty() {
            return false;
        }
        let at = choice % kept.len();
        self.overtook.set(self.overtook.get() + usize::from(at > 0));
        match self.inner.send(kept.remove(at)) {
            Ok(()) => true,
            Err(Rejected { value: buf, error }) if error.is_transient() => {
                kept.push(buf);
                false
            }
            Err(rejected) => panic!("not sent: {}", rejected.error),
        }
    }
}

pub(crate) struct Handle<'w>(&'w Wire);

impl Carrier for Handle<'_> {
    type Buf = Buf;
    type Queue = Queue;

    fn queue(&self) -> &Self::Queue {
        self.0.inner.queue()
    }

    fn send(&self, packet: Packet<Buf>) -> Result<(), Rejected<Packet<Buf>>> {
        if self.0.keeps.get() {
            self.0.kept.borrow_mut().push(packet);
        } else {
            self.0.inner.send(packet)?;
        }
        self.0.sent.set(self.0.sent.get() + 1);
        Ok(())
    }

    fn recv(&self, packet: Packet<Buf>) -> Result<(), Rejected<Packet<Buf>>> {
        self.0.inner.recv(packet)
    }

    fn poll(queue: &Self::Queue) -> Result<Option<Ended<Buf>>, CqError> {
        Plain::poll(queue)
    }
}

pub(crate) type Layer<'w> = TaggedEndpoint<Handle<'w>, Vec<u8>, Global>;

pub(crate) struct Node<'w> {
    pub(crate) layer: Layer<'w>,
    /// Wires to the other nodes, in their order.
    pub(crate) wires: Vec<&'w Wire>,
}

/// Small capacities, to reach every limit.
pub(crate) const SMALL: TaggedAttr = TaggedAttr {
    operations: 32,
    packet_size: 64 + 40,
    messages: 4,
    control: 4,
    sends: 3,
    masks: 2,
    ..TaggedAttr::DEFAULT
};

pub(crate) const FITS: usize = SMALL.eager_size();

pub(crate) fn link(from: usize, to: usize) -> usize {
    to - usize::from(to > from)
}

pub(crate) struct Nodes<'w> {
    pub(crate) nodes: Vec<Node<'w>>,
    pub(crate) ids: Vec<LinkId>,
    choice: Cell<usize>,
}

pub(crate) fn with_nodes(count: usize, attr: TaggedAttr, shuffled: Option<usize>, test: impl FnOnce(&mut Nodes<'_>)) {
    let attr = TaggedAttr { links: u16::try_from(count - 1).unwrap(), ..attr };
    let endpoints = u16::try_from(count).unwrap();
    // As small as the packets allow, because each story opens a network.
    let sizes = NetworkAttr { tx_depth: 64, rx_depth: 64, eager_size: 128, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(NetworkAttr { endpoints, ..sizes }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let av = Av::open(&domain, count).unwrap();
    let queues: Vec<_> = (0..count).map(|_| Queue::open(&domain, CqAttr::new(128)).unwrap()).collect();
    let endpoints: Vec<_> = queues.iter().map(|cq| cq.endpoint(&av).unwrap()).collect();
    let peers: Vec<_> = endpoints.iter().map(|endpoint| av.insert(&endpoint.address().unwrap()).unwrap()).collect();
    let wires: Vec<Vec<Wire>> = (0..count)
        .map(|at| {
            let others = (0..count).filter(|other| *other != at);
            let wire = |other: usize| Wire {
                inner: WithPeer::new(&endpoints[at], peers[other]),
                keeps: Cell::new(shuffled.is_some()),
                kept: RefCell::default(),
                sent: Cell::new(0),
                overtook: Cell::new(0),
            };
            others.map(wire).collect()
        })
        .collect();
    let mut ids = Vec::new();
    let nodes = (0..count).map(|at| {
        let mut layer = TaggedEndpoint::open(queues[at].clone(), attr).unwrap();
        ids = wires[at].iter().map(|wire| layer.add_link(Handle(wire), packets(&attr)).unwrap()).collect();
        Node { layer, wires: wires[at].iter().collect() }
    });
    let nodes = nodes.collect();
    let mut nodes = Nodes { nodes, ids, choice: Cell::new(shuffled.unwrap_or(0)) };
    nodes.settle();
    for node in &nodes.nodes {
        assert!(nodes.ids.iter().all(|link| node.layer.is_up(*link)));
    }
    test(&mut nodes);
}

pub(crate) fn packets(attr: &TaggedAttr) -> impl Iterator<Item = Buf> {
    let size = attr.packet_size as usize;
    (0..attr.packets_per_link()).map(move |_| vec![0xdd; size].into())
}

/// Bytes derived from the seed.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251 + seed * 17 + 1) % 251).unwrap()).collect()
}

pub(crate) fn room(len: usize) -> Vec<u8> {
    vec![0xee; len]
}

impl Nodes<'_> {
    fn choose(&self) -> usize {
        // High bits of a linear congruential generator.
        let next = self.choice.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.choice.set(next);
        next >> 33
    }

    pub(crate) fn settle(&mut self) {
        let rests = (0..100_000).any(|_| !self.step());
        assert!(rests, "it does not come to rest");
    }

    /// Drives progress on all nodes. Returns `false` without progress.
    pub(crate) fn step(&mut self) -> bool {
        let mut busy = false;
        for node in &mut self.nodes {
            busy |= node.layer.progress().unwrap();
        }
        for node in &self.nodes {
            for wire in &node.wires {
                busy |= wire.release(self.choose());
            }
        }
        busy
    }

    pub(crate) fn events(&mut self, node: usize) -> Vec<TaggedEvent<Vec<u8>>> {
        let layer = &mut self.nodes[node].layer;
        std::iter::from_fn(|| layer.poll().unwrap()).collect()
    }

    pub(crate) fn done(&mut self, node: usize) -> TaggedDone<Vec<u8>> {
        self.settle();
        let mut events = self.events(node);
        match (events.pop(), events.len()) {
            (Some(TaggedEvent::Op(done)), 0) => done,
            other => panic!("one operation, and not {other:?}, {events:?}"),
        }
    }

    pub(crate) fn send(&mut self, from: usize, to: usize, tag: u64, buf: Vec<u8>) -> Result<TaggedKey, PostError> {
        let link = self.ids[link(from, to)];
        self.nodes[from].layer.tagged_send(link, Tag(tag), buf).map_err(PostError::from)
    }

    pub(crate) fn send_data(
        &mut self,
        from: usize,
        to: usize,
        tag: u64,
        data: u64,
        buf: Vec<u8>,
    ) -> Result<TaggedKey, PostError> {
        let link = self.ids[link(from, to)];
        let sent = self.nodes[from].layer.tagged_send_data(link, Tag(tag), ImmediateData(data), buf);
        sent.map_err(PostError::from)
    }
}

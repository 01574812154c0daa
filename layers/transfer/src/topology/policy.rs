use core::cmp::Reverse;
use core::iter;

use allocator_api2::alloc::Allocator;

use super::machine::Topology;
use super::nodes::Nodes;
use super::pci::PciPath;
use super::{Accelerator, Card};

/// Place to which cards are near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near<'t> {
    /// An accelerator of the topology.
    Accelerator(&'t Accelerator),
    /// The NUMA node of this number.
    Node(u32),
}

/// Common steps, same node, distance.
type Nearness = (Reverse<usize>, bool, u8);

fn nearness<A: Allocator>(nodes: &Nodes<A>, card: &Card, path: &PciPath, node: Option<u32>) -> Nearness {
    let is_remote = node.is_none() || card.node != node;
    (Reverse(card.path.common(path)), is_remote, nodes.distance(node, card.node))
}

impl<A: Allocator> Topology<A> {
    /// All cards, nearest first: by common bridges and switches, then by NUMA node and its
    /// distance. Cards of unknown nodes are last.
    pub fn nearest(&self, near: Near<'_>) -> impl Iterator<Item = &Card> {
        let (path, node) = match near {
            Near::Accelerator(accelerator) => (accelerator.path, accelerator.node),
            Near::Node(node) => (PciPath::default(), Some(node)),
        };
        self.in_order(move |card| nearness(&self.nodes, card, &path, node))
    }

    /// Cards of an accelerator, by its place in [`accelerators`](Self::accelerators), nearest
    /// first.
    ///
    /// Each card belongs to one of its nearest accelerators, which share cards evenly. If there are
    /// fewer cards than accelerators, some groups are empty: use the [nearest](Self::nearest)
    /// cards.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// let sys = [
    ///     ("bus/pci/devices/0000:07:00.0", "devices/pci0000:00/0000:00:01.0/0000:07:00.0"),
    ///     ("bus/pci/devices/0000:07:00.0/class", "0x030200"),
    ///     ("bus/pci/devices/0000:07:00.0/vendor", "0x10de"),
    ///     ("class/infiniband/efa_0/device", "devices/pci0000:00/0000:00:01.0/0000:08:00.0"),
    ///     ("class/infiniband/efa_1/device", "devices/pci0000:00/0000:00:01.0/0000:09:00.0"),
    /// ];
    /// let topology = Topology::read_in(&sys[..], Global)?;
    /// assert!(topology.group(0).map(|card| card.name()).eq(["efa_0", "efa_1"]));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn group(&self, accelerator: usize) -> impl Iterator<Item = &Card> {
        let owner = self.accelerators.get(accelerator).copied().unwrap_or_default();
        self.in_order(move |card| nearness(&self.nodes, card, &owner.path, owner.node))
            .filter(move |card| card.accelerator == Some(accelerator))
    }

    /// Cards for memory of a NUMA node, until their links have these bits per second.
    ///
    /// Nearer nodes come first. Within a node, ports of the processor take turns. A link of unknown
    /// speed adds 0.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// let sys = [
    ///     ("class/net/eth0/device", "devices/pci0000:00/0000:00:01.0/0000:01:00.0"),
    ///     ("class/net/eth0/speed", "100000"),
    ///     ("class/net/eth1/device", "devices/pci0000:00/0000:00:01.0/0000:02:00.0"),
    ///     ("class/net/eth1/speed", "100000"),
    ///     ("class/net/eth2/device", "devices/pci0000:00/0000:00:02.0/0000:03:00.0"),
    ///     ("class/net/eth2/speed", "100000"),
    /// ];
    /// let topology = Topology::read_in(&sys[..], Global)?;
    /// assert!(topology.within(0, 200_000_000_000).map(|card| card.name()).eq(["eth0", "eth2"]));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn within(&self, node: u32, bits_per_second: u64) -> impl Iterator<Item = &Card> {
        let mut sum = 0_u64;
        self.in_order(move |card| {
            let (_, is_remote, distance) = nearness(&self.nodes, card, &PciPath::default(), Some(node));
            (is_remote, distance, card.turn)
        })
        .take_while(move |card| {
            let is_needed = sum < bits_per_second;
            sum = sum.saturating_add(card.bits_per_second);
            is_needed
        })
    }

    /// Cards by key, then by place. Scans all cards for each.
    fn in_order<K: Ord + Copy>(&self, key: impl Fn(&Card) -> K) -> impl Iterator<Item = &Card> {
        let mut last = None;
        iter::from_fn(move || {
            let keys = self.cards.iter().enumerate().map(|(at, card)| (key(card), at));
            let next = keys.filter(|key| last.is_none_or(|last| *key > last)).min()?;
            last = Some(next);
            self.cards.get(next.1)
        })
    }

    pub(super) fn arrange(&mut self) {
        let Topology { nodes, cards, accelerators, .. } = self;
        accelerators.iter_mut().for_each(|accelerator| accelerator.cards = 0);
        for at in 0..cards.len() {
            let (earlier, rest) = cards.split_at_mut(at);
            let Some(card) = rest.first_mut() else { break };
            card.turn = earlier.iter().filter(|other| card.path.shares_port(&other.path)).count();
            card.accelerator = None;
            card.ties = nearest(nodes, card, accelerators).count();
        }
        if accelerators.is_empty() {
            return;
        }
        // Cards with the least choice come first.
        while let Some(card) = cards.iter_mut().filter(|card| card.accelerator.is_none()).min_by_key(|card| card.ties) {
            let owner = nearest(nodes, card, accelerators).min_by_key(|(_, accelerator)| accelerator.cards);
            let Some(owner) = owner.map(|(at, _)| at) else { break };
            card.accelerator = Some(owner);
            if let Some(accelerator) = accelerators.get_mut(owner) {
                accelerator.cards += 1;
            }
        }
    }
}

fn nearest<'a, A: Allocator>(
    nodes: &Nodes<A>,
    card: &Card,
    accelerators: &'a [Accelerator],
) -> impl Iterator<Item = (usize, &'a Accelerator)> {
    let nearness = |accelerator: &Accelerator| nearness(nodes, card, &accelerator.path, accelerator.node);
    let best = accelerators.iter().map(nearness).min();
    accelerators.iter().enumerate().filter(move |(_, accelerator)| Some(nearness(accelerator)) == best)
}

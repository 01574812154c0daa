use core::ops::RangeInclusive;

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::info::Nic;
use loom_core::{Info, Transport};

use super::devices::{self, Device};
use super::nodes::Nodes;
use super::sys_fs::List;
use super::{Accelerator, Card, Node, PciAddress, SysFs};

/// Cards, accelerators and NUMA nodes of a machine, when they were read.
#[derive(Debug)]
pub struct Topology<A: Allocator> {
    pub(super) nodes: Nodes<A>,
    devices: List<Device, A>,
    pub(super) cards: List<Card, A>,
    pub(super) accelerators: List<Accelerator, A>,
}

impl<A: Allocator + Clone> Topology<A> {
    /// Reads the files of a machine.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// // A machine without files has one node.
    /// let topology = Topology::read_in(&[("", ""); 0][..], Global)?;
    /// assert_eq!((topology.nodes().len(), topology.cards().len()), (1, 0));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`], and [`OpenError::Size`] for more than 4,096 devices of a kind.
    pub fn read_in(sys: &(impl SysFs + ?Sized), alloc: A) -> Result<Self, OpenError> {
        let nodes = Nodes::read(sys, alloc.clone())?;
        let devices = devices::devices(sys, &nodes, alloc.clone())?;
        let cards = devices::cards(&devices, alloc.clone())?;
        let accelerators = devices::accelerators(sys, &nodes, alloc)?;
        let mut topology = Topology { nodes, devices, cards, accelerators };
        topology.arrange();
        Ok(topology)
    }
}

impl<A: Allocator> Topology<A> {
    /// All cards, by PCI address.
    #[must_use]
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// All accelerators, by PCI address.
    #[must_use]
    pub fn accelerators(&self) -> &[Accelerator] {
        &self.accelerators
    }

    /// All NUMA nodes, by number, at least one.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes.list
    }

    /// Processors of a node, in order.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// let topology = Topology::read_in(&[("devices/system/node/node0/cpulist", "0-3,8")][..], Global)?;
    /// assert!(topology.processors(0).flatten().eq([0, 1, 2, 3, 8]));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn processors(&self, node: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
        self.nodes.processors(node)
    }

    /// Card of an info's domain, by PCI address, or otherwise by name of device or domain. `None`
    /// for loopback and shared memory.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_transfer::topology::Topology;
    ///
    /// let topology = Topology::read_in(&[("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0")][..], Global)?;
    /// assert!(topology.card_of(&Network::new(NetworkAttr::default())?.info()).is_none());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn card_of<T: Transport>(&self, info: &Info<T>) -> Option<&Card> {
        self.card(info.nic(), info.domain())
    }

    fn card(&self, nic: Option<Nic<'_>>, domain: &str) -> Option<&Card> {
        let pci = nic.and_then(|nic| nic.bus.pci).map(PciAddress::from);
        if let Some(card) = pci.and_then(|pci| self.cards.iter().find(|card| card.pci == Some(pci))) {
            return Some(card);
        }
        // Providers append a type: `mlx5_0-dgram`, `rdmap0s6-rdm`.
        let names = [nic.and_then(|nic| nic.device.name), Some(domain), domain.rsplit_once('-').map(|(name, _)| name)];
        let device = |name| self.devices.iter().find(|device| device.name.as_str() == name);
        self.cards.get(names.into_iter().flatten().find_map(device)?.card)
    }

    /// Keeps only these cards, for example those with a domain, and groups them anew.
    ///
    /// ```
    /// use loom_core::allocator_api2::alloc::Global;
    /// use loom_transfer::topology::Topology;
    ///
    /// let sys = [
    ///     ("class/infiniband/mlx5_0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
    ///     ("class/net/eth0/device", "devices/pci0000:00/0000:00:03.0"),
    /// ];
    /// let mut topology = Topology::read_in(&sys[..], Global)?;
    /// topology.retain(|card| card.rdma);
    /// assert_eq!(topology.cards().len(), 1);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn retain(&mut self, keep: impl Fn(&Card) -> bool) {
        let mut kept = 0;
        for at in 0..self.cards.len() {
            let is_kept = self.cards.get(at).is_some_and(&keep);
            for device in self.devices.iter_mut().filter(|device| device.card == at) {
                device.card = if is_kept { kept } else { usize::MAX };
            }
            if is_kept {
                self.cards.swap(kept, at);
                kept += 1;
            }
        }
        self.cards.truncate(kept);
        self.arrange();
    }
}

#[cfg(test)]
mod tests {
    use loom_core::allocator_api2::alloc::Global;
    use loom_core::info::{NicBus, NicDevice};

    use super::*;

    #[test]
    fn domains_have_the_card_of_their_pci_address_or_else_of_their_name() {
        let sys = [
            ("class/infiniband/mlx5_0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
            ("class/net/ens1-a/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
            ("class/infiniband/mlx5_1/device", "devices/pci0000:3a/0000:3a:01.0/0000:3c:00.0"),
        ];
        let mut topology = Topology::read_in(&sys[..], Global).expect("a topology");
        let at = |bus| Some(Nic { bus: NicBus { pci: Some((0, bus, 0, 0)), ..NicBus::default() }, ..Nic::default() });
        let named = |name| Some(Nic { device: NicDevice { name, ..NicDevice::default() }, ..Nic::default() });
        let cases = [
            (at(0x3c), "mlx5_0", Some("mlx5_1")),
            (at(0x77), "mlx5_0-xrc", Some("mlx5_0")),
            (named(Some("mlx5_1")), "other", Some("mlx5_1")),
            (named(None), "ens1-a", Some("mlx5_0")),
            (None, "mlx5_1-dgram", Some("mlx5_1")),
            (None, "ens1", None),
            (None, "lo", None),
            (None, "shm", None),
            (None, "", None),
        ];
        for (nic, domain, expected) in cases {
            assert_eq!(topology.card(nic, domain).map(Card::name), expected, "{domain}");
        }
        topology.retain(|card| card.name() == "mlx5_1");
        let names = ["mlx5_0", "ens1-a", "mlx5_1"].map(|name| topology.card(None, name).map(Card::name));
        assert_eq!(names, [None, None, Some("mlx5_1")]);
    }
}

use loom_core::allocator_api2::alloc::Global;
use loom_transfer::topology::{Card, Topology};
use serde_json::{Value, json};

use super::offer::Offer;
use super::table::Columns;

pub(super) fn speed(bits_per_second: u64) -> String {
    if bits_per_second == 0 { "-".to_owned() } else { format!("{} Gbit/s", bits_per_second as f64 / 1e9) }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn processors(topology: &Topology<Global>, node: u32) -> String {
    let ranges = topology.processors(node).map(|range| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(",")
}

fn group(topology: &Topology<Global>, accelerator: usize) -> Vec<&str> {
    topology.group(accelerator).map(Card::name).collect()
}

pub(super) fn tables(topology: &Topology<Global>, offers: &[Offer]) -> [Columns; 3] {
    let mut nodes = Columns::new(&["NODE", "SOCKET", "PROCESSORS"]);
    for node in topology.nodes() {
        let processors = processors(topology, node.number);
        if !processors.is_empty() {
            nodes.rows.push(vec![node.number.to_string(), text(node.socket), processors]);
        }
    }
    let mut cards = Columns::new(&["CARD", "PCI", "NODE", "SPEED", "DOMAINS"]);
    for card in topology.cards() {
        let mut domains: Vec<_> = offers
            .iter()
            .filter(|offer| offer.place.as_deref() == Some(card.name()))
            .map(|offer| offer.domain.as_str())
            .collect();
        domains.sort_unstable();
        domains.dedup();
        let domains = (!domains.is_empty()).then(|| domains.join(", "));
        let speed = speed(card.bits_per_second);
        cards.rows.push(vec![card.name().to_owned(), text(card.pci), text(card.node), speed, text(domains)]);
    }
    let mut accelerators = Columns::new(&["ACCELERATOR", "VENDOR", "NODE", "CARDS"]);
    for (at, accelerator) in topology.accelerators().iter().enumerate() {
        let group = group(topology, at);
        let group = (!group.is_empty()).then(|| group.join(", "));
        let vendor = format!("{:#06x}", accelerator.vendor);
        accelerators.rows.push(vec![accelerator.pci.to_string(), vendor, text(accelerator.node), text(group)]);
    }
    [nodes, cards, accelerators]
}

pub(super) fn json(topology: &Topology<Global>) -> Value {
    let nodes = topology.nodes().iter().map(
        |node| json!({ "number": node.number, "socket": node.socket, "processors": processors(topology, node.number) }),
    );
    let cards = topology.cards().iter().map(|card| {
        json!({
            "name": card.name(),
            "pci": card.pci.map(|pci| pci.to_string()),
            "node": card.node,
            "bits_per_second": card.bits_per_second,
            "rdma": card.rdma,
        })
    });
    let accelerators = topology.accelerators().iter().enumerate().map(|(at, accelerator)| {
        json!({
            "pci": accelerator.pci.to_string(),
            "vendor": format!("{:#06x}", accelerator.vendor),
            "node": accelerator.node,
            "cards": group(topology, at),
        })
    });
    json!({
        "nodes": nodes.collect::<Vec<_>>(),
        "cards": cards.collect::<Vec<_>>(),
        "accelerators": accelerators.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_without_cards_has_one_line_of_processors() {
        let topology = Topology::read_in(&[("devices/system/cpu/online", "0-1")][..], Global);
        let tables = topology.map(|topology| tables(&topology, &[]).map(|columns| columns.rows.len()));
        assert_eq!(tables, Ok([2, 1, 1]));
    }

    #[test]
    fn cards_are_shown_with_their_accelerators() {
        let sys = [
            ("devices/system/node/node0/cpulist", "0-3,8"),
            ("devices/system/cpu/cpu0/topology/physical_package_id", "0"),
            ("class/infiniband/mlx5_0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"),
            ("class/infiniband/mlx5_0/ports/1/rate", "2.5 Gb/sec (1X SDR)"),
            ("bus/pci/devices/0000:3c:00.0", "devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0"),
            ("bus/pci/devices/0000:3c:00.0/class", "0x030200"),
            ("bus/pci/devices/0000:3c:00.0/vendor", "0x10de"),
        ];
        let text =
            Topology::read_in(&sys[..], Global).map(|topology| tables(&topology, &[]).map(|it| it.text()).concat());
        let expected = "NODE  SOCKET  PROCESSORS\n0     0       0-3,8\n\
             CARD    PCI           NODE  SPEED       DOMAINS\nmlx5_0  0000:3b:00.0  0     2.5 Gbit/s  -\n\
             ACCELERATOR   VENDOR  NODE  CARDS\n0000:3c:00.0  0x10de  0     mlx5_0\n";
        assert_eq!(text.as_deref(), Ok(expected));
    }
}

//! Cards of recorded machines, of malformed files, and of this machine.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use loom_core::error::OpenError;
use loom_fabric::loom_core;
use loom_transfer::topology::{Accelerator, Card, Near, PciAddress, SysFolder, SysFs, Topology};
use proptest::prelude::*;

const GIGABIT: u64 = 1_000_000_000;

/// Files and links of a machine.
#[derive(Clone, Debug, Default)]
struct Machine(Vec<(String, String)>);

impl Machine {
    fn file(&mut self, path: impl Into<String>, text: impl ToString) {
        self.0.push((path.into(), text.to_string()));
    }

    /// Adds nodes of these `processors`, with distances as of two sockets.
    fn nodes(&mut self, processors: &[&str]) {
        for (node, list) in processors.iter().enumerate() {
            self.file(format!("devices/system/node/node{node}/cpulist"), format!("{list}\n"));
            let distances = (0..processors.len()).map(|other| if other == node { "10" } else { "21" });
            let distances = distances.collect::<Vec<_>>().join(" ");
            self.file(format!("devices/system/node/node{node}/distance"), format!("{distances}\n"));
            let first = list.split(['-', ',']).next().unwrap();
            self.file(format!("devices/system/cpu/cpu{first}/topology/physical_package_id"), node);
        }
    }

    fn function(&mut self, path: &str, node: i32) {
        let address = path.rsplit('/').next().unwrap();
        self.file(format!("bus/pci/devices/{address}"), format!("devices/{path}"));
        self.file(format!("bus/pci/devices/{address}/numa_node"), format!("{node}\n"));
    }

    fn rdma(&mut self, name: &str, path: &str, node: i32, rate: &str) {
        self.function(path, node);
        self.file(format!("class/infiniband/{name}/device"), format!("devices/{path}"));
        self.file(format!("class/infiniband/{name}/ports/1/rate"), format!("{rate}\n"));
    }

    fn interface(&mut self, name: &str, path: &str, megabits: &str) {
        self.file(format!("class/net/{name}/device"), format!("devices/{path}"));
        self.file(format!("class/net/{name}/speed"), format!("{megabits}\n"));
    }

    fn accelerator(&mut self, path: &str, node: i32, class: &str, vendor: &str) {
        self.function(path, node);
        let address = path.rsplit('/').next().unwrap().to_owned();
        self.file(format!("bus/pci/devices/{address}/class"), format!("{class}\n"));
        self.file(format!("bus/pci/devices/{address}/vendor"), format!("{vendor}\n"));
    }

    fn read(&self) -> Topology<Global> {
        Topology::read_in(&self.0[..], Global).unwrap()
    }

    fn one_socket() -> Self {
        let mut machine = Machine::default();
        machine.nodes(&["0-3,8"]);
        machine.file("class/net/lo/speed", "");
        machine.rdma("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0", -1, "100 Gb/sec (4X EDR)");
        machine.interface("ens1", "pci0000:00/0000:00:01.0/0000:01:00.0", "100000");
        machine.interface("eth0", "pci0000:00/0000:00:03.0/virtio2", "-1");
        machine.interface("usb0", "platform/soc/usb0", "1000");
        machine
    }

    /// Machine of two sockets. Behind the ports of each are switches: `0` with an accelerator and
    /// two cards, `1` with two cards.
    fn two_sockets() -> Self {
        let mut machine = Machine::default();
        machine.nodes(&["0-15", "16-31"]);
        for (node, host) in [(0, 0x30), (1, 0xb0)] {
            for switch in 0..2 {
                let bus = host + 4 * switch + 1;
                let up = format!("pci0000:{host:02x}/0000:{host:02x}:0{switch}.0/0000:{bus:02x}:00.0");
                for card in 0..2 {
                    let path = format!("{up}/0000:{:02x}:0{card}.0/0000:{:02x}:0{card}.0", bus + 1, bus + 2);
                    machine.rdma(&format!("mlx5_{node}{switch}{card}"), &path, node, "200 Gb/sec (4X HDR)");
                }
                if switch == 0 {
                    let path = format!("{up}/0000:{:02x}:08.0/0000:{:02x}:08.0", bus + 1, bus + 2);
                    machine.accelerator(&path, node, "0x030200", "0x10de");
                }
            }
        }
        // Console of the management.
        machine.accelerator("pci0000:00/0000:00:1c.0/0000:02:00.0", 0, "0x030000", "0x1a03");
        machine
    }

    /// Machine of 8 accelerators, each behind a switch with `cards` cards.
    fn eight_accelerators(cards: usize) -> Self {
        let mut machine = Machine::default();
        machine.nodes(&["0-47", "48-95"]);
        for accelerator in 0..8 {
            let (bus, node) = (0x10 * (accelerator + 1), i32::from(accelerator >= 4));
            let up = format!("pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{:02x}:00.0", bus + 1);
            machine.accelerator(&format!("{up}/0000:{:02x}:00.0", bus + 2), node, "0x030200", "0x10de");
            for card in 0..cards {
                let name = format!("rdmap{accelerator}s{card}");
                machine.rdma(
                    &name,
                    &format!("{up}/0000:{:02x}:{:02x}.0", bus + 2, card + 1),
                    node,
                    "100 Gb/sec (4X EDR)",
                );
            }
        }
        machine
    }
}

fn names<'t>(cards: impl Iterator<Item = &'t Card>) -> Vec<&'t str> {
    cards.map(Card::name).collect()
}

/// Checks that groups divide the cards. Returns their sizes.
fn groups(topology: &Topology<Global>) -> Vec<usize> {
    let all = topology.accelerators();
    let groups: Vec<_> = (0..all.len()).map(|at| names(topology.group(at))).collect();
    let members: Vec<_> = groups.iter().flatten().collect();
    assert_eq!(members.len(), if all.is_empty() { 0 } else { topology.cards().len() });
    assert_eq!(members.iter().collect::<HashSet<_>>().len(), members.len(), "{groups:?}");
    for (at, group) in groups.iter().enumerate() {
        let owned = topology.cards().iter().filter(|card| card.accelerator == Some(at));
        assert_eq!(group.iter().collect::<HashSet<_>>(), names(owned).iter().collect());
    }
    assert!(topology.group(all.len()).next().is_none());
    groups.iter().map(Vec::len).collect()
}

#[test]
fn cards_of_one_socket_have_speeds_and_its_node() {
    let topology = Machine::one_socket().read();
    let cards = topology.cards().iter().map(|card| {
        (card.name(), card.pci.map(|pci| pci.to_string()), card.node, card.bits_per_second / GIGABIT, card.rdma)
    });
    let pci = |address: &str| Some(address.to_owned());
    // The RDMA device and the interface of one function are one card.
    let expected = [
        ("eth0", pci("0000:00:03.0"), Some(0), 0, false),
        ("mlx5_0", pci("0000:01:00.0"), Some(0), 100, true),
        ("usb0", None, Some(0), 1, false),
    ];
    assert_eq!(cards.collect::<Vec<_>>(), expected);
    assert!(topology.processors(0).eq([0..=3, 8..=8]));
    assert_eq!(topology.nodes().iter().map(|node| (node.number, node.socket)).collect::<Vec<_>>(), [(0, Some(0))]);
    assert!(topology.cards().iter().all(|card| card.accelerator.is_none()));
    assert!(topology.accelerators().is_empty());
}

#[test]
fn nearest_cards_share_a_switch_then_a_node() {
    let topology = Machine::two_sockets().read();
    let pci: PciAddress = "0000:b3:08.0".parse().unwrap();
    let near: Vec<&Accelerator> = topology.accelerators().iter().filter(|accelerator| accelerator.pci == pci).collect();
    assert_eq!(topology.accelerators().len(), 2, "a console is no accelerator");
    assert_eq!(
        names(topology.nearest(Near::Accelerator(near[0]))),
        ["mlx5_100", "mlx5_101", "mlx5_110", "mlx5_111", "mlx5_000", "mlx5_001", "mlx5_010", "mlx5_011"]
    );
    assert_eq!(names(topology.nearest(Near::Node(0)).take(4)), ["mlx5_000", "mlx5_001", "mlx5_010", "mlx5_011"]);
    assert_eq!(topology.nearest(Near::Node(7)).count(), 8);
    assert_eq!(groups(&topology), [4, 4]);
}

#[test]
fn distance_decides_between_other_nodes() {
    let mut machine = Machine::default();
    for (node, distances) in ["10 12 32", "12 10 22", "32 22 10"].into_iter().enumerate() {
        machine.file(format!("devices/system/node/node{node}/distance"), distances);
        machine.rdma(&format!("hfi1_{node}"), &format!("pci0000:{node}0/0000:{node}0:00.0"), node as i32, "100 Gb/sec");
    }
    let topology = machine.read();
    assert_eq!(names(topology.nearest(Near::Node(2))), ["hfi1_2", "hfi1_1", "hfi1_0"]);
    // Without a table, the other nodes are equally far.
    machine.0.retain(|(path, _)| !path.ends_with("node2/distance"));
    machine.file("devices/system/node/node2/distance", "10 22");
    assert_eq!(names(machine.read().nearest(Near::Node(2))), ["hfi1_2", "hfi1_0", "hfi1_1"]);
}

#[test]
fn a_budget_takes_cards_of_its_node_by_turns_of_the_switches() {
    let topology = Machine::two_sockets().read();
    let within = |node, gigabits: u64| names(topology.within(node, gigabits * GIGABIT));
    assert_eq!(within(1, 0), [""; 0]);
    assert_eq!(within(1, 1), ["mlx5_100"]);
    assert_eq!(within(1, 400), ["mlx5_100", "mlx5_110"]);
    assert_eq!(within(1, 401), ["mlx5_100", "mlx5_110", "mlx5_101"]);
    assert_eq!(within(1, 1000), ["mlx5_100", "mlx5_110", "mlx5_101", "mlx5_111", "mlx5_000"]);
    assert_eq!(names(topology.within(0, u64::MAX)).len(), 8);
}

#[test]
fn eight_accelerators_have_four_of_thirty_two_cards_each() {
    let topology = Machine::eight_accelerators(4).read();
    assert_eq!(groups(&topology), [4; 8]);
    for at in 0..8 {
        let own = format!("rdmap{at}s");
        assert!(topology.group(at).all(|card| card.name().starts_with(&own)));
        let near = topology.nearest(Near::Accelerator(&topology.accelerators()[at]));
        assert!(near.take(4).eq(topology.group(at)));
    }
}

#[test]
fn cards_that_are_equally_near_are_divided_evenly() {
    // Virtual machine without bridges.
    let mut machine = Machine::default();
    machine.nodes(&["0-7", "8-15"]);
    for at in 0..8 {
        machine.accelerator(&format!("pci0000:00/0000:00:{at:02x}.0"), at / 4, "0x120000", "0x1da3");
    }
    for at in 0..32 {
        machine.rdma(&format!("efa_{at}"), &format!("pci0000:00/0000:01:{at:02x}.0"), at / 16, "100 Gb/sec");
    }
    let mut topology = machine.read();
    assert_eq!(groups(&topology), [4; 8]);
    assert!(topology.group(5).all(|card| card.node == Some(1)));
    // Fewer cards than accelerators.
    topology.retain(|card| card.node == Some(0) && card.pci.is_some_and(|pci| pci.device < 3));
    assert_eq!(groups(&topology), [1, 1, 1, 0, 0, 0, 0, 0]);
    topology.retain(|_| false);
    assert!(topology.nearest(Near::Node(0)).next().is_none());
}

#[test]
fn accelerators_are_recognized_by_class_and_vendor() {
    let mut machine = Machine::default();
    let kinds = [
        ("0x030200", "0x10de", true),
        ("0x030000", "0x1002", true),
        ("0x038000", "0x8086", true),
        ("0x120000", "0x1da3", true),
        ("0x030000", "0x1af4", false),
        ("0x068000", "0x10de", false),
        ("0x088000", "0x1d0f", false),
        ("0x1200", "0x1da3", false),
        ("120000", "0x1da3", false),
        ("", "", false),
    ];
    for (at, (class, vendor, _)) in kinds.iter().enumerate() {
        machine.accelerator(&format!("pci0000:00/0000:00:{at:02x}.0"), 0, class, vendor);
    }
    machine.accelerator("pci0000:00/0000:00:1f.0", 0, "0x088000", "0x1d0f");
    machine.file("bus/pci/devices/0000:00:1f.0/device", "0x7364");
    let found: Vec<_> = machine.read().accelerators().iter().map(|accelerator| accelerator.pci.device).collect();
    assert_eq!(found, [0, 1, 2, 3, 0x1f]);
}

#[test]
fn malformed_files_give_defaults() {
    let mut machine = Machine::two_sockets();
    for text in
        ["", "-1", "text", "99999999999999999999999", "4294967295", "\u{0}", "1 2 3 4 5 6 7 8 9", "0x", "3-1,,-,7-"]
    {
        for (path, content) in &mut machine.0 {
            if !path.ends_with("device") && path.matches('/').count() > 3 {
                text.clone_into(content);
            }
        }
        let topology = machine.read();
        assert_eq!((topology.nodes().len(), topology.cards().len()), (2, 8), "{text}");
        assert!(topology.cards().iter().all(|card| card.node.is_none() && card.bits_per_second == 0), "{text}");
        assert_eq!(topology.nearest(Near::Node(0)).count(), 8);
        assert!(topology.accelerators().is_empty());
    }
    let mut machine = Machine::default();
    machine.file("devices/system/node/node0/cpulist", "0-1,5-3,x,7-9999999,-2,,4\n");
    machine.file("devices/system/node/node5000/cpulist", "0-1");
    machine.interface("eth0", &"0000:00:00.0/".repeat(20), "18446744073709551615");
    machine.interface("long", &"0000:00:00.0/".repeat(60), "1");
    machine.interface(&"e".repeat(64), "pci0000:00/0000:00:01.0", "1");
    let topology = machine.read();
    assert!(topology.processors(0).eq([0..=1, 4..=4]));
    assert_eq!(topology.nodes().len(), 1);
    let cards: Vec<_> = topology.cards().iter().map(|card| (card.name(), card.pci, card.bits_per_second)).collect();
    assert_eq!(cards, [("eth0", None, 0)]);
    // A list of processors that exceeds a buffer is not cut.
    machine.0[0].1 = "1,".repeat(4096);
    assert_eq!(machine.read().processors(0).count(), 0);
    assert!(machine.read().processors(3).next().is_none());
}

/// Machine that lists more devices than it has, or devices that are gone when they are listed
/// again.
struct Odd {
    names: usize,
    lists: std::cell::Cell<usize>,
}

impl SysFs for Odd {
    fn read(&self, _: &str, buffer: &mut [u8]) -> Option<usize> {
        Some(buffer.len() + 1)
    }

    fn list(&self, path: &str, each: &mut dyn FnMut(&str)) {
        let lists = self.lists.replace(self.lists.get() + 1);
        if path == "class/net" {
            (0..self.names >> lists.min(20)).for_each(|name| each(&format!("eth{name}")));
        }
    }

    fn resolve(&self, _: &str, buffer: &mut [u8]) -> Option<usize> {
        Some(buffer.len().min(3))
    }
}

#[test]
fn devices_that_vanish_are_left_out_and_too_many_are_refused() {
    let odd = |names| Topology::read_in(&Odd { names, lists: 0.into() }, Global);
    // Each list halves the number.
    let topology = odd(64 << 4).unwrap();
    assert!((1..64).contains(&topology.cards().len()), "{}", topology.cards().len());
    assert_eq!(odd(1 << 20).unwrap_err(), OpenError::Size);
}

#[derive(Clone, Debug)]
struct Full;

// SAFETY: no block is allocated.
unsafe impl Allocator for Full {
    fn allocate(&self, _: Layout) -> Result<std::ptr::NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn deallocate(&self, _: std::ptr::NonNull<u8>, _: Layout) {}
}

#[test]
fn a_full_allocator_is_an_error() {
    assert_eq!(Topology::read_in(&Machine::one_socket().0[..], Full).unwrap_err(), OpenError::OutOfMemory);
}

#[test]
fn addresses_are_parsed_strictly() {
    let parsed = ["0000:3b:00.1", "00000000:3B:1f.7", "10000:e1:00.0"]
        .map(|text| text.parse().map(|it: PciAddress| it.to_string()));
    assert_eq!(parsed.map(Result::unwrap), ["0000:3b:00.1", "0000:3b:1f.7", "10000:e1:00.0"]);
    for text in [
        "",
        ":",
        "0000:3b:00",
        "0000:3b:20.0",
        "0000:3b:00.8",
        "0000:+b:00.0",
        "123456789:00:00.0",
        "0:100:00.0",
        "ä:3b:00.0",
    ] {
        assert!(text.parse::<PciAddress>().is_err(), "{text}");
    }
}

/// Real files and links in the form of Linux.
struct Folder(PathBuf);

impl Folder {
    fn of(machine: &Machine, name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("loom-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in &machine.0 {
            let (file, target) = (root.join(path), root.join(text));
            if text.starts_with("devices/") {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::create_dir_all(&target).unwrap();
                let up = "../".repeat(path.matches('/').count());
                std::os::unix::fs::symlink(format!("{up}{text}"), file).unwrap();
            } else {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
        }
        Folder(root)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_folder_is_read_like_a_recorded_machine() {
    for (name, machine) in
        [("one", Machine::one_socket()), ("two", Machine::two_sockets()), ("eight", Machine::eight_accelerators(4))]
    {
        let folder = Folder::of(&machine, name);
        let (read, recorded) = (Topology::read_in(&SysFolder::new(&folder.0), Global).unwrap(), machine.read());
        assert_eq!(read.cards(), recorded.cards());
        assert_eq!(read.accelerators(), recorded.accelerators());
        assert_eq!(read.nodes(), recorded.nodes());
        assert!(read.processors(0).eq(recorded.processors(0)));
    }
    let nowhere = Topology::read_in(&SysFolder::new("/no/such/folder"), Global).unwrap();
    assert_eq!((nowhere.nodes().len(), nowhere.cards().len(), nowhere.processors(0).count()), (1, 0, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_is_bound_to_processors_that_it_may_use() {
    use loom_transfer::topology::bind_thread;

    let allowed = || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
        let sys = [("devices/system/cpu/online", line)];
        Topology::read_in(&sys[..], Global).unwrap().processors(0).flatten().collect::<Vec<_>>()
    };
    let before = allowed();
    let last = *before.last().unwrap();
    let bound = bind_thread([last, 60_000]).unwrap();
    assert_eq!(allowed(), [last]);
    // Other processors are not allowed until the guard is dropped.
    for processors in [vec![], vec![u32::MAX], before.iter().copied().filter(|one| *one != last).collect()] {
        assert_eq!(bind_thread(processors).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    drop(bound);
    assert_eq!(allowed(), before);
}

proptest! {
    #[test]
    fn every_card_is_in_the_group_of_one_of_its_nearest_accelerators(
        places in prop::collection::vec((0..3_u8, 0..2_u8, 0..3_i32), 0..24),
        split in 0..24_usize,
    ) {
        let mut machine = Machine::default();
        machine.nodes(&["0", "1"]);
        for (at, (host, port, node)) in places.iter().enumerate() {
            let path = format!("pci0000:{host}0/0000:{host}0:0{port}.0/0000:{host}{port}:{at:02x}.0");
            if at < split {
                machine.accelerator(&path, node - 1, "0x030200", "0x10de");
            } else {
                machine.rdma(&format!("c{at}"), &path, node - 1, "100 Gb/sec");
            }
        }
        let topology = machine.read();
        groups(&topology);
        for (at, accelerator) in topology.accelerators().iter().enumerate() {
            let nearest: Vec<_> = topology.nearest(Near::Accelerator(accelerator)).collect();
            prop_assert_eq!(nearest.len(), topology.cards().len());
            // A card behind a port with accelerators belongs to one of them.
            for card in topology.group(at) {
                let port = |pci: PciAddress| pci.bus;
                let bus = port(card.pci.unwrap());
                if topology.accelerators().iter().any(|other| port(other.pci) == bus) {
                    prop_assert_eq!(port(accelerator.pci), bus);
                }
            }
        }
    }

    #[test]
    fn no_text_of_a_file_is_a_panic(at in any::<prop::sample::Index>(), text in ".{0,40}", lines in prop::bool::ANY) {
        let mut machine = Machine::two_sockets();
        let entry = at.get(&machine.0).clone();
        for (path, content) in &mut machine.0 {
            if *path == entry.0 || (lines && path.rsplit('/').next() == entry.0.rsplit('/').next()) {
                content.clone_from(&text);
            }
        }
        let topology = machine.read();
        groups(&topology);
        prop_assert_eq!(topology.within(0, u64::MAX).count(), topology.cards().len());
    }
}

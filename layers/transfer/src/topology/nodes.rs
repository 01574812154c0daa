use core::ops::RangeInclusive;

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use super::sys_fs::{List, SysFs, collect, number, text};

/// Linux has fewer.
const NODES: u32 = 1024;
const PROCESSORS: u32 = 1 << 16;
/// Maximum length of a list in bytes.
const PROCESSOR_LIST: usize = 4096;

/// NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Number of the node in Linux.
    pub number: u32,
    /// Number of its socket, if it has processors.
    pub socket: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Processors {
    node: u32,
    first: u32,
    last: u32,
}

#[derive(Debug)]
pub(super) struct Nodes<A: Allocator> {
    pub(super) list: List<Node, A>,
    processors: List<Processors, A>,
    /// By places of nodes in the list.
    distances: Array<u8, A>,
}

impl<A: Allocator + Clone> Nodes<A> {
    pub(super) fn read(sys: &(impl SysFs + ?Sized), alloc: A) -> Result<Self, OpenError> {
        let mut list = collect(alloc.clone(), |found: &mut dyn FnMut(Node)| numbers(sys, found))?;
        list.sort_unstable_by_key(|node| node.number);
        // A kernel without NUMA has no nodes.
        let is_numa = !list.is_empty();
        if !is_numa {
            list = collect(alloc.clone(), |found| found(Node::default()))?;
        }
        let processors = collect(alloc.clone(), |found| {
            let mut buffer = [0; PROCESSOR_LIST];
            for Node { number, .. } in &*list {
                let text = if is_numa {
                    text(sys, format_args!("devices/system/node/node{number}/cpulist"), &mut buffer)
                } else {
                    text(sys, format_args!("devices/system/cpu/online"), &mut buffer)
                };
                processors(*number, text.unwrap_or_default(), found);
            }
        })?;
        for node in &mut *list {
            let first = processors.iter().find(|range| range.node == node.number);
            node.socket = first.and_then(|range| {
                number(sys, format_args!("devices/system/cpu/cpu{}/topology/physical_package_id", range.first))
            });
        }
        let mut distances = Array::new_in(list.len() * list.len(), alloc, |_| 0)?;
        for (from, row) in distances.chunks_exact_mut(list.len()).enumerate() {
            let node = list.get(from).map_or(0, |node| node.number);
            // The kernel's defaults.
            row.fill(20);
            if let Some(own) = row.get_mut(from) {
                *own = 10;
            }
            distance_row(sys, node, row);
        }
        Ok(Nodes { list, processors, distances })
    }
}

impl<A: Allocator> Nodes<A> {
    pub(super) fn processors(&self, node: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
        self.processors.iter().filter(move |range| range.node == node).map(|range| range.first..=range.last)
    }

    fn place(&self, node: u32) -> Option<usize> {
        self.list.binary_search_by_key(&node, |node| node.number).ok()
    }

    /// This node, or the only one.
    pub(super) fn known(&self, node: Option<u32>) -> Option<u32> {
        match &*self.list {
            [only] => Some(only.number),
            _ => node.filter(|node| self.place(*node).is_some()),
        }
    }

    /// Distance, 10 within a node. The longest if a node is unknown.
    pub(super) fn distance(&self, from: Option<u32>, to: Option<u32>) -> u8 {
        let at = || Some(self.place(from?)? * self.list.len() + self.place(to?)?);
        at().and_then(|at| self.distances.get(at)).copied().unwrap_or(u8::MAX)
    }
}

fn numbers(sys: &(impl SysFs + ?Sized), found: &mut dyn FnMut(Node)) {
    sys.list("devices/system/node", &mut |name| {
        let number = name.strip_prefix("node").and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|number| *number < NODES) {
            found(Node { number, socket: None });
        }
    });
}

fn processors(node: u32, list: &str, found: &mut dyn FnMut(Processors)) {
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse(), last.parse())
            && first <= last
            && last < PROCESSORS
        {
            found(Processors { node, first, last });
        }
    }
}

/// Leaves the row unless the file has as many distances.
fn distance_row(sys: &(impl SysFs + ?Sized), node: u32, row: &mut [u8]) {
    let mut buffer = [0; PROCESSOR_LIST];
    let Some(text) = text(sys, format_args!("devices/system/node/node{node}/distance"), &mut buffer) else { return };
    let distances = || text.split_ascii_whitespace().map(str::parse::<u8>);
    if distances().count() == row.len() && distances().all(|distance| distance.is_ok()) {
        for (place, distance) in row.iter_mut().zip(distances().flatten()) {
            *place = distance;
        }
    }
}

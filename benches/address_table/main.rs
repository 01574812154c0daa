//! Cost of an address table: `cargo bench --bench address_table`, with `--features libfabric` for
//! libfabric's tables.
//!
//! Operations: insertion, look-ups by peer and by address, and removal, at 10^3 to 10^6 peers with
//! IPv4 addresses. All but insertion are in a random order. Compared with:
//!
//! - two maps of `hashbrown`, one for each direction. `hashbrown_v4` has the smaller address type
//!   of IPv4 alone.
//! - `fi_av_insert`, `fi_av_lookup` and `fi_av_remove`, called from C (`raw.c`). libfabric has no
//!   look-up by address. With `tcp;ofi_rxm` at most 1000 peers are removed, because each removal
//!   visits all free entries. `shm` accepts 256 peers.
//!
//! `growth.peers` compares a message over `tcp;ofi_rxm` in a vector of 10^6 peers with one in a
//! vector of 1.
//!
//! One thread runs rounds, from an empty table to an empty table, that alternate between the sides.
//! The first round is not counted. Times are medians of the rounds, and ratios (`over_hashbrown`)
//! medians of the ratios of each round. Bytes are those of the allocator: Rust's, and `malloc` in
//! C.

#[cfg(feature = "libfabric")]
mod growth;
#[path = "../measure/mod.rs"]
mod measure;
#[cfg(feature = "libfabric")]
mod raw;
mod work;

use std::net::{SocketAddr, SocketAddrV4};
use std::process::ExitCode;

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};

use measure::{median, metric, ratio};
use work::{Counted, Maps, Times, Work, bytes_of, table};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Name and field of a time.
type Time = (&'static str, fn(&Times) -> f64);

const TIMES: [Time; 4] = [
    ("insert", |times| times.insert),
    ("lookup", |times| times.lookup),
    ("reverse", |times| times.reverse),
    ("remove", |times| times.remove),
];

/// Figures of one side at a number of peers.
struct Figures {
    /// Suffix of `address_table`, with the dot.
    side: &'static str,
    bytes: f64,
    rounds: Vec<Times>,
}

impl Figures {
    fn new(side: &'static str, bytes: f64) -> Self {
        Figures { side, bytes, rounds: Vec::new() }
    }

    fn print(&self, peers: u32) {
        metric(&format!("address_table{}.bytes_per_peer.{peers}", self.side), self.bytes, "bytes");
        for (name, which) in TIMES {
            let median = median(&self.times(which));
            if !median.is_nan() {
                metric(&format!("address_table{}.{name}_ns.{peers}", self.side), median, "ns");
            }
        }
    }

    fn print_over(&self, other: &Figures, peers: u32) {
        for (name, which) in TIMES {
            let ratio = ratio(&self.times(which), &other.times(which));
            metric(&format!("address_table{}.{name}_over{}.{peers}", self.side, other.side), ratio, "ratio");
        }
    }

    fn times(&self, which: fn(&Times) -> f64) -> Vec<f64> {
        self.rounds.iter().map(which).collect()
    }
}

fn per_peer(bytes: usize, peers: u32) -> f64 {
    bytes as f64 / f64::from(peers)
}

fn at(peers: u32, rounds: usize) -> Result<(), String> {
    println!("{peers} peers");
    let work = Work::new(peers);
    let count = peers as usize;
    let (memory, bytes) = bytes_of(|| AddressTableMemory::new_in(AddressTableAttr::new(count), Global));
    let mut memory = memory.map_err(|error| format!("{error:#}"))?;
    let mut own = Figures::new("", per_peer(bytes, peers));
    let mut own_table = memory.table();
    let mut handles = Vec::with_capacity(count);
    let (mut maps, bytes) = bytes_of(|| Maps::<SocketAddr>::new(count));
    let mut of_maps = Figures::new(".hashbrown", per_peer(bytes, peers));
    let (mut small, bytes) = bytes_of(|| Maps::<SocketAddrV4>::new(count));
    let mut of_small = Figures::new(".hashbrown_v4", per_peer(bytes, peers));
    #[cfg(feature = "libfabric")]
    let (tcp, mut of_tcp) = {
        let addresses = work.sockets.iter().map(|socket| SocketAddr::V4(*socket).into());
        let tcp = raw::Raw::new(raw::functions()?, c"tcp;ofi_rxm", Some(c"127.0.0.1"), addresses);
        (tcp, Figures::new(".tcp_rxm", f64::NAN))
    };
    for round in 0..=rounds {
        // The first round, in which memory is new to all sides, is not counted.
        let add = |figures: &mut Figures, times| {
            if round > 0 {
                figures.rounds.push(times);
            }
        };
        add(&mut own, table(&mut own_table, &mut handles, &work));
        add(&mut of_maps, maps.round(&work));
        add(&mut of_small, small.round(&work));
        #[cfg(feature = "libfabric")]
        {
            let (times, bytes) = tcp.round(&work)?;
            of_tcp.bytes = bytes;
            add(&mut of_tcp, times);
        }
    }
    for figures in [&own, &of_maps, &of_small] {
        figures.print(peers);
    }
    own.print_over(&of_maps, peers);
    #[cfg(feature = "libfabric")]
    of_tcp.print(peers);
    Ok(())
}

/// `shm`, with vectors of up to 256 peers.
#[cfg(feature = "libfabric")]
fn measure_shm(rounds: usize) -> Result<(), String> {
    use loom_core::vocabulary::{AddressFormat, EndpointAddr};
    const PEERS: u32 = 256;
    // Names of endpoints that do not exist. The provider looks for them at the first send.
    let name = |peer| {
        let name = format!("fi_shm://{}:{peer}\0", std::process::id());
        EndpointAddr::new(AddressFormat::ADDR_STR, name.as_bytes()).expect("short")
    };
    let names: Vec<_> = (0..PEERS).map(name).collect();
    let shm = raw::Raw::new(raw::functions()?, c"shm", None, names.into_iter());
    let work = Work::new(PEERS);
    let mut figures = Figures::new(".shm", f64::NAN);
    for round in 0..=rounds {
        let (times, bytes) = shm.round(&work)?;
        figures.bytes = bytes;
        if round > 0 {
            figures.rounds.push(times);
        }
    }
    figures.print(PEERS);
    Ok(())
}

fn run() -> Result<(), String> {
    at(1_000, 101)?;
    at(10_000, 31)?;
    at(100_000, 11)?;
    at(1_000_000, 5)?;
    #[cfg(feature = "libfabric")]
    {
        println!("libfabric {}", support::library_version());
        measure_shm(101)?;
        growth::run().map_err(|error| format!("{error:#}"))?;
    }
    #[cfg(not(feature = "libfabric"))]
    println!("libfabric: skipped, the feature `libfabric` is off");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("address_table: {error}");
            ExitCode::FAILURE
        }
    }
}

//! A deployment in one block of memory: a network or domain, an address vector, a queue with its
//! endpoints, and a slab of registered buffers. Prints the use of each byte.
//!
//! ```text
//! cargo run --release --example arena -- --mib 32
//! cargo run --release --features libfabric --example arena -- --provider 'tcp;ofi_rxm'
//! ```

mod common;

use std::alloc::Layout;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::{Arg, Parser, ValueExt};
use loom_alloc::registered::{Lease, Slab, SlabAttr};
use loom_alloc::{Account, Arena, Ledger, Locked};
use loom_fabric::{
    Av, AvAttr, Caps, Cq, CqAttr, Domain, Error, Hints, Info, Network, NetworkAttr, OpenError, Program, Source, Tag,
    Transport, scope,
};

use common::Failure;

const HELP: &str = "\
Opens a deployment in one block of memory, and prints the use of each byte.

    --mib N            size of the block, in MiB (default 64)
    --provider NAME    soft (default), loom-tcp, or a provider of libfabric
";

const PEERS: usize = 200;
const SLAB: SlabAttr = SlabAttr::new(4096, 8 << 10);
const NETWORK: NetworkAttr = NetworkAttr { endpoints: 32, tx_depth: 256, rx_depth: 1024, ..NetworkAttr::DEFAULT };
const QUEUE: CqAttr = CqAttr { endpoints: 2, ..CqAttr::new(4096) };

/// Account in the arena, which has a lock because any thread may drop handles.
type Alloc<'a, 'm> = Account<'a, &'a Locked<Arena<'m>>>;

/// Name, and blocks in order of allocation.
type Part = (&'static str, Vec<Layout>);

const NETWORK_NAME: &str = "software network";
const DOMAIN_NAME: &str = "domain";
const VECTOR_NAME: &str = "address vector";
const SLAB_NAME: &str = "registered slab";
const QUEUE_NAME: &str = "queue and endpoints";

/// Objects in opening order, except the address vector: its size depends on the domain.
fn parts<T: Transport>(info: &Info<T>) -> Result<Vec<Part>, OpenError> {
    let domain = vec![Domain::layout::<Alloc<'_, '_>>(info)?];
    let slab = vec![SLAB.memory()?, SLAB.table()?];
    let queue = vec![QUEUE.layout::<T, Lease<'_>, Alloc<'_, '_>>()?];
    Ok(vec![(DOMAIN_NAME, domain), (SLAB_NAME, slab), (QUEUE_NAME, queue)])
}

fn check(arena: &Locked<Arena<'_>>, parts: &[Part]) -> Result<(), Failure> {
    let (mut whole, mut missing) = (arena.used(), None);
    for (name, blocks) in parts {
        // Alignment may skip bytes in front of each block.
        whole += blocks.iter().map(|block| block.size() + block.align() - 1).sum::<usize>();
        if whole > arena.capacity() {
            missing = missing.or(Some(name));
        }
    }
    let Some(name) = missing else { return Ok(()) };
    Err(format!("the block is too small for the {name}: use --mib {}", whole.div_ceil(1 << 20)).into())
}

fn main() -> ExitCode {
    common::exit("arena", run(Parser::from_env()))
}

fn run(mut arguments: Parser) -> Result<String, Failure> {
    let (mut mib, mut provider) = (64_usize, "soft".to_owned());
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("mib") => mib = arguments.value()?.parse()?,
            Arg::Long("provider") => provider = arguments.value()?.string()?,
            Arg::Long("help") => return Ok(HELP.into()),
            other => return Err(other.unexpected().into()),
        }
    }
    // Without an operating system the block is a `StaticArena`, with huge pages an `os::Mapping`.
    let mut block: Vec<MaybeUninit<u8>> = Vec::new();
    block.try_reserve_exact(mib.checked_mul(1 << 20).ok_or("--mib exceeds the address space")?)?;
    block.resize(mib << 20, MaybeUninit::uninit());
    let mut arena = Locked::new(Arena::new(&mut block));
    let ledger = Ledger::<8>::new();
    let deployment = Deployment { arena: &arena, ledger: &ledger };
    let hints = Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::local(&provider) };
    let mut text = if provider == "soft" {
        let network = (NETWORK_NAME, vec![NETWORK.layout::<Alloc<'_, '_>>()?]);
        // The layout of a domain depends on its info.
        let small = Network::new(NetworkAttr { endpoints: 1, tx_depth: 1, rx_depth: 1, ..NetworkAttr::DEFAULT })?;
        check(&arena, &[vec![network], parts(&small.info())?].concat())?;
        let network = Network::new_in(NETWORK, ledger.account(NETWORK_NAME, &arena)?)?;
        deployment.open(&network.query(&hints)?)?
    } else {
        common::over(&hints, deployment)?
    };
    let arena = arena.get_mut();
    arena.reset();
    writeln!(text, "closed: {} bytes are in use, {} were at most", arena.used(), arena.high_water())?;
    Ok(text)
}

struct Deployment<'a, 'm> {
    arena: &'a Locked<Arena<'m>>,
    ledger: &'a Ledger<8>,
}

impl Program for Deployment<'_, '_> {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        self.open(info)
    }
}

impl Deployment<'_, '_> {
    fn open<T: Transport>(self, info: &Info<T>) -> Result<String, Failure> {
        let Deployment { arena, ledger } = self;
        let mut parts = parts(info)?;
        check(arena, &parts)?;
        // The block is borrowed, so its objects are opened in a scope.
        scope(|s| {
            let domain = s.open_in(info, ledger.account(DOMAIN_NAME, arena)?)?;
            parts.insert(1, (VECTOR_NAME, vec![AvAttr::new(PEERS).layout::<T, Alloc<'_, '_>>(&domain)?]));
            check(arena, &parts[1..])?;
            let av = Av::open_in(&domain, PEERS, ledger.account(VECTOR_NAME, arena)?)?;
            let slab = Slab::open_in(&domain, SLAB, ledger.account(SLAB_NAME, arena)?)?;
            // The slab lends its buffers, so the queue closes first.
            scope(|s| {
                let cq = Cq::open_in(&s.domain(&domain), QUEUE, ledger.account(QUEUE_NAME, arena)?)?;
                let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
                let to_bob = av.insert(&bob.address()?)?;
                let opened = arena.used();
                for round in 0..10_000_u64 {
                    let deadline = Instant::now() + Duration::from_secs(10);
                    let room = slab.lease().ok_or("the slab has no buffer")?;
                    let mut message = slab.lease().ok_or("the slab has no buffer")?;
                    message.append(&round.to_le_bytes())?;
                    message.append(&[0x5a; 1000])?;
                    let received = cq
                        .post(room, deadline, |room| bob.tagged_recv(Source::Any, Tag(7), room))
                        .map_err(Error::from)?;
                    let sent = cq
                        .post(message, deadline, |message| alice.tagged_send(to_bob, Tag(7), message))
                        .map_err(Error::from)?;
                    let (mut message, result) = cq.finish(received, deadline)?.into_parts();
                    message.commit(result?.len)?;
                    let (number, rest) = message.data().split_at(8);
                    if number != round.to_le_bytes() || rest != [0x5a; 1000] {
                        return Err("a message has other bytes".into());
                    }
                    cq.finish(sent, deadline)?.result()?;
                }
                if arena.used() != opened {
                    return Err("messages have allocated memory".into());
                }
                accounts(arena, ledger, &parts)
            })
        })
    }
}

fn accounts(arena: &Locked<Arena<'_>>, ledger: &Ledger<8>, parts: &[Part]) -> Result<String, Failure> {
    let (used, capacity) = (arena.used(), arena.capacity());
    let bytes = |blocks: &[Layout]| blocks.iter().map(Layout::size).sum::<usize>();
    let (mut booked, mut text) = (0, format!("{:>12}  {:>6}\n", "bytes", "blocks"));
    for entry in ledger.entries() {
        writeln!(text, "{:>12}  {:>6}  {}", entry.bytes, entry.blocks, entry.name)?;
        booked += entry.bytes;
        if parts.iter().any(|(name, blocks)| *name == entry.name && bytes(blocks) != entry.bytes) {
            return Err(format!("the {} has not the size of its layout", entry.name).into());
        }
    }
    writeln!(text, "{:>12}  {:>6}  for alignment", used - booked, "")?;
    writeln!(text, "{:>12}  {:>6}  free, of {capacity}", capacity - used, "")?;
    writeln!(text, "10,000 messages of 1,008 bytes in buffers of the slab have allocated nothing")?;
    Ok(text)
}

#[cfg(test)]
#[path = "../tests/examples/arena.rs"]
mod tests;

//! A whole deployment in one block of memory: a software network or a domain of libfabric, an address vector, a queue with its
//! endpoints, and a slab of registered buffers. Prints where each byte went, object by object; refuses clearly when the block is
//! too small.
//!
//! ```text
//! cargo run --release --example arena
//! cargo run --release --example arena -- --mib 32
//! cargo run --release --features libfabric --example arena -- --provider 'tcp;ofi_rxm'
//! ```

use std::alloc::Layout;
use std::error::Error;
use std::fmt;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::{Arg, Parser, ValueExt};
use loom_alloc::registered::{Lease, Slab, SlabAttr};
use loom_alloc::{Account, Arena, Ledger, Locked};
use loom_fabric::{
    Av, AvAttr, Cq, CqAttr, Domain, Info, Network, NetworkAttr, OpenError, PostError, Soft, Source, Tag, Transport,
    scope,
};

const HELP: &str = "\
Opens a deployment in one block of memory, and prints where each byte went.

Usage: arena [OPTIONS]

  --mib N          how large the block is, in MiB [64]
  --provider NAME  over a provider of libfabric instead of the software transport: shm, 'tcp;ofi_rxm'
  --help           this text
";

/// Operations that can be in flight.
const DEPTH: usize = 4096;
const PEERS: usize = 200;
/// Buffers of 8 KiB in one registered region.
const SLAB: SlabAttr = SlabAttr::new(4096, 8 << 10);
const NETWORK: NetworkAttr = NetworkAttr { endpoints: 32, tx_depth: 256, rx_depth: 1024, ..NetworkAttr::DEFAULT };

const QUEUE: CqAttr = CqAttr::new(DEPTH).endpoints(2);

/// What each object takes its memory from. The arena has a lock: the thread that drops the last handle of an object gives its block back,
/// on any thread.
type Alloc<'a, 'm> = Account<'a, &'a Locked<Arena<'m>>>;

/// What an object takes.
#[derive(Clone)]
struct Part {
    name: &'static str,
    /// Its blocks, in the order in which it takes them.
    blocks: Vec<Layout>,
}

impl Part {
    fn new<const N: usize>(name: &'static str, blocks: [Result<Layout, OpenError>; N]) -> Result<Self, OpenError> {
        Ok(Part { name, blocks: blocks.into_iter().collect::<Result<_, _>>()? })
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(Layout::size).sum()
    }
}

/// The names of the accounts.
const NETWORK_NAME: &str = "software network";
const DOMAIN_NAME: &str = "domain";
const VECTOR_NAME: &str = "address vector";
const SLAB_NAME: &str = "registered slab";
const QUEUE_NAME: &str = "queue and endpoints";

/// What is going to be opened, in this order, but for the address vector: that cannot say what it takes before there is a domain.
fn parts<T: Transport>() -> Result<Vec<Part>, OpenError> {
    let domain = Part::new(DOMAIN_NAME, [Domain::<T>::layout::<Alloc<'_, '_>>()]);
    let slab = Part::new(SLAB_NAME, [SLAB.memory(), SLAB.table()]);
    let queue = Part::new(QUEUE_NAME, [QUEUE.layout::<T, Lease<'_>, Alloc<'_, '_>>()]);
    [domain, slab, queue].into_iter().collect()
}

/// The block is too small.
#[derive(Debug)]
struct TooSmall {
    /// What does not fit, and how much it takes where how much is left.
    name: &'static str,
    needs: usize,
    left: usize,
    /// How much all of it takes.
    whole: usize,
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooSmall { name, needs, left, whole } = self;
        write!(f, "the block is too small: the {name} takes {needs} bytes, and {left} are left; ")?;
        write!(f, "{whole} bytes are needed in all: --mib {}", whole.div_ceil(1 << 20))
    }
}

impl Error for TooSmall {}

/// Sees that there is room for all parts, before any is opened.
fn check(arena: &Locked<Arena<'_>>, parts: &[Part]) -> Result<(), TooSmall> {
    let (mut end, capacity) = (arena.used(), arena.capacity());
    let mut missing = None;
    for part in parts {
        let left = capacity.saturating_sub(end);
        // Wherever the block begins, it is aligned within so many bytes more.
        end += part.blocks.iter().map(|block| block.size() + block.align() - 1).sum::<usize>();
        if end > capacity {
            missing = missing.or(Some((part, left)));
        }
    }
    match missing {
        None => Ok(()),
        Some((part, left)) => Err(TooSmall { name: part.name, needs: part.bytes(), left, whole: end }),
    }
}

fn main() -> ExitCode {
    match run(Parser::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arena: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Parser) -> Result<(), Box<dyn Error>> {
    let (mut mib, mut provider) = (64_usize, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("mib") => mib = arguments.value()?.parse()?,
            Arg::Long("provider") => provider = Some(arguments.value()?.string()?),
            Arg::Long("help") => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let bytes = mib.checked_mul(1 << 20).ok_or("--mib is more than memory can have")?;
    // The one block. A program without an operating system has it in a `StaticArena`, one that wants huge pages in an
    // `os::Mapping`.
    let mut block: Vec<MaybeUninit<u8>> = Vec::new();
    block.try_reserve_exact(bytes)?;
    block.resize(bytes, MaybeUninit::uninit());
    let mut arena = Locked::new(Arena::new(&mut block));
    let ledger = Ledger::<8>::new();
    match provider {
        None => {
            let network = Part::new(NETWORK_NAME, [NETWORK.layout::<Alloc<'_, '_>>()])?;
            check(&arena, &[vec![network], parts::<Soft<'_>>()?].concat())?;
            let network = Network::new_in(NETWORK, ledger.account(NETWORK_NAME, &arena)?)?;
            deploy(&network.info(), &arena, &ledger)?;
        }
        Some(provider) => libfabric(&provider, &arena, &ledger)?,
    }
    // All of it is closed: otherwise this would not compile. What was left between blocks is free again, too, for the next one.
    let arena = arena.get_mut();
    arena.reset();
    println!("closed: {} bytes are in use, {} were at most", arena.used(), arena.high_water());
    Ok(())
}

#[cfg(feature = "libfabric")]
fn libfabric(provider: &str, arena: &Locked<Arena<'_>>, ledger: &Ledger<8>) -> Result<(), Box<dyn Error>> {
    use loom_fabric::{Caps, Hints, Local, Ofi};
    let hints = Hints { caps: Caps::MSG | Caps::TAGGED, ..Hints::local(provider) };
    let info = Ofi::<Local>::query(&hints)?.next().ok_or_else(|| format!("there is no {provider} here"))?;
    deploy(&info, arena, ledger)
}

#[cfg(not(feature = "libfabric"))]
fn libfabric(_: &str, _: &Locked<Arena<'_>>, _: &Ledger<8>) -> Result<(), Box<dyn Error>> {
    Err("this program was built without libfabric: cargo run --release --features libfabric --example arena".into())
}

/// Opens everything, moves data, and prints where each byte went.
fn deploy<T: Transport>(info: &Info<T>, arena: &Locked<Arena<'_>>, ledger: &Ledger<8>) -> Result<(), Box<dyn Error>> {
    let mut parts = parts::<T>()?;
    check(arena, &parts)?;
    // The block is borrowed: so all that is in it is closed when the scope ends.
    scope(|s| {
        let domain = s.open_in(info, ledger.account(DOMAIN_NAME, arena)?)?;
        let vector = AvAttr::new(PEERS).layout::<T, Alloc<'_, '_>>(&domain);
        parts.insert(1, Part::new(VECTOR_NAME, [vector])?);
        check(arena, &parts[1..])?;
        let av = Av::open_in(&domain, PEERS, ledger.account(VECTOR_NAME, arena)?)?;
        let slab = Slab::open_in(&domain, SLAB, ledger.account(SLAB_NAME, arena)?)?;
        // And the slab lends its buffers: so the queue is closed before it.
        scope(|s| {
            let cq = Cq::open_in(&s.domain(&domain), QUEUE, ledger.account(QUEUE_NAME, arena)?)?;
            let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
            let to_bob = av.insert(&bob.address()?)?;
            let opened = arena.used();
            for round in 0..10_000_u64 {
                let mut message = slab.lease().ok_or("all buffers are out")?;
                message.append(&round.to_le_bytes())?;
                message.append(&[0x5a; 1000])?;
                let received = bob.tagged_recv(Source::Any, Tag(7), slab.lease().ok_or("all buffers are out")?);
                let received = received.map_err(PostError::from)?;
                let deadline = Instant::now() + Duration::from_secs(10);
                let mut sent = alice.tagged_send(to_bob, Tag(7), message);
                while let Err(refused) = sent {
                    // A connection that is not up yet, or a queue that is full.
                    if !refused.error.is_transient() {
                        return Err(refused.error.into());
                    }
                    if Instant::now() > deadline {
                        return Err("a message cannot be sent".into());
                    }
                    cq.progress()?;
                    sent = alice.tagged_send(to_bob, Tag(7), refused.buf);
                }
                let done = cq.wait(received, deadline)?.ok_or("nothing has arrived in time")?;
                let (mut message, result) = done.into_parts();
                message.commit(result?.len())?;
                let (number, rest) = message.data().split_at(8);
                if number != round.to_le_bytes() || rest != [0x5a; 1000] {
                    return Err("a message is not what was sent".into());
                }
                cq.wait(sent.map_err(PostError::from)?, deadline)?.ok_or("a send does not end")?.into_parts().1?;
            }
            if arena.used() != opened {
                return Err("something has taken memory after it was opened".into());
            }
            print(arena, ledger, &parts)
        })
    })
}

/// Where each byte went, beside what the objects said beforehand.
fn print(arena: &Locked<Arena<'_>>, ledger: &Ledger<8>, parts: &[Part]) -> Result<(), Box<dyn Error>> {
    let (used, capacity) = (arena.used(), arena.capacity());
    let mut booked = 0;
    println!("{:>12}  {:>6}  what", "bytes", "blocks");
    for entry in ledger.entries() {
        println!("{:>12}  {:>6}  {}", entry.bytes, entry.blocks, entry.name);
        booked += entry.bytes;
        if parts.iter().any(|part| part.name == entry.name && part.bytes() != entry.bytes) {
            return Err(format!("the {} takes something else than it has said", entry.name).into());
        }
    }
    println!("{:>12}  {:>6}  between them, to align them", used - booked, "");
    println!("{:>12}  {:>6}  left of {capacity}", capacity - used, "");
    println!("10,000 messages of 1,008 bytes were sent out of the slab and received into it, and took nothing more");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        run(Parser::from_args(arguments))
    }

    #[test]
    fn the_block_has_room_for_everything() {
        with(&[]).expect("64 MiB are enough");
    }

    #[test]
    fn a_block_that_is_too_small_is_refused_before_anything_is_opened() {
        for (mib, what) in [("0", NETWORK_NAME), ("8", NETWORK_NAME), ("28", SLAB_NAME)] {
            let error = with(&["--mib", mib]).expect_err("it is too small");
            let error = error.downcast::<TooSmall>().expect("it is said beforehand");
            assert_eq!(error.name, what, "{error}");
            let text = error.to_string();
            let (_, enough) = text.rsplit_once(' ').expect("it says what would be enough");
            with(&["--mib", enough]).expect("it is enough");
            let less = enough.parse::<usize>().expect("a number") - 1;
            with(&["--mib", &less.to_string()]).expect_err("and no less is");
        }
    }
}

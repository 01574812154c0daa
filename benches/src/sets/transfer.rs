//! Lists of writes: the transfer engine compared with a loop in C over the same provider, and over
//! the software transport. Each write has immediate data, and is an event at both sides.

#[cfg(feature = "libfabric")]
use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Access, Domain, Info, Transport};
use loom_transfer::{Block, Blocks, Engine, EngineAttr, Event, MemoryKey, PeerKey, RemoteMemory, Request};

use super::parts;
use crate::Failure;
use crate::contest::Contest;
use crate::report::{Goal, Run};
use crate::sides::{LONGEST, size_name};
#[cfg(feature = "libfabric")]
use crate::{
    report::Ratio,
    sides::{
        Provider,
        c::{C, Calls},
    },
};

/// Blocks of a list, as in a report about another engine.
pub(super) const LIST: usize = 18_880;
const DATA: u64 = 9;

/// An initiator and a target on one thread.
pub(super) struct Side<'l, T: Transport + 'static> {
    initiator: Engine<'static, T, Vec<u8>, Blocks<&'l [Block]>, Global>,
    target: Engine<'static, T, Vec<u8>, Block, Global>,
    peer: PeerKey,
    local: MemoryKey,
    remote: RemoteMemory,
    /// Requests for lists and their parts, with their blocks checked.
    prepared: Vec<Request<Blocks<&'l [Block]>>>,
}

/// Durations of a list: of the initiator's calls, and until all writes have been counted.
#[cfg(feature = "libfabric")]
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) posted: Duration,
    pub(super) done: Duration,
}

/// Returns blocks in a random order, like the loop in C, in memory of `area` bytes.
pub(super) fn list(len: usize, count: usize, area: usize) -> Vec<Block> {
    let (len, places) = (len as u64, (area / len) as u64);
    let block = |number| Block { local: number * 7919 % places * len, remote: number * 104_729 % places * len, len };
    (0..count as u64).map(block).collect()
}

/// Returns memory of huge pages if the system has them, like numpy's arrays.
fn memory(len: usize, byte: u8) -> Vec<u8> {
    let mut memory = Vec::<u8>::with_capacity(len);
    let skipped = memory.as_ptr().align_offset(4096);
    // SAFETY: advice on pages of the vector alone, except that the last one may reach beyond its
    // end. It does not change contents.
    unsafe {
        libc::madvise(
            memory.as_mut_ptr().wrapping_add(skipped).cast(),
            len.saturating_sub(skipped),
            libc::MADV_HUGEPAGE,
        )
    };
    memory.resize(len, byte);
    memory
}

impl<T: Transport + 'static> Side<'_, T> {
    pub(super) fn open(info: &Info<T>, area: usize) -> Result<Self, Failure> {
        let attr = EngineAttr { depth: 64, peer_depth: 64, ..EngineAttr::default() };
        let mut initiator = Engine::open_in(&[Domain::open(info)?], attr, Global)?;
        let mut target = Engine::open_in(&[Domain::open(info)?], attr, Global)?;
        let local = initiator.register(memory(area, 0x5a), Access::empty())?;
        let memory = target.register(memory(area, 0), Access::REMOTE_WRITE)?;
        let mut record = [0; 1024];
        let len = target.address(&mut record)?;
        let (peer, remote) = (initiator.insert_peer(&record[..len])?, target.remote(memory)?);
        Ok(Side { initiator, target, peer, local, remote, prepared: Vec::new() })
    }
}

impl<'l, T: Transport + 'static> Side<'l, T> {
    /// Submits a list, whose blocks are checked the first time.
    fn submit(&mut self, list: &'l [Block]) {
        let known = self.prepared.iter().position(|request| std::ptr::eq(request.plan().0, list));
        let request = known.map(|at| self.prepared.swap_remove(at)).unwrap_or_else(|| {
            let request = Request::write(self.peer, self.local, &self.remote, Blocks(list)).data(DATA);
            self.initiator.prepare(request).expect("a request")
        });
        self.initiator.submit(request).expect("a request");
    }

    /// Posts `count` writes, and polls until all are completed and counted.
    fn run(&mut self, list: &'l [Block], count: u32) {
        for blocks in parts(list, 0, count) {
            let total = self.target.arrived(DATA) + blocks.len() as u64;
            self.submit(blocks);
            let mut ended = false;
            while !ended || self.target.arrived(DATA) < total {
                if let Some(Event::Ended(outcome)) = self.initiator.poll(0).expect("a queue") {
                    outcome.result().expect("a transfer");
                    self.prepared.push(outcome.request);
                    ended = true;
                }
                assert!(self.target.poll(0).expect("a queue").is_none());
            }
        }
    }
}

#[cfg(feature = "libfabric")]
impl<'l, T: Transport + 'static> Side<'l, T> {
    pub(super) fn timed(&mut self, list: &'l [Block]) -> Times {
        let total = self.target.arrived(DATA) + list.len() as u64;
        let begin = Instant::now();
        self.submit(list);
        let mut posted = begin.elapsed();
        let mut ended = false;
        while !ended || self.target.arrived(DATA) < total {
            let begin = Instant::now();
            if let Some(Event::Ended(outcome)) = self.initiator.poll(0).expect("a queue") {
                outcome.result().expect("a transfer");
                self.prepared.push(outcome.request);
                ended = true;
            }
            posted += begin.elapsed();
            assert!(self.target.poll(0).expect("a queue").is_none());
        }
        Times { posted, done: begin.elapsed() }
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    for len in [64, 4 << 10] {
        let list = list(len, LIST, LONGEST);
        let network = Network::new(NetworkAttr::DEFAULT)?;
        let mut side = Side::open(&network.info(), LONGEST)?;
        let name = format!("transfer.soft.{}", size_name(len));
        let outcome =
            Contest::new(format!("{name}.descriptor")).side("loom", |count| side.run(&list, count)).run(&run.settings);
        run.contest(&outcome);
        run.figure(&outcome, (&format!("{name}.ns"), "loom"), ("ns", Goal::Lower), |nanoseconds| nanoseconds);
        #[cfg(feature = "libfabric")]
        for provider in [Provider::SHM, Provider::TCP] {
            let (what, goal) = if len == 64 { ("descriptor", 1.10) } else { ("page", 1.05) };
            let goal = Goal::AtMost(goal);
            let mut c = C::open(provider, Calls::Inline)?;
            let (info, ranges) = (provider.info()?, c.list(&list));
            let mut side = Side::open(&info, LONGEST)?;
            let name = format!("transfer_over_c.{}.{what}", provider.metric);
            let outcome = Contest::new(format!("{}.{what}", provider.metric))
                .side_that_measures("C", |count| c.write_list(&ranges, 0, count))
                .side("loom", |count| side.run(&list, count))
                .run(&run.settings);
            run.contest(&outcome);
            run.ratio(&outcome, Ratio { name: &name, of: "loom", over: "C", goal });
            if provider.metric == Provider::SHM.metric {
                let mut side = Side::open(&network.info(), LONGEST)?;
                let outcome = Contest::new(format!("soft.{what}"))
                    .side_that_measures("C", |count| c.write_list(&ranges, 0, count))
                    .side("loom", |count| side.run(&list, count))
                    .run(&run.settings);
                run.contest(&outcome);
                let name = format!("transfer_over_c.soft.{what}");
                run.ratio(&outcome, Ratio { name: &name, of: "loom", over: "C", goal });
            }
        }
    }
    Ok(())
}

/// Name of a descriptor of a list in metrics of instructions.
pub(crate) const NAME: &str = "list.64B";

/// Opens a side, warms it up, and passes its round.
pub(crate) fn only(side: &str, counted: impl FnOnce(&mut dyn FnMut(u32))) -> Result<(), Failure> {
    fn warm(mut run: impl FnMut(u32), counted: impl FnOnce(&mut dyn FnMut(u32))) {
        run(1000);
        counted(&mut run);
    }

    let list = list(64, LIST, LONGEST);
    match side {
        "soft" => {
            let network = Network::new(NetworkAttr::DEFAULT)?;
            let mut side = Side::open(&network.info(), LONGEST)?;
            warm(|count| side.run(&list, count), counted);
        }
        #[cfg(feature = "libfabric")]
        "shm" => {
            let mut side = Side::open(&Provider::SHM.info()?, LONGEST)?;
            warm(|count| side.run(&list, count), counted);
        }
        #[cfg(feature = "libfabric")]
        "c" => {
            let mut c = C::open(Provider::SHM, Calls::Inline)?;
            let list = c.list(&list);
            warm(|count| _ = c.write_list(&list, 0, count), counted);
        }
        side => return Err(format!("there is no list of '{side}'").into()),
    }
    Ok(())
}

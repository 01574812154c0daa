//! Pages that the transfer engine writes to another core: windows, rails, and processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::thread::Scope;

use loom_core::allocator_api2::alloc::Global;
use loom_core::{Access, Domain, Info};
use loom_fabric::ofi::{Local, Ofi};
use loom_transfer::{Block, Engine, EngineAttr, Event, MemoryKey, PeerKey, RemoteMemory, Request};

use crate::Failure;
use crate::contest::{Contest, Settings};
use crate::cores::{self, Peer, Rounds};
use crate::report::{Goal, Ratio, Run};
use crate::sides::Provider;
use crate::statistics::Summary;

const LEN: u64 = 256 << 10;
/// Pages of the memory of each side.
const PLACES: u64 = 16;
const WINDOW: u32 = 8;
const RAILS: usize = 4;
const DATA: u64 = 0;
/// Pages in a round of processor time, 1/16 GiB in total.
const PAGES: u32 = 256;

type Side = Engine<'static, Ofi<Local>, Vec<u8>, Block, Global>;

fn open(info: &Info<Ofi<Local>>, rails: usize) -> Result<(Side, MemoryKey), loom_core::Error> {
    let domains = (0..rails).map(|_| Domain::open(info)).collect::<Result<Vec<_>, _>>()?;
    let mut engine = Engine::open_in(&domains, EngineAttr { depth: 64, ..EngineAttr::default() }, Global)?;
    let memory = engine.register(vec![0x5a; (LEN * PLACES) as usize], Access::REMOTE_WRITE)?;
    Ok((engine, memory))
}

/// Totals of pages counted by the target, and of pages completed on the initiator.
#[derive(Default)]
struct Totals {
    counted: AtomicU64,
    ended: AtomicU64,
}

struct Initiator {
    engine: Side,
    local: MemoryKey,
    remote: RemoteMemory,
    peer: PeerKey,
    target: Peer,
    totals: Arc<Totals>,
    total: u64,
}

impl Initiator {
    fn open<'s>(scope: &'s Scope<'s, '_>, info: &'s Info<Ofi<Local>>, rails: usize) -> Result<Self, Failure> {
        let totals = Arc::new(Totals::default());
        let (sender, receiver) = channel();
        let theirs = Arc::clone(&totals);
        let target = Peer::start(scope, 1, move |rounds| count(info, rails, &sender, &theirs, rounds));
        let (record, remote) = receiver.recv()?;
        let (mut engine, local) = open(info, rails)?;
        let peer = engine.insert_peer(&record)?;
        Ok(Initiator { engine, local, remote, peer, target, totals, total: 0 })
    }

    /// Writes `count` pages, and waits until all are completed and counted.
    fn write(&mut self, count: u32, window: u32) {
        self.target.begin(count);
        self.total += u64::from(count);
        let (mut submitted, mut ended) = (0, 0);
        while ended < count {
            while submitted < count && submitted - ended < window {
                let place = u64::from(submitted) % PLACES * LEN;
                let page = Block { local: place, remote: place, len: LEN };
                let request = Request::write(self.peer, self.local, &self.remote, page).data(DATA);
                self.engine.submit(request).expect("a request");
                submitted += 1;
            }
            if let Some(Event::Ended(outcome)) = self.engine.poll(0).expect("a queue") {
                outcome.result().expect("a page");
                ended += 1;
            }
        }
        self.totals.ended.store(self.total, Ordering::Release);
        while self.totals.counted.load(Ordering::Acquire) < self.total {
            assert!(self.engine.poll(0).expect("a queue").is_none());
        }
    }
}

/// Runs the target, which makes progress until all pages of a round are completed.
fn count(
    info: &Info<Ofi<Local>>,
    rails: usize,
    sender: &Sender<(Vec<u8>, RemoteMemory)>,
    totals: &Totals,
    rounds: Rounds,
) {
    let (mut engine, memory) = open(info, rails).expect("an engine");
    let mut record = vec![0; 4096];
    let len = engine.address(&mut record).expect("addresses");
    record.truncate(len);
    sender.send((record, engine.remote(memory).expect("memory"))).expect("the initiator waits");
    let mut total = 0;
    for count in rounds {
        total += u64::from(count);
        while engine.arrived(DATA) < total || totals.ended.load(Ordering::Acquire) < total {
            assert!(engine.poll(0).expect("a queue").is_none());
        }
        totals.counted.store(total, Ordering::Release);
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("pages") {
        return Ok(());
    }
    // Rounds of several windows.
    let settings = Settings { round: 10 * run.settings.round, repeats: 0, ..run.settings };
    for provider in [Provider::SHM, Provider::TCP] {
        let info = provider.info()?;
        thread::scope(|scope| {
            let mut one = Initiator::open(scope, &info, 1)?;
            let mut several = Initiator::open(scope, &info, 1)?;
            let mut rails = Initiator::open(scope, &info, RAILS)?;
            let outcome = Contest::new(format!("{}.page.256KiB", provider.metric))
                .side("window 1", |count| one.write(count, 1))
                .side("window 8", |count| several.write(count, WINDOW))
                .side("4 rails", |count| rails.write(count, WINDOW))
                .run(&settings);
            run.contest(&outcome);
            for (name, of, over) in
                [("transfer_window", "window 8", "window 1"), ("transfer_rails", "4 rails", "window 8")]
            {
                let name = format!("{name}.{}", provider.metric);
                run.rate_ratio(&outcome, Ratio { name: &name, of, over, goal: Goal::Higher });
            }
            let samples: Vec<f64> = (0..run.settings.rounds.min(15))
                .map(|_| {
                    let before = cores::processor_time();
                    several.write(PAGES, WINDOW);
                    let bytes = u64::from(PAGES) * LEN;
                    (cores::processor_time() - before).as_secs_f64() * (1_u64 << 30) as f64 / bytes as f64
                })
                .collect();
            let name = format!("transfer.cpu_s_per_gib.{}", provider.metric);
            run.summary(&name, ("s", Goal::Lower), Summary::of(&samples).ok_or("a round or more")?);
            Ok::<_, Failure>(())
        })?;
    }
    Ok(())
}

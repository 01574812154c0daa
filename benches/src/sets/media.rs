//! Media flows on one thread: grains of 1080p and blocks of 64 channels, compared with a loop in C
//! over the same provider and with a copy. Several targets, latency of the last slice, and
//! processor time.

use std::time::{Duration, Instant};

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Domain, Info, Transport};
#[cfg(feature = "libfabric")]
use loom_media::SampleLayout;
use loom_media::{FlowKey, FlowLayout, GrainLayout, Initiator, MediaAttr, Release, Target, TargetEvent, TargetKey};
#[cfg(feature = "libfabric")]
use loom_transfer::Block;

#[cfg(feature = "libfabric")]
use super::{over_c::unpaced, over_openings, transfer};
use crate::Failure;
use crate::contest::{Contest, Settings};
#[cfg(feature = "libfabric")]
use crate::cores;
use crate::report::{Goal, Ratio, Run};
#[cfg(feature = "libfabric")]
use crate::sides::{
    Provider,
    c::{C, Calls},
};
use crate::statistics::Summary;

const GRAIN: GrainLayout = GrainLayout::v210(1920, 1080);
/// Slots of a ring of both sides, and of the loop in C.
const SLOTS: u32 = 4;
/// Duration of a round of grains: a flow, not single grains.
const ROUND: Duration = Duration::from_millis(12);
/// Targets of the fan-out.
const TARGETS: usize = 8;
/// Slices of the last part of a grain. Its latency is measured.
const LAST: u16 = 24;
/// Samples of a block: 1 ms of 64 channels of 32 bits.
const BLOCK: u32 = 48;
#[cfg(feature = "libfabric")]
const CHANNELS: u16 = 64;
/// All channels of a block are one range.
#[cfg(feature = "libfabric")]
const SAMPLES: SampleLayout = SampleLayout { word: 4, channels: CHANNELS, period: BLOCK, len: 200 * BLOCK };
/// Each channel is a ring, as in MXL's flows.
#[cfg(feature = "libfabric")]
const CHANNEL_RINGS: SampleLayout = SampleLayout { period: SAMPLES.len, ..SAMPLES };

type Receiver<T> = (Target<'static, T, Vec<u8>, Global>, TargetKey);

/// An initiator and its targets on one thread.
struct Side<T: Transport + 'static> {
    initiator: Initiator<'static, T, Vec<u8>, Global>,
    targets: Vec<Receiver<T>>,
    flow: FlowKey,
    layout: FlowLayout,
    next: u64,
}

impl<T: Transport + 'static> Side<T> {
    fn open(info: &Info<T>, layout: FlowLayout, targets: usize) -> Result<Self, Failure> {
        let attr = MediaAttr { flows: 1, peers: targets, ..MediaAttr::default() };
        let mut initiator = Initiator::open_in(&[Domain::open(info)?], attr, Global)?;
        let bytes = usize::try_from(layout.bytes())?;
        let release = Release::Keep(if let FlowLayout::Grains(..) = layout { 1 } else { 100 * u64::from(BLOCK) });
        let flow = initiator.add_flow(vec![0x5a; bytes], layout, 0)?;
        let mut side = Side { initiator, targets: Vec::new(), flow, layout, next: 0 };
        for _ in 0..targets {
            let mut target = Target::open_in(&[Domain::open(info)?], MediaAttr { peers: 1, ..attr }, Global)?;
            let received = target.add_flow(vec![0; bytes], layout, release)?;
            let mut record = [0; 1024];
            let len = target.record(received, &mut record)?;
            let key = side.initiator.add_target(flow, &record[..len])?;
            side.targets.push((target, key));
        }
        Ok(side)
    }

    fn has_room(&self, end: u64) -> bool {
        self.targets.iter().all(|(_, key)| self.initiator.room(*key) >= Some(end))
    }

    /// Polls all sides. Returns the number of grains and blocks that have arrived at targets.
    fn poll(&mut self) -> u32 {
        let _ = self.initiator.poll(0).expect("a queue");
        let arrived = self.targets.iter_mut().map(|(target, _)| match target.poll(0).expect("a queue") {
            Some(TargetEvent::Complete { .. }) => 1,
            Some(TargetEvent::Samples { count, .. }) => count / BLOCK,
            Some(TargetEvent::Attached { .. } | TargetEvent::Slices { .. }) | None => 0,
            Some(event) => panic!("{event:?}"),
        });
        arrived.sum()
    }

    /// Sends `count` grains or blocks, and polls until all have arrived everywhere and been
    /// reported.
    fn run(&mut self, count: u32) {
        let all = u32::try_from(self.targets.len()).expect("a few");
        let step = if let FlowLayout::Grains(..) = self.layout { 1 } else { u64::from(BLOCK) };
        let (mut sent, mut arrived) = (0, 0);
        while arrived < count * all || self.initiator.in_progress() > 0 {
            if sent < count && self.has_room(self.next + step) {
                let fanout = match self.layout {
                    FlowLayout::Grains(layout, _) => self.initiator.send_grain(self.flow, self.next, 0..layout.slices),
                    FlowLayout::Samples(_) => self.initiator.send_samples(self.flow, self.next, BLOCK),
                };
                // Deferred ones arrive later, and blocks of them join.
                let fanout = fanout.expect("a flow");
                assert_eq!(fanout.submitted + fanout.deferred, self.targets.len(), "{fanout:?}");
                (sent, self.next) = (sent + 1, self.next + step);
            }
            arrived += self.poll();
        }
    }

    /// Sends a grain, and returns the nanoseconds from its last slices to its `Complete`.
    fn last_slices(&mut self) -> f64 {
        let (index, last) = (self.next, GRAIN.slices - LAST);
        self.next += 1;
        while !self.has_room(self.next) {
            self.poll();
        }
        let _ = self.initiator.send_grain(self.flow, index, 0..last).expect("a flow");
        while self.initiator.in_progress() > 0 {
            self.poll();
        }
        let begin = Instant::now();
        let _ = self.initiator.send_grain(self.flow, index, last..GRAIN.slices).expect("a flow");
        while self.poll() == 0 {}
        begin.elapsed().as_nanos() as f64
    }

    /// Measures the latency of the last slices of grains.
    fn latency(&mut self, run: &mut Run, provider: &str) -> Result<(), Failure> {
        let grains = 100 * run.settings.rounds.min(9);
        let latencies: Vec<f64> = (0..grains).map(|_| self.last_slices()).collect();
        let Summary { median, p99, .. } = Summary::of(&latencies).ok_or("a grain or more")?;
        for (name, ns) in [("median", median), ("p99", p99)] {
            let name = format!("media.slice_to_complete.{name}.{provider}");
            run.summary(&name, ("ns", Goal::Lower), Summary::exact(ns));
        }
        Ok(())
    }

    /// Measures the processor time of both sides for rounds of 1/16 GiB of grains.
    #[cfg(feature = "libfabric")]
    fn processor_time(&mut self, run: &mut Run, provider: &str) -> Result<(), Failure> {
        const GRAINS: u32 = 12;
        let gib = f64::from(GRAINS) * GRAIN.len() as f64 / f64::from(1 << 30);
        let samples: Vec<f64> = (0..run.settings.rounds.min(15))
            .map(|_| {
                let before = cores::processor_time();
                self.run(GRAINS);
                (cores::processor_time() - before).as_secs_f64() / gib
            })
            .collect();
        let samples = Summary::of(&samples).ok_or("a round or more")?;
        run.summary(&format!("media.cpu_s_per_gib.{provider}"), ("s", Goal::Lower), samples);
        Ok(())
    }
}

/// Ranges that loom writes for the blocks of a ring, one after the other.
#[cfg(feature = "libfabric")]
fn ranges(layout: SampleLayout) -> Vec<Block> {
    let (blocks, word) = (u64::from(layout.len / BLOCK), u64::from(layout.word));
    let is_whole = layout.period == BLOCK;
    let (channels, len) = if is_whole { (1, CHANNELS.into()) } else { (CHANNELS, 1) };
    let range = |block, channel| {
        let at = layout.offset(block * u64::from(BLOCK), channel);
        Block { local: at, remote: at, len: len * u64::from(BLOCK) * word }
    };
    (0..blocks).flat_map(|block| (0..channels).map(move |channel| range(block, channel))).collect()
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let network = Network::new(NetworkAttr { endpoints: 32, ..NetworkAttr::DEFAULT })?;
    let grains = FlowLayout::Grains(GRAIN, SLOTS);
    let flow = Settings { round: ROUND, ..run.settings };
    let mut side = Side::open(&network.info(), grains, 1)?;
    let len = usize::try_from(GRAIN.len())?;
    let (from, mut into) = (vec![0x5a_u8; len * SLOTS as usize], vec![0_u8; len * SLOTS as usize]);
    let mut at = 0;
    let copy = |count: u32| {
        for _ in 0..count {
            at = (at + 1) % SLOTS as usize;
            let range = at * len..(at + 1) * len;
            into[range.clone()].copy_from_slice(std::hint::black_box(&from[range]));
        }
    };
    let outcome = Contest::new("media.soft.grain").side("copy", copy).side("loom", |count| side.run(count)).run(&flow);
    run.contest(&outcome);
    let goal = Goal::AtMost(1.15);
    run.ratio(&outcome, Ratio { name: "grain_over_copy.soft", of: "loom", over: "copy", goal });
    run.figure(&outcome, ("media.soft.targets_1080p60", "loom"), ("targets", Goal::Higher), |ns| 1e9 / 60.0 / ns);
    side.latency(run, "soft")?;
    let mut fanout = Side::open(&network.info(), grains, TARGETS)?;
    let outcome = Contest::new(format!("media.soft.grain.{TARGETS}_targets"))
        .side("loom", |count| fanout.run(count))
        .run(&run.settings);
    run.contest(&outcome);
    let fed = |ns: f64| TARGETS as f64 * 1e9 / 60.0 / ns;
    run.figure(&outcome, ("media.soft.fanout_targets_1080p60", "loom"), ("targets", Goal::Higher), fed);
    #[cfg(feature = "libfabric")]
    for provider in [Provider::SHM, Provider::TCP] {
        over(provider, run)?;
    }
    Ok(())
}

/// Measures flows over a provider beside the loop in C.
#[cfg(feature = "libfabric")]
fn over(provider: Provider, run: &mut Run) -> Result<(), Failure> {
    let grains = FlowLayout::Grains(GRAIN, SLOTS);
    let len = usize::try_from(GRAIN.len())?;
    let list = transfer::list(len, transfer::LIST, len * SLOTS as usize);
    let flows = [
        ("grain", grains, list, 1),
        ("audio", FlowLayout::Samples(SAMPLES), ranges(SAMPLES), 1),
        ("audio_channels", FlowLayout::Samples(CHANNEL_RINGS), ranges(CHANNEL_RINGS), u32::from(CHANNELS)),
    ];
    // SAFETY: a constant. Rings of all openings and sides begin 16 bytes behind a page. The kernel
    // copies between rings of another distance more slowly.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    let outcomes = over_openings(&run.settings, |settings| {
        let outcomes = flows.iter().map(|(name, layout, list, each)| {
            let mut c = C::over(provider, Calls::Inline, usize::try_from(layout.bytes())?)?;
            let mut side = Side::open(&provider.info()?, *layout, 1)?;
            // All slots of its ring in turn, as loom does. One slot would stay in the cache.
            let list = c.list(list);
            // Both have their connections.
            c.write_list(&list, 0, 1);
            side.run(1);
            unpaced()?;
            let mut next = 0;
            let continues = |count: u32| {
                let (first, count) = (next, count * each);
                next += count as usize;
                c.write_list(&list, first, count)
            };
            let contest = Contest::new(format!("media.{}.{name}", provider.metric));
            let is_grain = matches!(layout, FlowLayout::Grains(..));
            let settings = Settings { round: if is_grain { ROUND } else { settings.round }, ..*settings };
            Ok(contest.side_that_measures("C", continues).side("loom", |count| side.run(count)).run(&settings))
        });
        outcomes.collect::<Result<_, Failure>>()
    })?;
    for ((name, ..), outcome) in flows.iter().zip(&outcomes) {
        run.contest(outcome);
        let metric = format!("{name}_over_c.{}", provider.metric);
        let goal = if *name == "grain" { Goal::AtMost(1.03) } else { Goal::Lower };
        run.ratio(outcome, Ratio { name: &metric, of: "loom", over: "C", goal });
        let rate = format!("media.{}.{name}.rate", provider.metric);
        run.figure(outcome, (&rate, "loom"), ("transfers/s", Goal::Higher), |ns| 1e9 / ns);
    }
    let mut side = Side::open(&provider.info()?, grains, 1)?;
    side.run(1);
    unpaced()?;
    side.processor_time(run, provider.metric)?;
    side.latency(run, provider.metric)
}

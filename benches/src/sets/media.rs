//! Media flows on one thread: grains of 1080p and blocks of 64 channels, compared with a loop in C
//! over the same provider and with a copy.

use loom_core::allocator_api2::alloc::Global;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Domain, Info, Transport};
use loom_media::{FlowKey, FlowLayout, GrainLayout, Initiator, MediaAttr, Release, Target, TargetEvent, TargetKey};

#[cfg(feature = "libfabric")]
use super::transfer;
use crate::Failure;
use crate::contest::Contest;
use crate::report::{Goal, Ratio, Run};
#[cfg(feature = "libfabric")]
use crate::sides::{
    Provider,
    c::{C, Calls},
};

const GRAIN: GrainLayout = GrainLayout::v210(1920, 1080);
/// Slots of a ring of both sides, and of the loop in C.
const SLOTS: u32 = 4;
/// Samples of a block: 1 ms of 64 channels of 32 bits.
const BLOCK: u32 = 48;
#[cfg(feature = "libfabric")]
const SAMPLES: loom_media::SampleLayout =
    loom_media::SampleLayout { word: 4, channels: 64, period: BLOCK, len: 200 * BLOCK };

/// An initiator and a target on one thread.
struct Side<T: Transport + 'static> {
    initiator: Initiator<'static, T, Vec<u8>, Global>,
    target: Target<'static, T, Vec<u8>, Global>,
    flow: FlowKey,
    to: TargetKey,
    layout: FlowLayout,
    next: u64,
}

impl<T: Transport + 'static> Side<T> {
    fn open(info: &Info<T>, layout: FlowLayout) -> Result<Self, Failure> {
        let attr = MediaAttr { flows: 1, peers: 1, ..MediaAttr::default() };
        let mut initiator = Initiator::open_in(&[Domain::open(info)?], attr, Global)?;
        let mut target = Target::open_in(&[Domain::open(info)?], attr, Global)?;
        let bytes = usize::try_from(layout.bytes())?;
        let release = Release::Keep(if let FlowLayout::Grains(..) = layout { 1 } else { 100 * u64::from(BLOCK) });
        let received = target.add_flow(vec![0; bytes], layout, release)?;
        let flow = initiator.add_flow(vec![0x5a; bytes], layout, 0)?;
        let mut record = [0; 1024];
        let len = target.record(received, &mut record)?;
        let to = initiator.add_target(flow, &record[..len])?;
        Ok(Side { initiator, target, flow, to, layout, next: 0 })
    }

    /// Sends `count` grains or blocks, and polls until all have arrived and been reported.
    fn run(&mut self, count: u32) {
        let (mut sent, mut arrived) = (0, 0);
        while arrived < count || self.initiator.in_progress() > 0 {
            let step = if let FlowLayout::Grains(..) = self.layout { 1 } else { u64::from(BLOCK) };
            if sent < count && self.initiator.room(self.to) >= Some(self.next + step) {
                let fanout = match self.layout {
                    FlowLayout::Grains(layout, _) => self.initiator.send_grain(self.flow, self.next, 0..layout.slices),
                    FlowLayout::Samples(_) => self.initiator.send_samples(self.flow, self.next, BLOCK),
                };
                // Deferred ones arrive later, and blocks of them join.
                let fanout = fanout.expect("a flow");
                assert_eq!(fanout.submitted + fanout.deferred, 1, "{fanout:?}");
                (sent, self.next) = (sent + 1, self.next + step);
            }
            let _ = self.initiator.poll(0).expect("a queue");
            match self.target.poll(0).expect("a queue") {
                Some(TargetEvent::Complete { .. }) => arrived += 1,
                Some(TargetEvent::Samples { count, .. }) => arrived += count / BLOCK,
                Some(TargetEvent::Attached { .. }) | None => {}
                Some(event) => panic!("{event:?}"),
            }
        }
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let network = Network::new(NetworkAttr::DEFAULT)?;
    let grains = FlowLayout::Grains(GRAIN, SLOTS);
    let mut side = Side::open(&network.info(), grains)?;
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
    let outcome =
        Contest::new("media.soft.grain").side("copy", copy).side("loom", |count| side.run(count)).run(&run.settings);
    run.contest(&outcome);
    let goal = Goal::AtMost(1.15);
    run.ratio(&outcome, Ratio { name: "grain_over_copy.soft", of: "loom", over: "copy", goal });
    run.figure(&outcome, ("media.soft.targets_1080p60", "loom"), ("targets", Goal::Higher), |ns| 1e9 / 60.0 / ns);
    #[cfg(feature = "libfabric")]
    for provider in [Provider::SHM, Provider::TCP] {
        for (name, layout, piece) in
            [("grain", grains, len), ("audio", FlowLayout::Samples(SAMPLES), BLOCK as usize * 4 * 64)]
        {
            let area = usize::try_from(layout.bytes())?;
            let mut c = C::over(provider, Calls::Inline, area)?;
            let mut side = Side::open(&provider.info()?, layout)?;
            // All slots of its ring in turn, as loom does. One slot would stay in the cache.
            let list = c.list(&transfer::list(piece, transfer::LIST, area));
            let mut next = 0;
            let continues = |count: u32| {
                let first = next % list.len();
                next += count as usize;
                transfer::parts(&list, first, count).map(|part| c.write_list(part)).sum()
            };
            let outcome = Contest::new(format!("media.{}.{name}", provider.metric))
                .side_that_measures("C", continues)
                .side("loom", |count| side.run(count))
                .run(&run.settings);
            run.contest(&outcome);
            let metric = format!("{name}_over_c.{}", provider.metric);
            let goal = if name == "grain" { Goal::AtMost(1.03) } else { Goal::Lower };
            run.ratio(&outcome, Ratio { name: &metric, of: "loom", over: "C", goal });
            run.figure(
                &outcome,
                (&format!("media.{}.{name}.rate", provider.metric), "loom"),
                ("transfers/s", Goal::Higher),
                |ns| 1e9 / ns,
            );
        }
    }
    Ok(())
}

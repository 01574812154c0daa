//! MXL's fabrics. Each round has a grain in slices, and a block of samples.

use std::time::{Duration, Instant};

use loom_core::info::Info;
use loom_core::transport::Connected;
use loom_core::{Domain, Error, Transport};
use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget, GrainHeader};
use loom_media::{FlowLayout, GrainLayout, SampleLayout, TargetStatus};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const LIMIT: Duration = Duration::from_secs(60);

struct Flow<T: Transport + 'static> {
    initiator: FabricsInitiator<'static, T, Vec<u8>>,
    target: FabricsTarget<'static, T, Vec<u8>>,
}

const ATTR: FabricsAttr =
    FabricsAttr { targets: 1, transfers: 4, depth: 64, batch: 48, retry: 5_000_000_000, connect: 5_000_000_000 };

fn ring(layout: &FlowLayout) -> Vec<u8> {
    vec![0; usize::try_from(layout.bytes()).expect("it is short")]
}

fn connected<T: Connected + 'static>(domain: &Domain<'static, T>, layout: FlowLayout) -> Result<Flow<T>, Error> {
    let target = FabricsTarget::open(domain, ring(&layout), layout, ATTR)?;
    Flow { initiator: FabricsInitiator::open(domain, ring(&layout), layout, 0, ATTR)?, target }.reached(false)
}

fn connectionless<T: Transport + 'static>(domain: &Domain<'static, T>, layout: FlowLayout) -> Result<Flow<T>, Error> {
    let target = FabricsTarget::open_connectionless(domain, ring(&layout), layout, ATTR)?;
    let initiator = FabricsInitiator::open_connectionless(domain, ring(&layout), layout, 0, ATTR)?;
    Flow { initiator, target }.reached(true)
}

impl<T: Transport + 'static> Flow<T> {
    fn reached(mut self, mut is_attached: bool) -> Result<Self, Error> {
        let Flow { initiator, target } = &mut self;
        let key = initiator.add_target(target.info()?)?;
        let until = Instant::now() + LIMIT;
        while initiator.status(key) != Some(TargetStatus::Ready) || !is_attached {
            is_attached |= target.poll()? == Some(FabricsEvent::Attached);
            let _ = initiator.poll(0)?;
            if Instant::now() > until {
                return Err(Error::Invalid("not connected"));
            }
        }
        Ok(self)
    }

    fn until(&mut self, event: FabricsEvent, until: Instant) -> Result<(), Failure> {
        let mut has_arrived = false;
        while self.initiator.in_progress() > 0 || !has_arrived {
            has_arrived |= self.target.poll().map_err(wrong)? == Some(event);
            let _ = self.initiator.poll(0).map_err(wrong)?;
            if Instant::now() > until {
                return Err(Failure::Late("a grain or a block"));
            }
        }
        Ok(())
    }
}

fn wrong(error: Error) -> Failure {
    match error {
        Error::Open(error) => Failure::Open(error),
        Error::Queue(error) => Failure::Queue(error),
        Error::Invalid(text) => Failure::Wrong(text),
        _ => Failure::Wrong("a flow of MXL"),
    }
}

pub fn run<T: Connected + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    run_over(connected, info, seal, rounds, plant)
}

pub fn run_connectionless<T: Transport + 'static>(
    info: &Info<T>,
    seal: &Seal,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    run_over(connectionless, info, seal, rounds, plant)
}

/// Opens everything, warms up, and counts.
fn run_over<T: Transport + 'static>(
    open: fn(&Domain<'static, T>, FlowLayout) -> Result<Flow<T>, Error>,
    info: &Info<T>,
    seal: &Seal,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    let grain = GrainLayout { header: 8192, slice_len: [48, 24, 0, 0], slices: 8, slot_align: 1 };
    let samples = SampleLayout { word: 4, channels: 2, period: 480, len: 480 };
    let domain = Domain::open(info)?;
    let mut video = open(&domain, FlowLayout::Grains(grain, 4)).map_err(wrong)?;
    let mut audio = open(&domain, FlowLayout::Samples(samples)).map_err(wrong)?;
    let mut round = |index: u64| {
        let until = Instant::now() + LIMIT;
        let header = GrainHeader { index, is_invalid: false, grain_size: 576, total: 8, valid: 8 };
        let slot = video.initiator.grain(index).map_err(wrong)?.ok_or(Failure::Wrong("no free slot"))?;
        slot.copy_from(0, &header.to_bytes()).map_err(|_| Failure::Wrong("a slot"))?;
        for slices in [0..3, 3..8] {
            let _ = video.initiator.send_grain(index, slices).map_err(wrong)?;
        }
        video.until(FabricsEvent::Complete { index }, until)?;
        let ring = audio.initiator.samples(48 * index, 48).map_err(wrong)?;
        ring.copy_from(1, 48 * index, &[7; 4 * 48]).map_err(|_| Failure::Wrong("a ring"))?;
        let _ = audio.initiator.send_samples(48 * index, 48).map_err(wrong)?;
        audio.until(FabricsEvent::Samples { start: 48 * index, count: 48 }, until)
    };
    let begin = (rounds / 50).max(1);
    (0..begin).try_for_each(&mut round)?;
    counted(seal, plant, begin..begin + rounds, round)
}

//! Media flows: each round has a grain in slices, an invalid one, and a block of samples.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use std::time::{Duration, Instant};

use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::{Error, scope};
use loom_media::{FlowLayout, GrainLayout, Initiator, MediaAttr, Release, SampleLayout, Target, TargetEvent};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const LIMIT: Duration = Duration::from_secs(60);

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let wrong = |error: Error| match error {
        Error::Open(error) => Failure::Open(error),
        Error::Post(error) => Failure::Post(error),
        Error::Operation(error) => Failure::Operation(error),
        Error::Queue(error) => Failure::Queue(error),
        Error::Address(error) => Failure::Insert(error),
        _ => Failure::Wrong("a flow"),
    };
    let attr = MediaAttr { flows: 2, peers: 2, transfers: 8, depth: 16, piece: 100, ..MediaAttr::default() };
    let layout = GrainLayout { header: 8, slice_len: [48, 24, 0, 0], slices: 8, slot_align: 1 };
    let grains = FlowLayout::Grains(layout, 4);
    let samples = FlowLayout::Samples(SampleLayout { word: 4, channels: 2, period: 16, len: 128 });
    scope(|s| {
        let domain = s.open(info)?;
        let mut initiator = Initiator::open_in(core::slice::from_ref(&domain), attr, seal).map_err(wrong)?;
        let mut target = Target::open_in(&[domain], attr, seal).map_err(wrong)?;
        let mut flows = Vec::new();
        for ring in [grains, samples] {
            let received = target.add_flow(vec![0; ring.bytes() as usize], ring, Release::Keep(1)).map_err(wrong)?;
            let sent = initiator.add_flow(vec![7; ring.bytes() as usize], ring, 0).map_err(wrong)?;
            let mut record = [0; 1024];
            let len = target.record(received, &mut record).map_err(wrong)?;
            flows.push((sent, initiator.add_target(sent, &record[..len]).map_err(wrong)?));
        }
        let [(video, of_video), (audio, of_audio)] = flows[..] else { return Err(Failure::Wrong("two flows")) };
        let mut round = |number: u64| {
            let deadline = Instant::now() + LIMIT;
            let (index, start) = (2 * number, 16 * number);
            let (mut complete, mut invalid, mut block, mut sent) = (false, false, false, false);
            while !(complete && invalid && block) {
                let _ = initiator.poll(0).map_err(wrong)?;
                match target.poll(0).map_err(wrong)? {
                    Some(TargetEvent::Complete { index: of, .. }) => complete = of == index,
                    Some(TargetEvent::Invalid { index: of, .. }) => invalid = of == index + 1,
                    Some(TargetEvent::Samples { start: of, .. }) => block = of == start,
                    Some(TargetEvent::Failed { .. } | TargetEvent::Lapped { .. } | TargetEvent::Rejected { .. }) => {
                        return Err(Failure::Wrong("a transfer"));
                    }
                    _ => {}
                }
                let room = initiator.room(of_video) >= Some(index + 2) && initiator.room(of_audio) >= Some(start + 16);
                if !sent && room && initiator.in_progress() == 0 {
                    sent = true;
                    let window = initiator.grain(video, index).map_err(wrong)?.ok_or(Failure::Wrong("a free slot"))?;
                    window.copy_from(0, &[number as u8; 8]).map_err(|_| Failure::Wrong("a window"))?;
                    for slices in [0..3, 3..8] {
                        let _ = initiator.send_grain(video, index, slices).map_err(wrong)?;
                    }
                    let _ = initiator.send_invalid(video, index + 1).map_err(wrong)?;
                    let _ = initiator.send_samples(audio, start, 16).map_err(wrong)?;
                }
                if Instant::now() >= deadline {
                    return Err(Failure::Late("a flow"));
                }
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        self::counted(seal, plant, begin..begin + rounds, round)
    })
}

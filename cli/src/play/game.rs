use std::ops::RangeInclusive;

use loom_core::transport::Transport;

use crate::failure::Failure;
use crate::play::bout::Bout;
use crate::play::flow;
use crate::play::payload::Role;
use crate::play::row::Row;
use crate::play::session::Session;
use crate::play::setup::{MAX_ROUNDS, Measure, Report, Setup};
use crate::play::side::Side;

/// Nanoseconds.
const MEASURE: u64 = 250_000_000;

const ROUNDS: RangeInclusive<u64> = 50..=200_000;

/// Nanoseconds.
const WARM_UP: u64 = 20_000_000;

const WARM_UP_ROUNDS: RangeInclusive<u64> = 5..=5_000;

/// More for small sizes, which are cheap and easier to mix up.
fn rounds_to_verify(size: usize) -> u64 {
    match size {
        0..=4096 => 64,
        4097..=262_144 => 16,
        _ => 4,
    }
}

/// `sides` are those of this thread: both, or one if the other runs elsewhere.
pub(crate) fn play<T: Transport>(
    sides: &mut [Side<T>],
    setup: &Setup,
    session: &mut Session,
    mut report: Option<&mut dyn Report>,
) -> Result<(), Failure> {
    for op in &setup.ops {
        for (index, size) in setup.sizes.iter().copied().enumerate() {
            if let Some(report) = report.as_deref_mut() {
                report.next(*op, size);
            }
            let verified = rounds_to_verify(size);
            let bout = Bout { op: *op, size, index, verify: true };
            play_bout(sides, session, bout, verified)?;

            let bout = Bout { verify: false, ..bout };
            let warm_up = rounds_that_fit(sides, WARM_UP, WARM_UP_ROUNDS);
            play_bout(sides, session, bout, warm_up)?;
            let rounds = setup.iterations.unwrap_or_else(|| rounds_that_fit(sides, MEASURE, ROUNDS));
            play_bout(sides, session, bout, rounds)?;
            let mut row = sides.first_mut().map(|side| Row::new(*op, size, verified, side.samples()));
            if setup.measure == Measure::TripsAndFlow {
                let (verified, flow) = flow::play(sides, session, size, setup.iterations)?;
                if let Some(row) = &mut row {
                    (row.verified, row.flow) = (row.verified + verified, Some(flow));
                }
            }
            if let (Some(report), Some(row)) = (report.as_deref_mut(), row) {
                report.row(row)?;
            }
        }
    }
    // Neither side closes before the other is done.
    session.begin("ending".into());
    session.swap_beside(b"done", sides)?;
    Ok(())
}

/// The initiator chooses the number of rounds and sends it to the responder.
fn play_bout<T: Transport>(
    sides: &mut [Side<T>],
    session: &mut Session,
    bout: Bout,
    rounds: u64,
) -> Result<(), Failure> {
    session.begin(bout.to_string());
    for side in &mut *sides {
        side.prepare(bout);
    }
    session.run(sides, Side::is_prepared)?;
    let theirs = session.swap_beside(&rounds.to_le_bytes(), sides)?;
    let rounds = match sides.first().map(Side::role) {
        Some(Role::Responder) => rounds_from(&theirs)?,
        _ => rounds,
    };
    for side in &mut *sides {
        side.start(rounds);
    }
    session.run(sides, Side::is_done)?;
    for side in sides {
        side.finish();
    }
    Ok(())
}

pub(crate) fn rounds_from(bytes: &[u8]) -> Result<u64, Failure> {
    let rounds = bytes.try_into().map(u64::from_le_bytes).ok().filter(|rounds| (1..=MAX_ROUNDS).contains(rounds));
    rounds.ok_or_else(|| Failure::OtherSide("asks for an impossible number of rounds".into()))
}

/// Estimated from the previous bout.
fn rounds_that_fit<T: Transport>(sides: &mut [Side<T>], nanoseconds: u64, rounds: RangeInclusive<u64>) -> u64 {
    let samples = sides.first_mut().map_or(&mut [][..], Side::samples);
    samples.sort_unstable();
    let median = samples.get(samples.len() / 2).copied().unwrap_or(1);
    (nanoseconds / median.max(1)).clamp(*rounds.start(), *rounds.end())
}

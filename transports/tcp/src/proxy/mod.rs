//! Whole endpoints with a proxy between them, which delays, cuts, alters or ends the stream of
//! bytes.

#![allow(clippy::cast_possible_truncation, reason = "numbers below 256")]

mod connected;
mod held;
mod ledger;
mod line;
mod plan;
mod rdm;
mod route;
mod session;
mod verify;

use self::line::{Ending, Fault, Style};
use self::plan::Lens;

/// Long payloads exceed the receive buffer.
const LONG: Lens = Lens { short: 100, long: 5000 };

const BRIEF: Lens = Lens { short: 3, long: 9 };

fn styles() -> impl Iterator<Item = Style> {
    let small = [1, 2, 3].map(|piece| (piece, [0, 0]));
    let large = [7, 1000, usize::MAX].into_iter();
    let large = large.flat_map(|piece| [[0, 0], [5, 0], [0, 5], [40, 3]].map(|delay| (piece, delay)));
    small.into_iter().chain(large).map(|(piece, delay)| Style { piece, delay, ..Style::PLAIN })
}

/// In small pieces, the endpoints have handled most bytes before the ending.
fn style_before(ending: Ending) -> Style {
    let piece = match ending {
        Ending::Fin => usize::MAX,
        Ending::FinOneWay => 32,
        Ending::Reset => 40,
    };
    Style { piece, ..Style::PLAIN }
}

fn faults(lens: [usize; 2], ending: Ending) -> impl Iterator<Item = Fault> {
    let offsets = [0, 1].into_iter().flat_map(move |side| (0..=lens[side]).map(move |after| (side, after)));
    offsets.map(move |(side, after)| Fault::End { side, after, ending })
}

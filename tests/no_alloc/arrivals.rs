//! Arrivals of immediate data, encoded, decoded, counted and awaited in each round.

use loom_core::data_layout;
use loom_core::engine::arrivals::Arrivals;
use loom_core::immediate::Layout;

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

data_layout! {
    struct Part {
        transfer: u16 = 16,
        last: bool = 1,
    }
}

const PARTS: u64 = 3;

/// Opens a table, warms up, and counts.
pub fn run(seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let arrivals = Arrivals::open_in(8, 3, seal)?;
    let mut round = |number: u64| {
        let wrong = |_| Failure::Wrong("arrivals are counted");
        let transfer = u16::try_from(number % 8).unwrap_or(0);
        let all = PARTS * (number / 8 + 1);
        let [told, taken, given_up] = [(); 3].map(|()| arrivals.wait_for(transfer.into(), all).map_err(wrong));
        arrivals.give_up(given_up?).map_err(wrong)?;
        for part in 1..=PARTS {
            let data = Part { transfer, last: part == PARTS }.encode().map_err(|_| Failure::Wrong("it fits"))?;
            let part = Part::decode(data).map_err(|_| Failure::Wrong("it was encoded"))?;
            if part.transfer != transfer || arrivals.poll().is_some() {
                return Err(Failure::Wrong("not all parts are there yet"));
            }
            arrivals.count(part.transfer.into()).map_err(wrong)?;
        }
        let (told, taken) = (told?, taken?);
        if arrivals.take(taken) != Ok(true) || arrivals.poll().map(|arrived| arrived.key) != Some(told) {
            return Err(Failure::Wrong("all parts are there"));
        }
        Ok(())
    };
    let begin = (rounds / 50).max(1);
    (0..begin).try_for_each(&mut round)?;
    counted(seal, plant, begin..begin + rounds, round)
}

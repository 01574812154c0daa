//! Counting of arrivals of immediate data, while a waiter waits for each value.

use std::hint::black_box;

use loom_core::ImmediateData;
use loom_core::data_layout;
use loom_core::engine::arrivals::Arrivals;
use loom_core::immediate::Layout;

use crate::Failure;
use crate::contest::Contest;
use crate::report::{Goal, Run};

/// Values counted in turns, and waiters for each.
const VALUES: u32 = 256;
const WAITERS: u32 = 4;

data_layout! {
    struct Part {
        transfer: u32 = 20,
        index: u16 = 12,
    }
}

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    let open = || {
        let arrivals = Arrivals::open(VALUES as usize, (VALUES * WAITERS) as usize)?;
        for value in 0..VALUES {
            for _ in 0..WAITERS {
                arrivals.wait_for(value.into(), u64::MAX)?;
            }
        }
        Ok::<_, loom_core::Error>(arrivals)
    };
    let (arrivals, of_parts) = (open()?, open()?);
    let outcome = Contest::new("an arrival is counted")
        .side("count", |count| {
            for number in 0..count {
                arrivals.count(black_box(u64::from(number % VALUES))).expect("one of the values");
            }
        })
        .side("decode and count", |count| {
            for number in 0..count {
                let data = ImmediateData(black_box(u64::from((number % VALUES) | (5 << 20))));
                let part = Part::decode(data).expect("as wide as the layout");
                black_box(part.index);
                of_parts.count(part.transfer.into()).expect("one of the values");
            }
        })
        .run(&run.settings);
    run.contest(&outcome);
    run.figure(&outcome, ("count.ns", "count"), ("ns", Goal::AtMost(2.0)), |nanoseconds| nanoseconds);
    run.figure(&outcome, ("decode_and_count.ns", "decode and count"), ("ns", Goal::Lower), |nanoseconds| nanoseconds);
    assert!(arrivals.poll().is_none() && arrivals.total(0)? > 0, "they are counted, and nobody is told");
    Ok(())
}

//! Limits of the machine: a cache line between two cores, a copy of memory, a ring between two
//! threads.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::contest::Contest;
use crate::cores::{self, Peer};
use crate::report::{Goal, Run};

/// A word alone in its cache line and the next one, which processors prefetch.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Line(AtomicU64);

/// A number that goes to another core and back, in one cache line.
pub(crate) struct PingPong<'l> {
    line: &'l Line,
    peer: Peer,
    /// Value of the line: odd while the other core has to answer.
    says: u64,
}

impl<'l> PingPong<'l> {
    /// Starts a thread with the other core's end.
    pub(crate) fn start<'s>(scope: &'s Scope<'s, '_>, line: &'l Line) -> Self
    where
        'l: 's,
    {
        let peer = Peer::start(scope, 1, |rounds| {
            let mut says = 0;
            for count in rounds {
                for _ in 0..count {
                    while line.0.load(Ordering::Acquire) != says + 1 {}
                    says += 2;
                    line.0.store(says, Ordering::Release);
                }
            }
        });
        PingPong { line, peer, says: 0 }
    }

    /// Makes round trips, and calls `after` after each. Returns their duration.
    #[inline]
    pub(crate) fn round_trips(&mut self, count: u32, mut after: impl FnMut()) -> Duration {
        self.peer.begin(count);
        let begin = Instant::now();
        for _ in 0..count {
            self.line.0.store(self.says + 1, Ordering::Release);
            self.says += 2;
            while self.line.0.load(Ordering::Acquire) != self.says {}
            after();
        }
        begin.elapsed()
    }
}

/// Passes numbers through an empty ring of `capacity` between two threads. Returns a function
/// that measures the duration of a number of them.
pub(crate) fn ring<'s>(scope: &'s Scope<'s, '_>, capacity: usize) -> impl FnMut(u32) -> Duration + 's {
    let (mut into, mut from) = rtrb::RingBuffer::<u64>::new(capacity);
    let mut peer = Peer::start(scope, 1, move |rounds| {
        for count in rounds {
            for number in 0..u64::from(count) {
                while into.push(number).is_err() {}
            }
        }
    });
    move |count| {
        peer.begin(count);
        let begin = Instant::now();
        for number in 0..u64::from(count) {
            while from.pop().map(|popped| assert_eq!(popped, number)).is_err() {}
        }
        begin.elapsed()
    }
}

/// Copies between buffers of a size: always the same two, or each time other ones, which are no
/// longer in the caches.
pub(crate) struct Copies {
    from: Vec<u8>,
    into: Vec<u8>,
    len: usize,
    at: usize,
}

impl Copies {
    /// Bytes beyond the size of the caches.
    const FORGOTTEN: usize = 64 << 20;

    /// Copies between the same two buffers.
    pub(crate) fn warm(len: usize) -> Self {
        Copies { from: vec![1; len], into: vec![2; len], len, at: 0 }
    }

    /// Copies between other buffers each time.
    pub(crate) fn cold(len: usize) -> Self {
        Copies { from: vec![1; Self::FORGOTTEN], into: vec![2; Self::FORGOTTEN], len, at: 0 }
    }

    /// Copies `count` times.
    pub(crate) fn copy(&mut self, count: u32) {
        for _ in 0..count {
            let place = self.at..self.at + self.len;
            black_box(&mut self.into[place.clone()]).copy_from_slice(black_box(&self.from[place]));
            self.at += self.len;
            if self.at + self.len > self.from.len() {
                self.at = 0;
            }
        }
    }
}

/// Sizes of copies, and their names.
const SIZES: [(usize, &str); 3] = [(64 << 10, "64KiB"), (1 << 20, "1MiB"), (4 << 20, "4MiB")];

pub(crate) fn measure(run: &mut Run) -> Result<(), Failure> {
    for (len, size) in SIZES {
        let (mut warm, mut cold) = (Copies::warm(len), Copies::cold(len));
        let contest = Contest::new(format!("memcpy.{size}"));
        let contest = contest.side("warm", |count| warm.copy(count)).side("cold", |count| cold.copy(count));
        let outcome = contest.run(&run.settings);
        run.contest(&outcome);
        for side in ["warm", "cold"] {
            let name = format!("machine.memcpy.{side}.{size}");
            run.figure(&outcome, (&name, side), ("GB/s", Goal::Higher), |nanoseconds| len as f64 / nanoseconds);
        }
    }
    Ok(())
}

/// Measures the parts that require two cores.
pub(crate) fn measure_threads(run: &mut Run) -> Result<(), Failure> {
    if !cores::has_two("machine_threads") {
        return Ok(());
    }
    let line = Line::default();
    std::thread::scope(|scope| {
        let mut line = PingPong::start(scope, &line);
        let outcome = Contest::new("half round trip of a cache line")
            .side_that_measures("cache line", |count| line.round_trips(count, || ()) / 2)
            .run(&run.settings);
        run.contest(&outcome);
        run.figure(&outcome, ("machine.cacheline_half_rtt", "cache line"), ("ns", Goal::Lower), |nanoseconds| {
            nanoseconds
        });

        let outcome = Contest::new("ring").side_that_measures("ring", ring(scope, 1024)).run(&run.settings);
        run.contest(&outcome);
        run.figure(&outcome, ("machine.ring.8B", "ring"), ("M/s", Goal::Higher), |nanoseconds| 1e3 / nanoseconds);
    });
    Ok(())
}

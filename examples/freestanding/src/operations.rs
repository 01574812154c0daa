use core::fmt::Write;

use loom_core::Transport;

use crate::buffers::Buffers;
use crate::failure::Failure;
use crate::figures::Measure;
use crate::pair::Pair;

pub struct AllBuffers<'b> {
    pub of_8: Buffers<'b>,
    /// Copied into a cell, and from there.
    pub of_64: Buffers<'b>,
    /// Longer than the network's `eager_size`: copied once, from the sender's buffer.
    pub of_4096: Buffers<'b>,
}

#[derive(Clone, Copy)]
enum Arrives {
    InBuffer,
    InRegion,
}

/// Verifies and measures each operation, and the `trip` of a message between two tasks.
pub fn run<'b, T: Transport>(
    out: &mut impl Write,
    pair: &mut Pair<'_, 'b, T>,
    buffers: &mut AllBuffers<'b>,
    trip: impl Fn(&mut Buffers<'b>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    use Arrives::{InBuffer, InRegion};
    let measure = Measure::new();
    measure.head(out)?;
    let AllBuffers { of_8, of_64, of_4096 } = buffers;
    let mut report = Report { out, measure: &measure, pair };
    report.poll_empty()?;
    report.operation("tagged.8B", of_8, InBuffer, |s| s.pair.tagged(s.buffers))?;
    report.operation("tagged.64B", of_64, InBuffer, |s| s.pair.tagged(s.buffers))?;
    report.operation("tagged.4KiB", of_4096, InBuffer, |s| s.pair.tagged(s.buffers))?;
    report.operation("message.8B", of_8, InBuffer, |s| s.pair.message(s.buffers))?;
    report.operation("message.64B", of_64, InBuffer, |s| s.pair.message(s.buffers))?;
    report.operation("inject.8B", of_8, InBuffer, |s| s.pair.inject(s.buffers))?;
    report.operation("inject.64B", of_64, InBuffer, |s| s.pair.inject(s.buffers))?;
    report.operation("write.64B", of_64, InRegion, |s| s.pair.write(s.buffers))?;
    report.operation("write_data.64B", of_64, InRegion, |s| s.pair.write_data(s.buffers))?;
    report.operation("write_data.4KiB", of_4096, InRegion, |s| s.pair.write_data(s.buffers))?;
    report.between_tasks("tasks.trip.64B", of_64, trip)
}

struct Report<'r, 'm, 'b, T: Transport, W> {
    out: &'r mut W,
    measure: &'r Measure,
    pair: &'r mut Pair<'m, 'b, T>,
}

impl<'m, 'b, T: Transport, W: Write> Report<'_, 'm, 'b, T, W> {
    fn poll_empty(&mut self) -> Result<(), Failure> {
        let nothing = |_: &mut &Pair<'m, 'b, T>, _| Ok(());
        let figures = self.measure.run("poll_empty", &mut &*self.pair, nothing, |pair| pair.poll_empty(), nothing)?;
        Ok(writeln!(self.out, "{figures}")?)
    }

    fn between_tasks(
        &mut self,
        name: &'static str,
        buffers: &mut Buffers<'b>,
        trip: impl Fn(&mut Buffers<'b>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let verify = |buffers: &mut Buffers<'b>| {
            [1, 101].into_iter().try_for_each(|seed| {
                buffers.fill(seed)?;
                trip(buffers)?;
                buffers.filled(seed)
            })
        };
        verify(buffers)?;
        let figures =
            self.measure.run(name, buffers, Buffers::stamp, &trip, |buffers, stamp| buffers.stamped(stamp))?;
        verify(buffers)?;
        Ok(writeln!(self.out, "{figures}")?)
    }

    fn operation(
        &mut self,
        name: &'static str,
        buffers: &mut Buffers<'b>,
        arrives: Arrives,
        call: impl Fn(&mut State<'_, 'm, 'b, T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut state = State { pair: self.pair, buffers, arrives };
        state.check(1, &call)?;
        let prepare = |state: &mut State<'_, 'm, 'b, T>, number| state.buffers.stamp(number);
        let arrived = |state: &mut State<'_, 'm, 'b, T>, number| {
            state.fetch()?;
            state.buffers.stamped(number)
        };
        let figures = self.measure.run(name, &mut state, prepare, &call, arrived)?;
        state.check(2, &call)?;
        Ok(writeln!(self.out, "{figures}")?)
    }
}

struct State<'s, 'm, 'b, T: Transport> {
    pair: &'s mut Pair<'m, 'b, T>,
    buffers: &'s mut Buffers<'b>,
    arrives: Arrives,
}

impl<T: Transport> State<'_, '_, '_, T> {
    fn fetch(&mut self) -> Result<(), Failure> {
        match self.arrives {
            Arrives::InBuffer => Ok(()),
            Arrives::InRegion => self.pair.fetch(self.buffers),
        }
    }

    fn check(&mut self, seed: u8, call: &impl Fn(&mut Self) -> Result<(), Failure>) -> Result<(), Failure> {
        for seed in [seed, seed + 100] {
            self.buffers.fill(seed)?;
            call(self)?;
            self.fetch()?;
            self.buffers.filled(seed)?;
            self.pair.poll_empty()?;
            self.pair.turn();
        }
        Ok(())
    }
}

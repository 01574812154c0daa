mod report;
mod side;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use loom_core::info::Info;
use loom_core::transport::Transport;

use crate::bench::drawing::Drawing;
use crate::failure::Failure;
use crate::play::game::rounds_from;
use crate::play::link::Link;
use crate::play::payload::Role;
use crate::play::row::Flow;
use crate::play::session::Session;
use crate::play::setup::{MAX_ROUNDS, Measure, Meeting, Op, Place, Setup, is_soft, usage};
use crate::play::{cores, libfabric, open, soft, tcp};
use crate::text::size_text;
use crate::{signals, text};
use report::{Row, Table};
use side::{Opened, Round, Side};

/// Moves pages of registered memory with the transfer engine: verifies every byte, counts arrivals,
/// then measures bandwidth.
///
/// Pages are written one after the other (window 1), or with a window of them in flight, over one
/// or several rails: a domain, queue and endpoint each. Writes carry immediate data, which the
/// receiver counts; time ends when it has counted all of a round.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Lengths of a page in bytes, with K, M or G for KiB, MiB and GiB
    #[arg(long, value_name = "LIST", default_value = "1K,4K,16K,64K,256K,1M,4M,16M,64M")]
    sizes: String,

    /// Numbers of pages in flight
    #[arg(long, value_name = "LIST", default_value = "1,8", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    windows: Vec<u16>,

    /// Numbers of rails
    #[arg(long, value_name = "LIST", default_value = "1,2,4", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=16))]
    rails: Vec<u8>,

    /// Write pages to the other side [default]
    #[arg(long, conflicts_with = "read")]
    write: bool,

    /// Read pages from the other side
    #[arg(long)]
    read: bool,

    /// Pages of a measured round [default: as many as fit into its time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    iterations: Option<u64>,

    /// Provider: soft (the software transport), or one of `loom info`: loom-tcp, shm, 'tcp;ofi_rxm'
    #[arg(long, value_name = "NAME", default_value = "soft")]
    provider: String,

    /// 1: both engines in one thread; 2: a thread for each [default: 2]
    #[arg(long, value_name = "N", conflicts_with_all = ["listen", "connect"], value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: Option<u8>,

    #[command(flatten)]
    meeting: Meeting,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Draw bandwidth and time of a page by size into this file
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    svg: Option<PathBuf>,

    /// Send one wrong byte, to see that verification finds it
    #[arg(long, value_name = "OFFSET")]
    corrupt: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  loom transfer
  loom transfer --provider 'tcp;ofi_rxm' --sizes 256K --windows 1,8,64 --rails 1,4
  loom transfer --provider shm --listen             in one terminal, and in another
  loom transfer --provider shm --connect 127.0.0.1:47593

Exit status: 0 done, 1 failed, 2 wrong options, 130 interrupted: the results until then are printed.";

/// Bytes of the memory of a side, but at least one page.
const AREA: usize = 256 << 20;

/// Nanoseconds of a measured round.
const ROUND: u64 = 20_000_000;
const ROUNDS: usize = 9;
const LONGEST: u64 = 100_000;

struct Plan {
    setup: Setup,
    windows: Vec<u16>,
    rails: Vec<u8>,
    reads: bool,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, Failure> {
        let sizes = text::sizes(&self.sizes).map_err(|error| usage(format!("--sizes: {error}")))?;
        let is_soft = is_soft(&self.provider)?;
        if is_soft {
            self.meeting.check_soft()?;
        }
        if self.corrupt.is_some_and(|offset| sizes.iter().all(|size| *size <= offset)) {
            return Err(usage("--corrupt takes the offset of a byte in one of the sizes"));
        }
        let setup = Setup {
            // Some providers deliver immediate data to receives.
            ops: vec![Op::Message, Op::Write],
            sizes,
            measure: Measure::TripsAndFlow,
            iterations: self.iterations,
            place: self.meeting.place_or(self.threads),
            provider: (!is_soft).then(|| self.provider.clone()),
            node: self.meeting.node.clone(),
            timeout: self.meeting.timeout,
            corrupt: self.corrupt,
        };
        Ok(Plan { setup, windows: self.windows.clone(), rails: self.rails.clone(), reads: self.read })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let plan = arguments.plan()?;
    let drawing = arguments.svg.as_deref().map(Drawing::open).transpose()?;
    let interrupted = signals::watch()?;
    plan.setup.warn_of_one_core();
    let mut table = Table::new(arguments.json, plan.setup.cores(), plan.reads);
    let moved = match plan.setup.provider {
        None => plan.over_soft(&interrupted, &mut table),
        Some(_) => plan.over_libfabric(&interrupted, &mut table),
    };
    table.progress.clear();
    if let Ok(()) | Err(Failure::Interrupted) = moved {
        table.end(moved.is_err())?;
        if let Some(drawing) = drawing
            && !table.is_empty()
        {
            drawing.write(&table.draw())?;
        }
    }
    moved
}

impl Plan {
    /// Number of different pages, the same for each window. With fewer than in flight, equal bytes
    /// are moved to one place.
    fn places(&self, size: usize) -> usize {
        (AREA / size).clamp(1, self.window())
    }

    fn window(&self) -> usize {
        self.windows.iter().copied().max().map_or(1, usize::from)
    }

    fn over_soft(&self, interrupted: &Arc<AtomicBool>, table: &mut Table) -> Result<(), Failure> {
        let endpoints = 2 * self.rails.iter().copied().max().map_or(1, u16::from);
        let info = soft::info(endpoints, self.setup.caps())?;
        self.over("software transport", &info, interrupted, table)
    }

    fn over_libfabric(&self, interrupted: &Arc<AtomicBool>, table: &mut Table) -> Result<(), Failure> {
        if self.setup.provider.as_deref() == Some(tcp::NAME) {
            return self.over(tcp::TITLE, &tcp::find(&self.setup)?, interrupted, table);
        }
        let (name, info) = libfabric::find(&self.setup)?;
        self.over(&name, &info, interrupted, table)
    }

    fn over<T: Transport + 'static>(
        &self,
        name: &str,
        info: &Info<T>,
        interrupted: &Arc<AtomicBool>,
        table: &mut Table,
    ) -> Result<(), Failure>
    where
        Info<T>: Sync,
    {
        let setup = &self.setup;
        match &setup.place {
            Place::OneThread => {
                table.begin(name, info.provider(), &setup.place);
                let mut session = Session::new(Link::alone(), setup.timeout, interrupted);
                self.play(info, &[Role::Initiator, Role::Responder], &mut session, Some(table))
            }
            Place::TwoThreads => {
                table.begin(name, info.provider(), &setup.place);
                open::in_two_threads(
                    setup,
                    interrupted,
                    |session| self.play_one(info, session, Some(table)),
                    |session| self.play_one(info, session, None),
                )
            }
            Place::Listen(_) | Place::Connect(_) => {
                let session = libfabric::meet(setup, interrupted, &self.terms(info.provider()))?;
                if let Place::Connect(_) = setup.place {
                    table.begin(name, info.provider(), &setup.place);
                    return self.play_one(info, session, Some(table));
                }
                self.play_one(info, session, None)?;
                libfabric::end_listening()
            }
        }
    }

    fn terms(&self, provider: &str) -> String {
        let Plan { setup: Setup { sizes, .. }, windows, rails, reads } = self;
        format!("transfer, provider {provider}, read {reads}, sizes {sizes:?}, windows {windows:?}, rails {rails:?}")
    }

    fn play_one<T: Transport + 'static>(
        &self,
        info: &Info<T>,
        mut session: Session,
        table: Option<&mut Table>,
    ) -> Result<(), Failure> {
        let role = if table.is_some() { Role::Initiator } else { Role::Responder };
        let played = self.play(info, &[role], &mut session, table);
        if let Err(failure) = &played {
            session.fail(failure);
        }
        played
    }

    /// `roles` are those of this thread.
    fn play<T: Transport + 'static>(
        &self,
        info: &Info<T>,
        roles: &[Role],
        session: &mut Session,
        mut table: Option<&mut Table>,
    ) -> Result<(), Failure> {
        for rails in self.rails.iter().copied().map(usize::from) {
            let mut sides = self.meet(info, rails, roles, session)?;
            let _bound = session.core().and_then(cores::bind);
            self.play_over(rails, &mut sides, session, table.as_deref_mut()).map_err(|failure| {
                let failure = session.reason(failure);
                // Before the sides close, which lets operations of the other side fail.
                session.fail(&failure);
                failure
            })?;
        }
        Ok(())
    }

    fn meet<T: Transport + 'static>(
        &self,
        info: &Info<T>,
        rails: usize,
        roles: &[Role],
        session: &mut Session,
    ) -> Result<Vec<Side<T>>, Failure> {
        let opened = roles.iter().map(|role| Opened::open(info, rails, self, *role));
        let opened = opened.collect::<Result<Vec<Opened<T>>, _>>()?;
        session.begin("exchanging addresses".into());
        let cards = opened.iter().map(|side| session.swap(&side.card()?, || Ok(false)));
        let mut cards = cards.collect::<Result<Vec<_>, Failure>>()?;
        // A session of both sides returns the card of each to itself.
        cards.reverse();
        opened.into_iter().zip(&cards).map(|(side, card)| side.meet(card)).collect()
    }

    fn play_over<T: Transport + 'static>(
        &self,
        rails: usize,
        sides: &mut [Side<T>],
        session: &mut Session,
        mut table: Option<&mut Table>,
    ) -> Result<(), Failure> {
        let mut seed = 0;
        for window in self.windows.iter().copied().map(usize::from) {
            for size in self.setup.sizes.iter().copied() {
                if let Some(table) = table.as_deref_mut() {
                    table.progress.show(&format!("{rails} rails, window {window}"), size);
                }
                session.begin(format!("pages of {}, window {window}, {rails} rails", size_text(size)));
                let places = self.places(size);
                let flow = self.measure(sides, session, Round { size, window, places, seed })?;
                seed += places;
                if let Some(table) = table.as_deref_mut() {
                    table.row(Row { size, window, rails, verified: places as u64, flow })?;
                }
            }
        }
        session.begin("ending".into());
        let counted = sides.iter().map(Side::counted).sum::<u64>();
        let counted = session.swap_beside(&counted.to_le_bytes(), sides)?;
        if let (Some(table), Ok(counted)) = (table, counted.try_into()) {
            table.counted += u64::from_le_bytes(counted);
        }
        Ok(())
    }

    fn measure<T: Transport + 'static>(
        &self,
        sides: &mut [Side<T>],
        session: &mut Session,
        round: Round,
    ) -> Result<Flow, Failure> {
        for place in 0..round.places {
            for side in &mut *sides {
                side.fill(&round, place)?;
            }
            session.busy()?;
        }
        move_pages(sides, session, &round, round.places as u64)?;
        for place in 0..round.places {
            for side in &*sides {
                side.verify(&round, place)?;
            }
            session.busy()?;
        }
        let trial = 2 * round.window as u64;
        let took = move_pages(sides, session, &round, trial)?.max(1);
        let fits = u128::from(trial) * u128::from(ROUND) / u128::from(took);
        let fits = u64::try_from(fits).unwrap_or(LONGEST).clamp(round.window as u64, LONGEST);
        let pages = self.setup.iterations.unwrap_or(fits);
        let times: Result<Vec<u64>, Failure> = (0..ROUNDS).map(|_| move_pages(sides, session, &round, pages)).collect();
        Ok(Flow::new(pages, &mut times?))
    }
}

/// Moves pages and returns the nanoseconds on the initiator, which chooses their number.
fn move_pages<T: Transport + 'static>(
    sides: &mut [Side<T>],
    session: &mut Session,
    round: &Round,
    pages: u64,
) -> Result<u64, Failure> {
    let theirs = rounds_from(&session.swap_beside(&pages.to_le_bytes(), sides)?)?;
    for side in &mut *sides {
        side.begin(round, if side.role() == Role::Responder { theirs } else { pages })?;
    }
    session.run(sides, Side::is_done)?;
    Ok(sides.first().map_or(0, Side::took))
}

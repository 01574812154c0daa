//! Measures loom: `cargo run --release --manifest-path benches/Cargo.toml -- all`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;
use loom_benches::Failure;
use loom_benches::compare::{Verdict, compare};
use loom_benches::contest::Settings;
use loom_benches::platform::Platform;
use loom_benches::report::{Report, Run};
use loom_benches::sets::instructions::only;
#[cfg(feature = "libfabric")]
use loom_benches::sets::processes;
use loom_benches::sets::{SETS, Set};
use loom_benches::{contest, cores, page};

fn usage() -> String {
    let mut text =
        "usage: measure [--quick] [--rounds N] [--json FILE] SET...\n       measure compare OLD.json NEW.json\n       \
                    measure page [--check] [REPORT.json...]\n       measure show [REPORT.json...]\nsets: all, or any of\n"
            .to_owned();
    for Set { name, about, .. } in SETS {
        text += &format!("  {name:<14} {about}\n");
    }
    text
}

enum Command {
    Measure {
        settings: contest::Settings,
        json: Option<PathBuf>,
        sets: Vec<&'static Set>,
    },
    Compare {
        old: PathBuf,
        new: PathBuf,
    },
    /// Page of these reports, or of all in its folder.
    Page {
        reports: Vec<PathBuf>,
        check: bool,
    },
    Show(Vec<PathBuf>),
    /// Measured operation alone, under callgrind.
    Only {
        side: String,
        operation: String,
        count: u32,
    },
    /// Far end of a side, in a second process.
    #[cfg(feature = "libfabric")]
    Far([String; 4]),
    /// One round between two processes.
    #[cfg(feature = "libfabric")]
    Between([String; 4]),
}

fn command() -> Result<Command, Failure> {
    let mut arguments = lexopt::Parser::from_env();
    let (mut settings, mut rounds, mut json, mut check) = (Settings::FULL, None, None, false);
    let mut names = Vec::<String>::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("quick") => settings = Settings::QUICK,
            Long("rounds") => rounds = Some(arguments.value()?.parse()?),
            Long("check") => check = true,
            Long("json") => json = Some(PathBuf::from(arguments.value()?)),
            Value(name) => names.push(name.string()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    if let Some(rounds) = rounds {
        (settings.rounds, settings.repeats) = (rounds, rounds);
    }
    if check && names.first().is_none_or(|name| name != "page") {
        return Err("--check is for the page".into());
    }
    match &names[..] {
        [] => Err("nothing to measure".into()),
        [command, old, new] if command == "compare" => Ok(Command::Compare { old: old.into(), new: new.into() }),
        [command, reports @ ..] if command == "page" => {
            Ok(Command::Page { reports: reports.iter().map(PathBuf::from).collect(), check })
        }
        [command, reports @ ..] if command == "show" => Ok(Command::Show(reports.iter().map(PathBuf::from).collect())),
        [command, side, operation, count] if command == "only" => {
            Ok(Command::Only { side: side.clone(), operation: operation.clone(), count: count.parse()? })
        }
        #[cfg(feature = "libfabric")]
        [command, arguments @ ..] if command == "far" => {
            Ok(Command::Far(arguments.to_vec().try_into().map_err(|_| "the other process has four arguments")?))
        }
        #[cfg(feature = "libfabric")]
        [command, arguments @ ..] if command == "between" => {
            Ok(Command::Between(arguments.to_vec().try_into().map_err(|_| "a round has four arguments")?))
        }
        [all] if all == "all" => Ok(Command::Measure { settings, json, sets: SETS.iter().collect() }),
        names => {
            let find = |name: &String| {
                SETS.iter().find(|set| set.name == name).ok_or_else(|| format!("there is no set '{name}'"))
            };
            Ok(Command::Measure { settings, json, sets: names.iter().map(find).collect::<Result<_, _>>()? })
        }
    }
}

fn measure(settings: Settings, json: Option<&Path>, sets: &[&Set]) -> Result<(), Failure> {
    cores::end_on_panic();
    let pinned = cores::pin(0);
    let mut run = Run::new(settings, Platform::here(pinned));
    println!("{}", run.report().platform);
    for set in sets {
        run.begin(set.name, set.about);
        (set.measure)(&mut run).map_err(|failure| format!("{}: {failure:#}", set.name))?;
    }
    print!("{}", run.report().targets());
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_string(run.report())?)?;
    }
    Ok(())
}

/// Prints the changes. Returns an error if a metric became worse, or if no metric could be
/// compared.
fn compare_files(old: &Path, new: &Path) -> Result<(), Failure> {
    let changes = compare(&Report::read(old)?, &Report::read(new)?);
    let of = |verdict| changes.iter().filter(move |change| change.verdict == verdict);
    for verdict in [Verdict::Missing, Verdict::Noisy, Verdict::Improvement, Verdict::Regression] {
        of(verdict).for_each(|change| println!("{change}"));
    }
    let (same, worse) = (of(Verdict::Same).count(), of(Verdict::Regression).count());
    let better = of(Verdict::Improvement).count();
    println!("{same} the same, {better} better, {worse} worse");
    match (same + better, worse) {
        (0, 0) => Err("nothing could be compared".into()),
        (_, 0) => Ok(()),
        (_, worse) => Err(format!("{worse} regressions").into()),
    }
}

fn main() -> ExitCode {
    let result = match command() {
        Err(failure) => {
            eprint!("measure: {failure:#}\n{}", usage());
            return ExitCode::from(2);
        }
        Ok(Command::Measure { settings, json, sets }) => measure(settings, json.as_deref(), &sets),
        Ok(Command::Only { side, operation, count }) => only(&side, &operation, count),
        #[cfg(feature = "libfabric")]
        Ok(Command::Far(arguments)) => processes::far(&arguments),
        #[cfg(feature = "libfabric")]
        Ok(Command::Between(arguments)) => processes::between(&arguments),
        Ok(Command::Compare { old, new }) => compare_files(&old, &new),
        Ok(Command::Page { reports, check: true }) => page::check(&reports),
        Ok(Command::Page { reports, check: false }) => page::write(&reports),
        Ok(Command::Show(reports)) => page::show(&reports),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("measure: {failure:#}");
            ExitCode::FAILURE
        }
    }
}

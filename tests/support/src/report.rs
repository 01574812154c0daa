//! Behaviours and providers of a run, compared with the committed table in `tests/behaviours`, so
//! that a behaviour that stops running is reported.
//!
//! A table has a line for each behaviour, with a token for each provider: `+` shown, `-` not
//! granted and refused, `.` not applicable, a small letter for shown except for a reason, a capital
//! letter for not run for a reason. The reasons follow. Runs with `LOOM_UNTESTED=1` have separate
//! tables (`-untested`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libtest_mimic::{Arguments, Trial};

/// Result of a behaviour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Shown,
    /// Shown, except for the reason.
    Partly(&'static str),
    /// A needed feature is not granted, and requests for it are refused.
    NotGranted,
    /// Not run, for the reason.
    Not(&'static str),
}

impl Outcome {
    /// Token of a column, with a reason its first letter, and the reason.
    fn parts(self) -> (char, &'static str) {
        match self {
            Outcome::Shown => ('+', ""),
            Outcome::Partly(why) => ('a', why),
            Outcome::NotGranted => ('-', ""),
            Outcome::Not(why) => ('A', why),
        }
    }
}

thread_local! {
    static NOTED: Cell<Outcome> = const { Cell::new(Outcome::Shown) };
}

/// Notes that a needed feature is not granted. The case then checks that requests for it are
/// refused.
pub fn not_granted() {
    NOTED.set(Outcome::NotGranted);
}

/// Notes that a part of the case is left out or does not hold.
pub fn partly(why: &'static str) {
    NOTED.set(Outcome::Partly(why));
}

/// Notes that the case does not run over this provider.
pub fn not_run(why: &'static str) {
    NOTED.set(Outcome::Not(why));
}

/// Behaviour of a section. Its number is its place in the table.
pub type Place = (&'static str, usize, &'static str);

static OUTCOMES: Mutex<BTreeMap<(Place, &str), Outcome>> = Mutex::new(BTreeMap::new());

/// Waits until no other case runs over a provider that supports one at a time.
#[must_use]
pub fn turn_of(provider: &str) -> Option<MutexGuard<'static, ()>> {
    // Threads of the provider, which spin: two of its domains are too much for two cores.
    static SOCKETS: Mutex<()> = Mutex::new(());
    // Endpoints have slots that all processes of a user share: messages to a closed one reach the
    // next.
    static SM2: Mutex<()> = Mutex::new(());
    let turn = match provider {
        "sockets" => &SOCKETS,
        "sm2" => &SM2,
        _ => return None,
    };
    Some(turn.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn watch(place: Place, provider: &'static str, case: impl FnOnce()) {
    NOTED.set(Outcome::Shown);
    case();
    let outcome = NOTED.get();
    if std::env::var_os(ALONE).is_some() {
        let (token, why) = outcome.parts();
        println!("{OUTCOME}{token}{why}");
    }
    keep(place, provider, outcome);
}

/// Set for a process that runs one case.
const ALONE: &str = "LOOM_ALONE";

/// Prefix of the line with the outcome of such a process.
const OUTCOME: &str = "@outcome ";

/// Prefix of the line about a part that cannot run on this machine.
const SKIPPED: &str = "SKIPPED: ";

/// Runs a case in a separate process, which closes the objects that the case leaves open.
pub fn watch_alone(place: Place, provider: &'static str) -> Result<(), libtest_mimic::Failed> {
    let (section, _, name) = place;
    let mut process = std::process::Command::new(std::env::current_exe()?);
    let ended = process.env(ALONE, "1").args(["--exact", &format!("{section}::{provider}::{name}")]).output()?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let reported = text.lines().find_map(|line| Some(line.split_once(OUTCOME)?.1));
    let Some(reported) = reported.filter(|_| ended.status.success()) else {
        return Err(format!("{}: {text}{}", ended.status, String::from_utf8_lossy(&ended.stderr)).into());
    };
    text.lines().filter_map(|line| Some(line.split_once(SKIPPED)?.1)).for_each(cannot_run_here);
    let why: &'static str = reported[1..].to_owned().leak();
    let outcomes = [Outcome::Shown, Outcome::Partly(why), Outcome::NotGranted, Outcome::Not(why)];
    let outcome = outcomes.into_iter().find(|outcome| reported.starts_with(outcome.parts().0));
    keep(place, provider, outcome.ok_or("another outcome")?);
    Ok(())
}

pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

pub fn keep(place: Place, provider: &'static str, outcome: Outcome) {
    OUTCOMES.lock().expect("no panic with the lock").insert((place, provider), outcome);
}

/// A part of this run was left out, because the machine lacks a requirement.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// Notes that a case cannot run on this machine: this run is not compared with its table.
pub fn cannot_run_here(why: &str) {
    println!("{SKIPPED}{why}");
    INCOMPLETE.store(true, Ordering::Relaxed);
}

/// Letter of a reason among those that begin with the letter `first`.
fn letter(reasons: &mut BTreeMap<char, &'static str>, first: char, why: &'static str) -> char {
    (first..).take(26).find(|letter| *reasons.entry(*letter).or_insert(why) == why).expect("26 reasons")
}

/// Table of a section: columns, behaviours, reasons.
fn table(section: &str, providers: &[&str]) -> String {
    let outcomes = OUTCOMES.lock().expect("no panic with the lock");
    let mut text = providers.join(" ") + "\n";
    let mut reasons = BTreeMap::new();
    let mut places: Vec<_> = outcomes.keys().map(|(place, _)| *place).filter(|place| place.0 == section).collect();
    places.dedup();
    for place in places {
        for provider in providers {
            let token = match outcomes.get(&(place, provider)).map(|outcome| outcome.parts()) {
                None => '.',
                Some((token, "")) => token,
                Some((first, why)) => letter(&mut reasons, first, why),
            };
            let _ = write!(text, "{token:<width$} ", width = provider.len());
        }
        let _ = writeln!(text, "{}", place.2);
    }
    for (letter, why) in reasons {
        let _ = writeln!(text, "{letter}: {why}");
    }
    text
}

fn differences(table: &str, run: &str) -> Vec<String> {
    let only_in = |one: &str, other: &str, which: &str| -> Vec<String> {
        let lines = one.lines().filter(|line| !other.lines().any(|it| it == *line));
        lines.map(|line| format!("only in {which}: {line}")).collect()
    };
    let mut differences = [only_in(run, table, "this run"), only_in(table, run, "the table")].concat();
    if differences.is_empty() && table != run {
        differences.push("the lines have another order".to_owned());
    }
    differences
}

/// Control of the comparison: a changed, a missing, an added and a moved behaviour.
pub fn differences_are_noticed() {
    let table = "soft\n+    one\n+    two\n";
    for mode in [Mode::Use, Mode::Check] {
        assert_eq!(judge(mode, Some(table), table), (true, vec![]));
        for other in ["soft\n-    one\n+    two\n", "soft\n+    one\n", "soft\n+    two\n+    one\n"] {
            for (committed, run) in [(table, other), (other, table)] {
                let (passes, lines) = judge(mode, Some(committed), run);
                assert!(!passes && !lines.is_empty());
            }
        }
        // A user may have any version.
        let (passes, lines) = judge(mode, None, table);
        assert_eq!(passes, mode == Mode::Use);
        assert!(matches!(&lines[..], [line] if line.starts_with("NOT COMPARED")));
    }
    let mut reasons = BTreeMap::new();
    assert_eq!(
        [('a', "1"), ('A', "1"), ('a', "2"), ('a', "1")].map(|(first, why)| letter(&mut reasons, first, why)),
        ['a', 'A', 'b', 'a']
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Compares, and passes with a version that has no table.
    Use,
    /// Fails with a version that has no table: `LOOM_PAGE=check`, for maintainers.
    Check,
    /// Writes the table: `LOOM_PAGE=write`.
    Write,
}

impl Mode {
    fn of_environment() -> Self {
        match std::env::var("LOOM_PAGE").as_deref() {
            Ok("write") => Mode::Write,
            Ok("check") => Mode::Check,
            Ok(other) if !other.is_empty() => panic!("LOOM_PAGE is check or write, not {other}"),
            _ => Mode::Use,
        }
    }
}

pub fn is_untested() -> bool {
    std::env::var_os("LOOM_UNTESTED").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Compares a run with its table, if one is committed. Returns `true` if the run passes, and the
/// lines to print.
fn judge(mode: Mode, committed: Option<&str>, run: &str) -> (bool, Vec<String>) {
    let Some(committed) = committed else {
        let line = "NOT COMPARED: no table of this version. LOOM_PAGE=check fails here, LOOM_PAGE=write adds the table";
        return (mode == Mode::Use, vec![line.to_owned()]);
    };
    let differences = differences(committed, run);
    (differences.is_empty(), differences)
}

/// Compares a whole section that has succeeded with its table, or writes the table. Returns `true`
/// if it passes.
fn agrees(version: &str, section: &str, providers: &[&str]) -> bool {
    let untested = if is_untested() { "-untested" } else { "" };
    let path = PathBuf::from(format!("{}/../behaviours/{version}/{section}{untested}.txt", env!("CARGO_MANIFEST_DIR")));
    let (mode, run) = (Mode::of_environment(), table(section, providers));
    if mode == Mode::Write {
        fs::create_dir_all(path.parent().expect("a folder")).expect("creates the folder");
        fs::write(path, run).expect("writes the table");
        return true;
    }
    let (passes, lines) = judge(mode, fs::read_to_string(&path).ok().as_deref(), &run);
    for line in &lines {
        println!("{line}");
    }
    let result = if lines.is_empty() { "agrees with this run" } else { "LOOM_PAGE=write renews it" };
    println!("{}: {result}", path.display());
    passes
}

/// Trials with a separate table.
pub struct Section {
    pub name: &'static str,
    /// Columns of the table.
    pub providers: Vec<&'static str>,
    pub trials: Vec<Trial>,
}

/// Runs the sections and other trials of a program. Compares sections with their tables for this
/// version of libfabric, if all of their trials have run.
pub fn conclude(arguments: &Arguments, version: &str, sections: Vec<Section>, others: Vec<Trial>) -> ! {
    let is_whole = |name: &str| {
        let is_chosen = arguments.filter.as_ref().is_none_or(|filter| *filter == format!("{name}::"));
        is_chosen && arguments.skip.is_empty() && !arguments.list && !arguments.ignored
    };
    let mut trials = others;
    let mut tables = Vec::new();
    for section in sections {
        trials.extend(section.trials);
        if is_whole(section.name) {
            tables.push((section.name, section.providers));
        }
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    if !conclusion.has_failed() {
        if INCOMPLETE.load(Ordering::Relaxed) {
            println!("an incomplete run is not compared with the tables");
        } else if tables.iter().filter(|(name, providers)| !agrees(version, name, providers)).count() > 0 {
            std::process::exit(101);
        }
    }
    conclusion.exit();
}

pub type Cases = Vec<(&'static str, fn())>;

pub fn trials(section: &'static str, provider: &'static str, cases: Cases) -> Vec<Trial> {
    let trial = |(number, (name, case)): (usize, (&'static str, fn()))| {
        Trial::test(format!("{section}::{name}"), move || {
            let _turn = turn_of(provider);
            watch((section, number, name), provider, case);
            Ok(())
        })
    };
    cases.into_iter().enumerate().map(trial).collect()
}

//! Which behaviour runs over which provider: collected while the tests run, and compared with the committed page
//! `docs/behaviours.md` (with `LOOM_UNTESTED=1`, `docs/behaviours-untested.md`), so that nothing silently stops running.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libtest_mimic::{Arguments, Trial};

/// How a behaviour went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Shown,
    /// Shown, but for what is said.
    Partly(&'static str),
    /// What it needs is not granted, and asking for it is refused.
    NotGranted,
    /// Not run, for the reason that is said.
    Not(&'static str),
}

impl Outcome {
    /// What the page says, and the note below its table.
    fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Outcome::Shown => ("yes", None),
            Outcome::Partly(why) => ("yes", Some(why)),
            Outcome::NotGranted => ("not granted", None),
            Outcome::Not(why) => ("**no**", Some(why)),
        }
    }
}

thread_local! {
    static NOTED: Cell<Outcome> = const { Cell::new(Outcome::Shown) };
}

/// A case found that what it is about is not granted, and goes on to see that asking for it is refused.
pub fn not_granted() {
    NOTED.set(Outcome::NotGranted);
}

/// A case leaves a part of itself out, or found that a part of it does not hold.
pub fn partly(why: &'static str) {
    NOTED.set(Outcome::Partly(why));
}

/// A case does not run over this provider.
pub fn not_run(why: &'static str) {
    NOTED.set(Outcome::Not(why));
}

/// The outcomes, by behaviour and provider. Behaviours keep the order of their numbers.
static OUTCOMES: Mutex<BTreeMap<(usize, &str, &str), Outcome>> = Mutex::new(BTreeMap::new());

/// Runs a case, and keeps how it went.
pub fn watch((number, name): (usize, &'static str), provider: &'static str, case: impl FnOnce()) {
    NOTED.set(Outcome::Shown);
    case();
    let outcome = NOTED.get();
    if std::env::var_os(ALONE).is_some() {
        let (words, note) = outcome.words();
        println!("{TELLS}{words}|{}", note.unwrap_or(""));
    }
    keep((number, name), provider, outcome);
}

/// Set for a process that runs one case.
const ALONE: &str = "LOOM_ALONE";

/// Begins the line by which such a process tells how it went.
const TELLS: &str = "@outcome ";

/// Begins the line that says what could not run on this machine.
const SKIPPED: &str = "SKIPPED: ";

/// Runs a case in a process of its own, where what the case leaves open ends with the process.
pub fn watch_alone((number, name): (usize, &'static str), provider: &'static str) -> Result<(), libtest_mimic::Failed> {
    let mut process = std::process::Command::new(std::env::current_exe()?);
    let ended = process.env(ALONE, "1").args(["--exact", &format!("{provider}::{name}")]).output()?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let told = text.lines().find_map(|line| line.split_once(TELLS)?.1.split_once('|'));
    let Some((words, note)) = told.filter(|_| ended.status.success()) else {
        return Err(format!("{}: {text}{}", ended.status, String::from_utf8_lossy(&ended.stderr)).into());
    };
    text.lines().filter_map(|line| Some(line.split_once(SKIPPED)?.1)).for_each(cannot_run_here);
    let note: &'static str = note.to_owned().leak();
    let outcomes = [Outcome::Shown, Outcome::Partly(note), Outcome::NotGranted, Outcome::Not(note)];
    let outcome =
        outcomes.into_iter().find(|outcome| outcome.words() == (words, Some(note).filter(|note| !note.is_empty())));
    keep((number, name), provider, outcome.ok_or("it tells something else")?);
    Ok(())
}

/// Whether this process runs one case.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

pub fn keep((number, name): (usize, &'static str), provider: &'static str, outcome: Outcome) {
    OUTCOMES.lock().expect("nobody panics with it").insert((number, name, provider), outcome);
}

/// Something of this run was left out for what the machine lacks, and its case has said so.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// A case cannot run on this machine: this run is not compared with the page.
pub fn cannot_run_here(why: &str) {
    println!("{SKIPPED}{why}");
    INCOMPLETE.store(true, Ordering::Relaxed);
}

/// The section of the page for a version of libfabric, or a part of it.
fn section(version: &str, providers: &[&str]) -> String {
    let outcomes = OUTCOMES.lock().expect("nobody panics with it");
    let mut text = format!("## libfabric {version}\n\n| behaviour |");
    for provider in providers {
        let _ = write!(text, " {provider} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(providers.len()));
    text.push('\n');
    let mut notes: Vec<&str> = Vec::new();
    let mut behaviours: Vec<_> = outcomes.keys().map(|(number, name, _)| (*number, *name)).collect();
    behaviours.dedup();
    for (number, name) in behaviours {
        let _ = write!(text, "| {} |", name.replace('_', " "));
        for provider in providers {
            let Some(outcome) = outcomes.get(&(number, name, provider)) else {
                text.push_str(" |");
                continue;
            };
            let (words, note) = outcome.words();
            let _ = write!(text, " {words}");
            if let Some(note) = note {
                let place = notes.iter().position(|other| *other == note).unwrap_or_else(|| {
                    notes.push(note);
                    notes.len() - 1
                });
                let _ = write!(text, " ({})", place + 1);
            }
            text.push_str(" |");
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, note) in (1..).zip(notes) {
        let _ = writeln!(text, "{number}. {note}");
    }
    text
}

/// The text between a heading and the next one of its level.
fn find<'p>(page: &'p str, version: &str) -> Option<&'p str> {
    let from = page.find(&format!("## libfabric {version}\n"))?;
    let rest = &page[from..];
    Some(rest[3..].find("\n## ").map_or(rest, |end| &rest[..end + 4]))
}

/// Where the page and a run differ.
fn differences(page: &str, run: &str) -> Vec<String> {
    let (page, run): (Vec<_>, Vec<_>) = (page.trim_end().lines().collect(), run.trim_end().lines().collect());
    let only_in = |one: &[&str], other: &[&str], who: &str| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).map(|line| format!("{who} says {line}")).collect()
    };
    let mut differences = [only_in(&run, &page, "this run"), only_in(&page, &run, "the page")].concat();
    if differences.is_empty() && page != run {
        differences.push("the lines are in another order".to_owned());
    }
    differences
}

/// The comparison can fail: a behaviour that does not run any more, one that is new, one that has moved.
pub fn differences_are_noticed() {
    let page = "## libfabric 9.9\n\n| behaviour | soft |\n|---|---|\n| one | yes |\n| two | yes |\n\n";
    assert!(differences(page, page).is_empty());
    for other in [page.replace("| one | yes |", "| one | not granted |"), page.replace("| two | yes |\n", "")] {
        assert!(!differences(page, &other).is_empty() && !differences(&other, page).is_empty());
    }
    let moved = page.replace("| one | yes |\n| two | yes |", "| two | yes |\n| one | yes |");
    assert_eq!(differences(page, &moved).len(), 1);
    let whole = format!("# Page\n\n{page}## libfabric 10.0\n\nmore\n");
    assert_eq!(find(&whole, "9.9").map(str::trim_end), Some(page.trim_end()));
    assert_eq!(find(&whole, "10.0").map(str::trim_end), Some("## libfabric 10.0\n\nmore"));
    assert_eq!(find(&whole, "1.17"), None);
    // A version without a section passes where a user runs it, and says so; where maintainers do, it fails.
    for (mode, passes) in [(Mode::Use, true), (Mode::Check, false)] {
        let judgement = judge(mode, page, "1.17", page);
        assert!(judgement.passes == passes && judgement.new_page.is_none());
        assert!(matches!(&judgement.says[..], [line] if line.starts_with("NOT COMPARED")));
        let other = judge(mode, page, "9.9", &page.replace("| one | yes |", "| one | not granted |"));
        assert!(!other.passes && judge(mode, page, "9.9", page).passes);
    }
    let written = judge(Mode::Write, page, "1.17", "## libfabric 1.17\n").new_page.expect("it is added");
    assert!(judge(Mode::Check, &written, "1.17", "## libfabric 1.17\n").passes);
}

/// What a run does where the page has no section for it, or another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Says that the page has no section of this version, and passes: a user may have any version.
    Use,
    /// Fails, too: `LOOM_PAGE=check`, for maintainers.
    Check,
    /// Makes the page agree: `LOOM_PAGE=write`.
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

/// Whether this run treats every provider as one that is not tested.
pub fn is_untested() -> bool {
    std::env::var_os("LOOM_UNTESTED").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The page of this run.
fn page_name() -> &'static str {
    if is_untested() { "docs/behaviours-untested.md" } else { "docs/behaviours.md" }
}

/// Compares a whole run that has succeeded with the page; `false` if they differ, or if the mode wants a section that is missing.
fn agrees_with_the_page(version: &str, providers: &[&str]) -> bool {
    if INCOMPLETE.load(Ordering::Relaxed) {
        println!("the page of providers: not compared with a run that is not whole");
        return true;
    }
    let name = page_name();
    let path = &format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).expect("the page");
    let judgement = judge(Mode::of_environment(), &page, version, &section(version, providers));
    for line in judgement.says {
        println!("{name}: {line}");
    }
    if let Some(new) = judgement.new_page {
        std::fs::write(path, new).expect("writes the page");
    }
    judgement.passes
}

/// What becomes of a run beside the page.
struct Judgement {
    passes: bool,
    says: Vec<String>,
    new_page: Option<String>,
}

/// Compares a run's section with the page.
fn judge(mode: Mode, page: &str, version: &str, text: &str) -> Judgement {
    let writes = |new_page| Judgement { passes: true, says: Vec::new(), new_page: Some(new_page) };
    let Some(committed) = find(page, version) else {
        if mode == Mode::Write {
            return writes(format!("{}\n\n{text}", page.trim_end()));
        }
        let says = format!(
            "NOT COMPARED: it has no section of libfabric {version}. What ran is not known to be all that should; \
             LOOM_PAGE=check fails here, LOOM_PAGE=write adds the section"
        );
        return Judgement { passes: mode != Mode::Check, says: vec![says], new_page: None };
    };
    let mut says = differences(committed, text);
    if says.is_empty() {
        return Judgement { passes: true, says: vec!["agrees with this run".to_owned()], new_page: None };
    }
    if mode == Mode::Write {
        return writes(page.replace(committed.trim_end(), text.trim_end()));
    }
    says.push("differs from this run; LOOM_PAGE=write makes it agree".to_owned());
    Judgement { passes: false, says, new_page: None }
}

/// Runs the trials of a program, and compares them with its section of the page if all have run and succeeded.
pub fn conclude(arguments: &Arguments, trials: Vec<Trial>, section: &str, providers: &[&str]) -> ! {
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list && !arguments.ignored;
    let conclusion = libtest_mimic::run(arguments, trials);
    if whole && !conclusion.has_failed() && !agrees_with_the_page(section, providers) {
        std::process::exit(101);
    }
    conclusion.exit();
}

/// Cases, by their names.
pub type Cases = Vec<(&'static str, fn())>;

/// The trials of cases over the one provider that has what they are about.
pub fn trials(provider: &'static str, cases: Cases) -> Vec<Trial> {
    let trial = |(number, (name, case)): (usize, (&'static str, fn()))| {
        Trial::test(name, move || {
            watch((number, name), provider, case);
            Ok(())
        })
    };
    cases.into_iter().enumerate().map(trial).collect()
}

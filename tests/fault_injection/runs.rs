//! Runs of a behaviour under a fault, one for each seed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::Failed;
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::endpoint::Source;
use loom_core::info::Info;
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::Errno;

use crate::faults::{FAULTS, Fault, Less, STRICT, With};
use crate::posting::threads::on_threads;
use crate::posting::{self, Cut, LIMIT, Limit, OrCut, Patience};
use crate::tally;
use support::behaviours::pair::{on_pair, pattern, room};

/// Number of seeds of all runs together.
const ALL: u64 = 200;
/// Number of polls of a wait: a fault that delays takes a few.
const LOOKS: u64 = 3000;
/// Limit of a wait with several threads, after the last progress of one: none is kept from running
/// for that time.
const IN_VAIN: Duration = Duration::from_secs(2);

/// Attributes of the networks: small ones are opened quickly.
const ATTR: NetworkAttr = NetworkAttr { rx_depth: 256, ..NetworkAttr::DEFAULT };

/// The seeds of a run.
#[derive(Clone)]
pub(crate) struct Seeds {
    seeds: Vec<u64>,
    why: String,
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.seeds.first().unwrap_or(&0), self.seeds.last().unwrap_or(&0));
        let few = if cfg!(debug_assertions) { ", without optimisation" } else { "" };
        write!(f, "{} seeds of each fault, {first} to {last}: {}{few}", self.seeds.len(), self.why)
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{value}'")))
}

pub(crate) fn seeds() -> Seeds {
    if let Some(seed) = number("LOOM_SEED") {
        return Seeds { seeds: vec![seed], why: "LOOM_SEED".to_owned() };
    }
    if let Some(count) = number("LOOM_SEEDS") {
        return Seeds { seeds: (0..count).collect(), why: "LOOM_SEEDS".to_owned() };
    }
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    let (tenth, why) = match number("LOOM_TENTH") {
        Some(tenth) => (tenth % 10, format!("tenth {tenth}, LOOM_TENTH")),
        None => (day % 10, format!("tenth {}, as it is day {day}; LOOM_TENTH runs another", day % 10)),
    };
    let mut seeds: Vec<_> = (0..ALL / 10).map(|at| tenth * (ALL / 10) + at).collect();
    if cfg!(debug_assertions) {
        // It is ten times as slow.
        seeds.retain(|seed| seed % 10 == day / 10 % 10);
    }
    Seeds { seeds, why }
}

/// Returns `true` if this fault runs.
pub(crate) fn is_selected(fault: &str) -> bool {
    match std::env::var("LOOM_FAULT") {
        Ok(asked) => {
            assert!(FAULTS.iter().any(|fault| fault.name == asked), "LOOM_FAULT: there is no fault '{asked}'");
            asked == fault
        }
        Err(_) => fault != "none",
    }
}

/// Returns `true` if several seeds of one fault are requested.
pub(crate) fn is_about_one_fault() -> bool {
    std::env::var_os("LOOM_FAULT").is_some() && std::env::var_os("LOOM_SEED").is_none()
}

thread_local! {
    /// Text and place of this thread's panic.
    static WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Prints panics without an explanation.
pub(crate) fn watch_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |location| format!(" ({location})"));
        let words = words_of(info.payload());
        WORDS.set(Some(format!("{words}{place}")));
    }));
}

fn words_of(payload: &(dyn Any + Send)) -> &str {
    let words = payload.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("something that is not words")
}

/// Number of injections of each fault, and number of behaviours that it cut short.
static INJECTED: Mutex<BTreeMap<&str, (u64, u64)>> = Mutex::new(BTreeMap::new());

/// End of a run.
enum End {
    Shown,
    CutShort(Cut),
    /// It panicked, with this text.
    Failed(String),
}

/// One run: its end, the number of injections, and the number of remaining allocations.
struct Run {
    end: End,
    injected: u64,
    left: isize,
}

fn once(plan: Plan, with: With, fault: &Fault, case: &dyn Fn(&Info<Soft<'static>>)) -> Run {
    posting::be_patient(match (with.threads, fault.cuts()) {
        (false, _) => Patience { looks: LOOKS, time: LIMIT },
        (true, false) => Patience { looks: u64::MAX, time: LIMIT },
        (true, true) => Patience { looks: u64::MAX, time: IN_VAIN },
    });
    posting::may_be_cut_short(fault.cuts());
    let before = tally::live();
    let network = Network::new(NetworkAttr { strict: fault.name == STRICT, ..ATTR }).expect("the sizes are small");
    let ended = panic::catch_unwind(AssertUnwindSafe(|| case(&network.info_with_faults(plan))));
    let ended =
        ended.map_err(|payload| payload.downcast_ref::<Cut>().copied().ok_or_else(|| words_of(&*payload).to_owned()));
    let less = network.info().attributes() != network.info_with_faults(plan).attributes();
    let injected = (fault.count)(network.injected(), Less(less.into()));
    drop(network);
    let words = WORDS.take();
    let left = tally::live() - before - isize::from(words.is_some());
    let end = match ended {
        Ok(()) => End::Shown,
        Err(Ok(cut)) => End::CutShort(cut),
        // Another thread has panicked: its text is in its result.
        Err(Err(ended_with)) => End::Failed(words.unwrap_or(ended_with)),
    };
    Run { end, injected, left }
}

/// Returns the error in the end of a run: an injected fault cuts it short by one of its causes, or
/// the behaviour is shown.
fn is_wrong(fault: &Fault, run: &Run) -> Option<String> {
    match &run.end {
        End::Shown => None,
        End::CutShort(cut) if fault.cut_short_by.contains(cut) && run.injected > 0 => None,
        End::CutShort(cut) => Some(format!("cut short by {cut:?}, with the fault injected {} times", run.injected)),
        End::Failed(words) => Some(words.clone()),
    }
}

/// Number of allocations that a behaviour leaves on purpose without a fault.
fn leaves_behind(name: &str, with: With, case: &dyn Fn(&Info<Soft<'static>>)) -> isize {
    static LEAVES: Mutex<BTreeMap<String, isize>> = Mutex::new(BTreeMap::new());
    let known = LEAVES.lock().expect("nobody panics with it").get(name).copied();
    known.unwrap_or_else(|| {
        let leaves = once(Plan::new(0), with, &NONE, case).left;
        LEAVES.lock().expect("nobody panics with it").insert(name.to_owned(), leaves);
        leaves
    })
}

/// Runs a behaviour under a fault with each seed.
pub(crate) fn run(
    fault: &'static Fault,
    with: With,
    seeds: &Seeds,
    name: &str,
    case: impl Fn(&Info<Soft<'static>>),
) -> Result<(), Failed> {
    for &seed in &seeds.seeds {
        let run = once((fault.plan)(seed), with, fault, &case);
        let mut sums = INJECTED.lock().expect("nobody panics with it");
        let (count, cuts) = sums.entry(fault.name).or_default();
        *count += run.injected;
        *cuts += u64::from(matches!(run.end, End::CutShort(_)));
        drop(sums);
        let mut left = run.left;
        if left > 0 && !with.threads {
            // A second run, after allocations that are made once, less those that are left on
            // purpose.
            left = once((fault.plan)(seed), with, fault, &case).left - leaves_behind(name, with, &case);
        }
        let wrong = match is_wrong(fault, &run) {
            Some(wrong) => wrong,
            None if left > 0 && !with.threads => format!("{left} allocations were not freed"),
            None => continue,
        };
        let again = format!("LOOM_FAULT={} LOOM_SEED={seed} cargo test --test fault_injection -- {name}", fault.name);
        return Err(format!("under the fault '{}' with seed {seed}: {wrong}\nagain: {again}", fault.name).into());
    }
    Ok(())
}

/// Returns `true` if every fault that was run was injected. Otherwise these tests have an error.
pub(crate) fn every_fault_was_injected() -> bool {
    let injected = INJECTED.lock().expect("nobody panics with it");
    let mut all = true;
    for fault in FAULTS.iter().filter(|fault| is_selected(fault.name)) {
        let (count, cuts) = injected.get(fault.name).copied().unwrap_or_default();
        println!("fault {}: injected {count} times, cut {cuts} runs short", fault.name);
        all &= count > 0 && (cuts > 0) == fault.cuts();
    }
    if !all {
        println!("a fault was not injected, or has cut nothing short though it can");
    }
    all
}

/// Fault of a control without injections.
static NONE: Fault = Fault { name: "control, of none", plan: Plan::new, count: |_, _| 0, cut_short_by: &[] };

/// Fault that a control counts as injected.
static ERRORS: Fault = Fault {
    name: "control, of errors",
    plan: Plan::new,
    count: |_, _| 1,
    cut_short_by: &[Cut::Error(Errno::EIO), Cut::InVain],
};

/// Fault that a control counts as not injected.
static NEVER: Fault = Fault { name: "control, of errors that were not injected", count: |_, _| 0, ..ERRORS };

/// Checks that a run fails if its behaviour fails without its fault as the cause, or loses a
/// buffer.
pub(crate) fn control() {
    let seeds = Seeds { seeds: vec![1], why: String::new() };
    let with = With { threads: false };
    let says = |result: Result<(), Failed>, wanted: &str| {
        let said = result.err().and_then(|failed| failed.message().map(str::to_owned));
        assert!(said.as_ref().is_some_and(|words| words.contains(wanted)), "'{wanted}' is not in {said:?}");
    };
    for fault in [&NONE, &ERRORS, &NEVER] {
        let run =
            |name: &str, case: &dyn Fn()| run(fault, with, &seeds, &format!("{name}, {}", fault.name), |_| case());
        says(run("wrong bytes", &|| panic!("other bytes than were sent")), "LOOM_SEED=1");
        // A text is no explanation.
        says(run("words", &|| panic!("EIO: it never completes in time")), "EIO");
        says(run("another error", &|| Err(CqError::Queue(Errno::ENOMEM)).or_cut("the queue works")), "ENOMEM");
        let runs = Cell::new(0);
        let loses_a_buffer = || {
            runs.set(runs.get() + 1);
            if runs.get() <= 2 {
                // An optimiser removes an unused value.
                std::mem::forget(std::hint::black_box(Box::new(1)));
            }
        };
        says(run("a leak", &loses_a_buffer), "not freed");
        let fails = || Err(CqError::Queue(Errno::EIO)).or_cut("the queue works");
        let waits = || {
            let mut limit = Limit::new();
            while !limit.passed() {}
            panic!("nothing came")
        };
        // The end of one thread that is cut short does not explain the failure of another.
        let wrong =
            || on_threads([Box::new(waits), Box::new(fails), Box::new(|| panic!("other bytes than were sent"))]);
        says(run("wrong bytes of a thread", &wrong), "LOOM_SEED=1");
        let error = run("an error", &fails);
        let in_vain = run("a wait in vain", &waits);
        let of_a_thread = run("an error of a thread", &|| on_threads([Box::new(waits), Box::new(fails)]));
        for result in [error, in_vain, of_a_thread] {
            match fault.name == ERRORS.name {
                true => result.expect("explained"),
                false => says(result, "LOOM_SEED=1"),
            }
        }
    }
}

/// Checks that wrong bytes fail a run under each fault, with any text, unless the fault cuts it
/// short before they arrive.
pub(crate) fn control_of_wrong_bytes() {
    let wrong_bytes = |info: &Info<Soft<'static>>| {
        on_pair(info, |pair| {
            let received = pair.post(room(8), |buf| pair.b.recv(Source::Any, buf));
            let sent = pair.post(pattern(8, 1), |buf| pair.a.send(pair.to_b, buf));
            assert_eq!(pair.finish(received).0, pattern(8, 2), "the bytes never arrive complete within time");
            pair.finish(sent);
        });
    };
    for fault in &FAULTS {
        let (mut wrong, mut cut) = (0, 0);
        for seed in 0..20 {
            let run = once((fault.plan)(seed), With { threads: false }, fault, &wrong_bytes);
            wrong += u64::from(is_wrong(fault, &run).is_some());
            cut += u64::from(matches!(run.end, End::CutShort(_)));
        }
        assert!(wrong > 0 && wrong + cut == 20, "{}: {wrong} fail, {cut} are cut short", fault.name);
    }
}

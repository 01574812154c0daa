//! `docs/providers.md`, what differs between providers, is made of `docs/behaviours.md`, which the tests compare with what they have seen.
//! `LOOM_PAGE=write` renews it.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const INTRODUCTION: &str = "\
# What differs between providers

What a provider of libfabric does otherwise than loom's documentation says, by provider and version; what is not named here was shown to
hold, by tests that move data and check it. [behaviours.md](behaviours.md) has every behaviour that was tried, and how to try it again;
[limits.md](limits.md) has what to do about it, by subject. This page is made of the former (`cargo test --test providers_page`).

**No** says that it does not hold, or is not run, and why. A remark without it is a condition under which it holds. A name in
brackets is a fault that `tests/faults/faults.c` shows in C, without loom.
";

/// What was seen of a behaviour.
#[derive(Clone, PartialEq, Eq)]
enum Seen {
    Holds,
    /// With a remark.
    Holding(String),
    NotGranted,
    Not(String),
}

/// Of a provider in one version of libfabric: behaviours in their order.
type Behaviours = Vec<(String, Seen)>;

/// By provider and kind of endpoint, and by version.
type Providers = BTreeMap<String, BTreeMap<String, Behaviours>>;

/// What one cell says; `None` if it does not apply.
fn seen(cell: &str, notes: &BTreeMap<&str, &str>) -> Option<Seen> {
    let number = cell.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
    let note = number.map(|number| notes.get(number).unwrap_or_else(|| panic!("note {number}")).to_string());
    Some(match (cell.split(" (").next()?, note) {
        ("yes", None) => Seen::Holds,
        ("yes", Some(note)) => Seen::Holding(note),
        ("not granted", _) => Seen::NotGranted,
        ("**no**", note) => Seen::Not(note.unwrap_or_default()),
        ("", None) => return None,
        (other, _) => panic!("a cell says {other:?}"),
    })
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Reads the page of behaviours.
fn read(page: &str) -> Providers {
    let mut providers = Providers::new();
    for section in page.split("\n## libfabric ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap();
        let (version, kind) = title.split_once(", ").unwrap_or((title, ""));
        let notes: BTreeMap<_, _> = body.lines().filter_map(|line| line.split_once(". ")).collect();
        let mut lines = body.lines().filter(|line| line.starts_with('|'));
        let header = cells(lines.next().unwrap());
        for row in lines.skip(1).map(cells) {
            for (provider, cell) in header.iter().zip(&row).skip(1) {
                let Some(seen) = seen(cell, &notes) else { continue };
                let name = if kind.is_empty() { format!("`{provider}`") } else { format!("`{provider}`, {kind}") };
                let behaviours = providers.entry(name).or_default().entry(version.to_owned()).or_default();
                behaviours.push((row[0].to_owned(), seen));
            }
        }
    }
    providers
}

/// A longer list of what a provider does not have is not read.
const MOST_DENIED: usize = 30;

/// What differs over one provider, if anything does.
fn section(name: &str, versions: &BTreeMap<String, Behaviours>) -> Option<String> {
    let names: Vec<_> = versions.keys().collect();
    let find = |version: &String, behaviour: &str| {
        versions[version].iter().find(|(name, _)| name == behaviour).map(|(_, seen)| seen)
    };
    // What was seen, and of which behaviours.
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut denied: Vec<&str> = Vec::new();
    let mut done = BTreeSet::new();
    for (behaviour, _) in versions.values().flatten() {
        let seen: Vec<_> = names.iter().map(|version| find(version, behaviour)).collect();
        if !done.insert(behaviour) || seen.iter().all(|it| matches!(it, Some(Seen::Holds) | None)) {
            continue;
        }
        if seen.iter().all(|it| matches!(it, Some(Seen::NotGranted) | None)) {
            denied.push(behaviour);
            continue;
        }
        let mut cells = String::new();
        for seen in seen {
            let _ = match seen {
                None => write!(cells, " |"),
                Some(Seen::Holds) => write!(cells, " yes |"),
                Some(Seen::Holding(note)) => write!(cells, " {note} |"),
                Some(Seen::NotGranted) => write!(cells, " not granted |"),
                Some(Seen::Not(note)) if note.is_empty() => write!(cells, " **no** |"),
                Some(Seen::Not(note)) => write!(cells, " **no**: {note} |"),
            };
        }
        match rows.iter_mut().find(|(_, other)| *other == cells) {
            Some((behaviours, _)) => {
                let _ = write!(behaviours, "; {behaviour}");
            }
            None => rows.push((behaviour.clone(), cells)),
        }
    }
    let mut text = format!("\n## {name}\n");
    if !rows.is_empty() {
        let columns: String = names.iter().map(|version| format!(" libfabric {version} |")).collect();
        let rows: String = rows.iter().map(|(behaviours, cells)| format!("| {behaviours} |{cells}\n")).collect();
        let _ = write!(text, "\n| behaviour |{columns}\n|---|{}\n{rows}", "---|".repeat(names.len()));
    }
    if !denied.is_empty() {
        let list = if denied.len() > MOST_DENIED {
            format!("{} of {} behaviours, which [behaviours.md](behaviours.md) has", denied.len(), done.len())
        } else {
            denied.join("; ")
        };
        let _ = writeln!(text, "\nNot granted, and refused with an error that says so: {list}.");
    }
    (!rows.is_empty() || !denied.is_empty()).then_some(text)
}

fn page(behaviours: &str) -> String {
    let providers = read(behaviours);
    let sections = providers.iter().filter_map(|(name, versions)| section(name, versions));
    format!("{INTRODUCTION}{}", sections.collect::<String>())
}

#[test]
fn page_of_providers_says_what_differs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let written = page(&fs::read_to_string(docs.join("behaviours.md")).unwrap());
    let path = docs.join("providers.md");
    if std::env::var_os("LOOM_PAGE").is_some_and(|value| value == "write") {
        fs::write(&path, &written).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap() == written, "docs/providers.md: LOOM_PAGE=write renews it");
    assert!(written.matches("\n## ").count() >= 10);
}

#[test]
fn exceptions_are_found_and_what_holds_is_left_out() {
    let text = page(
        "# Behaviours\n\n## libfabric 1.17\n\n| behaviour | a | b |\n|---|---|---|\n| one | yes | yes (1) |\n| two | yes | not granted |\n\
         | three | yes | **no** (2) |\n| four | yes | **no** (2) |\n| five | yes | |\n\n1. a remark\n2. a reason (`fault`)\n\n## libfabric 2.5\n\n| behaviour | b |\n|---|---|\n| one | yes |\n\
         | two | not granted |\n| three | yes |\n| four | yes |\n",
    );
    assert_eq!(
        text.strip_prefix(INTRODUCTION).unwrap(),
        "\n## `b`\n\n| behaviour | libfabric 1.17 | libfabric 2.5 |\n|---|---|---|\n| one | a remark | yes |\n\
         | three; four | **no**: a reason (`fault`) | yes |\n\nNot granted, and refused with an error that says so: two.\n"
    );
}

//! Pages of `docs/providers`, compared with the tables of `tests/behaviours`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Features that a provider may lack, each with a behaviour that is not granted without the
/// feature.
const FEATURES: [(&str, &str); 30] = [
    (
        "tagged messages, directed receives, counters, deferred work, cancelling receives",
        "tagged_message_reaches_posted_receive",
    ),
    ("ignored bits of tags", "ignored_bits_of_a_tag_match_anything"),
    ("tags over plain messages", "tags_over_plain_messages_of_one_peer_each"),
    ("immediate data of messages", "immediate_data_arrives_with_the_message"),
    ("sources of messages, peers by node and service", "source_is_the_sender_where_granted"),
    ("directed receives of untagged messages", "plain_directed_receives_stand_in_line_with_the_others"),
    ("peeks", "a_peek_finds_arrived_messages"),
    ("claims", "a_claimed_message_matches_no_other_receive"),
    ("discards", "a_discarded_message_is_gone"),
    ("multi-receives", "a_buffer_that_is_not_kept_to_is_refused"),
    ("multi-receives of tagged messages", "tagged_messages_fill_one_buffer"),
    ("RMA", "write_lands_in_the_peers_region"),
    ("atomic operations", "every_atomic_computes_its_operation"),
    ("fences", "a_fence_holds_or_is_refused"),
    ("counters of peers' reads and writes", "reads_and_writes_of_peers_are_counted"),
    ("counters of peers' atomic operations", "atomics_of_peers_are_counted"),
    ("counters of regions", "writes_of_peers_to_a_region_are_counted"),
    ("unsignaled sends", "unsignaled_sends_arrive_and_are_counted"),
    ("unsignaled reads and writes", "unsignaled_reads_and_writes_are_counted"),
    ("cancelling sends", "cancelled_sends_make_room_for_others"),
    ("sleeping on queues", "sleeping_ends_with_a_completion"),
    ("sleeping on counters", "counter_is_waited_for_after_one_of_its_endpoints_was_closed"),
    ("sleeping in shared domains, signals", "a_signal_wakes_the_sleeper_up"),
    ("descriptors of queues", "a_program_may_sleep_on_the_descriptor_of_an_idle_queue"),
    ("descriptors in shared domains", "another_threads_message_makes_a_descriptor_readable"),
    ("peers by a range of addresses", "peers_may_be_inserted_by_their_range"),
    ("collective operations", "collective_operations_are_refused"),
    ("connections: peeks", "a_peek_finds_claims_and_discards_over_a_connection"),
    ("connections: shutdown", "a_shutdown_reaches_the_peer"),
    ("connections: shared receives", "shared_receives_take_messages_of_any_connection"),
];

const PROGRAMS: [&str; 6] = ["transports", "connected", "process_death", "scalable", "multicast", "collectives"];

/// Result of a behaviour over a provider.
struct Cell {
    provider: String,
    version: &'static str,
    program: &'static str,
    behaviour: String,
    token: char,
    reason: Option<String>,
}

impl Cell {
    fn is_missing(&self) -> bool {
        self.token == '-' || self.token.is_uppercase()
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for version in ["1.17", "2.5"] {
        for program in PROGRAMS {
            let table = fs::read_to_string(repository(&format!("tests/behaviours/{version}/{program}.txt"))).unwrap();
            let (reasons, rows): (Vec<_>, Vec<_>) = table.lines().skip(1).partition(|line| line.contains(": "));
            for row in rows {
                let (tokens, behaviour) = row.rsplit_once(' ').unwrap();
                let providers = table.lines().next().unwrap().split(' ');
                for (provider, token) in providers.zip(tokens.split_whitespace()).filter(|(_, token)| *token != ".") {
                    let reason = reasons.iter().find_map(|line| line.strip_prefix(token)?.strip_prefix(": "));
                    cells.push(Cell {
                        provider: provider.to_owned(),
                        version,
                        program,
                        behaviour: behaviour.to_owned(),
                        token: token.parse().unwrap(),
                        reason: reason.map(str::to_owned),
                    });
                }
            }
        }
    }
    assert!(cells.len() > 4000, "{}", cells.len());
    cells
}

/// Providers of some cells, with the version if others of the provider are tested without it.
fn places<'c>(cells: &'c [Cell], has: impl Fn(&Cell) -> bool) -> Vec<(&'c str, String)> {
    let providers: BTreeSet<_> = cells.iter().filter(|cell| has(cell)).map(|cell| &*cell.provider).collect();
    let place = |provider: &'c str| {
        let here = || cells.iter().filter(move |cell| cell.provider == provider);
        let programs: BTreeSet<_> = here().filter(|cell| has(cell)).map(|cell| cell.program).collect();
        let tested: BTreeSet<_> =
            here().filter(|cell| programs.contains(cell.program)).map(|cell| cell.version).collect();
        let versions: BTreeSet<_> = here().filter(|cell| has(cell)).map(|cell| cell.version).collect();
        let some = if versions == tested { String::new() } else { format!(" ({})", versions.first().unwrap()) };
        (provider, some)
    };
    providers.into_iter().map(place).collect()
}

fn page_of(provider: &str) -> String {
    match provider {
        "strict" => "soft.md".to_owned(),
        "sockets-dgram" => "sockets.md".to_owned(),
        _ => provider.replace(';', "-") + ".md",
    }
}

/// Lines that the tables require, each with its page.
fn required(cells: &[Cell]) -> BTreeSet<(String, String)> {
    let in_text = |places: &[(&str, String)]| {
        places.iter().map(|(provider, version)| format!("`{provider}`{version}")).collect::<Vec<_>>().join(", ")
    };
    let mut lines = BTreeSet::new();
    for (feature, shows) in FEATURES {
        let places = places(cells, |cell| cell.behaviour == shows && cell.is_missing());
        lines.insert(("README.md".to_owned(), format!("| {feature} | {} |", in_text(&places))));
    }
    for reason in cells.iter().filter_map(|cell| cell.reason.as_ref()).collect::<BTreeSet<_>>() {
        let places = places(cells, |cell| cell.reason.as_ref() == Some(reason));
        let pages: BTreeSet<_> = places.iter().map(|(provider, _)| page_of(provider)).collect();
        let line = match &places[..] {
            [(_, version)] => format!("- {reason}.{version}"),
            _ => format!("- {reason}. ({})", in_text(&places)),
        };
        // A reason of several providers is on the common page.
        let page = if pages.len() > 1 { "README.md" } else { pages.first().unwrap() };
        lines.insert((page.to_owned(), line));
    }
    lines
}

/// Lines of the pages about results of the tests, each with its page.
fn written() -> BTreeSet<(String, String)> {
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(repository("docs/providers")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let Some((_, results)) = text.split_once("\n## Test results\n") else { continue };
        for line in results.split("\n## ").next().unwrap().lines() {
            if line.starts_with("- ") || line.starts_with("| ") && line != "| feature | lacked by |" {
                lines.insert((name.clone(), line.to_owned()));
            }
        }
    }
    lines
}

#[test]
fn pages_have_the_results_of_the_tests() {
    let (required, written) = (required(&cells()), written());
    let missing: Vec<_> = required.difference(&written).collect();
    let outdated: Vec<_> = written.difference(&required).collect();
    assert!(missing.is_empty() && outdated.is_empty(), "missing: {missing:#?}\noutdated: {outdated:#?}");
}

/// Checks that a behaviour that is not granted is refused by the same providers as a feature of the
/// page.
#[test]
fn every_refusal_is_a_feature() {
    let cells = cells();
    let refused = |behaviour: &str| -> BTreeSet<_> {
        let cells = cells.iter().filter(|cell| cell.token == '-' && cell.behaviour == behaviour);
        cells.map(|cell| (cell.program, &*cell.provider, cell.version)).collect()
    };
    let features = FEATURES.map(|(_, shows)| refused(shows));
    let behaviours: BTreeSet<_> = cells.iter().map(|cell| &*cell.behaviour).collect();
    for behaviour in behaviours {
        let refused = refused(behaviour);
        assert!(refused.is_empty() || features.contains(&refused), "add a feature for {behaviour}: {refused:?}");
    }
    assert!(features.iter().all(|refused| !refused.is_empty()));
}

#[test]
fn differing_results_are_found() {
    let mut cells = cells();
    let written = required(&cells);
    let plain =
        cells.iter_mut().find(|cell| cell.behaviour == "a_fence_holds_or_is_refused" && cell.token == '+').unwrap();
    plain.token = '-';
    assert_eq!(required(&cells).difference(&written).count(), 1);
    cells.iter_mut().find(|cell| cell.token == '+').unwrap().reason = Some("new".to_owned());
    assert_eq!(required(&cells).difference(&written).count(), 2);
}

/// Checks that names of faults on the pages have a program.
#[test]
fn faults_have_a_program() {
    let faults = fs::read_to_string(repository("cli/faults.txt")).unwrap();
    let pages = fs::read_dir(repository("docs/providers")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = 0;
    for page in pages.chain([repository("docs/limits.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        for name in
            text.split('`').skip(1).step_by(2).filter(|name| name.matches('-').count() > 2 && !name.contains(' '))
        {
            found += 1;
            assert!(name.split('…').all(|part| faults.contains(part)), "{}: {name}", page.display());
        }
    }
    assert!(found > 50, "{found}");
}

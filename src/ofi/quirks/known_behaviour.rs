//! Facts that tests have shown of a provider, by version ([`SHOWN`]).
//!
//! A fact is a permission. Its documentation names its evidence in `tests/behaviours`, and programs
//! in `tests/provider_faults/faults.c` that fail without it.
//!
//! A new failure: withhold its fact from the version in [`SHOWN`], and follow "How to add a
//! provider fault" in `docs/dev/testing.md`.

use bitflags::bitflags;
use loom_core::transport::Name;
use loom_core::vocabulary::Version;

use crate::ofi::info::RawInfo;
use crate::ofi::info::decode;
use crate::ofi::library::Library;

bitflags! {
    /// Facts of a provider in one version.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Facts: u32 {
        /// The tests have run over it.
        ///
        /// Shown by: `message reaches posted receive`, `messages arrive both ways`.
        const TESTED = 1;
        /// An endpoint can be closed beside open endpoints that it has communicated with, or that
        /// have its address. For `shm` see [`shm_registry`](super::shm_registry)
        /// (`shm-message-to-an-endpoint-that-was-closed-crashes`).
        ///
        /// Shown by: `messages to an endpoint that was closed before harm no other endpoint`,
        /// `closed endpoint gives its buffers back`, `closing in the middle of a long message harms
        /// no other endpoint`, `one listener serves many while others come and go`.
        const CLOSES_BESIDE_OTHERS = 1 << 1;
        /// An endpoint that is not polled is not driven by others.
        ///
        /// Shown by: `tests/libfabric/regions.rs`.
        const LEFT_IN_PEACE = 1 << 2;
        /// An endpoint can be closed with receives posted: their buffers are not written
        /// afterwards. `ofi_rxm` 1.17 crashes when closed while fetching a long message.
        ///
        /// Shown by: `closed endpoint gives its buffers back`, `closing in the middle of a long
        /// message harms no other endpoint`, `operations in flight come back with the endpoint`.
        const CLOSES_WITH_RECEIVES = 1 << 3;
        /// An endpoint can be closed with sends and writes in flight: their buffers are not read
        /// afterwards.
        ///
        /// Shown by: `closing in the middle of a long message harms no other endpoint`, `every
        /// buffer is dropped once`, `operations in flight come back with the endpoint`.
        const CLOSES_WITH_SENDS = 1 << 4;
        /// An endpoint can be closed with reads in flight no longer than an injected message: their
        /// buffers are not written afterwards. The peer of `shm` 2.6 writes reads of every length
        /// by cross-memory attach. `net` and `tcp` of 1.17:
        /// `…-read-that-is-cut-by-closing-is-freed-twice`.
        ///
        /// Shown by: `reads in flight come back with their endpoint`, `reads in flight come back
        /// with the endpoint`; between processes `tests/libfabric/shm_processes.rs`.
        const CLOSES_WITH_SHORT_READS = 1 << 5;
        /// Also with longer reads, which `shm` serves by cross-memory attach.
        ///
        /// Shown by: `reads in flight come back with their endpoint`, `reads in flight come back
        /// with the endpoint`.
        const CLOSES_WITH_LONG_READS = 1 << 6;
        /// An endpoint can be closed after a truncated message no longer than an injected one
        /// (`rxm-close-after-a-truncated-long-message-crashes`).
        ///
        /// Shown by: `short message is truncated with an error`, `very long message is truncated
        /// with an error`, `a too long message is truncated with an error`.
        const CLOSES_AFTER_SHORT_TRUNCATED = 1 << 7;
        /// Also after longer messages.
        ///
        /// Shown by: `very long message is truncated with an error`, `a too long message is
        /// truncated with an error`.
        const CLOSES_AFTER_LONG_TRUNCATED = 1 << 8;
        /// A region can be closed in the middle of a peer's operation on it. `shm` 2.5:
        /// `shm-region-closed-while-it-is-written-crashes`. `sockets` uses it after releasing the
        /// lock.
        ///
        /// Shown by: `region closed in the middle of a transfer keeps its memory while it is
        /// reached`, `a region may be closed in the middle of writes`.
        const CLOSES_REGIONS = 1 << 9;
        /// Multi-receives stay within their buffer, which is released when fully written
        /// (`…-multi-receive-writes-behind-its-buffer`, `rxm-multi-receive-is-released-too-early`).
        ///
        /// Shown by: `a message longer than the remaining buffer is truncated`.
        const MULTI_RECV = 1 << 10;
        /// Directed untagged receives take one peer's messages only (`…-directed-receive-crashes`,
        /// `…-directed-receive-takes-anybodys`).
        ///
        /// Shown by: `plain directed receives stand in line with the others`.
        const DIRECTED_RECV = 1 << 11;
        /// Peeks receive no message (`shm-peek-receives`).
        ///
        /// Shown by: `a peek finds arrived messages`, `a peek without a message is empty`.
        const PEEK = 1 << 12;
        /// A claim stores its context as a number.
        ///
        /// Shown by: `a claimed message matches no other receive`.
        const CLAIMS_BY_CONTEXT = 1 << 13;
        /// A claim is stored in its context's memory.
        ///
        /// Shown by: `a claimed message matches no other receive`.
        const CLAIMS_IN_CONTEXTS = 1 << 14;
        /// The send of a discarded message completes
        /// (`…-send-of-a-discarded-message-never-ends`).
        ///
        /// Shown by: `a discarded message is gone`.
        const DISCARD = 1 << 15;
        /// Endpoints bound with `FI_SELECTIVE_COMPLETION` keep to it
        /// (`…-selective-completion-reports-everything`).
        ///
        /// Shown by: `unsignaled sends arrive and are counted`.
        const SELECTIVE = 1 << 16;
        /// Options can be set before an endpoint is enabled
        /// (`sm2-option-of-an-endpoint-that-is-not-enabled-crashes`).
        ///
        /// Shown by: `options are read and set`.
        const OPTIONS_BEFORE = 1 << 17;
        /// Options of an enabled endpoint have an effect. `shm` 2.5 ignores them.
        ///
        /// Shown by: `options are read and set`.
        const OPTIONS_AFTER = 1 << 18;
        /// Queues and counters of a domain of one thread can be slept on. `shm` and `sm2` yield.
        /// With a queue without endpoints, `shm` yields for ever (1.17) or crashes (2.5).
        ///
        /// Shown by: `sleeping ends when the time has passed`, `sleeping ends with a completion`,
        /// `a queue of connections sleeps until something completes`.
        const SLEEPS = 1 << 19;
        /// Also if several threads may use the domain (`tcp-queue-for-sleeping-crashes`).
        ///
        /// Shown by: `a sleeper is woken by another thread`.
        const SLEEPS_SHARED = 1 << 20;
        /// Queues and counters can be slept on after one of their endpoints was closed
        /// (`…-sleep-after-an-endpoint-was-closed-crashes`).
        ///
        /// Shown by: `queue is slept on after each of its endpoints was closed`,
        /// `closed connections leave their queues to be slept on`.
        const SLEEPS_AFTER_CLOSE = 1 << 28;
        /// Connected endpoints have the tagged messages that they grant. Those of `net` and `tcp`
        /// need shared receives, and crash without a matching receive
        /// (`…-tagged-message-to-shared-receives-crashes`).
        ///
        /// Shown by: `tagged messages match or are refused`.
        const TAGS_ON_CONNECTIONS = 1 << 21;
        /// Connections can share receives. `sockets` uses freed memory after an endpoint was closed
        /// in the middle of a message.
        ///
        /// Shown by: `shared receives take messages of any connection`,
        /// `a connection that ends in the middle of a message leaves the others`.
        const SHARES_RECEIVES = 1 << 22;
        /// A passive endpoint can be closed while a peer connects
        /// (`net-close-while-a-peer-connects-crashes`).
        ///
        /// Shown by: `a stranger may speak when the listener is gone`.
        const CLOSES_LISTENERS = 1 << 23;
        /// A connection can be shut down. `sockets` then closes its file descriptor twice. See also
        /// `…-read-that-is-cut-by-shutting-down-is-freed-twice`.
        ///
        /// Shown by: `a shutdown reaches the peer`.
        const SHUTS_DOWN = 1 << 24;
        /// Contexts of scalable endpoints can be opened, and closed in any order, in domains with
        /// automatic progress (`sockets-closed-context-is-driven-on`).
        ///
        /// Shown by: `contexts close in the middle`, `contexts are opened again and again`.
        const SCALABLE = 1 << 25;
        /// Multicast groups can be joined and left by endpoints that receive: only the joining call
        /// reads the address.
        ///
        /// Shown by: `a message to a group reaches its member and names its sender`.
        const MULTICAST = 1 << 26;
        /// Collective operations that `src/ofi/endpoint/collective.rs` admits stay in their
        /// buffers, and an endpoint can be closed in one.
        ///
        /// Shown by: `tests/providers/collectives.rs`.
        const COLLECTIVES = 1 << 27;
        /// Tagged receives of `shm` and `sm2` with ignored bits take messages that have arrived
        /// before (`shm-masked-receive-misses-what-has-arrived`), and later receives of one tag
        /// take no other (`shm-receive-after-a-masked-one-takes-another-tag`).
        ///
        /// Shown by: `ignored bits of a tag match anything`.
        const MASKED_RECV = 1 << 29;
        /// An address can be removed from a vector beside bound endpoints and operations to the
        /// peer in flight, and the next insertion gets the lowest free index
        /// (`shm-message-of-a-removed-peer-crashes`).
        ///
        /// Shown by: `places of removed peers return`, `operations in flight outlive their peers
        /// place`.
        const REMOVES_PEERS = 1 << 30;
    }
}

const _: () = assert!(Facts::all().bits().count_ones() as usize == <Facts as bitflags::Flags>::FLAGS.len());

/// Name of a provider, `fi_version`, and `prov_version`, which is the upper layer's.
type Provider = (&'static str, Version, Version);

const fn of_1_17_0(name: &'static str) -> Provider {
    (name, Version::new(1, 17), Version::new(117, 0))
}

const fn of_2_5_1(name: &'static str) -> Provider {
    (name, Version::new(2, 5), Version::new(205, 10))
}

const CLOSES: Facts = Facts::TESTED
    .union(Facts::CLOSES_BESIDE_OTHERS)
    .union(Facts::CLOSES_WITH_RECEIVES)
    .union(Facts::CLOSES_WITH_SENDS)
    .union(WITH_READS);

const WITH_READS: Facts = Facts::CLOSES_WITH_SHORT_READS.union(Facts::CLOSES_WITH_LONG_READS);

/// And after truncated messages, if the provider reports them.
const TRUNCATES: Facts = CLOSES.union(Facts::CLOSES_AFTER_SHORT_TRUNCATED).union(Facts::CLOSES_AFTER_LONG_TRUNCATED);

/// Closing an endpoint of `shm`, if no neighbour is open.
const CLOSES_ALONE: Facts =
    CLOSES.difference(Facts::CLOSES_BESIDE_OTHERS.union(Facts::CLOSES_WITH_LONG_READS)).union(Facts::LEFT_IN_PEACE);

const SLEEPS: Facts = Facts::SLEEPS.union(Facts::SLEEPS_SHARED);

const SLEEPS_ON: Facts = SLEEPS.union(Facts::SLEEPS_AFTER_CLOSE);

const SOCKETS: Facts = TRUNCATES
    .union(SLEEPS_ON)
    .union(Facts::REMOVES_PEERS)
    .union(Facts::DIRECTED_RECV)
    .union(Facts::PEEK)
    .union(Facts::CLAIMS_BY_CONTEXT)
    .union(Facts::DISCARD)
    .union(Facts::SELECTIVE)
    .union(Facts::OPTIONS_BEFORE)
    .union(Facts::TAGS_ON_CONNECTIONS)
    .union(Facts::CLOSES_LISTENERS)
    .union(Facts::SCALABLE);

const UDP: Facts = CLOSES.difference(WITH_READS).union(SLEEPS_ON).union(Facts::MULTICAST).union(Facts::REMOVES_PEERS);

const UDP_RXD: Facts = CLOSES
    .union(SLEEPS)
    .union(Facts::REMOVES_PEERS)
    .union(Facts::CLOSES_REGIONS)
    .union(Facts::DIRECTED_RECV)
    .union(Facts::PEEK)
    .union(Facts::SELECTIVE)
    .union(Facts::OPTIONS_BEFORE);

#[rustfmt::skip]
const SHOWN: [(Provider, Facts); 14] = [
    (of_1_17_0("shm"), CLOSES_ALONE
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::DIRECTED_RECV)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_AFTER)),
    (of_2_5_1("shm"), CLOSES_ALONE
        .union(Facts::MASKED_RECV)
        .union(Facts::PEEK)
        .union(Facts::CLAIMS_IN_CONTEXTS)
        .union(Facts::DISCARD)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_BEFORE)),
    (of_2_5_1("sm2"), CLOSES
        .difference(WITH_READS)
        .union(Facts::MASKED_RECV)
        .union(Facts::PEEK)
        .union(Facts::CLAIMS_IN_CONTEXTS)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_AFTER)
        .union(Facts::REMOVES_PEERS)),
    (of_1_17_0("tcp;ofi_rxm"), TRUNCATES
        .difference(Facts::CLOSES_WITH_RECEIVES.union(WITH_READS))
        .union(SLEEPS)
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::DIRECTED_RECV)
        .union(Facts::PEEK)
        .union(Facts::CLAIMS_IN_CONTEXTS)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_BEFORE)
        .union(Facts::REMOVES_PEERS)),
    (of_2_5_1("tcp;ofi_rxm"), TRUNCATES
        .difference(Facts::CLOSES_WITH_RECEIVES.union(Facts::CLOSES_AFTER_LONG_TRUNCATED))
        .union(SLEEPS)
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::PEEK)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_BEFORE)
        .union(Facts::COLLECTIVES)
        .union(Facts::REMOVES_PEERS)),
    (of_1_17_0("tcp"), TRUNCATES
        .difference(WITH_READS)
        .union(SLEEPS_ON)
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::SHARES_RECEIVES)
        .union(Facts::CLOSES_LISTENERS)),
    (of_2_5_1("tcp"), TRUNCATES
        .union(Facts::SLEEPS)
        .union(Facts::SLEEPS_AFTER_CLOSE)
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::MULTI_RECV)
        .union(Facts::PEEK)
        .union(Facts::CLAIMS_BY_CONTEXT)
        .union(Facts::DISCARD)
        .union(Facts::SELECTIVE)
        .union(Facts::OPTIONS_BEFORE)
        .union(Facts::SHARES_RECEIVES)
        .union(Facts::CLOSES_LISTENERS)
        .union(Facts::SHUTS_DOWN)
        .union(Facts::REMOVES_PEERS)),
    (of_1_17_0("net"), TRUNCATES
        .difference(WITH_READS)
        .union(SLEEPS_ON)
        .union(Facts::CLOSES_REGIONS)
        .union(Facts::PEEK)
        .union(Facts::CLAIMS_BY_CONTEXT)
        .union(Facts::DISCARD)
        .union(Facts::OPTIONS_BEFORE)
        .union(Facts::SHARES_RECEIVES)
        .union(Facts::REMOVES_PEERS)),
    (of_1_17_0("sockets"), SOCKETS),
    (of_2_5_1("sockets"), SOCKETS),
    (of_1_17_0("udp"), UDP),
    (of_2_5_1("udp"), UDP),
    (of_1_17_0("udp;ofi_rxd"), UDP_RXD),
    (of_2_5_1("udp;ofi_rxd"), UDP_RXD),
];

impl Facts {
    /// Facts of an info's provider. A connection request's info may lack the name, so the domain
    /// keeps them.
    pub(crate) fn of(info: &RawInfo) -> Self {
        if is_everything_untested() {
            return Facts::empty();
        }
        let version = decode::attributes(info).provider_version;
        let name = info.name(Name::Provider).unwrap_or_default();
        shown((name, Library::of_object().version(), version))
    }
}

fn shown((name, library, version): (&str, Version, Version)) -> Facts {
    let row = SHOWN.iter().find(|((n, l, v), _)| (*n, *l, *v) == (name, library, version));
    row.map_or(Facts::empty(), |(_, facts)| *facts)
}

/// Returns `true` if the environment requests it, or puts a hook before each provider (`FI_HOOK`).
#[cfg(feature = "std")]
fn is_everything_untested() -> bool {
    static IS_SET: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_SET.get_or_init(|| {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        set("LOOM_UNTESTED").is_some_and(|value| value != "0") || set("FI_HOOK").is_some()
    })
}

#[cfg(not(feature = "std"))]
const fn is_everything_untested() -> bool {
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::string::String;
    use std::vec::Vec;
    use std::{fs, println};

    use bitflags::Flags;

    use super::*;

    const OLD: (Version, Version) = (Version::new(1, 17), Version::new(117, 0));
    const NEW: (Version, Version) = (Version::new(2, 5), Version::new(205, 10));

    #[test]
    fn a_tested_provider_has_the_facts_of_its_version() {
        assert!(shown(("shm", OLD.0, OLD.1)).contains(Facts::CLOSES_REGIONS));
        assert!(!shown(("shm", NEW.0, NEW.1)).contains(Facts::CLOSES_REGIONS));
        assert!(shown(("tcp", NEW.0, NEW.1)).contains(Facts::MULTI_RECV));
        assert!(!shown(("tcp", OLD.0, OLD.1)).contains(Facts::MULTI_RECV));
    }

    #[test]
    fn another_version_or_provider_has_no_facts() {
        let (library, provider) = NEW;
        for name in ["verbs", "efa", "shm;ofi_rxm", "tcp;ofi_rxd", "", "SHM"] {
            assert_eq!(shown((name, library, provider)), Facts::empty(), "{name}");
        }
        for name in ["shm", "tcp;ofi_rxm", "sockets"] {
            for next in [Version::new(205, 0), Version::new(205, 20), Version::new(206, 0), Version::new(117, 0)] {
                assert_eq!(shown((name, library, next)), Facts::empty(), "{name} {next} from elsewhere");
            }
            for next in [Version::new(2, 6), Version::new(2, 4), Version::new(1, 18), Version::new(3, 0)] {
                assert_eq!(shown((name, next, provider)), Facts::empty(), "{name} in {next}");
            }
        }
    }

    #[test]
    fn every_row_is_of_another_provider_and_is_tested() {
        for (at, (provider, facts)) in SHOWN.iter().enumerate() {
            assert!(SHOWN.iter().skip(at + 1).all(|(other, _)| other != provider), "{provider:?} stands twice");
            assert!(facts.contains(Facts::TESTED), "{provider:?}");
            // Tests over all transports recognise tested ones by it (`ProviderQuirks`).
            assert!(facts.contains(Facts::CLOSES_WITH_SENDS), "{provider:?}");
            // It has one way to keep claims, and one time to set options.
            assert!(!facts.contains(Facts::CLAIMS_BY_CONTEXT | Facts::CLAIMS_IN_CONTEXTS), "{provider:?}");
            assert!(!facts.contains(Facts::OPTIONS_BEFORE | Facts::OPTIONS_AFTER), "{provider:?}");
        }
    }

    /// Texts in backquotes.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    fn evidence() -> Vec<(Facts, String)> {
        let source = include_str!("known_behaviour.rs").split("impl Facts").next().unwrap();
        let parts: Vec<_> = source.split("        const ").collect();
        let before_and_after = parts.iter().zip(parts.iter().skip(1));
        let documented = before_and_after.map(|(before, after)| {
            let (name, _) = after.split_once(' ').unwrap();
            let lines: Vec<_> = before.lines().filter_map(|line| line.trim().strip_prefix("/// ")).collect();
            (Facts::from_name(name).unwrap_or_else(|| panic!("no fact: {name}")), lines.join(" "))
        });
        documented.collect()
    }

    fn shown_by_tables() -> BTreeSet<(String, String, String)> {
        let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/behaviours");
        let mut shown = BTreeSet::new();
        for library in ["1.17", "2.5"] {
            for program in ["transports", "connected", "process_death", "multicast", "scalable", "collectives"] {
                let table = fs::read_to_string(tables.join(library).join(program).with_extension("txt")).unwrap();
                let (providers, rows) = table.split_once('\n').unwrap();
                for row in rows.lines().filter(|row| !row.contains(": ")) {
                    let (tokens, behaviour) = row.rsplit_once(' ').unwrap();
                    let columns = providers.split(' ').zip(tokens.split_whitespace());
                    let yes = columns.filter(|(_, token)| token.starts_with(|it: char| it == '+' || it.is_lowercase()));
                    let behaviour = behaviour.replace('_', " ");
                    shown.extend(yes.map(|(provider, _)| (library.into(), behaviour.clone(), provider.into())));
                }
            }
        }
        shown
    }

    /// Shown by tests without a table.
    const ELSEWHERE: [(&str, Facts, &str); 4] = [
        // `shm` within processes of its own, and regions of `shm`.
        ("shm", Facts::CLOSES_WITH_SHORT_READS, "tests/libfabric/shm_processes.rs"),
        ("shm", Facts::LEFT_IN_PEACE, "tests/libfabric/regions.rs"),
        ("tcp;ofi_rxm", Facts::COLLECTIVES, "tests/providers/collectives.rs"),
        // `shared::a_queue_of_connections_sleeps_until_something_completes`: the table has the
        // cases of one thread.
        ("tcp", Facts::SLEEPS_SHARED, "tests/providers/connected/events.rs"),
    ];

    #[test]
    fn each_fact_of_a_provider_was_shown_over_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (shown, evidence) = (shown_by_tables(), evidence());
        assert!(shown.len() > 1000, "{}", shown.len());
        let mut missing = Vec::new();
        for ((name, library, _), facts) in SHOWN {
            let library = std::format!("{}.{}", library.major, library.minor);
            for (fact, text) in &evidence {
                let (_, by) = text.split_once("Shown by:").unwrap();
                let by_table = || quoted(by).any(|it| shown.contains(&(library.clone(), it.into(), name.into())));
                let elsewhere = || {
                    ELSEWHERE.iter().any(|(of, what, file)| (*of, *what) == (name, *fact) && root.join(file).is_file())
                };
                if facts.contains(*fact) && !by_table() && !elsewhere() {
                    missing.push(std::format!("{name} {library}: {fact:?}"));
                }
            }
        }
        assert!(missing.is_empty(), "granted and not shown: {missing:#?}");
    }

    #[test]
    fn evidence_of_each_fact_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let faults = fs::read_to_string(root.join("tests/provider_faults/faults.c")).unwrap();
        let behaviours: BTreeSet<_> = shown_by_tables().into_iter().map(|(_, behaviour, _)| behaviour).collect();
        let mut documented = 0;
        for (_, text) in evidence() {
            let (what, by) = text.split_once("Shown by:").unwrap();
            assert!(quoted(by).count() > 0, "{text}");
            for shows in quoted(by) {
                assert!(
                    behaviours.contains(shows) || shows.starts_with("tests/") && root.join(shows).is_file(),
                    "no behaviour and no file: {shows}"
                );
            }
            for fault in quoted(what).filter(|name| name.contains('-') && !name.contains(' ')) {
                assert!(faults.contains(fault.trim_start_matches('…')), "no program: {fault}");
            }
            documented += 1;
        }
        println!("{documented} facts");
        assert_eq!(documented, Facts::FLAGS.len());
    }
}

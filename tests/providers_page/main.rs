//! `docs/providers.md`, what differs between providers, is made of `docs/behaviours.md`, which the tests compare with what they have seen,
//! and of the names and sentences in `sentences.rs`. `LOOM_PAGE=write` renews it.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod page;
mod sentences;

use std::fs;
use std::path::Path;

use page::{Exception, Feature, Words, page};

/// People read this page. The marks of its table do not count.
const MOST_WORDS: usize = 1600;

#[test]
fn page_of_providers_says_what_differs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let behaviours = fs::read_to_string(docs.join("behaviours.md")).unwrap();
    let written = page(&behaviours, &sentences::WORDS)
        .unwrap_or_else(|faults| panic!("docs/providers.md:\n{}", faults.join("\n")));
    let path = docs.join("providers.md");
    if std::env::var_os("LOOM_PAGE").is_some_and(|value| value == "write") {
        fs::write(&path, &written).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap() == written, "docs/providers.md: LOOM_PAGE=write renews it");
    let words = written.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    assert!(written.matches("\n## `").count() >= 10 && words <= MOST_WORDS, "{words} words");
}

const BEHAVIOURS: &str = "# Behaviours\n\n## libfabric 1.17\n\n| behaviour | a | b |\n|---|---|---|\n| one | yes | yes (1) |\n\
    | two | yes | not granted |\n| three | yes | **no** (2) |\n| four | yes | **no** (2) |\n| five | yes | |\n| six | not granted | yes |\n\n\
    1. remark\n2. reason (`fault`)\n\n\
    ## libfabric 2.5\n\n| behaviour | b |\n|---|---|\n| one | yes |\n| two | not granted |\n| three | yes |\n| four | yes |\n| six | not granted |\n\n\
    ## libfabric 2.5, other\n\n| behaviour | b |\n|---|---|\n| seven | yes (1) |\n| eight | not granted |\n\n1. late remark\n";

const WORDS: Words<'_> = Words {
    introduction: "# Title\n",
    providers: &[("a", "The first."), ("b", "The second.")],
    kinds: &[("", "endpoints"), ("other", "others")],
    features: &[
        Feature { name: "first feature", refused: &["two"] },
        Feature { name: "second feature", refused: &["six"] },
        Feature { name: "third feature", refused: &["eight"] },
        Feature { name: "topic", refused: &[] },
    ],
    exceptions: &[
        Exception { about: "second feature", note: "remark", sentence: "It remarks" },
        Exception { about: "topic", note: "reason (`fault`)", sentence: "It has a reason" },
        Exception { about: "topic", note: "late remark", sentence: "It is late" },
    ],
};

#[test]
fn exceptions_are_found_and_what_holds_is_left_out() {
    assert_eq!(
        page(BEHAVIOURS, &WORDS).unwrap(),
        "# Title\n\n## Features\n\n| feature | `a` | `b` |\n|---|---|---|\n| first feature | | no |\n| second feature | no | no (2.5) * |\n\
         | third feature | – | no |\n\n\
         ## `a`\n\nThe first. Tested: endpoints (1.17).\n\n\
         ## `b`\n\nThe second. Tested: endpoints, others (2.5).\n\n\
         - **Second feature**: It remarks (1.17).\n- **Topic**: It has a reason (1.17). It is late.\n"
    );
}

#[test]
fn sentences_of_several_providers_stand_once() {
    let names = ["a", "b", "c", "d"];
    let words = Words {
        providers: &[("a", "A."), ("b", "B."), ("c", "C."), ("d", "D.")],
        features: &[Feature { name: "topic", refused: &[] }],
        exceptions: &[
            Exception { about: "topic", note: "remark", sentence: "It remarks" },
            Exception { about: "topic", note: "more", sentence: "It says more" },
        ],
        ..WORDS
    };
    let behaviours = format!(
        "\n## libfabric 1.17\n\n| behaviour | {} |\n|---|---|\n| one |{}\n| two |{}\n\n1. remark\n2. more\n",
        names.join(" | "),
        " yes (1) |".repeat(4),
        " **no** (2) |".repeat(4)
    );
    let text = page(&behaviours, &words).unwrap();
    assert!(
        text.contains("## Several providers\n\n- **Topic**: It remarks. It says more. (`a`, `b`, `c`, `d`)\n"),
        "{text}"
    );
    assert_eq!(text.matches("It remarks").count(), 1);
}

/// Each of these would leave something out, or say something that is not so.
#[test]
fn words_without_exceptions_and_exceptions_without_words_are_found() {
    let faults = |words: Words<'_>| page(BEHAVIOURS, &words).unwrap_err();
    let one = |words: Words<'_>, says: &str| {
        let faults = faults(words);
        assert!(matches!(&faults[..], [fault] if fault.contains(says)), "{faults:?}");
    };
    one(Words { exceptions: &WORDS.exceptions[..2], ..WORDS }, "add Exception { about: \"…\", note: \"late remark\"");
    let [first, second, third] = WORDS.exceptions else { unreachable!() };
    let gone = Exception { note: "gone", ..*first };
    one(Words { exceptions: &[*first, *second, *third, gone], ..WORDS }, "no behaviour has the note \"gone\"");
    one(
        Words { exceptions: &[*first, *second, *third, *third], ..WORDS },
        "two sentences have the note \"late remark\"",
    );
    let unknown = Exception { about: "nothing", ..*third };
    one(Words { exceptions: &[*first, *second, unknown], ..WORDS }, "no feature has the name \"nothing\"");
    let [one_refused, six_refused, eight_refused, topic] = WORDS.features else { unreachable!() };
    let with = |features: &[Feature]| page(BEHAVIOURS, &Words { features, ..WORDS }).unwrap_err().join("\n");
    let none = Feature { refused: &[], ..*six_refused };
    assert!(with(&[*one_refused, none, *eight_refused, *topic]).contains("`a` does not grant \"six\": add it"));
    let more = Feature { refused: &["two", "five"], ..*one_refused };
    assert!(with(&[more, *six_refused, *eight_refused, *topic]).contains("no provider refuses \"five\""));
    let mixed = Feature { refused: &["two", "six"], ..*six_refused };
    assert!(
        with(&[mixed, *eight_refused, *topic])
            .contains("split the feature \"second feature\": `a` 1.17 grants \"two\"")
    );
    let empty = Feature { name: "empty", refused: &[] };
    assert!(with(&[WORDS.features, &[empty]].concat()).contains("nothing is about \"empty\""));
    one(Words { providers: &WORDS.providers[..1], ..WORDS }, "add the provider \"b\"");
    let none = ("c", "The third.");
    one(Words { providers: &[WORDS.providers[0], WORDS.providers[1], none], ..WORDS }, "no test runs over \"c\"");
    one(Words { kinds: &WORDS.kinds[..1], ..WORDS }, "add the kind \"other\"");
}

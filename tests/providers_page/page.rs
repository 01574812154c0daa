//! Makes the page of providers of the page of behaviours.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What people wrote.
#[derive(Clone, Copy)]
pub(crate) struct Words<'w> {
    pub(crate) introduction: &'static str,
    /// Name and description, in the order of the page.
    pub(crate) providers: &'w [(&'static str, &'static str)],
    /// The kinds of sections of the page of behaviours, and what people call what they test.
    pub(crate) kinds: &'w [(&'static str, &'static str)],
    /// In the order of the page.
    pub(crate) features: &'w [Feature],
    pub(crate) exceptions: &'w [Exception],
}

/// What a provider grants or does not grant, or what sentences are about.
#[derive(Clone, Copy)]
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    /// The behaviours that are not granted where the feature is not.
    pub(crate) refused: &'static [&'static str],
}

/// What a note of the page of behaviours means to people.
#[derive(Clone, Copy)]
pub(crate) struct Exception {
    /// The name of a feature.
    pub(crate) about: &'static str,
    /// As it stands below the tables of behaviours.
    pub(crate) note: &'static str,
    /// Without its full stop.
    pub(crate) sentence: &'static str,
}

/// One cell of the page of behaviours that applies.
struct Cell<'p> {
    provider: &'p str,
    version: &'p str,
    kind: &'p str,
    behaviour: &'p str,
    is_granted: bool,
    /// It is granted, and was shown.
    holds: bool,
    /// A condition, or the reason why the behaviour is not run.
    note: Option<&'p str>,
}

fn cells_of(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Reads the page of behaviours.
fn read(page: &str) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for section in page.split("\n## libfabric ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap();
        let (version, kind) = title.split_once(", ").unwrap_or((title, ""));
        let notes: BTreeMap<_, _> = body.lines().filter_map(|line| line.split_once(". ")).collect();
        let mut lines = body.lines().filter(|line| line.starts_with('|'));
        let header = cells_of(lines.next().unwrap());
        for row in lines.skip(1).map(cells_of) {
            for (&provider, &cell) in header.iter().zip(&row).skip(1) {
                let number = cell.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
                let note = number.map(|number| *notes.get(number).unwrap_or_else(|| panic!("note {number}")));
                let (is_granted, holds) = match cell.split(" (").next() {
                    Some("") => continue,
                    Some("not granted") => (false, false),
                    Some("yes") => (true, true),
                    Some("**no**") if note.is_some() => (true, false),
                    other => panic!("a cell says {other:?}"),
                };
                cells.push(Cell { provider, version, kind, behaviour: row[0], is_granted, holds, note });
            }
        }
    }
    cells
}

/// A sentence of as many providers stands once for all of them.
const SEVERAL: usize = 3;

struct Page<'p> {
    cells: Vec<Cell<'p>>,
    words: &'p Words<'p>,
}

/// A provider, and in brackets the versions if what is said holds with some of them only.
type Place = (&'static str, String);

impl Page<'_> {
    /// Where a sentence holds.
    fn places_of_sentence(&self, exception: &Exception) -> Vec<Place> {
        let place = |(provider, _): &(&'static str, &str)| {
            let cells = self.cells.iter().filter(|cell| cell.note == Some(exception.note));
            let cells: Vec<_> = cells.filter(|cell| cell.provider == *provider).collect();
            let versions: BTreeSet<_> = cells.iter().map(|cell| cell.version).collect();
            let some = if versions == self.tested(provider, &cells) { String::new() } else { in_brackets(&versions) };
            (!versions.is_empty()).then_some((*provider, some))
        };
        self.words.providers.iter().filter_map(place).collect()
    }

    /// The versions over which the tests run those kinds of behaviours that some cells of a provider are of.
    fn tested(&self, provider: &str, cells: &[&Cell<'_>]) -> BTreeSet<&str> {
        let kinds: BTreeSet<_> = cells.iter().map(|cell| cell.kind).collect();
        let is_like = |cell: &&Cell<'_>| cell.provider == provider && kinds.contains(cell.kind);
        self.cells.iter().filter(is_like).map(|cell| cell.version).collect()
    }

    /// What is missing, and what is there without a reason.
    fn faults(&self) -> Vec<String> {
        let Words { providers, kinds, features, exceptions, .. } = *self.words;
        let mut faults = BTreeSet::new();
        for cell in &self.cells {
            let Cell { provider, kind, behaviour, .. } = *cell;
            if !providers.iter().any(|(name, _)| *name == provider) {
                faults.insert(format!("add the provider {provider:?} to PROVIDERS, and what it is"));
            }
            if !kinds.iter().any(|(name, _)| *name == kind) {
                faults.insert(format!("add the kind {kind:?} to KINDS, and what people call it"));
            }
            if !cell.is_granted && !features.iter().any(|feature| feature.refused.contains(&behaviour)) {
                faults
                    .insert(format!("`{provider}` does not grant {behaviour:?}: add it to the `refused` of a Feature"));
            }
            if let Some(note) = cell.note.filter(|note| !exceptions.iter().any(|it| it.note == *note)) {
                let add = format!("add Exception {{ about: \"…\", note: {note:?}, sentence: \"…\" }}");
                faults.insert(format!("`{provider}` has an exception to {behaviour:?}: {add}"));
            }
        }
        for (name, _) in providers {
            if !self.cells.iter().any(|cell| cell.provider == *name) {
                faults.insert(format!("no test runs over {name:?}: take it out of PROVIDERS"));
            }
        }
        for (at, Exception { about, note, sentence }) in exceptions.iter().enumerate() {
            if sentence.ends_with('.') {
                faults.insert(format!("{sentence:?}: the page adds the full stop"));
            }
            if !features.iter().any(|feature| feature.name == *about) {
                faults.insert(format!("no feature has the name {about:?}: add it to FEATURES"));
            }
            if !self.cells.iter().any(|cell| cell.note == Some(note)) {
                faults
                    .insert(format!("no behaviour has the note {note:?}: take its sentence out, or correct the note"));
            }
            if exceptions[..at].iter().any(|it| it.note == *note) {
                faults.insert(format!("two sentences have the note {note:?}"));
            }
        }
        for feature in features {
            self.faults_of_feature(feature, &mut faults);
        }
        faults.into_iter().collect()
    }

    fn faults_of_feature(&self, Feature { name, refused }: &Feature, faults: &mut BTreeSet<String>) {
        if refused.is_empty() && !self.words.exceptions.iter().any(|it| it.about == *name) {
            faults.insert(format!("nothing is about {name:?}: take it out of FEATURES"));
        }
        let cells: Vec<_> = self.cells.iter().filter(|cell| refused.contains(&cell.behaviour)).collect();
        for behaviour in *refused {
            if !cells.iter().any(|cell| !cell.is_granted && cell.behaviour == *behaviour) {
                faults.insert(format!("{name:?}: no provider refuses {behaviour:?}: correct its name, or take it out"));
            }
        }
        // What holds in spite of the refusal is another feature.
        for cell in cells.iter().filter(|cell| !cell.is_granted) {
            let Cell { provider, version, behaviour, .. } = cell;
            let is_here = |it: &&&Cell<'_>| (it.provider, it.version) == (*provider, *version);
            let holds = |it: &&&Cell<'_>| it.is_granted && it.note.is_none();
            if let Some(other) = cells.iter().filter(is_here).find(holds) {
                let other = other.behaviour;
                faults.insert(format!(
                    "split the feature {name:?}: `{provider}` {version} grants {other:?} and does not grant {behaviour:?}"
                ));
            }
        }
    }

    /// Which provider has which feature.
    fn features(&self) -> String {
        let Words { providers, features, .. } = *self.words;
        let names: Vec<_> = providers.iter().map(|(name, _)| format!("`{name}`")).collect();
        let mut text =
            format!("\n## Features\n\n| feature | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for feature in features.iter().filter(|feature| !feature.refused.is_empty()) {
            let cells: String = providers.iter().map(|(provider, _)| self.has(provider, feature) + " |").collect();
            let _ = writeln!(text, "| {} |{cells}", feature.name);
        }
        text
    }

    /// Whether a provider has a feature: nothing if it has, else with a space in front.
    fn has(&self, provider: &str, Feature { name, refused }: &Feature) -> String {
        let cells = self.cells.iter().filter(|it| it.provider == provider && refused.contains(&it.behaviour));
        let cells: Vec<_> = cells.collect();
        let tested = self.tested(provider, &cells);
        let mut lacking: BTreeSet<_> = cells.iter().map(|cell| cell.version).collect();
        lacking.retain(|version| !cells.iter().any(|cell| cell.version == *version && cell.holds));
        if tested.is_empty() {
            return " –".to_owned();
        }
        if lacking == tested {
            return " no".to_owned();
        }
        let has = if lacking.is_empty() { String::new() } else { format!(" no{}", in_brackets(&lacking)) };
        let is_here = |it: &Exception| self.places_of_sentence(it).iter().any(|(name, _)| *name == provider);
        let mut about = self.words.exceptions.iter().filter(|it| it.about == *name);
        let is_excepted = cells.iter().any(|cell| cell.note.is_some()) || about.any(is_here);
        has + if is_excepted { " *" } else { "" }
    }

    /// The sentences of several providers.
    fn several(&self) -> String {
        let mut text = String::new();
        for feature in self.words.features {
            // Sentences of the same providers stand together.
            let mut groups: Vec<(String, String)> = Vec::new();
            for exception in self.words.exceptions.iter().filter(|it| it.about == feature.name) {
                let places = self.places_of_sentence(exception);
                if places.len() < SEVERAL {
                    continue;
                }
                let names: Vec<_> = places.iter().map(|(name, versions)| format!("`{name}`{versions}")).collect();
                let names = names.join(", ");
                match groups.last_mut().filter(|(_, other)| *other == names) {
                    Some((sentences, _)) => sentences.push_str(&format!(". {}", exception.sentence)),
                    None => groups.push((exception.sentence.to_owned(), names)),
                }
            }
            for (sentences, names) in groups {
                let _ = writeln!(text, "- **{}**: {sentences}. ({names})", capital(feature.name));
            }
        }
        text
    }

    /// What differs over one provider.
    fn provider(&self, name: &'static str, description: &str) -> String {
        let all: BTreeSet<_> = self.cells.iter().map(|cell| cell.version).collect();
        let tested = self.words.kinds.iter().filter_map(|(kind, means)| {
            let cells = self.cells.iter().filter(|it| it.provider == name && it.kind == *kind);
            let versions: BTreeSet<_> = cells.map(|it| it.version).collect();
            let some = if versions == all { String::new() } else { in_brackets(&versions) };
            (!versions.is_empty()).then(|| format!("{means}{some}"))
        });
        let tested: Vec<_> = tested.collect();
        let mut text = format!("\n## `{name}`\n\n{description} Tested: {}.\n", tested.join(", "));
        let mut separator = "\n";
        for feature in self.words.features {
            let about = self.words.exceptions.iter().filter(|it| it.about == feature.name);
            let sentences = about.filter_map(|it| {
                let places = self.places_of_sentence(it);
                let (_, versions) = places.iter().find(|(provider, _)| *provider == name && places.len() < SEVERAL)?;
                Some(format!(" {}{versions}.", it.sentence))
            });
            let sentences: String = sentences.collect();
            if !sentences.is_empty() {
                let _ = writeln!(text, "{separator}- **{}**:{sentences}", capital(feature.name));
                separator = "";
            }
        }
        text
    }
}

fn in_brackets(versions: &BTreeSet<&str>) -> String {
    format!(" ({})", versions.iter().copied().collect::<Vec<_>>().join(", "))
}

fn capital(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

/// The page, or what is wrong with the words.
pub(crate) fn page(behaviours: &str, words: &Words<'_>) -> Result<String, Vec<String>> {
    let page = Page { cells: read(behaviours), words };
    let faults = page.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut text = words.introduction.to_owned() + &page.features();
    let several = page.several();
    if !several.is_empty() {
        let _ = write!(text, "\n## Several providers\n\n{several}");
    }
    text.extend(words.providers.iter().map(|(name, description)| page.provider(name, description)));
    Ok(text)
}

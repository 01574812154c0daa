//! The page of figures, `docs/performance.md`, its drawings, and the figures of the README, all of them made of reports of runs.
//!
//! Nothing of it depends on the machine or the features it is made with: the same reports always give the same text, and a test
//! compares the committed one with it.

mod document;
mod family;
mod readme;
mod svg;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Report;
use crate::sets::Failure;

/// Where the page lies in the repository.
const PAGE: &str = "docs/performance.md";
/// Where its drawings and the reports lie.
const FOLDER: &str = "docs/performance";
const README: &str = "README.md";

/// A report and the name of its file, without the ending.
struct Named {
    name: String,
    report: Report,
}

/// A file of the page, and what is in it.
struct Written {
    path: String,
    text: String,
}

/// The repository that the program was built in.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files with that ending among those of the folder, in order.
fn files(ending: &str) -> Result<Vec<PathBuf>, Failure> {
    let folder = repository().join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<_> = paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == ending)).collect();
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<Named, Failure> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    let report = serde_json::from_str(&text).map_err(|error| named(&error))?;
    Ok(Named { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), report })
}

/// Everything that the reports give. The first one gives the README's figures.
fn page(reports: &[PathBuf]) -> Result<Vec<Written>, Failure> {
    let reports = if reports.is_empty() { files("json")? } else { reports.to_vec() };
    let runs = reports.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let first = runs.first().ok_or("there is no report to make the page of")?;
    let readme = readme::with_figures(&fs::read_to_string(repository().join(README))?, &first.report)?;
    let mut written = document::page(&runs);
    written.push(Written { path: README.into(), text: readme });
    Ok(written)
}

/// The drawings that are there though the page has none of that name.
fn left_over(written: &[Written]) -> Result<Vec<PathBuf>, Failure> {
    let is_written = |path: &Path| written.iter().any(|it| path.file_name() == Path::new(&it.path).file_name());
    Ok(files("svg")?.into_iter().filter(|path| !is_written(path)).collect())
}

/// Writes the page of these reports, or of all in its folder.
///
/// # Errors
/// If a report cannot be read, or a file cannot be written.
pub fn write(reports: &[PathBuf]) -> Result<(), Failure> {
    let written = page(reports)?;
    fs::create_dir_all(repository().join(FOLDER))?;
    for Written { path, text } in &written {
        fs::write(repository().join(path), text)?;
    }
    for path in left_over(&written)? {
        fs::remove_file(path)?;
    }
    println!("{PAGE}, {README} and {} drawings", written.len() - 2);
    Ok(())
}

/// Says what differs between the page that is there and the one that these reports give, or all in its folder.
///
/// # Errors
/// If something differs, or a report cannot be read.
pub fn check(reports: &[PathBuf]) -> Result<(), Failure> {
    let written = page(reports)?;
    let is_same = |it: &Written| fs::read_to_string(repository().join(&it.path)).is_ok_and(|text| text == it.text);
    let mut differ: Vec<String> = written.iter().filter(|it| !is_same(it)).map(|it| it.path.clone()).collect();
    differ.extend(left_over(&written)?.iter().map(|path| path.display().to_string()));
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("not what the reports give: {}; `measure page` writes it", differ.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_committed_reports_give() {
        check(&[]).expect("run `measure page`");
    }
}

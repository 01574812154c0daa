//! Generated parts of `docs/dev/benchmarks.md` and of the README, and the drawings, made of reports
//! of runs.
//!
//! They do not depend on the machine or on features: the same reports always give the same text,
//! and a test compares the committed files with it.

mod bars;
mod document;
#[path = "../../../cli/src/plot.rs"]
mod plot;
mod readme;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::report::Report;

const PAGE: &str = "docs/dev/benchmarks.md";
const FOLDER: &str = "docs/dev/performance";
const README: &str = "README.md";

/// Marks around the generated part of a page.
const BEGIN: &str = "<!-- Figures: written by `measure page`. -->\n";
const END: &str = "<!-- End of the figures. -->\n";

/// A report and the name of its file, without the ending.
struct Named {
    name: String,
    report: Report,
}

struct Written {
    path: String,
    text: String,
}

/// Repository that the program was built in.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(ending: &str) -> Result<Vec<PathBuf>, Failure> {
    let folder = repository().join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error:#}", folder.display()))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<_> = paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == ending)).collect();
    found.sort();
    Ok(found)
}

fn read(reports: &[PathBuf]) -> Result<Vec<Named>, Failure> {
    let reports = if reports.is_empty() { files("json")? } else { reports.to_vec() };
    let named = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Named { name, report: Report::read(&path)? })
    };
    reports.into_iter().map(named).collect()
}

fn with_figures(page: &str, figures: &str) -> Result<String, Failure> {
    let marked = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marked.ok_or("the page has no marks for its figures")?;
    Ok(format!("{before}{BEGIN}{figures}{END}{after}"))
}

/// Returns all files made of the reports. The first report has the drawings and the README's
/// figures.
fn page(reports: &[PathBuf]) -> Result<Vec<Written>, Failure> {
    let runs = read(reports)?;
    let first = runs.first().ok_or("there is no report to make the page of")?;
    let (figures, mut written) = document::figures(first, &runs);
    for (path, figures) in [(PAGE, figures), (README, readme::figures(&first.report))] {
        let text = with_figures(&fs::read_to_string(repository().join(path))?, &figures)?;
        written.push(Written { path: path.into(), text });
    }
    Ok(written)
}

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
    for Written { path, text } in &written {
        fs::write(repository().join(path), text)?;
    }
    for path in left_over(&written)? {
        fs::remove_file(path)?;
    }
    println!("{PAGE}, {README} and {} drawings", written.len() - 2);
    Ok(())
}

/// Compares the page with that of these reports, or of all in its folder.
///
/// # Errors
/// If a file differs, or a report cannot be read.
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

/// Prints all figures of these reports, or of all in the page's folder.
///
/// # Errors
/// If a report cannot be read.
pub fn show(reports: &[PathBuf]) -> Result<(), Failure> {
    for Named { name, report } in read(reports)? {
        println!("# {name}\n{report}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_page_is_that_of_the_committed_reports() {
        check(&[]).expect("run `measure page`");
    }

    #[test]
    fn text_between_the_marks_is_replaced_and_the_rest_stays() {
        let page = with_figures(&format!("before\n{BEGIN}stale\n{END}after\n"), "new\n").expect("marks");
        assert_eq!(page, format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(with_figures("no marks", "new\n").is_err());
    }
}

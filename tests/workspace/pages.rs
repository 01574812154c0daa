//! Pages: their links have targets, and the README keeps its length.

use std::fs;
use std::path::{Path, PathBuf};

const MOST_WORDS_OF_README: usize = 900;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    const FOLDERS: [&str; 18] = [
        "",
        "docs",
        "docs/dev",
        "docs/providers",
        "examples",
        "cli",
        "tests/workspace/footprint",
        "benches",
        "loom-core",
        "loom-alloc",
        "layers/async",
        "layers/deferred",
        "layers/group",
        "layers/media",
        "layers/tagged",
        "layers/transfer",
        "layers/updates",
        "transports/tcp",
    ];
    let mut pages = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Targets of a page's links, outside of its code.
fn links(page: &str) -> Vec<&str> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// Link target of a page's heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

fn fault(page: &Path, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !target.exists() {
        return Some(format!("{}: {link}: there is no such file", page.display()));
    }
    let text = if heading.is_empty() { return None } else { fs::read_to_string(&target).unwrap() };
    let has = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_matches('#')) == heading);
    (!has).then(|| format!("{}: {link}: there is no such heading", page.display()))
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages();
    let mut found = 0;
    let mut faults = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in links(&text) {
            found += 1;
            faults.extend(fault(page, link));
        }
    }
    assert!(pages.len() >= 12 && found >= 40, "{} pages, {found} links", pages.len());
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Checks, as a control, that faults are found.
#[test]
fn broken_link_is_found() {
    let readme = repository().join("README.md");
    assert!(fault(&readme, "docs/no-such-page.md").is_some());
    assert!(fault(&readme, "docs/guide.md#no-such-heading").is_some());
    assert!(fault(&readme, "docs/guide.md#errors").is_none());
}

/// Returns the lines of a page's code that rustdoc hides, and other readers see, with more than the
/// end of a program.
fn hidden_logic(page: &str) -> Vec<&str> {
    const CLOSING: [&str; 5] = ["# Ok::<", "# Ok(())", "# }", "# fn main(", "# #[cfg("];
    let code = page.split("```").skip(1).step_by(2).filter(|code| code.starts_with("rust"));
    let hidden = code.flat_map(str::lines).filter(|line| *line == "#" || line.starts_with("# "));
    hidden.filter(|line| !CLOSING.iter().any(|closing| line.starts_with(closing))).collect()
}

/// Checks all pages except docs/async.md, which shows the objects of its examples once, in its
/// first section, and hides them after that.
#[test]
fn code_of_pages_hides_no_logic() {
    for page in pages().iter().filter(|page| !page.ends_with("docs/async.md")) {
        let text = fs::read_to_string(page).unwrap();
        assert_eq!(hidden_logic(&text), [""; 0], "{}", page.display());
    }
    // The control.
    assert_eq!(hidden_logic("```rust\n# let a = 1;\nuse_it(a);\n# Ok::<_, ()>(())\n```\n"), ["# let a = 1;"]);
}

#[test]
fn readme_is_short() {
    let words = fs::read_to_string(repository().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= MOST_WORDS_OF_README, "{words} words");
}

/// Compares the guide with an example, because the compiler does not check the parts that it shows.
#[test]
fn async_program_of_the_guide_is_the_example() {
    let without_indent = |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let program = without_indent(include_str!("../../examples/kv.rs"));
    let shown: Vec<_> = include_str!("../../docs/guide.md").split("```rust,ignore\n").skip(1).collect();
    assert_eq!(shown.len(), 1);
    for part in shown {
        let part = part.split("```").next().unwrap();
        assert!(
            program.contains(&without_indent(part)),
            "examples/kv.rs has another program than docs/guide.md:\n{part}"
        );
    }
}

#[test]
fn every_example_is_in_the_index() {
    let folder = repository().join("examples");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let mut examples = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            assert!(index.contains(&format!("]({name})")), "examples/README.md does not name {name}");
            examples += 1;
        }
    }
    assert!(examples >= 10, "{examples}");
}

/// Functions that libfabric's headers declare or define: their lines begin in the first column.
#[cfg(feature = "libfabric")]
fn functions(header: &str) -> Vec<&str> {
    let starts_a_line = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    header
        .lines()
        .filter(starts_a_line)
        .filter_map(|line| {
            let (before, _) = line.split_once('(')?;
            let name = before.rsplit(|it: char| !(it.is_ascii_alphanumeric() || it == '_')).next()?;
            name.starts_with("fi_").then_some(name)
        })
        .collect()
}

#[cfg(feature = "libfabric")]
#[test]
fn every_function_of_the_headers_is_on_the_page_for_c() {
    const HEADERS: [&str; 10] = [
        "fabric.h",
        "fi_domain.h",
        "fi_endpoint.h",
        "fi_tagged.h",
        "fi_rma.h",
        "fi_atomic.h",
        "fi_cm.h",
        "fi_eq.h",
        "fi_collective.h",
        "fi_errno.h",
    ];
    let folder =
        std::process::Command::new("pkg-config").args(["--variable=includedir", "libfabric"]).output().unwrap();
    let folder = PathBuf::from(String::from_utf8(folder.stdout).unwrap().trim()).join("rdma");
    let headers = HEADERS.map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let there: std::collections::BTreeSet<_> = headers.iter().flat_map(|header| functions(header)).collect();
    let page = fs::read_to_string(repository().join("docs/from-c.md")).unwrap();
    // Several functions with one counterpart have one row.
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let names = rows.flat_map(|(names, _)| names.split("`, `")).filter(|name| name.starts_with("fi_"));
    let here: std::collections::BTreeSet<_> = names.filter(|name| !name.contains('.')).map(str::to_owned).collect();
    let missing: Vec<_> = there.iter().filter(|name| !here.contains(**name)).collect();
    let foreign: Vec<_> = here.iter().filter(|name| !there.contains(name.as_str())).collect();
    println!("{} functions; not on the page: {missing:?}; not in these headers: {foreign:?}", there.len());
    assert!(there.len() > 140);
    // Newer headers may have more, and fewer.
    if headers[0].contains("#define FI_MAJOR_VERSION 1\n") {
        assert!(missing.is_empty(), "{missing:?}");
        assert!(foreign.iter().all(|name| ["fi_addr_t", "fi_cq_err_entry"].contains(&name.as_str())), "{foreign:?}");
    }
}

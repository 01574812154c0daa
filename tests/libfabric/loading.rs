//! Loaded library: its selection, and the errors of files that are not libfabric.

use std::path::{Path, PathBuf};
use std::process::Command;

use loom_fabric::ofi::{Library, providers};

/// A library with the exported functions. Its `fi_getinfo` finds no provider.
const FAKE: &str = r#"
unsigned fi_version(void) { return VERSION; }
int found(void) { return -61; }
int found_by_default(void) { return -255; }
void nothing(void) {}
#ifdef UNVERSIONED
#define EXPORT_AS(function, name, level) void name(void) __attribute__((alias(#function)));
#else
#define EXPORT_AS(function, name, level) __asm__(".symver " #function ", " #name "@" level);
#endif
#define EXPORT(function, name, level) EXPORT_AS(function, name, level)
EXPORT(found, fi_getinfo, GETINFO)
void free_info(void) {} EXPORT(free_info, fi_freeinfo, "FABRIC_1.3")
void copy(void) {} EXPORT(copy, fi_dupinfo, DUPINFO)
void open_fabric(void) {} EXPORT(open_fabric, fi_fabric, "@FABRIC_1.1")
EXPORT(nothing, OTHER, "FABRIC_1.4")
void params(void) {} EXPORT(params, fi_getparams, "@FABRIC_1.0")
void free_params(void) {} EXPORT(free_params, fi_freeparams, "@FABRIC_1.0")
#ifdef DEFAULT
EXPORT(found_by_default, fi_getinfo, DEFAULT)
#endif
"#;

const LEVELS: &str = "FABRIC_1.0 { global: fi_version; }; FABRIC_1.1 { }; FABRIC_1.2 { }; FABRIC_1.3 { }; FABRIC_1.4 { }; FABRIC_9.0 { };";

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loading-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a fake library of that version.
fn fake(name: &str, version: (u32, u32), more: &[(&str, &str)]) -> PathBuf {
    let (folder, name) = (folder(), format!("{name}.so"));
    let (source, levels, library) = (folder.join(format!("{name}.c")), folder.join("levels"), folder.join(name));
    std::fs::write(&source, FAKE).unwrap();
    std::fs::write(&levels, LEVELS).unwrap();
    let mut defines = vec![("GETINFO", "\"FABRIC_1.3\""), ("DUPINFO", "\"FABRIC_1.3\""), ("OTHER", "fi_tostr_r")];
    let is_versioned = more.iter().all(|(name, _)| *name != "UNVERSIONED");
    defines.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([&library, &source])
        .args(is_versioned.then(|| format!("-Wl,--version-script={}", levels.display())))
        .arg(format!("-DVERSION={}", version.0 << 16 | version.1))
        .args(defines.iter().chain(more).map(|(name, value)| format!("-D{name}={value}")))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    library
}

/// Returns the real file of this machine.
fn real() -> PathBuf {
    Path::new(Library::get().unwrap().path().unwrap()).canonicalize().unwrap()
}

/// Returns the result of [`answers`] in a process with that variable.
fn answer(variable: &str, path: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "loading::answers", "--ignored", "--nocapture"])
        .env(variable, path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed.lines().find_map(|line| line.split_once("answer: ")).expect("it answers").1.to_owned()
}

#[test]
#[ignore = "a process of the other tests"]
fn answers() {
    let providers = providers();
    let path = Library::get().ok().and_then(Library::path).unwrap_or("");
    match providers {
        Ok(providers) => println!("answer: {} providers of {path}", providers.count()),
        Err(error) => println!("answer: {error:?}: {error}, of {path}"),
    }
}

#[test]
fn file_that_is_no_library_is_not_found_and_the_error_has_the_loaders_reason() {
    let bytes = std::fs::read(real()).unwrap();
    let mut narrow = bytes.clone();
    // The class of 32-bit files.
    narrow[4] = 1;
    let cases: [(&str, Option<&[u8]>, &str); 4] = [
        ("missing.so", None, "No such file or directory"),
        ("text.so", Some(b"This is a text, and not the beginning of a library, which is longer."), "ELF header"),
        ("cut.so", Some(&bytes[..20]), "file too short"),
        ("narrow.so", Some(&narrow), "wrong ELF class"),
    ];
    for (name, content, reason) in cases {
        let path = folder().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let answer = answer("LOOM_LIBFABRIC", &path);
        assert!(answer.starts_with("LibraryNotFound: libfabric is not found: install it"), "{answer}");
        for part in ["(LOOM_LIBFABRIC names ", path.to_str().unwrap(), reason, "apt-get install libfabric1"] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    }
}

#[test]
fn library_without_a_function_is_refused_by_its_name_and_version() {
    let refused = |name, version, more: &[(&str, &str)]| answer("LOOM_LIBFABRIC", &fake(name, version, more));
    let other = answer("LOOM_LIBFABRIC", Path::new("libm.so.6"));
    assert!(other.contains("has no fi_version of version FABRIC_1.0: it is not libfabric"), "{other}");
    // Its structures may have any length.
    let unversioned = refused("unversioned", (2, 1), &[("UNVERSIONED", "1")]);
    assert!(unversioned.contains("has no fi_version of version FABRIC_1.0: it is not libfabric"), "{unversioned}");
    // Functions with structures of other lengths, alone or beside those of 1.17.
    for (getinfo, dupinfo) in [("9.0", "9.0"), ("1.2", "1.2"), ("9.0", "1.3"), ("1.2", "1.3")] {
        let [getinfo, dupinfo] = [getinfo, dupinfo].map(|level| format!("\"FABRIC_{level}\""));
        let answer = refused("levels", (9, 0), &[("GETINFO", &getinfo), ("DUPINFO", &dupinfo)]);
        assert!(answer.contains("libfabric 9.0 has no fi_getinfo of version FABRIC_1.3: it is too new"), "{answer}");
    }
    let mixed = refused("mixed", (9, 0), &[("DUPINFO", "\"FABRIC_9.0\"")]);
    assert!(mixed.contains("libfabric 9.0 has no fi_dupinfo of version FABRIC_1.3: it is too new"), "{mixed}");
    let less = refused("less", (1, 17), &[("OTHER", "fi_other")]);
    assert!(less.contains("has no fi_tostr_r of version FABRIC_1.4"), "{less}");
}

#[test]
fn library_before_1_17_is_too_old() {
    let old = answer("LOOM_LIBFABRIC", &fake("old", (1, 16), &[]));
    assert!(old.contains("libfabric 1.16 is running, older than 1.17"), "{old}");
}

#[test]
fn later_library_is_called_by_the_functions_of_1_17_and_not_by_its_default_ones() {
    let later = answer("LOOM_LIBFABRIC", &fake("both", (9, 0), &[("DEFAULT", "\"@FABRIC_9.0\"")]));
    assert!(later.starts_with("NoMatch: "), "{later}");
}

#[test]
fn variable_and_a_library_of_the_process_precede_the_loaders_path() {
    let copy = folder().join("copy.so");
    std::fs::copy(real(), &copy).unwrap();
    for variable in ["LOOM_LIBFABRIC", "LD_PRELOAD"] {
        let answer = answer(variable, &copy);
        let (count, path) = answer.split_once(" providers of ").expect("there are providers");
        assert!(count.parse::<usize>().unwrap() > 0, "{answer}");
        assert_eq!(Path::new(path), copy, "{variable}");
    }
}

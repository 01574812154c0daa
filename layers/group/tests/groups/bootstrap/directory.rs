use std::fs;
use std::path::PathBuf;

use loom_group::bootstrap::{Bootstrap, BootstrapError, Directory, DirectoryAttr, Mismatch};

use super::{LIMIT, SIZES, Story, another_round_is_out_of_step, each, idle_rank_is_named, shortly, soon};

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loom-bootstrap-{}-{test}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn attr<'p>(&'p self, job: &'p str, size: u32) -> DirectoryAttr<'p> {
        DirectoryAttr { path: &self.0, job, size, limit: LIMIT }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ranks_exchange_over_files() {
    let folder = Folder::new("files");
    for size in SIZES {
        let (job, story) = (format!("job-{size}"), Story::new(size));
        let attr = folder.attr(&job, size);
        each(0..size, |rank| story.play(&mut Directory::open(&attr, rank, &mut soon()).unwrap()));
        // A claim, an introduction and the last round of each rank remain.
        assert_eq!(fs::read_dir(folder.0.join(&job)).unwrap().count(), 3 * size as usize);
    }
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let folder = Folder::new("absent");
    for absent in 0..4 {
        let job = format!("without-{absent}");
        let outcomes = each((0..4).filter(|&rank| rank != absent), |rank| {
            Directory::open(&folder.attr(&job, 4), rank, &mut shortly()).err()
        });
        assert_eq!(outcomes, [Some(BootstrapError::Missing { rank: absent }); 3]);
    }
}

#[test]
fn a_rank_that_does_not_play_is_named() {
    let folder = Folder::new("idle");
    idle_rank_is_named(4, 2, |rank| Directory::open(&folder.attr("job", 4), rank, &mut soon()).unwrap());
}

#[test]
fn a_rank_in_another_round_is_out_of_step() {
    let folder = Folder::new("step");
    another_round_is_out_of_step(3, |rank| Directory::open(&folder.attr("job", 3), rank, &mut soon()).unwrap());
}

#[test]
fn a_name_is_used_once() {
    let folder = Folder::new("used");
    let attr = folder.attr("job", 2);
    let run = |size| each(0..size, |rank| Directory::open(&folder.attr("job", size), rank, &mut soon()).err());
    assert_eq!(run(2), [None; 2]);
    assert_eq!(run(2), [Some(BootstrapError::Used); 2]);
    assert_eq!(run(1), [Some(BootstrapError::Used)]);
    let larger = Some(BootstrapError::Mismatch(Mismatch::Size));
    assert_eq!(run(4), [Some(BootstrapError::Used), Some(BootstrapError::Used), larger, larger]);
    assert_eq!(Directory::open(&attr, 0, &mut soon()).err(), Some(BootstrapError::Used));
}

#[test]
fn files_of_a_failed_run_are_not_used_by_the_next_run() {
    let folder = Folder::new("stale");
    let attr = folder.attr("job", 3);
    let first = each([0, 1], |rank| Directory::open(&attr, rank, &mut shortly()).err());
    assert_eq!(first, [Some(BootstrapError::Missing { rank: 2 }); 2]);
    assert_eq!(Directory::open(&attr, 2, &mut shortly()).err(), Some(BootstrapError::Missing { rank: 0 }));
}

#[test]
fn attributes_out_of_range_are_refused() {
    let folder = Folder::new("range");
    let open = |attr: &DirectoryAttr<'_>, rank| Directory::open(attr, rank, &mut shortly()).err();
    for name in ["", ".", "..", ".hidden", "a/b", "../a", "a b", "ä"] {
        assert_eq!(open(&folder.attr(name, 1), 0), Some(BootstrapError::Name), "{name:?}");
    }
    assert_eq!(open(&folder.attr("a", 2), 2), Some(BootstrapError::UnknownRank { rank: 2, size: 2 }));
    assert_eq!(open(&folder.attr("a", 0), 0), Some(BootstrapError::Size { size: 0 }));
    let limit = usize::MAX;
    assert_eq!(open(&DirectoryAttr { limit, ..folder.attr("a", 1) }, 0), Some(BootstrapError::Limit { limit }));
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.0.join("file"), "").unwrap();
    assert!(matches!(open(&folder.attr("file", 1), 0), Some(BootstrapError::System { call: "mkdir", .. })));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else was made");
}

#[test]
fn ranks_with_another_limit_are_refused() {
    let folder = Folder::new("limit");
    let outcomes = each(0..2, |rank| {
        let attr = DirectoryAttr { limit: LIMIT + rank as usize, ..folder.attr("job", 2) };
        Directory::open(&attr, rank, &mut soon()).err()
    });
    assert_eq!(outcomes, [Some(BootstrapError::Mismatch(Mismatch::Limit)); 2]);
}

#[test]
fn files_of_strangers_are_malformed() {
    let folder = Folder::new("strange");
    let whole = {
        let attr = folder.attr("model", 2);
        each(0..2, |rank| {
            let mut ranks = Directory::open(&attr, rank, &mut soon()).unwrap();
            ranks.all_gather(b"abc", &mut loom_group::bootstrap::Slots::new(&mut [0; 80], 2), &mut soon()).unwrap();
        });
        fs::read(folder.0.join("model/2.1")).unwrap()
    };
    let mut cases = vec![b"".to_vec(), b"noise".to_vec(), vec![0; 32], vec![7; 1 << 20]];
    cases.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
    cases.push([&whole[..], b"d"].concat());
    for at in 0..32 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        cases.push(bytes);
    }
    for (number, bytes) in cases.iter().enumerate() {
        let job = format!("job-{number}");
        let attr = folder.attr(&job, 2);
        let outcomes = each(0..2, |rank| {
            let mut ranks = Directory::open(&attr, rank, &mut soon()).unwrap();
            if rank == 1 {
                fs::write(folder.0.join(&job).join("2.tmp"), bytes).unwrap();
                fs::rename(folder.0.join(&job).join("2.tmp"), folder.0.join(&job).join("2.1")).unwrap();
                return Ok(());
            }
            ranks.all_gather(b"abc", &mut loom_group::bootstrap::Slots::new(&mut [0; 80], 2), &mut soon())
        });
        let error = outcomes[0].unwrap_err();
        // Bytes 12 to 15 are the kind of the round.
        let step = number >= cases.len() - 32 && (12..16).contains(&(number + 32 - cases.len()));
        let expected = if step { BootstrapError::OutOfStep { rank: 1 } } else { BootstrapError::Malformed { rank: 1 } };
        assert_eq!(error, expected, "case {number}");
    }
}

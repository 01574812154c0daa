//! Ranks of scripted launchers, correct and broken. The step `launchers` runs real ones.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::Error;
use loom_core::vocabulary::Errno;
use loom_group::bootstrap::{Bootstrap, BootstrapError, LauncherFault, Mismatch, Pmi};
use proptest::prelude::*;

use super::{LIMIT, SIZES, Story, another_round_is_out_of_step, each, shortly, soon};

const INIT: &str = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

fn message(body: &str) -> Vec<u8> {
    format!("{:6}{body}", body.len()).into_bytes()
}

/// `None`: the rank has left.
fn request(stream: &mut UnixStream) -> Option<String> {
    let mut prefix = [0; 6];
    stream.read_exact(&mut prefix).ok()?;
    if prefix == *b"cmd=in" {
        let mut byte = [0];
        while byte != *b"\n" {
            stream.read_exact(&mut byte).ok()?;
        }
        return Some("init".into());
    }
    let mut body = vec![0; std::str::from_utf8(&prefix).unwrap().trim().parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}

fn field<'b>(body: &'b str, name: &str) -> &'b str {
    body.split(';').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[derive(Default)]
struct State {
    values: HashMap<String, String>,
    waiting: usize,
    fences: usize,
    left: usize,
}

#[derive(Default)]
struct Launcher {
    state: Mutex<State>,
    changed: Condvar,
}

impl Launcher {
    fn fence(&self, size: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        let fence = state.fences;
        state.waiting += 1;
        if state.waiting == size {
            (state.waiting, state.fences) = (0, fence + 1);
            self.changed.notify_all();
        }
        let state = self.changed.wait_while(state, |state| state.fences == fence && state.left == 0).unwrap();
        state.fences > fence
    }

    fn serve(&self, stream: &mut UnixStream, size: usize, alter: &impl Fn(&str, &str) -> Option<String>) {
        while let Some(body) = request(stream) {
            let answer = match body.split(';').next().unwrap() {
                "init" => INIT.as_bytes().to_vec(),
                "cmd=fullinit" => {
                    let rank = field(&body, "pmirank");
                    message(&format!("cmd=fullinit-response;rc=0;rank={rank};size={size};appnum=0;"))
                }
                "cmd=kvs-put" => {
                    let (key, value) = (field(&body, "key").to_owned(), field(&body, "value").to_owned());
                    assert!(value.len() < 1024, "a value is too long for PMI-2");
                    let before = self.state.lock().unwrap().values.insert(key, value);
                    assert_eq!(before, None, "a key came again");
                    message("cmd=kvs-put-response;rc=0;")
                }
                "cmd=kvs-get" => {
                    let key = field(&body, "key");
                    let value = self.state.lock().unwrap().values.get(key).cloned();
                    match value.and_then(|value| alter(key, &value)) {
                        Some(value) => message(&format!("cmd=kvs-get-response;found=TRUE;value={value};rc=0;")),
                        None => message("cmd=kvs-get-response;found=FALSE;rc=0;"),
                    }
                }
                "cmd=kvs-fence" if !self.fence(size) => continue,
                "cmd=kvs-fence" => message("cmd=kvs-fence-response;rc=0;"),
                "cmd=finalize" => message("cmd=finalize-response;rc=0;"),
                other => panic!("{other} is not served"),
            };
            _ = stream.write_all(&answer);
        }
        self.state.lock().unwrap().left += 1;
        self.changed.notify_all();
    }
}

fn launched<R>(
    size: u32,
    alter: impl Fn(&str, &str) -> Option<String> + Sync,
    play: impl FnOnce(&(dyn Fn(u32) -> UnixStream + Sync)) -> R,
) -> R {
    let (launcher, mut ours) = (Launcher::default(), Vec::new());
    thread::scope(|scope| {
        for _ in 0..size {
            let (rank, mut theirs) = UnixStream::pair().unwrap();
            ours.push(Mutex::new(Some(rank)));
            let (launcher, alter) = (&launcher, &alter);
            scope.spawn(move || launcher.serve(&mut theirs, size as usize, alter));
        }
        let played = play(&|rank| ours[rank as usize].lock().unwrap().take().unwrap());
        // An open stream would keep the launcher waiting.
        drop(ours);
        played
    })
}

fn unaltered(_: &str, value: &str) -> Option<String> {
    Some(value.into())
}

fn open(stream: UnixStream, rank: u32) -> Pmi {
    Pmi::open(stream, rank, LIMIT, &mut soon()).unwrap()
}

#[test]
fn ranks_exchange_bytes() {
    for size in SIZES {
        let story = Story::new(size);
        launched(size, unaltered, |stream| each(0..size, |rank| story.play(&mut open(stream(rank), rank))));
    }
}

#[test]
fn another_round_is_seen() {
    launched(3, unaltered, |stream| another_round_is_out_of_step(3, |rank| open(stream(rank), rank)));
}

#[test]
fn bytes_beyond_one_value_come_whole() {
    const LONG: usize = 1984;
    launched(2, unaltered, |stream| {
        each(0..2, |rank| {
            let mut ranks = Pmi::open(stream(rank), rank, LONG, &mut soon()).unwrap();
            for len in [0, 483, 484, 485, 983, 984, 985, LONG] {
                let give = |rank: u32| (0..len).map(|at| (at as u32 ^ rank) as u8).collect::<Vec<_>>();
                let mut seen = Vec::new();
                let mut visit = |rank, bytes: &[u8]| seen.push((rank, bytes.to_vec()));
                ranks.round(loom_group::bootstrap::Round::AllGather, &give(rank), &mut visit, &mut soon()).unwrap();
                assert_eq!(seen, [(0, give(0)), (1, give(1))]);
            }
            assert_eq!(ranks.close(&mut soon()), Ok(()));
        })
    });
}

#[test]
fn idle_rank_is_missed_but_not_named() {
    let failed = Barrier::new(3);
    let began = Instant::now();
    launched(3, unaltered, |stream| {
        each(0..3, |rank| {
            let mut ranks = open(stream(rank), rank);
            ranks.barrier(&mut soon()).unwrap();
            if rank != 1 {
                let silent = BootstrapError::Launcher(LauncherFault::Silent);
                assert_eq!(ranks.barrier(&mut shortly()), Err(silent));
                assert_eq!(Error::from(silent), Errno::ETIMEDOUT.into());
                assert_eq!(ranks.barrier(&mut shortly()), Err(BootstrapError::Ended));
                assert_eq!(ranks.close(&mut shortly()), Err(BootstrapError::Ended));
            }
            failed.wait();
        })
    });
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn other_limit_is_refused() {
    launched(2, unaltered, |stream| {
        each(0..2, |rank| {
            let outcome = Pmi::open(stream(rank), rank, 5 + rank as usize, &mut soon());
            assert_eq!(outcome.unwrap_err(), BootstrapError::Mismatch(Mismatch::Limit));
        })
    });
}

#[test]
fn altered_values_name_their_rank() {
    let header = "6c6d6231fdffffff40000000";
    for value in [
        "",
        "6c",
        "zz",
        "+1",
        "6c6d623",
        "\u{e9}\u{e9}",
        &format!("{header}ffffffff"),
        &format!("{header}01000000"),
        &"00".repeat(700),
    ] {
        let alter = |key: &str, given: &str| Some(if key == "loom.1.0.0" { value.into() } else { given.into() });
        let outcomes = launched(2, alter, |stream| {
            each(0..2, |rank| {
                open(stream(rank), rank).all_gather(
                    b"",
                    &mut loom_group::bootstrap::Slots::new(&mut [0; 100], 2),
                    &mut soon(),
                )
            })
        });
        assert!(
            matches!(outcomes[1], Err(BootstrapError::Malformed { rank: 0 } | BootstrapError::OutOfStep { rank: 0 })),
            "{value}: {outcomes:?}"
        );
    }
    let outcomes = launched(
        2,
        |key, given| (key != "loom.1.0.0").then(|| given.into()),
        |stream| each(0..2, |rank| open(stream(rank), rank).barrier(&mut soon())),
    );
    assert_eq!(outcomes[1], Err(BootstrapError::Malformed { rank: 0 }));
}

fn joins(bytes: &[u8], stays: bool, until: Duration) -> Result<(), BootstrapError> {
    let (rank, mut launcher) = UnixStream::pair().unwrap();
    launcher.write_all(bytes).unwrap();
    let kept = if stays {
        Some(launcher)
    } else {
        launcher.shutdown(std::net::Shutdown::Write).unwrap();
        Some(launcher)
    };
    let outcome = Pmi::open(rank, 0, LIMIT, &mut (Instant::now() + until)).map(drop);
    drop(kept);
    outcome
}

#[test]
fn bad_launchers_are_typed_errors() {
    use BootstrapError::Launcher;
    let after = |body: &str| [INIT.as_bytes(), &message(body)].concat();
    let full = |fields: &str| after(&format!("cmd=fullinit-response;{fields}"));
    let refused = |rc| Launcher(LauncherFault::Refused { rc });
    let malformed = Launcher(LauncherFault::Malformed);
    let cases = [
        (vec![], Launcher(LauncherFault::Gone)),
        (b"cmd=respo".to_vec(), Launcher(LauncherFault::Gone)),
        (b"\n".to_vec(), malformed),
        (b"cmd=other rc=0 pmi_version=2\n".to_vec(), malformed),
        (b"cmd=response_to_init rc=0\n".to_vec(), malformed),
        (b"cmd=response_to_init rc=0 pmi_version=1\n".to_vec(), BootstrapError::Mismatch(Mismatch::Version)),
        (b"cmd=response_to_init rc=-1 pmi_version=2\n".to_vec(), BootstrapError::Mismatch(Mismatch::Version)),
        (vec![b'x'; 5000], malformed),
        (vec![0xff; 5000], malformed),
        ([INIT.as_bytes(), b"  4097"].concat(), malformed),
        ([INIT.as_bytes(), b"999999"].concat(), malformed),
        ([INIT.as_bytes(), b"   -14"].concat(), malformed),
        ([INIT.as_bytes(), b"   +14"].concat(), malformed),
        ([INIT.as_bytes(), b"      "].concat(), malformed),
        ([INIT.as_bytes(), b"    20cmd="].concat(), Launcher(LauncherFault::Gone)),
        ([INIT.as_bytes(), b"     4\xff\xff\xff\xff"].concat(), malformed),
        (after("cmd=kvs-put-response;rc=0;"), malformed),
        (after(""), malformed),
        (full("rank=0;size=1;"), malformed),
        (full("rc=7;rank=0;size=1;"), refused(7)),
        (full("rc=0;rank=0;"), malformed),
        (full("rc=0;rank=0;size=-1;"), malformed),
        (full("rc=0;rank=1;size=2;"), malformed),
        (full("rc=0;rank=0;size=0;"), BootstrapError::Size { size: 0 }),
        (full("rc=0;rank=0;size=4294967295;"), BootstrapError::Size { size: u32::MAX }),
        ([full("rc=0;rank=0;size=1;"), message("cmd=kvs-put-response;rc=-1;")].concat(), refused(-1)),
    ];
    for (bytes, error) in cases {
        let outcome = joins(&bytes, false, Duration::from_secs(20));
        assert_eq!(outcome, Err(error), "{}", String::from_utf8_lossy(&bytes));
        _ = (Error::from(error), error.to_string());
    }
}

#[test]
fn silent_launcher_is_waited_for_until_the_deadline() {
    let began = Instant::now();
    for bytes in [&b""[..], b"cmd=response", INIT.as_bytes(), &[INIT.as_bytes(), b"    20cmd"].concat()] {
        assert_eq!(joins(bytes, true, Duration::from_millis(50)), Err(BootstrapError::Launcher(LauncherFault::Silent)));
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

proptest! {
    #[test]
    fn arbitrary_bytes_of_the_launcher_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..600), stage in 0..3) {
        let before = match stage {
            0 => vec![],
            1 => INIT.as_bytes().to_vec(),
            _ => [INIT.as_bytes(), &message("cmd=fullinit-response;rc=0;rank=0;size=2;")].concat(),
        };
        prop_assert!(joins(&[before, bytes].concat(), false, Duration::from_secs(20)).is_err());
    }
}

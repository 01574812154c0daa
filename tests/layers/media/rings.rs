//! Flows in memory alone: of an allocator, of the caller, and of a mapping between processes.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, process, thread};

use loom_alloc::os::Words;
use loom_alloc::{Arena, Locked};
use loom_core::allocator_api2::vec::Vec as VecIn;
use loom_fabric::loom_core;
use loom_media::{FlowLayout, ReadError, RingReader, RingWriter, SampleLayout};
use support::posting::LIMIT;

use super::world::{byte, picture_of};

/// Grains that a writer commits.
const GRAINS: u64 = 3000;

fn ring() -> FlowLayout {
    FlowLayout::Grains(picture_of(3), 5)
}

fn words() -> usize {
    RingWriter::words(&ring()).unwrap()
}

/// Writes grains, the first half of each alone at first.
fn write(mut writer: RingWriter<'_>) {
    let layout = picture_of(3);
    for index in 0..GRAINS {
        let bytes: Vec<u8> = (0..layout.len() as usize).map(|at| byte(index, at)).collect();
        let half = layout.offset(0, 12) as usize;
        writer.grain(index).unwrap().copy_from(0, &bytes[..half]).unwrap();
        writer.commit_grain(index, 0, false).unwrap();
        writer.grain(index).unwrap().copy_from(half, &bytes[half..]).unwrap();
        writer.commit_grain(index, 24, index % 7 == 6).unwrap();
        // Readers of one core have their turns.
        thread::yield_now();
    }
}

/// Reads until the last grain. Returns the numbers of whole grains, and of lapped ones.
fn read(reader: RingReader<'_>) -> (u64, u64) {
    let layout = picture_of(3);
    assert_eq!(reader.layout(), ring());
    let (mut index, mut whole, mut lapped) = (0, 0, 0);
    let mut bytes = vec![0; layout.len() as usize];
    let until = Instant::now() + LIMIT;
    while index < GRAINS {
        match reader.read_grain(index, &mut bytes) {
            Ok((24, is_invalid)) => {
                assert_eq!(is_invalid, index % 7 == 6);
                assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(index, at)), "grain {index}");
                (index, whole) = (index + 1, whole + 1);
            }
            Ok((0, false)) | Err(ReadError::Early) => thread::yield_now(),
            Err(ReadError::Lapped) => (index, lapped) = (index + 1, lapped + 1),
            read => panic!("{read:?}"),
        }
        assert!(Instant::now() < until, "grain {index} within {LIMIT:?}");
    }
    (whole, lapped)
}

/// Runs a writer and three readers over this memory.
fn all(memory: &[AtomicU64]) {
    assert!(RingReader::open(memory).is_err());
    let writer = RingWriter::create(memory, ring(), 0).unwrap();
    let reader = RingReader::open(memory).unwrap();
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(move || read(reader)));
        scope.spawn(move || write(writer));
        for reader in readers {
            let (whole, lapped) = reader.join().unwrap();
            assert!(whole > 0 && whole + lapped == GRAINS, "{whole} whole, {lapped} lapped");
        }
    });
    let mut bytes = [0];
    assert_eq!(reader.read_grain(GRAINS - 6, &mut bytes), Err(ReadError::Lapped));
    assert_eq!(reader.read_grain(GRAINS - 5, &mut bytes), Ok((24, (GRAINS - 5) % 7 == 6)));
    assert_eq!(reader.read_grain(GRAINS, &mut bytes), Err(ReadError::Early));
}

#[test]
fn readers_of_a_ring_of_an_allocator_have_whole_grains_and_learn_that_they_were_lapped() {
    let mut block = vec![core::mem::MaybeUninit::uninit(); 8 * words() + 4096];
    let arena = Locked::new(Arena::new(&mut block));
    let mut memory = VecIn::with_capacity_in(words(), &arena);
    memory.resize_with(words(), || AtomicU64::new(u64::MAX));
    all(&memory);
}

#[test]
fn readers_of_a_ring_of_the_caller_have_whole_grains_and_learn_that_they_were_lapped() {
    static MEMORY: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
    assert!(RingWriter::create(&MEMORY[..words() - 1], ring(), 0).is_err());
    all(&MEMORY);
}

const NAME: &str = "LOOM_RING_OF_A_PROCESS";

#[test]
fn readers_in_another_process_have_whole_grains_and_learn_that_they_were_lapped() {
    if let Ok(name) = env::var(NAME) {
        let file = File::options().read(true).write(true).open(name).unwrap();
        // SAFETY: rings keep the rule.
        let memory = unsafe { Words::open(file.as_raw_fd()) }.unwrap();
        let reader = RingReader::open(&memory).unwrap();
        let (whole, lapped) = read(reader);
        println!("read {whole} and {lapped}");
        return;
    }
    let memory = Words::new(words()).unwrap();
    let writer = RingWriter::create(&memory, ring(), 0).unwrap();
    let name = format!("/proc/{}/fd/{}", process::id(), memory.file().unwrap());
    let readers = [(); 2].map(|()| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["readers_in_another_process", "--nocapture"]).env(NAME, &name);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    });
    write(writer);
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.split_once("read ").map(|(_, rest)| rest));
        let (whole, lapped) = line.and_then(|line| line.split_once(" and ")).unwrap_or_else(|| panic!("{text}"));
        let [whole, lapped] = [whole, lapped].map(|number| number.parse::<u64>().unwrap());
        assert_eq!(whole + lapped, GRAINS, "{text}");
    }
    let other = File::open(env::current_exe().unwrap()).unwrap();
    // SAFETY: refused.
    assert!(unsafe { Words::open(other.as_raw_fd()) }.is_err(), "it may shrink");
}

#[test]
fn samples_of_a_ring_in_memory_are_lapped_by_later_ones_and_by_gaps() {
    let layout = SampleLayout { word: 4, channels: 2, period: 48, len: 480 };
    let ring = FlowLayout::Samples(layout);
    let memory: Vec<_> = (0..RingWriter::words(&ring).unwrap()).map(|_| AtomicU64::new(0)).collect();
    let mut writer = RingWriter::create(&memory, ring, 960).unwrap();
    let reader = RingReader::open(&memory).unwrap();
    let block = |start: u64| (0..48 * 4).map(|at| byte(start, at)).collect::<Vec<_>>();
    let mut found = [0; 48 * 4];
    for start in (960..960 + 480).step_by(48) {
        assert_eq!(reader.read_samples(1, start, &mut found), Err(ReadError::Early));
        writer.samples(start, 48).unwrap().copy_from(1, start, &block(start)).unwrap();
        writer.commit_samples(start + 48).unwrap();
        assert_eq!(reader.read_samples(1, start, &mut found), Ok(()));
        assert!(found[..] == block(start));
    }
    assert_eq!(reader.read_samples(1, 960, &mut found), Ok(()));
    assert_eq!(reader.read_samples(1, 959, &mut found), Err(ReadError::Lapped));
    assert!(matches!(reader.read_samples(2, 960, &mut found), Err(ReadError::Range(_))));
    // Claimed, not committed.
    writer.samples(1440, 1).unwrap();
    assert_eq!(reader.read_samples(1, 960, &mut found), Err(ReadError::Lapped));
    assert_eq!(reader.read_samples(1, 961, &mut found[..47 * 4]), Ok(()));
    assert!(writer.samples(1400, 1).is_err() && writer.samples(1440, 481).is_err());
    assert!(writer.commit_samples(1442).is_err() && writer.grain(1442).is_err());
    writer.samples(1600, 48).unwrap();
    writer.commit_samples(1648).unwrap();
    assert_eq!(reader.read_samples(1, 1440 - 48, &mut found), Err(ReadError::Lapped), "before a gap");
    assert_eq!(reader.read_samples(1, 1600, &mut found), Ok(()));
    memory[0].store(0, Ordering::Relaxed);
    assert!(RingReader::open(&memory).is_err());
}

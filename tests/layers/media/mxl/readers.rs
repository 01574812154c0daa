//! Readers and writers of one flow.

use std::thread;
use std::time::{Duration, Instant};

use loom_media::mxl::MxlError;

use super::{Domain, SLOT, audio, byte, payload, video};

const NOW: Duration = Duration::ZERO;

#[test]
fn readers_find_grains_of_the_ring_but_for_the_slot_of_the_writer() {
    let domain = Domain::new();
    let (mut writer, reader) = (domain.writer(&video()), domain.reader());
    assert_eq!(reader.read_grain(0, 1, &mut [], NOW), Err(MxlError::TooEarly));
    for index in 0..9 {
        writer.grain(index).unwrap().copy_from(8192, &payload(index)).unwrap();
        writer.commit_grain(index, 17, false).unwrap();
    }
    let mut slot = [0; SLOT];
    for index in 5..9 {
        assert_eq!(reader.read_grain(index, 17, &mut slot, NOW).map(|header| header.index), Ok(index));
        assert!(slot[8192..] == payload(index));
    }
    assert_eq!(writer.oldest(), 5);
    assert_eq!(reader.read_grain(4, 1, &mut slot, NOW), Err(MxlError::TooLate));
    assert_eq!(reader.read_grain(9, 1, &mut slot, NOW), Err(MxlError::TooEarly));
    assert!(matches!(reader.read_grain(8, 1, &mut [0; SLOT + 1], NOW), Err(MxlError::Invalid(_))));
    assert_eq!(writer.grain(7).map(drop), Err(MxlError::TooLate));
    assert_eq!(writer.commit_grain(7, 17, false), Err(MxlError::TooLate));
    assert!(matches!(writer.commit_grain(9, 18, false), Err(MxlError::Invalid(_))));
    assert!(matches!(writer.commit_samples(9, 1), Err(MxlError::Invalid(_))));
}

#[test]
fn slices_are_read_when_they_are_committed() {
    let domain = Domain::new();
    let (mut writer, reader) = (domain.writer(&video()), domain.reader());
    writer.grain(6).unwrap().copy_from(8192, &payload(6)[..7 * 256]).unwrap();
    writer.commit_grain(6, 7, false).unwrap();
    let mut slot = [0; 8192 + 7 * 256];
    assert_eq!(reader.read_grain(6, 8, &mut slot, NOW), Err(MxlError::TooEarly));
    assert_eq!(reader.read_grain(6, 7, &mut slot, NOW).map(|header| header.valid), Ok(7));
    assert!(slot[8192..] == payload(6)[..7 * 256]);
    // An open grain keeps its slices, and one that is reopened in a slot has no slices.
    writer.grain(6).unwrap();
    assert!(reader.read_grain(6, 7, &mut slot, NOW).is_ok());
    writer.commit_grain(6, 7, true).unwrap();
    assert_eq!(reader.read_grain(6, 17, &mut slot, NOW).map(|header| (header.valid, header.is_invalid)), Ok((7, true)));
    writer.grain(11).unwrap();
    assert_eq!(reader.read_grain(6, 1, &mut slot, NOW), Err(MxlError::TooLate));
    assert_eq!(reader.read_grain(4, 17, &mut slot, NOW).map(|header| header.is_invalid), Ok(true), "it is skipped");
}

#[test]
fn a_commit_wakes_a_waiting_reader() {
    let domain = Domain::new();
    let (mut writer, reader) = (domain.writer(&video()), domain.reader());
    let begin = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| reader.read_grain(2, 17, &mut [0; SLOT], Duration::from_secs(60)));
        for index in 0..3 {
            writer.commit_grain(index, 17, false).unwrap();
        }
        assert_eq!(waiting.join().unwrap().map(|header| header.index), Ok(2));
    });
    assert!(begin.elapsed() < Duration::from_secs(50));
    let begin = Instant::now();
    assert_eq!(reader.read_grain(3, 17, &mut [], Duration::from_millis(20)), Err(MxlError::TooEarly));
    assert!(begin.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_grain_that_is_overwritten_during_its_copy_is_too_late() {
    let domain = Domain::new();
    let (mut writer, reader) = (domain.writer(&video()), domain.reader());
    let (mut whole, mut late) = (0, 0);
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for index in 1..20_000 {
                writer.grain(index).unwrap().copy_from(8192, &[byte(index, 0); 17 * 256]).unwrap();
                writer.commit_grain(index, 17, false).unwrap();
            }
            writer
        });
        let mut slot = [0; SLOT];
        while !writing.is_finished() || whole == 0 {
            let head = reader.head();
            if head < 4 {
                continue;
            }
            let index = head - 3;
            match reader.read_grain(index, 17, &mut slot, NOW) {
                Ok(_) => {
                    assert!(slot[8192..].iter().all(|found| *found == byte(index, 0)), "grain {index} is whole");
                    whole += 1;
                }
                Err(MxlError::TooLate) => late += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(whole > 0, "{late} are late");
}

#[test]
fn samples_are_read_from_half_of_the_ring() {
    let domain = Domain::new();
    let (mut writer, reader) = (domain.writer(&audio()), domain.reader());
    let half = 19_456 / 2;
    let block = |start: u64| (0..480 * 4).map(|at| byte(start, at)).collect::<Vec<_>>();
    let first = 80_000_000_000;
    for start in (first..first + 24_000).step_by(480) {
        writer.samples().unwrap().copy_from(1, start, &block(start)).unwrap();
        writer.commit_samples(start, 480).unwrap();
    }
    let head = first + 24_000;
    let mut found = [0; 480 * 4];
    reader.read_samples(1, head - 480, &mut found, NOW).unwrap();
    assert!(found[..] == block(head - 480));
    assert_eq!(reader.read_samples(0, head - half, &mut found, NOW), Ok(()));
    assert_eq!(reader.read_samples(0, head - half - 1, &mut found, NOW), Err(MxlError::TooLate));
    assert_eq!(reader.read_samples(0, head - 479, &mut found, NOW), Err(MxlError::TooEarly));
    for (channel, len) in [(2, 4), (0, 3), (0, 4 * half as usize + 4)] {
        let read = reader.read_samples(channel, head - 480, &mut vec![0; len], NOW);
        assert!(matches!(read, Err(MxlError::Invalid(_))), "{read:?}");
    }
    // Skipped samples are cleared.
    writer.samples().unwrap().copy_from(1, head + 480, &block(head)).unwrap();
    writer.commit_samples(head + 480, 480).unwrap();
    reader.read_samples(1, head, &mut found, NOW).unwrap();
    assert_eq!(found, [0; 480 * 4]);
    assert_eq!(writer.commit_samples(head, 480), Err(MxlError::TooLate));
    assert!(matches!(writer.commit_samples(head + 960, half as u32 + 1), Err(MxlError::Invalid(_))));
    assert!(matches!(writer.grain(head), Err(MxlError::Invalid(_))));
}

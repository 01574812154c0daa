//! Files of flows, as other programs see and forge them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use loom_media::FlowLayout;
use loom_media::mxl::{FlowReader, FlowWriter, MxlError};

use super::{Domain, ID, SLOT, STRIDE, audio, definition, payload, video};

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn open(domain: &Domain) -> Result<FlowReader, MxlError> {
    FlowReader::open(domain, ID.parse().unwrap())
}

#[test]
fn files_of_a_flow_of_grains_have_mxl_s_offsets() {
    let domain = Domain::new();
    let mut writer = domain.writer(&video());
    let FlowLayout::Grains(layout, 5) = writer.layout() else { panic!("{:?}", writer.layout()) };
    assert_eq!((layout.len() as usize, layout.stride() as usize), (SLOT, STRIDE));
    assert_eq!(fs::read_to_string(domain.flow("flow_def.json")).unwrap(), video());
    assert!(fs::read(domain.flow("access")).unwrap().is_empty());
    assert_eq!(fs::metadata(domain.flow("")).unwrap().permissions().mode() & 0o777, 0o755);
    let entries = fs::read_dir(&*domain).unwrap().count();
    assert_eq!((entries, fs::read_dir(domain.flow("grains")).unwrap().count()), (1, 5));
    let data = fs::read(domain.flow("data")).unwrap();
    assert_eq!(data.len(), 2064);
    let fields = [0, 4, 24, 28, 48, 52, 56, 60, 136, 140, 152, 2056].map(|at| u32_at(&data, at));
    assert_eq!(fields, [1, 2048, 1, 0, 17, 17, 0, u32::MAX, 256, 0, 5, 0]);
    assert_eq!(data[8..24], writer.definition().id.0);
    assert_eq!((u64_at(&data, 32), u64_at(&data, 40), u64_at(&data, 200)), (25, 1, 0));
    let created = u64_at(&data, 208);
    assert!(created > 1_700_000_000_000_000_000 && u64_at(&data, 216) >= created);
    assert_eq!(u64_at(&data, 2048), fs::metadata(domain.flow("data")).unwrap().ino());
    for slot in 0..5 {
        let grain = fs::read(domain.flow(&format!("grains/data.{slot}"))).unwrap();
        assert_eq!(grain.len(), SLOT);
        assert_eq!([0, 4, 8, 12, 16, 20, 24].map(|at| u32_at(&grain, at)), [1, 4096, 0, 0, 0, 17 * 256, 17]);
    }

    let window = writer.grain(1_000_003).unwrap();
    window.copy_from(28, b"for the application").unwrap();
    window.copy_from(8192, &payload(7)).unwrap();
    writer.commit_grain(1_000_003, 17, false).unwrap();
    let (data, grain) = (fs::read(domain.flow("data")).unwrap(), fs::read(domain.flow("grains/data.3")).unwrap());
    assert_eq!((u64_at(&data, 200), u32_at(&data, 2056)), (1_000_003, 1));
    assert!(u64_at(&data, 208) > created);
    assert_eq!((u64_at(&grain, 8), u32_at(&grain, 16), u32_at(&grain, 24)), (1_000_003, 0, 17 << 16 | 17));
    assert_eq!(&grain[28..47], b"for the application");
    assert!(grain[8192..] == payload(7));
    // Skipped grains are invalid.
    let skipped = fs::read(domain.flow("grains/data.2")).unwrap();
    assert_eq!((u64_at(&skipped, 8), u32_at(&skipped, 16), u32_at(&skipped, 24)), (1_000_002, 1, 17));
}

#[test]
fn files_of_a_flow_of_samples_have_mxl_s_offsets() {
    let domain = Domain::new();
    let mut writer = domain.writer(&audio());
    let data = fs::read(domain.flow("data")).unwrap();
    assert_eq!([24, 48, 52, 136, 140].map(|at| u32_at(&data, at)), [2, 480, 480, 2, 19_456]);
    assert!(!domain.flow("access").exists() && !domain.flow("grains").exists());
    // The second channel, over the end of the ring.
    writer.samples().unwrap().copy_from(1, 19_455, &[7; 8]).unwrap();
    writer.commit_samples(19_455, 2).unwrap();
    let channels = fs::read(domain.flow("channels")).unwrap();
    assert_eq!(channels.len(), 2 * 19_456 * 4);
    let second = 19_456 * 4;
    assert!(channels[second..second + 4] == [7; 4] && channels[2 * second - 4..] == [7; 4]);
    assert_eq!(channels.iter().filter(|byte| **byte != 0).count(), 8);
    assert_eq!(u64_at(&fs::read(domain.flow("data")).unwrap(), 200), 19_457);
}

#[test]
fn readers_are_woken_for_each_batch_of_samples() {
    let domain = Domain::new();
    let mut writer = domain.writer(&audio());
    let counter = || u32_at(&fs::read(domain.flow("data")).unwrap(), 2056);
    let mut counts = Vec::new();
    for start in (0..960).step_by(120) {
        writer.commit_samples(start, 120).unwrap();
        counts.push(counter());
    }
    assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8], "MXL's default wakes within the first batch, and for each whole one");
}

#[test]
fn rings_have_the_history_of_the_domain() {
    let domain = Domain::new();
    let options = domain.join("options.json");
    fs::write(&options, r#"{"urn:x-mxl:option:history_duration/v1.0": 400000000}"#).unwrap();
    assert!(matches!(domain.writer(&video()).layout(), FlowLayout::Grains(_, 10)));
    for (json, key) in [
        (r#"{"urn:x-mxl:option:history_duration/v1.0": 0}"#, "history_duration"),
        (r#"{"urn:x-mxl:option:history_duration/v1.0": 9000000000000000000}"#, "history_duration"),
        (r#"{"urn:x-mxl:option:history_duration/v1.0": -1}"#, "urn:x-mxl:option:history_duration/v1.0"),
        ("[", "options.json"),
    ] {
        fs::write(&options, json).unwrap();
        assert_eq!(FlowWriter::create(&domain, &video()).unwrap_err(), MxlError::Definition(key));
    }
    assert_eq!(fs::read_dir(&*domain).unwrap().count(), 1, "no flow is left");
}

#[test]
fn the_last_writer_deletes_the_flow() {
    let domain = Domain::new();
    let mut first = domain.writer(&video());
    let mut second = domain.writer(&video());
    first.commit_grain(7, 17, false).unwrap();
    assert_eq!(second.head(), 7);
    second.commit_grain(8, 17, false).unwrap();
    let other = video().replace("\"frame_height\":17", "\"frame_height\":18");
    assert!(matches!(FlowWriter::create(&domain, &other), Err(MxlError::Invalid(_))));
    let reader = domain.reader();
    drop(first);
    assert!(domain.flow("data").exists());
    drop(second);
    assert_eq!(fs::read_dir(&*domain).unwrap().count(), 0);
    // The mapping stays.
    assert!(reader.read_grain(8, 17, &mut [0; SLOT], Duration::ZERO).is_ok());
    assert_eq!(reader.read_grain(9, 17, &mut [], Duration::from_millis(1)), Err(MxlError::Stale));
    assert_eq!(open(&domain).unwrap_err(), MxlError::Stale);
    let replaced = domain.writer(&video());
    assert_eq!(reader.read_grain(9, 17, &mut [], Duration::ZERO), Err(MxlError::Stale));
    assert_eq!(replaced.head(), 0);
}

#[test]
fn a_domain_that_does_not_exist_is_an_error_of_the_system() {
    let missing = Path::new("/dev/shm/loom-no-such-domain");
    assert!(matches!(FlowWriter::create(missing, &video()), Err(MxlError::System { call: "mkdir", .. })));
}

#[test]
fn forged_headers_and_cut_files_are_refused_when_opened() {
    let (domain, flow) = (Domain::new(), |result: Result<FlowReader, MxlError>| result.map(drop).unwrap_err());
    let _writer = domain.writer(&video());
    let data = domain.flow("data");
    let whole = fs::read(&data).unwrap();
    let forged: [(u64, &[u8]); 8] = [
        (0, &[2]),
        (8, &[0]),
        (24, &[3]),
        (32, &[24]),
        (136, &[0xff, 0xff, 0xff, 0xff]),
        (152, &[0, 0, 0, 0]),
        (152, &[1, 0, 1, 0]),
        (52, &[0, 0, 0, 0]),
    ];
    for (at, bytes) in forged {
        overwrite(&data, at, bytes);
        assert!(matches!(flow(open(&domain)), MxlError::Flow(_)), "{bytes:?} at {at}");
        assert!(matches!(FlowWriter::create(&domain, &video()), Err(MxlError::Flow(_))), "{bytes:?} at {at}");
        overwrite(&data, 0, &whole);
    }
    overwrite(&data, 2048, &[0xff; 8]);
    assert_eq!(flow(open(&domain)), MxlError::Stale);
    overwrite(&data, 0, &whole);
    let length = |path: &Path, len| OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    for (path, len) in [(data.clone(), 2064), (domain.flow("grains/data.4"), SLOT as u64)] {
        length(&path, len - 1);
        assert!(matches!(flow(open(&domain)), MxlError::Flow(_)), "{path:?}");
        length(&path, len);
    }
    overwrite(&data, 0, &whole);
    assert!(open(&domain).is_ok());
    fs::write(domain.flow("flow_def.json"), definition("\"format\":7")).unwrap();
    assert_eq!(flow(open(&domain)), MxlError::Definition("format"));
    fs::write(domain.flow("flow_def.json"), [0xff; 8]).unwrap();
    assert_eq!(flow(open(&domain)), MxlError::Definition("JSON"));
    fs::remove_file(domain.flow("flow_def.json")).unwrap();
    fs::create_dir(domain.flow("flow_def.json")).unwrap();
    assert!(matches!(flow(open(&domain)), MxlError::Flow(_)));
}

#[test]
fn forged_headers_of_grains_do_not_reach_beyond_the_slot() {
    let domain = Domain::new();
    let mut writer = domain.writer(&video());
    writer.commit_grain(3, 17, false).unwrap();
    let (reader, slot) = (domain.reader(), domain.flow("grains/data.3"));
    let read = || reader.read_grain(3, 17, &mut [0; SLOT], Duration::ZERO);
    overwrite(&slot, 20, &[0xff; 8]);
    assert_eq!(read().map(|header| (header.total, header.valid)), Ok((17, 17)));
    overwrite(&slot, 8, &8_u64.to_le_bytes());
    assert_eq!(read(), Err(MxlError::TooLate));
    overwrite(&slot, 0, &[9]);
    assert!(matches!(read(), Err(MxlError::Flow(_))));
    // The head of a forger.
    overwrite(&domain.flow("data"), 200, &[0xff; 8]);
    assert_eq!(read().unwrap_err(), MxlError::Flow("a grain's header has another version: use a writer of MXL 1"));
    assert_eq!(writer.commit_grain(4, 17, false), Err(MxlError::TooLate));
    writer.commit_grain(u64::MAX, 17, false).unwrap();
    assert_eq!(reader.read_grain(u64::MAX, 17, &mut [0; 8], Duration::ZERO).unwrap().index, u64::MAX);
}

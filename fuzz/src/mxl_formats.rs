//! Infos of MXL's targets, definitions of flows, headers of grains and flows, and options of
//! domains. Any bytes are refused, or have one form.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process;

use loom_media::FlowLayout;
use loom_media::mxl::{FlowDefinition, FlowReader, FlowWriter, GrainHeader, Immediate, MxlError, TargetInfo};

/// First bytes of inputs for the files of a domain.
const OPTIONS: u8 = 0xf0;
const PATCHES: u8 = 0xf1;

/// Five grains of one line.
const FLOW: &str = r#"{"id":"5fbec3b1-1b0f-417d-9059-8b94a47197ed","label":"a",
    "tags":{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]},"format":"urn:x-nmos:format:video",
    "media_type":"video/v210","grain_rate":{"numerator":25},"frame_width":96,"frame_height":1}"#;

/// Folder that ends with its value.
struct Domain(PathBuf);

impl Domain {
    fn new() -> Self {
        static DOMAINS: AtomicU32 = AtomicU32::new(0);
        let number = DOMAINS.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/dev/shm/loom-fuzz-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Domain(folder)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A ring has the history of the options, or no flow is left.
fn options(data: &[u8]) -> usize {
    let domain = Domain::new();
    fs::write(domain.0.join("options.json"), data).expect("a file");
    // Longer rings would take the memory of the machine.
    if data.split(|byte| !byte.is_ascii_digit()).any(|number| number.len() > 10) {
        return 1;
    }
    match FlowWriter::create(&domain.0, FLOW) {
        Ok(writer) => {
            assert!(matches!(writer.layout(), FlowLayout::Grains(_, 1..=250)), "{:?}", writer.layout());
            2
        }
        Err(MxlError::Definition(_)) => {
            assert_eq!(fs::read_dir(&domain.0).expect("a folder").count(), 1);
            1
        }
        Err(error) => panic!("{error}"),
    }
}

/// A reader of a header with other bytes has the layout of the definition, and reads no more than
/// its slots.
fn patches(data: &[u8]) -> usize {
    let domain = Domain::new();
    let mut writer = FlowWriter::create(&domain.0, FLOW).expect("a flow");
    writer.commit_grain(3, 1, false).expect("a grain");
    let folder = domain.0.join(format!("{}.mxl-flow", writer.definition().id));
    for patch in data.chunks_exact(4).take(8) {
        let name = if patch[0] & 1 == 0 { "data" } else { "grains/data.3" };
        let file = OpenOptions::new().write(true).open(folder.join(name)).expect("a file");
        let at = u64::from(u16::from_le_bytes([patch[1], patch[2]]) % 2064);
        file.write_all_at(&patch[3..], at).expect("room");
    }
    match FlowReader::open(&domain.0, writer.definition().id) {
        Ok(reader) => {
            let FlowLayout::Grains(layout, slots) = reader.layout() else { panic!("{:?}", reader.layout()) };
            assert!(reader.definition() == writer.definition() && (1..=5).contains(&slots));
            let mut slot = vec![0; usize::try_from(layout.len()).expect("short")];
            for index in [3, reader.head()] {
                if let Ok(header) = reader.read_grain(index, 0, &mut slot, Duration::ZERO) {
                    assert!(header.index == index && header.valid <= 1 && header.total == 1, "{header:?}");
                }
            }
            2
        }
        Err(MxlError::Flow(_) | MxlError::Stale) => 1,
        Err(error) => panic!("{error}"),
    }
}

/// Parses the bytes as each of three formats, or as files of a domain.
pub fn mxl_formats(data: &[u8]) -> usize {
    match data {
        [OPTIONS, options @ ..] => return self::options(options),
        [PATCHES, patches @ ..] => return self::patches(patches),
        _ => {}
    }
    let mut steps = 3;
    if let Some(bytes) = data.first_chunk() {
        if let Some(header) = GrainHeader::from_bytes(bytes) {
            assert_eq!(GrainHeader::from_bytes(&header.to_bytes()), Some(header));
            steps += 1;
        }
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(Immediate::from_bits(bits).to_bits(), bits);
    }
    let Ok(text) = core::str::from_utf8(data) else { return steps };
    if let Ok(info) = TargetInfo::parse(text) {
        let written = info.to_string();
        assert_eq!(TargetInfo::parse(&written).as_ref(), Ok(&info), "{written}");
        assert_eq!(written.matches("\"rkey\"").count(), info.regions.len());
        steps += 1;
    }
    if let Ok(definition) = FlowDefinition::parse(text) {
        for history in [0, 1, 200_000_000, u64::MAX] {
            let Ok(layout) = definition.layout(history) else { continue };
            assert!(definition.fits(&layout), "{definition:?} {layout:?}");
            match layout {
                FlowLayout::Grains(grain, slots) => assert!(grain.len() > 8192 && slots > 0),
                FlowLayout::Samples(samples) => assert!(samples.len.is_multiple_of(samples.period)),
            }
        }
        steps += 1;
    }
    steps
}

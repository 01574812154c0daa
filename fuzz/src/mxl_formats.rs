//! Infos of MXL's targets, definitions of flows, and headers of grains. Any bytes are refused, or
//! have one form.

use loom_media::FlowLayout;
use loom_media::mxl::{FlowDefinition, GrainHeader, Immediate, TargetInfo};

/// Parses the bytes as each of three formats.
pub fn mxl_formats(data: &[u8]) -> usize {
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

use core::fmt;
use core::str::FromStr;

use serde_json::Value;

use super::MxlError;
use super::wire::HEADER_LEN;
use crate::layout::{FlowLayout, GrainLayout, Rate, SampleLayout};

/// UUID of a flow, which names its directory.
///
/// ```
/// use loom_media::mxl::FlowId;
///
/// let id: FlowId = "5FBEC3B1-1B0F-417D-9059-8B94A47197ED".parse()?;
/// assert_eq!(id.to_string(), "5fbec3b1-1b0f-417d-9059-8b94a47197ed");
/// # Ok::<_, loom_media::mxl::MxlError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub [u8; 16]);

impl FromStr for FlowId {
    type Err = MxlError;

    fn from_str(text: &str) -> Result<Self, MxlError> {
        let (mut id, mut digits) = ([0; 16], 0);
        for (at, byte) in text.bytes().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(MxlError::Definition("id"));
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let to = id.get_mut(digits / 2).ok_or(MxlError::Definition("id"))?;
            *to = *to << 4 | digit.ok_or(MxlError::Definition("id"))?;
            digits += 1;
        }
        if digits == 32 { Ok(FlowId(id)) } else { Err(MxlError::Definition("id")) }
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Format of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFormat {
    /// Grains of video.
    Video(GrainLayout),
    /// Samples of audio.
    Audio {
        /// Number of channels.
        channels: u16,
        /// Bytes of a sample.
        word: u16,
    },
    /// Grains of data.
    Data(GrainLayout),
}

/// Definition of a flow (NMOS IS-04).
///
/// ```
/// use loom_media::mxl::FlowDefinition;
/// use loom_media::{FlowLayout, Rate};
///
/// let definition = FlowDefinition::parse(r#"{
///     "id": "5fbec3b1-1b0f-417d-9059-8b94a47197ed", "label": "camera 1",
///     "tags": {"urn:x-nmos:tag:grouphint/v1.0": ["studio:video"]},
///     "format": "urn:x-nmos:format:video", "media_type": "video/v210",
///     "grain_rate": {"numerator": 50}, "frame_width": 1920, "frame_height": 1080
/// }"#)?;
/// let FlowLayout::Grains(layout, slots) = definition.layout(200_000_000)? else { panic!("it is video") };
/// assert_eq!((definition.rate, layout.len(), slots), (Rate::new(50, 1), 5_537_792, 10));
/// # Ok::<_, loom_media::mxl::MxlError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowDefinition {
    /// Identifier of the flow.
    pub id: FlowId,
    /// Grains or samples per second, reduced. For interlaced video, fields.
    pub rate: Rate,
    /// Format.
    pub format: FlowFormat,
}

const GROUP: &str = "urn:x-nmos:tag:grouphint/v1.0";

impl FlowDefinition {
    /// Maximum number of slots, by the immediate data.
    pub const MAX_SLOTS: u32 = 1 << 16;

    /// Parses a definition. Keys without effect on memory are ignored.
    ///
    /// # Errors
    /// [`MxlError::Definition`] with the key, or `JSON`.
    pub fn parse(json: &str) -> Result<Self, MxlError> {
        let root: Value = serde_json::from_str(json).map_err(|_| MxlError::Definition("JSON"))?;
        let id = text(&root, "id")?.parse()?;
        if text(&root, "label")?.is_empty() {
            return Err(MxlError::Definition("label"));
        }
        let hints = root.get("tags").and_then(|tags| tags.get(GROUP)).and_then(Value::as_array);
        if !hints.is_some_and(|hints| !hints.is_empty() && hints.iter().all(is_hint)) {
            return Err(MxlError::Definition(GROUP));
        }
        let (rate, format) = match text(&root, "format")? {
            "urn:x-nmos:format:video" => video(&root)?,
            "urn:x-nmos:format:data" if text(&root, "media_type")? == "video/smpte291" => {
                (rate(&root, "grain_rate")?, FlowFormat::Data(slot(GrainLayout::smpte291())))
            }
            "urn:x-nmos:format:data" => return Err(MxlError::Definition("media_type")),
            "urn:x-nmos:format:audio" => {
                let channels =
                    root.get("channel_count").map_or(Some(1), |_| number(&root, "channel_count", 1..=0xffff));
                let word = number(&root, "bit_depth", 32..=64).filter(|bits| matches!(bits, 32 | 64));
                let channels = channels.ok_or(MxlError::Definition("channel_count"))?;
                let word = word.ok_or(MxlError::Definition("bit_depth"))? / 8;
                (rate(&root, "sample_rate")?, FlowFormat::Audio { channels, word })
            }
            _ => return Err(MxlError::Definition("format")),
        };
        Ok(FlowDefinition { id, rate, format })
    }

    /// Layout of the ring for a history in nanoseconds. Slots begin at pages.
    ///
    /// # Errors
    /// [`MxlError::Definition`] for an empty ring, or more than [`MAX_SLOTS`](Self::MAX_SLOTS) or
    /// 2<sup>31</sup> samples.
    pub fn layout(&self, history_ns: u64) -> Result<FlowLayout, MxlError> {
        let len = match self.format {
            FlowFormat::Video(_) | FlowFormat::Data(_) => {
                let grains = u128::from(history_ns) * u128::from(self.rate.numerator);
                grains / (1_000_000_000 * u128::from(self.rate.denominator))
            }
            FlowFormat::Audio { channels, word } => {
                let samples = u128::from(history_ns) * u128::from(self.rate.numerator);
                if samples / (500_000_000 * u128::from(self.rate.denominator)) > 1 << 31 {
                    return Err(MxlError::Definition("history_duration"));
                }
                SampleLayout::mxl(word, channels, self.rate, history_ns).len.into()
            }
        };
        self.with_ring(u32::try_from(len).unwrap_or(u32::MAX)).ok_or(MxlError::Definition("history_duration"))
    }

    pub(super) fn with_ring(&self, len: u32) -> Option<FlowLayout> {
        let layout = match self.format {
            FlowFormat::Video(layout) | FlowFormat::Data(layout) => {
                FlowLayout::Grains(layout, Some(len).filter(|len| *len <= Self::MAX_SLOTS)?)
            }
            FlowFormat::Audio { channels, word } => {
                FlowLayout::Samples(SampleLayout { word, channels, period: len, len })
            }
        };
        Some(layout).filter(FlowLayout::is_valid)
    }

    /// Returns `true` if a ring of any length has this format.
    #[must_use]
    pub fn fits(&self, layout: &FlowLayout) -> bool {
        self.with_ring(1).is_some_and(|own| own.fits(layout))
    }
}

fn text<'v>(object: &'v Value, key: &'static str) -> Result<&'v str, MxlError> {
    object.get(key).and_then(Value::as_str).ok_or(MxlError::Definition(key))
}

fn number(object: &Value, key: &str, range: core::ops::RangeInclusive<u16>) -> Option<u16> {
    let number = u16::try_from(object.get(key)?.as_u64()?).ok()?;
    Some(number).filter(|number| range.contains(number))
}

fn rate(object: &Value, key: &'static str) -> Result<Rate, MxlError> {
    let rational = || {
        let rate = object.get(key)?;
        let numerator = rate.get("numerator")?.as_u64()?;
        let denominator = rate.get("denominator").map_or(Some(1), Value::as_u64)?;
        let (mut gcd, mut rest) = (numerator, denominator);
        while rest > 0 {
            (gcd, rest) = (rest, gcd % rest);
        }
        let reduced = |of: u64| u32::try_from(of.checked_div(gcd)?).ok().filter(|of| *of > 0);
        Some(Rate { numerator: reduced(numerator)?, denominator: reduced(denominator)? })
    };
    rational().ok_or(MxlError::Definition(key))
}

/// `<group>:<role>`, and possibly `:device` or `:node`.
fn is_hint(hint: &Value) -> bool {
    let mut parts = hint.as_str().unwrap_or("").split(':');
    let named = [parts.next(), parts.next()].iter().all(|part| part.is_some_and(|part| !part.is_empty()));
    named && matches!(parts.next(), None | Some("device" | "node")) && parts.next().is_none()
}

fn video(root: &Value) -> Result<(Rate, FlowFormat), MxlError> {
    let width = number(root, "frame_width", 2..=7680).ok_or(MxlError::Definition("frame_width"))?;
    let mut height = number(root, "frame_height", 1..=4320).ok_or(MxlError::Definition("frame_height"))?;
    let mut rate = rate(root, "grain_rate")?;
    match root.get("interlace_mode").map_or(Some("progressive"), Value::as_str) {
        Some("progressive") => {}
        Some("interlaced_tff" | "interlaced_bff") => {
            if rate != Rate::new(30_000, 1001) && rate != Rate::new(25, 1) {
                return Err(MxlError::Definition("grain_rate"));
            }
            if !height.is_multiple_of(2) {
                return Err(MxlError::Definition("frame_height"));
            }
            (rate.numerator, height) = (rate.numerator * 2, height / 2);
        }
        _ => return Err(MxlError::Definition("interlace_mode")),
    }
    let layout = match text(root, "media_type")? {
        "video/v210" => GrainLayout::v210(width, height),
        "video/v210a" => GrainLayout::v210a(width, height),
        _ => return Err(MxlError::Definition("media_type")),
    };
    Ok((rate, FlowFormat::Video(slot(layout))))
}

fn slot(layout: GrainLayout) -> GrainLayout {
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    layout.with_header(HEADER_LEN).with_slot_align(page)
}

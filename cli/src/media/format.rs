use std::fmt;
use std::str::FromStr;

use loom_media::{FlowLayout, GrainLayout, Rate, SampleLayout};
use serde_json::{Value, json};

/// Duration that a ring holds, in nanoseconds.
const HISTORY: u64 = 200_000_000;

/// Maximum bytes of a ring, which a target allocates for a sender's format.
const MAX_RING: u64 = 1 << 30;

/// Video in v210, as `WIDTHxHEIGHT@RATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Video {
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) rate: Rate,
}

/// Audio in 32-bit floating point, as `CHANNELS@RATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Audio {
    pub(super) channels: u16,
    pub(super) rate: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) video: Option<Video>,
    /// Format, and number of samples of a block.
    pub(super) audio: Option<(Audio, u32)>,
    pub(super) slices: u16,
    /// Frames of the test picture, which targets verify.
    pub(super) is_test: bool,
}

impl Video {
    pub(super) const fn layout(self) -> GrainLayout {
        GrainLayout::v210(self.width, self.height)
    }

    pub(super) fn ring(self) -> FlowLayout {
        FlowLayout::Grains(self.layout(), u32::try_from(self.rate.grains_in(HISTORY)).map_or(4, |slots| slots.max(4)))
    }

    fn is_valid(self) -> bool {
        (2..=7680).contains(&self.width)
            && (1..=4320).contains(&self.height)
            && (1..=1000).contains(&self.rate.grains_in(1_000_000_000))
            && self.ring().bytes() <= MAX_RING
    }
}

impl Audio {
    pub(super) const fn rate(self) -> Rate {
        Rate::new(self.rate, 1)
    }

    pub(super) fn layout(self, block: u32) -> SampleLayout {
        let blocks = u32::try_from(self.rate().grains_in(HISTORY)).map_or(4, |samples| samples.div_ceil(block).max(4));
        SampleLayout { word: 4, channels: self.channels, period: block, len: blocks * block }
    }

    fn is_valid(self) -> bool {
        (1..=64).contains(&self.channels) && (8000..=384_000).contains(&self.rate)
    }
}

impl FromStr for Video {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let video = || {
            let (size, rate) = text.split_once('@')?;
            let (width, height) = size.split_once('x')?;
            let (numerator, denominator) = rate.split_once('/').unwrap_or((rate, "1"));
            let rate = (numerator.parse().ok()?, denominator.parse().ok()?);
            if rate.0 == 0 || rate.1 == 0 {
                return None;
            }
            let video =
                Video { width: width.parse().ok()?, height: height.parse().ok()?, rate: Rate::new(rate.0, rate.1) };
            Some(video).filter(|video| video.is_valid())
        };
        video()
            .ok_or_else(|| format!("video is like 1920x1080@60 or 1280x720@30000/1001, up to 7680x4320, not `{text}`"))
    }
}

impl fmt::Display for Video {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}@{}", self.width, self.height, self.rate.numerator)?;
        if self.rate.denominator == 1 { Ok(()) } else { write!(f, "/{}", self.rate.denominator) }
    }
}

impl FromStr for Audio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let audio = || {
            let (channels, rate) = text.split_once('@')?;
            Some(Audio { channels: channels.parse().ok()?, rate: rate.parse().ok()? }).filter(|audio| audio.is_valid())
        };
        audio().ok_or_else(|| format!("audio is like 2@48000, up to 64 channels, not `{text}`"))
    }
}

impl fmt::Display for Audio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.channels, self.rate)
    }
}

impl Format {
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> + use<> {
        let video = self.video.map(|_| "video");
        video.into_iter().chain(self.audio.map(|_| "audio"))
    }

    /// First line of the part.
    pub(super) fn line_of(&self, video: Video, part: u16) -> u16 {
        let line = u32::from(video.height) * u32::from(part) / u32::from(self.slices);
        u16::try_from(line).unwrap_or(video.height)
    }

    pub(super) fn to_text(self) -> String {
        let text = json!({
            "video": self.video.map(|video| video.to_string()),
            "audio": self.audio.map(|(audio, _)| audio.to_string()),
            "block": self.audio.map_or(0, |(_, block)| block),
            "slices": self.slices,
            "test": self.is_test,
        });
        text.to_string()
    }

    /// `None` for other text, which a stranger may send.
    pub(super) fn of_text(text: &[u8]) -> Option<Self> {
        let text: Value = serde_json::from_slice(text).ok()?;
        let part = |name: &str| text.get(name)?.as_str();
        let video = part("video").map(str::parse::<Video>).transpose().ok()?;
        let audio = part("audio").map(str::parse).transpose().ok()?;
        let block = u32::try_from(text.get("block")?.as_u64()?).ok()?;
        let slices = u16::try_from(text.get("slices")?.as_u64()?).ok()?;
        let format =
            Format { video, audio: audio.map(|audio| (audio, block)), slices, is_test: text.get("test")?.as_bool()? };
        format.is_valid().then_some(format)
    }

    pub(super) fn is_valid(&self) -> bool {
        let slices_fit = self.video.is_none_or(|video| (1..=video.height).contains(&self.slices));
        let block_fits = self.audio.is_none_or(|(audio, block)| (1..=audio.rate / 10).contains(&block));
        (self.video.is_some() || self.audio.is_some()) && slices_fit && block_fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_return_from_their_text() {
        for (video, audio) in [("1920x1080@60", "2@48000"), ("1280x720@30000/1001", "64@96000")] {
            let (video, audio): (Video, Audio) = (video.parse().unwrap(), audio.parse().unwrap());
            for (video, audio) in [(Some(video), Some((audio, 48))), (None, Some((audio, 480))), (Some(video), None)] {
                let format = Format { video, audio, slices: 4, is_test: true };
                assert_eq!(Format::of_text(format.to_text().as_bytes()), Some(format));
            }
        }
    }

    #[test]
    fn formats_out_of_range_are_refused() {
        for wrong in [
            "",
            "x@",
            "1920x1080",
            "0x1@1",
            "1x1@1",
            "1920x1080@0",
            "1920x1080@1/0",
            "7682x1@1",
            "100x100@2000",
            "100x100@1/2",
            "7680x4320@240",
        ] {
            assert!(wrong.parse::<Video>().is_err(), "{wrong}");
        }
        for wrong in ["", "2", "0@48000", "65@48000", "2@1", "2@4294967295"] {
            assert!(wrong.parse::<Audio>().is_err(), "{wrong}");
        }
        let strange = [
            "",
            "{}",
            "[1]",
            r#"{"video":"192x108@60","audio":null,"block":0,"slices":0,"test":true}"#,
            r#"{"video":"192x108@60","audio":null,"block":0,"slices":109,"test":true}"#,
            r#"{"video":null,"audio":"2@48000","block":0,"slices":1,"test":true}"#,
            r#"{"video":null,"audio":"2@48000","block":4801,"slices":1,"test":true}"#,
            r#"{"video":null,"audio":null,"block":0,"slices":1,"test":true}"#,
        ];
        assert!(strange.iter().all(|text| Format::of_text(text.as_bytes()).is_none()));
    }

    #[test]
    fn parts_of_a_frame_cover_its_lines() {
        let video: Video = "192x108@60".parse().unwrap();
        let format = Format { video: Some(video), audio: None, slices: 5, is_test: true };
        let lines: Vec<_> = (0..=5).map(|part| format.line_of(video, part)).collect();
        assert_eq!(lines, [0, 21, 43, 64, 86, 108]);
    }
}

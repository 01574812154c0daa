use std::f64::consts::TAU;
use std::path::Path;

use super::format::Audio;
use crate::failure::Failure;

/// Sine of 440 Hz in the first channel, and so much higher in each other one of eight.
const FREQUENCY: u64 = 440;

/// Values of 24 bits are equal on all machines.
const SCALE: f64 = 8_388_608.0;

pub(super) struct Tone {
    /// Second of 1 Hz.
    second: Vec<f32>,
}

impl Tone {
    pub(super) fn new(audio: Audio) -> Self {
        let value = |at: u32| {
            let sine = (TAU * f64::from(at) / f64::from(audio.rate)).sin() / 8.0;
            #[expect(clippy::cast_possible_truncation, reason = "24 bits")]
            let value = ((sine * SCALE).round() / SCALE) as f32;
            value
        };
        Tone { second: (0..audio.rate).map(value).collect() }
    }

    pub(super) fn block(&self, channel: u16, start: u64, count: u32, out: &mut Vec<u8>) {
        out.clear();
        let (rate, frequency) = (self.second.len() as u64, FREQUENCY * (1 + u64::from(channel) % 8));
        for sample in (start..).take(count as usize) {
            let at = usize::try_from(sample % rate * frequency % rate).unwrap_or(0);
            out.extend_from_slice(&self.second.get(at).copied().unwrap_or(0.0).to_le_bytes());
        }
    }
}

/// First samples that arrived.
pub(super) struct Recording {
    audio: Audio,
    first: Option<u64>,
    samples: Vec<f32>,
}

impl Recording {
    /// Length in seconds, and in samples of all channels.
    const LEN: usize = 60;
    const SAMPLES: usize = 1 << 26;

    pub(super) fn new(audio: Audio) -> Self {
        Recording { audio, first: None, samples: Vec::new() }
    }

    pub(super) fn put(&mut self, channel: u16, start: u64, block: &[u8]) {
        let first = *self.first.get_or_insert(start);
        let channels = usize::from(self.audio.channels);
        let most = (Self::LEN * self.audio.rate as usize).min(Self::SAMPLES / channels);
        let Some(from) = start.checked_sub(first).and_then(|from| usize::try_from(from).ok()) else { return };
        for (at, sample) in (from..most).zip(block.chunks_exact(4)) {
            if self.samples.len() < (at + 1) * channels {
                self.samples.resize((at + 1) * channels, 0.0);
            }
            if let Some(bytes) = sample.first_chunk() {
                self.samples[at * channels + usize::from(channel)] = f32::from_le_bytes(*bytes);
            }
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let Audio { channels, rate: sample_rate } = self.audio;
        let sample_format = hound::SampleFormat::Float;
        let spec = hound::WavSpec { channels, sample_rate, bits_per_sample: 32, sample_format };
        let write = || {
            let mut writer = hound::WavWriter::create(path, spec)?;
            self.samples.iter().try_for_each(|sample| writer.write_sample(*sample))?;
            writer.finalize()
        };
        write()
            .map_err(|error| Failure::Unavailable(format!("cannot write the samples to {}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tone_goes_on_from_block_to_block() {
        let tone = Tone::new("2@48000".parse().unwrap());
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        tone.block(1, 1_000_000_000_000, 96, &mut whole);
        tone.block(1, 1_000_000_000_048, 48, &mut part);
        assert_eq!(whole[48 * 4..], part);
        tone.block(0, 1_000_000_000_048, 48, &mut whole);
        assert_ne!(whole, part);
    }
}

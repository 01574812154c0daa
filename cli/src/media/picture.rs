//! Test picture in v210: colour bars, a counter, and a moving part in each line, different in lines
//! and frames.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::format::Video;
use crate::failure::Failure;

/// Six pixels of one colour.
type Group = [u8; 16];

const GROUP: usize = 16;

/// Luma and both chroma components of 10 bits.
#[derive(Clone, Copy)]
struct Colour(u32, u32, u32);

const WHITE: Colour = Colour(940, 512, 512);
const BLACK: Colour = Colour(64, 512, 512);

/// Bars of 75 % of ITU-R BT.709, as SMPTE RP 219 has them.
const BARS: [Colour; 7] = [
    Colour(721, 512, 512),
    Colour(674, 176, 543),
    Colour(581, 589, 176),
    Colour(534, 253, 207),
    Colour(251, 771, 817),
    Colour(204, 435, 848),
    Colour(111, 848, 481),
];

/// Digits of 3 by 5 cells, from the top left one on.
const DIGITS: [u16; 10] = [
    0b111_101_101_101_111,
    0b010_110_010_010_111,
    0b111_001_111_100_111,
    0b111_001_111_001_111,
    0b101_101_111_001_001,
    0b111_100_111_001_111,
    0b111_100_111_101_111,
    0b111_001_001_001_001,
    0b111_101_111_101_111,
    0b111_101_111_001_111,
];

impl Colour {
    fn group(self) -> Group {
        let Colour(luma, blue, red) = self;
        let words = [
            blue | luma << 10 | red << 20,
            luma | blue << 10 | luma << 20,
            red | luma << 10 | blue << 20,
            luma | red << 10 | luma << 20,
        ];
        let mut group = [0; GROUP];
        for (bytes, word) in group.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        group
    }

    fn rgb(self) -> [u8; 3] {
        let luma = (f64::from(self.0) - 64.0) / 876.0;
        let [blue, red] = [self.1, self.2].map(|chroma| (f64::from(chroma) - 512.0) / 896.0);
        let rgb = [luma + 1.5748 * red, luma - 0.1873 * blue - 0.4681 * red, luma + 1.8556 * blue];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
        rgb.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8)
    }
}

pub(super) struct Picture {
    bars: Vec<u8>,
    /// Lines of a cell of the counter.
    cell: u16,
}

impl Picture {
    pub(super) fn new(video: Video) -> Self {
        let groups = video.layout().slice_len[0] as usize / GROUP;
        let bars = (0..groups).flat_map(|at| BARS[at * BARS.len() / groups].group()).collect();
        Picture { bars, cell: (video.height / 40).max(1) }
    }

    pub(super) fn line(&self, frame: u64, line: u16, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bars);
        let groups = out.len() / GROUP;
        let mut put = |at: usize, colour: Colour| {
            if let Some(group) = out.get_mut(at * GROUP..(at + 1) * GROUP) {
                group.copy_from_slice(&colour.group());
            }
        };
        let row = line / self.cell;
        if (1..=7).contains(&row) {
            let text = format!("{frame:010}");
            for (place, digit) in text.bytes().enumerate() {
                let shape = DIGITS.get(usize::from(digit.wrapping_sub(b'0'))).copied().unwrap_or(0);
                for column in 0..4 {
                    let is_set =
                        (2..=6).contains(&row) && column < 3 && shape >> (14 - (row - 2) * 3 - column) & 1 == 1;
                    put(1 + place * 4 + usize::from(column), if is_set { WHITE } else { BLACK });
                }
            }
        }
        // Last, so that no line is the same in another frame, or beside itself.
        let step = frame.wrapping_mul(13).wrapping_add(u64::from(line) * 7);
        let moving = usize::try_from(frame % groups as u64).unwrap_or(0);
        put(moving, Colour(u32::try_from(64 + step % 876).unwrap_or(64), 512, 512));
        put((moving + 1) % groups, WHITE);
    }
}

pub(super) fn write_png(path: &Path, video: Video, frame: &[u8]) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Unavailable(format!("cannot write the frame to {}: {error}", path.display()))
    };
    let file = File::create(path).map_err(|error| failed(&error))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), video.width.into(), video.height.into());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| failed(&error))?;
    writer.write_image_data(&rgb(video, frame)).map_err(|error| failed(&error))?;
    writer.finish().map_err(|error| failed(&error))
}

fn rgb(video: Video, frame: &[u8]) -> Vec<u8> {
    let (width, mut pixels) = (usize::from(video.width), Vec::new());
    for line in frame.chunks_exact(video.layout().slice_len[0] as usize) {
        let end = pixels.len() + 3 * width;
        for group in line.chunks_exact(GROUP) {
            let word = |at: usize| group[4 * at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            let part = |at: usize, place: u32| word(at) >> (10 * place) & 0x3ff;
            // By words: Cb Y Cr, Y Cb Y, Cr Y Cb, Y Cr Y.
            let luma = [part(0, 1), part(1, 0), part(1, 2), part(2, 1), part(3, 0), part(3, 2)];
            let chroma = [(part(0, 0), part(0, 2)), (part(1, 1), part(2, 0)), (part(2, 2), part(3, 1))];
            for (at, luma) in luma.into_iter().enumerate() {
                let (blue, red) = chroma[at / 2];
                pixels.extend_from_slice(&Colour(luma, blue, red).rgb());
            }
        }
        pixels.truncate(end);
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(video: Video, number: u64) -> Vec<Vec<u8>> {
        let (picture, mut line) = (Picture::new(video), Vec::new());
        let lines = (0..video.height).map(|at| {
            picture.line(number, at, &mut line);
            line.clone()
        });
        lines.collect()
    }

    #[test]
    fn a_line_differs_from_that_of_other_frames_and_from_its_neighbours() {
        let video: Video = "192x108@60".parse().unwrap();
        let frames: Vec<_> = (100..120).map(|number| frame(video, number)).collect();
        for (at, one) in frames.iter().enumerate() {
            for other in &frames[..at] {
                assert!(one.iter().zip(other).all(|(line, same)| line != same));
            }
            assert!(one.windows(2).all(|lines| lines[0] != lines[1]));
        }
    }

    #[test]
    fn bars_have_their_colours_in_rgb() {
        let video: Video = "672x64@60".parse().unwrap();
        let bytes = frame(video, 0).concat();
        let pixels = rgb(video, &bytes);
        assert_eq!(pixels.len(), 672 * 64 * 3);
        let bottom = &pixels[672 * 63 * 3..];
        let colours: Vec<_> = (0..7).map(|bar| [0, 1, 2].map(|part| bottom[(bar * 96 + 48) * 3 + part])).collect();
        // 75 % of 255, within a rounding of 10 bits.
        for (colour, expected) in colours.iter().zip([0b111, 0b110, 0b011, 0b010, 0b101, 0b100, 0b001]) {
            for (part, value) in colour.iter().enumerate() {
                let full = if expected >> (2 - part) & 1 == 1 { 191 } else { 0 };
                assert!(value.abs_diff(full) <= 1, "{colours:?}");
            }
        }
    }
}

//! Decoding of PNG files with 16 bits a sample, row by row: only one row has the file's depth, so such
//! a picture needs no more memory than one with eight bits.

use std::io::Cursor;

use image::error::{DecodingError, ImageFormatHint, LimitError, LimitErrorKind};
use image::{ColorType, DynamicImage, ImageBuffer, ImageError, ImageFormat};
use png::{Adam7Info, InterlaceInfo, Transformations};

/// Whether pixels of this type have 16 bits a sample.
pub(super) fn is_deep(colour: ColorType) -> bool {
    colour.bytes_per_pixel() == 2 * colour.channel_count()
}

/// Decodes a PNG with 16 bits a sample to eight.
pub(super) fn decode(bytes: &[u8], max_memory_bytes: u64) -> Result<DynamicImage, ImageError> {
    let limits = png::Limits {
        bytes: usize::try_from(max_memory_bytes).unwrap_or(usize::MAX),
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // Palettes and transparent colours become samples, as for pictures with eight bits.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(image_error)?;
    let (width, height) = reader.info().size();
    let channels = reader.output_color_type().0.samples();
    let row_bytes = width as usize * channels;
    let mut pixels = vec![0; row_bytes * height as usize];
    let mut rows = pixels.chunks_exact_mut(row_bytes);
    let mut pass_rows: Vec<u8> = Vec::new();
    if reader.info().interlaced {
        while let Some(row) = reader.next_interlaced_row().map_err(image_error)? {
            pass_rows.clear();
            pass_rows.extend(to_eight_bits(row.data()));
            if let InterlaceInfo::Adam7(place) = row.interlace() {
                expand(&mut pixels, row_bytes, &pass_rows, place, channels);
            }
        }
    } else {
        while let Some(row) = reader.next_row().map_err(image_error)? {
            let Some(target) = rows.next() else { break };
            for (target, sample) in target.iter_mut().zip(to_eight_bits(row.data())) {
                *target = sample;
            }
        }
    }
    let image = match channels {
        1 => ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageLuma8),
        2 => ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageLumaA8),
        3 => ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageRgb8),
        _ => ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageRgba8),
    };
    let too_large =
        || ImageError::Limits(LimitError::from_kind(LimitErrorKind::InsufficientMemory));
    image.ok_or_else(too_large)
}

/// Puts a row of a pass at its places.
fn expand(pixels: &mut [u8], row_bytes: usize, row: &[u8], place: &Adam7Info, channels: usize) {
    let bits = u8::try_from(8 * channels).unwrap_or(u8::MAX);
    png::expand_interlaced_row(pixels, row_bytes, row, place, bits);
}

/// The nearest values of eight bits, as the `image` crate rounds them.
fn to_eight_bits(row: &[u8]) -> impl Iterator<Item = u8> {
    let (samples, _) = row.as_chunks::<2>();
    samples.iter().map(|sample| {
        let nearest = (u32::from(u16::from_be_bytes(*sample)) + 128) / 257;
        u8::try_from(nearest).unwrap_or(u8::MAX)
    })
}

fn image_error(error: png::DecodingError) -> ImageError {
    match error {
        png::DecodingError::LimitsExceeded => {
            ImageError::Limits(LimitError::from_kind(LimitErrorKind::InsufficientMemory))
        }
        error => {
            let format = ImageFormatHint::Exact(ImageFormat::Png);
            ImageError::Decoding(DecodingError::new(format, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 37;
    const HEIGHT: usize = 21;
    /// Where the passes begin, and their steps: x, y, horizontally, vertically.
    const PASSES: [[usize; 4]; 7] = [
        [0, 0, 8, 8],
        [4, 0, 8, 8],
        [0, 4, 4, 8],
        [2, 0, 4, 4],
        [0, 2, 2, 4],
        [1, 0, 2, 2],
        [0, 1, 1, 2],
    ];

    /// A picture, as a file.
    fn file(colour: png::ColorType, is_interlaced: bool) -> Vec<u8> {
        let pixel = |x: usize, y: usize| {
            let first = (y * WIDTH + x) * colour.samples();
            let samples = (first..first + colour.samples())
                .map(|nth| u16::try_from(nth * 7919 % 65_536).unwrap());
            samples.flat_map(u16::to_be_bytes).collect::<Vec<u8>>()
        };
        let passes = if is_interlaced {
            PASSES.to_vec()
        } else {
            vec![[0, 0, 1, 1]]
        };
        let mut data = Vec::new();
        for [left, top, right, down] in passes {
            for y in (top..HEIGHT).step_by(down) {
                // No filter.
                data.push(0);
                data.extend((left..WIDTH).step_by(right).flat_map(|x| pixel(x, y)));
            }
        }
        let mut bytes = Vec::new();
        let (width, height) = (WIDTH.try_into().unwrap(), HEIGHT.try_into().unwrap());
        let mut info = png::Info::with_size(width, height);
        (info.color_type, info.bit_depth) = (colour, png::BitDepth::Sixteen);
        info.interlaced = is_interlaced;
        let encoder = png::Encoder::with_info(&mut bytes, info).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer
            .write_chunk(png::chunk::IDAT, &stored(&data))
            .unwrap();
        drop(writer);
        bytes
    }

    /// A zlib stream of one uncompressed block.
    fn stored(data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap();
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in data {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        let mut stream = vec![0x78, 0x01, 1];
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(data);
        stream.extend((b << 16 | a).to_be_bytes());
        stream
    }

    #[test]
    fn pixels_are_those_of_the_whole_picture() {
        use png::ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
        for colour in [Grayscale, GrayscaleAlpha, Rgb, Rgba] {
            for is_interlaced in [false, true] {
                let bytes = file(colour, is_interlaced);
                let whole = image::load_from_memory(&bytes).unwrap();
                assert!(is_deep(whole.color()));
                let by_rows = decode(&bytes, 1 << 20).unwrap();
                assert!(!is_deep(by_rows.color()));
                assert_eq!(by_rows.to_rgba8(), whole.to_rgba8(), "{colour:?}");
            }
        }
    }

    #[test]
    fn a_picture_that_ends_early_is_an_error() {
        let bytes = file(png::ColorType::Rgb, false);
        assert!(decode(&bytes[..bytes.len() / 2], 1 << 20).is_err());
    }
}

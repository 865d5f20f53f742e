//! One frame of a film that somebody else made, as a picture.
//!
//! The stream is untrusted: it is read as far as its first picture, and that has a limit.

use openh264::decoder::{DecodedYUV, Decoder};
use openh264::formats::YUVSource as _;
use openh264::nal_units;

use crate::picture::Picture;

/// The first picture of an H.264 stream with start codes, which begins with its parameter sets;
/// `None` if it cannot be decoded or has more than `most_pixels`.
pub fn first_picture(stream: &[u8], most_pixels: u64) -> Option<Picture> {
    let mut decoder = Decoder::new().ok()?;
    for unit in nal_units(stream) {
        match decoder.decode(unit) {
            Ok(Some(frame)) => return picture(&frame, most_pixels),
            Ok(None) => {}
            Err(_) => return None,
        }
    }
    let rest = decoder.flush_remaining().ok()?;
    picture(rest.first()?, most_pixels)
}

fn picture(frame: &DecodedYUV<'_>, most_pixels: u64) -> Option<Picture> {
    let (width, height) = frame.dimensions();
    let pixels = width.checked_mul(height)?;
    if pixels == 0 || pixels as u64 > most_pixels {
        return None;
    }
    let mut rgb = vec![0; pixels.checked_mul(3)?];
    frame.write_rgb8(&mut rgb);
    Picture::from_rgb(u32::try_from(width).ok()?, u32::try_from(height).ok()?, rgb)
}

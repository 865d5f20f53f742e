//! Recordings and pictures to send.

use base64::Engine as _;

/// Some seconds of a stereo song: a bass, a voice with vibrato, and a beat of noise
/// that `seed` varies. 16-bit WAV at 44.1 kHz.
pub(crate) fn wav(seconds: u32, seed: u32) -> Vec<u8> {
    let rate = 44_100_u32;
    let mut noise = seed.wrapping_mul(2_654_435_761).max(1);
    let mut samples = Vec::new();
    for n in 0..seconds * rate {
        let t = f64::from(n) / f64::from(rate);
        let tone = |hertz: f64| (std::f64::consts::TAU * hertz * t).sin();
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        let hiss = f64::from(noise) / f64::from(u32::MAX) - 0.5;
        let beat = (-(t * 2.0).fract() * 20.0).exp() * hiss;
        let voice = tone(440.0 + 3.0 * tone(5.0)) * 0.2 + tone(880.0) * 0.1;
        let bass = tone(55.0) * 0.2;
        let left = voice + bass + beat * 0.3 + tone(660.0) * 0.05;
        let right = voice + bass + beat * 0.2 - tone(660.0) * 0.05;
        for sample in [left, right] {
            #[expect(clippy::cast_possible_truncation, reason = "clamped")]
            samples.push((sample.clamp(-0.9, 0.9) * 32_767.0) as i16);
        }
    }
    wav_of(rate, 2, &samples)
}

/// A WAV file of these 16-bit samples.
pub(crate) fn wav_of(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    let length = u32::try_from(data.len()).unwrap();
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend(1_u16.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(channels) * 2).to_le_bytes());
    file.extend((channels * 2).to_le_bytes());
    file.extend(16_u16.to_le_bytes());
    file.extend(b"data");
    file.extend(length.to_le_bytes());
    file.extend(data);
    file
}

/// A small picture.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let picture = image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([
            u8::try_from(x % 256).unwrap(),
            u8::try_from(y % 256).unwrap(),
            90,
        ])
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// A `data:` address.
pub(crate) fn data_url(mime: &str, bytes: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("data:{mime};base64,{text}")
}

/// Whether this is FLAC; its signature is in an ID3 tag before the stream.
pub(crate) fn is_flac(bytes: &[u8]) -> bool {
    let tag = match bytes {
        [b'I', b'D', b'3', _, _, _, length @ ..] if length.len() >= 4 => {
            let seven_bits = length[..4].iter();
            10 + seven_bits.fold(0, |length, byte| length << 7 | usize::from(*byte))
        }
        _ => 0,
    };
    bytes
        .get(tag..)
        .is_some_and(|stream| stream.starts_with(b"fLaC"))
}

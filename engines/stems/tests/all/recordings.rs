//! Recordings as people send them: containers and codecs of every player, headers that are wrong,
//! and files that are damaged, which never come back shorter without saying so.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests fail loudly, and their signals are short and exact"
)]

use proptest::prelude::*;
use stems::encode::flac24;
use stems::{Audio, DecodeError, DecodeLimits, DecodedAudio, decode};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn read(file: &[u8]) -> Result<DecodedAudio, DecodeError> {
    decode(file, &DecodeLimits::default())
}

fn refusal(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

/// A tone with a little of everything, so that no two blocks are equal.
fn tone(frames: usize) -> Audio {
    let wave = |step: f32| {
        (0..frames)
            .map(|n| (n as f32 * step).sin() * 0.4 + (n as f32 * step * 7.3).sin() * 0.1)
            .collect()
    };
    Audio::new(8_000, vec![wave(0.05), wave(0.07)]).unwrap()
}

/// Samples of 16 bits, one channel.
fn samples() -> Vec<i16> {
    (0..8_000)
        .map(|n| ((n * 37) % 20_000 - 10_000) as i16)
        .collect()
}

fn chunk(name: &[u8], contents: &[u8]) -> Vec<u8> {
    let size = u32::try_from(contents.len()).unwrap().to_le_bytes();
    [name, &size, contents].concat()
}

fn format(tag: u16, bits: u16) -> Vec<u8> {
    let block = bits.div_ceil(8);
    let mut bytes = [tag.to_le_bytes(), 1_u16.to_le_bytes()].concat();
    bytes.extend(8_000_u32.to_le_bytes());
    bytes.extend((8_000 * u32::from(block)).to_le_bytes());
    bytes.extend(block.to_le_bytes());
    bytes.extend(bits.to_le_bytes());
    bytes
}

fn little(samples: &[i16]) -> Vec<u8> {
    samples
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect()
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    chunk(b"RIFF", &[b"WAVE", &chunks.concat()[..]].concat())
}

/// A plain WAV file of 8,000 samples; its data chunk is at 36.
fn plain() -> Vec<u8> {
    riff(&[
        chunk(b"fmt ", &format(1, 16)),
        chunk(b"data", &little(&samples())),
    ])
}

fn assert_samples(name: &str, file: &[u8]) -> DecodedAudio {
    let decoded = read(file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let expected: Vec<f32> = samples().iter().map(|x| f32::from(*x) / 32_768.0).collect();
    assert_eq!(decoded.audio.channels(), [expected], "{name}");
    decoded
}

#[test]
fn what_every_player_reads_is_read() {
    for (name, rate, frames, slack) in [
        ("alac.m4a", 8_000, 2_000, 0),
        ("tone.aiff", 8_000, 2_000, 0),
        ("sowt.aifc", 8_000, 2_000, 0),
        ("alac.caf", 8_000, 2_000, 0),
        ("tone.mka", 8_000, 2_000, 0),
        ("tone.oga", 8_000, 2_000, 0),
        ("tone.mp2", 44_100, 11_025, 1_152),
        ("adpcm.wav", 8_000, 2_000, 1_024),
        ("mp3-inside.wav", 44_100, 11_025, 2_500),
        ("tone.opus", 48_000, 24_000, 0),
        ("opus.webm", 48_000, 12_000, 960),
        ("opus.m4a", 48_000, 12_000, 960),
    ] {
        let decoded = read(&fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let audio = &decoded.audio;
        assert_eq!((audio.rate(), audio.channels().len()), (rate, 2), "{name}");
        let difference = audio.frames().abs_diff(frames);
        assert!(difference <= slack, "{name}: {} frames", audio.frames());
        assert!(decoded.damage.is_empty(), "{name}");
        // 0.4 and 0.3 of a sine, and silence where an encoder's padding is not known.
        let level = (0.08 + 0.045_f64).sqrt() / 2_f64.sqrt();
        let rms = audio.rms() * (audio.frames() as f64 / frames as f64).sqrt();
        assert!((rms - level).abs() < 0.02, "{name}: {rms}");
        assert!(audio.peak() < 0.6, "{name}: {}", audio.peak());
    }
}

#[test]
fn headers_of_wav_files_are_mended() {
    let plain = plain();
    assert_samples("plain", &plain);
    let with = |at: usize, value: u32| {
        let mut file = plain.clone();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        file
    };
    let total = u32::try_from(plain.len() - 8).unwrap();
    assert_samples("a total 8 bytes too small", &with(4, total - 8));
    assert_samples("a total of nought", &with(4, 0));
    assert_samples("data of nought", &with(40, 0));
    let mut died = with(40, 0);
    died[4..8].fill(0);
    assert_samples("a recorder that died", &died);
    let beyond = assert_samples("data beyond the file", &with(40, 20_000));
    assert_eq!(beyond.damage.len(), 1, "the missing end is told");
    let pipe = assert_samples("a pipe", &with(40, u32::MAX));
    assert!(pipe.damage.is_empty());
    let unpadded = riff(&[
        chunk(b"fmt ", &format(1, 16)),
        chunk(b"LIST", b"INFOodd"),
        chunk(b"data", &little(&samples())),
    ]);
    assert_samples("an odd chunk without padding", &unpadded);
    // Twelve bits stand in the upper part of sixteen.
    let mut twelve = plain.clone();
    twelve[34] = 12;
    assert_samples("12 bits in 16", &twelve);
}

#[test]
fn other_kinds_of_wav_are_read() {
    const TAIL: &[u8; 12] = b"\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a";
    let data = little(&samples());
    let mut rf64 = plain();
    rf64[..8].copy_from_slice(b"RF64\xff\xff\xff\xff");
    let mut sizes = 16_100_u64.to_le_bytes().to_vec();
    sizes.extend(16_000_u64.to_le_bytes());
    sizes.extend([0; 12]);
    rf64.splice(12..12, chunk(b"ds64", &sizes));
    let data_at = rf64
        .windows(4)
        .position(|window| window == b"data")
        .unwrap();
    rf64[data_at + 4..data_at + 8].fill(0xff);
    assert_samples("RF64", &rf64);
    rf64[..4].copy_from_slice(b"BW64");
    assert_samples("BW64", &rf64);

    let big = |value: u32| value.to_be_bytes();
    let mut rifx = [b"RIFX", &big(36 + 16_000)[..], b"WAVEfmt ", &big(16)].concat();
    rifx.extend([0, 1, 0, 1]);
    rifx.extend([big(8_000), big(16_000)].concat());
    rifx.extend([0, 2, 0, 16]);
    rifx.extend([b"data", &big(16_000)[..]].concat());
    rifx.extend(samples().iter().flat_map(|sample| sample.to_be_bytes()));
    assert_samples("RIFX", &rifx);

    let part = |name: &[u8], contents: &[u8]| {
        let size = (24 + contents.len() as u64).to_le_bytes();
        [name, TAIL, &size, contents].concat()
    };
    let mut wave64 = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00".to_vec();
    wave64.extend(16_104_u64.to_le_bytes());
    wave64.extend([b"wave", &TAIL[..]].concat());
    wave64.extend(part(b"fmt ", &format(1, 16)));
    wave64.extend(part(b"data", &data));
    assert_samples("Wave64", &wave64);
}

#[test]
fn mu_law_is_read_with_any_length_of_its_format() {
    let sound = vec![0x55; 8_000];
    for extra in [0, 2, 4] {
        let mut format = format(7, 8);
        format.resize(16 + extra, 0);
        let file = riff(&[chunk(b"fmt ", &format), chunk(b"data", &sound)]);
        assert_eq!(read(&file).unwrap().audio.frames(), 8_000, "{extra}");
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let tagged = |tag: u16| riff(&[chunk(b"fmt ", &format(tag, 8)), chunk(b"data", &[0; 64])]);
    for (file, name) in [
        (tagged(0x31), "GSM 6.10 inside WAV"),
        (tagged(0x161), "Windows Media Audio inside WAV"),
        (tagged(0x2000), "AC-3 inside WAV"),
        (b"wvpk\0\0\0\0".to_vec(), "WavPack"),
        (b"MAC \x96\x0f".to_vec(), "Monkey's Audio"),
        (b"#!AMR\n".to_vec(), "AMR"),
        (b".snd\0\0\0\x18".to_vec(), "Sun AU"),
        (b"TTA1\x01\0".to_vec(), "True Audio"),
    ] {
        let error = refusal(&file);
        assert!(
            error.starts_with(name) && error.contains("convert it to"),
            "{error}"
        );
    }
}

#[test]
fn half_of_the_frequencies_are_not_taken_for_the_whole() {
    let file = fixture("tone.m4a");
    // The configuration of AAC-LC at 44,100 Hz in stereo, and of what HE-AAC adds.
    let at = file
        .windows(5)
        .position(|w| w == [0x12, 0x10, 0x56, 0xe5, 0x00])
        .unwrap();
    assert!(read(&file).is_ok());
    let mut doubled = file.clone();
    doubled[at + 4] = 0xa0;
    assert!(refusal(&doubled).starts_with("HE-AAC is not supported"));
    let mut surround = file;
    surround[at + 1] = 0x30;
    assert!(refusal(&surround).starts_with("AAC with 6 channels is not supported"));
}

#[test]
fn a_phones_sound_is_named() {
    let mut file = fixture("tone.m4a");
    let at = file.windows(4).position(|w| w == b"mp4a").unwrap();
    file[at..at + 4].copy_from_slice(b"samr");
    assert!(refusal(&file).starts_with("AMR audio is not supported"));
}

#[test]
fn a_box_beyond_the_file_is_mended() {
    let file = fixture("tone.m4a");
    let whole = read(&file).unwrap();
    let at = file.windows(4).position(|w| w == b"mdat").unwrap() - 4;
    let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    // The header stands behind the sound here, so the sound goes behind the header.
    let (start, end) = (at, at + size as usize);
    if end == file.len() {
        let mut long = file.clone();
        long[at..at + 4].copy_from_slice(&(size + 5_000).to_be_bytes());
        assert_eq!(read(&long).unwrap().audio, whole.audio);
    } else {
        assert!(start < end);
    }
}

#[test]
fn flac_is_whole_whatever_stands_around_it() {
    let audio = tone(20_000);
    let file = flac24(&audio).unwrap();
    let whole = read(&file).unwrap();
    assert_eq!(whole.audio.frames(), 20_000);
    let same = |name: &str, file: &[u8]| {
        let decoded = read(file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(decoded.audio == whole.audio, "{name}");
        assert!(decoded.damage.is_empty(), "{name}");
    };
    let mut least = file.clone();
    least[8..10].fill(0);
    same("a least block of nought", &least);
    same("999 bytes behind", &[&file[..], &[0xa5; 999]].concat());
    same("999 bytes before", &[&[0x5a; 999][..], &file[..]].concat());
    let mut rubbish = file.clone();
    rubbish.splice(42..42, [0xff, 0xf8, 1, 2, 3, 0, 7]);
    same("rubbish before the first frame", &rubbish);
    let twice = read(&[&file[..], &file[..]].concat()).unwrap();
    assert_eq!(twice.audio.frames(), 40_000);
    assert_eq!(
        twice.audio.channels()[0][20_000..],
        whole.audio.channels()[0][..]
    );
}

#[test]
fn a_hole_is_silence_of_its_own_length_and_is_told() {
    let audio = tone(60_000);
    let file = flac24(&audio).unwrap();
    let whole = read(&file).unwrap();
    let mut flipped = file.clone();
    flipped[file.len() / 2] ^= 0x10;
    let decoded = read(&flipped).unwrap();
    assert_eq!(decoded.audio.frames(), 60_000);
    let [hole] = decoded.damage[..] else {
        panic!("{:?}", decoded.damage)
    };
    let (start, end) = ((hole.start * 8_000.0).round(), (hole.end * 8_000.0).round());
    #[expect(clippy::cast_sign_loss, reason = "positions")]
    let hole = start as usize..end as usize;
    for (n, (x, y)) in decoded.audio.channels()[0]
        .iter()
        .zip(&whole.audio.channels()[0])
        .enumerate()
    {
        assert!(*x == if hole.contains(&n) { 0.0 } else { *y }, "{n}");
    }
}

#[test]
fn a_file_that_is_cut_is_not_taken_for_the_whole() {
    let flac = flac24(&tone(60_000)).unwrap();
    for (name, file) in [("flac", flac), ("mp3", fixture("tone.mp3"))] {
        let error = refusal(&file[..file.len() * 7 / 10]);
        assert!(
            error.contains("it ends at") && error.contains("seconds"),
            "{name}: {error}"
        );
    }
    let mut holed = flac24(&tone(60_000)).unwrap();
    let (start, end) = (holed.len() * 3 / 10, holed.len() * 5 / 10);
    holed[start..end].fill(0x33);
    assert!(refusal(&holed).contains("cannot be read, the first at"));
}

#[test]
fn noise_beyond_what_a_format_holds_is_damage_and_loud_floats_are_kept() {
    let loud = Audio::new(8_000, vec![vec![1.98, -6.0, 0.5]]).unwrap();
    let file = stems::encode::wav32f(&loud).unwrap();
    assert_eq!(read(&file).unwrap().audio, loud);
}

#[derive(Debug, Clone)]
enum Injury {
    Delete(f64, usize),
    Flip(f64, u8),
    Insert(f64, Vec<u8>),
}

fn injury() -> impl Strategy<Value = Injury> {
    prop_oneof![
        (0.1..0.95f64, 1..600usize).prop_map(|(at, count)| Injury::Delete(at, count)),
        (0.1..0.95f64, 0..8u8).prop_map(|(at, bit)| Injury::Flip(at, bit)),
        (0.1..0.95f64, proptest::collection::vec(any::<u8>(), 1..600))
            .prop_map(|(at, bytes)| Injury::Insert(at, bytes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn never_shorter_without_saying_so(
        name in proptest::sample::select(&["flac", "tone.mp3", "tone.m4a", "tone.ogg", "tone.oga", "tone.opus", "alac.m4a", "tone.mka"][..]),
        injuries in proptest::collection::vec(injury(), 1..4),
    ) {
        let file = match name {
            "flac" => flac24(&tone(60_000)).unwrap(),
            name => fixture(name),
        };
        let whole = read(&file).unwrap();
        let mut injured = file.clone();
        for injury in &injuries {
            #[expect(clippy::cast_sign_loss, reason = "positions")]
            let at = |share: f64| ((injured.len() as f64 * share) as usize).min(injured.len() - 1);
            match injury {
                Injury::Delete(share, count) => {
                    let start = at(*share);
                    let end = (start + count).min(injured.len());
                    injured.drain(start..end);
                }
                Injury::Flip(share, bit) => {
                    let at = at(*share);
                    injured[at] ^= 1 << bit;
                }
                Injury::Insert(share, bytes) => {
                    let at = at(*share);
                    injured.splice(at..at, bytes.iter().copied());
                }
            }
        }
        if let Ok(decoded) = read(&injured) {
            let is_shorter = decoded.audio.frames() < whole.audio.frames();
            prop_assert!(
                !is_shorter || !decoded.damage.is_empty(),
                "{}: {} of {}", name, decoded.audio.frames(), whole.audio.frames()
            );
        }
    }
}

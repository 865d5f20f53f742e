//! Prints what the watermark of sound withstands: excerpts of the recordings in a folder, marked,
//! attacked by ffmpeg and read back. Also how well the mark is hidden, what it costs, and what
//! unmarked excerpts give.
//!
//! `cargo run --release -p provenance --example sound_mark_table -- FOLDER [SECONDS] [EXCERPTS]`

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measuring program"
)]

use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use provenance::watermark::MarkKey;
use provenance::watermark::sound::{SoundDetector, SoundEmbedder, SoundMark};

#[path = "sound_mark_table/masking.rs"]
mod masking;

type Outcome<T> = Result<T, Box<dyn Error>>;

const RATE: u32 = 44_100;
/// Wrong keys that are tried on each unmarked excerpt.
const WRONG_KEYS: u32 = 50;

/// Name, the encoder's arguments, its container, and the sample rate for decoding.
const ATTACKS: [(&str, &[&str], &str, u32); 9] = [
    ("as it is", &[], "wav", RATE),
    ("MP3, 128 kbit/s", &["-b:a", "128k"], "mp3", RATE),
    (
        "AAC, 96 kbit/s",
        &["-c:a", "aac", "-b:a", "96k"],
        "adts",
        RATE,
    ),
    (
        "Opus, 64 kbit/s",
        &["-c:a", "libopus", "-b:a", "64k"],
        "ogg",
        48_000,
    ),
    ("48,000 samples a second", &["-ar", "48000"], "wav", 48_000),
    ("22,050 samples a second", &["-ar", "22050"], "wav", 22_050),
    (
        "12 dB softer, 16 bits",
        &["-af", "volume=-12dB"],
        "wav",
        RATE,
    ),
    (
        "cut after 5.432 s",
        &["-af", "atrim=start=5.432"],
        "wav",
        RATE,
    ),
    (
        "cut, 6 dB softer, mono, MP3 at 128 kbit/s, AAC at 96",
        &[
            "-af",
            "atrim=start=5.432,volume=-6dB",
            "-ac",
            "1",
            "-b:a",
            "128k",
        ],
        "mp3",
        RATE,
    ),
];

#[derive(Default, Clone, Copy)]
struct Row {
    read: usize,
    other: usize,
    corrected: f32,
}

#[derive(Default)]
struct Table {
    rows: [Row; ATTACKS.len()],
    excerpts: usize,
    alarms: usize,
    /// Best scores of wrong keys on unmarked sound, and of the right key on marked sound.
    chance: Vec<f32>,
    scores: Vec<f32>,
    signal_to_mark: Vec<f64>,
    noise_to_mask: Vec<f64>,
    audible: Vec<f64>,
    marking: f64,
    searching: f64,
    seconds: f64,
}

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    let number = |index: usize, default: usize| {
        std::env::args()
            .nth(index)
            .map_or(Ok(default), |text| text.parse())
    };
    let (seconds, max_excerpts) = (number(2, 30)?, number(3, 200)?);
    let mut files = Vec::new();
    recordings(Path::new(&folder), &mut files)?;
    files.sort();
    let mut table = Table::default();
    // One excerpt of each recording, then a later one of each.
    for round in 0..max_excerpts.div_ceil(files.len().max(1)) {
        for (number, file) in files.iter().enumerate() {
            if table.excerpts == max_excerpts {
                break;
            }
            let start = 15 + round * seconds;
            let stereo = decode(&std::fs::read(file)?, RATE, 2, &start.to_string(), seconds)?;
            if stereo[0].len() < RATE as usize * seconds || is_silent(&stereo[0]) {
                continue;
            }
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            table.add(
                &format!("{name} from {start} s"),
                (round * files.len() + number) as u64,
                &stereo,
            )?;
        }
    }
    table.print(seconds);
    Ok(())
}

fn recordings(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            recordings(&path, files)?;
        } else if path.extension().is_some_and(|extension| {
            ["ogg", "flac", "mp3", "wav"]
                .iter()
                .any(|supported| extension == *supported)
        }) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_silent(samples: &[f32]) -> bool {
    samples.iter().map(|sample| sample * sample).sum::<f32>() < 1e-8 * samples.len() as f32
}

impl Table {
    fn add(&mut self, name: &str, number: u64, plain: &[Vec<f32>]) -> Outcome<()> {
        let key = MarkKey::new(0x00c0_ffee, 77)?;
        let media = ((number + 1) * 0x12_3456_789b) & ((1 << 40) - 1);
        let started = Instant::now();
        let mut embedder = SoundEmbedder::new(&key, media, RATE, plain.len())?;
        let mut marked = embedder.push(plain);
        for (channel, last) in marked.iter_mut().zip(embedder.finish()) {
            channel.extend(last);
        }
        self.marking += started.elapsed().as_secs_f64();
        self.seconds += plain[0].len() as f64 / f64::from(RATE);
        self.excerpts += 1;
        let masking_result = masking::judge(plain, &marked, RATE);
        self.signal_to_mark.push(masking_result.signal_to_mark);
        self.noise_to_mask.push(masking_result.noise_to_mask);
        self.audible.push(masking_result.audible_share);
        for (row, (attack, encoder_args, format, rate)) in self.rows.iter_mut().zip(ATTACKS) {
            let mut attacked = encode(&marked, encoder_args, format)?;
            if attack.ends_with("AAC at 96") {
                let pcm = decode(&attacked, RATE, 1, "0", usize::MAX)?;
                attacked = encode(&pcm, &["-c:a", "aac", "-b:a", "96k"], "adts")?;
            }
            let sound = decode(&attacked, rate, 2, "0", usize::MAX)?;
            let started = Instant::now();
            let (mark, score) = read(&sound, rate, &key)?;
            if attack == "as it is" {
                self.searching += started.elapsed().as_secs_f64();
                self.scores.push(score);
            }
            match mark {
                Some(mark) if mark.media_id == media => {
                    row.read += 1;
                    row.corrected += mark.corrected;
                }
                mark => {
                    row.other += usize::from(mark.is_some());
                    println!("{name}: {attack}: {mark:?}, score {score:.1}");
                }
            }
        }
        let mut detector = SoundDetector::new(RATE)?;
        detector.push_samples(plain);
        for secret in 0..WRONG_KEYS {
            let key = MarkKey::new(0x00c0_ffee, 1000 + u64::from(secret))?;
            self.chance.push(detector.score(&key));
            self.alarms += usize::from(detector.read(&key).is_some());
        }
        Ok(())
    }

    fn print(&mut self, seconds: usize) {
        let excerpts = self.excerpts;
        println!("\n{excerpts} excerpts of {seconds} s\n");
        println!("| | read | read wrongly | code bits corrected |\n|---|---|---|---|");
        for (row, (name, ..)) in self.rows.iter().zip(ATTACKS) {
            println!(
                "| {name} | {} of {excerpts} | {} | {:.1} % |",
                row.read,
                row.other,
                100.0 * row.corrected / row.read.max(1) as f32
            );
        }
        for values in [
            &mut self.signal_to_mark,
            &mut self.noise_to_mask,
            &mut self.audible,
        ] {
            values.sort_by(f64::total_cmp);
        }
        self.scores.sort_by(f32::total_cmp);
        self.chance.sort_by(f32::total_cmp);
        let (min, max) = (
            |values: &[f64]| values[0],
            |values: &[f64]| values[values.len() - 1],
        );
        println!(
            "\nsignal to mark: least {:.1} dB, median {:.1} dB",
            min(&self.signal_to_mark),
            self.signal_to_mark[excerpts / 2]
        );
        println!(
            "noise to mask: median {:.1} dB, most {:.1} dB; parts above the mask: median {:.2} %, most {:.2} %",
            self.noise_to_mask[excerpts / 2],
            max(&self.noise_to_mask),
            100.0 * self.audible[excerpts / 2],
            100.0 * max(&self.audible)
        );
        let count = self.chance.len();
        let mean = self.chance.iter().sum::<f32>() / count as f32;
        println!(
            "{count} trials without a mark: {} read; best score {mean:.2} in the mean, {:.2} at most",
            self.alarms,
            self.chance[count - 1]
        );
        println!(
            "scores with a mark: least {:.2}, median {:.2}",
            self.scores[0],
            self.scores[excerpts / 2]
        );
        println!(
            "cost: marking {:.2} ms a second of stereo, searching {:.2} ms",
            1000.0 * self.marking / self.seconds,
            1000.0 * self.searching / self.seconds
        );
    }
}

fn read(sound: &[Vec<f32>], rate: u32, key: &MarkKey) -> Outcome<(Option<SoundMark>, f32)> {
    let mut detector = SoundDetector::new(rate)?;
    detector.push_samples(sound);
    let mark = detector.read(key);
    let score = detector.score(key);
    Ok((mark, score))
}

fn encode(channels: &[Vec<f32>], encoder_args: &[&str], format: &str) -> Outcome<Vec<u8>> {
    let mut pcm = Vec::new();
    for index in 0..channels[0].len() {
        for channel in channels {
            pcm.extend(channel[index].to_le_bytes());
        }
    }
    let (rate, count) = (RATE.to_string(), channels.len().to_string());
    let mut command = ffmpeg(&["-f", "f32le", "-ar", &rate, "-ac", &count, "-i", "-"]);
    command.args(encoder_args).args(["-f", format, "-"]);
    pipe_through(command, &pcm)
}

fn decode(
    file: &[u8],
    rate: u32,
    channels: usize,
    start: &str,
    seconds: usize,
) -> Outcome<Vec<Vec<f32>>> {
    let mut command = ffmpeg(&["-i", "-", "-ss", start]);
    let (rate, count) = (rate.to_string(), channels.to_string());
    if seconds < usize::MAX {
        command.args(["-t", &seconds.to_string()]);
    }
    command.args(["-f", "f32le", "-ar", &rate, "-ac", &count, "-"]);
    let pcm = pipe_through(command, file)?;
    let mut sound = vec![Vec::new(); channels];
    for frame in pcm.chunks_exact(4 * channels) {
        for (channel, bytes) in sound.iter_mut().zip(frame.as_chunks::<4>().0) {
            channel.push(f32::from_le_bytes(*bytes));
        }
    }
    Ok(sound)
}

fn ffmpeg(args: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-threads", "1"]).args(args);
    command
}

fn pipe_through(mut command: Command, input: &[u8]) -> Outcome<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut stdin, mut stdout) = (
        child.stdin.take().ok_or("no input")?,
        child.stdout.take().ok_or("no output")?,
    );
    let mut output = Vec::new();
    std::thread::scope(|scope| {
        // ffmpeg may stop reading when it has enough.
        let writer = scope.spawn(move || drop(stdin.write_all(input)));
        let result = stdout.read_to_end(&mut output);
        drop(writer.join());
        result
    })?;
    if !child.wait()?.success() {
        return Err("ffmpeg failed".into());
    }
    Ok(output)
}

//! Prints how far fingerprints move when films and sounds are encoded again by ffmpeg, how far
//! apart fingerprints of different ones are, and which films a registry of all finds by its index.
//!
//! `cargo run --release -p provenance --example fingerprint_table -- [FILMS]`

#![expect(clippy::print_stdout, reason = "a measuring program")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use animatic::{Direction, RenderControl, RenderOptions, RenderRequest, RequestedOptions};
use provenance::fingerprint::{sound, sound::SoundPrint, video, video::VideoPrint};

type Outcome<T> = Result<T, Box<dyn Error>>;

const FILMS: [&str; 8] = [
    "a lake under the mountains at dawn, slow dolly in, mist",
    "a neon city at night in the rain, truck right",
    "desert dunes at sunset, slow pan left",
    "a snowy forest by night, heavy snowfall, slow push in",
    "a galaxy and a planet, orbit left",
    "a harbour by the sea at sunset, handheld",
    "a meadow with flowers in the sun, pan right",
    "an island in the ocean, tilt up",
];
const FILM_ATTACKS: [(&str, &str); 5] = [
    ("as it is", "null"),
    ("480p", "scale=854:480"),
    ("brighter", "eq=brightness=0.08:contrast=1.1"),
    ("5 % cropped", "crop=iw*0.95:ih*0.95"),
    ("10 % cropped", "crop=iw*0.9:ih*0.9"),
];
const SOUND_ATTACKS: [(&str, &[&str]); 4] = [
    (
        "MP3, 64 kbit/s",
        &["-c:a", "libmp3lame", "-b:a", "64k", "-f", "mp3"],
    ),
    (
        "AAC, 48 kbit/s",
        &["-c:a", "aac", "-b:a", "48k", "-f", "adts"],
    ),
    (
        "Opus, 32 kbit/s",
        &["-c:a", "libopus", "-b:a", "32k", "-f", "ogg"],
    ),
    (
        "half as loud, low-pass at 4 kHz",
        &["-af", "volume=0.5,lowpass=4000", "-f", "wav"],
    ),
];
const SOUNDS: u32 = 8;
const RATE: u32 = 44_100;

fn main() -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("fingerprints-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(FILMS.len()), |text| text.parse())?;
    let result = films(&folder, count).and_then(|()| sounds(&folder));
    std::fs::remove_dir_all(&folder)?;
    result
}

fn films(folder: &Path, count: usize) -> Outcome<()> {
    let mut originals = Vec::new();
    for (number, prompt) in FILMS.iter().cycle().take(count).enumerate() {
        let requested = RequestedOptions {
            size: Some((1280, 720)),
            seconds: Some(6.0),
            seed: Some(number as u64),
            ..RequestedOptions::default()
        };
        let options = RenderOptions::resolve(&requested, &Direction::parse(prompt))?;
        let request = RenderRequest {
            picture: None,
            prompt,
            options,
        };
        let film = animatic::make(&request, &mut RenderControl::unattended())?.mp4;
        let path = folder.join(format!("{number}.mp4"));
        std::fs::write(&path, &film)?;
        originals.push((video_print(&path)?, path, film.len() * 8 / 6));
    }
    let registry = Registry::of(originals.iter().map(|(print, ..)| print.clone()).collect());
    println!(
        "{count} films: similar below {}\n\n| | farthest | counted as similar | found | and others |\n|---|---|---|---|---|",
        video::THRESHOLD
    );
    for (name, filter) in FILM_ATTACKS {
        let mut row = Row::default();
        let (mut found, mut others) = (0, 0);
        for (number, (print, path, rate)) in originals.iter().enumerate() {
            let encoded_again = folder.join("again.mp4");
            let half = (rate / 2).to_string();
            ffmpeg(
                path,
                &["-vf", filter, "-c:v", "libx264", "-b:v", &half, "-an"],
                &encoded_again,
            )?;
            let encoded_again = video_print(&encoded_again)?;
            row.add(
                print
                    .compare(&encoded_again)
                    .map_or(1.0, |found| found.distance),
                print.match_within_threshold(&encoded_again).is_some(),
            );
            let matches = registry.find(&encoded_again);
            found += usize::from(matches.contains(&number));
            others += matches.iter().filter(|other| **other != number).count();
        }
        println!(
            "| half the bit rate, {name} | {:.3} | {} of {count} | {found} of {count} | {others} |",
            row.farthest, row.alike
        );
    }
    let mut nearest = 1.0f32;
    for (index, (first, ..)) in originals.iter().enumerate() {
        for (other, ..) in originals.iter().skip(index + 1) {
            nearest = nearest.min(first.compare(other).map_or(1.0, |found| found.distance));
        }
    }
    println!("\nnearest of two different films: {nearest:.3}\n");
    Ok(())
}

/// Finds prints as the gateway's registry does: by parts of them, then by comparing those that
/// share most.
struct Registry {
    prints: Vec<VideoPrint>,
    parts: HashMap<u32, Vec<usize>>,
}

impl Registry {
    /// Frames of a film in the index, and of a film that is searched for; and films compared.
    const INDEX_FRAMES: usize = 12;
    const QUERY_FRAMES: usize = 24;
    const MAX_COMPARED: usize = 32;

    fn of(prints: Vec<VideoPrint>) -> Self {
        let mut parts: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, print) in prints.iter().enumerate() {
            // The gateway keeps only the first seconds of a hosted film; these films have no more.
            for part in print.keys(Self::INDEX_FRAMES) {
                parts.entry(part).or_default().push(number);
            }
        }
        Self { prints, parts }
    }

    fn find(&self, query: &VideoPrint) -> Vec<usize> {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for part in query.keys(Self::QUERY_FRAMES) {
            for number in self.parts.get(&part).into_iter().flatten() {
                *shared.entry(*number).or_default() += 1;
            }
        }
        let mut shared: Vec<(usize, usize)> = shared.into_iter().collect();
        shared.sort_by_key(|(_, parts)| std::cmp::Reverse(*parts));
        let compared = shared.into_iter().take(Self::MAX_COMPARED);
        let similar = compared
            .filter(|(number, _)| self.prints[*number].match_within_threshold(query).is_some());
        similar.map(|(number, _)| number).collect()
    }
}

fn sounds(folder: &Path) -> Outcome<()> {
    let mut originals = Vec::new();
    for number in 0..SOUNDS {
        let path = folder.join(format!("{number}.wav"));
        let notes = format!(
            "aevalsrc=exprs='0.2*exp(-3*mod(t*4,1))*(sin(2*PI*t*220*pow(2,floor(mod(floor(t*4)*{}+{number},19))/12))\
             +0.5*sin(2*PI*t*330*pow(2,floor(mod(floor(t*4)*{}+{number},23))/12)))+0.02*(random(0)-0.5)':s={RATE}:d=20",
            number * 2 + 5,
            number * 3 + 7
        );
        let status = Command::new("ffmpeg")
            .args(["-v", "error", "-y", "-f", "lavfi", "-i", &notes])
            .arg(&path)
            .status()?;
        if !status.success() {
            return Err("ffmpeg failed".into());
        }
        originals.push((sound_print(&path)?, path));
    }
    println!(
        "sounds: similar below {}\n\n| | farthest | counted as similar |\n|---|---|---|",
        sound::THRESHOLD
    );
    for (name, encoder_args) in SOUND_ATTACKS {
        let mut row = Row::default();
        for (print, path) in &originals {
            let encoded_again = folder.join("again");
            ffmpeg(path, encoder_args, &encoded_again)?;
            let encoded_again = sound_print(&encoded_again)?;
            row.add(
                print
                    .compare(&encoded_again)
                    .map_or(1.0, |found| found.distance),
                print.match_within_threshold(&encoded_again).is_some(),
            );
        }
        row.print(name, originals.len());
    }
    let mut alarms = 0;
    for (index, (first, _)) in originals.iter().enumerate() {
        alarms += originals
            .iter()
            .skip(index + 1)
            .filter(|(other, _)| first.match_within_threshold(other).is_some())
            .count();
    }
    println!("\ndifferent sounds counted as similar: {alarms}");
    Ok(())
}

#[derive(Default)]
struct Row {
    farthest: f32,
    alike: usize,
}

impl Row {
    fn add(&mut self, distance: f32, alike: bool) {
        self.farthest = self.farthest.max(distance);
        self.alike += usize::from(alike);
    }

    fn print(&self, name: &str, total: usize) {
        println!(
            "| {name} | {:.3} | {} of {total} |",
            self.farthest, self.alike
        );
    }
}

fn ffmpeg(source: &Path, encoder_args: &[&str], target: &Path) -> Outcome<()> {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-v", "error", "-y", "-i"])
        .arg(source)
        .args(encoder_args)
        .arg(target);
    if !command.status()?.success() {
        return Err("ffmpeg failed".into());
    }
    Ok(())
}

fn video_print(path: &Path) -> Outcome<VideoPrint> {
    let (width, height) = (320, 180);
    let decoded = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(path)
        .args([
            "-vf",
            "fps=1,scale=320:180",
            "-pix_fmt",
            "gray",
            "-f",
            "rawvideo",
            "-",
        ])
        .output()?;
    let mut print = VideoPrint::default();
    for luma in decoded.stdout.chunks_exact(width * height) {
        print.add(luma, width, height, width)?;
    }
    Ok(print)
}

fn sound_print(path: &Path) -> Outcome<SoundPrint> {
    let decoded = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(path)
        .args(["-ac", "1", "-ar", "44100", "-f", "f32le", "-"])
        .output()?;
    let (samples, _) = decoded.stdout.as_chunks::<4>();
    let samples: Vec<f32> = samples
        .iter()
        .map(|sample| f32::from_le_bytes(*sample))
        .collect();
    Ok(SoundPrint::from_mono(&samples, RATE)?)
}

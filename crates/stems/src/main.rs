//! `stems song.ext OUTDIR`: separates a sound file into WAV files, from a terminal.
//!
//! Only arguments, files and words; everything about sound is the library's.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use stems::{Audio, Control, DecodeLimits, Stem};

const HELP: &str = "\
Separates a song into stems.

Usage: stems SONG OUTDIR [--stems LIST]

SONG is a WAV, FLAC, MP3, AAC, M4A or Ogg Vorbis file of at most 15 minutes. Each stem is written
to OUTDIR/<stem>.wav as 32-bit float with the song's rate, length and channels. The stems vocals,
drums, bass and other sum to the song, and so do vocals and instrumental.

Options:
  --stems LIST   stems to write, separated by commas, out of vocals, drums, bass, other and
                 instrumental [default: all of them]
  -h, --help     print this help

Exit codes: 0 done, 1 failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let (code, words) = match Order::read(std::env::args_os().skip(1)) {
        Ok(Some(order)) => match run(&order) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(reason) => (1, format!("stems: {reason}\n")),
        },
        Ok(None) => {
            // A reader that went away has seen all it wanted.
            let _ = std::io::stdout().lock().write_all(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(reason) => (2, format!("stems: {reason}\nTry 'stems --help'.\n")),
    };
    let _ = std::io::stderr().lock().write_all(words.as_bytes());
    ExitCode::from(code)
}

/// What the command line asks for.
struct Order {
    song: PathBuf,
    folder: PathBuf,
    stems: Vec<Stem>,
}

impl Order {
    /// `None` is the wish for help.
    fn read(words: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut words = words.peekable();
        let (mut paths, mut stems, mut only_paths) = (Vec::new(), Stem::ALL.to_vec(), false);
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("-h" | "--help") if !only_paths => return Ok(None),
                Some("--") if !only_paths => only_paths = true,
                Some("--stems") if !only_paths => {
                    let list = words
                        .next()
                        .ok_or("--stems needs a list, such as vocals,drums")?;
                    stems = list_of_stems(&list.to_string_lossy())?;
                }
                Some(word) if !only_paths && word.starts_with("--stems=") => {
                    stems = list_of_stems(&word["--stems=".len()..])?;
                }
                Some(word) if !only_paths && word.starts_with('-') && word.len() > 1 => {
                    return Err(format!("there is no option '{word}'"));
                }
                _ => paths.push(PathBuf::from(word)),
            }
        }
        let [song, folder] = <[PathBuf; 2]>::try_from(paths).map_err(|paths| {
            format!(
                "a song and a folder are needed, and {} paths were given",
                paths.len()
            )
        })?;
        Ok(Some(Self {
            song,
            folder,
            stems,
        }))
    }
}

fn list_of_stems(list: &str) -> Result<Vec<Stem>, String> {
    let mut stems = Vec::new();
    for name in list.split(',').filter(|name| !name.trim().is_empty()) {
        let stem = Stem::parse(name).ok_or_else(|| {
            let known = Stem::ALL.map(Stem::name).join(", ");
            format!("there is no stem '{}', only {known}", name.trim())
        })?;
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    if stems.is_empty() {
        Err("--stems names no stem".to_owned())
    } else {
        Ok(stems)
    }
}

fn run(order: &Order) -> Result<(), String> {
    let started = Instant::now();
    let named =
        |path: &Path, reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let bytes = std::fs::read(&order.song).map_err(|e| named(&order.song, &e))?;
    let decoded =
        stems::decode(&bytes, &DecodeLimits::default()).map_err(|e| named(&order.song, &e))?;
    drop(bytes);
    // Before the work, because a folder that cannot be made should not cost a minute.
    std::fs::create_dir_all(&order.folder).map_err(|e| named(&order.folder, &e))?;
    let mix = decoded.audio;
    let terminal = std::io::stderr().is_terminal();
    let mut progress = |part: f32| {
        if terminal {
            let _ = write!(
                std::io::stderr().lock(),
                "\rseparating {:3.0} %",
                part * 100.0
            );
        }
    };
    let control = Control {
        progress: &mut progress,
        cancelled: &|| false,
    };
    let made = stems::separate(&mix, &order.stems, control).map_err(|e| e.to_string())?;
    if terminal {
        let _ = writeln!(std::io::stderr().lock());
    }
    let mut lines = vec![line("stem", "file", "peak dB", "RMS dB", "size kB")];
    for (stem, audio) in &made {
        let path = order.folder.join(format!("{stem}.wav"));
        let file = stems::encode::wav32f(audio).map_err(|e| named(&path, &e))?;
        std::fs::write(&path, &file).map_err(|e| named(&path, &e))?;
        lines.push(described(*stem, &path, audio, file.len()));
    }
    lines.push(summary(&mix, started.elapsed().as_secs_f64()));
    // The files are written; whether anyone reads the table does not change that.
    let _ = std::io::stdout()
        .lock()
        .write_all(lines.concat().as_bytes());
    Ok(())
}

fn described(stem: Stem, path: &Path, audio: &Audio, size: usize) -> String {
    let decibels = |x: f64| {
        if x > 0.0 {
            format!("{:.1}", 20.0 * x.log10())
        } else {
            "-inf".into()
        }
    };
    line(
        stem.name(),
        &path.display().to_string(),
        &decibels(audio.peak().into()),
        &decibels(audio.rms()),
        &(size / 1_000).to_string(),
    )
}

fn line(stem: &str, file: &str, peak: &str, rms: &str, size: &str) -> String {
    format!("{stem:<13} {peak:>8} {rms:>8} {size:>9}  {file}\n")
}

fn summary(mix: &Audio, took: f64) -> String {
    let (seconds, rate, channels) = (mix.seconds(), mix.rate(), mix.channels().len());
    let factor = seconds / took.max(1e-9);
    format!(
        "{seconds:.1} s of sound ({rate} Hz, {channels} channels) in {took:.1} s: \
         {factor:.1} times real time\n"
    )
}

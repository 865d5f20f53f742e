//! `stems song.ext OUTDIR`: separates a sound file into WAV files, from a terminal.
//!
//! This file handles only arguments, files and messages. Everything about sound is in the library.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use stems::decode::{self, AudioScan, Recording};
use stems::spleeter::{NetWeights, VoiceNets};
use stems::{BlockSeparator, ClipShape, DecodeLimits, SeparationControl, SeparationEngine, Stem};

// With the system's allocator, large planes that were freed between used ones stay in memory, and a
// run needs a third more of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Separates a song into stems.

Usage: stems SONG OUTDIR [--stems LIST] [--model FILE | --nets FILE]

SONG is a WAV, AIFF, CAF, FLAC, MP3, AAC, M4A, Ogg or WebM file of at most 15 minutes. Each stem is
written to OUTDIR/<stem>.wav as 32-bit float with the song's rate, length and channels. The stems
vocals, drums, bass and other sum to the song, and so do vocals and instrumental; with a model, its
stems and other do.

Options:
  --stems LIST   stems to write, separated by commas, out of vocals, drums, bass, other and
                 instrumental, or out of what the model makes [default: all of them]
  --model FILE   manifest (TOML) of an ONNX model to separate with, instead of the built-in
                 engine; its graphs lie beside it. The runtime is loaded from the library that
                 ORT_DYLIB_PATH names.
  --nets FILE    weights of pretrained nets (spleeter-2.mg) that help the built-in engine
  -h, --help     print this help

Exit codes: 0 done, 1 failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let (code, message) = match CommandLine::read(std::env::args_os().skip(1)) {
        Ok(Some(arguments)) => match run(&arguments) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(reason) => (1, format!("stems: {reason}\n")),
        },
        Ok(None) => {
            // A reader may close standard output early; that is not a failure.
            let _ = std::io::stdout().lock().write_all(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(reason) => (2, format!("stems: {reason}\nTry 'stems --help'.\n")),
    };
    let _ = std::io::stderr().lock().write_all(message.as_bytes());
    ExitCode::from(code)
}

/// The parsed command line.
struct CommandLine {
    song: PathBuf,
    folder: PathBuf,
    model: Option<PathBuf>,
    nets: Option<PathBuf>,
    /// All stems if `None`.
    stems: Option<Vec<Stem>>,
}

impl CommandLine {
    /// `None` if help is requested.
    fn read(arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut arguments = arguments.peekable();
        let (mut paths, mut list, mut only_paths) = (Vec::new(), None, false);
        let (mut model, mut nets) = (None, None);
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("-h" | "--help") if !only_paths => return Ok(None),
                Some("--") if !only_paths => only_paths = true,
                Some("--stems") if !only_paths => {
                    let value = arguments.next();
                    let value = value.ok_or("--stems needs a list, such as vocals,drums")?;
                    list = Some(value.to_string_lossy().into_owned());
                }
                Some("--model") if !only_paths => {
                    model = Some(
                        arguments
                            .next()
                            .ok_or("--model needs a manifest's file")?
                            .into(),
                    );
                }
                Some("--nets") if !only_paths => {
                    nets = Some(arguments.next().ok_or("--nets needs a file")?.into());
                }
                Some(option) if !only_paths && option.starts_with("--nets=") => {
                    nets = Some(option["--nets=".len()..].into());
                }
                Some(option) if !only_paths && option.starts_with("--stems=") => {
                    list = Some(option["--stems=".len()..].to_owned());
                }
                Some(option) if !only_paths && option.starts_with("--model=") => {
                    model = Some(option["--model=".len()..].into());
                }
                Some(option) if !only_paths && option.starts_with('-') && option.len() > 1 => {
                    return Err(format!("there is no option '{option}'"));
                }
                _ => paths.push(PathBuf::from(argument)),
            }
        }
        if model.is_some() && nets.is_some() {
            return Err("--model and --nets do not go together".to_owned());
        }
        let allowed = if model.is_some() {
            &Stem::ALL[..]
        } else {
            &Stem::BUILT_IN
        };
        let stems = list.map(|list| list_of_stems(&list, allowed)).transpose()?;
        let [song, folder] = <[PathBuf; 2]>::try_from(paths).map_err(|paths| {
            format!(
                "a song and a folder are needed, and {} paths were given",
                paths.len()
            )
        })?;
        Ok(Some(Self {
            song,
            folder,
            model,
            nets,
            stems,
        }))
    }
}

fn list_of_stems(list: &str, allowed: &[Stem]) -> Result<Vec<Stem>, String> {
    let mut stems = Vec::new();
    for name in list.split(',').filter(|name| !name.trim().is_empty()) {
        let stem = Stem::parse(name).filter(|stem| allowed.contains(stem));
        let stem = stem.ok_or_else(|| {
            let names: Vec<_> = allowed.iter().map(|stem| stem.name()).collect();
            let names = names.join(", ");
            format!("there is no stem '{}', only {names}", name.trim())
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

fn run(arguments: &CommandLine) -> Result<(), String> {
    let started = Instant::now();
    let with_path =
        |path: &Path, reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let recording = Recording::open(&arguments.song).map_err(|e| with_path(&arguments.song, &e))?;
    let limits = DecodeLimits {
        max_bytes: usize::MAX, // the samples are never all in memory
        ..DecodeLimits::default()
    };
    let scan = decode::scan(&recording, &limits).map_err(|e| with_path(&arguments.song, &e))?;
    let (mut engine, stems) = engine(arguments, scan.shape)?;
    // Made before the work, because a folder that cannot be made should not cost a minute.
    std::fs::create_dir_all(&arguments.folder).map_err(|e| with_path(&arguments.folder, &e))?;
    let files = stems.iter().map(|stem| {
        let path = arguments.folder.join(format!("{stem}.wav"));
        StemFile::create(path, scan.shape)
    });
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    let energy = separate(&recording, &limits, &scan, &mut *engine, &mut files)
        .map_err(|reason| with_path(&arguments.song, &reason))?;
    let mut lines = vec![heading(&arguments.song, &scan)];
    for (stem, file) in stems.iter().zip(files) {
        lines.push(file.finish(*stem, energy)?);
    }
    lines.push(summary(scan.shape, started.elapsed().as_secs_f64()));
    // The files are written; whether anyone reads the table does not change that.
    let _ = std::io::stdout()
        .lock()
        .write_all(lines.concat().as_bytes());
    Ok(())
}

/// The requested engine, and the stems that it makes.
fn engine(
    arguments: &CommandLine,
    shape: ClipShape,
) -> Result<(Box<dyn SeparationEngine>, Vec<Stem>), String> {
    if let Some(manifest) = &arguments.model {
        return engine_of_model(arguments, manifest, shape);
    }
    let stems = arguments.stems.clone().unwrap_or(Stem::BUILT_IN.to_vec());
    let mut engine = BlockSeparator::new(shape, &stems).map_err(|e| e.to_string())?;
    if let Some(path) = &arguments.nets {
        let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
        let file = std::fs::read(path).map_err(|e| failed(&e))?;
        let weights = NetWeights::read(&file).map_err(|e| failed(&e))?;
        engine = engine.with_nets(VoiceNets::new(weights).into());
    }
    Ok((Box::new(engine), stems))
}

#[cfg(feature = "onnx")]
fn engine_of_model(
    arguments: &CommandLine,
    manifest: &Path,
    shape: ClipShape,
) -> Result<(Box<dyn SeparationEngine>, Vec<Stem>), String> {
    use stems::onnx::{self, SeparationModel};

    let model = SeparationModel::open(manifest, &onnx::RuntimeOptions::default());
    let model = model.map_err(|e| format!("{}: {e}", manifest.display()))?;
    let stems = arguments.stems.clone().unwrap_or(model.offered().to_vec());
    let engine =
        onnx::ModelSeparator::new(model.into(), shape, &stems).map_err(|e| e.to_string())?;
    Ok((Box::new(engine), stems))
}

#[cfg(not(feature = "onnx"))]
fn engine_of_model(
    _: &CommandLine,
    _: &Path,
    _: ClipShape,
) -> Result<(Box<dyn SeparationEngine>, Vec<Stem>), String> {
    Err("--model needs a program that was built with the feature `onnx`".to_owned())
}

/// Decodes, separates and writes, a piece at a time. Returns the energy of the song: the sum of
/// its squared samples.
fn separate(
    recording: &Recording,
    limits: &DecodeLimits,
    scan: &AudioScan,
    engine: &mut dyn SeparationEngine,
    files: &mut [StemFile],
) -> Result<f64, String> {
    let is_terminal = std::io::stderr().is_terminal();
    let mut progress = |fraction: f32| {
        if is_terminal {
            let (bar, percent) = (bar(fraction.into(), 40), fraction * 100.0);
            let _ = write!(
                std::io::stderr().lock(),
                "\rseparating {bar:░<40} {percent:3.0} %"
            );
        }
    };
    let mut control = SeparationControl {
        progress: &mut progress,
        cancelled: &|| false,
    };
    let mut write_error = None;
    let mut write = |stem: usize, piece: &[Vec<f32>]| match files[stem].write(piece) {
        Ok(()) => true,
        Err(reason) => {
            write_error = Some(reason);
            false
        }
    };
    let (mut result, mut song_energy) = (Ok(()), 0.0);
    let mut separate_piece = |piece: &[Vec<f32>]| {
        song_energy += energy(piece.iter().flatten());
        result = engine.push(piece, &mut control, &mut write);
        result.is_ok()
    };
    decode::replay(recording, limits, scan, &mut separate_piece).map_err(|e| e.to_string())?;
    if result.is_ok() {
        result = engine.finish(&mut control, &mut write);
    }
    if is_terminal {
        // Wipes the line, which the table replaces.
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
    match (write_error, result) {
        (Some(reason), _) => Err(reason),
        (None, result) => result.map(|()| song_energy).map_err(|e| e.to_string()),
    }
}

fn energy<'a>(samples: impl Iterator<Item = &'a f32>) -> f64 {
    samples.map(|x| f64::from(*x).powi(2)).sum()
}

/// WAV counts a file's bytes in 32 bits. The header needs a few of them.
const MAX_WAV: usize = u32::MAX as usize - 1_024;

/// A stem being written to a file, and its data for the table.
struct StemFile {
    path: PathBuf,
    writer: hound::WavWriter<std::io::BufWriter<std::fs::File>>,
    peak: f32,
    energy: f64,
    samples: u32,
}

impl StemFile {
    fn create(path: PathBuf, shape: ClipShape) -> Result<Self, String> {
        if shape.frames.saturating_mul(4 * shape.channels) > MAX_WAV {
            return Err("the stems would be larger than WAV files can be, 4 GiB".to_owned());
        }
        let spec = hound::WavSpec {
            channels: u16::try_from(shape.channels).unwrap_or(u16::MAX),
            sample_rate: shape.rate,
            bits_per_sample: 32,
            sample_format: hound::SampleFormat::Float,
        };
        let writer = hound::WavWriter::create(&path, spec)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self {
            path,
            writer,
            peak: 0.0,
            energy: 0.0,
            samples: 0,
        })
    }

    fn write(&mut self, piece: &[Vec<f32>]) -> Result<(), String> {
        self.energy += energy(piece.iter().flatten());
        for i in 0..piece.first().map_or(0, Vec::len) {
            for channel in piece {
                let x = channel[i];
                self.peak = self.peak.max(x.abs());
                self.samples += 1;
                let written = self.writer.write_sample(x);
                written.map_err(|e| format!("{}: {e}", self.path.display()))?;
            }
        }
        Ok(())
    }

    /// Completes the file and returns its line of the table, with its energy relative to the
    /// song's.
    fn finish(self, stem: Stem, song_energy: f64) -> Result<String, String> {
        let written = self.writer.finalize();
        written.map_err(|e| format!("{}: {e}", self.path.display()))?;
        let decibels = |x: f64| {
            if x > 0.0 {
                format!("{:.1}", 20.0 * x.log10())
            } else {
                "-inf".into()
            }
        };
        let fraction = self.energy / song_energy.max(1e-30);
        Ok(format!(
            "  {:<13}{:>8}{:>9}{:>7.0} % {:<20} {}\n",
            stem.name(),
            decibels(self.peak.into()),
            decibels((self.energy / f64::from(self.samples.max(1))).sqrt()),
            100.0 * fraction,
            bar(fraction, 20),
            self.path.display(),
        ))
    }
}

/// A bar of `cells` cells if `fraction` is 1, and of at least an eighth of a cell for anything
/// above 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few cells"
)]
fn bar(fraction: f64, cells: u8) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fraction.clamp(0.0, 1.0) * f64::from(cells) * 8.0).ceil() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn heading(song: &Path, scan: &AudioScan) -> String {
    let name = song.file_name().unwrap_or(song.as_os_str());
    let (name, shape) = (name.display(), scan.shape);
    let (seconds, rate, channels) = (seconds(shape), shape.rate, shape.channels);
    format!(
        "{name}: {}, {seconds:.1} s, {rate} Hz, {channels} channel{}\n\n\
         \u{20} {:<13}{:>8}{:>9}{:>9} {:<20} {}\n",
        scan.format,
        if channels == 1 { "" } else { "s" },
        "stem",
        "peak dB",
        "RMS dB",
        "energy",
        "",
        "file",
    )
}

fn summary(shape: ClipShape, elapsed: f64) -> String {
    let seconds = seconds(shape);
    let factor = seconds / elapsed.max(1e-9);
    format!("\n{seconds:.1} s of sound in {elapsed:.1} s: {factor:.1} times real time\n")
}

#[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
fn seconds(shape: ClipShape) -> f64 {
    shape.frames as f64 / f64::from(shape.rate)
}

//! The program `animatic`: the engine on the command line.
//!
//! Reads a picture and a prompt, writes an MP4, and prints what was made. All rules are the
//! library's.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use animatic::picture::BackgroundFill;
use animatic::{
    Ambience, Direction, MakeError, Picture, PictureLimits, RenderControl, RenderOptions,
    RenderRequest, RequestedOptions, Video,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(ProgramError::Usage(message)) => {
            print_error(&format!("{message}\nTry `animatic --help`."));
            ExitCode::from(2)
        }
        Err(ProgramError::Work(message)) => {
            print_error(&message);
            ExitCode::FAILURE
        }
    }
}

/// Why there is no video.
enum ProgramError {
    /// Invalid command line: exit code 2.
    Usage(String),
    /// The work failed: exit code 1.
    Work(String),
}

#[derive(Debug, Default)]
struct CommandLine {
    help: bool,
    positional: Vec<String>,
    size: Option<(u32, u32)>,
    seconds: Option<f64>,
    fps: Option<u32>,
    seed: Option<u64>,
    fit: bool,
    ground: BackgroundFill,
    sound: Vec<Ambience>,
}

fn run() -> Result<(), ProgramError> {
    let command = CommandLine::parse(std::env::args().skip(1))?;
    if command.help {
        return print_text(HELP);
    }
    let (source, prompt, target) = command.paths()?;
    let mut picture = source
        .as_deref()
        .map(|path| read_picture(path, command.ground))
        .transpose()?;
    let requested = RequestedOptions {
        size: command.size,
        seconds: command.seconds,
        fps: command.fps,
        seed: command.seed,
        picture: picture.as_ref().map(Picture::size),
    };
    let options = RenderOptions::resolve(&requested, &Direction::parse(&prompt))
        .map_err(|error| ProgramError::Usage(format!("--{}: {error}", error.field())))?;
    // Only now, because the picture's own shape may have decided the size.
    if command.fit {
        picture = picture.map(|p| p.fitted((options.width, options.height)));
    }

    let request = RenderRequest {
        picture: picture.as_ref(),
        prompt: &prompt,
        options,
    };
    if target.extension().is_some_and(|kind| kind == "y4m") {
        return write_frames(&request, &target);
    }
    let started = Instant::now();
    let video = make(&request, &command.sound)?;
    let elapsed = started.elapsed();
    fs::write(&target, &video.mp4).map_err(|error| {
        ProgramError::Work(format!("cannot write {}: {error}", target.display()))
    })?;
    print_text(&summary(&video, &target, elapsed))
}

impl CommandLine {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, ProgramError> {
        let mut command = Self::default();
        let mut options_ended = false;
        while let Some(arg) = args.next() {
            if options_ended || !arg.starts_with('-') || arg == "-" {
                command.positional.push(arg);
                continue;
            }
            let (name, mut inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || {
                inline
                    .take()
                    .or_else(|| args.next())
                    .ok_or_else(|| ProgramError::Usage(format!("{name} needs a value")))
            };
            match name.as_str() {
                "--" => options_ended = true,
                "--help" | "-h" => command.help = true,
                "--size" => command.size = Some(size(&value()?)?),
                "--seconds" => command.seconds = Some(number(&name, &value()?)?),
                "--fps" => command.fps = Some(number(&name, &value()?)?),
                "--seed" => command.seed = Some(number(&name, &value()?)?),
                "--fit" => command.fit = true,
                "--ground" => command.ground = BackgroundFill::Colour(colour(&value()?)?),
                "--sound" => command.sound = sounds(&value()?)?,
                _ => return Err(ProgramError::Usage(format!("there is no option {name}"))),
            }
            if inline.is_some() {
                return Err(ProgramError::Usage(format!("{name} takes no value")));
            }
        }
        Ok(command)
    }

    /// The picture, the prompt and the output file.
    fn paths(&self) -> Result<(Option<PathBuf>, String, PathBuf), ProgramError> {
        match self.positional.as_slice() {
            [prompt, target] => Ok((None, prompt.clone(), target.into())),
            [source, prompt, target] => Ok((Some(source.into()), prompt.clone(), target.into())),
            _ => Err(ProgramError::Usage(
                "give a prompt and a file to write, with a picture before them if you have one"
                    .to_owned(),
            )),
        }
    }
}

fn size(text: &str) -> Result<(u32, u32), ProgramError> {
    text.split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .ok_or_else(|| ProgramError::Usage(format!("--size: `{text}` is not like 1280x720")))
}

fn colour(text: &str) -> Result<[u8; 3], ProgramError> {
    let parsed = u32::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 6);
    let [_, red, green, blue] = parsed
        .ok_or_else(|| ProgramError::Usage(format!("--ground: `{text}` is not like ff8800")))?
        .to_be_bytes();
    Ok([red, green, blue])
}

fn sounds(text: &str) -> Result<Vec<Ambience>, ProgramError> {
    let kind = |name: &str| {
        Ambience::from_name(name.trim()).ok_or_else(|| {
            let names: Vec<&str> = Ambience::ALL.iter().map(|kind| kind.name()).collect();
            let names = names.join(", ");
            ProgramError::Usage(format!("--sound: there is no `{name}`, only {names}"))
        })
    };
    text.split(',').map(kind).collect()
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, ProgramError> {
    text.parse()
        .map_err(|_| ProgramError::Usage(format!("{name}: `{text}` is not a valid number here")))
}

fn read_picture(path: &Path, ground: BackgroundFill) -> Result<Picture, ProgramError> {
    let failed = |reason: String| ProgramError::Work(format!("{}: {reason}", path.display()));
    let bytes = fs::read(path).map_err(|error| failed(format!("cannot read it: {error}")))?;
    animatic::picture::decode_over(&bytes, &PictureLimits::default(), ground)
        .map_err(|error| failed(error.to_string()))
}

fn make(request: &RenderRequest<'_>, sound: &[Ambience]) -> Result<Video, ProgramError> {
    with_progress(|control| animatic::make_with(request, sound, control))
}

fn write_frames(request: &RenderRequest<'_>, target: &Path) -> Result<(), ProgramError> {
    let file = fs::File::create(target).map_err(|error| {
        ProgramError::Work(format!("cannot write {}: {error}", target.display()))
    })?;
    with_progress(|control| animatic::write_y4m(request, &mut BufWriter::new(file), control))?;
    print_text(&format!(
        "{}\n  frames      {}, uncompressed\n",
        target.display(),
        request.options.frames()
    ))
}

/// Runs `work` with progress on standard error if that is a terminal.
fn with_progress<T>(
    work: impl FnOnce(&mut RenderControl<'_>) -> Result<T, MakeError>,
) -> Result<T, ProgramError> {
    let shows_progress = io::stderr().is_terminal();
    let mut shown_percent = -1;
    let mut progress = |share: f32| {
        #[expect(clippy::cast_possible_truncation, reason = "0 to 100")]
        let percent = (share * 100.0) as i32;
        if shows_progress && percent != shown_percent {
            shown_percent = percent;
            let _ = write!(io::stderr().lock(), "\r{percent:3} %");
        }
    };
    let mut control = RenderControl {
        progress: &mut progress,
        cancelled: &|| false,
    };
    let result = work(&mut control);
    if shows_progress {
        let _ = write!(io::stderr().lock(), "\r     \r");
    }
    result.map_err(|error| ProgramError::Work(error.to_string()))
}

fn summary(video: &Video, target: &Path, elapsed: Duration) -> String {
    let elapsed = elapsed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let megabytes = video.mp4.len() as f64 / 1e6;
    let ignored = match video.reading.not_understood.join(", ") {
        words if words.is_empty() => String::new(),
        words => format!("  not drawn   {words}\n"),
    };
    format!(
        "{}\n  understood  {}\n{ignored}  video       {}x{}, {} frames at {} fps, {:.2} s, {megabytes:.2} MB\n  \
         made in     {elapsed:.2} s, {:.1} times real time\n",
        target.display(),
        video.reading.direction.join("; "),
        video.width,
        video.height,
        video.frames,
        video.fps,
        video.seconds,
        video.seconds / elapsed.max(1e-3),
    )
}

fn print_text(text: &str) -> Result<(), ProgramError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `animatic --help | head -1` is not an error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ProgramError::Work(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

fn print_error(message: &str) {
    // Ignored: standard error is closed.
    let _ = writeln!(io::stderr().lock(), "animatic: {message}");
}

const HELP: &str = "\
Makes an animatic: a camera moving over a picture, as an H.264 MP4.

Usage: animatic [PICTURE] PROMPT OUT.mp4 [OPTIONS]

  PICTURE   JPEG, PNG, WebP, GIF, BMP or TIFF; without one a scene is drawn from the prompt
  PROMPT    the camera direction, in words, for example
            \"slow push in, then pan left, 6 seconds, vertical\"
  OUT.mp4   the file to write; OUT.y4m gets the frames as they are, uncompressed

Options:
  --size WxH     for example 1280x720; default: the shape of the prompt or picture, 720 pixels
  --seconds N    1 to 20; default: the prompt's, else 5
  --fps N        24, 25 or 30; default 30
  --seed N       varies the drawn scene and the handheld camera; default 0
  --fit          show the whole picture on a blurred copy of itself; default: crop to the frame
  --ground RRGGBB   the colour under a transparent picture; default: a grey that contrasts
  --sound A,B    an ambience: wind, rain, thunder, sea, stream, birds, crickets, fire, city,
                 room tone; default: none
  -h, --help     this text

Exit code 0: done, 1: failed, 2: the command line is wrong.
";

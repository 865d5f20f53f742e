//! Prints what the watermark withstands: films of `animatic`, marked, encoded and attacked by
//! ffmpeg, read back. Also what it costs compared with the render, and what unmarked films give.
//! The table is printed after every 20 films, so that a long run can be cut short. Several
//! processes can share a long run, each starting at another film.
//!
//! `cargo run --release -p provenance --example watermark_table -- [FILMS] [SECONDS] [FIRST]`

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measuring program"
)]

use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use animatic::{Direction, RenderControl, RenderOptions, RenderRequest, RequestedOptions};
use provenance::watermark::{MarkKey, VideoDetector, VideoEmbedder, VideoMark};

type Outcome<T> = Result<T, Box<dyn Error>>;

const WIDTH: usize = 1280;
const HEIGHT: usize = 720;
const LUMA: usize = WIDTH * HEIGHT;
const FRAME: usize = LUMA * 3 / 2;

const PROMPTS: [&str; 20] = [
    "a lake under the mountains at dawn, slow dolly in, mist",
    "a neon city at night in the rain, truck right",
    "desert dunes at sunset, slow pan left, dust in the air",
    "a snowy forest by night, heavy snowfall, slow push in",
    "a galaxy and a planet, orbit left",
    "a harbour by the sea at sunset, black and white, film grain, handheld",
    "a meadow with flowers in the sun, pan right",
    "an island in the ocean, static",
    "mountains in fog, tilt up",
    "a city by day, crane up",
    "a forest in autumn, truck left",
    "waves at a beach at noon, pull out",
    "a village in winter, static",
    "fields under storm clouds, rain, handheld",
    "a desert at night under stars, slow push in",
    "a river through a canyon, orbit right",
    "a castle on a hill at dusk, dolly in",
    "a road through hills, pan left, warm light",
    "an abstract pattern of shapes, roll",
    "a lighthouse by the sea, storm, tilt down",
];

/// Name, filter, whether it is encoded at half the bit rate, and the size of what comes out.
const ATTACKS: [(&str, &str, bool, usize, usize); 7] = [
    (
        "H.264 at the render's bit rate",
        "null",
        false,
        WIDTH,
        HEIGHT,
    ),
    ("half the bit rate", "null", true, WIDTH, HEIGHT),
    ("half, 480p", "scale=854:480", true, 854, 480),
    ("half, 10 % cropped", "crop=1152:648:70:31", true, 1152, 648),
    (
        "half, brighter",
        "eq=brightness=0.08:contrast=1.1",
        true,
        WIDTH,
        HEIGHT,
    ),
    (
        "half, darker",
        "eq=brightness=-0.08:contrast=0.9",
        true,
        WIDTH,
        HEIGHT,
    ),
    (
        "half, 10 % cropped, 480p, brighter",
        "crop=1152:648:70:31,scale=854:480,eq=brightness=0.08",
        true,
        854,
        480,
    ),
];

#[derive(Default)]
struct Table {
    rows: [Row; ATTACKS.len()],
    films: usize,
    alarms: usize,
    psnr: Vec<f64>,
    frames: usize,
    /// Seconds of all cores.
    marking: f64,
    rendering: f64,
}

#[derive(Default)]
struct Row {
    read: usize,
    other: usize,
    corrected: f32,
    least: f32,
}

fn main() -> Outcome<()> {
    let number = |index, default| {
        std::env::args()
            .nth(index)
            .map_or(Ok(default), |text| text.parse())
    };
    let (films, seconds, first) = (number(1, 20)?, number(2, 5)?, number(3, 0)?);
    let mut table = Table::default();
    for film in first..first + films {
        table.add(film, seconds)?;
        if table.films == films || table.films.is_multiple_of(20) {
            table.print(seconds);
        }
    }
    Ok(())
}

impl Table {
    fn add(&mut self, film: usize, seconds: usize) -> Outcome<()> {
        let prompt = PROMPTS[film % PROMPTS.len()];
        let (y4m, kbits, rendering) = render(prompt, film, seconds)?;
        let key = MarkKey::new(0x00c0_ffee, 77)?;
        let media = ((film as u64 + 1) * 0x12_3456_789b) & ((1 << 40) - 1);
        let (mut marked, count) = frames_of(&y4m);
        let original = marked.clone();
        let mut embedder = VideoEmbedder::new(&key, media, WIDTH, HEIGHT)?;
        let started = cpu_seconds()?;
        for frame in marked.chunks_mut(FRAME) {
            embedder.mark(&mut frame[..LUMA], WIDTH)?;
        }
        self.marking += cpu_seconds()? - started;
        self.rendering += rendering;
        self.films += 1;
        self.frames += count;
        self.psnr.push(signal_to_noise(&original, &marked));
        let first = encode(&marked, "rawvideo", "null", kbits)?;
        let plain = encode(&original, "rawvideo", "null", kbits)?;
        self.alarms += usize::from(read(&plain, WIDTH, HEIGHT, &key)?.is_some());
        for (row, (name, filter, again, width, height)) in self.rows.iter_mut().zip(ATTACKS) {
            let attacked = if again {
                encode(&first, "h264", filter, kbits / 2)?
            } else {
                first.clone()
            };
            match read(&attacked, width, height, &key)? {
                Some(mark) if mark.media_id == media => {
                    row.least = if row.read == 0 {
                        mark.score
                    } else {
                        row.least.min(mark.score)
                    };
                    row.read += 1;
                    row.corrected += mark.corrected;
                }
                mark => {
                    row.other += usize::from(mark.is_some());
                    println!("film {film} at {kbits} kbit/s, {prompt}: {name}: {mark:?}");
                }
            }
        }
        Ok(())
    }

    fn print(&mut self, seconds: usize) {
        let films = self.films;
        println!("{films} films of {seconds} s, {WIDTH}x{HEIGHT}\n");
        println!(
            "| | read | read wrongly | code bits corrected | least score |\n|---|---|---|---|---|"
        );
        for (row, (name, ..)) in self.rows.iter().zip(ATTACKS) {
            println!(
                "| {name} | {} of {films} | {} | {:.1} % | {:.1} |",
                row.read,
                row.other,
                100.0 * row.corrected / row.read.max(1) as f32,
                row.least
            );
        }
        self.psnr.sort_by(f64::total_cmp);
        println!(
            "\nunmarked films in which a mark was read: {} of {films}",
            self.alarms
        );
        println!(
            "PSNR of the mark: least {:.1} dB, median {:.1} dB",
            self.psnr[0],
            self.psnr[films / 2]
        );
        println!(
            "cost: {:.3} ms a frame, {:.1} % of the render without it\n",
            self.marking * 1000.0 / self.frames as f64,
            100.0 * self.marking / self.rendering
        );
    }
}

/// The CPU seconds that all threads of this process have used, as Linux reports them.
fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')').ok_or("no process statistics")?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut ticks = || -> Outcome<f64> { Ok(fields.next().ok_or("no times")?.parse()?) };
    Ok((ticks()? + ticks()?) / 100.0)
}

/// A film's frames as YUV4MPEG2, the bit rate of its own MP4 in kbit/s, and the seconds that took.
fn render(prompt: &str, seed: usize, seconds: usize) -> Outcome<(Vec<u8>, usize, f64)> {
    let requested = RequestedOptions {
        size: Some((1280, 720)),
        seconds: Some(seconds as f64),
        seed: Some(seed as u64 + 1),
        ..RequestedOptions::default()
    };
    let options = RenderOptions::resolve(&requested, &Direction::parse(prompt))?;
    let request = RenderRequest {
        picture: None,
        prompt,
        options,
    };
    let mut y4m = Vec::new();
    animatic::write_y4m(&request, &mut y4m, &mut RenderControl::unattended())?;
    let started = cpu_seconds()?;
    let mp4 = animatic::make(&request, &mut RenderControl::unattended())?.mp4;
    let rendering = cpu_seconds()? - started;
    Ok((y4m, mp4.len() * 8 / 1000 / seconds, rendering))
}

fn frames_of(y4m: &[u8]) -> (Vec<u8>, usize) {
    let head = y4m
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |position| position + 1);
    let mut frames = Vec::with_capacity(y4m.len());
    for frame in y4m[head..].chunks_exact(FRAME + 6) {
        frames.extend(&frame[6..]);
    }
    let count = frames.len() / FRAME;
    (frames, count)
}

fn signal_to_noise(original: &[u8], marked: &[u8]) -> f64 {
    let lumas = original.chunks(FRAME).zip(marked.chunks(FRAME));
    let worst = lumas.map(|(a, b)| {
        let squares = a[..LUMA]
            .iter()
            .zip(&b[..LUMA])
            .map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
        squares.sum::<u64>() as f64 / LUMA as f64
    });
    10.0 * (255.0f64.powi(2) / worst.fold(0.0, f64::max)).log10()
}

fn encode(input: &[u8], format: &str, filter: &str, kbits: usize) -> Outcome<Vec<u8>> {
    let rate = format!("{kbits}k");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-threads", "1", "-f", format]);
    if format == "rawvideo" {
        command.args(["-s", "1280x720", "-pix_fmt", "yuv420p"]);
    }
    command.args([
        "-r", "24", "-i", "-", "-vf", filter, "-c:v", "libx264", "-preset", "veryfast",
    ]);
    command.args([
        "-b:v", &rate, "-maxrate", &rate, "-bufsize", &rate, "-threads", "1", "-f", "h264", "-",
    ]);
    pipe_through(command, input)
}

fn read(film: &[u8], width: usize, height: usize, key: &MarkKey) -> Outcome<Option<VideoMark>> {
    let mut command = Command::new("ffmpeg");
    command.args([
        "-v", "error", "-threads", "1", "-f", "h264", "-i", "-", "-f", "rawvideo", "-pix_fmt",
        "gray", "-",
    ]);
    let lumas = pipe_through(command, film)?;
    let mut detector = VideoDetector::new(width, height)?;
    for luma in lumas.chunks_exact(width * height) {
        detector.add(luma, width)?;
    }
    Ok(detector.read(key))
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
        // From a thread: ffmpeg writes before it has read everything, and both pipes would fill up.
        let writer = scope.spawn(move || stdin.write_all(input));
        stdout.read_to_end(&mut output)?;
        writer
            .join()
            .map_err(|_| std::io::Error::other("the writer failed"))?
    })?;
    if !child.wait()?.success() {
        return Err("ffmpeg failed".into());
    }
    Ok(output)
}

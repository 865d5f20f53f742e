//! Songs from folders, and the clips that are made of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use stems::training::{BinSample, StereoTrack, draw};

/// Bins drawn from each clip.
const BINS: usize = 40_000;

/// The folders below `roots` that hold a song.
pub(crate) fn songs(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut songs: Vec<PathBuf> = roots
        .iter()
        .flat_map(|root| std::fs::read_dir(root).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("mix.wav").exists())
        .collect();
    songs.sort();
    songs
}

/// Draws bins from `clips_per_song` clips of each song, on two threads, in the songs' order.
pub(crate) fn draws(
    songs: &[PathBuf],
    clips_per_song: usize,
    first: Option<&[f32]>,
) -> Vec<BinSample> {
    let samples: Vec<Mutex<Option<BinSample>>> = (0..songs.len() * clips_per_song)
        .map(|_| Mutex::new(None))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    // Songs are taken in any order, but each has its own seeds and its own index in
                    // the result.
                    let song = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(path) = songs.get(song) else { return };
                    let stems = load(path);
                    for number in 0..clips_per_song {
                        let seed = (song * clips_per_song + number) as u64;
                        let altered = if clips_per_song == 1 {
                            song % 2 == 1
                        } else {
                            number > 0
                        };
                        let clip = arrange(&stems, altered, &mut Random(seed + 1));
                        let phase = Random(seed + 77).unit();
                        *samples[song * clips_per_song + number].lock().unwrap() =
                            Some(draw(&clip, first, BINS, phase));
                    }
                }
            });
        }
    });
    samples
        .into_iter()
        .map(|d| d.into_inner().unwrap().unwrap())
        .collect()
}

fn load(folder: &Path) -> [StereoTrack; 4] {
    ["vocals", "drums", "bass", "other"].map(|stem| {
        let path = folder.join(format!("{stem}.wav"));
        let samples: Vec<f32> = hound::WavReader::open(path)
            .unwrap()
            .samples::<f32>()
            .map(Result::unwrap)
            .collect();
        [0, 1].map(|side| samples.iter().skip(side).step_by(2).copied().collect())
    })
}

/// The song as it is or, if `altered`, with other levels. Either may have its sides swapped or be
/// mono, an altered one more often.
fn arrange(stems: &[StereoTrack; 4], altered: bool, random: &mut Random) -> [StereoTrack; 4] {
    let swap = random.unit() < if altered { 0.5 } else { 0.2 };
    let mono = random.unit() < if altered { 0.35 } else { 0.05 };
    stems.each_ref().map(|stem| {
        let decibels = if altered {
            random.unit() as f32 * 8.0 - 4.0
        } else {
            0.0
        };
        let gain = 10f32.powf(decibels / 20.0);
        let [left, right] = if swap {
            [&stem[1], &stem[0]]
        } else {
            [&stem[0], &stem[1]]
        };
        let side = |main: &[f32], other: &[f32]| {
            let mixed = main.iter().zip(other);
            mixed
                .map(|(x, y)| gain * if mono { 0.5 * (x + y) } else { *x })
                .collect()
        };
        [side(left, right), side(right, left)]
    })
}

/// Random numbers by splitmix64 (Steele, Lea & Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

//! What all ONNX tests share: graphs and reference results that a Python script makes once, and the
//! runtime.
//!
//! `MEDIAGATE_TEST_ONNX_PYTHON` names a Python that has the packages of
//! `tests/onnx/requirements.txt`. Without it these tests prove nothing: they fail on CI, and print
//! a message elsewhere.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use stems::onnx::{ModelFolder, RuntimeOptions};
use stems::{Audio, Stem};

const PYTHON: &str = "MEDIAGATE_TEST_ONNX_PYTHON";

/// The folder that `make.py` filled.
pub(crate) struct Fixtures {
    pub(crate) folder: PathBuf,
    pub(crate) options: RuntimeOptions,
}

impl Fixtures {
    /// `None` without a Python, after a message that the test does nothing.
    pub(crate) fn find() -> Option<Self> {
        let Some(python) = std::env::var_os(PYTHON).filter(|python| !python.is_empty()) else {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"),
                "{PYTHON} must name a Python with the packages of tests/onnx/requirements.txt"
            );
            // Not by a macro: the test harness captures what macros print.
            let message =
                format!("\n*** NOT TESTED: ONNX models, because {PYTHON} is not set ***\n");
            std::io::stderr().write_all(message.as_bytes()).unwrap();
            return None;
        };
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx");
        let folder = make_fixtures(Path::new(&python), &scripts);
        let library = fs::read_to_string(folder.join("library")).unwrap();
        let options = RuntimeOptions {
            library: Some(library.trim().into()),
            threads: 1,
        };
        Some(Self { folder, options })
    }

    /// The models in the folder.
    pub(crate) fn models(&self) -> ModelFolder {
        ModelFolder::new(&self.folder, self.options.clone())
    }

    /// A stereo sound of the fixtures at 44.1 kHz.
    pub(crate) fn sound(&self, model: &str, track: &str) -> Audio {
        let bytes = fs::read(self.folder.join(format!("{model}.{track}.f32"))).unwrap();
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
        let samples: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
        let (left, right) = samples.split_at(samples.len() / 2);
        Audio::new(44_100, vec![left.to_vec(), right.to_vec()]).unwrap()
    }

    /// What the reference made of a model's mix.
    pub(crate) fn references(&self, model: &str) -> Vec<(Stem, Audio)> {
        let mut references = Vec::new();
        for entry in fs::read_dir(&self.folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let [name, track, "f32"] = file.split('.').collect::<Vec<_>>()[..]
                && name == model
                && let Some(stem) = Stem::parse(track)
            {
                references.push((stem, self.sound(model, track)));
            }
        }
        references
    }
}

/// Runs the script unless a run of the same script and packages left its folder. Tests run in
/// several processes: the first makes it, and the others wait.
fn make_fixtures(python: &Path, scripts: &Path) -> PathBuf {
    let texts = ["make.py", "reference.py", "requirements.txt"];
    let texts = texts.map(|name| fs::read(scripts.join(name)).unwrap());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("onnx-{}", stems::onnx::uvr::hash(&texts.concat())));
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if folder.join("library").exists() {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    let out = Command::new(python)
        .arg("-B")
        .arg(scripts.join("make.py"))
        .arg(&folder)
        .output()
        .unwrap_or_else(|e| panic!("{PYTHON}={}: {e}", python.display()));
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "{PYTHON}={}: {stderr}",
        python.display()
    );
    fs::write(folder.join("library"), out.stdout).unwrap();
    folder
}

/// The largest difference of two sounds of the same shape.
pub(crate) fn difference(a: &Audio, b: &Audio) -> f32 {
    assert_eq!(
        (a.rate(), a.frames(), a.channels().len()),
        (b.rate(), b.frames(), b.channels().len())
    );
    let pairs = a
        .channels()
        .iter()
        .flatten()
        .zip(b.channels().iter().flatten());
    pairs.map(|(x, y)| (x - y).abs()).fold(
        0.0,
        |worst, x| if x.is_nan() { f32::NAN } else { worst.max(x) },
    )
}

/// The sum of sounds.
pub(crate) fn sum<'a>(sounds: impl IntoIterator<Item = &'a Audio>) -> Audio {
    let mut sounds = sounds.into_iter();
    let first = sounds.next().unwrap();
    let (rate, mut channels) = (first.rate(), first.channels().to_vec());
    for sound in sounds {
        for (channel, samples) in channels.iter_mut().zip(sound.channels()) {
            channel.iter_mut().zip(samples).for_each(|(x, y)| *x += y);
        }
    }
    Audio::new(rate, channels).unwrap()
}

//! Every target on damaged samples: a few seconds, the same each time.
//!
//! `FUZZ_SECONDS=60 scripts/test fuzz` looks that long at each, at other damage
//! every time; what it says names the seed for `FUZZ_SEED`, and the file with the
//! bytes that broke it. Memory is limited, so that what asks for all of it fails, and
//! so is the time of a case, so that what never comes back does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "it says how to see a failure again")]
#![expect(
    clippy::disallowed_methods,
    reason = "no clock of the product's is involved"
)]

use std::path::Path;
use std::sync::Once;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use fuzz::{DamageRng, TARGETS, damaged};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Address space of the test, in bytes.
const MEMORY: u64 = 6 << 30;
/// What takes this long is taken for endless; a case takes milliseconds.
const ENDLESS: Duration = Duration::from_mins(2);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn limit_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limit = Rlimit {
            current: Some(MEMORY),
            maximum: Some(MEMORY),
        };
        setrlimit(Resource::As, limit).unwrap();
    });
}

fn look(name: &str) {
    limit_memory();
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let time = variable("FUZZ_SECONDS").map(Duration::from_secs);
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap().as_secs()
    };
    let seed = variable("FUZZ_SEED").unwrap_or_else(|| time.map_or(1, |_| now()));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{seed}"));
    println!("FUZZ_SEED={seed}; what broke it is in {}", file.display());
    let seeds = (target.seeds)();
    let watched = Watched::new(target.run);
    for seed in &seeds {
        std::fs::write(&file, seed).unwrap();
        watched.run(seed);
    }
    let (began, mut case) = (Instant::now(), 0);
    while time.map_or(case < target.cases.into(), |time| began.elapsed() < time) {
        let bytes = damaged(&seeds, &mut DamageRng::new(seed, case));
        // Before it is run: what asks for too much memory ends the process.
        std::fs::write(&file, &bytes).unwrap();
        watched.run(&bytes);
        case += 1;
    }
    println!("{case} cases");
    std::fs::remove_file(file).unwrap();
}

/// A target on a thread of its own.
struct Watched {
    cases: Sender<Vec<u8>>,
    done: Receiver<()>,
}

impl Watched {
    fn new(run: fn(&[u8])) -> Self {
        let (cases, todo) = mpsc::channel::<Vec<u8>>();
        let (tell, done) = mpsc::channel();
        std::thread::spawn(move || {
            for bytes in todo {
                run(&bytes);
                tell.send(()).unwrap();
            }
        });
        Self { cases, done }
    }

    fn run(&self, bytes: &[u8]) {
        self.cases.send(bytes.to_vec()).unwrap();
        let came_back = self.done.recv_timeout(ENDLESS);
        let is_endless = came_back == Err(RecvTimeoutError::Timeout);
        assert!(!is_endless, "has not come back in {ENDLESS:?}");
        assert!(came_back.is_ok(), "the target panicked, as it says above");
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            look(stringify!($name));
        })*

        #[test]
        fn each_target_has_a_test_and_a_file_for_cargo_fuzz() {
            let mut here = vec![$(stringify!($name)),*];
            let mut all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            here.sort_unstable();
            all.sort_unstable();
            assert_eq!(here, all);
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            for name in all {
                let path = format!("fuzz_targets/{name}.rs");
                assert!(manifest.contains(&path), "{path} is not in fuzz/Cargo.toml");
                let text = std::fs::read_to_string(folder.join(path)).unwrap();
                assert!(text.contains(&format!("fuzz::run(\"{name}\", bytes)")), "{text}");
            }
        }
    };
}

#[cfg(not(feature = "c2pa"))]
targets! { answer film form json marks picture recipe recording }
#[cfg(feature = "c2pa")]
targets! { answer credentials film form json marks picture recipe recording }

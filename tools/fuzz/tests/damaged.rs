//! Every target on damaged samples: a few seconds, the same each time.
//!
//! `FUZZ_SECONDS=60 scripts/test fuzz` runs each target that long, with different damage every
//! time. It prints the seed for `FUZZ_SEED`, and the file with the bytes that broke the target.
//! Memory and the time of a case are limited, so that a case that exhausts memory or never ends
//! fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "it prints how to reproduce a failure")]
#![expect(
    clippy::disallowed_methods,
    reason = "no clock of the product's is involved"
)]

use std::path::Path;
use std::sync::Once;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use fuzz::{DamageRng, TARGETS, damaged_sample};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Address space of the test, in bytes.
const MEMORY: u64 = 6 << 30;
/// A case that takes this long counts as endless; cases take milliseconds.
const CASE_TIMEOUT: Duration = Duration::from_mins(2);

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

fn run_target(name: &str) {
    limit_memory();
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let time = variable("FUZZ_SECONDS").map(Duration::from_secs);
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap().as_secs()
    };
    let seed = variable("FUZZ_SEED").unwrap_or_else(|| time.map_or(1, |_| now()));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{seed}"));
    println!(
        "FUZZ_SEED={seed}; the bytes that broke it are in {}",
        file.display()
    );
    let seeds = (target.seeds)();
    let target_thread = TargetThread::new(target.run);
    for seed in &seeds {
        std::fs::write(&file, seed).unwrap();
        target_thread.run(seed);
    }
    let (started, mut case) = (Instant::now(), 0);
    while time.map_or(case < target.cases.into(), |time| started.elapsed() < time) {
        let bytes = damaged_sample(&seeds, &mut DamageRng::new(seed, case));
        // Written before the run: a case that needs too much memory ends the process.
        std::fs::write(&file, &bytes).unwrap();
        target_thread.run(&bytes);
        case += 1;
    }
    println!("{case} cases");
    std::fs::remove_file(file).unwrap();
}

/// A target on its own thread.
struct TargetThread {
    cases: Sender<Vec<u8>>,
    done: Receiver<()>,
}

impl TargetThread {
    fn new(run: fn(&[u8])) -> Self {
        let (cases, case_receiver) = mpsc::channel::<Vec<u8>>();
        let (done_sender, done) = mpsc::channel();
        std::thread::spawn(move || {
            for bytes in case_receiver {
                run(&bytes);
                done_sender.send(()).unwrap();
            }
        });
        Self { cases, done }
    }

    fn run(&self, bytes: &[u8]) {
        self.cases.send(bytes.to_vec()).unwrap();
        let result = self.done.recv_timeout(CASE_TIMEOUT);
        let has_timed_out = result == Err(RecvTimeoutError::Timeout);
        assert!(!has_timed_out, "has not returned within {CASE_TIMEOUT:?}");
        assert!(result.is_ok(), "the target panicked, as it says above");
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run_target(stringify!($name));
        })*

        #[test]
        fn each_target_has_a_test_and_a_file_for_cargo_fuzz() {
            let mut tested = vec![$(stringify!($name)),*];
            let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            tested.sort_unstable();
            names.sort_unstable();
            assert_eq!(tested, names);
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            for name in names {
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

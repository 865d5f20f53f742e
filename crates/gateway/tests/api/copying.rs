//! `mediagate media copy` that is broken off, by the end of its process or of the bucket, and repeated.

use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use mediagate_media::blob::BlobStore;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use serde_json::Value;
use simulator::{LinkState, NetworkState};

use crate::process::Process;
use crate::support::bucket::{ACCESS_KEY, SECRET_KEY, TestBucket};
use crate::support::client::install_tls;
use crate::support::eventually;
use crate::support::program::{output, program, text};

/// A folder of files, and the way from it to a bucket.
struct Move {
    data: tempfile::TempDir,
    bucket: TestBucket,
    files: Vec<(AssetId, Bytes)>,
}

impl Move {
    /// Small files, and one that goes up in parts.
    async fn of(small: usize) -> Self {
        install_tls();
        let (data, bucket) = (tempfile::tempdir().unwrap(), TestBucket::start().await);
        let blobs = BlobStore::local(&data.path().join("media")).unwrap();
        let mut files = Vec::new();
        for number in 0..=small {
            let size = if number == small {
                9 << 20
            } else {
                200_000 + number
            };
            let byte = u8::try_from(number % 251).unwrap();
            let file = (AssetId::new(), Bytes::from(vec![byte; size]));
            blobs
                .put(file.0, MediaType::Mp4, file.1.clone())
                .await
                .unwrap();
            files.push(file);
        }
        Self {
            data,
            bucket,
            files,
        }
    }

    fn command(&self) -> Command {
        let endpoint = format!("http://{}", self.bucket.proxy.address());
        let (data, to): (&Path, _) = (self.data.path(), TestBucket::address());
        program(&[
            "media",
            "copy",
            "--json",
            "--to",
            &to,
            "--data",
            data.to_str().unwrap(),
            "--media-endpoint",
            &endpoint,
            "--media-access-key",
            ACCESS_KEY,
            "--media-secret-key",
            SECRET_KEY,
        ])
    }

    /// From now on it takes a while.
    fn slow_down(&self) {
        let slow = LinkState {
            bytes_per_second: NonZeroU32::new(600_000),
            ..LinkState::default()
        };
        self.bucket.proxy.set(NetworkState {
            up: slow,
            ..NetworkState::default()
        });
    }

    /// Waits until some are there, and not all.
    async fn is_half_done(&self) -> usize {
        let there = eventually("some are there", async || {
            let there = self.bucket.files().len();
            (there >= 2).then_some(there)
        });
        let there = there.await;
        assert!(there < self.files.len());
        there
    }

    /// Those that are in the bucket; each is there whole.
    async fn arrived(&self) -> u64 {
        let (blobs, mut there) = (self.bucket.blobs(), 0);
        let names = self.bucket.files();
        for (id, bytes) in &self.files {
            if names.iter().any(|name| name.contains(&id.to_string())) {
                assert_eq!(blobs.get(*id, MediaType::Mp4).await.unwrap(), *bytes);
                there += 1;
            }
        }
        there
    }

    /// Repeats it; `there` were copied before.
    async fn finish(&self, there: u64) {
        let all = self.files.len() as u64;
        let done = output(self.command()).await;
        assert!(done.status.success(), "{}", text(&done.stderr));
        let done: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(done["present"], there, "{done}");
        assert_eq!(done["copied"], all - there, "{done}");
        assert_eq!(self.arrived().await, all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_killed_goes_on_where_it_was() {
    let files = Move::of(12).await;
    files.slow_down();
    let mut copy = Process::start(&mut files.command());
    files.is_half_done().await;
    copy.kill();
    files.bucket.proxy.reset();
    files.bucket.heal();
    // What had come in part is not there.
    let there = files.arrived().await;
    assert!(there >= 2 && there < files.files.len() as u64, "{there}");
    files.finish(there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_bucket_goes_away_ends_soon_and_goes_on_when_it_is_repeated() {
    let files = Move::of(60).await;
    files.slow_down();
    let mut copy = Process::start(&mut files.command());
    files.is_half_done().await;
    files.bucket.fail("");
    let before = files.bucket.request_count("PUT");
    let process = std::cell::RefCell::new(&mut copy);
    let status = eventually("it ends", async || process.borrow_mut().exit_status()).await;
    assert_eq!(status.code(), Some(1), "{}", copy.stderr());
    let done: Value = serde_json::from_str(&copy.stdout()).unwrap();
    // It gives up with the first few, not with one after the other.
    let asked = files.bucket.request_count("PUT") - before;
    assert!(asked < 200, "{asked}");
    files.bucket.heal();
    let there = files.arrived().await;
    assert_eq!(
        done["copied"].as_u64().unwrap() + done["failed"].as_u64().unwrap(),
        61,
        "{done}"
    );
    assert!(
        copy.stderr().contains("run the command again"),
        "{}",
        copy.stderr()
    );
    files.finish(there).await;
}

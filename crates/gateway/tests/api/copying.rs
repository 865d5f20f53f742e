//! `mediagate media copy`, interrupted because its process or the bucket fails, and then repeated.

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

/// A folder of files, and the bucket to which they are copied.
struct Move {
    data: tempfile::TempDir,
    bucket: TestBucket,
    files: Vec<(AssetId, Bytes)>,
}

impl Move {
    /// Small files, and one that is uploaded in parts.
    async fn with_files(small: usize) -> Self {
        install_tls();
        let (data, bucket) = (tempfile::tempdir().unwrap(), TestBucket::start().await);
        // Commands make no database where there is none.
        let migrate = program(&["migrate", "--data", data.path().to_str().unwrap()]);
        assert!(output(migrate).await.status.success());
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
        let (data, target): (&Path, _) = (self.data.path(), TestBucket::address());
        program(&[
            "media",
            "copy",
            "--json",
            "--to",
            &target,
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

    /// Slows the uploads down from now on.
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

    /// Waits until some files have arrived, but not all.
    async fn wait_until_some_arrived(&self) -> usize {
        let copied = eventually("some files have arrived", async || {
            let copied = self.bucket.files().len();
            (copied >= 2).then_some(copied)
        });
        let copied = copied.await;
        assert!(copied < self.files.len());
        copied
    }

    /// The number of files in the bucket, each of which must be complete.
    async fn count_arrived(&self) -> u64 {
        let (blobs, mut count) = (self.bucket.blobs(), 0);
        let names = self.bucket.files();
        for (id, bytes) in &self.files {
            if names.iter().any(|name| name.contains(&id.to_string())) {
                assert_eq!(blobs.get(*id, MediaType::Mp4).await.unwrap(), *bytes);
                count += 1;
            }
        }
        count
    }

    /// Repeats the command; `present` files were copied before.
    async fn finish(&self, present: u64) {
        let total = self.files.len() as u64;
        let report = output(self.command()).await;
        assert!(report.status.success(), "{}", text(&report.stderr));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["present"], present, "{report}");
        assert_eq!(report["copied"], total - present, "{report}");
        assert_eq!(self.count_arrived().await, total);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_copy_continues_when_repeated() {
    let files = Move::with_files(12).await;
    files.slow_down();
    let mut copy = Process::start(&mut files.command());
    files.wait_until_some_arrived().await;
    copy.kill();
    files.bucket.proxy.reset();
    files.bucket.heal();
    // The bucket has no partly uploaded file.
    let present = files.count_arrived().await;
    assert!(
        present >= 2 && present < files.files.len() as u64,
        "{present}"
    );
    files.finish(present).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_bucket_fails_ends_soon_and_continues_when_repeated() {
    let files = Move::with_files(60).await;
    files.slow_down();
    let mut copy = Process::start(&mut files.command());
    files.wait_until_some_arrived().await;
    files.bucket.fail("");
    let before = files.bucket.request_count("PUT");
    let process = std::cell::RefCell::new(&mut copy);
    let status = eventually("copying ends", async || process.borrow_mut().exit_status()).await;
    assert_eq!(status.code(), Some(1), "{}", copy.stderr());
    let report: Value = serde_json::from_str(&copy.stdout()).unwrap();
    // The command gives up after the first few failures, not after trying every file.
    let requests = files.bucket.request_count("PUT") - before;
    assert!(requests < 200, "{requests}");
    files.bucket.heal();
    let present = files.count_arrived().await;
    assert_eq!(
        report["copied"].as_u64().unwrap() + report["failed"].as_u64().unwrap(),
        61,
        "{report}"
    );
    assert!(
        copy.stderr().contains("run the command again"),
        "{}",
        copy.stderr()
    );
    files.finish(present).await;
}

//! The file store: the same promises of a folder and of a bucket.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use mediagate_config::BucketEncryption;
use mediagate_media::blob::{BlobError, BlobStore};
use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;
use simulator::{ConnectionCut, LinkState, NetworkState};

use crate::support::bucket::TestBucket;
use crate::support::client::install_tls;

/// From this size files are stored in parts.
const PART: usize = 8 * 1024 * 1024;
const MINUTE: Duration = Duration::from_mins(1);

/// A file of this length in which every part is another.
fn film(length: usize) -> Bytes {
    let block: Vec<u8> = (0..=250).collect();
    let blocks = block.iter().copied().cycle().take(length);
    blocks.collect::<Vec<_>>().into()
}

async fn part(blobs: &BlobStore, id: AssetId, media: MediaType, start: u64, end: u64) -> Vec<u8> {
    let pieces = blobs.stream(id, media, start..end).await.unwrap();
    let pieces: Vec<Bytes> = pieces.unwrap().try_collect().await.unwrap();
    pieces.concat()
}

/// All files of the last minutes.
async fn listed(blobs: &BlobStore, from: Timestamp, to: Timestamp) -> Vec<(AssetId, MediaType)> {
    let mut found = Vec::new();
    for folder in 0..=u8::MAX {
        found.extend(blobs.made_between(folder, from, to).await.unwrap());
    }
    found.sort_by_key(|(id, _)| *id);
    found
}

async fn keeps_its_promises(blobs: &BlobStore) {
    let id = AssetId::new();
    let put = blobs.put(id, MediaType::Png, Bytes::from_static(b"0123456789"));
    put.await.unwrap();
    assert_eq!(blobs.get(id, MediaType::Png).await.unwrap(), "0123456789");
    assert_eq!(part(blobs, id, MediaType::Png, 2, 5).await, b"234");
    // The same name again: replaced.
    let put = blobs.put(id, MediaType::Png, Bytes::from_static(b"abc"));
    put.await.unwrap();
    assert_eq!(blobs.get(id, MediaType::Png).await.unwrap(), "abc");

    // Below, at and above what is stored in parts.
    for length in [PART - 1, PART, 2 * PART + 12_345] {
        let (long, film_id) = (film(length), AssetId::new());
        blobs
            .put(film_id, MediaType::Mp4, long.clone())
            .await
            .unwrap();
        assert_eq!(blobs.get(film_id, MediaType::Mp4).await.unwrap(), long);
        let (start, end) = (5, length - 3);
        let middle = part(blobs, film_id, MediaType::Mp4, start as u64, end as u64).await;
        assert_eq!(middle, long[start..end]);
        blobs.delete(film_id, MediaType::Mp4).await.unwrap();
    }

    // From a file: where the name is taken, and where it is free.
    let home = tempfile::tempdir().unwrap();
    let (file, long, film_id) = (home.path().join("film"), film(PART + 7), AssetId::new());
    blobs
        .put(film_id, MediaType::Mp4, Bytes::from_static(b"x"))
        .await
        .unwrap();
    std::fs::write(&file, &long).unwrap();
    for round in 0..2 {
        blobs
            .put_file(film_id, MediaType::Mp4, &file)
            .await
            .unwrap();
        let stored = blobs.get(film_id, MediaType::Mp4).await.unwrap();
        assert_eq!(stored, long, "round {round}");
        blobs.delete(film_id, MediaType::Mp4).await.unwrap();
    }

    // Only what was made in the time that is asked for, and each of it.
    let now = Clock::system().now();
    let before = now.minus(10 * MINUTE);
    assert_eq!(
        listed(blobs, before, now.plus(MINUTE)).await,
        [(id, MediaType::Png)]
    );
    assert_eq!(listed(blobs, before, now.minus(5 * MINUTE)).await, []);
    assert_eq!(
        listed(blobs, now.plus(MINUTE), now.plus(2 * MINUTE)).await,
        []
    );
    let more: Vec<_> = (0..20).map(|_| (AssetId::new(), MediaType::Jpeg)).collect();
    for (id, media) in &more {
        let put = blobs.put(*id, *media, Bytes::from_static(b"y"));
        put.await.unwrap();
    }
    assert_eq!(listed(blobs, before, now.plus(MINUTE)).await.len(), 21);
    // Some of them are not there.
    let mut gone = more.clone();
    gone.push((AssetId::new(), MediaType::Gif));
    blobs.delete_all(&gone).await.unwrap();
    assert_eq!(
        listed(blobs, before, now.plus(MINUTE)).await,
        [(id, MediaType::Png)]
    );

    blobs.delete(id, MediaType::Png).await.unwrap();
    blobs.delete(id, MediaType::Png).await.unwrap();
    let none = blobs.stream(id, MediaType::Png, 0..1).await.unwrap();
    assert!(none.is_none());
    assert!(blobs.get(id, MediaType::Png).await.is_err());
    assert!(!blobs.is_unavailable());
}

#[tokio::test]
async fn a_folder_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::local(folder.path()).unwrap();
    keeps_its_promises(&blobs).await;
    let link = blobs.link(AssetId::new(), MediaType::Mp4, MINUTE).await;
    assert!(link.unwrap().is_none());
}

#[tokio::test]
async fn a_bucket_keeps_its_promises() {
    install_tls();
    let bucket = TestBucket::start().await;
    keeps_its_promises(&bucket.blobs()).await;
    assert_eq!(bucket.files(), Vec::<String>::new());
    assert_eq!(bucket.unfinished(), 0);
    // Neither a look at everything nor a request for each file.
    assert!(bucket.request_count("POST delete") >= 1);
    assert_eq!(bucket.request_count("DELETE"), 0);
}

#[tokio::test]
async fn a_file_in_a_bucket_says_what_it_is() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let long = film(9 * 1024 * 1024);
    blobs.put(id, MediaType::Mp4, long.clone()).await.unwrap();
    let name = id.to_string();
    let folder = &name[name.len() - 2..];
    assert_eq!(bucket.files(), [format!("some/media/{folder}/{name}.mp4")]);
    let link = blobs
        .link(id, MediaType::Mp4, MINUTE)
        .await
        .unwrap()
        .unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let fetched = http.get(link.clone()).send().await.unwrap();
    assert_eq!(fetched.status(), 200);
    assert_eq!(fetched.headers()["content-type"], "video/mp4");
    let disposition = fetched.headers()["content-disposition"].to_str().unwrap();
    assert_eq!(disposition, format!("inline; filename=\"{name}.mp4\""));
    assert_eq!(fetched.bytes().await.unwrap(), long);
    // The signature is for this file, this type and this method.
    let other = link.as_str().replace("video%2Fmp4", "text%2Fhtml");
    assert_ne!(other, link.as_str());
    assert_eq!(http.get(other).send().await.unwrap().status(), 403);
    let other = link.as_str().replace(&name, &AssetId::new().to_string());
    assert_eq!(http.get(other).send().await.unwrap().status(), 403);
    assert_eq!(http.head(link).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn an_upload_that_fails_leaves_nothing() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let long = film(20 * 1024 * 1024);
    bucket.fail("PUT partNumber");
    let put = blobs.put(id, MediaType::Mp4, long).await;
    assert!(matches!(put, Err(BlobError::Unavailable(_))), "{put:?}");
    assert!(bucket.request_count("PUT partNumber") >= 1);
    assert_eq!((bucket.files().len(), bucket.unfinished()), (0, 0));
}

#[tokio::test]
async fn what_breaks_off_is_tried_again() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let long = film(9 * 1024 * 1024);
    bucket.proxy.cut(ConnectionCut::new("partNumber"));
    blobs.put(id, MediaType::Mp4, long.clone()).await.unwrap();
    bucket.proxy.wait_for_strikes(1).await;
    assert_eq!(blobs.get(id, MediaType::Mp4).await.unwrap(), long);
    assert_eq!(bucket.unfinished(), 0);
}

#[tokio::test]
async fn a_bucket_that_is_away_says_so_and_is_not_asked_by_everybody() {
    install_tls();
    let bucket = TestBucket::start().await;
    let blobs = bucket.blobs();
    let id = AssetId::new();
    bucket.proxy.set(NetworkState::both(LinkState::held()));
    let put = blobs
        .put(id, MediaType::Png, Bytes::from_static(b"x"))
        .await;
    assert!(matches!(put, Err(BlobError::Unavailable(_))), "{put:?}");
    assert!(blobs.is_unavailable());
    let connections = bucket.proxy.traffic().accepted;
    for _ in 0..20 {
        let get = blobs.get(id, MediaType::Png).await;
        assert!(matches!(get, Err(BlobError::Unavailable(_))), "{get:?}");
    }
    assert_eq!(bucket.proxy.traffic().accepted, connections);
    bucket.proxy.heal();
    bucket.proxy.reset();
    crate::support::eventually("it is back", async || {
        blobs.probe().await;
        (!blobs.is_unavailable()).then_some(())
    })
    .await;
    // A bucket that is not there, and a key that is not its.
    let files = bucket.folder.path();
    std::fs::rename(files.join("films"), files.join("other")).unwrap();
    let blobs = bucket.blobs();
    blobs.probe().await;
    assert!(blobs.is_unavailable());
    std::fs::rename(files.join("other"), files.join("films")).unwrap();
    let blobs = bucket.blobs_with_secret("another secret of this length");
    let put = blobs
        .put(id, MediaType::Png, Bytes::from_static(b"x"))
        .await;
    let told = put.unwrap_err().to_string();
    assert!(told.contains("403") && !told.contains("AKID"), "{told}");
}

#[tokio::test]
async fn encryption_is_asked_for_with_each_file() {
    install_tls();
    let bucket = TestBucket::start().await;
    for (way, key, header) in [
        (BucketEncryption::S3, None, "AES256"),
        (BucketEncryption::Kms, Some("films"), "aws:kms"),
    ] {
        let blobs = bucket.blobs_with(|media| {
            media.sse = Some(way);
            media.kms_key = key.map(Into::into);
        });
        for (length, method) in [(10, "PUT"), (PART, "POST")] {
            let asked = format!("{method} {header}");
            // The store of the tests may refuse what it does not do.
            drop(
                blobs
                    .put(AssetId::new(), MediaType::Mp4, film(length))
                    .await,
            );
            assert!(bucket.request_count(&asked) > 0, "{asked}");
        }
    }
}

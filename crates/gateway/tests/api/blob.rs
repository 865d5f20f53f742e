//! The file store: a folder and a bucket behave alike.

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

/// A file of this length whose parts all differ.
fn film(length: usize) -> Bytes {
    let block: Vec<u8> = (0..=250).collect();
    let blocks = block.iter().copied().cycle().take(length);
    blocks.collect::<Vec<_>>().into()
}

async fn read_range(
    blobs: &BlobStore,
    id: AssetId,
    media: MediaType,
    start: u64,
    end: u64,
) -> Vec<u8> {
    let chunks = blobs.stream(id, media, start..end).await.unwrap();
    let chunks: Vec<Bytes> = chunks.unwrap().try_collect().await.unwrap();
    chunks.concat()
}

/// All files made between these times.
async fn list_assets(
    blobs: &BlobStore,
    from: Timestamp,
    to: Timestamp,
) -> Vec<(AssetId, MediaType)> {
    let mut assets = Vec::new();
    for folder in 0..=u8::MAX {
        assets.extend(blobs.made_between(folder, from, to).await.unwrap());
    }
    assets.sort_by_key(|(id, _)| *id);
    assets
}

async fn check_store(blobs: &BlobStore) {
    let id = AssetId::new();
    let put = blobs.put(id, MediaType::Png, Bytes::from_static(b"0123456789"));
    put.await.unwrap();
    assert_eq!(blobs.get(id, MediaType::Png).await.unwrap(), "0123456789");
    assert_eq!(read_range(blobs, id, MediaType::Png, 2, 5).await, b"234");
    // A file with the same name is replaced.
    let put = blobs.put(id, MediaType::Png, Bytes::from_static(b"abc"));
    put.await.unwrap();
    assert_eq!(blobs.get(id, MediaType::Png).await.unwrap(), "abc");

    // Below, at and above the size from which files are stored in parts.
    for length in [PART - 1, PART, 2 * PART + 12_345] {
        let (content, film_id) = (film(length), AssetId::new());
        blobs
            .put(film_id, MediaType::Mp4, content.clone())
            .await
            .unwrap();
        assert_eq!(blobs.get(film_id, MediaType::Mp4).await.unwrap(), content);
        let (start, end) = (5, length - 3);
        let middle = read_range(blobs, film_id, MediaType::Mp4, start as u64, end as u64).await;
        assert_eq!(middle, content[start..end]);
        blobs.delete(film_id, MediaType::Mp4).await.unwrap();
    }

    // From a file: in the first round the name is taken, in the second it is free.
    let home = tempfile::tempdir().unwrap();
    let (file, content, film_id) = (home.path().join("film"), film(PART + 7), AssetId::new());
    blobs
        .put(film_id, MediaType::Mp4, Bytes::from_static(b"x"))
        .await
        .unwrap();
    std::fs::write(&file, &content).unwrap();
    for round in 0..2 {
        blobs
            .put_file(film_id, MediaType::Mp4, &file)
            .await
            .unwrap();
        let stored = blobs.get(film_id, MediaType::Mp4).await.unwrap();
        assert_eq!(stored, content, "round {round}");
        blobs.delete(film_id, MediaType::Mp4).await.unwrap();
    }

    // Exactly the files that were created in the given time are listed.
    let now = Clock::system().now();
    let before = now.minus(10 * MINUTE);
    assert_eq!(
        list_assets(blobs, before, now.plus(MINUTE)).await,
        [(id, MediaType::Png)]
    );
    assert_eq!(list_assets(blobs, before, now.minus(5 * MINUTE)).await, []);
    assert_eq!(
        list_assets(blobs, now.plus(MINUTE), now.plus(2 * MINUTE)).await,
        []
    );
    let others: Vec<_> = (0..20).map(|_| (AssetId::new(), MediaType::Jpeg)).collect();
    for (id, media) in &others {
        let put = blobs.put(*id, *media, Bytes::from_static(b"y"));
        put.await.unwrap();
    }
    assert_eq!(list_assets(blobs, before, now.plus(MINUTE)).await.len(), 21);
    // One of the deleted files does not exist.
    let mut deleted = others.clone();
    deleted.push((AssetId::new(), MediaType::Gif));
    blobs.delete_all(&deleted).await.unwrap();
    assert_eq!(
        list_assets(blobs, before, now.plus(MINUTE)).await,
        [(id, MediaType::Png)]
    );

    blobs.delete(id, MediaType::Png).await.unwrap();
    blobs.delete(id, MediaType::Png).await.unwrap();
    let missing = blobs.stream(id, MediaType::Png, 0..1).await.unwrap();
    assert!(missing.is_none());
    assert!(blobs.get(id, MediaType::Png).await.is_err());
    assert!(!blobs.is_unavailable());
}

#[tokio::test]
async fn a_folder_works_as_a_file_store() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::local(folder.path()).unwrap();
    check_store(&blobs).await;
    let link = blobs.link(AssetId::new(), MediaType::Mp4, MINUTE).await;
    assert!(link.unwrap().is_none());
}

#[tokio::test]
async fn a_bucket_works_as_a_file_store() {
    install_tls();
    let bucket = TestBucket::start().await;
    check_store(&bucket.blobs()).await;
    assert_eq!(bucket.files(), Vec::<String>::new());
    assert_eq!(bucket.unfinished_uploads(), 0);
    // Files are deleted in batches, not by one request each.
    assert!(bucket.request_count("POST delete") >= 1);
    assert_eq!(bucket.request_count("DELETE"), 0);
}

#[tokio::test]
async fn a_file_in_a_bucket_has_a_type_and_a_name() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let content = film(9 * 1024 * 1024);
    blobs
        .put(id, MediaType::Mp4, content.clone())
        .await
        .unwrap();
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
    assert_eq!(fetched.bytes().await.unwrap(), content);
    // The signature is for this file, this type and this method.
    let tampered = link.as_str().replace("video%2Fmp4", "text%2Fhtml");
    assert_ne!(tampered, link.as_str());
    assert_eq!(http.get(tampered).send().await.unwrap().status(), 403);
    let tampered = link.as_str().replace(&name, &AssetId::new().to_string());
    assert_eq!(http.get(tampered).send().await.unwrap().status(), 403);
    assert_eq!(http.head(link).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn an_upload_that_fails_leaves_nothing() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let content = film(20 * 1024 * 1024);
    bucket.fail("PUT partNumber");
    let put = blobs.put(id, MediaType::Mp4, content).await;
    assert!(matches!(put, Err(BlobError::Unavailable(_))), "{put:?}");
    assert!(bucket.request_count("PUT partNumber") >= 1);
    assert_eq!((bucket.files().len(), bucket.unfinished_uploads()), (0, 0));
}

#[tokio::test]
async fn a_broken_upload_is_retried() {
    install_tls();
    let bucket = TestBucket::start().await;
    let (blobs, id) = (bucket.blobs(), AssetId::new());
    let content = film(9 * 1024 * 1024);
    bucket.proxy.cut(ConnectionCut::new("partNumber"));
    blobs
        .put(id, MediaType::Mp4, content.clone())
        .await
        .unwrap();
    bucket.proxy.wait_for_strikes(1).await;
    assert_eq!(blobs.get(id, MediaType::Mp4).await.unwrap(), content);
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[tokio::test]
async fn an_unavailable_bucket_is_reported_and_gets_few_requests() {
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
    crate::support::eventually("the bucket is back", async || {
        blobs.probe().await;
        (!blobs.is_unavailable()).then_some(())
    })
    .await;
    // A missing bucket, and a wrong key.
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
    let message = put.unwrap_err().to_string();
    assert!(
        message.contains("403") && !message.contains("AKID"),
        "{message}"
    );
}

#[tokio::test]
async fn every_upload_requests_encryption() {
    install_tls();
    let bucket = TestBucket::start().await;
    for (encryption, key, header) in [
        (BucketEncryption::S3, None, "AES256"),
        (BucketEncryption::Kms, Some("films"), "aws:kms"),
    ] {
        let blobs = bucket.blobs_with(|media| {
            media.sse = Some(encryption);
            media.kms_key = key.map(Into::into);
        });
        for (length, method) in [(10, "PUT"), (PART, "POST")] {
            let request = format!("{method} {header}");
            // The test's store may reject encryption, which it does not implement.
            drop(
                blobs
                    .put(AssetId::new(), MediaType::Mp4, film(length))
                    .await,
            );
            assert!(bucket.request_count(&request) > 0, "{request}");
        }
    }
}

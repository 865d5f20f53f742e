//! Pictures from callers: fetched, checked and stored before the task that uses them is accepted.

use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use tempfile::{NamedTempFile, TempPath};

use crate::app::App;
use crate::domain::assets;
use crate::domain::task_acceptance::OrderPurpose;
use crate::limits::WorkKind;
use crate::limits::WorkSlot;
use mediagate_media::engines::child::{self, BadPicture, PictureFacts};
use mediagate_media::engines::clip;
use mediagate_media::fetch::FetchError;
use mediagate_model::account::Caller;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, AssetId};
use mediagate_model::media::{Asset, MediaType};

/// Largest picture file.
pub const LIMIT_BYTES: u64 = 20_000_000;

/// Bytes of a picture that are fetched for a quote: cameras put a thumbnail and more before the
/// size.
const HEADER_BYTES: u64 = 256 << 10;

/// Source of a picture.
#[derive(Debug, Clone, PartialEq)]
pub enum PictureSource {
    /// An http, https or `data:` URL.
    Address(String),
    /// Bytes in the request.
    Bytes(Bytes),
    /// An image of the account that is stored already, such as the input of an earlier task.
    Stored(AssetId),
}

/// A picture that has been checked. Its file is on the disk.
#[derive(Debug, Clone)]
pub struct SpooledPicture {
    /// The id it will be stored under.
    pub id: AssetId,
    /// Width and height in pixels, with orientation applied.
    pub size: (u32, u32),
    media: MediaType,
    file: Arc<TempPath>,
    size_bytes: u64,
    /// SHA-256 of its file, in lower-case hex.
    sha256: String,
}

impl SpooledPicture {
    /// Size of its file.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// SHA-256 of its file, in lower-case hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Its file as a `data:` URL.
    pub async fn data_url(&self, app: &App) -> Result<String, Error> {
        let (file, media) = (self.file.clone(), self.media);
        let read = move || -> std::io::Result<String> {
            let bytes = std::fs::read(&*file)?;
            let content = base64::engine::general_purpose::STANDARD.encode(bytes);
            Ok(format!("data:{};base64,{content}", media.mime()))
        };
        app.compute(read).await?.map_err(Error::internal)
    }
}

/// Fetches and checks a picture, when it is the account's turn. `param` is the field to name in
/// errors.
///
/// For an order it is decoded completely, so that a truncated picture is refused now rather than by
/// the task. For a quote its header is enough. A picture that was decoded before is not decoded
/// again.
pub async fn fetch_checked(
    app: &App,
    account: AccountId,
    source: PictureSource,
    purpose: OrderPurpose,
    param: &str,
) -> Result<SpooledPicture, Error> {
    let file = match source {
        PictureSource::Bytes(bytes) => spool(app, bytes).await?,
        PictureSource::Stored(id) => {
            let stored = assets::load_own_picture(app, account, id).await?;
            stored.ok_or_else(|| not_stored(param))?
        }
        PictureSource::Address(address) if is_data_url(&address) => {
            spool(app, decode_data_url(&address, param)?).await?
        }
        PictureSource::Address(address) if purpose == OrderPurpose::Quote => {
            // Nearly always the header is at the beginning, and the rest need not be fetched.
            let beginning = fetch(app, account, &address, FetchExtent::Beginning, param).await?;
            match inspect(app, account, beginning, purpose, param).await {
                Ok(picture) => return Ok(picture),
                // The header may come after a large thumbnail, so the whole file is needed.
                Err(_) => fetch(app, account, &address, FetchExtent::Whole, param).await?,
            }
        }
        PictureSource::Address(address) => {
            fetch(app, account, &address, FetchExtent::Whole, param).await?
        }
    };
    inspect(app, account, file, purpose, param).await
}

/// Checks the picture in a file.
async fn inspect(
    app: &App,
    account: AccountId,
    file: TempPath,
    purpose: OrderPurpose,
    param: &str,
) -> Result<SpooledPicture, Error> {
    let file = Arc::new(file);
    let input = file.clone();
    let digest = app.compute(move || clip::digest(&input)).await?;
    let (size_bytes, sha256) = digest.map_err(Error::internal)?;
    // A fetch stops at this limit, but bytes in the request may exceed it.
    if size_bytes > LIMIT_BYTES {
        return Err(too_large(param));
    }
    // The same bytes always decode to the same picture, so no child is started for a picture that
    // was decoded before, whoever sends it.
    let facts = match app.caches.pictures.get(&sha256) {
        Some(facts) => facts,
        None => probe_in_child(app, account, file.clone(), &sha256, purpose, param).await?,
    };
    Ok(SpooledPicture {
        id: AssetId::new(),
        size: (facts.width, facts.height),
        media: facts.extension.parse().map_err(Error::internal)?,
        file,
        size_bytes,
        sha256,
    })
}

async fn probe_in_child(
    app: &App,
    account: AccountId,
    file: Arc<TempPath>,
    sha256: &str,
    purpose: OrderPurpose,
    param: &str,
) -> Result<PictureFacts, Error> {
    let (engines, is_order) = (app.engines.clone(), purpose == OrderPurpose::Order);
    let probe = move |slot: &WorkSlot| {
        let reserve = |bytes| slot.reserve(bytes);
        child::probe_picture(&engines, &file, is_order, reserve, slot.watch())
    };
    // No memory is reserved in advance: the child reads the header first and asks for the memory
    // that it needs.
    let probed = app
        .limits
        .media_work
        .work(account, WorkKind::Picture, 0, probe)
        .await?;
    let facts = probed.map_err(Error::from)?;
    let facts = facts.map_err(|fault| picture_error(&fault, param))?;
    // For a quote only the header was read. The rest of the picture may still be broken.
    if is_order {
        app.caches.pictures.insert(sha256.to_owned(), facts.clone());
    }
    Ok(facts)
}

/// Writes bytes of a request to a temporary file.
async fn spool(app: &App, bytes: Bytes) -> Result<TempPath, Error> {
    let folder = app.config.spool_path();
    let write = move || -> std::io::Result<TempPath> {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(&bytes)?;
        Ok(file.into_temp_path())
    };
    app.compute(write).await?.map_err(Error::internal)
}

async fn fetch(
    app: &App,
    account: AccountId,
    address: &str,
    extent: FetchExtent,
    param: &str,
) -> Result<TempPath, Error> {
    let _slot = app.limits.fetches.wait(account, 1).await;
    let (fetcher, spool) = (&app.net.fetcher, app.config.spool_path());
    let fetched = match extent {
        FetchExtent::Whole => fetcher.fetch(address, LIMIT_BYTES, &spool).await,
        FetchExtent::Beginning => fetcher.fetch_beginning(address, HEADER_BYTES, &spool).await,
    };
    fetched.map_err(|error| fetch_error(error, param))
}

/// How much of a picture is fetched.
#[derive(Debug, Clone, Copy)]
enum FetchExtent {
    Whole,
    Beginning,
}

/// Stores a picture. The caller inserts the record, with the task that uses it.
pub async fn keep(app: &App, caller: &Caller, picture: &SpooledPicture) -> Result<Asset, Error> {
    assets::keep_file_as(
        app,
        picture.id,
        caller.account.id,
        picture.media,
        &picture.file,
        (picture.size_bytes, picture.sha256.clone()),
    )
    .await
}

fn not_stored(param: &str) -> Error {
    let message = "There is no stored image with this id, or it was removed.";
    Error::at_field(ErrorCode::MediaNotFound, param, message)
}

fn picture_error(picture: &BadPicture, param: &str) -> Error {
    let code = if picture.is_too_large {
        ErrorCode::ImageTooLarge
    } else {
        ErrorCode::ImageInvalid
    };
    let message = format!("The image cannot be used: {}.", picture.message);
    Error::at_field(code, param, message)
}

fn fetch_error(error: FetchError, param: &str) -> Error {
    match error {
        FetchError::Blocked(reason) => Error::at_field(
            ErrorCode::ImageFetchBlocked,
            param,
            format!("Fetching the image's URL is not allowed: {reason}."),
        ),
        FetchError::Failed(reason) => Error::at_field(
            ErrorCode::ImageFetchFailed,
            param,
            format!("The image could not be fetched: {reason}."),
        ),
        FetchError::TooLarge { .. } => too_large(param),
        FetchError::Local(error) => Error::internal(error),
    }
}

fn too_large(param: &str) -> Error {
    let message = format!(
        "The image file is larger than {} MB.",
        LIMIT_BYTES / 1_000_000
    );
    Error::at_field(ErrorCode::ImageTooLarge, param, message)
}

/// Whether a URL contains its content.
pub fn is_data_url(address: &str) -> bool {
    address
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// The bytes of a base64 `data:` URL (RFC 2397). Its media type is ignored; the bytes decide.
fn decode_data_url(address: &str, param: &str) -> Result<Bytes, Error> {
    let broken = |reason: &str| {
        Error::at_field(
            ErrorCode::ImageInvalid,
            param,
            format!("The data: URL cannot be read: {reason}."),
        )
    };
    let (head, data) = address
        .split_once(',')
        .ok_or_else(|| broken("it has no comma"))?;
    if !head.to_ascii_lowercase().ends_with(";base64") {
        return Err(broken("only base64 content is supported"));
    }
    // In a URL, `+`, `/` and `=` may be percent-encoded. Some clients break base64 into lines or
    // leave out its padding.
    let mut clean: Vec<u8> = percent_encoding::percent_decode_str(data).collect();
    clean.retain(|byte| !byte.is_ascii_whitespace());
    base64::engine::general_purpose::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new()
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
    )
    .decode(clean)
    .map(Bytes::from)
    .map_err(|_| broken("its base64 content is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_addresses_are_read_or_refused() {
        assert_eq!(
            decode_data_url("data:image/png;base64,aGk=", "p").unwrap(),
            "hi"
        );
        assert_eq!(decode_data_url("DATA:;base64,aGk", "p").unwrap(), "hi");
        assert_eq!(
            decode_data_url("data:;base64,aGk%3D%0d%0A", "p").unwrap(),
            "hi"
        );
        for bad in [
            "data:image/png;base64",
            "data:;base64,aGk%3",
            "data:image/png,hi",
            "data:;base64,a*b",
        ] {
            assert_eq!(
                decode_data_url(bad, "p").unwrap_err().code(),
                ErrorCode::ImageInvalid,
                "{bad}"
            );
        }
        assert!(is_data_url("data:,x") && !is_data_url("https://x") && !is_data_url("d"));
    }
}

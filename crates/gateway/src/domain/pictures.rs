//! Pictures from callers: fetched, checked and stored before the task that uses them is accepted.

use base64::Engine as _;
use bytes::Bytes;

use crate::app::App;
use crate::domain::assets;
use crate::domain::submit::Purpose;
use crate::error::{Error, ErrorCode};
use crate::fetch::FetchError;
use crate::ids::AssetId;
use crate::model::account::Caller;
use crate::model::media::{Asset, MediaType};

/// Largest picture file.
pub const LIMIT_BYTES: u64 = 20_000_000;

/// Source of a picture.
#[derive(Debug, Clone, PartialEq)]
pub enum PictureSource {
    /// An http, https or `data:` URL.
    Address(String),
    /// Bytes in the request.
    Bytes(Bytes),
}

/// A picture that has been checked.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The id it will be stored under.
    pub id: AssetId,
    /// Width and height in pixels, with orientation applied.
    pub size: (u32, u32),
    media: MediaType,
    bytes: Bytes,
    /// Of its file, in lower-case hex.
    sha256: String,
}

impl Picture {
    /// Size of its file.
    pub fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Fetches and checks a picture. `param` is the field to name in errors.
///
/// For an order it is decoded completely, so that a truncated picture is refused now rather than by
/// the task; for a quote, or one that was decoded before, its header is enough.
pub async fn take(
    app: &App,
    source: PictureSource,
    purpose: Purpose,
    param: &str,
) -> Result<Picture, Error> {
    let bytes = match source {
        PictureSource::Bytes(bytes) => bytes,
        PictureSource::Address(address) if is_data_url(&address) => {
            decode_data_url(&address, param)?
        }
        PictureSource::Address(address) => fetch(app, &address, param).await?,
    };
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(too_large(param));
    }
    let limits = animatic::PictureLimits::default();
    let looked_at = bytes.clone();
    let looked = app.compute(move || {
        let info = animatic::picture::probe(&looked_at, &limits)?;
        Ok((info, assets::sha256_hex(&looked_at)))
    });
    let (info, sha256) = looked
        .await?
        .map_err(|error| picture_error(&error, param))?;
    let known = &app.caches.pictures;
    if purpose == Purpose::Order && !known.contains_key(&sha256) {
        let checked = bytes.clone();
        let decoded = app.limits.room.work(info.decoding_bytes, move |_| {
            animatic::picture::decode(&checked, &limits).map(drop)
        });
        decoded
            .await?
            .map_err(|error| picture_error(&error, param))?;
        known.insert(sha256.clone(), ());
    }
    let media: MediaType = info.format.extension().parse().map_err(Error::internal)?;
    Ok(Picture {
        id: AssetId::new(),
        size: (info.width, info.height),
        media,
        bytes,
        sha256,
    })
}

async fn fetch(app: &App, address: &str, param: &str) -> Result<Bytes, Error> {
    let spool = app.config.spool_path();
    let fetched = app.net.fetcher.fetch(address, LIMIT_BYTES, &spool).await;
    let file = fetched.map_err(|error| fetch_error(error, param))?;
    let bytes = tokio::fs::read(&file).await.map_err(Error::internal)?;
    Ok(bytes.into())
}

/// Stores a picture. The caller inserts the record, with the task that uses it.
pub async fn keep(app: &App, caller: &Caller, picture: &Picture) -> Result<Asset, Error> {
    let (account, sha256) = (caller.account.id, picture.sha256.clone());
    let bytes = picture.bytes.clone();
    assets::keep_as(app, picture.id, account, picture.media, bytes, sha256).await
}

fn picture_error(error: &animatic::PictureError, param: &str) -> Error {
    let code = match error {
        animatic::PictureError::TooLarge { .. }
        | animatic::PictureError::TooLong { .. }
        | animatic::PictureError::TooMuchMemory { .. } => ErrorCode::ImageTooLarge,
        _ => ErrorCode::ImageInvalid,
    };
    Error::at(code, param, format!("The picture cannot be used: {error}."))
}

fn fetch_error(error: FetchError, param: &str) -> Error {
    match error {
        FetchError::Blocked(why) => Error::at(
            ErrorCode::ImageFetchBlocked,
            param,
            format!("Fetching the picture's URL is not allowed: {why}."),
        ),
        FetchError::Failed(why) => Error::at(
            ErrorCode::ImageFetchFailed,
            param,
            format!("The picture could not be fetched: {why}."),
        ),
        FetchError::TooLarge { .. } => too_large(param),
        FetchError::Local(error) => Error::internal(error),
    }
}

fn too_large(param: &str) -> Error {
    let message = format!(
        "The picture's file is larger than {} MB.",
        LIMIT_BYTES / 1_000_000
    );
    Error::at(ErrorCode::ImageTooLarge, param, message)
}

/// Whether a URL contains its content.
pub fn is_data_url(address: &str) -> bool {
    address
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// The bytes of a base64 `data:` URL (RFC 2397). Its media type is ignored; the bytes decide.
fn decode_data_url(address: &str, param: &str) -> Result<Bytes, Error> {
    let broken = |why: &str| {
        Error::at(
            ErrorCode::ImageInvalid,
            param,
            format!("The data: URL cannot be read: {why}."),
        )
    };
    let (head, data) = address
        .split_once(',')
        .ok_or_else(|| broken("it has no comma"))?;
    if !head.to_ascii_lowercase().ends_with(";base64") {
        return Err(broken("only base64 content is supported"));
    }
    let clean: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new()
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
    )
    .decode(clean)
    .map(Bytes::from)
    .map_err(|_| broken("its base64 is invalid"))
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
        for bad in [
            "data:image/png;base64",
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

//! Signed media URLs: `/media/{expiry}-{signature}/{id}.{ext}`.
//!
//! The signature is HMAC-SHA-256 over the expiry and the file's name: anyone who has the URL can
//! play the file until it expires, and signatures cannot be forged.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AssetId;
use mediagate_model::media::MediaType;

/// Why a URL is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlRejection {
    /// Malformed, or not signed by us.
    Forged,
    /// Expired.
    Expired,
}

/// Signs and checks media URLs.
#[derive(Clone)]
pub struct UrlSigner(Vec<Hmac<Sha256>>);

impl UrlSigner {
    /// Signs with the first of these secrets, and accepts signatures of any of them.
    pub fn new(secrets: &[Vec<u8>]) -> Self {
        // HMAC's own rule for long keys (RFC 2104), applied to all: hash, then pad the block with
        // zeros.
        let keys = secrets.iter().map(|secret| {
            let mut block = [0; 64];
            block[..32].copy_from_slice(&<Sha256 as sha2::Digest>::digest(secret));
            Hmac::new(&block.into())
        });
        Self(keys.collect())
    }

    /// A fingerprint that distinguishes signing secrets and reveals nothing about them.
    pub fn key_fingerprint(&self) -> String {
        let mac = self.0.first().map(|key| mac(key, 0, "mark"));
        mac.map_or_else(String::new, |mac| {
            BASE64.encode(mac.finalize().into_bytes())
        })
    }

    /// The path of a file's URL.
    pub fn path(&self, id: AssetId, media: MediaType, expires_at: Timestamp) -> String {
        let name = format!("{id}.{}", media.extension());
        let expiry = expires_at.seconds();
        let mac_of_name = self.0.first().map(|key| mac(key, expiry, &name));
        let signature = mac_of_name.map_or_else(String::new, |mac| {
            BASE64.encode(mac.finalize().into_bytes())
        });
        format!("/media/{expiry}-{signature}/{name}")
    }

    /// The file that a URL opens at `now`; `ticket` and `name` are the last two segments of its
    /// path.
    pub fn open(
        &self,
        ticket: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<(AssetId, MediaType), UrlRejection> {
        let (expiry, signature) = ticket.split_once('-').ok_or(UrlRejection::Forged)?;
        let expiry: i64 = expiry.parse().map_err(|_| UrlRejection::Forged)?;
        let signature = BASE64.decode(signature).map_err(|_| UrlRejection::Forged)?;
        // `verify_slice` compares in constant time.
        let mut keys = self.0.iter();
        if !keys.any(|key| mac(key, expiry, name).verify_slice(&signature).is_ok()) {
            return Err(UrlRejection::Forged);
        }
        // Checked after the signature, so that this error is returned only for URLs that were
        // signed here.
        if expiry <= now.seconds() {
            return Err(UrlRejection::Expired);
        }
        let (id, extension) = name.split_once('.').ok_or(UrlRejection::Forged)?;
        Ok((
            id.parse().map_err(|_| UrlRejection::Forged)?,
            extension.parse().map_err(|_| UrlRejection::Forged)?,
        ))
    }
}

fn mac(key: &Hmac<Sha256>, expiry: i64, name: &str) -> Hmac<Sha256> {
    let mut mac = key.clone();
    // With a separator that no expiry contains, so that no two URLs give the same text.
    mac.update(format!("{expiry}/{name}").as_bytes());
    mac
}

/// The secret in a file, created at the first start.
pub fn load_or_create_secret(path: &Path) -> std::io::Result<Vec<u8>> {
    if !path.exists() {
        write_private(path, &secret(path)?)?;
    }
    // Another process may have created it first, so the file's content counts.
    secret(path)
}

/// The secret in a file, or a new one if there is no file.
pub fn secret(path: &Path) -> std::io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Ok(secret) if secret.len() >= 32 => Ok(secret),
        Ok(_) => Err(std::io::Error::other("the signing key file is too short")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut secret = vec![0; 32];
            getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
            Ok(secret)
        }
        Err(error) => Err(error),
    }
}

/// The secret as text, for the database.
pub fn to_text(secret: &[u8]) -> String {
    BASE64.encode(secret)
}

/// Parses a secret's text.
pub fn from_text(text: &str) -> std::io::Result<Vec<u8>> {
    BASE64.decode(text).map_err(std::io::Error::other)
}

/// Writes a new file that only its owner can read; an existing one stays.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    // The file gets its name when it is complete, so that no other process reads half a secret.
    let mut file = tempfile::Builder::new().tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mediagate_model::clock::Clock;

    fn split(path: &str) -> (&str, &str) {
        path.strip_prefix("/media/")
            .unwrap()
            .split_once('/')
            .unwrap()
    }

    #[test]
    fn an_address_opens_its_file_until_its_time_is_over() {
        let (signer, clock, id) = (
            UrlSigner::new(&[b"secret".to_vec()]),
            Clock::manual(),
            AssetId::new(),
        );
        let path = signer.path(id, MediaType::Mp4, clock.now().plus(Duration::from_mins(1)));
        assert_eq!(path.rsplit('.').next(), Some("mp4"));
        let (ticket, name) = split(&path);
        assert_eq!(
            signer.open(ticket, name, clock.now()),
            Ok((id, MediaType::Mp4))
        );
        clock.advance(Duration::from_mins(2));
        assert_eq!(
            signer.open(ticket, name, clock.now()),
            Err(UrlRejection::Expired)
        );
    }

    #[test]
    fn a_changed_address_opens_nothing() {
        let (signer, now, id) = (
            UrlSigner::new(&[b"secret".to_vec()]),
            Clock::system().now(),
            AssetId::new(),
        );
        let path = signer.path(id, MediaType::Mp4, now.plus(Duration::from_mins(1)));
        let (ticket, name) = split(&path);
        let later = ticket.replacen(|c: char| c.is_ascii_digit(), "9", 1);
        let other = format!("{}.mp4", AssetId::new());
        for (ticket, name) in [
            (later.as_str(), name),
            (ticket, other.as_str()),
            ("", name),
            ("1-", name),
            (ticket, "x"),
        ] {
            assert_eq!(
                signer.open(ticket, name, now),
                Err(UrlRejection::Forged),
                "{ticket} {name}"
            );
        }
        assert_eq!(
            UrlSigner::new(&[b"other".to_vec()]).open(ticket, name, now),
            Err(UrlRejection::Forged)
        );
    }

    #[test]
    fn the_key_file_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signing.key");
        let first = UrlSigner::new(&[load_or_create_secret(&path).unwrap()]);
        let second = UrlSigner::new(&[load_or_create_secret(&path).unwrap()]);
        let address = first.path(
            AssetId::new(),
            MediaType::Png,
            Timestamp::from_seconds(4_000_000_000),
        );
        let (ticket, name) = split(&address);
        assert!(
            second
                .open(ticket, name, Timestamp::from_seconds(0))
                .is_ok()
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(
                std::fs::metadata(&path).unwrap().permissions().mode() & 0o077,
                0
            );
        }
    }
}

//! Sessions: a key exchanged for a cookie, so that a browser need not keep the key.
//!
//! The cookie is 256 random bits, of which only the SHA-256 is stored. A page that writes proves with
//! the session's CSRF token that it could read an answer of this service.

use std::net::IpAddr;
use std::time::Duration;

use crate::app::Parts;
use crate::clock::Timestamp;
use crate::domain::assets::sha256_hex;
use crate::domain::keys;
use crate::error::{Error, ErrorCode};
use crate::model::account::Caller;
use crate::secret::Secret;
use crate::store;

/// How long a session lasts.
pub const LENGTH: Duration = Duration::from_hours(12);
/// Most sessions of one key at once.
const MOST: i64 = 100;
/// Digits of a cookie, in hexadecimal.
const DIGITS: usize = 64;

/// A session that begins.
pub struct Begun {
    pub cookie: Secret,
    pub expires_at: Timestamp,
}

/// Begins a session with the rights of this caller's key.
pub async fn begin(app: &Parts, caller: &Caller) -> Result<Begun, Error> {
    let mut bits = [0_u8; DIGITS / 2];
    getrandom::fill(&mut bits).map_err(Error::internal)?;
    let cookie = Secret::new(crate::domain::assets::hex(&bits));
    let (key, now) = (caller.key.id, app.clock.now());
    let (sha256, expires_at) = (hash(&cookie), now.plus(LENGTH));
    let written = app.store.write(move |conn| -> Result<(), Error> {
        store::sessions::forget_before(conn, now)?;
        if store::sessions::count(conn, key)? >= MOST {
            let message = format!("A key has at most {MOST} sessions; end one, or rotate the key.");
            return Err(Error::plain(ErrorCode::LimitReached, message));
        }
        Ok(store::sessions::insert(
            conn, &sha256, key, now, expires_at,
        )?)
    });
    store::soon(written).await?;
    Ok(Begun { cookie, expires_at })
}

/// Ends a session, from its next request on.
pub async fn end(app: &Parts, cookie: &Secret) -> Result<(), Error> {
    let sha256 = hash(cookie);
    let written = app
        .store
        .write(move |conn| store::sessions::delete(conn, &sha256).map_err(Error::from));
    store::soon(written).await
}

/// The caller with this cookie, if the session and its key are valid now and from this address.
pub async fn check(app: &Parts, cookie: &Secret, address: IpAddr) -> Result<Caller, Error> {
    let ended = || {
        let message = "The session has ended. Sign in again.";
        Error::plain(ErrorCode::ExpiredApiKey, message)
    };
    if cookie.expose().len() != DIGITS {
        return Err(ended());
    }
    let caller = keys::known(app, hash(cookie), store::sessions::caller).await?;
    let caller = caller.ok_or_else(ended)?;
    if caller.ends_at.is_some_and(|at| at <= app.clock.now()) {
        return Err(ended());
    }
    keys::admit(app, caller, address)
}

/// What a page that writes has to send with this cookie.
pub fn csrf_token(cookie: &Secret) -> String {
    sha256_hex(format!("csrf {}", cookie.expose()).as_bytes())
}

/// Whether this is the session's token. Compared by their hashes: the time that takes tells nothing
/// of the token.
pub fn is_csrf_token(cookie: &Secret, sent: &[u8]) -> bool {
    sha256_hex(sent) == sha256_hex(csrf_token(cookie).as_bytes())
}

/// Told apart from the hashes of keys, which share a cache.
fn hash(cookie: &Secret) -> String {
    sha256_hex(format!("session {}", cookie.expose()).as_bytes())
}

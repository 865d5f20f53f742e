//! Sessions: a key exchanged for a cookie, so that a browser need not keep the key.
//!
//! The cookie is 256 random bits, of which only the SHA-256 is stored. A page that writes proves
//! with the session's CSRF token that it could read a response of this service.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::app::{AppParts, Ctx};
use crate::domain::assets::sha256_hex;
use crate::domain::audit::ChangeAuthor;
use crate::domain::keys;
use mediagate_model::account::{ApiKey, Caller};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::KeyId;
use mediagate_model::secret::Secret;
use mediagate_store::{self as store, Conn};

/// How long a session lasts.
pub const SESSION_TTL: Duration = Duration::from_hours(12);
/// Maximum number of simultaneous sessions of one key; one more ends the oldest.
const MAX_SESSIONS: i64 = 100;
/// Digits of a session's hash that the audit log shows.
const LOGGED_DIGITS: usize = 16;
/// Digits of a cookie, in hexadecimal.
const COOKIE_DIGITS: usize = 64;

/// A session that begins.
pub struct NewSession {
    pub cookie: Secret,
    pub expires_at: Timestamp,
}

/// Begins a session with the rights of this caller's key. It ends with the caller's current secret,
/// so a former secret cannot begin one.
pub async fn begin(app: &Ctx, caller: &Caller, author: ChangeAuthor) -> Result<NewSession, Error> {
    keys::refuse_former_secret(caller)?;
    let mut bits = [0_u8; COOKIE_DIGITS / 2];
    getrandom::fill(&mut bits).map_err(Error::internal)?;
    let cookie = Secret::new(crate::domain::assets::hex(&bits));
    let (key, now) = (caller.key.clone(), app.clock.now());
    let (sha256, expires_at) = (hash(&cookie), now.plus(SESSION_TTL));
    let write = app.store.write(move |conn| -> Result<(), Error> {
        // Cleaned up here, as only a new session makes the table grow.
        store::sessions::forget_before(conn, now)?;
        // Sessions that were never ended must not lock anyone out, so the oldest ones are removed.
        let too_many = store::sessions::count(conn, key.id, now)? + 1 - MAX_SESSIONS;
        if too_many > 0 {
            for oldest in store::sessions::delete_oldest(conn, key.id, too_many)? {
                note_end(conn, &author, key.id, &oldest, "too many sessions", now)?;
            }
        }
        store::sessions::insert(conn, &sha256, &key, now, expires_at)?;
        let after = json!({"session": log_name(&sha256), "expires_at": expires_at.rfc3339()});
        author.note(conn, "session.begin", &key.id, (None, Some(after)), now)
    });
    store::await_within_limit(write).await?;
    Ok(NewSession { cookie, expires_at })
}

/// Ends a session, from its next request on.
pub async fn end(
    app: &AppParts,
    caller: &Caller,
    cookie: &Secret,
    author: ChangeAuthor,
) -> Result<(), Error> {
    let (sha256, key, now) = (hash(cookie), caller.key.id, app.clock.now());
    let write = app.store.write(move |conn| -> Result<(), Error> {
        if store::sessions::delete(conn, &sha256)? {
            note_end(conn, &author, key, &sha256, "signed out", now)?;
        }
        Ok(())
    });
    let ended = store::await_within_limit(write).await;
    app.caches.note_key_change();
    ended
}

fn note_end(
    conn: &mut Conn<'_>,
    author: &ChangeAuthor,
    key: KeyId,
    sha256: &str,
    reason: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let before = json!({"session": log_name(sha256)});
    let after = json!({"session": log_name(sha256), "ended": reason});
    author.note_if_room(conn, "session.end", &key, (Some(before), Some(after)), now)
}

/// A session in the audit log: enough to distinguish it, too little to find its cookie.
fn log_name(sha256: &str) -> &str {
    sha256.get(..LOGGED_DIGITS).unwrap_or(sha256)
}

/// The caller with this cookie, if the session and its key are valid now and from this address.
pub async fn check(app: &AppParts, cookie: &Secret, address: IpAddr) -> Result<Arc<Caller>, Error> {
    if cookie.expose().len() != COOKIE_DIGITS {
        return Err(ended_error());
    }
    let caller = check_hash(app, hash(cookie), address).await?;
    keys::note_use(app, &caller);
    Ok(caller)
}

/// Like [`check`], for the cookie with this hash.
pub(super) async fn check_hash(
    app: &AppParts,
    sha256: String,
    address: IpAddr,
) -> Result<Arc<Caller>, Error> {
    let caller = keys::cached_caller(app, sha256, store::sessions::caller).await?;
    let caller = caller.ok_or_else(ended_error)?;
    if caller
        .credential
        .ends_at()
        .is_some_and(|at| at <= app.clock.now())
    {
        return Err(ended_error());
    }
    keys::admit(app, &caller, address)?;
    Ok(caller)
}

fn ended_error() -> Error {
    let message = "The session has ended. Sign in again.";
    Error::plain(ErrorCode::ExpiredApiKey, message)
}

/// The key of a session, valid or not.
pub async fn key_of_cookie(app: &AppParts, cookie: &Secret) -> Result<Option<ApiKey>, Error> {
    let caller = keys::cached_caller(app, hash(cookie), store::sessions::caller).await?;
    Ok(caller.map(|caller| caller.key.clone()))
}

/// What a page that writes has to send with this cookie.
pub fn csrf_token(cookie: &Secret) -> String {
    sha256_hex(format!("csrf {}", cookie.expose()).as_bytes())
}

/// Whether this is the session's token. Compared by their hashes: the time that takes reveals
/// nothing about the token.
pub fn is_csrf_token(cookie: &Secret, token: &[u8]) -> bool {
    sha256_hex(token) == sha256_hex(csrf_token(cookie).as_bytes())
}

/// The hash of a cookie. It differs from the hashes of keys, which share a cache with it.
pub(super) fn hash(cookie: &Secret) -> String {
    sha256_hex(format!("session {}", cookie.expose()).as_bytes())
}

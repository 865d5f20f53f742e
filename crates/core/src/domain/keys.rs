//! API keys: format, creation and verification.
//!
//! A key is `sk-mg-`, 43 base62 characters with 256 random bits, and a checksum of 6
//! (CRC-32/ISO-HDLC of the 43, as a base62 number). The checksum rejects typos without a lookup and
//! lets secret scanners match the format. Only the SHA-256 is stored: a key has full entropy, so a
//! slow hash would add nothing. `changes` has an operator's changes to keys,
//! `open_tasks` what becomes of the tasks of a key that ends.

mod changes;
mod last_use;
mod open_tasks;
mod watch;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::app::{App, AppParts, Ctx};
use crate::caches::CachedCaller;
use crate::domain::audit::ChangeAuthor;
use mediagate_model::account::{
    Account, ApiKey, BudgetPeriod, Caller, CallerCredential, KeyRecord, Scope,
};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::KeyId;
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::Secret;
use mediagate_store::tasks::PageQuery;
use mediagate_store::{Conn, StoreError, accounts};

pub use changes::{
    ClosedAccount, IssuedKey, KeyChanges, KeyDependents, RevocationOptions, change, check_models,
    close_account, get, issue, not_found, page, revoke, rotate,
};
pub use last_use::note_uses;
pub use open_tasks::{KeyTasks, cancel_left_over, expiry_cutoff, has_left_over};
pub use watch::{CHECK_INTERVAL, CallerWatch};

/// How every key begins.
pub const PREFIX: &str = "sk-mg-";
const RANDOM_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Requests per minute of a key that no limit was set for.
pub const DEFAULT_RPM: u32 = 600;
/// Open tasks of a key that no limit was set for.
pub const DEFAULT_MAX_RUNNING: u32 = 100;

/// Settings of a new key.
#[derive(Debug, Clone, Default)]
pub struct NewKey {
    /// Display name.
    pub name: String,
    /// All but `admin` and `approve` if empty.
    pub scopes: Vec<Scope>,
    /// Models it may use; all if `None`.
    pub models: Option<Vec<String>>,
    /// Addresses it may be used from; any if `None`.
    pub networks: Option<Vec<IpNet>>,
    /// Requests per minute; [`DEFAULT_RPM`] if `None`.
    pub rpm: Option<u32>,
    /// Limit of open tasks; [`DEFAULT_MAX_RUNNING`] if `None`.
    pub max_running: Option<u32>,
    /// Limit on the cost of its tasks.
    pub budget: Option<MicroDollars>,
    /// How often the budget renews; never if `None`.
    pub budget_period: Option<BudgetPeriod>,
    /// Orders that reserve more than this wait for approval; none do if `None`.
    pub approve_above: Option<MicroDollars>,
    /// Whether to refuse the requests that a chat interface sends on its own, for titles and tags.
    pub refuses_housekeeping: bool,
    /// Never if `None`. An instant, not a lifetime: creating the account takes time, which would be
    /// added to it.
    pub expires_at: Option<Timestamp>,
}

/// Creates a key for this account, for the command `keys create`. The secret is returned once and
/// not stored.
pub async fn create(app: &App, account: &Account, new: NewKey) -> Result<(ApiKey, Secret), Error> {
    let issued = issue(
        app,
        ChangeAuthor::command("keys create").into(),
        account,
        new,
    )
    .await?;
    let secret = issued.secret.ok_or_else(|| Error::internal("no secret"))?;
    Ok((issued.record.key, secret))
}

/// A new key and its secret, not stored yet.
fn draft(app: &Ctx, account: &Account, new: NewKey) -> Result<(ApiKey, Secret), Error> {
    let secret = generate().map_err(Error::internal)?;
    Ok((with_secret(app, account, new, &secret), secret))
}

fn with_secret(app: &Ctx, account: &Account, new: NewKey, secret: &Secret) -> ApiKey {
    ApiKey {
        id: KeyId::new(),
        account: account.id,
        name: new.name,
        prefix: secret.expose().chars().take(12).collect(),
        sha256: hash(secret.expose()),
        scopes: if new.scopes.is_empty() {
            Scope::default_scopes()
        } else {
            distinct(new.scopes)
        },
        models: new.models.map(distinct),
        networks: new.networks.map(distinct),
        rpm: new.rpm.unwrap_or(DEFAULT_RPM),
        max_running: new.max_running.unwrap_or(DEFAULT_MAX_RUNNING),
        budget: new.budget,
        budget_period: new.budget_period,
        approve_above: new.approve_above,
        refuses_housekeeping: new.refuses_housekeeping,
        created_at: app.clock.now(),
        expires_at: new.expires_at,
        revoked_at: None,
    }
}

/// The items of a list in their order, each once.
fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut distinct = Vec::with_capacity(items.len());
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// Creates the first key, with this secret and every scope, if there is none. If several processes
/// start together, only one creates it. Returns whether this one did.
pub async fn create_first(app: &Ctx, account: &Account, secret: &Secret) -> Result<bool, Error> {
    let new = NewKey {
        name: "first".into(),
        scopes: Scope::ALL.to_vec(),
        ..NewKey::default()
    };
    let key = with_secret(app, account, new, secret);
    let now = app.clock.now();
    let creation = app.store.write(move |conn| -> Result<bool, Error> {
        // An advisory lock: an empty table has no row that processes could wait for.
        accounts::lock_first_key(conn);
        let is_first = accounts::keys(conn)?.is_empty();
        if is_first {
            changes::insert(conn, &ChangeAuthor::command("serve"), &key, now)?;
        }
        Ok(is_first)
    });
    creation.await
}

/// Every key with its account's handle, oldest first.
pub async fn list(app: &Ctx) -> Result<Vec<(ApiKey, String)>, Error> {
    Ok(app.store.long_read(accounts::keys).await?)
}

/// Every key with its money and use, oldest first.
pub async fn records(app: &Ctx) -> Result<Vec<KeyRecord>, Error> {
    let now = app.clock.now();
    let page = PageQuery {
        after: None,
        limit: u32::MAX,
        ascending: true,
    };
    let read = app
        .store
        .long_read(move |conn| accounts::key_page(conn, None, page, now));
    Ok(read.await?)
}

/// Result of looking up a key by its id, its prefix or a whole secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMatch {
    Unique(KeyId),
    /// No key has this id or prefix.
    NoSuchKey,
    /// The prefix matches several keys.
    Ambiguous,
}

/// Looks up a key by its id, by its beginning (the 12 characters that lists show, or more), or by
/// its whole secret, which may be a former one that still works.
pub async fn find(app: &Ctx, query: &str) -> Result<KeyMatch, Error> {
    // A complete key is looked up only by its hash, even with a typo: its first characters could be
    // those of another key.
    if query.len() >= PREFIX.len() + RANDOM_CHARS + CHECKSUM_CHARS {
        let (sha256, now) = (hash(query), app.clock.now());
        let read = app
            .store
            .read(move |conn| accounts::caller_by_sha256(conn, &sha256));
        let caller = read.await?;
        let works = |caller: &Caller| caller.credential.ends_at().is_none_or(|end| end > now);
        return Ok(caller.filter(works).map_or(KeyMatch::NoSuchKey, |caller| {
            KeyMatch::Unique(caller.key.id)
        }));
    }
    let keys = list(app).await?;
    let fits = |key: &ApiKey| {
        key.id.to_string() == query || (query.len() >= 12 && query.get(..12) == Some(&key.prefix))
    };
    let mut candidates = keys.iter().map(|(key, _)| key).filter(|key| fits(key));
    Ok(match (candidates.next(), candidates.next()) {
        (None, _) => KeyMatch::NoSuchKey,
        (Some(key), None) => KeyMatch::Unique(key.id),
        (Some(_), Some(_)) => KeyMatch::Ambiguous,
    })
}

/// The caller with this secret, if the key is valid now and from this address.
pub async fn check(app: &AppParts, secret: &str, address: IpAddr) -> Result<Arc<Caller>, Error> {
    let invalid = || Error::plain(ErrorCode::InvalidApiKey, "The API key is not valid.");
    if !is_well_formed(secret) {
        return Err(invalid());
    }
    let caller = check_hash(app, hash(secret), address).await?;
    let caller = caller.ok_or_else(invalid)?;
    note_use(app, &caller);
    Ok(caller)
}

/// Notes that a request used the caller's key.
pub(super) fn note_use(app: &AppParts, caller: &Caller) {
    // Kept in memory and written once a minute: a write for each request would cost a commit.
    app.caches.key_usage.note(caller.key.id, app.clock.now());
}

/// The caller whose secret has this hash, if the key is valid now and from this address; `None` if
/// no key has, or had until its last rotation, such a secret.
async fn check_hash(
    app: &AppParts,
    sha256: String,
    address: IpAddr,
) -> Result<Option<Arc<Caller>>, Error> {
    // The lookup compares hashes of a 256-bit secret, so its timing does not help to guess one.
    let Some(caller) = cached_caller(app, sha256, accounts::caller_by_sha256).await? else {
        return Ok(None);
    };
    if caller
        .credential
        .ends_at()
        .is_some_and(|at| at <= app.clock.now())
    {
        return Err(rotated_error());
    }
    admit(app, &caller, address)?;
    Ok(Some(caller))
}

/// The error for a secret that another one has replaced.
fn rotated_error() -> Error {
    let message = "The API key was rotated and is no longer valid.";
    Error::plain(ErrorCode::RevokedApiKey, message)
}

/// The key with this secret, valid or not.
pub async fn key_of_secret(app: &AppParts, secret: &str) -> Result<Option<ApiKey>, Error> {
    if !is_well_formed(secret) {
        return Ok(None);
    }
    let caller = cached_caller(app, hash(secret), accounts::caller_by_sha256).await?;
    Ok(caller.map(|caller| caller.key.clone()))
}

/// Refuses a former secret, for a request whose effect would outlive the secret's grace period or
/// would lock out the holder of the current secret.
pub fn refuse_former_secret(caller: &Caller) -> Result<(), Error> {
    match caller.credential {
        CallerCredential::FormerSecret { .. } => {
            let message = "The API key was rotated. This request needs the new key.";
            Err(Error::plain(ErrorCode::FormerApiKey, message))
        }
        CallerCredential::Secret | CallerCredential::Session { .. } => Ok(()),
    }
}

/// Refuses a caller whose key is not valid now, or not from this address.
pub(super) fn admit(app: &AppParts, caller: &Caller, address: IpAddr) -> Result<(), Error> {
    let now = app.clock.now();
    let has_passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    if has_passed(caller.key.revoked_at) {
        return Err(Error::plain(
            ErrorCode::RevokedApiKey,
            "The API key was revoked.",
        ));
    }
    if has_passed(caller.key.expires_at) {
        return Err(Error::plain(
            ErrorCode::ExpiredApiKey,
            "The API key has expired.",
        ));
    }
    if !caller.key.may_come_from(address) {
        return Err(Error::plain(
            ErrorCode::AddressNotAllowed,
            "The API key may not be used from this IP address.",
        ));
    }
    Ok(())
}

/// Refuses a caller whose key lacks a scope.
pub fn require_scope(caller: &Caller, scope: Scope) -> Result<(), Error> {
    if caller.key.may(scope) {
        return Ok(());
    }
    let message = format!(
        "The API key lacks the scope {scope:?}.",
        scope = scope.name()
    );
    Err(Error::plain(ErrorCode::InsufficientScope, message))
}

/// The caller with this hash: from the cache, or read by `find`.
pub(super) async fn cached_caller(
    app: &AppParts,
    sha256: String,
    find: fn(&mut Conn<'_>, &str) -> Result<Option<Caller>, StoreError>,
) -> Result<Option<Arc<Caller>>, Error> {
    // Taken before the row is read. A change that is committed in between makes the cached entry
    // stale, instead of keeping the old content under the new stamp.
    let version = app.caches.caller_version(&app.store);
    let cached = app.caches.callers.get(&sha256);
    if let Some(cached) = &cached
        && cached.is_fresh(&version)
    {
        return Ok(Some(cached.caller.clone()));
    }
    // Unknown secrets are looked up together, so that guessed ones cost few statements. A secret
    // that was found before is not a guess and is read directly.
    if cached.is_none() {
        let exists = app.limits.unknown_secrets.exists(&app.store, &sha256);
        if !exists.await? {
            return Ok(None);
        }
    }
    let hash = sha256.clone();
    let caller = app.store.read(move |conn| find(conn, &hash)).await?;
    let caller = caller.map(Arc::new);
    // Only what exists is cached. Guessed secrets would push real callers out.
    if let Some(found) = &caller {
        let fresh = CachedCaller {
            caller: found.clone(),
            version,
        };
        app.caches.callers.insert(sha256, fresh);
    }
    Ok(caller)
}

/// The hash of a secret, which is stored instead of it.
pub fn hash(secret: &str) -> String {
    crate::domain::assets::sha256_hex(secret.as_bytes())
}

/// A new secret; no key has it yet.
pub fn generate() -> Result<Secret, getrandom::Error> {
    let mut bits = [0_u8; 32];
    getrandom::fill(&mut bits)?;
    let random = base62(&bits);
    let checksum = checksum(&random);
    Ok(Secret::new(format!("{PREFIX}{random}{checksum}")))
}

/// A 256-bit number in base62, padded to 43 digits.
fn base62(bits: &[u8; 32]) -> String {
    let mut number = *bits;
    let mut digits = [b'0'; RANDOM_CHARS];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_u16;
        for byte in &mut number {
            let value = remainder * 256 + u16::from(*byte);
            // The quotient of a value below 62 * 256 fits a byte.
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            remainder = value % 62;
        }
        *digit = ALPHABET[usize::from(remainder)];
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

fn checksum(random: &str) -> String {
    let mut number = crc32fast::hash(random.as_bytes());
    let mut digits = ['0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = char::from(ALPHABET[(number % 62) as usize]);
        number /= 62;
    }
    digits.iter().collect()
}

/// Whether the text has the form of a key and the right checksum.
pub fn is_well_formed(secret: &str) -> bool {
    let Some(rest) = secret.strip_prefix(PREFIX) else {
        return false;
    };
    rest.len() == RANDOM_CHARS + CHECKSUM_CHARS
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && checksum(&rest[..RANDOM_CHARS]) == rest[RANDOM_CHARS..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mediagate_model::ids::{AccountId, AssetId};

    async fn account(ctx: &Ctx) -> Account {
        let account = Account {
            id: AccountId::new(),
            handle: "studio".into(),
            display_name: "Studio".into(),
            avatar: AssetId::new(),
            created_at: ctx.clock.now(),
        };
        let row = account.clone();
        let inserted = ctx
            .store
            .write(move |conn| accounts::insert(conn, &row))
            .await;
        inserted.unwrap();
        account
    }

    #[tokio::test]
    async fn there_is_one_first_key() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = Ctx::in_folder(folder.path());
        let account = account(&ctx).await;
        let first = Secret::new("sk-mg-first");
        assert!(create_first(&ctx, &account, &first).await.unwrap());
        let second = Secret::new("sk-mg-second");
        assert!(!create_first(&ctx, &account, &second).await.unwrap());
        let keys = list(&ctx).await.unwrap();
        let [(key, handle)] = &keys[..] else {
            panic!("{} keys", keys.len())
        };
        assert_eq!((key.name.as_str(), handle.as_str()), ("first", "studio"));
        assert_eq!(key.scopes, Scope::ALL);
    }

    #[tokio::test]
    async fn a_key_is_found_by_its_beginning_but_not_by_another_complete_key() {
        let folder = tempfile::tempdir().unwrap();
        let ctx = Ctx::in_folder(folder.path());
        let account = account(&ctx).await;
        let secret = generate().unwrap();
        assert!(create_first(&ctx, &account, &secret).await.unwrap());
        let id = list(&ctx).await.unwrap()[0].0.id;
        let secret = secret.expose();
        let (beginning, typo) = (&secret[..12], format!("{}-", &secret[..54]));
        for query in [&id.to_string(), secret, beginning, &secret[..20]] {
            assert_eq!(find(&ctx, query).await.unwrap(), KeyMatch::Unique(id));
        }
        for query in [
            &typo,
            &secret[..11],
            &format!("{beginning}{}", &generate().unwrap().expose()[12..]),
        ] {
            assert_eq!(
                find(&ctx, query).await.unwrap(),
                KeyMatch::NoSuchKey,
                "{query}"
            );
        }
    }

    #[test]
    fn numbers_are_written_in_base62() {
        assert_eq!(base62(&[0; 32]), "0".repeat(43));
        let mut one_and_sixty_two = [0; 32];
        one_and_sixty_two[31] = 63;
        assert_eq!(&base62(&one_and_sixty_two)[40..], "011");
        // 2^256 - 1 needs all 43 digits.
        assert_ne!(&base62(&[0xff; 32])[..1], "0");
        // CRC-32/ISO-HDLC of "123456789" is 0xcbf43926.
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn keys_have_their_form_and_a_typo_breaks_it() {
        let key = generate().unwrap();
        let key = key.expose();
        assert!(is_well_formed(key) && key.len() == 55);
        for position in 6..key.len() {
            let mut typo = key.to_owned().into_bytes();
            typo[position] = if typo[position] == b'a' { b'b' } else { b'a' };
            assert!(
                !is_well_formed(std::str::from_utf8(&typo).unwrap()),
                "{position}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic(text in ".*") {
            is_well_formed(&text);
            is_well_formed(&format!("sk-mg-{text}"));
        }
    }
}

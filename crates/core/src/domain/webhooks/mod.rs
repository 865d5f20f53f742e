//! Webhooks: endpoints that an account registers, the secrets that it checks signatures with, and
//! the callbacks that its requests name.
//!
//! `events` records an event in the transaction that causes it; `outcome` evaluates a delivery
//! attempt; `delivery_log` lists deliveries and resends them; `signing_keys` signs; `callbacks`
//! checks and encrypts callback URLs. The worker's `deliver` does the sending.

pub mod callbacks;
pub mod delivery_log;
pub mod events;
pub mod outcome;
pub mod signing_keys;

use serde_json::{Value, json};

use crate::app::{App, AppParts, Ctx};
use crate::domain::audit::ChangeAuthor;
use crate::domain::keys as api_keys;
use crate::intents::IntentAttempt;
use mediagate_model::account::Caller;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, EndpointId, KeyId};
use mediagate_model::intent::IntentResult;
use mediagate_model::secret::Secret;
use mediagate_model::webhook::{EventType, SignatureScheme, WebhookEndpoint};
use mediagate_store::tasks::PageQuery;
use mediagate_store::webhooks::{deliveries, endpoints};
use mediagate_store::{self as store, Conn, accounts};
use signing_keys::SigningKeys;

/// Maximum number of endpoints per account.
pub const MAX_ENDPOINTS: i64 = 20;

/// The owner that a secret's encryption is bound to: the endpoint, or for callbacks the account.
pub fn owner_of(account: AccountId, endpoint: Option<EndpointId>) -> String {
    endpoint.map_or_else(|| account.to_string(), |endpoint| endpoint.to_string())
}

fn check_url(app: &AppParts, url: &str, param: &str) -> Result<(), Error> {
    let checked = app.net.hooks.check(url);
    let refuse = |refusal: crate::webhook_client::UrlRefusal| {
        Error::at_field(ErrorCode::InvalidValue, param, refusal.to_string())
    };
    checked.map(drop).map_err(refuse)
}

/// An endpoint to register.
#[derive(Debug, Clone)]
pub struct NewEndpoint {
    pub url: String,
    pub description: String,
    /// All if `None`.
    pub events: Option<Vec<EventType>>,
    pub scheme: SignatureScheme,
}

/// Registers an endpoint. Returns it with the key with which its receiver checks signatures.
pub async fn create(
    app: &App,
    caller: &Caller,
    author: ChangeAuthor,
    attempt: &IntentAttempt,
    new: NewEndpoint,
) -> Result<(WebhookEndpoint, Secret), Error> {
    api_keys::refuse_former_secret(caller)?;
    let (endpoint, verification_key) = prepare(app, caller.account.id, author.key_id(), new)?;
    let row = endpoint.clone();
    let insertion = attempt.make(IntentResult::Endpoint(endpoint.id), move |conn| {
        insert(conn, &row, &author)
    });
    insertion.await?;
    tracing::info!(endpoint_id = %endpoint.id, "webhook endpoint registered");
    Ok((endpoint, verification_key))
}

/// Like [`create`], for the operator.
pub async fn create_for(
    app: &AppParts,
    account: AccountId,
    author: ChangeAuthor,
    new: NewEndpoint,
) -> Result<(WebhookEndpoint, Secret), Error> {
    let (endpoint, verification_key) = prepare(app, account, author.key_id(), new)?;
    let row = endpoint.clone();
    let write = app
        .store
        .write_for(account, move |conn| insert(conn, &row, &author));
    write.await?;
    Ok((endpoint, verification_key))
}

fn prepare(
    app: &AppParts,
    account: AccountId,
    key: Option<KeyId>,
    new: NewEndpoint,
) -> Result<(WebhookEndpoint, Secret), Error> {
    check_url(app, &new.url, "url")?;
    let (id, keys) = (EndpointId::new(), SigningKeys::generate()?);
    let endpoint = WebhookEndpoint {
        id,
        account,
        key,
        url: new.url,
        description: new.description,
        events: new.events,
        scheme: new.scheme,
        secrets: keys.seal(app, &owner_of(account, Some(id)))?,
        enabled: true,
        disabled_why: None,
        failures: 0,
        failing_since: None,
        created_at: app.clock.now(),
    };
    Ok((endpoint, keys.verification_key(new.scheme)?))
}

fn insert(
    conn: &mut Conn<'_>,
    endpoint: &WebhookEndpoint,
    author: &ChangeAuthor,
) -> Result<(), Error> {
    // Counted where it is inserted, with the account locked, so that two requests cannot both take
    // the last slot.
    if endpoints::count(conn, endpoint.account)? >= MAX_ENDPOINTS {
        let message = format!("An account can have at most {MAX_ENDPOINTS} webhook endpoints.");
        return Err(Error::plain(ErrorCode::LimitReached, message));
    }
    endpoints::insert(conn, endpoint)?;
    let changed = (None, Some(audit_value(endpoint)));
    author.note(
        conn,
        "webhook.create",
        &endpoint.id,
        changed,
        endpoint.created_at,
    )
}

/// An endpoint for the audit log. Its URL is shown without the query, which may hold a secret.
fn audit_value(endpoint: &WebhookEndpoint) -> Value {
    let events = endpoint.events.as_ref();
    json!({
        "url": endpoint.url.split(['?', '#']).next(),
        "description": endpoint.description,
        "events": events.map(|events| events.iter().map(|event| event.name()).collect::<Vec<_>>()),
        "scheme": endpoint.scheme.name(),
        "key_id": endpoint.key.map(|key| key.to_string()),
        "enabled": endpoint.enabled,
    })
}

/// The error for an id that is malformed or not the account's.
pub fn not_found() -> Error {
    let message = "There is no webhook endpoint with this id.";
    Error::plain(ErrorCode::WebhookNotFound, message)
}

pub async fn get(app: &Ctx, account: AccountId, id: EndpointId) -> Result<WebhookEndpoint, Error> {
    let read = app
        .store
        .read(move |conn| endpoints::by_id(conn, id, account));
    read.await?.ok_or_else(not_found)
}

/// A page of the account's endpoints, and whether more follow.
pub async fn list(
    app: &Ctx,
    account: AccountId,
    page: PageQuery<EndpointId>,
) -> Result<(Vec<WebhookEndpoint>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .read(move |conn| endpoints::page(conn, account, one_more));
    let mut endpoints = read.await?;
    let has_more = store::page::truncate_to_limit(&mut endpoints, limit);
    Ok((endpoints, has_more))
}

/// Changes to an endpoint; `None` leaves a value as it is.
#[derive(Debug, Clone, Default)]
pub struct EndpointChanges {
    pub url: Option<String>,
    pub description: Option<String>,
    /// `Some(None)`: all.
    pub events: Option<Option<Vec<EventType>>>,
    pub enabled: Option<bool>,
}

/// Changes an endpoint. A key that gives it another URL, or enables it after its own key became
/// invalid, becomes its key: from then on the endpoint receives what that key may see.
pub async fn change(
    app: &AppParts,
    account: AccountId,
    id: EndpointId,
    author: ChangeAuthor,
    change: EndpointChanges,
) -> Result<WebhookEndpoint, Error> {
    if let Some(url) = &change.url {
        check_url(app, url, "url")?;
    }
    let now = app.clock.now();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<WebhookEndpoint, Error> {
            let mut endpoint = endpoints::by_id(conn, id, account)?.ok_or_else(not_found)?;
            let (was_enabled, before) = (endpoint.enabled, audit_value(&endpoint));
            let has_new_url = change.url.as_ref().is_some_and(|url| *url != endpoint.url);
            let is_enabled = change.enabled == Some(true);
            // The key that sets the URL decides who gets the events, so from now on they are
            // limited to what that key may see.
            if has_new_url || (is_enabled && !has_valid_key(conn, &endpoint, now)?) {
                endpoint.key = author.key_id();
            }
            endpoint.url = change.url.unwrap_or(endpoint.url);
            endpoint.description = change.description.unwrap_or(endpoint.description);
            endpoint.events = change.events.unwrap_or(endpoint.events);
            endpoint.enabled = change.enabled.unwrap_or(endpoint.enabled);
            if change.enabled.is_some() {
                endpoint.disabled_why = endpoint.disabled_why.filter(|_| !endpoint.enabled);
            }
            endpoints::update(conn, &endpoint)?;
            // Waiting deliveries must not arrive unexpectedly when it is enabled again; `recover`
            // sends them on request.
            if was_enabled && !endpoint.enabled {
                deliveries::hold(conn, id, now)?;
            }
            let changed = (Some(before), Some(audit_value(&endpoint)));
            author.note(conn, "webhook.update", &id, changed, now)?;
            endpoints::by_id(conn, id, account)?.ok_or_else(not_found)
        });
    store::await_within_limit(write).await
}

fn has_valid_key(
    conn: &mut Conn<'_>,
    endpoint: &WebhookEndpoint,
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(key) = endpoint.key else {
        return Ok(true);
    };
    let key = accounts::key_by_id(conn, key)?;
    Ok(key.is_some_and(|key| key.is_valid_at(now)))
}

/// Deletes an endpoint; its waiting deliveries are dropped. Returns the deleted endpoint.
pub async fn delete(
    app: &Ctx,
    account: AccountId,
    id: EndpointId,
    author: ChangeAuthor,
) -> Result<WebhookEndpoint, Error> {
    let now = app.clock.now();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<WebhookEndpoint, Error> {
            let endpoint = endpoints::by_id(conn, id, account)?.ok_or_else(not_found)?;
            remove(conn, &endpoint, &author, now)?;
            Ok(endpoint)
        });
    store::await_within_limit(write).await
}

fn remove(
    conn: &mut Conn<'_>,
    endpoint: &WebhookEndpoint,
    author: &ChangeAuthor,
    now: Timestamp,
) -> Result<(), Error> {
    deliveries::fail_all_of_endpoint(conn, endpoint.id, &endpoint.url, now)?;
    endpoints::delete(conn, endpoint.id)?;
    let changed = (Some(audit_value(endpoint)), None);
    author.note(conn, "webhook.delete", &endpoint.id, changed, now)
}

/// What happens to a key's endpoints when it is revoked or rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEndAction {
    /// They are deleted.
    Delete,
    /// They are disabled until another key takes them over; meanwhile their deliveries are held.
    Disable,
    /// They stay as they are.
    Keep,
}

/// Applies `action` to the endpoints of a key. Returns them as they were before, oldest first.
pub fn end_key_endpoints(
    conn: &mut Conn<'_>,
    (account, key): (AccountId, KeyId),
    action: KeyEndAction,
    author: &ChangeAuthor,
    now: Timestamp,
) -> Result<Vec<WebhookEndpoint>, Error> {
    let mut key_endpoints = endpoints::of_account(conn, account)?;
    key_endpoints.retain(|endpoint| endpoint.key == Some(key));
    for endpoint in &key_endpoints {
        match action {
            KeyEndAction::Delete => remove(conn, endpoint, author, now)?,
            KeyEndAction::Disable if endpoint.enabled => {
                let mut disabled = endpoint.clone();
                disabled.enabled = false;
                endpoints::update(conn, &disabled)?;
                deliveries::hold(conn, endpoint.id, now)?;
                let changed = (Some(audit_value(endpoint)), Some(audit_value(&disabled)));
                author.note(conn, "webhook.update", &endpoint.id, changed, now)?;
            }
            KeyEndAction::Disable | KeyEndAction::Keep => {}
        }
    }
    Ok(key_endpoints)
}

/// Gives an endpoint a new secret; the previous one is used for another day.
pub async fn rotate(
    app: &App,
    account: AccountId,
    id: EndpointId,
    author: ChangeAuthor,
) -> Result<(WebhookEndpoint, Secret), Error> {
    let (now, app_handle) = (app.clock.now(), app.clone());
    let write = app
        .store
        .write_for(account, move |conn| -> Result<_, Error> {
            let endpoint = endpoints::by_id(conn, id, account)?.ok_or_else(not_found)?;
            let owner = owner_of(account, Some(id));
            // Decrypted in the transaction, so that of two simultaneous rotations the second builds
            // on the first.
            let keys = SigningKeys::unseal(&app_handle, &owner, &endpoint.secrets)?.rotate(now)?;
            endpoints::set_secrets(conn, id, &keys.seal(&app_handle, &owner)?)?;
            author.note(conn, "webhook.rotate", &id, (None, None), now)?;
            let verification_key = keys.verification_key(endpoint.scheme)?;
            Ok((endpoint, verification_key))
        });
    store::await_within_limit(write).await
}

/// The public key with which an endpoint's receiver checks signatures; `None` if the scheme has a
/// secret instead.
pub fn public_key(app: &AppParts, endpoint: &WebhookEndpoint) -> Result<Option<Secret>, Error> {
    if endpoint.scheme != SignatureScheme::Ed25519 {
        return Ok(None);
    }
    let owner = owner_of(endpoint.account, Some(endpoint.id));
    let keys = SigningKeys::unseal(app, &owner, &endpoint.secrets)?;
    keys.verification_key(endpoint.scheme).map(Some)
}

/// The keys of an account's callbacks, made at their first use.
pub async fn account_keys(app: &App, account: AccountId) -> Result<SigningKeys, Error> {
    let read = app
        .store
        .read(move |conn| endpoints::account_secrets(conn, account));
    let owner = owner_of(account, None);
    if let Some(sealed) = read.await? {
        return SigningKeys::unseal(app, &owner, &sealed);
    }
    let new_keys = SigningKeys::generate()?.seal(app, &owner)?;
    let write = app
        .store
        .write(move |conn| endpoints::first_account_secrets(conn, account, &new_keys));
    let sealed = store::await_within_limit(write).await?;
    // Two processes may make the first keys at the same time. Both continue with those that were
    // written first.
    let sealed = sealed.ok_or_else(|| Error::internal("no secret for callbacks"))?;
    SigningKeys::unseal(app, &owner, &sealed)
}

/// Gives an account's callbacks a new secret.
pub async fn rotate_account(
    app: &App,
    account: AccountId,
    author: ChangeAuthor,
) -> Result<SigningKeys, Error> {
    let (now, owner) = (app.clock.now(), owner_of(account, None));
    // Makes the first keys if there are none.
    account_keys(app, account).await?;
    let app_handle = app.clone();
    let write = app
        .store
        .write_for(account, move |conn| -> Result<SigningKeys, Error> {
            // Read in the transaction that writes: of two simultaneous rotations, the second one
            // replaces the first one's key.
            let sealed = endpoints::account_secrets(conn, account)?
                .ok_or_else(|| Error::internal("no secret for callbacks"))?;
            let keys = SigningKeys::unseal(&app_handle, &owner, &sealed)?.rotate(now)?;
            endpoints::set_account_secrets(conn, account, &keys.seal(&app_handle, &owner)?)?;
            author.note(conn, "webhook.rotate", &account, (None, None), now)?;
            Ok(keys)
        });
    store::await_within_limit(write).await
}

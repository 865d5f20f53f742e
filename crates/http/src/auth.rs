//! Authentication, as an extractor: a handler that needs the caller cannot skip it. The required
//! scope is part of the extractor's type.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::{HeaderMap, header, request::Parts};

use crate::context::{RateSlot, RequestContext, RequestFacts, client_address};
use crate::cookie;
use crate::displacement::{RequestConnection, RequestOwner};
use crate::error::ErrorResponse;
use crate::orders::ApiOrder;
use crate::query;
use mediagate_core::app::App;
use mediagate_core::domain::keys::CallerWatch;
use mediagate_core::domain::{keys, sessions};
use mediagate_core::limits::AddressLimits;
use mediagate_model::account::{ApiKey, Caller, Scope};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::secret::Secret;

/// What a caller needs for a request, as a type.
pub trait ScopeMarker: Send {
    /// The required scope; `None` for any valid key.
    const SCOPE: Option<Scope>;
    /// Whether a former secret of the key is refused.
    const NEEDS_CURRENT_SECRET: bool = false;
}

macro_rules! scopes {
    ($($name:ident = $scope:expr;)*) => {
        $(#[doc = concat!("See [`ScopeMarker`]: ", stringify!($scope), ".")]
        pub struct $name;
        impl ScopeMarker for $name {
            const SCOPE: Option<Scope> = $scope;
        })*
    };
}

scopes! {
    AnyKey = None;
    Admin = Some(Scope::Admin);
    TasksRead = Some(Scope::TasksRead);
    TasksCancel = Some(Scope::TasksCancel);
    Approve = Some(Scope::Approve);
    WebhooksManage = Some(Scope::WebhooksManage);
}

/// Like `N`, and the caller must hold the key's current secret or a session that it began. For
/// requests whose effect would outlive a former secret: lasting changes, and responses that contain
/// a secret.
pub struct CurrentSecret<N>(PhantomData<N>);

impl<N: ScopeMarker> ScopeMarker for CurrentSecret<N> {
    const SCOPE: Option<Scope> = N::SCOPE;
    const NEEDS_CURRENT_SECRET: bool = true;
}

/// An order names the scope that it needs.
impl<O: ApiOrder> ScopeMarker for O {
    const SCOPE: Option<Scope> = Some(O::ENDPOINT.scope);
}

/// A request by a caller with a valid key that has the scope. As an `Option`, for endpoints that
/// need no key, it is `None` without a key or session; a key that is sent must be valid.
pub struct AllowedCaller<N: ScopeMarker> {
    pub context: RequestContext,
    needs: PhantomData<N>,
}

impl<N: ScopeMarker> Deref for AllowedCaller<N> {
    type Target = RequestContext;

    fn deref(&self) -> &RequestContext {
        &self.context
    }
}

/// A request that makes or changes something, by a caller with the required scope.
pub struct NewOrder<N: ScopeMarker> {
    pub context: RequestContext,
    /// Set if the key has no requests left this minute. The request is refused only after its body
    /// was read, because refused orders are counted by their body.
    pub too_many: Option<Error>,
    needs: PhantomData<N>,
}

/// Longest body read from a caller who will be refused, in bytes.
const MAX_DRAIN_BYTES: u64 = 1_000_000;

impl<N: ScopeMarker> FromRequestParts<App> for AllowedCaller<N> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        note_read::<N>(parts);
        let (known, verdict) = check(parts, app).await?;
        verdict?;
        Ok(Self {
            context: known.admit::<N>(parts, app)?,
            needs: PhantomData,
        })
    }
}

impl<N: ScopeMarker> OptionalFromRequestParts<App> for AllowedCaller<N> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> Result<Option<Self>, ErrorResponse> {
        let has_key = parts.headers.contains_key(header::AUTHORIZATION);
        if !has_key && session_of(parts, app)?.is_none() {
            note_read::<N>(parts);
            return Ok(None);
        }
        // If a mistyped key counted as none, the rules for anonymous callers would silently apply.
        let allowed = <Self as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        Ok(Some(allowed))
    }
}

impl<N: ScopeMarker> FromRequestParts<App> for NewOrder<N> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        let (known, verdict) = check(parts, app).await?;
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        // A small body is read although the request is refused. Refused orders are counted by body,
        // so that an SDK's retry does not get the task of another order with the same body. A large
        // body, or one of unknown length, is refused before it takes memory.
        let too_many = match verdict {
            Err(error) if length.is_some_and(|length: u64| length <= MAX_DRAIN_BYTES) => {
                Some(error)
            }
            verdict => verdict.map(|()| None)?,
        };
        Ok(Self {
            context: known.admit::<N>(parts, app)?,
            too_many,
            needs: PhantomData,
        })
    }
}

/// A caller whose key or session is valid.
struct KnownCaller {
    caller: Arc<Caller>,
    watch: CallerWatch,
}

impl KnownCaller {
    /// The context of the request, if the caller may make it.
    fn admit<N: ScopeMarker>(self, parts: &mut Parts, app: &App) -> Result<RequestContext, Error> {
        if let Some(scope) = N::SCOPE {
            keys::require_scope(&self.caller, scope)?;
        }
        query::refuse_found(parts)?;
        if N::NEEDS_CURRENT_SECRET {
            keys::refuse_former_secret(&self.caller)?;
        }
        RequestContext::new(parts, app, self.caller, self.watch.with_scope(N::SCOPE))
    }
}

/// Notes a request that changes nothing, whatever its method: with these scopes nothing can be made
/// or changed, but for the caller's own session.
fn note_read<N: ScopeMarker>(parts: &Parts) {
    if matches!(N::SCOPE, None | Some(Scope::TasksRead)) {
        request_facts(parts).note_read();
    }
}

/// What is noted about the request; without our layers, nobody reads it.
fn request_facts(parts: &Parts) -> RequestFacts {
    parts.extensions.get().cloned().unwrap_or_default()
}

/// The caller, and whether the key has a request left.
async fn check(parts: &mut Parts, app: &App) -> Result<(KnownCaller, Result<(), Error>), Error> {
    let address = client_address(parts, app);
    let (caller, watch) = if let Some(cookie) = session_of(parts, app)? {
        let caller = sessions::check(app, &cookie, address).await?;
        (caller, CallerWatch::of_session(app, &cookie, address))
    } else {
        let secret = bearer(&parts.headers)?;
        let caller = keys::check(app, secret, address).await?;
        (caller, CallerWatch::of_key(app, secret, address))
    };
    request_facts(parts).note_caller(&caller);
    // Body readers take their memory from this account's share.
    parts.extensions.insert(caller.account.id);
    if let Some(connection) = parts.extensions.get::<RequestConnection>() {
        connection.set_owner(RequestOwner::Account(caller.account.id));
    }
    // Counted before scope and body are checked: each request of a known key counts, whatever its
    // outcome.
    let (rate, verdict) = app.limits.rates.count(&caller.key).await;
    if let Some(slot) = parts.extensions.get::<RateSlot>() {
        // Already set if another extractor has counted the request.
        let _ = slot.0.set(rate);
    }
    let verdict = verdict.map_err(|wait| {
        // Rounded up: a retry after the truncated number of seconds would come too early.
        let seconds = u32::try_from(wait.as_secs())
            .unwrap_or(60)
            .saturating_add(1);
        let message = format!(
            "The API key is limited to {} requests per minute.",
            rate.limit
        );
        Error::retry_later(ErrorCode::RateLimitExceeded, message, seconds)
    });
    Ok((KnownCaller { caller, watch }, verdict))
}

/// The key of a request, directly or through a session, whether valid or not and whatever its
/// scopes.
pub(super) async fn holder(parts: &Parts, app: &App) -> Result<Option<ApiKey>, Error> {
    // For the audit log: it names the key that was refused, so expiry, scopes and networks do not
    // matter here.
    if let Ok(secret) = bearer(&parts.headers) {
        return keys::key_of_secret(app, secret).await;
    }
    match cookie::session_cookie(parts, app) {
        Some(cookie) => sessions::key_of_cookie(app, &cookie).await,
        None => Ok(None),
    }
}

/// The session cookie; `None` if the request has a key, which takes precedence.
fn session_of(parts: &Parts, app: &App) -> Result<Option<Secret>, Error> {
    // No browser adds this header by itself, so a request with a key needs no CSRF token.
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    cookie::csrf_checked_cookie(parts, app)
}

/// Counts a request without a key by its address; the error if the address has sent too many.
pub(super) fn count_address(
    limits: &AddressLimits,
    address: IpAddr,
    message: &str,
) -> Result<(), Error> {
    limits.count(address).map_err(|wait| {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(60);
        let seconds = seconds.saturating_add(1);
        Error::retry_later(ErrorCode::RateLimitExceeded, message, seconds)
    })
}

pub(super) fn missing_key() -> Error {
    let message = "No API key was sent. Send the header \"Authorization: Bearer <key>\".";
    Error::plain(ErrorCode::MissingApiKey, message)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Error> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(missing_key());
    };
    let malformed = || {
        let message = "The Authorization header must be \"Bearer <key>\".";
        Error::plain(ErrorCode::InvalidApiKey, message)
    };
    let (scheme, secret) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or_else(malformed)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(secret.trim())
    } else {
        Err(malformed())
    }
}

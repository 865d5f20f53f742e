//! Authentication, as an extractor: a handler that needs the caller cannot skip it. The required
//! scope is part of the extractor's type.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::{HeaderMap, header, request::Parts};

use crate::client_address;
use crate::context::{self, RateSlot, SeesProviders};
use crate::cookie;
use crate::displacement::{RequestConnection, RequestOwner};
use crate::error::ErrorResponse;
use crate::links::RequestLinks;
use crate::orders::ApiOrder;
use crate::query;
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::CallerWatch;
use mediagate_core::domain::{keys, sessions};
use mediagate_core::intents::PeerSocket;
use mediagate_core::limits::AddressLimits;
use mediagate_core::records::{Links, MediaGrant};
use mediagate_model::account::{ApiKey, Caller, Scope};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_model::secret::Secret;

/// A scope as a type.
pub trait ScopeMarker: Send {
    /// The required scope; `None` for any valid key.
    const SCOPE: Option<Scope>;
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
    WebhooksManage = Some(Scope::WebhooksManage);
}

/// A caller with a valid key that has the scope.
pub struct AllowedCaller<N: ScopeMarker> {
    pub caller: Arc<Caller>,
    /// For answers that take long: whether the caller is still valid and still has the scope.
    pub watch: CallerWatch,
    needs: PhantomData<N>,
}

/// A caller with a valid key that has the scope, and who holds the key's current secret or a session
/// that it began. For requests whose effect would outlive a former secret: lasting changes, and
/// answers that contain a secret.
pub struct CurrentCaller<N: ScopeMarker>(pub AllowedCaller<N>);

/// What is known about a request before its body is read.
pub struct RequestContext {
    pub caller: Arc<Caller>,
    /// For answers that take long: whether the caller is still valid and still has the scope.
    pub watch: CallerWatch,
    pub request_id: RequestId,
    /// Makes the URLs in the response, without media.
    pub links: Links,
    /// The client's address.
    pub client: IpAddr,
}

impl RequestContext {
    /// The links of an answer about what this request makes.
    pub fn links_to_made(&self) -> Links {
        let grant = MediaGrant::for_maker(&self.caller.key);
        self.links.clone().with_media(grant)
    }

    /// The author of what this request makes or changes, for the audit log.
    pub fn actor(&self) -> ChangeAuthor {
        ChangeAuthor::key(&self.caller.key, self.request_id.clone(), self.client)
    }
}

/// A request that places an order, by a caller with the required scope.
pub struct NewOrder<O: ApiOrder> {
    pub context: RequestContext,
    /// How the request arrived.
    pub arrival: RequestArrival,
    order: PhantomData<O>,
}

/// Data about the arrival of a request that makes something.
pub struct RequestArrival {
    /// Set if the key has no requests left this minute. The request is refused only after its body
    /// was read, because refused orders are counted by their body.
    pub too_many: Option<Error>,
    /// The socket that the caller waits on.
    pub socket: PeerSocket,
    /// The connection, which may have to be given up.
    pub(super) connection: RequestConnection,
    /// The request's headers, which show whether it is a retry.
    pub headers: HeaderMap,
}

/// The address that a request came from.
pub(super) struct ClientAddress(pub(super) IpAddr);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self(client_address(parts, app)))
    }
}

/// Where a request came from, for the audit log.
pub struct RequestSource {
    request_id: RequestId,
    address: IpAddr,
}

impl FromRequestParts<App> for RequestSource {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        Ok(Self::from_parts(parts, app)?)
    }
}

impl RequestSource {
    pub(super) fn from_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        Ok(Self {
            request_id: context::request_id(parts)?,
            address: client_address(parts, app),
        })
    }

    /// The author of changes with this key.
    pub fn actor(self, caller: &Caller) -> ChangeAuthor {
        self.key_actor(&caller.key)
    }

    pub(super) fn key_actor(self, key: &ApiKey) -> ChangeAuthor {
        ChangeAuthor::key(key, self.request_id, self.address)
    }
}

/// Longest body read from a caller who will be refused, in bytes.
const MAX_DRAIN_BYTES: u64 = 1_000_000;

impl<N: ScopeMarker> FromRequestParts<App> for AllowedCaller<N> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        let client = client_address(parts, app);
        let (caller, watch, verdict) = check(parts, app, client).await?;
        verdict?;
        require_scope::<N>(&caller)?;
        query::refuse_found(parts)?;
        Ok(Self {
            caller,
            watch: watch.with_scope(N::SCOPE),
            needs: PhantomData,
        })
    }
}

impl<N: ScopeMarker> FromRequestParts<App> for CurrentCaller<N> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        let allowed = AllowedCaller::from_request_parts(parts, app).await?;
        keys::refuse_former_secret(&allowed.caller)?;
        Ok(Self(allowed))
    }
}

impl<O: ApiOrder> FromRequestParts<App> for NewOrder<O> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        let (context, arrival) = authenticate_order(parts, app, O::ENDPOINT.scope).await?;
        Ok(Self {
            context,
            arrival,
            order: PhantomData,
        })
    }
}

/// What is known about a request that makes something, and how it arrived.
pub(super) async fn authenticate_order(
    parts: &mut Parts,
    app: &App,
    scope: Scope,
) -> Result<(RequestContext, RequestArrival), Error> {
    let client = client_address(parts, app);
    let (caller, watch, verdict) = check(parts, app, client).await?;
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    // A small body is read although the request is refused. Refused orders are counted by body, so
    // that an SDK's retry does not get the task of another order with the same body. A large body,
    // or one of unknown length, is refused before it takes memory.
    let too_many = match verdict {
        Err(error) if length.is_some_and(|length: u64| length <= MAX_DRAIN_BYTES) => Some(error),
        verdict => verdict.map(|()| None)?,
    };
    keys::require_scope(&caller, scope)?;
    query::refuse_found(parts)?;
    // Without our own server, as in tests of the router, the connection is unknown and counts as
    // open.
    let line = parts.extensions.get().cloned().unwrap_or_default();
    let Ok(RequestLinks(links)) = RequestLinks::from_request_parts(parts, app).await;
    let context = RequestContext {
        caller,
        watch: watch.with_scope(Some(scope)),
        request_id: context::request_id(parts)?,
        links,
        client,
    };
    let arrival = RequestArrival {
        too_many,
        socket: line,
        connection: parts.extensions.get().cloned().unwrap_or_default(),
        headers: parts.headers.clone(),
    };
    Ok((context, arrival))
}

/// The caller, and whether the key has a request left.
async fn check(
    parts: &mut Parts,
    app: &App,
    address: IpAddr,
) -> Result<(Arc<Caller>, CallerWatch, Result<(), Error>), Error> {
    let (caller, watch) = if let Some(cookie) = session_of(parts, app).await? {
        let caller = sessions::check(app, &cookie, address).await?;
        (caller, CallerWatch::of_session(app, &cookie, address))
    } else {
        let secret = bearer(&parts.headers)?;
        let caller = keys::check(app, secret, address).await?;
        (caller, CallerWatch::of_key(app, secret, address))
    };
    // Body readers take their memory from this account's share.
    parts.extensions.insert(caller.account.id);
    if let Some(connection) = parts.extensions.get::<RequestConnection>() {
        connection.set_owner(RequestOwner::Account(caller.account.id));
    }
    // `MediaLinks` reads this, and `RequestLinks` what follows, so handlers extract them after the
    // caller.
    parts.extensions.insert(MediaGrant::for_reader(&caller.key));
    if caller.key.may(Scope::Admin) {
        parts.extensions.insert(SeesProviders);
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
    Ok((caller, watch, verdict))
}

/// The caller of an endpoint that needs no key; `None` without a key or session. A key that is sent
/// must be valid and have the scope.
pub(super) async fn caller_if_any<N: ScopeMarker>(
    parts: &mut Parts,
    app: &App,
) -> Result<Option<Arc<Caller>>, Error> {
    if !parts.headers.contains_key(header::AUTHORIZATION) && session_of(parts, app).await?.is_none()
    {
        return Ok(None);
    }
    // A key that is sent must be valid. If a mistyped key counted as none, the rules for anonymous
    // callers would silently apply.
    let client = client_address(parts, app);
    let (caller, _, verdict) = check(parts, app, client).await?;
    verdict?;
    require_scope::<N>(&caller)?;
    Ok(Some(caller))
}

/// The key of a request, directly or through a session, whether valid or not and whatever its
/// scopes.
pub(super) async fn holder(parts: &mut Parts, app: &App) -> Result<Option<ApiKey>, Error> {
    // For the audit log: it names the key that was refused, so expiry, scopes and networks do not
    // matter here.
    if let Ok(secret) = bearer(&parts.headers) {
        return keys::key_of_secret(app, secret).await;
    }
    match cookie::session_cookie(parts, app).await {
        Some(cookie) => sessions::key_of_cookie(app, &cookie).await,
        None => Ok(None),
    }
}

/// The session cookie; `None` if the request has a key, which takes precedence.
async fn session_of(parts: &mut Parts, app: &App) -> Result<Option<Secret>, Error> {
    // No browser adds this header by itself, so a request with a key needs no CSRF token.
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    cookie::csrf_checked_cookie(parts, app).await
}

fn require_scope<N: ScopeMarker>(caller: &Caller) -> Result<(), Error> {
    N::SCOPE.map_or(Ok(()), |scope| keys::require_scope(caller, scope))
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

/// The address that the request came from; forwarding headers are used only from `trusted_proxies`.
pub(super) fn client_address(parts: &Parts, app: &App) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::from([0, 0, 0, 0]), |ConnectInfo(peer)| peer.ip());
    client_address::client_address(&parts.headers, peer, &app.config.trusted_proxies)
}

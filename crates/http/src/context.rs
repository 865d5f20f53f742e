//! The facts of a request that are known before its body is read, and the extensions that the layers
//! around every endpoint share with the key check.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri, header};

use crate::client_address;
use crate::displacement::RequestConnection;
use crate::links;
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::CallerWatch;
use mediagate_core::intents::PeerSocket;
use mediagate_core::limits::RateState;
use mediagate_core::records::{Links, MediaGrant};
use mediagate_model::account::{Caller, Scope};
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;
use mediagate_model::task::TaskRequest;

/// The slot for the key's rate state, which authentication fills, for the response headers.
#[derive(Clone, Default)]
pub(super) struct RateSlot(pub(super) Arc<OnceLock<RateState>>);

/// What is known about a request of a caller before its body is read. The key check makes it.
pub struct RequestContext {
    pub caller: Arc<Caller>,
    /// For responses that take long: whether the caller is still valid and still has the scope.
    pub watch: CallerWatch,
    pub request_id: RequestId,
    /// What is noted about the request.
    pub(super) facts: RequestFacts,
    /// Makes the URLs in the response. Only a caller who may read gets those of media.
    pub links: Links,
    /// The client's address.
    pub client: IpAddr,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The socket that the caller waits on.
    pub socket: PeerSocket,
    /// The connection, which may have to be given up.
    pub(super) connection: RequestConnection,
}

impl RequestContext {
    pub(super) fn new(
        parts: &Parts,
        app: &App,
        caller: Arc<Caller>,
        watch: CallerWatch,
    ) -> Result<Self, Error> {
        let links = links::for_request(parts, app)
            .with_media(MediaGrant::for_reader(&caller.key))
            .showing_providers(caller.key.may(Scope::Admin));
        Ok(Self {
            caller,
            watch,
            request_id: request_id(parts)?,
            facts: parts.extensions.get().cloned().unwrap_or_default(),
            links,
            client: client_address(parts, app),
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            // Without our own server, as in tests of the router, the connection is unknown and
            // counts as open.
            socket: parts.extensions.get().cloned().unwrap_or_default(),
            connection: parts.extensions.get().cloned().unwrap_or_default(),
        })
    }

    /// The links of a response about what this request makes.
    pub fn links_to_made(&self) -> Links {
        let grant = MediaGrant::for_maker(&self.caller.key);
        self.links.clone().with_media(grant)
    }

    /// The author of what this request makes or changes, for the audit log.
    pub fn actor(&self) -> ChangeAuthor {
        ChangeAuthor::key(&self.caller.key, self.request_id.clone(), self.client)
    }

    /// What the tasks that this request orders record of it.
    pub(super) fn task_request(&self) -> TaskRequest {
        TaskRequest {
            id: self.request_id.clone(),
            origin: self.links.requested_origin(),
        }
    }

    /// The program that sent the request, as it names itself.
    pub fn user_agent(&self) -> Option<&str> {
        self.headers.get(header::USER_AGENT)?.to_str().ok()
    }
}

/// What is known about a request to a page or an endpoint that needs no key.
pub(super) struct PublicRequest {
    /// Makes the URLs in the response, without media.
    pub(super) links: Links,
    /// The client's address.
    pub(super) client: IpAddr,
}

impl FromRequestParts<App> for PublicRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self {
            links: links::for_request(parts, app),
            client: client_address(parts, app),
        })
    }
}

/// What is learnt about a request while it is handled, for its record in `access_log`.
#[derive(Clone, Default)]
pub(super) struct RequestFacts(Arc<FactSlots>);

#[derive(Default)]
struct FactSlots {
    caller: OnceLock<Arc<Caller>>,
    /// The model that the body names, or that was chosen.
    model: OnceLock<String>,
    only_reads: OnceLock<()>,
}

impl RequestFacts {
    /// Notes whose key the request has. The first one stays, as with the other facts.
    pub(super) fn note_caller(&self, caller: &Arc<Caller>) {
        let _ = self.0.caller.set(caller.clone());
    }

    pub(super) fn note_model(&self, model: &str) {
        let _ = self.0.model.set(model.to_owned());
    }

    /// Notes that the request changes nothing, whatever its method.
    pub(super) fn note_read(&self) {
        let _ = self.0.only_reads.set(());
    }

    pub(super) fn caller(&self) -> Option<&Caller> {
        self.0.caller.get().map(|caller| &**caller)
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.0.model.get().map(String::as_str)
    }

    pub(super) fn only_reads(&self) -> bool {
        self.0.only_reads.get().is_some()
    }
}

/// The id of a request, which a layer has set.
pub(super) fn request_id(parts: &Parts) -> Result<RequestId, Error> {
    let id = parts.extensions.get().cloned();
    id.ok_or_else(|| Error::internal("a request outside the frame"))
}

/// The address that the request came from; forwarding headers are used only from `trusted_proxies`.
pub(super) fn client_address(parts: &Parts, app: &App) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::from([0, 0, 0, 0]), |ConnectInfo(peer)| peer.ip());
    client_address::client_address(&parts.headers, peer, &app.config.trusted_proxies)
}

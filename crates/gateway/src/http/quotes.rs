//! `POST /v1/quote`: what a request would cost, without making it.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use crate::app::App;
use crate::domain::quotes::{self, Wish};
use crate::error::Error;
use crate::http::auth::{Allowed, AnyKey, require};
use crate::http::body::JsonBody;
use crate::http::wire::music_orders::{self, MusicOrder};
use crate::http::wire::quotes::{QuoteObject, QuoteRequest, inside_body, read, unknown_endpoint};
use crate::http::wire::{chat_orders, fields, personas, videos};
use crate::ids::RequestId;
use crate::model::account::{Caller, Scope};

/// An endpoint that makes something.
#[derive(Clone, Copy)]
enum Endpoint {
    Chat,
    Videos,
    Music,
    Persona,
    Upload,
}

impl Endpoint {
    const ALL: [Self; 5] = [
        Self::Chat,
        Self::Videos,
        Self::Music,
        Self::Persona,
        Self::Upload,
    ];

    fn path(self, brand: &str) -> String {
        match self {
            Self::Chat => "/v1/chat/completions".into(),
            Self::Videos => "/v1/videos".into(),
            Self::Music => format!("/{brand}/submit/music"),
            Self::Persona => format!("/{brand}/persona/create"),
            Self::Upload => format!("/{brand}/uploads/audio"),
        }
    }

    const fn scope(self) -> Scope {
        match self {
            Self::Chat | Self::Videos => Scope::VideoCreate,
            Self::Music => Scope::MusicCreate,
            Self::Persona => Scope::PersonaCreate,
            Self::Upload => Scope::MediaUpload,
        }
    }

    /// Reads a body as the endpoint itself does.
    fn read(self, body: &Value) -> Result<Wish, Error> {
        Ok(match self {
            Self::Chat => Wish::Video(Box::new(fields::read(body, chat_orders::read)?.order)),
            Self::Videos => Wish::Video(Box::new(videos::read(body)?)),
            Self::Music => match music_orders::read(body)? {
                MusicOrder::Separation(order) => Wish::Separation(order),
                MusicOrder::Song(order) => Wish::Song(Box::new(order)),
            },
            Self::Persona => Wish::Persona(personas::read(body)?),
            Self::Upload => {
                music_orders::read_upload(body)?;
                Wish::Upload
            }
        })
    }
}

/// Ask what a request would cost, reserve and route to, without making it.
#[utoipa::path(post, path = "/v1/quote", tag = "account", request_body = QuoteRequest,
    responses((status = 200, description = "What it would cost", body = QuoteObject)))]
pub(super) async fn quote(
    allowed: Allowed<AnyKey>,
    request_id: RequestId,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<QuoteObject>, Error> {
    let caller = &allowed.caller;
    let (asker, brand) = (caller.clone(), app.config.brand.clone());
    let read = body.read(&app, move |body| wish(&asker, &brand, body));
    // What was read may hold a picture.
    let ((path, wish), _held) = read.await?;
    let quoted = quotes::quote(&app, caller, &request_id, wish).await;
    let quoted = quoted.map_err(inside_body)?;
    let shows_providers = app.catalog.load().shows_providers() || caller.key.may(Scope::Admin);
    Ok(Json(QuoteObject::new(path, &quoted, shows_providers)))
}

/// The endpoint that is asked about, and what is asked of it.
fn wish(caller: &Caller, brand: &str, body: &Value) -> Result<(String, Wish), Error> {
    let (path, body) = read(body)?;
    let paths = Endpoint::ALL.map(|endpoint| endpoint.path(brand));
    let known = paths
        .iter()
        .zip(Endpoint::ALL)
        .find(|(known, _)| **known == path);
    let (_, endpoint) = known.ok_or_else(|| unknown_endpoint(&paths))?;
    require(caller, endpoint.scope())?;
    let wish = endpoint.read(body).map_err(inside_body)?;
    Ok((path, wish))
}

//! Routes of the web pages; their markup is in the crate `mediagate-console`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use crate::auth::count_address;
use crate::compression::{CompressedBodies, compressed};
use crate::context::PublicRequest;
use crate::docs::ServedDocument;
use crate::error::{self, ErrorResponse, WrittenError};
use crate::query::is_page_view;
use crate::wire::models::{ModelList, ModelObject, NextPrice, RouteObject};
use mediagate_console::{
    self, ConsolePage, HomePage, ModelRow, PricingPage, ProvenancePage, SiteContext,
};
use mediagate_core::app::App;
use mediagate_core::domain::provenance::check::LIMIT_BYTES;
use mediagate_core::domain::{music, pictures};
use mediagate_core::records::Links;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::task::MediaKind;

/// Everything comes from this host, and no inline scripts run. The exception is films and songs:
/// with `media.host` or `results = "link"` they have https URLs of other hosts, from which the
/// console may load media and nothing else.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob: https:; \
                      frame-ancestors 'none'; form-action 'self'; base-uri 'none'; object-src 'none'";

/// The path of the API document.
pub(super) const DOCUMENT_PATH: &str = "/openapi.json";

/// The API document.
pub(super) fn document(served: ServedDocument, bodies: &Arc<CompressedBodies>) -> Router<App> {
    let json = async move |State(app): State<App>| {
        let headers = [(header::CONTENT_TYPE, "application/json")];
        (headers, served.json(&app.config))
    };
    compressed(Router::new().route(DOCUMENT_PATH, get(json)), bodies)
}

/// The pages, one of which shows the API document, and their files.
pub(super) fn router(served: ServedDocument, bodies: &Arc<CompressedBodies>) -> Router<App> {
    let reference = async move |request: PublicRequest, State(app): State<App>| {
        page(served.page(&app.config, &site(&request.links, &app)))
    };
    let pages = Router::new()
        .route("/", get(home))
        .route("/docs", get(docs))
        .route("/docs/", get(async || Redirect::permanent("/docs")))
        .route("/docs/api", get(reference))
        .route("/docs/{*name}", get(guide))
        .route("/llms.txt", get(llms_txt))
        .route("/skill.md", get(skill))
        .route("/console", get(console_start))
        .route("/console/{*place}", get(console))
        .route("/provenance", get(provenance))
        .route("/assets/{*name}", get(asset))
        .route(
            "/favicon.ico",
            get(async |uri| asset(Path("favicon.svg".into()), uri).await),
        );
    compressed(pages, bodies)
}

async fn home(request: PublicRequest, State(app): State<App>) -> Response {
    let (catalog, now) = (app.models.catalog.load(), app.clock.now());
    let is_available = |model: &&_| app.models.upstream.is_offered(model, now);
    page(mediagate_console::home(&HomePage {
        site: site(&request.links, &app),
        video_model: catalog.default_name(MediaKind::Video).to_owned(),
        music_model: music::default_separator(&catalog, |_| true).to_owned(),
        available_models: catalog.models().iter().filter(is_available).count(),
    }))
}

async fn console_start(request: PublicRequest, State(app): State<App>) -> Response {
    console_page(String::new(), &request.links, &app)
}

/// A view of the console. Each view has its own URL.
async fn console(
    Path(view_path): Path<String>,
    request: PublicRequest,
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    if mediagate_console::is_view(&view_path) {
        return Ok(console_page(view_path, &request.links, &app));
    }
    if is_page_view(&headers) {
        // The scripts show that there is no such view, beside the navigation.
        return Ok(not_found(console_page(view_path, &request.links, &app)));
    }
    let message = "There is no such page in the console.";
    Err(Error::plain(ErrorCode::RouteNotFound, message).into())
}

fn console_page(view_path: String, links: &Links, app: &App) -> Response {
    let catalog = app.models.catalog.load();
    page(mediagate_console::console(&ConsolePage {
        site: site(links, app),
        view_path,
        video_model: catalog.default_name(MediaKind::Video).to_owned(),
        music_model: music::default_separator(&catalog, |_| true).to_owned(),
        picture_bytes: pictures::LIMIT_BYTES,
        song_bytes: music::LIMIT_BYTES,
    }))
}

async fn provenance(request: PublicRequest, State(app): State<App>) -> Response {
    page(mediagate_console::provenance(&ProvenancePage {
        site: site(&request.links, &app),
        is_public: app.config.provenance.public,
        max_megabytes: LIMIT_BYTES / 1_000_000,
    }))
}

#[derive(Deserialize)]
struct SearchQuery {
    #[serde(default)]
    q: String,
}

async fn docs(
    request: PublicRequest,
    State(app): State<App>,
    Query(search): Query<SearchQuery>,
) -> Result<Response, ErrorResponse> {
    let search_text: String = search.q.chars().take(100).collect();
    // A search reads all documents, and nobody needs a key for it.
    if !search_text.trim().is_empty() {
        let message = "Too many searches from this IP address. Try again later.";
        count_address(&app.limits.address_searches, request.client, message)?;
    }
    Ok(page(mediagate_console::docs::index(
        &site(&request.links, &app),
        &search_text,
    )))
}

/// A document as a page, or as Markdown if its address ends with `.md` or the client asks for it.
async fn guide(
    request: PublicRequest,
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let not_found = || {
        Error::plain(
            ErrorCode::RouteNotFound,
            "There is no such page. See /docs for the documentation.",
        )
    };
    let slug = name.strip_suffix(".md");
    if slug.is_some() || prefers_markdown(&headers) {
        let text = mediagate_console::docs::markdown(slug.unwrap_or(&name));
        return Ok(text.map(markdown).ok_or_else(not_found)?);
    }
    let page_html = mediagate_console::docs::guide(&site(&request.links, &app), &name);
    if page_html.is_none() && is_page_view(&headers) {
        return Ok(missing_page(&request.links, &app));
    }
    // Caches must not give a browser the Markdown.
    let page_html = page_html.map(|html| ([(header::VARY, "accept")], page(html)).into_response());
    Ok(page_html.ok_or_else(not_found)?)
}

/// What a browser gets at an address where there is nothing.
pub(super) fn missing_page(links: &Links, app: &App) -> Response {
    not_found(page(mediagate_console::missing_page(&site(links, app))))
}

/// The page with the status of an address where there is nothing. It is the error's body.
fn not_found(mut page: Response) -> Response {
    *page.status_mut() = StatusCode::NOT_FOUND;
    let error = WrittenError {
        code: ErrorCode::RouteNotFound,
        message: "There is no page at this address.".into(),
    };
    error::mark_written(&mut page, error);
    page
}

/// Whether the first type that the client accepts is Markdown. Browsers begin with HTML.
fn prefers_markdown(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let first = accept.and_then(|types| types.split([',', ';']).next());
    first.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("text/markdown"))
}

fn markdown(text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8"),
        (header::VARY, "accept"),
    ];
    (headers, text).into_response()
}

/// The list of the documents, for language models.
async fn llms_txt(request: PublicRequest, State(app): State<App>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let text = mediagate_console::docs::llms_txt(&site(&request.links, &app));
    (headers, text).into_response()
}

/// How an agent orders.
async fn skill() -> Result<Response, ErrorResponse> {
    let not_found = || Error::plain(ErrorCode::RouteNotFound, "There is no such page.");
    let text = mediagate_console::docs::markdown("skill");
    Ok(text.map(markdown).ok_or_else(not_found)?)
}

/// The price list as a page.
pub(super) fn pricing(models: &ModelList, links: &Links, app: &App) -> Response {
    page(mediagate_console::pricing(&PricingPage {
        site: site(links, app),
        models: models.data.iter().map(row).collect(),
        generated_at: app.clock.now().rfc3339(),
    }))
}

fn row(model: &ModelObject) -> ModelRow {
    let owned = |names: &[&'static str]| names.iter().map(|name| (*name).to_owned()).collect();
    let capabilities = &model.capabilities;
    ModelRow {
        id: model.id.clone(),
        summary: model.summary.clone(),
        kind: if model.kind == MediaKind::Video.name() {
            MediaKind::Video
        } else {
            MediaKind::Music
        },
        takes: owned(&capabilities.input),
        makes: owned(&capabilities.output),
        durations: match &capabilities.seconds {
            Some(list) => {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                Some(format!("{} s", list.join(", ")))
            }
            None => capabilities
                .min_seconds
                .zip(capabilities.max_seconds)
                .map(|(min, max)| format!("{min}–{max} s")),
        },
        sizes: capabilities.sizes.clone().unwrap_or_default(),
        stems: capabilities.stems.as_deref().map(owned).unwrap_or_default(),
        price: model.price.as_ref().map_or_else(
            || "free".to_owned(),
            |price| price_text(&price.usd, price.unit),
        ),
        next_price: model
            .price
            .as_ref()
            .and_then(|price| price.next.as_ref())
            .map(next_price_text),
        refusals: refusal_text(model),
        available: model.available,
        median: model
            .median_seconds
            .map(|seconds| format!("{seconds:.1} s")),
        notes: model.notes.clone(),
        aliases: model.aliases.clone(),
        providers: model.routes.iter().flatten().map(route).collect(),
    }
}

/// `yes`, `no` or `unknown`, with the source if it is shown.
fn refusal_text(model: &ModelObject) -> String {
    let source = model.charged_when_refused_source.as_ref();
    let source = source.map_or_else(String::new, |source| format!(" ({source})"));
    format!("{}{source}", model.charged_when_refused)
}

fn price_text(usd: &str, unit: &str) -> String {
    format!("{usd} USD per {}", unit.replace('_', " "))
}

fn next_price_text(next: &NextPrice) -> String {
    let price = price_text(&next.usd, next.unit);
    // Dates are shown without a time if the price begins at midnight UTC.
    let from = next.from.strip_suffix("T00:00:00.000Z");
    format!("{price} from {}", from.unwrap_or(&next.from))
}

fn route(route: &RouteObject) -> String {
    let name = format!("{} ({})", route.provider, route.model);
    match (&route.paused_until, route.available) {
        (_, true) => name,
        (Some(until), false) => format!("{name}: paused until {until}"),
        (None, false) => format!("{name}: unreachable"),
    }
}

fn site(links: &Links, app: &App) -> SiteContext {
    SiteContext {
        base_url: links.origin.clone(),
        brand: app.config.brand.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

fn page(html: String) -> Response {
    (
        [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            // For browsers that do not know `frame-ancestors`.
            (header::X_FRAME_OPTIONS, "DENY"),
        ],
        Html(html),
    )
        .into_response()
}

async fn asset(Path(name): Path<String>, uri: Uri) -> Result<Response, ErrorResponse> {
    let not_found = || Error::plain(ErrorCode::RouteNotFound, "There is no such file.");
    let asset = mediagate_console::asset(&name).ok_or_else(not_found)?;
    // The pages add a version that changes with any file, so these URLs can be cached for long. Any
    // other URL must be revalidated: during a rolling upgrade a page of the new process may ask an
    // old one for a file.
    let version = uri.query().and_then(|query| query.strip_prefix("v="));
    let caching = if version == Some(mediagate_console::asset_version()) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, caching),
    ];
    Ok((headers, asset.body).into_response())
}

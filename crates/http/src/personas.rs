//! The persona endpoints.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::Value;

use crate::auth::{AllowedCaller, NewOrder, TasksCancel, TasksRead};
use crate::body::JsonBody;
use crate::context::RequestContext;
use crate::error::ErrorResponse;
use crate::idempotency::{Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer};
use crate::orders::persona::PersonaRequest;
use crate::orders::terms::cost_limit;
use crate::page_params::NewestPage;
use crate::query::Query;
use crate::tasks::cost;
use crate::wire::list::List;
use crate::wire::personas::PersonaRecord;
use mediagate_core::app::App;
use mediagate_core::domain::music;
use mediagate_core::domain::personas::{self, NewPersona};
use mediagate_core::intents::{ClientGuard, IntentAttempt, IntentCloseTime};
use mediagate_core::records::Links;
use mediagate_core::records::music::ClipOperation;
use mediagate_model::account::Account;
use mediagate_model::error::Error;
use mediagate_model::ids::PersonaId;
use mediagate_model::money::MicroDollars;
use mediagate_model::music::{Clip, Persona};

/// Create a persona from clips.
#[utoipa::path(post, path = "/persona/create", tag = "persona", request_body = PersonaRequest,
    params(("x-max-cost-usd" = Option<String>, Header, description = "The most that the request may cost, in US dollars. Same as `max_cost_usd`")),
    responses((status = 200, description = "The persona", body = PersonaRecord)))]
pub(super) async fn create(
    new_order: NewOrder<NewPersona>,
    State(app): State<App>,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let NewOrder {
        context, too_many, ..
    } = new_order;
    let (mut new_persona, fingerprint, _) = Fingerprint::read::<NewPersona>(&app, body).await?;
    new_persona.terms.limit_cost(cost_limit(&context.headers)?);
    let idempotent_request = IdempotentRequest::new(&app, &context, too_many, fingerprint)?;
    // A hosted provider may make the persona, and no task would record that. So the intent is on
    // disk before anything is sent.
    let idempotent_request = idempotent_request.with_reservation().for_order(None);
    let creation = PersonaCreation {
        app: &app,
        context: &context,
    };
    Ok(idempotent_request.answer(creation, new_persona).await?)
}

/// The creation of a persona.
struct PersonaCreation<'a> {
    app: &'a App,
    context: &'a RequestContext,
}

impl Creation for PersonaCreation<'_> {
    type Order = NewPersona;
    /// The persona with its clips.
    type Output = (Persona, Vec<Clip>);
    type Id = PersonaId;

    async fn make(
        &self,
        new_persona: NewPersona,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<Self::Output>, Error> {
        let caller = &self.context.caller;
        let output = personas::create(self.app, caller, attempt, new_persona).await?;
        Ok(CreationOutcome::Unanswered(output))
    }

    async fn load(&self, id: PersonaId) -> Result<Self::Output, Error> {
        personas::get(self.app, self.context.caller.account.id, id).await
    }

    async fn respond(
        self,
        (persona, clips): Self::Output,
        _: &Arc<ClientGuard>,
        _: bool,
    ) -> Result<IntentAnswer, Error> {
        let (account, links) = (&self.context.caller.account, self.context.links_to_made());
        let record = record(self.app, &persona, &clips, account, &links).await?;
        Ok(IntentAnswer::of(
            (cost(MicroDollars::ZERO), Json(record)),
            IntentCloseTime::Now,
        ))
    }
}

/// List personas, newest first.
#[utoipa::path(get, path = "/personas", tag = "persona", params(NewestPage<PersonaId>),
    responses((status = 200, description = "A page of personas", body = List<PersonaRecord>)))]
pub(super) async fn list(
    allowed: AllowedCaller<TasksRead>,
    Query(page): Query<NewestPage<PersonaId>>,
    State(app): State<App>,
) -> Result<Json<List<Value>>, ErrorResponse> {
    let account = &allowed.caller.account;
    let (personas, has_more) = personas::list(&app, account.id, page.into_query()).await?;
    let mut records = Vec::with_capacity(personas.len());
    for (persona, clips) in &personas {
        records.push(record(&app, persona, clips, account, &allowed.links).await?);
    }
    Ok(Json(List::new(records, has_more, |record| {
        record["id"].as_str().unwrap_or_default().to_owned()
    })))
}

/// Get a persona.
#[utoipa::path(get, path = "/personas/{id}", tag = "persona", params(("id" = String, Path, description = "The persona's id")),
    responses((status = 200, description = "The persona", body = PersonaRecord)))]
pub(super) async fn get(
    allowed: AllowedCaller<TasksRead>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<Value>, ErrorResponse> {
    let account = &allowed.caller.account;
    let (persona, clips) = personas::get(&app, account.id, parse(&id)?).await?;
    let record = record(&app, &persona, &clips, account, &allowed.links).await?;
    Ok(Json(record))
}

/// Delete a persona.
#[utoipa::path(delete, path = "/personas/{id}", tag = "persona", params(("id" = String, Path, description = "The persona's id")),
    responses((status = 200, description = "The deleted persona", body = PersonaRecord)))]
pub(super) async fn delete(
    allowed: AllowedCaller<TasksCancel>,
    Path(id): Path<String>,
    State(app): State<App>,
) -> Result<Json<Value>, ErrorResponse> {
    let account = &allowed.caller.account;
    let (persona, clips) = personas::delete(&app, account.id, parse(&id)?).await?;
    let mut record = record(&app, &persona, &clips, account, &allowed.links).await?;
    record["is_trashed"] = true.into();
    Ok(Json(record))
}

async fn record(
    app: &App,
    persona: &Persona,
    clips: &[Clip],
    account: &Account,
    links: &Links,
) -> Result<Value, Error> {
    let mut orders = Vec::with_capacity(clips.len());
    for clip in clips {
        orders.push(music::order_of(app, account.id, clip).await?);
    }
    let operations = orders
        .iter()
        .map(|order| ClipOperation::ordered(order.as_ref()));
    let clips: Vec<_> = clips.iter().zip(operations).collect();
    let record = PersonaRecord::new(persona, &clips, account, links);
    let record = record.ok_or_else(|| Error::internal("a persona without its root clip"))?;
    record.to_json_with_brand(&app.config.persona_brand_field)
}

fn parse(id: &str) -> Result<PersonaId, Error> {
    id.parse().map_err(|_| personas::not_found())
}

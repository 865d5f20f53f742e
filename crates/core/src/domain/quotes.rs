//! Quotes: what a request would cost and reserve, and where it would be sent, without making it.
//!
//! A quote uses the same functions as the request itself to read, check and plan it, so the two
//! cannot disagree. Nothing is stored, held or sent to a provider.

use crate::app::{App, Ctx};
use crate::domain::end_users::{self, UserOrder};
use crate::domain::ledger;
use crate::domain::music::{self, SeparationOrder};
use crate::domain::order_terms::{CostLimit, OrderTerms};
use crate::domain::personas::{self, NewPersona};
use crate::domain::routing;
use crate::domain::songs::{self, SongOrder};
use crate::domain::storage_room;
use crate::domain::task_acceptance::{NewTask, OrderPurpose};
use crate::domain::video::{self, VideoOrder};
use crate::pricing::{OrderQuotation, QuotedQuantity};
use crate::upstream::route_order;
use mediagate_media::engines::animatic_engine::{self, PromptReading};
use mediagate_model::account::Caller;
use mediagate_model::catalog::{EMBEDDED, EmbeddedEngine, Model, ModelBackend, Route};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::money::MicroDollars;
use mediagate_model::price::Price;
use mediagate_model::task::TaskPayload;
use mediagate_store::Conn;
use providers::cost::RefusalTerms;

/// The request to quote.
#[derive(Debug)]
pub enum QuotedOrder {
    Video(Box<VideoOrder>),
    /// A video request that is answered with a sentence, because its token limit is too small for
    /// the video's URL.
    ShortAnswer(Box<VideoOrder>),
    Separation(SeparationOrder),
    /// Any other music task.
    Song(Box<SongOrder>),
    Persona(NewPersona),
    Upload,
}

impl QuotedOrder {
    /// The most that its caller would pay.
    pub fn max_cost(&self) -> Option<CostLimit> {
        let terms: Option<&OrderTerms> = match self {
            Self::Video(order) | Self::ShortAnswer(order) => Some(&order.terms),
            Self::Separation(order) => Some(&order.terms),
            Self::Song(order) => Some(&order.terms),
            Self::Persona(new) => Some(&new.terms),
            Self::Upload => None,
        };
        terms.and_then(|terms| terms.max_cost)
    }
}

/// What the request would cost, and where it would be sent.
#[derive(Debug)]
pub struct Quote {
    /// The model's canonical name; `None` if no model is involved.
    pub model: Option<String>,
    /// Number of tasks.
    pub tasks: u64,
    /// Quantity of one task; `None` if no model is involved.
    pub quantity: Option<QuotedQuantity>,
    /// Price of the first route; free if `None`.
    pub price: Option<Price>,
    /// Total cost through that route.
    pub cost: MicroDollars,
    /// What would be held: the total at the most expensive route.
    pub reserve: MicroDollars,
    /// Routes that can do it, in the order they are tried.
    pub routes: Vec<RouteQuote>,
    /// Whether one of them is up.
    pub available: bool,
    /// Whether the key's budget and the account can cover `reserve` now.
    pub affordable: bool,
    /// Whether it would wait for approval.
    pub needs_approval: bool,
    /// Why nothing would be made, if that is the case.
    pub note: Option<String>,
    /// Whether a provider charges if it refuses the content; `None` if no provider is involved.
    pub refusals: Option<RefusalTerms>,
    /// How an embedded model would understand the prompt.
    pub reading: Option<PromptReading>,
}

/// Why a chat is answered with a sentence.
const SHORT_ANSWER_NOTE: &str = "The token limit is too small for a video URL: the response is a short \
                        text, no video is made, and nothing is charged.";

#[derive(Debug)]
pub struct RouteQuote {
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    pub price: Option<Price>,
    /// Total cost through this route.
    pub cost: MicroDollars,
    pub available: bool,
}

pub async fn quote(app: &App, caller: &Caller, order: QuotedOrder) -> Result<Quote, Error> {
    let tasks = match order {
        QuotedOrder::Video(order) => {
            video::prepare(app, caller, &order, OrderPurpose::Quote)
                .await?
                .0
        }
        QuotedOrder::ShortAnswer(order) => {
            let (model, _) = video::choose(app, caller, &order)?;
            return Ok(Quote {
                model: Some(model.id),
                note: Some(SHORT_ANSWER_NOTE.to_owned()),
                ..free_quote()
            });
        }
        QuotedOrder::Separation(order) => {
            let prepared = music::prepare(app, caller, order, OrderPurpose::Quote);
            vec![prepared.await?.0]
        }
        QuotedOrder::Song(order) => {
            let prepared = songs::prepare(app, caller, *order, OrderPurpose::Quote);
            vec![prepared.await?.0]
        }
        QuotedOrder::Persona(new) => {
            personas::prepare(app, caller, &new).await?;
            Vec::new()
        }
        QuotedOrder::Upload => Vec::new(),
    };
    // The tasks of one order differ only in their seeds, so one represents all.
    let (task, count) = tasks
        .into_iter()
        .fold((None, 0), |(_, count), task| (Some(task), count + 1));
    let stores_files = task
        .as_ref()
        .is_none_or(|task| storage_room::expected_bytes(app, &task.model, &task.payload).is_some());
    let quote = match task {
        Some(task) => quote_tasks(app, caller, task, count).await?,
        None => free_quote(),
    };
    if !stores_files {
        return Ok(quote);
    }
    // A lack of room is only noted: the request may be sent when there is room again.
    let note = match storage_room::check(app, caller.account.id, 0).await {
        Ok(()) => None,
        Err(error) if error.code() == ErrorCode::InternalError => return Err(error),
        Err(error) => Some(error.message()),
    };
    Ok(Quote { note, ..quote })
}

/// The quote for a request that is free and creates no task.
fn free_quote() -> Quote {
    Quote {
        model: None,
        tasks: 0,
        quantity: None,
        price: None,
        cost: MicroDollars::ZERO,
        reserve: MicroDollars::ZERO,
        routes: Vec::new(),
        available: true,
        affordable: true,
        needs_approval: false,
        note: None,
        refusals: None,
        reading: None,
    }
}

/// The quote for `count` such tasks.
async fn quote_tasks(app: &App, caller: &Caller, new: NewTask, count: u32) -> Result<Quote, Error> {
    let quantity = new.quantity;
    let model = new.model.clone();
    let user = new.attribution.user.clone();
    let quotation = new.quotation(app.clock.now());
    let reading = prompt_reading(&model, &new.payload)?;
    let source_provider = routing::source_provider(app, caller.account.id, &new.payload).await?;
    // With equal draws the heaviest of the weighted routes comes first, which is the most likely
    // one.
    let in_order = route_order::weighted_order(model.routes(), || 0.5);
    let capable = routing::capable_routes(app, in_order, &new.payload, source_provider.as_deref());
    let reserve = quotation.reserve().times(count.into());
    let mut routes: Vec<RouteQuote> = capable
        .into_iter()
        .map(|route| quote_route(app, route, &quotation, count))
        .collect();
    if model.routes().is_empty() {
        let (price, cost) = quotation.cost_by(None);
        routes.push(RouteQuote {
            provider: EMBEDDED.to_owned(),
            model: model.id.clone(),
            price,
            cost: cost.times(count.into()),
            available: true,
        });
    }
    let first = routes.iter().find(|route| route.available);
    // While no route is up, the first one still gives the price.
    let first = first.or(routes.first());
    Ok(Quote {
        refusals: (!model.routes().is_empty()).then(|| model.refusals()),
        model: Some(model.id),
        tasks: count.into(),
        quantity: Some(quantity),
        price: first.and_then(|route| route.price),
        cost: first.map_or(reserve, |route| route.cost),
        reserve,
        available: routes.iter().any(|route| route.available),
        affordable: is_affordable(app, caller, user, count, reserve).await?,
        needs_approval: caller.key.needs_approval(reserve),
        note: None,
        reading,
        routes,
    })
}

/// How the model would understand the prompt, if that is known before the film is made.
fn prompt_reading(model: &Model, payload: &TaskPayload) -> Result<Option<PromptReading>, Error> {
    match (&model.backend, payload) {
        (
            ModelBackend::Embedded {
                engine: EmbeddedEngine::Animatic,
                ..
            },
            TaskPayload::VideoV1(job),
        ) => {
            let reading = animatic_engine::prompt_reading(job);
            Ok(Some(reading.map_err(Error::internal)?))
        }
        _ => Ok(None),
    }
}

fn quote_route(app: &App, route: &Route, quotation: &OrderQuotation, count: u32) -> RouteQuote {
    let (price, cost) = quotation.cost_by(Some((&route.provider, &route.model)));
    RouteQuote {
        provider: route.provider.clone(),
        model: route.model.clone(),
        price,
        // Each task is rounded separately, as when it is settled.
        cost: cost.times(count.into()),
        available: app.models.upstream.is_up(route, app.clock.now()),
    }
}

/// Whether an order that holds this much would be accepted now.
async fn is_affordable(
    app: &Ctx,
    caller: &Caller,
    user: Option<String>,
    tasks: u32,
    reserve: MicroDollars,
) -> Result<bool, Error> {
    if reserve == MicroDollars::ZERO {
        return Ok(true);
    }
    let (account, key, now) = (caller.account.id, caller.key.id, app.clock.now());
    let check = move |conn: &mut Conn<'_>| -> Result<bool, Error> {
        let mut result = ledger::check_reserve(conn, (account, key), reserve, now);
        if let (Ok(()), Some(user)) = (&result, &user) {
            let order = UserOrder {
                account,
                user,
                tasks,
                cost: reserve,
            };
            result = end_users::check(conn, order, now);
        }
        match result {
            Ok(()) => Ok(true),
            Err(error) => match error.code() {
                ErrorCode::BudgetExceeded => Ok(false),
                // A limit of open tasks says nothing about the money.
                ErrorCode::TooManyTasks | ErrorCode::InvalidValue => Ok(true),
                _ => Err(error),
            },
        }
    };
    app.store.read(check).await
}

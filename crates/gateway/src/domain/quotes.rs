//! Quotes: what a request would cost, reserve and route to, without making it.
//!
//! A quote is read, checked and planned by the same functions as the request
//! itself, so that the two cannot say different things. Nothing is stored, held
//! or sent to a provider.

use crate::app::App;
use crate::domain::music::{self, Separation};
use crate::domain::personas::{self, NewPersona};
use crate::domain::routing;
use crate::domain::songs::{self, SongOrder};
use crate::domain::submit::{self, NewTask, Purpose};
use crate::domain::video::{self, VideoOrder};
use crate::error::Error;
use crate::ids::RequestId;
use crate::model::account::Caller;
use crate::model::catalog::{EMBEDDED, Route};
use crate::model::money::{Micros, Price, Quantity, Tariff};
use crate::store;
use crate::upstream::route;

/// A request that is asked about.
#[derive(Debug)]
pub enum Wish {
    /// Make videos.
    Video(Box<VideoOrder>),
    /// Separate a clip.
    Separation(Separation),
    /// Another task of the music dialect.
    Song(Box<SongOrder>),
    /// Make a persona.
    Persona(NewPersona),
    /// Upload a recording.
    Upload,
}

/// What came out.
#[derive(Debug)]
pub struct Quote {
    /// The model that would make it, by its own name; `None` for what no model
    /// makes.
    pub model: Option<String>,
    /// How many tasks it would be.
    pub tasks: u64,
    /// What one of these tasks is, for the price.
    pub quantity: Quantity,
    /// The price of the route that goes first; free when `None`.
    pub price: Option<Price>,
    /// What all of it costs by that route.
    pub cost: Micros,
    /// What would be held: what it costs at most, whichever route makes it.
    pub reserve: Micros,
    /// The routes that can do it, in the order in which they are tried.
    pub routes: Vec<RouteQuote>,
    /// Whether one of them works now.
    pub available: bool,
    /// Whether the key's budget and the account can hold the reservation now.
    pub affordable: bool,
}

/// A route that can do it.
#[derive(Debug)]
pub struct RouteQuote {
    /// The provider, by the operator's name for it.
    pub provider: String,
    /// The model, by the provider's name for it.
    pub model: String,
    /// Its price; free when `None`.
    pub price: Option<Price>,
    /// What all of it costs by this route.
    pub cost: Micros,
    /// Whether it works now.
    pub available: bool,
}

/// Works out what a request would cost.
pub async fn quote(
    app: &App,
    caller: &Caller,
    request_id: &RequestId,
    wish: Wish,
) -> Result<Quote, Error> {
    let tasks = match wish {
        Wish::Video(order) => video::prepare(app, caller, &order, Purpose::Quote).await?.0,
        Wish::Separation(order) => {
            let prepared = music::prepare(app, caller, order, Purpose::Quote);
            vec![prepared.await?.0]
        }
        Wish::Song(order) => {
            let prepared = songs::prepare(app, caller, *order, Purpose::Quote);
            vec![prepared.await?.0]
        }
        Wish::Persona(new) => {
            personas::prepare(app, caller, &new).await?;
            Vec::new()
        }
        Wish::Upload => Vec::new(),
    };
    match tasks
        .into_iter()
        .fold((None, 0), |(_, count), task| (Some(task), count + 1))
    {
        (Some(task), count) => of_tasks(app, caller, request_id, task, count).await,
        (None, _) => Ok(free()),
    }
}

/// What costs nothing and is no task.
fn free() -> Quote {
    Quote {
        model: None,
        tasks: 0,
        quantity: Quantity::default(),
        price: None,
        cost: Micros::ZERO,
        reserve: Micros::ZERO,
        routes: Vec::new(),
        available: true,
        affordable: true,
    }
}

/// What so many tasks like this one cost.
async fn of_tasks(
    app: &App,
    caller: &Caller,
    request_id: &RequestId,
    new: NewTask,
    count: u32,
) -> Result<Quote, Error> {
    let quantity = new.quantity;
    let model = new.model.clone();
    let tariff = new
        .model
        .tariff(quantity, new.payload.is_silent(), app.clock.now());
    let known_at = routing::known_at(app, caller.account.id, &new.payload).await?;
    // Where routes are drawn by weight, the heaviest is the likeliest.
    let in_order = route::in_order(model.routes(), || 0.5);
    let able = routing::able(app, in_order, &new.payload, known_at.as_deref());
    // What an order holds is said by the draft of its task.
    let task = submit::task(app, caller, request_id, new);
    let reserve = task.reserved.times(count.into());
    let mut routes: Vec<RouteQuote> = able
        .into_iter()
        .map(|route| of_route(app, route, &tariff, count))
        .collect();
    if model.routes().is_empty() {
        routes.push(RouteQuote {
            provider: EMBEDDED.to_owned(),
            model: model.id.clone(),
            price: tariff.price,
            cost: cost(tariff.price, quantity, count),
            available: true,
        });
    }
    let first = routes.iter().find(|route| route.available);
    let first = first.or(routes.first());
    Ok(Quote {
        model: Some(model.id),
        tasks: count.into(),
        quantity,
        price: first.and_then(|route| route.price),
        cost: first.map_or(reserve, |route| route.cost),
        reserve,
        available: routes.iter().any(|route| route.available),
        affordable: is_affordable(app, caller, reserve).await?,
        routes,
    })
}

fn of_route(app: &App, route: &Route, tariff: &Tariff, count: u32) -> RouteQuote {
    let price = tariff.price_by(&route.provider, &route.model);
    RouteQuote {
        provider: route.provider.clone(),
        model: route.model.clone(),
        price,
        cost: cost(price, tariff.asked, count),
        available: app.upstream.is_up(route, app.clock.now()),
    }
}

/// What so many tasks cost: each is rounded by itself, as it is settled.
fn cost(price: Option<Price>, quantity: Quantity, count: u32) -> Micros {
    price.map_or(Micros::ZERO, |price| price.of(quantity).times(count.into()))
}

/// Whether an order that holds this much would be taken now.
async fn is_affordable(app: &App, caller: &Caller, reserve: Micros) -> Result<bool, Error> {
    if reserve == Micros::ZERO {
        return Ok(true);
    }
    let (account, key) = (caller.account.id, caller.key.id);
    app.store
        .read(move |conn| -> Result<bool, Error> {
            let of_account = store::ledger::of_account(conn, account)?;
            let of_key = store::ledger::of_key(conn, key)?;
            let left = [
                of_account.and_then(|money| money.available()),
                of_key.and_then(|money| money.available()),
            ];
            Ok(left.into_iter().flatten().all(|left| left >= reserve))
        })
        .await
}

//! How many jobs may be sent: by a route, and with one credential of a
//! provider, at once and in a minute. Counted in the database, so that all
//! processes together keep the limits.

use std::time::Duration;

use crate::app::App;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::model::catalog::{Model, Route};
use crate::model::price::HANDED_ON;
use crate::store::{self, Conn, StoreError};
use crate::upstream::{Credential, Site};

const MINUTE: Duration = Duration::from_mins(1);

/// Submissions by route model and credential.
#[derive(Debug, Default)]
struct Counts {
    open: Vec<(String, String, u32)>,
    lately: Vec<(String, String, u32)>,
}

impl Counts {
    /// Those that have a limit.
    fn read(
        conn: &mut Conn<'_>,
        provider: &str,
        counted: Counted,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut counts = Self::default();
        if counted.open {
            counts.open = store::submissions::open_of(conn, provider)?;
        }
        if counted.lately {
            counts.lately = store::submissions::made_since(conn, provider, now.minus(MINUTE))?;
        }
        Ok(counts)
    }

    /// Places left by this route with this credential.
    fn room(&self, route: &Route, site: &Site, credential: &str) -> u32 {
        let by_route = |rows: &[(String, String, u32)]| {
            let rows = rows
                .iter()
                .filter(|row| row.0 == route.model || route.model == HANDED_ON);
            rows.map(|row| row.2).sum::<u32>()
        };
        let with_credential = |rows: &[(String, String, u32)]| {
            let rows = rows.iter().filter(|row| row.1 == credential);
            rows.map(|row| row.2).sum::<u32>()
        };
        let limits = [
            (route.max_running, by_route(&self.open)),
            (route.per_minute, by_route(&self.lately)),
            (site.config.max_running, with_credential(&self.open)),
            (site.config.per_minute, with_credential(&self.lately)),
        ];
        let left = limits
            .into_iter()
            .filter_map(|(limit, used)| Some(limit?.saturating_sub(used)));
        left.min().unwrap_or(u32::MAX)
    }
}

/// What has to be counted for a route.
#[derive(Debug, Clone, Copy)]
struct Counted {
    open: bool,
    lately: bool,
}

impl Counted {
    fn of(route: &Route, site: &Site) -> Self {
        Self {
            open: route.max_running.or(site.config.max_running).is_some(),
            lately: route.per_minute.or(site.config.per_minute).is_some(),
        }
    }

    const fn is_anything(self) -> bool {
        self.open || self.lately
    }
}

/// Whether a model has a route here that takes any number of jobs.
pub(super) fn is_boundless(app: &App, model: &str) -> bool {
    let catalog = app.models.catalog.load();
    let sites = app.models.upstream.sites();
    let routes = catalog.with_id(model).map_or(&[][..], Model::routes);
    let mut here = routes
        .iter()
        .filter_map(|route| Some((route, sites.get(&route.provider)?)));
    here.any(|(route, site)| !Counted::of(route, site).is_anything())
}

/// Places left for tasks of a model.
pub(super) async fn for_model(app: &App, model: &str) -> Result<u32, Error> {
    let catalog = app.models.catalog.load_full();
    let model = catalog.with_id(model);
    let Some(model) = model.filter(|model| !model.routes().is_empty()) else {
        return Ok(u32::MAX);
    };
    let sites = app.models.upstream.sites();
    let now = app.clock.now();
    let mut total = 0_u32;
    for route in model.routes() {
        let Some(site) = sites.get(&route.provider) else {
            continue;
        };
        let counted = Counted::of(route, site);
        if !counted.is_anything() {
            return Ok(u32::MAX);
        }
        let provider = route.provider.clone();
        let counts = app
            .store
            .examine(move |conn| Counts::read(conn, &provider, counted, now))
            .await?;
        let by_credential = site
            .credentials
            .iter()
            .map(|credential| counts.room(route, site, &credential.id))
            .fold(0, u32::saturating_add);
        // The route's own limit counts once, however many credentials there are.
        let own = Counts::room(&counts, route, site, "");
        let own = if route.max_running.or(route.per_minute).is_some() {
            own
        } else {
            u32::MAX
        };
        total = total.saturating_add(by_credential.min(own));
    }
    Ok(total)
}

/// Whether one more job fits; asked in the transaction that writes the intent.
pub(super) fn fits(
    conn: &mut Conn<'_>,
    route: &Route,
    site: &Site,
    credential: &Credential,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let counted = Counted::of(route, site);
    if !counted.is_anything() {
        return Ok(true);
    }
    store::submissions::lock_provider(conn, &route.provider)?;
    let counts = Counts::read(conn, &route.provider, counted, now)?;
    Ok(counts.room(route, site, &credential.id) > 0)
}

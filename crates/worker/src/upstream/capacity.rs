//! Capacity for provider jobs: the limits of a route, and of one credential of a provider, on jobs
//! at once and per minute. Jobs are counted in the database, so that all processes together stay
//! within the limits, and slots are given to accounts in turn.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mediagate_core::app::App;
use mediagate_core::upstream::{ProviderCredential, ProviderSite};
use mediagate_model::catalog::{Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::price::PASS_THROUGH_MODEL;
use mediagate_model::task::Task;
use mediagate_store::tasks::FairQueue;
use mediagate_store::{self as store, Conn, StoreError};

const MINUTE: Duration = Duration::from_mins(1);

/// Submissions by route model and credential.
#[derive(Debug, Default)]
struct SubmissionCounts {
    open: Vec<(String, String, u32)>,
    recent: Vec<(String, String, u32)>,
}

impl SubmissionCounts {
    /// Reads the counts for which there is a limit.
    fn read(
        conn: &mut Conn<'_>,
        provider: &str,
        scope: CountScope,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut counts = Self::default();
        if scope.open {
            counts.open = store::submissions::count_open(conn, provider)?;
        }
        if scope.recent {
            counts.recent = store::submissions::count_since(conn, provider, now.minus(MINUTE))?;
        }
        Ok(counts)
    }

    /// Slots left for this route with this credential.
    fn capacity(&self, route: &Route, site: &ProviderSite, credential: &str) -> u32 {
        self.route_capacity(route)
            .min(self.credential_capacity(site, credential))
    }

    /// Slots left for this route, regardless of the credential.
    fn route_capacity(&self, route: &Route) -> u32 {
        let count_for_route = |rows: &[(String, String, u32)]| {
            let rows = rows
                .iter()
                // A route that passes names through may have sent any model of the provider.
                .filter(|row| row.0 == route.model || route.model == PASS_THROUGH_MODEL);
            rows.map(|row| row.2).sum::<u32>()
        };
        least_remaining([
            (route.max_running, count_for_route(&self.open)),
            (route.per_minute, count_for_route(&self.recent)),
        ])
    }

    /// Slots left for this credential, regardless of the route.
    fn credential_capacity(&self, site: &ProviderSite, credential: &str) -> u32 {
        let count_for_credential = |rows: &[(String, String, u32)]| {
            let rows = rows.iter().filter(|row| row.1 == credential);
            rows.map(|row| row.2).sum::<u32>()
        };
        least_remaining([
            (site.config.max_running, count_for_credential(&self.open)),
            (site.config.per_minute, count_for_credential(&self.recent)),
        ])
    }

    /// Slots left for all credentials of a provider together.
    fn site_capacity(&self, site: &ProviderSite) -> u32 {
        let credentials = site.credentials.iter();
        let capacities =
            credentials.map(|credential| self.credential_capacity(site, &credential.id));
        capacities.fold(0, u32::saturating_add)
    }
}

/// The remainder under the tightest of these limits, given each limit and its use.
fn least_remaining(limits: [(Option<u32>, u32); 2]) -> u32 {
    let remainders = limits
        .into_iter()
        .filter_map(|(limit, used)| Some(limit?.saturating_sub(used)));
    remainders.min().unwrap_or(u32::MAX)
}

/// Which counts are needed for a route.
#[derive(Debug, Clone, Copy)]
struct CountScope {
    open: bool,
    recent: bool,
}

impl CountScope {
    fn for_route(route: &Route, site: &ProviderSite) -> Self {
        Self {
            open: route.max_running.or(site.config.max_running).is_some(),
            recent: route.per_minute.or(site.config.per_minute).is_some(),
        }
    }

    const fn has_limits(self) -> bool {
        self.open || self.recent
    }
}

/// Whether a model has a route here without a limit on jobs.
pub(super) fn is_unlimited(app: &App, model: &str) -> bool {
    LocalRoutes::for_model(app, model).is_unlimited()
}

/// The queue of a model. If a provider has limits of its own, all models that only this provider
/// makes share one queue.
pub(super) fn queue_of(app: &App, model: &str) -> FairQueue {
    let catalog = app.models.catalog.load();
    let sites = app.models.upstream.sites();
    let shared_provider = |model: &Model| {
        let routes = model.routes().iter();
        let mut providers = routes.filter_map(|route| sites.get_key_value(&route.provider));
        let (provider, site) = providers.next()?;
        let is_limited = site.config.max_running.or(site.config.per_minute).is_some();
        let is_only_one = providers.all(|(other, _)| other == provider);
        (is_limited && is_only_one).then(|| provider.clone())
    };
    let Some(provider) = catalog.with_id(model).and_then(shared_provider) else {
        return FairQueue {
            name: format!("model {model}"),
            models: vec![model.to_owned()],
        };
    };
    let models = catalog.models().iter();
    let models = models.filter(|model| shared_provider(model).as_ref() == Some(&provider));
    FairQueue {
        models: models.map(|model| model.id.clone()).collect(),
        name: format!("provider {provider}"),
    }
}

/// A model's routes in this process, according to the settings when a claim began.
pub(super) struct LocalRoutes(Vec<(Route, Arc<ProviderSite>)>);

impl LocalRoutes {
    pub(super) fn for_model(app: &App, model: &str) -> Self {
        let catalog = app.models.catalog.load();
        let sites = app.models.upstream.sites();
        let routes = catalog.with_id(model).map_or(&[][..], Model::routes);
        let local_routes = routes
            .iter()
            .filter_map(|route| Some((route.clone(), sites.get(&route.provider)?.clone())));
        Self(local_routes.collect())
    }

    /// Whether one of them has no limit on jobs.
    fn is_unlimited(&self) -> bool {
        let mut routes = self.0.iter();
        routes.any(|(route, site)| !CountScope::for_route(route, site).has_limits())
    }

    /// Whether the model can be made by this process.
    pub(super) const fn can_run(&self) -> bool {
        !self.0.is_empty()
    }

    /// Slots left at providers for tasks of the model, and for tasks of its queue. Tasks that are
    /// claimed but not sent are not counted here.
    fn room(&self, conn: &mut Conn<'_>, now: Timestamp) -> Result<(u32, u32), StoreError> {
        let (mut model_capacity, mut queue_capacity) = (0_u32, 0_u32);
        let mut providers = HashSet::new();
        for (route, site) in &self.0 {
            let scope = CountScope::for_route(route, site);
            if !scope.has_limits() {
                return Ok((u32::MAX, u32::MAX));
            }
            let counts = SubmissionCounts::read(conn, &route.provider, scope, now)?;
            let credential_capacity = site
                .credentials
                .iter()
                .map(|credential| counts.capacity(route, site, &credential.id))
                .fold(0, u32::saturating_add);
            // The route's own limit counts once, however many credentials there are.
            let route_capacity = credential_capacity.min(counts.route_capacity(route));
            model_capacity = model_capacity.saturating_add(route_capacity);
            if providers.insert(&route.provider) {
                queue_capacity = queue_capacity.saturating_add(counts.site_capacity(site));
            }
        }
        Ok((model_capacity.min(queue_capacity), queue_capacity))
    }
}

/// A model whose tasks are about to be claimed.
pub(super) struct ModelDemand {
    pub(super) model: String,
    pub(super) routes: LocalRoutes,
    /// How many tasks this process can send at once.
    pub(super) max_tasks: u32,
}

/// Claims tasks of a queue for providers that have free slots, by turns of the accounts.
pub(super) fn claim(
    conn: &mut Conn<'_>,
    owner: &str,
    queue: &FairQueue,
    models: &[ModelDemand],
    now: Timestamp,
) -> Result<Vec<Task>, StoreError> {
    // Without a free slot here a claim would only block other processes from the queue.
    if models.iter().all(|demand| demand.max_tasks == 0) {
        return Ok(Vec::new());
    }
    store::tasks::enter_queue(conn, queue);
    // Unsent tasks are counted before the jobs: an order that is sent in between counts twice
    // rather than not at all.
    let mut unsent = None;
    let mut capacities = Vec::new();
    let mut slots = 0;
    for ModelDemand {
        model,
        routes,
        max_tasks,
    } in models
    {
        let is_unlimited = routes.is_unlimited();
        if !is_unlimited && unsent.is_none() {
            unsent = Some(store::tasks::count_unsent(conn, queue)?);
        }
        let unsent = unsent.as_ref().filter(|_| !is_unlimited);
        let unsent_of_model = unsent.and_then(|unsent| unsent.get(model)).copied();
        let unsent_of_queue = unsent.map_or(0, |unsent| unsent.values().sum());
        let (capacity, queue_capacity) = routes.room(conn, now)?;
        let capacity = capacity
            .saturating_sub(unsent_of_model.unwrap_or(0))
            .min(*max_tasks);
        slots = queue_capacity.saturating_sub(unsent_of_queue).max(slots);
        capacities.push((model.clone(), capacity));
    }
    store::tasks::claim_in_turn(conn, owner, queue, &capacities, slots, now)
}

/// Whether one more job fits into the limits; checked in the transaction that writes the intent.
pub(super) fn fits(
    conn: &mut Conn<'_>,
    route: &Route,
    site: &ProviderSite,
    credential: &ProviderCredential,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let scope = CountScope::for_route(route, site);
    if !scope.has_limits() {
        return Ok(true);
    }
    // Without the lock two processes could both count the last slot as free.
    store::submissions::lock_provider(conn, &route.provider)?;
    let counts = SubmissionCounts::read(conn, &route.provider, scope, now)?;
    Ok(counts.capacity(route, site, &credential.id) > 0)
}

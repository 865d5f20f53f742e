//! The configured hosted providers: URLs, credentials, health, and the driver that talks to
//! them.
//!
//! This module knows the `providers` crate and the settings, but no tasks or accounts.
//! [`route_order`] decides which provider is tried.

pub mod breaker;
pub mod poll_pacer;
pub mod route_order;
mod settings_digest;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use locks::lock;
use providers::catalogue::Catalogue;
use providers::driver::{Driver, Provider, ProviderRules};
use providers::{ProviderSettings, Secret};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::upstream::breaker::{BreakerState, CircuitBreaker, RouteUse};
use crate::upstream::poll_pacer::PollPacer;
use crate::upstream::settings_digest::settings_digest;
use mediagate_config::file::{suggestion, unknown_key};
use mediagate_config::providers::ProviderConfig;
use mediagate_config::{Config, ConfigError, ModelConfig};
use mediagate_model::catalog::{EMBEDDED, Model, Route};
use mediagate_model::clock::Timestamp;
use mediagate_model::route::{BreakerSnapshot, StoredRouteState};
use mediagate_model::submission::Submission;

/// Maximum number of former providers that are remembered.
const MAX_FORMER_SITES: usize = 64;

/// Maximum number of polls per second of one provider, unless it or the operator allows fewer.
const MAX_POLLS: u32 = 10_000;

/// Providers by the operator's names for them.
pub type ProviderSites = BTreeMap<String, Arc<ProviderSite>>;

/// A provider and its state.
#[derive(Debug)]
pub struct ProviderSite {
    pub config: ProviderConfig,
    /// The models that its adapter knows.
    catalogue: Arc<Catalogue>,
    /// Address and protocol, for the driver.
    pub provider: Provider,
    /// The protocol and the base URL: stored with each submission, so that its job is looked up
    /// where it was made.
    pub endpoint: String,
    /// Digest of the settings that say where its jobs are and what their handles and answers mean.
    pub job_settings: String,
    /// At least one; an empty one if none is needed.
    pub credentials: Vec<Arc<ProviderCredential>>,
    reachable: AtomicBool,
}

#[derive(Debug)]
pub struct ProviderCredential {
    /// Its position in the settings and a digest of its value: `1:0011aabb`.
    pub id: String,
    /// The API key or token.
    pub secret: Secret,
    /// Jobs of this process that use it.
    open: AtomicU32,
    /// Limits this process's polls with this credential: the provider limits an account, not an
    /// address.
    pub poll_pacer: PollPacer,
    /// The provider's gauge of open jobs.
    open_gauge: metrics::Gauge,
}

/// Counts a job for a credential until dropped.
#[derive(Debug)]
pub struct OpenJob(Arc<ProviderCredential>);

impl Drop for OpenJob {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.open_gauge.decrement(1.0);
    }
}

impl ProviderCredential {
    fn new(provider: &str, position: usize, secret: Secret, max_polls: u32) -> Self {
        // The digest finds the same key again at any position in the settings. The position finds
        // its successor after a rotation.
        let digest = Sha256::digest(secret.expose().as_bytes());
        let [a, b, c, d, ..] = <[u8; 32]>::from(digest);
        Self {
            id: format!("{position}:{:08x}", u32::from_be_bytes([a, b, c, d])),
            secret,
            open: AtomicU32::new(0),
            poll_pacer: PollPacer::new(max_polls),
            open_gauge: metrics::gauge!("mediagate_upstream_open_jobs", "provider" => provider.to_owned()),
        }
    }

    /// Jobs of this process that use it.
    pub fn open_jobs(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    pub fn open(self: &Arc<Self>) -> OpenJob {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.open_gauge.increment(1.0);
        OpenJob(self.clone())
    }
}

impl ProviderSite {
    fn new(
        name: &str,
        config: &ProviderConfig,
        catalogue: &Arc<Catalogue>,
        app: &Config,
    ) -> Result<Self, ConfigError> {
        let value_error = |key: &str, message: String| ConfigError::Value {
            key: format!("providers.{name}.{key}"),
            message,
        };
        if name == EMBEDDED {
            let message = "is reserved for embedded models; choose another name";
            return Err(ConfigError::Value {
                key: format!("providers.{name}"),
                message: message.into(),
            });
        }
        let protocol = providers::protocol(&config.protocol).ok_or_else(|| {
            let protocols = providers::PROTOCOLS
                .iter()
                .chain(providers::SHIPPED_RECIPES);
            let names: Vec<&str> = protocols.map(|protocol| protocol.name).collect();
            let hint = format!("unknown protocol; {}", suggestion(&config.protocol, &names));
            value_error("protocol", hint)
        })?;
        let common = [
            "protocol",
            "base_url",
            "api_key",
            "api_keys",
            "hosts",
            "max_running",
            "per_minute",
            "job_limit",
            "max_polls",
            "results",
        ];
        if let Some(option) = config
            .options
            .fields()
            .keys()
            .find(|key| !protocol.options.contains(&key.as_str()))
        {
            let keys: Vec<&str> = common.iter().chain(protocol.options).copied().collect();
            return Err(value_error(option, unknown_key(option, &keys)));
        }
        if config.secrets.is_empty() && !protocol.anonymous {
            let message = format!("{} needs an api_key", protocol.name);
            return Err(value_error("protocol", message));
        }
        let settings = ProviderSettings {
            name: name.to_owned(),
            base_url: config.base_url.as_ref().map(|base| base.url().clone()),
            options: config.options.fields().clone(),
            catalogue: catalogue.clone(),
        };
        let defaults = ProviderRules::default();
        let rules = ProviderRules {
            hosts: config.hosts.clone(),
            allow_networks: app.fetch.allow_networks.clone(),
            spool: app.spool_path(),
            submissions_at_once: app.max_submitting.max(defaults.submissions_at_once),
            // Polls per second times a quarter of a second per response gives the number in flight.
            calls_at_once: (config.max_polls.unwrap_or(MAX_POLLS) as usize / 4)
                .clamp(defaults.calls_at_once, MAX_POLLS as usize / 4),
            ..defaults
        };
        let provider = Provider::new(protocol, &settings, rules).map_err(|error| {
            let message = match error.line {
                Some(line) => format!("line {line}: {}", error.message),
                None => error.message.clone(),
            };
            value_error(error.key.as_deref().unwrap_or("protocol"), message)
        })?;
        let documented = provider.adapter().pace().calls_per_second;
        let max_polls = [config.max_polls, documented, Some(MAX_POLLS)];
        let max_polls = max_polls.into_iter().flatten().min().unwrap_or(MAX_POLLS);
        let mut secrets = config.secrets.clone();
        if secrets.is_empty() {
            secrets.push(Secret::new(""));
        }
        let credentials = secrets.into_iter().zip(1..).map(|(secret, position)| {
            let credential = ProviderCredential::new(name, position, secret, max_polls);
            Arc::new(credential)
        });
        Ok(Self {
            credentials: credentials.collect(),
            endpoint: format!("{} {}", protocol.name, redacted_url(provider.base_url())),
            job_settings: job_settings(config, &provider),
            config: config.clone(),
            catalogue: catalogue.clone(),
            provider,
            reachable: AtomicBool::new(true),
        })
    }

    /// Digest of all settings that shape the request of an order: two orders of one task with the
    /// same digest are the same request.
    pub fn order_settings(&self, route_model: &str, extra: &Map<String, Value>) -> String {
        let options = Value::Object(self.config.options.fields().clone());
        settings_digest(&json!([options, self.job_settings, route_model, extra]))
    }

    /// Whether a submission went out exactly as one would now, with an idempotency key or without.
    /// `extra` has the fields that the operator adds to its request.
    fn is_sent_alike(&self, submission: &Submission, extra: &Map<String, Value>) -> bool {
        let settings = submission.order_settings.as_ref();
        let is_same = |sent: &String| *sent == self.order_settings(&submission.route_model, extra);
        let deduplicates = self.provider.adapter().deduplicates();
        settings.is_none_or(is_same) && submission.has_key.is_none_or(|key| key == deduplicates)
    }

    /// The credential with which a submission was made, if it was made at this URL, in this
    /// protocol, with the same settings of jobs, and with a key that the settings still have, at any
    /// position.
    pub fn credential_of(&self, submission: &Submission) -> Option<&Arc<ProviderCredential>> {
        // Another URL or account does not know the job. Its "not found" would be taken for the
        // end of a job that is still running and is paid for.
        let settings = submission.job_settings.as_ref();
        let is_same_endpoint = submission.endpoint == self.endpoint
            && settings.is_none_or(|settings| *settings == self.job_settings);
        let has_same_key = |credential: &&Arc<ProviderCredential>| {
            credential_digest(&credential.id) == credential_digest(&submission.credential)
        };
        self.credentials
            .iter()
            .filter(|_| is_same_endpoint)
            .find(has_same_key)
    }

    /// The credential with which something that the provider keeps was made: the one with the same
    /// value or, after a rotation, in the same position.
    pub fn credential(&self, id: &str) -> Option<&Arc<ProviderCredential>> {
        let mut credentials = self.credentials.iter();
        let same_value = credentials
            .find(|credential| credential_digest(&credential.id) == credential_digest(id));
        same_value.or_else(|| {
            let position: usize = id.split_once(':')?.0.parse().ok()?;
            self.credentials.get(position.checked_sub(1)?)
        })
    }

    /// Whether its host accepted a connection when last probed.
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Ordering::Relaxed)
    }
}

fn job_settings(config: &ProviderConfig, provider: &Provider) -> String {
    let options = config.options.fields().iter();
    let options: Map<String, Value> = options
        .filter(|(name, _)| providers::concerns_jobs(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    settings_digest(&json!([options, provider.adapter().job_settings()]))
}

/// The digest of a key's value in a credential's id.
fn credential_digest(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, digest)| digest)
}

/// A URL without the parts that may be secret.
fn redacted_url(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for a URL that can have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

/// The providers, their health, and the driver.
pub struct Upstream {
    pub driver: Driver,
    sites: ArcSwap<ProviderSites>,
    /// Providers of earlier settings, the latest last: jobs submitted to them are still polled.
    former: Mutex<Vec<Arc<ProviderSite>>>,
    breakers: Mutex<HashMap<(String, String), CircuitBreaker>>,
    /// The database's state of the routes, as last read.
    stored_states: Mutex<HashMap<(String, String), StoredRouteState>>,
    /// Pauses between polls and between attempts to fetch a result are divided by this. 1 except in
    /// tests.
    speed: AtomicU32,
}

/// The providers in the settings; unchanged ones are taken from `previous`.
pub fn sites(
    config: &ModelConfig,
    app: &Config,
    previous: Option<&ProviderSites>,
) -> Result<ProviderSites, ConfigError> {
    build(config, app, previous).map_err(|error| config.locate(error))
}

fn build(
    config: &ModelConfig,
    app: &Config,
    previous: Option<&ProviderSites>,
) -> Result<ProviderSites, ConfigError> {
    let mut sites = ProviderSites::new();
    for (name, settings) in &config.providers {
        // A provider that did not change keeps its connections and counts over a reload.
        let unchanged = previous
            .and_then(|previous| previous.get(name))
            .filter(|site| site.config == *settings && site.catalogue == config.catalogue);
        let site = match unchanged {
            Some(site) => site.clone(),
            None => Arc::new(ProviderSite::new(name, settings, &config.catalogue, app)?),
        };
        sites.insert(name.clone(), site);
    }
    Ok(sites)
}

impl Upstream {
    pub fn new(sites: ProviderSites) -> Self {
        Self {
            driver: Driver::new(),
            sites: ArcSwap::from_pointee(sites),
            former: Mutex::default(),
            breakers: Mutex::default(),
            stored_states: Mutex::default(),
            speed: AtomicU32::new(1),
        }
    }

    /// Makes pauses shorter by this factor, so that a test sees what takes an hour.
    pub fn set_speed(&self, speed: u32) {
        self.speed.store(speed.max(1), Ordering::Relaxed);
    }

    /// The pause as it is waited for.
    pub fn shortened(&self, pause: Duration) -> Duration {
        pause / self.speed.load(Ordering::Relaxed)
    }

    /// The time that counts as passed after this wait.
    pub fn lengthened(&self, wait: Duration) -> Duration {
        wait * self.speed.load(Ordering::Relaxed)
    }

    pub fn sites(&self) -> Arc<ProviderSites> {
        self.sites.load_full()
    }

    /// Replaces the providers. This process keeps the former ones for the jobs that were submitted
    /// to them.
    pub fn replace(&self, sites: ProviderSites) {
        let previous = self.sites.swap(Arc::new(sites));
        let current = self.sites();
        let is_gone = |site: &&Arc<ProviderSite>| {
            let current_site = current.get(site.provider.name());
            !current_site.is_some_and(|current_site| Arc::ptr_eq(current_site, site))
        };
        let mut former = lock(&self.former);
        former.extend(previous.values().filter(is_gone).cloned());
        let surplus = former.len().saturating_sub(MAX_FORMER_SITES);
        former.drain(..surplus);
    }

    /// The provider and credential with which a submission was made, from the settings or, if this
    /// process still has them, from former settings. `None` if unknown: its job can neither be
    /// polled nor submitted again.
    pub fn find_submitter(
        &self,
        submission: &Submission,
    ) -> Option<(Arc<ProviderSite>, Arc<ProviderCredential>)> {
        self.find_submitter_if(submission, |_| true)
    }

    /// Like [`Self::find_submitter`], for a submission whose outcome is unknown: everything that
    /// shapes its request must be as it was. Otherwise a repetition would be another order, and a
    /// look-up would compare it with what was not sent.
    pub fn find_order_submitter(
        &self,
        submission: &Submission,
        extra: &Map<String, Value>,
    ) -> Option<(Arc<ProviderSite>, Arc<ProviderCredential>)> {
        self.find_submitter_if(submission, |site| site.is_sent_alike(submission, extra))
    }

    fn find_submitter_if(
        &self,
        submission: &Submission,
        fits: impl Fn(&ProviderSite) -> bool,
    ) -> Option<(Arc<ProviderSite>, Arc<ProviderCredential>)> {
        let sites = self.sites();
        let former = lock(&self.former);
        let former = former
            .iter()
            // A name may have had several settings. The latest ones are tried first.
            .rev()
            .filter(|site| site.provider.name() == submission.provider);
        let mut candidates = sites.get(&submission.provider).into_iter().chain(former);
        let submitter = candidates.find_map(|site| {
            let credential = site.credential_of(submission).filter(|_| fits(site))?;
            Some((site.clone(), credential.clone()))
        });
        if submitter.is_none() {
            metrics::counter!("mediagate_submissions_unmatched_total", "provider" => submission.provider.clone())
                .increment(1);
            tracing::error!(
                provider = %submission.provider, submission_id = %submission.id, task_id = %submission.task,
                made_at = submission.endpoint,
                "submission is waiting: its provider, URL, protocol, key or options are no longer those of the settings"
            );
        }
        submitter
    }

    fn breakers(&self) -> MutexGuard<'_, HashMap<(String, String), CircuitBreaker>> {
        lock(&self.breakers)
    }

    /// Runs `update` on the breaker of a route.
    pub fn breaker<T>(&self, route: &Route, update: impl FnOnce(&mut CircuitBreaker) -> T) -> T {
        let key = (route.provider.clone(), route.model.clone());
        let mut breakers = self.breakers();
        let breaker = breakers.entry(key).or_default();
        let was_open = breaker.last_open_until().is_some();
        let outcome = update(breaker);
        let is_open = breaker.last_open_until().is_some();
        if was_open != is_open {
            tracing::warn!(provider = %route.provider, model = %route.model, open = is_open, "circuit breaker changed");
        }
        metrics::gauge!("mediagate_route_open", "provider" => route.provider.clone(), "model" => route.model.clone())
            .set(if is_open { 1.0 } else { 0.0 });
        outcome
    }

    /// The state of a route in this process now.
    pub fn breaker_state(&self, route: &Route, now: Timestamp) -> BreakerSnapshot {
        let breaker = self.breaker(route, |breaker| breaker.clone());
        let state = breaker.state(now);
        let is_reachable = self.is_reachable(route);
        let next = match state {
            BreakerState::Open => breaker.last_open_until(),
            BreakerState::Busy => breaker.busy_until(now),
            BreakerState::Closed | BreakerState::Trial => None,
        };
        let name = if is_reachable {
            state.name()
        } else {
            "unreachable"
        };
        BreakerSnapshot {
            provider: route.provider.clone(),
            model: route.model.clone(),
            state: name.to_owned(),
            failures: breaker.failures(),
            is_up: is_reachable && breaker.lets_pass(now),
            next_try: next.map(Timestamp::micros),
        }
    }

    /// Asks to submit through this route; if allowed, the caller must report the outcome to the
    /// breaker.
    pub fn enter(&self, route: &Route, route_use: RouteUse, now: Timestamp) -> bool {
        self.is_reachable(route)
            && !self.is_paused(route)
            && self.breaker(route, |breaker| breaker.enter(now, route_use))
    }

    /// Whether this route works, as far as known: it is not suspended and needs no trial.
    fn is_working(&self, route: &Route, now: Timestamp) -> bool {
        let state = || self.breaker(route, |breaker| breaker.state(now));
        self.is_up(route, now) && matches!(state(), BreakerState::Closed | BreakerState::Busy)
    }

    /// Records that it is unknown whether the route's provider took an order. `routes` are those of
    /// the order's model.
    pub fn record_lost_order(&self, route: &Route, routes: &[Route], now: Timestamp) {
        let key = |route: &Route| (route.provider.clone(), route.model.clone());
        let mut others = routes.iter().filter(|other| key(other) != key(route));
        // With another route, the next orders need not find out whether this one works.
        let at_once = others.any(|other| self.is_working(other, now));
        self.breaker(route, |breaker| breaker.record_lost_order(now, at_once));
    }

    fn stored_states(&self) -> MutexGuard<'_, HashMap<(String, String), StoredRouteState>> {
        lock(&self.stored_states)
    }

    /// Keeps the database's state of all routes. If an operator asked to retry a route, its
    /// breaker closes.
    pub fn update_stored_states(&self, stored_states: HashMap<(String, String), StoredRouteState>) {
        let previous = std::mem::replace(&mut *self.stored_states(), stored_states.clone());
        for (key, stored) in stored_states {
            let last_request = previous
                .get(&key)
                .and_then(|stored| stored.retry_requested_at);
            // The request stays in the database. Only a new one closes the breaker, otherwise it
            // would close at every refresh.
            if stored.retry_requested_at > last_request
                && let Some(breaker) = self.breakers().get_mut(&key)
            {
                breaker.record_success();
            }
        }
    }

    /// Runs `update` on the stored state of a route.
    pub fn with_stored_state<T>(
        &self,
        route: &Route,
        update: impl FnOnce(&mut StoredRouteState) -> T,
    ) -> T {
        let key = (route.provider.clone(), route.model.clone());
        update(self.stored_states().entry(key).or_default())
    }

    fn is_paused(&self, route: &Route) -> bool {
        self.with_stored_state(route, |stored| stored.paused_at.is_some())
    }

    /// Whether its provider's host accepted a connection when last probed.
    pub fn is_reachable(&self, route: &Route) -> bool {
        let sites = self.sites.load();
        let site = sites.get(&route.provider);
        site.is_some_and(|site| site.is_reachable())
    }

    /// Whether work can be submitted through this route now.
    pub fn is_up(&self, route: &Route, now: Timestamp) -> bool {
        self.is_reachable(route)
            && !self.is_paused(route)
            && self.breaker(route, |breaker| breaker.lets_pass(now))
    }

    /// Whether the provider is expected to accept work through this route now: a key that was
    /// refused is still tried, but not expected to work until an order is accepted.
    pub fn is_expected_available(&self, route: &Route, now: Timestamp) -> bool {
        self.is_up(route, now)
            && self.with_stored_state(route, |stored| stored.refused_at.is_none())
    }

    /// Whether the model has a route that is expected to be available, or needs none.
    pub fn is_offered(&self, model: &Model, now: Timestamp) -> bool {
        let routes = model.routes();
        routes.is_empty()
            || routes
                .iter()
                .any(|route| self.is_expected_available(route, now))
    }

    /// Whether a model can do work now.
    pub fn is_available(&self, model: &Model, now: Timestamp) -> bool {
        let routes = model.routes();
        routes.is_empty() || routes.iter().any(|route| self.is_up(route, now))
    }

    /// Probes whether each provider's host accepts connections.
    pub async fn probe(&self) {
        let sites = self.sites();
        let probes = sites.iter().map(|(name, site)| async move {
            let reachable = self.driver.reachable(&site.provider).await;
            if site.reachable.swap(reachable, Ordering::Relaxed) != reachable {
                tracing::warn!(provider = %name, reachable, "provider reachability changed");
            }
            metrics::gauge!("mediagate_provider_reachable", "provider" => name.clone())
                .set(if reachable { 1.0 } else { 0.0 });
        });
        futures_util::future::join_all(probes).await;
    }
}

//! Trials of suspended routes by calls that order nothing: a list, or a poll of a job that the provider
//! has made. So finding out that a provider works again costs no caller an order.

use std::time::Duration;

use providers::JobHandle;

use mediagate_core::app::App;
use mediagate_core::upstream::ProviderSite;
use mediagate_model::catalog::{Model, Route};
use mediagate_model::error::Error;
use mediagate_store as store;

/// How long ago a job that is polled was ordered at most: providers forget old ones.
const MAX_JOB_AGE: Duration = Duration::from_hours(24);

/// Tries each suspended route whose pause is over.
pub(crate) async fn try_suspended_routes(app: &App) {
    let upstream = &app.models.upstream;
    let catalog = app.models.catalog.load_full();
    for route in catalog.models().iter().flat_map(Model::routes) {
        let now = app.clock.now();
        if !upstream.breaker(route, |breaker| breaker.wants_trial_call(now)) {
            continue;
        }
        let sites = upstream.sites();
        let Some(site) = sites.get(&route.provider) else {
            continue;
        };
        match try_route(app, route, site).await {
            Ok(Some(is_answered)) => {
                let now = app.clock.now();
                upstream.breaker(route, |breaker| breaker.record_trial_call(now, is_answered));
            }
            // Only an order can try it.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(inside = ?error.internal_cause(), "cannot try a suspended route");
            }
        }
    }
}

/// Whether the route's provider answers; `None` if there is no call that orders nothing.
async fn try_route(app: &App, route: &Route, site: &ProviderSite) -> Result<Option<bool>, Error> {
    let job = known_job(app, site).await?;
    let known = job.as_ref().and_then(|(credential, handle)| {
        let credential = site.credential(credential)?;
        Some((credential, handle))
    });
    let credential = known.map(|(credential, _)| credential);
    let Some(credential) = credential.or(site.credentials.first()) else {
        return Ok(None);
    };
    let handle = known.map(|(_, handle)| handle);
    let driver = &app.models.upstream.driver;
    let answer = driver.try_provider(&site.provider, &credential.secret, handle);
    let Some(answer) = answer.await else {
        return Ok(None);
    };
    match &answer {
        Ok(()) => {
            tracing::info!(provider = %route.provider, model = %route.model, "suspended route: the provider answers again");
        }
        Err(error) => {
            tracing::warn!(provider = %route.provider, model = %route.model, class = error.class.name(), message = %error.message, "suspended route: the provider still fails");
        }
    }
    Ok(Some(answer.is_ok()))
}

async fn known_job(app: &App, site: &ProviderSite) -> Result<Option<(String, JobHandle)>, Error> {
    let (name, endpoint) = (site.provider.name().to_owned(), site.endpoint.clone());
    let since = app.clock.now().minus(MAX_JOB_AGE);
    let read = app
        .store
        .read(move |conn| store::routes::known_job(conn, &name, &endpoint, since));
    Ok(read.await?)
}

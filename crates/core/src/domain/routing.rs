//! Routes that can do a piece of work, for the worker and for quotes.

use crate::app::{AppParts, Ctx};
use crate::domain::{music, songs, video};
use mediagate_model::catalog::Route;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;
use mediagate_model::task::TaskPayload;
use mediagate_store as store;

/// The routes that can do this work, in order, except that a provider which already has the sources
/// comes first.
pub fn capable_routes<'a>(
    app: &AppParts,
    routes: Vec<&'a Route>,
    payload: &TaskPayload,
    source_provider: Option<&str>,
) -> Vec<&'a Route> {
    let has_sources = |route: &Route| source_provider == Some(route.provider.as_str());
    let mut capable = routes;
    capable.retain(|route| match payload {
        TaskPayload::VideoV1(job) => video::route_faults(app, route, &job.demand()).is_empty(),
        TaskPayload::StemsV1(job) => music::fits(&route.limits, job),
        TaskPayload::SongV1(job) => {
            // A persona can be used only where it was made.
            let needs_sources = job.persona.is_some() || songs::needs_own_clips(&route.limits, job);
            songs::fits(&route.limits, job) && (!needs_sources || has_sources(route))
        }
    });
    // A stable sort: the others keep their order.
    capable.sort_by_key(|route| !has_sources(route));
    capable
}

/// The provider that already has the sources of this work: where the persona was made, else where a
/// clip was made.
pub async fn source_provider(
    app: &Ctx,
    account: AccountId,
    payload: &TaskPayload,
) -> Result<Option<String>, Error> {
    let (persona, clips) = match payload {
        TaskPayload::VideoV1(_) => return Ok(None),
        TaskPayload::StemsV1(job) => (None, vec![job.source]),
        TaskPayload::SongV1(job) => (job.persona, job.clips.iter().map(|(_, id)| *id).collect()),
    };
    // The persona decides before the clips do, because it works at no other provider.
    if let Some(id) = persona {
        let read = move |conn: &mut store::Conn<'_>| -> Result<_, Error> {
            Ok(store::personas::by_id(conn, id, account)?)
        };
        let persona = app.store.read(read).await?;
        if let Some(upstream) = persona.and_then(|persona| persona.upstream) {
            return Ok(Some(upstream.provider));
        }
    }
    let clips = music::clips(app, account, clips).await?;
    let upstream = clips.into_iter().find_map(|clip| clip.upstream);
    Ok(upstream.map(|upstream| upstream.provider))
}

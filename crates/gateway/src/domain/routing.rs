//! Which of a model's routes can do a piece of work: one answer for the worker
//! that tries them and for the quote that tells of them.

use crate::app::{App, Parts};
use crate::domain::{music, songs, video};
use crate::error::Error;
use crate::ids::AccountId;
use crate::model::catalog::Route;
use crate::model::task::Payload;
use crate::store;

/// Those of the routes that can do it, in the order given but for one thing: a
/// provider that knows the sources already goes first.
pub fn able<'a>(
    app: &Parts,
    routes: Vec<&'a Route>,
    payload: &Payload,
    known_at: Option<&str>,
) -> Vec<&'a Route> {
    let knows = |route: &Route| known_at == Some(route.provider.as_str());
    let mut able = routes;
    able.retain(|route| match payload {
        Payload::VideoV1(job) => video::fits(app, &route.limits, job),
        Payload::StemsV1(job) => music::fits(app, &route.limits, job),
        // A persona sings nowhere but where it was made.
        Payload::SongV1(job) => {
            songs::fits(&route.limits, job) && (job.persona.is_none() || knows(route))
        }
    });
    able.sort_by_key(|route| !knows(route));
    able
}

/// The provider that knows the sources of this work already: the one where the
/// persona was made, else the one where a clip was.
pub async fn known_at(
    app: &App,
    account: AccountId,
    payload: &Payload,
) -> Result<Option<String>, Error> {
    let (persona, clips) = match payload {
        Payload::VideoV1(_) => return Ok(None),
        Payload::StemsV1(job) => (None, vec![job.source]),
        Payload::SongV1(job) => (job.persona, job.clips.iter().map(|(_, id)| *id).collect()),
    };
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

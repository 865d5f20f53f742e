//! Personas: made from a root clip and other clips of the same account.

use tracing::Instrument as _;

use crate::app::{App, Ctx};
use crate::crash;
use crate::domain::assets::{self, AssetLifetime};
use crate::domain::moderation::{self, OrderSubject};
use crate::domain::music;
use crate::domain::order_terms::OrderTerms;
use crate::domain::provenance::marking;
use crate::domain::storage_room;
use crate::intents::AcceptanceGuard;
use crate::intents::{IntentAttempt, IntentRecord};
use crate::retry;
use mediagate_model::account::Caller;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, ClipId, PersonaId};
use mediagate_model::intent::IntentResult;
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::music::{Clip, ClipState, Persona};
use mediagate_store::tasks::PageQuery;
use mediagate_store::{self as store, Conn};

mod upstream;

/// Maximum number of clips in a request, beside the root clip.
pub const MAX_CLIPS: usize = 20;

/// A persona to create; lengths and counts have been checked.
#[derive(Debug, Clone)]
pub struct NewPersona {
    /// The clip it is made from.
    pub root_clip: ClipId,
    /// 1–80 characters.
    pub name: String,
    /// Up to 1,000 characters.
    pub description: String,
    /// Just the root clip if empty.
    pub clips: Vec<ClipId>,
    /// Whether the owner asked for it to be public.
    pub is_public: bool,
    pub terms: OrderTerms,
}

/// Creates a persona. Returns it with its clips, the root first. Continues if the caller
/// disconnects, because a provider may be working on it.
pub async fn create(
    app: &App,
    caller: &Caller,
    attempt: &IntentAttempt,
    new: NewPersona,
) -> Result<(Persona, Vec<Clip>), Error> {
    let clips = prepare(app, caller, &new).await?;
    let subject = OrderSubject {
        task: None,
        request: None,
        kind: "persona",
        model: "",
        user: None,
        idempotency_key: attempt.idempotency_key(),
    };
    let inputs = moderation::of_persona(&new);
    moderation::check_order(app, caller, subject, &inputs).await?;
    // Checked before the provider is called. Once the provider has made the persona, storing it
    // must not be refused.
    storage_room::check(app, caller.account.id, 0).await?;
    let (app, account) = (app.clone(), caller.account.id);
    let (record, accepting) = (attempt.record(), attempt.begin_acceptance());
    let creation = async move {
        match make(&app, account, &record, new, &clips).await {
            Ok((persona, image)) => {
                // A separate async task: the caller is answered after a few seconds, while storing
                // is retried for as long as it takes.
                let stored = run_detached(keep(app, record, accepting, persona, image));
                Ok((store::await_within_limit(stored).await?, clips))
            }
            failed => {
                accepting.record_result(&failed);
                failed.map(|(persona, _)| (persona, clips))
            }
        }
    };
    run_detached(creation).await
}

/// Completes work even if the caller that waits for it disconnects.
async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it ends once the provider has answered and the answer is stored"
    )]
    let running = tokio::spawn(work.in_current_span());
    running.await.map_err(Error::internal)?
}

/// The clips of a persona, if it can be made; the root comes first.
pub async fn prepare(app: &Ctx, caller: &Caller, new: &NewPersona) -> Result<Vec<Clip>, Error> {
    let account = caller.account.id;
    let mut clips = vec![usable_clip(app, account, new.root_clip, "root_clip_id").await?];
    for (number, id) in new.clips.iter().enumerate() {
        let clip = usable_clip(app, account, *id, &format!("clips[{number}]")).await?;
        if clips.iter().all(|added| added.id != clip.id) {
            clips.push(clip);
        }
    }
    Ok(clips)
}

/// Makes a persona at its provider, if it has one; nothing is in the database yet. On an error
/// nothing was made, unless the error says that this is unknown.
async fn make(
    app: &App,
    account: AccountId,
    record: &IntentRecord,
    new: NewPersona,
    clips: &[Clip],
) -> Result<(Persona, Asset), Error> {
    // Everything here that can fail comes before the provider is called.
    let id = PersonaId::new();
    let picture = artwork::avatar(animatic::FONT, &id.to_string(), &new.name, 512);
    let picture = picture.map_err(Error::internal)?;
    let picture = marking::sign_avatar(app, account, &id.to_string(), picture).await?;
    let (media, picture) = (MediaType::Png, picture.into());
    let image = assets::keep(app, account, media, picture, AssetLifetime::Forever).await?;
    let upstream = match upstream::create(app, record, &new, clips).await {
        Ok(upstream) => upstream,
        Err(error) => {
            assets::remove(app, &image).await;
            return Err(error);
        }
    };
    let persona = Persona {
        id,
        account,
        name: new.name,
        description: new.description,
        image: image.id,
        root_clip: new.root_clip,
        clips: clips.iter().map(|clip| clip.id).collect(),
        is_public: new.is_public,
        is_public_approved: new.is_public && app.config.personas.auto_approve,
        upstream,
        created_at: app.clock.now(),
    };
    Ok((persona, image))
}

/// Stores a persona. If a provider made it, this is retried until it succeeds, because an error
/// would mean that there is none.
async fn keep(
    app: App,
    record: IntentRecord,
    accepting: AcceptanceGuard,
    persona: Persona,
    image: Asset,
) -> Result<Persona, Error> {
    let record = record.with_result(IntentResult::Persona(persona.id));
    let write = || {
        let (row, image, record) = (persona.clone(), image.clone(), record.clone());
        app.store.write(move |conn| -> Result<(), Error> {
            // The write is repeated when its outcome is unknown, and may have succeeded the first
            // time.
            if record.exists(conn)? {
                return Ok(());
            }
            store::assets::insert(conn, &image)?;
            store::personas::insert(conn, &row)?;
            record.insert(conn)
        })
    };
    if persona.upstream.is_some() {
        retry::store(write).await?;
    } else {
        let inserted = write().await;
        accepting.record_result(&inserted);
        inserted?;
    }
    crash::point("persona-made");
    tracing::info!(persona_id = %persona.id, "persona created");
    Ok(persona)
}

async fn usable_clip(
    app: &Ctx,
    account: AccountId,
    id: ClipId,
    param: &str,
) -> Result<Clip, Error> {
    let clip = music::clip_param(app, account, id, param).await?;
    match clip.state {
        _ if clip.is_trashed => Err(Error::at_field(
            ErrorCode::ClipNotReady,
            param,
            "The clip is in the trash.",
        )),
        ClipState::Complete => Ok(clip),
        ClipState::Queued | ClipState::Running | ClipState::Failed => Err(Error::at_field(
            ErrorCode::ClipNotReady,
            param,
            "The clip is not complete.",
        )),
    }
}

/// The account's persona with this id, and its clips.
pub async fn get(
    app: &Ctx,
    account: AccountId,
    id: PersonaId,
) -> Result<(Persona, Vec<Clip>), Error> {
    let found = app
        .store
        .read(move |conn| store::personas::by_id(conn, id, account))
        .await?;
    let persona = found.ok_or_else(not_found)?;
    let clips = music::clips(app, account, persona.clips.clone()).await?;
    Ok((persona, clips))
}

/// The error for an id that is malformed or not the account's.
pub fn not_found() -> Error {
    Error::plain(
        ErrorCode::PersonaNotFound,
        "There is no persona with this id.",
    )
}

/// A page of the account's personas with their clips, and whether more follow.
pub async fn list(
    app: &Ctx,
    account: AccountId,
    page: PageQuery<PersonaId>,
) -> Result<(Vec<(Persona, Vec<Clip>)>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| store::personas::page(conn, account, one_more));
    let mut personas = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut personas, limit);
    let mut with_clips = Vec::with_capacity(personas.len());
    for persona in personas {
        let clips = music::clips(app, account, persona.clips.clone()).await?;
        with_clips.push((persona, clips));
    }
    Ok((with_clips, has_more))
}

/// Deletes a persona; returns the deleted persona, with its clips.
pub async fn delete(
    app: &Ctx,
    account: AccountId,
    id: PersonaId,
) -> Result<(Persona, Vec<Clip>), Error> {
    let deleted = get(app, account, id).await?;
    let (image, now) = (deleted.0.image, app.clock.now());
    let delete = move |conn: &mut Conn<'_>| -> Result<bool, Error> {
        store::assets::expire(conn, image, account, now)?;
        Ok(store::personas::trash(conn, id, account)?)
    };
    let was_deleted = store::await_within_limit(app.store.write(delete)).await?;
    if was_deleted {
        Ok(deleted)
    } else {
        Err(not_found())
    }
}

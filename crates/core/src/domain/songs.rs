//! Music tasks for hosted providers: making, extending and covering songs.

use providers::ModelLimits;
use serde_json::{Map, Value};

use crate::app::App;
use crate::domain::moderation;
use crate::domain::music;
use crate::domain::order_terms::OrderTerms;
use crate::domain::task_acceptance::{self, NewTask, OrderPurpose, TaskDraft};
use crate::domain::webhooks::callbacks::CallbackUrl;
use crate::pricing::{OrderedWork, QuotedQuantity};
use mediagate_model::account::Caller;
use mediagate_model::attribution::Attribution;
use mediagate_model::catalog::Model;
use mediagate_model::error::{Error, ErrorCode, FieldError};
use mediagate_model::ids::{AccountId, ClipId, PersonaId};
use mediagate_model::music::{Clip, ClipOrigin, ClipState};
use mediagate_model::task::{MediaKind, SongJob, Task, TaskPayload, TaskRequest};
use mediagate_store as store;

mod route_limits;

pub use route_limits::{fits, needs_own_clips, terms_by_route};

/// A task as ordered.
#[derive(Debug, Clone)]
pub struct SongOrder {
    /// `mv`; if `None`, the default model or the first that does the task.
    pub model: Option<String>,
    pub task: String,
    /// Title of the result.
    pub title: String,
    /// Stored only.
    pub generation_type: String,
    /// Stored only.
    pub make_instrumental: bool,
    /// The length in seconds.
    pub seconds: Option<f64>,
    /// The fields for the provider as sent; `seconds` is among them.
    pub fields: Map<String, Value>,
    /// Faults of the unknown fields that say what is made. They count where no route passes all
    /// fields to its provider.
    pub unknown_fields: Vec<FieldError>,
    /// The fields that name clips.
    pub clips: Vec<(String, ClipId)>,
    /// The persona, if one is named.
    pub persona: Option<PersonaId>,
    /// URL that is called when the task ends.
    pub callback: Option<CallbackUrl>,
    pub terms: OrderTerms,
    /// The caller's id of its end user.
    pub user: Option<String>,
}

/// An order that can be accepted: one queued task with its clips.
pub async fn draft(
    app: &App,
    caller: &Caller,
    request: &TaskRequest,
    order: SongOrder,
) -> Result<TaskDraft, Error> {
    let terms = order.terms.clone();
    let inputs = moderation::inputs_for_checks(app, || moderation::of_song(&order));
    let (new, job) = prepare(app, caller, order, OrderPurpose::Order).await?;
    let task = task_acceptance::task(app, caller, request, new);
    let clips = job.outputs.iter().map(|id| clip(&task, *id, &job.title));
    Ok(TaskDraft {
        terms,
        clips: clips.collect(),
        tasks: vec![task],
        inputs,
        ..TaskDraft::default()
    })
}

/// The task for an order.
pub async fn prepare(
    app: &App,
    caller: &Caller,
    order: SongOrder,
    purpose: OrderPurpose,
) -> Result<(NewTask, SongJob), Error> {
    let (model, asked_model) = choose(app, caller, &order)?;
    route_limits::check_fields(&model, &order)?;
    if purpose == OrderPurpose::Order {
        task_acceptance::check_available(app, &model)?;
    }
    let account = caller.account.id;
    for (param, id) in &order.clips {
        let clip = music::clip_param(app, account, *id, param).await?;
        if clip.is_trashed || clip.state != ClipState::Complete || clip.media_removed {
            let message = "The clip is not complete, is in the trash, or has expired.";
            return Err(Error::at_field(ErrorCode::ClipNotReady, param, message));
        }
        route_limits::check_source(&model, &order, param, &clip)?;
    }
    if let Some(persona) = order.persona {
        check_persona(app, account, &model, persona).await?;
    }
    let clips = route_limits::clips_of(&model, &order);
    let longest_clip_ms = route_limits::longest_clip_ms(&model, &order);
    let callback = order.callback;
    let callback = callback
        .map(|callback| callback.check(app, caller.account.id))
        .transpose()?;
    let job = SongJob {
        task: order.task,
        fields: order.fields,
        has_unknown_fields: !order.unknown_fields.is_empty(),
        clips: order.clips,
        persona: order.persona,
        outputs: (0..clips).map(|_| ClipId::new()).collect(),
        generation_type: order.generation_type,
        make_instrumental: order.make_instrumental,
        title: order.title,
    };
    let new = NewTask {
        model,
        asked_model,
        payload: TaskPayload::SongV1(job.clone()),
        quantity: QuotedQuantity::of(OrderedWork::Song {
            clips,
            longest_clip_ms,
        }),
        attribution: Attribution {
            user: order.user,
            metadata: order.terms.metadata,
        },
        callback,
    };
    Ok((new, job))
}

/// Refuses a persona that no route can use. After the acceptance the task would only fail later.
async fn check_persona(
    app: &App,
    account: AccountId,
    model: &Model,
    id: PersonaId,
) -> Result<(), Error> {
    let refuse = |code, message: String| Err(Error::at_field(code, "persona_id", message));
    let persona = app
        .store
        .read(move |conn| store::personas::by_id(conn, id, account))
        .await?;
    let Some(persona) = persona else {
        let message = "There is no persona with this id.";
        return refuse(ErrorCode::PersonaNotFound, message.into());
    };
    let Some(upstream) = persona.upstream else {
        let message = "No provider made this persona: its root clip is an upload, or was not made by \
                       a provider with personas. It cannot sing.";
        return refuse(ErrorCode::UnsupportedValue, message.into());
    };
    let mut routes = model.routes().iter();
    if routes.any(|route| route.provider == upstream.provider) {
        return Ok(());
    }
    let message = format!("The persona cannot be used with {}.", model.id);
    refuse(ErrorCode::UnsupportedValue, message)
}

/// A clip that a task will fill.
pub fn clip(task: &Task, id: ClipId, title: &str) -> Clip {
    Clip {
        id,
        account: task.account,
        past_payload: None,
        origin: ClipOrigin::Song { task: task.id },
        title: title.to_owned(),
        model: task.model.clone(),
        asked_model: task.asked_model.clone(),
        state: ClipState::Queued,
        media: None,
        media_removed: false,
        is_trashed: false,
        failure: None,
        upstream: None,
        provenance: None,
        notes: None,
        created_at: task.created_at,
    }
}

/// The model that does this task, by the requested name if there is one, and that name.
fn choose(app: &App, caller: &Caller, order: &SongOrder) -> Result<(Model, String), Error> {
    let catalog = app.models.catalog.load_full();
    let does_task = |model: &&Model| tasks_of(model).any(|task| task == order.task);
    // The default model may be one that only separates. Then the first that does the task is used.
    let default_name = catalog.default_name(MediaKind::Music);
    let default_model = catalog
        .by_name(default_name)
        .filter(|model| order.model.is_none() && caller.key.may_use(&model.id));
    if let Some(model) = default_model.filter(does_task) {
        return Ok((model.clone(), default_name.to_owned()));
    }
    let usable = || {
        catalog
            .models()
            .iter()
            .filter(|model| caller.key.may_use(&model.id))
    };
    let has_name = |model: &&Model| match &order.model {
        Some(name) => model.answers_to(name),
        None => true,
    };
    if let Some(model) = usable().filter(does_task).find(has_name) {
        let requested_model = order.model.clone().unwrap_or_else(|| model.id.clone());
        return Ok((model.clone(), requested_model));
    }
    if let Some(name) = &order.model {
        // An unknown model is the better error than an unsupported task, so it is reported first.
        catalog.choose(&caller.key, MediaKind::Music, name, "mv")?;
    }
    let mut tasks: Vec<&str> = usable().flat_map(tasks_of).collect();
    tasks.push("gen_stem");
    tasks.sort_unstable();
    tasks.dedup();
    let mut message = format!("The supported tasks are: {}.", tasks.join(", "));
    if ["generate", "extend"].contains(&order.task.as_str()) {
        message = format!("No configured model can create this song. {PROVIDERS_HINT} {message}");
    }
    Err(Error::at_field(
        ErrorCode::UnsupportedValue,
        "task",
        message,
    ))
}

/// A hint at what an operator can do about it.
const PROVIDERS_HINT: &str = "Songs require a model with kind = \"music\" at a provider that supports them, \
     such as suno-family, elevenlabs with music_v1, minimax with music-2.0, gemini-veo with lyria-3.5, \
     recipe:mureka.";

fn tasks_of(model: &Model) -> impl Iterator<Item = &str> {
    let tasks = match &model.limits {
        ModelLimits::Music(music) => music.tasks.as_slice(),
        ModelLimits::Video(_) => &[],
    };
    tasks.iter().map(String::as_str)
}

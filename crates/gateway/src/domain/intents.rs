//! One intent, one task: leads a request that comes again to what its first
//! coming made.
//!
//! Three ways lead there: the same `Idempotency-Key`; the retry mark of the
//! official SDKs; and the same body, when the earlier answer never arrived. A
//! task that failed in a way that a retry can mend is never led to. The rules
//! are told in `docs/money.md`.
//!
//! An intent is written down with what it made, in one transaction. With a key
//! it is written before anything is done for it, so that two requests with one
//! key cannot both begin.

use std::sync::Arc;
use std::time::Duration;

use crate::app::{App, Parts};
use crate::attendance::{Accepting, Close, Presence, Standing};
use crate::domain::{music, personas};
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, IntentId};
use crate::model::account::Caller;
use crate::model::intent::{Intent, IntentState, Made, StoredAnswer};
use crate::model::music::{Clip, Persona};
use crate::model::task::{Task, TaskFailure, TaskState};
use crate::store::intents::{Body, Left};
use crate::store::{self, Conn};
use crate::telemetry;

/// How long intents are known.
pub const KNOWN: Duration = Duration::from_hours(24);
/// How long the retry mark of an SDK leads to its first try.
const RETRIES: Duration = Duration::from_hours(1);
/// How long the answer `submission_unconfirmed` is given again.
const UNCONFIRMED: Duration = Duration::from_mins(10);
/// A caller that was here for this long may have just left: a moment is given
/// to the connection to tell.
const SETTLED_IN: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_millis(50);
/// How often another process's callers are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a request wants, as far as it takes to know it again.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Names endpoint and body.
    pub fingerprint: String,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// Whether the caller's SDK says that it asked before.
    pub is_retry: bool,
}

/// How a request that wants something made begins.
pub enum Begun {
    /// Nobody asked for this before.
    New(Visit),
    /// It was made before, or is being made; the answer is told anew.
    Known(Visit, Box<Found>),
    /// It was answered before.
    Answered(StoredAnswer),
}

/// What an intent led to, as it is now.
pub enum Found {
    /// Tasks.
    Tasks(Vec<Task>),
    /// A clip.
    Clip(Box<Clip>),
    /// A persona with its clips.
    Persona(Box<Persona>, Vec<Clip>),
}

impl Found {
    /// The tasks; an intent of an endpoint that makes tasks led to nothing else.
    pub fn into_tasks(self) -> Result<Vec<Task>, Error> {
        match self {
            Self::Tasks(tasks) if !tasks.is_empty() => Ok(tasks),
            _ => Err(Error::internal("an order without a task")),
        }
    }
}

/// A request's visit to its intent. It ends when this and its [`Presence`] are
/// dropped.
pub struct Visit {
    presence: Arc<Presence>,
    intent: Intent,
    /// Whether the intent is in the database already.
    reserved: bool,
}

/// What a [`Visit`] writes down when something was made for it.
#[derive(Clone)]
pub struct Record {
    intent: Intent,
    number: u32,
    reserved: bool,
}

impl Visit {
    /// Whether the answer is kept for the next request with the same key.
    pub const fn keeps_answer(&self) -> bool {
        self.intent.idempotency_key.is_some()
    }

    /// What is written down when something is made.
    pub fn record(&self) -> Record {
        Record {
            intent: self.intent.clone(),
            number: self.presence.number(),
            reserved: self.reserved,
        }
    }

    /// Nobody may conclude that nothing was made until the guard is dropped.
    pub fn accepting(&self) -> Accepting {
        self.presence.accepting()
    }

    /// Runs `work` and writes down that it made this, in one transaction; that
    /// goes on even when the caller leaves.
    pub async fn make(
        &self,
        app: &App,
        made: Made,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (app, record, accepting) = (app.clone(), self.record(), self.accepting());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let written = tokio::spawn(async move {
            let write = app.store.write(move |conn| -> Result<(), Error> {
                work(conn)?;
                record.made(conn, made)
            });
            let written = write.await;
            drop(accepting);
            written
        });
        written.await.map_err(Error::internal)?
    }

    /// Lives as long as the caller waits.
    pub fn presence(&self) -> Arc<Presence> {
        self.presence.clone()
    }

    /// The intent.
    pub fn id(&self) -> IntentId {
        self.presence.id()
    }
}

impl Record {
    /// Writes down what was made, in the transaction that makes it. Fails when
    /// a later request took the intent over.
    pub fn made(&self, conn: &mut Conn<'_>, made: Made) -> Result<(), Error> {
        if self.reserved {
            if store::intents::made(conn, self.intent.id, self.number, &made)? {
                return Ok(());
            }
            return Err(overtaken());
        }
        let intent = Intent {
            state: IntentState::Made,
            made: Some(made),
            ..self.intent.clone()
        };
        Ok(store::intents::insert(conn, &intent)?)
    }

    /// Makes it durable that something that is no task is about to be sent to a
    /// provider; `false` takes that back, when provably nothing was.
    pub async fn sent(&self, app: &Parts, is_sent: bool) -> Result<(), Error> {
        let (id, number) = (self.intent.id, self.number);
        let at = is_sent.then(|| app.clock.now());
        let noted = app
            .store
            .write(move |conn| store::intents::sent(conn, id, number, at).map_err(Error::from));
        if noted.await? {
            Ok(())
        } else {
            Err(overtaken())
        }
    }
}

fn overtaken() -> Error {
    let message = "Another request with the same intent took over.";
    Error::later(ErrorCode::Overloaded, message, 1)
}

/// Leads a request to what its first coming made, or begins it. `reserve` says
/// that the intent must be on disk before anything is done for it.
pub async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    reserve: bool,
) -> Result<Begun, Error> {
    app.attendance
        .settled(caller.key.id, &wanted.fingerprint)
        .await;
    match &wanted.idempotency_key {
        Some(key) => by_key(app, caller, wanted, key).await,
        None => by_body(app, caller, wanted, reserve).await,
    }
}

fn draft(app: &App, caller: &Caller, wanted: &Wanted) -> Intent {
    Intent {
        id: IntentId::new(),
        account: caller.account.id,
        key: caller.key.id,
        idempotency_key: wanted.idempotency_key.clone(),
        fingerprint: wanted.fingerprint.clone(),
        state: IntentState::Working,
        made: None,
        answer: None,
        holder: Some(app.attendance.name().to_owned()),
        visits: 1,
        joinable_until: None,
        sent_at: None,
        created_at: app.clock.now(),
    }
}

/// A visit to an intent, as its number `number`.
fn attend(app: &App, intent: Intent, number: u32, reserved: bool) -> Visit {
    let body = (intent.key, intent.fingerprint.clone());
    Visit {
        presence: app.attendance.enter(intent.id, number, body, reserved),
        intent,
        reserved,
    }
}

async fn by_key(app: &App, caller: &Caller, wanted: &Wanted, key: &str) -> Result<Begun, Error> {
    loop {
        let new = draft(app, caller, wanted);
        let (account, name, row) = (caller.account.id, key.to_owned(), new.clone());
        let since = app.clock.now().minus(KNOWN);
        let found = app
            .store
            .write(move |conn| -> Result<Option<Intent>, Error> {
                let known = store::intents::by_idempotency_key(conn, account, &name)?;
                if let Some(old) = known.as_ref().filter(|old| old.created_at <= since) {
                    store::intents::free_key(conn, old.id)?;
                } else if known.is_some() {
                    return Ok(known);
                }
                if store::intents::claim_key(conn, &row)? {
                    return Ok(None);
                }
                Ok(store::intents::by_idempotency_key(conn, account, &name)?)
            })
            .await?;
        let Some(intent) = found else {
            return Ok(Begun::New(attend(app, new, 1, true)));
        };
        if intent.fingerprint != wanted.fingerprint {
            let message =
                "The Idempotency-Key was used with another request within the last 24 hours.";
            return Err(Error::plain(ErrorCode::IdempotencyConflict, message));
        }
        if let Some(begun) = revisit(app, caller.account.id, intent).await? {
            return Ok(begun);
        }
    }
}

/// Comes to an intent that is known by its key; `None` when it has to be looked
/// at again.
async fn revisit(app: &App, account: AccountId, intent: Intent) -> Result<Option<Begun>, Error> {
    if let Some(answer) = &intent.answer {
        let answer = serde_json::from_str(answer).map_err(Error::internal)?;
        telemetry::request_joined("key");
        return Ok(Some(Begun::Answered(answer)));
    }
    match &intent.made {
        Some(made) => {
            let found = load(app, account, made).await?;
            if !found.as_ref().is_some_and(can_be_joined) {
                let id = intent.id;
                app.store
                    .write(move |conn| store::intents::free_key(conn, id).map_err(Error::from))
                    .await?;
                return Ok(None);
            }
            let Some(found) = found else { return Ok(None) };
            let visit = come(app, intent).await?;
            if visit.is_some() {
                telemetry::request_joined("key");
            }
            Ok(visit.map(|visit| Begun::Known(visit, Box::new(found))))
        }
        None => match seen(app, &intent).await? {
            Seen::Here => {
                app.attendance.change_within(LOOK).await;
                Ok(None)
            }
            Seen::Lost | Seen::Closed if intent.sent_at.is_some() => Err(unconfirmed()),
            Seen::Lost | Seen::Closed => Ok(come(app, intent).await?.map(Begun::New)),
        },
    }
}

fn unconfirmed() -> Error {
    let message = "Whether the provider took the first request cannot be found out, so it was not sent again. Nothing was charged.";
    Error::plain(ErrorCode::SubmissionUnconfirmed, message)
}

/// Becomes the next visit of an intent; `None` when another request was first.
async fn come(app: &App, intent: Intent) -> Result<Option<Visit>, Error> {
    let (id, visits) = (intent.id, intent.visits);
    let holder = app.attendance.name().to_owned();
    let came = app
        .store
        .write(move |conn| store::intents::visit(conn, id, visits, &holder).map_err(Error::from))
        .await?;
    Ok(came.then(|| attend(app, intent, visits + 1, true)))
}

async fn by_body(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    reserve: bool,
) -> Result<Begun, Error> {
    let mut known = Vec::new();
    for intent in candidates(app, caller, wanted).await? {
        let seen = seen(app, &intent).await?;
        let age = app.clock.now().since(intent.created_at);
        let rank = match seen {
            Seen::Lost => 0,
            Seen::Here if wanted.is_retry && age <= RETRIES => 1,
            Seen::Closed if wanted.is_retry && age <= RETRIES => 2,
            Seen::Here | Seen::Closed => continue,
        };
        known.push((rank, intent));
    }
    known.sort_by_key(|(rank, intent)| (*rank, intent.visits, intent.id));
    for (_, intent) in known {
        if let Some(begun) = join(app, caller, intent).await? {
            let way = if wanted.is_retry { "retry" } else { "body" };
            telemetry::request_joined(way);
            return Ok(begun);
        }
    }
    let new = draft(app, caller, wanted);
    if reserve {
        let row = new.clone();
        app.store
            .write(move |conn| store::intents::insert(conn, &row).map_err(Error::from))
            .await?;
    }
    Ok(Begun::New(attend(app, new, 1, reserve)))
}

/// Joins an intent that was found by its body, if that is still possible.
async fn join(app: &App, caller: &Caller, mut intent: Intent) -> Result<Option<Begun>, Error> {
    while intent.made.is_none() {
        if intent.sent_at.is_none() {
            return Ok(None);
        }
        match seen(app, &intent).await? {
            Seen::Here => app.attendance.change_within(LOOK).await,
            Seen::Lost | Seen::Closed => {
                let age = app.clock.now().since(intent.created_at);
                return if age < UNCONFIRMED {
                    Err(unconfirmed())
                } else {
                    Ok(None)
                };
            }
        }
        let id = intent.id;
        let read = app
            .store
            .read(move |conn| store::intents::by_id(conn, id).map_err(Error::from));
        match read.await? {
            Some(read) => intent = read,
            None => return Ok(None),
        }
    }
    let Some(made) = &intent.made else {
        return Ok(None);
    };
    let found = load(app, caller.account.id, made).await?;
    match found.filter(can_be_joined) {
        Some(found) => {
            let visit = come(app, intent).await?;
            Ok(visit.map(|visit| Begun::Known(visit, Box::new(found))))
        }
        None => Ok(None),
    }
}

/// The intents that a request with this body may mean.
async fn candidates(app: &App, caller: &Caller, wanted: &Wanted) -> Result<Vec<Intent>, Error> {
    let key = caller.key.id;
    let now = app.clock.now();
    let mut here = Vec::new();
    let mut settling = false;
    for (id, standing) in app.attendance.with_body(key, &wanted.fingerprint) {
        match standing {
            Standing::Left(until) if until.is_none_or(|until| until > now) => here.push(id),
            Standing::Here(time) if time > SETTLED_IN => settling = true,
            Standing::Here(_) | Standing::Left(_) => {}
        }
    }
    if here.is_empty() && settling {
        app.attendance.change_within(MOMENT).await;
        let known = app.attendance.with_body(key, &wanted.fingerprint);
        let left = known
            .into_iter()
            .filter_map(|(id, standing)| match standing {
                Standing::Left(until) if until.is_none_or(|until| until > now) => Some(id),
                Standing::Left(_) | Standing::Here(_) => None,
            });
        here.extend(left);
        app.attendance.settled(key, &wanted.fingerprint).await;
    }
    let body = Body {
        key,
        fingerprint: wanted.fingerprint.clone(),
        since: now.minus(KNOWN),
    };
    let (holder, is_retry) = (app.attendance.name().to_owned(), wanted.is_retry);
    app.store
        .read(move |conn| -> Result<Vec<Intent>, Error> {
            let mut found = if is_retry {
                store::intents::all_with(conn, &body)?
            } else {
                store::intents::open_elsewhere(conn, &body, &holder, now)?
            };
            for id in here {
                if found.iter().all(|intent| intent.id != id) {
                    found.extend(store::intents::by_id(conn, id)?);
                }
            }
            Ok(found)
        })
        .await
}

/// Whether the caller of an intent's latest request got its answer.
enum Seen {
    /// It waits for it.
    Here,
    /// It left without, or with one that is given again.
    Lost,
    /// It got it.
    Closed,
}

async fn seen(app: &App, intent: &Intent) -> Result<Seen, Error> {
    let mut intent = intent.clone();
    let mut held = None;
    loop {
        let now = app.clock.now();
        let open = |until: Option<crate::clock::Timestamp>| {
            if until.is_none_or(|until| until > now) {
                Seen::Lost
            } else {
                Seen::Closed
            }
        };
        match app.attendance.standing(intent.id) {
            Some(Standing::Here(_)) => return Ok(Seen::Here),
            Some(Standing::Left(until)) => return Ok(open(until)),
            None => {}
        }
        let other = intent.holder.clone();
        let Some(other) = other.filter(|name| name != app.attendance.name()) else {
            return Ok(open(intent.joinable_until));
        };
        // Another process's caller is here as long as that process lives, which
        // its next heartbeat proves.
        let id = intent.id;
        let (until, read) = app
            .store
            .read(move |conn| -> Result<_, Error> {
                Ok((
                    store::workers::held_until(conn, &other)?,
                    store::intents::by_id(conn, id)?,
                ))
            })
            .await?;
        match (until, held) {
            (None, _) => return Ok(open(intent.joinable_until)),
            (Some(until), _) if until <= now => return Ok(open(intent.joinable_until)),
            (Some(until), Some(first)) if until != first => return Ok(Seen::Here),
            (Some(until), _) => held = Some(until),
        }
        match read {
            Some(read) => intent = read,
            None => return Ok(Seen::Closed),
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn load(app: &App, account: AccountId, made: &Made) -> Result<Option<Found>, Error> {
    Ok(match made {
        Made::Tasks(ids) => {
            let ids = ids.clone();
            let tasks = app
                .store
                .read(move |conn| -> Result<_, Error> {
                    let tasks = ids.iter().map(|id| store::tasks::by_id(conn, *id, account));
                    Ok(tasks.collect::<Result<Vec<_>, _>>()?)
                })
                .await?;
            let tasks: Option<Vec<Task>> = tasks.into_iter().collect();
            tasks.map(Found::Tasks)
        }
        Made::Clip(id) => {
            let clips = music::clips(app, account, vec![*id]).await?;
            clips.into_iter().next().map(Box::new).map(Found::Clip)
        }
        Made::Persona(id) => match personas::get(app, account, *id).await {
            Ok((persona, clips)) => Some(Found::Persona(Box::new(persona), clips)),
            Err(error) if error.code() == ErrorCode::PersonaNotFound => None,
            Err(error) => return Err(error),
        },
    })
}

/// A retry of what failed in a way that a retry can mend makes something new;
/// otherwise it could never succeed.
fn can_be_joined(found: &Found) -> bool {
    match found {
        Found::Tasks(tasks) => failure(tasks).is_none_or(|failure| !failure.code.retryable()),
        Found::Clip(_) | Found::Persona(..) => true,
    }
}

/// Why tasks that were ordered together made nothing at all; `None` while one
/// is open or when one succeeded.
pub fn failure(tasks: &[Task]) -> Option<&TaskFailure> {
    let open_or_made =
        |task: &Task| !task.state.is_terminal() || task.state == TaskState::Succeeded;
    if tasks.iter().any(open_or_made) {
        return None;
    }
    tasks.iter().find_map(|task| task.failure.as_ref())
}

/// When an answer about these tasks, written to the end, closes their intent;
/// `None` when it is not the last word.
pub fn close(tasks: &[Task]) -> Close {
    let unconfirmed = tasks.iter().find(|task| {
        let failure = task.failure.as_ref();
        failure.is_some_and(|failure| failure.code == ErrorCode::SubmissionUnconfirmed)
    });
    match unconfirmed.and_then(|task| task.finished_at) {
        Some(at) => Close::At(at.plus(UNCONFIRMED)),
        None => Close::Now,
    }
}

/// Keeps an answer for the next request with the same key; returns the one that
/// was kept first.
pub async fn keep_answer(
    app: &App,
    id: IntentId,
    answer: StoredAnswer,
) -> Result<StoredAnswer, Error> {
    let text = serde_json::to_string(&answer).map_err(Error::internal)?;
    let kept = app
        .store
        .write(move |conn| -> Result<Option<Intent>, Error> {
            store::intents::answer(conn, id, &text)?;
            Ok(store::intents::by_id(conn, id)?)
        })
        .await?;
    match kept.and_then(|intent| intent.answer) {
        Some(first) => serde_json::from_str(&first).map_err(Error::internal),
        None => Ok(answer),
    }
}

/// Tells the database of callers that left, as they leave; runs as long as the
/// process serves.
pub async fn note_leavers(app: &App) -> Result<(), Error> {
    let leavers = app.attendance.leavers();
    if leavers.is_empty() {
        return Ok(());
    }
    let noted = app
        .store
        .write(move |conn| -> Result<_, Error> {
            let mut noted = Vec::new();
            for (id, visit, until) in leavers {
                let left = store::intents::leave(conn, id, visit, until)?;
                noted.push((id, visit, left));
            }
            Ok(noted)
        })
        .await?;
    let (missing, noted): (Vec<_>, Vec<_>) = noted
        .into_iter()
        .partition(|(_, _, left)| *left == Left::Missing);
    let plain = |visits: Vec<(IntentId, u32, Left)>| -> Vec<_> {
        visits
            .into_iter()
            .map(|(id, visit, _)| (id, visit))
            .collect()
    };
    app.attendance.noted(&plain(noted));
    app.attendance.missing(&plain(missing));
    Ok(())
}

/// Forgets intents whose time is over.
pub async fn forget_old(app: &App) -> Result<(), Error> {
    const MOST: u32 = 1000;
    loop {
        let before = app.clock.now().minus(KNOWN);
        let forgotten = app.store.write(move |conn| {
            store::intents::forget_before(conn, before, MOST).map_err(Error::from)
        });
        if forgotten.await? < u64::from(MOST) {
            return Ok(());
        }
    }
}

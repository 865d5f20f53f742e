//! One intent, one task: a repeated request gets the first one's result.
//!
//! A request is known to be repeated by its `Idempotency-Key`, by the retry mark of
//! the official SDKs, or by its body when the earlier answer never arrived. What
//! failed in a way that a retry can mend is made anew. `docs/money.md` tells
//! operators the rules, `docs/decisions/0005-one-intent-one-task.md` has them as a
//! table, with the reasons.
//!
//! An intent is written down with what it made, in one transaction. Two requests
//! with one key cannot both make something: in this process the second waits for
//! the first, and of two processes the database refuses one, which then finds
//! what the other made. Where more than the database changes before that, as at a
//! provider, the intent is written down before anything is done for it. Requests
//! with one body that reach two processes are told apart by a second look (`ahead`).

mod ahead;
mod find;
mod refused;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::app::{App, Parts};
use crate::attendance::{Accepting, Close, Line, Presence};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorCode};
use crate::ids::IntentId;
use crate::model::intent::{Intent, IntentState, Made, StoredAnswer};
use crate::model::music::{Clip, Persona};
use crate::model::task::{Task, TaskFailure, TaskState};
use crate::store::intents::Left;
use crate::store::{self, Conn};

pub use ahead::Ahead;
pub use find::begin;
pub use refused::{came_to_nothing, failed};

/// How long intents are known.
pub const KNOWN: Duration = Duration::from_hours(24);
/// How long the answer `submission_unconfirmed` is given again.
const UNCONFIRMED: Duration = Duration::from_mins(10);
/// What a request wants, as far as it takes to know it again.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Names endpoint and body.
    pub fingerprint: String,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// How often the caller's SDK says that it asked before.
    pub tries: u32,
    /// Whether the try before is known to have made nothing.
    pub is_new: Arc<AtomicBool>,
    /// Where the caller waits.
    pub line: Line,
}

impl Wanted {
    /// Whether the caller's SDK says that it asked before.
    pub const fn is_retry(&self) -> bool {
        self.tries > 0
    }
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
    ahead: Ahead,
}

/// What a [`Visit`] writes down when something was made for it.
#[derive(Clone)]
pub struct Record {
    intent: Intent,
    number: u32,
    reserved: bool,
    ahead: Ahead,
}

impl Visit {
    fn new(presence: Arc<Presence>, intent: Intent, reserved: bool, ahead: Ahead) -> Self {
        Self {
            presence,
            intent,
            reserved,
            ahead,
        }
    }

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
            ahead: self.ahead.clone(),
        }
    }

    /// Whether nothing was made because another process was first with the same
    /// key or body: what that one makes can be found now.
    pub fn is_too_late(&self) -> bool {
        self.ahead.is_too_late()
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
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let (app, record, accepting) = (app.clone(), self.record(), self.accepting());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let written = tokio::spawn(async move {
            let (account, ahead) = (record.intent.account, record.ahead());
            let write = ahead.write(&app, account, move |conn| {
                work(conn)?;
                record.made(conn, made, None)
            });
            let written = write.await;
            accepting.done(&written);
            written
        });
        store::soon(async { written.await.map_err(Error::internal)? }).await
    }

    /// Whether nothing was made, for certain.
    pub fn made_nothing(&self) -> bool {
        self.presence.made_nothing()
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
    /// Writes down what was made, in the transaction that makes it, and the
    /// answer to it where that is known already and to be kept. Fails when
    /// another request was first.
    pub fn made(
        &self,
        conn: &mut Conn<'_>,
        made: Made,
        answer: Option<&StoredAnswer>,
    ) -> Result<(), Error> {
        let id = self.intent.id;
        let answer = answer.map(serde_json::to_string).transpose();
        let answer = answer.map_err(Error::internal)?;
        if self.reserved {
            if !store::intents::made(conn, id, self.number, &made)? {
                return Err(overtaken());
            }
            if let Some(answer) = answer {
                store::intents::answer(conn, id, &answer)?;
            }
            return Ok(());
        }
        let intent = Intent {
            state: IntentState::Made,
            made: Some(made),
            answer,
            ..self.intent.clone()
        };
        self.insert(conn, &intent)
    }

    /// Whether this was made for it: its write came through, although nobody was told.
    pub fn has_made(&self, conn: &mut Conn<'_>, made: &Made) -> Result<bool, Error> {
        let known = store::intents::by_id(conn, self.intent.id)?;
        Ok(known.is_some_and(|intent| intent.made.as_ref() == Some(made)))
    }

    /// Writes the intent down, unless another request was first.
    fn insert(&self, conn: &mut Conn<'_>, intent: &Intent) -> Result<(), Error> {
        if !self.ahead.look(conn, intent)? {
            return Err(overtaken());
        }
        if store::intents::insert(conn, intent)? {
            return Ok(());
        }
        self.ahead.with_the_key();
        Err(overtaken())
    }

    /// Who was first with the same body, if anybody was.
    pub fn ahead(&self) -> Ahead {
        self.ahead.clone()
    }

    /// Makes it durable that something that is no task is about to be sent to a
    /// provider; `false` takes that back, when provably nothing was.
    pub async fn sent(&self, app: &Parts, is_sent: bool) -> Result<(), Error> {
        let (id, number) = (self.intent.id, self.number);
        let at = is_sent.then(|| app.clock.now());
        let noted = app
            .store
            .write(move |conn| store::intents::sent(conn, id, number, at).map_err(Error::from));
        if store::soon(noted).await? {
            Ok(())
        } else {
            Err(overtaken())
        }
    }
}

/// What a request is told that another one with the same intent was ahead of.
pub fn overtaken() -> Error {
    let message = "Another request with the same intent took over.";
    Error::later(ErrorCode::Overloaded, message, 1)
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

/// When an answer about these tasks, written to the end, closes their intent.
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

/// A task ended as unconfirmed. The request that ordered it may have had its answer
/// long before, as the Videos API gives it at once: it leads there again.
pub fn unconfirmed_ended(conn: &mut Conn<'_>, task: &Task, now: Timestamp) -> Result<(), Error> {
    /// How long a request may take until its task is accepted.
    const ACCEPTING: Duration = Duration::from_mins(2);
    Ok(store::intents::lead_again(
        conn,
        task,
        ACCEPTING,
        now.plus(UNCONFIRMED),
    )?)
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
        });
    match store::soon(kept).await?.and_then(|intent| intent.answer) {
        Some(first) => serde_json::from_str(&first).map_err(Error::internal),
        None => Ok(answer),
    }
}

/// Tells the database of callers that left or were refused, as that happens; runs
/// as long as the process serves.
pub async fn note_leavers(app: &App) -> Result<(), Error> {
    refused::note(app).await?;
    let leavers = app.attendance.leavers();
    if leavers.is_empty() {
        return Ok(());
    }
    let noted = app
        .store
        .write(move |conn| -> Result<_, Error> {
            let mut noted = Vec::new();
            for gone in leavers {
                let (id, number, until) = (gone.id, gone.number, gone.joinable_until);
                let left = store::intents::leave(conn, id, number, gone.reserved, until)?;
                noted.push((id, number, left));
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
    refused::forget_old(app).await?;
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

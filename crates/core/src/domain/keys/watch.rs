//! Requests that last, such as streams and waits: whether their caller is still valid.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{check_hash, hash, require_scope, rotated_error};
use crate::app::App;
use crate::domain::sessions;
use mediagate_model::account::Scope;
use mediagate_model::error::Error;
use mediagate_model::secret::Secret;

/// How often the caller of an open request is checked. Together with the cache of callers, a
/// revocation by another process ends the request within two seconds. However many requests a key
/// has open, a process reads the key once a second.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a check waits for the database.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// How the caller of a request authenticated.
#[derive(Clone)]
pub struct CallerWatch {
    app: App,
    secret: SecretHash,
    address: IpAddr,
    /// What the key has to be allowed to do.
    scope: Option<Scope>,
}

#[derive(Clone)]
enum SecretHash {
    Key(String),
    Session(String),
}

impl CallerWatch {
    /// A request with this key.
    pub fn of_key(app: &App, secret: &str, address: IpAddr) -> Self {
        Self::new(app, SecretHash::Key(hash(secret)), address)
    }

    /// A request with this session's cookie.
    pub fn of_session(app: &App, cookie: &Secret, address: IpAddr) -> Self {
        Self::new(app, SecretHash::Session(sessions::hash(cookie)), address)
    }

    fn new(app: &App, secret: SecretHash, address: IpAddr) -> Self {
        Self {
            app: app.clone(),
            secret,
            address,
            scope: None,
        }
    }

    /// Like `self`, for a request that needs this scope.
    #[must_use]
    pub fn with_scope(self, scope: Option<Scope>) -> Self {
        Self { scope, ..self }
    }

    /// Refuses a caller who may no longer make this request: with the answer that the next request
    /// would get. While the database does not answer, nobody can revoke a key, so the caller keeps
    /// what it has.
    pub async fn confirm(&self) -> Result<(), Error> {
        match tokio::time::timeout(CHECK_TIMEOUT, self.check()).await {
            Ok(Err(error)) if matches!(error.status(), 401 | 403) => Err(error),
            _ => Ok(()),
        }
    }

    async fn check(&self) -> Result<(), Error> {
        let caller = match &self.secret {
            // A key that existed when the request began was rotated twice since.
            SecretHash::Key(sha256) => check_hash(&self.app, sha256.clone(), self.address)
                .await?
                .ok_or_else(rotated_error)?,
            SecretHash::Session(sha256) => {
                sessions::check_hash(&self.app, sha256.clone(), self.address).await?
            }
        };
        self.scope
            .map_or(Ok(()), |scope| require_scope(&caller, scope))
    }

    /// The result of `work`, unless the caller loses its right to it first.
    pub async fn hold<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut work = pin!(work);
        let mut checks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                result = &mut work => {
                    // The revocation may be what ended the work.
                    self.confirm().await?;
                    return result;
                }
                _ = checks.tick() => self.confirm().await?,
            }
        }
    }
}

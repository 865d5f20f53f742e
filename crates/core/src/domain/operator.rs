//! Changes that an operator makes, by request or by command: each is written with its entry in the
//! audit log and, of a request, with what a repeated one is told, in one transaction.

use std::sync::Arc;

use crate::app::App;
use crate::domain::audit::By;
use crate::domain::idempotency::Visit;
use mediagate_model::error::Error;
use mediagate_model::intent::StoredAnswer;
use mediagate_store::Conn;

/// What is told to a request that repeats the one that made `T`.
pub type Tell<T> = Arc<dyn Fn(&T) -> Result<StoredAnswer, Error> + Send + Sync>;

/// A change that makes a `T`, before it is made.
pub struct Operation<'a, T> {
    by: By,
    visit: Option<(&'a Visit, Tell<T>)>,
}

impl<T> From<By> for Operation<'_, T> {
    fn from(by: By) -> Self {
        Self { by, visit: None }
    }
}

impl<'a, T: Send + 'static> Operation<'a, T> {
    /// That a request asks for.
    pub fn asked(by: By, visit: &'a Visit, tell: Tell<T>) -> Self {
        Self {
            by,
            visit: Some((visit, tell)),
        }
    }

    pub const fn by(&self) -> &By {
        &self.by
    }

    /// Runs `work`, which changes something and notes it in the audit log.
    pub async fn write(
        self,
        app: &App,
        work: impl FnOnce(&mut Conn<'_>, &By) -> Result<T, Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let by = self.by;
        let Some((visit, tell)) = self.visit else {
            return app.store.write(move |conn| work(conn, &by)).await;
        };
        visit
            .change(app, move |conn| {
                let made = work(conn, &by)?;
                let told = tell(&made)?;
                Ok((made, told))
            })
            .await
    }
}

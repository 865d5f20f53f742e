//! Callback URLs of requests, and those that earlier versions stored without encrypting them.

use crate::app::{App, AppParts};
use crate::callback_urls::encrypt;
use crate::domain::webhooks::check_url;
use mediagate_media::seal::SecretSeal;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;
use mediagate_store::Conn;
use mediagate_store::webhooks::plain_callbacks;

/// Rows that are encrypted in one write.
const BATCH: u32 = 200;

/// A callback URL in a request, and the field that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackUrl {
    pub url: String,
    pub param: &'static str,
}

impl CallbackUrl {
    /// The encrypted URL, if it may be called.
    pub fn check(self, app: &AppParts, account: AccountId) -> Result<String, Error> {
        check_url(app, &self.url, self.param)?;
        encrypt(&app.secrets.seal, account, &self.url).map_err(Error::internal)
    }
}

/// Encrypts what earlier versions wrote.
pub async fn encrypt_earlier(app: &App) -> Result<(), Error> {
    loop {
        let seal = app.secrets.seal.clone();
        let write = app.store.write(move |conn| -> Result<usize, Error> {
            Ok(encrypt_tasks(conn, &seal)? + encrypt_deliveries(conn, &seal)?)
        });
        if write.await? == 0 {
            return Ok(());
        }
    }
}

fn encrypt_tasks(conn: &mut Conn<'_>, seal: &SecretSeal) -> Result<usize, Error> {
    let rows = plain_callbacks::tasks(conn, BATCH)?;
    for row in &rows {
        let url = encrypt(seal, row.account, &row.url).map_err(Error::internal)?;
        plain_callbacks::set_of_task(conn, row.id, &url)?;
    }
    Ok(rows.len())
}

fn encrypt_deliveries(conn: &mut Conn<'_>, seal: &SecretSeal) -> Result<usize, Error> {
    let rows = plain_callbacks::deliveries(conn, BATCH)?;
    for row in &rows {
        let encrypt = |plain: &String| encrypt(seal, row.account, plain).map_err(Error::internal);
        let url = encrypt(&row.url)?;
        let body = row.body.as_ref().map(encrypt).transpose()?;
        plain_callbacks::set_of_delivery(conn, row.id, &url, body.as_deref())?;
        // The event's record of the task has the URL too. Another delivery may have been its turn.
        if row.event_body.contains(':') {
            plain_callbacks::set_event_body(conn, row.event, &encrypt(&row.event_body)?)?;
        }
    }
    Ok(rows.len())
}

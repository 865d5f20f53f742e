//! Notification channel between processes on one Postgres, by LISTEN and NOTIFY.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};

use crate::StoreError;

/// Timeout for telling something.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);

/// What a connection sends by itself.
pub(crate) type MessageStream =
    Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// A connection only for telling and hearing. What is told is lost when nobody listens.
pub struct NotifyChannel {
    client: Client,
    mail: ChannelInbox,
}

/// What arrives on a connection.
struct ChannelInbox {
    messages: MessageStream,
    received: VecDeque<String>,
}

impl NotifyChannel {
    pub(crate) async fn open(client: Client, messages: MessageStream) -> Result<Self, StoreError> {
        let mut mail = ChannelInbox {
            messages,
            received: VecDeque::new(),
        };
        mail.read_until_answered(client.batch_execute("LISTEN mediagate"))
            .await?;
        Ok(Self { client, mail })
    }

    /// Tells all processes, this one too.
    pub async fn notify(&mut self, text: &str) -> Result<(), StoreError> {
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&text, Type::TEXT)];
        let told = self
            .client
            .query_typed("SELECT pg_notify('mediagate', $1)", &values);
        self.mail.read_until_answered(told).await.map(drop)
    }

    /// Waits for the next text.
    pub async fn next_message(&mut self) -> Result<String, StoreError> {
        loop {
            if let Some(text) = self.mail.received.pop_front() {
                return Ok(text);
            }
            self.mail.next().await?;
        }
    }
}

impl ChannelInbox {
    /// Reads one message.
    async fn next(&mut self) -> Result<(), StoreError> {
        match self.messages.next().await {
            Some(Ok(AsyncMessage::Notification(told))) => {
                self.received.push_back(told.payload().to_owned());
                Ok(())
            }
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
            None => Err(StoreError::Lost),
        }
    }

    /// The answer to a request, which comes only while messages are read.
    async fn read_until_answered<T>(
        &mut self,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let deadline = tokio::time::Instant::now() + NOTIFY_TIMEOUT;
        let mut request = std::pin::pin!(request);
        loop {
            tokio::select! {
                answer = &mut request => return Ok(answer?),
                read = self.next() => read?,
                () = tokio::time::sleep_until(deadline) => return Err(StoreError::TimedOut),
            }
        }
    }
}

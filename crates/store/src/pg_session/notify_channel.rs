//! Notification channel between processes on one Postgres, by LISTEN and NOTIFY.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};

use crate::StoreError;

/// Timeout of a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(2);

/// The messages that a connection sends without a request.
pub(crate) type MessageStream =
    Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// A connection only for sending and receiving notifications. A notification is lost if no
/// connection listens.
pub struct NotifyChannel {
    client: Client,
    inbox: ChannelInbox,
}

/// The messages of a connection.
struct ChannelInbox {
    messages: MessageStream,
    received: VecDeque<String>,
}

impl NotifyChannel {
    pub(crate) async fn open(client: Client, messages: MessageStream) -> Result<Self, StoreError> {
        let mut inbox = ChannelInbox {
            messages,
            received: VecDeque::new(),
        };
        inbox
            .read_until_answered(client.batch_execute("LISTEN mediagate"))
            .await?;
        Ok(Self { client, inbox })
    }

    /// Notifies all processes, including this one.
    pub async fn notify(&mut self, text: &str) -> Result<(), StoreError> {
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&text, Type::TEXT)];
        let request = self
            .client
            .query_typed("SELECT pg_notify('mediagate', $1)", &values);
        self.inbox.read_until_answered(request).await.map(drop)
    }

    /// Waits for the next notification.
    pub async fn next_message(&mut self) -> Result<String, StoreError> {
        loop {
            if let Some(text) = self.inbox.received.pop_front() {
                return Ok(text);
            }
            self.inbox.next().await?;
        }
    }
}

impl ChannelInbox {
    /// Reads one message.
    async fn next(&mut self) -> Result<(), StoreError> {
        match self.messages.next().await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                self.received.push_back(notification.payload().to_owned());
                Ok(())
            }
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
            None => Err(StoreError::Lost),
        }
    }

    /// Waits for the answer to a request, which arrives only while messages are read.
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

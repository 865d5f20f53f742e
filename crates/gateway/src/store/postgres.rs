//! Postgres: a few connections, each with a thread of its own.
//!
//! The driver is the blocking one, so that the statements are the same plain
//! functions as on `SQLite`. A connection that broke is opened anew for the next
//! piece of work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use ::postgres::Client;

use crate::store::conn::Statements;
use crate::store::{Conn, StoreError, migrations};

/// Connections, and threads, of one process.
const CONNECTIONS: usize = 16;
/// Rest after which a connection is asked whether it still works.
const RESTED: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const ANSWER_TIME: Duration = Duration::from_secs(2);

type Work = Box<dyn FnOnce(Result<(&mut Client, &mut Statements), StoreError>) + Send>;

pub(super) struct Postgres {
    work: crossbeam_channel::Sender<Work>,
}

impl Postgres {
    pub(super) fn connect(url: &str) -> Result<Self, StoreError> {
        let config: ::postgres::Config = url.parse()?;
        // The driver runs a runtime of its own, which may not start on a
        // thread that belongs to ours.
        let first = config.clone();
        std::thread::spawn(move || migrate(&first))
            .join()
            .map_err(|_| StoreError::Closed)??;
        let (work, queue) = crossbeam_channel::unbounded();
        for number in 0..CONNECTIONS {
            let (config, queue) = (config.clone(), queue.clone());
            std::thread::Builder::new()
                .name(format!("postgres-{number}"))
                .spawn(move || serve(&config, &queue))
                .map_err(|_| StoreError::Closed)?;
        }
        Ok(Self { work })
    }

    pub(super) async fn run<T, E>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, E> + Send + 'static,
        in_transaction: bool,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let job: Work = Box::new(move |connection| {
            let result = connection
                .map_err(E::from)
                .and_then(|(client, statements)| {
                    if in_transaction {
                        transact(client, statements, work)
                    } else {
                        work(&mut Conn::Postgres(client, statements))
                    }
                });
            drop(answer.send(result));
        });
        self.work.send(job).map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

fn transact<T, E: From<StoreError>>(
    client: &mut Client,
    statements: &mut Statements,
    work: impl FnOnce(&mut Conn<'_>) -> Result<T, E>,
) -> Result<T, E> {
    client.batch_execute("BEGIN").map_err(StoreError::from)?;
    match work(&mut Conn::Postgres(client, statements)) {
        Ok(value) => {
            client.batch_execute("COMMIT").map_err(StoreError::from)?;
            Ok(value)
        }
        Err(error) => {
            // A connection too broken to roll back is replaced before its next use.
            drop(client.batch_execute("ROLLBACK"));
            Err(error)
        }
    }
}

fn serve(config: &::postgres::Config, queue: &crossbeam_channel::Receiver<Work>) {
    let mut connection: Option<Connection> = None;
    while let Ok(work) = queue.recv() {
        let usable = connection.take().and_then(Connection::if_usable);
        let opened = usable.map_or_else(|| Connection::open(config), Ok);
        match opened {
            Ok(mut usable) => {
                let Connection {
                    client,
                    statements,
                    used,
                } = &mut usable;
                // A bug in one piece of work must not end the thread; its
                // caller learns of it by the answer that never comes, and the
                // connection, in whatever state it is, goes with it.
                let done = catch_unwind(AssertUnwindSafe(|| work(Ok((client, statements)))));
                *used = Instant::now();
                connection = done.is_ok().then_some(usable);
            }
            Err(error) => {
                tracing::error!(%error, "postgres does not answer");
                work(Err(error));
            }
        }
    }
}

struct Connection {
    client: Client,
    statements: Statements,
    used: Instant,
}

impl Connection {
    fn open(config: &::postgres::Config) -> Result<Self, StoreError> {
        Ok(Self {
            client: open(config)?,
            statements: Statements::new(),
            used: Instant::now(),
        })
    }

    /// Itself, if it works; one that rested for a while is asked.
    fn if_usable(mut self) -> Option<Self> {
        let works = !self.client.is_closed()
            && (self.used.elapsed() < RESTED || self.client.is_valid(ANSWER_TIME).is_ok());
        works.then_some(self)
    }
}

fn open(config: &::postgres::Config) -> Result<Client, StoreError> {
    // Certificates that could not be read matter only if the server needs
    // them, and then the connection says so.
    let (tls, _unreadable) = tokio_postgres_rustls::MakeRustlsConnect::with_native_certs()
        .map_err(|error| StoreError::Tls(format!("{error:?}")))?;
    let mut client = config.connect(tls)?;
    client.batch_execute("SET synchronous_commit = on")?;
    Ok(client)
}

fn migrate(config: &::postgres::Config) -> Result<(), StoreError> {
    let mut client = open(config)?;
    let mut statements = Statements::new();
    transact(&mut client, &mut statements, |conn| {
        // Replicas that start together take turns.
        conn.script("SELECT pg_advisory_xact_lock(7304283110)")?;
        migrations::run(conn)
    })
}

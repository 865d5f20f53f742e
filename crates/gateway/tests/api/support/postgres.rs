//! Databases of their own for tests that want Postgres.

use simulator::FaultProxy;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A database that is dropped with this value.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    server: String,
    name: String,
    _permit: SemaphorePermit<'static>,
}

/// Limits the databases in use at once: a gateway opens up to 16 connections, and a server takes
/// 100 by default.
static TURNS: Semaphore = Semaphore::const_new(4);

impl TestDatabase {
    pub(crate) async fn create() -> Self {
        let server = std::env::var("MEDIAGATE_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!(
                "MEDIAGATE_TEST_POSTGRES names no Postgres server. Run the tests by ./scripts/test, \
                 which starts one, or set it to an address such as postgres://postgres@127.0.0.1:5432"
            )
        });
        let permit = TURNS.acquire().await.unwrap();
        let name = format!("mediagate_{}", uuid::Uuid::now_v7().simple());
        run(&server, format!("CREATE DATABASE {name}"));
        let mut url = url::Url::parse(&server).expect("MEDIAGATE_TEST_POSTGRES is an address");
        url.set_path(&name);
        Self {
            url: url.into(),
            server,
            name,
            _permit: permit,
        }
    }

    /// Copies the database's contents for [`Self::restore`]. Nobody may use it meanwhile.
    pub(crate) fn back_up(&self) {
        let name = &self.name;
        // A pooler keeps connections that nobody uses.
        let disconnect = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        );
        run(&self.server, disconnect);
        run(
            &self.server,
            format!("CREATE DATABASE {name}_backup TEMPLATE {name}"),
        );
    }

    /// Replaces the database by its backup.
    pub(crate) fn restore(&self) {
        let name = &self.name;
        run(&self.server, format!("DROP DATABASE {name} WITH (FORCE)"));
        run(
            &self.server,
            format!("CREATE DATABASE {name} TEMPLATE {name}_backup"),
        );
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        run(
            &self.server,
            format!("DROP DATABASE IF EXISTS {}_backup WITH (FORCE)", self.name),
        );
        run(
            &self.server,
            format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
    }
}

/// Runs SQL on another thread: the driver starts a runtime of its own, which cannot be nested.
fn run(server: &str, sql: String) {
    let server = server.to_owned();
    let run = move || {
        let mut client = postgres::Client::connect(&server, postgres::NoTls)
            .unwrap_or_else(|error| panic!("the Postgres of MEDIAGATE_TEST_POSTGRES: {error}"));
        client.batch_execute(&sql).unwrap();
    };
    // A failure to drop must not hide the failure of a test.
    let done = std::thread::spawn(run).join().is_ok();
    assert!(
        done || std::thread::panicking(),
        "the Postgres of MEDIAGATE_TEST_POSTGRES failed"
    );
}

/// A proxy to a database, which a test can disturb, and its address.
pub(crate) async fn proxy_to(database: &str) -> (FaultProxy, String) {
    let mut url = url::Url::parse(database).unwrap();
    let server = (url.host_str().unwrap(), url.port().unwrap_or(5432));
    let server = tokio::net::lookup_host(server)
        .await
        .unwrap()
        .next()
        .unwrap();
    let proxy = FaultProxy::start(server).await.unwrap();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.address().port())).unwrap();
    (proxy, url.into())
}

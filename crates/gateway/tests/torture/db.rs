//! Reads the gateway's database directly: SQL that both databases
//! understand, every value as text.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::postgres::TestDatabase;

/// The database under a gateway.
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(TestDatabase),
    /// A database at this URL, on a server that the test started itself.
    Elsewhere(String),
}

/// A row by the names of its columns.
#[derive(Debug, Clone)]
pub(crate) struct Row(BTreeMap<&'static str, Option<String>>);

impl Row {
    /// A text; empty where there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0[name].as_deref().unwrap_or_default()
    }

    /// A number, where there is one.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.0[name].as_ref()?.parse().ok()
    }

    /// An amount; nothing where there is none.
    pub(crate) fn micros(&self, name: &str) -> i64 {
        self.number(name).unwrap_or_default()
    }
}

impl Database {
    /// The rows of a table, in any order.
    pub(crate) async fn table(
        &self,
        name: &str,
        columns: &'static [&'static str],
        clause: &str,
    ) -> Vec<Row> {
        let expressions: Vec<String> = columns
            .iter()
            .map(|column| format!("CAST({column} AS TEXT)"))
            .collect();
        let sql = format!("SELECT {} FROM {name} {clause}", expressions.join(", "));
        let rows = self.query(sql, columns.len()).await;
        rows.into_iter()
            .map(|row| Row(columns.iter().copied().zip(row).collect()))
            .collect()
    }

    /// How many rows of a table meet this condition.
    pub(crate) async fn count(&self, table: &str, condition: &str) -> u64 {
        let rows = self
            .query(
                format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table} WHERE {condition}"),
                1,
            )
            .await;
        rows[0][0].as_ref().unwrap().parse().unwrap()
    }

    async fn query(&self, sql: String, width: usize) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Sqlite(path) => {
                let path = path.clone();
                let query = move || from_sqlite(&path, &sql, width);
                tokio::task::spawn_blocking(query).await.unwrap()
            }
            Self::Postgres(TestDatabase { url, .. }) | Self::Elsewhere(url) => {
                let url = url.clone();
                // The driver runs a runtime of its own, which may not start on a
                // thread of ours.
                let query =
                    move || std::thread::spawn(move || from_postgres(&url, &sql, width)).join();
                tokio::task::spawn_blocking(query).await.unwrap().unwrap()
            }
        }
    }
}

fn from_sqlite(path: &std::path::Path, sql: &str, width: usize) -> Vec<Vec<Option<String>>> {
    let store = rusqlite::Connection::open(path).unwrap();
    store.busy_timeout(Duration::from_secs(10)).unwrap();
    let mut statement = store.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| (0..width).map(|index| row.get(index)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn from_postgres(url: &str, sql: &str, width: usize) -> Vec<Vec<Option<String>>> {
    let mut client = ::postgres::Client::connect(url, ::postgres::NoTls).unwrap();
    let rows = client.query(sql, &[]).unwrap();
    rows.iter()
        .map(|row| (0..width).map(|index| row.get(index)).collect())
        .collect()
}

//! The store: one contract, two databases.

/// Runs each test on a database of each kind.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::sqlite()).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::postgres().await).await;
            })*
        }
        /// Runs all tests on `SQLite`, to record the statements of the store.
        #[cfg(debug_assertions)]
        pub(super) async fn all_on_sqlite() {
            $(Box::pin($name(sqlite())).await;)*
        }
    };
}

mod accounting;
mod approvals;
mod contract;
mod end_users;
mod intents;
mod key_ends;
mod machine;
mod migrations;
mod moderation;
mod money;
mod payloads;
#[cfg(debug_assertions)]
mod plans;
mod prints;
mod rates;
mod records;
mod request_log;
mod scale;
mod side_by_side;
mod turns;
mod upkeep;
mod webhooks;

use ipnet::IpNet;
use mediagate_model::account::{Account, ApiKey, Scope};
use mediagate_model::attribution::Attribution;
use mediagate_model::clock::Timestamp;
use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_model::ids::{AccountId, AssetId, KeyId, RequestId, TaskId};
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Price, PriceUnit, Tariff, WorkQuantity};
use mediagate_model::task::{Choice, Task, TaskPayload, TaskState, VideoJob, VideoOptions};
use mediagate_store::{Conn, Store, StoreError, accounts};

/// Some second of the year 2027.
fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_800_000_000 + second)
}

fn account(handle: &str) -> Account {
    Account {
        id: AccountId::new(),
        handle: handle.to_owned(),
        display_name: "Someone".into(),
        avatar: AssetId::new(),
        created_at: at(0),
    }
}

fn key(account: AccountId) -> ApiKey {
    let id = KeyId::new();
    ApiKey {
        id,
        account,
        name: "test".into(),
        prefix: "sk-mg-AbCdEf".into(),
        sha256: id.to_string(),
        scopes: vec![Scope::VideoCreate, Scope::TasksRead],
        models: Some(vec!["animatic-1".into()]),
        networks: Some(vec![
            "10.0.0.0/8".parse::<IpNet>().unwrap(),
            "::1/128".parse().unwrap(),
        ]),
        rpm: 7,
        max_running: 3,
        budget: Some(MicroDollars::new(25_000_000)),
        budget_period: None,
        approve_above: Some(MicroDollars::new(1_000_000)),
        refuses_housekeeping: true,
        created_at: at(0),
        expires_at: Some(at(1000)),
        revoked_at: None,
    }
}

/// Inserts an account with a key.
fn owner(conn: &mut Conn<'_>) -> Result<(AccountId, KeyId), StoreError> {
    let account = account(&format!("a{}", AccountId::new()));
    let key = key(account.id);
    accounts::insert(conn, &account)?;
    accounts::insert_key(conn, &key)?;
    Ok((account.id, key.id))
}

/// The models of a worker.
const MODELS: &str = r#"["animatic-1"]"#;

fn task(owner: (AccountId, KeyId), created_at: Timestamp) -> Task {
    Task {
        id: TaskId::new(),
        account: owner.0,
        key: owner.1,
        model: "animatic-1".into(),
        asked_model: "animatic-1".into(),
        provider: "embedded".into(),
        fingerprint: "fp_0123456789".into(),
        payload: TaskPayload::VideoV1(VideoJob {
            prompt: "a lake, \u{1f30a} and \"quotes\"".into(),
            width: 480,
            height: 480,
            milliseconds: 1000,
            fps: Some(30),
            options: VideoOptions {
                seed: Some(Choice::Default(7)),
                user: Some("someone".into()),
                ..VideoOptions::default()
            },
            ..VideoJob::default()
        }),
        state: TaskState::Queued,
        progress: 0,
        progress_is_guess: false,
        cost: MicroDollars::new(100_000),
        reserved: MicroDollars::new(100_000),
        money: ChargeState::Held,
        tariff: Some(Tariff {
            price: Some(Price {
                unit: PriceUnit::Second,
                per_unit: MicroDollars::new(100_000),
            }),
            routes: Vec::new(),
            costs: Vec::new(),
            asked: WorkQuantity {
                milliseconds: 1000,
                pixels: 480 * 480,
                parts: 1,
                parts_asked: 1,
            },
        }),
        bill: None,
        attribution: Attribution::default(),
        request: RequestId::generate().into(),
        approval: None,
        identical_task: None,
        callback: None,
        trace: None,
        attempts: 0,
        deaths: None,
        expected_bytes: None,
        created_at,
        started_at: None,
        finished_at: None,
        failure: None,
        output: None,
        event_seq: 1,
    }
}

fn asset(account: AccountId, expires_at: Option<Timestamp>) -> Asset {
    Asset {
        id: AssetId::new(),
        account,
        media: MediaType::Flac,
        size_bytes: 5_000_000_000,
        sha256: "ab".repeat(32),
        created_at: at(0),
        expires_at,
        removed_at: None,
    }
}

/// A database of its own for one test.
pub(crate) struct Fixture {
    store: Store,
    /// Its URL, on Postgres.
    url: Option<String>,
    _guard: Box<dyn std::any::Any>,
}

fn sqlite() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture {
        store: Store::sqlite(&folder.path().join("db"), MigrationMode::Auto).unwrap(),
        url: None,
        _guard: Box::new(folder),
    }
}

async fn postgres() -> Fixture {
    crate::support::client::install_tls();
    let database = crate::support::postgres::TestDatabase::create().await;
    Fixture {
        store: Store::postgres(&database.url, DatabaseOptions::default()).unwrap(),
        url: Some(database.url.clone()),
        _guard: Box::new(database),
    }
}

impl Fixture {
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> T {
        self.store.write(work).await.unwrap()
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> T {
        self.store.read(work).await.unwrap()
    }
}

use mediagate_model::clock::Timestamp;
use mediagate_model::task::TaskState;

use super::{TableRecord, ToColumn};
use crate::statement::sql;
use crate::{Conn, SqlValue, StoreError};

#[derive(Debug, Clone, PartialEq)]
struct Parcel {
    name: String,
    state: TaskState,
    weight: Option<u32>,
    is_open: bool,
    inside: Vec<String>,
    sent_at: Timestamp,
}

record! {
    columns for Parcel of "parcels" {
        name: "name",
        state: "state",
        weight: "weight",
        is_open: "is_open",
        inside: "inside",
        sent_at: "sent_at",
    }
}

/// The label of a parcel.
#[derive(Debug, PartialEq)]
struct Label {
    text: String,
    state: TaskState,
}

fn text(name: String, weight: Option<u32>) -> String {
    [
        name,
        weight.map_or_else(String::new, |weight| weight.to_string()),
    ]
    .join(" ")
}

record! {
    label_columns for Label of "parcels" {
        text: text("name", "weight"),
        state: "state",
    }
}

fn parcel() -> Parcel {
    Parcel {
        name: "a".into(),
        state: TaskState::Running,
        weight: None,
        is_open: true,
        inside: vec!["b".into()],
        sent_at: Timestamp::from_micros(7),
    }
}

fn database() -> rusqlite::Connection {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    let tables = "CREATE TABLE parcels (sent_at BIGINT, inside TEXT, is_open BIGINT, weight BIGINT, state TEXT,
                                        name TEXT PRIMARY KEY, number BIGINT)";
    database.execute_batch(tables).unwrap();
    database
}

fn all<T: TableRecord>(conn: &mut Conn<'_>, sql: &'static str) -> Result<Vec<T>, StoreError> {
    conn.all(sql, &[], T::from_row)
}

#[test]
fn a_record_is_read_as_it_was_inserted() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    let parcel = parcel();
    assert_eq!(columns!(insert parcel into conn).unwrap(), 1);
    let parcels: Vec<Parcel> = all(conn, concat!("SELECT ", columns!(), " FROM parcels")).unwrap();
    assert_eq!(parcels, [parcel]);
}

#[test]
fn lists_are_in_the_order_of_the_declaration() {
    assert_eq!(columns!(), "name, state, weight, is_open, inside, sent_at");
    assert_eq!(label_columns!("p"), "p.name, p.weight, p.state");
}

/// A parcel with its label.
#[derive(Debug, PartialEq)]
struct Delivery {
    parcel: Parcel,
    number: i64,
    label: Label,
}

record! {
    delivery_columns for Delivery of "parcels" {
        parcel: ..columns!(),
        number: "2 + 3",
        label: ..label_columns!("p"),
    }
}

#[test]
fn a_field_may_be_made_of_several_columns_or_be_a_record() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    let parcel = Parcel {
        weight: Some(3),
        ..parcel()
    };
    columns!(insert parcel into conn).unwrap();
    let sql = concat!("SELECT ", delivery_columns!(), " FROM parcels p");
    let deliveries: Vec<Delivery> = all(conn, sql).unwrap();
    let label = Label {
        text: "a 3".into(),
        state: TaskState::Running,
    };
    let number = 5;
    assert_eq!(
        deliveries,
        [Delivery {
            parcel,
            number,
            label
        }]
    );
}

#[test]
fn values_are_paired_with_their_columns_whatever_their_order() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    let add = |conn: &mut Conn<'_>, name: &str, is_open| {
        insert!(conn, "parcels" {
            "name": name,
            "number": sql("(SELECT COUNT(*) FROM parcels WHERE name <> :name)"),
            "inside": None::<String>,
            "state": "queued",
            "is_open": is_open,
        } "ON CONFLICT (name) DO NOTHING")
    };
    assert_eq!(add(conn, "a", true).unwrap(), 1);
    assert_eq!(add(conn, "b", false).unwrap(), 1);
    assert_eq!(add(conn, "b", true).unwrap(), 0);
    let sql =
        "SELECT name || state || is_open || number FROM parcels WHERE inside IS NULL ORDER BY name";
    let rows = conn.all(sql, &[], |row| row.only::<String>(sql)).unwrap();
    assert_eq!(rows, ["aqueued10", "bqueued01"]);
}

#[test]
fn a_value_that_does_not_fit_is_unreadable_by_the_name_of_its_column() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    for (name, state, weight, expected) in [
        (
            Some("a"),
            Some("elsewhere"),
            1,
            ("parcels.state", "elsewhere"),
        ),
        (Some("a"), None, 1, ("parcels.state", "NULL")),
        (Some("a"), Some("queued"), -1, ("parcels.weight", "-1")),
        (None, Some("queued"), 1, ("parcels.name", "NULL")),
    ] {
        conn.execute("DELETE FROM parcels", &[]).unwrap();
        insert!(conn, "parcels" {
            "name": name, "state": state, "weight": i64::from(weight), "is_open": 1_i64, "inside": "[]", "sent_at": 0_i64,
        })
        .unwrap();
        let sql = concat!("SELECT ", columns!(), " FROM parcels");
        match all::<Parcel>(conn, sql) {
            Err(StoreError::Unreadable { column, value }) => {
                assert_eq!((column, &*value), expected);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn integers_too_great_for_a_column_are_the_greatest() {
    assert_eq!(u64::MAX.to_column(), SqlValue::Int(i64::MAX));
}

#[test]
#[cfg(debug_assertions)]
fn a_statement_is_run_where_its_insert_is() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    crate::statement_log::begin();
    let line = line!() + 1;
    insert!(conn, "parcels" {
        "name": "a",
        "state": "queued",
    })
    .unwrap();
    let log = crate::statement_log::end();
    let locations: Vec<_> = log.places.iter().collect();
    assert!(locations.contains(&&(file!(), line)), "{locations:?}");
    let sql = "INSERT INTO parcels (name, state) VALUES (?1, ?2)";
    assert!(log.statements.contains_key(sql), "{log:?}");
}

#[test]
fn columns_are_read_by_their_names() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    let read = sql!("SELECT 7 AS weight, 'queued' AS state, NULL AS name").one(conn, |row| {
        let state: TaskState = row.field("state")?;
        let name: Option<String> = row.field("name")?;
        Ok((row.field::<u32>("weight")?, state, name))
    });
    assert_eq!(read.unwrap(), Some((7, TaskState::Queued, None)));
    for (column, value) in [("name", "NULL"), ("size", "no such column")] {
        let read = sql!("SELECT NULL AS name").one(conn, |row| row.field::<String>(column));
        let Err(StoreError::Unreadable {
            column: named,
            value: found,
        }) = read
        else {
            panic!("{read:?}");
        };
        assert_eq!((named, &*found), (column, value));
    }
}

#[test]
fn the_only_column_needs_no_name() {
    let database = database();
    let conn = &mut Conn::Sqlite(&database);
    let numbers = sql!("SELECT 1 UNION ALL SELECT 2").values::<i64>(conn);
    assert_eq!(numbers.unwrap(), [1, 2]);
    assert_eq!(
        sql!("SELECT NULL").value::<Option<i64>>(conn).unwrap(),
        Some(None)
    );
    assert_eq!(
        sql!("SELECT 1 WHERE false").value::<i64>(conn).unwrap(),
        None
    );
    assert!(sql!("SELECT NULL").exists(conn).unwrap());
    assert!(!sql!("SELECT 1 WHERE false").exists(conn).unwrap());
    let read = sql!("SELECT 'x'").value::<TaskState>(conn);
    let is_named = matches!(
        read,
        Err(StoreError::Unreadable {
            column: "SELECT 'x'",
            ..
        })
    );
    assert!(is_named, "{read:?}");
}

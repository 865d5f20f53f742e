//! The log of requests: lists, counts and removal.

use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, KeyId, RequestEntryId, RequestId};
use mediagate_model::request_log::{RequestEntry, StatusRange};
use mediagate_store::request_log::{
    self, ErrorGrouping, RequestFilter, entries_by_account, error_counts, forget, page,
    remove_oldest, remove_oldest_of,
};
use mediagate_store::tasks::{self, PageQuery};
use mediagate_store::{Conn, StoreError};

use super::{Fixture, at, postgres, sqlite};

on_both! {
    entries_are_listed_counted_and_removed
}

fn entry(second: i64, id: &str, account: Option<AccountId>) -> RequestEntry {
    RequestEntry {
        id: RequestEntryId::at(at(second)),
        at: at(second),
        request_id: RequestId::from_caller(id).unwrap(),
        method: "POST".into(),
        route: Some("/v1/videos".into()),
        status: 402,
        code: Some("budget_exceeded".into()),
        message: Some("No.".into()),
        account,
        key: account.map(|_| KeyId::new()),
        model: Some("film".into()),
        task: None,
        took_ms: 7,
    }
}

async fn entries_are_listed_counted_and_removed(db: Fixture) {
    db.store.write(check).await.unwrap();
}

fn check(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let (owls, foxes) = (AccountId::new(), AccountId::new());
    let entries = [
        entry(1, "a", Some(owls)),
        entry(2, "b", None),
        entry(3, "c", Some(foxes)),
        RequestEntry {
            status: 200,
            code: None,
            message: None,
            route: None,
            ..entry(4, "d", Some(owls))
        },
    ];
    for entry in &entries {
        request_log::insert(conn, entry)?;
        // Repeated after a commit with an unknown outcome.
        request_log::insert(conn, entry)?;
    }
    filters_choose(conn, &entries)?;
    for (ascending, expected) in [(false, "a"), (true, "c")] {
        let query = PageQuery {
            after: Some(entries[1].id),
            ascending,
            limit: 1,
        };
        let next = page(conn, &RequestFilter::default(), query)?;
        assert_eq!(next[0].request_id.as_str(), expected);
    }
    let mut counts = entries_by_account(conn)?;
    counts.sort_unstable();
    let mut expected = vec![(None, 1), (Some(owls), 2), (Some(foxes), 1)];
    expected.sort_unstable();
    assert_eq!(counts, expected);
    assert!(!tasks::has_request(
        conn,
        Some(owls),
        &entries[0].request_id
    )?);
    assert_eq!(remove_oldest_of(conn, Some(owls), 1)?, 1);
    assert_eq!(remove_oldest_of(conn, None, 9)?, 1);
    assert_eq!(
        page(conn, &RequestFilter::default(), newest(9))?,
        [entries[3].clone(), entries[2].clone()]
    );
    assert_eq!(forget(conn, at(4), 9)?, 1);
    assert_eq!(remove_oldest(conn, 9)?, 1);
    assert_eq!(page(conn, &RequestFilter::default(), newest(9))?, []);
    Ok(())
}

fn newest(limit: u32) -> PageQuery<RequestEntryId> {
    PageQuery {
        after: None,
        limit,
        ascending: false,
    }
}

/// Each filter finds the entries that its row names by their request ids, in both orders.
fn filters_choose(conn: &mut Conn<'_>, entries: &[RequestEntry; 4]) -> Result<(), StoreError> {
    let (owls, foxes) = (entries[0].account, entries[2].account);
    let any = RequestFilter::default;
    let with = |request: &str| RequestFilter {
        request_id: Some(request.into()),
        ..any()
    };
    assert_eq!(page(conn, &with("a"), newest(9))?, entries[..1]);
    for (filter, expected) in [
        (any(), "dcba"),
        (with("x"), ""),
        (
            RequestFilter {
                account: owls,
                ..any()
            },
            "da",
        ),
        (
            RequestFilter {
                account: foxes,
                ..with("a")
            },
            "",
        ),
        (
            RequestFilter {
                code: Some(ErrorCode::BudgetExceeded),
                ..any()
            },
            "cba",
        ),
        (
            RequestFilter {
                statuses: Some(StatusRange {
                    lowest: 400,
                    highest: 499,
                }),
                since: Some(at(2)),
                until: Some(at(3)),
                ..any()
            },
            "b",
        ),
        (
            RequestFilter {
                route: Some("/v1/videos".into()),
                key: entries[2].key,
                model: Some("film".into()),
                ..any()
            },
            "c",
        ),
    ] {
        for ascending in [false, true] {
            let query = PageQuery {
                ascending,
                ..newest(9)
            };
            let found = page(conn, &filter, query)?;
            let found = found.iter().map(|entry| entry.request_id.as_str());
            let found: String = if ascending {
                found.rev().collect()
            } else {
                found.collect()
            };
            assert_eq!(found, expected, "{filter:?}");
        }
        let grouping = ErrorGrouping {
            by_code: true,
            by_status: true,
            ..ErrorGrouping::default()
        };
        let errors = expected.chars().filter(|id| *id != 'd').count();
        let counts = error_counts(conn, &filter, grouping, 9)?;
        let counted: i64 = counts.iter().map(|(_, count)| count.count).sum();
        assert_eq!(usize::try_from(counted).unwrap(), errors, "{filter:?}");
    }
    Ok(())
}

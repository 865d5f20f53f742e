//! Verdicts of moderation: counted, summed up and removed.

use mediagate_model::ids::{AccountId, KeyId};
use mediagate_store::moderation::{
    CountedVerdict, VerdictGroup, VerdictQuery, add, counts, forget_hour,
};
use mediagate_store::{Conn, StoreError};

use super::{Fixture, at, postgres, sqlite};

on_both! {
    verdicts_are_counted_and_removed
}

async fn verdicts_are_counted_and_removed(db: Fixture) {
    db.write(check).await;
}

fn everything() -> VerdictQuery {
    VerdictQuery {
        since: at(0),
        until: at(1_000_000),
        account: None,
        key: None,
        model: None,
        user: None,
        category: None,
        by_account: false,
        by_key: false,
        by_user: false,
        by_model: false,
        by_category: false,
    }
}

fn check(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let (account, key) = (AccountId::new(), KeyId::new());
    let refused = CountedVerdict {
        account,
        key,
        user: Some("ada"),
        model: "film",
        outcome: "refuse",
        category: Some("minors"),
    };
    let allowed = CountedVerdict {
        user: None,
        outcome: "allow",
        category: None,
        ..refused
    };
    add(conn, refused, at(1))?;
    add(conn, refused, at(2))?;
    add(conn, refused, at(7201))?;
    add(conn, allowed, at(1))?;
    let mut found = counts(conn, &everything(), 10)?;
    found.sort();
    let group = |outcome: &str| VerdictGroup {
        account: String::new(),
        key: String::new(),
        user: String::new(),
        model: String::new(),
        category: String::new(),
        outcome: outcome.to_owned(),
    };
    assert_eq!(found, [(group("allow"), 1), (group("refuse"), 3)]);
    let query = VerdictQuery {
        account: Some(account),
        key: Some(key),
        model: Some("film".to_owned()),
        user: Some("ada".to_owned()),
        category: Some("minors".to_owned()),
        by_account: true,
        by_key: true,
        by_user: true,
        by_model: true,
        by_category: true,
        ..everything()
    };
    let all = VerdictGroup {
        account: account.to_string(),
        key: key.to_string(),
        user: "ada".to_owned(),
        model: "film".to_owned(),
        category: "minors".to_owned(),
        outcome: "refuse".to_owned(),
    };
    assert_eq!(counts(conn, &query, 10)?, [(all, 3)]);
    let other = VerdictQuery {
        account: Some(AccountId::new()),
        ..everything()
    };
    assert_eq!(counts(conn, &other, 10)?, []);
    // An hour at a time, and none that is not over.
    assert_eq!(forget_hour(conn, at(7200))?, 2);
    assert_eq!(forget_hour(conn, at(7200))?, 0);
    assert_eq!(counts(conn, &everything(), 10)?, [(group("refuse"), 1)]);
    Ok(())
}

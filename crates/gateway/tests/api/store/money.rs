//! Money in the store: the ledger against the sums, and entries that must not be
//! written twice.

use mediagate_core::domain::{endings, ledger, task_acceptance};
use mediagate_model::account::ApiKey;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_model::ledger::EntryKind;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Bill, Price, PriceUnit, WorkQuantity};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::ledger::{
    EntrySubject, LedgerChange, LedgerFilter, add, list, lock, of_account, of_key,
};
use mediagate_store::tasks::{self, TaskEnding};
use mediagate_store::{Conn, StoreError, accounts, usage};

use crate::support::mismatches;

use super::{Fixture, account, at, key, postgres, sqlite, task};

on_both! {
    a_reservation_is_settled_or_released
    a_budget_holds_for_concurrent_orders
    a_prepaid_account_spends_at_most_its_balance
    a_reservation_is_resolved_once
    a_cancelled_task_can_be_charged_later
    an_inconsistent_ledger_is_found
}

pub(super) const DIME: i64 = 100_000;

/// A key with this budget, in an account of its own.
pub(super) async fn insert_key_with_budget(db: &Fixture, budget: Option<i64>) -> ApiKey {
    db.write(move |conn| {
        let account = account(&format!("a{}", AccountId::new()));
        let key = ApiKey {
            budget: budget.map(MicroDollars::new),
            max_running: 100,
            ..key(account.id)
        };
        accounts::insert(conn, &account)?;
        accounts::insert_key(conn, &key)?;
        Ok(key)
    })
    .await
}

/// Accepts tasks of a dime each.
pub(super) async fn accept(db: &Fixture, key: &ApiKey, count: usize) -> Result<Vec<Task>, Error> {
    let tasks: Vec<Task> = (0..count)
        .map(|_| task((key.account, key.id), at(0)))
        .collect();
    let key = key.clone();
    db.store
        .write(move |conn| {
            task_acceptance::write(conn, &key, &tasks, None)?;
            Ok(tasks)
        })
        .await
}

pub(super) fn ending(state: TaskState, money: ChargeState, cost: i64) -> TaskEnding {
    let cost = MicroDollars::new(cost);
    TaskEnding {
        state,
        cost,
        money,
        bill: (money == ChargeState::Settled).then(|| bill(cost)),
        output: None,
        failure: (state != TaskState::Succeeded).then(|| TaskFailure {
            code: ErrorCode::GenerationFailed,
            message: "It broke.".into(),
        }),
    }
}

/// A bill at the price of these tests' tasks, a dime a second.
pub(super) fn bill(cost: MicroDollars) -> Bill {
    Bill {
        price: Some(Price {
            unit: PriceUnit::Second,
            per_unit: MicroDollars::new(DIME),
        }),
        quantity: WorkQuantity {
            milliseconds: u64::try_from(cost.get() * 1000 / DIME).unwrap(),
            ..WorkQuantity::default()
        },
        cost,
        delivered: None,
        partial: None,
    }
}

pub(super) async fn end(db: &Fixture, task: &Task, ending: TaskEnding) -> bool {
    let task = task.clone();
    let ended = db
        .store
        .write(move |conn| endings::settle(conn, &task, None, &ending, at(1)));
    ended.await.unwrap().is_some()
}

/// The held and spent amounts of the key, and of the account.
async fn sums(db: &Fixture, account: AccountId, key: KeyId) -> [(i64, i64); 2] {
    db.read(move |conn| {
        let key = of_key(conn, key, at(0))?.unwrap();
        let account = of_account(conn, account)?.unwrap();
        Ok([
            (key.held.get(), key.spent.get()),
            (account.held.get(), account.spent.get()),
        ])
    })
    .await
}

pub(super) async fn adds_up(db: &Fixture) {
    assert_eq!(db.read(mismatches).await, []);
}

async fn a_reservation_is_settled_or_released(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted_tasks = accept(&db, &key, 3).await.unwrap();
    assert_eq!(sums(&db, key.account, key.id).await, [(3 * DIME, 0); 2]);
    adds_up(&db).await;
    assert!(
        end(
            &db,
            &accepted_tasks[0],
            ending(TaskState::Succeeded, ChargeState::Settled, 70_000)
        )
        .await
    );
    assert!(
        end(
            &db,
            &accepted_tasks[1],
            ending(TaskState::Failed, ChargeState::Released, 0)
        )
        .await
    );
    assert_eq!(sums(&db, key.account, key.id).await, [(DIME, 70_000); 2]);
    adds_up(&db).await;
    let filter = LedgerFilter {
        account: Some(key.account),
        ..LedgerFilter::default()
    };
    let entries = db.read(move |conn| list(conn, &filter, 100)).await;
    let kinds: Vec<_> = entries
        .iter()
        .map(|entry| (entry.kind, entry.held.get(), entry.spent.get()))
        .collect();
    assert_eq!(
        kinds,
        [
            (EntryKind::Reserve, DIME, 0),
            (EntryKind::Reserve, DIME, 0),
            (EntryKind::Reserve, DIME, 0),
            (EntryKind::Settle, -DIME, 70_000),
            (EntryKind::Release, -DIME, 0),
        ]
    );
}

async fn a_budget_holds_for_concurrent_orders(db: Fixture) {
    let key = insert_key_with_budget(&db, Some(3 * DIME)).await;
    let acceptances = (0..8).map(|_| accept(&db, &key, 1));
    let results = futures_util::future::join_all(acceptances).await;
    let accepted = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(accepted, 3);
    for error in results.into_iter().filter_map(Result::err) {
        assert_eq!(error.code(), ErrorCode::BudgetExceeded);
        assert!(error.message().contains("0.30"), "{error}");
    }
    assert_eq!(sums(&db, key.account, key.id).await, [(3 * DIME, 0); 2]);
    // An order is accepted as a whole or not at all.
    assert!(
        accept(&db, &insert_key_with_budget(&db, Some(DIME)).await, 2)
            .await
            .is_err()
    );
    adds_up(&db).await;
}

async fn a_prepaid_account_spends_at_most_its_balance(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let subject = EntrySubject {
        account: key.account,
        key: None,
        task: None,
        model: None,
        attribution: None,
    };
    let change = LedgerChange {
        credit: MicroDollars::new(2 * DIME),
        ..LedgerChange::default()
    };
    let account = key.account;
    db.write(move |conn| {
        accounts::set_prepaid(conn, account, true)?;
        add(
            conn,
            subject,
            EntryKind::Credit,
            change,
            Some("paid"),
            at(0),
        )
        .map(|_| ())
    })
    .await;
    let first = accept(&db, &key, 2).await.unwrap();
    let refused = accept(&db, &key, 1).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::BudgetExceeded);
    assert!(refused.message().contains("0.00 USD left"), "{refused}");
    end(
        &db,
        &first[0],
        ending(TaskState::Failed, ChargeState::Released, 0),
    )
    .await;
    assert!(
        accept(&db, &key, 1).await.is_ok(),
        "released money is available"
    );
    adds_up(&db).await;
}

async fn a_reservation_is_resolved_once(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted_tasks = accept(&db, &key, 1).await.unwrap();
    let task = &accepted_tasks[0];
    assert!(
        end(
            &db,
            task,
            ending(TaskState::Succeeded, ChargeState::Settled, DIME)
        )
        .await
    );
    assert!(
        !end(
            &db,
            task,
            ending(TaskState::Cancelled, ChargeState::Released, 0)
        )
        .await
    );
    // The database rejects a second entry even without a check before.
    for kind in [EntryKind::Settle, EntryKind::Release, EntryKind::Reserve] {
        let subject = EntrySubject {
            account: task.account,
            key: Some(task.key),
            task: Some(task.id),
            model: None,
            attribution: None,
        };
        let second_entry = db.store.write(move |conn| -> Result<(), StoreError> {
            add(conn, subject, kind, LedgerChange::default(), None, at(2)).map(|_| ())
        });
        assert!(second_entry.await.is_err(), "{kind:?}");
    }
    assert_eq!(sums(&db, key.account, key.id).await, [(0, DIME); 2]);
    adds_up(&db).await;
}

async fn a_cancelled_task_can_be_charged_later(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted_tasks = accept(&db, &key, 2).await.unwrap();
    for task in &accepted_tasks {
        assert!(
            end(
                &db,
                task,
                ending(TaskState::Cancelled, ChargeState::Held, DIME)
            )
            .await
        );
    }
    let subject = EntrySubject {
        account: key.account,
        key: Some(key.id),
        task: None,
        model: Some("animatic-1"),
        attribution: None,
    };
    for (amount, sum) in [(DIME, DIME), (-40_000, 60_000), (-DIME, 0)] {
        let refunded = db.write(move |conn| {
            lock(conn, subject)?;
            usage::add_refund(conn, subject, MicroDollars::new(amount), at(1))?;
            usage::refunded_on(conn, subject.account, at(2))
        });
        assert_eq!(refunded.await.get(), sum);
    }
    assert_eq!(sums(&db, key.account, key.id).await, [(2 * DIME, 0); 2]);
    adds_up(&db).await;
    let close = async |task: &Task, bill: Option<Bill>| {
        let task = task.clone();
        let closed = db
            .store
            .write(move |conn| ledger::close(conn, &task, bill.as_ref(), at(2)));
        closed.await.unwrap()
    };
    assert!(close(&accepted_tasks[0], Some(bill(MicroDollars::new(40_000)))).await);
    assert!(close(&accepted_tasks[1], None).await);
    assert!(!close(&accepted_tasks[0], None).await, "once");
    assert_eq!(sums(&db, key.account, key.id).await, [(0, 40_000); 2]);
    adds_up(&db).await;
}

async fn an_inconsistent_ledger_is_found(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted_tasks = accept(&db, &key, 1).await.unwrap();
    let falsify: fn(&mut Conn<'_>) -> Result<u64, StoreError> = |conn| {
        conn.execute("UPDATE api_keys SET spent_micros = spent_micros + 1", &[])?;
        conn.execute("UPDATE accounts SET held_micros = held_micros + 1", &[])?;
        conn.execute("UPDATE tasks SET cost_micros = cost_micros + 1", &[])
    };
    db.write(falsify).await;
    let mismatches_found = db.read(mismatches).await;
    let what: Vec<_> = mismatches_found
        .iter()
        .map(|mismatch| (mismatch.kind, mismatch.id.clone()))
        .collect();
    assert!(
        what.contains(&("key", key.id.to_string())),
        "{mismatches_found:?}"
    );
    assert!(
        what.contains(&("account", key.account.to_string())),
        "{mismatches_found:?}"
    );
    assert!(
        what.contains(&("task", accepted_tasks[0].id.to_string())),
        "{mismatches_found:?}"
    );
    let by_id = tasks::by_id_any_account;
    let id = accepted_tasks[0].id;
    let cost = db.read(move |conn| by_id(conn, id)).await.unwrap().cost;
    assert_eq!(cost.get(), DIME + 1, "reported, not repaired");
}

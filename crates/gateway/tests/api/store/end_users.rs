//! End users: their limits, what they have used, and alerts about budgets.

use mediagate_model::account::BudgetPeriod;
use mediagate_model::attribution::{Attribute, Attribution, Metadata};
use mediagate_model::budget::{BudgetAlert, BudgetOwner, EVERYONE, UserLimits, UserSums};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, AlertId, KeyId, UserLimitsId};
use mediagate_model::ledger::EntryKind;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::submission::JobCost;
use mediagate_model::task::{Task, TaskState};
use mediagate_store::hourly_sums::{HourlyQuery, HourlySum};
use mediagate_store::ledger::{EntrySubject, LedgerChange};
use mediagate_store::tasks::{PageQuery, TaskEnding};
use mediagate_store::usage::UsageFilter;
use mediagate_store::{
    Conn, StoreError, accounts, attributed_sums, budget_alerts, end_users, hourly_sums, ledger,
    tasks,
};

use super::{Fixture, at, owner, postgres, sqlite, task};

on_both! {
    limits_are_replaced_and_those_for_everyone_come_last
    sums_follow_the_tasks_of_a_user
    an_alert_is_written_once
}

fn limits(account: AccountId, user: &str, micros: i64) -> UserLimits {
    UserLimits {
        id: UserLimitsId::new(),
        account,
        user: user.to_owned(),
        budget: Some(MicroDollars::new(micros)),
        period: Some(BudgetPeriod::Day),
        rpm: Some(3),
        max_running: None,
        created_at: at(0),
    }
}

async fn limits_are_replaced_and_those_for_everyone_come_last(db: Fixture) {
    db.write(|conn| {
        let ((account, _), (other, _)) = (owner(conn)?, owner(conn)?);
        let budget_for = |conn: &mut Conn<'_>, user| -> Result<_, StoreError> {
            let found = end_users::limits_for(conn, account, user)?;
            Ok(found
                .and_then(|limits| limits.budget)
                .map(MicroDollars::get))
        };
        assert_eq!(budget_for(conn, "ada")?, None);
        assert!(accounts::account_by_id(conn, account)?.is_some());
        end_users::put_limits(conn, &limits(account, EVERYONE, 1))?;
        let ada = limits(account, "ada", 2);
        end_users::put_limits(conn, &ada)?;
        end_users::put_limits(conn, &limits(other, "grace", 3))?;
        assert_eq!(budget_for(conn, "ada")?, Some(2));
        assert_eq!(budget_for(conn, "grace")?, Some(1));
        end_users::put_limits(conn, &limits(account, "ada", 4))?;
        let replaced = end_users::own_limits(conn, account, "ada")?.unwrap();
        let budget = Some(MicroDollars::new(4));
        assert_eq!(replaced, UserLimits { budget, ..ada });
        for (account, ascending, users) in [
            (None, true, vec!["*", "ada", "grace"]),
            (None, false, vec!["grace", "ada", "*"]),
            (Some(account), true, vec!["*", "ada"]),
            (Some(account), false, vec!["ada", "*"]),
        ] {
            let page = PageQuery {
                after: None,
                limit: 10,
                ascending,
            };
            let found = end_users::page(conn, account, page)?;
            let found: Vec<&str> = found.iter().map(|limits| limits.user.as_str()).collect();
            assert_eq!(found, users);
        }
        assert!(end_users::remove_limits(conn, replaced.id)?);
        assert!(!end_users::remove_limits(conn, replaced.id)?);
        assert_eq!(budget_for(conn, "ada")?, Some(1));
        assert_eq!(end_users::lock(conn, account, "ada")?.micros(), 0);
        end_users::set_arrival(conn, account, "ada", at(5))?;
        assert_eq!(end_users::lock(conn, account, "ada")?, at(5));
        Ok(())
    })
    .await;
}

/// A task of Ada's, held at a dime.
fn insert(
    conn: &mut Conn<'_>,
    owner: (AccountId, KeyId),
    now: Timestamp,
) -> Result<Task, StoreError> {
    let task = Task {
        attribution: Attribution {
            user: Some("ada".into()),
            metadata: Metadata::from([("project".into(), "lake".into())]),
        },
        ..task(owner, now)
    };
    tasks::insert(conn, &task)?;
    let change = LedgerChange {
        held: task.reserved,
        ..LedgerChange::default()
    };
    ledger::add(conn, subject(&task), EntryKind::Reserve, change, None, now)?;
    Ok(task)
}

fn subject(task: &Task) -> EntrySubject<'_> {
    EntrySubject {
        account: task.account,
        key: Some(task.key),
        task: Some(task.id),
        model: Some(&task.model),
        attribution: Some(&task.attribution),
    }
}

/// Ends a task, which costs four cents.
fn settle(conn: &mut Conn<'_>, task: &Task, now: Timestamp) -> Result<(), StoreError> {
    let cost = MicroDollars::new(40_000);
    let ending = TaskEnding {
        state: TaskState::Succeeded,
        cost,
        money: ChargeState::Settled,
        bill: None,
        output: None,
        failure: None,
    };
    tasks::finish(conn, task.id, None, &ending, now)?.unwrap();
    let change = LedgerChange {
        held: MicroDollars::ZERO.minus(task.reserved),
        spent: cost,
        final_state: Some(TaskState::Succeeded),
        ..LedgerChange::default()
    };
    ledger::add(conn, subject(task), EntryKind::Settle, change, None, now)?;
    attributed_sums::add_job(
        conn,
        task,
        "acme",
        JobCost::Made(MicroDollars::new(10)),
        now,
    )
}

async fn sums_follow_the_tasks_of_a_user(db: Fixture) {
    const DAY: i64 = 86_400;
    db.write(|conn| {
        let owner = owner(conn)?;
        let (account, key) = owner;
        let first = insert(conn, owner, at(0))?;
        let second = insert(conn, owner, at(0))?;
        insert(conn, owner, at(DAY))?;
        settle(conn, &first, at(1))?;
        settle(conn, &second, at(DAY))?;
        let dollars = |held, spent, counted, open_tasks| UserSums {
            held: MicroDollars::new(held),
            spent: MicroDollars::new(spent),
            counted: MicroDollars::new(counted),
            open_tasks,
        };
        for (period, sums) in [
            (None, dollars(100_000, 80_000, 80_000, 1)),
            (Some(BudgetPeriod::Day), dollars(100_000, 80_000, 40_000, 1)),
            (
                Some(BudgetPeriod::Month),
                dollars(100_000, 80_000, 80_000, 1),
            ),
        ] {
            assert_eq!(
                end_users::sums(conn, account, "ada", period, at(DAY))?,
                sums
            );
        }
        let nobody = end_users::sums(conn, account, "grace", None, at(DAY))?;
        assert_eq!(nobody, UserSums::default());
        let filter = UsageFilter {
            account,
            from: at(-DAY),
            before: at(2 * DAY),
            model: None,
            key: None,
        };
        let project = Attribute::Metadata("project".into());
        let mut rows = attributed_sums::daily_rows(conn, &filter, &project, None, 10)?;
        rows.sort_by_key(|(_, usage)| usage.day);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].0.as_str(), rows[0].1.key), ("lake", key));
        assert_eq!(rows[0].1.paid, MicroDollars::new(40_000));
        assert_eq!(rows[0].1.ended[0], (TaskState::Succeeded, 1));
        for (value, count) in [("lake", 2), ("sea", 0)] {
            let rows = attributed_sums::daily_rows(conn, &filter, &project, Some(value), 10)?;
            assert_eq!(rows.len(), count, "{value}");
        }
        for of_account in [None, Some(account)] {
            let query = HourlyQuery {
                from: at(-DAY),
                before: at(2 * DAY),
                account: of_account,
                provider: None,
                model: None,
                key: Some(key),
                outcome: None,
                step: None,
                by_account: true,
                by_provider: false,
                by_model: false,
                by_key: false,
                by_outcome: false,
            };
            let user = Attribute::User;
            let sums = attributed_sums::sums(conn, &query, &user, None, 10)?;
            let filtered = attributed_sums::sums(conn, &query, &user, Some("ada"), 10)?;
            assert_eq!(filtered, sums);
            let others = attributed_sums::sums(conn, &query, &user, Some("grace"), 10)?;
            assert_eq!(others, []);
            let [(group, value, sum)] = &sums[..] else {
                panic!("{sums:?}");
            };
            assert_eq!(
                (group.account.clone(), value.as_str()),
                (account.to_string(), "ada")
            );
            let expected = HourlySum {
                succeeded: 2,
                charged: MicroDollars::new(80_000),
                made: MicroDollars::new(20),
                ..HourlySum::default()
            };
            assert_eq!(*sum, expected);
            let all = hourly_sums::sums(conn, &query, 10)?;
            assert_eq!(all[0].1.without(sum).charged, MicroDollars::ZERO);
        }
        let stored = tasks::by_id(conn, first.id, account)?.unwrap();
        assert_eq!(stored.attribution, first.attribution);
        Ok(())
    })
    .await;
}

async fn an_alert_is_written_once(db: Fixture) {
    db.write(|conn| {
        let (account, key) = owner(conn)?;
        let alert = BudgetAlert {
            id: AlertId::new(),
            account,
            owner: BudgetOwner::Key,
            owner_id: key.to_string(),
            period_start: None,
            budget: MicroDollars::new(100),
            percent: 50,
            used: MicroDollars::new(60),
            at: at(1),
        };
        assert!(budget_alerts::insert(conn, &alert)?);
        let again = BudgetAlert {
            id: AlertId::new(),
            used: MicroDollars::new(70),
            at: at(2),
            ..alert.clone()
        };
        assert!(!budget_alerts::insert(conn, &again)?);
        let next = BudgetAlert {
            period_start: Some(at(0)),
            ..again
        };
        assert!(budget_alerts::insert(conn, &next)?);
        assert_eq!(
            budget_alerts::since(conn, at(0), 10)?,
            [alert, next.clone()]
        );
        assert_eq!(budget_alerts::since(conn, at(2), 10)?, [next]);
        Ok(())
    })
    .await;
}

//! Verdicts of moderation: each is in the audit log and in the hourly sums.

use serde_json::{Value, json};

use super::inputs::{self, OrderInput};
use super::{CheckOutcome, CheckVerdict, OrderSubject};
use crate::app::{App, Ctx};
use crate::domain::{accounts, request_log};
use mediagate_model::account::{Caller, Scope};
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, AuditId, KeyId};
use mediagate_store::moderation::{CountedVerdict, VerdictGroup, VerdictQuery};
use mediagate_store::{self as store, Conn};

/// Longest text that is kept with a verdict, in characters.
const MAX_KEPT_CHARS: usize = 10_000;
/// Maximum number of groups that are read.
const MAX_GROUPS_READ: u32 = 10_000;
/// Maximum number of groups that are returned.
const MAX_GROUPS: usize = 1000;

/// Logs and counts the verdicts about an order, in one transaction.
pub(super) async fn record(
    app: &App,
    caller: &Caller,
    subject: OrderSubject<'_>,
    inputs: &[OrderInput],
    verdicts: &[CheckVerdict],
) -> Result<(), Error> {
    let (now, account, key) = (app.clock.now(), caller.account.id, caller.key.id);
    let kept = app.config.moderation.keep.then(|| kept_texts(inputs));
    let mut rows = Vec::with_capacity(verdicts.len());
    for verdict in verdicts {
        let entry = AuditEntry {
            id: AuditId::new(),
            at: now,
            actor: Actor {
                kind: ActorKind::Configuration,
                id: None,
                name: format!("moderation.checks[{}]", verdict.check),
            },
            action: format!("moderation.{}", verdict.outcome.name()),
            target: subject
                .task
                .map_or_else(|| subject.kind.to_owned(), |task| task.to_string()),
            before: None,
            after: Some(description(caller, subject, verdict, kept.as_ref())),
            request_id: subject.request.map(ToString::to_string),
            address: None,
            // In the log in which the key's own changes are.
            account: (!caller.key.may(Scope::Admin)).then_some(account),
        };
        let category = verdict.outcome.category().map(str::to_owned);
        rows.push((entry, verdict.outcome.name(), category));
    }
    let (model, user) = (subject.model.to_owned(), subject.user.map(str::to_owned));
    let write = app
        .store
        .write(move |conn: &mut Conn<'_>| -> Result<(), Error> {
            for (entry, outcome, category) in &rows {
                store::audit::insert(conn, entry)?;
                let counted = CountedVerdict {
                    account,
                    key,
                    user: user.as_deref(),
                    model: &model,
                    outcome,
                    category: category.as_deref(),
                };
                store::moderation::add(conn, counted, now)?;
            }
            Ok(())
        });
    store::await_within_limit(write).await
}

/// What the log says about a verdict.
fn description(
    caller: &Caller,
    subject: OrderSubject<'_>,
    verdict: &CheckVerdict,
    kept: Option<&Value>,
) -> Value {
    let mut text = json!({
        "stage": "order",
        "protocol": verdict.protocol,
        "kind": subject.kind,
        "model": subject.model,
        "key": caller.key.id.to_string(),
        "user": subject.user,
    });
    match &verdict.outcome {
        CheckOutcome::Allow => {}
        CheckOutcome::Refuse { finding, param } => {
            text["category"] = json!(finding.category);
            text["param"] = json!(param);
            text["reason"] = json!(finding.reason);
        }
        CheckOutcome::Error(fault) => text["error"] = json!(fault.to_string()),
    }
    if let Some(kept) = kept {
        text["texts"] = kept.clone();
    }
    text
}

/// The texts of an order with their fields.
fn kept_texts(inputs: &[OrderInput]) -> Value {
    let texts = inputs::texts(inputs).into_iter().map(|(param, text)| {
        let kept: String = text.chars().take(MAX_KEPT_CHARS).collect();
        json!({"param": param, "text": kept})
    });
    texts.collect()
}

/// The verdicts of a group, with the names that its ids stand for.
#[derive(Debug, Clone)]
pub struct CountedVerdicts {
    pub group: VerdictGroup,
    /// The handle of the account.
    pub account: Option<String>,
    pub key_name: Option<String>,
    pub count: i64,
}

/// The numbers of verdicts, the largest groups first.
pub async fn counts(app: &Ctx, query: VerdictQuery) -> Result<Vec<CountedVerdicts>, Error> {
    let read = app
        .store
        .long_read(move |conn| store::moderation::counts(conn, &query, MAX_GROUPS_READ));
    let mut counts = store::await_within_limit(read).await?;
    counts.sort_by(|(group, count), (other_group, other_count)| {
        let by_count = other_count.cmp(count);
        by_count.then_with(|| group.cmp(other_group))
    });
    counts.truncate(MAX_GROUPS);
    let ids = counts.iter().filter_map(|(group, _)| account_in(group));
    let ids: Vec<AccountId> = ids.collect();
    let handles = accounts::handles(app, ids.into_iter()).await?;
    let ids = counts.iter().filter_map(|(group, _)| key_in(group));
    let ids: Vec<KeyId> = ids.collect();
    let key_names = request_log::key_names(app, ids.into_iter()).await?;
    let counted = counts.into_iter().map(|(group, count)| CountedVerdicts {
        account: account_in(&group).and_then(|id| handles.get(&id).cloned()),
        key_name: key_in(&group).and_then(|id| key_names.get(&id).cloned()),
        group,
        count,
    });
    Ok(counted.collect())
}

/// The account of a group, if the query groups by it.
fn account_in(group: &VerdictGroup) -> Option<AccountId> {
    group.account.parse().ok()
}

/// The key of a group, if the query groups by it.
fn key_in(group: &VerdictGroup) -> Option<KeyId> {
    group.key.parse().ok()
}

/// Removes the sums of hours that are older than the accounts' audit logs.
pub async fn forget_old(app: &Ctx) -> Result<(), Error> {
    let before = app.clock.cutoff(app.config.audit_ttl);
    loop {
        let deletion = app
            .store
            .write(move |conn| store::moderation::forget_hour(conn, before));
        if deletion.await? == 0 {
            return Ok(());
        }
    }
}

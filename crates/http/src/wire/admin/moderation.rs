//! Verdicts of moderation, counted by group.

use serde::Serialize;
use utoipa::ToSchema;

use crate::page_params::{GroupNames, RowGroups};
use crate::wire::requests::RequestKey;
use mediagate_core::domain::moderation::CountedVerdicts;

/// What verdicts can be grouped by, besides their outcome.
pub(crate) struct VerdictGroups;

impl GroupNames for VerdictGroups {
    const ALL: &'static [&'static str] = &["category", "key", "user", "model", "account"];
    const DEFAULT: &'static [&'static str] = &["category", "key", "user", "model"];
}

/// The number of verdicts that have the same values. Values that the query does not group by are
/// absent.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerdictCountObject {
    /// Always `verdict_count`.
    pub object: &'static str,
    /// `allow`, `refuse`, or `error` if a check gave no verdict.
    pub outcome: String,
    /// Handle of the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub account: Option<Option<String>>,
    /// What the check objected to. Null for `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub category: Option<Option<String>>,
    /// The API key of the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RequestKey>)]
    pub key: Option<Option<RequestKey>>,
    /// The model. Null for personas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    /// The end user. Null if the order named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub user: Option<Option<String>>,
    /// The number of verdicts.
    pub count: i64,
}

/// The verdicts of a time by group, the largest groups first, at most 1000 groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerdictCountList {
    /// Always `list`.
    pub object: &'static str,
    /// The groups.
    pub data: Vec<VerdictCountObject>,
    /// The sum of these groups.
    pub total: i64,
}

impl VerdictCountList {
    pub(crate) fn new(counts: Vec<CountedVerdicts>, groups: &RowGroups) -> Self {
        let total = counts.iter().map(|counted| counted.count).sum();
        let data = counts
            .into_iter()
            .map(|counted| VerdictCountObject::new(counted, groups));
        Self {
            object: "list",
            data: data.collect(),
            total,
        }
    }
}

impl VerdictCountObject {
    fn new(counted: CountedVerdicts, groups: &RowGroups) -> Self {
        let CountedVerdicts {
            group,
            account,
            key_name,
            count,
        } = counted;
        // A sum has an empty text where there is no value.
        let value = |text: String| (!text.is_empty()).then_some(text);
        let key = value(group.key).map(|id| RequestKey {
            id,
            name: key_name.unwrap_or_default(),
        });
        Self {
            object: "verdict_count",
            outcome: group.outcome,
            account: groups.contains("account").then_some(account),
            category: groups.contains("category").then_some(value(group.category)),
            key: groups.contains("key").then_some(key),
            model: groups.contains("model").then_some(value(group.model)),
            user: groups.contains("user").then_some(value(group.user)),
            count,
        }
    }
}

//! The log of requests: its entries, and the errors in it by group.

use serde::Serialize;
use utoipa::ToSchema;

use crate::fields::parameters::parameters;
use crate::fields::types::{IdField, OptionalText};
use crate::page_params::{
    ErrorCodeField, GroupField, GroupNames, ListPage, RowGroups, StatusField, TimeField,
};
use crate::wire::list::List;
use mediagate_core::domain::request_log::{CountedErrors, ListedRequest};
use mediagate_model::ids::{KeyId, RequestEntryId};
use mediagate_store::request_log::{ErrorGrouping, RequestFilter};
use mediagate_store::tasks::PageQuery;

parameters! {
    /// The filters of the log of requests.
    pub(crate) struct RequestParameters {
        /// An HTTP status such as 402, or a class of statuses such as 4xx
        status: StatusField,
        /// An error code
        code: ErrorCodeField,
        /// The route as the entries have it, for example `/v1/videos`
        route: OptionalText<200>,
        /// The id of an API key
        key: IdField<KeyId>,
        /// A model's name
        model: OptionalText<200>,
        /// Only requests that were answered at or after this time: RFC 3339 or a date
        since: TimeField,
        /// Only requests that were answered before this time: RFC 3339 or a date
        until: TimeField,
        /// A request id (`x-request-id`)
        q: OptionalText<200>,
        /// Count errors instead of listing requests: any of `code`, `key`, `model`, `route`,
        /// `status` and `account`, separated by commas. The page's parameters are not used then
        group_by: GroupField<RequestGroups>,
        + page: ListPage<RequestEntryId>,
    }
}

/// What errors can be grouped by.
pub(crate) struct RequestGroups;

impl GroupNames for RequestGroups {
    const ALL: &'static [&'static str] = &["code", "key", "model", "route", "status", "account"];
    const DEFAULT: &'static [&'static str] = &["code"];
}

/// A query of the log.
pub(crate) enum RequestQuery {
    List(RequestFilter, PageQuery<RequestEntryId>),
    Count(RequestFilter, ErrorGrouping),
}

impl RequestParameters {
    pub(crate) fn into_query(self) -> RequestQuery {
        let filter = RequestFilter {
            account: None,
            statuses: self.status,
            code: self.code,
            route: self.route,
            key: self.key,
            model: self.model,
            since: self.since,
            until: self.until,
            request_id: self.q.map(|text| text.trim().to_owned()),
        };
        match self.group_by {
            Some(groups) => RequestQuery::Count(filter, grouping(&groups)),
            None => RequestQuery::List(filter, self.page.into_query()),
        }
    }
}

fn grouping(groups: &RowGroups) -> ErrorGrouping {
    ErrorGrouping {
        by_account: groups.contains("account"),
        by_code: groups.contains("code"),
        by_key: groups.contains("key"),
        by_model: groups.contains("model"),
        by_route: groups.contains("route"),
        by_status: groups.contains("status"),
    }
}

/// The API key of a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct RequestKey {
    /// The key's id.
    pub id: String,
    /// The key's name.
    pub name: String,
}

/// An entry of the log of requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct RequestObject {
    /// The entry's id.
    pub id: String,
    /// Always `request`.
    pub object: &'static str,
    /// The id of the request, as in `x-request-id`. Callers may use one several times.
    pub request_id: String,
    /// Time at which the response began.
    pub time: String,
    /// The HTTP method.
    pub method: String,
    /// Path of the endpoint, with the names of its parameters. Null if there is no such endpoint.
    #[schema(required = true)]
    pub route: Option<String>,
    /// The HTTP status of the response.
    pub status: u32,
    /// The error's code. Null if the request succeeded.
    #[schema(required = true)]
    pub code: Option<String>,
    /// The error's message. Long messages are cut.
    #[schema(required = true)]
    pub message: Option<String>,
    /// The API key. Null if the request had no valid key.
    #[schema(required = true)]
    pub key: Option<RequestKey>,
    /// The task's model, or the model that the request named.
    #[schema(required = true)]
    pub model: Option<String>,
    /// Id of the task that the response is about.
    #[schema(required = true)]
    pub task: Option<String>,
    /// Milliseconds until the response began.
    pub milliseconds: u64,
    /// Handle of the account. For operators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl RequestObject {
    /// An entry as an operator sees it.
    pub fn for_operator(listed: ListedRequest) -> Self {
        let account = listed.account.clone();
        Self {
            account,
            ..Self::for_account(listed)
        }
    }

    /// An entry as its account sees it.
    pub fn for_account(listed: ListedRequest) -> Self {
        let ListedRequest {
            entry, key_name, ..
        } = listed;
        Self {
            id: entry.id.to_string(),
            object: "request",
            request_id: entry.request_id.to_string(),
            time: entry.at.rfc3339(),
            method: entry.method,
            route: entry.route,
            status: entry.status,
            code: entry.code,
            message: entry.message,
            key: entry.key.map(|id| RequestKey {
                id: id.to_string(),
                name: key_name.unwrap_or_default(),
            }),
            model: entry.model,
            task: entry.task.map(|task| task.to_string()),
            milliseconds: entry.took_ms,
            account: None,
        }
    }
}

/// The number of errors that have the same values. Values that the query does not group by are
/// absent.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorCountObject {
    /// Always `error_count`.
    pub object: &'static str,
    /// Handle of the account. Null for requests without a valid key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub account: Option<Option<String>>,
    /// The error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub code: Option<Option<String>>,
    /// The API key. Null for requests without a valid key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RequestKey>)]
    pub key: Option<Option<RequestKey>>,
    /// The model. Null for requests that named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    /// The route. Null for addresses where there is no endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub route: Option<Option<String>>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// The number of errors.
    pub count: i64,
    /// Time of the first one.
    pub first_time: String,
    /// Time of the last one.
    pub last_time: String,
}

/// The errors of a time by group, the largest groups first, at most 1000 groups.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorCountList {
    /// Always `list`.
    pub object: &'static str,
    /// The groups.
    pub data: Vec<ErrorCountObject>,
    /// The sum of all groups, with those that are not in the list.
    pub total: i64,
}

impl ErrorCountList {
    pub fn new(counts: Vec<CountedErrors>, total: i64, grouping: ErrorGrouping) -> Self {
        let data = counts.into_iter().map(|counted| {
            let CountedErrors {
                group,
                account,
                key_name,
                count,
            } = counted;
            let key = group.key.map(|id| RequestKey {
                id: id.to_string(),
                name: key_name.unwrap_or_default(),
            });
            ErrorCountObject {
                object: "error_count",
                account: grouping.by_account.then_some(account),
                code: grouping.by_code.then_some(group.code),
                key: grouping.by_key.then_some(key),
                model: grouping.by_model.then_some(group.model),
                route: grouping.by_route.then_some(group.route),
                status: group.status,
                count: count.count,
                first_time: count.first_at.rfc3339(),
                last_time: count.last_at.rfc3339(),
            }
        });
        Self {
            object: "list",
            data: data.collect(),
            total,
        }
    }
}

/// A page of the log, or the errors in it by group.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum RequestList {
    /// Without `group_by`.
    Entries(List<RequestObject>),
    /// With `group_by`.
    Errors(ErrorCountList),
}

impl RequestList {
    pub fn entries(entries: Vec<RequestObject>, has_more: bool) -> Self {
        Self::Entries(List::new(entries, has_more, |entry| entry.id.clone()))
    }
}

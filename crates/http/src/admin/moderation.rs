//! `/v1/admin/moderation`: how many orders moderation allowed and refused.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use super::account_of_filter;
use crate::auth::{Admin, AllowedCaller};
use crate::error::ErrorResponse;
use crate::fields::parameters::parameters;
use crate::fields::types::{IdField, OptionalText};
use crate::page_params::{GroupField, RowGroups, TimeField};
use crate::query::Query;
use crate::wire::admin::moderation::{VerdictCountList, VerdictGroups};
use mediagate_core::app::App;
use mediagate_core::domain::moderation;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::KeyId;
use mediagate_store::moderation::VerdictQuery;

/// How finely verdicts are counted.
const HOUR: Duration = Duration::from_hours(1);

parameters! {
    /// The filters and groups of verdicts.
    pub(crate) struct ModerationParameters {
        /// Only for the account with this handle
        account: OptionalText<100>,
        /// Only this category
        category: OptionalText<100>,
        /// The id of an API key
        key: IdField<KeyId>,
        /// A model's name
        model: OptionalText<200>,
        /// An end user, as orders name it in `user`
        user: OptionalText<200>,
        /// Only verdicts at or after the hour of this time: RFC 3339 or a date
        since: TimeField,
        /// Only verdicts until the end of the hour of this time: RFC 3339 or a date. A time at the
        /// beginning of an hour excludes that hour
        until: TimeField,
        /// Any of `category`, `key`, `user`, `model` and `account`, separated by commas. Default:
        /// all but `account`
        group_by: GroupField<VerdictGroups>,
    }
}

/// Count the verdicts of moderation.
///
/// They are counted by the hour, and kept as long as the accounts' audit logs (`audit_ttl`).
#[utoipa::path(get, path = "/v1/admin/moderation", tag = "admin", params(ModerationParameters),
    responses((status = 200, description = "The numbers of verdicts by group", body = VerdictCountList)))]
pub(crate) async fn count(
    _: AllowedCaller<Admin>,
    Query(query): Query<ModerationParameters>,
    State(app): State<App>,
) -> Result<Json<VerdictCountList>, ErrorResponse> {
    let groups = RowGroups::or_default::<VerdictGroups>(query.group_by);
    let account = account_of_filter(&app, query.account).await?;
    let until = query.until.unwrap_or_else(|| app.clock.now().plus(HOUR));
    let query = VerdictQuery {
        since: query.since.unwrap_or(Timestamp::from_micros(0)),
        // Every hour that began before.
        until: Timestamp::from_micros(until.plus(HOUR).micros() - 1),
        account,
        key: query.key,
        model: query.model,
        user: query.user,
        category: query.category,
        by_account: groups.contains("account"),
        by_key: groups.contains("key"),
        by_user: groups.contains("user"),
        by_model: groups.contains("model"),
        by_category: groups.contains("category"),
    };
    let counts = moderation::counts(&app, query).await?;
    Ok(Json(VerdictCountList::new(counts, &groups)))
}

//! `[find]`: how the job of a lost submission is searched for, by the order's key or in a list, and
//! checks of that section.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::answers::{AnswerStage, keep};
use super::call_template::CallTemplate;
use super::calls::Find;
use super::fault::{CheckResult, RecipeFault};
use super::placeholder::ValueNames;
use super::schema::Recipe;
use super::{RecipeAdapter, order_values};
use crate::error::ProviderError;
use crate::order::{Order, WorkSpec};
use crate::port::jobs::list::{MAX_LIST_BYTES, agrees};
use crate::port::{Call, CallTarget, FoundJob, JobHandle, LookupPage, MatchCertainty};
use crate::response::ProviderResponse;
use crate::timestamps;

impl Find {
    /// Whether the call itself requests one job by the order's key.
    fn is_by_key(&self) -> bool {
        self.items.is_none() && self.request().mentions("key")
    }

    /// How certain it is that a job is the order's; `None` if it is not. `sent_fields` are those
    /// of the request that submitted it.
    fn identity(
        &self,
        order: &Order,
        sent_fields: Option<&Map<String, Value>>,
        job: &Value,
    ) -> Option<MatchCertainty> {
        if let Some(pointers) = &self.reference {
            let is_match = pointers.text(job)? == order.idempotency_key;
            return is_match.then_some(MatchCertainty::Certain);
        }
        if self.is_by_key() {
            return Some(MatchCertainty::Certain);
        }
        let WorkSpec::Video(video) = &order.work else {
            return None;
        };
        let is_alike = self.prompt.as_ref()?.text(job)? == video.prompt
            && self.model.as_ref()?.text(job)? == order.model;
        // These two have their own places in a job, and a key says nothing about the film. Anything
        // else that was sent must be there under its own name.
        let mut others = sent_fields?.clone();
        let has_own_place =
            [&video.prompt, &order.model, &order.idempotency_key].map(|text| json!(text));
        others.retain(|_, value| !has_own_place.contains(value));
        let is_same = others.is_empty() || agrees(&others, job);
        (is_alike && is_same).then_some(MatchCertainty::Likely)
    }

    /// The next page's URL or cursor.
    fn next_page(&self, body: &Value, items: &[Value]) -> Option<String> {
        let has_more = self.more.as_ref().is_none_or(|more| more.holds(body));
        if items.is_empty() || !has_more {
            return None;
        }
        self.next.as_ref()?.text(body)
    }
}

impl RecipeAdapter {
    /// The call that searches for an order's job.
    pub(super) fn find_call(&self, order: &Order) -> Option<Call> {
        let find = self.recipe.find.as_ref()?;
        let is_by_key = find.reference.is_some() || find.is_by_key();
        // A list shows no files.
        if !is_by_key && self.sent_fields(order).is_none() {
            return None;
        }
        self.page(find, order, None).ok()
    }

    /// The fields of the request that submits the order; `None` if it contains files.
    fn sent_fields(&self, order: &Order) -> Option<Map<String, Value>> {
        if order.has_files() {
            return None;
        }
        let call = self.next(order, &[]).ok()?;
        call.with_extra(&order.extra).text_fields()
    }

    /// The first page, or the one at this URL or cursor.
    fn page(
        &self,
        find: &Find,
        order: &Order,
        next: Option<String>,
    ) -> Result<Call, ProviderError> {
        let values = order_values::values(&self.recipe, order, &[])?;
        let mut call = find.request().call("find", &self.recipe, &values)?;
        call.limit_bytes = MAX_LIST_BYTES;
        Ok(match (next, &find.next_query) {
            (None, _) => call,
            (Some(cursor), Some(name)) => call.with_query(name, cursor),
            (Some(url), None) => {
                // The next page's URL contains its query.
                call.query.clear();
                call.with_target(CallTarget::Address(url))
            }
        })
    }

    /// The jobs of an answer that may be the order's.
    pub(super) fn read_matches(
        &self,
        order: &Order,
        since: SystemTime,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let (Some(find), Some(_)) = (&self.recipe.find, self.find_call(order)) else {
            return Err(ProviderError::unreadable("no look-up was started"));
        };
        let mut lookup = LookupPage::default();
        // For a single job, this status means that there is none. A missing list is an error.
        if find.items.is_none() && matches!(answer.status.as_u16(), 404 | 410) {
            return Ok(lookup);
        }
        let body = self.recipe.accepted_body(answer, AnswerStage::Later)?;
        let items = match &find.items {
            None => std::slice::from_ref(&body),
            Some(pointers) => pointers.list(&body).ok_or_else(|| {
                ProviderError::unreadable("the provider's response has no list of jobs")
            })?,
        };
        let sent_fields = self.sent_fields(order);
        let keep_pointers = find.keep.as_ref().unwrap_or(&self.recipe.submit.keep);
        for job in items {
            let Some(identity) = find.identity(order, sent_fields.as_ref(), job) else {
                continue;
            };
            let Ok(kept) = keep(keep_pointers.get_ref(), job) else {
                // The job is the order's, but it could not be polled without these values.
                continue;
            };
            let handle = self.handle(order, kept)?;
            let found = find.job(order, handle, job, identity, since);
            lookup.jobs.extend(found);
        }
        if find.items.is_some()
            && let Some(next) = find.next_page(&body, items)
        {
            lookup = lookup.with_next_page(Some(self.page(find, order, Some(next))?));
        }
        Ok(lookup)
    }
}

impl Find {
    fn job(
        &self,
        order: &Order,
        handle: JobHandle,
        job: &Value,
        identity: MatchCertainty,
        since: SystemTime,
    ) -> Option<FoundJob> {
        let created_at = self.created_at.as_ref();
        let created_at = created_at.and_then(|pointers| timestamps::read(pointers.first(job)?));
        match identity {
            MatchCertainty::Certain => Some(FoundJob::certain(handle, created_at)),
            MatchCertainty::Likely => FoundJob::likely(order, handle, created_at, since),
        }
    }
}

impl Recipe {
    /// Checks `[find]`, given the values of an order.
    pub(super) fn check_find(&self, names: &ValueNames<'_>) -> CheckResult {
        let Some(find) = &self.find else {
            return Ok(());
        };
        self.check_request(&find.request(), names)?;
        let span = find.path.span();
        let fault = |message: &str| Err(RecipeFault::new(&span, message));
        let has_key = find.reference.is_some() || find.is_by_key();
        let sends_key = |request: CallTemplate<'_>| request.mentions("key");
        // An order that was sent without the key could never be found by it.
        if has_key && !self.submit.requests().into_iter().all(sends_key) {
            return fault("[find] looks up jobs by {key}, but the submission does not send it");
        }
        let has_content = find.prompt.is_some() && find.model.is_some() && self.video.is_some();
        if !has_key && !has_content {
            return fault(
                "[find] must set where a job contains {key} (reference), or the prompt and model of a video (prompt, model)",
            );
        }
        find.check_pages()?;
        let Some(kept) = &find.keep else {
            return Ok(());
        };
        let mut all = self.submit.keep.get_ref().keys();
        match all.find(|name| !kept.get_ref().contains_key(*name)) {
            Some(name) => {
                let message = format!("{name} is in [submit.keep] and must be kept here too");
                Err(RecipeFault::new(&kept.span(), message))
            }
            None => Ok(()),
        }
    }
}

impl Find {
    fn check_pages(&self) -> CheckResult {
        let span = self.path.span();
        let has_pages = self.next.is_some() || self.more.is_some();
        let message = if self.items.is_none() && has_pages {
            "[find] has pages but no list (items)"
        } else if self.next_query.is_some() && self.next.is_none() {
            "next_query requires next, which locates its value"
        } else {
            return Ok(());
        };
        Err(RecipeFault::new(&span, message))
    }
}

//! `[find]`: how the job of a lost submission is looked for, by the order's key
//! or in a list, and what is wrong with a recipe that says so.

use std::time::SystemTime;

use serde_json::Value;

use super::answers::{Stage, keep};
use super::calls::Find;
use super::fault::{Checked, Fault};
use super::placeholder::Names;
use super::request::Request;
use super::schema::Recipe;
use super::{Cook, order};
use crate::answer::Answer;
use crate::error::ProviderError;
use crate::order::{Order, Work};
use crate::port::jobs::list::LIST;
use crate::port::{Call, Found, FoundJob, Handle, Identity, Target};
use crate::when;

impl Find {
    /// Whether the call itself asks for one job by the order's key.
    fn is_by_key(&self) -> bool {
        self.items.is_none() && self.request().mentions("key")
    }

    /// How a job was told to be the order's; `None` when it is not.
    fn identity(&self, order: &Order, job: &Value) -> Option<Identity> {
        if let Some(places) = &self.reference {
            return (places.text(job)? == order.key).then_some(Identity::Certain);
        }
        if self.is_by_key() {
            return Some(Identity::Certain);
        }
        let Work::Video(video) = &order.work else {
            return None;
        };
        let is_alike = self.prompt.as_ref()?.text(job)? == video.prompt
            && self.model.as_ref()?.text(job)? == order.model;
        is_alike.then_some(Identity::Likely)
    }

    /// Where the next page is: its address or mark.
    fn after(&self, body: &Value, items: &[Value]) -> Option<String> {
        let goes_on = self.more.as_ref().is_none_or(|more| more.holds(body));
        if items.is_empty() || !goes_on {
            return None;
        }
        self.next.as_ref()?.text(body)
    }
}

impl Cook {
    /// The call that looks for an order's job.
    pub(super) fn look_for(&self, order: &Order) -> Option<Call> {
        let find = self.recipe.find.as_ref()?;
        self.page(find, order, None).ok()
    }

    /// The first page, or the one at this address or mark.
    fn page(
        &self,
        find: &Find,
        order: &Order,
        next: Option<String>,
    ) -> Result<Call, ProviderError> {
        let values = order::values(&self.recipe, order, &[])?;
        let mut call = find.request().call("find", &self.recipe, &values)?;
        call.limit_bytes = LIST;
        Ok(match (next, &find.next_query) {
            (None, _) => call,
            (Some(mark), Some(name)) => call.with_query(name, mark),
            (Some(address), None) => {
                // It has its query in it.
                call.query.clear();
                call.to(Target::Address(address))
            }
        })
    }

    /// The jobs of an answer that may be the order's.
    pub(super) fn seen(
        &self,
        order: &Order,
        since: SystemTime,
        answer: &Answer,
    ) -> Result<Found, ProviderError> {
        let Some(find) = &self.recipe.find else {
            return Err(ProviderError::unreadable("nothing was looked for"));
        };
        let mut found = Found::default();
        if find.items.is_none() && matches!(answer.status.as_u16(), 404 | 410) {
            return Ok(found);
        }
        let body = self.recipe.accepted(answer, Stage::Later)?;
        let items = match &find.items {
            None => std::slice::from_ref(&body),
            Some(places) => places.list(&body).ok_or_else(|| {
                ProviderError::unreadable("the provider's answer has no list of jobs")
            })?,
        };
        let wanted = find.keep.as_ref().unwrap_or(&self.recipe.submit.keep);
        for job in items {
            let Some(identity) = find.identity(order, job) else {
                continue;
            };
            let Ok(kept) = keep(wanted.get_ref(), job) else {
                // It is there, and nobody can say which it is.
                continue;
            };
            let handle = self.handle(order, kept)?;
            found.jobs.extend(find.job(handle, job, identity, since));
        }
        if find.items.is_some()
            && let Some(next) = find.after(&body, items)
        {
            found = found.and_then(Some(self.page(find, order, Some(next))?));
        }
        Ok(found)
    }
}

impl Find {
    fn job(
        &self,
        handle: Handle,
        job: &Value,
        identity: Identity,
        since: SystemTime,
    ) -> Option<FoundJob> {
        let created_at = self.created_at.as_ref();
        let created_at = created_at.and_then(|places| when::read(places.first(job)?));
        match identity {
            Identity::Certain => Some(FoundJob::certain(handle, created_at)),
            Identity::Likely => FoundJob::likely(handle, created_at, since),
        }
    }
}

impl Recipe {
    /// What is wrong with `[find]`, where an order has these values.
    pub(super) fn check_find(&self, names: &Names<'_>) -> Checked {
        let Some(find) = &self.find else {
            return Ok(());
        };
        self.check_request(&find.request(), names)?;
        let at = find.path.span();
        let wrong = |message: &str| Err(Fault::new(&at, message));
        let is_sure = find.reference.is_some() || find.is_by_key();
        let hands_over = |request: Request<'_>| request.mentions("key");
        if is_sure && !self.submit.requests().into_iter().all(hands_over) {
            return wrong("[find] goes by {key}, but the submission does not hand it over");
        }
        let by_content = find.prompt.is_some() && find.model.is_some() && self.video.is_some();
        if !is_sure && !by_content {
            return wrong(
                "[find] must say where a job repeats {key} (reference), or the prompt and the model of a video (prompt, model)",
            );
        }
        find.check_pages()?;
        let Some(kept) = &find.keep else {
            return Ok(());
        };
        let mut all = self.submit.keep.get_ref().keys();
        match all.find(|name| !kept.get_ref().contains_key(*name)) {
            Some(name) => {
                let message = format!("{name} is kept of a submission, and must be kept here too");
                Err(Fault::new(&kept.span(), message))
            }
            None => Ok(()),
        }
    }
}

impl Find {
    fn check_pages(&self) -> Checked {
        let at = self.path.span();
        let has_pages = self.next.is_some() || self.more.is_some();
        let message = if self.items.is_none() && has_pages {
            "[find] has pages and no list (items)"
        } else if self.next_query.is_some() && self.next.is_none() {
            "next_query needs next, the place of what goes into it"
        } else {
            return Ok(());
        };
        Err(Fault::new(&at, message))
    }
}

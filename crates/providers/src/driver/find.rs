//! Look-up of the job of a submission whose answer was lost.

use std::time::SystemTime;

use super::provider::Provider;
use super::step::LOOKUP_RETRIES;
use super::{Driver, redact};
use crate::error::{ErrorClass, ProviderError};
use crate::order::Order;
use crate::port::{CallEffect, FoundJob, MatchCertainty};
use crate::secret::Secret;

/// Maximum number of calls of one look-up: pages of a list.
const MAX_PAGES: usize = 5;

/// The result of a look-up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LookupResult {
    /// The jobs that may be the order's, oldest first, those of unknown age last, each once. If one
    /// has the order's key ([`MatchCertainty::Certain`]), only such jobs are included. Of likely
    /// matches, the caller has to exclude those that it knows as jobs of other submissions.
    pub jobs: Vec<FoundJob>,
}

impl LookupResult {
    /// The job that is certainly the order's.
    pub fn certain(&self) -> Option<&FoundJob> {
        let first = self.jobs.first();
        first.filter(|job| job.identity == MatchCertainty::Certain)
    }

    /// Adds the jobs of a page; returns true if no further page is needed.
    fn add_page(&mut self, page: Vec<FoundJob>) -> bool {
        for job in page {
            // The list may grow while it is read, which moves jobs to the next page.
            if !self
                .jobs
                .iter()
                .any(|existing| existing.handle == job.handle)
            {
                self.jobs.push(job);
            }
        }
        let is_certain = |job: &FoundJob| job.identity == MatchCertainty::Certain;
        let has_certain = self.jobs.iter().any(is_certain);
        // With a certain match, the likely ones are jobs of other orders.
        if has_certain {
            self.jobs.retain(is_certain);
        }
        has_certain
    }
}

impl Driver {
    /// Searches for the job of an order that was submitted at `since` (the gateway's clock) and
    /// whose answer was lost. `None` if the provider does not support that. Nothing is submitted;
    /// calls are retried like polls, and at most five pages are read.
    ///
    /// An error proves nothing about the job: retry if its class is temporary
    /// ([`crate::ErrorClass::is_transient`]).
    pub async fn find(
        &self,
        provider: &Provider,
        secret: &Secret,
        order: &Order,
        since: SystemTime,
    ) -> Result<Option<LookupResult>, ProviderError> {
        let lookup = find_jobs(provider, secret, order, since).await;
        lookup.map_err(|error| redact::error(error, secret))
    }
}

async fn find_jobs(
    provider: &Provider,
    secret: &Secret,
    order: &Order,
    since: SystemTime,
) -> Result<Option<LookupResult>, ProviderError> {
    let adapter = provider.adapter();
    let Some(mut call) = adapter.find(order, since) else {
        return Ok(None);
    };
    let mut lookup = LookupResult::default();
    for _ in 0..MAX_PAGES {
        // A look-up must not be charged for, even if the adapter has a bug.
        if call.effect != CallEffect::Free {
            let bug = "bug in the adapter: its look-up would submit a job";
            return Err(ProviderError::new(ErrorClass::Unclear, bug));
        }
        let read_page =
            |context: &_, answer: &_| adapter.read_lookup(order, since, context, answer);
        let page = provider
            .call_with_retries(secret, &call, LOOKUP_RETRIES, read_page)
            .await?;
        let is_settled = lookup.add_page(page.jobs);
        match page.next {
            Some(next) if !is_settled => call = *next,
            _ => break,
        }
    }
    // Lists usually begin with the newest. Times may be whole seconds, and the sort is stable, so
    // the reversed list determines the order within a second.
    lookup.jobs.reverse();
    lookup
        .jobs
        .sort_by_key(|job| (job.created_at.is_none(), job.created_at));
    Ok(Some(lookup))
}

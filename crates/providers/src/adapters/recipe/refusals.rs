//! Proofs of refusal in a recipe: `[[submit.refusal]]`, and the codes of `[errors.codes]` with a
//! success status.

use serde::Deserialize;
use toml::Spanned;

use super::fault::{CheckResult, RecipeFault};
use super::schema::Recipe;
use crate::error::ErrorClass;
use crate::port::RefusalRule;

/// `[[submit.refusal]]`: refusals that the provider's documentation lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefusalSection {
    statuses: Spanned<Vec<u16>>,
    /// As in `[errors.codes]`.
    #[serde(default)]
    codes: Vec<String>,
    /// The page that says so.
    source: Spanned<String>,
}

/// The source of a recipe's codes, which the recipe has from the provider's list of errors.
const CODES_SOURCE: &str = "the recipe's [errors.codes]";

impl Recipe {
    pub(super) fn refusals(&self) -> Vec<RefusalRule<'_>> {
        let is_refusal = |class| ErrorClass::from(class).is_refusal();
        let codes = self.errors.codes.iter();
        let codes = codes.filter(|(_, class)| is_refusal(**class));
        let by_codes = RefusalRule::error_codes(codes.map(|(code, _)| code.as_str()), CODES_SOURCE);
        let documented = self.submit.refusal.iter().map(|section| RefusalRule {
            statuses: section.statuses.get_ref().clone(),
            codes: section.codes.iter().map(String::as_str).collect(),
            source: section.source.get_ref(),
        });
        let mut rules = vec![RefusalRule::http_statuses()];
        // A row without codes would make the status 200 alone prove a refusal.
        rules.extend(Some(by_codes).filter(|rule| !rule.codes.is_empty()));
        rules.extend(documented);
        rules
    }

    pub(super) fn check_refusals(&self) -> CheckResult {
        for section in &self.submit.refusal {
            if section.source.get_ref().trim().is_empty() {
                let message = "source is empty; name the provider's page that states that such a request is not processed";
                return Err(RecipeFault::new(&section.source.span(), message));
            }
            let statuses = section.statuses.get_ref();
            if statuses.is_empty() || !statuses.iter().all(|status| (200..=599).contains(status)) {
                let message = "statuses must contain at least one status from 200 to 599";
                return Err(RecipeFault::new(&section.statuses.span(), message));
            }
            // A success does not refuse anything by itself, and the others may come from a proxy.
            let proves_nothing = |status: &u16| matches!(status, 0..=399 | 408 | 425 | 499..);
            if section.codes.is_empty() && statuses.iter().any(proves_nothing) {
                let message = "such a status can also come from a proxy that lost the provider's response; add codes";
                return Err(RecipeFault::new(&section.statuses.span(), message));
            }
        }
        Ok(())
    }
}

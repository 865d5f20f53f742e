//! Checks of a recipe: reads one and reports its fault, by line.
//!
//! Parsing checks the syntax and the names of lines; these checks need the whole recipe: templates
//! with unknown names, words with two meanings, limits that the calls do not use.

use std::collections::BTreeMap;

use toml::Spanned;

use super::calls::VariantCondition;
use super::fault::{CheckResult, RecipeFault, nearest, with_suggestion};
use super::placeholder::{ValueKind, ValueNames};
use super::schema::{Recipe, TemplateMap};
use super::{limits, order_values};

/// Reads and checks a recipe.
pub(super) fn read(text: &str) -> Result<Recipe, RecipeFault> {
    let recipe: Recipe = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        RecipeFault::new(&span, with_suggestion(error.message()))
    })?;
    recipe.check()?;
    Ok(recipe)
}

impl Recipe {
    fn check(&self) -> CheckResult {
        self.check_head()?;
        let video = self.video.iter().flat_map(|_| order_values::VIDEO);
        let music = self.music.iter().flat_map(|_| order_values::MUSIC);
        let specs = order_values::COMMON_VALUES.iter().chain(video).chain(music);
        let names: ValueNames<'_> = specs.map(|&(name, kind, _)| (name, kind)).collect();
        let submit = &self.submit;
        for variant in &submit.variant {
            check_when(&variant.when, &names)?;
        }
        for request in submit.requests() {
            self.check_request(&request, &names)?;
        }
        self.check_templates(&submit.remember, &names)?;
        for variant in &submit.variant {
            if let Some(remember) = &variant.remember {
                self.check_templates(remember, &names)?;
                // Later calls do not know which variant an order was sent by, so every one has to
                // remember the same names.
                let covers = |names: &TemplateMap, others: &TemplateMap| {
                    names.keys().all(|name| others.contains_key(name))
                };
                if !covers(remember, &submit.remember) || !covers(&submit.remember, remember) {
                    let message =
                        "remember must have the same names in each variant as in [submit]";
                    return Err(RecipeFault::new(&variant.when.span(), message));
                }
            }
        }
        self.check_upload(&names)?;
        self.check_persona()?;
        self.check_sign()?;
        self.check_later()?;
        self.check_find(&names)?;
        self.check_words()?;
        self.check_refusals()?;
        self.check_result()?;
        limits::check(self)
    }

    fn check_head(&self) -> CheckResult {
        if let Some(url) = &self.base_url {
            let is_valid = url::Url::parse(url.get_ref())
                .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            if !is_valid {
                return Err(RecipeFault::new(
                    &url.span(),
                    "base_url must be an http or https URL",
                ));
            }
        }
        if let Some(header) = &self.auth.header {
            let name = http::HeaderName::from_bytes(header.get_ref().as_bytes());
            if name.is_err() {
                return Err(RecipeFault::new(
                    &header.span(),
                    "this is not a valid header name",
                ));
            }
        }
        if self.video.is_none() && self.music.is_none() {
            let message = "the recipe must have [video] or [music]";
            return Err(RecipeFault::new(&self.submit.path.span(), message));
        }
        Ok(())
    }

    /// The calls after the submission.
    fn check_later(&self) -> CheckResult {
        let keep = self.submit.keep.get_ref();
        if keep.is_empty() {
            let message = "[submit.keep] must not be empty: it identifies the job";
            return Err(RecipeFault::new(&self.submit.keep.span(), message));
        }
        let kept = keep.keys().chain(self.submit.remember.keys());
        let names: ValueNames<'_> = kept.map(|name| (name.as_str(), ValueKind::Text)).collect();
        self.check_request(&self.poll.request(), &names)?;
        if let Some(cancel) = &self.cancel {
            self.check_request(&cancel.request(), &names)?;
        }
        if let Some(path) = &self.result.content {
            self.check_path(path, &names)?;
        }
        self.check_templates(&self.result.content_query, &names)
    }

    fn check_words(&self) -> CheckResult {
        let state = &self.state;
        let lists = [
            ("queued", &state.queued),
            ("running", &state.running),
            ("done", &state.done),
            ("failed", &state.failed),
            ("refused", &state.refused),
            ("lost", &state.lost),
        ];
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (list, words) in lists {
            for word in words {
                if let Some(first) = seen.insert(word.get_ref(), list) {
                    let message = format!("{:?} is both in {first} and in {list}", word.get_ref());
                    return Err(RecipeFault::new(&word.span(), message));
                }
            }
        }
        match &state.word {
            Some(at) if state.done.is_empty() && state.done_when.is_none() => {
                let message = "[state] has no word for done; add done = [ … ]";
                Err(RecipeFault::new(&at.span(), message))
            }
            None if state.done_when.is_none() || !seen.is_empty() => {
                let message = "[state] must have the location of the status word (word = \"/status\"), or a condition for finished jobs (done_when)";
                Err(RecipeFault::new(&self.poll.path.span(), message))
            }
            _ => Ok(()),
        }
    }

    fn check_result(&self) -> CheckResult {
        let result = &self.result;
        let span = self.poll.path.span();
        if result.address.is_some() == result.content.is_some() {
            let message = "[result] must have either address or content";
            return Err(RecipeFault::new(&span, message));
        }
        if result.items.is_some() && (self.music.is_none() || result.address.is_none()) {
            let message = "items requires [music] and address";
            return Err(RecipeFault::new(&span, message));
        }
        Ok(())
    }
}

fn check_when(when: &Spanned<VariantCondition>, names: &ValueNames<'_>) -> CheckResult {
    let value_names = when.get_ref().names();
    if value_names.is_empty() {
        return Err(RecipeFault::new(
            &when.span(),
            "when must name at least one value",
        ));
    }
    let mut all = value_names.iter();
    all.try_for_each(|name| check_name(&Spanned::new(when.span(), name.clone()), names))
}

pub(super) fn check_name(name: &Spanned<String>, names: &ValueNames<'_>) -> CheckResult {
    let text = name.get_ref().as_str();
    if names.contains_key(text) {
        return Ok(());
    }
    let suggestion = nearest(text, names.keys().copied());
    let message = format!("{text:?} is not a value of an order{suggestion}");
    Err(RecipeFault::new(&name.span(), message))
}

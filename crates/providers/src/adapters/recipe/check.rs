//! Reads a recipe and says what is wrong with one, by line.
//!
//! The syntax and the names of lines are checked by reading; here is what only
//! the whole recipe shows: templates that name what is not there, words with two
//! meanings, limits that promise what the calls do not ask for.

use std::collections::BTreeMap;

use toml::Spanned;

use super::calls::When;
use super::fault::{Checked, Fault, explained, nearest};
use super::placeholder::{Names, Sort};
use super::schema::{Recipe, Templates};
use super::{limits, order};
use crate::order::StemGroup;

/// Reads and checks a recipe.
pub(super) fn read(text: &str) -> Result<Recipe, Fault> {
    let recipe: Recipe = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        Fault::new(&span, explained(error.message()))
    })?;
    recipe.check()?;
    Ok(recipe)
}

impl Recipe {
    fn check(&self) -> Checked {
        self.check_head()?;
        let video = self.video.iter().flat_map(|_| order::VIDEO);
        let stems = self.stems.iter().flat_map(|_| order::STEMS);
        let music = self.music.iter().flat_map(|_| order::MUSIC);
        let known = order::ANY
            .into_iter()
            .chain(video)
            .chain(stems)
            .chain(music);
        let names: Names<'_> = known.map(|(name, sort, _)| (name, sort)).collect();
        let submit = &self.submit;
        for variant in &submit.variant {
            check_when(&variant.when, &names)?;
        }
        for request in submit.requests() {
            self.check_request(&request, &names)?;
        }
        self.check_templates(&submit.remember, &names)?;
        for variant in &submit.variant {
            if let Some(own) = &variant.remember {
                self.check_templates(own, &names)?;
                let same = |one: &Templates, other: &Templates| {
                    one.keys().all(|name| other.contains_key(name))
                };
                if !same(own, &submit.remember) || !same(&submit.remember, own) {
                    let message =
                        "remember must have the same names in each variant as in [submit]";
                    return Err(Fault::new(&variant.when.span(), message));
                }
            }
        }
        self.check_upload(&names)?;
        self.check_persona()?;
        self.check_sign()?;
        self.check_later()?;
        self.check_find(&names)?;
        self.check_words()?;
        self.check_errors()?;
        self.check_refusals()?;
        self.check_result()?;
        limits::check(self)
    }

    fn check_head(&self) -> Checked {
        if let Some(url) = &self.base_url {
            let is_good = url::Url::parse(url.get_ref())
                .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            if !is_good {
                return Err(Fault::new(
                    &url.span(),
                    "base_url is no http or https address",
                ));
            }
        }
        if let Some(header) = &self.auth.header {
            let name = http::HeaderName::from_bytes(header.get_ref().as_bytes());
            if name.is_err() {
                return Err(Fault::new(&header.span(), "this is no name of a header"));
            }
        }
        if let Some(said) = self.deduplicates.as_ref().filter(|said| *said.get_ref()) {
            let all = self.submit.requests();
            if !all.iter().all(|request| request.mentions("key")) {
                let message = "deduplicates = true, but the submission does not hand over {key}";
                return Err(Fault::new(&said.span(), message));
            }
        }
        let none = Fault::new(
            &self.submit.path.span(),
            "the recipe needs [video], [stems] or [music]",
        );
        if self.video.is_none() && self.stems.is_none() && self.music.is_none() {
            return Err(none);
        }
        Ok(())
    }

    /// The calls after the submission.
    fn check_later(&self) -> Checked {
        let keep = self.submit.kept();
        let said = self.submit.keep.as_ref();
        let at = said.map_or(self.submit.path.span(), Spanned::span);
        let Some(poll) = &self.poll else {
            return self.check_no_later();
        };
        if keep.is_empty() {
            let message = "[submit.keep] is empty: how is the job to be found again?";
            return Err(Fault::new(&at, message));
        }
        let kept = keep.keys().chain(self.submit.remember.keys());
        let mut names: Names<'_> = kept.map(|name| (name.as_str(), Sort::Text)).collect();
        self.check_request(&poll.request(), &names)?;
        if let Some(cancel) = &self.cancel {
            self.check_request(&cancel.request(), &names)?;
        }
        for status in poll.statuses.keys() {
            check_status(status, 100..=599)?;
        }
        if let Some(lookup) = &self.result.lookup {
            names.extend(lookup.keep.keys().map(|name| (name.as_str(), Sort::Text)));
            self.check_request(&lookup.request(), &names)?;
        }
        if let Some(path) = &self.result.content {
            self.check_path(path, &names)?;
        }
        self.check_templates(&self.result.content_query, &names)
    }

    /// What a recipe without jobs cannot say.
    fn check_no_later(&self) -> Checked {
        let result = &self.result;
        let later = [
            ("[cancel]", self.cancel.is_some()),
            ("[find]", self.find.is_some()),
            ("[result.lookup]", result.lookup.is_some()),
            ("content", result.content.is_some()),
            (
                "[state]",
                self.state.word.is_some() || self.state.done_when.is_some(),
            ),
        ];
        match later.into_iter().find(|(_, is_said)| *is_said) {
            Some((line, _)) => {
                let message = format!(
                    "{line} is about a job, and without [poll] the answer to the submission is the result"
                );
                Err(Fault::new(&self.submit.path.span(), message))
            }
            None => Ok(()),
        }
    }

    fn check_words(&self) -> Checked {
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
                    let message = format!(
                        "{:?} is in {first} and in {list}: what does it mean?",
                        word.get_ref()
                    );
                    return Err(Fault::new(&word.span(), message));
                }
            }
        }
        match &state.word {
            Some(at) if state.done.is_empty() && state.done_when.is_none() => {
                let message = "no word of [state] means done; name some in done = [ … ]";
                Err(Fault::new(&at.span(), message))
            }
            None if self.poll.is_none() && seen.is_empty() => Ok(()),
            None if state.done_when.is_none() || !seen.is_empty() => {
                let message = "[state] must say where the status word is (word = \"/status\"), or what is true of a job that is done (done_when)";
                let at = self
                    .poll
                    .as_ref()
                    .map_or(&self.submit.path, |poll| &poll.path);
                Err(Fault::new(&at.span(), message))
            }
            _ => Ok(()),
        }
    }

    fn check_errors(&self) -> Checked {
        for status in self.errors.statuses.keys() {
            check_status(status, 400..=599)?;
            if status.get_ref() == "408" || status.get_ref().starts_with('5') {
                let message = "such a status does not tell whether the order was taken, so it is always unclear; use [errors.codes] for what the provider itself says";
                return Err(Fault::new(&status.span(), message));
            }
        }
        Ok(())
    }

    fn check_result(&self) -> Checked {
        let result = &self.result;
        let at = self
            .poll
            .as_ref()
            .map_or(&self.submit.path, |poll| &poll.path);
        let at = at.span();
        if result.answer && (self.poll.is_some() || self.stems.is_some()) {
            let message = "answer = true is for videos and songs that are the answer to the order, without [poll]";
            return Err(Fault::new(&at, message));
        }
        let ways = [
            result.answer,
            result.address.is_some(),
            result.content.is_some(),
            result.base64.is_some(),
        ];
        let ways = ways.into_iter().filter(|is_there| *is_there).count();
        if (self.video.is_some() || self.music.is_some()) && ways != 1 {
            let message = "[result] must say one of address, content, base64 and answer";
            return Err(Fault::new(&at, message));
        }
        if result.items.is_some() && (self.music.is_none() || result.address.is_none()) {
            let message = "items is for the clips of [music], with the address of each";
            return Err(Fault::new(&at, message));
        }
        if self.stems.is_some() && result.stems.is_empty() {
            return Err(Fault::new(&at, "[result.stems] is missing"));
        }
        let Some(stems) = &self.stems else {
            return Ok(());
        };
        let groups = stems.get_ref().groups.keys();
        let special = |name: &str| matches!(name, "rest" | "other");
        for (name, may_be_special) in groups
            .map(|name| (name, false))
            .chain(result.stems.keys().map(|name| (name, true)))
        {
            let text = name.get_ref().as_str();
            if StemGroup::from_name(text).is_none() && !(may_be_special && special(text)) {
                let known = StemGroup::ALL.map(|group| group.name().to_lowercase());
                let meant = nearest(&text.to_lowercase(), known.iter().map(String::as_str));
                let message = format!("{text:?} is no group of instruments{meant}");
                return Err(Fault::new(&name.span(), message));
            }
        }
        Ok(())
    }
}

fn check_when(when: &Spanned<When>, names: &Names<'_>) -> Checked {
    let of_order = when.get_ref().names();
    if of_order.is_empty() {
        return Err(Fault::new(&when.span(), "when names no value"));
    }
    let mut all = of_order.iter();
    all.try_for_each(|name| check_name(&Spanned::new(when.span(), name.clone()), names))
}

pub(super) fn check_name(name: &Spanned<String>, names: &Names<'_>) -> Checked {
    let text = name.get_ref().as_str();
    if names.contains_key(text) {
        return Ok(());
    }
    let meant = nearest(text, names.keys().copied());
    let message = format!("{text:?} is no value of an order{meant}");
    Err(Fault::new(&name.span(), message))
}

fn check_status(status: &Spanned<String>, range: std::ops::RangeInclusive<u16>) -> Checked {
    let number = status.get_ref().parse::<u16>();
    if number.is_ok_and(|number| range.contains(&number)) {
        return Ok(());
    }
    let message = format!(
        "{:?} is no status from {} to {}, which alone may be given a meaning here",
        status.get_ref(),
        range.start(),
        range.end()
    );
    Err(Fault::new(&status.span(), message))
}

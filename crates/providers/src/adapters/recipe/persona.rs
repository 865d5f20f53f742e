//! `[persona]`: the call that makes a voice of a clip which the provider made.
//! Its answer is the persona.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use toml::Spanned;

use super::Cook;
use super::answers::Stage;
use super::body::Node;
use super::calls::{Encoding, Verb, call, post};
use super::fault::{Checked, Fault};
use super::placeholder::{Datum, Sort, Values};
use super::pointer::Places;
use super::request::Request;
use super::schema::{Recipe, Templates};
use super::template::Template;
use crate::answer::Answer;
use crate::error::{Class, ProviderError};
use crate::order::{Order, Persona};
use crate::port::{Call, Output, Source, Step, What};

/// The stage of the call.
pub(super) const PERSONA: &str = "persona";

call! {
    /// `[persona]`.
    PersonaSection, "post" {
        /// What the answer calls the persona.
        pub(super) id: Places,
    }
}

/// What the call may name.
pub(super) fn names() -> BTreeMap<&'static str, Sort> {
    let texts = [
        "clip",
        "job",
        "name",
        "description",
        "public",
        "key",
        "model",
    ];
    texts.map(|name| (name, Sort::Text)).into()
}

impl Cook {
    /// The call that makes a persona.
    pub(super) fn persona(&self, order: &Order, persona: &Persona) -> Result<Call, ProviderError> {
        let Some(section) = &self.recipe.persona else {
            let message = "the provider's recipe describes no personas";
            return Err(ProviderError::new(Class::Rejected, message));
        };
        let described = match persona.description.trim() {
            "" => &persona.name,
            text => text,
        };
        let mut values = Values::from([
            ("clip", Datum::Plain(json!(persona.root_clip))),
            ("name", Datum::Plain(json!(persona.name))),
            ("description", Datum::Plain(json!(described))),
            ("public", Datum::Plain(json!(persona.is_public))),
            ("key", Datum::Plain(json!(order.key))),
            ("model", Datum::Plain(json!(order.model))),
        ]);
        if let Some(job) = &persona.root_job {
            values.insert("job", Datum::Plain(json!(job)));
        }
        let call = section.request().call(PERSONA, &self.recipe, &values)?;
        Ok(call.submits())
    }

    /// The persona that the answer tells of.
    pub(super) fn persona_made(&self, answer: &Answer) -> Result<Step, ProviderError> {
        let record = self.recipe.accepted(answer, Stage::Submission)?;
        let section = self.recipe.persona.as_ref();
        let id = section.and_then(|section| section.id.text(&record));
        let id =
            id.ok_or_else(|| ProviderError::unreadable("the provider's answer names no persona"))?;
        Step::done(vec![Output {
            what: What::Persona { id, record },
            source: Source::Nothing,
        }])
    }
}

impl Recipe {
    pub(super) fn check_persona(&self) -> Checked {
        let Some(persona) = &self.persona else {
            return Ok(());
        };
        self.check_request(&persona.request(), &names())?;
        let requests = self.submit.requests();
        if !requests.iter().any(|request| request.mentions("persona")) {
            let message = "no song names the {persona} that [persona] makes";
            return Err(Fault::new(&persona.path.span(), message));
        }
        Ok(())
    }
}

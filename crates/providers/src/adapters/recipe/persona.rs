//! `[persona]`: the call that makes a voice from a clip of the provider. Its answer is the persona.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use toml::Spanned;

use super::RecipeAdapter;
use super::answers::AnswerStage;
use super::body::BodyNode;
use super::call_template::CallTemplate;
use super::calls::{BodyEncoding, HttpMethod, call, post};
use super::fault::{CheckResult, RecipeFault};
use super::placeholder::{TemplateValue, TemplateValues, ValueKind};
use super::pointer::PointerList;
use super::schema::{Recipe, TemplateMap};
use super::template::Template;
use crate::error::{ErrorClass, ProviderError};
use crate::order::{Order, PersonaSpec};
use crate::port::{AdapterStep, Call, JobOutput, OutputKind, OutputSource};
use crate::response::ProviderResponse;

/// The stage of the call.
pub(super) const PERSONA: &str = "persona";

call! {
    /// `[persona]`.
    PersonaSection, "post" {
        /// The place of the persona's id in the answer.
        pub(super) id: PointerList,
    }
}

/// The names that the call may use.
pub(super) fn names() -> BTreeMap<&'static str, ValueKind> {
    let texts = [
        "clip",
        "job",
        "name",
        "description",
        "public",
        "key",
        "model",
    ];
    texts.map(|name| (name, ValueKind::Text)).into()
}

impl RecipeAdapter {
    /// The call that makes a persona.
    pub(super) fn persona(
        &self,
        order: &Order,
        persona: &PersonaSpec,
    ) -> Result<Call, ProviderError> {
        let Some(section) = &self.recipe.persona else {
            let message = "the provider's recipe does not support personas";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        };
        let description = match persona.description.trim() {
            "" => &persona.name,
            text => text,
        };
        let mut values = TemplateValues::from([
            ("clip", TemplateValue::Plain(json!(persona.root_clip))),
            ("name", TemplateValue::Plain(json!(persona.name))),
            ("description", TemplateValue::Plain(json!(description))),
            ("public", TemplateValue::Plain(json!(persona.is_public))),
            ("key", TemplateValue::Plain(json!(order.idempotency_key))),
            ("model", TemplateValue::Plain(json!(order.model))),
        ]);
        if let Some(job) = &persona.root_job {
            values.insert("job", TemplateValue::Plain(json!(job)));
        }
        let call = section.request().call(PERSONA, &self.recipe, &values)?;
        Ok(call.mark_submission())
    }

    /// The persona in the answer.
    pub(super) fn persona_made(
        &self,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let record = self.recipe.accepted_body(answer, AnswerStage::Submission)?;
        let section = self.recipe.persona.as_ref();
        let id = section.and_then(|section| section.id.text(&record));
        let id = id.ok_or_else(|| {
            ProviderError::unreadable("the provider's response contains no persona id")
        })?;
        AdapterStep::done(vec![JobOutput {
            kind: OutputKind::Persona { id, record },
            source: OutputSource::Nothing,
        }])
    }
}

impl Recipe {
    pub(super) fn check_persona(&self) -> CheckResult {
        let Some(persona) = &self.persona else {
            return Ok(());
        };
        self.check_request(&persona.request(), &names())?;
        let requests = self.submit.requests();
        if !requests.iter().any(|request| request.mentions("persona")) {
            let message = "no song uses {persona}, which [persona] creates";
            return Err(RecipeFault::new(&persona.path.span(), message));
        }
        Ok(())
    }
}

//! Handles of jobs, and their results.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answers;
use super::call_template::CallTemplate;
use super::calls::{BodyEncoding, HttpMethod};
use super::pointer::text_of;
use super::{RecipeAdapter, order_values};
use crate::error::ProviderError;
use crate::order::{Order, WorkSpec};
use crate::port::{AdapterStep, ClipFacts, JobHandle, JobOutput, OutputKind};

impl RecipeAdapter {
    /// The handle of a job.
    pub(super) fn handle(
        &self,
        order: &Order,
        mut kept: Map<String, Value>,
    ) -> Result<JobHandle, ProviderError> {
        let values = order_values::values(&self.recipe, order, &[])?;
        let remembered = self
            .recipe
            .submit
            .values_to_remember(|name| order_values::has(&values, name));
        for (name, template) in remembered {
            let value = template.get_ref().text(&values, &self.recipe.maps)?;
            // An empty string instead of none, because a call whose path needs a missing value
            // cannot be made.
            kept.insert(name.clone(), json!(value.unwrap_or_default()));
        }
        let mut handle = json!({"kept": kept});
        if let WorkSpec::Song(song) = &order.work {
            handle["song"] = json!(ClipFacts::from_song(song, &order.model));
        }
        Ok(JobHandle(handle))
    }

    /// The results, from the answer that contains them.
    pub(super) fn finish(
        &self,
        handle: &JobHandle,
        body: &Value,
    ) -> Result<AdapterStep, ProviderError> {
        let result = &self.recipe.result;
        let kind = handle.output_kind();
        if let (OutputKind::Clip(facts), Some(_)) = (&kind, &result.address) {
            let music = self.recipe.music.as_ref();
            let max_clips = music.map_or(1, |music| music.get_ref().clips);
            let job = handle.0.pointer("/kept/id").and_then(text_of);
            let mut clips = result.clips_in(body, facts, job.as_deref());
            // The task has room for as many clips as its model offered when the task was accepted.
            clips.truncate(max_clips);
            return AdapterStep::done(clips);
        }
        if let Some(path) = &result.content {
            let request = CallTemplate {
                method: HttpMethod::Get,
                path,
                query: &result.content_query,
                headers: &BTreeMap::new(),
                encoding: BodyEncoding::Json,
                body: None,
            };
            let call = request.call("content", &self.recipe, &answers::kept_values(handle))?;
            return AdapterStep::done(vec![answers::output_from_call(call, kind)]);
        }
        let source = result.addresses_in(body).into_iter().next();
        let output = source.map(|source| JobOutput { kind, source });
        AdapterStep::done(output.into_iter().collect())
    }
}

//! What names a job, and what it made.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answers;
use super::calls::{Encoding, Verb};
use super::pointer::text_of;
use super::request::Request;
use super::{Cook, order};
use crate::error::ProviderError;
use crate::order::{Order, Work};
use crate::port::{ClipFacts, Handle, Output, Step, What};

impl Cook {
    /// What names a job from now on.
    pub(super) fn handle(
        &self,
        order: &Order,
        mut kept: Map<String, Value>,
    ) -> Result<Handle, ProviderError> {
        let values = order::values(&self.recipe, order, &[])?;
        let remembered = self
            .recipe
            .submit
            .remembered(|name| order::has(&values, name));
        for (name, template) in remembered {
            let value = template.get_ref().text(&values, &self.recipe.maps)?;
            kept.insert(name.clone(), json!(value.unwrap_or_default()));
        }
        let mut handle = json!({"kept": kept});
        if let Work::Song(song) = &order.work {
            handle["song"] = json!(ClipFacts::of_song(song, &order.model));
        }
        Ok(Handle(handle))
    }

    /// The results, from the answer that tells of them.
    pub(super) fn finish(&self, handle: &Handle, body: &Value) -> Result<Step, ProviderError> {
        let result = &self.recipe.result;
        let what = handle.what();
        if let (What::Clip(facts), Some(_)) = (&what, &result.address) {
            let music = self.recipe.music.as_ref();
            let most = music.map_or(1, |music| music.get_ref().clips);
            let job = handle.0.pointer("/kept/id").and_then(text_of);
            let mut clips = result.clips_in(body, facts, job.as_deref());
            clips.truncate(most);
            return Step::done(clips);
        }
        if let Some(path) = &result.content {
            let request = Request {
                method: Verb::Get,
                path,
                query: &result.content_query,
                headers: &BTreeMap::new(),
                encoding: Encoding::Json,
                body: None,
            };
            let call = request.call("content", &self.recipe, &answers::kept(handle))?;
            return Step::done(vec![answers::result_by(call, what)]);
        }
        let source = result.addresses_in(body).into_iter().next();
        let output = source.map(|source| Output { what, source });
        Step::done(output.into_iter().collect())
    }
}

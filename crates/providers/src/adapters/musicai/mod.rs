//! `musicai`: music.ai (Moises). A job runs a workflow that was put together on
//! its pages; the route's model is the workflow's slug.
//!
//! Sources: `musicai_sdk` 1.0.4 (Python) on the wire, the documentation.
//!
//! ```text
//! GET    /upload     → {uploadUrl, downloadUrl}; PUT the bytes to the first, without the credential
//! POST   /job        {name, workflow, params: {inputUrl: downloadUrl}} → {id}
//! GET    /job/{id}   {status: QUEUED │ STARTED │ SUCCEEDED │ FAILED, result: {name: address}, error}
//! DELETE /job/{id}   removes a job
//! ```
//!
//! The names in `result` are set by the workflow, so what it makes is said in
//! the settings (`stems`), and what it delivered is read by those names; values
//! that are no addresses, and names that say nothing, are left out.
//!
//! Unknown: whether removing a job stops it, so that is not taken as proof;
//! the members of `error`; how long result addresses live.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::adapters::{Protocol, stem_names};
use crate::answer::{Answer, Described, required_text, text_at};
use crate::error::{Class, ProviderError};
use crate::limits::{Handover, Limits, MusicLimits, StemLimits};
use crate::order::{Kind, Order, StemGroup, StemTarget, Work};
use crate::port::{
    Adapter, Asked, Authorization, Body, Call, Handle, Output, Pace, Step, TELLING, Target,
};
use crate::secret::Secret;
use crate::settings::{Settings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "musicai",
    base_url: Some("https://api.music.ai/v1"),
    options: &["stems", "input"],
    anonymous: false,
    build,
};

fn build(settings: &Settings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let mut names = settings.list("stems")?;
    if names.is_empty() {
        names = ["vocals", "drums", "bass", "other"]
            .map(str::to_owned)
            .to_vec();
    }
    let read = |name: &String| {
        stem_names::target(name)
            .ok_or_else(|| SettingsError::at("stems", format!("{name:?} is no stem's name")))
    };
    Ok(Arc::new(MusicAi {
        stems: names.iter().map(read).collect::<Result<_, _>>()?,
        input: settings.text("input")?.unwrap_or("inputUrl").to_owned(),
    }))
}

#[derive(Debug)]
struct MusicAi {
    /// What the workflows deliver.
    stems: Vec<StemTarget>,
    /// The parameter that holds the recording's address.
    input: String,
}

impl Adapter for MusicAi {
    fn limits(&self, kind: Kind, _: &str) -> Option<Limits> {
        let mut groups: Vec<StemGroup> = Vec::new();
        let mut rests = Vec::new();
        for stem in &self.stems {
            match stem {
                StemTarget::Only(group) if !groups.contains(group) => groups.push(*group),
                StemTarget::Without(group) => rests.push(*group),
                _ => {}
            }
        }
        rests.retain(|group| groups.contains(group));
        (kind == Kind::Music).then(|| {
            Limits::Music(MusicLimits {
                stems: Some(StemLimits {
                    two: true,
                    full: groups.len() > 1,
                    groups,
                    rests,
                    other: self.stems.contains(&StemTarget::Other),
                    handover: Handover::Any,
                }),
                tasks: Vec::new(),
                personas: false,
            })
        })
    }

    fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(3), Duration::from_secs(30))
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("authorization", secret))
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        match &order.work {
            Work::Stems(_) => Ok(Call::get("grant", "/upload")),
            _ => Err(ProviderError::new(
                Class::Rejected,
                "this provider separates recordings only",
            )),
        }
    }

    fn submitted(
        &self,
        order: &Order,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Step, ProviderError> {
        let Work::Stems(stems) = &order.work else {
            return Err(ProviderError::unreadable("nothing of this kind was sent"));
        };
        match asked.stage.as_ref() {
            "grant" => {
                let grant = answer.success(describe)?;
                let put = Call::new("put", Method::PUT, "")
                    .to(Target::Address(required_text(&grant, "/uploadUrl")?))
                    .with_body(Body::Bytes {
                        bytes: stems.source.file.bytes.clone(),
                        mime: stems.source.file.mime.into(),
                    })
                    .with_memo(json!(required_text(&grant, "/downloadUrl")?))
                    .without_credential()
                    .works(TELLING);
                Ok(Step::next(put))
            }
            "put" if !answer.status.is_success() => Err(answer.failure(describe)),
            "put" => {
                // The name is how an unclear submission is found on its pages.
                let body = json!({
                    "name": order.key, "workflow": order.model, "params": {self.input.as_str(): asked.memo},
                });
                Ok(Step::next(Call::post("submit", "/job", body).submits()))
            }
            _ => {
                let body = answer.success(describe)?;
                Ok(Step::submitted(json!({"id": required_text(&body, "/id")?})))
            }
        }
    }

    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/job/{}", handle.text("id"))))
    }

    fn polled(&self, _: &Handle, _: &Asked, answer: &Answer) -> Result<Step, ProviderError> {
        let body = answer.success(describe).map_err(|error| {
            let class = match error.class {
                Class::Rejected if answer.status == 404 => Class::Lost,
                // A job that was taken does not end by a wrong question.
                Class::Rejected | Class::Account => Class::Unclear,
                class => class,
            };
            error.of_class(class)
        })?;
        match text_at(&body, "/status").as_deref() {
            Some("QUEUED" | "STARTED") => Ok(Step::running(None)),
            Some("SUCCEEDED") => {
                let result = body["result"].as_object().into_iter().flatten();
                let outputs = result.filter_map(|(name, value)| {
                    let url = value.as_str().filter(|text| {
                        text.starts_with("https://") || text.starts_with("http://")
                    })?;
                    Some(Output::stem_at(stem_names::target(name)?, url))
                });
                Step::done(outputs.collect())
            }
            Some("FAILED") => {
                let said = describe(&body);
                Err(ProviderError {
                    class: Class::Failed,
                    code: said.code,
                    message: said.message.unwrap_or_else(|| "the workflow failed".into()),
                    retry_after: None,
                })
            }
            Some(word) => Ok(Step::unknown(word)),
            None => Err(ProviderError::unreadable(
                "the provider's answer has no status",
            )),
        }
    }

    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let path = format!("/job/{}", handle.text("id"));
        Some(Call::new("cancel", Method::DELETE, path))
    }

    fn cancelled(&self, _: &Handle, _: &Answer) -> bool {
        false
    }
}

/// `{"code", "title", "message"}`, by itself or as `error`, which may be text.
fn describe(body: &Value) -> Described {
    let inner = body.get("error").unwrap_or(body);
    let message = ["/message", "/title", ""]
        .iter()
        .find_map(|at| text_at(inner, at));
    Described {
        code: text_at(inner, "/code"),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, stems, video};
    use crate::port::{Effect, What};

    #[test]
    fn the_recording_goes_to_the_bucket_and_then_to_the_workflow() {
        let adapter = adapter("musicai", &json!({"input": "Input 1"}));
        let order = stems("my-stems");
        let next = |call: &Call, body: Value| {
            let answer = Answer::json_of(200, &body);
            match adapter.submitted(&order, &call.asked(), &answer).unwrap() {
                Step::Next(call) => *call,
                other => panic!("{other:?}"),
            }
        };
        let grant = adapter.start(&order).unwrap();
        let put = next(
            &grant,
            json!({"uploadUrl": "https://bucket.example/up", "downloadUrl": "https://bucket.example/down"}),
        );
        assert_eq!(put.to, Target::Address("https://bucket.example/up".into()));
        assert!(!put.with_credential);
        assert!(matches!(&put.body, Body::Bytes { bytes, .. } if &bytes[..] == b"fLaC"));
        let submit = next(&put, json!(null));
        assert_eq!(submit.effect, Effect::Submission);
        let Body::Json(body) = &submit.body else {
            panic!("no JSON");
        };
        assert_eq!(
            *body,
            json!({"name": "0197-key", "workflow": "my-stems", "params": {"Input 1": "https://bucket.example/down"}})
        );
        let submitted = |status, body: Value| {
            adapter.submitted(&order, &submit.asked(), &Answer::json_of(status, &body))
        };
        assert!(matches!(
            submitted(200, json!({"id": "j-1"})),
            Ok(Step::Submitted { handle, .. }) if handle.text("id") == "j-1"
        ));
        for (status, class) in [
            (200, Class::Unclear),
            (400, Class::Rejected),
            (401, Class::Credentials),
            (402, Class::Account),
            (429, Class::RateLimited),
            (500, Class::Unclear),
        ] {
            assert_eq!(
                submitted(status, json!({})).unwrap_err().class,
                class,
                "{status}"
            );
        }
        assert_eq!(
            adapter.start(&video("x")).unwrap_err().class,
            Class::Rejected
        );
    }

    fn poll(status: u16, body: &Value) -> Result<Step, ProviderError> {
        let adapter = adapter("musicai", &json!({}));
        let handle = Handle(json!({"id": "j-1"}));
        let asked = adapter.poll(&handle).unwrap().asked();
        adapter.polled(&handle, &asked, &Answer::json_of(status, body))
    }

    #[test]
    fn only_known_words_end_a_job() {
        for word in ["QUEUED", "STARTED"] {
            let step = poll(200, &json!({"status": word})).unwrap();
            assert!(
                matches!(
                    step,
                    Step::Running {
                        unknown_word: None,
                        ..
                    }
                ),
                "{word}"
            );
        }
        let step = poll(200, &json!({"status": "PAUSED"})).unwrap();
        assert!(matches!(step, Step::Running { unknown_word: Some(word), .. } if word == "PAUSED"));
        for error in [
            json!({"code": "E1", "title": "Bad", "message": "no sound"}),
            json!("no sound"),
        ] {
            let failed = poll(200, &json!({"status": "FAILED", "error": error})).unwrap_err();
            assert_eq!(
                (failed.class, failed.message.as_str()),
                (Class::Failed, "no sound")
            );
        }
        for (status, class) in [
            (404, Class::Lost),
            (400, Class::Unclear),
            (429, Class::RateLimited),
            (500, Class::Unclear),
        ] {
            assert_eq!(
                poll(status, &json!({})).unwrap_err().class,
                class,
                "{status}"
            );
        }
    }

    #[test]
    fn the_workflows_names_say_what_it_made() {
        let result = json!({"vocals": "https://cdn.example/v.wav", "Instrumental": "https://cdn.example/i.wav",
            "keys": "https://cdn.example/k.wav", "chords": "https://cdn.example/c.json", "tempo": "120", "other": 3});
        let body = json!({"status": "SUCCEEDED", "result": result});
        let Step::Done { outputs } = poll(200, &body).unwrap() else {
            panic!("not done");
        };
        let mut names: Vec<String> = outputs
            .iter()
            .map(|output| match &output.what {
                What::Stem(target) => target.name(),
                other => panic!("{other:?}"),
            })
            .collect();
        names.sort();
        assert_eq!(names, ["Instrumental", "Keyboard", "Vocals"]);
        let empty = poll(
            200,
            &json!({"status": "SUCCEEDED", "result": {"tempo": "120"}}),
        );
        assert_eq!(empty.unwrap_err().class, Class::Failed);
    }

    #[test]
    fn the_settings_say_what_a_workflow_makes() {
        let limits = |options: Value| match adapter("musicai", &options).limits(Kind::Music, "m") {
            Some(Limits::Music(MusicLimits {
                stems: Some(stems), ..
            })) => stems,
            other => panic!("{other:?}"),
        };
        let usual = limits(json!({}));
        assert_eq!(
            usual.groups,
            [StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass]
        );
        assert!(usual.two && usual.full && usual.other && usual.rests.is_empty());
        let two = limits(json!({"stems": ["vocals", "instrumental"]}));
        assert!(!two.full && !two.other);
        assert_eq!(two.rests, [StemGroup::Vocals]);
        let settings = Settings {
            name: "test".into(),
            base_url: None,
            options: json!({"stems": ["kazoo"]}).as_object().cloned().unwrap(),
        };
        assert_eq!(build(&settings).unwrap_err().key.as_deref(), Some("stems"));
    }

    #[test]
    fn removing_a_job_proves_nothing() {
        let adapter = adapter("musicai", &json!({}));
        let handle = Handle(json!({"id": "j-1"}));
        assert_eq!(adapter.cancel(&handle).unwrap().method, Method::DELETE);
        assert!(!adapter.cancelled(&handle, &Answer::json_of(200, &json!({}))));
    }
}

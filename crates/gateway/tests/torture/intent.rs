//! Intents: what each caller wants, with a tag by which all its traces are found, and the way
//! in which the caller repeats its requests.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::settings::{FILMS, SONGS, SPLITTERS};
use crate::stage::Key;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A chat completion that waits.
    Chat,
    /// One that streams.
    Stream,
    /// `POST /v1/videos`.
    Videos,
    /// A separation.
    Stems,
    /// A song.
    Song,
    /// A persona, at the provider that made its clip.
    Persona,
    /// A recording.
    Upload,
}

/// How the caller makes its repetitions recognizable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RetryStyle {
    /// Counts its tries, as the official SDKs do.
    Counting,
    /// Names what it wants with an `Idempotency-Key`.
    Keyed,
    /// Repeats the identical body and nothing else.
    Plain,
    /// The official Python SDK itself.
    Sdk,
}

/// One thing that one caller wants.
#[derive(Clone)]
pub(crate) struct Intent {
    pub(crate) tag: String,
    pub(crate) kind: Kind,
    pub(crate) style: RetryStyle,
    /// The index of its key.
    pub(crate) key: usize,
    pub(crate) body: Value,
    /// The recording that an upload sends.
    pub(crate) recording: Option<Vec<u8>>,
}

impl std::fmt::Debug for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, style) = (self.kind, self.style);
        write!(f, "{kind:?}, {style:?}, key {}: {}", self.key, self.body)
    }
}

impl Intent {
    /// A random intent with a random style of repetition.
    pub(crate) fn any(dice: &mut Dice, keys: &[Key], recording: &[u8]) -> Self {
        let kind = match dice.roll(100) {
            0..25 => Kind::Chat,
            25..45 => Kind::Stream,
            45..70 => Kind::Videos,
            70..78 => Kind::Stems,
            78..84 => Kind::Song,
            84..92 => Kind::Persona,
            _ => Kind::Upload,
        };
        let style = *dice.pick(&[RetryStyle::Counting, RetryStyle::Keyed, RetryStyle::Plain]);
        let key = usize::try_from(dice.roll(keys.len() as u64)).unwrap();
        Self::new(dice, kind, style, key, &keys[key], recording)
    }

    pub(crate) fn new(
        dice: &mut Dice,
        kind: Kind,
        style: RetryStyle,
        number: usize,
        key: &Key,
        recording: &[u8],
    ) -> Self {
        let tag = dice.tag();
        let (film, size) = *dice.pick(&FILMS);
        let body = body(kind, &tag, dice, key, (film, size));
        Self {
            tag,
            kind,
            style,
            key: number,
            body,
            recording: (kind == Kind::Upload).then(|| recording.to_vec()),
        }
    }

    /// This intent, ordered from this model.
    pub(crate) fn with_model(mut self, model: &str) -> Self {
        let field = if matches!(self.kind, Kind::Stems | Kind::Song) {
            "mv"
        } else {
            "model"
        };
        self.body[field] = json!(model);
        if let Some((_, size)) = FILMS.iter().find(|(name, _)| *name == model) {
            let size_field = if self.kind == Kind::Videos {
                &mut self.body["size"]
            } else {
                &mut self.body["video"]["size"]
            };
            *size_field = json!(size);
            // The model's default length, except for the embedded one.
            if model != "animatic-1" {
                match self.kind {
                    Kind::Videos => self.body["seconds"] = Value::Null,
                    _ => self.body["video"]["seconds"] = Value::Null,
                }
            }
        }
        self
    }

    pub(crate) fn path(&self) -> &'static str {
        match self.kind {
            Kind::Chat | Kind::Stream => "/v1/chat/completions",
            Kind::Videos => "/v1/videos",
            Kind::Stems | Kind::Song => "/musicgen/submit/music",
            Kind::Persona => "/musicgen/persona/create",
            Kind::Upload => "/musicgen/uploads/audio",
        }
    }

    /// Whether its answer waits for the task's end.
    pub(crate) fn waits_for_result(&self) -> bool {
        matches!(self.kind, Kind::Chat | Kind::Stream)
    }

    /// Whether it creates a task.
    pub(crate) fn creates_a_task(&self) -> bool {
        !matches!(self.kind, Kind::Persona | Kind::Upload)
    }

    /// The same body with another tag, so that it is another request with the same key.
    pub(crate) fn with_other_tag(&self) -> Self {
        let mut other = self.clone();
        other.tag = format!(
            "mg-{}",
            self.tag[3..]
                .bytes()
                .rev()
                .map(char::from)
                .collect::<String>()
        );
        let text = self.body.to_string().replace(&self.tag, &other.tag);
        other.body = serde_json::from_str(&text).unwrap();
        other
    }
}

fn body(kind: Kind, tag: &str, dice: &mut Dice, key: &Key, model: (&str, Option<&str>)) -> Value {
    let prompt = format!("a lake at dawn {tag}");
    // The embedded engine has to draw every second of it.
    let seconds = if model.0 == "animatic-1" {
        json!(1)
    } else {
        Value::Null
    };
    match kind {
        Kind::Chat | Kind::Stream => json!({
            "model": model.0,
            "messages": [{"role": "user", "content": prompt}],
            "video": {"size": model.1, "seconds": seconds},
            "stream": kind == Kind::Stream,
        }),
        Kind::Videos => {
            json!({"model": model.0, "prompt": prompt, "size": model.1, "seconds": seconds})
        }
        Kind::Stems => json!({
            "task": "gen_stem", "mv": dice.pick(&SPLITTERS), "title": tag,
            "continue_clip_id": dice.pick(&key.clips), "stem_task": "two",
        }),
        Kind::Song => json!({
            "task": "generate", "mv": SONGS, "title": tag, "tags": "calm piano",
            "prompt": "[Verse] rain on the sea",
        }),
        Kind::Persona => json!({"root_clip_id": key.song, "name": tag, "description": "low"}),
        Kind::Upload => json!({"title": tag}),
    }
}

/// The same JSON with the members of every object in the opposite order.
pub(crate) fn with_reversed_members(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| {
                    format!(
                        "{}:{}",
                        Value::from(name.as_str()),
                        with_reversed_members(value)
                    )
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(with_reversed_members).collect();
            format!("[{}]", items.join(","))
        }
        plain => plain.to_string(),
    }
}

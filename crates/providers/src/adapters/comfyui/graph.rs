//! Stored graphs, and the places in them where an order's values are inserted.
//!
//! A graph is what `ComfyUI` exports as "API format": `{"3": {"class_type",
//! "inputs"}, …}`. A place is written `node.member.member`, such as `6.inputs.text`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{ErrorClass, ProviderError};
use crate::limits::{Durations, ModelLimits, SourcePictureLimits, VideoLimits};
use crate::order::{Order, PictureRole, VideoSpec};
use crate::settings::{ProviderSettings, SettingsError};

/// Sizes offered for graphs with free width and height.
const USUAL_SIZES: [(u32, u32); 7] = [
    (832, 480),
    (480, 832),
    (1280, 720),
    (720, 1280),
    (640, 640),
    (960, 960),
    (1024, 1024),
];

/// The graphs of a provider.
#[derive(Debug)]
pub(super) struct WorkflowSet {
    by_model: BTreeMap<String, WorkflowGraph>,
    /// For every model without its own graph.
    general: Option<WorkflowGraph>,
}

#[derive(Debug)]
struct WorkflowGraph {
    nodes: Value,
    places: PatchPoints,
    fps: Option<u32>,
}

/// The option `patch`: one place or several for each value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PatchPoints {
    prompt: PatchPoint,
    negative_prompt: PatchPoint,
    image: PatchPoint,
    last_image: PatchPoint,
    seed: PatchPoint,
    width: PatchPoint,
    height: PatchPoint,
    seconds: PatchPoint,
    frames: PatchPoint,
    fps: PatchPoint,
}

/// The places for one value, as JSON pointers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "OneOrMany")]
struct PatchPoint(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for PatchPoint {
    fn from(paths: OneOrMany) -> Self {
        let paths = match paths {
            OneOrMany::One(path) => vec![path],
            OneOrMany::Many(paths) => paths,
        };
        let pointer = |path: &String| {
            let escaped = path.replace('~', "~0").replace('/', "~1");
            format!("/{}", escaped.replace('.', "/"))
        };
        Self(paths.iter().map(pointer).collect())
    }
}

impl PatchPoint {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
}

impl PatchPoints {
    fn all(&self) -> [(&'static str, &PatchPoint); 10] {
        [
            ("prompt", &self.prompt),
            ("negative_prompt", &self.negative_prompt),
            ("image", &self.image),
            ("last_image", &self.last_image),
            ("seed", &self.seed),
            ("width", &self.width),
            ("height", &self.height),
            ("seconds", &self.seconds),
            ("frames", &self.frames),
            ("fps", &self.fps),
        ]
    }
}

impl WorkflowSet {
    /// Reads `graph`, `graphs`, `patch` and `fps`, and the files that they refer to.
    pub(super) fn read(settings: &ProviderSettings) -> Result<Self, SettingsError> {
        let options = &settings.options;
        let patch = options.get("patch");
        let fps = read_fps("fps", options.get("fps"))?;
        let general = options
            .get("graph")
            .map(|graph| WorkflowGraph::read("graph", graph, patch, fps))
            .transpose()?;
        let mut by_model = BTreeMap::new();
        match options.get("graphs") {
            None => {}
            Some(Value::Object(graphs)) => {
                for (model, graph) in graphs {
                    let key = format!("graphs.{model}");
                    // `{ graph = …, patch = …, fps = … }` if the places differ.
                    let own_options = graph
                        .as_object()
                        .filter(|options| options.contains_key("graph"));
                    let graph = match own_options {
                        Some(own) => WorkflowGraph::read_own(&key, own, patch, fps)?,
                        None => WorkflowGraph::read(&key, graph, patch, fps)?,
                    };
                    by_model.insert(model.clone(), graph);
                }
            }
            Some(_) => return Err(SettingsError::at("graphs", "must be a table")),
        }
        if general.is_none() && by_model.is_empty() {
            return Err(SettingsError::at(
                "graph",
                "is missing; set the graph to run, as \"file:PATH\"",
            ));
        }
        Ok(Self { by_model, general })
    }

    fn for_model(&self, model: &str) -> Option<&WorkflowGraph> {
        self.by_model.get(model).or(self.general.as_ref())
    }

    /// Whether any graph takes pictures.
    pub(super) fn accepts_pictures(&self) -> bool {
        let graphs = self.by_model.values().chain(&self.general);
        graphs.into_iter().any(|graph| graph.places.image.is_set())
    }

    /// The limits of a model's graph; `None` if the model has no graph.
    pub(super) fn limits(&self, model: &str) -> Option<ModelLimits> {
        self.for_model(model).map(WorkflowGraph::limits)
    }

    /// The model's graph with an order's values in it. `pictures` have the names that the server
    /// gave them.
    pub(super) fn fill(
        &self,
        order: &Order,
        video: &VideoSpec,
        pictures: &[(PictureRole, &str)],
    ) -> Result<Value, ProviderError> {
        let graph = self.for_model(&order.model).ok_or_else(|| {
            let message = format!("there is no graph for the model {}", order.model);
            ProviderError::new(ErrorClass::Rejected, message)
        })?;
        Ok(graph.fill(&order.idempotency_key, video, pictures))
    }
}

fn read_fps(key: &str, value: Option<&Value>) -> Result<Option<u32>, SettingsError> {
    let Some(value) = value else { return Ok(None) };
    let fps = value.as_u64().and_then(|fps| u32::try_from(fps).ok());
    match fps {
        Some(1..=240) => Ok(fps),
        _ => Err(SettingsError::at(key, "must be a number from 1 to 240")),
    }
}

impl WorkflowGraph {
    fn read_own(
        key: &str,
        options: &Map<String, Value>,
        patch: Option<&Value>,
        fps: Option<u32>,
    ) -> Result<Self, SettingsError> {
        if let Some(unknown) = options
            .keys()
            .find(|member| !["graph", "patch", "fps"].contains(&member.as_str()))
        {
            return Err(SettingsError::at(
                key,
                format!("{unknown:?} is not a known option"),
            ));
        }
        let own_fps = read_fps(&format!("{key}.fps"), options.get("fps"))?;
        let graph = options.get("graph").unwrap_or(&Value::Null);
        Self::read(key, graph, options.get("patch").or(patch), own_fps.or(fps))
    }

    fn read(
        key: &str,
        graph: &Value,
        patch: Option<&Value>,
        fps: Option<u32>,
    ) -> Result<Self, SettingsError> {
        let graph = match graph {
            Value::String(text) => {
                let text = match text.strip_prefix("file:") {
                    Some(path) => std::fs::read_to_string(path).map_err(|error| {
                        SettingsError::at(key, format!("cannot read {path}: {error}"))
                    })?,
                    None => text.clone(),
                };
                serde_json::from_str(&text)
                    .map_err(|error| SettingsError::at(key, format!("is not JSON: {error}")))?
            }
            other => other.clone(),
        };
        let nodes = graph
            .as_object()
            .filter(|nodes| !nodes.is_empty())
            .ok_or_else(|| {
                SettingsError::at(key, "must be a graph, as a string or \"file:PATH\"")
            })?;
        if nodes.get("nodes").is_some_and(Value::is_array) {
            return Err(SettingsError::at(
                key,
                "is in the editor's format; export it in the API format",
            ));
        }
        if let Some((node, _)) = nodes.iter().find(|(_, node)| !node["inputs"].is_object()) {
            let message = format!("node {node} has no inputs; check that this is the API format");
            return Err(SettingsError::at(key, message));
        }
        let patch = patch.cloned().unwrap_or(Value::Null);
        let places = if patch.is_null() {
            PatchPoints::default()
        } else {
            PatchPoints::deserialize(patch)
                .map_err(|error| SettingsError::at("patch", error.to_string()))?
        };
        let workflow = Self {
            nodes: graph,
            places,
            fps,
        };
        workflow.check(key)?;
        Ok(workflow)
    }

    fn check(&self, key: &str) -> Result<(), SettingsError> {
        let places = &self.places;
        if !places.prompt.is_set() {
            return Err(SettingsError::at(
                "patch.prompt",
                "is missing; without it, the graph would make the same video every time",
            ));
        }
        if places.width.is_set() != places.height.is_set() {
            return Err(SettingsError::at(
                "patch",
                "width and height must be set together",
            ));
        }
        if self.fps.is_none() && (places.frames.is_set() || places.fps.is_set()) {
            return Err(SettingsError::at(
                "fps",
                "is missing; it is needed to convert seconds to frames",
            ));
        }
        for (name, patch_point) in places.all() {
            for pointer in &patch_point.0 {
                let path = pointer.trim_start_matches('/').replace('/', ".");
                let key_of_value = format!("patch.{name}");
                match self.nodes.pointer(pointer) {
                    None => {
                        let message = format!("{key} has no field {path}");
                        return Err(SettingsError::at(&key_of_value, message));
                    }
                    Some(Value::Array(_) | Value::Object(_)) => {
                        let message = format!(
                            "{path} in {key} has no value of its own; it may be connected to another node"
                        );
                        return Err(SettingsError::at(&key_of_value, message));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    fn limits(&self) -> ModelLimits {
        let places = &self.places;
        let stored_size = self.own_size();
        let sizes = if places.width.is_set() {
            let other_sizes = USUAL_SIZES
                .into_iter()
                .filter(|size| Some(*size) != stored_size);
            stored_size.into_iter().chain(other_sizes).collect()
        } else {
            vec![stored_size.unwrap_or((1280, 720))]
        };
        let has_free_length = places.seconds.is_set() || places.frames.is_set();
        let durations = if has_free_length {
            Durations::range(1, 10)
        } else {
            Durations::Only(vec![5])
        };
        let frames = usize::from(places.image.is_set()) + usize::from(places.last_image.is_set());
        let pictures = SourcePictureLimits {
            // Without the caller's picture, the graph would use its stored one.
            needed: places.image.is_set(),
            ..SourcePictureLimits::frames(frames)
        };
        ModelLimits::Video(VideoLimits {
            sizes,
            durations,
            default_seconds: 5,
            pictures,
            negative_prompt: places.negative_prompt.is_set(),
            seed: places.seed.is_set(),
            max_prompt: 10_000,
            ..VideoLimits::default()
        })
    }

    /// The stored width and height: at the patched places, otherwise in the first node that has
    /// both.
    fn own_size(&self) -> Option<(u32, u32)> {
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let value_at = |place: &PatchPoint| number(self.nodes.pointer(place.0.first()?)?);
        let places = &self.places;
        if let (Some(width), Some(height)) = (value_at(&places.width), value_at(&places.height)) {
            return Some((width, height));
        }
        self.nodes.as_object()?.values().find_map(|node| {
            let inputs = &node["inputs"];
            Some((number(&inputs["width"])?, number(&inputs["height"])?))
        })
    }

    fn fill(&self, key: &str, video: &VideoSpec, pictures: &[(PictureRole, &str)]) -> Value {
        let mut graph = self.nodes.clone();
        let uploaded_name = |role: PictureRole| {
            let picture = pictures
                .iter()
                .find(|(picture_role, _)| *picture_role == role);
            picture.map(|(_, name)| json!(name))
        };
        let places = &self.places;
        // If a place needs the rate, `check` has ensured that it is set.
        let fps = self.fps.unwrap_or(1);
        // One frame more than the length times the rate: video models expect frame counts of the
        // form 4n + 1 or 8n + 1.
        let frames = u64::from(video.seconds) * u64::from(fps) + 1;
        let seed = video.seed().unwrap_or_else(|| seed_of(key));
        let values = [
            (&places.prompt, Some(json!(video.prompt))),
            (
                &places.negative_prompt,
                video
                    .options
                    .negative_prompt
                    .as_ref()
                    .map(|text| json!(text)),
            ),
            (&places.image, uploaded_name(PictureRole::FirstFrame)),
            (&places.last_image, uploaded_name(PictureRole::LastFrame)),
            (&places.seed, Some(json!(seed))),
            (&places.width, Some(json!(video.size.0))),
            (&places.height, Some(json!(video.size.1))),
            (&places.seconds, Some(json!(video.seconds))),
            (&places.frames, Some(json!(frames))),
            (&places.fps, Some(json!(fps))),
        ];
        for (patch_point, value) in values {
            let Some(value) = value else { continue };
            for pointer in &patch_point.0 {
                if let Some(slot) = graph.pointer_mut(pointer) {
                    // A string in the graph stays a string.
                    *slot = match &value {
                        Value::Number(number) if slot.is_string() => json!(number.to_string()),
                        value => value.clone(),
                    };
                }
            }
        }
        graph
    }
}

/// A seed for an order without one. `ComfyUI` answers a repeated graph from its cache, so the
/// stored seed would give every order the same video.
fn seed_of(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    let bytes = digest.iter().take(6);
    bytes.fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

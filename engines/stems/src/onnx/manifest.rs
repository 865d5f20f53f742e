//! A model's manifest: the graph's inputs and outputs, read from TOML and validated.
//!
//! Every error names its field: `mdx.n_fft: …`. Graphs and files are known only by name.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;

use super::error::ModelError;
use crate::Stem;
use crate::stft::RATE;

/// A validated manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelManifest {
    /// The name that callers use.
    pub name: String,
    /// Free text of the operator; may be empty.
    pub license: String,
    /// The graph's family and its settings.
    pub kind: FamilySettings,
}

/// The three families of graphs.
#[derive(Debug, Clone, PartialEq)]
pub enum FamilySettings {
    /// MDX-Net.
    Mdx(MdxSettings),
    /// Hybrid Transformer Demucs.
    HtDemucs(HtDemucsSettings),
    /// Open-Unmix.
    OpenUnmix(OpenUnmixSettings),
}

/// A graph's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFile {
    /// Its name, relative to the models folder and inside it.
    pub file: String,
    /// The required SHA-256, in lower-case hexadecimal.
    pub sha256: Option<String>,
}

/// One graph that makes one stem from spectra of `2^n` frames.
#[derive(Debug, Clone, PartialEq)]
pub struct MdxSettings {
    /// The graph.
    pub graph: GraphFile,
    /// The stem that it makes.
    pub stem: Stem,
    /// Length of the Fourier transform, in samples.
    pub n_fft: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// How many of the lowest bins it takes.
    pub dim_f: usize,
    /// How many frames it takes.
    pub dim_t: usize,
    /// The stem must be multiplied by this.
    pub compensate: f32,
    /// The part of a chunk that overlaps the next.
    pub overlap: f64,
    /// Runs each chunk twice, once inverted, which cancels the graph's own noise.
    pub denoise: bool,
    /// Takes only the lead voice and leaves the others in the instrumental.
    pub karaoke: bool,
}

/// One graph that makes all stems from waveforms.
#[derive(Debug, Clone, PartialEq)]
pub struct HtDemucsSettings {
    /// The graph.
    pub graph: GraphFile,
    /// The stems in the graph's order.
    pub stems: Vec<Stem>,
    /// Samples in one segment.
    pub segment: usize,
    /// The part of a segment that overlaps the next.
    pub overlap: f64,
    /// Where the Fourier transform is done; `None` to infer it from the graph's inputs.
    pub stft: Option<StftPlacement>,
    /// Names of the graph's ports, if their ranks are ambiguous.
    pub ports: PortNames,
}

/// Where a graph's Fourier transform is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StftPlacement {
    /// By the graph: waveforms in and out.
    Inside,
    /// By this program: a waveform and a spectrum in and out.
    Outside,
}

/// Names of a graph's inputs and outputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortNames {
    /// The input that takes the waveform.
    pub waveform_input: Option<String>,
    /// The input that takes the spectrum.
    pub spectrum_input: Option<String>,
    /// The output with the waveforms.
    pub waveform_output: Option<String>,
    /// The output with the spectra.
    pub spectrum_output: Option<String>,
}

/// One graph for each stem, from magnitudes to magnitudes.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenUnmixSettings {
    /// The graphs by stem.
    pub graphs: BTreeMap<Stem, GraphFile>,
    /// Length of the Fourier transform, in samples.
    pub n_fft: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// Frames in one segment, if the graph does not fix that.
    pub frames: Option<usize>,
    /// The part of a segment that overlaps the next.
    pub overlap: f64,
    /// Refines the magnitudes by a multichannel Wiener filter.
    pub wiener: bool,
}

/// The longest manifest, in bytes.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

impl ModelManifest {
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        // Unknown fields are errors in every table: a misspelt one would leave its default in
        // force.
        let table = toml::Deserializer::parse(text)
            .map_err(|e| ModelError::field("manifest", e.to_string().trim_end()))?;
        let raw: RawManifest = serde_path_to_error::deserialize(table).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "manifest" } else { &path };
            ModelError::field(field, error.inner().message())
        })?;
        raw.check()
    }

    /// The graphs' files.
    pub fn files(&self) -> Vec<&GraphFile> {
        match &self.kind {
            FamilySettings::Mdx(mdx) => vec![&mdx.graph],
            FamilySettings::HtDemucs(htdemucs) => vec![&htdemucs.graph],
            FamilySettings::OpenUnmix(openunmix) => openunmix.graphs.values().collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: String,
    kind: RawKind,
    file: Option<String>,
    sha256: Option<String>,
    stems: Option<Vec<String>>,
    #[serde(default = "rate")]
    sample_rate: u32,
    #[serde(default)]
    license: String,
    mdx: Option<RawMdx>,
    htdemucs: Option<RawHtDemucs>,
    openunmix: Option<RawOpenUnmix>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Mdx,
    HtDemucs,
    OpenUnmix,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMdx {
    n_fft: usize,
    #[serde(default = "hop")]
    hop: usize,
    dim_f: usize,
    dim_t: usize,
    #[serde(default = "one")]
    compensate: f32,
    #[serde(default = "quarter")]
    overlap: f64,
    #[serde(default)]
    denoise: bool,
    #[serde(default)]
    karaoke: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHtDemucs {
    #[serde(default = "segment")]
    segment: usize,
    #[serde(default = "quarter")]
    overlap: f64,
    stft: Option<StftPlacement>,
    #[serde(default)]
    ports: PortNames,
}

impl Default for RawHtDemucs {
    fn default() -> Self {
        Self {
            segment: segment(),
            overlap: quarter(),
            stft: None,
            ports: PortNames::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOpenUnmix {
    files: BTreeMap<String, String>,
    #[serde(default)]
    sha256: BTreeMap<String, String>,
    #[serde(default = "openunmix_n_fft")]
    n_fft: usize,
    #[serde(default = "hop")]
    hop: usize,
    frames: Option<usize>,
    #[serde(default = "quarter")]
    overlap: f64,
    #[serde(default = "default_true")]
    wiener: bool,
}

fn rate() -> u32 {
    RATE
}
fn hop() -> usize {
    1_024
}
fn one() -> f32 {
    1.0
}
fn quarter() -> f64 {
    0.25
}
fn segment() -> usize {
    343_980
}
fn openunmix_n_fft() -> usize {
    4_096
}
fn default_true() -> bool {
    true
}

impl RawManifest {
    fn check(self) -> Result<ModelManifest, ModelError> {
        check_name(&self.name)?;
        check_range("license", self.license.len(), 0, 2_000)?;
        if self.sample_rate != RATE {
            let reason = format!("is {}, but these models work at {RATE}", self.sample_rate);
            return Err(ModelError::field("sample_rate", reason));
        }
        let tables = [
            ("mdx", RawKind::Mdx, self.mdx.is_some()),
            ("htdemucs", RawKind::HtDemucs, self.htdemucs.is_some()),
            ("openunmix", RawKind::OpenUnmix, self.openunmix.is_some()),
        ];
        for (name, kind, is_present) in tables {
            if is_present && kind != self.kind {
                return Err(ModelError::field(name, "belongs to another kind of model"));
            }
        }
        let (name, license) = (self.name.clone(), self.license.clone());
        let kind = match self.kind {
            RawKind::Mdx => FamilySettings::Mdx(self.into_mdx()?),
            RawKind::HtDemucs => FamilySettings::HtDemucs(self.into_htdemucs()?),
            RawKind::OpenUnmix => FamilySettings::OpenUnmix(self.into_openunmix()?),
        };
        Ok(ModelManifest {
            name,
            license,
            kind,
        })
    }

    fn into_mdx(self) -> Result<MdxSettings, ModelError> {
        let [stem] = self.stems()?[..] else {
            return Err(ModelError::field("stems", "an MDX-Net makes one stem"));
        };
        let graph = self.graph()?;
        let mdx = self.mdx.ok_or_else(|| missing_field("mdx"))?;
        MdxSettings {
            graph,
            stem,
            n_fft: mdx.n_fft,
            hop: mdx.hop,
            dim_f: mdx.dim_f,
            dim_t: mdx.dim_t,
            compensate: mdx.compensate,
            overlap: mdx.overlap,
            denoise: mdx.denoise,
            karaoke: mdx.karaoke,
        }
        .check()
    }

    fn into_htdemucs(self) -> Result<HtDemucsSettings, ModelError> {
        let (stems, graph) = (self.stems()?, self.graph()?);
        let raw = self.htdemucs.unwrap_or_default();
        check_range("htdemucs.segment", raw.segment, 8_192, 60 * RATE as usize)?;
        check_overlap("htdemucs.overlap", raw.overlap)?;
        Ok(HtDemucsSettings {
            graph,
            stems,
            segment: raw.segment,
            overlap: raw.overlap,
            stft: raw.stft,
            ports: raw.ports,
        })
    }

    fn into_openunmix(self) -> Result<OpenUnmixSettings, ModelError> {
        for (field, is_present, replacement) in [
            ("file", self.file.is_some(), "files"),
            ("sha256", self.sha256.is_some(), "sha256"),
            ("stems", self.stems.is_some(), "files"),
        ] {
            if is_present {
                let reason =
                    format!("an Open-Unmix has a graph for each stem: openunmix.{replacement}");
                return Err(ModelError::field(field, reason));
            }
        }
        let raw = self.openunmix.ok_or_else(|| missing_field("openunmix"))?;
        let mut checksums = raw.sha256;
        let mut graphs = BTreeMap::new();
        for (name, file) in raw.files {
            let field = format!("openunmix.files.{name}");
            let stem = parse_stem(&field, &name)?;
            if stem == Stem::Instrumental {
                return Err(ModelError::field(&field, "is what is left without vocals"));
            }
            check_file(&field, &file)?;
            let sha256 = checksums.remove(&name);
            let sha256 = check_sha256(&format!("openunmix.sha256.{name}"), sha256)?;
            if graphs.insert(stem, GraphFile { file, sha256 }).is_some() {
                return Err(ModelError::field(&field, "this stem is named twice"));
            }
        }
        if graphs.is_empty() {
            return Err(ModelError::field("openunmix.files", "names no graph"));
        }
        if let Some(name) = checksums.keys().next() {
            let field = format!("openunmix.sha256.{name}");
            return Err(ModelError::field(
                &field,
                "openunmix.files has no such stem",
            ));
        }
        check_transform("openunmix", raw.n_fft, raw.hop)?;
        if let Some(frames) = raw.frames {
            let min = (2 * raw.n_fft).div_ceil(raw.hop);
            check_range("openunmix.frames", frames, min, 6_000)?;
        }
        check_overlap("openunmix.overlap", raw.overlap)?;
        Ok(OpenUnmixSettings {
            graphs,
            n_fft: raw.n_fft,
            hop: raw.hop,
            frames: raw.frames,
            overlap: raw.overlap,
            wiener: raw.wiener,
        })
    }

    fn graph(&self) -> Result<GraphFile, ModelError> {
        let file = self.file.clone().ok_or_else(|| missing_field("file"))?;
        check_file("file", &file)?;
        let sha256 = check_sha256("sha256", self.sha256.clone())?;
        Ok(GraphFile { file, sha256 })
    }

    fn stems(&self) -> Result<Vec<Stem>, ModelError> {
        let names = self.stems.as_ref().ok_or_else(|| missing_field("stems"))?;
        check_range("stems", names.len(), 1, Stem::ALL.len())?;
        let mut stems = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let field = format!("stems[{i}]");
            let stem = parse_stem(&field, name)?;
            if stems.contains(&stem) {
                return Err(ModelError::field(&field, "this stem is named twice"));
            }
            stems.push(stem);
        }
        Ok(stems)
    }
}

impl MdxSettings {
    /// Validates the numbers, whatever their source.
    pub(super) fn check(self) -> Result<Self, ModelError> {
        check_transform("mdx", self.n_fft, self.hop)?;
        check_range("mdx.dim_f", self.dim_f, 8, self.n_fft / 2 + 1)?;
        // A chunk must be longer than the two half windows that are cut off it.
        let min = self.n_fft / self.hop + 2;
        check_range("mdx.dim_t", self.dim_t, min, 8_192)?;
        // The tensor has four such planes of 32-bit floats: 256 MiB at most.
        if self.dim_f * self.dim_t > 1 << 24 {
            let reason = format!("times dim_f is {}, at most 2^24", self.dim_f * self.dim_t);
            return Err(ModelError::field("mdx.dim_t", reason));
        }
        if !(0.1..=10.0).contains(&self.compensate) {
            let reason = format!("is {}, not between 0.1 and 10", self.compensate);
            return Err(ModelError::field("mdx.compensate", reason));
        }
        check_overlap("mdx.overlap", self.overlap)?;
        Ok(self)
    }
}

fn missing_field(field: &str) -> ModelError {
    ModelError::field(field, "is missing")
}

pub(super) fn check_name(name: &str) -> Result<(), ModelError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let starts_alphanumeric = name
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric());
    if starts_alphanumeric && name.len() <= 64 && name.chars().all(is_allowed) {
        return Ok(());
    }
    let reason = "must be 1 to 64 letters, digits, -, _ or ., and start with a letter or digit";
    Err(ModelError::field("name", reason))
}

pub(super) fn parse_stem(field: &str, name: &str) -> Result<Stem, ModelError> {
    Stem::parse(name).ok_or_else(|| {
        let names = Stem::list(&Stem::ALL);
        let name: String = name.chars().take(40).collect();
        ModelError::field(field, format!("there is no stem {name:?}, only {names}"))
    })
}

/// Accepts only relative paths that go down.
fn check_file(field: &str, file: &str) -> Result<(), ModelError> {
    // Only the name is checked here. Where links lead is checked when the file is read.
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    if file.is_empty() || file.len() > 255 || !Path::new(file).components().all(is_normal) {
        let reason = "must be a file in the models folder, without .. or a leading /";
        return Err(ModelError::field(field, reason));
    }
    Ok(())
}

fn check_sha256(field: &str, checksum: Option<String>) -> Result<Option<String>, ModelError> {
    let Some(checksum) = checksum else {
        return Ok(None);
    };
    if checksum.len() != 64 || !checksum.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ModelError::field(field, "must be 64 hexadecimal digits"));
    }
    Ok(Some(checksum.to_ascii_lowercase()))
}

fn check_transform(kind: &str, n_fft: usize, hop: usize) -> Result<(), ModelError> {
    let field = format!("{kind}.n_fft");
    check_range(&field, n_fft, 256, 32_768)?;
    if n_fft % 2 == 1 {
        return Err(ModelError::field(
            &field,
            format!("is {n_fft}, but must be even"),
        ));
    }
    // If at least two frames cover each sample, their squared windows never sum to zero.
    check_range(&format!("{kind}.hop"), hop, n_fft / 64, n_fft / 2)
}

fn check_overlap(field: &str, overlap: f64) -> Result<(), ModelError> {
    if overlap == 0.0 || (0.01..=0.9).contains(&overlap) {
        return Ok(());
    }
    let reason = format!("is {overlap}, but must be 0 or between 0.01 and 0.9");
    Err(ModelError::field(field, reason))
}

fn check_range(field: &str, value: usize, min: usize, max: usize) -> Result<(), ModelError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let reason = format!("is {value}, not between {min} and {max}");
    Err(ModelError::field(field, reason))
}

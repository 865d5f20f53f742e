//! Model recognition by hash, as in Ultimate Vocal Remover (UVR): finds a graph's settings.
//!
//! UVR ships a single table instead of manifests, `model_data.json`, which an operator may copy
//! into the models folder. Its keys are MD5 sums of each file's last 10,240,000 bytes.

use std::collections::HashMap;

use md5::{Digest, Md5};
use serde::Deserialize;

use super::error::ModelError;
use super::manifest::{
    FamilySettings, GraphFile, MdxSettings, ModelManifest, check_name, parse_stem,
};

/// The table's name in the models folder.
pub const TABLE_FILE: &str = "model_data.json";

/// The longest table, in bytes.
pub(super) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How much of a file's end is hashed.
const HASHED_BYTES: usize = 10_000 * 1_024;

/// The hash by which UVR identifies a file, in lower-case hexadecimal.
#[must_use]
pub fn hash(file: &[u8]) -> String {
    let tail = &file[file.len().saturating_sub(HASHED_BYTES)..];
    hexadecimal(&Md5::digest(tail))
}

/// A copy of UVR's `model_data.json`.
#[derive(Debug, Clone)]
pub struct UvrTable(HashMap<String, serde_json::Value>);

#[derive(Deserialize)]
struct UvrEntry {
    compensate: f32,
    mdx_dim_f_set: usize,
    mdx_dim_t_set: u32,
    mdx_n_fft_scale_set: usize,
    primary_stem: String,
    #[serde(default)]
    is_karaoke: bool,
}

impl UvrTable {
    /// Reads the table's text. An entry that is not understood does not affect others.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        serde_json::from_str(text)
            .map(Self)
            .map_err(|e| ModelError::field(TABLE_FILE, e.to_string()))
    }

    /// The manifest for `file`, which has this [`hash`].
    pub fn manifest(&self, file: &str, hash: &str) -> Result<ModelManifest, ModelError> {
        let field = |name: &str| format!("{TABLE_FILE}.{hash}{name}");
        let Some(entry) = self.0.get(hash) else {
            let reason = "no entry, and there is no manifest beside the file";
            return Err(ModelError::field(&field(""), reason));
        };
        if let Some(config) = entry.get("config_yaml") {
            let reason = format!(
                "{config} belongs to an MDX23C or Roformer checkpoint, which is not an ONNX graph"
            );
            return Err(ModelError::field(&field(".config_yaml"), reason));
        }
        let entry: UvrEntry = serde_path_to_error::deserialize(entry).map_err(|error| {
            let path = match error.path().to_string() {
                path if path == "." => String::new(),
                path => format!(".{path}"),
            };
            ModelError::field(&field(&path), error.inner().to_string())
        })?;
        let stem = parse_stem(&field(".primary_stem"), &entry.primary_stem)?;
        let Some(dim_t) = 1usize
            .checked_shl(entry.mdx_dim_t_set)
            .filter(|t| *t <= 8_192)
        else {
            let reason = format!("2^{} frames are too many", entry.mdx_dim_t_set);
            return Err(ModelError::field(&field(".mdx_dim_t_set"), reason));
        };
        let name = name(file);
        check_name(&name)?;
        let settings = MdxSettings {
            graph: GraphFile {
                file: file.to_owned(),
                sha256: None,
            },
            stem,
            n_fft: entry.mdx_n_fft_scale_set,
            hop: 1_024,
            dim_f: entry.mdx_dim_f_set,
            dim_t,
            compensate: entry.compensate,
            overlap: 0.25,
            denoise: false,
            karaoke: entry.is_karaoke,
        };
        Ok(ModelManifest {
            name,
            license: String::new(),
            kind: FamilySettings::Mdx(settings.check()?),
        })
    }
}

/// A model's name from its file's: without the ending, and with `-` for characters that a name may
/// not contain.
fn name(file: &str) -> String {
    let stem = file.strip_suffix(".onnx").unwrap_or(file);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    stem.chars()
        .map(|c| if is_allowed(c) { c } else { '-' })
        .take(64)
        .collect()
}

/// A digest as text.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // INVARIANT: writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;

    const TABLE: &str = r#"{
        "aa": {"compensate": 1.065, "mdx_dim_f_set": 2048, "mdx_dim_t_set": 8,
               "mdx_n_fft_scale_set": 5120, "primary_stem": "Instrumental", "is_karaoke": true},
        "bb": {"config_yaml": "model1.yaml"},
        "cc": {"compensate": 1.0, "mdx_dim_f_set": 3072, "mdx_dim_t_set": 9,
               "mdx_n_fft_scale_set": 6144, "primary_stem": "Reverb"},
        "dd": {"compensate": 1.0, "mdx_dim_f_set": "many"},
        "ee": {"compensate": 1.0, "mdx_dim_f_set": 3072, "mdx_dim_t_set": 99,
               "mdx_n_fft_scale_set": 6144, "primary_stem": "Vocals"}
    }"#;

    #[test]
    fn hashes_the_end_of_the_file() {
        assert_eq!(hash(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hash(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let long = vec![7; HASHED_BYTES + 5];
        assert_eq!(hash(&long), hash(&long[5..]));
        assert_ne!(hash(&long), hash(&long[6..]));
    }

    #[test]
    fn an_entry_is_a_manifest() {
        let manifest = UvrTable::parse(TABLE)
            .unwrap()
            .manifest("UVR MDX_1.onnx", "aa")
            .unwrap();
        assert_eq!(manifest.name, "UVR-MDX_1");
        let FamilySettings::Mdx(mdx) = manifest.kind else {
            unreachable!()
        };
        assert_eq!((mdx.n_fft, mdx.dim_f, mdx.dim_t), (5_120, 2_048, 256));
        assert_eq!(
            (mdx.stem, mdx.karaoke, mdx.overlap),
            (Stem::Instrumental, true, 0.25)
        );
    }

    #[test]
    fn reports_which_entry_is_unusable_and_why() {
        let table = UvrTable::parse(TABLE).unwrap();
        for (hash, expected) in [
            ("ff", "model_data.json.ff: no entry"),
            (
                "bb",
                "model_data.json.bb.config_yaml: \"model1.yaml\" belongs to",
            ),
            (
                "cc",
                "model_data.json.cc.primary_stem: there is no stem \"Reverb\"",
            ),
            ("dd", "model_data.json.dd.mdx_dim_f_set: invalid type"),
            ("ee", "model_data.json.ee.mdx_dim_t_set: 2^99"),
        ] {
            let error = table.manifest("a.onnx", hash).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(UvrTable::parse("[]").is_err());
    }
}

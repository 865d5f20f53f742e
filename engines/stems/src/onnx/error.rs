//! Errors of loading a model.

use crate::Stem;

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A field of the manifest is wrong, or the graph contradicts it.
    #[error("{field}: {reason}")]
    Field {
        /// The field: `mdx.n_fft`.
        field: String,
        /// The problem with the file.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{file}: {reason}")]
    File {
        /// Its name in the models folder.
        file: String,
        /// The system's message.
        reason: String,
    },
    /// There is no ONNX Runtime library. The message may contain its path.
    #[error(
        "the ONNX runtime library cannot be loaded: {0}; install onnxruntime 1.17 or newer and set \
         ORT_DYLIB_PATH to its libonnxruntime.so"
    )]
    NoRuntime(String),
}

impl ModelError {
    pub(super) fn field(field: &str, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.to_owned(),
            reason: reason.into(),
        }
    }

    pub(super) fn file(file: &str, reason: impl std::fmt::Display) -> Self {
        Self::File {
            file: file.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Names the stem's own field in an error about a graph's file.
pub(super) fn name_stem_field(error: ModelError, table: &str, stem: Stem) -> ModelError {
    match error {
        ModelError::Field { field, reason } if field == "file" => {
            ModelError::field(&format!("{table}.{stem}"), reason)
        }
        ModelError::Field { field, reason } if field == "sha256" => {
            ModelError::field(&format!("openunmix.sha256.{stem}"), reason)
        }
        other => other,
    }
}

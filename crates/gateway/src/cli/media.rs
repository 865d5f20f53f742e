//! `mediagate media`: moves files from one store to another.

use clap::{Args, Subcommand};

use crate::cli::{CliError, output, runtime, say, show};
use mediagate_config::{Config, ConfigError, MediaConfig, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::media_copy::{self, CopyReport};
use mediagate_media::blob::BlobStore;
use mediagate_model::clock::Clock;

#[derive(Debug, Subcommand)]
pub(super) enum MediaCommand {
    /// Copy all files to another store; skips files that are already there, so it can be repeated
    Copy(CopyArgs),
}

#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// Destination: <s3://bucket/prefix>, with endpoint and keys from the `[media]` settings
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Source: "folder" or <s3://bucket/prefix> [default: `media.store`]
    #[arg(long, value_name = "STORE")]
    from: Option<String>,
}

pub(super) fn run(command: &MediaCommand, settings: &Settings, json: bool) -> Result<(), CliError> {
    let MediaCommand::Copy(args) = command;
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    let source = match &args.from {
        Some(store) => config_of(&app, "from", store)?,
        None => app.config.media.clone(),
    };
    let destination = config_of(&app, "to", &args.to)?;
    // A copy onto itself would find every file there already and look like a success.
    if source.store == destination.store {
        return Err(CliError::Usage("--to must differ from the source".into()));
    }
    let source_store = match &args.from {
        Some(_) => open(&app, &source)?,
        None => app.blobs.clone(),
    };
    let destination = open(&app, &destination)?;
    let report = runtime()?.block_on(copy(&app, &source_store, &destination, json))?;
    match report.failed {
        0 => Ok(()),
        failed => Err(CliError::Failed(format!(
            "{failed} files were not copied; run the command again"
        ))),
    }
}

/// The configuration of the store that a flag names.
fn config_of(app: &App, flag: &str, store: &str) -> Result<MediaConfig, CliError> {
    let media = app.config.media.moved_to(store);
    media.map_err(|error| match error {
        ConfigError::Value { message, .. } => CliError::Usage(format!("--{flag}: {message}")),
        error => error.into(),
    })
}

fn open(app: &App, media: &MediaConfig) -> Result<BlobStore, CliError> {
    BlobStore::open(media, &app.config.media_path()).map_err(CliError::failed)
}

async fn copy(
    app: &App,
    source: &BlobStore,
    destination: &BlobStore,
    json: bool,
) -> Result<CopyReport, CliError> {
    let plan = media_copy::plan(app, source, destination).await?;
    let (files, bytes) = (
        plan.missing.len() as u64,
        plan.missing.iter().map(|item| item.size_bytes).sum(),
    );
    let bar = CopyProgress {
        files,
        bytes,
        is_shown: output::can_draw(),
    };
    let report =
        media_copy::carry_out(source, destination, plan, |report| bar.draw(report)).await?;
    bar.end();
    if json {
        show::json(&report)?;
    } else {
        let CopyReport {
            copied,
            present,
            removed,
            ..
        } = report;
        say(&format!(
            "{copied} files copied ({}), {present} already there, {removed} removed.",
            size(report.copied_bytes)
        ))?;
    }
    Ok(report)
}

/// A line on the terminal that is redrawn repeatedly.
struct CopyProgress {
    files: u64,
    bytes: u64,
    is_shown: bool,
}

impl CopyProgress {
    fn draw(&self, report: &CopyReport) {
        const WIDTH: u64 = 30;
        if !self.is_shown {
            return;
        }
        let filled = WIDTH * report.copied_bytes.min(self.bytes) / self.bytes.max(1);
        let bar: String = (0..WIDTH)
            .map(|cell| if cell < filled { '#' } else { '-' })
            .collect();
        let (files, total_files) = (report.copied + report.failed, self.files);
        let (bytes, total_bytes) = (size(report.copied_bytes), size(self.bytes));
        output::draw(&format!(
            "\r[{bar}] {files} of {total_files} files, {bytes} of {total_bytes} "
        ));
    }

    fn end(&self) {
        if self.is_shown && self.files > 0 {
            output::draw("\n");
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to one decimal")]
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

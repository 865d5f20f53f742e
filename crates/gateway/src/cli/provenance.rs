//! `mediagate provenance check`: where a file comes from, without a server; works while one is
//! running on the same data.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::output::one_line;
use crate::cli::{CliError, runtime, say, show};
use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::provenance::check::{self, MatchKind, ProvenanceReport, RegistryMatch};
use mediagate_http::wire::provenance::CheckObject;
use mediagate_model::clock::Clock;
use mediagate_model::ids::AccountId;

#[derive(Debug, Subcommand)]
pub(super) enum ProvenanceCommand {
    /// Show the origin that a file states, and whether this gateway made it
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The file
    file: PathBuf,
    /// Print the response of `POST /v1/provenance/check`
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &ProvenanceCommand, settings: &Settings) -> Result<(), CliError> {
    let ProvenanceCommand::Check(args) = command;
    let app = App::open_existing(Config::load_for_command(settings)?, Clock::system())?;
    let io_error =
        |error: std::io::Error| CliError::Failed(format!("{}: {error}", args.file.display()));
    let size = std::fs::metadata(&args.file).map_err(io_error)?.len();
    if size > check::LIMIT_BYTES {
        let limit_mb = check::LIMIT_BYTES / 1_000_000;
        return Err(CliError::Failed(format!(
            "the file is larger than {limit_mb} MB"
        )));
    }
    // A copy, because the check deletes the file that it is given.
    let spool = app.config.spool_path();
    let copy = tempfile::NamedTempFile::new_in(spool).map_err(CliError::failed)?;
    let copy = copy.into_temp_path();
    std::fs::copy(&args.file, &copy).map_err(io_error)?;
    let report = runtime()?.block_on(check::check(&app, None, AccountId::nobody(), copy))?;
    if args.json {
        return show::json(&CheckObject::new(&report));
    }
    say(&lines(&report).join("\n"))
}

fn lines(report: &ProvenanceReport) -> Vec<String> {
    let provenance = &report.examined.provenance;
    let marks: Vec<&str> = provenance.marks.iter().map(|mark| mark.name()).collect();
    let mut lines = vec![format!("status       {}", provenance.status.name())];
    let facts = [
        ("signer      ", provenance.signer.clone()),
        ("program     ", provenance.generator.clone()),
        ("source type ", provenance.digital_source_type.clone()),
        ("prompt      ", report.examined.prompt.clone()),
        (
            "marks       ",
            Some(marks.join(", ")).filter(|marks| !marks.is_empty()),
        ),
    ];
    let facts = facts.into_iter();
    // These texts come from the file. Each is reduced to one line, so that they cannot imitate
    // other lines of this output.
    lines.extend(facts.filter_map(|(name, value)| Some(format!("{name} {}", one_line(&value?)))));
    if report.examined.is_ours {
        lines.push("signature    by this deployment".to_owned());
    }
    lines.extend(report.matches.iter().map(line));
    if report.matches.is_empty() {
        lines.push("made here    no match found".to_owned());
    }
    lines.extend(
        report
            .notes
            .iter()
            .map(|note| format!("note         {note}")),
    );
    lines
}

/// A match in one line. At the command line the operator may see whose result it is.
fn line(registry_match: &RegistryMatch) -> String {
    let fingerprint = &registry_match.print;
    let method = match registry_match.kind {
        MatchKind::Exact => "identical file".to_owned(),
        MatchKind::Watermark => "matched by its watermark".to_owned(),
        MatchKind::Near { medium, distance } => format!("similar {medium}, distance {distance:.2}"),
    };
    let id = match (fingerprint.clip, fingerprint.task) {
        (Some(clip), _) => format!("clip {clip}"),
        (None, Some(task)) => format!("task {task}"),
        (None, None) => String::new(),
    };
    let (kind, created_at) = (
        fingerprint.kind.into_str(),
        fingerprint.created_at.rfc3339(),
    );
    format!("made here    {kind}, {created_at}, {method}, {id}")
}

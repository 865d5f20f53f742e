//! The command line as it is parsed, completed and explained: a command's help shows the settings
//! that matter to it.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory as _};

use crate::cli::Cli;
use mediagate_model::error::ErrorCode;

/// The settings that matter for every command.
const COMMON_SETTINGS: [&str; 3] = ["config", "data", "database"];
/// Commands for which all settings matter.
const FULL_SETTINGS_COMMANDS: [&str; 4] = ["serve", "worker", "demo", "config"];
const SETTINGS_HINT: &str = "For all settings, see: mediagate help serve";

pub(super) fn command() -> Command {
    let command = Cli::command().mut_args(|arg| {
        let (help, long) = (arg.get_help().cloned(), arg.get_long_help().cloned());
        let arg = match help {
            Some(help) => arg.help(strip_markup(&help.to_string())),
            None => arg,
        };
        match long {
            Some(long) => arg.long_help(strip_markup(&long.to_string())),
            None => arg,
        }
    });
    let settings = command.get_arguments().filter(|arg| is_rare(arg)).cloned();
    let settings: Vec<Arg> = settings.collect();
    // clap passes a global argument on to a subcommand unless the subcommand has one of the same
    // name. So visible copies are added here, before the originals are hidden below.
    let command = command.mut_subcommands(|sub| {
        if FULL_SETTINGS_COMMANDS.contains(&sub.get_name()) {
            return sub.args(&settings);
        }
        with_hint(sub.mut_subcommands(with_hint))
    });
    let examples = format!("{}\n\n{SETTINGS_HINT}", crate::cli::EXAMPLES);
    let command = command.after_help(examples);
    command.mut_args(|arg| if is_rare(&arg) { arg.hide(true) } else { arg })
}

/// A command whose help ends with its examples, if it has any, and the hint.
fn with_hint(command: Command) -> Command {
    let examples = command.get_after_help().map(|help| format!("{help}\n\n"));
    command.after_help(format!("{}{SETTINGS_HINT}", examples.unwrap_or_default()))
}

/// The command line for parsing. A variable that is empty counts as not set: compose files and
/// scripts have such variables for settings that are left out.
pub(super) fn parser() -> Command {
    without_empty_variables(command())
}

fn without_empty_variables(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) {
            arg.env(None::<&'static str>)
        } else {
            arg
        }
    });
    command.mut_subcommands(without_empty_variables)
}

/// The command line for shell completion, without the hidden options, which shells would offer as
/// well.
pub(super) fn completion_command() -> Command {
    let full_command = command();
    Command::new("mediagate")
        .args(full_command.get_arguments().filter(|arg| !is_rare(arg)))
        .subcommands(full_command.get_subcommands())
}

/// A parser that accepts only these values; help shows them and shells complete them.
pub(super) fn one_of<T>(
    values: impl IntoIterator<Item = &'static str> + 'static,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(values)
        .try_map(|value| value.parse::<T>().map_err(|_| "unknown value"))
}

/// Parses the name of an error code.
pub(super) fn error_code(text: &str) -> Result<ErrorCode, String> {
    let message = "must be an error code, for example budget_exceeded; see docs/errors.md";
    ErrorCode::from_name(text).ok_or_else(|| message.to_owned())
}

fn is_rare(arg: &Arg) -> bool {
    arg.get_env().is_some() && !COMMON_SETTINGS.contains(&arg.get_id().as_str())
}

/// Removes the markup of a help text, which is also a doc comment in the source.
fn strip_markup(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('<').enumerate() {
        match part.split_once('>') {
            Some((inside, rest)) if index > 0 => plain.extend([inside, rest]),
            _ => plain.extend([if index > 0 { "<" } else { "" }, part]),
        }
    }
    plain.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    /// A setting that is not global would be unknown after `serve`.
    #[test]
    fn settings_may_precede_or_follow_the_command() {
        let command = command();
        for setting in command.get_opts().filter(|arg| arg.get_env().is_some()) {
            assert!(setting.is_global_set(), "{}", setting.get_id());
        }
    }

    fn help(arguments: &[&str]) -> String {
        let arguments = std::iter::once("mediagate").chain(arguments.iter().copied());
        command()
            .try_get_matches_from(arguments)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn help_shows_the_settings_that_the_command_uses() {
        for arguments in [
            &["--help"][..],
            &["keys", "create", "--help"],
            &["keys", "--help"],
        ] {
            let help = help(arguments);
            assert!(help.contains("--data <FOLDER>"), "{help}");
            assert!(!help.contains("--webhooks-timeout"), "{help}");
            assert!(help.contains(SETTINGS_HINT), "{help}");
        }
        for arguments in [
            &["serve", "--help"][..],
            &["help", "serve"],
            &["config", "check", "--help"],
        ] {
            assert!(
                help(arguments).contains("--webhooks-timeout"),
                "{arguments:?}"
            );
        }
        assert!(help(&["help"]).contains("Examples:"));
        let help = help(&["submissions", "--help"]);
        assert!(
            help.contains("Examples:") && help.contains(SETTINGS_HINT),
            "{help}"
        );
    }

    #[test]
    fn every_command_accepts_a_rare_setting() {
        let arguments = ["mediagate", "keys", "list", "--webhooks-timeout", "3s"];
        let matches = command().try_get_matches_from(arguments).unwrap();
        assert!(matches.contains_id("webhooks_timeout"));
        let arguments = ["mediagate", "serve", "--webhooks-timeout", "3s"];
        let matches = command().try_get_matches_from(arguments).unwrap();
        assert!(matches.contains_id("webhooks_timeout"));
    }

    #[test]
    fn shells_offer_the_settings_that_the_command_uses() {
        let mut command = completion_command();
        command.build();
        let has = |path: &[&str], option: &str| {
            let subcommand = path.iter().fold(&command, |parent, name| {
                parent.find_subcommand(name).unwrap()
            });
            subcommand
                .get_opts()
                .any(|arg| arg.get_long() == Some(option))
        };
        for path in [&["keys"][..], &["keys", "update"], &["config", "check"]] {
            assert!(has(path, "data"), "{path:?}");
        }
        assert!(!has(&["keys", "update"], "webhooks-timeout"));
        assert!(has(&["config", "check"], "webhooks-timeout"));
        assert!(has(&["keys", "update"], "budget-period"));
    }

    #[test]
    fn markup_of_doc_comments_is_not_shown() {
        assert_eq!(
            strip_markup("\"folder\" or <s3://bucket/prefix> [default: `AWS_REGION`]; 1 < 2"),
            "\"folder\" or s3://bucket/prefix [default: AWS_REGION]; 1 < 2"
        );
        let help = help(&["serve", "--help"]);
        assert!(!help.contains('`') && !help.contains("<file:"), "{help}");
    }
}

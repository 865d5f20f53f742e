//! The command line as it is parsed, completed and explained: a command's help shows the settings that
//! matter to it.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory as _};

use crate::cli::Cli;

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
    // clap hands a global argument down unless the subcommand has one of that name. So visible
    // copies are added here, before the originals are hidden below.
    let command = command.mut_subcommands(|sub| {
        if FULL_SETTINGS_COMMANDS.contains(&sub.get_name()) {
            return sub.args(&settings);
        }
        let sub = sub.mut_subcommands(|sub| sub.after_help(SETTINGS_HINT));
        sub.after_help(SETTINGS_HINT)
    });
    let examples = format!("{}\n\n{SETTINGS_HINT}", crate::cli::EXAMPLES);
    let command = command.after_help(examples);
    command.mut_args(|arg| if is_rare(&arg) { arg.hide(true) } else { arg })
}

/// The command line for shell completion, without the hidden options, which shells would offer as
/// well.
pub(super) fn completion_command() -> Command {
    let all = command();
    Command::new("mediagate")
        .args(all.get_arguments().filter(|arg| !is_rare(arg)))
        .subcommands(all.get_subcommands())
}

/// A parser that accepts only these words; help shows them and shells complete them.
pub(super) fn one_of<T>(
    words: impl IntoIterator<Item = &'static str> + 'static,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>().map_err(|_| "unknown value"))
}

fn is_rare(arg: &Arg) -> bool {
    arg.get_env().is_some() && !COMMON_SETTINGS.contains(&arg.get_id().as_str())
}

/// Removes the markup that the same text has in the source's documentation.
fn strip_markup(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split('<').enumerate() {
        match part.split_once('>') {
            Some((inside, rest)) if at > 0 => plain.extend([inside, rest]),
            _ => plain.extend([if at > 0 { "<" } else { "" }, part]),
        }
    }
    plain.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_well_formed() {
        command().debug_assert();
    }

    /// A setting that is not global would be unknown after `serve`.
    #[test]
    fn settings_stand_before_or_behind_the_command() {
        let command = command();
        for setting in command.get_opts().filter(|arg| arg.get_env().is_some()) {
            assert!(setting.is_global_set(), "{}", setting.get_id());
        }
    }

    fn help(words: &[&str]) -> String {
        let words = std::iter::once("mediagate").chain(words.iter().copied());
        command()
            .try_get_matches_from(words)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn help_shows_what_matters_to_the_command() {
        for words in [
            &["--help"][..],
            &["keys", "create", "--help"],
            &["keys", "--help"],
        ] {
            let help = help(words);
            assert!(help.contains("--data <FOLDER>"), "{help}");
            assert!(!help.contains("--webhooks-timeout"), "{help}");
            assert!(help.contains(SETTINGS_HINT), "{help}");
        }
        for words in [
            &["serve", "--help"][..],
            &["help", "serve"],
            &["config", "check", "--help"],
        ] {
            assert!(help(words).contains("--webhooks-timeout"), "{words:?}");
        }
        assert!(help(&["help"]).contains("Examples:"));
    }

    #[test]
    fn a_rare_setting_is_taken_by_every_command() {
        let words = ["mediagate", "keys", "list", "--webhooks-timeout", "3s"];
        let matches = command().try_get_matches_from(words).unwrap();
        assert!(matches.contains_id("webhooks_timeout"));
        let words = ["mediagate", "serve", "--webhooks-timeout", "3s"];
        let matches = command().try_get_matches_from(words).unwrap();
        assert!(matches.contains_id("webhooks_timeout"));
    }

    #[test]
    fn shells_offer_what_matters_to_the_command() {
        let mut command = completion_command();
        command.build();
        let has = |path: &[&str], option: &str| {
            let found = path
                .iter()
                .fold(&command, |at, name| at.find_subcommand(name).unwrap());
            found.get_opts().any(|arg| arg.get_long() == Some(option))
        };
        for path in [&["keys"][..], &["keys", "update"], &["config", "check"]] {
            assert!(has(path, "data"), "{path:?}");
        }
        assert!(!has(&["keys", "update"], "webhooks-timeout"));
        assert!(has(&["config", "check"], "webhooks-timeout"));
        assert!(has(&["keys", "update"], "budget-period"));
    }

    #[test]
    fn marks_of_the_source_are_not_shown() {
        assert_eq!(
            strip_markup("\"folder\" or <s3://bucket/prefix> [default: `AWS_REGION`]; 1 < 2"),
            "\"folder\" or s3://bucket/prefix [default: AWS_REGION]; 1 < 2"
        );
        let help = help(&["serve", "--help"]);
        assert!(!help.contains('`') && !help.contains("<file:"), "{help}");
    }
}

//! Settings become defaults of options.

use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::{BoolishValueParser, Resettable};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::file::{Entry, Settings, Value};
use super::options::{is_flag, setting, settings_of, variable};
use crate::errors::Failure;
use crate::exit::Exit;

/// How alike a name must be to be suggested.
const ALIKE: f64 = 0.75;

/// Leaves out settings that no command has, and values that their options do not take: they are
/// problems. Every setting is checked, also those of other commands than the one that runs.
pub(crate) fn checked(root: &Command, mut settings: Settings) -> Settings {
    for entry in std::mem::take(&mut settings.entries) {
        match check(root, &entry) {
            Ok(()) => settings.entries.push(entry),
            Err(failure) => settings.add_problem(failure),
        }
    }
    settings
}

/// Makes the settings of config files the defaults of options. `words` are those of the command
/// line.
pub(crate) fn apply(root: Command, settings: &Settings, words: &[OsString]) -> Command {
    let root = each_arg(root, switchable);
    let has_variable = |command: &Command| command.get_arguments().any(|a| variable(a).is_some());
    let is_any_set = has_variable(&root) || root.get_subcommands().any(has_variable);
    let given = is_any_set.then(|| given(&root, words)).flatten();
    let root = each_arg(root, |arg| without_useless_variable(arg, given.as_ref()));
    with_settings(root, settings)
}

fn with_settings(mut root: Command, settings: &Settings) -> Command {
    let entries = &settings.entries;
    if entries.is_empty() {
        return root;
    }
    let globals: Vec<Arg> = root.get_arguments().cloned().collect();
    let names: Vec<String> = root.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for arg in &globals {
        if let Some(entry) = setting(arg).and_then(|key| effective(entries, None, &key)) {
            root = root.mut_arg(arg.get_id().clone(), |arg| with_default(arg, &entry.value));
        }
    }
    for name in names {
        root = root.mut_subcommand(name.clone(), |mut command| {
            let own: Vec<Arg> = command.get_arguments().cloned().collect();
            let of = |arg: &Arg| effective(entries, Some(&name), &setting(arg)?);
            for (arg, entry) in own.into_iter().filter_map(|arg| of(&arg).map(|e| (arg, e))) {
                let id = arg.get_id().clone();
                command = command.mut_arg(id, |arg| with_default(arg, &entry.value));
            }
            for arg in &globals {
                // What holds for all commands is of another default in this one.
                if let Some(entry) = of(arg).filter(|entry| entry.section.is_some()) {
                    command = command.arg(with_default(arg.clone(), &entry.value));
                }
            }
            command
        });
    }
    root
}

/// The entry that decides a setting: of a command, or of all of them.
pub(super) fn effective<'a>(
    entries: &'a [Entry],
    command: Option<&str>,
    key: &str,
) -> Option<&'a Entry> {
    let holds = |entry: &&Entry| match &entry.section {
        None => entry.key == key,
        Some((section, _)) => entry.key == key && Some(section.as_str()) == command,
    };
    entries.iter().rfind(holds)
}

fn with_default(arg: Arg, value: &Value) -> Arg {
    // The definition of the command line, which borrows them, lives as long as the process.
    let texts =
        value.texts().into_iter().map(|text| &*Box::leak(text.into_owned().into_boxed_str()));
    arg.default_values(texts)
}

fn each_arg(root: Command, change: impl Fn(Arg) -> Arg) -> Command {
    root.mut_args(&change).mut_subcommands(|command| command.mut_args(&change))
}

/// An empty variable is as good as none, and so is any beside its option, whatever its value.
fn without_useless_variable(arg: Arg, given: Option<&ArgMatches>) -> Arg {
    match arg.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() || is_given(&arg, given) => arg.env(Resettable::Reset),
        _ => arg,
    }
}

/// Whether a text begins with the name of an option.
fn is_about(arg: &Arg, text: &str) -> bool {
    let rest = text.strip_prefix("--").and_then(|text| text.strip_prefix(arg.get_long()?));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// What the command line gives the command that runs, whatever the values.
fn given(root: &Command, words: &[OsString]) -> Option<ArgMatches> {
    let of_any_value = |arg: Arg| match arg.get_action().takes_values() {
        true => arg.env(Resettable::Reset).value_parser(clap::value_parser!(OsString)),
        false => arg.env(Resettable::Reset),
    };
    let parsed = each_arg(root.clone(), of_any_value).ignore_errors(true);
    let (_, command) = parsed.try_get_matches_from(words).ok()?.remove_subcommand()?;
    Some(command)
}

fn is_given(arg: &Arg, given: Option<&ArgMatches>) -> bool {
    let id = arg.get_id().as_str();
    let of = |given: &ArgMatches| {
        given.ids().any(|known| known.as_str() == id)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    given.is_some_and(of)
}

/// A flag that a setting may turn on can be turned off: `--timer=false`.
fn switchable(arg: Arg) -> Arg {
    if setting(&arg).is_none() || !is_flag(&arg) {
        return arg;
    }
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_name("BOOL")
        .value_parser(BoolishValueParser::new())
        .default_value("false")
        .default_missing_value("true")
        .hide_default_value(true)
        .hide_possible_values(true)
}

/// The failure for an error of the command line that is about the value of a variable, which clap
/// tells by the name of the option. `words` are those of the command line.
pub(crate) fn wrong_variable(
    root: &Command,
    error: &clap::Error,
    words: &[OsString],
) -> Option<Failure> {
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg) else { return None };
    let mut all = root.get_subcommands().flat_map(|command| settings_of(root, command));
    let given = given(&each_arg(root.clone(), switchable), words);
    let arg = all.find(|arg| is_about(arg, about) && !is_given(arg, given.as_ref()))?;
    let (value, name) = variable(arg).zip(arg.get_env())?;
    let (value, name) = (value.to_string_lossy(), name.to_string_lossy());
    let why = match is_flag(arg) {
        true => format!("'{value}': true or false is needed"),
        false => parses(arg, &value).err()?,
    };
    let failure = Failure::new(Exit::Usage, "config", format!("{name}: {why}"));
    Some(failure.hint(format!("unset {name}, or give --{}", arg.get_long().unwrap_or_default())))
}

/// Checks the name and the value of a setting.
fn check(root: &Command, entry: &Entry) -> Result<(), Failure> {
    let commands: Vec<&Command> = match &entry.section {
        None => root.get_subcommands().collect(),
        Some((name, place)) => match root.get_subcommands().find(|c| c.get_name() == name) {
            Some(command) => vec![command],
            None => {
                let known = root.get_subcommands().map(|c| c.get_name().to_owned());
                let failure = place.failure(&format!("there is no command '{name}'"));
                return Err(with_suggestion(failure, name, known, "`sty --help` lists them"));
            }
        },
    };
    if entry.section.is_some() && entry.key.is_empty() {
        return Ok(());
    }
    let mut known = commands.iter().flat_map(|command| settings_of(root, command));
    let Some(arg) = known.find(|arg| setting(arg).as_ref() == Some(&entry.key)) else {
        let all = commands.iter().flat_map(|command| settings_of(root, command));
        let (of, list) = match &entry.section {
            Some((name, _)) => (format!(" of [{name}]"), format!("`sty config {name}`")),
            None => (String::new(), "`sty config`".to_owned()),
        };
        let failure = entry.place.failure(&format!("there is no setting '{}'{of}", entry.key));
        let list = format!("{list} lists all settings");
        return Err(with_suggestion(failure, &entry.key, all.filter_map(setting), &list));
    };
    let wrong = |what: &str| entry.place.failure(&format!("{}: {what}", entry.key));
    match (&entry.value, is_flag(arg)) {
        (Value::Flag(_), true) => Ok(()),
        (_, true) => Err(wrong("true or false is needed")),
        (Value::List(_), false) if !matches!(arg.get_action(), ArgAction::Append) => {
            Err(wrong("one value is needed"))
        }
        (value, false) => {
            value.texts().iter().try_for_each(|text| parses(arg, text).map_err(|why| wrong(&why)))
        }
    }
}

/// Whether an option takes a value, or why not.
fn parses(arg: &Arg, text: &str) -> Result<(), String> {
    let alone = Arg::new("value").long("value").value_parser(arg.get_value_parser().clone());
    let command = Command::new("sty").no_binary_name(true).arg(alone);
    let Err(error) = command.try_get_matches_from([format!("--value={text}")]) else {
        return Ok(());
    };
    let why = match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(valid)), _) => format!("one of {} is needed", valid.join(", ")),
        (_, Some(source)) => source.to_string(),
        _ => "this is no value of it".to_owned(),
    };
    Err(format!("'{text}': {why}"))
}

/// A failure with the name that is most like another, or with a hint where none is like it.
fn with_suggestion(
    failure: Failure,
    name: &str,
    known: impl Iterator<Item = String>,
    hint: &str,
) -> Failure {
    let likeness = |other: String| (strsim::jaro_winkler(name, &other), other);
    match known.map(likeness).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, near)) if likeness >= ALIKE => {
            failure.hint(format!("did you mean '{near}'? {hint}"))
        }
        _ => failure.hint(hint),
    }
}

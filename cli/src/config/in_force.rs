//! Which settings are in force, and where each comes from.

use std::fmt;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::apply::effective;
use super::file::{Entry, Settings};
use super::options::{is_flag, setting, settings_of, variable};
use super::toml_file::Place;

/// A setting as it is in force.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    /// The command that it holds for; `None` for all that have it.
    pub(crate) command: Option<String>,
    pub(crate) name: String,
    /// `None` where nothing is set.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

/// Where a setting comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Flag(String),
    Variable(String),
    File(Place),
    /// A file, for answers on a terminal.
    FileForTerminals(Place),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "--{name}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::File(place) => place.fmt(f),
            Origin::FileForTerminals(place) => write!(f, "{place} (on terminals)"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// The settings of a command, or of all of them; then also what config files say of single
/// commands. `None` if there is no such command. `root` is without defaults of files; `given`
/// is what is given on the command line.
pub(crate) fn in_force(
    root: &Command,
    settings: &Settings,
    given: &ArgMatches,
    command: Option<&str>,
) -> Option<Vec<InForce>> {
    let entries = &settings.entries;
    let find = |name: &str| root.get_subcommands().find(|command| command.get_name() == name);
    let commands: Vec<&Command> = match command {
        Some(name) => vec![find(name)?],
        None => root.get_subcommands().collect(),
    };
    let mut found: Vec<InForce> = Vec::new();
    for arg in commands.iter().flat_map(|command| settings_of(root, command)) {
        let Some(name) = setting(arg) else { continue };
        if !found.iter().any(|known| known.name == name) {
            let entry = effective(entries, command, &name);
            let (value, origin) = decide(arg, &name, entry, given);
            found.push(InForce { command: None, name, value, origin });
        }
    }
    for entry in entries.iter().filter(|_| command.is_none()) {
        let Some((section, _)) = &entry.section else { continue };
        let Some(command) = find(section) else { continue };
        let is_known =
            |known: &InForce| known.command.as_ref() == Some(section) && known.name == entry.key;
        let arg = settings_of(root, command).find(|arg| setting(arg).as_ref() == Some(&entry.key));
        let Some(arg) = arg.filter(|_| !found.iter().any(is_known)) else { continue };
        let decides = effective(entries, Some(section), &entry.key);
        let (value, origin) = decide(arg, &entry.key, decides, given);
        let (command, name) = (Some(section.clone()), entry.key.clone());
        found.push(InForce { command, name, value, origin });
    }
    Some(found)
}

/// The value of a setting: a flag goes before a variable, that before a file, that before the
/// default.
fn decide(
    arg: &Arg,
    name: &str,
    entry: Option<&Entry>,
    given: &ArgMatches,
) -> (Option<String>, Origin) {
    let id = arg.get_id().as_str();
    let is_given = given.ids().any(|known| known.as_str() == id)
        && given.value_source(id) == Some(ValueSource::CommandLine);
    if is_given {
        let raw = given.try_get_raw(id).ok().flatten().into_iter().flatten();
        let texts: Vec<_> = raw.map(|text| text.to_string_lossy().into_owned()).collect();
        let long = arg.get_long().unwrap_or(name).to_owned();
        return (Some(shown(&texts)), Origin::Flag(long));
    }
    if let Some((value, variable)) = variable(arg).zip(arg.get_env()) {
        let name = variable.to_string_lossy().into_owned();
        return (Some(value.to_string_lossy().into_owned()), Origin::Variable(name));
    }
    if let Some(entry) = entry {
        let place = entry.place.clone();
        let origin = match entry.is_of_terminals() {
            true => Origin::FileForTerminals(place),
            false => Origin::File(place),
        };
        return (Some(shown(&entry.value.texts())), origin);
    }
    let texts: Vec<_> =
        arg.get_default_values().iter().map(|text| text.to_string_lossy().into_owned()).collect();
    let default = match texts.as_slice() {
        [] if is_flag(arg) => Some("false".to_owned()),
        [] => of_machine(name),
        texts => Some(shown(texts)),
    };
    (default, Origin::Default)
}

/// A list stands as in TOML.
fn shown(texts: &[impl AsRef<str>]) -> String {
    match texts {
        [one] => one.as_ref().to_owned(),
        many => {
            let quoted: Vec<String> =
                many.iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
            format!("[{}]", quoted.join(", "))
        }
    }
}

/// A default that depends on the machine.
fn of_machine(name: &str) -> Option<String> {
    match name {
        "threads" => Some(std::thread::available_parallelism().map_or(1, usize::from).to_string()),
        "memory-limit" => Some(stylobate::internal::disk::default_limit().to_string()),
        "temp-dir" => Some(std::env::temp_dir().display().to_string()),
        _ => None,
    }
}

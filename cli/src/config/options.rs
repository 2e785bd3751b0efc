//! Options that are settings: those with an environment variable.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// What begins the names of all variables.
pub(super) const PREFIX: &str = "STY_";

/// The name of an option as a setting; `None` if it is none.
pub(super) fn setting(arg: &Arg) -> Option<String> {
    let variable = arg.get_env()?.to_str()?;
    Some(variable.strip_prefix(PREFIX)?.to_ascii_lowercase().replace('_', "-"))
}

/// The value of the variable of an option, if it has one that is not empty.
pub(super) fn variable(arg: &Arg) -> Option<OsString> {
    std::env::var_os(arg.get_env()?).filter(|value| !value.is_empty())
}

/// Whether an option takes no value.
pub(super) fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

/// The settings of a command: those that all commands have, and its own.
pub(super) fn settings_of<'a>(
    root: &'a Command,
    command: &'a Command,
) -> impl Iterator<Item = &'a Arg> {
    root.get_arguments().chain(command.get_arguments()).filter(|arg| setting(arg).is_some())
}

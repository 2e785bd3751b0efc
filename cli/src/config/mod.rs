//! Settings: defaults of options, from config files and the environment.
//!
//! A setting is an option with an environment variable: `STY_MEMORY_LIMIT` of `--memory-limit`
//! makes it the setting `memory-limit`. A config file is TOML: settings at its top hold for all
//! commands that have the option, and those in a section, such as `[ingest]`, for one command. They
//! become defaults of the options before the command line is parsed, so that there is one parser of
//! values, and a flag goes before the environment, that before a file, and that before the default.
//!
//! Two rules keep a user's file from changing what scripts do unseen: settings about how an answer
//! looks hold on terminals only, and a load says which settings decide how its input is read.

mod apply;
mod file;
mod in_force;
mod options;
mod toml_file;

pub(crate) use apply::{apply, checked, wrong_variable};
pub(crate) use file::{Settings, load};
pub(crate) use in_force::{InForce, Origin, in_force};
pub(crate) use toml_file::TomlFile;

//! Config files: where they are, and what is in them.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use toml::de::DeValue;

use super::toml_file::{Place, TomlFile};
use crate::errors::Failure;

/// The file of the whole machine.
const OF_MACHINE: &str = "/etc/sty/config.toml";

/// Settings about how an answer looks. In a file they hold only where the answer goes to a
/// terminal, so that scripts get the same on every machine.
const OF_TERMINALS: [&str; 3] = ["format", "max-rows", "no-header"];

/// What to do about any of these problems.
const WAY_OUT: &str = "--no-config leaves config files out";

/// What config files say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// In the order in which later entries go before earlier ones.
    pub(super) entries: Vec<Entry>,
    /// What is wrong in them. Commands that store or answer anything do not run then.
    pub(crate) problems: Vec<Rc<Failure>>,
    /// What the user should know, and what stops no command.
    pub(crate) notes: Vec<String>,
}

impl Settings {
    /// What holds for all commands.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let mut entries = self.entries.iter();
        let entry = entries.rfind(|entry| entry.section.is_none() && entry.key == key)?;
        entry.value.texts().first().map(|text| text.to_string())
    }

    /// What holds where an answer does not go to a terminal.
    #[must_use]
    pub(crate) fn away_from_terminal(&self) -> Settings {
        let mut settings = self.clone();
        settings.entries.retain(|entry| !entry.is_of_terminals());
        settings
    }

    pub(super) fn add_problem(&mut self, failure: Failure) {
        self.problems.push(Rc::new(failure.hint_also(WAY_OUT)));
    }
}

/// A setting in a file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The command of its section.
    pub(super) section: Option<(String, Place)>,
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) place: Place,
}

impl Entry {
    /// Whether it holds only where the answer goes to a terminal.
    pub(super) fn is_of_terminals(&self) -> bool {
        OF_TERMINALS.contains(&self.key.as_str())
    }
}

/// The value of a setting, as it is given on a command line.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Flag(bool),
    One(String),
    List(Vec<String>),
}

impl Value {
    pub(super) fn texts(&self) -> Vec<Cow<'_, str>> {
        match self {
            Value::Flag(set) => vec![Cow::Borrowed(if *set { "true" } else { "false" })],
            Value::One(text) => vec![Cow::Borrowed(text)],
            Value::List(texts) => texts.iter().map(|text| Cow::Borrowed(&**text)).collect(),
        }
    }
}

/// Reads the config files. What comes later goes before what comes earlier: the user's file before
/// that of the machine, and within a file sections before what holds for all commands.
pub(crate) fn load() -> Settings {
    let variable = |name: &str| std::env::var_os(name);
    let named = variable("STY_CONFIG");
    let paths = match &named {
        Some(named) if named.is_empty() => Vec::new(),
        Some(named) => vec![PathBuf::from(named)],
        None => {
            let user = user_file(variable("XDG_CONFIG_HOME"), variable("HOME"));
            [Some(PathBuf::from(OF_MACHINE)), user].into_iter().flatten().collect()
        }
    };
    let mut settings = Settings::default();
    for path in paths {
        let is_none = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
        let entries = match std::fs::read(&path) {
            Ok(bytes) => parse(&path, bytes),
            Err(error) if named.is_none() && is_none(error.kind()) => continue,
            // Nobody can tell whether there is one: HOME is of another user, as under `su`.
            Err(error) if named.is_none() && is_hidden(&path, &error) => {
                let path = path.display();
                settings.notes.push(format!("no config file is read: {path}: {error}"));
                continue;
            }
            Err(error) if named.is_some() => {
                Err(Failure::io(&path, &error).hint("STY_CONFIG names it"))
            }
            Err(error) => Err(Failure::io(&path, &error)),
        };
        match entries {
            Ok(entries) => settings.entries.extend(entries),
            Err(failure) => settings.add_problem(failure),
        }
    }
    settings
}

/// Whether the system does not even tell if a file exists, with the error of reading it.
fn is_hidden(path: &Path, error: &std::io::Error) -> bool {
    let is_refused = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    is_refused(error) && std::fs::metadata(path).is_err_and(|error| is_refused(&error))
}

/// The user's file, by the XDG base directories: paths in them are absolute.
fn user_file(config_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    let directory =
        absolute(config_home).or_else(|| absolute(home).map(|home| home.join(".config")))?;
    Some(directory.join("sty/config.toml"))
}

/// The settings of a file, sections last.
fn parse(path: &Path, bytes: Vec<u8>) -> Result<Vec<Entry>, Failure> {
    let file = TomlFile::of(path, bytes)?;
    let table = file.table()?;
    let place = |span: Range<usize>| file.place(span);
    let (mut entries, mut sections) = (Vec::new(), Vec::new());
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => {
                let named = (key.get_ref().to_string(), place(key.span()));
                for (key, value) in section {
                    let place = place(key.span());
                    let value = of_toml(value.get_ref(), &place)?;
                    let (section, key) = (Some(named.clone()), key.get_ref().to_string());
                    sections.push(Entry { section, key, value, place });
                }
                if section.is_empty() {
                    // Its name is looked at all the same.
                    let (section, key) = (Some(named.clone()), String::new());
                    let (value, place) = (Value::List(Vec::new()), named.1);
                    sections.push(Entry { section, key, value, place });
                }
            }
            value => {
                let place = place(key.span());
                let value = of_toml(value, &place)?;
                let key = key.get_ref().to_string();
                entries.push(Entry { section: None, key, value, place });
            }
        }
    }
    let at = |entry: &Entry| entry.place.offset;
    entries.sort_by_key(at);
    sections.sort_by_key(at);
    entries.append(&mut sections);
    Ok(entries)
}

fn of_toml(value: &DeValue<'_>, place: &Place) -> Result<Value, Failure> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        _ => Err(place.failure("a text, a number, true or false, or a list of texts is needed")),
    };
    Ok(match value {
        DeValue::Boolean(set) => Value::Flag(*set),
        DeValue::Array(values) => {
            Value::List(values.iter().map(|v| one(v.get_ref())).collect::<Result<_, _>>()?)
        }
        value => Value::One(one(value)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn values_have_their_places() {
        let text =
            "threads = 4\nnull = ['NA', '-']\n\n[ingest]\n  io = 'read'\n[query]\ntimer=true\n";
        let entries = parse(Path::new("c.toml"), text.into()).unwrap();
        let shown: Vec<String> = entries
            .iter()
            .map(|entry| {
                let section = entry.section.as_ref().map_or("", |(name, _)| name);
                let column = entry.place.column;
                format!("{} {column} {section} {} {:?}", entry.place, entry.key, entry.value)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "c.toml:1 1  threads One(\"4\")",
                "c.toml:2 1  null List([\"NA\", \"-\"])",
                "c.toml:5 3 ingest io One(\"read\")",
                "c.toml:7 1 query timer Flag(true)",
            ]
        );
    }

    #[test]
    fn what_is_no_setting_is_told_with_its_place() {
        for (text, start) in [
            ("a = 1\nb = [1, {c = 2}]", "c.toml:2:1: a text, a number"),
            ("a = 2020-01-01", "c.toml:1:1: a text, a number"),
            ("é = 'x'\nthreads 4\n", "c.toml:2:"),
            ("[query]\n[query]\n", "c.toml:2:"),
            ("a = 1\na = 2\n", "c.toml:2:"),
        ] {
            let failure = parse(Path::new("c.toml"), text.into()).unwrap_err();
            assert!(failure.message.starts_with(start), "{text}: {}", failure.message);
            assert_eq!((failure.code, failure.exit), ("config", Exit::Usage));
        }
        let failure = parse(Path::new("c.toml"), b"a = 'x\xff'".to_vec()).unwrap_err();
        assert_eq!(&*failure.message, "c.toml:1:7: these bytes are not UTF-8");
    }

    #[test]
    fn the_users_file_is_where_xdg_says() {
        let file = |config: Option<&str>, home: Option<&str>| {
            user_file(config.map(OsString::from), home.map(OsString::from))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(file(Some("/c"), Some("/h")), path("/c/sty/config.toml"));
        assert_eq!(file(None, Some("/h")), path("/h/.config/sty/config.toml"));
        for relative in ["", "c"] {
            assert_eq!(file(Some(relative), Some("/h")), path("/h/.config/sty/config.toml"));
        }
        assert_eq!(file(None, None), None);
    }
}

//! Why a command failed, and how that looks on stderr: as text for people, or as one JSON object
//! (`--error-format json`).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;

use crate::exit::Exit;
use crate::progress;
use crate::units::{show_duration, show_text};

/// The look of an error on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ErrorFormat {
    // `error: …`, and a hint where there is one.
    #[default]
    Human,
    // One object: code, message, file, offset, generation, hint.
    Json,
}

/// The most bytes of a message that are shown.
const MOST_SHOWN: usize = 4096;
/// The most bytes of a value in a message that are shown.
const MOST_SHOWN_OF_VALUE: usize = 200;

/// The timeout of the command, once it has passed.
static TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// Notes that the timeout of the command has passed: from now on, work that is asked to stop stops
/// for this reason.
pub(crate) fn note_timeout(timeout: Duration) {
    let _ = TIMEOUT.set(timeout);
}

/// The reason why a command stopped before its end.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code to leave with.
    pub(crate) exit: Exit,
    /// A stable name for scripts, such as `not-found`.
    pub(crate) code: &'static str,
    /// What happened, and where.
    pub(crate) message: Box<str>,
    /// The file concerned.
    pub(crate) file: Option<PathBuf>,
    /// The offset in that file, in bytes.
    pub(crate) offset: Option<u64>,
    /// The generation that is in force nevertheless.
    pub(crate) generation: Option<NonZeroU64>,
    /// What to do about it.
    pub(crate) hint: Option<Box<str>>,
    /// The command whose help is printed before the message.
    pub(crate) needs_help_of: Option<&'static str>,
}

impl Failure {
    /// A failure with this exit code, and a name for scripts.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Failure {
            exit,
            code,
            message: message.into().into_boxed_str(),
            file: None,
            offset: None,
            generation: None,
            hint: None,
            needs_help_of: None,
        }
    }

    /// The command line asks for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, "usage", message)
    }

    /// A command has nothing to read. Its help is printed instead of waiting for a terminal.
    pub(crate) fn nothing_to_read(command: &'static str) -> Self {
        let failure = Failure::usage("nothing to read: stdin is a terminal")
            .hint(format!("name the input or pipe it in; `sty {command} --help` has examples"));
        Failure { needs_help_of: Some(command), ..failure }
    }

    /// The query or its execution failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure::new(Exit::Failed, "failed", message)
    }

    /// The reader of stdout is gone, which ends the work successfully.
    pub(crate) fn closed() -> Self {
        Failure::new(Exit::Done, "closed", "the output was closed")
    }

    /// Work was asked to stop: the timeout has passed, or Ctrl-C was pressed.
    pub(crate) fn stopped() -> Self {
        match TIMEOUT.get() {
            Some(timeout) => Failure::timeout(*timeout),
            None => Failure::new(Exit::Interrupted, "cancelled", "interrupted"),
        }
    }

    /// A timeout has passed.
    pub(crate) fn timeout(timeout: Duration) -> Self {
        let message = format!("timeout of {} reached", show_duration(timeout));
        Failure::new(Exit::Limit, "limit-exceeded", message)
    }

    /// Bytes on disk are damaged.
    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Failure::new(Exit::Corrupt, "corrupt", message)
    }

    /// An I/O error of `path`. A closed pipe is no error.
    pub(crate) fn io(path: &Path, source: &io::Error) -> Self {
        let exit = match source.kind() {
            io::ErrorKind::BrokenPipe => return Failure::closed(),
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failed,
        };
        let code = if exit == Exit::NotFound { "not-found" } else { "io" };
        let mut failure = Failure::new(exit, code, format!("{}: {source}", path.display()));
        failure.file = Some(path.to_path_buf());
        failure
    }

    /// The failure when a commit succeeded and only its report failed. A user who repeats the
    /// command would store its rows twice.
    pub(crate) fn after_commit(self) -> Self {
        if matches!(self.exit, Exit::Done | Exit::Interrupted | Exit::Unconfirmed) {
            return self;
        }
        let message = format!("stored and in force, but not reported: {}", self.message);
        let failure = Failure { file: self.file, ..Failure::new(self.exit, self.code, message) };
        Failure { exit: Exit::Unconfirmed, code: "unreported", ..failure }
            .hint("do not repeat the command: what it was to store is there")
    }

    /// The same with the name of the output, for an error of a writer that does not know it.
    #[must_use]
    pub(crate) fn of_output(mut self, name: &Path) -> Self {
        if self.code == "io" && self.file.is_none() {
            self.message = format!("{}: {}", name.display(), self.message).into_boxed_str();
            self.file = Some(name.to_path_buf());
        }
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// Says what to do about it, unless something was said already.
    #[must_use]
    pub(crate) fn hint_unless_there(self, hint: &str) -> Self {
        if self.hint.is_some() { self } else { self.hint(hint) }
    }

    /// Says what else to do about it.
    #[must_use]
    pub(crate) fn hint_also(self, more: &str) -> Self {
        let hint =
            self.hint.as_ref().map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}"));
        self.hint(hint)
    }

    /// Writes the failure to stderr, unless it is a closed pipe.
    pub(crate) fn report(&self, format: ErrorFormat, color: bool) {
        if self.exit.is_success() {
            return;
        }
        let text = match format {
            ErrorFormat::Human => self.human(color),
            ErrorFormat::Json => self.json(),
        };
        progress::erase();
        progress::write_stderr(&text);
    }

    fn human(&self, color: bool) -> String {
        let (red, cyan, reset) =
            if color { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{red}error:{reset} {}\n", show_text(&shortened(&self.message)));
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{cyan}hint:{reset} {}", show_text(hint));
        }
        text
    }

    fn json(&self) -> String {
        let object = json!({
            "code": self.code,
            "message": shortened(&self.message),
            "file": self.file.as_ref().map(|file| file.to_string_lossy()),
            "offset": self.offset,
            "generation": self.generation,
            "hint": self.hint,
        });
        format!("{object}\n")
    }
}

/// A message without the middles of long values in it, and then without its own if it is long.
fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= MOST_SHOWN_OF_VALUE {
        return Cow::Borrowed(message);
    }
    let (mut short, mut rest, mut unclosed) = (String::new(), message, Vec::new());
    while let Some((before, value, after)) = next_value(rest, &mut unclosed) {
        short.push_str(before);
        short.push_str(&without_middle(value, MOST_SHOWN_OF_VALUE));
        rest = after;
    }
    short.push_str(rest);
    Cow::Owned(without_middle(&short, MOST_SHOWN).into_owned())
}

/// The first long value of a message, and what is before and after it: a text in quotes, or a word.
/// Paths are not shortened. `unclosed` remembers quotes that never close, so that no later word
/// looks for their end again.
fn next_value<'a>(
    message: &'a str,
    unclosed: &mut Vec<char>,
) -> Option<(&'a str, &'a str, &'a str)> {
    let mut start = 0;
    for word in message.split_inclusive([' ', '\n']) {
        let opens = |(at, c): &(usize, char)| {
            matches!(c, '\'' | '"') && !word[..*at].ends_with(char::is_alphanumeric)
        };
        let quoted = word.char_indices().find(opens).and_then(|(at, quote)| {
            let at = start + at + 1;
            Some((at, before_quote(&message[at..], quote, unclosed)?))
        });
        let value = quoted.unwrap_or((start, word.trim_end()));
        if let (at, value) = value
            && value.len() > MOST_SHOWN_OF_VALUE
            && !is_path(value)
        {
            return Some((&message[..at], value, &message[at + value.len()..]));
        }
        start += word.len();
    }
    None
}

/// What is before the quote that closes.
fn before_quote<'a>(text: &'a str, quote: char, unclosed: &mut Vec<char>) -> Option<&'a str> {
    if unclosed.contains(&quote) {
        return None;
    }
    let mut quotes = text.match_indices(quote).map(|(at, _)| at);
    let end = quotes.find(|at| !text[at + 1..].starts_with(char::is_alphanumeric));
    if end.is_none() {
        unclosed.push(quote);
    }
    Some(&text[..end?])
}

fn is_path(value: &str) -> bool {
    value.contains('/') && !value.contains(' ')
}

/// A text without its middle if it has more bytes than `most`.
fn without_middle(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    let (before, after) = (&text[..head], &text[tail..]);
    Cow::Owned(format!("{before} … ({} bytes more) … {after}", tail - head))
}

/// Adds the path to an error of the operating system.
pub(crate) trait IoResult<T> {
    /// The error is about `path`.
    fn with_path(self, path: impl AsRef<Path>) -> Result<T, Failure>;
}

impl<T> IoResult<T> for io::Result<T> {
    fn with_path(self, path: impl AsRef<Path>) -> Result<T, Failure> {
        self.map_err(|error| Failure::io(path.as_ref(), &error))
    }
}

impl From<stylobate::Error> for Failure {
    fn from(error: stylobate::Error) -> Self {
        use stylobate::Error;
        let message = error.to_string();
        match error {
            Error::Io { path, source } => Failure::io(&path, &source),
            Error::Corrupt { file, offset, .. } => {
                let mut failure = Failure::corrupt(message);
                failure.file = Some(file);
                failure.offset = Some(offset);
                failure.hint("`sty verify` lists everything that is damaged in a store")
            }
            Error::Unsupported(_) => Failure::new(Exit::Failed, "unsupported", message),
            Error::InvalidInput(_) => Failure::new(Exit::Failed, "invalid-input", message),
            // Nothing is waited for that has changed already.
            Error::Busy(what) if what.ends_with("try again") => {
                Failure::new(Exit::Failed, "busy", message)
            }
            Error::Busy(_) => Failure::new(Exit::Failed, "busy", message)
                .hint("--wait waits for it, --wait=30s for so long; in SQL, SET sty.wait = '30s'"),
            Error::NotFound(_) => Failure::new(Exit::NotFound, "not-found", message),
            Error::Unreachable(_) => Failure::new(Exit::Failed, "unreachable", message).hint(
                "see that `sty serve --node` runs there; after SET sty.partial_answers = on, statements \
                 leave out the rows of nodes that do not answer",
            ),
            Error::PartlyStored(_) => Failure::new(Exit::Failed, "partly-stored", message),
            Error::LimitExceeded(_) => Failure::new(Exit::Limit, "limit-exceeded", message),
            Error::Rejected { .. } => Failure::new(Exit::Rejected, "rejected", message).hint(
                "--max-errors allows more; with --rejects FILE and no bound, all of them are kept \
                     in a file",
            ),
            Error::Unconfirmed { generation, current, .. } => {
                let mut failure = Failure::new(Exit::Unconfirmed, "unconfirmed", message);
                (failure.generation, failure.file) = (NonZeroU64::new(generation), Some(current));
                failure
            }
            Error::Unreported { generation, source } => {
                let mut failure = Failure::new(Exit::Unconfirmed, "unreported", message);
                failure.generation = NonZeroU64::new(generation);
                failure.file = Failure::from(*source).file;
                failure.hint(
                    "do not load the same rows again; the table remembers files that it has loaded, \
                     but not what came from a pipe",
                )
            }
            Error::Cancelled => Failure::stopped(),
            _ => Failure::failed(message),
        }
    }
}

impl From<arrow_schema::ArrowError> for Failure {
    fn from(error: arrow_schema::ArrowError) -> Self {
        match error {
            arrow_schema::ArrowError::IoError(message, source) => {
                if source.kind() == io::ErrorKind::BrokenPipe {
                    return Failure::closed();
                }
                Failure::new(Exit::Failed, "io", message)
            }
            other => Failure::failed(other.to_string()),
        }
    }
}

#[cfg(feature = "gen")]
impl From<stylobate_gen::Error> for Failure {
    fn from(error: stylobate_gen::Error) -> Self {
        match error {
            stylobate_gen::Error::Io { path, source } => Failure::io(&path, &source),
            stylobate_gen::Error::Cancelled => Failure::stopped(),
            stylobate_gen::Error::Exists(_) => {
                Failure::new(Exit::Failed, "invalid-input", error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_library_error_has_its_exit_code() {
        use stylobate::Error;
        let exit = |error: Error| Failure::from(error).exit;
        assert_eq!(exit(Error::corrupt(8, "bad magic")), Exit::Corrupt);
        assert_eq!(exit(Error::Unsupported(String::new())), Exit::Failed);
        assert_eq!(exit(Error::InvalidInput(String::new())), Exit::Failed);
        assert_eq!(exit(Error::Busy(String::new())), Exit::Failed);
        assert_eq!(exit(Error::NotFound(String::new())), Exit::NotFound);
        assert_eq!(exit(Error::LimitExceeded(String::new())), Exit::Limit);
        let rejected = Error::Rejected { rejected: 2, allowed: 1, details: String::new() };
        assert_eq!(exit(rejected), Exit::Rejected);
        assert_eq!(exit(Error::Cancelled), Exit::Interrupted);
        let source = Box::new(Error::io("db/t", io::Error::other("no")));
        let unconfirmed = Error::Unconfirmed { generation: 7, current: "CURRENT".into(), source };
        let failure = Failure::from(unconfirmed);
        assert_eq!((failure.exit, failure.generation), (Exit::Unconfirmed, NonZeroU64::new(7)));
        assert!(failure.message.contains("generation 7"), "{}", failure.message);
        assert_eq!(exit(Error::io("x", io::ErrorKind::NotFound.into())), Exit::NotFound);
        assert_eq!(exit(Error::io("x", io::ErrorKind::PermissionDenied.into())), Exit::Failed);
        assert_eq!(exit(Error::io("x", io::ErrorKind::BrokenPipe.into())), Exit::Done);
    }

    #[test]
    fn long_values_are_shown_without_their_middle() {
        let ones = "1".repeat(5000);
        for message in [
            format!("Cannot cast string '{ones}' to value of Int64 type"),
            format!("Cannot cast string '{} it's' to value of Int64 type", "a b ".repeat(2000)),
            format!("overflow of {ones} + 1"),
        ] {
            let short = shortened(&message);
            assert!(short.len() < 300 && short.contains(" bytes more) … "), "{short}");
            assert!(short.ends_with(" type") || short.ends_with(" + 1"), "{short}");
        }
        let path = format!("/{}/x.csv: no 'such' file", "d".repeat(400));
        assert_eq!(shortened(&path), path);
        let prose = "it's a user's word ".repeat(20);
        assert_eq!(shortened(&prose), prose);
        assert!(shortened(&"'a ".repeat(1 << 20)).len() < 5000);
    }

    #[test]
    fn json_is_one_object_with_every_key() {
        let failure =
            Failure::from(stylobate::Error::corrupt(8, "bad \"magic\"").in_file("db/t/CURRENT", 4));
        let value: serde_json::Value = serde_json::from_str(&failure.json()).unwrap();
        assert_eq!(value["code"], "corrupt");
        assert_eq!(value["file"], "db/t/CURRENT");
        assert_eq!(value["offset"], 12);
        assert!(value["message"].as_str().unwrap().contains("bad \"magic\""));
        assert!(value["hint"].is_string());
    }
}

//! A row that is left out, and why.

use std::path::Path;

use crate::error::Error;

/// Characters of a value that a message shows.
const SHOWN: usize = 80;

/// A row that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Line of the input where the fault is, from 1.
    pub line: u64,
    /// The key of the value that does not fit, if it is a value.
    pub column: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// The row as it stands in the input.
    pub text: Vec<u8>,
}

impl BadRow {
    /// The row as an error of its input.
    pub fn error(&self, file: &Path) -> Error {
        let (file, line, reason) = (file.display(), self.line, &self.reason);
        Error::InvalidInput(match &self.column {
            Some(column) => format!("{file}: line {line}, column '{column}': {reason}"),
            None => format!(
                "{file}: line {line}: not a row of JSON: {reason}, in: {}",
                shown(&self.text)
            ),
        })
    }
}

/// A text cut to what a message can hold.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..4 * SHOWN).unwrap_or(text)).into_owned();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => text.get(..at).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

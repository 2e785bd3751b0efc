//! A row that is left out, and why.

use std::path::Path;

use crate::error::Error;

/// Characters of a value that a message shows.
const SHOWN: usize = 80;

/// A row that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Line of the fault in the input, from 1.
    pub line: u64,
    /// Line at which the row starts.
    pub first_line: u64,
    /// The key, if a single value does not fit its column.
    pub column: Option<String>,
    /// Description of the fault.
    pub reason: String,
    /// The row as in the input.
    pub text: Vec<u8>,
}

impl BadRow {
    /// An error for this row.
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

/// A text, shortened for a message.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..4 * SHOWN).unwrap_or(text)).into_owned();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => text.get(..at).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

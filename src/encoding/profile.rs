//! Profiles: the balance between size and speed, and what follows for an encoder.
//!
//! **Entropy coding is a decision of the segment, not of the block.** Byte planes under zstd decode
//! five to twenty times slower than packed codes. Under the balanced profile a column gets them
//! only when the whole segment shrinks by at least 1.5 %. The small profile takes them wherever
//! they save anything, the fast one never. On 51-column trips a bound of 1 % saved 1.5 % of the
//! bytes and made sums of fares three times slower; in flights each column that takes planes saves
//! 2 % of the table or more.

use std::fmt;
use std::str::FromStr;

use super::Encoding;
use crate::error::{Error, Result};

/// The balance that the user chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Light encodings only: nothing that decodes below several GB/s.
    Fast,
    /// Light encodings, and entropy coding for columns where it shrinks the whole segment
    /// noticeably.
    #[default]
    Balanced,
    /// The smallest encoding, however slow.
    Small,
}

/// What an encoder may do with one column.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The table's profile.
    pub profile: Profile,
    /// Whether this column may spend decoding time on entropy coding (planes, zstd). The segment
    /// writer decides it per column.
    pub heavy: bool,
    /// For tests and experiments: the encoding to use at the top of the tree wherever it can hold
    /// the values.
    pub force: Option<Encoding>,
}

impl Options {
    /// The options of a profile before the segment writer has weighed columns: heavy only in the
    /// small profile.
    pub fn new(profile: Profile) -> Self {
        Options { profile, heavy: profile == Profile::Small, force: None }
    }

    /// The options for child streams: the same, unforced.
    #[must_use]
    pub fn child(self) -> Self {
        Options { force: None, ..self }
    }

    /// The zstd level for entropy-coded chunks.
    pub fn zstd_level(&self) -> i32 {
        match self.profile {
            Profile::Fast => 1,
            Profile::Balanced => 3,
            Profile::Small => 9,
        }
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "fast" => Ok(Profile::Fast),
            "balanced" => Ok(Profile::Balanced),
            "small" => Ok(Profile::Small),
            _ => Err(Error::InvalidInput(format!(
                "unknown profile '{text}'; one of fast, balanced, small"
            ))),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Fast => "fast",
            Profile::Balanced => "balanced",
            Profile::Small => "small",
        })
    }
}

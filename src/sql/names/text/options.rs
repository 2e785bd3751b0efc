//! How a text table is read.

use crate::ingest::sources::{CsvOptions, Format, TextEncoding};

/// How text is read; what is not said is found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextOptions {
    /// The format; `None` to detect it.
    pub(crate) format: Option<Format>,
    /// Options of CSV, some of which hold for JSON too.
    pub(crate) csv: CsvOptions,
    /// The encoding, unless a byte-order mark says otherwise; UTF-8 if `None`.
    pub(crate) encoding: Option<TextEncoding>,
}

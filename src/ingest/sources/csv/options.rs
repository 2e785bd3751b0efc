//! Options for reading CSV.

use super::guess::COMMA;
use crate::error::{Error, Result};
use crate::ingest::sources::format::Format;
use crate::model::DataType;

/// Rows that inference reads by default.
pub const INFER_ROWS: usize = 20_480;

/// Options for reading CSV and TSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Delimiter of fields, an ASCII character; `None` to detect it.
    pub delimiter: Option<u8>,
    /// Quote character, ASCII, or [`CsvOptions::NO_QUOTE`].
    pub quote: u8,
    /// Lines before the first row that are passed over.
    pub skip_lines: u64,
    /// Whether the first row holds names; `None` to detect it.
    pub header: Option<bool>,
    /// Unquoted spellings of null besides the empty field.
    pub nulls: Vec<String>,
    /// Whether an unquoted empty field of a text column is null rather than the empty text.
    pub empty_is_null: bool,
    /// Names of all columns, overriding a header.
    pub names: Option<Vec<String>>,
    /// Types of some columns by name; these never widen.
    pub schema: Vec<(String, DataType)>,
    /// Columns from elsewhere, such as the path: `schema` may name them although the text lacks
    /// them.
    #[doc(hidden)]
    pub external_columns: Vec<String>,
    /// Types of the table's columns by name, preferred where the sample fits them: a text column
    /// stays text even if this input has nothing but digits.
    #[doc(hidden)]
    pub prior: Vec<(String, DataType)>,
    /// Rows of the first chunk to infer from.
    pub infer_rows: usize,
    /// Leave out rows that cannot be read ([`super::parse_good_rows`]), also when cutting chunks
    /// and inferring types.
    #[doc(hidden)]
    pub skip_bad_rows: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            delimiter: None,
            quote: b'"',
            skip_lines: 0,
            header: None,
            nulls: Vec::new(),
            empty_is_null: true,
            names: None,
            schema: Vec::new(),
            external_columns: Vec::new(),
            prior: Vec::new(),
            infer_rows: INFER_ROWS,
            skip_bad_rows: false,
        }
    }
}

impl CsvOptions {
    /// The quote of texts in which quotes are text: a byte that UTF-8 does not have.
    pub const NO_QUOTE: u8 = 0xff;

    /// The defaults for a format: a tab as delimiter for TSV; for CSV it is detected.
    pub(crate) fn for_format(format: Format) -> Self {
        let delimiter = (format == Format::Tsv).then_some(b'\t');
        CsvOptions { delimiter, ..CsvOptions::default() }
    }

    /// Refuses delimiters and quotes that cannot work.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        let delimiter = self.delimiter.unwrap_or(COMMA);
        let quotes = is_usable(self.quote) || self.quote == CsvOptions::NO_QUOTE;
        if !is_usable(delimiter) || !quotes || delimiter == self.quote {
            return Err(Error::InvalidInput(format!(
                "delimiter {:?} and quote {:?} must be two different ASCII characters, and no line \
                 ends",
                char::from(delimiter),
                char::from(self.quote)
            )));
        }
        Ok(())
    }
}

/// Whether a byte can delimit or quote fields.
pub(super) fn is_usable(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0)
}

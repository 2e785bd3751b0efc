//! Options for reading CSV.

use super::guess::COMMA;
use crate::error::{Error, Result};
use crate::ingest::sources::format::Format;
use crate::ingest::text::layout::DateOrder;
use crate::ingest::text::number_format::NumberFormat;
use crate::model::{DataType, TimeUnit};

/// Rows that inference reads by default.
pub const INFER_ROWS: usize = 20_480;

/// Options for reading CSV and TSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Delimiter of fields, an ASCII character; `None` to detect it.
    pub delimiter: Option<u8>,
    /// Quote character, ASCII, or [`CsvOptions::NO_QUOTE`].
    pub quote: u8,
    /// Starts lines that are comments, an ASCII character.
    pub comment: Option<u8>,
    /// Makes the quote after it text, in quoted fields: an ASCII character, or
    /// [`CsvOptions::NO_ESCAPE`]; `None` to detect the backslash.
    pub escape: Option<u8>,
    /// Whether blanks before fields are no part of them; `None` to detect them before quotes.
    pub skip_initial_space: Option<bool>,
    /// Lines before the first row that are passed over.
    pub skip_lines: u64,
    /// Whether the first row holds names; `None` to detect it.
    pub header: Option<bool>,
    /// Unquoted spellings of null besides the empty field. Without any, words such as `NA` are null
    /// in columns that would not be text without them.
    pub nulls: Vec<String>,
    /// Whether an unquoted empty field of a text column is null rather than the empty text.
    pub empty_is_null: bool,
    /// The decimal point, and the separator of thousands.
    pub numbers: NumberFormat,
    /// Whether the day or the month comes first in `01/02/2020`; `None` to find out.
    pub date_order: Option<DateOrder>,
    /// Columns of timestamps that are counts since 1970, by name, with their unit; `schema` has
    /// their types.
    pub epochs: Vec<(String, TimeUnit)>,
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
    /// The order of day and month in columns of earlier inputs, by name.
    #[doc(hidden)]
    pub prior_orders: Vec<(String, DateOrder)>,
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
            comment: None,
            escape: None,
            skip_initial_space: None,
            skip_lines: 0,
            header: None,
            nulls: Vec::new(),
            empty_is_null: true,
            numbers: NumberFormat::default(),
            date_order: None,
            epochs: Vec::new(),
            names: None,
            schema: Vec::new(),
            external_columns: Vec::new(),
            prior: Vec::new(),
            prior_orders: Vec::new(),
            infer_rows: INFER_ROWS,
            skip_bad_rows: false,
        }
    }
}

impl CsvOptions {
    /// The quote of texts in which quotes are text: a byte that UTF-8 does not have.
    pub const NO_QUOTE: u8 = 0xff;
    /// The escape of texts that have none.
    pub const NO_ESCAPE: u8 = 0xff;

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
        let unlike = |byte: u8| is_usable(byte) && byte != delimiter && byte != self.quote;
        let is_escape = |escape: &u8| *escape != CsvOptions::NO_ESCAPE && *escape != self.quote;
        let escape = self.escape.filter(is_escape);
        if let Some(bad) = self.comment.into_iter().chain(escape).find(|byte| !unlike(*byte)) {
            return Err(Error::InvalidInput(format!(
                "{:?} starts no comments and escapes no quotes: an ASCII character is needed that is \
                 neither the delimiter nor the quote",
                char::from(bad),
            )));
        }
        let NumberFormat { decimal, thousands } = self.numbers;
        let is_point = |byte: u8| byte.is_ascii_punctuation() || byte == b' ';
        let is_sign = |byte: u8| matches!(byte, b'+' | b'-');
        let usable = |byte: u8| is_point(byte) && !is_sign(byte) && byte != self.quote;
        if !matches!(decimal, b'.' | b',') || thousands.is_some_and(|t| !usable(t) || t == decimal)
        {
            return Err(Error::InvalidInput(format!(
                "the decimal point {:?} must be . or , and the separator of thousands another sign",
                char::from(decimal),
            )));
        }
        Ok(())
    }
}

/// Whether a byte can delimit or quote fields.
pub(super) fn is_usable(byte: u8) -> bool {
    byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0)
}

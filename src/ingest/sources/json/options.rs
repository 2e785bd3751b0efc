//! Options for reading JSON.

use crate::ingest::sources::csv::{CsvOptions, INFER_ROWS};
use crate::model::DataType;

/// Options for reading JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// Types of some columns by name; these never widen.
    pub schema: Vec<(String, DataType)>,
    /// Columns from elsewhere, such as the path, unless the input has them too.
    pub external_columns: Vec<String>,
    /// Types of the table's columns by name, preferred where the sample fits them.
    pub prior: Vec<(String, DataType)>,
    /// Rows of the first chunk to infer from.
    pub infer_rows: usize,
    /// Whether bad rows are left out, and not an error: a table's type that the sample cannot widen
    /// is kept then.
    pub skip_bad_rows: bool,
    /// Whether the fields of an object within a row are columns of their own, `a.b`, and not one
    /// text.
    pub flatten: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            schema: Vec::new(),
            external_columns: Vec::new(),
            prior: Vec::new(),
            infer_rows: INFER_ROWS,
            skip_bad_rows: false,
            flatten: false,
        }
    }
}

impl From<&CsvOptions> for JsonOptions {
    /// The CSV options that apply to JSON too.
    fn from(csv: &CsvOptions) -> Self {
        JsonOptions {
            schema: csv.schema.clone(),
            external_columns: csv.external_columns.clone(),
            prior: csv.prior.clone(),
            infer_rows: csv.infer_rows,
            skip_bad_rows: csv.skip_bad_rows,
            flatten: false,
        }
    }
}

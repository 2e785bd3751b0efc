//! How to read JSON.

use crate::ingest::sources::csv::{CsvOptions, INFER_ROWS};
use crate::model::DataType;

/// How to read the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// Types of some columns by name, taken as they are.
    pub schema: Vec<(String, DataType)>,
    /// Columns that do not come from the input, unless it has them too.
    pub external_columns: Vec<String>,
    /// Types that the table at hand has already, by name: preferred where the sample fits them.
    pub prior: Vec<(String, DataType)>,
    /// Rows of the first chunk to infer from.
    pub infer_rows: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            schema: Vec::new(),
            external_columns: Vec::new(),
            prior: Vec::new(),
            infer_rows: INFER_ROWS,
        }
    }
}

impl From<&CsvOptions> for JsonOptions {
    /// What the options of text have to say of JSON.
    fn from(csv: &CsvOptions) -> Self {
        JsonOptions {
            schema: csv.schema.clone(),
            external_columns: csv.external_columns.clone(),
            prior: csv.prior.clone(),
            infer_rows: csv.infer_rows,
        }
    }
}

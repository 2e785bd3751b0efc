//! Columns as texts, for programs that lack their types.

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, StringArray};
use arrow_schema::ArrowError;

use super::cells::Cells;

/// The text of each value, as the text formats write it.
pub(crate) fn plain_text(array: &dyn Array) -> Result<StringArray, ArrowError> {
    let cells = Cells::new(array)?;
    let mut texts = StringBuilder::with_capacity(array.len(), 16 * array.len());
    let mut text = Vec::new();
    for row in 0..array.len() {
        if cells.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        cells.write_text(row, &mut text)?;
        texts.append_value(String::from_utf8_lossy(&text));
    }
    Ok(texts.finish())
}

//! Parses an array of texts as values of a given type.

use arrow_array::{Array, ArrayRef, StringArray};

use super::csv::column::ColumnBuilder;
use super::csv::rules::FieldRules;
use super::csv::split::Field;
use crate::ingest::text::{Text, time};
use crate::model::DataType;

/// The values that the texts spell, as in a CSV column of a type named by the user, or the first
/// row that does not parse. The empty text is valid for binary only.
pub(in crate::ingest) fn parse_texts(
    data_type: &DataType,
    texts: &StringArray,
) -> Result<ArrayRef, usize> {
    let rules = FieldRules { quote: b'"', nulls: Vec::new(), empty_is_null: true, trims: false };
    let empty = (0..texts.len()).find(|row| texts.is_valid(*row) && texts.value(*row).is_empty());
    if let Some(row) = empty.filter(|_| *data_type != DataType::Binary) {
        return Err(row);
    }
    let field = |row: usize| match texts.is_valid(row) {
        true => {
            let value = texts.value(row);
            let start = texts.value_offsets().get(row).map_or(0, |start| *start as usize);
            Field { start, len: value.len(), quoted: true, escaped: false }
        }
        false => Field::NONE,
    };
    let mut column = ColumnBuilder::new(data_type, true);
    column.push_fields(texts.value_data(), (0..texts.len()).map(field), &rules)?;
    column.finish()
}

/// Whether a text is a timestamp with a time zone.
pub(in crate::ingest) fn names_zone(text: &str) -> bool {
    time::instant(Text::from(text)).is_some_and(|instant| instant.zoned)
}

//! Texts as values of a type that somebody has named: single ones, without a file around them.

use arrow_array::{Array, ArrayRef, StringArray};

use super::csv::column::ColumnBuilder;
use super::csv::rules::FieldRules;
use super::csv::split::Field;
use crate::ingest::text::{Text, time};
use crate::model::DataType;

/// The values that the texts spell, as in a column of CSV whose type the user has named; or the
/// first row that spells none. The empty text spells nothing but no bytes.
pub(in crate::ingest) fn parse_texts(
    data_type: &DataType,
    texts: &StringArray,
) -> Result<ArrayRef, usize> {
    let rules = FieldRules { quote: b'"', nulls: Vec::new(), empty_is_null: true };
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

/// Whether a text is a point of time that names its zone.
pub(in crate::ingest) fn names_zone(text: &str) -> bool {
    time::instant(Text::from(text)).is_some_and(|instant| instant.zoned)
}

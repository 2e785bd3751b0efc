//! Values that come for a column of UUIDs, as the texts that are stored.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType as ArrowType;

use crate::error::{ArrowResult, Error, Result};
use crate::model::uuid;

/// Texts in any spelling of a UUID, or 16 bytes each, as stored texts; those that are already come
/// back as they are. A value that is no UUID is an error that names it.
pub(crate) fn uuid_texts(column: &str, values: &ArrayRef) -> Result<ArrayRef> {
    if let Some(coded) = values.as_any_dictionary_opt() {
        if are_stored(coded.values()) {
            return Ok(Arc::clone(values));
        }
        // A value that no row has may be anything.
        let plain = arrow_select::take::take(coded.values(), coded.keys(), None).or_invalid()?;
        return uuid_texts(column, &plain);
    }
    if are_stored(values) {
        return Ok(Arc::clone(values));
    }
    let parse: fn(&[u8]) -> Option<[u8; 16]> = match values.data_type() {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => uuid::parse,
        _ => |bytes| bytes.try_into().ok(),
    };
    let bytes = match values.data_type() {
        ArrowType::FixedSizeBinary(_) => Arc::clone(values),
        _ => arrow_cast::cast(values, &ArrowType::BinaryView).or_invalid()?,
    };
    let value = |row: usize| match bytes.as_fixed_size_binary_opt() {
        Some(fixed) => fixed.value(row),
        None => bytes.as_binary_view().value(row),
    };
    let mut texts = StringViewBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        if values.is_null(row) {
            texts.append_null();
            continue;
        }
        match parse(value(row)) {
            Some(bytes) => texts.append_value(uuid::text_of(&bytes)),
            None => return Err(no_uuid(column, values, row)),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// Whether all values are stored texts already.
fn are_stored(values: &ArrayRef) -> bool {
    let is_stored = |text: Option<&str>| text.is_none_or(|text| uuid::is_stored(text.as_bytes()));
    match values.data_type() {
        ArrowType::Utf8 => values.as_string::<i32>().iter().all(is_stored),
        ArrowType::LargeUtf8 => values.as_string::<i64>().iter().all(is_stored),
        ArrowType::Utf8View => values.as_string_view().iter().all(is_stored),
        _ => false,
    }
}

/// Texts of these bytes.
pub(crate) fn texts_of(values: impl Iterator<Item = Option<[u8; 16]>>) -> StringViewArray {
    values.map(|bytes| Some(uuid::text_of(&bytes?))).collect()
}

#[cold]
fn no_uuid(column: &str, values: &ArrayRef, row: usize) -> Error {
    let value = array_value_to_string(values, row).unwrap_or_default();
    Error::InvalidInput(format!("column '{column}' is uuid, and '{value}' is no UUID"))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::UInt32Type;
    use arrow_array::{
        BinaryArray, DictionaryArray, FixedSizeBinaryArray, StringArray, UInt32Array,
    };

    use super::*;

    const STORED: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

    fn shown(values: ArrayRef) -> Result<Vec<String>> {
        let texts = uuid_texts("id", &values)?;
        Ok((0..texts.len()).map(|row| array_value_to_string(&texts, row).unwrap()).collect())
    }

    #[test]
    fn values_of_all_layouts() {
        let upper = STORED.to_uppercase();
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(upper.as_str()), None]));
        assert_eq!(shown(texts).unwrap(), [STORED, ""]);
        let bytes = uuid::parse(STORED.as_bytes()).unwrap();
        let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            [None, Some(bytes)].into_iter(),
            16,
        );
        assert_eq!(shown(Arc::new(fixed.unwrap())).unwrap(), ["", STORED]);
        assert_eq!(shown(Arc::new(BinaryArray::from(vec![&bytes[..]]))).unwrap(), [STORED]);
        let error = shown(Arc::new(BinaryArray::from(vec![&bytes[..15]]))).unwrap_err();
        assert!(error.to_string().contains("is no UUID"), "{error}");
        // A value of a dictionary that no row has.
        let values: ArrayRef = Arc::new(StringArray::from(vec!["x", upper.as_str()]));
        let keys = UInt32Array::from(vec![Some(1), None, Some(1)]);
        let coded = DictionaryArray::<UInt32Type>::new(keys, values);
        assert_eq!(shown(Arc::new(coded)).unwrap(), [STORED, "", STORED]);
        let error = shown(Arc::new(StringArray::from(vec![STORED, "x"]))).unwrap_err();
        assert_eq!(error.to_string(), "column 'id' is uuid, and 'x' is no UUID");
    }
}

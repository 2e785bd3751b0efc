//! The directories of partitions, named after the values of their keys.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::error::{Error, Result};
use crate::limits;
use crate::model::{DataType, PartitionKey};

/// Stands for null in a directory name.
pub(crate) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The bytes that are written as `%XX` in a directory name.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b':').remove(b'+');

/// The directory of the partition of `row`.
pub(super) fn partition_path(
    keys: &[PartitionKey],
    values: &[ArrayRef],
    row: usize,
) -> Result<Arc<str>> {
    let mut path = String::new();
    for (key, values) in keys.iter().zip(values) {
        if !path.is_empty() {
            path.push('/');
        }
        path.extend(percent_encode(key.name.as_bytes(), ESCAPED));
        path.push('=');
        let start = path.len();
        match value_bytes(&values.slice(row, 1))? {
            None => path.push_str(NULL_PARTITION),
            Some(text) if text == NULL_PARTITION.as_bytes() => {
                path.push_str(&NULL_PARTITION.replace('_', "%5F"))
            }
            Some(text) => path.extend(percent_encode(&text, ESCAPED)),
        }
        if path.len() - start > limits::MAX_PARTITION_VALUE_BYTES {
            return Err(Error::LimitExceeded(format!(
                "a partition is a directory, and '{}' is too long for its name: at most {} bytes; \
                 partition by a shorter expression than {}",
                path.get(start..).unwrap_or_default().chars().take(60).collect::<String>() + "…",
                limits::MAX_PARTITION_VALUE_BYTES,
                key.expression
            )));
        }
    }
    Ok(path.into())
}

/// The text of a value as SQL prints it, or its bytes if it is binary; `None` for null.
fn value_bytes(value: &ArrayRef) -> Result<Option<Vec<u8>>> {
    let is_bytes = DataType::from_arrow(value.data_type()) == Some(DataType::Binary);
    let text =
        if is_bytes { Ok(Arc::clone(value)) } else { arrow_cast::cast(value, &ArrowType::Utf8) };
    let bytes = text.and_then(|text| arrow_cast::cast(&text, &ArrowType::Binary));
    let bytes =
        bytes.map_err(|error| Error::Unsupported(format!("not a valid partition key: {error}")))?;
    let bytes = bytes.as_binary::<i32>();
    Ok(bytes.is_valid(0).then(|| bytes.value(0).to_vec()))
}

/// Parses a path into keys and values, in order: the bytes of a text or binary value, `None` for
/// null.
pub(crate) fn parse_path(path: &str) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let parts = path.split('/').filter_map(|part| part.split_once('='));
    parts
        .map(|(key, value)| (unescape(key), (value != NULL_PARTITION).then(|| unescape(value))))
        .collect()
}

fn unescape(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

//! Numbers for the distinct keys of rows that come as Arrow arrays.

use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::index::Index;
use super::key_column::{Bytes, KeyWord};
use super::keys::{Keys, of_words};
use crate::error::{ArrowResult, Error, Result};
use crate::query::words::{is_words, to_words};

/// Numbers distinct keys in the order of their first appearance. Values are the same if their bits
/// are, and null is a value: 0.0 and -0.0 are two.
#[derive(Debug)]
pub(crate) struct GroupNumbers {
    form: Form,
    /// The keys of all groups.
    known: Keys,
    index: Index,
    /// Those of the last rows.
    keys: Keys,
    hashes: Vec<u64>,
}

/// How keys are made of columns.
#[derive(Debug)]
enum Form {
    /// There are no columns, and one group.
    One,
    /// Packs integers of these widths in bits into one number, each after a bit for null.
    Packed(Vec<u32>),
    /// The bytes of all values.
    Rows(RowConverter),
}

impl GroupNumbers {
    pub(crate) fn new(types: &[ArrowType]) -> Result<Self> {
        let widths = types.iter().map(width).collect::<Option<Vec<u32>>>();
        let bits = widths.as_ref().map(|widths| widths.iter().map(|width| width + 1).sum::<u32>());
        let (form, bits) = match (widths, bits.filter(|bits| *bits <= u128::BITS)) {
            _ if types.is_empty() => (Form::One, None),
            (Some(widths), Some(bits)) => (Form::Packed(widths), Some(bits)),
            _ => {
                let fields = types.iter().cloned().map(SortField::new).collect();
                (Form::Rows(RowConverter::new(fields).or_unsupported()?), None)
            }
        };
        let (known, keys) = (Keys::of_bits(bits), Keys::of_bits(bits));
        Ok(GroupNumbers { form, known, index: Index::default(), keys, hashes: Vec::new() })
    }

    /// How many groups there are so far.
    pub(crate) fn len(&self) -> usize {
        match self.form {
            Form::One => 1,
            Form::Packed(_) | Form::Rows(_) => self.known.len(),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.known.memory() + self.index.memory()
    }

    /// Appends the group number of each of `rows` rows with these keys to `numbers`.
    pub(crate) fn number(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        match &self.form {
            Form::One => {
                numbers.resize(numbers.len() + rows, 0);
                return Ok(());
            }
            Form::Packed(widths) => {
                of_words!(&mut self.keys, keys => pack(columns, widths, rows, keys))?;
            }
            Form::Rows(converter) => {
                self.keys.clear();
                let keys: &mut Bytes = (&mut self.keys).try_into()?;
                let converted = converter.convert_columns(columns).or_unsupported()?;
                converted.iter().for_each(|row| keys.push(row.as_ref()));
            }
        }
        self.keys.hashes(&mut self.hashes);
        self.known.find(&mut self.index, &self.keys, &self.hashes, numbers)
    }
}

/// The bits of an integer, a date, a time or a boolean; `None` of other types.
fn width(data_type: &ArrowType) -> Option<u32> {
    match data_type {
        ArrowType::Boolean => Some(1),
        other if is_words(other) || *other == ArrowType::UInt64 => {
            other.primitive_width().map(|bytes| bytes as u32 * 8)
        }
        _ => None,
    }
}

/// Replaces `keys` by the packed number of each row.
fn pack<W: KeyWord>(
    columns: &[ArrayRef],
    widths: &[u32],
    rows: usize,
    keys: &mut Vec<W>,
) -> Result<()> {
    keys.clear();
    keys.resize(rows, W::default());
    for (column, width) in columns.iter().zip(widths) {
        let words = to_words(column).ok_or_else(|| {
            Error::InvalidInput(format!("a key of {} where an integer was", column.data_type()))
        })?;
        let mask = u64::MAX >> (u64::BITS - width);
        let put = |key: &mut W, valid: u64, word: i64| {
            *key = (key.above(1) | W::from(valid)).above(*width) | W::from(word as u64 & mask);
        };
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => keys.iter_mut().zip(words.iter()).for_each(|(key, word)| put(key, 1, *word)),
            Some(valid) => {
                for ((key, word), valid) in keys.iter_mut().zip(words.iter()).zip(valid) {
                    put(key, u64::from(valid), if valid { *word } else { 0 });
                }
            }
        }
    }
    Ok(())
}

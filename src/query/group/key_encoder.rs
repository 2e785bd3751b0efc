//! From the rows of a slice to keys that are hashed, and back from such keys to columns of the
//! answer.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::key_column::Bytes;
#[cfg(feature = "cluster")]
use super::keys::wrong_form_error;
use super::keys::{Keys, of_words};
use super::mixed_radix::{DigitScratch, MixedRadix};
use super::packed::Packed;
use super::texts::TextKey;
use crate::error::{ArrowResult, Result};
use crate::expr::Expression;
use crate::query::slice::Slice;
use crate::query::words::one_zero;

/// The form that keys take in hash tables.
#[derive(Debug)]
pub(crate) enum KeyEncoder {
    /// Codes as digits of a number.
    Radix(Arc<MixedRadix>),
    /// Bits side by side.
    Packed(Packed),
    /// The bytes of one text, after a byte that says whether there is one.
    Text(Expression),
    /// The values' bytes.
    Rows(Vec<Expression>, RowConverter),
}

/// Scratch buffers for what is computed on the way.
#[derive(Debug, Default)]
pub(crate) struct KeyScratch {
    pub(super) digits: DigitScratch,
    words: Vec<u64>,
}

impl KeyEncoder {
    /// For keys that are not all numbers.
    pub(crate) fn from_bytes(keys: &[Expression]) -> Result<KeyEncoder> {
        if let [only] = keys
            && matches!(only.data_type, ArrowType::Utf8View | ArrowType::BinaryView)
        {
            return Ok(KeyEncoder::Text(only.clone()));
        }
        let fields = keys.iter().map(|key| SortField::new(key.data_type.clone())).collect();
        Ok(KeyEncoder::Rows(keys.to_vec(), RowConverter::new(fields).or_unsupported()?))
    }

    /// An encoder that knows the types of the keys, and neither codes nor statistics.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_values(keys: &[Expression]) -> Result<KeyEncoder> {
        match Packed::of_values(keys) {
            Some(packed) => Ok(KeyEncoder::Packed(packed)),
            None => KeyEncoder::from_bytes(keys),
        }
    }

    /// How many columns they are.
    pub(crate) fn len(&self) -> usize {
        match self {
            KeyEncoder::Radix(radix) => radix.len(),
            KeyEncoder::Packed(packed) => packed.len(),
            KeyEncoder::Text(_) => 1,
            KeyEncoder::Rows(keys, _) => keys.len(),
        }
    }

    /// The bits of each key, if keys are numbers.
    pub(crate) fn bits(&self) -> Option<u32> {
        match self {
            KeyEncoder::Radix(radix) => Some(radix.bits()),
            KeyEncoder::Packed(packed) => Some(packed.bits),
            KeyEncoder::Text(_) | KeyEncoder::Rows(..) => None,
        }
    }

    /// The key of texts that have numbers, if there is no other.
    pub(crate) fn only_text(&self) -> Option<&TextKey> {
        match self {
            KeyEncoder::Packed(packed) => packed.only_text(),
            _ => None,
        }
    }

    /// The number that stands for null, if keys are numbers, of one value each.
    pub(crate) fn null(&self) -> Option<u128> {
        match self {
            KeyEncoder::Radix(radix) => radix.last_null().map(u128::from),
            KeyEncoder::Packed(packed) => packed.null(),
            KeyEncoder::Text(_) | KeyEncoder::Rows(..) => None,
        }
    }

    /// No keys of the form.
    pub(crate) fn empty_keys(&self) -> Keys {
        Keys::of_bits(self.bits())
    }

    /// The keys of the selected rows of a slice, in place of what `keys` had.
    pub(crate) fn write(
        &self,
        slice: &Slice<'_, '_>,
        keys: &mut Keys,
        scratch: &mut KeyScratch,
    ) -> Result<()> {
        keys.clear();
        match self {
            KeyEncoder::Radix(radix) => {
                let keys: &mut Vec<u64> = keys.try_into()?;
                radix.of_block(slice.block)?.numbers(slice, keys, &mut scratch.digits)
            }
            KeyEncoder::Packed(packed) => {
                of_words!(keys, keys => packed.write(slice, keys, &mut scratch.words))
            }
            KeyEncoder::Text(key) => {
                texts(&slice.evaluate(key)?, keys.try_into()?);
                Ok(())
            }
            KeyEncoder::Rows(expressions, converter) => {
                let columns = expressions.iter().map(|key| slice.evaluate(key));
                rows(converter, columns, keys.try_into()?)
            }
        }
    }

    /// Replaces `keys` by the keys of Arrow columns. Not for codes: see [`KeyEncoder::of_values`].
    #[cfg(feature = "cluster")]
    pub(crate) fn write_columns(
        &self,
        columns: &[ArrayRef],
        count: usize,
        keys: &mut Keys,
        scratch: &mut KeyScratch,
    ) -> Result<()> {
        keys.clear();
        let words = &mut scratch.words;
        match self {
            KeyEncoder::Radix(_) => return Err(wrong_form_error()),
            KeyEncoder::Packed(packed) => {
                of_words!(keys, keys => packed.write_columns(columns, count, keys, words))?;
            }
            KeyEncoder::Text(_) => {
                let keys: &mut Bytes = keys.try_into()?;
                columns.iter().take(1).for_each(|column| texts(column, keys));
            }
            KeyEncoder::Rows(_, converter) => {
                rows(converter, columns.iter().cloned().map(Ok), keys.try_into()?)?;
            }
        }
        match keys.len() == count {
            true => Ok(()),
            false => Err(wrong_form_error()),
        }
    }

    /// The columns of some keys, which follow each other.
    pub(crate) fn columns(
        &self,
        keys: &Keys,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<ArrayRef>> {
        match self {
            KeyEncoder::Radix(radix) => {
                let keys: &Vec<u64> = keys.try_into()?;
                radix.keys(keys.get(range).unwrap_or_default())
            }
            KeyEncoder::Packed(packed) => {
                of_words!(keys, keys => packed.keys(keys.get(range).unwrap_or_default()))
            }
            KeyEncoder::Text(key) => {
                let keys: &Bytes = keys.try_into()?;
                let values = range.map(|at| match keys.get(at) {
                    [1, text @ ..] => Some(text),
                    _ => None,
                });
                let binary: BinaryViewArray = values.collect();
                if key.data_type == ArrowType::BinaryView {
                    return Ok(vec![Arc::new(binary)]);
                }
                Ok(vec![Arc::new(binary.to_string_view().or_unsupported()?)])
            }
            KeyEncoder::Rows(_, converter) => {
                let keys: &Bytes = keys.try_into()?;
                let parser = converter.parser();
                converter.convert_rows(range.map(|at| parser.parse(keys.get(at)))).or_unsupported()
            }
        }
    }
}

/// Appends the bytes of the values of each row.
fn rows(
    converter: &RowConverter,
    columns: impl Iterator<Item = Result<ArrayRef>>,
    keys: &mut Bytes,
) -> Result<()> {
    let columns: Vec<ArrayRef> = columns.map(|c| Ok(one_zero(&c?))).collect::<Result<_>>()?;
    let rows = converter.convert_columns(&columns).or_unsupported()?;
    rows.iter().for_each(|row| keys.push(row.as_ref()));
    Ok(())
}

fn texts(array: &ArrayRef, keys: &mut Bytes) {
    fn push<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, keys: &mut Bytes) {
        values.for_each(|value| match value {
            Some(value) => keys.push_parts(1, value),
            None => keys.push_parts(0, &[]),
        });
    }
    match array.as_any().downcast_ref::<StringViewArray>() {
        Some(texts) => push(texts.iter().map(|text| text.map(str::as_bytes)), keys),
        None => push(array.as_binary_view().iter(), keys),
    }
}

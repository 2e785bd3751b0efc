//! Values as words of 64 bits: numbers and times as words of their order, all others as the numbers
//! of their bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Decimal128Array, FixedSizeBinaryArray,
    Float64Array, Int64Array, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
    UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result as DataFusionResult;

use super::interned::Interned;
use crate::sql::functions::key_numbers::{Numbers, total_order};

/// The most digits of decimals that all fit in a word.
const MOST_DIGITS: u8 = 18;
/// The bit by which signed numbers become unsigned ones of the same order.
const SIGN: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct Coding {
    of: DataType,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Numbers(Numbers),
    /// Texts and bytes, whose order is that of their bytes.
    Bytes(Interned),
    /// All else, as rows of bytes that sort as the values do.
    Rows(Interned, RowConverter),
}

/// The places of interned values in their order.
pub(super) struct Ranks {
    of_numbers: Vec<u32>,
    numbers: Vec<u32>,
}

impl Ranks {
    /// The rank of the value that a word stands for.
    pub(super) fn rank(&self, word: u64) -> u64 {
        self.of_numbers.get(word as usize).copied().unwrap_or(u32::MAX).into()
    }

    /// The word of the value of this rank.
    pub(super) fn word(&self, rank: u64) -> u64 {
        self.numbers.get(rank as usize).copied().unwrap_or(u32::MAX).into()
    }
}

impl Coding {
    pub(super) fn new(of: DataType) -> DataFusionResult<Coding> {
        use DataType::*;
        let form = match (&of, numbers(&of)) {
            (_, Some(numbers)) => Form::Numbers(numbers),
            (
                Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
                | FixedSizeBinary(_),
                None,
            ) => Form::Bytes(Interned::default()),
            (_, None) => {
                let converter = RowConverter::new(vec![SortField::new(of.clone())])?;
                Form::Rows(Interned::default(), converter)
            }
        };
        Ok(Coding { of, form })
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.of
    }

    /// The words of rows. Those of rows that do not pass stand for nothing.
    pub(super) fn encode(
        &mut self,
        values: &ArrayRef,
        passing: Option<&BooleanBuffer>,
    ) -> DataFusionResult<Vec<u64>> {
        let values = self.as_declared(values)?;
        match &mut self.form {
            Form::Numbers(numbers) => words(*numbers, &values),
            Form::Bytes(interned) => match &self.of {
                DataType::Utf8 => interned.numbers(values.as_string::<i32>(), passing),
                DataType::LargeUtf8 => interned.numbers(values.as_string::<i64>(), passing),
                DataType::Utf8View => interned.numbers(values.as_string_view(), passing),
                DataType::Binary => interned.numbers(values.as_binary::<i32>(), passing),
                DataType::LargeBinary => interned.numbers(values.as_binary::<i64>(), passing),
                DataType::BinaryView => interned.numbers(values.as_binary_view(), passing),
                _ => interned.numbers(values.as_fixed_size_binary(), passing),
            },
            Form::Rows(interned, converter) => {
                let rows = converter.convert_columns(&[values])?;
                let passes = |row: usize| passing.is_none_or(|passing| passing.value(row));
                let number = |(at, row): (usize, arrow_row::Row<'_>)| match passes(at) {
                    true => interned.number(row.as_ref()),
                    false => Ok(0),
                };
                rows.iter().enumerate().map(number).collect()
            }
        }
    }

    /// Rows as they are in states: words, if those are handed over, or values.
    pub(super) fn handed_over(&self, values: &ArrayRef) -> DataFusionResult<ArrayRef> {
        let values = self.as_declared(values)?;
        Ok(match &self.form {
            Form::Numbers(numbers) => Arc::new(UInt64Array::from(words(*numbers, &values)?)),
            _ => values,
        })
    }

    fn as_declared(&self, values: &ArrayRef) -> DataFusionResult<ArrayRef> {
        match *values.data_type() == self.of {
            true => Ok(Arc::clone(values)),
            false => Ok(cast(values, &self.of)?),
        }
    }

    /// Whether states have words in place of values.
    pub(super) fn has_words(&self) -> bool {
        matches!(self.form, Form::Numbers(_))
    }

    /// The values of words; null where `nulls` says so.
    pub(super) fn decode(
        &self,
        words: &[u64],
        nulls: Option<NullBuffer>,
    ) -> DataFusionResult<ArrayRef> {
        let values = match &self.form {
            Form::Numbers(numbers) => self.numbers(*numbers, words, nulls),
            Form::Bytes(interned) => self.bytes(interned, words, nulls.as_ref())?,
            Form::Rows(interned, converter) => {
                // A row that is null is in no group.
                let null =
                    converter.convert_columns(&[arrow_array::new_null_array(&self.of, 1)])?;
                let parser = converter.parser();
                let is_null = |at: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
                let rows = words.iter().enumerate().map(|(at, word)| match is_null(at) {
                    true => parser.parse(null.row(0).data()),
                    false => parser.parse(interned.get(*word)),
                });
                let rows: Vec<_> = rows.collect();
                match rows.is_empty() {
                    true => arrow_array::new_empty_array(&self.of),
                    false => {
                        let mut columns = converter.convert_rows(rows)?;
                        columns.pop().ok_or_else(|| exec_datafusion_err!("a value was lost"))?
                    }
                }
            }
        };
        self.as_declared(&values)
    }

    fn numbers(&self, numbers: Numbers, words: &[u64], nulls: Option<NullBuffer>) -> ArrayRef {
        let signed = words.iter().map(|word| (word ^ SIGN) as i64);
        match numbers {
            Numbers::Signed => Arc::new(Int64Array::new(signed.collect(), nulls)),
            Numbers::Unsigned => Arc::new(UInt64Array::new(words.iter().copied().collect(), nulls)),
            Numbers::Floats => {
                let floats =
                    signed.map(|ordered| f64::from_bits(total_order(ordered as u64) as u64));
                Arc::new(Float64Array::new(floats.collect(), nulls))
            }
            Numbers::Decimals { scale } => {
                let of = match &self.of {
                    of @ DataType::Decimal128(..) => of.clone(),
                    _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
                };
                let values = Decimal128Array::new(signed.map(i128::from).collect(), nulls);
                Arc::new(values.with_data_type(of))
            }
        }
    }

    fn bytes(
        &self,
        interned: &Interned,
        words: &[u64],
        nulls: Option<&NullBuffer>,
    ) -> DataFusionResult<ArrayRef> {
        let is_null = |at: usize| nulls.is_some_and(|nulls| nulls.is_null(at));
        let all = || {
            let each = words.iter().enumerate();
            each.map(|(at, word)| (!is_null(at)).then(|| interned.get(*word)))
        };
        let texts = || -> DataFusionResult<Vec<Option<&str>>> {
            let text = |bytes: Option<_>| bytes.map(std::str::from_utf8).transpose();
            let texts = all().map(text).collect::<Result<_, _>>();
            texts.map_err(|error| exec_datafusion_err!("a text of an aggregate: {error}"))
        };
        Ok(match &self.of {
            DataType::Utf8 => Arc::new(StringArray::from_iter(texts()?)),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(texts()?)),
            DataType::Utf8View => Arc::new(StringViewArray::from_iter(texts()?)),
            DataType::Binary => Arc::new(BinaryArray::from_iter(all())),
            DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter(all())),
            DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(all())),
            DataType::FixedSizeBinary(width) => {
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(all(), *width)?)
            }
            other => return exec_err!("values of {other} as bytes"),
        })
    }

    /// The ranks of values, unless words are in the order of values.
    pub(super) fn ranks(&self) -> Option<Ranks> {
        let interned = self.interned()?;
        let numbers = interned.sorted();
        let mut of_numbers = vec![0; numbers.len()];
        for (rank, number) in numbers.iter().enumerate() {
            if let Some(of_number) = of_numbers.get_mut(*number as usize) {
                *of_number = rank as u32;
            }
        }
        Some(Ranks { of_numbers, numbers })
    }

    /// The order of the values of two words.
    pub(super) fn compare(&self, a: u64, b: u64) -> Ordering {
        match self.interned() {
            Some(interned) => interned.get(a).cmp(interned.get(b)),
            None => a.cmp(&b),
        }
    }

    fn interned(&self) -> Option<&Interned> {
        match &self.form {
            Form::Numbers(_) => None,
            Form::Bytes(interned) | Form::Rows(interned, _) => Some(interned),
        }
    }

    /// Forgets all values but those that are asked for, and says what the words of these are from
    /// now on. `None` if there is nothing to forget.
    pub(super) fn keep(&mut self) -> Option<impl FnMut(u64) -> DataFusionResult<u64>> {
        let (Form::Bytes(interned) | Form::Rows(interned, _)) = &mut self.form else {
            return None;
        };
        let all = std::mem::take(interned);
        Some(move |word| interned.number(all.get(word)))
    }

    pub(super) fn size(&self) -> usize {
        match &self.form {
            Form::Numbers(_) => 0,
            Form::Bytes(interned) => interned.size(),
            Form::Rows(interned, converter) => interned.size() + converter.size(),
        }
    }
}

/// The type of values in states.
pub(super) fn state_type(of: &DataType) -> DataType {
    match numbers(of) {
        Some(_) => DataType::UInt64,
        None => of.clone(),
    }
}

/// What values that are words are read as.
fn numbers(of: &DataType) -> Option<Numbers> {
    match of {
        DataType::Boolean => Some(Numbers::Signed),
        DataType::Decimal128(precision, _) if *precision > MOST_DIGITS => None,
        of => Numbers::of(of),
    }
}

fn words(numbers: Numbers, values: &ArrayRef) -> DataFusionResult<Vec<u64>> {
    let values = match values.data_type() {
        DataType::Decimal128(..) => Arc::clone(values),
        _ => cast(values, &numbers.data_type())?,
    };
    Ok(match numbers {
        Numbers::Signed => {
            let values = values.as_primitive::<Int64Type>().values().iter();
            values.map(|value| *value as u64 ^ SIGN).collect()
        }
        Numbers::Unsigned => values.as_primitive::<UInt64Type>().values().to_vec(),
        Numbers::Floats => {
            // Equal floats are equal words.
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            let values = values.as_primitive::<Float64Type>().values().iter();
            values.map(|value| total_order(one(*value).to_bits()) as u64 ^ SIGN).collect()
        }
        Numbers::Decimals { .. } => {
            let values = values.as_primitive::<Decimal128Type>();
            let word = |(at, value): (usize, &i128)| match i64::try_from(*value) {
                Ok(value) => Ok(value as u64 ^ SIGN),
                Err(_) if values.is_null(at) => Ok(0),
                Err(_) => exec_err!("a decimal has more digits than its type"),
            };
            values.values().iter().enumerate().map(word).collect::<DataFusionResult<_>>()?
        }
    })
}

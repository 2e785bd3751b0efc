//! Keys packed side by side into the bits of one number: those with codes, any whole numbers, times
//! and floats, and texts that have numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType as ArrowType;

use super::coding::CodedKey;
use super::interner::{self, TextBudget};
use super::key_column::KeyWord;
use super::texts::{self, TextKey};
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::query::open::Survivors;
use crate::query::slice::Slice;
use crate::query::words::{from_words, is_words, one_zero, to_words};
use crate::segment::Column;

/// The bits of the negative zero, which keys do not have.
const NULL_DOUBLE: u64 = 1 << 63;
const NULL_FLOAT: u64 = 1 << 31;

/// How keys share the bits of a number, the first one in the highest.
#[derive(Debug)]
pub(crate) struct Packed {
    fields: Vec<Field>,
    /// Bits in all, at most 128.
    pub(crate) bits: u32,
}

#[derive(Debug)]
struct Field {
    kind: FieldKind,
    data_type: ArrowType,
    bits: u32,
}

#[derive(Debug)]
enum FieldKind {
    Coded(CodedKey),
    /// The bits of a value, below one that says whether there is one; without that for a column
    /// that has no nulls.
    Word(Expression, Nulls),
    /// The bits of a float; those of the negative zero stand for null.
    Float(Expression),
    /// The number of a text.
    Text(TextKey),
}

/// Whether a key may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Never,
    Possible,
}

impl Nulls {
    /// Of a key, by the statistics of its column.
    fn of(key: &Expression, survivors: Option<&Survivors>) -> Nulls {
        let Some(survivors) = survivors else { return Nulls::Possible };
        let has_none =
            |stored: Option<&Column>| stored.is_some_and(|stored| stored.stats().nulls == 0);
        match key.as_column() {
            Some(at) if survivors.stored(at).all(has_none) => Nulls::Never,
            _ => Nulls::Possible,
        }
    }
}

impl Packed {
    /// `None` if a key has no bits, or all together have too many. Texts have none without
    /// `texts`.
    pub(crate) fn new(
        keys: &[Expression],
        coded: Vec<Option<CodedKey>>,
        survivors: &Survivors,
        texts: Option<&Arc<TextBudget>>,
    ) -> Option<Packed> {
        let field = |(key, coded)| Field::new(key, coded, Some(survivors), texts);
        Packed::of_fields(keys.iter().zip(coded).map(field).collect::<Option<_>>()?)
    }

    /// Packs by type alone, without codes or statistics.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_values(keys: &[Expression]) -> Option<Packed> {
        let field = |key| Field::new(key, None, None, None);
        Packed::of_fields(keys.iter().map(field).collect::<Option<_>>()?)
    }

    fn of_fields(fields: Vec<Field>) -> Option<Packed> {
        let bits = fields.iter().map(|field| field.bits).sum();
        (bits <= 128).then_some(Packed { fields, bits })
    }

    /// How many keys share the number.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The key of texts, if there is no other.
    pub(crate) fn only_text(&self) -> Option<&TextKey> {
        match self.fields.as_slice() {
            [Field { kind: FieldKind::Text(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// What stands for null, if this is one key.
    pub(crate) fn null(&self) -> Option<u128> {
        match &self.fields.first()?.kind {
            FieldKind::Coded(coded) => coded.null().map(u128::from),
            FieldKind::Word(_, Nulls::Never) => None,
            FieldKind::Word(_, Nulls::Possible) => Some(0),
            FieldKind::Text(_) => Some(u128::from(interner::NULL)),
            FieldKind::Float(key) if key.data_type == ArrowType::Float32 => {
                Some(u128::from(NULL_FLOAT))
            }
            FieldKind::Float(_) => Some(u128::from(NULL_DOUBLE)),
        }
    }

    /// Appends the number of each selected row of a slice to `out`, which is empty. All bits fit.
    pub(crate) fn write<W: KeyWord>(
        &self,
        slice: &Slice<'_, '_>,
        out: &mut Vec<W>,
        scratch: &mut Vec<u64>,
    ) -> Result<()> {
        for field in &self.fields {
            scratch.clear();
            match &field.kind {
                FieldKind::Coded(coded) => match coded.constant(slice.block)? {
                    Some(code) => scratch.resize(slice.len(), code),
                    None => coded.write(slice, scratch)?,
                },
                FieldKind::Text(key) => key.write(slice, scratch)?,
                FieldKind::Word(key, _) | FieldKind::Float(key) => {
                    field.push_values(&slice.evaluate(key)?, out, scratch)?;
                    continue;
                }
            }
            push(out, scratch.iter().copied(), field.bits);
        }
        Ok(())
    }

    /// The same for Arrow columns, one for each key of a [`Packed::of_values`].
    #[cfg(feature = "cluster")]
    pub(crate) fn write_columns<W: KeyWord>(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        out: &mut Vec<W>,
        scratch: &mut Vec<u64>,
    ) -> Result<()> {
        if self.fields.is_empty() {
            out.resize(rows, W::default());
        }
        for (field, column) in self.fields.iter().zip(columns) {
            field.push_values(column, out, scratch)?;
        }
        Ok(())
    }

    pub(crate) fn keys<W: KeyWord>(&self, numbers: &[W]) -> Result<Vec<ArrayRef>> {
        let mut below = self.bits;
        let mut keys = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            below -= field.bits;
            let bits = |number: &W, from: u32, bits: u32| {
                let number: u128 = (*number).into();
                let number = number.checked_shr(from).unwrap_or(0);
                if bits == 0 { 0 } else { number as u64 & (u64::MAX >> (64 - bits)) }
            };
            keys.push(match &field.kind {
                FieldKind::Coded(coded) => {
                    let codes: Vec<u64> =
                        numbers.iter().map(|number| bits(number, below, field.bits)).collect();
                    coded.values(&codes, &field.data_type)?
                }
                FieldKind::Word(_, Nulls::Never) => {
                    let word = |number| bits(number, below, field.bits) as i64;
                    from_words(numbers.iter().map(word).collect(), None, &field.data_type)?
                }
                FieldKind::Word(_, Nulls::Possible) => {
                    let words = numbers
                        .iter()
                        .map(|number| bits(number, below, field.bits - 1) as i64)
                        .collect();
                    let valid: BooleanBuffer = numbers
                        .iter()
                        .map(|number| bits(number, below + field.bits - 1, 1) > 0)
                        .collect();
                    from_words(words, some_null(valid), &field.data_type)?
                }
                FieldKind::Text(key) => {
                    key.values(numbers.iter().map(|number| bits(number, below, field.bits)))?
                }
                FieldKind::Float(_) => {
                    let words = numbers.iter().map(|number| bits(number, below, field.bits));
                    from_floats(words, field.bits == 64)
                }
            });
        }
        Ok(keys)
    }
}

impl Field {
    fn new(
        key: &Expression,
        coded: Option<CodedKey>,
        survivors: Option<&Survivors>,
        texts: Option<&Arc<TextBudget>>,
    ) -> Option<Field> {
        let data_type = key.data_type.clone();
        let (kind, bits) = match (coded, &data_type) {
            (Some(coded), _) => {
                let bits = u64::BITS - (coded.domain().saturating_sub(1)).leading_zeros();
                (FieldKind::Coded(coded), bits)
            }
            (None, ArrowType::Float64) => (FieldKind::Float(key.clone()), 64),
            (None, ArrowType::Float32) => (FieldKind::Float(key.clone()), 32),
            (None, ArrowType::Boolean) => (FieldKind::Word(key.clone(), Nulls::Possible), 2),
            (None, words) if is_words(words) || *words == ArrowType::UInt64 => {
                let width = words.primitive_width()? as u32 * 8;
                let nulls = match width <= u64::BITS {
                    true => Nulls::of(key, survivors),
                    false => Nulls::Possible,
                };
                let bits = width + u32::from(nulls == Nulls::Possible);
                (FieldKind::Word(key.clone(), nulls), bits)
            }
            _ => (FieldKind::Text(TextKey::new(key, survivors?, texts?)?), texts::BITS),
        };
        Some(Field { kind, data_type, bits })
    }

    /// Puts the bits of values that have no codes below those of other keys.
    fn push_values<W: KeyWord>(
        &self,
        array: &ArrayRef,
        out: &mut Vec<W>,
        scratch: &mut Vec<u64>,
    ) -> Result<()> {
        scratch.clear();
        let FieldKind::Word(_, nulls) = &self.kind else {
            floats(array, scratch);
            push(out, scratch.iter().copied(), self.bits);
            return Ok(());
        };
        let words = to_words(array).ok_or_else(|| not_words_error(array.data_type()))?;
        if *nulls == Nulls::Never {
            if array.null_count() > 0 {
                return Err(Error::corrupt(0, "nulls where statistics have none"));
            }
            let mask = u64::MAX >> (64 - self.bits);
            push(out, words.iter().map(|word| *word as u64 & mask), self.bits);
            return Ok(());
        }
        let mask = u64::MAX >> (65 - self.bits);
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                push(out, std::iter::repeat_n(1, words.len()), 1);
                scratch.extend(words.iter().map(|word| *word as u64 & mask));
            }
            Some(valid) => {
                push(out, valid.iter().map(u64::from), 1);
                let word =
                    |(word, valid): (&i64, bool)| if valid { *word as u64 & mask } else { 0 };
                scratch.extend(words.iter().zip(valid).map(word));
            }
        }
        push(out, scratch.iter().copied(), self.bits - 1);
        Ok(())
    }
}

fn not_words_error(data_type: &ArrowType) -> Error {
    Error::InvalidInput(format!("a key of {data_type} where a number was planned"))
}

/// Shifts numbers left by `bits` and puts other bits below; those are all where there are none.
#[inline(always)]
fn push<W: KeyWord>(numbers: &mut Vec<W>, below: impl Iterator<Item = u64>, bits: u32) {
    if numbers.is_empty() {
        return numbers.extend(below.map(W::from));
    }
    numbers
        .iter_mut()
        .zip(below)
        .for_each(|(number, below)| *number = number.above(bits) | W::from(below));
}

fn floats(array: &ArrayRef, out: &mut Vec<u64>) {
    let array = one_zero(array);
    let null = match array.data_type() {
        ArrowType::Float64 => {
            out.extend(array.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()));
            NULL_DOUBLE
        }
        _ => {
            out.extend(
                array.as_primitive::<Float32Type>().values().iter().map(|v| u64::from(v.to_bits())),
            );
            NULL_FLOAT
        }
    };
    if let Some(valid) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        for (word, valid) in out.iter_mut().zip(valid) {
            *word = if valid { *word } else { null };
        }
    }
}

fn from_floats(words: impl Iterator<Item = u64> + Clone, double: bool) -> ArrayRef {
    let null = if double { NULL_DOUBLE } else { NULL_FLOAT };
    let valid = some_null(words.clone().map(|word| word != null).collect());
    match double {
        true => Arc::new(Float64Array::new(words.map(f64::from_bits).collect(), valid)),
        false => Arc::new(Float32Array::new(
            words.map(|word| f32::from_bits(word as u32)).collect(),
            valid,
        )),
    }
}

fn some_null(valid: BooleanBuffer) -> Option<NullBuffer> {
    Some(NullBuffer::new(valid)).filter(|valid| valid.null_count() > 0)
}

//! Codes of a key: small numbers for its values, the same in all segments, without a look at every
//! row.
//!
//! * a column with a dictionary: the place in the union of the dictionaries;
//! * whole numbers, dates, times, booleans: the distance from the minimum that zone maps give;
//! * decimals: the distance of the whole numbers that stand for them (see `decimal_column`);
//! * an expression over one such column of few values, or several: it is evaluated once for each of
//!   them, or each combination;
//! * an expression of which it is known between what numbers it lies (a part of a date, a
//!   remainder, a CASE as the number of its branch): the distance from the least;
//! * an expression that keeps order: the distance from its value at the minimum; a block in which
//!   it has one value (the year of a day's rows) is not decoded at all.
//!
//! Where a key may be null, code 0 is null.

mod expressions;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use self::expressions::{bounded, combined, folded, mapped, ranged};
use super::code_map;
use super::coded_column::{CodedColumn, unknown};
use super::decimal_column::{self, DecimalColumn};
use crate::encoding::Word;
use crate::encoding::bools::Bools;
use crate::encoding::kernels::dispatch::simd;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::model::Column;
use crate::query::scan::{OpenBlock, Survivors};
use crate::query::slice::{Slice, take};
use crate::query::words::{blank, from_words, one_zero, to_words};

/// An expression is evaluated in advance for at most this many values of its column.
const MAX_MAPPED: u64 = 1 << 16;

/// How a key is coded.
#[derive(Debug)]
pub(crate) enum Coding {
    /// One value for all rows.
    Constant(ArrayRef),
    /// A stored column.
    Column(CodedColumn),
    /// An expression over a coded column: its code for each code of the column.
    Mapped {
        source: CodedColumn,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// An expression over several coded columns: its code for each combination of their codes, the
    /// last column's next to each other.
    Combined {
        sources: Vec<CodedColumn>,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// An expression of whole numbers of which it is known between what they lie: the distance from
    /// the least.
    Ranged {
        expression: Expression,
        input: Option<usize>,
        low: i64,
        nulls: bool,
        domain: u64,
        stands_for: KeyValues,
    },
}

/// What the whole numbers of a key stand for.
#[derive(Clone, Debug)]
pub(crate) enum KeyValues {
    /// Themselves.
    Numbers,
    /// Decimals of so many places.
    Decimals(u8),
    /// The values of a choice: code 0 is the first, and not null unless that is.
    Choice(ArrayRef),
}

/// Codes that rows of a block may have.
pub(crate) enum Possible {
    /// From one to another.
    Range(u64, u64),
    /// Those of the segment's dictionary: null's, then some that each occur in the segment.
    Dictionary(Arc<[u32]>),
}

impl Coding {
    /// How to code `key` over what is to be read; `None` if there is no small code. `all`: every
    /// row is needed.
    pub(crate) fn of(
        key: &Expression,
        columns: &[Column],
        survivors: &Survivors,
        all: bool,
    ) -> Result<Option<Coding>> {
        if key.inputs.is_empty() {
            return Ok(Some(Coding::Constant(one_zero(&key.evaluate(&[], 1)?))));
        }
        let Some(at) = key.only_input() else {
            return Ok(combined(key, columns, survivors)?.or_else(|| bounded(key)));
        };
        let Some(column) = columns.get(at) else { return Ok(None) };
        let coded = CodedColumn::of(at, column, survivors)?;
        if key.function.is_none() {
            let decimals = match coded {
                None if all => DecimalColumn::of(at, column, survivors)?,
                _ => None,
            };
            let ranged = |DecimalColumn { int, places, low, domain }| Coding::Ranged {
                expression: int,
                input: Some(at),
                low,
                nulls: true,
                domain,
                stands_for: KeyValues::Decimals(places),
            };
            return Ok(coded.map(Coding::Column).or(decimals.map(ranged)));
        }
        let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
        if let Some(source) = coded
            && !source.loses_sign
            && source.domain <= MAX_MAPPED.min(rows / 4)
            && let Some(mapped) = mapped(key, source)?
        {
            return Ok(Some(mapped));
        }
        Ok(ranged(key, at, column, survivors)?.or_else(|| bounded(key)))
    }

    /// How many codes there may be.
    pub(crate) fn domain(&self) -> u64 {
        match self {
            Coding::Constant(_) => 1,
            Coding::Column(column) => column.domain,
            Coding::Mapped { values, .. } | Coding::Combined { values, .. } => values.len() as u64,
            Coding::Ranged { domain, .. } => *domain,
        }
    }

    /// Whether the values of codes are those of the rows, bit for bit.
    pub(crate) fn is_exact(&self) -> bool {
        !matches!(self, Coding::Column(column) if column.loses_sign)
    }

    /// The code of null, if there is one.
    pub(crate) fn null(&self) -> Option<u64> {
        let among = |values: &ArrayRef| {
            (0..values.len()).find(|at| values.is_null(*at)).map(|at| at as u64)
        };
        match self {
            Coding::Constant(value) => among(value),
            Coding::Column(column) => column.has_null().then_some(0),
            Coding::Mapped { values, .. } | Coding::Combined { values, .. } => among(values),
            Coding::Ranged { stands_for: KeyValues::Choice(values), .. } => among(values),
            Coding::Ranged { nulls, .. } => nulls.then_some(0),
        }
    }

    /// The values of codes.
    pub(crate) fn values(&self, codes: &[u64], data_type: &ArrowType) -> Result<ArrayRef> {
        match self {
            Coding::Constant(value) => take(value, &vec![0; codes.len()]),
            Coding::Column(column) => column.values(codes),
            Coding::Mapped { values, .. } | Coding::Combined { values, .. } => {
                take(values, &narrow(codes))
            }
            Coding::Ranged { stands_for: KeyValues::Choice(values), .. } => {
                take(values, &narrow(codes))
            }
            Coding::Ranged { low, nulls, stands_for, .. } => {
                let words = from_codes(codes, *low, *nulls);
                let null = *nulls && codes.contains(&0);
                let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
                match data_type {
                    ArrowType::Float64 => {
                        let places = if let KeyValues::Decimals(places) = stands_for {
                            i32::from(*places)
                        } else {
                            0
                        };
                        let power = 10f64.powi(places);
                        let floats: ScalarBuffer<f64> =
                            words.iter().map(|w| *w as f64 / power).collect();
                        Ok(Arc::new(arrow_array::Float64Array::new(floats, nulls)))
                    }
                    _ => from_words(words, nulls, data_type),
                }
            }
        }
    }

    /// The code of all rows of a block, if it shows without a look at them that they have the same.
    pub(crate) fn constant(&self, block: &OpenBlock<'_>) -> Result<Option<u64>> {
        let code = match self {
            Coding::Constant(_) => Some(0),
            Coding::Column(column) => column.constant(block)?,
            Coding::Mapped { source, codes, .. } => {
                let code = source.constant(block)?.and_then(|code| usize::try_from(code).ok());
                code.and_then(|code| codes.get(code)).map(|code| u64::from(*code))
            }
            Coding::Combined { sources, codes, .. } => {
                let mut place = Some(0);
                for source in sources {
                    let code = source.constant(block)?.filter(|code| *code < source.domain);
                    place = place.zip(code).map(|(place, code)| place * source.domain + code);
                }
                place
                    .and_then(|place| codes.get(usize::try_from(place).ok()?))
                    .map(|code| u64::from(*code))
            }
            Coding::Ranged { expression, input: Some(input), low, nulls, .. } => {
                folded(expression, *input, low.wrapping_sub(i64::from(*nulls)), block)
            }
            Coding::Ranged { input: None, .. } => None,
        };
        match code {
            Some(code) if code >= self.domain() => Err(outside()),
            code => Ok(code),
        }
    }

    /// The codes that rows of a block may have, null's aside, as far as that shows without a look
    /// at them.
    pub(crate) fn possible(&self, block: &OpenBlock<'_>) -> Result<Option<Possible>> {
        Ok(match self {
            Coding::Column(column) => column.possible(block),
            Coding::Ranged { expression, input: Some(input), low, nulls, stands_for, .. }
                if !matches!(stands_for, KeyValues::Choice(_)) =>
            {
                let bias = low.wrapping_sub(i64::from(*nulls));
                code_map::of_block(expression, *input, bias, block)?
                    .map(|map| Possible::Dictionary(map.codes()))
            }
            _ => None,
        })
    }

    /// The code of each digit that [`Coding::write_digits`] writes for rows of a block; `None` if
    /// these are codes already.
    pub(crate) fn table(&self, block: &OpenBlock<'_>) -> Result<Option<Cow<'_, [u32]>>> {
        Ok(match self {
            Coding::Column(column) => column.map_of(block)?.map(Cow::Borrowed),
            Coding::Mapped { source, codes, .. } => Some(match source.map_of(block)? {
                None => Cow::Borrowed(codes.as_slice()),
                Some(map) => {
                    let code =
                        |place: &u32| codes.get(*place as usize).copied().ok_or_else(unknown);
                    Cow::Owned(map.iter().map(code).collect::<Result<_>>()?)
                }
            }),
            _ => None,
        })
    }

    /// Appends the digits of a slice's rows to `out`, which is empty: `raw` ones are to be looked
    /// up in the table.
    pub(crate) fn write_digits(
        &self,
        raw: bool,
        slice: &Slice<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Coding::Column(column) | Coding::Mapped { source: column, .. } if raw => {
                column.write_raw(slice, out)?;
                compact(out, slice);
                Ok(())
            }
            _ => self.write(slice, out),
        }
    }

    /// Appends the codes of a slice's rows, selected or not, to `out`, which is empty. Each is
    /// below the domain.
    pub(crate) fn write<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>) -> Result<()> {
        let rows = slice.range.len();
        match self {
            Coding::Constant(_) => out.resize(slice.len(), T::default()),
            Coding::Column(column) => {
                column.write(slice.block, slice.range.clone(), out)?;
                compact(out, slice);
            }
            Coding::Mapped { source, codes, .. } => {
                let mut raw: Vec<u16> = Vec::with_capacity(rows);
                source.write(slice.block, slice.range.clone(), &mut raw)?;
                compact(&mut raw, slice);
                let code = |c: &u16| {
                    codes.get(usize::from(*c)).map_or(T::default(), |c| T::from_u64(u64::from(*c)))
                };
                out.extend(raw.iter().map(code));
            }
            Coding::Combined { sources, codes, .. } => {
                let (mut places, mut raw) = (vec![0u32; rows], Vec::with_capacity(rows));
                for source in sources {
                    raw.clear();
                    source.write::<u16>(slice.block, slice.range.clone(), &mut raw)?;
                    let domain = source.domain as u32;
                    places
                        .iter_mut()
                        .zip(&raw)
                        .for_each(|(place, code)| *place = *place * domain + u32::from(*code));
                }
                compact(&mut places, slice);
                let code = |c: &u32| {
                    codes.get(*c as usize).map_or(T::default(), |c| T::from_u64(u64::from(*c)))
                };
                out.extend(places.iter().map(code));
            }
            Coding::Ranged { expression, input, low, nulls, domain, stands_for } => {
                let bias = low.wrapping_sub(i64::from(*nulls));
                if let (KeyValues::Decimals(places), Some(input)) = (stands_for, input)
                    && decimal_column::write(*places, *input, bias, slice, out)?
                {
                    compact(out, slice);
                    return within(out, *domain);
                }
                if let Some(input) = input
                    && code_map::write(expression, *input, bias, slice, out)?
                {
                    compact(out, slice);
                    return within(out, *domain);
                }
                let array = slice.evaluate(expression)?;
                let words = words_of(&array)
                    .ok_or_else(|| Error::InvalidInput("a key without words".into()))?;
                out.extend(words.iter().map(|w| T::from_u64(w.wrapping_sub(bias) as u64)));
                blank(out, array.nulls());
                // The truncated code can look right where the true one is not.
                let most = (*domain - 1) as i64;
                let is_outside = |w: &i64| !(0..=most).contains(&w.wrapping_sub(bias));
                let bad = match array.nulls() {
                    None => words.iter().any(is_outside),
                    Some(valid) => words.iter().zip(valid).any(|(w, valid)| valid && is_outside(w)),
                };
                if bad {
                    return Err(outside());
                }
            }
        }
        within(out, self.domain())
    }
}

/// Makes the codes of null rows 0.
pub(super) fn blank_unset<T: Word>(
    codes: &mut [T],
    valid: &Bools<'_>,
    rows: Range<usize>,
) -> Result<()> {
    valid.each_unset(rows, |unset| {
        if let Some(codes) = codes.get_mut(unset) {
            codes.fill(T::default());
        }
    })
}

/// Keeps what is selected.
pub(super) fn compact<T: Word>(codes: &mut Vec<T>, slice: &Slice<'_, '_>) {
    let Some(selected) = slice.selected() else { return };
    for (to, from) in selected.iter().enumerate() {
        codes[to] = codes[*from as usize];
    }
    codes.truncate(selected.len());
}

/// Damaged or mistaken zone maps must not lead outside of the groups.
pub(super) fn within<T: Word>(codes: &[T], domain: u64) -> Result<()> {
    let greatest = simd(
        #[inline(always)]
        || codes.iter().fold(T::default(), |most, code| most.max(*code)),
    );
    if Word::to_u64(greatest) < domain || codes.is_empty() {
        return Ok(());
    }
    Err(outside())
}

pub(super) fn outside() -> Error {
    Error::corrupt(0, "a value lies outside the bounds of its zone map")
}

pub(super) fn from_codes(codes: &[u64], low: i64, nulls: bool) -> Vec<i64> {
    let bias = low.wrapping_sub(i64::from(nulls));
    codes.iter().map(|code| bias.wrapping_add(*code as i64)).collect()
}

/// Codes that are positions in an array.
pub(super) fn narrow(codes: &[u64]) -> Vec<u32> {
    codes.iter().map(|code| u32::try_from(*code).unwrap_or(u32::MAX)).collect()
}

/// Words of an array of whole numbers, or of floats without fractions.
pub(super) fn words_of(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    use arrow_array::cast::AsArray;
    match array.data_type() {
        ArrowType::Float64 => {
            let floats = array.as_primitive::<arrow_array::types::Float64Type>();
            Some(floats.values().iter().map(|v| *v as i64).collect())
        }
        _ => to_words(array),
    }
}

//! Codes of a key: small numbers for its values, the same in all segments, without a look at every row.
//!
//! * a column with a dictionary: the place in the union of the dictionaries;
//! * whole numbers, dates, times, booleans: the distance from the minimum that zone maps give;
//! * decimals: the distance of the whole numbers that stand for them (see `decimal_column`);
//! * an expression over one such column of few values, or several: it is evaluated once for each of them, or each combination;
//! * an expression of which it is known between what numbers it lies (a part of a date, a remainder, a CASE as the number of
//!   its branch): the distance from the least;
//! * an expression that keeps order: the distance from its value at the minimum; a block in which it has one value
//!   (the year of a day's rows) is not decoded at all.
//!
//! Where a key may be null, code 0 is null.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use super::code_map;
use super::coded_column::{CodedColumn, domain, unknown};
use super::decimal_column::{self, DecimalColumn};
use super::interner::Interner;
use crate::block::{Bound, Stats};
use crate::encoding::Word;
use crate::encoding::bools::Bools;
use crate::encoding::kernels::dispatch::simd;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::model::{Column, DataType, Scalar};
use crate::query::scan::{Memo, OpenBlock, Survivors};
use crate::query::slice::{Slice, take};
use crate::query::words::{blank, from_words, is_words, one_zero, to_words};

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
    /// An expression over several coded columns: its code for each combination of their codes, the last column's next to
    /// each other.
    Combined {
        sources: Vec<CodedColumn>,
        codes: Vec<u32>,
        /// The value of each code.
        values: ArrayRef,
    },
    /// An expression of whole numbers of which it is known between what they lie: the distance from the least.
    Ranged { expression: Expression, input: Option<usize>, low: i64, nulls: bool, domain: u64, meaning: Meaning },
}

/// What the whole numbers of a key stand for.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
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
    /// How to code `key` over what is to be read; `None` if there is no small code. `all`: every row is needed.
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
                meaning: Meaning::Decimals(places),
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
        let among = |values: &ArrayRef| (0..values.len()).find(|at| values.is_null(*at)).map(|at| at as u64);
        match self {
            Coding::Constant(value) => among(value),
            Coding::Column(column) => column.has_null().then_some(0),
            Coding::Mapped { values, .. } | Coding::Combined { values, .. } => among(values),
            Coding::Ranged { meaning: Meaning::Choice(values), .. } => among(values),
            Coding::Ranged { nulls, .. } => nulls.then_some(0),
        }
    }

    /// The values of codes.
    pub(crate) fn values(&self, codes: &[u64], data_type: &ArrowType) -> Result<ArrayRef> {
        match self {
            Coding::Constant(value) => take(value, &vec![0; codes.len()]),
            Coding::Column(column) => column.values(codes),
            Coding::Mapped { values, .. } | Coding::Combined { values, .. } => take(values, &narrow(codes)),
            Coding::Ranged { meaning: Meaning::Choice(values), .. } => take(values, &narrow(codes)),
            Coding::Ranged { low, nulls, meaning, .. } => {
                let words = from_codes(codes, *low, *nulls);
                let null = *nulls && codes.contains(&0);
                let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
                match data_type {
                    ArrowType::Float64 => {
                        let places = if let Meaning::Decimals(places) = meaning { i32::from(*places) } else { 0 };
                        let power = 10f64.powi(places);
                        let floats: ScalarBuffer<f64> = words.iter().map(|w| *w as f64 / power).collect();
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
                place.and_then(|place| codes.get(usize::try_from(place).ok()?)).map(|code| u64::from(*code))
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

    /// The codes that rows of a block may have, null's aside, as far as that shows without a look at them.
    pub(crate) fn possible(&self, block: &OpenBlock<'_>) -> Result<Option<Possible>> {
        Ok(match self {
            Coding::Column(column) => column.possible(block),
            Coding::Ranged { expression, input: Some(input), low, nulls, meaning, .. }
                if !matches!(meaning, Meaning::Choice(_)) =>
            {
                let bias = low.wrapping_sub(i64::from(*nulls));
                code_map::of_block(expression, *input, bias, block)?.map(|map| Possible::Dictionary(map.codes()))
            }
            _ => None,
        })
    }

    /// The code of each digit that [`Coding::write_digits`] writes for rows of a block; `None` if these are codes already.
    pub(crate) fn table(&self, block: &OpenBlock<'_>) -> Result<Option<Cow<'_, [u32]>>> {
        Ok(match self {
            Coding::Column(column) => column.map_of(block)?.map(Cow::Borrowed),
            Coding::Mapped { source, codes, .. } => Some(match source.map_of(block)? {
                None => Cow::Borrowed(codes.as_slice()),
                Some(map) => {
                    let code = |place: &u32| codes.get(*place as usize).copied().ok_or_else(unknown);
                    Cow::Owned(map.iter().map(code).collect::<Result<_>>()?)
                }
            }),
            _ => None,
        })
    }

    /// Appends the digits of a slice's rows to `out`, which is empty: `raw` ones are to be looked up in the table.
    pub(crate) fn write_digits(&self, raw: bool, slice: &Slice<'_, '_>, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Coding::Column(column) | Coding::Mapped { source: column, .. } if raw => {
                column.write_raw(slice, out)?;
                compact(out, slice);
                Ok(())
            }
            _ => self.write(slice, out),
        }
    }

    /// Appends the codes of a slice's rows, selected or not, to `out`, which is empty. Each is below the domain.
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
                let code =
                    |c: &u16| codes.get(usize::from(*c)).map_or(T::default(), |c| T::from_u64(u64::from(*c)));
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
                let code = |c: &u32| codes.get(*c as usize).map_or(T::default(), |c| T::from_u64(u64::from(*c)));
                out.extend(places.iter().map(code));
            }
            Coding::Ranged { expression, input, low, nulls, domain, meaning } => {
                let bias = low.wrapping_sub(i64::from(*nulls));
                if let (Meaning::Decimals(places), Some(input)) = (meaning, input)
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
                let words = words_of(&array).ok_or_else(|| Error::InvalidInput("a key without words".into()))?;
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
pub(super) fn blank_unset<T: Word>(codes: &mut [T], valid: &Bools<'_>, rows: Range<usize>) -> Result<()> {
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

fn mapped(key: &Expression, source: CodedColumn) -> Result<Option<Coding>> {
    let codes: Vec<u64> = (0..source.domain).collect();
    let inputs = source.values(&codes)?;
    // A value that no row has may fail.
    let Ok(results) = key.evaluate(&[inputs], codes.len()) else { return Ok(None) };
    let mut interner = Interner::new(results.data_type())?;
    let codes = interner.intern(&results)?;
    let values = interner.values()?;
    Ok(Some(Coding::Mapped { source, codes, values }))
}

/// The codes of an expression over several columns of few values, if they have few combinations.
fn combined(key: &Expression, columns: &[Column], survivors: &Survivors) -> Result<Option<Coding>> {
    let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
    let (mut sources, mut count) = (Vec::new(), 1u64);
    for at in &key.inputs {
        let Some(column) = columns.get(*at) else { return Ok(None) };
        let Some(source) = CodedColumn::of(*at, column, survivors)? else { return Ok(None) };
        count = count.saturating_mul(source.domain);
        if source.loses_sign || count > MAX_MAPPED.min(rows / 4) {
            return Ok(None);
        }
        sources.push(source);
    }
    let mut inputs = Vec::with_capacity(sources.len());
    let mut repeats = count;
    for source in &sources {
        repeats /= source.domain;
        let codes: Vec<u64> = (0..count).map(|place| place / repeats % source.domain).collect();
        inputs.push(source.values(&codes)?);
    }
    // A combination that no row has may fail.
    let Ok(results) = key.evaluate(&inputs, count as usize) else { return Ok(None) };
    let mut interner = Interner::new(results.data_type())?;
    let codes = interner.intern(&results)?;
    let values = interner.values()?;
    Ok(Some(Coding::Combined { sources, codes, values }))
}

fn ranged(key: &Expression, at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Coding>> {
    let integral = key.traits.integral && key.data_type == ArrowType::Float64;
    if !key.traits.monotone || !(is_words(&key.data_type) || integral) {
        return Ok(None);
    }
    let (mut low, mut high, mut nulls) = (i64::MAX, i64::MIN, false);
    for segment in &survivors.segments {
        let Some(stored) = segment.columns.get(at).and_then(Option::as_deref) else {
            nulls = true;
            continue;
        };
        nulls |= stored.stats().nulls > 0;
        if stored.stats().nulls == stored.stats().rows {
            continue;
        }
        let Some((min, max)) = at_bounds(key, stored.stats(), stored.data_type(), &column.data_type) else {
            return Ok(None);
        };
        (low, high) = (low.min(min), high.max(max));
    }
    if low > high {
        (low, high, nulls) = (0, 0, true);
    }
    let Some(domain) = domain(&(low..high), nulls).filter(|n| i64::try_from(*n).is_ok()) else { return Ok(None) };
    let (expression, meaning) = (key.clone(), Meaning::Numbers);
    Ok(Some(Coding::Ranged { expression, input: Some(at), low, nulls, domain, meaning }))
}

/// The codes of an expression of which more is known than of its columns.
fn bounded(key: &Expression) -> Option<Coding> {
    let input = key.only_input();
    if let Some(choice) = &key.choice {
        let (expression, meaning) = (choice.number.clone(), Meaning::Choice(Arc::clone(&choice.values)));
        let domain = choice.values.len() as u64;
        return Some(Coding::Ranged { expression, input, low: 1, nulls: true, domain, meaning });
    }
    let (low, high) = key.traits.bounds.filter(|_| is_words(&key.data_type))?;
    let domain = domain(&(low..high), true).filter(|n| i64::try_from(*n).is_ok())?;
    let (expression, meaning) = (key.clone(), Meaning::Numbers);
    Some(Coding::Ranged { expression, input, low, nulls: true, domain, meaning })
}

/// The words of an expression that keeps order at the least and the greatest value.
fn at_bounds(key: &Expression, stats: &Stats, stored: &DataType, table: &DataType) -> Option<(i64, i64)> {
    let inputs = match (stored == table, &stats.min.as_ref()?.value, &stats.max.as_ref()?.value) {
        (true, Scalar::Int(min), Scalar::Int(max)) => {
            let words = vec![i64::try_from(*min).ok()?, i64::try_from(*max).ok()?];
            from_words(words, None, &table.to_arrow()).ok()?
        }
        // −0.0 is below 0.0, and its code would be that of 0.0.
        (true, Scalar::Float(min), Scalar::Float(max)) if *table == DataType::Float64 && min.is_sign_positive() => {
            Arc::new(arrow_array::Float64Array::from(vec![*min, *max])) as ArrayRef
        }
        _ => return None,
    };
    let results = key.evaluate(&[inputs], 2).ok()?;
    if results.null_count() > 0 {
        return None;
    }
    if let Some(floats) = results.as_any().downcast_ref::<arrow_array::Float64Array>()
        && !floats.values().iter().all(|v| v.abs() < 9e15)
    {
        return None;
    }
    let words = words_of(&results)?;
    Some((*words.first()?, *words.get(1)?))
}

/// The code that all rows of a block have, if zone maps prove that there is one.
fn folded(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Memo::Folded(code) = block.memo(key, Memo::is_folded, || Memo::Folded(fold(key, at, bias, block))) else {
        return None;
    };
    code
}

fn fold(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Some(column) = block.stored(at) else { return Some(0) };
    let stats = column.block_stats(block.work.block)?;
    if stats.nulls == stats.rows {
        return Some(0);
    }
    if stats.nulls > 0 {
        return None;
    }
    if !key.traits.monotone {
        let word = |bound: &Option<Bound>| match bound.as_ref()?.value {
            Scalar::Int(value) if stored_as(block, at) => i64::try_from(value).ok(),
            _ => None,
        };
        let steady = key.function.as_ref()?.steady(word(&stats.min)?, word(&stats.max)?)?;
        return Some(steady.wrapping_sub(bias) as u64);
    }
    let (min, max) = at_bounds(key, stats, column.data_type(), column.data_type())?;
    (min == max).then_some(min.wrapping_sub(bias) as u64)
}

/// Whether a column is stored in the table's type.
fn stored_as(block: &OpenBlock<'_>, at: usize) -> bool {
    block.stored(at).map(|column| column.data_type().to_arrow()) == block.table_type(at)
}

//! Keys that are numbers within known bounds: an expression that keeps the order of its column, a
//! part of a date, a remainder, a column of decimals, the number of the branch of a CASE. The code
//! is the distance from the least number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use super::codes::{
    as_floats, check_domain, compact, domain, from_codes, is_float, narrow, out_of_bounds_error,
    words_of,
};
use super::decimals::{self, DecimalColumn};
use super::map::CodeMaps;
use crate::block::{Bound, Stats};
use crate::encoding::Word;
use crate::encoding::scaled::Scaling;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::model::{Column, DataType, Scalar};
use crate::query::open::{OpenBlock, PerBlock, Survivors};
use crate::query::slice::{Slice, take};
use crate::query::words::{blank, from_words, is_words};
use crate::segment;

/// A key of numbers within known bounds.
#[derive(Debug)]
pub(crate) struct RangedKey {
    /// The number of a row.
    expression: Expression,
    /// The only column that it reads, if it reads one.
    input: Option<usize>,
    low: i64,
    /// Whether code 0 is null.
    nulls: bool,
    pub(super) domain: u64,
    stands_for: KeyValues,
    /// The code of all rows of a block, where zone maps prove that there is one.
    folded: PerBlock<Option<u64>>,
    maps: CodeMaps,
}

/// What the numbers of a key stand for.
#[derive(Clone, Debug)]
enum KeyValues {
    /// Themselves.
    Numbers,
    /// The floats that are scaled so.
    Floats(Scaling),
    /// The values of a choice: code 0 is the first, and not null unless that is.
    Choice(ArrayRef),
}

impl RangedKey {
    fn new(
        expression: Expression,
        input: Option<usize>,
        (low, nulls, domain): (i64, bool, u64),
        stands_for: KeyValues,
        survivors: &Survivors,
    ) -> Self {
        let (folded, maps) = (PerBlock::new(survivors), CodeMaps::new(survivors));
        RangedKey { expression, input, low, nulls, domain, stands_for, folded, maps }
    }

    pub(super) fn decimals(at: usize, column: DecimalColumn, survivors: &Survivors) -> Self {
        let DecimalColumn { int, scaling, low, domain } = column;
        let stands_for = KeyValues::Floats(scaling);
        RangedKey::new(int, Some(at), (low, true, domain), stands_for, survivors)
    }

    /// An expression that keeps the order of its column: the bounds of the column tell its own.
    pub(super) fn monotone(
        key: &Expression,
        at: usize,
        column: &Column,
        survivors: &Survivors,
    ) -> Option<Self> {
        let integral = key.traits.integral && is_float(&key.data_type);
        if !key.traits.monotone || !(is_words(&key.data_type) || integral) {
            return None;
        }
        let (mut low, mut high, mut nulls) = (i64::MAX, i64::MIN, false);
        for stored in survivors.stored(at) {
            let Some(stored) = stored else {
                nulls = true;
                continue;
            };
            nulls |= stored.stats().nulls > 0;
            if stored.stats().nulls == stored.stats().rows {
                continue;
            }
            let (min, max) = at_bounds(key, stored.stats(), stored.data_type(), &column.data_type)?;
            (low, high) = (low.min(min), high.max(max));
        }
        if low > high {
            (low, high, nulls) = (0, 0, true);
        }
        let domain = domain(&(low..high), nulls).filter(|n| i64::try_from(*n).is_ok())?;
        let bounds = (low, nulls, domain);
        Some(RangedKey::new(key.clone(), Some(at), bounds, KeyValues::Numbers, survivors))
    }

    /// An expression whose bounds do not depend on its columns.
    pub(super) fn bounded(key: &Expression, survivors: &Survivors) -> Option<Self> {
        let input = key.only_input();
        if let Some(choice) = &key.choice {
            let stands_for = KeyValues::Choice(Arc::clone(&choice.values));
            let bounds = (1, true, choice.values.len() as u64);
            let number = choice.number.clone();
            return Some(RangedKey::new(number, input, bounds, stands_for, survivors));
        }
        let (low, high) = key.traits.bounds.filter(|_| is_words(&key.data_type))?;
        let domain = domain(&(low..high), true).filter(|n| i64::try_from(*n).is_ok())?;
        let bounds = (low, true, domain);
        Some(RangedKey::new(key.clone(), input, bounds, KeyValues::Numbers, survivors))
    }

    /// What is taken from a number to make it a code.
    fn bias(&self) -> i64 {
        self.low.wrapping_sub(i64::from(self.nulls))
    }

    /// The code of null, if there is one.
    pub(super) fn null(&self) -> Option<u64> {
        match &self.stands_for {
            KeyValues::Choice(values) => {
                (0..values.len()).find(|at| values.is_null(*at)).map(|at| at as u64)
            }
            KeyValues::Numbers | KeyValues::Floats(_) => self.nulls.then_some(0),
        }
    }

    /// The values of codes.
    pub(super) fn values(&self, codes: &[u64], data_type: &ArrowType) -> Result<ArrayRef> {
        let scaling = match &self.stands_for {
            KeyValues::Choice(values) => return take(values, &narrow(codes)),
            KeyValues::Floats(scaling) => *scaling,
            KeyValues::Numbers => Scaling::quotients(0, false),
        };
        let words = from_codes(codes, self.low, self.nulls);
        let null = self.nulls && codes.contains(&0);
        let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
        if !is_float(data_type) {
            return from_words(words, nulls, data_type);
        }
        let floats: ScalarBuffer<f64> = words.iter().map(|w| scaling.value(*w)).collect();
        as_floats(Float64Array::new(floats, nulls), data_type)
    }

    /// The code of all rows of a block, if it shows without a look at them that they have the same.
    pub(super) fn constant(&self, block: &OpenBlock<'_>) -> Option<u64> {
        let at = self.input?;
        let fold = || fold(&self.expression, at, self.bias(), block);
        *self.folded.get_or_init(block.at, fold)?
    }

    /// The codes of the dictionary of a block's segment, null's first; `None` if there is none, or
    /// it is too large.
    pub(super) fn of_dictionary(&self, block: &OpenBlock<'_>) -> Result<Option<Arc<[u32]>>> {
        match (self.input, &self.stands_for) {
            (None, _) | (_, KeyValues::Choice(_)) => Ok(None),
            (Some(at), _) => self.maps.of_dictionary(&self.expression, at, self.bias(), block),
        }
    }

    /// Appends the codes of a slice's selected rows to `out`, which is empty.
    pub(super) fn write<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>) -> Result<()> {
        if self.write_stored(slice, out)? {
            compact(out, slice);
            return check_domain(out, self.domain);
        }
        let array = slice.evaluate(&self.expression)?;
        let words =
            words_of(&array).ok_or_else(|| Error::InvalidInput("a key without words".into()))?;
        let bias = self.bias();
        out.extend(words.iter().map(|w| T::from_u64(w.wrapping_sub(bias) as u64)));
        blank(out, array.nulls());
        // The truncated code can look right where the true one is not.
        let most = (self.domain - 1) as i64;
        let is_outside = |w: &i64| !(0..=most).contains(&w.wrapping_sub(bias));
        let bad = match array.nulls() {
            None => words.iter().any(is_outside),
            Some(valid) => words.iter().zip(valid).any(|(w, valid)| valid && is_outside(w)),
        };
        if bad { Err(out_of_bounds_error()) } else { check_domain(out, self.domain) }
    }

    /// Appends the codes of all rows of a slice by what the block stores, without a look at values;
    /// false, with nothing appended, where that does not do.
    fn write_stored<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>) -> Result<bool> {
        let Some(at) = self.input else { return Ok(false) };
        if let KeyValues::Floats(scaling) = self.stands_for
            && decimals::write(scaling, at, self.bias(), slice, out)?
        {
            return Ok(true);
        }
        self.maps.write(&self.expression, at, self.bias(), slice, out)
    }
}

/// The words of an expression that keeps order at the least and the greatest value.
fn at_bounds(
    key: &Expression,
    stats: &Stats,
    stored: &DataType,
    table: &DataType,
) -> Option<(i64, i64)> {
    let inputs = match (stored == table, &stats.min.as_ref()?.value, &stats.max.as_ref()?.value) {
        (true, Scalar::Int(min), Scalar::Int(max)) => {
            let words = vec![i64::try_from(*min).ok()?, i64::try_from(*max).ok()?];
            from_words(words, None, &table.to_arrow()).ok()?
        }
        // −0.0 is below 0.0, and its code would be that of 0.0.
        (true, Scalar::Float(min), Scalar::Float(max))
            if is_float(&table.to_arrow()) && min.is_sign_positive() =>
        {
            as_floats(Float64Array::from(vec![*min, *max]), &table.to_arrow()).ok()?
        }
        _ => return None,
    };
    let results = key.evaluate(&[inputs], 2).ok()?;
    if results.null_count() > 0 {
        return None;
    }
    if is_float(results.data_type()) {
        let doubles = arrow_cast::cast(&results, &ArrowType::Float64).ok()?;
        if !doubles.as_primitive::<Float64Type>().values().iter().all(|v| v.abs() < 9e15) {
            return None;
        }
    }
    let words = words_of(&results)?;
    Some((*words.first()?, *words.get(1)?))
}

/// The code that all rows of a block have, if zone maps prove that there is one.
fn fold(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Some(column) = block.stored(at) else { return Some(0) };
    let stats = column.block_stats(block.at.block)?;
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
        let steady = key.function.as_ref()?.constant_over(word(&stats.min)?, word(&stats.max)?)?;
        return Some(steady.wrapping_sub(bias) as u64);
    }
    let (min, max) = at_bounds(key, stats, column.data_type(), column.data_type())?;
    (min == max).then_some(min.wrapping_sub(bias) as u64)
}

/// Whether a column is stored in the table's type.
fn stored_as(block: &OpenBlock<'_>, at: usize) -> bool {
    block.stored(at).map(segment::Column::data_type) == block.table_type(at).ok()
}

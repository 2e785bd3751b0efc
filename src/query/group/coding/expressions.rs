//! Keys that are expressions: what codes they have, as far as it shows before rows are read.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

use super::super::coded_column::{CodedColumn, domain};
use super::super::interner::Interner;
use super::{Coding, KeyValues, MAX_MAPPED, words_of};
use crate::block::{Bound, Stats};
use crate::error::Result;
use crate::expr::Expression;
use crate::model::{Column, DataType, Scalar};
use crate::query::scan::{Memo, OpenBlock, Survivors};
use crate::query::words::{from_words, is_words};

/// So many results are computed at first.
const FEW: u64 = 16;
/// More bytes of results are left to hash tables.
const MAX_BYTES: usize = 16 << 20;

/// The codes of an expression over a column of few values.
pub(super) fn mapped(key: &Expression, source: CodedColumn) -> Result<Option<Coding>> {
    let found = tabulated(key, std::slice::from_ref(&source), source.domain)?;
    Ok(found.map(|(codes, values)| Coding::Mapped { source, codes, values }))
}

/// The codes of an expression over several columns of few values, if they have few combinations.
pub(super) fn combined(
    key: &Expression,
    columns: &[Column],
    survivors: &Survivors,
) -> Result<Option<Coding>> {
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
    let found = tabulated(key, &sources, count)?;
    Ok(found.map(|(codes, values)| Coding::Combined { sources, codes, values }))
}

/// The code of an expression for each of `count` combinations of its columns' codes, the last
/// column's next to each other, and the value of each code.
fn tabulated(
    key: &Expression,
    sources: &[CodedColumn],
    count: u64,
) -> Result<Option<(Vec<u32>, ArrayRef)>> {
    let mut interner = Interner::new(&key.data_type)?;
    let (mut codes, mut bytes, mut some) = (Vec::new(), 0, FEW);
    while (codes.len() as u64) < count {
        let start = codes.len() as u64;
        let places = start..count.min(start + some);
        let (mut inputs, mut repeats) = (Vec::with_capacity(sources.len()), count);
        for source in sources {
            repeats /= source.domain;
            let codes: Vec<u64> =
                places.clone().map(|place| place / repeats % source.domain).collect();
            inputs.push(source.values(&codes)?);
        }
        // What no row has may fail, or be of any length.
        let Ok(results) = key.evaluate(&inputs, (places.end - places.start) as usize) else {
            return Ok(None);
        };
        let more = bytes_of(&results);
        bytes += more;
        if bytes > MAX_BYTES {
            return Ok(None);
        }
        some = if more < MAX_BYTES / 16 { some * 2 } else { some };
        codes.extend(interner.intern(&results)?);
    }
    Ok(Some((codes, interner.values()?)))
}

/// Bytes of values; of texts that are views of a dictionary, not of all of it.
fn bytes_of(values: &ArrayRef) -> usize {
    let texts = values.as_string_view_opt().map(|texts| texts.total_buffer_bytes_used());
    let bytes = texts.or_else(|| Some(values.as_binary_view_opt()?.total_buffer_bytes_used()));
    bytes.map_or_else(
        || values.get_array_memory_size(),
        |bytes| bytes + values.len() * size_of::<u128>(),
    )
}

pub(super) fn ranged(
    key: &Expression,
    at: usize,
    column: &Column,
    survivors: &Survivors,
) -> Result<Option<Coding>> {
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
        let Some((min, max)) =
            at_bounds(key, stored.stats(), stored.data_type(), &column.data_type)
        else {
            return Ok(None);
        };
        (low, high) = (low.min(min), high.max(max));
    }
    if low > high {
        (low, high, nulls) = (0, 0, true);
    }
    let Some(domain) = domain(&(low..high), nulls).filter(|n| i64::try_from(*n).is_ok()) else {
        return Ok(None);
    };
    let (expression, stands_for) = (key.clone(), KeyValues::Numbers);
    Ok(Some(Coding::Ranged { expression, input: Some(at), low, nulls, domain, stands_for }))
}

/// The codes of an expression of which more is known than of its columns.
pub(super) fn bounded(key: &Expression) -> Option<Coding> {
    let input = key.only_input();
    if let Some(choice) = &key.choice {
        let (expression, stands_for) =
            (choice.number.clone(), KeyValues::Choice(Arc::clone(&choice.values)));
        let domain = choice.values.len() as u64;
        return Some(Coding::Ranged { expression, input, low: 1, nulls: true, domain, stands_for });
    }
    let (low, high) = key.traits.bounds.filter(|_| is_words(&key.data_type))?;
    let domain = domain(&(low..high), true).filter(|n| i64::try_from(*n).is_ok())?;
    let (expression, stands_for) = (key.clone(), KeyValues::Numbers);
    Some(Coding::Ranged { expression, input, low, nulls: true, domain, stands_for })
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
            if *table == DataType::Float64 && min.is_sign_positive() =>
        {
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
pub(super) fn folded(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
    let Memo::Folded(code) =
        block.memo(key, Memo::is_folded, || Memo::Folded(fold(key, at, bias, block)))
    else {
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
        let steady = key.function.as_ref()?.constant_over(word(&stats.min)?, word(&stats.max)?)?;
        return Some(steady.wrapping_sub(bias) as u64);
    }
    let (min, max) = at_bounds(key, stats, column.data_type(), column.data_type())?;
    (min == max).then_some(min.wrapping_sub(bias) as u64)
}

/// Whether a column is stored in the table's type.
fn stored_as(block: &OpenBlock<'_>, at: usize) -> bool {
    block.stored(at).map(|column| column.data_type().to_arrow()) == block.table_type(at)
}

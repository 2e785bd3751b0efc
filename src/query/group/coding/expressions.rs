//! Keys that are expressions: what codes they have, as far as it shows before rows are read.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

use super::super::coded_column::{CodedColumn, domain};
use super::super::interner::Interner;
use super::{Coding, MAX_MAPPED, Meaning, words_of};
use crate::block::{Bound, Stats};
use crate::error::Result;
use crate::expr::Expression;
use crate::model::{Column, DataType, Scalar};
use crate::query::scan::{Memo, OpenBlock, Survivors};
use crate::query::words::{from_words, is_words};

pub(super) fn mapped(key: &Expression, source: CodedColumn) -> Result<Option<Coding>> {
    let codes: Vec<u64> = (0..source.domain).collect();
    let inputs = source.values(&codes)?;
    // A value that no row has may fail.
    let Ok(results) = key.evaluate(&[inputs], codes.len()) else { return Ok(None) };
    let mut interner = Interner::new(results.data_type())?;
    let codes = interner.intern(&results)?;
    let values = interner.values()?;
    Ok(Some(Coding::Mapped { source, codes, values }))
}

/// So many combinations are computed at first.
const FEW_COMBINATIONS: u64 = 16;
/// More bytes of results are left to hash tables.
const MAX_COMBINED_BYTES: usize = 8 << 20;

/// The codes of an expression over several columns of few values, if they have few combinations.
pub(super) fn combined(key: &Expression, columns: &[Column], survivors: &Survivors) -> Result<Option<Coding>> {
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
    let mut interner = Interner::new(&key.data_type)?;
    let (mut codes, mut bytes, mut some) = (Vec::with_capacity(count as usize), 0, FEW_COMBINATIONS);
    while (codes.len() as u64) < count {
        let start = codes.len() as u64;
        let places = start..count.min(start + some);
        let (mut inputs, mut repeats) = (Vec::with_capacity(sources.len()), count);
        for source in &sources {
            repeats /= source.domain;
            let codes: Vec<u64> = places.clone().map(|place| place / repeats % source.domain).collect();
            inputs.push(source.values(&codes)?);
        }
        // A combination that no row has may fail, or be of any length.
        let Ok(results) = key.evaluate(&inputs, inputs.first().map_or(0, |input| input.len())) else {
            return Ok(None);
        };
        let more = results.get_array_memory_size();
        bytes += more;
        if bytes > MAX_COMBINED_BYTES {
            return Ok(None);
        }
        some = if more < MAX_COMBINED_BYTES / 16 { some * 2 } else { some };
        codes.extend(interner.intern(&results)?);
    }
    let values = interner.values()?;
    Ok(Some(Coding::Combined { sources, codes, values }))
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
pub(super) fn bounded(key: &Expression) -> Option<Coding> {
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
pub(super) fn folded(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<u64> {
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

//! Codes of expressions over decimal floats, once for each whole number that a block stores and not for each row:
//! distances to a hundredth are few hundred numbers, whatever is computed of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::NullBuffer;

use super::coding::words_of;
use crate::block::{Bound, Stream, Validity};
use crate::encoding::Word;
use crate::encoding::floats::{Alp, Floats};
use crate::error::Result;
use crate::expr::Expression;
use crate::model::{DataType, Scalar};
use crate::query::scan::{Memo, OpenBlock, Slice};
use crate::query::words::blank;

/// The code of an expression for each whole number of a block, from the least one on.
#[derive(Debug)]
pub(crate) struct DecimalMap {
    least: u64,
    codes: Vec<u32>,
}

/// Appends the codes (words less `bias`) of all rows of a slice to `out`; false, with nothing appended, where the block
/// does not store few decimals.
pub(super) fn write<T: Word>(
    key: &Expression,
    at: usize,
    bias: i64,
    slice: &Slice<'_, '_>,
    out: &mut Vec<T>,
) -> Result<bool> {
    let Some(block) = slice.block.column(at)? else { return Ok(false) };
    let Stream::F64(Floats::Alp(alp)) = block.reader().stream() else { return Ok(false) };
    let made = || Memo::Decimals(map(key, at, bias, alp, slice.block).map(Arc::new));
    let Memo::Decimals(Some(map)) = slice.block.memo(key, Memo::is_decimals, made) else { return Ok(false) };
    let mut places: Vec<u16> = Vec::with_capacity(slice.range.len());
    alp.ints.decode_narrow(slice.range.clone(), map.least, true, &mut places)?;
    // What null rows hold may lie anywhere.
    let code = |place: &u16| map.codes.get(usize::from(*place)).copied().unwrap_or(0);
    out.extend(places.iter().map(|place| T::from_u64(u64::from(code(place)))));
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    alp.exceptions.apply(&slice.range, |row, word| {
        rows.push(row);
        values.push(f64::from_bits(word));
    })?;
    if !rows.is_empty() {
        let results = evaluate(key, values)?;
        for (row, word) in rows.into_iter().zip(results) {
            if let Some(code) = out.get_mut(row) {
                *code = T::from_u64(word.wrapping_sub(bias) as u64);
            }
        }
    }
    if let Validity::Stream(bools) = block.reader().validity() {
        blank(out, Some(&NullBuffer::new(bools.decode(slice.range.clone())?)));
    }
    Ok(true)
}

fn evaluate(key: &Expression, values: Vec<f64>) -> Result<Vec<i64>> {
    let rows = values.len();
    let results = key.evaluate(&[Arc::new(Float64Array::from(values)) as ArrayRef], rows)?;
    Ok(words_of(&results).map(|words| words.to_vec()).unwrap_or_default())
}

/// `None` if the whole numbers of the block are too many, or the expression fails for one of them.
fn map(key: &Expression, at: usize, bias: i64, alp: &Alp<'_, f64>, block: &OpenBlock<'_>) -> Option<DecimalMap> {
    let stored = block.stored(at).filter(|stored| *stored.data_type() == DataType::Float64)?;
    let stats = stored.block_stats(block.work.block)?;
    let scale = 10f64.powi(i32::from(alp.exponent));
    let int = |bound: &Option<Bound>| match bound.as_ref()?.value {
        Scalar::Float(v) if v.abs() * scale < 1e15 => Some((v * scale).round() as i64),
        _ => None,
    };
    let (least, greatest) = (int(&stats.min)?, int(&stats.max)?);
    let most = (block.rows / 2).min(usize::from(u16::MAX)) as i64;
    if greatest - least >= most {
        return None;
    }
    let values: Vec<f64> = (least..=greatest).map(|int| alp.value(int as u64)).collect();
    let words = evaluate(key, values).ok()?;
    let codes = words.iter().map(|word| u32::try_from(word.wrapping_sub(bias)).ok());
    Some(DecimalMap { least: least as u64, codes: codes.collect::<Option<_>>()? })
}

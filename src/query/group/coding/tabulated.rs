//! Keys that are expressions over columns of few values: evaluated once for each value, or for each
//! combination of values, before rows are read.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::column::CodedKeyColumn;
use crate::error::Result;
use crate::expr::Expression;
use crate::model::Column;
use crate::query::group::interner::Interner;
use crate::query::open::Survivors;

/// An expression is evaluated in advance for at most this many values of its columns.
pub(super) const MAX_TABULATED: u64 = 1 << 16;
/// Results that are computed at first.
const FEW: u64 = 16;
/// More bytes of results are left to hash tables.
const MAX_BYTES: usize = 16 << 20;

/// The columns of an expression over several columns, if they have few combinations of values.
pub(super) fn few_combinations(
    key: &Expression,
    columns: &[Column],
    survivors: &Survivors,
) -> Result<Option<Vec<CodedKeyColumn>>> {
    let (mut sources, mut count) = (Vec::new(), 1u64);
    for at in &key.inputs {
        let Some(column) = columns.get(*at) else { return Ok(None) };
        let Some(source) = CodedKeyColumn::new(*at, column, survivors)? else { return Ok(None) };
        count = count.saturating_mul(source.domain);
        if source.loses_sign || count > MAX_TABULATED.min(survivors.rows() / 4) {
            return Ok(None);
        }
        sources.push(source);
    }
    Ok(Some(sources))
}

/// The code of an expression for each combination of its columns' codes, the last column's next to
/// each other, and the value of each code.
pub(super) fn tabulated(
    key: &Expression,
    sources: &[CodedKeyColumn],
) -> Result<Option<(Vec<u32>, ArrayRef)>> {
    let count: u64 = sources.iter().map(|source| source.domain).product();
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

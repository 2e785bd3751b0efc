//! Ranks: words that sort as keys do, of rows, blocks and segments.

use std::sync::Arc;

use super::super::OrderBy;
pub(super) use super::super::words::ANY;
pub(crate) use super::super::words::best_of_block;
use super::super::words::{best_rank, null_rank};
use crate::model::Scalar;
use crate::segment;
use crate::store::ColumnStats;

/// Words that sort as the first two keys do, as far as they are known: rows whose ranks are above
/// those of another come after it.
pub(super) type Ranks = (i64, i64);

/// The ranks of a row. The second is used only if the first is not an extreme, which may also mean
/// null or unknown.
pub(super) fn pair(first: i64, second: i64) -> Ranks {
    if first == i64::MIN || first == i64::MAX { (first, ANY) } else { (first, second) }
}

/// Whether the ranks of `keys` keys, all of which have some, tell rows apart that have different
/// keys.
pub(super) fn say_all((first, second): Ranks, keys: usize) -> bool {
    let is_extreme = |rank| rank == i64::MIN || rank == i64::MAX;
    !is_extreme(first) && (keys == 1 || (keys == 2 && !is_extreme(second)))
}

/// No row of the segment has a lower rank.
pub(crate) fn best_of_segment(by: &OrderBy, stats: &[Option<ColumnStats>], number: usize) -> i64 {
    match stats.get(number) {
        Some(Some(column)) => best_rank(by, &column.stats, &column.data_type),
        Some(None) => null_rank(by.nulls_first),
        None => ANY,
    }
}

/// No row of the block has lower ranks.
pub(super) fn best_ranks(
    order: &[OrderBy],
    columns: &[Option<Arc<segment::Column>>],
    block: usize,
) -> Ranks {
    let best = |at: usize| order.get(at).map_or(ANY, |by| best_of_block(by, columns, block));
    pair(best(0), best(1))
}

/// Where the first key has no ranks: about how early its best value stands in the order.
pub(super) fn first_guess(
    order: &[OrderBy],
    columns: &[Option<Arc<segment::Column>>],
    block: usize,
) -> i64 {
    let Some((by, at)) = order.first().and_then(|by| Some((by, by.expression.as_column()?))) else {
        return 0;
    };
    let stats =
        columns.get(at).and_then(Option::as_deref).and_then(|column| column.block_stats(block));
    let bound =
        stats.and_then(|stats| if by.descending { stats.max.as_ref() } else { stats.min.as_ref() });
    let rising = match bound.map(|bound| &bound.value) {
        Some(Scalar::Bytes(bytes)) => {
            let mut first = [0; 8];
            first.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            i64::from_be_bytes(first) ^ i64::MIN
        }
        Some(Scalar::Int(int)) => (*int).clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        _ => return 0,
    };
    if by.descending { !rising } else { rising }
}

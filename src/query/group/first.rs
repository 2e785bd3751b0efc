//! The first groups of an order, chosen from states: the operators above sort what comes out, and
//! need not see the others.

use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SortOptions;

use super::keys::wrong_form_error;
use crate::error::{ArrowResult, Result};
use crate::query::aggregate::Accumulators;
use crate::query::fragment::{ByColumn, FirstGroups};
use crate::query::slice::take;
use crate::query::words::{one_zero, ranks};

/// Those of `groups` that are the first, at most `first.limit`; `keys` makes the columns of their
/// keys, of which there are `key_count`.
pub(super) fn choose(
    first: &FirstGroups,
    groups: &[u64],
    key_count: usize,
    keys: impl FnOnce() -> Result<Vec<ArrayRef>>,
    states: &Accumulators<'_>,
) -> Result<Vec<u64>> {
    let of_keys = match first.order.iter().any(|by| by.column < key_count) {
        true => keys()?,
        false => Vec::new(),
    };
    let column = |by: &ByColumn| match by.column.checked_sub(key_count) {
        Some(aggregate) => states.finish_one(aggregate, groups),
        None => of_keys.get(by.column).cloned().ok_or_else(wrong_form_error),
    };
    let columns: Vec<ArrayRef> = first.order.iter().map(column).collect::<Result<_>>()?;
    let places = first_groups(first, groups.len(), &columns)?;
    Ok(places.into_iter().filter_map(|place| groups.get(place as usize).copied()).collect())
}

/// The places, rising, of the first among `groups` groups that have these values in the columns of
/// the order; at most `first.limit`.
fn first_groups(first: &FirstGroups, groups: usize, columns: &[ArrayRef]) -> Result<Vec<u32>> {
    let (limit, all) = (first.limit, 0..groups as u32);
    let some = limit > 0 && limit < groups;
    let (Some(by), Some(column), true) = (first.order.first(), columns.first(), some) else {
        return Ok(all.take(limit).collect());
    };
    let Some(ranks) = ranks(column, by.descending, by.nulls_first) else {
        return by_rows(first, columns, all.collect());
    };
    let last = *ranks.clone().select_nth_unstable(limit - 1).1;
    let before = ranks.iter().filter(|rank| **rank < last).count();
    let mut ties = ranks.iter().filter(|rank| **rank == last).count();
    // Groups of the same rank are equal, unless another column tells them apart, or one is null.
    if before + ties > limit && columns.len() == 1 && column.null_count() == 0 {
        ties = limit - before;
    }
    let mut chosen = Vec::with_capacity(before + ties);
    for (group, rank) in all.zip(&ranks) {
        if *rank < last {
            chosen.push(group);
        } else if *rank == last && ties > 0 {
            ties -= 1;
            chosen.push(group);
        }
    }
    if chosen.len() > limit { by_rows(first, columns, chosen) } else { Ok(chosen) }
}

/// The first of some groups by all columns.
fn by_rows(first: &FirstGroups, columns: &[ArrayRef], groups: Vec<u32>) -> Result<Vec<u32>> {
    let field = |(by, column): (&ByColumn, &ArrayRef)| {
        let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
        SortField::new_with_options(column.data_type().clone(), options)
    };
    let fields = first.order.iter().zip(columns).map(field).collect();
    let of_groups: Vec<ArrayRef> = columns
        .iter()
        .map(|column| Ok(one_zero(&take(column, &groups)?)))
        .collect::<Result<_>>()?;
    let converter = RowConverter::new(fields).or_unsupported()?;
    let rows = converter.convert_columns(&of_groups).or_unsupported()?;
    let mut places: Vec<usize> = (0..groups.len()).collect();
    let order = |a: &usize, b: &usize| rows.row(*a).cmp(&rows.row(*b)).then(a.cmp(b));
    places.select_nth_unstable_by(first.limit - 1, order);
    places.truncate(first.limit);
    places.sort_unstable();
    Ok(places.into_iter().filter_map(|place| groups.get(place).copied()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    /// The same by sorting all groups.
    fn sorted(first: &FirstGroups, columns: &[ArrayRef]) -> Vec<Vec<String>> {
        let all = (0..columns[0].len() as u32).collect();
        let every = FirstGroups { limit: columns[0].len().max(1), ..first.clone() };
        let mut groups: Vec<u32> = Vec::new();
        let mut left: Vec<u32> = by_rows_or_none(&every, columns, all);
        while groups.len() < first.limit && !left.is_empty() {
            let one = FirstGroups { limit: 1, ..first.clone() };
            let next = by_rows_or_none(&one, columns, left.clone());
            left.retain(|group| *group != next[0]);
            groups.extend(next);
        }
        texts(columns, &groups)
    }

    fn by_rows_or_none(first: &FirstGroups, columns: &[ArrayRef], groups: Vec<u32>) -> Vec<u32> {
        if groups.is_empty() { groups } else { by_rows(first, columns, groups).unwrap() }
    }

    /// The values of some groups, in any order.
    fn texts(columns: &[ArrayRef], groups: &[u32]) -> Vec<Vec<String>> {
        let text =
            |array: &ArrayRef, at: u32| format!("{:?}", one_zero(array).slice(at as usize, 1));
        let mut rows: Vec<Vec<String>> =
            groups.iter().map(|at| columns.iter().map(|c| text(c, *at)).collect()).collect();
        rows.sort();
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_first_groups_are_those_that_sort_first(
            rows in proptest::collection::vec((0..4i64, 0..5u8, 0..6usize), 0..40),
            limit in 0usize..12,
            ways in proptest::collection::vec((0..3usize, any::<bool>(), any::<bool>()), 1..4),
        ) {
            let some = [None, Some(0), Some(i64::MAX), Some(i64::MIN)];
            let ints: Int64Array = rows.iter().map(|(v, ..)| some[*v as usize]).collect();
            let some = [None, Some(-0.0), Some(0.0), Some(f64::NAN), Some(-1.5)];
            let floats: Float64Array = rows.iter().map(|(_, v, _)| some[*v as usize]).collect();
            let long = "a long text of a view";
            let some = [None, Some(""), Some("a"), Some("b"), Some("ab"), Some(long)];
            let words: StringViewArray = rows.iter().map(|(.., v)| some[*v]).collect();
            let known: [ArrayRef; 3] = [Arc::new(ints), Arc::new(floats), Arc::new(words)];
            let by = |(column, descending, nulls_first): &(usize, bool, bool)| ByColumn {
                column: *column,
                descending: *descending,
                nulls_first: *nulls_first,
            };
            let order: Vec<ByColumn> = ways.iter().map(by).collect();
            let columns: Vec<ArrayRef> =
                order.iter().map(|by| Arc::clone(&known[by.column])).collect();
            let first = FirstGroups { order, limit };
            let chosen = first_groups(&first, rows.len(), &columns).unwrap();
            prop_assert!(chosen.is_sorted());
            prop_assert_eq!(texts(&columns, &chosen), sorted(&first, &columns));
        }
    }
}

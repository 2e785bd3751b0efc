//! How many distinct values a column of a table has, about, by what the manifest knows of its
//! segments.

use super::ColumnStats;
use crate::block::{Bound, Stats};
use crate::model::Scalar;

/// The distinct values of all segments together, without null. `None` if they are unknown for some
/// segment.
///
/// Segments that lie beside each other, as those of a sorted column do, have values of their own;
/// the others draw theirs from the same values. How many those are follows from how many values
/// a segment of so many rows has of them.
pub(super) fn distinct_values(segments: &[Option<ColumnStats>]) -> Option<u64> {
    let stats = || segments.iter().flatten().map(|known| &known.stats);
    let (mut most, mut sum, mut rows, mut count) = (0, 0u64, 0u64, 0.0);
    for known in stats().filter(|known| known.nulls < known.rows) {
        let distinct = in_range(known, known.distinct?);
        most = most.max(distinct);
        sum = sum.saturating_add(distinct);
        rows = rows.saturating_add(known.rows - known.nulls);
        count += 1.0;
    }
    if count <= 1.0 || most == sum {
        return Some(sum);
    }
    let bands = bands(stats(), count);
    let (in_segment, of_segment) = (sum as f64 / count, rows as f64 / count);
    let in_band = drawn(drawn_from(in_segment, of_segment), rows as f64 / bands);
    // Statistics that lie may know of more values than rows.
    Some(((bands * in_band) as u64).max(most).min(sum.min(rows)))
}

/// No more values than there are whole numbers between the least and the greatest: a segment
/// without a dictionary knows no more than the sum of what its blocks may have.
fn in_range(known: &Stats, distinct: u64) -> u64 {
    match (known.min.as_ref().map(|b| &b.value), known.max.as_ref().map(|b| &b.value)) {
        (Some(Scalar::Int(min)), Some(Scalar::Int(max))) => {
            let numbers = max.saturating_sub(*min).saturating_add(1);
            distinct.min(u64::try_from(numbers).unwrap_or(u64::MAX))
        }
        _ => distinct,
    }
}

/// Into how many ranges beside each other the segments divide the values: one if all have the same
/// minimum and maximum, as many as there are if no two overlap.
fn bands<'a>(segments: impl Iterator<Item = &'a Stats>, count: f64) -> f64 {
    let (mut low, mut high, mut sum) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    for known in segments.filter(|known| known.nulls < known.rows) {
        let (Some(min), Some(max)) = (number(&known.min), number(&known.max)) else { return 1.0 };
        (low, high) = (low.min(min), high.max(max));
        sum += max - min + 1.0;
    }
    let bands = count * (high - low + 1.0) / sum;
    if bands.is_finite() { bands.clamp(1.0, count) } else { 1.0 }
}

fn number(bound: &Option<Bound>) -> Option<f64> {
    match &bound.as_ref()?.value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Float(value) => Some(*value),
        Scalar::Bytes(_) => None,
    }
}

/// How many different ones there are among `rows` draws from so many values.
fn drawn(values: f64, rows: f64) -> f64 {
    match values.is_finite() {
        true => values * -(-rows / values).exp_m1(),
        false => rows,
    }
}

/// From how many values `rows` draws were made that have so many different ones.
fn drawn_from(distinct: f64, rows: f64) -> f64 {
    if distinct >= 0.99 * rows {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (distinct, distinct * 128.0);
    for _ in 0..32 {
        let middle = (low + high) / 2.0;
        match drawn(middle, rows) < distinct {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DataType;

    fn segment(rows: u64, distinct: u64, low: i128, high: i128) -> Option<ColumnStats> {
        let bound = |value| Some(Bound { value: Scalar::Int(value), exact: true });
        let (min, max) = (bound(low), bound(high));
        let stats = Stats { rows, distinct: Some(distinct), min, max, ..Stats::default() };
        Some(ColumnStats { data_type: DataType::Int64, stats })
    }

    #[test]
    fn segments_beside_each_other_have_values_of_their_own() {
        let beside = [segment(1000, 400, 0, 999), segment(1000, 400, 1000, 1999)];
        assert_eq!(distinct_values(&beside), Some(800));
    }

    #[test]
    fn segments_over_each_other_have_the_same_values() {
        // All of 100 values are in both; of 1000, two thirds are in each and more in both.
        let few = [segment(1000, 100, 0, 999), segment(1000, 100, 0, 999)];
        assert_eq!(distinct_values(&few), Some(100));
        let many = [segment(1000, 632, 0, 999), segment(1000, 632, 0, 999)];
        let both = distinct_values(&many).unwrap();
        assert!((840..880).contains(&both), "{both}");
    }

    #[test]
    fn keys_that_never_repeat_do_not_repeat_in_other_segments() {
        let keys = [segment(1000, 1000, 0, 1 << 40), segment(1000, 1000, 0, 1 << 40)];
        assert_eq!(distinct_values(&keys), Some(2000));
    }

    #[test]
    fn there_are_no_more_values_than_whole_numbers_between_the_bounds() {
        assert_eq!(distinct_values(&[segment(1000, 160, 1, 10)]), Some(10));
        let both = [segment(1000, 160, 1, 10), segment(1000, 160, 1, 10)];
        assert_eq!(distinct_values(&both), Some(10));
    }

    #[test]
    fn statistics_that_lie_give_no_more_values_than_rows() {
        let most = 1 << 40;
        let lies = [segment(10, most, 0, most.into()), segment(10, most - 1, 0, most.into())];
        assert_eq!(distinct_values(&lies), Some(20));
    }

    #[test]
    fn what_a_segment_does_not_know_nobody_knows() {
        let mut unknown = segment(1000, 0, 0, 1);
        unknown.as_mut().unwrap().stats.distinct = None;
        assert_eq!(distinct_values(&[segment(10, 10, 0, 10), unknown]), None);
    }
}

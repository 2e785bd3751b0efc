//! Statistics of a block, a segment or a manifest entry: the zone map.
//!
//! They are measured while a column is encoded, and stored with its blocks and, reduced to fixed
//! width, in the manifest. `query::prune` skips blocks that cannot match; counts, sums and exact
//! bounds answer whole queries.

use std::cmp::Ordering;

use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Physical, Scalar};

/// A minimum or maximum. An inexact one is still a bound: no value is below the minimum or above
/// the maximum.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound.
    pub value: Scalar,
    /// Whether some row holds exactly this value.
    pub exact: bool,
}

/// Whether stored values are sorted. Columns with nulls count as unsorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Every value is at least the one before.
    pub ascending: bool,
    /// Every value is at most the one before.
    pub descending: bool,
    /// No two neighbours are equal.
    pub strict: bool,
}

/// Statistics of the values in some rows of one column. Nulls count only in `rows` and `nulls`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Rows, nulls included.
    pub rows: u64,
    /// Null rows.
    pub nulls: u64,
    /// NaN rows; NaN takes part in min and max by total order.
    pub nans: u64,
    /// Least value, by total order; `None` without values.
    pub min: Option<Bound>,
    /// Greatest value, by total order; `None` without values.
    pub max: Option<Bound>,
    /// Exact sum of integers and decimals; `None` for other types and if it overflows.
    pub sum: Option<i128>,
    /// An upper bound on the number of distinct values, if known.
    pub distinct: Option<u64>,
    /// Order of the stored rows.
    pub order: Order,
}

const HAS_MIN: u8 = 1;
const HAS_MAX: u8 = 2;
const MIN_EXACT: u8 = 4;
const MAX_EXACT: u8 = 8;
const HAS_SUM: u8 = 16;
const HAS_DISTINCT: u8 = 32;

impl Stats {
    /// The least and the greatest double, if it has doubles.
    pub(crate) fn doubles(&self) -> Option<(f64, f64)> {
        match (&self.min.as_ref()?.value, &self.max.as_ref()?.value) {
            (Scalar::Float(min), Scalar::Float(max)) => Some((*min, *max)),
            _ => None,
        }
    }

    /// The least and the greatest integer, if both fit 64 bits.
    pub(crate) fn integers(&self) -> Option<(i64, i64)> {
        match (&self.min.as_ref()?.value, &self.max.as_ref()?.value) {
            (Scalar::Int(min), Scalar::Int(max)) => {
                i64::try_from(*min).ok().zip(i64::try_from(*max).ok())
            }
            _ => None,
        }
    }

    /// Statistics of these rows followed by those of `next`. They count as sorted only where bounds
    /// prove it across the boundary.
    #[must_use]
    pub fn followed_by(self, next: &Stats) -> Stats {
        if self.rows == 0 {
            return next.clone();
        }
        if next.rows == 0 {
            return self;
        }
        let order = joined_order(&self, next);
        let bound = |a: &Option<Bound>, b: &Option<Bound>, keep: Ordering| match (a, b) {
            (Some(a), Some(b)) => match a.value.total_cmp(&b.value) {
                Some(Ordering::Equal) => {
                    Some(Bound { value: a.value.clone(), exact: a.exact || b.exact })
                }
                Some(ordering) if ordering == keep => Some(a.clone()),
                Some(_) => Some(b.clone()),
                None => None,
            },
            (Some(a), None) if next.nulls == next.rows => Some(a.clone()),
            (None, Some(b)) if self.nulls == self.rows => Some(b.clone()),
            _ => None,
        };
        let empty_or = |stats: &Stats| stats.sum.or((stats.nulls == stats.rows).then_some(0));
        let sum = match (self.sum, next.sum) {
            (None, None) => None,
            _ => empty_or(&self).zip(empty_or(next)).and_then(|(a, b)| a.checked_add(b)),
        };
        Stats {
            // Stored counts may be anything.
            rows: self.rows.saturating_add(next.rows),
            nulls: self.nulls.saturating_add(next.nulls),
            nans: self.nans.saturating_add(next.nans),
            min: bound(&self.min, &next.min, Ordering::Less),
            max: bound(&self.max, &next.max, Ordering::Greater),
            sum,
            distinct: self.distinct.zip(next.distinct).and_then(|(a, b)| a.checked_add(b)),
            order,
        }
    }

    /// Appends the stored form; see "Statistics" in the format-spec.
    pub fn write(&self, physical: Physical, out: &mut Writer) {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let exact = |bound: &Option<Bound>| bound.as_ref().is_some_and(|b| b.exact);
        out.u8(flag(self.min.is_some(), HAS_MIN)
            | flag(self.max.is_some(), HAS_MAX)
            | flag(exact(&self.min), MIN_EXACT)
            | flag(exact(&self.max), MAX_EXACT)
            | flag(self.sum.is_some(), HAS_SUM)
            | flag(self.distinct.is_some(), HAS_DISTINCT));
        out.u8(flag(self.order.ascending, 1)
            | flag(self.order.descending, 2)
            | flag(self.order.strict, 4));
        out.u64(self.rows);
        out.u64(self.nulls);
        out.u64(self.nans);
        for bound in [&self.min, &self.max].into_iter().flatten() {
            write_scalar(&bound.value, physical, out);
        }
        if let Some(sum) = self.sum {
            out.i128(sum);
        }
        if let Some(distinct) = self.distinct {
            out.u64(distinct);
        }
    }

    /// Reads what [`Stats::write`] wrote.
    pub fn read(physical: Physical, cursor: &mut Cursor<'_>) -> Result<Stats> {
        let (flags, order) = (cursor.u8()?, cursor.u8()?);
        let (rows, nulls, nans) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let mut bound = |has: u8, exact: u8| -> Result<Option<Bound>> {
            if flags & has == 0 {
                return Ok(None);
            }
            Ok(Some(Bound { value: read_scalar(physical, cursor)?, exact: flags & exact != 0 }))
        };
        let (min, max) = (bound(HAS_MIN, MIN_EXACT)?, bound(HAS_MAX, MAX_EXACT)?);
        let sum = if flags & HAS_SUM != 0 { Some(cursor.i128()?) } else { None };
        let distinct = if flags & HAS_DISTINCT != 0 { Some(cursor.u64()?) } else { None };
        if nulls.checked_add(nans).is_none_or(|n| n > rows) {
            return Err(cursor.corrupt(format!("{nulls} nulls and {nans} NaN in {rows} rows")));
        }
        let order =
            Order { ascending: order & 1 != 0, descending: order & 2 != 0, strict: order & 4 != 0 };
        Ok(Stats { rows, nulls, nans, min, max, sum, distinct, order })
    }
}

/// The order of the rows of `a` followed by those of `b`.
fn joined_order(a: &Stats, b: &Stats) -> Order {
    if a.nulls > 0 || b.nulls > 0 {
        return Order::default();
    }
    let compare = |a: &Option<Bound>, b: &Option<Bound>| {
        a.as_ref()
            .zip(b.as_ref())
            .filter(|(a, b)| a.exact && b.exact)
            .and_then(|(a, b)| a.value.total_cmp(&b.value))
    };
    let (up, down) = (compare(&a.max, &b.min), compare(&a.min, &b.max));
    let ascending = a.order.ascending
        && b.order.ascending
        && matches!(up, Some(Ordering::Less | Ordering::Equal));
    let descending = a.order.descending
        && b.order.descending
        && matches!(down, Some(Ordering::Greater | Ordering::Equal));
    let differ = (ascending && up == Some(Ordering::Less))
        || (descending && down == Some(Ordering::Greater));
    Order { ascending, descending, strict: a.order.strict && b.order.strict && differ }
}

/// Integers take 8 bytes (decimals 16), floats 8 bytes of binary64, bytes a length and themselves.
fn write_scalar(value: &Scalar, physical: Physical, out: &mut Writer) {
    match value {
        Scalar::Int(v) if physical == Physical::Wide => out.i128(*v),
        Scalar::Int(v) => out.u64(*v as u64),
        Scalar::Float(v) => out.u64(v.to_bits()),
        Scalar::Bytes(v) => out.blob(v),
    }
}

fn read_scalar(physical: Physical, cursor: &mut Cursor<'_>) -> Result<Scalar> {
    Ok(match physical {
        Physical::Wide => Scalar::Int(cursor.i128()?),
        Physical::Bool | Physical::Word { signed: false, .. } => {
            Scalar::Int(i128::from(cursor.u64()?))
        }
        Physical::Word { signed: true, .. } => Scalar::Int(i128::from(cursor.u64()? as i64)),
        Physical::Float32 | Physical::Float64 => Scalar::Float(f64::from_bits(cursor.u64()?)),
        Physical::Bytes => Scalar::Bytes(cursor.blob(limits::BOUND_BYTES)?.into()),
        Physical::Null => {
            return Err(Error::corrupt(cursor.position() as u64, "a null column has bounds"));
        }
    })
}

/// A lower bound of at most [`limits::BOUND_BYTES`] bytes for a text or binary value, and whether
/// it is exact.
pub(crate) fn lower_bound(value: &[u8]) -> Bound {
    let cut = value.len().min(limits::BOUND_BYTES);
    Bound { value: Scalar::Bytes(value[..cut].into()), exact: cut == value.len() }
}

/// An upper bound of at most [`limits::BOUND_BYTES`] bytes: a longer value is truncated and rounded
/// up. `None` if there is no such bound (all bytes are 0xFF).
pub(crate) fn upper_bound(value: &[u8]) -> Option<Bound> {
    if value.len() <= limits::BOUND_BYTES {
        return Some(Bound { value: Scalar::Bytes(value.into()), exact: true });
    }
    let mut cut = value[..limits::BOUND_BYTES].to_vec();
    while let Some(last) = cut.pop() {
        if last < 0xFF {
            cut.push(last + 1);
            return Some(Bound { value: Scalar::Bytes(cut.into()), exact: false });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(rows: u64, min: i128, max: i128) -> Stats {
        let bound = |v| Some(Bound { value: Scalar::Int(v), exact: true });
        let order = Order { ascending: true, descending: false, strict: true };
        Stats { rows, min: bound(min), max: bound(max), sum: Some(max), order, ..Stats::default() }
    }

    #[test]
    fn joined_rows_are_sorted_only_where_bounds_prove_it() {
        let joined = ints(3, 0, 5).followed_by(&ints(2, 6, 9));
        assert_eq!((joined.rows, joined.sum), (5, Some(14)));
        assert!(joined.order.ascending && joined.order.strict);
        let touching = ints(3, 0, 5).followed_by(&ints(2, 5, 9));
        assert!(touching.order.ascending && !touching.order.strict);
        assert!(!ints(3, 0, 5).followed_by(&ints(2, 4, 9)).order.ascending);
    }

    #[test]
    fn stored_form_round_trips() {
        let physical = Physical::Bytes;
        let stats = Stats {
            rows: 9,
            nulls: 2,
            min: Some(lower_bound(&[b'a'; 100])),
            max: upper_bound(&[b'z'; 100]),
            distinct: Some(4),
            ..Stats::default()
        };
        let mut out = Writer::new();
        stats.write(physical, &mut out);
        let bytes = out.into_vec();
        assert_eq!(Stats::read(physical, &mut Cursor::new(&bytes)).unwrap(), stats);
        for cut in 0..bytes.len() {
            assert!(Stats::read(physical, &mut Cursor::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn long_maxima_are_rounded_up() {
        let bound = upper_bound(&[[0xFF; 63].as_slice(), &[7, 7]].concat()).unwrap();
        assert!(!bound.exact);
        assert_eq!(bound.value, Scalar::Bytes([[0xFF; 63].as_slice(), &[8]].concat().into()));
        assert_eq!(upper_bound(&[0xFF; 65]), None);
    }
}

//! The threshold: what a row must not exceed to be worth a look, as far as the rows found so far
//! tell.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

use super::super::OrderBy;
use super::ranks::Ranks;
use crate::model::Scalar;

/// The last row that would still be in the answer, judged by the rows found so far.
#[derive(Clone, Debug)]
pub(super) struct Threshold {
    /// Rows of higher ranks are not.
    pub(super) ranks: Ranks,
    /// For a first key without ranks (text, decimals): its value, or null. First ranks are then
    /// relative to it, its own being 0.
    pub(super) key: Option<Option<Scalar>>,
}

impl Threshold {
    /// Any row may be in the answer.
    pub(super) const NONE: Threshold = Threshold { ranks: (i64::MAX, i64::MAX), key: None };

    pub(super) fn is_none(&self) -> bool {
        self.ranks.0 == i64::MAX
    }

    /// Takes what others have found, if it is lower.
    pub(super) fn lower(&mut self, other: Threshold, by: &OrderBy) {
        let first = match (&other.key, &self.key) {
            (Some(new), Some(old)) => beside(new, old, by),
            _ => Ordering::Equal,
        };
        if self.is_none() || first.then(other.ranks.cmp(&self.ranks)).is_lt() {
            *self = other;
        }
    }
}

/// How two keys stand in an order.
fn beside(key: &Option<Scalar>, other: &Option<Scalar>, by: &OrderBy) -> Ordering {
    match (key, other) {
        (Some(key), Some(other)) => {
            let rising = key.total_cmp(other).unwrap_or(Ordering::Equal);
            if by.descending { rising.reverse() } else { rising }
        }
        // Null is greater than what has a value, or less.
        (key, other) if by.nulls_first => key.is_some().cmp(&other.is_some()),
        (key, other) => key.is_none().cmp(&other.is_none()),
    }
}

/// How the keys of rows that have no ranks of their own stand beside another key; `None` for types
/// that are no keys of thresholds.
pub(super) fn ranks_beside(
    keys: &ArrayRef,
    key: &Option<Scalar>,
    by: &OrderBy,
) -> Option<Vec<i64>> {
    let Some(key) = key else {
        let value = if by.nulls_first { 1 } else { -1 };
        return Some((0..keys.len()).map(|at| if keys.is_null(at) { 0 } else { value }).collect());
    };
    let turn = |rising: Ordering| if by.descending { -(rising as i64) } else { rising as i64 };
    let null = if by.nulls_first { -1 } else { 1 };
    Some(match (keys.data_type(), key) {
        (ArrowType::Utf8View, Scalar::Bytes(key)) => {
            let keys = keys.as_string_view().iter();
            keys.map(|text| text.map_or(null, |text| turn(text.as_bytes().cmp(key)))).collect()
        }
        (ArrowType::BinaryView, Scalar::Bytes(key)) => keys
            .as_binary_view()
            .iter()
            .map(|bytes| bytes.map_or(null, |bytes| turn(bytes.cmp(key))))
            .collect(),
        (ArrowType::Decimal128(..), Scalar::Int(key)) => {
            let keys = keys.as_primitive::<Decimal128Type>().iter();
            keys.map(|int| int.map_or(null, |int| turn(int.cmp(key)))).collect()
        }
        _ => return None,
    })
}

//! From what aggregates keep to their answers.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_row::RowConverter;
use arrow_schema::DataType as ArrowType;

use super::extremes::Extremes;
use super::state::{Kind, State, failed};
use crate::error::{Error, Result};
use crate::query::words::{from_words, unordered};

impl State {
    /// The answers of some groups, once settled; `rows` are the rows of each.
    pub(crate) fn finish(&self, groups: &[u64], rows: &[u64]) -> Result<ArrayRef> {
        let of = |counts: &[u64], group: &u64| counts.get(*group as usize).copied().unwrap_or(0);
        let missing = |group: &u64| self.missing.as_ref().map_or(0, |missing| of(missing, group));
        let count = |group: &u64| of(rows, group).saturating_sub(missing(group));
        let empty = groups.iter().any(|group| count(group) == 0);
        let nulls =
            empty.then(|| groups.iter().map(|group| count(group) > 0).collect::<NullBuffer>());
        let array: ArrayRef = match &self.kind {
            Kind::Count => Arc::new(groups.iter().map(|g| count(g) as i64).collect::<Int64Array>()),
            Kind::Words(sums) => from_words(pick(sums, groups), nulls, &self.data_type)?,
            Kind::Distinct(counts) => {
                Arc::new(groups.iter().map(|g| of(counts, g) as i64).collect::<Int64Array>())
            }
            Kind::Moments { moments, sample, root } => {
                let variance = |group: &u64| moments.variance(*group as usize, *sample);
                let root = |v: f64| if *root { v.sqrt() } else { v };
                Arc::new(
                    groups.iter().map(|group| variance(group).map(root)).collect::<Float64Array>(),
                )
            }
            Kind::Wide(sums) => {
                let array = Decimal128Array::new(pick(sums, groups).into(), nulls);
                Arc::new(array.with_data_type(self.data_type.clone()))
            }
            Kind::Mean(sums) => {
                let sum = |group: &u64| sums.get(*group as usize).copied().unwrap_or_default();
                let values: ScalarBuffer<f64> =
                    groups.iter().map(|g| mean(sum(g), count(g))).collect();
                Arc::new(Float64Array::new(values, nulls))
            }
            Kind::Floats { sums, average } => {
                let value = |group: &u64| match (sums.sum(*group as usize), *average) {
                    // Which NaN comes out depends on the order in which they met.
                    (sum, _) if sum.is_nan() => f64::NAN,
                    (sum, true) => sum / count(group) as f64,
                    (sum, false) => sum,
                };
                let values: ScalarBuffer<f64> = groups.iter().map(value).collect();
                Arc::new(Float64Array::new(values, nulls))
            }
            Kind::Extreme { best, input: ArrowType::Float64, .. } => {
                let values: ScalarBuffer<f64> =
                    pick(best, groups).into_iter().map(unordered).collect();
                Arc::new(Float64Array::new(values, nulls))
            }
            Kind::Extreme { best, input, .. } => {
                let flip = if *input == ArrowType::UInt64 { i64::MIN } else { 0 };
                from_words(
                    pick(best, groups).into_iter().map(|w| w ^ flip).collect(),
                    nulls,
                    input,
                )?
            }
            Kind::ExtremeRow { best, converter, .. } => rows_of(best, converter, groups)?,
        };
        if *array.data_type() == self.data_type {
            return Ok(array);
        }
        arrow_cast::cast(&array, &self.data_type).map_err(failed)
    }
}

/// The mean of `count` integers whose sum is `sum`.
pub(crate) fn mean(sum: i128, count: u64) -> f64 {
    sum as f64 / count as f64
}

fn rows_of(best: &Extremes, converter: &RowConverter, groups: &[u64]) -> Result<ArrayRef> {
    let mut rows = Vec::with_capacity(groups.len());
    let parser = converter.parser();
    for group in groups {
        if let Some(row) = best.get(*group as usize) {
            rows.push(parser.parse(row));
        }
    }
    let found = converter.convert_rows(rows).map_err(failed)?;
    let values =
        found.first().ok_or_else(|| Error::InvalidInput("no column of extremes".into()))?;
    let mut next = 0u32;
    let places: arrow_array::UInt32Array = groups
        .iter()
        .map(|group| match best.get(*group as usize) {
            Some(_) => {
                next += 1;
                Some(next - 1)
            }
            None => None,
        })
        .collect();
    arrow_select::take::take(values, &places, None).map_err(failed)
}

fn pick<T: Copy + Default>(slots: &[T], groups: &[u64]) -> Vec<T> {
    groups.iter().map(|group| slots.get(*group as usize).copied().unwrap_or_default()).collect()
}

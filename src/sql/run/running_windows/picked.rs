//! Functions whose value is that of another row: `first_value`, `last_value`, `lag` and `lead`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;

use super::bounds::Bounds;

/// The first or the last value of the frame, which starts with the partition and ends with the
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) last: bool,
    pub(super) ignores_nulls: bool,
}

/// The values of rows before a batch.
#[derive(Default)]
pub(super) struct Before {
    /// The last ones of them, or the one that counts.
    values: Option<ArrayRef>,
    /// How many rows of the partition there are, up to the offset of a `lag`.
    rows: u64,
}

impl Before {
    pub(super) fn edge(
        &mut self,
        edge: Edge,
        values: &ArrayRef,
        bounds: &Bounds,
    ) -> DataFusionResult<ArrayRef> {
        // The value before the batch comes first.
        let (all, before) = self.joined(values)?;
        let mut found = (before > 0).then_some(0_u32);
        let mut places = Vec::with_capacity(values.len());
        for (partition, begins) in bounds.partitions() {
            if begins {
                found = None;
            }
            for row in partition {
                let counts = !edge.ignores_nulls || values.is_valid(row);
                if counts && (edge.last || found.is_none()) {
                    found = Some((before + row) as u32);
                }
                places.push(found);
            }
        }
        let kept = UInt32Array::from(found.into_iter().collect::<Vec<_>>());
        self.values = (!kept.is_empty()).then(|| take(&all, &kept, None)).transpose()?.map(own);
        Ok(take(&all, &UInt32Array::from(places), None)?)
    }

    /// The value this number of rows before each row.
    pub(super) fn lag(
        &mut self,
        offset: u64,
        default: &ScalarValue,
        values: &ArrayRef,
        bounds: &Bounds,
    ) -> DataFusionResult<ArrayRef> {
        let (all, before) = self.joined(values)?;
        let mut places = Vec::with_capacity(values.len());
        for (partition, begins) in bounds.partitions() {
            if begins {
                self.rows = 0;
            }
            for row in partition {
                let place = (before + row).checked_sub(offset as usize);
                places.push(place.filter(|_| self.rows >= offset).map(|place| place as u32));
                self.rows = offset.min(self.rows + 1);
            }
        }
        let kept = all.len().min(offset as usize);
        let kept = UInt32Array::from_iter_values((all.len() - kept) as u32..all.len() as u32);
        self.values = (!kept.is_empty()).then(|| take(&all, &kept, None)).transpose()?.map(own);
        pick(&all, places, default)
    }

    /// The values before a batch and those of it, and how many come before.
    fn joined(&self, values: &ArrayRef) -> DataFusionResult<(ArrayRef, usize)> {
        Ok(match &self.values {
            Some(before) => (concat(&[before, values])?, before.len()),
            None => (Arc::clone(values), 0),
        })
    }
}

/// The values at these places, and the default where there is no place.
pub(super) fn pick(
    values: &ArrayRef,
    mut places: Vec<Option<u32>>,
    default: &ScalarValue,
) -> DataFusionResult<ArrayRef> {
    if default.is_null() {
        return Ok(take(values, &UInt32Array::from(places), None)?);
    }
    let last = values.len() as u32;
    for place in &mut places {
        *place = place.or(Some(last));
    }
    let all = concat(&[values, &default.to_array()?])?;
    Ok(take(&all, &UInt32Array::from(places), None)?)
}

/// Views with the bytes that they show alone.
pub(super) fn own(values: ArrayRef) -> ArrayRef {
    fn compact<T: ByteViewType>(values: &ArrayRef) -> ArrayRef {
        Arc::new(values.as_byte_view::<T>().gc())
    }
    match values.data_type() {
        DataType::Utf8View => compact::<StringViewType>(&values),
        DataType::BinaryView => compact::<BinaryViewType>(&values),
        _ => values,
    }
}

//! The rows of a frame: where it starts, and the aggregate over it.
//!
//! A frame ends with its row. One that starts with its partition keeps its aggregate alone. One
//! that moves is a queue, kept as two stacks (as in `functions::sliding`): nothing is subtracted
//! from a sum, so that no rounding error of a row that has left stays behind.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::window::WindowExpr;

use super::bounds::Bounds;

/// An aggregate over some rows, which can be merged with that over the rows that follow them.
pub(super) trait Partial: Copy + Default + Send + 'static {
    fn merged(self, later: Self) -> Self;
}

/// The aggregate over the rows of a frame.
pub(super) struct Frame<P> {
    moves: bool,
    /// For each row of the front, the aggregate of it and those that follow it there. The row that
    /// leaves first is on top.
    front: Vec<P>,
    /// The rows that came later.
    back: Vec<P>,
    back_total: P,
}

impl<P: Partial> Frame<P> {
    pub(super) fn new(moves: bool) -> Frame<P> {
        Frame { moves, front: Vec::new(), back: Vec::new(), back_total: P::default() }
    }

    pub(super) fn clear(&mut self) {
        self.front.clear();
        self.back.clear();
        self.back_total = P::default();
    }

    pub(super) fn push(&mut self, row: P) {
        self.back_total = self.back_total.merged(row);
        if self.moves {
            self.back.push(row);
        }
    }

    /// Drops the first rows.
    pub(super) fn pop(&mut self, rows: u32) {
        for _ in 0..rows {
            if self.front.is_empty() {
                let mut following = P::default();
                for row in self.back.drain(..).rev() {
                    following = row.merged(following);
                    self.front.push(following);
                }
                self.back_total = P::default();
            }
            self.front.pop();
        }
    }

    pub(super) fn total(&self) -> P {
        match self.front.last() {
            Some(front) => front.merged(self.back_total),
            None => self.back_total,
        }
    }
}

/// Where frames start.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Start {
    /// With their partition.
    Partition,
    /// This number of rows before their row.
    Rows(u64),
    /// With the first row whose key is at most this far from that of their row.
    Distance { distance: i128, descending: bool, key: PhysicalSortExpr },
}

impl Start {
    /// Where the frames of a window start, and whether they end with the last peer of their row
    /// in place of the row; `None` if they end elsewhere, or distances are not those of numbers.
    pub(super) fn of(window: &Arc<dyn WindowExpr>, schema: &Schema) -> Option<(Start, bool)> {
        let frame = window.get_window_frame();
        if frame.end_bound != WindowFrameBound::CurrentRow {
            return None;
        }
        let by_row = frame.units == WindowFrameUnits::Rows;
        let WindowFrameBound::Preceding(before) = &frame.start_bound else { return None };
        let start = match (frame.units, before) {
            (_, before) if before.is_null() => Start::Partition,
            (WindowFrameUnits::Rows, ScalarValue::UInt64(Some(rows))) => Start::Rows(*rows),
            (WindowFrameUnits::Range, before) => {
                let [key] = window.order_by() else { return None };
                let data_type = key.expr.data_type(schema).ok()?;
                let distance = distance(before, &data_type).filter(|distance| *distance >= 0)?;
                Start::Distance { distance, descending: key.options.descending, key: key.clone() }
            }
            _ => return None,
        };
        Some((start, !by_row))
    }
}

/// A distance between keys of a type, as a number of their units.
fn distance(distance: &ScalarValue, keys: &DataType) -> Option<i128> {
    if keys.is_integer() || matches!(keys, DataType::Decimal128(..)) {
        // A distance of another type than the keys' would be rounded.
        let same = *keys == distance.data_type() && *keys != DataType::UInt64;
        return numbers(&distance.to_array().ok()?).ok()?.pop()?.filter(|_| same);
    }
    let ScalarValue::IntervalMonthDayNano(Some(interval)) = distance else { return None };
    let nanoseconds =
        i128::from(interval.days) * 86_400_000_000_000 + i128::from(interval.nanoseconds);
    let unit: i128 = match keys {
        DataType::Date32 => 86_400_000_000_000,
        // A day of a time zone may have 23 hours.
        DataType::Timestamp(_, Some(_)) if interval.days != 0 => return None,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        _ => return None,
    };
    (interval.months == 0 && nanoseconds % unit == 0).then_some(nanoseconds / unit)
}

/// How many rows leave the frame when a row comes.
pub(super) struct Leaving {
    pub(super) start: Start,
    /// How many rows the frame has.
    rows: u64,
    /// Their keys.
    keys: VecDeque<Option<i128>>,
}

impl Leaving {
    pub(super) fn new(start: Start) -> Leaving {
        Leaving { start, rows: 0, keys: VecDeque::new() }
    }

    /// The numbers of rows for a batch: none where frames start with their partition.
    pub(super) fn of(
        &mut self,
        batch: &RecordBatch,
        bounds: &Bounds,
    ) -> DataFusionResult<Vec<u32>> {
        let rows = batch.num_rows();
        let mut leaving = Vec::with_capacity(rows);
        match &self.start {
            Start::Partition => {}
            Start::Rows(before) => {
                for (partition, begins) in bounds.partitions() {
                    if begins {
                        self.rows = 0;
                    }
                    for _ in partition {
                        let leaves = self.rows > *before;
                        leaving.push(u32::from(leaves));
                        self.rows += u64::from(!leaves);
                    }
                }
            }
            Start::Distance { distance, descending, key } => {
                let keys = numbers(&key.expr.evaluate(batch)?.into_array(rows)?)?;
                let distance = *distance;
                let is_far = |first: Option<i128>, key: Option<i128>| match (first, key) {
                    (Some(first), Some(key)) if *descending => first > key.saturating_add(distance),
                    (Some(first), Some(key)) => first < key.saturating_sub(distance),
                    (first, key) => first.is_some() != key.is_some(),
                };
                for (partition, begins) in bounds.partitions() {
                    if begins {
                        self.keys.clear();
                    }
                    for key in keys.get(partition).unwrap_or_default() {
                        let before = self.keys.len();
                        while self.keys.front().is_some_and(|first| is_far(*first, *key)) {
                            self.keys.pop_front();
                        }
                        leaving.push((before - self.keys.len()) as u32);
                        self.keys.push_back(*key);
                    }
                }
            }
        }
        Ok(leaving)
    }
}

/// Keys as numbers of their units.
fn numbers(keys: &ArrayRef) -> DataFusionResult<Vec<Option<i128>>> {
    if let Some(keys) = keys.as_primitive_opt::<Decimal128Type>() {
        return Ok(keys.iter().collect());
    }
    let narrow = match keys.data_type() {
        DataType::Date32 => cast(keys, &DataType::Int32)?,
        _ => Arc::clone(keys),
    };
    let keys = cast(&narrow, &DataType::Int64)?;
    Ok(keys.as_primitive::<Int64Type>().iter().map(|key| key.map(i128::from)).collect())
}

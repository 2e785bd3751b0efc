//! Windows with one value for each partition.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use arrow_select::take::take;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;
use futures::StreamExt;

use super::rows::Out;
use crate::error::{Error, Result};
use crate::sql::run::coalesce::compact;
use crate::sql::run::cut::{Cut, Runs};
use crate::sql::run::generate::Output;
use crate::sql::run::held::Held;

/// Values that are copied to rows take at most this many bytes in a batch, if a single one does
/// not.
const COPIED_BYTES: usize = 1 << 20;

/// Partitions whose rows all have the same values.
pub(super) struct Aggregated {
    pub(super) windows: Vec<Arc<dyn WindowExpr>>,
    /// One for each window. The first group is the partition that is not complete.
    pub(super) functions: Vec<Box<dyn GroupsAccumulator>>,
    /// The memory of the functions.
    pub(super) state: MemoryReservation,
    pub(super) cut: Cut,
    pub(super) held: Held,
    pub(super) out: Out,
}

impl Aggregated {
    pub(super) fn functions<'a>(
        of_windows: impl Iterator<Item = &'a AggregateFunctionExpr>,
    ) -> DataFusionResult<Vec<Box<dyn GroupsAccumulator>>> {
        of_windows.map(accumulator).collect()
    }

    pub(super) fn state(context: &TaskContext) -> MemoryReservation {
        MemoryConsumer::new("Window functions").register(context.memory_pool())
    }

    pub(super) async fn run(
        mut self,
        mut rows: SendableRecordBatchStream,
        to: Output,
    ) -> Result<()> {
        let mut is_open = false;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let Runs { ranges, goes_on } = self.cut.cut(&batch)?;
            let first = usize::from(is_open && !goes_on);
            let groups = first + ranges.len();
            let last = ranges.last().map_or(0, |last| last.start);
            let of_rows: Vec<usize> = (first..)
                .zip(&ranges)
                .flat_map(|(group, range)| std::iter::repeat_n(group, range.len()))
                .collect();
            self.update(&batch, &of_rows, groups)?;
            if groups > 1 {
                let values = self.values(EmitTo::First(groups - 1))?;
                self.emit_held(&values, &to).await?;
                let of_rows: Vec<u32> = of_rows[..last].iter().map(|group| *group as u32).collect();
                emit_copies(&self.out, &batch.slice(0, last), &of_rows, &values, &to).await?;
            }
            let rest = batch.slice(last, batch.num_rows() - last);
            self.held.push_or_spill(compact(rest, self.out.small, usize::MAX)?)?;
            is_open = true;
        }
        // The operators below free their memory first.
        drop(rows);
        if is_open {
            let values = self.values(EmitTo::All)?;
            self.emit_held(&values, &to).await?;
        }
        Ok(())
    }

    fn update(&mut self, batch: &RecordBatch, of_rows: &[usize], groups: usize) -> Result<()> {
        let elapsed = self.out.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        for (window, function) in self.windows.iter().zip(&mut self.functions) {
            let arguments = window.evaluate_args(batch)?;
            function.update_batch(&arguments, of_rows, None, groups)?;
        }
        let bytes = self.functions.iter().map(|function| function.size()).sum();
        if self.state.try_resize(bytes).is_err() {
            self.held.spill()?;
            self.state.try_resize(bytes)?;
        }
        Ok(())
    }

    /// The values of complete partitions.
    fn values(&mut self, partitions: EmitTo) -> DataFusionResult<Values> {
        let values = self.functions.iter_mut().map(|function| function.evaluate(partitions));
        Ok(Values::new(values.collect::<DataFusionResult<_>>()?))
    }

    /// Emits the rows that were held, with the first of the values.
    async fn emit_held(&mut self, values: &Values, to: &Output) -> Result<()> {
        while let Some(batch) = self.held.next().await? {
            emit_copies(&self.out, &batch, &vec![0; batch.num_rows()], values, to).await?;
        }
        Ok(())
    }
}

fn accumulator(function: &AggregateFunctionExpr) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    if function.groups_accumulator_supported() && !function.is_reversed() {
        return function.create_groups_accumulator();
    }
    let function = function.clone();
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
}

/// The values of groups, of each function.
pub(super) struct Values {
    of_functions: Vec<ArrayRef>,
    /// See [`copied_sizes`].
    copied: Vec<usize>,
}

impl Values {
    pub(super) fn new(of_functions: Vec<ArrayRef>) -> Values {
        let copied = copied_sizes(&of_functions);
        Values { of_functions, copied }
    }
}

/// Emits rows, each with the values of its group.
pub(super) async fn emit_copies(
    out: &Out,
    rows: &RecordBatch,
    groups: &[u32],
    values: &Values,
    to: &Output,
) -> Result<()> {
    let size = |group: &u32| values.copied.get(*group as usize).copied().unwrap_or_default();
    if groups.iter().map(size).sum::<usize>() > out.most_copied {
        return Err(Error::LimitExceeded(format!(
            "the texts or lists that a window gives to {} rows take more than {} bytes, which is \
             --memory-limit; collect them once for each group (GROUP BY), and join",
            groups.len(),
            out.most_copied
        )));
    }
    let mut start = 0;
    while start < groups.len() {
        let (mut end, mut bytes) = (start, 0);
        while end < groups.len() && (end == start || bytes < COPIED_BYTES) {
            bytes += groups.get(end).map_or(0, size);
            end += 1;
        }
        let of_rows = UInt32Array::from(groups[start..end].to_vec());
        let copies = values.of_functions.iter().map(|values| Ok(take(values, &of_rows, None)?));
        let copies = copies.collect::<DataFusionResult<Vec<_>>>()?;
        out.emit(&rows.slice(start, end - start), copies, to).await?;
        start = end;
    }
    Ok(())
}

/// How many bytes the values of a group take in each row that gets them, beside numbers and views;
/// nothing where all values are such.
fn copied_sizes(values: &[ArrayRef]) -> Vec<usize> {
    let copied: Vec<&ArrayRef> = values.iter().filter(|values| is_copied(values)).collect();
    let Some(first) = copied.first() else { return Vec::new() };
    let bytes = |values: &ArrayRef, group: usize| {
        values.slice(group, 1).to_data().get_slice_memory_size().unwrap_or_default()
    };
    let groups = 0..first.len();
    groups.map(|group| copied.iter().map(|values| bytes(values, group)).sum()).collect()
}

fn is_copied(values: &ArrayRef) -> bool {
    are_copied(values.data_type())
}

/// Whether values of a type are copied for each row that gets them.
pub(super) fn are_copied(data_type: &DataType) -> bool {
    let is_view = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    !is_view && !data_type.is_primitive() && *data_type != DataType::Boolean
}

//! Accumulators of `string_agg` and `array_agg` that say how much memory they take.
//!
//! Where this stands on the road of a query: `aggregates` puts them around DataFusion's (55.2).
//! Those count the bytes of the values that they hold. The texts that `string_agg` extends have up
//! to as many bytes allocated again, and both hand out their groups as a copy while the values
//! are still held. A limit on memory was exceeded by as much, and a process in a small cgroup
//! killed.

use arrow_array::{ArrayRef, BooleanArray};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// How many times the bytes of its values an accumulator takes at most: the values, what is
/// allocated beyond them, and the copy that is handed out.
const COPIES: usize = 3;

/// Values of one group.
#[derive(Debug)]
pub(super) struct Collected(pub(super) Box<dyn Accumulator>);

impl Accumulator for Collected {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size().saturating_mul(COPIES)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

/// Values by group.
pub(super) struct CollectedGroups(pub(super) Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for CollectedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.0.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        count: usize,
    ) -> DataFusionResult<()> {
        self.0.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size().saturating_mul(COPIES)
    }
}

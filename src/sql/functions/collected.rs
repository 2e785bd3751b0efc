//! Accumulators of `string_agg` and `array_agg` that say how much memory they take.
//!
//! Where this stands on the road of a query: `aggregates` puts them around DataFusion's (55.2).
//! Those count the bytes of the values that they hold. The texts that `string_agg` extends have up
//! to as many bytes allocated again, and both hand out their groups as a copy while the values
//! are still held. A limit on memory was exceeded by as much, and a process in a small cgroup
//! killed. In a window, each row gets a copy of what was collected for it, and nobody counts them:
//! here too many of these bytes are an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, BooleanArray};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::error::Error;

/// How many times the bytes of its values an accumulator takes at most: the values, what is
/// allocated beyond them, and the copy that is handed out.
const COPIES: usize = 3;

/// What the rows of a window have been given, in all partitions whose accumulators still live.
#[derive(Clone, Debug)]
pub(super) struct WindowValues {
    bytes: Arc<AtomicU64>,
    /// The most bytes.
    most: u64,
}

impl WindowValues {
    /// The account of a window, in a session with this memory limit.
    pub(super) fn new(memory: u64) -> WindowValues {
        WindowValues { bytes: Arc::default(), most: memory / 4 }
    }
}

/// Copies of a plan are equal, whatever their rows have been given.
impl PartialEq for WindowValues {
    fn eq(&self, other: &Self) -> bool {
        self.most == other.most
    }
}

impl Eq for WindowValues {}

/// Values of one group, or of the rows of a window.
#[derive(Debug)]
pub(super) struct Collected {
    inner: Box<dyn Accumulator>,
    window: Option<WindowValues>,
    /// The bytes that were handed out to rows of a window.
    bytes: u64,
}

impl Collected {
    pub(super) fn boxed(
        inner: Box<dyn Accumulator>,
        window: Option<WindowValues>,
    ) -> Box<dyn Accumulator> {
        Box::new(Collected { inner, window, bytes: 0 })
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        if let Some(window) = &self.window {
            window.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Accumulator for Collected {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let value = self.inner.evaluate()?;
        let Some(window) = &self.window else { return Ok(value) };
        let bytes = value.size() as u64;
        self.bytes = self.bytes.saturating_add(bytes);
        let before = window.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > window.most {
            return Err(Error::LimitExceeded(format!(
                "the values that string_agg or array_agg collects for rows of a window take more \
                 than {} bytes, a quarter of --memory-limit; let its frame be shorter (ROWS …), or \
                 collect once for each group (GROUP BY) and join",
                window.most
            ))
            .into());
        }
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size().saturating_mul(COPIES)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
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

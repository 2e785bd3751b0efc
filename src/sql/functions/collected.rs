//! Accumulators of `string_agg` and `array_agg` that say how much memory they take.
//!
//! Where this stands on the road of a query: `aggregates` puts them around DataFusion's (55.2).
//! Those count the bytes of the values that they hold, but not those of texts in views. The texts
//! that `string_agg` extends have up to as many bytes allocated again, and both hand out their
//! groups as a copy while the values are still held. A limit on memory was exceeded by as much, and
//! a process in a small cgroup killed. In a window, each row gets a copy of what was collected for
//! it, and nobody counts them: here too many of these bytes are an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
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
    views: HeldViews,
}

impl Collected {
    pub(super) fn boxed(
        inner: Box<dyn Accumulator>,
        window: Option<WindowValues>,
        views: HeldViews,
    ) -> Box<dyn Accumulator> {
        Box::new(Collected { inner, window, bytes: 0, views })
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
        self.views.add(values);
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
        self.inner.size().saturating_add(self.views.bytes).saturating_mul(COPIES)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.views.add(states);
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.views.take_away(values);
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Values by group.
pub(super) struct CollectedGroups {
    inner: Box<dyn GroupsAccumulator>,
    views: HeldViews,
}

impl CollectedGroups {
    pub(super) fn boxed(
        inner: Box<dyn GroupsAccumulator>,
        views: HeldViews,
    ) -> Box<dyn GroupsAccumulator> {
        Box::new(CollectedGroups { inner, views })
    }
}

impl GroupsAccumulator for CollectedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.views.add_passing(values, filter);
        self.inner.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let values = self.inner.evaluate(emit_to)?;
        self.views.emit(emit_to, std::slice::from_ref(&values));
        Ok(values)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        let states = self.inner.state(emit_to)?;
        self.views.emit(emit_to, &states);
        Ok(states)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        count: usize,
    ) -> DataFusionResult<()> {
        self.views.add(values);
        self.inner.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size().saturating_add(self.views.bytes).saturating_mul(COPIES)
    }
}

/// The bytes of views that an accumulator holds and does not count.
#[derive(Debug)]
pub(super) struct HeldViews {
    bytes: usize,
    /// `string_agg`, and `array_agg` of distinct or sorted values, copy and count them.
    are_copied: bool,
    ignores_nulls: bool,
}

impl HeldViews {
    pub(super) fn new(function: &str, arguments: &AccumulatorArgs<'_>) -> HeldViews {
        let holds =
            function == "array_agg" && !arguments.is_distinct && arguments.order_bys.is_empty();
        HeldViews { bytes: 0, are_copied: !holds, ignores_nulls: arguments.ignore_nulls }
    }

    fn add(&mut self, values: &[ArrayRef]) {
        if !self.are_copied {
            self.bytes = self.bytes.saturating_add(bytes_of_views(values));
        }
    }

    /// Adds values, unless no row of them passes: a batch is held as a whole or not at all.
    fn add_passing(&mut self, values: &[ArrayRef], filter: Option<&BooleanArray>) {
        let nulls = values.first().filter(|_| self.ignores_nulls).and_then(|v| v.logical_nulls());
        let passes = |row: usize| {
            filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
        };
        if values.first().is_some_and(|values| (0..values.len()).any(passes)) {
            self.add(values);
        }
    }

    /// Takes away the values of groups that are emitted.
    fn emit(&mut self, emit_to: EmitTo, values: &[ArrayRef]) {
        match emit_to {
            EmitTo::All => self.bytes = 0,
            EmitTo::First(_) => self.take_away(values),
        }
    }

    fn take_away(&mut self, values: &[ArrayRef]) {
        if !self.are_copied {
            self.bytes = self.bytes.saturating_sub(bytes_of_views(values));
        }
    }
}

/// The bytes of texts in views, also those in lists.
fn bytes_of_views(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| views(array)).fold(0, usize::saturating_add)
}

fn views(array: &dyn Array) -> usize {
    match array.data_type() {
        DataType::Utf8View => long_views(array.as_string_view()),
        DataType::BinaryView => long_views(array.as_binary_view()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.value_offsets().first(), list.value_offsets().last());
            let (Some(first), Some(last)) = (first, last) else { return 0 };
            views(&list.values().slice(*first as usize, (last - first) as usize))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| views(column)).fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}

/// Texts of up to 12 bytes are in the views themselves, which are counted.
fn long_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    let nulls = array.nulls();
    let rows = array.views().iter().enumerate();
    let valid = rows.filter(|(row, _)| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
    let lengths = valid.map(|(_, view)| *view as u32 as usize);
    lengths.filter(|length| *length > 12).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ListArray, StringViewArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn long_texts_in_views_count() {
        let long = "x".repeat(100);
        let texts = vec![Some("short"), Some(long.as_str()), None, Some(long.as_str())];
        let texts: ArrayRef = Arc::new(StringViewArray::from(texts));
        assert_eq!(bytes_of_views(&[Arc::clone(&texts), texts.slice(0, 2)]), 300);
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 2]), texts, None);
        assert_eq!(bytes_of_views(&[Arc::new(lists.slice(1, 1))]), 100);
        assert_eq!(bytes_of_views(&[Arc::new(lists)]), 200);
    }
}

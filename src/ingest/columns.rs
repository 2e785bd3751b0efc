//! Column builders: batches in row order → the rows of one segment.
//!
//! A segment closes at 2²⁰ rows or a bound in bytes, whichever comes first, if need be within a
//! batch; one row always fits. Both are counted on the values alone, so the cut does not depend on
//! threads or timing. A batch may bring a column under a narrower or wider type than the one before
//! it; the segment stores the join, and the table keeps the join of all segments.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, Field, Schema as ArrowSchema};
use arrow_select::take::take;

use crate::block::{canonical, null_array};
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType, Schema};
use crate::segment::writer::{InputColumn, SegmentInput};

/// Integers beyond this are not all representable as f64.
pub const EXACT_IN_F64: u64 = 1 << 53;

/// Bytes of a text, on average, beyond which it is long.
const LONG_TEXT: usize = 64;
/// Views that hold on to no more than this are left alone.
const MIN_SLACK: usize = 4 << 20;
/// Column names that a message shows of each side.
const SHOWN_NAMES: usize = 8;

/// Collects batches for one segment.
#[derive(Debug)]
pub struct SegmentBuilder {
    columns: Vec<Building>,
    rows: usize,
    bytes: usize,
    limits: SegmentLimits,
}

/// When a segment is full.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLimits {
    /// Rows.
    pub rows: usize,
    /// Bytes of values in memory.
    pub bytes: usize,
    /// Rows of a block.
    pub block_rows: usize,
}

#[derive(Debug)]
struct Building {
    id: ColumnId,
    name: String,
    data_type: DataType,
    arrays: Vec<ArrayRef>,
    /// Rows of `arrays`: those of batches without the column are made up for when it comes again.
    rows: usize,
}

impl SegmentBuilder {
    /// An empty builder.
    pub fn new(limits: SegmentLimits) -> Self {
        SegmentBuilder { columns: Vec::new(), rows: 0, bytes: 0, limits }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds as many rows of `batch` (its columns, in layouts that [`readable`] leaves as they are,
    /// are those of the schema with these ids, in any order) as fit. `Break` carries the rows that
    /// did not: the segment is full.
    pub fn push(
        &mut self,
        batch: &RecordBatch,
        ids: &[ColumnId],
    ) -> Result<ControlFlow<RecordBatch>> {
        let (rows, bytes) = self.fitting(batch);
        let now = batch.slice(0, rows);
        for (i, id) in ids.iter().enumerate() {
            let name = batch.schema_ref().field(i).name().clone();
            self.add(i, *id, &name, now.column(i))?;
        }
        self.rows += rows;
        self.bytes += bytes;
        let rest = batch.num_rows() - rows;
        let full = rest > 0 || self.rows >= self.limits.rows || self.bytes >= self.limits.bytes;
        Ok(if full {
            ControlFlow::Break(batch.slice(rows, rest))
        } else {
            ControlFlow::Continue(())
        })
    }

    /// The rows of `batch` that fit, at least one in an empty segment, and their bytes.
    fn fitting(&self, batch: &RecordBatch) -> (usize, usize) {
        let most = batch.num_rows().min(self.limits.rows.saturating_sub(self.rows));
        let room = self.limits.bytes.saturating_sub(self.bytes);
        let size =
            |rows| batch.columns().iter().map(|column| value_bytes(&column.slice(0, rows))).sum();
        let all: usize = size(most);
        if all <= room {
            return (most, all);
        }
        // Doubling finds an interval, so that few rows are looked at where few fit; then halving.
        let (mut fits, mut exceeds) = (0, 1);
        while exceeds < most && size(exceeds) <= room {
            (fits, exceeds) = (exceeds, exceeds * 2);
        }
        exceeds = exceeds.min(most);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            if size(middle) <= room { fits = middle } else { exceeds = middle }
        }
        let rows = fits.max(usize::from(self.rows == 0));
        (rows, size(rows))
    }

    /// Adds rows of a column, which is at `hint` if this batch has the columns of the one before.
    fn add(&mut self, hint: usize, id: ColumnId, name: &str, array: &ArrayRef) -> Result<()> {
        let data_type = stored_type(name, array)?;
        let is_it = |column: &Building| column.id == id;
        let hint = Some(hint).filter(|hint| self.columns.get(*hint).is_some_and(is_it));
        let at = match hint.or_else(|| self.columns.iter().position(is_it)) {
            Some(at) => at,
            None => {
                let name = name.to_string();
                self.columns.push(Building {
                    id,
                    name,
                    data_type: DataType::Null,
                    arrays: Vec::new(),
                    rows: 0,
                });
                self.columns.len() - 1
            }
        };
        let column = &mut self.columns[at];
        column.data_type = join(name, &column.data_type, &data_type)?;
        column.pad(self.rows);
        column.rows += array.len();
        column.arrays.push(array.clone());
        Ok(())
    }

    /// The collected rows, every column under one type; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<SegmentInput> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let mut columns = std::mem::take(&mut self.columns);
        columns.sort_by_key(|c| c.id);
        let columns =
            columns.into_iter().map(|column| column.finish(rows)).collect::<Result<Vec<_>>>()?;
        Ok(SegmentInput { rows, block_rows: self.limits.block_rows, columns })
    }
}

/// The batch in layouts that a segment is written from.
pub fn readable(batch: RecordBatch) -> Result<RecordBatch> {
    let (mut fields, mut columns, mut changed) = (Vec::new(), Vec::new(), false);
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let to = canonical(array.data_type(), &stored_type(field.name(), array)?);
        changed |= to.is_some();
        let mut array =
            to.map_or_else(|| Ok(array.clone()), |to| cast(field.name(), array, &to))?;
        if let Some(other) = without_slack(&array).or_else(|| one_nan(&array)) {
            (array, changed) = (other, true);
        }
        fields.push(Field::new(field.name(), array.data_type().clone(), true));
        columns.push(array);
    }
    if !changed {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)
        .map_err(|e| Error::InvalidInput(e.to_string()))
}

/// Views over bytes of which a good part is not theirs, such as a reader's spare room or a page
/// that others share, with bytes of their own: a segment keeps what its views look at.
fn without_slack(array: &ArrayRef) -> Option<ArrayRef> {
    let wasteful = |used: usize, buffers: &[Buffer]| {
        let held: usize = buffers.iter().map(Buffer::capacity).sum();
        held > MIN_SLACK && used < held - held / 4
    };
    if let Some(views) = array.as_string_view_opt() {
        return wasteful(views.total_buffer_bytes_used(), views.data_buffers())
            .then(|| Arc::new(views.gc()) as _);
    }
    let views = array.as_binary_view_opt()?;
    wasteful(views.total_buffer_bytes_used(), views.data_buffers())
        .then(|| Arc::new(views.gc()) as _)
}

/// Floats with one NaN, which sorts last, for those whose sign bit is set, which would sort first:
/// 0/0 makes such ones.
fn one_nan(array: &ArrayRef) -> Option<ArrayRef> {
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let negative = |value: f64| value.is_nan() && value.is_sign_negative();
        let found = floats.values().iter().any(|value| negative(*value));
        let one = |value| if negative(value) { f64::NAN } else { value };
        return found.then(|| Arc::new(floats.unary::<_, Float64Type>(one)) as _);
    }
    let floats = array.as_primitive_opt::<Float32Type>()?;
    let negative = |value: f32| value.is_nan() && value.is_sign_negative();
    let found = floats.values().iter().any(|value| negative(*value));
    let one = |value| if negative(value) { f32::NAN } else { value };
    found.then(|| Arc::new(floats.unary::<_, Float32Type>(one)) as _)
}

/// Bytes of an array's values, for slices and views too. Long texts count twice: encoding shrinks
/// them least, and holds a light and a heavy form of them at a time.
pub(super) fn value_bytes(array: &ArrayRef) -> usize {
    use arrow_schema::DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let view = match array.data_type() {
        Utf8View => array.as_string_view().total_buffer_bytes_used(),
        BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    };
    let flat =
        array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    let text = match array.data_type() {
        Utf8View | BinaryView => view,
        Utf8 | LargeUtf8 | Binary | LargeBinary => flat,
        _ => 0,
    };
    flat + view + text.saturating_sub(array.len().saturating_mul(LONG_TEXT))
}

impl Building {
    /// Nulls for the rows before row `to` that came without this column.
    fn pad(&mut self, to: usize) {
        if self.rows < to {
            self.arrays.push(null_array(to - self.rows, &DataType::Null));
            self.rows = to;
        }
    }

    fn finish(mut self, rows: usize) -> Result<InputColumn> {
        self.pad(rows);
        for array in &mut self.arrays {
            *array = widened(&self.name, array, &self.data_type)?;
        }
        Ok(InputColumn { id: self.id, data_type: self.data_type, arrays: self.arrays })
    }
}

/// The array in a layout that a segment stores as this type, which its own type widens to.
pub(super) fn widened(name: &str, array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if *array.data_type() == arrow_schema::DataType::Null {
        return Ok(null_array(array.len(), data_type));
    }
    match canonical(array.data_type(), data_type) {
        Some(readable) => widen(name, array, data_type, &readable),
        None => Ok(Arc::clone(array)),
    }
}

/// The stored type of an Arrow column, or why there is none.
pub fn stored_type(name: &str, array: &ArrayRef) -> Result<DataType> {
    DataType::from_arrow(array.data_type()).ok_or_else(|| {
        Error::Unsupported(format!(
            "column '{name}' has type {}, which a table cannot hold yet",
            array.data_type()
        ))
    })
}

/// The join of two types of one column, or the reason why there is none.
pub fn join(name: &str, have: &DataType, new: &DataType) -> Result<DataType> {
    have.join(new).ok_or_else(|| {
        Error::InvalidInput(format!(
            "column '{name}' is {have} and cannot also hold {new} without loss; \
             give its type with --schema {name}:TYPE, or load into another table"
        ))
    })
}

fn cast(name: &str, array: &ArrayRef, to: &arrow_schema::DataType) -> Result<ArrayRef> {
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    nulls_on_top(array)
        .and_then(|array| arrow_cast::cast_with_options(&array, to, &options))
        .map_err(|e| Error::InvalidInput(format!("column '{name}' does not convert to {to}: {e}")))
}

/// A dictionary whose values hold nulls, without the dictionary: Arrow's cast to views makes empty
/// texts of them.
pub(super) fn nulls_on_top(array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(coded) if coded.values().logical_null_count() > 0 => {
            take(coded.values(), coded.keys(), None)
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn widen(
    name: &str,
    array: &ArrayRef,
    to: &DataType,
    readable: &arrow_schema::DataType,
) -> Result<ArrayRef> {
    if *to == DataType::Float64 {
        let beyond = |v: u64| v > EXACT_IN_F64;
        let inexact = match array.data_type() {
            arrow_schema::DataType::Int64 => array
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .find(|v| beyond(v.unsigned_abs()))
                .map(i128::from),
            arrow_schema::DataType::UInt64 => array
                .as_primitive::<UInt64Type>()
                .iter()
                .flatten()
                .find(|v| beyond(*v))
                .map(i128::from),
            _ => None,
        };
        if let Some(value) = inexact {
            return Err(Error::InvalidInput(format!(
                "column '{name}' holds {value}, which float64 cannot hold exactly, beside fractions; \
                 give its type with --schema {name}:decimal(p,s) or {name}:utf8"
            )));
        }
    }
    cast(name, array, readable).map_err(|error| match DataType::from_arrow(array.data_type()) {
        Some(from) if from.widens_exactly_if(to) => Error::InvalidInput(format!(
            "column '{name}' holds some {from} too far from 1970 for {to}, which the fractions of a second in other \
             rows need; give its type with --schema {name}:utf8"
        )),
        _ => error,
    })
}

/// Ids of a batch's columns in the table, adding those that are new; the table's types widen to
/// hold the batch.
pub fn match_columns(schema: &mut Schema, batch: &RecordBatch) -> Result<Vec<ColumnId>> {
    let mut places: HashMap<Arc<str>, Option<usize>> = schema
        .columns()
        .iter()
        .enumerate()
        .map(|(at, column)| (column.name.clone(), Some(at)))
        .collect();
    let mut ids = Vec::with_capacity(batch.num_columns());
    let (mut widened, mut new) = (Vec::new(), Vec::new());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        let data_type = stored_type(name, array)?;
        // A place that is taken has no column for a second field of that name.
        match places.insert(Arc::from(name), None) {
            Some(None) => {
                return Err(Error::InvalidInput(format!(
                    "the input has two columns named '{name}'"
                )));
            }
            Some(Some(at)) => {
                let column = &schema.columns()[at];
                ids.push(column.id);
                let joined = join(name, &column.data_type, &data_type)?;
                if joined != column.data_type {
                    widened.push((at, joined));
                }
            }
            None => {
                ids.push(ColumnId(schema.next_id().saturating_add(new.len() as u32)));
                new.push((name, data_type));
            }
        }
    }
    if new.len() == ids.len() {
        check_kinship(schema, &new)?;
    }
    widened.into_iter().for_each(|(at, data_type)| schema.set_type(at, data_type));
    schema.extend(new)?;
    Ok(ids)
}

/// Refuses an input of which the table knows no column: its first row was misread, or it belongs
/// elsewhere.
fn check_kinship(schema: &Schema, new: &[(&str, DataType)]) -> Result<()> {
    if schema.columns().is_empty() || new.is_empty() {
        return Ok(());
    }
    let listed = |mut names: Vec<&str>| {
        let more = names.len() > SHOWN_NAMES;
        names.truncate(SHOWN_NAMES);
        names.join(", ") + if more { ", …" } else { "" }
    };
    Err(Error::InvalidInput(format!(
        "the input's columns ({}) are none of the table's ({}); name them with --names, say --no-header or --header \
         if the first row of the input was misread, or load into another table",
        listed(new.iter().map(|(name, _)| *name).collect()),
        listed(schema.columns().iter().map(|column| &*column.name).collect()),
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BinaryArray, DictionaryArray, Int32Array, Int64Array, StringArray, StringViewArray,
    };
    use arrow_cast::display::array_value_to_string;

    use super::*;

    const LIMITS: SegmentLimits = SegmentLimits { rows: 1000, bytes: 1 << 20, block_rows: 1024 };

    fn push(
        builder: &mut SegmentBuilder,
        schema: &mut Schema,
        columns: Vec<(&str, ArrayRef)>,
    ) -> bool {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let ids = match_columns(schema, &batch).unwrap();
        builder.push(&batch, &ids).unwrap().is_break()
    }

    #[test]
    fn a_column_that_comes_and_goes_keeps_its_rows() {
        let (mut builder, mut schema) = (SegmentBuilder::new(LIMITS), Schema::default());
        let narrow = |v: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![v])) };
        let wide = |v: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![v])) };
        let text = |v: &str| -> ArrayRef { Arc::new(StringArray::from(vec![v])) };
        push(&mut builder, &mut schema, vec![("a", narrow(1)), ("b", narrow(1))]);
        push(&mut builder, &mut schema, vec![("a", narrow(2))]);
        push(&mut builder, &mut schema, vec![("b", wide(3)), ("c", text("x")), ("a", narrow(3))]);
        push(&mut builder, &mut schema, vec![("a", narrow(4))]);
        let input = builder.finish().unwrap();
        let shown = |at: usize| -> Vec<String> {
            let rows =
                input.columns[at].arrays.iter().flat_map(|a| (0..a.len()).map(move |i| (a, i)));
            rows.map(|(a, i)| array_value_to_string(a, i).unwrap()).collect()
        };
        assert_eq!([shown(0), shown(1)], [["1", "2", "3", "4"], ["1", "", "3", ""]]);
        assert_eq!(shown(2), ["", "", "x", ""]);
        let types: Vec<DataType> = input.columns.iter().map(|c| c.data_type.clone()).collect();
        assert_eq!(types, [DataType::Int32, DataType::Int64, DataType::Utf8]);
    }

    #[test]
    fn an_input_that_shares_no_column_is_refused() {
        let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let batch = |names: &[&str]| {
            RecordBatch::try_from_iter(names.iter().map(|name| (name, one.clone()))).unwrap()
        };
        let mut schema = Schema::default();
        match_columns(&mut schema, &batch(&["id", "fare"])).unwrap();
        match_columns(&mut schema, &batch(&["tip", "id"])).unwrap();
        let before = schema.clone();
        let error =
            match_columns(&mut schema, &batch(&["column0", "column1"])).unwrap_err().to_string();
        for part in ["(column0, column1)", "(id, fare, tip)", "--names", "--no-header"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(schema, before);
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let field =
            |array: &ArrayRef| arrow_schema::Field::new("a", array.data_type().clone(), true);
        let fields = arrow_schema::Schema::new(vec![field(&one), field(&one)]);
        let batch = RecordBatch::try_new(Arc::new(fields), vec![one.clone(), one]).unwrap();
        assert!(match_columns(&mut Schema::default(), &batch).is_err());
    }

    #[test]
    fn there_is_one_nan() {
        let nans: ArrayRef =
            Arc::new(arrow_array::Float64Array::from(vec![Some(-f64::NAN), None, Some(1.5)]));
        let narrow: ArrayRef =
            Arc::new(arrow_array::Float32Array::from(vec![Some(-f32::NAN), Some(-0.0), None]));
        let batch =
            readable(RecordBatch::try_from_iter([("a", nans), ("b", narrow)]).unwrap()).unwrap();
        let bits =
            batch.column(0).as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits());
        assert_eq!(bits.collect::<Vec<_>>(), [f64::NAN.to_bits(), 0, 1.5_f64.to_bits()]);
        assert_eq!(batch.column(0).null_count(), 1);
        let bits =
            batch.column(1).as_primitive::<Float32Type>().values().iter().map(|v| v.to_bits());
        assert_eq!(bits.take(2).collect::<Vec<_>>(), [f32::NAN.to_bits(), (-0.0_f32).to_bits()]);
    }

    #[test]
    fn nulls_of_a_dictionary_are_nulls() {
        let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(2)]);
        let texts = StringArray::from(vec![Some("a"), None, Some("")]);
        let bytes = BinaryArray::from_opt_vec(vec![Some(b"a"), None, Some(b"")]);
        let coded =
            |values: ArrayRef| -> ArrayRef { Arc::new(DictionaryArray::new(keys.clone(), values)) };
        let columns = [("a", coded(Arc::new(texts))), ("b", coded(Arc::new(bytes)))];
        let batch = readable(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        for column in batch.columns() {
            let nulls: Vec<bool> = (0..4).map(|row| column.is_null(row)).collect();
            assert_eq!(nulls, [false, true, true, false], "{}", column.data_type());
        }
    }

    #[test]
    fn the_bytes_of_views_count() {
        let (mut builder, mut schema) = (SegmentBuilder::new(LIMITS), Schema::default());
        let long = "x".repeat(150 << 10);
        let batch = || -> ArrayRef { Arc::new(StringViewArray::from(vec![long.as_str()])) };
        let full: Vec<bool> =
            (0..4).map(|_| push(&mut builder, &mut schema, vec![("a", batch())])).collect();
        assert_eq!(full, [false, false, false, true]);
        assert_eq!(builder.finish().unwrap().rows, 3);
    }

    #[test]
    fn views_let_go_of_what_they_do_not_show() {
        let texts: Vec<String> = (0..100).map(|i| format!("{i:060000}")).collect();
        let all = StringViewArray::from_iter_values(&texts);
        let size = |array: &StringViewArray| {
            array.data_buffers().iter().map(Buffer::capacity).sum::<usize>()
        };
        let few =
            RecordBatch::try_from_iter([("a", Arc::new(all.slice(0, 10)) as ArrayRef)]).unwrap();
        let few = readable(few).unwrap();
        let few = few.column(0).as_string_view();
        assert!(size(&all) > 5_000_000 && size(few) < 1_000_000);
        assert!(few.iter().flatten().eq(&texts[..10]));
        // What many rows share stays shared.
        let shared = StringViewArray::new(
            vec![all.views()[7]; 200].into(),
            all.data_buffers().to_vec(),
            None,
        );
        let batch = RecordBatch::try_from_iter([("a", Arc::new(shared) as ArrayRef)]).unwrap();
        assert_eq!(size(readable(batch).unwrap().column(0).as_string_view()), size(&all));
    }

    /// The rows of the segments that these batches fill.
    fn cut(limits: SegmentLimits, batches: Vec<ArrayRef>) -> Vec<usize> {
        let (mut builder, mut schema, mut rows) =
            (SegmentBuilder::new(limits), Schema::default(), Vec::new());
        for array in batches {
            let mut rest = RecordBatch::try_from_iter([("a", array)]).unwrap();
            let ids = match_columns(&mut schema, &rest).unwrap();
            while let ControlFlow::Break(more) = builder.push(&rest, &ids).unwrap() {
                rows.push(builder.finish().unwrap().rows);
                rest = more;
            }
        }
        rows.push(builder.finish().unwrap().rows);
        rows
    }

    #[test]
    fn a_segment_is_cut_within_a_batch_that_exceeds_the_bound() {
        let texts =
            |sizes: &[usize]| sizes.iter().map(|size| "x".repeat(*size)).collect::<Vec<_>>();
        let strings = |sizes: &[usize]| -> ArrayRef { Arc::new(StringArray::from(texts(sizes))) };
        let views = |sizes: &[usize]| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values(texts(sizes)))
        };
        let limits = SegmentLimits { bytes: 20_000, ..LIMITS };
        for make in [&strings as &dyn Fn(&[usize]) -> ArrayRef, &views] {
            assert_eq!(cut(limits, vec![make(&[3000; 10])]), [3, 3, 3, 1]);
            assert_eq!(cut(limits, vec![make(&[3000; 2]), make(&[3000; 8])]), [3, 3, 3, 1]);
            assert_eq!(
                cut(limits, vec![make(&[9000]), make(&[20_000, 30_000]), make(&[1; 4])]),
                [1, 1, 1, 4]
            );
            assert_eq!(cut(limits, vec![make(&[1; 100])]), [100]);
        }
        assert_eq!(cut(SegmentLimits { rows: 40, ..limits }, vec![views(&[1; 100])]), [40, 40, 20]);
        // A text that is there once and shown many times counts as often as it is shown.
        let shared = StringViewArray::from_iter_values(texts(&[3000]));
        let many = StringViewArray::new(
            vec![shared.views()[0]; 7].into(),
            shared.data_buffers().to_vec(),
            None,
        );
        assert_eq!(cut(limits, vec![Arc::new(many)]), [3, 3, 1]);
    }
}

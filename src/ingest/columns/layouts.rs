//! Brings arrays into the layouts that segments are written from, and into wider types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, Field, Schema as ArrowSchema};
use arrow_select::take::take;

use super::intervals::intervals;
use super::matching::stored_type;
use crate::block::{canonical, coded, null_array};
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::text::number::MAX_EXACT_IN_F64;
use crate::model::DataType;

/// Texts of more bytes than this, on average, are long.
const LONG_TEXT: usize = 64;
/// Views whose buffers are no larger than this are left alone.
const MIN_SLACK: usize = 4 << 20;
/// The values of codes may take this much, however little the rows would take without codes.
const MIN_VALUES: usize = 64 << 10;

/// Which columns of codes stay codes, each of whose values is looked up once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptCodes {
    /// None: the rows are sorted or partitioned.
    None,
    /// Those of texts whose values take no more memory than the rows would, since a segment holds
    /// them until it is written.
    OfInputs,
    /// All: they come from stored segments, whose dictionaries are bounded and canonical.
    OfSegments,
}

impl KeptCodes {
    fn keep(self, coded: &DictionaryArray<UInt32Type>) -> bool {
        let values = coded.values();
        let are_texts = || lengths(values).is_some() && values.null_count() == 0;
        match self {
            KeptCodes::None => false,
            KeptCodes::OfInputs => {
                are_texts() && values.get_array_memory_size() <= coded_bytes(coded).max(MIN_VALUES)
            }
            KeptCodes::OfSegments => true,
        }
    }
}

/// The batch in layouts that a segment can be written from.
pub(crate) fn to_stored_layouts(batch: RecordBatch, codes: KeptCodes) -> Result<RecordBatch> {
    let (mut fields, mut columns, mut changed) = (Vec::new(), Vec::new(), false);
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let stored = stored_type(field)?;
        let to = match coded(array) {
            Some(coded) if !codes.keep(coded) => Some(stored.to_arrow()),
            _ => canonical(array.data_type(), &stored),
        };
        changed |= to.is_some();
        let mut array = match to {
            None => array.clone(),
            Some(to) if stored == DataType::Interval => match intervals(field.name(), array)? {
                Some(array) => array,
                None => cast(field.name(), array, &to)?,
            },
            Some(to) => cast(field.name(), array, &to)?,
        };
        if let Some(other) = compact_views(&array).or_else(|| canonical_nans(&array)) {
            (array, changed) = (other, true);
        }
        fields.push(stored.marked(Field::new(field.name(), array.data_type().clone(), true)));
        columns.push(array);
    }
    if !changed {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), columns, &options)
        .or_invalid()
}

/// Copies views whose buffers are mostly unused, such as a reader's spare capacity or a page shared
/// with other arrays: a segment in memory keeps the buffers of its views alive.
fn compact_views(array: &ArrayRef) -> Option<ArrayRef> {
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

/// Replaces NaNs whose sign bit is set, as 0/0 makes, by the positive NaN: they would sort first,
/// and NaN sorts last.
fn canonical_nans(array: &ArrayRef) -> Option<ArrayRef> {
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let negative = |value: f64| value.is_nan() && value.is_sign_negative();
        let found = floats.values().iter().any(|value| negative(*value));
        let canonical_nan = |value| if negative(value) { f64::NAN } else { value };
        return found.then(|| Arc::new(floats.unary::<_, Float64Type>(canonical_nan)) as _);
    }
    let floats = array.as_primitive_opt::<Float32Type>()?;
    let negative = |value: f32| value.is_nan() && value.is_sign_negative();
    let found = floats.values().iter().any(|value| negative(*value));
    let canonical_nan = |value| if negative(value) { f32::NAN } else { value };
    found.then(|| Arc::new(floats.unary::<_, Float32Type>(canonical_nan)) as _)
}

/// Bytes of an array's values, also for slices and views. Long texts count twice: encoding shrinks
/// them least, and holds a light and a heavy encoding of them at the same time.
pub(in crate::ingest) fn value_bytes(array: &ArrayRef) -> usize {
    use arrow_schema::DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    if let Some(coded) = coded(array) {
        return coded_bytes(coded);
    }
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

/// The bytes that the values of coded rows would take, written out as views.
fn coded_bytes(coded: &DictionaryArray<UInt32Type>) -> usize {
    let values = coded.values();
    if let Some(width) = values.data_type().primitive_width() {
        return coded.len() * width;
    }
    let Some(lengths) = lengths(values) else {
        // Other layouts come from outside; of them, the mean will do.
        return coded.len().saturating_mul(value_bytes(values) / values.len().max(1));
    };
    // Short texts stand in their views.
    let outside = |at| Some(lengths.of(at)).filter(|length| *length > 12).unwrap_or(0);
    let outside: Vec<usize> = (0..values.len()).map(outside).collect();
    let of = |key: u32| outside.get(key as usize).copied().unwrap_or(0);
    let keys = coded.keys();
    let text: usize = match keys.nulls() {
        _ if outside.iter().all(|length| *length == 0) => 0,
        None => keys.values().iter().copied().map(of).sum(),
        Some(_) => keys.iter().flatten().map(of).sum(),
    };
    let flat = coded.len() * size_of::<u128>();
    flat + text + text.saturating_sub(coded.len().saturating_mul(LONG_TEXT))
}

/// The lengths of texts or binary values.
enum Lengths<'a> {
    Views(&'a [u128]),
    Offsets(&'a [i32]),
}

impl Lengths<'_> {
    fn of(&self, at: usize) -> usize {
        match self {
            // The low half of a view's first word is its length.
            Lengths::Views(views) => views.get(at).map_or(0, |view| *view as u32 as usize),
            Lengths::Offsets(offsets) => match offsets.get(at..).unwrap_or_default() {
                [start, end, ..] => usize::try_from(end.wrapping_sub(*start)).unwrap_or(0),
                _ => 0,
            },
        }
    }
}

/// `None` for values in other layouts.
fn lengths(values: &ArrayRef) -> Option<Lengths<'_>> {
    use arrow_schema::DataType::{Binary, BinaryView, Utf8, Utf8View};
    Some(match values.data_type() {
        Utf8View => Lengths::Views(values.as_string_view().views()),
        BinaryView => Lengths::Views(values.as_binary_view().views()),
        Utf8 => Lengths::Offsets(values.as_string::<i32>().value_offsets()),
        Binary => Lengths::Offsets(values.as_binary::<i32>().value_offsets()),
        _ => return None,
    })
}

/// The array in a layout that stores it as `data_type`, to which its own type widens.
pub(in crate::ingest) fn widened(
    name: &str,
    array: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if *array.data_type() == arrow_schema::DataType::Null {
        return Ok(null_array(array.len(), data_type));
    }
    match canonical(array.data_type(), data_type) {
        Some(readable) => {
            let array = match coded(array) {
                Some(coded) => cast(name, array, coded.values().data_type())?,
                None => Arc::clone(array),
            };
            widen(name, &array, data_type, &readable)
        }
        None => Ok(Arc::clone(array)),
    }
}

fn cast(name: &str, array: &ArrayRef, to: &arrow_schema::DataType) -> Result<ArrayRef> {
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    without_dictionary_nulls(array)
        .and_then(|array| arrow_cast::cast_with_options(&array, to, &options))
        .or_invalid_with(format_args!("column '{name}' does not convert to {to}"))
}

/// Decodes a dictionary whose values contain nulls: Arrow's cast to views turns those into empty
/// texts.
pub(in crate::ingest) fn without_dictionary_nulls(
    array: &ArrayRef,
) -> std::result::Result<ArrayRef, ArrowError> {
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
        let beyond = |v: u64| v > MAX_EXACT_IN_F64;
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
                "column '{name}' holds {value}, which float64 cannot hold exactly, beside \
                 fractions; give its type with --schema {name}:decimal(p,s) or {name}:utf8"
            )));
        }
    }
    cast(name, array, readable).map_err(|error| match DataType::from_arrow(array.data_type()) {
        Some(from) if from.widens_exactly_if(to) => Error::InvalidInput(format!(
            "column '{name}' holds some {from} too far from 1970 for {to}, which the fractions of \
             a second in other rows need; give its type with --schema {name}:utf8"
        )),
        _ => error,
    })
}

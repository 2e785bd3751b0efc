//! The columns of a batch in the forms that PostgreSQL's values have, whatever Arrow's arrays they
//! come from.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    LargeBinaryArray, LargeStringArray, PrimitiveArray, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

use super::errors::PgError;
use super::types::PgType;
use crate::printers::plain_text;

/// A column.
pub(super) enum Column {
    Nothing,
    Bool(BooleanArray),
    Int2(PrimitiveArray<Int16Type>),
    Int4(PrimitiveArray<Int32Type>),
    Int8(PrimitiveArray<Int64Type>),
    Float4(PrimitiveArray<Float32Type>),
    Float8(PrimitiveArray<Float64Type>),
    Numeric(PrimitiveArray<Decimal128Type>, i8),
    WideNumeric(PrimitiveArray<Decimal256Type>, i8),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    BytesView(BinaryViewArray),
    FixedBytes(FixedSizeBinaryArray),
    Date(PrimitiveArray<Date32Type>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Timestamp { values: PrimitiveArray<TimestampMicrosecondType>, has_zone: bool },
    Interval { values: PrimitiveArray<IntervalMonthDayNanoType>, is_iso: bool },
    Array { list: ArrayRef, rows: Vec<Range<usize>>, items: Box<Column>, item_oid: u32 },
}

/// The columns of a batch. `has_iso_intervals` is for their texts.
pub(super) fn columns(
    batch: &RecordBatch,
    has_iso_intervals: bool,
) -> Result<Vec<Column>, PgError> {
    let column = |array: &ArrayRef| -> Result<Column, PgError> {
        let mut column = Column::new(array)
            .map_err(|error| PgError::of("22000", format!("a column cannot be sent: {error}")))?;
        column.set_iso_intervals(has_iso_intervals);
        Ok(column)
    };
    batch.columns().iter().map(column).collect()
}

/// The type into which an array is cast before its values are written.
fn target(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, _) => return None,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Interval(IntervalUnit::MonthDayNano) => return None,
        DataType::Interval(_) | DataType::Duration(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        // Views repeat a value of a dictionary without its bytes.
        DataType::Dictionary(_, values) => match values.as_ref() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        },
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        DataType::FixedSizeList(item, _) => DataType::LargeList(Arc::clone(item)),
        _ => return None,
    })
}

impl Column {
    pub(super) fn new(array: &ArrayRef) -> Result<Column, ArrowError> {
        if let DataType::Timestamp(TimeUnit::Nanosecond, zone) = array.data_type() {
            // A cast rounds towards 1970: a time before 1970 could get the next day.
            let nanos = array.as_primitive::<TimestampNanosecondType>();
            let micros: TimestampMicrosecondArray = nanos.unary(|it| it.div_euclid(1000));
            let values = micros.with_timezone_opt(zone.clone());
            return Ok(Column::Timestamp { values, has_zone: zone.is_some() });
        }
        if let Some(target) = target(array.data_type()) {
            return Column::new(&arrow_cast::cast(array, &target)?);
        }
        Ok(match array.data_type() {
            DataType::Null => Column::Nothing,
            DataType::Boolean => Column::Bool(array.as_boolean().clone()),
            DataType::Int16 => Column::Int2(array.as_primitive().clone()),
            DataType::Int32 => Column::Int4(array.as_primitive().clone()),
            DataType::Int64 => Column::Int8(array.as_primitive().clone()),
            DataType::Float32 => Column::Float4(array.as_primitive().clone()),
            DataType::Float64 => Column::Float8(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => Column::Numeric(array.as_primitive().clone(), *scale),
            DataType::Decimal256(_, scale) => {
                Column::WideNumeric(array.as_primitive().clone(), *scale)
            }
            DataType::Utf8 => Column::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Column::LargeText(array.as_string().clone()),
            DataType::Utf8View => Column::TextView(array.as_string_view().clone()),
            DataType::Binary => Column::Bytes(array.as_binary().clone()),
            DataType::LargeBinary => Column::LargeBytes(array.as_binary().clone()),
            DataType::BinaryView => Column::BytesView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => {
                Column::FixedBytes(array.as_fixed_size_binary().clone())
            }
            DataType::Date32 => Column::Date(array.as_primitive().clone()),
            DataType::Time64(TimeUnit::Microsecond) => Column::Time(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let has_zone = zone.is_some();
                Column::Timestamp { values: array.as_primitive().clone(), has_zone }
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Column::Interval { values: array.as_primitive().clone(), is_iso: false }
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let rows = list.offsets().windows(2);
                let rows = rows.map(|pair| pair[0] as usize..pair[1] as usize).collect();
                Column::array(array, rows, list.values())?
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let rows = list.offsets().windows(2);
                let rows = rows.map(|pair| pair[0] as usize..pair[1] as usize).collect();
                Column::array(array, rows, list.values())?
            }
            _ => Column::Text(plain_text(array)?),
        })
    }

    /// Says how intervals are spelled, also those within lists.
    fn set_iso_intervals(&mut self, yes: bool) {
        match self {
            Column::Interval { is_iso, .. } => *is_iso = yes,
            Column::Array { items, .. } => items.set_iso_intervals(yes),
            _ => {}
        }
    }

    fn array(
        list: &ArrayRef,
        rows: Vec<Range<usize>>,
        items: &ArrayRef,
    ) -> Result<Column, ArrowError> {
        let item_oid = PgType::of(items.data_type()).oid;
        // Arrays within arrays are texts.
        let items = match items.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                Box::new(Column::Text(plain_text(items)?))
            }
            _ => Box::new(Column::new(items)?),
        };
        Ok(Column::Array { list: Arc::clone(list), rows, items, item_oid })
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Nothing => true,
            Column::Bool(array) => array.is_null(row),
            Column::Int2(array) => array.is_null(row),
            Column::Int4(array) => array.is_null(row),
            Column::Int8(array) => array.is_null(row),
            Column::Float4(array) => array.is_null(row),
            Column::Float8(array) => array.is_null(row),
            Column::Numeric(array, _) => array.is_null(row),
            Column::WideNumeric(array, _) => array.is_null(row),
            Column::Text(array) => array.is_null(row),
            Column::LargeText(array) => array.is_null(row),
            Column::TextView(array) => array.is_null(row),
            Column::Bytes(array) => array.is_null(row),
            Column::LargeBytes(array) => array.is_null(row),
            Column::BytesView(array) => array.is_null(row),
            Column::FixedBytes(array) => array.is_null(row),
            Column::Date(array) => array.is_null(row),
            Column::Time(array) => array.is_null(row),
            Column::Timestamp { values, .. } => values.is_null(row),
            Column::Interval { values, .. } => values.is_null(row),
            Column::Array { list, .. } => list.is_null(row),
        }
    }

    /// The bytes of texts and bytes.
    pub(super) fn bytes(&self, row: usize) -> Option<&[u8]> {
        Some(match self {
            Column::Text(array) => array.value(row).as_bytes(),
            Column::LargeText(array) => array.value(row).as_bytes(),
            Column::TextView(array) => array.value(row).as_bytes(),
            Column::Bytes(array) => array.value(row),
            Column::LargeBytes(array) => array.value(row),
            Column::BytesView(array) => array.value(row),
            Column::FixedBytes(array) => array.value(row),
            _ => return None,
        })
    }

    /// Whether its values are texts.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Column::Text(_) | Column::LargeText(_) | Column::TextView(_))
    }
}

//! The columns of a batch as ClickHouse has them: one form for each of its types, whatever Arrow's
//! arrays they come from. Lists whose rows are null are empty here, and fields of null structs are
//! null.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

use super::types::{Type, named_zone};
use crate::errors::Failure;
use crate::printers::plain_text;

/// A column.
pub(super) struct Column {
    pub(super) nulls: Option<NullBuffer>,
    pub(super) values: Values,
}

/// The values of a column. Those of null rows mean nothing.
pub(super) enum Values {
    Nothing,
    Bool(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal {
        values: ScalarBuffer<i128>,
        precision: u8,
        scale: i8,
    },
    Decimal256 {
        values: ScalarBuffer<i256>,
        precision: u8,
        scale: i8,
    },
    Date(ScalarBuffer<i32>),
    DateTime {
        ticks: ScalarBuffer<i64>,
        digits: u8,
        zone: Option<Tz>,
    },
    Text(Texts),
    Array {
        rows: Vec<Range<usize>>,
        items: Box<Column>,
    },
    /// Without names, or with one for each element.
    Tuple {
        names: Vec<String>,
        elements: Vec<Column>,
    },
    Map {
        rows: Vec<Range<usize>>,
        keys: Box<Column>,
        values: Box<Column>,
    },
}

/// Texts and bytes.
pub(super) enum Texts {
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

impl Texts {
    /// The bytes of a row.
    pub(super) fn bytes(&self, row: usize) -> &[u8] {
        match self {
            Texts::Utf8(array) => array.value(row).as_bytes(),
            Texts::LargeUtf8(array) => array.value(row).as_bytes(),
            Texts::Utf8View(array) => array.value(row).as_bytes(),
            Texts::Binary(array) => array.value(row),
            Texts::LargeBinary(array) => array.value(row),
            Texts::BinaryView(array) => array.value(row),
            Texts::Fixed(array) => array.value(row),
        }
    }
}

/// The columns of a batch.
pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Column>, Failure> {
    let column = |(array, field): (&ArrayRef, &Arc<Field>)| {
        Column::new(array, None).map_err(|error| {
            Failure::failed(format!("column '{}' cannot be written: {error}", field.name()))
        })
    };
    batch.columns().iter().zip(batch.schema_ref().fields()).map(column).collect()
}

impl Column {
    /// A column; a row is also null where its struct is.
    fn new(array: &ArrayRef, outer: Option<&NullBuffer>) -> Result<Column, ArrowError> {
        let array = &plain(array)?;
        let nulls = NullBuffer::union(array.nulls(), outer);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let values = Values::new(array, nulls.as_ref())?;
        Ok(Column { nulls, values })
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match &self.values {
            Values::Nothing => true,
            _ => self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
        }
    }
}

/// An array in a type that has values of its own: what dictionaries and runs stand for, and texts
/// for what ClickHouse has no type for.
fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Dictionary(_, values) => {
            // Views repeat a value of the dictionary without its bytes.
            let target = match values.as_ref() {
                DataType::Utf8 | DataType::LargeUtf8 => &DataType::Utf8View,
                DataType::Binary | DataType::LargeBinary => &DataType::BinaryView,
                other => other,
            };
            plain(&arrow_cast::cast(array, target)?)?
        }
        DataType::RunEndEncoded(_, values) => plain(&arrow_cast::cast(array, values.data_type())?)?,
        DataType::ListView(item) => arrow_cast::cast(array, &DataType::List(Arc::clone(item)))?,
        DataType::LargeListView(item) => {
            arrow_cast::cast(array, &DataType::LargeList(Arc::clone(item)))?
        }
        DataType::Float16 => arrow_cast::cast(array, &DataType::Float32)?,
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Interval(_)
        | DataType::Duration(_)
        | DataType::Union(..) => Arc::new(plain_text(array)?),
        _ => Arc::clone(array),
    })
}

impl Values {
    fn new(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Values, ArrowError> {
        Ok(match array.data_type() {
            DataType::Null => Values::Nothing,
            DataType::Boolean => Values::Bool(array.as_boolean().values().clone()),
            DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values().clone()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values().clone()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values().clone()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt8 => Values::UInt8(array.as_primitive::<UInt8Type>().values().clone()),
            DataType::UInt16 => Values::UInt16(array.as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Values::UInt32(array.as_primitive::<UInt32Type>().values().clone()),
            DataType::UInt64 => Values::UInt64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Float32 => {
                Values::Float32(array.as_primitive::<Float32Type>().values().clone())
            }
            DataType::Float64 => {
                Values::Float64(array.as_primitive::<Float64Type>().values().clone())
            }
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Values::decimal(array),
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values().clone()),
            DataType::Date64 => {
                let ticks = array.as_primitive::<Date64Type>().values().clone();
                Values::DateTime { ticks, digits: 3, zone: None }
            }
            DataType::Timestamp(unit, zone) => Values::date_time(array, *unit, zone.as_deref())?,
            DataType::Utf8 => Values::Text(Texts::Utf8(array.as_string().clone())),
            DataType::LargeUtf8 => Values::Text(Texts::LargeUtf8(array.as_string().clone())),
            DataType::Utf8View => Values::Text(Texts::Utf8View(array.as_string_view().clone())),
            DataType::Binary => Values::Text(Texts::Binary(array.as_binary().clone())),
            DataType::LargeBinary => Values::Text(Texts::LargeBinary(array.as_binary().clone())),
            DataType::BinaryView => Values::Text(Texts::BinaryView(array.as_binary_view().clone())),
            DataType::FixedSizeBinary(_) => {
                Values::Text(Texts::Fixed(array.as_fixed_size_binary().clone()))
            }
            _ => Values::nested(array, nulls)?,
        })
    }

    fn decimal(array: &ArrayRef) -> Values {
        let wide = |values: Vec<i128>, precision, scale| Values::Decimal {
            values: values.into(),
            precision,
            scale,
        };
        match *array.data_type() {
            DataType::Decimal32(precision, scale) => {
                let values = array.as_primitive::<Decimal32Type>().values().iter();
                wide(values.map(|value| i128::from(*value)).collect(), precision, scale)
            }
            DataType::Decimal64(precision, scale) => {
                let values = array.as_primitive::<Decimal64Type>().values().iter();
                wide(values.map(|value| i128::from(*value)).collect(), precision, scale)
            }
            DataType::Decimal256(precision, scale) => {
                let values = array.as_primitive::<Decimal256Type>().values().clone();
                Values::Decimal256 { values, precision, scale }
            }
            DataType::Decimal128(precision, scale) => {
                let values = array.as_primitive::<Decimal128Type>().values().clone();
                Values::Decimal { values, precision, scale }
            }
            _ => Values::Nothing,
        }
    }

    fn date_time(
        array: &ArrayRef,
        unit: TimeUnit,
        zone: Option<&str>,
    ) -> Result<Values, ArrowError> {
        let (ticks, digits) = match unit {
            TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().values(), 0),
            TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().values(), 3),
            TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().values(), 6),
            TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().values(), 9),
        };
        let zone = zone.map(|zone| named_zone(zone).parse()).transpose()?;
        Ok(Values::DateTime { ticks: ticks.clone(), digits, zone })
    }

    fn nested(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Values, ArrowError> {
        let list = |rows, items: &ArrayRef| {
            Ok(Values::Array { rows, items: Box::new(Column::new(items, None)?) })
        };
        match array.data_type() {
            DataType::List(_) => {
                let array = array.as_list::<i32>();
                list(
                    rows(array.offsets().iter().map(|offset| *offset as usize), nulls),
                    array.values(),
                )
            }
            DataType::LargeList(_) => {
                let array = array.as_list::<i64>();
                list(
                    rows(array.offsets().iter().map(|offset| *offset as usize), nulls),
                    array.values(),
                )
            }
            DataType::FixedSizeList(..) => {
                let array = array.as_fixed_size_list();
                let size = usize::try_from(array.value_length()).unwrap_or(0);
                list(rows((0..=array.len()).map(|row| row * size), nulls), array.values())
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                let elements = columns.map(|column| Column::new(column, nulls));
                let named = match Type::of(array.data_type(), false) {
                    Type::Tuple(named) => named,
                    _ => Vec::new(),
                };
                Ok(Values::Tuple {
                    names: named.into_iter().filter_map(|(name, _)| name).collect(),
                    elements: elements.collect::<Result<_, _>>()?,
                })
            }
            DataType::Map(..) => {
                let array = array.as_map();
                let rows = rows(array.offsets().iter().map(|offset| *offset as usize), nulls);
                let keys = Box::new(Column::new(array.keys(), None)?);
                Ok(Values::Map { rows, keys, values: Box::new(Column::new(array.values(), None)?) })
            }
            other => Err(ArrowError::NotYetImplemented(format!("values of type {other}"))),
        }
    }
}

/// The range of items of each row; a null row has no items.
fn rows(
    offsets: impl Iterator<Item = usize> + Clone,
    nulls: Option<&NullBuffer>,
) -> Vec<Range<usize>> {
    let bounds = offsets.clone().zip(offsets.skip(1)).enumerate();
    let items = bounds.map(|(row, (start, end))| match nulls {
        Some(nulls) if nulls.is_null(row) => start..start,
        _ => start..end,
    });
    items.collect()
}

//! Converts values to a column's type exactly, or refuses them.
//!
//! INSERT and UPDATE supply values in the types of their expressions. A value that the column
//! cannot hold exactly is an error that names it, and is never changed silently: no fraction is
//! truncated, no time of day dropped from a date, no digit dropped from a decimal, no integer
//! rounded. An explicit CAST or round() in the statement has been applied before the value arrives
//! here. Floats are the usual exception: fractions are rounded to the nearest float. Columns of
//! integers and decimals refuse doubles from 2^53 on: such a double may stand for several integers,
//! and nobody can tell which was meant.

use std::fmt::Display;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Float32Array, Float64Array, StringArray};
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};

use super::columns::{intervals, uuid_texts, without_dictionary_nulls};
use super::sources::texts::{names_zone, parse_texts};
use super::text::{Text, number};
use super::timestamp_text;
use crate::block::null_array;
use crate::error::{Error, Result};
use crate::model::{Column, DataType, Physical};

/// Values that do not convert become null.
const SAFE: CastOptions<'static> = CastOptions { safe: true, format_options: FORMAT };
const FORMAT: arrow_cast::display::FormatOptions<'static> =
    arrow_cast::display::FormatOptions::new();

/// Converts `values` to the column's type. Arrays that have this type already are returned as they
/// are.
pub(crate) fn assign(column: &Column, values: &ArrayRef) -> Result<ArrayRef> {
    let to = column.data_type.to_arrow();
    let values = without_dictionary_nulls(values).map_err(|error| cast_error(column, &error))?;
    let plain = match values.data_type() {
        ArrowType::Dictionary(_, values_type)
            if DataType::from_arrow(values_type).as_ref() != Some(&column.data_type)
                && column.data_type != DataType::Uuid =>
        {
            convert(column, &values, values_type)?
        }
        _ => values,
    };
    let from = plain.data_type();
    if column.data_type == DataType::Interval
        && let Some(intervals) = intervals(&column.name, &plain)?
    {
        return Ok(intervals);
    }
    if column.data_type == DataType::Uuid && is_bytes(from) {
        return uuid_texts(&column.name, &plain);
    }
    if DataType::from_arrow(from).as_ref() == Some(&column.data_type) {
        return Ok(plain);
    }
    if *from == ArrowType::Float64 && is_exact(&column.data_type) {
        check_certain(column, plain.as_primitive())?;
    }
    match (from, &column.data_type) {
        (ArrowType::Null, data_type) => Ok(null_array(plain.len(), data_type)),
        (ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View, _) => {
            parse_strings(column, &plain)
        }
        (_, DataType::Utf8) if can_cast_types(from, &to) => {
            let texts = convert(column, &plain, &to)?;
            // Bytes that are not UTF-8.
            check_kept(column, &plain, |row| texts.is_valid(row)).map(|()| texts)
        }
        _ if from.is_temporal() != to.is_temporal() || !can_cast_types(from, &to) => {
            Err(no_conversion(column, from))
        }
        (
            ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64,
            DataType::Decimal { .. },
        ) => floats_to_decimals(column, &plain),
        (ArrowType::Float64, DataType::Float32) => floats_to_single(column, &plain),
        (
            ArrowType::Decimal32(..) | ArrowType::Decimal64(..),
            DataType::Float32 | DataType::Float64,
        ) => {
            let wide = ArrowType::Decimal128(38, decimal_scale(from));
            decimals_to_floats(column, &convert(column, &plain, &wide)?)
        }
        (ArrowType::Decimal128(..), DataType::Float32 | DataType::Float64) => {
            decimals_to_floats(column, &plain)
        }
        _ => round_trip(column, &plain, &to),
    }
}

/// Whether values are texts or bytes, or codes of them.
fn is_bytes(arrow: &ArrowType) -> bool {
    DataType::from_arrow(arrow).is_some_and(|known| known.physical() == Physical::Bytes)
}

/// From here on, a double may stand for several integers.
pub(crate) const LEAST_UNCERTAIN: f64 = number::MAX_EXACT_IN_F64 as f64;

/// Whether a type holds exact numbers.
pub(crate) fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal { .. })
}

fn check_certain(column: &Column, doubles: &Float64Array) -> Result<()> {
    let is_uncertain = |double: &f64| double.is_finite() && double.abs() >= LEAST_UNCERTAIN;
    match doubles.iter().flatten().find(is_uncertain) {
        None => Ok(()),
        Some(double) => Err(Error::InvalidInput(format!(
            "column '{0}' is {1}, and {double:?} is not exact: it is a double and may have lost \
             digits. An integer beside a number with a point keeps them as a DECIMAL; a CAST to \
             {1} takes the double as it is",
            column.name, column.data_type
        ))),
    }
}

fn convert(column: &Column, values: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    cast_with_options(values, to, &SAFE).map_err(|error| cast_error(column, &error))
}

#[cold]
fn cast_error(column: &Column, error: &ArrowError) -> Error {
    Error::InvalidInput(format!("column '{}' is {}: {error}", column.name, column.data_type))
}

/// Casts to the column's type and back, and refuses values that changed on the way.
fn round_trip(column: &Column, values: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    if !can_cast_types(to, values.data_type()) {
        return Err(no_conversion(column, values.data_type()));
    }
    let there = convert(column, values, to)?;
    let back = convert(column, &there, values.data_type())?;
    if equal(values, &back) {
        return Ok(there);
    }
    let row_is_same = |row: usize| {
        there.is_valid(row)
            && (is_zero(values, row) && is_zero(&back, row)
                || equal(&values.slice(row, 1), &back.slice(row, 1)))
    };
    check_kept(column, values, row_is_same).map(|()| there)
}

fn equal(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.to_data() == b.to_data()
}

/// Whether a float is zero, with either sign.
fn is_zero(values: &ArrayRef, row: usize) -> bool {
    match values.data_type() {
        ArrowType::Float64 => values.as_primitive::<Float64Type>().value(row) == 0.0,
        ArrowType::Float32 => values.as_primitive::<Float32Type>().value(row) == 0.0,
        _ => false,
    }
}

/// An error that names the first value that is not preserved.
fn check_kept(
    column: &Column,
    values: &ArrayRef,
    row_is_kept: impl Fn(usize) -> bool,
) -> Result<()> {
    match (0..values.len()).find(|row| values.is_valid(*row) && !row_is_kept(*row)) {
        Some(row) => Err(lossy_value(column, values, row)),
        None => Ok(()),
    }
}

#[cold]
fn lossy_value(column: &Column, values: &ArrayRef, row: usize) -> Error {
    let value = array_value_to_string(values, row).unwrap_or_default();
    let is_text =
        matches!(values.data_type(), ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
    let quote = if is_text { "'" } else { "" };
    Error::InvalidInput(format!(
        "column '{}' is {}, which does not hold {quote}{value}{quote} as it is; round() or CAST \
         say what to store instead",
        column.name, column.data_type
    ))
}

#[cold]
fn no_conversion(column: &Column, from: &ArrowType) -> Error {
    let from: &dyn Display = match DataType::from_arrow(from) {
        Some(known) => &known.to_string(),
        None => from,
    };
    Error::InvalidInput(format!(
        "column '{}' is {}, and {from} is not converted to that implicitly; use CAST",
        column.name, column.data_type
    ))
}

/// Parses strings as CSV of the column's type is parsed, and timestamps in all spellings that SQL
/// accepts.
fn parse_strings(column: &Column, values: &ArrayRef) -> Result<ArrayRef> {
    let texts = convert(column, values, &ArrowType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    let whole = |row: usize| match column.data_type {
        DataType::Float32 => keeps_digits(texts.value(row), number::float32),
        DataType::Float64 => keeps_digits(texts.value(row), number::float64),
        _ => true,
    };
    let row = match parse_texts(&column.data_type, texts) {
        Ok(parsed) => return check_kept(column, values, whole).map(|()| parsed),
        Err(row) => row,
    };
    if matches!(column.data_type, DataType::Timestamp { .. })
        && let Some(full) = timestamp_text::complete_all(texts)
    {
        return parse_strings(column, &(Arc::new(full) as ArrayRef));
    }
    let finest = match &column.data_type {
        DataType::Date => ArrowType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp { zone, .. } => {
            ArrowType::Timestamp(TimeUnit::Nanosecond, zone.clone())
        }
        DataType::Time { .. } => ArrowType::Time64(TimeUnit::Nanosecond),
        _ => return Err(lossy_value(column, values, row)),
    };
    let zoned = matches!(column.data_type, DataType::Timestamp { zone: Some(_), .. });
    let points = convert(column, values, &finest)?;
    let is_time = matches!(column.data_type, DataType::Time { .. });
    let row_is_kept = |row: usize| {
        let text = texts.value(row);
        points.is_valid(row)
            && (zoned || !names_zone(text))
            && (!is_time || timestamp_text::may_be_time(text))
    };
    check_kept(column, values, row_is_kept)?;
    round_trip(column, &points, &column.data_type.to_arrow())
}

/// Whether a float preserves the number that the text spells: integers down to the last digit.
fn keeps_digits<T>(text: &str, float: impl Fn(Text<'_>) -> Option<T>) -> bool {
    let digits = text.trim_ascii().trim_start_matches(['+', '-']).trim_start_matches('0');
    let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    !whole || float(digits.into()).is_some()
}

/// A float stands for the decimal that its shortest text spells: 0.7, not the exact value of its
/// bits.
fn floats_to_decimals(column: &Column, values: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Decimal { precision, scale } = column.data_type else {
        return Err(no_conversion(column, values.data_type()));
    };
    // The shortest digits of an integer need not be its exact ones.
    let digits = |double: f64, shortest: String| {
        if double.fract() == 0.0 { format!("{double:.0}") } else { shortest }
    };
    let shortest = |row: usize| match values.data_type() {
        ArrowType::Float32 => {
            let single = values.as_primitive::<Float32Type>().value(row);
            digits(f64::from(single), single.to_string())
        }
        ArrowType::Float64 => {
            let double = values.as_primitive::<Float64Type>().value(row);
            digits(double, double.to_string())
        }
        _ => array_value_to_string(values, row).unwrap_or_default(),
    };
    let one = |row: usize| number::decimal(shortest(row).as_str().into(), precision, scale);
    let all: Vec<Option<i128>> =
        (0..values.len()).map(|row| values.is_valid(row).then(|| one(row)).flatten()).collect();
    check_kept(column, values, |row| all.get(row).is_some_and(Option::is_some))?;
    let decimals = Decimal128Array::from(all).with_data_type(column.data_type.to_arrow());
    Ok(Arc::new(decimals))
}

/// Doubles as the nearest single floats, unless that turns a finite value infinite or a non-zero
/// one zero.
fn floats_to_single(column: &Column, values: &ArrayRef) -> Result<ArrayRef> {
    let doubles: &Float64Array = values.as_primitive();
    let fits = |row: usize| {
        let double = doubles.value(row);
        let single = double as f32;
        let whole = double.fract() == 0.0 && double.abs() <= number::MAX_EXACT_IN_F64 as f64;
        single.is_finite() == double.is_finite()
            && (single == 0.0) == (double == 0.0)
            && (!whole || f64::from(single) == double)
    };
    check_kept(column, values, fits)?;
    convert(column, values, &ArrowType::Float32)
}

/// Decimals as the nearest floats; integers must be exact.
fn decimals_to_floats(column: &Column, values: &ArrayRef) -> Result<ArrayRef> {
    let decimals: &Decimal128Array = values.as_primitive();
    let single = column.data_type == DataType::Float32;
    let unit = u32::try_from(decimals.scale()).ok().and_then(|scale| 10_i128.checked_pow(scale));
    let exact = |whole: i128| {
        if single { whole as f32 as i128 == whole } else { whole as f64 as i128 == whole }
    };
    let fits = |row: usize| match unit {
        Some(unit) if decimals.value(row) % unit == 0 => exact(decimals.value(row) / unit),
        Some(_) => true,
        None => false,
    };
    check_kept(column, values, fits)?;
    let text = |row: usize| decimals.is_valid(row).then(|| decimals.value_as_string(row));
    let texts = (0..decimals.len()).map(text);
    Ok(if single {
        Arc::new(
            texts.map(|text| fast_float2::parse::<f32, _>(text?).ok()).collect::<Float32Array>(),
        )
    } else {
        Arc::new(
            texts.map(|text| fast_float2::parse::<f64, _>(text?).ok()).collect::<Float64Array>(),
        )
    })
}

fn decimal_scale(data_type: &ArrowType) -> i8 {
    match data_type {
        ArrowType::Decimal32(_, scale)
        | ArrowType::Decimal64(_, scale)
        | ArrowType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "assign_tests.rs"]
mod tests;

//! Values that come for a column of intervals, in the layout that is stored.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    IntervalDayTimeType, IntervalMonthDayNano, IntervalYearMonthType,
};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, IntervalMonthDayNanoArray};
use arrow_schema::{DataType as ArrowType, IntervalUnit, TimeUnit};

use crate::error::{Error, Result};

const NANOS_A_DAY: i64 = 86_400_000_000_000;

/// Intervals of any layout, differences of timestamps, which become whole days and the rest, or
/// Parquet's 12 bytes; `None` for values of other types.
pub(crate) fn intervals(column: &str, values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let stored: Option<IntervalMonthDayNanoArray> = match values.data_type() {
        ArrowType::Interval(IntervalUnit::MonthDayNano) => return Ok(Some(Arc::clone(values))),
        ArrowType::Interval(IntervalUnit::YearMonth) => {
            let months = values.as_primitive::<IntervalYearMonthType>();
            Some(months.unary(|months| IntervalMonthDayNano::new(months, 0, 0)))
        }
        ArrowType::Interval(IntervalUnit::DayTime) => {
            let days = values.as_primitive::<IntervalDayTimeType>();
            let of = |millis: i32| i64::from(millis) * 1_000_000;
            Some(days.unary(|v| IntervalMonthDayNano::new(0, v.days, of(v.milliseconds))))
        }
        ArrowType::Duration(unit) => {
            let days = |count: i64, per_day: i64| {
                let rest = (count % per_day).checked_mul(NANOS_A_DAY / per_day)?;
                Some(IntervalMonthDayNano::new(0, i32::try_from(count / per_day).ok()?, rest))
            };
            let split = |count: i64, per_second: i64| {
                days(count, 86_400 * per_second).ok_or_else(|| too_long(column))
            };
            Some(match unit {
                TimeUnit::Second => values
                    .as_primitive::<DurationSecondType>()
                    .try_unary(|count| split(count, 1))?,
                TimeUnit::Millisecond => values
                    .as_primitive::<DurationMillisecondType>()
                    .try_unary(|count| split(count, 1_000))?,
                TimeUnit::Microsecond => values
                    .as_primitive::<DurationMicrosecondType>()
                    .try_unary(|count| split(count, 1_000_000))?,
                TimeUnit::Nanosecond => values
                    .as_primitive::<DurationNanosecondType>()
                    .try_unary(|count| split(count, 1_000_000_000))?,
            })
        }
        ArrowType::FixedSizeBinary(12) => Some(of_parquet(column, values.as_fixed_size_binary())?),
        _ => None,
    };
    Ok(stored.map(|stored| Arc::new(stored) as ArrayRef))
}

/// Parquet has months, days and milliseconds as unsigned little-endian numbers of 32 bits.
fn of_parquet(column: &str, values: &FixedSizeBinaryArray) -> Result<IntervalMonthDayNanoArray> {
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
        four.map_or(0, |four| u32::from_le_bytes(*four))
    };
    let one = |bytes: &[u8]| {
        let fits = |at| i32::try_from(number(bytes, at)).map_err(|_| too_long(column));
        let nanoseconds = i64::from(number(bytes, 8)) * 1_000_000;
        Ok::<_, Error>(IntervalMonthDayNano::new(fits(0)?, fits(4)?, nanoseconds))
    };
    values.iter().map(|bytes| bytes.map(one).transpose()).collect()
}

#[cold]
fn too_long(column: &str) -> Error {
    Error::InvalidInput(format!("column '{column}' has an interval of more days than it can hold"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        DurationMicrosecondArray, DurationSecondArray, Int64Array, IntervalDayTimeArray,
        IntervalYearMonthArray,
    };
    use arrow_cast::display::array_value_to_string;

    use super::*;

    fn shown(values: ArrayRef) -> Result<Vec<String>> {
        let stored = intervals("d", &values)?.unwrap();
        Ok((0..stored.len()).map(|row| array_value_to_string(&stored, row).unwrap()).collect())
    }

    #[test]
    fn values_of_all_layouts() {
        let months = IntervalYearMonthArray::from(vec![Some(-13), None]);
        assert_eq!(shown(Arc::new(months)).unwrap(), ["-13 mons", ""]);
        let days = vec![arrow_array::types::IntervalDayTime::new(2, -1)];
        let days = IntervalDayTimeArray::from(days);
        assert_eq!(shown(Arc::new(days)).unwrap(), ["2 days -0.001000000 secs"]);
        let micros = DurationMicrosecondArray::from(vec![90_000_000_000 - 1, -86_400_000_001]);
        let micros = shown(Arc::new(micros)).unwrap();
        assert_eq!(micros, ["1 days 59 mins 59.999999000 secs", "-1 days -0.000001000 secs"]);
        let bytes =
            [[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]];
        let bytes = FixedSizeBinaryArray::try_from_iter(bytes.into_iter()).unwrap();
        let bytes = shown(Arc::new(bytes)).unwrap();
        assert_eq!(
            bytes,
            ["1 mons 2 days 0.003000000 secs", "1193 hours 2 mins 47.295000000 secs"]
        );
        assert!(shown(Arc::new(DurationSecondArray::from(vec![i64::MAX]))).is_err());
        let negative = FixedSizeBinaryArray::try_from_iter([[255_u8; 12]].into_iter()).unwrap();
        assert!(shown(Arc::new(negative)).is_err());
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(intervals("d", &numbers).unwrap().is_none());
    }
}

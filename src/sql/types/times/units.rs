//! Units and zones of timestamps.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

use crate::sql::types::zones::is_utc;

pub(super) fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

pub(super) fn is_utc_or_none(zone: &Option<Arc<str>>) -> bool {
    zone.is_none() || is_utc(zone)
}

pub(super) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if nanoseconds(a) <= nanoseconds(b) { a } else { b }
}

/// The nanoseconds since 1970 of a timestamp; `None` for null and for other types.
pub(super) fn timestamp_nanoseconds(value: &ScalarValue) -> Option<i128> {
    let (value, unit) = match value {
        ScalarValue::TimestampSecond(value, _) => (value, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(value, _) => (value, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(value, _) => (value, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(value, _) => (value, TimeUnit::Nanosecond),
        _ => return None,
    };
    Some(i128::from((*value)?) * nanoseconds(unit))
}

/// The length of a unit in nanoseconds.
pub(super) fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// How many units a second has.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

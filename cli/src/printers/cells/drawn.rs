//! Values as charts draw them: numbers, and times in seconds.

use super::Values;
use crate::printers::time::offset_at;

impl Values<'_> {
    /// The value as a number to draw: days and times as seconds.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        let seconds = |value: i64, per_second: i64| {
            let whole = value.div_euclid(per_second) as f64;
            whole + value.rem_euclid(per_second) as f64 / per_second as f64
        };
        Some(match self {
            Values::Int8(values) => f64::from(*values.get(row)?),
            Values::Int16(values) => f64::from(*values.get(row)?),
            Values::Int32(values) => f64::from(*values.get(row)?),
            Values::Int64(values) => *values.get(row)? as f64,
            Values::UInt8(values) => f64::from(*values.get(row)?),
            Values::UInt16(values) => f64::from(*values.get(row)?),
            Values::UInt32(values) => f64::from(*values.get(row)?),
            Values::UInt64(values) => *values.get(row)? as f64,
            Values::Float16(values) => f64::from(*values.get(row)?),
            Values::Float32(values) => f64::from(*values.get(row)?),
            Values::Float64(values) => *values.get(row)?,
            Values::Decimal(values, scale) => {
                *values.get(row)? as f64 / 10_f64.powi(i32::from(*scale))
            }
            Values::Date(values) => f64::from(*values.get(row)?) * 86_400.0,
            Values::DateMillis(values) => seconds(*values.get(row)?, 1_000),
            Values::Timestamp { values, per_second, zone } => {
                let value = *values.get(row)?;
                let offset = |zone| offset_at(value.div_euclid(*per_second), zone);
                seconds(value, *per_second) + zone.as_ref().map_or(0, offset) as f64
            }
            Values::Time32 { values, per_second } => {
                seconds(i64::from(*values.get(row)?), *per_second)
            }
            Values::Time64 { values, per_second } => seconds(*values.get(row)?, *per_second),
            Values::Dictionary { keys, values } => values.number(*keys.get(row)?)?,
            _ => return None,
        })
    }
}

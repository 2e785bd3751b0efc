//! Types of timestamps, and where literals lie among their values.

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, lit};

use super::units::{finer, is_utc_or_none, nanoseconds};
use crate::ingest::timestamp_text;
use crate::sql::types::zones::UTC;

pub(super) struct TimestampType {
    unit: TimeUnit,
    zone: Option<Arc<str>>,
}

/// Where an instant lies among the timestamps of a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The last timestamp that is not after the instant; one less than the first of the type if all
    /// are after it.
    pub(super) floor: i128,
    /// Whether the floor is the instant itself.
    pub(super) exact: bool,
}

impl TimestampType {
    pub(super) fn from_expr(expr: &Expr, schema: &DFSchema) -> Option<TimestampType> {
        match expr.get_type(schema).ok()? {
            DataType::Timestamp(unit, zone) => Some(TimestampType { unit, zone }),
            _ => None,
        }
    }

    /// The finest of the timestamp types among these, if all of them have the same zone.
    pub(super) fn finest(types: &[DataType]) -> Option<TimestampType> {
        let mut finest: Option<TimestampType> = None;
        for data_type in types {
            let DataType::Timestamp(unit, zone) = data_type else { continue };
            let found =
                finest.get_or_insert_with(|| TimestampType { unit: *unit, zone: zone.clone() });
            if found.zone != *zone {
                return None;
            }
            found.unit = finer(found.unit, *unit);
        }
        finest
    }

    /// Where a literal lies among these timestamps; `None` if it is neither a date, a timestamp,
    /// nor the text of one.
    pub(super) fn position(&self, literal: &Expr) -> Option<Position> {
        let instant = self.instant(&constant(literal)?)?;
        let length = nanoseconds(self.unit);
        let (floor, exact) = (instant.div_euclid(length), instant.rem_euclid(length) == 0);
        Some(match (floor < i128::from(i64::MIN), floor > i128::from(i64::MAX)) {
            (true, _) => Position { floor: i128::from(i64::MIN) - 1, exact: false },
            (_, true) => Position { floor: i128::from(i64::MAX), exact: false },
            _ => Position { floor, exact },
        })
    }

    /// The nanoseconds since 1970 of a constant that meets these timestamps; `None` for a timestamp
    /// of the same unit, which needs no conversion.
    fn instant(&self, constant: &ScalarValue) -> Option<i128> {
        if let Some(text) = constant.try_as_str() {
            return self.instant_of_text(text?);
        }
        let days = |days: i128| is_utc_or_none(&self.zone).then_some(days);
        match constant {
            ScalarValue::Date32(Some(value)) => {
                days(i128::from(*value) * nanoseconds(TimeUnit::Second) * 86_400)
            }
            ScalarValue::Date64(Some(value)) => {
                days(i128::from(*value) * nanoseconds(TimeUnit::Millisecond))
            }
            ScalarValue::TimestampSecond(Some(value), zone) => {
                self.instant_of(*value, TimeUnit::Second, zone)
            }
            ScalarValue::TimestampMillisecond(Some(value), zone) => {
                self.instant_of(*value, TimeUnit::Millisecond, zone)
            }
            ScalarValue::TimestampMicrosecond(Some(value), zone) => {
                self.instant_of(*value, TimeUnit::Microsecond, zone)
            }
            ScalarValue::TimestampNanosecond(Some(value), zone) => {
                self.instant_of(*value, TimeUnit::Nanosecond, zone)
            }
            _ => None,
        }
    }

    /// A text without an offset is a local time in the zone of the timestamps. Beside timestamps
    /// without a zone, an offset means nothing.
    fn instant_of_text(&self, text: &str) -> Option<i128> {
        let zone: Tz = self.zone.as_deref().unwrap_or(UTC).parse().ok()?;
        let text = match self.zone {
            Some(_) => timestamp_text::complete(text),
            None => timestamp_text::local(text),
        };
        let instant = string_to_datetime(&zone, &text).ok()?;
        Some(
            i128::from(instant.timestamp()) * nanoseconds(TimeUnit::Second)
                + i128::from(instant.timestamp_subsec_nanos()),
        )
    }

    fn instant_of(&self, value: i64, unit: TimeUnit, zone: &Option<Arc<str>>) -> Option<i128> {
        let are_instants = self.zone.is_some() && zone.is_some();
        let are_comparable = are_instants || is_utc_or_none(&self.zone) && is_utc_or_none(zone);
        (unit != self.unit && are_comparable).then(|| i128::from(value) * nanoseconds(unit))
    }

    /// Casts dates to such timestamps; `None` for nanoseconds, which do not hold all dates.
    pub(super) fn cast_dates(&self, dates: &Expr, data_type: &DataType) -> Option<Expr> {
        let unit = match data_type {
            DataType::Date64 => finer(self.unit, TimeUnit::Millisecond),
            _ => self.unit,
        };
        let to = DataType::Timestamp(unit, self.zone.clone());
        (unit != TimeUnit::Nanosecond).then(|| cast(dates.clone(), to))
    }

    pub(super) fn scalar(&self, value: Option<i64>) -> ScalarValue {
        let zone = self.zone.clone();
        match self.unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
        }
    }

    pub(super) fn literal(&self, value: i128) -> Option<Expr> {
        Some(lit(self.scalar(Some(i64::try_from(value).ok()?))))
    }

    /// Compares such timestamps with an instant. A comparison that is always or never true becomes
    /// one with the last timestamp of the type, so that it is still null for null.
    pub(super) fn compare(&self, timestamps: Expr, op: Operator, position: &Position) -> Expr {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        const NEVER: (Operator, i64) = (Gt, i64::MAX);
        const ALWAYS: (Operator, i64) = (LtEq, i64::MAX);
        let (op, value) = match (op, i64::try_from(position.floor)) {
            (IsDistinctFrom | IsNotDistinctFrom, _) if !position.exact => {
                return lit(op == IsDistinctFrom);
            }
            (Eq, _) if !position.exact => NEVER,
            (NotEq, _) if !position.exact => ALWAYS,
            (Lt | LtEq, Err(_)) => NEVER,
            (_, Err(_)) => ALWAYS,
            (Lt, Ok(floor)) if !position.exact => (LtEq, floor),
            (GtEq, Ok(floor)) if !position.exact => (Gt, floor),
            (op, Ok(floor)) => (op, floor),
        };
        Expr::BinaryExpr(BinaryExpr::new(
            Box::new(timestamps),
            op,
            Box::new(lit(self.scalar(Some(value)))),
        ))
    }
}

/// The value of a literal, or of a text that is cast: `DATE '2024-01-01'`.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    let (operand, field) = match expr {
        Expr::Literal(value, _) => return Some(value.clone()),
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return None,
    };
    match operand.as_ref() {
        // DataFusion reports a text that cannot be cast.
        Expr::Literal(value, _) if value.try_as_str().is_some() => {
            value.cast_to(field.data_type()).ok()
        }
        _ => None,
    }
}

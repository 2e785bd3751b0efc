//! Conversions between local times and instants.
//!
//! Where this stands on the road of a query: after parsing, `x AT TIME ZONE 'z'` becomes
//! `timezone('z', x)`, as in PostgreSQL: it turns a local time in that zone (a timestamp without a
//! zone) into an instant (a timestamp with a zone), and an instant into the local time. In
//! DataFusion (55.2) both are casts to a timestamp of that zone, which is an instant either way. A
//! local time that occurs twice means the second instant; one that is skipped is converted with the
//! offset before the change.
//!
//! An analyzer rule does the same for columns of files with a zone other than UTC if they meet
//! dates or timestamps without a zone: Arrow takes a date for a day in UTC, and casts to local
//! times in UTC.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::temporal_conversions::as_datetime;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};
use chrono::{FixedOffset, MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::common::cast::{as_primitive_array, as_string_array};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, exec_datafusion_err, internal_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr as SqlExpr, TimezoneInfo, VisitMut,
};

use crate::sql::walks::{
    any_expression, function_call, rewrite_plan, rewrite_up, rewrite_where, visit_expressions_mut,
};

/// The zone of instants.
pub(in crate::sql) const UTC: &str = "UTC";
/// The name of the function, as in PostgreSQL and DuckDB.
const TIMEZONE: &str = "timezone";
/// The functions that give the present instant.
const NOW: [&str; 3] = ["now", "current_timestamp", "get_current_timestamp"];

/// Writes `AT TIME ZONE` as a function, in an expression or in anything that contains expressions.
pub(in crate::sql) fn rewrite_at_time_zone(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let SqlExpr::AtTimeZone { timestamp, time_zone } = expr {
            let mut time = timestamp.as_ref().clone();
            if is_now(&time) {
                time = SqlExpr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(SqlExpr::Nested(Box::new(time))),
                    data_type: SqlType::Timestamp(None, TimezoneInfo::Tz),
                    array: false,
                    format: None,
                };
            }
            *expr = function_call(TIMEZONE, vec![time_zone.as_ref().clone(), time]);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Whether an expression is the present instant, or so long before or after it. Its value is a
/// local time in UTC while the session has no zone.
fn is_now(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Nested(inner) => is_now(inner),
        SqlExpr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } => {
            is_now(left) && !is_now(right)
        }
        SqlExpr::Function(call) => {
            let name = call.name.to_string();
            NOW.iter().any(|known| name.eq_ignore_ascii_case(known))
        }
        _ => false,
    }
}

/// `timezone(zone, timestamp)`.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Timezone { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Timezone {
    signature: Signature,
}

impl ScalarUDFImpl for Timezone {
    fn name(&self) -> &'static str {
        TIMEZONE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        let [zone, time] = arguments else {
            return plan_err!("{TIMEZONE}() takes a zone and a timestamp");
        };
        if !matches!(
            zone,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
        ) {
            return plan_err!(
                "a time zone is a text such as 'Europe/Brussels' or '+02:00', not {zone}"
            );
        }
        let time = match time {
            DataType::Timestamp(..) => time.clone(),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            other => {
                return plan_err!(
                    "AT TIME ZONE takes a timestamp, not {other}; cast it: x::timestamp"
                );
            }
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments {
            [_, DataType::Timestamp(unit, None)] => {
                Ok(DataType::Timestamp(*unit, Some(UTC.into())))
            }
            [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
            _ => plan_err!("{TIMEZONE}() takes a zone and a timestamp"),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_scalar = given.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let [zones, times] = ColumnarValue::values_to_arrays(&given.args)?
            .try_into()
            .map_err(|_| exec_datafusion_err!("{TIMEZONE}() takes a zone and a timestamp"))?;
        let zones = as_string_array(&zones)?;
        let converted = match times.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                convert::<TimestampSecondType>(zones, &times)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                convert::<TimestampMillisecondType>(zones, &times)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                convert::<TimestampMicrosecondType>(zones, &times)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                convert::<TimestampNanosecondType>(zones, &times)
            }
            other => internal_err!("{TIMEZONE}() of {other}"),
        }?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&converted, 0)?),
            false => ColumnarValue::Array(converted),
        })
    }
}

/// Converts instants to local times, and local times to instants.
fn convert<T: ArrowTimestampType>(
    zones: &StringArray,
    times: &ArrayRef,
) -> DataFusionResult<ArrayRef> {
    let are_instants = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let times = as_primitive_array::<T>(times)?;
    let mut last_zone: Option<(&str, Tz)> = None;
    let mut values = Vec::with_capacity(times.len());
    for (name, time) in zones.iter().zip(times) {
        let (Some(name), Some(time)) = (name, time) else {
            values.push(None);
            continue;
        };
        let zone = match last_zone {
            Some((last, zone)) if last == name => zone,
            _ => parse_zone(name)?,
        };
        last_zone = Some((name, zone));
        let converted = as_datetime::<T>(time).and_then(|time| match are_instants {
            true => time.checked_add_offset(zone.offset_from_utc_datetime(&time).fix()),
            false => time.checked_sub_offset(offset_at(zone, time)?),
        });
        let converted = converted.and_then(|time| T::from_naive_datetime(time, None));
        values.push(Some(converted.ok_or_else(|| {
            exec_datafusion_err!(
                "{time} is a timestamp at the end of what its unit holds, and not one in {name}"
            )
        })?));
    }
    let converted = PrimitiveArray::<T>::from_iter(values);
    Ok(match are_instants {
        true => Arc::new(converted),
        false => Arc::new(converted.with_timezone(UTC)),
    })
}

/// The zone of a name, in any case of letters.
fn parse_zone(name: &str) -> DataFusionResult<Tz> {
    let known = |name: &str| name.parse().ok();
    let zone = known(name).or_else(|| known(as_written(name)?));
    zone.ok_or_else(|| {
        exec_datafusion_err!(
            "there is no time zone '{name}'; zones are like 'Europe/Brussels' or '+02:00'"
        )
    })
}

/// A zone as the database of zones writes it; `Z` is UTC.
fn as_written(name: &str) -> Option<&'static str> {
    if name.eq_ignore_ascii_case("z") {
        return Some(UTC);
    }
    let mut zones = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    zones.find(|zone| zone.eq_ignore_ascii_case(name))
}

/// The offset of a zone from UTC at a local time.
fn offset_at(zone: Tz, local: NaiveDateTime) -> Option<FixedOffset> {
    match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => {
            Some(offset.fix())
        }
        MappedLocalTime::None => {
            // No zone has ever skipped more than a day.
            let before = local.checked_sub_signed(TimeDelta::days(1))?;
            Some(zone.offset_from_local_datetime(&before).latest()?.fix())
        }
    }
}

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct LocalTimes;

impl AnalyzerRule for LocalTimes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, cast_through_local_time))?
            .data)
    }

    fn name(&self) -> &'static str {
        "local_times"
    }
}

/// Whether an expression is a cast to local times, or to instants in a zone other than UTC.
fn is_candidate(expr: &Expr) -> bool {
    let Expr::Cast(cast) = expr else { return false };
    matches!(cast.field.data_type(), DataType::Timestamp(_, zone) if !is_utc(zone))
}

pub(in crate::sql) fn is_utc(zone: &Option<Arc<str>>) -> bool {
    matches!(zone.as_deref(), Some(UTC | "+00:00"))
}

/// Makes the casts of an expression between times with and without a zone use local times in that
/// zone.
pub(in crate::sql) fn cast_through_local_time(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| {
        let Expr::Cast(Cast { expr, field }) = expr else { return Ok(Transformed::no(expr)) };
        // An expression without a type here, such as a filter of a scan, has been rewritten before
        // or will be refused by DataFusion.
        let Ok(from) = expr.get_type(schema) else {
            return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
        };
        let converted = match (from, field.data_type()) {
            (
                DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None),
                DataType::Timestamp(unit, zone),
            ) if !is_utc(zone) => {
                let local = Expr::Cast(Cast::new(expr.clone(), DataType::Timestamp(*unit, None)));
                zone.as_deref().map(|zone| at_time_zone(zone, local))
            }
            (DataType::Timestamp(_, zone), DataType::Timestamp(_, None)) if !is_utc(&zone) => {
                zone.map(|zone| at_time_zone(&zone, expr.as_ref().clone()))
            }
            _ => None,
        };
        Ok(match converted {
            Some(time) => Transformed::yes(Expr::Cast(Cast { expr: Box::new(time), field })),
            None => Transformed::no(Expr::Cast(Cast { expr, field })),
        })
    })
}

fn at_time_zone(zone: &str, time: Expr) -> Expr {
    function().call(vec![lit(zone), time])
}

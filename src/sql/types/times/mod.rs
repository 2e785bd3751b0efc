//! Compares timestamps with dates and texts without losing digits, and without an end in 2262.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) casts timestamps of any unit to nanoseconds if they meet a text or a date. Nanoseconds
//! end in 2262: `valid_to < '9999-12-31'` overflows. If timestamps meet a literal of a finer unit,
//! it truncates the literal: `ts = TIMESTAMP '2024-01-01 00:00:00.000000001'` is true for a
//! timestamp in microseconds.
//!
//! Here timestamps keep their unit, so that zone maps can still prune. A literal that the unit
//! holds becomes one of that unit. With any other literal, the comparison becomes one with the last
//! value before it, or is true for all values or for none. A date becomes a timestamp in the unit
//! of the other side. A column of dates that meets nanoseconds is left to DataFusion.
//!
//! - [`comparison`], [`timestamps`], [`units`]: these comparisons.
//! - [`literals`]: what literals of timestamps may say, corrected after parsing.
//! - [`texts`]: other texts that become timestamps.
//! - [`as_text`]: texts that are made of timestamps, a rule of its own.
//! - [`chosen`]: timestamps of several units in CASE and UNION, a rule of its own.
//! - [`coarser`]: casts to coarser units, a rule of its own, too.
//! - [`time_of_day`]: times of day, which the rule casts to one unit, too.
//! - [`means`]: means and percentiles of times, a rule of its own.
//! - [`calendar`], [`bins`]: `date_trunc` and `date_bin`, without an end in 2262.
//! - [`functions`]: `now()` and `to_timestamp` in microseconds, and `generate_series`, which only
//!   takes nanoseconds.

mod as_text;
mod bins;
mod calendar;
mod chosen;
mod coarser;
mod comparison;
mod functions;
mod literals;
mod means;
mod texts;
mod time_of_day;
mod timestamps;
mod units;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, ScalarUDF, cast,
};
use datafusion::optimizer::AnalyzerRule;

use self::texts::Meaning;
use self::units::is_timestamp;
use crate::sql::walks::{
    any_expression, any_node, is_comparison, rewrite_plan, rewrite_up, rewrite_where,
};

pub(in crate::sql) use as_text::{PLAIN, PRINTED, TimestampTexts};
pub(in crate::sql) use calendar::{date_of_days, days_to_month};
pub(in crate::sql) use chosen::FinestUnits;
pub(in crate::sql) use coarser::CoarserUnits;
pub(in crate::sql) use functions::series;
pub(in crate::sql) use literals::correct_literals;
pub(in crate::sql) use means::{MeansOfTimes, mean_type};
#[cfg(feature = "cluster")]
pub(in crate::sql) use texts::{WRITE_OUT, WRITE_OUT_LOCAL, WRITE_OUT_TIME};
pub(in crate::sql) use time_of_day::TimeOfDayComparison;

/// Immutable functions: their results depend only on their arguments.
pub(in crate::sql) fn immutable_functions() -> [ScalarUDF; 3] {
    [bins::function(), calendar::function(), functions::to_timestamp()]
}

/// The only one of them that partition keys use, too.
pub(in crate::sql) fn date_trunc() -> ScalarUDF {
    calendar::function()
}

/// Stable functions: their results depend on when the statement began.
pub(in crate::sql) fn stable_functions() -> [ScalarUDF; 2] {
    [functions::now(), time_of_day::current_time()]
}

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct Times;

impl AnalyzerRule for Times {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_times =
            any_expression(&plan, may_make_time) || any_node(&plan, |node| has_time(node.schema()));
        if !has_times {
            return Ok(plan);
        }
        let rewrite = |expr: Expr, schema: &DFSchema| {
            write_out_texts(expr, schema)?.transform_data(|expr| compare_exactly(expr, schema))
        };
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, rewrite))?.data)
    }

    fn name(&self) -> &'static str {
        "times"
    }
}

/// Whether an expression may be a time, a timestamp or a date although none of its columns is.
fn may_make_time(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => is_time_or_date(&value.data_type()),
        Expr::Cast(cast) => is_time_or_date(cast.field.data_type()),
        Expr::TryCast(cast) => is_time_or_date(cast.field.data_type()),
        Expr::ScalarFunction(function) => may_return_times(function.name()),
        _ => false,
    }
}

/// Whether a function may return timestamps or times of day although its arguments are none.
fn may_return_times(function: &str) -> bool {
    const NAMES: [&str; 9] = [
        "current_time",
        "date_bin",
        "date_trunc",
        "from_unixtime",
        "make_time",
        "now",
        "timezone",
        "to_local_time",
        "to_time",
    ];
    NAMES.contains(&function) || function.starts_with("to_timestamp") || function.contains("cast")
}

/// Whether there is a column of times, timestamps or dates, or a nested one that may contain some.
fn has_time(schema: &DFSchema) -> bool {
    schema
        .fields()
        .iter()
        .any(|field| is_time_or_date(field.data_type()) || field.data_type().is_nested())
}

fn is_time_or_date(data_type: &DataType) -> bool {
    is_timestamp(data_type) || time_of_day::is_time(data_type) || *data_type == DataType::Date32
}

/// Whether an expression may compare timestamps or times of day, choose among them, or make a
/// timestamp of something.
fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            Meaning::in_type(field.data_type()).is_some()
        }
        Expr::ScalarFunction(function) => {
            time_of_day::has_uniform_arguments(function) || may_return_times(function.name())
        }
        Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => true,
        _ => false,
    }
}

fn is_microseconds(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// Corrects comparisons of timestamps and times of day in an expression whose types are not coerced
/// yet.
pub(in crate::sql) fn compare_exactly(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let is_unified = unify_times_of_day(&mut expr, schema);
        let mut rewritten = rewrite_timestamps(expr, schema);
        rewritten.transformed |= is_unified;
        Ok(rewritten)
    })
}

/// Writes out the texts that become timestamps in an expression whose types are not coerced yet.
/// Partition keys take texts as they are, as their files do.
pub(in crate::sql) fn write_out_texts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let changed = write_out_texts_of(&mut expr, schema);
        Ok(Transformed::new_transformed(expr, changed))
    })
}

/// Writes out the texts that become timestamps in this expression, not in its parts. Returns
/// whether one has changed.
fn write_out_texts_of(expr: &mut Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            Meaning::in_type(field.data_type())
                .is_some_and(|meaning| texts::write_out(expr, meaning, schema))
        }
        Expr::ScalarFunction(function) => texts::timestamp_argument(function)
            .is_some_and(|(text, meaning)| texts::write_out(text, meaning, schema)),
        other => compared_sides(other)
            .is_some_and(|sides| texts::write_out_beside_timestamps(sides, schema)),
    }
}

/// Casts times of day of several units to one. Returns whether there were any.
fn unify_times_of_day(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is_unified = match expr {
        Expr::Case(choice) => time_of_day::unify_results(choice, schema),
        Expr::ScalarFunction(function) if time_of_day::has_uniform_arguments(function) => {
            time_of_day::unify_units(function.args.iter_mut().collect(), schema)
        }
        _ => false,
    };
    is_unified | compared_sides(expr).is_some_and(|sides| time_of_day::unify_units(sides, schema))
}

/// The expressions that an expression compares with each other.
fn compared_sides(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            Some(vec![left, right])
        }
        Expr::Between(Between { expr, low, high, .. }) => Some(vec![expr, low, high]),
        Expr::InList(test) => {
            Some(std::iter::once(&mut *test.expr).chain(&mut test.list).collect())
        }
        Expr::Case(choice) => {
            let whens = choice.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
            Some(std::iter::once(choice.expr.as_deref_mut()?).chain(whens).collect())
        }
        _ => None,
    }
}

fn rewrite_timestamps(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(compared) if is_comparison(compared.op) => {
            comparison::binary(compared, schema)
        }
        Expr::Between(test) => comparison::between(test, schema),
        Expr::InList(test) => comparison::in_list(test, schema),
        Expr::Case(choice) if choice.expr.is_some() => comparison::case(choice, schema),
        Expr::Cast(cast) if is_microseconds(cast.field.data_type()) => {
            integer_as_seconds(cast, schema)
        }
        other => Transformed::no(other),
    }
}

/// An integer that is cast to TIMESTAMP counts seconds, as DataFusion has it for nanoseconds.
fn integer_as_seconds(mut to: Cast, schema: &DFSchema) -> Transformed<Expr> {
    let is_integer = to.expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
    if is_integer && let DataType::Timestamp(_, zone) = to.field.data_type() {
        let seconds = DataType::Timestamp(TimeUnit::Second, zone.clone());
        to.expr = Box::new(cast(std::mem::take(&mut *to.expr), seconds));
    }
    Transformed::new_transformed(Expr::Cast(to), is_integer)
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};
    use datafusion::prelude::{col, lit};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name, of| Field::new(name, of, true);
        let stamps = |unit| DataType::Timestamp(unit, None);
        let fields = vec![
            field("s", stamps(TimeUnit::Second)),
            field("us", stamps(TimeUnit::Microsecond)),
            field("ns", stamps(TimeUnit::Nanosecond)),
            field("z", DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into()))),
            field("d", DataType::Date32),
            field("i", DataType::Int64),
        ];
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    fn rewritten(expr: Expr) -> String {
        compare_exactly(expr, &schema()).unwrap().data.to_string()
    }

    fn day(text: &str) -> Expr {
        cast(lit(text), DataType::Date32)
    }

    #[test]
    fn columns_keep_their_unit() {
        let end = "253402214400000000";
        assert_eq!(
            rewritten(col("us").lt(lit("9999-12-31"))),
            format!("us < TimestampMicrosecond({end}, None)")
        );
        assert_eq!(
            rewritten(day("9999-12-31").gt(col("us"))),
            format!("us < TimestampMicrosecond({end}, None)")
        );
        assert_eq!(
            rewritten(col("s").gt_eq(lit("1970-01-01 00:00:01.5"))),
            "s > TimestampSecond(1, None)"
        );
        assert_eq!(
            rewritten(col("s").lt(lit("1969-12-31 23:59:59.5"))),
            "s <= TimestampSecond(-1, None)"
        );
        let digits = "1970-01-01 00:00:00.000000001";
        assert_eq!(
            rewritten(col("us").eq(lit(digits))),
            "us > TimestampMicrosecond(9223372036854775807, None)"
        );
        assert_eq!(rewritten(col("ns").eq(lit(digits))), "ns = TimestampNanosecond(1, None)");
        let fine = cast(lit(digits), DataType::Timestamp(TimeUnit::Nanosecond, None));
        assert_eq!(rewritten(col("us").lt(fine.clone())), "us <= TimestampMicrosecond(0, None)");
        assert_eq!(rewritten(col("ns").lt(fine.clone())), col("ns").lt(fine).to_string());
        assert_eq!(
            rewritten(col("us").lt(lit("no time"))),
            col("us").lt(lit("no time")).to_string()
        );
    }

    #[test]
    fn literals_beyond_nanoseconds_are_compared() {
        let last = "TimestampNanosecond(9223372036854775807, None)";
        assert_eq!(rewritten(col("ns").lt(lit("9999-12-31"))), format!("ns <= {last}"));
        assert_eq!(rewritten(col("ns").gt_eq(day("9999-12-31"))), format!("ns > {last}"));
        assert_eq!(rewritten(col("ns").gt(day("0001-01-01"))), format!("ns <= {last}"));
        assert_eq!(rewritten(col("ns").not_eq(day("0001-01-01"))), format!("ns <= {last}"));
        let list = |members| rewritten(col("ns").in_list(members, false));
        let members = vec![lit("9999-12-31"), lit("1970-01-01"), col("us")];
        assert_eq!(list(members), "ns IN ([TimestampNanosecond(0, None), us])");
        assert_eq!(list(vec![lit("9999-12-31")]), format!("ns > {last}"));
        assert_eq!(
            rewritten(col("ns").between(day("1970-01-01"), lit("9999-12-31"))),
            format!("ns >= TimestampNanosecond(0, None) AND ns <= {last}")
        );
        assert_eq!(rewritten(col("ns").lt(col("d"))), "ns < d");
    }

    #[test]
    fn dates_become_timestamps() {
        assert_eq!(rewritten(col("d").gt(col("us"))), "CAST(d AS Timestamp(µs)) > us");
        assert_eq!(rewritten(col("d").eq(col("s"))), "CAST(d AS Timestamp(s)) = s");
        assert_eq!(
            rewritten(col("d").between(lit("1970-01-01"), col("us"))),
            "CAST(d AS Timestamp(µs)) BETWEEN TimestampMicrosecond(0, None) AND us"
        );
        assert_eq!(
            rewritten(col("d").lt(lit("1970-01-01"))),
            col("d").lt(lit("1970-01-01")).to_string()
        );
        // A text without an offset is a local time in the zone of the column.
        assert_eq!(
            rewritten(col("z").eq(lit("1970-01-01 02:00:00"))),
            "z = TimestampMicrosecond(0, Some(\"+02:00\"))"
        );
        assert_eq!(
            rewritten(col("z").eq(day("1970-01-01"))),
            format!("z = CAST({} AS {})", day("1970-01-01"), "Timestamp(µs, \"+02:00\")")
        );
    }

    #[test]
    fn integers_are_seconds() {
        let to = |unit| cast(col("i"), DataType::Timestamp(unit, None));
        assert_eq!(
            rewritten(to(TimeUnit::Microsecond)),
            cast(to(TimeUnit::Second), DataType::Timestamp(TimeUnit::Microsecond, None))
                .to_string()
        );
        assert_eq!(rewritten(to(TimeUnit::Millisecond)), to(TimeUnit::Millisecond).to_string());
    }
}

//! Timestamps beside dates and texts, compared without a loss of digits and without an end in 2262.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) makes timestamps of any unit nanoseconds where they meet a text or a date, which end in
//! 2262: `valid_to < '9999-12-31'` is an overflow. Beside a literal of a finer unit, it cuts the
//! literal's digits off: `ts = TIMESTAMP '2024-01-01 00:00:00.000000001'` is true of a timestamp of
//! microseconds.
//!
//! Here timestamps keep their unit, so that what is known of a column can still tell which blocks
//! to skip. A literal that its unit holds becomes one of that unit; beside any other, the
//! comparison is the one with the last value before it, or is true of all values or none. A date
//! becomes a timestamp of the unit of the other side. A column of dates beside nanoseconds is left
//! to DataFusion.
//!
//! - [`literals`]: what literals of timestamps may say, which is corrected after parsing.
//! - [`texts`]: other texts that become timestamps.
//! - [`time_of_day`]: times of day, which the rule brings to one unit too.
//! - [`calendar`], [`bins`]: `date_trunc` and `date_bin`, without an end in 2262.
//! - [`functions`]: `now()` and `to_timestamp` in microseconds, and `generate_series`, which knows
//!   nanoseconds only.

mod bins;
mod calendar;
mod time_of_day;
mod functions;
mod literals;
mod texts;

use std::sync::Arc;

use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, InList};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::ingest::moments;
use crate::sql::types::zones::{UTC, is_utc};
use crate::sql::walks::{
    any_expression, any_node, is_comparison, rewrite_plan, rewrite_up, rewrite_where,
};

pub(in crate::sql) use functions::series;
pub(in crate::sql) use literals::correct_literals;
pub(in crate::sql) use time_of_day::TimeOfDayComparison;

/// The functions that give the same whenever they are asked.
pub(in crate::sql) fn immutable_functions() -> [ScalarUDF; 3] {
    [bins::function(), calendar::function(), functions::to_timestamp()]
}

/// The one of them that keys of partitions have, too.
pub(in crate::sql) fn date_trunc() -> ScalarUDF {
    calendar::function()
}

/// Those that do not.
pub(in crate::sql) fn stable_functions() -> [ScalarUDF; 2] {
    [functions::now(), time_of_day::current_time()]
}

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct Times;

impl AnalyzerRule for Times {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_times =
            any_expression(&plan, makes_time) || any_node(&plan, |node| has_time(node.schema()));
        if !has_times {
            return Ok(plan);
        }
        let rewrite = |expr: Expr, schema: &DFSchema| {
            write_out_texts(expr, schema)?.transform_data(|expr| compare_exactly(expr, schema))
        };
        Ok(rewrite_plan(plan, |node| rewrite_where(node, concerns, rewrite))?.data)
    }

    fn name(&self) -> &'static str {
        "times"
    }
}

/// Whether an expression may be a timestamp or a time of day where none of its columns is.
fn makes_time(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => is_either(&value.data_type()),
        Expr::Cast(cast) => is_either(cast.field.data_type()),
        Expr::TryCast(cast) => is_either(cast.field.data_type()),
        Expr::ScalarFunction(function) => makes_times(function.name()),
        _ => false,
    }
}

/// Whether a function may give timestamps or times of day where it is given none.
fn makes_times(function: &str) -> bool {
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

/// Whether there is a column of timestamps or times of day, or one that may have some inside.
fn has_time(schema: &DFSchema) -> bool {
    schema
        .fields()
        .iter()
        .any(|field| is_either(field.data_type()) || field.data_type().is_nested())
}

fn is_either(data_type: &DataType) -> bool {
    is_timestamp(data_type) || time_of_day::is_time(data_type)
}

fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

/// Whether an expression may compare timestamps or times of day, choose among these, or make a
/// timestamp of something.
fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Cast(cast) => is_timestamp(cast.field.data_type()),
        Expr::TryCast(cast) => is_timestamp(cast.field.data_type()),
        Expr::ScalarFunction(function) => {
            time_of_day::takes_one_type(function) || makes_times(function.name())
        }
        Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => true,
        _ => false,
    }
}

fn is_microseconds(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// An expression, whose types are not coerced yet, with timestamps compared as they are.
pub(in crate::sql) fn compare_exactly(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let of_one_type = times_of_one_type(&mut expr, schema);
        let mut settled = expression(expr, schema);
        settled.transformed |= of_one_type;
        Ok(settled)
    })
}

/// The same before, with texts written out that become timestamps. Keys of partitions take them as
/// they are, as their files do.
pub(in crate::sql) fn write_out_texts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let changed = write_out_texts_of(&mut expr, schema);
        Ok(Transformed::new_transformed(expr, changed))
    })
}

/// Writes out the texts that become timestamps here. Says whether one has changed.
fn write_out_texts_of(expr: &mut Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Cast(cast) if is_timestamp(cast.field.data_type()) => {
            texts::write_out(&mut cast.expr, schema)
        }
        Expr::TryCast(cast) if is_timestamp(cast.field.data_type()) => {
            texts::write_out(&mut cast.expr, schema)
        }
        Expr::ScalarFunction(function) => {
            texts::read_by(function).is_some_and(|text| texts::write_out(text, schema))
        }
        other => compared(other).is_some_and(|sides| texts::beside_timestamps(sides, schema)),
    }
}

/// Brings times of day of several units to one. Says whether there were any.
fn times_of_one_type(expr: &mut Expr, schema: &DFSchema) -> bool {
    let chosen = match expr {
        Expr::Case(choice) => time_of_day::chosen_to_one_type(choice, schema),
        Expr::ScalarFunction(function) if time_of_day::takes_one_type(function) => {
            time_of_day::to_one_type(function.args.iter_mut().collect(), schema)
        }
        _ => false,
    };
    chosen | compared(expr).is_some_and(|sides| time_of_day::to_one_type(sides, schema))
}

/// What an expression compares with each other.
fn compared(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
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

fn expression(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(compared) if is_comparison(compared.op) => binary(compared, schema),
        Expr::Between(test) => between(test, schema),
        Expr::InList(test) => in_list(test, schema),
        Expr::Case(choice) if choice.expr.is_some() => case(choice, schema),
        Expr::Cast(cast) if is_microseconds(cast.field.data_type()) => of_seconds(cast, schema),
        other => Transformed::no(other),
    }
}

/// `a < b` and the like.
fn binary(compared: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { mut left, op, mut right } = compared;
    if let Some(of) = Timestamps::of(&left, schema)
        && let Some(place) = of.place(&right)
    {
        return Transformed::yes(of.compare(*left, op, &place));
    }
    if let Some(of) = Timestamps::of(&right, schema)
        && let Some(place) = of.place(&left)
    {
        // What cannot be swapped is the same both ways.
        return Transformed::yes(of.compare(*right, op.swap().unwrap_or(op), &place));
    }
    let changed = to_one_type(vec![&mut *left, &mut *right], schema);
    Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr::new(left, op, right)), changed)
}

/// `x BETWEEN a AND b`: two comparisons, where one has a literal that the unit does not hold.
fn between(mut test: Between, schema: &DFSchema) -> Transformed<Expr> {
    if to_one_type(vec![&mut *test.expr, &mut *test.low, &mut *test.high], schema) {
        return Transformed::yes(Expr::Between(test));
    }
    let (from, to) = match test.negated {
        false => (Operator::GtEq, Operator::LtEq),
        true => (Operator::Lt, Operator::Gt),
    };
    let with = |op, bound: &Expr| {
        binary(BinaryExpr::new(test.expr.clone(), op, Box::new(bound.clone())), schema)
    };
    let (low, high) = (with(from, &test.low), with(to, &test.high));
    if !(low.transformed || high.transformed) || test.expr.is_volatile() {
        return Transformed::no(Expr::Between(test));
    }
    Transformed::yes(match test.negated {
        false => low.data.and(high.data),
        true => low.data.or(high.data),
    })
}

/// `x IN (a, …)`, without those that are no value of the unit.
fn in_list(mut test: InList, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(of) = Timestamps::of(&test.expr, schema) {
        let mut settled = Vec::with_capacity(test.list.len());
        let mut last = None;
        for member in std::mem::take(&mut test.list) {
            match of.place(&member) {
                Some(place) if place.exact => settled.extend(of.literal(place.floor)),
                Some(place) => last = Some(place),
                None => {
                    settled.push(member);
                    continue;
                }
            }
            changed = true;
        }
        if let Some(place) = last.filter(|_| settled.is_empty()) {
            let op = if test.negated { Operator::NotEq } else { Operator::Eq };
            return Transformed::yes(of.compare(*test.expr, op, &place));
        }
        test.list = settled;
    }
    changed |=
        to_one_type(std::iter::once(&mut *test.expr).chain(&mut test.list).collect(), schema);
    Transformed::new_transformed(Expr::InList(test), changed)
}

/// `CASE x WHEN a …`; what is no value of the unit is null, which nothing equals.
fn case(mut choice: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Some(of) = choice.expr.as_deref_mut() else { return Transformed::no(Expr::Case(choice)) };
    let mut changed = false;
    if let Some(of) = Timestamps::of(of, schema) {
        for (when, _) in &mut choice.when_then_expr {
            if let Some(place) = of.place(when) {
                let value = of.literal(place.floor).filter(|_| place.exact);
                **when = value.unwrap_or_else(|| lit(of.scalar(None)));
                changed = true;
            }
        }
    }
    let whens = choice.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
    changed |= to_one_type(std::iter::once(of).chain(whens).collect(), schema);
    Transformed::new_transformed(Expr::Case(choice), changed)
}

/// An integer that is cast to TIMESTAMP counts seconds, as DataFusion has it for nanoseconds.
fn of_seconds(mut to: Cast, schema: &DFSchema) -> Transformed<Expr> {
    let is_integer = to.expr.get_type(schema).is_ok_and(|of| of.is_integer());
    if is_integer && let DataType::Timestamp(_, zone) = to.field.data_type() {
        let seconds = DataType::Timestamp(TimeUnit::Second, zone.clone());
        to.expr = Box::new(cast(std::mem::take(&mut *to.expr), seconds));
    }
    Transformed::new_transformed(Expr::Cast(to), is_integer)
}

/// Casts dates and texts to the type of the timestamps that they are compared with. Says whether it
/// has: all must be of these types, the timestamps of one zone, and the literals such as the finest
/// unit holds.
fn to_one_type(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> =
        sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(types) = types else { return false };
    let Some(of) = Timestamps::finest(&types) else { return false };
    let mut changes = Vec::new();
    for (side, data_type) in sides.into_iter().zip(types) {
        if data_type.is_null() || is_timestamp(&data_type) {
            continue;
        }
        let changed = match (of.place(side), &data_type) {
            (Some(place), _) => of.literal(place.floor).filter(|_| place.exact),
            (None, DataType::Date32 | DataType::Date64) => of.dated(side, &data_type),
            _ => None,
        };
        let Some(changed) = changed else { return false };
        changes.push((side, changed));
    }
    let any = !changes.is_empty();
    for (side, changed) in changes {
        *side = changed;
    }
    any
}

/// A type of timestamps.
struct Timestamps {
    unit: TimeUnit,
    zone: Option<Arc<str>>,
}

/// Where a moment lies among the timestamps of a type.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The last that is not after it; one less than the first of the type, if all are.
    floor: i128,
    /// Whether that one is the moment itself.
    exact: bool,
}

impl Timestamps {
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Timestamps> {
        match expr.get_type(schema).ok()? {
            DataType::Timestamp(unit, zone) => Some(Timestamps { unit, zone }),
            _ => None,
        }
    }

    /// The timestamps among these types in the finest of their units, if they have one zone.
    fn finest(types: &[DataType]) -> Option<Timestamps> {
        let mut finest: Option<Timestamps> = None;
        for data_type in types {
            let DataType::Timestamp(unit, zone) = data_type else { continue };
            let found =
                finest.get_or_insert_with(|| Timestamps { unit: *unit, zone: zone.clone() });
            if found.zone != *zone {
                return None;
            }
            found.unit = finer(found.unit, *unit);
        }
        finest
    }

    /// Where a literal lies among these timestamps; `None` if it is no date, timestamp or text of
    /// one.
    fn place(&self, literal: &Expr) -> Option<Place> {
        let moment = self.moment(&constant(literal)?)?;
        let length = nanoseconds(self.unit);
        let (floor, exact) = (moment.div_euclid(length), moment.rem_euclid(length) == 0);
        Some(match (floor < i128::from(i64::MIN), floor > i128::from(i64::MAX)) {
            (true, _) => Place { floor: i128::from(i64::MIN) - 1, exact: false },
            (_, true) => Place { floor: i128::from(i64::MAX), exact: false },
            _ => Place { floor, exact },
        })
    }

    /// The nanoseconds since 1970 of a constant beside these timestamps. One of their own unit is
    /// left as it is.
    fn moment(&self, constant: &ScalarValue) -> Option<i128> {
        if let Some(text) = constant.try_as_str() {
            return self.moment_of_text(text?);
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
                self.moment_of(*value, TimeUnit::Second, zone)
            }
            ScalarValue::TimestampMillisecond(Some(value), zone) => {
                self.moment_of(*value, TimeUnit::Millisecond, zone)
            }
            ScalarValue::TimestampMicrosecond(Some(value), zone) => {
                self.moment_of(*value, TimeUnit::Microsecond, zone)
            }
            ScalarValue::TimestampNanosecond(Some(value), zone) => {
                self.moment_of(*value, TimeUnit::Nanosecond, zone)
            }
            _ => None,
        }
    }

    /// A text without an offset says what a clock in the timestamps' zone shows.
    fn moment_of_text(&self, text: &str) -> Option<i128> {
        let zone: Tz = self.zone.as_deref().unwrap_or(UTC).parse().ok()?;
        let moment = string_to_datetime(&zone, &moments::written_out(text)).ok()?;
        Some(
            i128::from(moment.timestamp()) * nanoseconds(TimeUnit::Second)
                + i128::from(moment.timestamp_subsec_nanos()),
        )
    }

    fn moment_of(&self, value: i64, unit: TimeUnit, zone: &Option<Arc<str>>) -> Option<i128> {
        let are_instants = self.zone.is_some() && zone.is_some();
        let is_alike = are_instants || is_utc_or_none(&self.zone) && is_utc_or_none(zone);
        (unit != self.unit && is_alike).then(|| i128::from(value) * nanoseconds(unit))
    }

    /// An expression of dates as such timestamps. Nanoseconds do not hold all dates.
    fn dated(&self, dates: &Expr, data_type: &DataType) -> Option<Expr> {
        let unit = match data_type {
            DataType::Date64 => finer(self.unit, TimeUnit::Millisecond),
            _ => self.unit,
        };
        let to = DataType::Timestamp(unit, self.zone.clone());
        (unit != TimeUnit::Nanosecond).then(|| cast(dates.clone(), to))
    }

    fn scalar(&self, value: Option<i64>) -> ScalarValue {
        let zone = self.zone.clone();
        match self.unit {
            TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
            TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
            TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
        }
    }

    fn literal(&self, value: i128) -> Option<Expr> {
        Some(lit(self.scalar(Some(i64::try_from(value).ok()?))))
    }

    /// Such timestamps compared with a moment. A comparison that each one passes, or none, is one
    /// with the type's last, so that null stays null.
    fn compare(&self, timestamps: Expr, op: Operator, place: &Place) -> Expr {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        const NEVER: (Operator, i64) = (Gt, i64::MAX);
        const ALWAYS: (Operator, i64) = (LtEq, i64::MAX);
        let (op, value) = match (op, i64::try_from(place.floor)) {
            (IsDistinctFrom | IsNotDistinctFrom, _) if !place.exact => {
                return lit(op == IsDistinctFrom);
            }
            (Eq, _) if !place.exact => NEVER,
            (NotEq, _) if !place.exact => ALWAYS,
            (Lt | LtEq, Err(_)) => NEVER,
            (_, Err(_)) => ALWAYS,
            (Lt, Ok(floor)) if !place.exact => (LtEq, floor),
            (GtEq, Ok(floor)) if !place.exact => (Gt, floor),
            (op, Ok(floor)) => (op, floor),
        };
        Expr::BinaryExpr(BinaryExpr::new(
            Box::new(timestamps),
            op,
            Box::new(lit(self.scalar(Some(value)))),
        ))
    }
}

/// A literal, or a text that is cast: `DATE '2024-01-01'`.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    let (of, field) = match expr {
        Expr::Literal(value, _) => return Some(value.clone()),
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return None,
    };
    match of.as_ref() {
        // A text that cannot be cast is for DataFusion to refuse.
        Expr::Literal(value, _) if value.try_as_str().is_some() => {
            value.cast_to(field.data_type()).ok()
        }
        _ => None,
    }
}

fn is_utc_or_none(zone: &Option<Arc<str>>) -> bool {
    zone.is_none() || is_utc(zone)
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if nanoseconds(a) <= nanoseconds(b) { a } else { b }
}

/// The nanoseconds since 1970 of a timestamp; `None` for null and what is none.
fn timestamp_nanoseconds(value: &ScalarValue) -> Option<i128> {
    let (value, unit) = match value {
        ScalarValue::TimestampSecond(value, _) => (value, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(value, _) => (value, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(value, _) => (value, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(value, _) => (value, TimeUnit::Nanosecond),
        _ => return None,
    };
    Some(i128::from((*value)?) * nanoseconds(unit))
}

/// How many a unit has.
fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};
    use datafusion::prelude::col;

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

    fn settled(expr: Expr) -> String {
        compare_exactly(expr, &schema()).unwrap().data.to_string()
    }

    fn day(text: &str) -> Expr {
        cast(lit(text), DataType::Date32)
    }

    #[test]
    fn columns_keep_their_unit() {
        let end = "253402214400000000";
        assert_eq!(
            settled(col("us").lt(lit("9999-12-31"))),
            format!("us < TimestampMicrosecond({end}, None)")
        );
        assert_eq!(
            settled(day("9999-12-31").gt(col("us"))),
            format!("us < TimestampMicrosecond({end}, None)")
        );
        assert_eq!(
            settled(col("s").gt_eq(lit("1970-01-01 00:00:01.5"))),
            "s > TimestampSecond(1, None)"
        );
        assert_eq!(
            settled(col("s").lt(lit("1969-12-31 23:59:59.5"))),
            "s <= TimestampSecond(-1, None)"
        );
        let digits = "1970-01-01 00:00:00.000000001";
        assert_eq!(
            settled(col("us").eq(lit(digits))),
            "us > TimestampMicrosecond(9223372036854775807, None)"
        );
        assert_eq!(settled(col("ns").eq(lit(digits))), "ns = TimestampNanosecond(1, None)");
        let fine = cast(lit(digits), DataType::Timestamp(TimeUnit::Nanosecond, None));
        assert_eq!(settled(col("us").lt(fine.clone())), "us <= TimestampMicrosecond(0, None)");
        assert_eq!(settled(col("ns").lt(fine.clone())), col("ns").lt(fine).to_string());
        assert_eq!(settled(col("us").lt(lit("no time"))), col("us").lt(lit("no time")).to_string());
    }

    #[test]
    fn nanoseconds_end() {
        let last = "TimestampNanosecond(9223372036854775807, None)";
        assert_eq!(settled(col("ns").lt(lit("9999-12-31"))), format!("ns <= {last}"));
        assert_eq!(settled(col("ns").gt_eq(day("9999-12-31"))), format!("ns > {last}"));
        assert_eq!(settled(col("ns").gt(day("0001-01-01"))), format!("ns <= {last}"));
        assert_eq!(settled(col("ns").not_eq(day("0001-01-01"))), format!("ns <= {last}"));
        let list = |members| settled(col("ns").in_list(members, false));
        let members = vec![lit("9999-12-31"), lit("1970-01-01"), col("us")];
        assert_eq!(list(members), "ns IN ([TimestampNanosecond(0, None), us])");
        assert_eq!(list(vec![lit("9999-12-31")]), format!("ns > {last}"));
        assert_eq!(
            settled(col("ns").between(day("1970-01-01"), lit("9999-12-31"))),
            format!("ns >= TimestampNanosecond(0, None) AND ns <= {last}")
        );
        assert_eq!(settled(col("ns").lt(col("d"))), "ns < d");
    }

    #[test]
    fn dates_become_timestamps() {
        assert_eq!(settled(col("d").gt(col("us"))), "CAST(d AS Timestamp(µs)) > us");
        assert_eq!(settled(col("d").eq(col("s"))), "CAST(d AS Timestamp(s)) = s");
        assert_eq!(
            settled(col("d").between(lit("1970-01-01"), col("us"))),
            "CAST(d AS Timestamp(µs)) BETWEEN TimestampMicrosecond(0, None) AND us"
        );
        assert_eq!(
            settled(col("d").lt(lit("1970-01-01"))),
            col("d").lt(lit("1970-01-01")).to_string()
        );
        // What has no offset is read in the zone of the column.
        assert_eq!(
            settled(col("z").eq(lit("1970-01-01 02:00:00"))),
            "z = TimestampMicrosecond(0, Some(\"+02:00\"))"
        );
        assert_eq!(
            settled(col("z").eq(day("1970-01-01"))),
            format!("z = CAST({} AS {})", day("1970-01-01"), "Timestamp(µs, \"+02:00\")")
        );
    }

    #[test]
    fn integers_are_seconds() {
        let to = |unit| cast(col("i"), DataType::Timestamp(unit, None));
        assert_eq!(
            settled(to(TimeUnit::Microsecond)),
            cast(to(TimeUnit::Second), DataType::Timestamp(TimeUnit::Microsecond, None))
                .to_string()
        );
        assert_eq!(settled(to(TimeUnit::Millisecond)), to(TimeUnit::Millisecond).to_string());
    }
}

//! Intervals: their lengths, their multiples and parts, and dates that they are added to.
//!
//! Where this stands on the road of a query: [`IntervalArithmetic`] takes part while a statement is
//! planned, for there the types of columns are settled; [`Intervals`] is an analyzer rule before
//! types are coerced.
//!
//! DataFusion (55.2) compares intervals field by field, so that no number of hours is more than a
//! day; it makes the difference of timestamps an interval of nanoseconds before that. Here what is
//! compared or sorted is the length: a month is 30 days and a day 24 hours, as in PostgreSQL and
//! DuckDB. It drops the hours that are added to a date; here the sum is a timestamp, unless the
//! interval is a literal of whole months and days. It refuses to multiply and divide intervals, and
//! takes parts of a difference of timestamps without splitting it into days, hours and so on.
//!
//! Groups, DISTINCT, `min` and `max` still go by the fields.

mod functions;

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit as Part;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Sort, Subquery,
    WindowFrame, WindowFrameBound, WindowFrameUnits, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use self::functions::{Function, Kind};
use crate::sql::walks::{
    any_expression, any_node, is_comparison, rewrite_plan, rewrite_up, rewrite_where,
};

/// Plans sums of dates and intervals, and multiples of intervals.
#[derive(Debug)]
pub(in crate::sql) struct IntervalArithmetic;

impl ExprPlanner for IntervalArithmetic {
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Minus, Multiply, Plus};
        let RawBinaryExpr { op, mut left, mut right } = operation;
        let is = |expr: &Expr, kind: fn(&DataType) -> bool| {
            planned_type(expr, schema).is_some_and(|of| kind(&of))
        };
        // The right side is asked first: of a long sum or product, that is the short one.
        match op {
            Plus | Minus
                if is(&right, is_length) && !is_whole_days(&right) && is(&left, is_date) =>
            {
                left = cast(left, TIMESTAMP);
            }
            Plus if is(&right, is_date) && !is_whole_days(&left) && is(&left, is_length) => {
                right = cast(right, TIMESTAMP);
            }
            Multiply if is(&right, is_length) && is(&left, is_number) => {
                return Ok(PlannerResult::Planned(Kind::Times.call(vec![left, right])));
            }
            Multiply if is(&right, is_number) && is(&left, is_length) => {
                return Ok(PlannerResult::Planned(Kind::Times.call(vec![left, right])));
            }
            Divide if is(&right, is_number) && is(&left, is_length) => {
                return Ok(PlannerResult::Planned(Kind::Over.call(vec![left, right])));
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The type of an expression while it is planned. A column of JOIN … USING has no table yet; those
/// of its name have one type.
pub(in crate::sql) fn planned_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Ok(data_type) = expr.get_type(schema) {
        return Some(data_type);
    }
    let of_first = |expr: Expr| match &expr {
        Expr::Column(column) if column.relation.is_none() => {
            let found =
                schema.qualified_fields_with_unqualified_name(&column.name).into_iter().next();
            Ok(found.map_or(Transformed::no(expr), |found| {
                Transformed::yes(Expr::Column(Column::from(found)))
            }))
        }
        _ => Ok(Transformed::no(expr)),
    };
    rewrite_up(expr.clone(), of_first).ok()?.data.get_type(schema).ok()
}

/// What a date is that has a time of day.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// A number, or what has no type yet: null, or a placeholder.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null()
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// An interval, or the difference of timestamps.
fn is_length(data_type: &DataType) -> bool {
    is_interval(data_type) || is_duration(data_type)
}

fn is_duration(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Duration(_))
}

/// Whether an expression is an interval that leaves a date a date: literals without a time.
fn is_whole_days(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => value.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) => value.milliseconds == 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        Expr::Literal(value, _) => value.is_null(),
        Expr::Negative(of) => is_whole_days(of),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            is_whole_days(left) && is_whole_days(right)
        }
        _ => false,
    }
}

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct Intervals;

impl AnalyzerRule for Intervals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_intervals = any_expression(&plan, makes_length)
            || any_node(&plan, |node| has_length(node.schema()));
        if !has_intervals {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, rewritten)?.data)
    }

    fn name(&self) -> &'static str {
        "intervals"
    }
}

/// Whether an expression may be an interval, or the difference of timestamps, where none of its
/// columns is.
fn makes_length(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => is_length(&value.data_type()),
        Expr::Cast(cast) => is_length(cast.field.data_type()),
        Expr::TryCast(cast) => is_length(cast.field.data_type()),
        Expr::BinaryExpr(binary) => binary.op == Operator::Minus,
        Expr::ScalarFunction(function) => {
            function.func.inner().is::<Function>() || function.name() == "arrow_cast"
        }
        _ => false,
    }
}

fn has_length(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| is_length(field.data_type()))
}

fn rewritten(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    if let LogicalPlan::Sort(sort) = node {
        return Ok(sorted(sort)?.update_data(LogicalPlan::Sort));
    }
    rewrite_where(node, concerns, compare_by_length)
}

/// Whether an expression may compare intervals, or take a part of one.
fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(function) => function.func.name() == "date_part",
        Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::WindowFunction(_) => true,
        _ => false,
    }
}

/// A sort whose intervals are sorted by their lengths.
fn sorted(mut sort: Sort) -> DataFusionResult<Transformed<Sort>> {
    let schema = Arc::clone(sort.input.schema());
    let mut changed = false;
    for key in &mut sort.expr {
        let rewritten = compare_by_length(std::mem::take(&mut key.expr), &schema)?;
        key.expr = rewritten.data;
        changed |= rewritten.transformed | to_length(&mut key.expr, &schema);
    }
    Ok(Transformed::new_transformed(sort, changed))
}

/// An expression, whose types are not coerced yet, with lengths where it compares intervals.
pub(in crate::sql) fn compare_by_length(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| expression(expr, schema))
}

fn expression(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let mut expr = expr;
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            compared(vec![&mut *binary.left, &mut *binary.right], schema)
        }
        Expr::Between(between) => {
            compared(vec![&mut *between.expr, &mut *between.low, &mut *between.high], schema)
        }
        Expr::InList(test) => {
            compared(std::iter::once(&mut *test.expr).chain(&mut test.list).collect(), schema)
        }
        Expr::Case(case) => {
            let whens = case.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
            case.expr
                .as_deref_mut()
                .is_some_and(|of| compared(std::iter::once(of).chain(whens).collect(), schema))
        }
        Expr::InSubquery(test) => compared_rows(&mut test.expr, &mut test.subquery, schema)?,
        Expr::SetComparison(test) => compared_rows(&mut test.expr, &mut test.subquery, schema)?,
        Expr::WindowFunction(window) => arranged(window, schema),
        Expr::ScalarFunction(function) => match part(function, schema) {
            Some(part) => {
                expr = part;
                true
            }
            None => false,
        },
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Makes what is compared lengths, if an interval is among them. Says whether it has.
fn compared(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types: Option<Vec<DataType>> =
        sides.iter().map(|side| side.get_type(schema).ok()).collect();
    let Some(types) = types.filter(|types| are_lengths(types)) else { return false };
    for (side, data_type) in sides.into_iter().zip(types) {
        // A null gets its type from the others.
        if !data_type.is_null() {
            *side = length(std::mem::take(side));
        }
    }
    true
}

/// Whether these are compared as intervals. Differences of timestamps alone are compared rightly.
fn are_lengths(types: &[DataType]) -> bool {
    types.iter().any(is_interval) && types.iter().all(|of| is_length(of) || of.is_null())
}

/// Makes a value and the rows of a subquery lengths, if an interval is among them. Says whether it
/// has.
fn compared_rows(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
) -> DataFusionResult<bool> {
    let rows = &subquery.subquery;
    let (Ok(of_value), [of_row]) = (value.get_type(schema), rows.schema().fields().as_ref()) else {
        return Ok(false);
    };
    let types = [of_value, of_row.data_type().clone()];
    if !are_lengths(&types) || types.iter().any(DataType::is_null) {
        return Ok(false);
    }
    let row = Column::from(rows.schema().qualified_field(0));
    let row = length(Expr::Column(row)).alias(of_row.name());
    subquery.subquery =
        Arc::new(LogicalPlan::Projection(Projection::try_new(vec![row], Arc::clone(rows))?));
    *value = length(std::mem::take(value));
    Ok(true)
}

/// Makes the keys of a window lengths that are intervals. Says whether one was.
fn arranged(window: &mut WindowFunction, schema: &DFSchema) -> bool {
    let params = &mut window.params;
    if goes_by_distance(&params.window_frame) {
        return false;
    }
    let mut changed = false;
    for key in
        params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr))
    {
        // DataFusion has no ranges of differences of timestamps.
        if key.get_type(schema).is_ok_and(|of| is_length(&of)) {
            *key = length(std::mem::take(key));
            changed = true;
        }
    }
    changed
}

/// Whether a frame has a bound that is so far from the current row.
fn goes_by_distance(frame: &WindowFrame) -> bool {
    let is_far = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
    };
    frame.units == WindowFrameUnits::Range
        && (is_far(&frame.start_bound) || is_far(&frame.end_bound))
}

fn to_length(key: &mut Expr, schema: &DFSchema) -> bool {
    let found = key.get_type(schema).is_ok_and(|of| is_interval(&of));
    if found {
        *key = length(std::mem::take(key));
    }
    found
}

fn length(of: Expr) -> Expr {
    Kind::Length.call(vec![of])
}

/// `date_part` of an interval or a difference of timestamps, where DataFusion has it wrong.
fn part(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [name, of] = function.args.as_slice() else { return None };
    if function.func.name() != "date_part" {
        return None;
    }
    let data_type = of.get_type(schema).ok().filter(is_length)?;
    let name_of_part = name.as_literal()?.try_as_str()??;
    if name_of_part.eq_ignore_ascii_case("epoch") && is_interval(&data_type) {
        return Some(Kind::Epoch.call(vec![of.clone()]));
    }
    let divisor = match Part::from_str(name_of_part) {
        Ok(Part::Nanosecond) => Some(1_i64),
        Ok(Part::Microsecond) => Some(1_000),
        Ok(Part::Millisecond) => Some(1_000_000),
        _ => None,
    };
    match divisor {
        Some(1) => Some(Kind::OfMinute.call(vec![of.clone()])),
        Some(divisor) => {
            Some(cast(Kind::OfMinute.call(vec![of.clone()]) / lit(divisor), DataType::Int32))
        }
        None if is_duration(&data_type) => {
            let days = Kind::Days.call(vec![of.clone()]);
            Some(Arc::clone(&function.func).call(vec![name.clone(), days]))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::IntervalMonthDayNano;

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn literal(months: i32, days: i32, nanos: i64) -> Expr {
        lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos))))
    }

    #[test]
    fn only_literals_without_a_time_leave_dates() {
        assert!(is_whole_days(&literal(1, -3, 0)));
        assert!(is_whole_days(&(literal(0, 1, 0) - literal(1, 0, 0))));
        assert!(!is_whole_days(&literal(0, 0, 24 * HOUR)));
        assert!(!is_whole_days(&(literal(0, 1, 0) + literal(0, 0, 1))));
        assert!(!is_whole_days(&Kind::Times.call(vec![literal(0, 1, 0), lit(2_i64)])));
    }
}

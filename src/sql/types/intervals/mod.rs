//! Intervals: comparisons by length, multiples and parts, and sums of dates and intervals.
//!
//! Where this stands on the road of a query: [`IntervalArithmetic`] works while a statement is
//! planned, because the types of its columns are determined then; [`Intervals`] is an analyzer rule
//! that runs before types are coerced.
//!
//! DataFusion (55.2) compares intervals field by field, so that a day is more than any number of
//! hours; a difference of timestamps becomes an interval of nanoseconds before that. Here intervals
//! are compared and sorted by length, with months of 30 days and days of 24 hours, as in PostgreSQL
//! and DuckDB. DataFusion drops the hours that are added to a date; here the sum is a timestamp,
//! unless the interval is a literal of whole months and days. It also refuses to multiply and
//! divide intervals, and does not split a difference of timestamps into days, hours and so on
//! before it takes a part of it.
//!
//! Groups, DISTINCT, `min` and `max` still compare the fields.

#[cfg(feature = "cluster")]
pub(in crate::sql) mod functions;
#[cfg(not(feature = "cluster"))]
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

use self::functions::{Function, Kind, is_duration, is_interval, is_length};
use crate::ingest::text::interval::interval;
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
            planned_type(expr, schema).is_some_and(|data_type| kind(&data_type))
        };
        // The type of the right side is computed first: in a long sum or product, it is the short
        // one.
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
                return Ok(PlannerResult::Planned(Kind::Multiply.call(vec![left, right])));
            }
            Multiply if is(&right, is_number) && is(&left, is_length) => {
                return Ok(PlannerResult::Planned(Kind::Multiply.call(vec![left, right])));
            }
            Divide if is(&right, is_number) && is(&left, is_length) => {
                return Ok(PlannerResult::Planned(Kind::Divide.call(vec![left, right])));
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The type of an expression while it is planned. A merged column of JOIN … USING has no table
/// yet; all columns of its name have the same type.
pub(in crate::sql) fn planned_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Ok(data_type) = expr.get_type(schema) {
        return Some(data_type);
    }
    let qualify = |expr: Expr| match &expr {
        Expr::Column(column) if column.relation.is_none() => {
            let found =
                schema.qualified_fields_with_unqualified_name(&column.name).into_iter().next();
            Ok(found.map_or(Transformed::no(expr), |found| {
                Transformed::yes(Expr::Column(Column::from(found)))
            }))
        }
        _ => Ok(Transformed::no(expr)),
    };
    rewrite_up(expr.clone(), qualify).ok()?.data.get_type(schema).ok()
}

/// The type of the sum of a date and a time.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// Whether a type is that of a number, or of an expression without a type: null, or a placeholder.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null()
}

/// Whether the sum of a date and this interval is a date: for literals without a time.
fn is_whole_days(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => value.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) => value.milliseconds == 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        Expr::Literal(value, _) => value.is_null(),
        Expr::Negative(operand) => is_whole_days(operand),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            is_whole_days(left) && is_whole_days(right)
        }
        _ => false,
    }
}

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct Intervals;

impl AnalyzerRule for Intervals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has_intervals = any_expression(&plan, may_make_length)
            || any_node(&plan, |node| has_length(node.schema()));
        if !has_intervals {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, rewrite_node)?.data)
    }

    fn name(&self) -> &'static str {
        "intervals"
    }
}

/// Whether an expression may be an interval, or the difference of timestamps, although none of its
/// columns is.
fn may_make_length(expr: &Expr) -> bool {
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

fn rewrite_node(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    if let LogicalPlan::Sort(sort) = node {
        return Ok(sort_by_length(sort)?.update_data(LogicalPlan::Sort));
    }
    rewrite_where(node, is_candidate, compare_by_length)
}

/// Whether an expression may compare intervals, or take a part of one.
fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op),
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(function) => function.func.name() == "date_part",
        Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::WindowFunction(_) => true,
        _ => false,
    }
}

/// Sorts intervals by length.
fn sort_by_length(mut sort: Sort) -> DataFusionResult<Transformed<Sort>> {
    let schema = Arc::clone(sort.input.schema());
    let mut changed = false;
    for key in &mut sort.expr {
        let rewritten = compare_by_length(std::mem::take(&mut key.expr), &schema)?;
        key.expr = rewritten.data;
        changed |= rewritten.transformed | to_length(&mut key.expr, &schema);
    }
    Ok(Transformed::new_transformed(sort, changed))
}

/// Compares intervals by length in an expression whose types are not coerced yet.
pub(in crate::sql) fn compare_by_length(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| rewrite_expr(expr, schema))
}

fn rewrite_expr(mut expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            compare_lengths(vec![&mut *binary.left, &mut *binary.right], schema)
        }
        Expr::Between(between) => {
            compare_lengths(vec![&mut *between.expr, &mut *between.low, &mut *between.high], schema)
        }
        Expr::InList(test) => compare_lengths(
            std::iter::once(&mut *test.expr).chain(&mut test.list).collect(),
            schema,
        ),
        Expr::Case(case) => {
            let whens = case.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
            case.expr.as_deref_mut().is_some_and(|operand| {
                compare_lengths(std::iter::once(operand).chain(whens).collect(), schema)
            })
        }
        Expr::InSubquery(test) => compare_row_lengths(&mut test.expr, &mut test.subquery, schema)?,
        Expr::SetComparison(test) => {
            compare_row_lengths(&mut test.expr, &mut test.subquery, schema)?
        }
        Expr::WindowFunction(window) => use_lengths_as_keys(window, schema),
        Expr::ScalarFunction(function) => match rewrite_date_part(function, schema) {
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

/// Replaces compared expressions with their lengths, if an interval is among them. Returns whether
/// it did.
fn compare_lengths(mut sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types_of = |sides: &[&mut Expr]| -> Option<Vec<DataType>> {
        sides.iter().map(|side| side.get_type(schema).ok()).collect()
    };
    let mut types = types_of(&sides);
    if types.as_ref().is_some_and(|types| types.iter().any(is_interval)) {
        for side in &mut sides {
            if let Some(value) = spelled_out(side) {
                **side = value;
            }
        }
        types = types_of(&sides);
    }
    let Some(types) = types.filter(|types| are_lengths(types)) else { return false };
    for (side, data_type) in sides.into_iter().zip(types) {
        // A null takes its type from the others.
        if !data_type.is_null() {
            *side = length(std::mem::take(side));
        }
    }
    true
}

/// The interval that a literal text spells. DataFusion would make one of it, too, but compare the
/// fields.
fn spelled_out(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = expr else { return None };
    let value = interval(value.try_as_str()??.into())?;
    let value = ScalarValue::IntervalMonthDayNano(Some(value));
    Some(Expr::Literal(value, metadata.clone()))
}

/// Whether these are compared as intervals. DataFusion compares differences of timestamps
/// correctly.
fn are_lengths(types: &[DataType]) -> bool {
    types.iter().any(is_interval)
        && types.iter().all(|data_type| is_length(data_type) || data_type.is_null())
}

/// Replaces a value and the rows of a subquery with their lengths, if an interval is among them.
/// Returns whether it did.
fn compare_row_lengths(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
) -> DataFusionResult<bool> {
    let rows = &subquery.subquery;
    let (Ok(value_type), [field]) = (value.get_type(schema), rows.schema().fields().as_ref())
    else {
        return Ok(false);
    };
    let types = [value_type, field.data_type().clone()];
    if !are_lengths(&types) || types.iter().any(DataType::is_null) {
        return Ok(false);
    }
    let row = Column::from(rows.schema().qualified_field(0));
    let row = length(Expr::Column(row)).alias(field.name());
    subquery.subquery =
        Arc::new(LogicalPlan::Projection(Projection::try_new(vec![row], Arc::clone(rows))?));
    *value = length(std::mem::take(value));
    Ok(true)
}

/// Replaces the keys of a window that are intervals with their lengths. Returns whether one was.
fn use_lengths_as_keys(window: &mut WindowFunction, schema: &DFSchema) -> bool {
    let params = &mut window.params;
    if has_range_distance(&params.window_frame) {
        return false;
    }
    let mut changed = false;
    for key in
        params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr))
    {
        // DataFusion has no RANGE frames over differences of timestamps.
        if key.get_type(schema).is_ok_and(|data_type| is_length(&data_type)) {
            *key = length(std::mem::take(key));
            changed = true;
        }
    }
    changed
}

/// Whether a frame is a RANGE with a bound at some distance from the current row.
fn has_range_distance(frame: &WindowFrame) -> bool {
    let has_distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            !distance.is_null()
        }
    };
    frame.units == WindowFrameUnits::Range
        && (has_distance(&frame.start_bound) || has_distance(&frame.end_bound))
}

fn to_length(key: &mut Expr, schema: &DFSchema) -> bool {
    let found = key.get_type(schema).is_ok_and(|data_type| is_interval(&data_type));
    if found {
        *key = length(std::mem::take(key));
    }
    found
}

fn length(expr: Expr) -> Expr {
    Kind::Length.call(vec![expr])
}

/// Replaces `date_part` of an interval or a difference of timestamps where DataFusion is wrong.
fn rewrite_date_part(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let [name, value] = function.args.as_slice() else { return None };
    if function.func.name() != "date_part" {
        return None;
    }
    let data_type = value.get_type(schema).ok().filter(is_length)?;
    let name_of_part = name.as_literal()?.try_as_str()??;
    if name_of_part.eq_ignore_ascii_case("epoch") && is_interval(&data_type) {
        return Some(Kind::Epoch.call(vec![value.clone()]));
    }
    let divisor = match Part::from_str(name_of_part) {
        Ok(Part::Nanosecond) => Some(1_i64),
        Ok(Part::Microsecond) => Some(1_000),
        Ok(Part::Millisecond) => Some(1_000_000),
        _ => None,
    };
    match divisor {
        Some(1) => Some(Kind::NanosOfMinute.call(vec![value.clone()])),
        Some(divisor) => Some(cast(
            Kind::NanosOfMinute.call(vec![value.clone()]) / lit(divisor),
            DataType::Int32,
        )),
        None if is_duration(&data_type) => {
            let days = Kind::ToDays.call(vec![value.clone()]);
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
        assert!(!is_whole_days(&Kind::Multiply.call(vec![literal(0, 1, 0), lit(2_i64)])));
    }
}

//! Hides expressions that DataFusion's rules must not look through.
//!
//! Where this stands on the road of a query: an analyzer rule, after all others. DataFusion (55.2)
//!
//! - takes a scalar subquery for never null if its column is never null, or turns out to be so once
//!   constants are folded, although the subquery is null where it has no row: `(SELECT id FROM t
//!   WHERE false) IS NULL` is false;
//! - removes a cast from a comparison with a literal that fits the type below the cast, although
//!   the cast loses digits (`price::int = 3` becomes `price = 3.00`) or is null for values that do
//!   not fit (`try_cast(x AS SMALLINT) <> 3`), or the literal has digits that the type below does
//!   not hold, as that of a timestamp may: `ms::timestamp(6) = '2020-01-01 00:00:00.0001'`. Such a
//!   cast in a SELECT list may come beside a literal later;
//! - turns a CASE into AND and OR, see `guards`.
//!
//! Such a column, or cast, becomes the argument of a function that returns it unchanged.
//!
//! So does a cast that rounds in a filter that no scan takes over. From bounds of `f::int`,
//! DataFusion derives bounds of `f` that may be wider than the known ones, estimates that more rows
//! pass than there are, and fails. `plan::lower` calls for this part. A cast that cannot fail
//! becomes a TRY_CAST instead: DataFusion derives no bounds from it either, but still prunes files
//! by it.
//!
//! And so does a cast in a SELECT list that changes the order of values, such as one from numbers
//! to text: DataFusion would take the texts of the least and the greatest number for the least and
//! the greatest text, and answer `max(x::text)` by them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, Filter, LogicalPlan, Operator,
    Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery,
    Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::rules::guards;
use crate::sql::walks::{
    Rewritten, any_expression, has_part, rewrite_plan, rewrite_up, rewrite_where,
};

/// The function that `<> ALL(array)` and `= ANY(array)` are made of.
const ARRAY_HAS: &str = "array_has";

#[derive(Debug)]
pub(in crate::sql) struct HideFromRules;

impl AnalyzerRule for HideFromRules {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate_in_list) {
            return Ok(plan);
        }
        let rewritten = rewrite_plan(plan, |node| match node {
            LogicalPlan::Projection(_) => {
                rewrite_where(node, is_candidate_in_list, |expr, schema| {
                    rewrite_up(expr, |expr| one_hidden_in_list(expr, schema))
                })
            }
            node => rewrite_where(node, is_candidate, hidden),
        })?;
        if !rewritten.transformed {
            return Ok(rewritten.data);
        }
        // Expressions that read a subquery's value may be null now, too.
        Ok(rewrite_plan(rewritten.data, |node| node.recompute_schema().map(Transformed::yes))?.data)
    }

    fn name(&self) -> &'static str {
        "hide_from_rules"
    }
}

fn is_candidate(expr: &Expr) -> bool {
    let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(_) | Expr::TryCast(_));
    match expr {
        Expr::ScalarSubquery(_) => true,
        Expr::BinaryExpr(compared) => is_cast(&compared.left) || is_cast(&compared.right),
        Expr::InList(list) => is_cast(&list.expr) || list.list.iter().any(is_cast),
        Expr::ScalarFunction(function) if function.name() == ARRAY_HAS => {
            function.args.iter().any(is_cast)
        }
        Expr::Between(between) => {
            is_cast(&between.expr) || is_cast(&between.low) || is_cast(&between.high)
        }
        other => guards::may_guard(other),
    }
}

/// Whether a part of a SELECT list may have to be hidden.
fn is_candidate_in_list(expr: &Expr) -> bool {
    let to_time = |cast: &Cast| matches!(cast.field.data_type(), DataType::Timestamp(..));
    matches!(expr, Expr::Cast(cast) if to_time(cast)) || is_candidate(expr)
}

fn one_hidden_in_list(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::Cast(cast) if gets_finer(&cast, schema) => {
            let hidden = hide_nullable(Volatility::Immutable, Expr::Cast(cast));
            Ok(Transformed::yes(hidden))
        }
        other => one_hidden(other, schema),
    }
}

/// Hides those parts of an expression that rules must not look through.
pub(in crate::sql) fn hidden(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| one_hidden(expr, schema))
}

fn one_hidden(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(subquery) if misses_null(&subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(with_null(subquery)?)))
        }
        Expr::BinaryExpr(mut compared) if compared.op.supports_propagation() => {
            let left = hide_casts(&mut compared.left, is_literal(&compared.right), schema)?;
            let right = hide_casts(&mut compared.right, is_literal(&compared.left), schema)?;
            Ok(Transformed::new_transformed(Expr::BinaryExpr(compared), left || right))
        }
        Expr::InList(mut list) => {
            let mut changed = hide_casts(&mut list.expr, list.list.iter().any(is_literal), schema)?;
            for value in &mut list.list {
                changed |= hide_casts(value, false, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
        }
        // A list that is constant becomes an IN later.
        Expr::ScalarFunction(mut function) if function.name() == ARRAY_HAS => {
            let mut changed = false;
            for arg in &mut function.args {
                changed |= hide_casts(arg, true, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        Expr::Between(mut between) => {
            let is_beside = is_literal(&between.low) || is_literal(&between.high);
            let mut changed = hide_casts(&mut between.expr, is_beside, schema)?;
            changed |= hide_casts(&mut between.low, false, schema)?;
            changed |= hide_casts(&mut between.high, false, schema)?;
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        other => Ok(guards::guarded(other, schema)),
    }
}

/// Whether an expression is made of literals alone, without functions such as `now()`.
fn is_literal(expr: &Expr) -> bool {
    !has_part(expr, |part| {
        matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarFunction(_))
            || matches!(part, Expr::ScalarSubquery(_))
    })
}

/// Whether a cast makes a finer unit of that of a timestamp.
fn gets_finer(cast: &Cast, schema: &DFSchema) -> bool {
    let DataType::Timestamp(to, _) = cast.field.data_type() else { return false };
    let from = cast.expr.get_type(schema);
    matches!(from, Ok(DataType::Timestamp(from, _)) if from < *to) && !is_literal(&cast.expr)
}

/// Hides a cast that can change a value, one to a finer unit beside a literal, and such casts below
/// it. Returns whether there was one.
fn hide_casts(expr: &mut Expr, by_literal: bool, schema: &DFSchema) -> DataFusionResult<bool> {
    let (inner_hidden, is_hidden) = match expr {
        Expr::Cast(cast) => {
            // A cast whose type is unknown at this node, as in a filter of a scan, was handled
            // before.
            let is_hidden = cast
                .expr
                .get_type(schema)
                .is_ok_and(|data_type| loses_digits(&data_type, cast.field.data_type()));
            let is_hidden = is_hidden || by_literal && gets_finer(cast, schema);
            (hide_casts(&mut cast.expr, by_literal, schema)?, is_hidden)
        }
        Expr::TryCast(cast) => (hide_casts(&mut cast.expr, by_literal, schema)?, true),
        _ => return Ok(false),
    };
    if is_hidden {
        *expr = hide_nullable(Volatility::Immutable, std::mem::take(expr));
    }
    Ok(inner_hidden || is_hidden)
}

/// Whether a cast may give one value for two.
fn loses_digits(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let scale = |data_type: &DataType| match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        other => other.is_integer().then_some(0),
    };
    scale(from).zip(scale(to)).is_some_and(|(from, to)| from > to)
}

/// Hides casts that round and differences of dates in a filter that DataFusion runs, so that it
/// derives no bounds from them: those of differences are durations, which are compared with days.
pub(in crate::sql) fn hide_wrong_bounds(
    mut filter: Filter,
) -> DataFusionResult<Transformed<Filter>> {
    let is_candidate = |part: &Expr| {
        matches!(part, Expr::Cast(_))
            || matches!(part, Expr::BinaryExpr(BinaryExpr { op: Operator::Minus, .. }))
    };
    if !has_part(&filter.predicate, is_candidate) {
        return Ok(Transformed::no(filter));
    }
    let schema = Arc::clone(filter.input.schema());
    let predicate = rewrite_up(std::mem::take(&mut filter.predicate), |part| match part {
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(&schema).ok();
            Ok(match from.filter(|from| rounds(from, cast.field.data_type())) {
                Some(from) => Transformed::yes(without_bounds(cast, &from)),
                None => Transformed::no(Expr::Cast(cast)),
            })
        }
        Expr::BinaryExpr(difference)
            if difference.op == Operator::Minus
                && is_date(&difference.left, &schema)
                && is_date(&difference.right, &schema) =>
        {
            let difference = Expr::BinaryExpr(difference);
            Ok(Transformed::yes(hide_nullable(Volatility::Immutable, difference)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    filter.predicate = predicate.data;
    Ok(Transformed::new_transformed(filter, predicate.transformed))
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    let data_type = expr.get_type(schema);
    data_type.is_ok_and(|it| matches!(it, DataType::Date32 | DataType::Date64))
}

/// A cast from which no bounds are derived. TRY_CAST is one, and files are still pruned by it. But
/// it gives null for a value that does not fit; a cast that may fail is hidden instead.
fn without_bounds(cast: Cast, from: &DataType) -> Expr {
    let to = cast.field.data_type();
    match to.is_floating() || (matches!(from, DataType::Timestamp(..)) && to.is_temporal()) {
        true => Expr::TryCast(TryCast { expr: cast.expr, field: cast.field }),
        false => hide_nullable(Volatility::Immutable, Expr::Cast(cast)),
    }
}

/// Hides casts that change the order of values in a projection that DataFusion runs, so that it
/// derives no bounds from them.
pub(in crate::sql) fn hide_reordering_casts(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    rewrite_where(node, |expr| matches!(expr, Expr::Cast(_)), hide_reordering)
}

fn hide_reordering(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    match expr {
        Expr::Alias(mut alias) => {
            let inner = hide_reordering(std::mem::take(&mut *alias.expr), schema)?;
            *alias.expr = inner.data;
            Ok(Transformed::new_transformed(Expr::Alias(alias), inner.transformed))
        }
        expr if reorders(&expr, schema) => {
            Ok(Transformed::yes(hide(Volatility::Immutable, false, expr)))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Whether an expression is a cast, or a chain of casts, that may change the order of values.
fn reorders(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Cast(cast) = expr else { return false };
    let keeps =
        cast.expr.get_type(schema).is_ok_and(|from| keeps_order(&from, cast.field.data_type()));
    !keeps || reorders(&cast.expr, schema)
}

fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    let has_instants =
        |data_type: &DataType| matches!(data_type, Date32 | Date64 | Timestamp(_, None));
    match (from, to) {
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => true,
        _ => {
            from == to
                || from.is_numeric() && to.is_numeric()
                || from.is_string() && to.is_string()
                || has_instants(from) && has_instants(to)
        }
    }
}

/// Whether a number or a time may change when it is cast to a type and back.
fn rounds(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Duration, Float16, Float32, Float64, Int32, Int64, Interval, Timestamp, UInt32, UInt64,
    };
    match (from, to) {
        (Timestamp(from, _), Timestamp(to, _)) => to < from,
        (Timestamp(..), _) => true,
        (Float64, Float32)
        | (Int64 | UInt64, Float64)
        | (Int32 | Int64 | UInt32 | UInt64, Float32) => true,
        (Float16 | Float32 | Float64, to) => !to.is_floating(),
        // Days that are added to a date: their bounds would be compared with intervals.
        (from, to @ (Duration(_) | Interval(_))) => from != to,
        _ => false,
    }
}

/// Whether a plan may have nulls in columns that its schema has as never null: those that come from
/// a scalar subquery without rows.
pub(super) fn misses_nulls(plan: &LogicalPlan) -> bool {
    any_expression(plan, is_missing_null)
}

/// Whether an expression is, or has, a scalar subquery that may be null although its schema denies
/// it.
pub(super) fn has_missing_null(expr: &Expr) -> bool {
    has_part(expr, is_missing_null)
}

fn is_missing_null(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if misses_null(subquery))
}

fn misses_null(subquery: &Subquery) -> bool {
    let plan = &subquery.subquery;
    let all_stay_nullable = (0..plan.schema().fields().len()).all(|at| stays_nullable(plan, at));
    !all_stay_nullable && !has_a_row(plan)
}

/// Whether a column of a plan is one that may be null and stays so: what is computed may turn out
/// to be never null once parts of it are folded.
fn stays_nullable(plan: &LogicalPlan, at: usize) -> bool {
    let of = |column: &Column, input: &LogicalPlan| {
        input.schema().maybe_index_of_column(column).is_some_and(|at| stays_nullable(input, at))
    };
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(at) {
            Some(Expr::Column(column)) => of(column, &projection.input),
            Some(Expr::Alias(alias)) => match alias.expr.as_ref() {
                Expr::Column(column) => of(column, &projection.input),
                _ => false,
            },
            _ => false,
        },
        LogicalPlan::Filter(filter) => stays_nullable(&filter.input, at),
        LogicalPlan::Sort(sort) => stays_nullable(&sort.input, at),
        LogicalPlan::Limit(limit) => stays_nullable(&limit.input, at),
        LogicalPlan::SubqueryAlias(alias) => stays_nullable(&alias.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => stays_nullable(input, at),
        LogicalPlan::TableScan(scan) => scan.projected_schema.field(at).is_nullable(),
        _ => false,
    }
}

/// Whether a plan always has a row, as an aggregate without keys does.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// Makes the column of a subquery nullable.
fn with_null(subquery: Subquery) -> DataFusionResult<Subquery> {
    let schema = subquery.subquery.schema();
    // A function that is not volatile would be folded, and show the constant again.
    let column = |(column, (qualifier, field)): (_, (Option<&_>, &FieldRef))| {
        hide_nullable(Volatility::Volatile, Expr::Column(column))
            .alias_qualified(qualifier.cloned(), field.name())
    };
    let outputs = schema.columns().into_iter().zip(schema.iter()).map(column).collect();
    let projection = Projection::try_new(outputs, Arc::clone(&subquery.subquery))?;
    Ok(subquery.with_plan(LogicalPlan::Projection(projection).into()))
}

fn hide_nullable(volatility: Volatility, expr: Expr) -> Expr {
    hide(volatility, true, expr)
}

fn hide(volatility: Volatility, is_nullable: bool, expr: Expr) -> Expr {
    let function = function(volatility, is_nullable);
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), vec![expr]))
}

/// The function that returns its argument.
pub(in crate::sql) fn function(volatility: Volatility, is_nullable: bool) -> ScalarUDF {
    ScalarUDF::from(OpaqueIdentity { signature: Signature::any(1, volatility), is_nullable })
}

/// Whether a function returns its argument.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn is_identity(function: &ScalarUDF) -> bool {
    function.inner().is::<OpaqueIdentity>()
}

/// Returns its argument. The planner only knows the type, and whether the result may be null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OpaqueIdentity {
    signature: Signature,
    /// Whether the result may be null even if the argument may not.
    is_nullable: bool,
}

impl ScalarUDFImpl for OpaqueIdentity {
    fn name(&self) -> &'static str {
        "as_it_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> DataFusionResult<DataType> {
        args.first()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("{} has no argument", self.name()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let may_be_null =
            self.is_nullable || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, may_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let value = args.args.into_iter().next();
        value.ok_or_else(|| internal_datafusion_err!("{} has no argument", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Schema, TimeUnit};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::{cast, lit, table_scan};
    use datafusion::prelude::col;

    use super::*;

    /// A filter that compares a cast of a column, as it is rewritten.
    fn filtered(column: &str, value: ScalarValue) -> String {
        let stamps = DataType::Timestamp(TimeUnit::Microsecond, None);
        let fields = [("ts", stamps), ("f", DataType::Float64), ("i", DataType::Int64)];
        let schema =
            Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec());
        let compared = cast(col(column), value.data_type()).eq(lit(value));
        let plan = table_scan(Some("t"), &schema, None)
            .unwrap()
            .filter(compared)
            .unwrap()
            .build()
            .unwrap();
        let LogicalPlan::Filter(filter) = plan else { panic!("{plan}") };
        hide_wrong_bounds(filter).unwrap().data.predicate.to_string()
    }

    #[test]
    fn no_bounds_are_taken_of_casts_that_round() {
        for (column, value, expected) in [
            ("ts", ScalarValue::Date32(Some(0)), "TRY_CAST("),
            ("ts", ScalarValue::TimestampSecond(Some(0), None), "TRY_CAST("),
            ("ts", ScalarValue::TimestampNanosecond(Some(0), None), "CAST("),
            ("i", ScalarValue::Float64(Some(0.0)), "TRY_CAST("),
            ("f", ScalarValue::Int64(Some(0)), "as_it_is(CAST("),
            ("i", ScalarValue::Int32(Some(0)), "CAST("),
        ] {
            let found = filtered(column, value);
            assert!(found.starts_with(expected), "{found}");
        }
    }
}

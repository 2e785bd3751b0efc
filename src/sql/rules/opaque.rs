//! What DataFusion's rules must not look through.
//!
//! Where this stands on the road of a query: an analyzer rule, after all others. DataFusion (55.2)
//!
//! - takes a scalar subquery for never null where its column is not, although it is null where
//!   there is no row: `(SELECT id FROM t WHERE false) IS NULL` is false;
//! - takes a cast off a comparison with a literal where the literal fits the type below, although
//!   the cast loses digits (`price::int = 3` becomes `price = 3.00`), or is null where a value does
//!   not fit (`try_cast(x AS SMALLINT) <> 3`);
//! - makes AND and OR of a CASE, see `guards`.
//!
//! Such a column, or cast, becomes the argument of a function that gives it back as it is.
//!
//! So does a cast that rounds, in filters that no scan takes: from bounds of `f::int` it makes
//! bounds of `f` that may be wider than those that `f` has, estimates that more rows pass than
//! there are, and fails. `lower` calls for that. Where a cast cannot fail, it becomes a TRY_CAST,
//! of which no bounds are taken either, but by which files are pruned.
//!
//! And so does a cast in a SELECT list that changes the order of values, as from numbers to texts:
//! DataFusion takes the least and the greatest value for the least and the greatest text, and
//! answers `max(x::text)` by them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Filter, LogicalPlan, Projection, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::rules::guards;
use crate::sql::walks::{
    Rewritten, any_expression, has_part, rewrite_plan, rewrite_up, rewrite_where,
};

/// What `<> ALL(array)` is made of, and `= ANY(array)`.
const ARRAY_HAS: &str = "array_has";

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct HideFromRules;

impl AnalyzerRule for HideFromRules {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        let rewritten = rewrite_plan(plan, |node| rewrite_where(node, is_candidate, hidden))?;
        if !rewritten.transformed {
            return Ok(rewritten.data);
        }
        // What reads a subquery's value may be null now, too.
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

/// An expression with what rules must not look through hidden.
pub(in crate::sql) fn hidden(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| one_hidden(expr, schema))
}

fn one_hidden(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(subquery) if misses_null(&subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(with_null(subquery)?)))
        }
        Expr::BinaryExpr(mut compared) if compared.op.supports_propagation() => {
            let left = hide_casts(&mut compared.left, schema)?;
            let right = hide_casts(&mut compared.right, schema)?;
            Ok(Transformed::new_transformed(Expr::BinaryExpr(compared), left || right))
        }
        Expr::InList(mut list) => {
            let mut changed = hide_casts(&mut list.expr, schema)?;
            for value in &mut list.list {
                changed |= hide_casts(value, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
        }
        // A list that is constant becomes an IN later.
        Expr::ScalarFunction(mut function) if function.name() == ARRAY_HAS => {
            let mut changed = false;
            for arg in &mut function.args {
                changed |= hide_casts(arg, schema)?;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        Expr::Between(mut between) => {
            let mut changed = hide_casts(&mut between.expr, schema)?;
            changed |= hide_casts(&mut between.low, schema)?;
            changed |= hide_casts(&mut between.high, schema)?;
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        other => Ok(guards::guarded(other, schema)),
    }
}

/// Hides a cast, and those in it, that is not the same as its value; says whether there was one.
fn hide_casts(expr: &mut Expr, schema: &DFSchema) -> DataFusionResult<bool> {
    let (within, hides) = match expr {
        Expr::Cast(cast) => {
            // What has no type at this node, as a filter of a scan, was looked at before.
            let hides = cast
                .expr
                .get_type(schema)
                .is_ok_and(|of| loses_digits(&of, cast.field.data_type()));
            (hide_casts(&mut cast.expr, schema)?, hides)
        }
        Expr::TryCast(cast) => (hide_casts(&mut cast.expr, schema)?, true),
        _ => return Ok(false),
    };
    if hides {
        *expr = as_it_is(Volatility::Immutable, std::mem::take(expr));
    }
    Ok(within || hides)
}

/// Whether two values may be cast to one.
fn loses_digits(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let scale = |of: &DataType| match of {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        other => other.is_integer().then_some(0),
    };
    scale(from).zip(scale(to)).is_some_and(|(from, to)| from > to)
}

/// A filter of DataFusion's, of whose columns it takes no bounds from casts that round.
pub(in crate::sql) fn without_bounds(mut filter: Filter) -> DataFusionResult<Transformed<Filter>> {
    if !has_part(&filter.predicate, |part| matches!(part, Expr::Cast(_))) {
        return Ok(Transformed::no(filter));
    }
    let schema = Arc::clone(filter.input.schema());
    let predicate = rewrite_up(std::mem::take(&mut filter.predicate), |part| match part {
        Expr::Cast(cast) => {
            let of = cast.expr.get_type(&schema).ok();
            Ok(match of.filter(|of| rounds(of, cast.field.data_type())) {
                Some(of) => Transformed::yes(boundless(cast, &of)),
                None => Transformed::no(Expr::Cast(cast)),
            })
        }
        other => Ok(Transformed::no(other)),
    })?;
    filter.predicate = predicate.data;
    Ok(Transformed::new_transformed(filter, predicate.transformed))
}

/// A cast of which no bounds are taken. TRY_CAST is one, and files are still pruned by it; where a
/// value may not fit, it would be null, and the cast is hidden.
fn boundless(cast: Cast, of: &DataType) -> Expr {
    let to = cast.field.data_type();
    match to.is_floating() || (matches!(of, DataType::Timestamp(..)) && to.is_temporal()) {
        true => Expr::TryCast(TryCast { expr: cast.expr, field: cast.field }),
        false => as_it_is(Volatility::Immutable, Expr::Cast(cast)),
    }
}

/// A projection of DataFusion's, of whose columns it takes no bounds from casts that change the
/// order of values.
pub(in crate::sql) fn without_other_bounds(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    rewrite_where(node, |expr| matches!(expr, Expr::Cast(_)), hidden_reordering)
}

fn hidden_reordering(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    match expr {
        Expr::Alias(mut alias) => {
            let inner = hidden_reordering(std::mem::take(&mut *alias.expr), schema)?;
            *alias.expr = inner.data;
            Ok(Transformed::new_transformed(Expr::Alias(alias), inner.transformed))
        }
        expr if reorders(&expr, schema) => {
            Ok(Transformed::yes(call(Volatility::Immutable, false, expr)))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Whether an expression is a cast, or casts of casts, after which another value may be the least
/// one.
fn reorders(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Cast(cast) = expr else { return false };
    let keeps =
        cast.expr.get_type(schema).is_ok_and(|from| keeps_order(&from, cast.field.data_type()));
    !keeps || reorders(&cast.expr, schema)
}

fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    let has_instants = |of: &DataType| matches!(of, Date32 | Date64 | Timestamp(_, None));
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

/// Whether a number or a time, cast to a type and back, may be another one.
fn rounds(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float16, Float32, Float64, Int32, Int64, Timestamp, UInt32, UInt64};
    match (from, to) {
        (Timestamp(from, _), Timestamp(to, _)) => to < from,
        (Timestamp(..), _) => true,
        (Float64, Float32)
        | (Int64 | UInt64, Float64)
        | (Int32 | Int64 | UInt32 | UInt64, Float32) => true,
        (Float16 | Float32 | Float64, to) => !to.is_floating(),
        _ => false,
    }
}

fn misses_null(subquery: &Subquery) -> bool {
    !subquery.subquery.schema().fields().iter().any(|field| field.is_nullable())
        && !has_a_row(&subquery.subquery)
}

/// Whether a plan has a row in any case: an aggregate without keys.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// The subquery with a column that may be null.
fn with_null(subquery: Subquery) -> DataFusionResult<Subquery> {
    let schema = subquery.subquery.schema();
    // A constant would be seen again once it is folded.
    let column = |(column, (qualifier, field)): (_, (Option<&_>, &FieldRef))| {
        as_it_is(Volatility::Volatile, Expr::Column(column))
            .alias_qualified(qualifier.cloned(), field.name())
    };
    let outputs = schema.columns().into_iter().zip(schema.iter()).map(column).collect();
    let projection = Projection::try_new(outputs, Arc::clone(&subquery.subquery))?;
    Ok(subquery.with_plan(LogicalPlan::Projection(projection).into()))
}

fn as_it_is(volatility: Volatility, expr: Expr) -> Expr {
    call(volatility, true, expr)
}

fn call(volatility: Volatility, forgets_not_null: bool, expr: Expr) -> Expr {
    let function =
        ScalarUDF::from(AsItIs { signature: Signature::any(1, volatility), forgets_not_null });
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), vec![expr]))
}

/// Returns its argument. The planner knows only its type, and whether it may be null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsItIs {
    signature: Signature,
    /// Whether it may be null even if its argument may not.
    forgets_not_null: bool,
}

impl ScalarUDFImpl for AsItIs {
    fn name(&self) -> &'static str {
        "as_it_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> DataFusionResult<DataType> {
        of.first()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("{} has no argument", self.name()))
    }

    fn return_field_from_args(&self, of: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> =
            of.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let may_be_null =
            self.forgets_not_null || of.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, may_be_null)))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let value = given.args.into_iter().next();
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

    /// A filter's cast of a column to the type of a value.
    fn filtered(column: &str, value: ScalarValue) -> String {
        let stamps = DataType::Timestamp(TimeUnit::Microsecond, None);
        let fields = [("ts", stamps), ("f", DataType::Float64), ("i", DataType::Int64)];
        let schema = Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec());
        let compared = cast(col(column), value.data_type()).eq(lit(value));
        let plan = table_scan(Some("t"), &schema, None)
            .unwrap()
            .filter(compared)
            .unwrap()
            .build()
            .unwrap();
        let LogicalPlan::Filter(filter) = plan else { panic!("{plan}") };
        without_bounds(filter).unwrap().data.predicate.to_string()
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

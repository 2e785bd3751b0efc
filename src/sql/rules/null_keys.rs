//! Gives a type to join keys, and to what is counted, that are only nulls.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced and
//! subqueries have become joins. `SELECT NULL, … INTERSECT SELECT NULL, …` becomes a join with a
//! key of the null type. DataFusion's hash join (55.2) counts no nulls in arrays of that type, and
//! hands the other side a filter that drops the rows with nulls, although nulls are equal there. In
//! arrays of any other type it does count nulls. Nor does `count(DISTINCT …)` beside another
//! aggregate.

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, NullEquality};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_expression, any_node, rewrite_plan, rewrite_up, rewrite_where};

#[derive(Debug)]
pub(in crate::sql) struct TypedNullKeys;

impl AnalyzerRule for TypedNullKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let in_keys =
            any_node(&plan, |node| matches!(node, LogicalPlan::Join(join) if has_null_keys(join)));
        if !in_keys && !any_expression(&plan, is_concerned) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) if has_null_keys(&join) => {
                with_typed_keys(join).map(Transformed::yes)
            }
            other => rewrite_where(other, is_concerned, |expr, schema| {
                rewrite_up(expr, |expr| Ok(decided(expr, schema)))
            }),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "typed_null_keys"
    }
}

fn is_null(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Null)
}

/// Whether a join has keys of the null type, and nulls are equal in it.
fn has_null_keys(join: &Join) -> bool {
    let are_null = |(left, right): &(Expr, Expr)| {
        is_null(left, join.left.schema()) && is_null(right, join.right.schema())
    };
    join.null_equality == NullEquality::NullEqualsNull && join.on.iter().any(are_null)
}

fn with_typed_keys(mut join: Join) -> DataFusionResult<LogicalPlan> {
    for (left, right) in &mut join.on {
        if is_null(left, join.left.schema()) && is_null(right, join.right.schema()) {
            *left = cast(left.clone(), DataType::Int64);
            *right = cast(right.clone(), DataType::Int64);
        }
    }
    Ok(LogicalPlan::Join(join))
}

fn is_concerned(expr: &Expr) -> bool {
    is_distinction(expr) || matches!(expr, Expr::AggregateFunction(call) if call.params.distinct)
}

fn is_distinction(expr: &Expr) -> bool {
    use Operator::{IsDistinctFrom, IsNotDistinctFrom};
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: IsDistinctFrom | IsNotDistinctFrom, .. }))
}

/// Decides whether a constant null is distinct from another, for which no join is needed; gives
/// distinct values that are counted a type.
fn decided(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match &expr {
        Expr::AggregateFunction(call)
            if call.params.distinct
                && call.func.name() == "count"
                && call.params.args.iter().any(|arg| is_null(arg, schema)) =>
        {
            let mut typed = call.clone();
            for arg in typed.params.args.iter_mut().filter(|arg| is_null(arg, schema)) {
                *arg = cast(arg.clone(), DataType::Int64);
            }
            Transformed::yes(Expr::AggregateFunction(typed))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_distinction(&expr) && is_null(left, schema) && is_null(right, schema) =>
        {
            Transformed::yes(lit(*op == Operator::IsNotDistinctFrom))
        }
        _ => Transformed::no(expr),
    }
}

//! Gives both sides of INTERSECT and EXCEPT the types that they have in a UNION: a number and a
//! text are compared as texts.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) plans both as joins, and reads the texts of their keys as numbers, which fails for other
//! texts and finds '01' equal to 1.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::type_coercion::binary::{comparison_coercion, type_union_coercion};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::optimizer::AnalyzerRule;

use arrow_schema::DataType;

use crate::sql::walks::{any_node, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct TypesOfUnions;

impl AnalyzerRule for TypesOfUnions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let differs = |node: &LogicalPlan| match node {
            LogicalPlan::Join(join) => types_of_union(join).is_some(),
            _ => false,
        };
        if !any_node(&plan, differs) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) => match types_of_union(&join) {
                Some(types) => unified(join, &types).map(Transformed::yes),
                None => LogicalPlan::Join(join).recompute_schema().map(Transformed::yes),
            },
            other => other.recompute_schema().map(Transformed::yes),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "types_of_unions"
    }
}

/// The types that the columns would have in a UNION, if one of them is another than that in which
/// the keys of a join are compared; `None` for other joins. Before subqueries become joins, no
/// other semi or anti join takes nulls for equal.
fn types_of_union(join: &Join) -> Option<Vec<DataType>> {
    let (left, right) = (join.left.schema().fields(), join.right.schema().fields());
    let is_set_operation = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.on.len() == left.len()
        && left.len() == right.len();
    if !is_set_operation {
        return None;
    }
    let pairs =
        || left.iter().zip(right).map(|(left, right)| (left.data_type(), right.data_type()));
    if pairs()
        .all(|(left, right)| type_union_coercion(left, right) == comparison_coercion(left, right))
    {
        return None;
    }
    pairs().map(|(left, right)| type_union_coercion(left, right)).collect()
}

fn unified(mut join: Join, types: &[DataType]) -> DataFusionResult<LogicalPlan> {
    for side in [&mut join.left, &mut join.right] {
        let columns = with_types(side.schema(), types);
        let rows = LogicalPlanBuilder::from(side.as_ref().clone());
        *side = Arc::new(rows.project(columns)?.build()?);
    }
    LogicalPlan::Join(join).recompute_schema()
}

/// The columns of a schema in these types, under their names.
fn with_types(schema: &DFSchema, types: &[DataType]) -> Vec<Expr> {
    let column = |((qualifier, field), data_type): ((Option<&_>, &_), &DataType)| {
        let column = Expr::from((qualifier, field));
        let field: &Arc<arrow_schema::Field> = field;
        match field.data_type() == data_type {
            true => column,
            false => cast(column, data_type.clone())
                .alias_qualified(qualifier.cloned(), field.name().clone()),
        }
    };
    schema.iter().zip(types).map(column).collect()
}

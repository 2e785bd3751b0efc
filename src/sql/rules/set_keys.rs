//! Names for the computed keys of ROLLUP, CUBE and GROUPING SETS.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. Where that
//! changes a key (`dt - 1` of a date), DataFusion (55.2) gives the whole list of sets the name that
//! it had, and takes it for one key then. Here each computed key has its own name before.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_expression, map_expressions, map_parts, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct NamedSetKeys;

impl AnalyzerRule for NamedSetKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let is_list = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
        if !any_expression(&plan, is_list) {
            return Ok(plan);
        }
        let named = |key: Expr| {
            Ok(match key {
                Expr::Column(_) | Expr::Alias(_) => Transformed::no(key),
                key => {
                    let name = key.schema_name().to_string();
                    Transformed::yes(key.alias(name))
                }
            })
        };
        let rewritten = rewrite_plan(plan, |node| match node {
            LogicalPlan::Aggregate(_) => map_expressions(node, |expr| match expr {
                Expr::GroupingSet(_) => map_parts(expr, named),
                other => Ok(Transformed::no(other)),
            }),
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }

    fn name(&self) -> &'static str {
        "named_set_keys"
    }
}

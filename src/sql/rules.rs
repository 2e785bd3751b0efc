//! What analyzer rules have in common: each expression of a plan is rewritten over the columns that it reads.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::walks::{Rewritten, map_expressions, map_parts, node_has_part};

/// Whether an operator compares two values.
pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The columns that the expressions of a node read: those of all its inputs.
fn columns_below(node: &LogicalPlan) -> DFSchemaRef {
    match node.inputs().as_slice() {
        [] => DFSchemaRef::new(DFSchema::empty()),
        [input] => DFSchemaRef::clone(input.schema()),
        [first, others @ ..] => {
            let mut schema = first.schema().as_ref().clone();
            others.iter().for_each(|input| schema.merge(input.schema()));
            schema.into()
        }
    }
}

/// A node with its expressions rewritten if a part of one is of concern; any other is left as it is.
pub(super) fn rewrite_where(
    node: LogicalPlan,
    concerns: impl Fn(&Expr) -> bool,
    rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    match node_has_part(&node, concerns) {
        true => rewrite_expressions(node, rewrite),
        false => Ok(Transformed::no(node)),
    }
}

/// A node with its expressions rewritten, each under the name that it had.
pub(super) fn rewrite_expressions(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Rewritten<Expr>,
) -> Rewritten<LogicalPlan> {
    let schema = columns_below(&node);
    let names = NamePreserver::new(&node);
    let mut under_its_name = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr, &schema)?.update_data(|expr| name.restore(expr)))
    };
    map_expressions(node, |expr| match expr {
        // Keys have names, a set of them has none.
        Expr::GroupingSet(_) => map_parts(expr, &mut under_its_name),
        other => under_its_name(other),
    })
}

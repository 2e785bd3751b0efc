//! The first rows of a sort as fragments.

use std::sync::Arc;

use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{LogicalPlan, Sort};

use super::aggregate::is_comparable;
use super::expression::Compiler;
use super::source::{Input, Refusal};
use crate::query::{Fragment, OrderBy, Output};
use crate::sql::run::node::FragmentNode;

/// The fragment for the first `limit` rows of `plan`, whose node is `sort`.
pub(super) fn lower(
    sort: &Sort,
    limit: usize,
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Result<FragmentNode, Refusal> {
    let source = Input::new(&sort.input)?;
    let mut compiler = Compiler::new(&source, props);
    let conditions = compiler.conditions()?;
    let mut order = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        let expression = compiler.expression(&key.expr)?;
        if !is_comparable(&expression.data_type) {
            return Err(format!("an order by type {}", expression.data_type));
        }
        order.push(OrderBy { expression, descending: !key.asc, nulls_first: key.nulls_first });
    }
    let schema = sort.input.schema();
    let expressions = compiler.outputs()?;
    if expressions.is_empty() || order.is_empty() {
        return Err("no columns".into());
    }
    let fragment = Fragment {
        columns: compiler.columns(),
        conditions,
        output: Output::Top { order, limit, expressions },
        schema: Arc::clone(schema.inner()),
    };
    Ok(FragmentNode::new(fragment, &source.table, plan.clone(), sort.expr.clone()))
}

//! Computes below a window what it is partitioned, ordered and filtered by.
//!
//! Where this stands on the road of a query: one of the last logical rules. DataFusion (55.2)
//! computes such keys for the sort and again for the window. It then fails to see that the rows are
//! in order for `-abs(x)` ("does not satisfy order requirements"), and for a widening cast before
//! other keys ("Expects PARTITION BY expression to be ordered"). It tracks the order of plain
//! columns correctly. A filter over texts would be evaluated on another layout of them than it was
//! planned for (`run/window_texts`).

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window};

use crate::sql::walks::{Rewritten, rewrite_expressions, rewrite_up};

pub(in crate::sql) fn compute_keys_below_windows(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
    let (input, columns) = (window.input.clone(), node.schema().columns());
    let mut computed: Vec<(Expr, Column)> = Vec::new();
    // Plans that are alike have names that are alike: they are run once.
    let names = (0..).map(|number| format!("#window key {number}"));
    let known_names = Arc::clone(input.schema());
    let mut names = names.filter(|name| !known_names.has_column_with_unqualified_name(name));
    let mut compute = |key: &mut Expr| {
        if matches!(key, Expr::Column(_) | Expr::Literal(..)) {
            return false;
        }
        let key_before = std::mem::take(key);
        let known = computed.iter().find(|(known, _)| *known == key_before);
        let column = match known {
            Some((_, column)) => column.clone(),
            None => {
                let column = Column::new_unqualified(names.next().unwrap_or_default());
                computed.push((key_before, column.clone()));
                column
            }
        };
        *key = Expr::Column(column);
        true
    };
    let rewritten = rewrite_expressions(node, |expr, _| {
        rewrite_up(expr, |expr| {
            let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            let params = &mut call.params;
            let orders = params.order_by.iter_mut().map(|order| &mut order.expr);
            let filter = params.filter.iter_mut().map(Box::as_mut);
            let keys = params.partition_by.iter_mut().chain(orders).chain(filter);
            let changed = keys.map(&mut compute).fold(false, |any, changed| any | changed);
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
        })
    })?;
    if computed.is_empty() {
        return Ok(rewritten);
    }
    let LogicalPlan::Window(Window { window_expr, .. }) = rewritten.data else {
        return Ok(rewritten);
    };
    let below = input.schema().columns().into_iter().map(Expr::from);
    let below = below.chain(computed.into_iter().map(|(key, column)| key.alias(column.name)));
    let below = LogicalPlan::Projection(Projection::try_new(below.collect(), input)?);
    let window = LogicalPlan::Window(Window::try_new(window_expr, below.into())?);
    let columns = columns.into_iter().map(Expr::from).collect();
    let projection = Projection::try_new(columns, window.into())?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

//! Qualifies names in subqueries over joins with their tables.
//!
//! Where this stands on the road of a query: just before planning, together with `wildcards`, which
//! knows the columns of a FROM. If two tables of a subquery have a name, such as `x` of `JOIN …
//! USING (x)`, DataFusion (55.2) looks for it in the query around the subquery, and silently takes
//! the `x` of that query.

use std::ops::ControlFlow;

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, TableFactor,
    TableWithJoins, Value, VisitMut,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::outputs::OutputColumn;
use crate::sql::walks::visit_outer_expressions_mut;

/// Whether a FROM has more than one table.
pub(in crate::sql) fn is_joined(from: &[TableWithJoins]) -> bool {
    let nested = |from: &TableWithJoins| matches!(from.relation, TableFactor::NestedJoin { .. });
    from.len() > 1 || from.iter().any(|from| !from.joins.is_empty() || nested(from))
}

/// Writes the names of a SELECT over `outputs` with their tables, where DataFusion would look for
/// them elsewhere.
pub(in crate::sql) fn qualify(
    select: &mut Select,
    outputs: &[OutputColumn],
) -> DataFusionResult<()> {
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut()
            .for_each(|key| replace_with_position(key, &named, |name| count(outputs, name) > 1));
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        qualify_names(keys, outputs)?;
    }
    qualify_names(&mut select.projection, outputs)?;
    qualify_names(&mut select.selection, outputs)?;
    qualify_names(&mut select.group_by, outputs)?;
    qualify_names(&mut select.having, outputs)?;
    qualify_names(&mut select.named_window, outputs)?;
    qualify_names(&mut select.qualify, outputs)
}

/// The same for the ORDER BY of a query. Columns of its SELECT take precedence over those of the
/// tables.
pub(in crate::sql) fn qualify_order(
    query: &mut Query,
    outputs: &[OutputColumn],
) -> DataFusionResult<()> {
    let Some(select) = query.body.as_select() else { return Ok(()) };
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for key in keys {
        replace_with_position(&mut key.expr, &named, |_| true);
        qualify_names(&mut key.expr, outputs)?;
    }
    Ok(())
}

/// The name of an output column; `None` for a `*` and for an expression without an alias.
fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        _ => None,
    }
}

/// Replaces a key that is the name of exactly one output with the position of that output.
fn replace_with_position(key: &mut Expr, named: &[Option<String>], applies: impl Fn(&str) -> bool) {
    let Expr::Identifier(name) = &*key else { return };
    let name = folded(name);
    let mut matches = named.iter().enumerate().filter(|(_, output)| output.as_ref() == Some(&name));
    if let (Some((at, _)), None) = (matches.next(), matches.next())
        && applies(&name)
    {
        *key = Expr::Value(Value::Number((at + 1).to_string(), false).into());
    }
}

fn count(outputs: &[OutputColumn], name: &str) -> usize {
    outputs.iter().filter(|output| output.is_named(name)).count()
}

/// Writes the names of merged columns with their tables; a name that several tables have is an
/// error.
fn qualify_names(tree: &mut impl VisitMut, outputs: &[OutputColumn]) -> DataFusionResult<()> {
    let visited = visit_outer_expressions_mut(tree, |expr| {
        let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
        let name = folded(name);
        let mut named = outputs.iter().filter(|output| output.is_named(&name));
        match (named.next(), named.next()) {
            (Some(_), Some(_)) => return ControlFlow::Break(name),
            (Some(output), None) if output.is_merged => *expr = output.merged_expr(),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    let ControlFlow::Break(name) = visited else { return Ok(()) };
    let tables = outputs.iter().filter(|output| output.is_named(&name)).map(OutputColumn::table);
    let tables = tables.collect::<Vec<_>>().join(" and ");
    Err(plan_datafusion_err!("'{name}' is a column of {tables}: name the table, too"))
}

//! Names without a table in subqueries over joins, written with theirs.
//!
//! Where this stands on the road of a query: just before planning, with `stars`, which knows what a
//! FROM gives. DataFusion (55.2) looks for a name that two tables of a subquery have, such as `x`
//! of `JOIN … USING (x)`, in the query around it, and takes that query's `x` without a word.

use std::ops::ControlFlow;

use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, TableFactor,
    TableWithJoins, Value, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::outputs::Output;
use crate::sql::walks::visit_mut;

/// Whether a FROM has more than one table.
pub(in crate::sql) fn is_joined(from: &[TableWithJoins]) -> bool {
    let nested = |from: &TableWithJoins| matches!(from.relation, TableFactor::NestedJoin { .. });
    from.len() > 1 || from.iter().any(|from| !from.joins.is_empty() || nested(from))
}

/// Writes the names of a SELECT over `outputs` with their tables, where DataFusion would not find
/// them in these.
pub(in crate::sql) fn qualify(select: &mut Select, outputs: &[Output]) -> DataFusionResult<()> {
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(|key| by_position(key, &named, |name| count(outputs, name) > 1));
    }
    let mut names = Names { outputs, depth: 0 };
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        found(visit_mut(keys, &mut names), outputs)?;
    }
    found(visit_mut(&mut select.projection, &mut names), outputs)?;
    found(visit_mut(&mut select.selection, &mut names), outputs)?;
    found(visit_mut(&mut select.group_by, &mut names), outputs)?;
    found(visit_mut(&mut select.having, &mut names), outputs)?;
    found(visit_mut(&mut select.named_window, &mut names), outputs)?;
    found(visit_mut(&mut select.qualify, &mut names), outputs)
}

/// The same for the order of a query whose SELECT is given. What the SELECT gives comes before what
/// the tables have.
pub(in crate::sql) fn qualify_order(query: &mut Query, outputs: &[Output]) -> DataFusionResult<()> {
    let Some(select) = query.body.as_select() else { return Ok(()) };
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for key in keys {
        by_position(&mut key.expr, &named, |_| true);
        found(visit_mut(&mut key.expr, &mut Names { outputs, depth: 0 }), outputs)?;
    }
    Ok(())
}

/// Returns the name of an output column; `None` for a `*` and for an expression without an alias.
fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        _ => None,
    }
}

/// Writes a key that is the name of one output as its position.
fn by_position(key: &mut Expr, named: &[Option<String>], concerns: impl Fn(&str) -> bool) {
    let Expr::Identifier(name) = &*key else { return };
    let name = folded(name);
    let mut places = named.iter().enumerate().filter(|(_, output)| output.as_ref() == Some(&name));
    if let (Some((at, _)), None) = (places.next(), places.next())
        && concerns(&name)
    {
        *key = Expr::Value(Value::Number((at + 1).to_string(), false).into());
    }
}

fn count(outputs: &[Output], name: &str) -> usize {
    outputs.iter().filter(|output| output.is_named(name)).count()
}

/// Stops at a name that several tables have.
struct Names<'a> {
    outputs: &'a [Output],
    /// In how many queries within the SELECT it is.
    depth: usize,
}

impl VisitorMut for Names<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let name = folded(name);
        let mut named = self.outputs.iter().filter(|output| output.is_named(&name));
        match (named.next(), named.next()) {
            (Some(_), Some(_)) => return ControlFlow::Break(name),
            (Some(output), None) if output.is_merged => *expr = output.of_both(),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn found(visited: ControlFlow<String>, outputs: &[Output]) -> Result<(), DataFusionError> {
    let ControlFlow::Break(name) = visited else { return Ok(()) };
    let tables = outputs.iter().filter(|output| output.is_named(&name)).map(Output::table);
    let tables = tables.collect::<Vec<_>>().join(" and ");
    Err(plan_datafusion_err!("'{name}' is a column of {tables}: name the table, too"))
}

//! Names in the clauses of a SELECT, and in the ORDER BY of its query.

use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, Value,
    VisitMut, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::scopes::scope::{Scope, is_computed, position};
use crate::sql::walks::visit_mut;

/// Resolves the names in all clauses of a SELECT but its FROM.
pub(super) fn resolve(select: &mut Select, scope: &Scope) -> DataFusionResult<()> {
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    let is_ambiguous =
        |name: &str| scope.columns.iter().filter(|column| column.is_named(name)).count() > 1;
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(|key| replace_with_position(key, &named, is_ambiguous));
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        resolve_names(keys, scope)?;
    }
    for item in &mut select.projection {
        resolve_item(item, scope)?;
    }
    resolve_names(&mut select.selection, scope)?;
    resolve_names(&mut select.group_by, scope)?;
    resolve_names(&mut select.having, scope)?;
    resolve_names(&mut select.named_window, scope)?;
    resolve_names(&mut select.qualify, scope)?;
    Ok(())
}

/// The same for the ORDER BY of a query. Columns of its SELECT take precedence over those of the
/// tables.
pub(super) fn resolve_order(query: &mut Query, scope: &Scope) -> DataFusionResult<()> {
    let Some(select) = query.body.as_select() else { return Ok(()) };
    let named: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for key in keys {
        // In a subquery, DataFusion would look for a name that two tables have elsewhere.
        replace_with_position(&mut key.expr, &named, |_| scope.is_inner);
        let is_output = |name: &Ident| named.contains(&Some(folded(name)));
        if !matches!(&key.expr, Expr::Identifier(name) if is_output(name)) {
            resolve_names(&mut key.expr, scope)?;
        }
    }
    Ok(())
}

/// Resolves the names in an item of a SELECT list, which keeps its own.
fn resolve_item(item: &mut SelectItem, scope: &Scope) -> DataFusionResult<()> {
    let name = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        _ => None,
    };
    let has_computed = resolve_names(item, scope)?;
    if let (SelectItem::UnnamedExpr(expr), Some(name), true) = (&*item, name, has_computed) {
        let alias = Ident::with_quote('"', name);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
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

/// Writes names with their tables: those of merged columns; in subqueries of a SELECT with such
/// columns, all that are known. In a subquery, a name that several tables have is an error. Returns
/// whether a name became an expression.
pub(super) fn resolve_names(tree: &mut impl VisitMut, scope: &Scope) -> DataFusionResult<bool> {
    let mut names = Names { scope, given: Vec::new(), has_computed: false };
    match visit_mut(tree, &mut names) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(names.has_computed),
    }
}

struct Names<'s> {
    scope: &'s Scope,
    /// For each query that the walk is in: the names that its SELECT gives to columns.
    given: Vec<Vec<String>>,
    has_computed: bool,
}

impl Names<'_> {
    /// The expression for a name, if it is to be replaced.
    fn replacement(&self, name: &Ident) -> DataFusionResult<Option<Expr>> {
        let (scope, folded) = (self.scope, folded(name));
        let columns = &scope.columns;
        let at = match position(columns, &folded) {
            // DataFusion reports it.
            Err(_) if !(scope.is_inner && self.given.is_empty()) => return Ok(None),
            other => other?,
        };
        let Some(column) = at.and_then(|at| columns.get(at)) else { return Ok(None) };
        let is_meant = match self.given.is_empty() {
            true => column.is_merged() || scope.is_in_merging,
            // What is left without a table there is a name of this SELECT, or of an output.
            false => {
                column.is_merged()
                    && scope.knows_subqueries
                    && !self.given.iter().flatten().any(|given| *given == folded)
            }
        };
        Ok(is_meant.then(|| column.to_expr(name.span)))
    }
}

impl VisitorMut for Names<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let given = match query.body.as_select() {
            Some(select) => select.projection.iter().filter_map(alias).collect(),
            None => Vec::new(),
        };
        self.given.push(given);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<DataFusionError> {
        self.given.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
        match self.replacement(name) {
            Ok(Some(replacement)) => {
                self.has_computed |= is_computed(&replacement);
                *expr = replacement;
            }
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn alias(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

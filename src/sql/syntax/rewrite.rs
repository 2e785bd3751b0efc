//! Rewrites what other databases accept and DataFusion's planner does not: several columns with the
//! same name in a SELECT, aggregates that differ only in a cast or within a subquery, and a plus
//! before something other than a number.
//!
//! Only a statement that failed for one of these is rewritten and planned once more, so that others
//! pay nothing. Columns with the name of an earlier one get a new name while the statement is
//! planned (`a:1`), and the answer has the requested names again. `min(a), min(a::double)` have the
//! same name in DataFusion, which leaves casts and the texts of subqueries out of names: here casts
//! are marked, and subqueries in the arguments of functions; the mark is part of the name. A plus
//! is removed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, SchemaError};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, projection::ProjectionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, SetQuantifier, Statement as SqlStatement,
    UnaryOperator, VisitorMut,
};

use crate::sql::syntax::marks::{named_cast, named_subquery, unmarked};
use crate::sql::syntax::{folded, is_subquery, sql_of};
use crate::sql::walks::{rewrite_up, visit_mut};

/// A statement that is planned differently from how it was written.
pub(in crate::sql) struct Rewritten {
    pub(in crate::sql) statement: Statement,
    /// The requested names by the new names; `None` for an expression, which is named by
    /// DataFusion.
    new_names: HashMap<String, Option<String>>,
    marks_casts: bool,
}

/// Rewritten statements to try, if the statement failed for something that a rewrite can correct.
/// The one with the fewest changes comes first.
pub(in crate::sql) fn candidates(statement: &Statement, error: &DataFusionError) -> Vec<Rewritten> {
    if !is_correctable(error) {
        return Vec::new();
    }
    [false, true].into_iter().filter_map(|marks_casts| rewritten(statement, marks_casts)).collect()
}

fn rewritten(statement: &Statement, marks_casts: bool) -> Option<Rewritten> {
    let mut changed = statement.clone();
    let inner = sql_of(&mut changed)?;
    // The columns of a new table or view need distinct names.
    let creates = matches!(inner, SqlStatement::CreateTable(_) | SqlStatement::CreateView(_));
    let mut names = Renamer {
        new_names: HashMap::new(),
        text: inner.to_string(),
        renames: !creates,
        marks_casts,
        calls: vec![0],
    };
    let _ = visit_mut(inner, &mut names);
    (changed != *statement).then_some(Rewritten {
        statement: changed,
        new_names: names.new_names,
        marks_casts,
    })
}

fn is_correctable(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => matches!(
            schema.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Diagnostic(_, inner) => is_correctable(inner),
        DataFusionError::Plan(what) => {
            what.contains("require unique expression names")
                || what.starts_with("Unary operator '+' only supports")
        }
        _ => false,
    }
}

impl Rewritten {
    /// Whether some of these columns have other names in the rewritten statement.
    pub(in crate::sql) fn renames_any_of(&self, columns: &DFSchema) -> bool {
        columns.fields().iter().any(|field| self.new_names.contains_key(field.name()))
    }

    /// The original names by the names that columns have while the statement is planned.
    pub(in crate::sql) fn names(
        &self,
        plan: &LogicalPlan,
    ) -> DataFusionResult<HashMap<String, String>> {
        let known =
            |(new, requested): (&String, &Option<String>)| Some((new.clone(), requested.clone()?));
        let mut names: HashMap<String, String> = self.new_names.iter().filter_map(known).collect();
        if names.len() == self.new_names.len() && !self.marks_casts {
            return Ok(names);
        }
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                let (name, plain) = (expr.qualified_name().1, unmarked_name(expr)?);
                if name != plain {
                    names.insert(name, plain);
                }
                expr.apply(|expr| {
                    if let PlannedExpr::Alias(alias) = expr
                        && self.new_names.get(&alias.name).is_some_and(Option::is_none)
                    {
                        names.insert(alias.name.clone(), unmarked_name(&alias.expr)?);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        // Above an aggregate, the SELECT refers to it by its name with marks.
        let plain = names.clone();
        names
            .values_mut()
            .filter_map(|name| plain.get(name).map(|plain| (name, plain)))
            .for_each(|(name, plain)| name.clone_from(plain));
        Ok(names)
    }
}

/// Gives the columns of an answer their original names.
pub(in crate::sql) fn restore(
    plan: Arc<dyn ExecutionPlan>,
    names: &HashMap<String, String>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let has_new_names =
        |schema: &ArrowSchema| schema.fields().iter().any(|field| names.contains_key(field.name()));
    if !has_new_names(&schema) {
        return Ok(plan);
    }
    let columns = schema.fields().iter().enumerate().map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>,
        alias: names.get(field.name()).unwrap_or(field.name()).clone(),
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), plan)?))
}

/// Gives the columns of an answer these names.
pub(in crate::sql) fn rename(
    plan: Arc<dyn ExecutionPlan>,
    names: &[&str],
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let known = schema.fields().iter().map(|field| field.name().as_str());
    if names.len() != schema.fields().len() || known.eq(names.iter().copied()) {
        return Ok(plan);
    }
    let columns = schema.fields().iter().zip(names).enumerate().map(|(index, (field, name))| {
        ProjectionExpr {
            expr: Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>,
            alias: (*name).to_owned(),
        }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), plan)?))
}

/// The name that DataFusion gives to an expression without its marks.
fn unmarked_name(expr: &PlannedExpr) -> DataFusionResult<String> {
    let plain = rewrite_up(expr.clone(), |expr| {
        Ok(unmarked(&expr).map_or(Transformed::no(expr), Transformed::yes))
    })?;
    Ok(plain.data.qualified_name().1)
}

/// Gives new names to columns that need them, marks casts, and removes pluses.
struct Renamer {
    new_names: HashMap<String, Option<String>>,
    /// The whole statement, in which a new name must not occur.
    text: String,
    renames: bool,
    marks_casts: bool,
    /// For each query around a place, how many calls of functions are around it within the query.
    calls: Vec<usize>,
}

impl VisitorMut for Renamer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order: Vec<String> = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(by)) => {
                by.iter().filter_map(|by| output_of(&by.expr)).collect()
            }
            _ => Vec::new(),
        };
        let which = if self.renames { Renamed::Duplicates } else { Renamed::None };
        self.rename(&mut query.body, &order, which);
        self.calls.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.calls.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (Expr::Function(_), Some(calls)) = (expr, self.calls.last_mut()) {
            *calls += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (Expr::Function(_), Some(calls)) = (&*expr, self.calls.last_mut()) {
            *calls = calls.saturating_sub(1);
        }
        match expr {
            subquery
                if self.marks_casts
                    && is_subquery(subquery)
                    && self.calls.last().is_some_and(|calls| *calls > 0) =>
            {
                *subquery = named_subquery(subquery.clone());
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: operand } => {
                *expr = Expr::Nested(operand.clone())
            }
            Expr::Cast { .. } if self.marks_casts => *expr = named_cast(expr.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Which columns of a SELECT get new names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renamed {
    None,
    /// Those whose name an earlier column has, and those beside a `*`.
    Duplicates,
    All,
}

/// A column of a SELECT.
struct Item {
    /// The name by which other clauses can refer to it.
    name: Option<String>,
    /// The text of its expression.
    text: String,
}

impl Renamer {
    fn rename(&mut self, body: &mut SetExpr, order: &[String], which: Renamed) {
        let select = match body {
            // The columns of a table that SELECT … INTO creates need distinct names, too.
            SetExpr::Select(select) if select.into.is_none() => select,
            SetExpr::SetOperation { left, right, set_quantifier, .. } => {
                use SetQuantifier::{AllByName, ByName, DistinctByName};
                let by_name = matches!(set_quantifier, AllByName | ByName | DistinctByName);
                self.rename(left, order, which);
                // The columns of a set operation have the names of its left side.
                return self.rename(right, &[], if by_name { which } else { Renamed::All });
            }
            SetExpr::Query(query) if which == Renamed::All && query.order_by.is_none() => {
                return self.rename(&mut query.body, &[], which);
            }
            _ => return,
        };
        if which == Renamed::None {
            return;
        }
        let is_wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let has_wildcard = select.projection.iter().any(is_wildcard);
        let mut before: Vec<Item> = Vec::new();
        for selected in &mut select.projection {
            let Some((item, expr)) = item(selected) else { continue };
            let same = |earlier: &&Item| earlier.name == item.name || item.name.is_none();
            let duplicate = before.iter().find(same);
            // If ORDER BY names one of two different columns, the statement stays ambiguous.
            let is_ambiguous = |duplicate: &&Item| {
                duplicate.text != item.text
                    && item.name.as_ref().is_some_and(|name| order.contains(name))
            };
            if (duplicate.is_some() || has_wildcard || which == Renamed::All)
                && duplicate.filter(is_ambiguous).is_none()
            {
                let name = self.new_name(&item);
                *selected = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
            before.push(item);
        }
    }

    fn new_name(&mut self, item: &Item) -> String {
        let base = item.name.as_deref().unwrap_or(&item.text);
        let mut number = 1;
        loop {
            let name = format!("{base}:{number}");
            if !self.text.contains(&name) && !self.new_names.contains_key(&name) {
                self.new_names.insert(name.clone(), item.name.clone());
                return name;
            }
            number += 1;
        }
    }
}

/// A column of a SELECT, and its expression.
fn item(selected: &SelectItem) -> Option<(Item, Expr)> {
    match selected {
        SelectItem::UnnamedExpr(expr) => {
            Some((Item { name: name_of(expr), text: bare(expr).to_string() }, expr.clone()))
        }
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((Item { name: Some(folded(alias)), text: bare(expr).to_string() }, expr.clone()))
        }
        _ => None,
    }
}

/// The expression without the parentheses and pluses around it, which DataFusion ignores, too.
pub(in crate::sql) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => bare(inner),
        other => other,
    }
}

/// The name of an expression that may be an output column: one without a table.
fn output_of(expr: &Expr) -> Option<String> {
    match bare(expr) {
        Expr::Identifier(name) => Some(folded(name)),
        _ => None,
    }
}

/// The name of an expression that is only a column.
pub(in crate::sql) fn name_of(expr: &Expr) -> Option<String> {
    match bare(expr) {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        _ => None,
    }
}

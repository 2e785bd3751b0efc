//! What other databases accept and DataFusion's planner does not: columns of one name in a SELECT,
//! aggregates that differ in a cast alone, and a plus before what is no number.
//!
//! A statement that fails for one of these is rewritten and planned once more, so that others pay
//! nothing. Columns of a name that an earlier one has get a name of their own while the statement
//! is planned (`a:1`), and the answer has the names that were asked for. `min(a), min(a::double)`
//! are one name to DataFusion, which leaves casts out: here they are marked, and the mark is part
//! of the name. A plus is left out.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use datafusion::common::SchemaError;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
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

use crate::sql::syntax::marks::{named_cast, unmarked};
use crate::sql::syntax::sql_of;
use crate::sql::walks::{rewrite_up, visit_mut};

/// A statement as it is planned, where that is not as it was written.
pub(in crate::sql) struct Rewritten {
    pub(in crate::sql) statement: Statement,
    /// Names that columns have while it is planned, with those that were asked for; an expression
    /// has the name that DataFusion gives it.
    given: HashMap<String, Option<String>>,
    shows_casts: bool,
}

/// The statement in other words, if it failed for something that these mend: with the least changes
/// first.
pub(in crate::sql) fn candidates(statement: &Statement, error: &DataFusionError) -> Vec<Rewritten> {
    if !is_mended(error) {
        return Vec::new();
    }
    [false, true].into_iter().filter_map(|shows_casts| rewritten(statement, shows_casts)).collect()
}

fn rewritten(statement: &Statement, shows_casts: bool) -> Option<Rewritten> {
    let mut changed = statement.clone();
    let inner = sql_of(&mut changed)?;
    // The columns of a table or view that is made need names of their own.
    let makes = matches!(inner, SqlStatement::CreateTable(_) | SqlStatement::CreateView(_));
    let mut names =
        Names { given: HashMap::new(), text: inner.to_string(), renames: !makes, shows_casts };
    let _ = visit_mut(inner, &mut names);
    (changed != *statement).then_some(Rewritten {
        statement: changed,
        given: names.given,
        shows_casts,
    })
}

fn is_mended(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => matches!(
            schema.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Diagnostic(_, inner) => is_mended(inner),
        DataFusionError::Plan(what) => {
            what.contains("require unique expression names")
                || what.starts_with("Unary operator '+' only supports")
        }
        _ => false,
    }
}

impl Rewritten {
    /// The names that columns have while the statement is planned, with those that they would have
    /// had.
    pub(in crate::sql) fn names(
        &self,
        plan: &LogicalPlan,
    ) -> DataFusionResult<HashMap<String, String>> {
        let known =
            |(given, asked): (&String, &Option<String>)| Some((given.clone(), asked.clone()?));
        let mut names: HashMap<String, String> = self.given.iter().filter_map(known).collect();
        if names.len() == self.given.len() && !self.shows_casts {
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
                        && self.given.get(&alias.name).is_some_and(Option::is_none)
                    {
                        names.insert(alias.name.clone(), unmarked_name(&alias.expr)?);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        // What the SELECT has of an aggregate is its name with marks.
        let plain = names.clone();
        names
            .values_mut()
            .filter_map(|name| plain.get(name).map(|plain| (name, plain)))
            .for_each(|(name, plain)| name.clone_from(plain));
        Ok(names)
    }
}

/// The plan of an answer with the names that were asked for.
pub(in crate::sql) fn restore(
    plan: Arc<dyn ExecutionPlan>,
    names: &HashMap<String, String>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let asked =
        |schema: &ArrowSchema| schema.fields().iter().any(|field| names.contains_key(field.name()));
    if !asked(&schema) {
        return Ok(plan);
    }
    let columns = schema.fields().iter().enumerate().map(|(at, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>,
        alias: names.get(field.name()).unwrap_or(field.name()).clone(),
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), plan)?))
}

/// The plan of an answer with these names for its columns.
pub(in crate::sql) fn rename(
    plan: Arc<dyn ExecutionPlan>,
    names: &[&str],
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let known = schema.fields().iter().map(|field| field.name().as_str());
    if names.len() != schema.fields().len() || known.eq(names.iter().copied()) {
        return Ok(plan);
    }
    let columns =
        schema.fields().iter().zip(names).enumerate().map(|(at, (field, name))| ProjectionExpr {
            expr: Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>,
            alias: (*name).to_owned(),
        });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), plan)?))
}

/// The name that DataFusion gives an expression that has no marks.
fn unmarked_name(expr: &PlannedExpr) -> DataFusionResult<String> {
    let plain = rewrite_up(expr.clone(), |expr| {
        Ok(unmarked(&expr).map_or(Transformed::no(expr), Transformed::yes))
    })?;
    Ok(plain.data.qualified_name().1)
}

/// Gives names to columns that need them, and takes pluses away.
struct Names {
    given: HashMap<String, Option<String>>,
    /// The whole statement, in which a new name must not occur.
    text: String,
    renames: bool,
    /// Whether casts stand in the names of expressions, which they do not otherwise.
    shows_casts: bool,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order: Vec<String> = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(by)) => {
                by.iter().filter_map(|by| name_of(&by.expr)).collect()
            }
            _ => Vec::new(),
        };
        let which = if self.renames { Renamed::Twins } else { Renamed::None };
        self.rename(&mut query.body, &order, which);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: operand } => {
                *expr = Expr::Nested(operand.clone())
            }
            Expr::Cast { .. } if self.shows_casts => *expr = named_cast(expr.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Which columns of a SELECT get new names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renamed {
    None,
    /// Those that share one, and those beside a `*`.
    Twins,
    All,
}

/// A column of a SELECT.
struct Item {
    /// What it can be asked for by.
    name: Option<String>,
    /// What it computes.
    text: String,
}

impl Names {
    fn rename(&mut self, body: &mut SetExpr, order: &[String], which: Renamed) {
        let select = match body {
            // The columns of a table that SELECT … INTO makes need names of their own too.
            SetExpr::Select(select) if select.into.is_none() => select,
            SetExpr::SetOperation { left, right, set_quantifier, .. } => {
                use SetQuantifier::{AllByName, ByName, DistinctByName};
                let by_name = matches!(set_quantifier, AllByName | ByName | DistinctByName);
                self.rename(left, order, which);
                // The columns have the names of the first part.
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
        let wild = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let any = select.projection.iter().any(wild);
        let mut before: Vec<Item> = Vec::new();
        for selected in &mut select.projection {
            let Some((item, expr)) = item(selected) else { continue };
            let same = |earlier: &&Item| earlier.name == item.name || item.name.is_none();
            let twin = before.iter().find(same);
            // Which of two different columns is meant by ORDER BY is for the statement to say.
            let unclear = |twin: &&Item| {
                twin.text != item.text
                    && item.name.as_ref().is_some_and(|name| order.contains(name))
            };
            if (twin.is_some() || any || which == Renamed::All) && twin.filter(unclear).is_none() {
                let name = self.new_name(&item);
                *selected = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
            before.push(item);
        }
    }

    fn new_name(&mut self, item: &Item) -> String {
        let like = item.name.as_deref().unwrap_or(&item.text);
        let mut number = 1;
        loop {
            let name = format!("{like}:{number}");
            if !self.text.contains(&name) && !self.given.contains_key(&name) {
                self.given.insert(name.clone(), item.name.clone());
                return name;
            }
            number += 1;
        }
    }
}

/// A column of a SELECT, and the expression that gives it, under its old name where it has one.
fn item(selected: &SelectItem) -> Option<(Item, Expr)> {
    match selected {
        SelectItem::UnnamedExpr(expr) => {
            Some((Item { name: name_of(expr), text: bare(expr).to_string() }, expr.clone()))
        }
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((Item { name: Some(normal(alias)), text: bare(expr).to_string() }, expr.clone()))
        }
        _ => None,
    }
}

/// The expression without parentheses and pluses around it, which DataFusion does not see either.
pub(in crate::sql) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => bare(inner),
        other => other,
    }
}

/// The name of a column that is no more than that.
pub(in crate::sql) fn name_of(expr: &Expr) -> Option<String> {
    match bare(expr) {
        Expr::Identifier(name) => Some(normal(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(normal),
        _ => None,
    }
}

pub(in crate::sql) fn normal(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

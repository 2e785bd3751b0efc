//! Columns of `JOIN … USING (x)` and NATURAL JOIN that are named without a table.
//!
//! Where this stands on the road of a query: a statement that DataFusion could not plan because of
//! an ambiguous name is reworded and planned once more. DataFusion (55.2) finds `x` ambiguous in a
//! WHERE, and, if three tables are joined by it, everywhere, even in a later ON and in subqueries.
//! The reworded statement names a side: the left one, the right one of a RIGHT JOIN, and for a FULL
//! JOIN the first of both that is not null.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{
    visit, visit_expressions_mut, visit_mut, visit_outer_expressions, visit_outer_expressions_mut,
};

/// How many tables of a side are tried for a name.
const MAX_TABLES: usize = 8;

/// The statement reworded, once for each table that the name may belong to; none if the error is
/// another one.
pub(in crate::sql) fn candidates(statement: &Statement, error: &DataFusionError) -> Vec<Statement> {
    let mut found = match ambiguous(error) {
        Some(name) => reworded(statement, &[name], Clauses::All),
        None => Vec::new(),
    };
    if let Some((name, clauses)) = ambiguous_location(error) {
        found.extend(reworded(statement, &[name], clauses));
    }
    found
}

/// The name that is ambiguous or unknown, and where it is used. A name that is unknown in a
/// subquery may be known around it.
fn ambiguous_location(error: &DataFusionError) -> Option<(String, Clauses)> {
    let span = error.diagnostic()?.span?;
    let DataFusionError::SchemaError(schema, _) = schema_error(error)? else { return None };
    let (field, in_subqueries) = match schema.as_ref() {
        SchemaError::AmbiguousReference { field } => (field, false),
        SchemaError::FieldNotFound { field, .. } => (field, true),
        _ => return None,
    };
    let location = Location { line: span.start.line, column: span.start.column };
    field.relation.is_none().then(|| (field.name.clone(), Clauses::At { location, in_subqueries }))
}

/// Whether an error says that several tables have a column of a name.
pub(in crate::sql) fn is_ambiguous(error: &DataFusionError) -> bool {
    let is = |schema: &SchemaError| matches!(schema, SchemaError::AmbiguousReference { .. });
    matches!(schema_error(error), Some(DataFusionError::SchemaError(schema, _)) if is(schema))
}

/// The error below the diagnostics around it.
fn schema_error(error: &DataFusionError) -> Option<&DataFusionError> {
    match error.find_root() {
        DataFusionError::Diagnostic(_, inner) => schema_error(inner),
        other => Some(other),
    }
}

/// The statement reworded, if a HAVING in it names such a column and an output has the same name.
/// These rewordings are tried first, because DataFusion takes the output, and SQL the column.
pub(in crate::sql) fn columns_in_having(statement: &Statement) -> Vec<Statement> {
    let mut shared = SharedNames(Vec::new());
    if let Some(inner) = sql_in(statement) {
        let _ = visit(inner, &mut shared);
    }
    if shared.0.is_empty() { Vec::new() } else { reworded(statement, &shared.0, Clauses::Having) }
}

fn reworded(statement: &Statement, names: &[String], clauses: Clauses) -> Vec<Statement> {
    let candidate = |(natural, table)| {
        let mut changed = statement.clone();
        for name in names {
            let _ = visit_mut(
                sql_of(&mut changed)?,
                &mut Qualifier { name: name.clone(), natural, table, clauses },
            );
        }
        (changed != *statement).then_some(changed)
    };
    let choices = [true, false]
        .into_iter()
        .flat_map(|natural| (0..MAX_TABLES).map(move |table| (natural, table)));
    let mut found: Vec<Statement> = choices.filter_map(candidate).collect();
    found.dedup();
    found
}

/// Where names are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clauses {
    All,
    Having,
    /// Only at one location, which may be in an ON.
    At {
        location: Location,
        in_subqueries: bool,
    },
}

/// Collects names that are used in a HAVING and are also those of outputs, over tables that are
/// joined by columns.
struct SharedNames(Vec<String>);

impl Visitor for SharedNames {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let Some(having) = &select.having else { return ControlFlow::Continue(()) };
        let by_columns = |join: &Join| {
            matches!(
                constraint(&join.join_operator),
                Some((JoinConstraint::Natural | JoinConstraint::Using(_), _))
            )
        };
        let joined = |from: &TableWithJoins| {
            from.joins.iter().any(by_columns)
                || matches!(from.relation, TableFactor::NestedJoin { .. })
        };
        if !select.from.iter().any(joined) {
            return ControlFlow::Continue(());
        }
        for item in &select.projection {
            let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
            let name = folded(alias);
            if mentions(having, &name) && !self.0.contains(&name) {
                self.0.push(name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name that is ambiguous.
fn ambiguous(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::AmbiguousReference { field } if field.relation.is_none() => {
                Some(field.name.clone())
            }
            // For example GROUP BY a.x, x.
            SchemaError::DuplicateQualifiedField { name, .. } => Some(name.clone()),
            _ => None,
        },
        DataFusionError::Diagnostic(_, inner) => ambiguous(inner),
        _ => None,
    }
}

/// Qualifies the name with a table, in every SELECT whose tables are joined by it.
struct Qualifier {
    name: String,
    /// Whether the name is taken for a column of NATURAL joins.
    natural: bool,
    /// Which of the tables on a side is taken to have it.
    table: usize,
    clauses: Clauses,
}

impl VisitorMut for Qualifier {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        if self.clauses != Clauses::All {
            return ControlFlow::Continue(());
        }
        // In an ORDER BY, an output of this name takes precedence.
        if let (Some(meaning), Some(order)) = (self.meaning(select), &mut query.order_by)
            && !select.projection.iter().any(|item| self.is_called(item))
        {
            replace(order, &self.name, &meaning);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if matches!(self.clauses, Clauses::At { .. }) {
            return ControlFlow::Continue(());
        }
        let Some(meaning) = self.meaning(select) else { return ControlFlow::Continue(()) };
        replace(&mut select.having, &self.name, &meaning);
        if self.clauses == Clauses::Having {
            return ControlFlow::Continue(());
        }
        for item in &mut select.projection {
            // The result of a CASE would have another name.
            if let (SelectItem::UnnamedExpr(expr), Expr::Case { .. }) = (&*item, &meaning)
                && self.is_called(item)
            {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', &self.name),
                };
            }
            replace(item, &self.name, &meaning);
        }
        replace(&mut select.selection, &self.name, &meaning);
        replace(&mut select.group_by, &self.name, &meaning);
        replace(&mut select.qualify, &self.name, &meaning);
        replace(&mut select.named_window, &self.name, &meaning);
        ControlFlow::Continue(())
    }

    /// After its subqueries, so that the innermost SELECT comes first.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let (Clauses::At { location, in_subqueries }, Some(meaning)) =
            (self.clauses, self.meaning(select))
        {
            let mut replace_there = |expr: &mut Expr| {
                let is_meant =
                    |ident: &Ident| is_name(ident, &self.name) && ident.span.start == location;
                replace_identifier(expr, &meaning, is_meant)
            };
            let _ = match in_subqueries {
                true => visit_expressions_mut(select, &mut replace_there),
                false => visit_outer_expressions_mut(select, &mut replace_there),
            };
        }
        ControlFlow::Continue(())
    }
}

/// The tables of a FROM, or of one side of a join.
struct Tables {
    names: Vec<Ident>,
    /// What the name means, if two of them are joined by it.
    meaning: Option<Expr>,
}

impl Qualifier {
    /// What the name means in a SELECT; `None` if no tables are joined by it.
    fn meaning(&self, select: &Select) -> Option<Expr> {
        select.from.iter().find_map(|from| self.joined(from).meaning)
    }

    fn is_called(&self, item: &SelectItem) -> bool {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name))
            | SelectItem::ExprWithAlias { alias: name, .. } => is_name(name, &self.name),
            _ => false,
        }
    }

    fn joined(&self, from: &TableWithJoins) -> Tables {
        let mut all = self.side(&from.relation);
        for join in &from.joins {
            let right = self.side(&join.relation);
            if let (Some(merged_from), Some(left), Some(right)) =
                (self.merged_from(&join.join_operator), self.column(&all), self.column(&right))
            {
                all.meaning = Some(match merged_from {
                    MergedFrom::Left => left,
                    MergedFrom::Right => right,
                    MergedFrom::FirstKnown => first_known(left, right),
                });
            }
            all.names.extend(right.names);
        }
        all
    }

    fn side(&self, table: &TableFactor) -> Tables {
        match table {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins)
            }
            other => Tables { names: table_name(other).into_iter().collect(), meaning: None },
        }
    }

    /// The column of one side of a join. Which table has it is found out by trying.
    fn column(&self, side: &Tables) -> Option<Expr> {
        if let Some(meaning) = &side.meaning {
            return Some(meaning.clone());
        }
        let table = match side.names.as_slice() {
            [table] => table,
            tables => tables.get(self.table)?,
        };
        Some(Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', &self.name)]))
    }

    fn merged_from(&self, operator: &JoinOperator) -> Option<MergedFrom> {
        let (constraint, merged_from) = constraint(operator)?;
        let is_joined = match constraint {
            JoinConstraint::Natural => self.natural,
            JoinConstraint::Using(names) => names.iter().any(|name| match name.0.last() {
                Some(ObjectNamePart::Identifier(ident)) => is_name(ident, &self.name),
                _ => false,
            }),
            _ => false,
        };
        is_joined.then_some(merged_from)
    }
}

/// The constraint of a join, and from which side a column comes that both sides are joined by.
pub(in crate::sql) fn constraint(operator: &JoinOperator) -> Option<(&JoinConstraint, MergedFrom)> {
    Some(match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (constraint, MergedFrom::Left),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (constraint, MergedFrom::Right)
        }
        JoinOperator::FullOuter(constraint) => (constraint, MergedFrom::FirstKnown),
        _ => return None,
    })
}

/// From which side the values of a merged column come.
pub(in crate::sql) enum MergedFrom {
    Left,
    Right,
    /// The left side unless it is null.
    FirstKnown,
}

fn first_known(left: Expr, right: Expr) -> Expr {
    let condition = Expr::IsNotNull(Box::new(left.clone()));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: left }],
        else_result: Some(Box::new(right)),
    }
}

/// The name by which a table's columns are qualified.
fn table_name(table: &TableFactor) -> Option<Ident> {
    let alias = match table {
        TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => alias.as_ref(),
        _ => return None,
    };
    match (alias, table) {
        (Some(alias), _) => Some(alias.name.clone()),
        (None, TableFactor::Table { name, .. }) => match name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => Some(ident.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an identifier means a name, which is in lower case unless it is quoted.
fn is_name(ident: &Ident, name: &str) -> bool {
    folded(ident) == name
}

/// Whether a name is used outside of subqueries.
fn mentions(tree: &impl Visit, name: &str) -> bool {
    let found = visit_outer_expressions(tree, |expr| match expr {
        Expr::Identifier(ident) if is_name(ident, name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Replaces an identifier with an expression, wherever it is used outside of subqueries.
fn replace(tree: &mut impl VisitMut, name: &str, meaning: &Expr) {
    let _ = visit_outer_expressions_mut(tree, |expr| {
        replace_identifier(expr, meaning, |ident| is_name(ident, name))
    });
}

fn replace_identifier(
    expr: &mut Expr,
    meaning: &Expr,
    is_meant: impl Fn(&Ident) -> bool,
) -> ControlFlow<()> {
    if matches!(expr, Expr::Identifier(ident) if is_meant(ident)) {
        *expr = meaning.clone();
    }
    ControlFlow::Continue(())
}

//! Columns of `JOIN … USING (x)` and NATURAL JOIN that are named without a table.
//!
//! Where this stands on the road of a query: a statement that DataFusion could not plan for an
//! ambiguous name is planned once more in other words. DataFusion (55.2) finds `x` ambiguous in a
//! WHERE, and everywhere where three tables are joined by it, in a later ON and in subqueries. Then
//! it gets the name of a side: the left one, the right one of a RIGHT JOIN, and of a FULL JOIN the
//! first of both that is not null.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Location;

use crate::sql::syntax::{sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The most sides that are tried for a name.
const MOST_SIDES: usize = 8;

/// The statement in other words, one for each table that the name may be meant of; none, if the
/// error is another one.
pub(in crate::sql) fn candidates(statement: &Statement, error: &DataFusionError) -> Vec<Statement> {
    let mut found = match ambiguous(error) {
        Some(name) => worded(statement, &[name], Clauses::All),
        None => Vec::new(),
    };
    if let Some((name, at)) = place(error) {
        found.extend(worded(statement, &[name], at));
    }
    found
}

/// The name that is ambiguous or unknown, and where it stands. What is unknown in a subquery may be
/// known around it.
fn place(error: &DataFusionError) -> Option<(String, Clauses)> {
    let span = error.diagnostic()?.span?;
    let DataFusionError::SchemaError(schema, _) = schema_error(error)? else { return None };
    let (field, in_subqueries) = match schema.as_ref() {
        SchemaError::AmbiguousReference { field } => (field, false),
        SchemaError::FieldNotFound { field, .. } => (field, true),
        _ => return None,
    };
    let place = Location { line: span.start.line, column: span.start.column };
    field.relation.is_none().then(|| (field.name.clone(), Clauses::At { place, in_subqueries }))
}

/// Whether an error is that several tables have a column of a name.
pub(in crate::sql) fn is_ambiguous(error: &DataFusionError) -> bool {
    let is = |schema: &SchemaError| matches!(schema, SchemaError::AmbiguousReference { .. });
    matches!(schema_error(error), Some(DataFusionError::SchemaError(schema, _)) if is(schema))
}

/// The error below what is said about it.
fn schema_error(error: &DataFusionError) -> Option<&DataFusionError> {
    match error.find_root() {
        DataFusionError::Diagnostic(_, inner) => schema_error(inner),
        other => Some(other),
    }
}

/// The statement in other words, if a HAVING of it names such a column that an output has the name
/// of, too: the words to try first, since DataFusion takes the output, and SQL the column.
pub(in crate::sql) fn columns_in_having(statement: &Statement) -> Vec<Statement> {
    let mut shared = SharedNames(Vec::new());
    if let Some(inner) = sql_in(statement) {
        let _ = visit(inner, &mut shared);
    }
    if shared.0.is_empty() { Vec::new() } else { worded(statement, &shared.0, Clauses::Having) }
}

fn worded(statement: &Statement, names: &[String], clauses: Clauses) -> Vec<Statement> {
    let candidate = |(natural, side)| {
        let mut changed = statement.clone();
        for name in names {
            let _ = visit_mut(
                sql_of(&mut changed)?,
                &mut Naming { name: name.clone(), natural, side, clauses },
            );
        }
        (changed != *statement).then_some(changed)
    };
    let choices = [true, false]
        .into_iter()
        .flat_map(|natural| (0..MOST_SIDES).map(move |side| (natural, side)));
    let mut found: Vec<Statement> = choices.filter_map(candidate).collect();
    found.dedup();
    found
}

/// Where names are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clauses {
    All,
    Having,
    /// Nowhere but at one place, which may be in an ON.
    At {
        place: Location,
        in_subqueries: bool,
    },
}

/// Names in HAVINGs that are those of outputs as well, over tables that are joined by columns.
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
            let name = if alias.quote_style.is_some() {
                alias.value.clone()
            } else {
                alias.value.to_lowercase()
            };
            if visit(having, &mut Mention { name: &name, depth: 0 }).is_break()
                && !self.0.contains(&name)
            {
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
            // As in GROUP BY a.x, x.
            SchemaError::DuplicateQualifiedField { name, .. } => Some(name.clone()),
            _ => None,
        },
        DataFusionError::Diagnostic(_, inner) => ambiguous(inner),
        _ => None,
    }
}

/// Gives the name a table, in every SELECT whose tables are joined by it.
struct Naming {
    name: String,
    /// Whether NATURAL joins are by it.
    natural: bool,
    /// Which of the tables on a side has it.
    side: usize,
    clauses: Clauses,
}

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        if self.clauses != Clauses::All {
            return ControlFlow::Continue(());
        }
        // An answer's column of this name comes first in an ORDER BY.
        if let (Some(meaning), Some(order)) = (self.meaning(select), &mut query.order_by)
            && !select.projection.iter().any(|item| self.is_called(item))
        {
            let _ = visit_mut(order, &mut Replacement::of(&self.name, &meaning));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if matches!(self.clauses, Clauses::At { .. }) {
            return ControlFlow::Continue(());
        }
        let Some(meaning) = self.meaning(select) else { return ControlFlow::Continue(()) };
        let mut replacement = Replacement::of(&self.name, &meaning);
        let _ = visit_mut(&mut select.having, &mut replacement);
        if self.clauses == Clauses::Having {
            return ControlFlow::Continue(());
        }
        for item in &mut select.projection {
            // What is no column keeps the name.
            if let (SelectItem::UnnamedExpr(expr), Expr::Case { .. }) = (&*item, &meaning)
                && self.is_called(item)
            {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', &self.name),
                };
            }
            let _ = visit_mut(item, &mut replacement);
        }
        let _ = visit_mut(&mut select.selection, &mut replacement);
        let _ = visit_mut(&mut select.group_by, &mut replacement);
        let _ = visit_mut(&mut select.qualify, &mut replacement);
        let _ = visit_mut(&mut select.named_window, &mut replacement);
        ControlFlow::Continue(())
    }

    /// The innermost SELECT comes first.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let (Clauses::At { place, in_subqueries }, Some(meaning)) =
            (self.clauses, self.meaning(select))
        {
            let mut replacement = Replacement::of(&self.name, &meaning);
            (replacement.place, replacement.in_subqueries) = (Some(place), in_subqueries);
            let _ = visit_mut(select, &mut replacement);
        }
        ControlFlow::Continue(())
    }
}

/// Tables that are joined.
struct Joined {
    tables: Vec<Ident>,
    /// What the name means, if two of them are joined by it.
    meaning: Option<Expr>,
}

impl Naming {
    /// What the name means in a SELECT; `None` where no tables are joined by it.
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

    fn joined(&self, from: &TableWithJoins) -> Joined {
        let mut all = self.table(&from.relation);
        for join in &from.joins {
            let right = self.table(&join.relation);
            if let (Some(kind), Some(left), Some(right)) =
                (self.kind(&join.join_operator), self.column(&all), self.column(&right))
            {
                all.meaning = Some(match kind {
                    Kind::Left => left,
                    Kind::Right => right,
                    Kind::Full => first_known(left, right),
                });
            }
            all.tables.extend(right.tables);
        }
        all
    }

    fn table(&self, table: &TableFactor) -> Joined {
        match table {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins)
            }
            other => Joined { tables: table_name(other).into_iter().collect(), meaning: None },
        }
    }

    /// The column of one side of a join. Which table it is of is found out by trying.
    fn column(&self, side: &Joined) -> Option<Expr> {
        if let Some(meaning) = &side.meaning {
            return Some(meaning.clone());
        }
        let table = match side.tables.as_slice() {
            [table] => table,
            tables => tables.get(self.side)?,
        };
        Some(Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', &self.name)]))
    }

    fn kind(&self, operator: &JoinOperator) -> Option<Kind> {
        let (constraint, kind) = constraint(operator)?;
        let is_joined = match constraint {
            JoinConstraint::Natural => self.natural,
            JoinConstraint::Using(names) => names.iter().any(|name| {
                matches!(name.0.last(), Some(ObjectNamePart::Identifier(ident)) if is_name(ident, &self.name))
            }),
            _ => false,
        };
        is_joined.then_some(kind)
    }
}

/// What rows are joined by, and whose column a joined one is.
pub(in crate::sql) fn constraint(operator: &JoinOperator) -> Option<(&JoinConstraint, Kind)> {
    Some(match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (constraint, Kind::Left),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (constraint, Kind::Right)
        }
        JoinOperator::FullOuter(constraint) => (constraint, Kind::Full),
        _ => return None,
    })
}

/// Whose column it is.
pub(in crate::sql) enum Kind {
    Left,
    Right,
    Full,
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
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.to_lowercase() == name,
    }
}

/// Breaks where a name stands outside of subqueries.
struct Mention<'a> {
    name: &'a str,
    depth: usize,
}

impl Visitor for Mention<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) if self.depth == 0 && is_name(ident, self.name) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Puts an expression in the place of a name.
struct Replacement<'a> {
    name: &'a str,
    by: &'a Expr,
    /// The only place where it counts.
    place: Option<Location>,
    in_subqueries: bool,
    depth: usize,
}

impl<'a> Replacement<'a> {
    /// Anywhere but in subqueries.
    fn of(name: &'a str, by: &'a Expr) -> Replacement<'a> {
        Replacement { name, by, place: None, in_subqueries: false, depth: 0 }
    }
}

impl VisitorMut for Replacement<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_meant = |ident: &Ident| {
            is_name(ident, self.name) && self.place.is_none_or(|place| place == ident.span.start)
        };
        let counts = self.depth == 0 || self.in_subqueries;
        if counts && matches!(expr, Expr::Identifier(ident) if is_meant(ident)) {
            *expr = self.by.clone();
        }
        ControlFlow::Continue(())
    }
}

//! Columns of `JOIN … USING (x)` and NATURAL JOIN that a WHERE names without a table.
//!
//! Where this stands on the road of a query: a statement that DataFusion could not plan for an ambiguous name is planned once
//! more in other words. DataFusion (55.2) takes `x` in a SELECT list for the column of both sides, but finds it ambiguous
//! in a WHERE. There it gets the name of a side: the left one, the right one of a RIGHT JOIN, and of a FULL JOIN the first of
//! both that is not null.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select, TableFactor,
    VisitMut, VisitorMut,
};

/// The most sides that are tried for a name.
const MOST_SIDES: usize = 8;

/// The statement in other words, one for each table that the name may be meant of; none, if the error is another one.
pub(super) fn candidates(statement: &Statement, error: &DataFusionError) -> Vec<Statement> {
    let Some(name) = ambiguous(error) else { return Vec::new() };
    let candidate = |side| {
        let mut changed = statement.clone();
        let _ = inner(&mut changed)?.visit(&mut Naming { name: name.clone(), side });
        (changed != *statement).then_some(changed)
    };
    let mut found: Vec<Statement> = (0..MOST_SIDES).filter_map(candidate).collect();
    found.dedup();
    found
}

fn inner(statement: &mut Statement) -> Option<&mut datafusion::sql::sqlparser::ast::Statement> {
    match statement {
        Statement::Statement(statement) => Some(statement),
        Statement::Explain(explain) => inner(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => None,
    }
}

/// The name that is ambiguous.
fn ambiguous(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::AmbiguousReference { field } if field.relation.is_none() => Some(field.name.clone()),
            _ => None,
        },
        DataFusionError::Diagnostic(_, inner) => ambiguous(inner),
        _ => None,
    }
}

/// Gives the name a table, in every SELECT whose tables are joined by it.
struct Naming {
    name: String,
    /// Which of the tables on the left has it.
    side: usize,
}

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let merged = select.from.iter().find_map(|from| self.merged(&from.relation, &from.joins));
        if let (Some(merged), Some(condition)) = (merged, &mut select.selection) {
            let _ = condition.visit(&mut Replacement { name: &self.name, by: &merged, depth: 0 });
        }
        ControlFlow::Continue(())
    }
}

impl Naming {
    /// What the name means over joined tables; `None` where none is joined by it.
    fn merged(&self, first: &TableFactor, joins: &[Join]) -> Option<Expr> {
        let mut tables = vec![table_name(first)?];
        let mut merged: Option<Expr> = None;
        for join in joins {
            let right = table_name(&join.relation)?;
            if let Some(kind) = self.kind(&join.join_operator) {
                let left = match merged.take() {
                    Some(known) => known,
                    // Which table it is of is found out by trying.
                    None => {
                        self.column(tables.get(self.side).or_else(|| tables.last().filter(|_| tables.len() == 1))?)
                    }
                };
                let right = self.column(&right);
                merged = Some(match kind {
                    Kind::Left => left,
                    Kind::Right => right,
                    Kind::Full => first_known(left, right),
                });
            }
            tables.push(right);
        }
        merged
    }

    fn kind(&self, operator: &JoinOperator) -> Option<Kind> {
        let (constraint, kind) = match operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint) => (constraint, Kind::Left),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Kind::Right),
            JoinOperator::FullOuter(constraint) => (constraint, Kind::Full),
            _ => return None,
        };
        let is_joined = match constraint {
            JoinConstraint::Natural => true,
            JoinConstraint::Using(names) => names.iter().any(|name| {
                matches!(name.0.last(), Some(ObjectNamePart::Identifier(ident)) if is_name(ident, &self.name))
            }),
            _ => false,
        };
        is_joined.then_some(kind)
    }

    fn column(&self, table: &Ident) -> Expr {
        Expr::CompoundIdentifier(vec![table.clone(), Ident::with_quote('"', &self.name)])
    }
}

/// Whose column it is.
enum Kind {
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

/// Puts an expression in the place of a name, but not in subqueries.
struct Replacement<'a> {
    name: &'a str,
    by: &'a Expr,
    depth: usize,
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
        if self.depth == 0 && matches!(expr, Expr::Identifier(ident) if is_name(ident, self.name)) {
            *expr = self.by.clone();
        }
        ControlFlow::Continue(())
    }
}

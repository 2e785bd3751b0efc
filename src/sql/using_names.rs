//! Columns of `JOIN … USING (x)` and NATURAL JOIN that are named without a table.
//!
//! Where this stands on the road of a query: a statement that DataFusion could not plan for an ambiguous name is planned once
//! more in other words. DataFusion (55.2) finds `x` ambiguous in a WHERE, and everywhere where three tables are joined by
//! it. Then it gets the name of a side: the left one, the right one of a RIGHT JOIN, and of a FULL JOIN the first of both
//! that is not null.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
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
    /// Which of the tables on a side has it.
    side: usize,
}

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        // An answer's column of this name comes first in an ORDER BY.
        if let (Some(meaning), Some(order)) = (self.meaning(select), &mut query.order_by)
            && !select.projection.iter().any(|item| self.is_called(item))
        {
            let _ = order.visit(&mut Replacement { name: &self.name, by: &meaning, depth: 0 });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let Some(meaning) = self.meaning(select) else { return ControlFlow::Continue(()) };
        let mut replacement = Replacement { name: &self.name, by: &meaning, depth: 0 };
        for item in &mut select.projection {
            // What is no column keeps the name.
            if let (SelectItem::UnnamedExpr(expr), Expr::Case { .. }) = (&*item, &meaning)
                && self.is_called(item)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', &self.name) };
            }
            let _ = item.visit(&mut replacement);
        }
        let _ = select.selection.visit(&mut replacement);
        let _ = select.group_by.visit(&mut replacement);
        let _ = select.having.visit(&mut replacement);
        let _ = select.qualify.visit(&mut replacement);
        let _ = select.named_window.visit(&mut replacement);
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
            SelectItem::UnnamedExpr(Expr::Identifier(name)) | SelectItem::ExprWithAlias { alias: name, .. } => {
                is_name(name, &self.name)
            }
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
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.joined(table_with_joins),
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

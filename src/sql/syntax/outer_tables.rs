//! Renames tables of an outer query that have the name of a column in a subquery.
//!
//! Where this stands on the road of a query: after a first try to plan it. DataFusion (55.2) takes
//! `customer.id` in `FROM customer WHERE EXISTS (SELECT … FROM orders WHERE orders.customer =
//! customer.id)` for a field of the column `orders.customer`. In SQL, the qualifier of a column is
//! a table. The query is planned once more with other names for such tables.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Statement as SqlStatement, TableAlias, TableFactor, Visitor, VisitorMut,
};

use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// DataFusion's errors for a field of a column that has no fields.
const NO_FIELDS: [&str; 2] = ["Cannot access field at argument", "could not parse compound"];

/// The query with other names for such tables; `None` for other statements, or if planning failed
/// for another reason.
pub(in crate::sql) fn written_out(
    statement: &Statement,
    error: &DataFusionError,
) -> Option<Statement> {
    let what = error.to_string();
    if !NO_FIELDS.iter().any(|said| what.contains(said)) {
        return None;
    }
    let query = sql_in(statement).filter(|sql| matches!(sql, SqlStatement::Query(_)))?;
    let mut found = Found::default();
    let _ = visit(query, &mut found);
    let names: BTreeSet<String> = found.tables.intersection(&found.qualifiers).cloned().collect();
    if names.is_empty() {
        return None;
    }
    let (text, mut other) = (query.to_string(), "_outer".to_owned());
    while text.contains(&other) {
        other.push('_');
    }
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut Renaming { names, other });
    Some(changed)
}

/// Names of tables, and what stands before the name of a column.
#[derive(Default)]
struct Found {
    tables: BTreeSet<String>,
    qualifiers: BTreeSet<String>,
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        self.tables.extend(name_of(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            self.qualifiers.extend(parts.first().map(folded));
        }
        ControlFlow::Continue(())
    }
}

/// The name that a table has in a statement.
fn name_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last()?.as_ident().map(folded)
        }
        _ => None,
    }
}

/// Gives some tables other names.
struct Renaming {
    names: BTreeSet<String>,
    /// What is put behind their names.
    other: String,
}

impl Renaming {
    fn new_name(&self, name: &Ident) -> Option<Ident> {
        let name = self.names.get(&folded(name))?;
        Some(Ident::with_quote('"', format!("{name}{}", self.other)))
    }
}

impl VisitorMut for Renaming {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => {
                if let Some(name) = self.new_name(&alias.name) {
                    alias.name = name;
                }
            }
            TableFactor::Table { name, alias: alias @ None, args: None, .. } => {
                let name = name.0.last().and_then(|part| self.new_name(part.as_ident()?));
                let named =
                    |name| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
                *alias = name.map(named);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                _,
            ) = item
                && let [part] = &*table.0
                && let Some(name) = part.as_ident().and_then(|part| self.new_name(part))
            {
                *table = ObjectName::from(vec![name]);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(first) = parts.first_mut()
            && let Some(name) = self.new_name(first)
        {
            *first = name;
        }
        ControlFlow::Continue(())
    }
}

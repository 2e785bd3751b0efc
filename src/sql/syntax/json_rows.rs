//! Whole rows as JSON: `to_json(t)`, `row_to_json(t)` and `json_agg(t)` of a table in FROM.
//!
//! Where this stands on the road of a query: just before planning, once the columns of the FROM are
//! known, where `session::expansion` puts a struct of all columns in the place of the name. A
//! column of this name goes first, as in PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, TableFactor,
    TableWithJoins, Value, Visit, VisitMut,
};

use crate::sql::syntax::columns::{Known, Named};
use crate::sql::syntax::folded;
use crate::sql::syntax::macros::takes_rows;
use crate::sql::walks::{function_call, visit_expressions, visit_expressions_mut};

/// The tables of a SELECT whose rows are asked for.
pub(in crate::sql) fn tables_in(select: &Select) -> Vec<Ident> {
    let mut tables = Vec::new();
    let clauses: [&dyn Searched; 4] =
        [&select.projection, &select.selection, &select.having, &select.qualify];
    clauses.iter().for_each(|clause| clause.find(&mut tables));
    if tables.is_empty() {
        return tables;
    }
    let mut names = Vec::new();
    select.from.iter().for_each(|from| add_names(from, &mut names));
    tables.retain(|table| names.contains(&folded(table)));
    tables
}

/// A part of a SELECT in which names are looked for.
trait Searched {
    fn find(&self, names: &mut Vec<Ident>);
}

impl<T: Visit> Searched for T {
    fn find(&self, names: &mut Vec<Ident>) {
        let _ = visit_expressions(self, |expr| {
            if let Expr::Function(call) = expr
                && let Some(Expr::Identifier(name)) = argument(call)
            {
                names.push(name.clone());
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

/// The only argument of a call that may be of a whole row.
fn argument(call: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))]
            if takes_rows(&call.name.to_string()) =>
        {
            Some(value)
        }
        _ => None,
    }
}

fn argument_mut(call: &mut Function) -> Option<&mut Expr> {
    argument(call)?;
    let FunctionArguments::List(list) = &mut call.args else { return None };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => Some(value),
        _ => None,
    }
}

/// Adds the names by which a FROM knows its tables.
fn add_names(from: &TableWithJoins, names: &mut Vec<String>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for table in std::iter::once(&from.relation).chain(joined) {
        let name = match table {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(&alias.name),
            TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                add_names(table_with_joins, names);
                None
            }
            _ => None,
        };
        names.extend(name.map(folded));
    }
}

/// Puts structs in the place of the names of these tables.
pub(in crate::sql) fn write_out(select: &mut Select, tables: &[Ident], known: &Known) {
    if tables.is_empty() {
        return;
    }
    write_out_in(&mut select.projection, tables, known);
    for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
        write_out_in(condition, tables, known);
    }
}

fn write_out_in(tree: &mut impl VisitMut, tables: &[Ident], known: &Known) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::Function(call) = expr
            && let Some(argument) = argument_mut(call)
            && let Expr::Identifier(name) = argument
            && let Some(table) = tables.iter().find(|table| folded(table) == folded(name))
        {
            *argument = match known.all.iter().find(|column| column.name == folded(name)) {
                Some(column) => Expr::Nested(Box::new(column.to_expr())),
                None => row_of(table, known.of(Some(table))),
            };
        }
        ControlFlow::<()>::Continue(())
    });
}

/// A struct of all columns of a table.
fn row_of(table: &Ident, columns: &[Named]) -> Expr {
    let parts = columns.iter().flat_map(|column| {
        let name = Expr::value(Value::SingleQuotedString(column.name.clone()));
        let column = Ident::with_quote('"', &column.name);
        [name, Expr::CompoundIdentifier(vec![table.clone(), column])]
    });
    function_call("named_struct", parts.collect())
}

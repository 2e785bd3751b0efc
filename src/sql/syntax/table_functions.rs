//! Tables that functions make: `FROM unnest([1, 2]) t(x)`, and the column of `range`,
//! `generate_series` and `unnest`, which has the name of the function, as in DuckDB, or that of the
//! table, as in PostgreSQL.
//!
//! Where this stands on the road of a query: after parsing. For DataFusion (55.2), `unnest` is a
//! word of its own, and the column of a series is called `value`; it still is where nothing names
//! it otherwise.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, Query, SetExpr, Statement,
    TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::walks::{visit_expressions, visit_mut};

const SERIES: [&str; 2] = ["generate_series", "range"];
const UNNEST: &str = "unnest";

pub(in crate::sql) fn name_columns(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Names);
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        let tables = || {
            select.from.iter().flat_map(|from| {
                std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
            })
        };
        if !tables().any(|table| function(table).is_some()) {
            return ControlFlow::Continue(());
        }
        let used = used_names(query);
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for table in std::iter::once(&mut from.relation).chain(joined) {
                name_column(table, &used);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Names of columns, each with that of the table if it stands before it.
type UsedNames = HashSet<(Option<String>, String)>;

fn used_names(query: &Query) -> UsedNames {
    let mut used = UsedNames::new();
    let _ = visit_expressions(query, |expr| {
        match expr {
            Expr::Identifier(name) => {
                used.insert((None, folded(name)));
            }
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, name] = parts.as_slice() {
                    used.insert((Some(folded(table)), folded(name)));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    used
}

/// The name of the function that makes a table of one column.
fn function(table: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, settings: None }), .. } =
        table
    else {
        return None;
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let name = folded(name);
    let is_list = name == UNNEST && args.len() == 1;
    (is_list || SERIES.contains(&name.as_str())).then_some(name)
}

fn name_column(table: &mut TableFactor, used: &UsedNames) {
    let Some(function) = function(table) else { return };
    let TableFactor::Table { args: Some(given), alias, .. } = table else { return };
    let list = match given.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] if function == UNNEST => {
            Some(list.clone())
        }
        _ => None,
    };
    if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) {
        let name = alias.as_ref().map_or_else(|| function.clone(), |alias| folded(&alias.name));
        let is_used = |table: Option<&str>, column: &str| {
            used.contains(&(table.map(str::to_owned), column.to_owned()))
        };
        let called_as_function = is_used(None, &function) || is_used(Some(&name), &function);
        let column = match () {
            () if called_as_function => Some(&function),
            () if is_used(None, &name) => Some(&name),
            () => list.as_ref().map(|_| &function),
        };
        if let Some(column) = column {
            let columns =
                vec![TableAliasColumnDef { name: Ident::with_quote('"', column), data_type: None }];
            match alias {
                Some(alias) => alias.columns = columns,
                None => {
                    let name = Ident::new(function.clone());
                    *alias = Some(TableAlias { explicit: true, name, columns, at: None });
                }
            }
        }
    }
    if let Some(list) = list {
        *table = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs: vec![list],
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
    }
}

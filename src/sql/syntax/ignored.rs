//! Refuses clauses that the parser reads and DataFusion (55.2) ignores.
//!
//! CONNECT BY would leave all rows, FOR JSON and FOR XML the rows as they are, and WITH ORDINALITY
//! would number none. DISTINCT, ORDER BY, FILTER and OVER have no effect on a scalar function:
//! `round(avg(x)) FILTER (WHERE …)`, whose FILTER belongs to the aggregate within, would be the
//! mean of all rows. `*` is an argument of `count` alone. A column of CREATE TABLE has a name, a
//! type and perhaps NOT NULL: a CHECK or DEFAULT would not be what it says.
//!
//! Where this stands on the road of a query: [`refuse`] after parsing, [`refuse_of_scalars`] once
//! the functions of the session are known.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, DataType, Expr, ForClause, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, Query, Select, Statement, TableFactor,
    Visitor,
};

use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::walks::{visit, visit_expressions};

/// Refuses clauses of queries that would be ignored.
pub(in crate::sql) fn refuse(statement: &Statement) -> Result<()> {
    if let Statement::CreateTable(create) = statement {
        refuse_constraints(create)?;
    }
    match visit(statement, &mut Clauses) {
        ControlFlow::Break((what, instead)) => {
            Err(Error::Unsupported(format!("{what} is not supported; {instead}")))
        }
        ControlFlow::Continue(()) => refuse_stars(statement),
    }
}

fn refuse_constraints(create: &CreateTable) -> Result<()> {
    let refused = |what: String, instead: &str| {
        Err(Error::Unsupported(format!(
            "{what}; a column of a table has a name, a type and perhaps NOT NULL: {instead}"
        )))
    };
    const NUMBERED: &str = "number rows by INSERT INTO … SELECT row_number() OVER (), …";
    if let Some(constraint) = create.constraints.first() {
        return refused(format!("{constraint} would not be enforced"), "leave it out");
    }
    for column in &create.columns {
        let name = &column.name;
        if let DataType::Custom(given, _) = &column.data_type
            && given.to_string().to_ascii_uppercase().ends_with("SERIAL")
        {
            return refused(format!("{given} of column {name} would number no rows"), NUMBERED);
        }
        for option in &column.options {
            let (what, instead) = match &option.option {
                ColumnOption::NotNull | ColumnOption::Null => continue,
                ColumnOption::Default(_) => ("would be given to no row", "write it in the INSERT"),
                ColumnOption::Generated { .. }
                | ColumnOption::Identity(_)
                | ColumnOption::DialectSpecific(_) => ("would have no effect", NUMBERED),
                _ => ("would not be enforced", "leave it out"),
            };
            return refused(format!("{} of column {name} {what}", option.option), instead);
        }
    }
    Ok(())
}

/// Refuses `*` as an argument, but of `count`, and of `columns`, which stands for several columns.
fn refuse_stars(statement: &Statement) -> Result<()> {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Function(function) if takes_star(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            match name.filter(|name| !["count", "columns"].contains(&folded(name).as_str())) {
                Some(name) => ControlFlow::Break(name.clone()),
                None => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    let ControlFlow::Break(name) = found else { return Ok(()) };
    Err(Error::InvalidInput(format!(
        "{name}(*): only count takes *; write the columns, as in {name}(a){}",
        place_of(&name)
    )))
}

fn takes_star(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_star = |argument: &FunctionArg| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard))
    };
    list.args.iter().any(is_star)
}

/// Where a name stands in the statement.
fn place_of(name: &Ident) -> String {
    let place = name.span.start;
    match place.line > 0 {
        true => format!(" (line {}, column {})", place.line, place.column),
        false => String::new(),
    }
}

struct Clauses;

impl Visitor for Clauses {
    type Break = (&'static str, &'static str);

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        match query.for_clause {
            Some(ForClause::Json { .. } | ForClause::Xml { .. }) => {
                ControlFlow::Break(("FOR JSON or FOR XML", "--format says how rows are printed"))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        match select.connect_by.is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(("CONNECT BY", "use WITH RECURSIVE")),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. }
            | TableFactor::UNNEST { with_ordinality: true, .. } => ControlFlow::Break((
                "WITH ORDINALITY",
                "number the rows by SELECT *, row_number() OVER () FROM …",
            )),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Refuses clauses of functions for which `is_scalar` is true.
pub(in crate::sql) fn refuse_of_scalars(
    statement: &Statement,
    is_scalar: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Function(function) => match clause(function) {
            Some(clause) if names_scalar(function, is_scalar) => {
                ControlFlow::Break((clause, function.name.clone()))
            }
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    let ControlFlow::Break((clause, name)) = found else { return Ok(()) };
    let place = name.0.last().and_then(|part| part.as_ident()).map(place_of).unwrap_or_default();
    Err(Error::InvalidInput(format!(
        "{clause} belongs to an aggregate or a window, and {name} is neither; write it behind the \
         function within, as in round(avg(x) FILTER (WHERE …)){place}"
    )))
}

/// A clause that a scalar function does not have.
fn clause(function: &Function) -> Option<&'static str> {
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if function.over.is_some() {
        return Some("OVER");
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment.is_some() {
        return Some("DISTINCT or ALL");
    }
    let is_order =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    list.clauses.iter().any(is_order).then_some("ORDER BY")
}

fn names_scalar(function: &Function, is_scalar: &dyn Fn(&str) -> bool) -> bool {
    let [part] = function.name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|name| match name.quote_style {
        Some(_) => is_scalar(&name.value),
        None => is_scalar(&name.value.to_ascii_lowercase()),
    })
}

//! Refuses clauses that the parser reads and DataFusion (55.2) ignores.
//!
//! CONNECT BY would leave all rows, FOR JSON and FOR XML the rows as they are, and WITH ORDINALITY
//! would number none. DISTINCT, ORDER BY, FILTER and OVER have no effect on a scalar function:
//! `round(avg(x)) FILTER (WHERE …)`, whose FILTER belongs to the aggregate within, would be the
//! mean of all rows. `*` is an argument of `count` alone; `count(DISTINCT *)` would be 1, and
//! `count(t.*)` would count the rows that an outer join adds without one of `t`. A column of CREATE
//! TABLE has a name, a type and perhaps NOT NULL: a CHECK or DEFAULT would not be what it says.
//!
//! Where this stands on the road of a query: [`refuse`] after parsing, [`refuse_of_scalars`] once
//! the functions of the session are known.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, DataType, DuplicateTreatment, Expr, ForClause, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, JoinOperator,
    Query, Select, Statement, TableFactor, TableWithJoins, Visitor,
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
    let ControlFlow::Break(name) = found else { return refuse_distinct_stars(statement) };
    Err(Error::InvalidInput(format!(
        "{name}(*): only count takes *; write the columns, as in {name}(a){}",
        place_of(&name)
    )))
}

/// Refuses `count(DISTINCT *)` and `count(DISTINCT t.*)`.
fn refuse_distinct_stars(statement: &Statement) -> Result<()> {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Function(function) if counts_distinct_rows(function) => {
            ControlFlow::Break(function.name.0.last().and_then(|part| part.as_ident()).cloned())
        }
        _ => ControlFlow::Continue(()),
    });
    let ControlFlow::Break(name) = found else { return Ok(()) };
    Err(Error::Unsupported(format!(
        "count(DISTINCT *) is not supported; write the columns, as in count(DISTINCT (a, b)){}",
        name.as_ref().map(place_of).unwrap_or_default()
    )))
}

fn counts_distinct_rows(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_star = |argument: &FunctionArg| {
        matches!(
            argument,
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::QualifiedWildcard(_))
        )
    };
    list.duplicate_treatment == Some(DuplicateTreatment::Distinct) && list.args.iter().any(is_star)
}

/// The names of the tables of a FROM that may have no row beside those of the others.
fn optional_tables(from: &[TableWithJoins]) -> Vec<String> {
    let name = |table: &TableFactor| match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().map(folded),
        _ => None,
    };
    let mut optional = Vec::new();
    for from in from {
        let mut before: Vec<Option<String>> = vec![name(&from.relation)];
        for join in &from.joins {
            let (left, right) = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            if left {
                optional.extend(before.iter().flatten().cloned());
            }
            before.push(name(&join.relation));
            if right {
                optional.extend(before.last().cloned().flatten());
            }
        }
    }
    optional
}

/// Whether `count(t.*)` is there for one of these tables.
fn counts_rows_of(select: &Select, tables: &[String]) -> bool {
    let counts = |expr: &Expr| match expr {
        Expr::Function(Function { args: FunctionArguments::List(list), .. }) => {
            list.args.iter().any(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    let last = name.0.last().and_then(|part| part.as_ident());
                    last.is_some_and(|last| tables.contains(&folded(last)))
                }
                _ => false,
            })
        }
        _ => false,
    };
    visit_expressions(select, |expr| match counts(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
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
        if !select.connect_by.is_empty() {
            return ControlFlow::Break(("CONNECT BY", "use WITH RECURSIVE"));
        }
        let optional = optional_tables(&select.from);
        match !optional.is_empty() && counts_rows_of(select, &optional) {
            true => ControlFlow::Break((
                "count(t.*) of a table that an outer join may find no row of",
                "count one of its columns that is never null where it has a row",
            )),
            false => ControlFlow::Continue(()),
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

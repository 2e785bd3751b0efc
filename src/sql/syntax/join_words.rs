//! Joins in the words of other systems.
//!
//! `SEMI JOIN` and `ANTI JOIN` (DuckDB) are what DataFusion (55.2) knows as `LEFT SEMI JOIN` and
//! `LEFT ANTI JOIN`. In `a ANY JOIN b` (ClickHouse) and `a POSITIONAL JOIN b` (DuckDB), the parser
//! takes the first word for an alias of `a`, and the join would have more rows than is meant: these
//! are refused. So is a JOIN without a condition, which DataFusion takes for a CROSS JOIN.
//!
//! `ASOF JOIN` comes here as `STRAIGHT_JOIN` (`short_forms`), and becomes a plain join whose right
//! side has a mark.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, ObjectNamePart, Select, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::marks::mark_asof;
use crate::sql::walks::visit_mut;

/// Words before JOIN that mean another join, and what to write instead.
const REFUSED: [(&str, &str); 2] = [
    ("ANY", "join with one row of each key: SELECT DISTINCT ON (key) …"),
    ("POSITIONAL", "join on row_number() OVER (…) of both sides"),
];

pub(in crate::sql) fn reword(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Words) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Words;

impl VisitorMut for Words {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        select.from.iter_mut().try_for_each(reword_joins)
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => reword_joins(table_with_joins),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn reword_joins(tables: &mut TableWithJoins) -> ControlFlow<Error> {
    let mut left = &tables.relation;
    for join in &mut tables.joins {
        if let Some((word, instead)) = refused(left) {
            return ControlFlow::Break(Error::Unsupported(format!(
                "{word} JOIN is not supported; {instead}, or, if it is a name, write AS {word}"
            )));
        }
        if is_without_condition(&join.join_operator) && !is_lateral(&join.relation) {
            return ControlFlow::Break(Error::InvalidInput(format!(
                "the JOIN with {} has no condition; write ON … or USING (…) behind it, or CROSS \
                 JOIN if every row is to meet every row",
                named(&join.relation)
            )));
        }
        match &mut join.join_operator {
            JoinOperator::Semi(condition) => {
                join.join_operator =
                    JoinOperator::LeftSemi(std::mem::replace(condition, JoinConstraint::None));
            }
            JoinOperator::Anti(condition) => {
                join.join_operator =
                    JoinOperator::LeftAnti(std::mem::replace(condition, JoinConstraint::None));
            }
            JoinOperator::StraightJoin(condition) => {
                let condition = std::mem::replace(condition, JoinConstraint::None);
                let is_using = matches!(condition, JoinConstraint::Using(_));
                if let Err(error) = as_asof(&mut join.relation, is_using) {
                    return ControlFlow::Break(error);
                }
                join.join_operator = match std::mem::take(&mut join.global) {
                    true => JoinOperator::Left(condition),
                    false => JoinOperator::Inner(condition),
                };
            }
            _ => {}
        }
        left = &join.relation;
    }
    ControlFlow::Continue(())
}

/// Puts the right side of an ASOF JOIN into a query with a mark, which `plan::asof` looks for.
fn as_asof(table: &mut TableFactor, is_using: bool) -> Result<()> {
    let (alias, name) = match table {
        TableFactor::Table { alias, name, .. } => {
            let name = match name.0.last() {
                Some(ObjectNamePart::Identifier(name)) => Some(name.clone()),
                _ => None,
            };
            (alias.take(), name)
        }
        TableFactor::Derived { lateral: false, alias, .. } => (alias.take(), None),
        _ => {
            return Err(Error::Unsupported(
                "the right side of an ASOF JOIN is a table or a subquery; put others into one: \
                 ASOF JOIN (SELECT * FROM …) b"
                    .into(),
            ));
        }
    };
    let named = |name| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let alias = alias.or_else(|| name.map(named));
    let mut subquery = Parser::new(&StylobateDialect::new(0))
        .try_with_sql("SELECT * FROM t")
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.selection = Some(mark_asof(is_using));
        if let [from] = select.from.as_mut_slice() {
            from.relation = table.clone();
        }
    }
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

/// What a message calls a table.
fn named(table: &TableFactor) -> String {
    let (name, alias) = match table {
        TableFactor::Table { name, alias, .. } => (name.to_string(), alias),
        TableFactor::Derived { alias, .. } => ("a subquery".to_owned(), alias),
        _ => return "others".to_owned(),
    };
    alias.as_ref().map_or(name, |alias| alias.name.to_string())
}

fn is_without_condition(join: &JoinOperator) -> bool {
    use JoinOperator::{
        Anti, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti,
        RightOuter, RightSemi, Semi, StraightJoin,
    };
    matches!(
        join,
        Join(JoinConstraint::None)
            | Inner(JoinConstraint::None)
            | Left(JoinConstraint::None)
            | LeftOuter(JoinConstraint::None)
            | Right(JoinConstraint::None)
            | RightOuter(JoinConstraint::None)
            | FullOuter(JoinConstraint::None)
            | Semi(JoinConstraint::None)
            | LeftSemi(JoinConstraint::None)
            | RightSemi(JoinConstraint::None)
            | Anti(JoinConstraint::None)
            | LeftAnti(JoinConstraint::None)
            | StraightJoin(JoinConstraint::None)
            | RightAnti(JoinConstraint::None)
    )
}

/// Whether a table may depend on the row that it is joined with.
fn is_lateral(table: &TableFactor) -> bool {
    match table {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::Table { name, args: Some(_), .. } => {
            name.to_string().eq_ignore_ascii_case("unnest")
        }
        TableFactor::UNNEST { .. } | TableFactor::TableFunction { .. } => true,
        _ => false,
    }
}

/// The word of another join that is the alias of a table, without an AS.
fn refused(table: &TableFactor) -> Option<(&'static str, &'static str)> {
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = table else {
        return None;
    };
    let TableAlias { explicit: false, name, .. } = alias.as_ref()? else { return None };
    let is_meant = |word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
    REFUSED.into_iter().find(|(word, _)| is_meant(word))
}

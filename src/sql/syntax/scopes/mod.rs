//! Resolves names in SELECTs over joins, where DataFusion (55.2) would take them for other columns.
//!
//! Where this stands on the road of a query: just before planning. In the standard, `USING (x)` and
//! NATURAL merge the columns by which they join: `x` alone and `*` mean the left side's column, in
//! a RIGHT JOIN the right side's, and in a FULL JOIN the first of both that is not null. DataFusion
//! takes the left side's everywhere, finds `x` ambiguous in a WHERE, a later ON, a subquery, and
//! wherever three tables are joined by it, and expands `*` to the `x` of the table whose name comes
//! first in the alphabet. In a subquery, it looks for a name that two tables have in the query
//! around it, and silently takes that query's column.
//!
//! Columns whose names differ only in case are joined, too, and found in either spelling, as names
//! without quotes are everywhere.
//!
//! So such names are written with their tables here, a `*` is expanded, and a join by columns
//! becomes a join by a condition. The columns of the tables are known once their cross join has
//! been planned, which only these SELECTs pay for.
//!
//! | file | holds |
//! | --- | --- |
//! | `scope` | what names can mean |
//! | `clauses` | names in expressions |
//! | `from` | the columns of a FROM, and its joins |
//! | `wildcards` | `*` and `a.*` as lists of columns |
//! | `fields` | names of fields that DataFusion takes for columns |

mod clauses;
mod fields;
mod from;
mod scope;
mod wildcards;

use std::ops::ControlFlow;

use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Query, Select, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins,
    Visitor, VisitorMut, With,
};

use crate::sql::syntax::rewrite;
pub(in crate::sql) use crate::sql::syntax::scopes::from::joins_by_columns;
use crate::sql::syntax::scopes::from::tables_of;
use crate::sql::syntax::scopes::scope::Scope;
use crate::sql::syntax::sites::{self, query};
use crate::sql::syntax::{is_subquery, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The statement with such names resolved; `None` if it has none.
pub(in crate::sql) async fn resolve(
    state: &SessionState,
    statement: &Statement,
) -> DataFusionResult<Option<Statement>> {
    let mut changed = fields::written_out(state, statement);
    let mut next = 0;
    // Where names of a subquery remain, they may be its own or those of the SELECT around it.
    let mut knows_subqueries = true;
    while let Some(found) = search(changed.as_ref().unwrap_or(statement), next) {
        next = found.place.index + 1;
        let place = found.place;
        let Some(tables) = found.columns_of_tables(state).await? else {
            knows_subqueries = false;
            continue;
        };
        let resolution =
            Resolution { place, tables, knows_subqueries, selects: 0, queries: 0, resolved: None };
        resolution.apply(changed.get_or_insert_with(|| statement.clone()))?;
    }
    Ok(changed)
}

/// Where a SELECT stands in a statement.
#[derive(Clone, Copy)]
struct Place {
    /// How many SELECTs end before it.
    index: usize,
    is_inner: bool,
    is_in_merging: bool,
}

fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: true, .. })
}

/// A SELECT whose names are resolved here.
struct Found {
    place: Place,
    /// Whether it joins by columns.
    merges: bool,
    /// How many tables its FROM has.
    tables: usize,
    /// `SELECT *` from the cross join of these tables.
    probe: Box<Query>,
    /// For each query around it whose WITH has not been added: how many had ended there.
    ended: Vec<usize>,
}

impl Found {
    /// The columns of each table of the FROM; `None` if it cannot be planned alone.
    async fn columns_of_tables(
        self,
        state: &SessionState,
    ) -> DataFusionResult<Option<Vec<Vec<Column>>>> {
        let probe = Statement::Statement(Box::new(SqlStatement::Query(self.probe)));
        let error = match state.statement_to_plan(probe.clone()).await {
            Ok(plan) => return Ok(from::of_tables(&plan, self.tables)),
            Err(error) => error,
        };
        // In other words it may be planned, which give no column of a table another name.
        for attempt in rewrite::candidates(&probe, &error) {
            if let Ok(plan) = state.statement_to_plan(attempt.statement.clone()).await
                && !attempt.renames_any_of(plan.schema())
            {
                return Ok(from::of_tables(&plan, self.tables));
            }
        }
        // DataFusion would merge other columns.
        if self.merges { Err(error) } else { Ok(None) }
    }

    /// Adds the WITH of the next query around it, as far as it is visible: the tables before the
    /// one that it is in.
    fn with_tables_of(mut self, around: &Query) -> Found {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return self };
        let visible = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(visible).cloned().collect();
        if !cte_tables.is_empty() {
            let with_token = with.with_token.clone();
            let with = With { with_token, recursive: with.recursive, cte_tables };
            self.probe = query(Some(with), SetExpr::Query(self.probe));
        }
        self
    }
}

/// The first SELECT from a place on whose names are to be resolved.
fn search(statement: &Statement, next: usize) -> Option<Found> {
    let mut search = Search { next, ..Search::default() };
    let _ = visit(sql_in(statement)?, &mut search);
    search.found
}

#[derive(Default)]
struct Search {
    next: usize,
    /// How many SELECTs have ended. Those in subqueries come before the one around them.
    selects: usize,
    /// How many subqueries that can refer to the rows around them the walk is in.
    subqueries: usize,
    /// For each SELECT that the walk is in: whether it joins by columns.
    merging: Vec<bool>,
    /// For each query that the walk is in: how many queries directly within it have ended. Those of
    /// its WITH come first.
    ended: Vec<usize>,
    found: Option<Found>,
}

impl Visitor for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.subqueries += usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.subqueries -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        self.subqueries += usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        self.subqueries -= usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.ended.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, around: &Query) -> ControlFlow<()> {
        self.found = self.found.take().map(|found| match found.ended.len() == self.ended.len() {
            true => found.with_tables_of(around),
            false => found,
        });
        self.ended.pop();
        if let Some(ended) = self.ended.last_mut() {
            *ended += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.merging.push(joins_by_columns(&select.from));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let merges = self.merging.pop().unwrap_or_default();
        let is_inner = self.subqueries > 0;
        let is_in_merging = is_inner && self.merging.contains(&true);
        let place = Place { index: self.selects, is_inner, is_in_merging };
        self.selects += 1;
        let tables = tables_of(&select.from);
        let is_wanted = merges
            || (place.is_inner && tables.len() > 1)
            || (place.is_in_merging && !tables.is_empty());
        if self.found.is_none() && is_wanted && place.index >= self.next {
            let count = tables.len();
            let probe = query(None, SetExpr::Select(Box::new(all_of(select, tables))));
            let ended = self.ended.clone();
            self.found = Some(Found { place, merges, tables: count, probe, ended });
        }
        ControlFlow::Continue(())
    }
}

/// `SELECT *` from the cross join of the tables of a SELECT.
fn all_of(select: &Select, tables: Vec<TableFactor>) -> Select {
    let alone = |relation| TableWithJoins { relation, joins: Vec::new() };
    sites::all_of(select, tables.into_iter().map(alone).collect())
}

/// Resolves the names of one SELECT, and of the ORDER BY of its query.
struct Resolution {
    place: Place,
    /// The columns of the tables of its FROM.
    tables: Vec<Vec<Column>>,
    knows_subqueries: bool,
    /// How many SELECTs have ended.
    selects: usize,
    /// How many queries the walk is in.
    queries: usize,
    /// What the names can mean, and how many queries its query is in, until that query ends.
    resolved: Option<(Scope, usize)>,
}

impl Resolution {
    fn apply(mut self, statement: &mut Statement) -> DataFusionResult<()> {
        match sql_of(statement).map(|sql| visit_mut(sql, &mut self)) {
            Some(ControlFlow::Break(result)) => result,
            _ => Ok(()),
        }
    }

    /// Resolves the names of the SELECT. `None` if its FROM is not understood: DataFusion reports
    /// what is wrong with it.
    fn resolve(&mut self, select: &mut Select) -> DataFusionResult<Option<Scope>> {
        let mut scope = Scope {
            columns: Vec::new(),
            is_inner: self.place.is_inner,
            is_in_merging: self.place.is_in_merging,
            knows_subqueries: self.knows_subqueries,
        };
        let merges = joins_by_columns(&select.from);
        let mut joined = select.from.clone();
        let tables = std::mem::take(&mut self.tables);
        if !from::resolve_from(&mut joined, tables.clone(), &mut scope)? {
            return Ok(None);
        }
        if merges {
            let Some(list) = wildcards::expanded(select, &scope.columns, &tables) else {
                return Ok(None);
            };
            select.projection = list;
        }
        select.from = joined;
        clauses::resolve(select, &scope)?;
        Ok(Some(scope))
    }
}

impl VisitorMut for Resolution {
    type Break = DataFusionResult<()>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let index = self.selects;
        self.selects += 1;
        if index != self.place.index {
            return ControlFlow::Continue(());
        }
        match self.resolve(select) {
            Ok(Some(scope)) => {
                self.resolved = Some((scope, self.queries));
                ControlFlow::Continue(())
            }
            other => ControlFlow::Break(other.map(|_| ())),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let depth = self.queries;
        self.queries -= 1;
        match &self.resolved {
            Some((scope, of_query)) if *of_query == depth => {
                ControlFlow::Break(clauses::resolve_order(query, scope))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

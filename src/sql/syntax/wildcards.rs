//! `*` and `a.*` over tables that are joined by columns (`USING`, NATURAL), written out.
//!
//! Where this stands on the road of a query: just before planning. The standard has the columns of
//! both tables first, then what else the left one has, then the right one. DataFusion (55.2) leaves
//! each column where it is, and of those of both has the one of the table whose name comes first in
//! the alphabet. What tables have is known when the FROM alone has been planned, which only such
//! statements pay for.
//!
//! The same is done for names in subqueries over joins (`inner_names`), which need to know what
//! tables have, too.
//!
//! A column of both tables is written as the left one's without a place in the statement, which
//! `using` reads as that of both; all others get the place of the `*`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, GroupByExpr, Join, JoinConstraint, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TableWithJoins, Visitor, VisitorMut, With,
};

use crate::sql::syntax::inner_names::{self, is_joined};
use crate::sql::syntax::outputs::{Output, all_of, list};
use crate::sql::syntax::using_names::{Kind, constraint, is_ambiguous};
use crate::sql::syntax::{sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// What has been planned for a statement and for the other words that are tried for it: each FROM
/// once.
#[derive(Default)]
pub(in crate::sql) struct WildcardExpander {
    /// By the query of all that a FROM gives; `None` where that cannot be planned.
    plans: HashMap<Box<Query>, Option<LogicalPlan>>,
}

impl WildcardExpander {
    /// The statement with such lists and names written out; `None` where it has none.
    pub(in crate::sql) async fn expand(
        &mut self,
        state: &SessionState,
        statement: &Statement,
    ) -> DataFusionResult<Option<Statement>> {
        let mut changed = None;
        // How many SELECTs stay as they are: of some, the FROM cannot be planned alone, and
        // DataFusion says what is wrong with it.
        let mut kept = 0;
        while let Some(probe) = search(changed.as_ref().unwrap_or(statement), kept) {
            let plan = self.plan(state, probe).await?;
            let target = changed.get_or_insert_with(|| statement.clone());
            let visited = match (plan, sql_of(target)) {
                (Some(LogicalPlan::Projection(all)), Some(sql)) => {
                    visit_mut(sql, &mut Fill::of(kept, &all.input))
                }
                _ => ControlFlow::Continue(()),
            };
            kept += match visited {
                ControlFlow::Break(is_done) => usize::from(!is_done?),
                ControlFlow::Continue(()) => 1,
            };
        }
        Ok(changed)
    }

    async fn plan(
        &mut self,
        state: &SessionState,
        probe: Box<Query>,
    ) -> DataFusionResult<Option<&LogicalPlan>> {
        if !self.plans.contains_key(&probe) {
            let sql = SqlStatement::Query(probe.clone());
            let plan = match state.statement_to_plan(Statement::Statement(Box::new(sql))).await {
                // In its place, DataFusion may find that name in the query around it.
                Err(error) if is_ambiguous(&error) => return Err(error),
                other => other.ok(),
            };
            self.plans.insert(probe.clone(), plan);
        }
        Ok(self.plans.get(&probe).and_then(Option::as_ref))
    }
}

/// A query of all that the first list but `skip` is chosen from. Those of subqueries come before
/// that around them.
fn search(statement: &Statement, skip: usize) -> Option<Box<Query>> {
    let mut search = Search { skip, subqueries: 0, ended: Vec::new(), found: None };
    let _ = visit(sql_in(statement)?, &mut search);
    search.found.map(|found| found.probe)
}

struct Search {
    skip: usize,
    /// In how many subqueries it is that see the rows around them.
    subqueries: usize,
    /// How many queries have ended directly within each of those that it is in. Those of a WITH
    /// come first.
    ended: Vec<usize>,
    found: Option<Found>,
}

struct Found {
    probe: Box<Query>,
    /// For each query around it whose WITH it has not: how many had ended there.
    ended: Vec<usize>,
}

impl Found {
    /// With what it sees of the WITH of the next query around it: the tables before the one that it
    /// stands in.
    fn within(mut self, around: &Query) -> Found {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return self };
        let seen = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(seen).cloned().collect();
        if cte_tables.is_empty() {
            return self;
        }
        let with =
            With { with_token: with.with_token.clone(), recursive: with.recursive, cte_tables };
        Found { probe: query(Some(with), SetExpr::Query(self.probe)), ended: self.ended }
    }
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
            true => found.within(around),
            false => found,
        });
        self.ended.pop();
        if let Some(ended) = self.ended.last_mut() {
            *ended += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.found.is_some() || !(is_starred(select) || has_inner_names(select, self.subqueries))
        {
            return ControlFlow::Continue(());
        }
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        let all = Select {
            distinct: None,
            projection: vec![SelectItem::Wildcard(Default::default())],
            into: None,
            selection: None,
            group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
            having: None,
            named_window: Vec::new(),
            qualify: None,
            ..select.clone()
        };
        let probe = query(None, SetExpr::Select(Box::new(all)));
        self.found = Some(Found { probe, ended: self.ended.clone() });
        ControlFlow::Continue(())
    }
}

fn query(with: Option<With>, body: SetExpr) -> Box<Query> {
    Box::new(Query {
        with,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    })
}

/// Whether a SELECT is within so many subqueries that a name of two of its tables may be taken for
/// one of the query around.
fn has_inner_names(select: &Select, subqueries: usize) -> bool {
    subqueries > 0 && is_joined(&select.from)
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_)
            | Expr::InSubquery { .. }
            | Expr::Exists { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
    )
}

fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: true, .. })
}

/// Writes out the first SELECT but `skip`, and the order of its query; breaks with whether there is
/// nothing left to do in it.
struct Fill<'a> {
    skip: usize,
    from: &'a LogicalPlan,
    subqueries: usize,
    /// What the FROM of the SELECT gives that has been written out, until its query ends.
    outputs: Option<Vec<Output>>,
    is_done: bool,
}

impl Fill<'_> {
    fn of(skip: usize, from: &LogicalPlan) -> Fill<'_> {
        Fill { skip, from, subqueries: 0, outputs: None, is_done: false }
    }

    /// Writes a SELECT out; says whether all of it is.
    fn fill(&mut self, select: &mut Select) -> DataFusionResult<bool> {
        if let Some(list) = is_starred(select).then(|| list(select, self.from)).flatten() {
            select.projection = list;
        }
        if !has_inner_names(select, self.subqueries) {
            return Ok(!is_starred(select));
        }
        if let Some(outputs) = all_of(&select.from, self.from) {
            inner_names::qualify(select, &outputs)?;
            self.outputs = Some(outputs);
        }
        Ok(false)
    }
}

impl VisitorMut for Fill<'_> {
    type Break = DataFusionResult<bool>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.subqueries += usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        self.subqueries += usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if self.outputs.is_some()
            || !(is_starred(select) || has_inner_names(select, self.subqueries))
        {
            return ControlFlow::Continue(());
        }
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        match self.fill(select) {
            Ok(is_done) if self.outputs.is_some() => {
                self.is_done = is_done;
                ControlFlow::Continue(())
            }
            other => ControlFlow::Break(other),
        }
    }

    /// Of the queries within an order, none ends before that of the SELECT.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let Some(outputs) = self.outputs.take() else { return ControlFlow::Continue(()) };
        ControlFlow::Break(inner_names::qualify_order(query, &outputs).map(|()| self.is_done))
    }
}

/// Whether a list has a `*` whose columns may be others than DataFusion's, or stand in another
/// order. Those of `a.*` may be others where a column of both tables is not the left one's.
fn is_starred(select: &Select) -> bool {
    let has = |test: fn(&SelectItem) -> bool| select.projection.iter().any(test);
    (has(|item| matches!(item, SelectItem::Wildcard(_))) && merges(&select.from, |_| true))
        || (has(|item| matches!(item, SelectItem::QualifiedWildcard(..)))
            && merges(&select.from, |kind| !matches!(kind, Kind::Left)))
}

/// Whether tables are joined by columns, in a way that passes a test.
fn merges(from: &[TableWithJoins], test: fn(&Kind) -> bool) -> bool {
    let nested = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            merges(std::slice::from_ref(table_with_joins.as_ref()), test)
        }
        _ => false,
    };
    let by_columns = |join: &Join| match constraint(&join.join_operator) {
        Some((JoinConstraint::Using(_) | JoinConstraint::Natural, kind)) => test(&kind),
        _ => false,
    };
    from.iter().any(|from| {
        nested(&from.relation)
            || from.joins.iter().any(|join| by_columns(join) || nested(&join.relation))
    })
}

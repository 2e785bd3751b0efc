//! Expands `*` and `a.*` over tables that are joined by columns (`USING`, NATURAL).
//!
//! Where this stands on the road of a query: just before planning. In the standard, the merged
//! columns come first, then the others of the left table, then those of the right one. DataFusion
//! (55.2) leaves each column where it is, and takes a merged column from the table whose name comes
//! first in the alphabet. The columns of the tables are known once the FROM alone has been planned,
//! which only such statements pay for.
//!
//! Names in subqueries over joins (`inner_names`) are qualified at the same time, because that
//! needs the columns of the tables, too.
//!
//! A merged column is written as the left table's, without a location in the statement, which
//! `rules::using` takes for the merged one; all others get the location of the `*`.

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
use crate::sql::syntax::outputs::{OutputColumn, all_columns, expand_list};
use crate::sql::syntax::using_names::{MergedFrom, constraint, is_ambiguous};
use crate::sql::syntax::{is_subquery, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// Expands the wildcards of a statement and of its rewordings, and plans each FROM only once.
#[derive(Default)]
pub(in crate::sql) struct WildcardExpander {
    /// The plans of `SELECT * FROM …` by their queries; `None` if one cannot be planned.
    plans: HashMap<Box<Query>, Option<LogicalPlan>>,
}

impl WildcardExpander {
    /// The statement with such wildcards expanded and such names qualified; `None` if it has none.
    pub(in crate::sql) async fn expand(
        &mut self,
        state: &SessionState,
        statement: &Statement,
    ) -> DataFusionResult<Option<Statement>> {
        let mut changed = None;
        // How many SELECTs stay as they are: the FROM of some cannot be planned alone, and
        // DataFusion reports what is wrong with it.
        let mut kept = 0;
        while let Some(probe) = search(changed.as_ref().unwrap_or(statement), kept) {
            let plan = self.plan(state, probe).await?;
            let target = changed.get_or_insert_with(|| statement.clone());
            let visited = match (plan, sql_of(target)) {
                (Some(LogicalPlan::Projection(all)), Some(sql)) => {
                    visit_mut(sql, &mut Expansion::new(kept, &all.input))
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
                // Within its statement, DataFusion might find the name in the query around it.
                Err(error) if is_ambiguous(&error) => return Err(error),
                other => other.ok(),
            };
            self.plans.insert(probe.clone(), plan);
        }
        Ok(self.plans.get(&probe).and_then(Option::as_ref))
    }
}

/// `SELECT *` from the FROM of the first SELECT to expand, after skipping `skip` of them.
/// Subqueries come before the query around them.
fn search(statement: &Statement, skip: usize) -> Option<Box<Query>> {
    let mut search = Search { skip, subqueries: 0, ended: Vec::new(), found: None };
    let _ = visit(sql_in(statement)?, &mut search);
    search.found.map(|found| found.probe)
}

struct Search {
    skip: usize,
    /// How many subqueries that can refer to the rows around them the walk is in.
    subqueries: usize,
    /// For each query that the walk is in: how many queries directly within it have ended. Those of
    /// its WITH come first.
    ended: Vec<usize>,
    found: Option<Found>,
}

struct Found {
    probe: Box<Query>,
    /// For each query around it whose WITH has not been added: how many had ended there.
    ended: Vec<usize>,
}

impl Found {
    /// Adds the WITH of the next query around it, as far as it is visible: the tables before the
    /// one that it is in.
    fn with_tables_of(mut self, around: &Query) -> Found {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return self };
        let visible = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(visible).cloned().collect();
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
            true => found.with_tables_of(around),
            false => found,
        });
        self.ended.pop();
        if let Some(ended) = self.ended.last_mut() {
            *ended += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.found.is_some()
            || !(needs_expansion(select) || may_capture_names(select, self.subqueries))
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

/// Whether a name that two tables of a SELECT have may be taken for a column of the query around
/// it.
fn may_capture_names(select: &Select, subqueries: usize) -> bool {
    subqueries > 0 && is_joined(&select.from)
}

fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: true, .. })
}

/// Expands the first SELECT after skipping `skip`, and the ORDER BY of its query. Breaks with
/// whether nothing is left to do in it.
struct Expansion<'a> {
    skip: usize,
    from: &'a LogicalPlan,
    subqueries: usize,
    /// The columns of the FROM of the expanded SELECT, until its query ends.
    outputs: Option<Vec<OutputColumn>>,
    is_done: bool,
}

impl Expansion<'_> {
    fn new(skip: usize, from: &LogicalPlan) -> Expansion<'_> {
        Expansion { skip, from, subqueries: 0, outputs: None, is_done: false }
    }

    /// Expands a SELECT; returns whether nothing is left to do in it.
    fn expand(&mut self, select: &mut Select) -> DataFusionResult<bool> {
        if let Some(list) =
            needs_expansion(select).then(|| expand_list(select, self.from)).flatten()
        {
            select.projection = list;
        }
        if !may_capture_names(select, self.subqueries) {
            return Ok(!needs_expansion(select));
        }
        if let Some(outputs) = all_columns(&select.from, self.from) {
            inner_names::qualify(select, &outputs)?;
            self.outputs = Some(outputs);
        }
        Ok(false)
    }
}

impl VisitorMut for Expansion<'_> {
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
            || !(needs_expansion(select) || may_capture_names(select, self.subqueries))
        {
            return ControlFlow::Continue(());
        }
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        match self.expand(select) {
            Ok(is_done) if self.outputs.is_some() => {
                self.is_done = is_done;
                ControlFlow::Continue(())
            }
            other => ControlFlow::Break(other),
        }
    }

    /// Takes the first query that ends after the SELECT for the query of that SELECT.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let Some(outputs) = self.outputs.take() else { return ControlFlow::Continue(()) };
        ControlFlow::Break(inner_names::qualify_order(query, &outputs).map(|()| self.is_done))
    }
}

/// Whether a SELECT list has a `*` that DataFusion may expand to other columns or in another order.
/// For `a.*` that is so if a merged column is not taken from the left table.
fn needs_expansion(select: &Select) -> bool {
    let has = |test: fn(&SelectItem) -> bool| select.projection.iter().any(test);
    (has(|item| matches!(item, SelectItem::Wildcard(_))) && joins_by_columns(&select.from))
        || (has(|item| matches!(item, SelectItem::QualifiedWildcard(..)))
            && merges(&select.from, |from| !matches!(from, MergedFrom::Left)))
}

/// Whether tables are joined by columns.
pub(super) fn joins_by_columns(from: &[TableWithJoins]) -> bool {
    merges(from, |_| true)
}

/// Whether tables are joined by columns, and where the merged columns come from passes a test.
fn merges(from: &[TableWithJoins], test: fn(&MergedFrom) -> bool) -> bool {
    let nested = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            merges(std::slice::from_ref(table_with_joins.as_ref()), test)
        }
        _ => false,
    };
    let by_columns = |join: &Join| match constraint(&join.join_operator) {
        Some((JoinConstraint::Using(_) | JoinConstraint::Natural, merged_from)) => {
            test(&merged_from)
        }
        _ => false,
    };
    from.iter().any(|from| {
        nested(&from.relation)
            || from.joins.iter().any(|join| by_columns(join) || nested(&join.relation))
    })
}

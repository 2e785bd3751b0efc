//! `*` and `a.*` over tables that are joined by columns (`USING`, NATURAL), written out.
//!
//! Where this stands on the road of a query: just before planning. The standard has the columns of both tables
//! first, then what else the left one has, then the right one. DataFusion (55.2) leaves each column where it is,
//! and of those of both has the one of the table whose name comes first in the alphabet. What tables have is known
//! when the FROM alone has been planned, which only such statements pay for.
//!
//! The same is done for names in subqueries over joins (`inner_names`), which need to know what tables have, too.
//!
//! A column of both tables is written as the left one's without a place in the statement, which `using` reads as
//! that of both; all others get the place of the `*`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Join as PlannedJoin, JoinType, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, Visitor,
    VisitorMut, WildcardAdditionalOptions, With,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::inner_names::{self, is_joined};
use super::parse::sql_of;
use super::prepared::folded;
use super::using_names::{Kind, constraint, is_ambiguous, sql_in};
use super::walks::{visit, visit_mut};

/// What has been planned for a statement and for the other words that are tried for it: each FROM once.
#[derive(Default)]
pub(super) struct Stars {
    /// By the query of all that a FROM gives; `None` where that cannot be planned.
    plans: HashMap<Box<Query>, Option<LogicalPlan>>,
}

impl Stars {
    /// The statement with such lists and names written out; `None` where it has none.
    pub(super) async fn written_out(
        &mut self,
        state: &SessionState,
        statement: &Statement,
    ) -> DataFusionResult<Option<Statement>> {
        let mut changed = None;
        // How many SELECTs stay as they are: of some, the FROM cannot be planned alone, and DataFusion says what is wrong with it.
        let mut kept = 0;
        while let Some(probe) = search(changed.as_ref().unwrap_or(statement), kept) {
            let plan = self.plan(state, probe).await?;
            let target = changed.get_or_insert_with(|| statement.clone());
            let visited = match (plan, sql_of(target)) {
                (Some(LogicalPlan::Projection(all)), Some(sql)) => visit_mut(sql, &mut Fill::of(kept, &all.input)),
                _ => ControlFlow::Continue(()),
            };
            kept += match visited {
                ControlFlow::Break(is_done) => usize::from(!is_done?),
                ControlFlow::Continue(()) => 1,
            };
        }
        Ok(changed)
    }

    async fn plan(&mut self, state: &SessionState, probe: Box<Query>) -> DataFusionResult<Option<&LogicalPlan>> {
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

/// A query of all that the first list but `skip` is chosen from. Those of subqueries come before that around them.
fn search(statement: &Statement, skip: usize) -> Option<Box<Query>> {
    let mut search = Search { skip, subqueries: 0, ended: Vec::new(), found: None };
    let _ = visit(sql_in(statement)?, &mut search);
    search.found.map(|found| found.probe)
}

struct Search {
    skip: usize,
    /// In how many subqueries it is that see the rows around them.
    subqueries: usize,
    /// How many queries have ended directly within each of those that it is in. Those of a WITH come first.
    ended: Vec<usize>,
    found: Option<Found>,
}

struct Found {
    probe: Box<Query>,
    /// For each query around it whose WITH it has not: how many had ended there.
    ended: Vec<usize>,
}

impl Found {
    /// With what it sees of the WITH of the next query around it: the tables before the one that it stands in.
    fn within(mut self, around: &Query) -> Found {
        let (Some(ended), Some(with)) = (self.ended.pop(), &around.with) else { return self };
        let seen = ended + usize::from(with.recursive);
        let cte_tables: Vec<Cte> = with.cte_tables.iter().take(seen).cloned().collect();
        if cte_tables.is_empty() {
            return self;
        }
        let with = With { with_token: with.with_token.clone(), recursive: with.recursive, cte_tables };
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
        if self.found.is_some() || !(is_starred(select) || has_inner_names(select, self.subqueries)) {
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

/// Whether a SELECT is within so many subqueries that a name of two of its tables may be taken for one of the query around.
fn has_inner_names(select: &Select, subqueries: usize) -> bool {
    subqueries > 0 && is_joined(&select.from)
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. }
    )
}

fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: true, .. })
}

/// Writes out the first SELECT but `skip`, and the order of its query; breaks with whether there is nothing left to do in it.
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
        if self.outputs.is_some() || !(is_starred(select) || has_inner_names(select, self.subqueries)) {
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

/// Whether a list has a `*` whose columns may be others than DataFusion's, or stand in another order. Those of
/// `a.*` may be others where a column of both tables is not the left one's.
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
        nested(&from.relation) || from.joins.iter().any(|join| by_columns(join) || nested(&join.relation))
    })
}

/// What a table has, or several that are joined.
pub(super) struct Output {
    column: Column,
    /// Whether it is of both sides of a join.
    pub(super) is_merged: bool,
}

impl Output {
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.column.name == name
    }

    /// The table that it is of.
    pub(super) fn table(&self) -> String {
        self.column.relation.as_ref().map_or_else(|| "a subquery".to_owned(), |table| table.table().to_owned())
    }

    /// How it is written if it is of both sides.
    pub(super) fn of_both(&self) -> Expr {
        self.written(Span::empty())
    }

    fn written(&self, place: Span) -> Expr {
        let span = if self.is_merged { Span::empty() } else { place };
        let ident = |value: &String| Ident { value: value.clone(), quote_style: Some('"'), span };
        let table = self.column.relation.as_ref().map(|table| table.to_vec()).unwrap_or_default();
        let mut parts: Vec<Ident> = table.iter().chain([&self.column.name]).map(ident).collect();
        match parts.len() {
            1 => Expr::Identifier(parts.remove(0)),
            _ => Expr::CompoundIdentifier(parts),
        }
    }
}

/// A SELECT list without `*`.
fn list(select: &Select, from: &LogicalPlan) -> Option<Vec<SelectItem>> {
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) => items.extend(chosen(all_of(&select.from, from)?, options)?),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let [table] = name.0.as_slice() else { return None };
                let table = folded(table.as_ident()?);
                let is_own = |output: &Output| {
                    output.column.relation.as_ref().is_some_and(|relation| relation.to_vec() == [table.as_str()])
                };
                let own: Vec<Output> = columns_of(from).into_iter().filter(is_own).collect();
                // Of a table that there is not, DataFusion says so.
                if own.is_empty() {
                    return None;
                }
                items.extend(chosen(own, options)?);
            }
            SelectItem::QualifiedWildcard(..) => return None,
            other => items.push(other.clone()),
        }
    }
    Some(items)
}

/// Columns without those that an EXCLUDE or EXCEPT names, and with those that a REPLACE gives. Each name means
/// one.
fn chosen(mut outputs: Vec<Output>, options: &WildcardAdditionalOptions) -> Option<Vec<SelectItem>> {
    if options.opt_ilike.is_some() || options.opt_rename.is_some() || options.opt_alias.is_some() {
        return None;
    }
    let mut excluded: Vec<&Ident> = Vec::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => excluded.push(only_part(name)?),
        Some(ExcludeSelectItem::Multiple(names)) => {
            for name in names {
                excluded.push(only_part(name)?);
            }
        }
        None => {}
    }
    if let Some(except) = &options.opt_except {
        excluded.push(&except.first_element);
        excluded.extend(&except.additional_elements);
    }
    for name in excluded {
        take(&mut outputs, &folded(name))?;
    }
    let place = options.wildcard_token.0.span;
    let mut items: Vec<SelectItem> =
        outputs.iter().map(|output| SelectItem::UnnamedExpr(output.written(place))).collect();
    for replaced in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = folded(&replaced.column_name);
        let alias = Ident::with_quote('"', &name);
        *items.get_mut(position(&outputs, &name)?)? =
            SelectItem::ExprWithAlias { expr: replaced.expr.clone(), alias };
    }
    Some(items)
}

/// All that a FROM gives, in the order of the standard; `None` where the plan has another shape.
fn all_of(from: &[TableWithJoins], plan: &LogicalPlan) -> Option<Vec<Output>> {
    let (last, before) = from.split_last()?;
    if before.is_empty() {
        return joined(last, &last.joins, plan);
    }
    let join = join_of(plan)?;
    let mut all = all_of(before, &join.left)?;
    all.extend(joined(last, &last.joins, &join.right)?);
    Some(all)
}

/// What a table and the first `joins` beside it give.
fn joined(from: &TableWithJoins, joins: &[Join], plan: &LogicalPlan) -> Option<Vec<Output>> {
    let Some((last, before)) = joins.split_last() else { return table(&from.relation, plan) };
    let join = join_of(plan)?;
    let left = joined(from, before, &join.left)?;
    let right = table(&last.relation, &join.right)?;
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => return Some(left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => return Some(right),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {}
    }
    let keys = match constraint(&last.join_operator) {
        Some((JoinConstraint::Using(names), _)) => {
            names.iter().map(|name| only_part(name).map(folded)).collect::<Option<_>>()?
        }
        Some((JoinConstraint::Natural, _)) => {
            let is_shared = |name: &String| right.iter().any(|output| output.column.name == *name);
            left.iter().map(|output| output.column.name.clone()).filter(is_shared).collect()
        }
        _ => Vec::new(),
    };
    merged(left, right, &keys)
}

/// The columns of both, then those of the left side and of the right one.
fn merged(mut left: Vec<Output>, mut right: Vec<Output>, keys: &[String]) -> Option<Vec<Output>> {
    let mut all = Vec::new();
    for key in keys {
        take(&mut right, key)?;
        all.push(Output { is_merged: true, ..take(&mut left, key)? });
    }
    all.extend(left);
    all.extend(right);
    Some(all)
}

fn table(table: &TableFactor, plan: &LogicalPlan) -> Option<Vec<Output>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            joined(table_with_joins, &table_with_joins.joins, plan)
        }
        _ => Some(columns_of(plan)),
    }
}

fn columns_of(plan: &LogicalPlan) -> Vec<Output> {
    plan.schema().columns().into_iter().map(|column| Output { column, is_merged: false }).collect()
}

fn join_of(plan: &LogicalPlan) -> Option<&PlannedJoin> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        // The condition of a join by what has no hash.
        LogicalPlan::Filter(filter) => join_of(&filter.input),
        _ => None,
    }
}

/// Takes the one column of a name out.
fn take(outputs: &mut Vec<Output>, name: &str) -> Option<Output> {
    let at = position(outputs, name)?;
    Some(outputs.remove(at))
}

/// Where the one column of a name stands.
fn position(outputs: &[Output], name: &str) -> Option<usize> {
    let mut named = outputs.iter().enumerate().filter(|(_, output)| output.column.name == name);
    let (at, _) = named.next()?;
    named.next().is_none().then_some(at)
}

fn only_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

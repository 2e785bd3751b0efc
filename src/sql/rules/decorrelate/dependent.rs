//! Subqueries that look at the outer row in any way: computed for all distinct outer values at
//! once, then joined.
//!
//! The *domain* is the distinct values of the outer columns that a subquery reads. It is joined to
//! the subquery's plan where no outer column is read below, and carried up through each operator: a
//! filter sees its columns in place of the outer ones, an aggregate groups by them, a limit counts
//! rows for each of its values. What comes out has the answer for each value of the domain.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, ExprSchema, JoinType, NullEquality, ScalarValue, not_impl_err,
};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, Cast};
use datafusion::logical_expr::logical_plan::{FetchType, SkipType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprFunctionExt, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, SortExpr, Subquery, SubqueryAlias, Union, Window,
    binary_expr, lit, when,
};

use super::only_value::only_value;
use super::outer::{fresh, outer_columns, outer_columns_of, replaced, subquery_of};
use super::suits_datafusion;
use crate::sql::walks::{node_has_part, rewrite_down, rewrite_up};

/// The input of a filter or projection, joined to the answers of those subqueries in its
/// expressions that DataFusion cannot make joins of; and the expressions over it.
pub(super) fn joined(
    input: &Arc<LogicalPlan>,
    exprs: Vec<Expr>,
) -> DataFusionResult<(LogicalPlan, Vec<Expr>)> {
    let mut plan = input.as_ref().clone();
    let mut rewritten = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let replace = |expr: Expr| {
            let expr = match &expr {
                Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) => expr,
                _ => return Ok(Transformed::no(expr)),
            };
            match answer(&mut plan, input, &expr)? {
                Some(answer) => Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(expr)),
            }
        };
        rewritten.push(rewrite_down(expr, replace)?.data);
    }
    Ok((plan, rewritten))
}

/// What stands for a subquery over a wider `plan`; `None` where it can stay.
fn answer(
    plan: &mut LogicalPlan,
    input: &Arc<LogicalPlan>,
    expr: &Expr,
) -> DataFusionResult<Option<Expr>> {
    let Some(subquery) = subquery_of(expr) else { return Ok(None) };
    if outer_columns(&subquery.subquery).is_empty()
        || suits_datafusion(&above(input), expr, subquery)
    {
        return Ok(None);
    }
    let counted = match expr {
        Expr::ScalarSubquery(_) => expr.clone(),
        // A test is a count that is not zero.
        other => super::counted(other.clone(), input.schema())?,
    };
    let mut found = false;
    let replace = |expr: Expr| match &expr {
        Expr::ScalarSubquery(subquery) => match value(plan, input, subquery)? {
            Some((wider, value)) => {
                *plan = wider;
                found = true;
                Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    let replaced = rewrite_down(counted, replace)?.data;
    Ok(found.then_some(replaced))
}

/// A node that DataFusion would see a subquery in.
fn above(input: &Arc<LogicalPlan>) -> LogicalPlan {
    let columns = input.schema().columns().into_iter().map(Expr::from).collect();
    match Projection::try_new(columns, Arc::clone(input)) {
        Ok(projection) => LogicalPlan::Projection(projection),
        Err(_) => input.as_ref().clone(),
    }
}

/// `plan` with one more column, the value of a subquery over the rows of `input`; `None` where it
/// reads rows further out.
fn value(
    plan: &LogicalPlan,
    input: &Arc<LogicalPlan>,
    subquery: &Subquery,
) -> DataFusionResult<Option<(LogicalPlan, Expr)>> {
    let outer = read_of(&subquery.subquery, input.schema());
    if outer.is_empty() {
        return Ok(None);
    }
    let Some((qualifier, field)) = subquery.subquery.schema().iter().next() else {
        return Ok(None);
    };
    let domain = Domain::of(input, outer)?;
    let pushed = domain.pushed(&subquery.subquery)?;
    let column = Expr::from((qualifier, field));
    let answers = match gives_one_row(&subquery.subquery) {
        true => LogicalPlanBuilder::from(pushed.plan)
            .project(pushed.columns.iter().cloned().map(Expr::from).chain([column.alias(VALUE)]))?,
        false => LogicalPlanBuilder::from(pushed.plan).aggregate(
            pushed.columns.iter().cloned().map(Expr::from),
            [only_value(column).alias(VALUE)],
        )?,
    };
    let alias = fresh("answers");
    let keys: Vec<Column> = pushed
        .columns
        .iter()
        .map(|column| Column::new(Some(alias.clone()), &column.name))
        .collect();
    let answers = super::within(&subquery.subquery, answers.alias(alias.as_str())?.build()?)?;
    let same = same_values(&domain.outer, input.schema(), &keys)?;
    let wider =
        LogicalPlanBuilder::from(plan.clone()).join_on(answers, JoinType::Left, same)?.build()?;
    // The answers already have a row for outer values without inner rows, where an aggregate gives
    // one.
    Ok(Some((wider, Expr::Column(Column::new(Some(alias), VALUE)))))
}

/// The columns of an outer row that a plan reads, each once.
fn read_of(plan: &LogicalPlan, row: &DFSchema) -> Vec<Column> {
    let mut found = Vec::new();
    for (_, column) in outer_columns(plan) {
        if row.has_column(&column) && !found.contains(&column) {
            found.push(column);
        }
    }
    found
}

/// Rewrites a LATERAL join: the right side is computed once for each distinct value that it reads
/// of the left side, and joined on these values. Returns `None` if it reads none, or if DataFusion
/// rewrites it rightly (equalities alone), which reads the left side once.
pub(super) fn lateral(join: &Join) -> DataFusionResult<Option<LogicalPlan>> {
    let outer = read_of(&join.right, join.left.schema());
    if outer.is_empty() || is_plain_lateral(&join.right) {
        return Ok(None);
    }
    let domain = Domain::of(&join.left, outer)?;
    let pushed = domain.pushed(&join.right)?;
    let mut conditions = same_values(&domain.outer, join.left.schema(), &pushed.columns)?;
    conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    conditions.extend(join.filter.clone());
    let left = LogicalPlanBuilder::from(join.left.as_ref().clone());
    let wider =
        left.join_on(super::within(&join.right, pushed.plan)?, join.join_type, conditions)?;
    wider.project(join.schema.columns().into_iter().map(Expr::from))?.build().map(Some)
}

/// Whether a LATERAL selects rows of tables, by conditions that are equalities.
fn is_plain_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_plain_lateral(&alias.input),
        LogicalPlan::Subquery(subquery) => is_plain_lateral(&subquery.subquery),
        // Other names may be those of columns that a condition reads.
        LogicalPlan::Projection(projection) if are_columns(&projection.expr) => {
            is_plain_lateral(&projection.input)
        }
        LogicalPlan::Filter(filter) => {
            let mut conditions = split_conjunction(&filter.predicate).into_iter();
            conditions
                .all(|condition| outer_columns_of(condition).is_empty() || is_equality(condition))
                && outer_columns(&filter.input).is_empty()
        }
        _ => false,
    }
}

fn are_columns(exprs: &[Expr]) -> bool {
    exprs.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// Whether a condition is that a column equals an outer one.
fn is_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    matches!(
        (left.as_ref(), right.as_ref()),
        (Expr::Column(_), Expr::OuterReferenceColumn(..))
            | (Expr::OuterReferenceColumn(..), Expr::Column(_))
    )
}

/// The column of an answer.
const VALUE: &str = "value";

/// Whether a plan gives one row for each outer row.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Filter(filter) => gives_one_row(&filter.input),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
        }
        _ => false,
    }
}

/// Whether to run a plan twice could give different rows.
fn is_volatile(plan: &LogicalPlan) -> DataFusionResult<bool> {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Limit(_)) || node_has_part(node, Expr::is_volatile_node))
    })
}

/// What cannot be said for all outer values at once.
fn refused<T>(what: &str) -> DataFusionResult<T> {
    not_impl_err!(
        "a subquery that reads columns of the query around it, {what}; join with a subquery that reads none, or make a table first"
    )
}

/// The distinct values of some columns of an outer plan.
struct Domain {
    outer: Vec<Column>,
    names: Vec<String>,
    values: LogicalPlan,
}

/// A plan with the columns of the domain among its own.
struct Pushed {
    plan: LogicalPlan,
    columns: Vec<Column>,
}

impl Pushed {
    fn exprs(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().cloned().map(Expr::Column)
    }
}

fn same(a: Expr, b: Expr) -> Expr {
    binary_expr(a, Operator::IsNotDistinctFrom, b)
}

/// The conditions under which columns have the same values, null being one. Two equalities each,
/// for DataFusion (55.2) adds conditions of a WHERE to joins in which nulls are equal, and takes
/// nulls for equal in these too.
fn same_values(
    columns: &[Column],
    schema: &DFSchema,
    others: &[Column],
) -> DataFusionResult<Vec<Expr>> {
    let mut conditions = Vec::with_capacity(2 * columns.len());
    for (column, other) in columns.iter().zip(others) {
        let field = schema.field_from_column(column)?;
        let (column, other) = (Expr::Column(column.clone()), Expr::Column(other.clone()));
        match ScalarValue::new_default(field.data_type()) {
            _ if !field.is_nullable() => conditions.push(column.eq(other)),
            Ok(some) => {
                let known = |expr: &Expr| coalesce(vec![expr.clone(), lit(some.clone())]);
                conditions.push(known(&column).eq(known(&other)));
                conditions.push(column.is_null().eq(other.is_null()));
            }
            Err(_) => conditions.push(same(column, other)),
        }
    }
    Ok(conditions)
}

impl Domain {
    fn of(input: &Arc<LogicalPlan>, outer: Vec<Column>) -> DataFusionResult<Domain> {
        if is_volatile(input)? {
            return refused("over rows that need not be the same twice (LIMIT, random())");
        }
        let names: Vec<String> = outer.iter().map(|_| fresh("outer")).collect();
        let columns =
            outer.iter().zip(&names).map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let values = LogicalPlanBuilder::from(input.as_ref().clone())
            .project(columns)?
            .distinct()?
            .build()?;
        Ok(Domain { outer, names, values })
    }

    /// The values under a name of their own.
    fn values(&self) -> DataFusionResult<Pushed> {
        let alias = fresh("domain");
        let columns =
            self.names.iter().map(|name| Column::new(Some(alias.clone()), name)).collect();
        let plan = LogicalPlanBuilder::from(self.values.clone()).alias(alias.as_str())?.build()?;
        Ok(Pushed { plan, columns })
    }

    /// An expression of `node` in which the columns of `pushed` stand for the outer ones.
    fn replaced(
        &self,
        expr: &Expr,
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Expr> {
        let replacement = |outer: &Column| {
            let at = self.outer.iter().position(|known| known == outer)?;
            columns.get(at).cloned()
        };
        replaced(expr.clone(), &node.inputs(), &replacement)
    }

    fn all_replaced(
        &self,
        exprs: &[Expr],
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Vec<Expr>> {
        exprs.iter().map(|expr| self.replaced(expr, node, columns)).collect()
    }

    fn is_read_in(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|(_, column)| self.outer.contains(column))
    }

    /// A plan with the rows that the subquery's plan has for each value of the domain.
    fn pushed(&self, plan: &LogicalPlan) -> DataFusionResult<Pushed> {
        if !self.is_read_in(plan) {
            let domain = self.values()?;
            let plan = LogicalPlanBuilder::from(domain.plan).cross_join(plan.clone())?.build()?;
            return Ok(Pushed { plan, columns: domain.columns });
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let below = self.pushed(&filter.input)?;
                let predicate = self.replaced(&filter.predicate, plan, &below.columns)?;
                let plan = LogicalPlan::Filter(Filter::try_new(predicate, below.plan.into())?);
                Ok(Pushed { plan, columns: below.columns })
            }
            LogicalPlan::Projection(projection) => {
                let below = self.pushed(&projection.input)?;
                self.projected(projection, plan, below)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let below = self.pushed(&alias.input)?;
                let columns = below.columns.into_iter();
                let columns = columns
                    .map(|column| Column::new(Some(alias.alias.clone()), column.name))
                    .collect();
                let plan = SubqueryAlias::try_new(below.plan.into(), alias.alias.clone())?;
                Ok(Pushed { plan: LogicalPlan::SubqueryAlias(plan), columns })
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, plan),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let below = self.pushed(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(below.plan.into()));
                Ok(Pushed { plan, columns: below.columns })
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.pushed(&sort.input),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Window(window) => self.window(window, plan),
            LogicalPlan::Join(join) => self.join(join, plan),
            LogicalPlan::Union(union) => self.union(union),
            // What a LATERAL stands in front of.
            LogicalPlan::Subquery(subquery) => self.pushed(&subquery.subquery),
            LogicalPlan::Distinct(Distinct::On(_)) => refused("with DISTINCT ON"),
            LogicalPlan::Unnest(_) => refused("with UNNEST"),
            _ => refused("of this form"),
        }
    }

    /// Windows are those of the rows for one value of the domain.
    fn window(&self, window: &Window, node: &LogicalPlan) -> DataFusionResult<Pushed> {
        let below = self.pushed(&window.input)?;
        let columns = below.columns.clone();
        let within_value = |expr: Expr| {
            Ok(match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(columns.iter().cloned().map(Expr::Column));
                    Transformed::yes(Expr::WindowFunction(function))
                }
                other => Transformed::no(other),
            })
        };
        let mut window_expr = Vec::with_capacity(window.window_expr.len());
        for expr in self.all_replaced(&window.window_expr, node, &columns)? {
            window_expr.push(rewrite_up(expr, within_value)?.data);
        }
        let (width, own) =
            (below.plan.schema().fields().len(), window.input.schema().fields().len());
        let plan = LogicalPlan::Window(Window::try_new(window_expr, below.plan.into())?);
        let kept = window
            .input
            .schema()
            .columns()
            .into_iter()
            .chain(columns.iter().cloned())
            .map(Expr::Column);
        let computed =
            plan.schema().columns().into_iter().skip(width).zip(window.schema.iter().skip(own));
        let computed = computed.map(|(column, (qualifier, field))| {
            super::named(column.into(), qualifier, field.name())
        });
        let outputs = kept.chain(computed).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(outputs, plan.into())?);
        Ok(Pushed { plan, columns })
    }

    fn projected(
        &self,
        projection: &Projection,
        node: &LogicalPlan,
        below: Pushed,
    ) -> DataFusionResult<Pushed> {
        let mut outputs = Vec::with_capacity(projection.expr.len());
        for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
            outputs.push(super::named(
                self.replaced(expr, node, &below.columns)?,
                qualifier,
                field.name(),
            ));
        }
        outputs.extend(below.exprs());
        let plan = LogicalPlan::Projection(Projection::try_new(outputs, below.plan.into())?);
        Ok(Pushed { plan, columns: below.columns })
    }

    /// Groups by the domain too. An aggregate without keys has a row for no rows: the values
    /// without any get it back.
    fn aggregate(&self, aggregate: &Aggregate, node: &LogicalPlan) -> DataFusionResult<Pushed> {
        if aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
            return refused("with GROUPING SETS, ROLLUP or CUBE");
        }
        let below = self.pushed(&aggregate.input)?;
        let group_expr = self.all_replaced(&aggregate.group_expr, node, &below.columns)?;
        let aggr_expr = self.all_replaced(&aggregate.aggr_expr, node, &below.columns)?;
        let keys = below.exprs().chain(group_expr).collect();
        let columns = below.columns.clone();
        let grouped = Aggregate::try_new(below.plan.into(), keys, aggr_expr.clone())?;
        let outputs = grouped.schema.columns().into_iter().skip(columns.len());
        let grouped = LogicalPlan::Aggregate(grouped);
        let names = aggregate.schema.iter();
        if !aggregate.group_expr.is_empty() {
            let outputs = outputs.zip(names);
            let outputs = outputs.map(|(output, (qualifier, field))| {
                super::named(output.into(), qualifier, field.name())
            });
            let exprs = columns.iter().cloned().map(Expr::Column).chain(outputs).collect();
            let plan = LogicalPlan::Projection(Projection::try_new(exprs, grouped.into())?);
            return Ok(Pushed { plan, columns });
        }
        let domain = self.values()?;
        let mut exprs: Vec<Expr> = domain.exprs().collect();
        for ((output, expr), (qualifier, field)) in outputs.zip(&aggr_expr).zip(names) {
            let output = match of_nothing(expr, field.data_type())? {
                value if value.is_null() => Expr::Column(output),
                value => when(Expr::Column(output.clone()).is_null(), lit(value))
                    .otherwise(output.into())?,
            };
            exprs.push(super::named(output, qualifier, field.name()));
        }
        let same = same_values(&domain.columns, domain.plan.schema(), &columns)?;
        let plan = LogicalPlanBuilder::from(domain.plan)
            .join_on(grouped, JoinType::Left, same)?
            .build()?;
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, plan.into())?);
        Ok(Pushed { plan, columns: domain.columns })
    }

    /// The first rows for each value of the domain.
    fn limit(&self, limit: &Limit) -> DataFusionResult<Pushed> {
        let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) =
            (limit.get_skip_type(), limit.get_fetch_type())
        else {
            return refused("with a LIMIT that is no number");
        };
        // Columns that only the order needs are taken out above it.
        let (selected, ordered) = match limit.input.as_ref() {
            LogicalPlan::Projection(selected) => (Some(selected), &selected.input),
            _ => (None, &limit.input),
        };
        let (below, keys) = match ordered.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                (self.pushed(&sort.input)?, &*sort.expr)
            }
            _ => (self.pushed(&limit.input)?, &[][..]),
        };
        let columns = below.columns.clone();
        let key = |key: &SortExpr| {
            Ok(SortExpr { expr: self.replaced(&key.expr, ordered, &columns)?, ..key.clone() })
        };
        let keys = keys.iter().map(key).collect::<DataFusionResult<Vec<_>>>()?;
        let is_sorted = matches!(ordered.as_ref(), LogicalPlan::Sort(_));
        let rows = numbered(below, keys, skip, fetch)?;
        match selected.filter(|_| is_sorted) {
            Some(selected) => {
                let node = LogicalPlan::Projection(selected.clone());
                self.projected(selected, &node, Pushed { plan: rows, columns })
            }
            None => Ok(Pushed { plan: rows, columns }),
        }
    }

    /// Both sides of a join have the domain if they read it, and the one whose rows all come out
    /// has it in any case.
    fn join(&self, join: &Join, node: &LogicalPlan) -> DataFusionResult<Pushed> {
        let left_first = match join.join_type {
            JoinType::Inner => self.is_read_in(&join.left) || !self.is_read_in(&join.right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => true,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                false
            }
            JoinType::Full => return refused("with a FULL JOIN"),
        };
        if join.null_aware {
            return refused("with NOT IN");
        }
        let (first, second) =
            if left_first { (&join.left, &join.right) } else { (&join.right, &join.left) };
        let first = self.pushed(first)?;
        let columns = first.columns.clone();
        let mut conditions = Vec::new();
        for (left, right) in &join.on {
            let equal = match join.null_equality {
                NullEquality::NullEqualsNothing => left.clone().eq(right.clone()),
                NullEquality::NullEqualsNull => same(left.clone(), right.clone()),
            };
            conditions.push(self.replaced(&equal, node, &columns)?);
        }
        if let Some(filter) = &join.filter {
            conditions.push(self.replaced(filter, node, &columns)?);
        }
        let second = match self.is_read_in(second) {
            true => {
                let second = self.pushed(second)?;
                conditions.extend(same_values(&second.columns, second.plan.schema(), &columns)?);
                second.plan
            }
            false => second.as_ref().clone(),
        };
        let (left, right) = if left_first { (first.plan, second) } else { (second, first.plan) };
        if conditions.is_empty() {
            conditions.push(lit(true));
        }
        let plan =
            LogicalPlanBuilder::from(left).join_on(right, join.join_type, conditions)?.build()?;
        Ok(Pushed { plan, columns })
    }

    fn union(&self, union: &Union) -> DataFusionResult<Pushed> {
        // The columns of a union have no qualifier that would tell them from others of the domain.
        let names: Vec<String> = self.names.iter().map(|_| fresh("outer")).collect();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let below = self.pushed(input)?;
            let mut outputs = Vec::with_capacity(union.schema.fields().len());
            for (column, (qualifier, field)) in
                input.schema().columns().into_iter().zip(union.schema.iter())
            {
                let (from, to) = (input.schema().data_type(&column)?, field.data_type());
                let plain = Expr::Column(column.clone());
                let cast = if from == to {
                    plain
                } else {
                    Expr::Cast(Cast::new(plain.into(), to.clone()))
                };
                outputs.push(super::named(cast, qualifier, field.name()));
            }
            let domain = below.columns.iter().zip(&names);
            outputs.extend(domain.map(|(column, name)| Expr::Column(column.clone()).alias(name)));
            inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(
                outputs,
                below.plan.into(),
            )?)));
        }
        let united = Union::try_new_with_loose_types(inputs)?;
        let width = union.schema.fields().len();
        let own: Vec<Column> = united.schema.columns();
        let columns: Vec<Column> = own.iter().skip(width).cloned().collect();
        let outputs = own.into_iter().take(width).zip(union.schema.iter());
        let outputs = outputs.map(|(column, (qualifier, field))| {
            super::named(column.into(), qualifier, field.name())
        });
        let outputs = outputs.chain(columns.iter().cloned().map(Expr::Column)).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(
            outputs,
            LogicalPlan::Union(united).into(),
        )?);
        Ok(Pushed { plan, columns })
    }
}

/// The rows from `skip` on, at most `fetch`, for each value of the domain.
fn numbered(
    below: Pushed,
    keys: Vec<SortExpr>,
    skip: usize,
    fetch: Option<usize>,
) -> DataFusionResult<LogicalPlan> {
    let name = fresh("row");
    let number = row_number().partition_by(below.exprs().collect()).order_by(keys).build()?;
    let kept: Vec<Expr> = below.plan.schema().columns().into_iter().map(Expr::Column).collect();
    let rows = LogicalPlanBuilder::from(below.plan).window([number])?;
    let computed = rows.schema().columns().pop().map(|column| Expr::Column(column).alias(&name));
    let rows = rows.project(kept.iter().cloned().chain(computed))?;
    let number = || Expr::Column(Column::new_unqualified(&name));
    let count = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
    let rows = rows.filter(number().gt(count(skip)))?;
    let rows = match fetch {
        Some(fetch) => rows.filter(number().lt_eq(count(skip.saturating_add(fetch))))?,
        None => rows,
    };
    rows.project(kept)?.build()
}

/// What an aggregate gives for no rows.
fn of_nothing(expr: &Expr, data_type: &arrow_schema::DataType) -> DataFusionResult<ScalarValue> {
    match expr {
        Expr::Alias(alias) => of_nothing(&alias.expr, data_type),
        Expr::AggregateFunction(AggregateFunction { func, .. }) => func.default_value(data_type),
        _ => ScalarValue::try_from(data_type),
    }
}

//! Carries the domain up through the operators of a subquery's plan.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ExprSchema, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, Cast};
use datafusion::logical_expr::logical_plan::{FetchType, SkipType};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, SortExpr, SubqueryAlias, Union, Window, lit, when,
};

use super::domain::{Domain, Pushed, equal_or_both_null, refused, same_values};
use crate::sql::rules::column_names::{unique_name, with_name};
use crate::sql::types::zeros::one_zero_before_last;
use crate::sql::walks::rewrite_up;

impl Domain {
    /// A plan with the rows that the subquery's plan has for each value of the domain.
    pub(super) fn pushed(&self, plan: &LogicalPlan) -> DataFusionResult<Pushed> {
        if !self.is_read_in(plan) {
            let domain = self.values()?;
            let plan = LogicalPlanBuilder::from(domain.plan).cross_join(plan.clone())?.build()?;
            return Ok(Pushed { plan, columns: domain.columns });
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let below = self.pushed(&filter.input)?;
                let predicate = self.with_domain(&filter.predicate, plan, &below.columns)?;
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
            LogicalPlan::Unnest(unnest) => {
                let below = self.pushed(&unnest.input)?;
                let (lists, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let plan = LogicalPlanBuilder::from(below.plan);
                let plan = plan.unnest_columns_with_options(lists, options)?.build()?;
                Ok(Pushed { plan, columns: below.columns })
            }
            // The plan behind a LATERAL.
            LogicalPlan::Subquery(subquery) => self.pushed(&subquery.subquery),
            LogicalPlan::Distinct(Distinct::On(_)) => refused("with DISTINCT ON"),
            _ => refused("of this form"),
        }
    }

    /// Windows are partitioned by the domain too.
    fn window(&self, window: &Window, node: &LogicalPlan) -> DataFusionResult<Pushed> {
        let below = self.pushed(&window.input)?;
        let columns = below.columns.clone();
        let partitioned = |expr: Expr| {
            Ok(match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(columns.iter().cloned().map(Expr::Column));
                    Transformed::yes(Expr::WindowFunction(function))
                }
                other => Transformed::no(other),
            })
        };
        let mut window_expr = Vec::with_capacity(window.window_expr.len());
        for expr in self.all_with_domain(&window.window_expr, node, &columns)? {
            window_expr.push(rewrite_up(expr, partitioned)?.data);
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
        let computed = computed
            .map(|(column, (qualifier, field))| with_name(column.into(), qualifier, field.name()));
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
            outputs.push(with_name(
                self.with_domain(expr, node, &below.columns)?,
                qualifier,
                field.name(),
            ));
        }
        outputs.extend(below.exprs());
        let plan = LogicalPlan::Projection(Projection::try_new(outputs, below.plan.into())?);
        Ok(Pushed { plan, columns: below.columns })
    }

    /// Groups by the domain too. An aggregate without keys has a row even for no input: values of
    /// the domain without rows get theirs back.
    fn aggregate(&self, aggregate: &Aggregate, node: &LogicalPlan) -> DataFusionResult<Pushed> {
        if aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
            return refused("with GROUPING SETS, ROLLUP or CUBE");
        }
        let below = self.pushed(&aggregate.input)?;
        let group_expr = self.all_with_domain(&aggregate.group_expr, node, &below.columns)?;
        let aggr_expr = self.all_with_domain(&aggregate.aggr_expr, node, &below.columns)?;
        let columns = below.columns.clone();
        // A key that is an outer column is among those of the domain.
        let mut keys: Vec<Expr> = below.exprs().collect();
        let (mut places, mut known_keys) = (Vec::new(), Vec::new());
        for (own, key) in aggregate.group_expr.iter().zip(group_expr) {
            // One that is named twice is one column.
            if known_keys.contains(&own) {
                continue;
            }
            known_keys.push(own);
            let known = keys.iter().position(|known| *known == key);
            places.push(known.unwrap_or(keys.len()));
            if known.is_none() {
                keys.push(key);
            }
        }
        let width = keys.len();
        let grouped = Aggregate::try_new(below.plan.into(), keys, aggr_expr.clone())?;
        let all = grouped.schema.columns();
        let outputs = places.into_iter().filter_map(|place| all.get(place));
        let outputs = outputs.chain(all.iter().skip(width)).cloned();
        let grouped = LogicalPlan::Aggregate(grouped);
        let names = aggregate.schema.iter();
        if !aggregate.group_expr.is_empty() {
            let outputs = outputs.zip(names);
            let outputs = outputs.map(|(output, (qualifier, field))| {
                with_name(output.into(), qualifier, field.name())
            });
            let exprs = columns.iter().cloned().map(Expr::Column).chain(outputs).collect();
            let plan = LogicalPlan::Projection(Projection::try_new(exprs, grouped.into())?);
            return Ok(Pushed { plan, columns });
        }
        let domain = self.values()?;
        let mut exprs: Vec<Expr> = domain.exprs().collect();
        for ((output, expr), (qualifier, field)) in outputs.zip(&aggr_expr).zip(names) {
            let output = match value_of_no_rows(expr, field.data_type())? {
                value if value.is_null() => Expr::Column(output),
                value => when(Expr::Column(output.clone()).is_null(), lit(value))
                    .otherwise(output.into())?,
            };
            exprs.push(with_name(output, qualifier, field.name()));
        }
        let equal_or_both_null = same_values(&domain.columns, &domain.plan, &columns)?;
        let plan = LogicalPlanBuilder::from(domain.plan)
            .join_on(grouped, JoinType::Left, equal_or_both_null)?
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
        // Columns that only the order needs are removed above the sort.
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
            Ok(SortExpr { expr: self.with_domain(&key.expr, ordered, &columns)?, ..key.clone() })
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

    /// Both sides of a join get the domain if they read it. The side whose rows are all preserved
    /// gets it in any case.
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
                NullEquality::NullEqualsNull => equal_or_both_null(left.clone(), right.clone()),
            };
            conditions.push(self.with_domain(&equal, node, &columns)?);
        }
        if let Some(filter) = &join.filter {
            conditions.push(self.with_domain(filter, node, &columns)?);
        }
        let second = match self.is_read_in(second) {
            true => {
                let second = self.pushed(second)?;
                conditions.extend(same_values(&second.columns, &second.plan, &columns)?);
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
        // The columns of a union have no qualifier that would tell one domain's columns from
        // another's.
        let names: Vec<String> = self.names.iter().map(|_| unique_name("outer")).collect();
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
                outputs.push(with_name(cast, qualifier, field.name()));
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
        let outputs = outputs
            .map(|(column, (qualifier, field))| with_name(column.into(), qualifier, field.name()));
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
    mut keys: Vec<SortExpr>,
    skip: usize,
    fetch: Option<usize>,
) -> DataFusionResult<LogicalPlan> {
    let name = unique_name("row");
    // These keys become those of a window after the rule that sees to windows has run.
    one_zero_before_last(&mut keys, below.plan.schema())?;
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

/// The value of an aggregate over no rows.
fn value_of_no_rows(
    expr: &Expr,
    data_type: &arrow_schema::DataType,
) -> DataFusionResult<ScalarValue> {
    match expr {
        Expr::Alias(alias) => value_of_no_rows(&alias.expr, data_type),
        Expr::AggregateFunction(AggregateFunction { func, .. }) => func.default_value(data_type),
        _ => ScalarValue::try_from(data_type),
    }
}

//! Keeps the ORDER BY of a subquery in FROM, of a WITH and of a view where it can be seen: below a
//! LIMIT, in the answer, in what `string_agg` collects, and in windows without an order.
//!
//! Where this stands on the road of a query: the first analyzer rule. DataFusion's planner (55.2)
//! drops all such orders while it plans a statement, so that `SELECT * FROM (SELECT … ORDER BY x)
//! LIMIT 3` gives any three rows; the session turns that off. This rule drops those that nobody
//! sees, and gives the keys of the others to aggregates and windows, as no plan keeps an order for
//! these.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, Window,
    WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::rules::column_names::unique_name;
use crate::sql::walks::{Rewritten, any_node, has_part, rewrite_up};

#[derive(Debug)]
pub(in crate::sql) struct InnerOrders;

impl AnalyzerRule for InnerOrders {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        match any_node(&plan, |node| matches!(node, LogicalPlan::Sort(_))) {
            true => Ok(without_unseen_sorts(sorted_last(plan)?.data, true)?.data),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "inner_orders"
    }
}

/// A plan without the sorts that nobody sees. `is_seen` says whether its rows' order can be seen.
fn without_unseen_sorts(plan: LogicalPlan, is_seen: bool) -> Rewritten<LogicalPlan> {
    let (plan, is_changed) = match plan {
        LogicalPlan::Sort(sort) if !is_seen && sort.fetch.is_none() => {
            let input = Arc::unwrap_or_clone(sort.input);
            return Ok(Transformed::yes(without_unseen_sorts(input, false)?.data));
        }
        LogicalPlan::Aggregate(aggregate) => {
            let ordered = in_order(&aggregate)?;
            (LogicalPlan::Aggregate(ordered.data), ordered.transformed)
        }
        LogicalPlan::Window(window) => match window_in_order(&window)? {
            Some(ordered) => {
                return Ok(Transformed::yes(without_unseen_sorts(ordered, is_seen)?.data));
            }
            None => (LogicalPlan::Window(window), false),
        },
        other => (other, false),
    };
    let below = shows_order(&plan, is_seen);
    let plan = plan.map_subqueries(|subquery| without_unseen_sorts(subquery, false))?;
    let is_changed = is_changed || plan.transformed;
    let shows_itself = shows_order(&plan.data, false);
    let plan = match plan.data {
        aggregate @ LogicalPlan::Aggregate(_) => Transformed::no(aggregate),
        other if shows_itself => other.map_children(sorted_last)?,
        other => Transformed::no(other),
    };
    let is_changed = is_changed || plan.transformed;
    let plan = plan.data.map_children(|child| without_unseen_sorts(child, below))?;
    Ok(Transformed::new_transformed(plan.data, is_changed || plan.transformed))
}

/// A plan that ends with its sort, if something above that could run in several threads, which
/// keep no order.
fn sorted_last(plan: LogicalPlan) -> Rewritten<LogicalPlan> {
    if !mixes_order(&plan) {
        return Ok(Transformed::no(plan));
    }
    let Some(ordered) = ordered(&plan, false)? else { return Ok(Transformed::no(plan)) };
    let columns = plan.schema().columns().into_iter().map(Expr::from).collect();
    let input = Arc::new(ordered.plan);
    let sorted = LogicalPlan::Sort(Sort { expr: ordered.keys, input, fetch: None });
    let projection = Projection::try_new(columns, Arc::new(sorted))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Whether a plan filters or computes sorted rows.
fn mixes_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => mixes_order(&alias.input),
        LogicalPlan::Filter(_) => is_sorted(plan),
        LogicalPlan::Projection(projection) => {
            let is_column = |expr: &Expr| matches!(expr.clone().unalias(), Expr::Column(_));
            match projection.expr.iter().all(is_column) {
                true => mixes_order(&projection.input),
                false => is_sorted(&projection.input),
            }
        }
        _ => false,
    }
}

/// Whether a plan sorts rows that it then only filters, computes or cuts.
fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_sorted(&alias.input),
        LogicalPlan::Filter(filter) => is_sorted(&filter.input),
        LogicalPlan::Limit(limit) => is_sorted(&limit.input),
        LogicalPlan::Projection(projection) => is_sorted(&projection.input),
        LogicalPlan::Window(window) => is_sorted(&window.input),
        _ => false,
    }
}

/// Whether the order of a node's inputs can be seen, if its own can or cannot.
fn shows_order(node: &LogicalPlan, is_seen: bool) -> bool {
    match node {
        LogicalPlan::Limit(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Extension(_) => is_seen,
        LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().any(collects_as_it_comes),
        LogicalPlan::Window(window) => {
            let has_keys = |expr: &Expr| match expr {
                Expr::WindowFunction(call) => {
                    !call.params.partition_by.is_empty() || !call.params.order_by.is_empty()
                }
                _ => false,
            };
            is_seen && !window.window_expr.iter().any(|expr| has_part(expr, has_keys))
        }
        _ => false,
    }
}

/// Functions over windows that number rows, or pick some, in the order in which they come.
const BY_PLACE: &[&str] = &[
    "array_agg",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "row_number",
    "string_agg",
];

/// Whether an expression is such a function without an ORDER BY. A frame of another unit than rows
/// would change with one.
fn takes_rows_as_they_come(expr: &Expr) -> bool {
    match expr {
        Expr::WindowFunction(call) => {
            call.params.order_by.is_empty()
                && call.params.window_frame.units == WindowFrameUnits::Rows
                && BY_PLACE.contains(&call.fun.name())
        }
        _ => false,
    }
}

/// Windows whose functions are given the order of their input, if that has one and they have none.
fn window_in_order(window: &Window) -> DataFusionResult<Option<LogicalPlan>> {
    if !window.window_expr.iter().any(takes_rows_as_they_come) {
        return Ok(None);
    }
    let Some(ordered) = ordered(&window.input, false)? else { return Ok(None) };
    let exprs = window.window_expr.iter().cloned().map(|mut expr| {
        if takes_rows_as_they_come(&expr)
            && let Expr::WindowFunction(call) = &mut expr
        {
            call.params.order_by.clone_from(&ordered.keys);
        }
        expr
    });
    let exprs: Vec<Expr> = exprs.collect();
    let named = exprs.iter().zip(&window.window_expr).map(|(expr, before)| {
        let column = Expr::Column(Column::new_unqualified(expr.schema_name().to_string()));
        column.alias(before.schema_name().to_string())
    });
    let columns = window.input.schema().columns().into_iter().map(Expr::from);
    let columns = columns.chain(named).collect();
    let input = LogicalPlan::Window(Window::try_new(exprs, Arc::new(ordered.plan))?);
    Projection::try_new(columns, Arc::new(input)).map(LogicalPlan::Projection).map(Some)
}

/// Whether an expression has an aggregate that depends on the order of its rows, and says none.
fn collects_as_it_comes(expr: &Expr) -> bool {
    has_part(expr, |part| match part {
        Expr::AggregateFunction(call) => {
            call.params.order_by.is_empty()
                && !call.params.distinct
                && ["array_agg", "string_agg", "first_value", "last_value", "nth_value"]
                    .contains(&call.func.name())
        }
        _ => false,
    })
}

/// An aggregate whose functions are given the order of its input, if that has one.
fn in_order(aggregate: &Aggregate) -> DataFusionResult<Transformed<Aggregate>> {
    if !aggregate.aggr_expr.iter().any(collects_as_it_comes) {
        return Ok(Transformed::no(aggregate.clone()));
    }
    let Some(ordered) = ordered(&aggregate.input, false)? else {
        return Ok(Transformed::no(aggregate.clone()));
    };
    let names = NamePreserver::new_for_projection();
    let mut exprs = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        let name = names.save(expr);
        let expr = rewrite_up(expr.clone(), |part| match part {
            Expr::AggregateFunction(mut call)
                if collects_as_it_comes(&Expr::AggregateFunction(call.clone())) =>
            {
                call.params.order_by.clone_from(&ordered.keys);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        exprs.push(name.restore(expr.data));
    }
    let group = aggregate.group_expr.clone();
    Ok(Transformed::yes(Aggregate::try_new(Arc::new(ordered.plan), group, exprs)?))
}

/// A plan with its keys among its columns.
struct Ordered {
    plan: LogicalPlan,
    keys: Vec<SortExpr>,
}

/// What a plan sorts by, as columns of its own; `None` if it sorts nothing. The sort itself stays
/// only where it `decides` which rows there are.
fn ordered(plan: &LogicalPlan, decides: bool) -> DataFusionResult<Option<Ordered>> {
    let below = match plan {
        LogicalPlan::Sort(sort) => return with_keys(sort, decides).map(Some),
        LogicalPlan::Limit(limit) => ordered(&limit.input, true)?,
        LogicalPlan::Filter(filter) => ordered(&filter.input, decides)?,
        LogicalPlan::SubqueryAlias(alias) => ordered(&alias.input, decides)?,
        LogicalPlan::Projection(projection) => ordered(&projection.input, decides)?,
        // What it computes may depend on the order.
        LogicalPlan::Window(window) => ordered(&window.input, true)?,
        _ => None,
    };
    let Some(Ordered { plan: below, mut keys }) = below else { return Ok(None) };
    let below = Arc::new(below);
    let plan = match plan {
        LogicalPlan::Limit(limit) => LogicalPlan::Limit(Limit {
            input: below,
            skip: limit.skip.clone(),
            fetch: limit.fetch.clone(),
        }),
        LogicalPlan::Filter(filter) => {
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), below)?)
        }
        LogicalPlan::Window(window) => {
            LogicalPlan::Window(Window::try_new(window.window_expr.clone(), below)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            for key in &mut keys {
                if let Expr::Column(column) = &mut key.expr {
                    column.relation = Some(alias.alias.clone());
                }
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(below, alias.alias.clone())?)
        }
        LogicalPlan::Projection(projection) => {
            let mut exprs = projection.expr.clone();
            for key in &mut keys {
                let name = unique_name("order");
                exprs.push(key.expr.clone().alias(&name));
                key.expr = Expr::Column(Column::new_unqualified(name));
            }
            LogicalPlan::Projection(Projection::try_new(exprs, below)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Ordered { plan, keys }))
}

/// The rows that are sorted, with the keys as columns.
fn with_keys(sort: &Sort, decides: bool) -> DataFusionResult<Ordered> {
    let mut exprs: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::from).collect();
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        let name = unique_name("order");
        exprs.push(key.expr.clone().alias(&name));
        keys.push(SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..key.clone() });
    }
    let input = Projection::try_new(exprs, Arc::clone(&sort.input))?;
    let input = LogicalPlan::Projection(input);
    let plan = match decides || sort.fetch.is_some() {
        true => {
            let (expr, fetch) = (keys.clone(), sort.fetch);
            LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch })
        }
        false => input,
    };
    Ok(Ordered { plan, keys })
}

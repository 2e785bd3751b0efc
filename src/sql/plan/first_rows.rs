//! Keeps only the first rows of each group below a window, where a filter above asks for no others.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion decides what has to
//! be sorted and spread over threads. It finds a filter such as `rn <= 3` over a window whose
//! functions are `row_number`, `rank` or `dense_rank`, all over the same groups in the same order.
//! What comes after the third row of a group changes no number of those before it, so that a
//! [`FirstRowsExec`] below the window may leave it out. DataFusion's own rule for this (55.2,
//! `WindowTopN`, off by default) holds the rows of all groups in memory, after they were spread.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SortOrderPushdownResult, replace_children_if_necessary,
};
use datafusion::scalar::ScalarValue;

use crate::query::group_top::Ranking;
use crate::sql::run::first_rows::{FirstRows, FirstRowsExec};
use crate::sql::run::scan::ScanExec;
use crate::sql::run::settings::Settings;
use crate::sql::run::sort::are_comparable;

type Plan = Arc<dyn ExecutionPlan>;

/// The most rows of a group that are looked for; for more, a sort is as good.
const MOST_ROWS: usize = 1 << 20;

#[derive(Debug)]
pub(in crate::sql) struct FirstRowsOfGroups;

impl PhysicalOptimizerRule for FirstRowsOfGroups {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        if !Settings::of(config).native {
            return Ok(plan);
        }
        Ok(plan.transform_up(below_filter)?.data)
    }

    fn name(&self) -> &'static str {
        "first_rows_of_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn below_filter(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let bounds = split_conjunction(filter.predicate()).into_iter().filter_map(Bound::of);
    let mut bounds: Vec<Bound> = bounds.collect();
    bounds.sort_by_key(|bound| bound.most);
    for bound in bounds {
        if let Some(input) = with_first_rows(filter.input(), bound)? {
            return replace_children_if_necessary(node, vec![input]).map(Transformed::yes);
        }
    }
    Ok(Transformed::no(node))
}

/// A column that is at most some number in every row that is wanted.
#[derive(Clone, Copy)]
struct Bound {
    column: usize,
    most: i128,
}

impl Bound {
    /// What follows from a condition.
    fn of(condition: &Arc<dyn PhysicalExpr>) -> Option<Bound> {
        if let Some(list) = condition.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
            let values = list.list().iter().map(integer).collect::<Option<Vec<i128>>>()?;
            return Some(Bound { column: column(list.expr())?, most: values.into_iter().max()? });
        }
        let binary = condition.downcast_ref::<BinaryExpr>()?;
        let (left, right) = (binary.left(), binary.right());
        if *binary.op() == Operator::Or {
            // A short list becomes such a chain.
            let (left, right) = (Bound::of(left)?, Bound::of(right)?);
            let most = left.most.max(right.most);
            return (left.column == right.column).then_some(Bound { most, ..left });
        }
        let (number, value, op) = match integer(right) {
            Some(value) => (left, value, *binary.op()),
            None => (right, integer(left)?, binary.op().swap()?),
        };
        let most = match op {
            Operator::Eq | Operator::LtEq => value,
            Operator::Lt => value.checked_sub(1)?,
            _ => return None,
        };
        Some(Bound { column: column(number)?, most })
    }
}

/// The column that an expression is, perhaps as an integer of another type.
fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let is_whole = matches!(cast.cast_type(), DataType::Decimal128(_, 0));
        return column(cast.expr()).filter(|_| is_whole || cast.cast_type().is_integer());
    }
    expr.downcast_ref::<Column>().map(Column::index)
}

/// The whole number that a literal is.
fn integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i128> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Decimal128(Some(value), _, 0) => Some(*value),
        other if other.data_type().is_integer() => {
            match other.cast_to(&DataType::Decimal128(38, 0)).ok()? {
                ScalarValue::Decimal128(value, ..) => value,
                _ => None,
            }
        }
        _ => None,
    }
}

/// The plan with fewer rows below its window; `None` if the bounded column is no number of rows.
fn with_first_rows(plan: &Plan, bound: Bound) -> DataFusionResult<Option<Plan>> {
    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(below) = projection.expr().get(bound.column).and_then(|of| column(&of.expr))
        else {
            return Ok(None);
        };
        with_first_rows(projection.input(), Bound { column: below, ..bound })?
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        let (input, windows) = (window.input(), window.window_expr());
        let number = bound.column.checked_sub(input.schema().fields().len());
        let ranking = number.and_then(|number| windows.get(number)).and_then(ranking);
        let first = ranking.and_then(|ranking| first_rows(windows, ranking, bound.most));
        let Some(first) = first.filter(|first| are_known(first, &input.schema())) else {
            return Ok(None);
        };
        let rows = best_first(input, &first.order)?;
        Some(Arc::new(FirstRowsExec::new(few_decoded(rows, &first)?, first)) as Plan)
    } else {
        None
    };
    input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])).transpose()
}

/// The same rows, where it can be those first that come first in an order: the others are then
/// known to come too late.
fn best_first(input: &Plan, order: &[PhysicalSortExpr]) -> DataFusionResult<Plan> {
    let partitions = |plan: &Plan| plan.output_partitioning().partition_count();
    let best = match order {
        [] => SortOrderPushdownResult::Unsupported,
        order => input.try_pushdown_sort(order)?,
    };
    Ok(match best {
        SortOrderPushdownResult::Exact { inner } | SortOrderPushdownResult::Inexact { inner }
            if partitions(&inner) == partitions(input) =>
        {
            inner
        }
        _ => Arc::clone(input),
    })
}

/// The same rows, where a scan reads them that can leave out most of those that are not among the
/// first of their groups: it then decodes only keys of all of them.
fn few_decoded(input: Plan, first: &FirstRows) -> DataFusionResult<Plan> {
    let keys = first.keys.iter().map(|key| Some(key.downcast_ref::<Column>()?.index()));
    let Some(keys) = keys.collect::<Option<Vec<usize>>>() else { return Ok(input) };
    let narrowed = in_scan(&input, keys, first.order.first().cloned(), first)?;
    Ok(narrowed.unwrap_or(input))
}

/// The same plan over such a scan, of these columns of `plan`; `None` if there is none, or an
/// operator between that leaves rows out.
fn in_scan(
    plan: &Plan,
    keys: Vec<usize>,
    by: Option<PhysicalSortExpr>,
    first: &FirstRows,
) -> DataFusionResult<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let by = by.as_ref().map(|by| (by, first.order.len() == 1));
        let narrowed = scan.with_first_of_groups(&keys, by, (first.ranking, first.limit));
        return Ok(narrowed.map(|scan| Arc::new(scan) as Plan));
    }
    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = |at: usize| projection.expr().get(at)?.expr.downcast_ref::<Column>().cloned();
        let of_key = |at: usize| below(at).map(|column| column.index());
        let keys = keys.into_iter().map(of_key).collect::<Option<Vec<usize>>>();
        let of_order = |by: PhysicalSortExpr| {
            let column = below(by.expr.downcast_ref::<Column>()?.index())?;
            Some(PhysicalSortExpr::new(Arc::new(column), by.options))
        };
        match (keys, by.is_none(), by.and_then(of_order)) {
            (Some(keys), is_none, by) if is_none || by.is_some() => {
                in_scan(projection.input(), keys, by, first)?
            }
            _ => None,
        }
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        in_scan(merge.input(), keys, by, first)?
    } else {
        None
    };
    input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])).transpose()
}

/// How a window function numbers rows; `None` if it does something else.
fn ranking(window: &Arc<dyn WindowExpr>) -> Option<Ranking> {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    let function = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    match function.fun().name() {
        "row_number" => Some(Ranking::RowNumber),
        "rank" => Some(Ranking::Rank),
        "dense_rank" => Some(Ranking::DenseRank),
        _ => None,
    }
}

/// The rows with numbers up to `most`; `None` if a window would miss the others.
fn first_rows(windows: &[Arc<dyn WindowExpr>], by: Ranking, most: i128) -> Option<FirstRows> {
    let [first, others @ ..] = windows else { return None };
    let (keys, order) = (first.partition_by(), first.order_by());
    let is_alike =
        |other: &Arc<dyn WindowExpr>| other.partition_by() == keys && other.order_by() == order;
    let only_numbers = windows.iter().all(|window| ranking(window).is_some());
    // Without an order, all rows have the same rank.
    if !only_numbers
        || !others.iter().all(is_alike)
        || (order.is_empty() && by != Ranking::RowNumber)
    {
        return None;
    }
    let limit = usize::try_from(most.max(1)).ok().filter(|limit| *limit <= MOST_ROWS)?;
    Some(FirstRows { keys: keys.to_vec(), order: order.to_vec(), ranking: by, limit })
}

/// Whether there are columns to hold rows of, and keys can be compared as bytes and are the same
/// whenever they are computed.
fn are_known(first: &FirstRows, schema: &Schema) -> bool {
    let keys = first.keys.iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
    let all: Vec<PhysicalSortExpr> = keys.chain(first.order.iter().cloned()).collect();
    let is_stable = all.iter().all(|key| !is_volatile(&key.expr));
    let has_columns = !schema.fields().is_empty();
    has_columns && is_stable && LexOrdering::new(all).is_none_or(|all| are_comparable(&all, schema))
}

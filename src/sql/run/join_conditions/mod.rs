//! Conditions that joins of sorted inputs have beside their keys, tested after the join.
//!
//! Where this stands on the road of a query: the first physical rule, for statements that begin
//! again for lack of memory (`session/frugal`) and join sorted inputs. DataFusion (55.2) moves
//! projections below such joins without a look at their conditions, which then read other columns,
//! or none. Without its condition, an inner join gives the rows that a filter takes. An outer join
//! gives each row of its outer side with all rows of its key, one after the other: those that pass
//! go on, and if none does, the outer row alone. To tell outer rows from their copies, they are
//! [`numbered`] below the join, and [`matches`] keeps what passes. A full join gives each row of
//! its right side with all left rows of the key, too: those that have no pair are [`unpaired`].

mod matches;
mod numbered;
mod unpaired;

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::ProjectionExec;

use self::matches::MatchesExec;
use self::numbered::NumberedExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Tests the conditions of inner, left, right and full joins of sorted inputs above them.
#[derive(Debug)]
pub(in crate::sql) struct TestConditionsAbove;

impl PhysicalOptimizerRule for TestConditionsAbove {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        let above = |node: Plan| {
            let join = node.downcast_ref::<SortMergeJoinExec>();
            Ok(match join.map(tested_above).transpose()?.flatten() {
                Some(tested) => Transformed::yes(tested),
                None => Transformed::no(node),
            })
        };
        Ok(plan.transform_up(above)?.data)
    }

    fn name(&self) -> &'static str {
        "test_conditions_above"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What stands for a join with a condition; `None` for joins that test theirs.
fn tested_above(join: &SortMergeJoinExec) -> DataFusionResult<Option<Plan>> {
    let Some(condition) = join.filter() else { return Ok(None) };
    match join.join_type {
        JoinType::Inner => inner(join, condition).map(Some),
        JoinType::Left | JoinType::Full => outer(join, condition, JoinSide::Left).map(Some),
        JoinType::Right => outer(join, condition, JoinSide::Right).map(Some),
        _ => Ok(None),
    }
}

fn inner(join: &SortMergeJoinExec, condition: &JoinFilter) -> DataFusionResult<Plan> {
    let unconditional = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        None,
        JoinType::Inner,
        join.sort_options().to_vec(),
        join.null_equality(),
    )?;
    let right = join.left().schema().fields().len();
    let predicate = above(condition, &unconditional.schema(), |side| match side {
        JoinSide::Right => right,
        JoinSide::Left | JoinSide::None => 0,
    })?;
    Ok(Arc::new(FilterExec::try_new(predicate, Arc::new(unconditional))?))
}

/// A join that gives all rows of one side, or of both.
fn outer(
    join: &SortMergeJoinExec,
    condition: &JoinFilter,
    side: JoinSide,
) -> DataFusionResult<Plan> {
    let (outer, inner, on) = match side {
        JoinSide::Right => {
            let on = join.on().iter().map(|(left, right)| (Arc::clone(right), Arc::clone(left)));
            (join.right(), join.left(), on.collect())
        }
        JoinSide::Left | JoinSide::None => (join.left(), join.right(), join.on().to_vec()),
    };
    let (of_outer, of_inner) = (outer.schema().fields().len(), inner.schema().fields().len());
    let numbered = |rows: &Plan| Arc::new(NumberedExec::new(Arc::clone(rows))) as Plan;
    let is_full = join.join_type == JoinType::Full;
    let joined: Plan = Arc::new(SortMergeJoinExec::try_new(
        numbered(outer),
        if is_full { numbered(inner) } else { with_mark(inner)? },
        on,
        None,
        if is_full { JoinType::Full } else { JoinType::Left },
        join.sort_options().to_vec(),
        join.null_equality(),
    )?);
    // The outer columns, their number, the inner columns, the mark or their number.
    let first = |of: JoinSide| if of == side { 0 } else { of_outer + 1 };
    let condition = above(condition, &joined.schema(), first)?;
    let matches: Plan = Arc::new(MatchesExec::new(joined, condition, of_outer, is_full));
    let schema = matches.schema();
    let columns = |of: JoinSide| {
        let count = if of == side { of_outer } else { of_inner };
        first(of)..first(of) + count
    };
    let columns = columns(JoinSide::Left).chain(columns(JoinSide::Right));
    let names = join.schema();
    let columns = columns.zip(names.fields()).map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
        (column, field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), matches)?))
}

/// A condition over the rows of a join, whose columns of a side begin at `first`.
fn above(
    condition: &JoinFilter,
    schema: &Schema,
    first: impl Fn(JoinSide) -> usize,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    let column = |of_condition: &Column| -> DataFusionResult<Column> {
        let known = condition.column_indices().get(of_condition.index());
        let known = known.ok_or_else(|| internal_datafusion_err!("a condition's column"))?;
        let index = first(known.side) + known.index;
        Ok(Column::new(schema.field(index).name(), index))
    };
    let predicate = Arc::clone(condition.expression()).transform_up(|part| {
        match part.downcast_ref::<Column>() {
            Some(of_condition) => Ok(Transformed::yes(Arc::new(column(of_condition)?) as _)),
            None => Ok(Transformed::no(part)),
        }
    })?;
    Ok(predicate.data)
}

/// Rows with one more column, which is true.
fn with_mark(rows: &Plan) -> DataFusionResult<Plan> {
    let schema = rows.schema();
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        (column, field.name().clone())
    });
    let columns = columns.chain([(lit(true), "#mark".to_owned())]).collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(rows))?))
}

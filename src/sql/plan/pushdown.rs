//! Pushes filters down a physical plan, following columns by their position.
//!
//! Where this stands on the road of a query: in place of DataFusion's physical rule
//! `FilterPushdown`, in both of its phases. That rule (55.2) looks a filter's columns up in each
//! child by *name* and takes the first column that has it. Above a join of two tables that share a
//! name, a filter on one table reaches the other one, and our scans, which apply filters to every
//! row, would lose rows (apache/datafusion issues 25244, 25262 to 25264 and 25296; fixed upstream
//! by pull request 25259, which no release has yet). Here a filter passes only through operators
//! for which [`passage_to`] knows how each output column is computed from the input. How an
//! operator uses the outcome is left to DataFusion.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::sql::plan::grouping_sets::SetsExec;
use crate::sql::rules::null_rows::NullRowsExec;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::key_sets::{Key, KeySetsExec, keys_of};
use crate::sql::run::scan::ScanExec;
use crate::sql::run::settings::Settings;
use crate::sql::walks::replaced;

type Plan = Arc<dyn ExecutionPlan>;
type Filter = Arc<dyn PhysicalExpr>;

/// The rule, for one of the two phases.
#[derive(Debug)]
pub(in crate::sql) struct PositionalFilterPushdown(pub(in crate::sql) FilterPushdownPhase);

impl PhysicalOptimizerRule for PositionalFilterPushdown {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        let pushed = Pushdown { phase: self.0, config }.push(&plan, Vec::new())?;
        Ok(pushed.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.0 {
            FilterPushdownPhase::Pre => "PositionalFilterPushdown",
            FilterPushdownPhase::Post => "PositionalFilterPushdown(Post)",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Pushdown<'a> {
    phase: FilterPushdownPhase,
    config: &'a ConfigOptions,
}

impl Pushdown<'_> {
    /// Pushes filters over the output of `node` into it, together with the node's own filters.
    fn push(
        &self,
        node: &Plan,
        filters: Vec<Filter>,
    ) -> DataFusionResult<FilterPushdownPropagation<Plan>> {
        let mut own =
            node.gather_filters_for_pushdown(self.phase, Vec::new(), self.config)?.self_filters();
        if has_misleading_filters(node)? {
            own.iter_mut().for_each(Vec::clear);
        }
        if own.len() != node.children().len() {
            return internal_err!("{} has filters for {} children", node.name(), own.len());
        }
        let mut taken = vec![Vec::with_capacity(own.len()); filters.len()];
        let mut children = Vec::with_capacity(own.len());
        let mut own_results = Vec::with_capacity(own.len());
        let keys = self.keys_of(node, &mut own)?;
        for (number, (child, own)) in node.children().into_iter().zip(own).enumerate() {
            let passage = passage_to(node, number)?;
            let passed: Vec<Option<Filter>> = filters
                .iter()
                .map(|filter| passage.filter(filter))
                .collect::<DataFusionResult<_>>()?;
            let kept: Vec<Option<Filter>> = own
                .iter()
                .map(|filter| with_child_names(filter, &child.schema()))
                .collect::<DataFusionResult<_>>()?;
            let of_keys = keys.iter().filter(|_| number == 1).map(Key::filter);
            let handed = kept.iter().chain(&passed).flatten().cloned().chain(of_keys).collect();
            let pushed = self.push(child, handed)?;
            let mut answers = pushed.filters.into_iter();
            let mut answer = |handed: &Option<Filter>| match handed {
                Some(_) => answers.next().unwrap_or(PushedDown::No),
                None => PushedDown::No,
            };
            let results = own.into_iter().zip(&kept).map(|(predicate, handed)| {
                PushedDownPredicate { discriminant: answer(handed), predicate }
            });
            own_results.push(results.collect());
            for (taken, handed) in taken.iter_mut().zip(&passed) {
                let answer = answer(handed);
                taken.push(if passage.is_exact { answer } else { PushedDown::No });
            }
            children.push(pushed.updated_node.unwrap_or_else(|| Arc::clone(child)));
        }
        if let [left, right] = &mut children[..] {
            *left = noting_keys(left, right, keys)?;
        }
        self.settle(node, children, filters, taken, own_results)
    }

    /// The keys whose numbers a join may tell the scans of its right side, if it tells them whether
    /// its hash table has a row's keys. Where there is one key, and scans of ours alone, it need
    /// not tell them that: they know all from the numbers, once all of the left side is there.
    fn keys_of(&self, node: &Plan, own: &mut [Vec<Filter>]) -> DataFusionResult<Vec<Key>> {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Vec::new()) };
        let Some(told) = own.get_mut(1).filter(|told| !told.is_empty()) else {
            return Ok(Vec::new());
        };
        // NOT IN must see the nulls of its right side.
        if join.null_equality() != NullEquality::NullEqualsNothing
            || join.null_aware
            || !Settings::of(self.config).native
        {
            return Ok(Vec::new());
        }
        let keys = keys_of(join);
        if keys.len() == 1
            && join.on().len() == 1
            && *join.partition_mode() == PartitionMode::CollectLeft
            && !join.right().exists(|node| Ok(node.is::<DataSourceExec>()))?
        {
            told.clear();
        }
        Ok(keys)
    }

    /// Gives a node its new children and the outcome of the pushdown.
    fn settle(
        &self,
        node: &Plan,
        children: Vec<Plan>,
        filters: Vec<Filter>,
        taken: Vec<Vec<PushedDown>>,
        self_filters: Vec<Vec<PushedDownPredicate>>,
    ) -> DataFusionResult<FilterPushdownPropagation<Plan>> {
        let updated = replace_children_if_necessary(Arc::clone(node), children)?;
        // A FilterExec with a projection would look up the columns of filters that it takes over by
        // name. So it is told that none is left over.
        let hide = updated
            .downcast_ref::<FilterExec>()
            .is_some_and(|filter| filter.projection().is_some());
        let results =
            filters.into_iter().zip(&taken).map(|(filter, taken)| ChildFilterPushdownResult {
                filter,
                child_results: if hide {
                    vec![PushedDown::Yes; taken.len()]
                } else {
                    taken.clone()
                },
            });
        let handed = ChildPushdownResult { parent_filters: results.collect(), self_filters };
        let mut settled = updated.handle_child_pushdown_result(self.phase, handed, self.config)?;
        if hide {
            settled.filters = taken
                .into_iter()
                .map(|taken| taken.into_iter().next().unwrap_or(PushedDown::No))
                .collect();
        }
        if settled.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
            settled.updated_node = Some(updated);
        }
        Ok(settled)
    }
}

/// The left side of a join, noting the numbers of those keys whose filters a scan or fragment of
/// the right side has taken.
fn noting_keys(left: &Plan, right: &Plan, keys: Vec<Key>) -> DataFusionResult<Plan> {
    let mut taken = Vec::with_capacity(keys.len());
    for key in keys {
        if is_taken(&key.filter(), right)? {
            taken.push(key);
        }
    }
    Ok(match taken.is_empty() {
        true => Arc::clone(left),
        false => Arc::new(KeySetsExec::new(Arc::clone(left), taken.into())),
    })
}

fn is_taken(filter: &Filter, plan: &Plan) -> DataFusionResult<bool> {
    let id = filter.expression_id();
    plan.exists(|node| {
        let mut has = false;
        if node.is::<ScanExec>() || node.is::<FragmentExec>() {
            node.apply_expressions(&mut |expr| {
                has = has || expr.exists(|part| Ok(part.expression_id() == id))?;
                Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        Ok(has)
    })
}

/// How the columns of an operator's output are computed from one of its children.
struct Passage {
    /// For each output column that comes from the child, its expression over the child's columns.
    columns: HashMap<usize, Arc<dyn PhysicalExpr>>,
    /// Whether a filter over the child removes all rows that it would remove from the output.
    is_exact: bool,
}

impl Passage {
    fn closed() -> Passage {
        Passage { columns: HashMap::new(), is_exact: false }
    }

    fn open(columns: impl Iterator<Item = (usize, Arc<dyn PhysicalExpr>)>) -> Passage {
        Passage { columns: columns.collect(), is_exact: true }
    }

    /// Translates a filter over the output into one over the child's columns, if possible.
    fn filter(&self, filter: &Filter) -> DataFusionResult<Option<Filter>> {
        if self.columns.is_empty() || is_volatile(filter) {
            return Ok(None);
        }
        replaced(filter, |column| self.columns.get(&column.index()).cloned())
    }
}

/// How filters over the output of `node` pass to one of its children.
fn passage_to(node: &Plan, child: usize) -> DataFusionResult<Passage> {
    let children = node.children();
    let Some(input) = children.get(child) else { return Ok(Passage::closed()) };
    // If fewer rows reached a limit, it would let other rows through.
    if node.fetch().is_some() {
        return Ok(Passage::closed());
    }
    let schema = input.schema();
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let all = || (0..schema.fields().len()).collect();
        let kept: Vec<usize> = filter.projection().as_ref().map_or_else(all, |kept| kept.to_vec());
        return Ok(Passage::open(kept.into_iter().map(|at| column(&schema, at)).enumerate()));
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let exprs =
            projection.expr().iter().map(|projected| Arc::clone(&projected.expr)).enumerate();
        return Ok(Passage::open(exprs.filter(|(_, expr)| !is_volatile(expr))));
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return Ok(passage_through_groups(aggregate.group_expr()));
    }
    if let Some(sets) = node.downcast_ref::<SetsExec>() {
        return Ok(passage_through_groups(sets.sets()));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Ok(passage_through_join(join, child));
    }
    let same_rows = node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<SortExec>()
        || node.is::<UnionExec>()
        || node.is::<NullRowsExec>();
    Ok(match same_rows {
        true => Passage::open((0..schema.fields().len()).map(|at| (at, column(&schema, at)))),
        false => Passage::closed(),
    })
}

/// A filter on keys that are in every grouping set decides which groups there are, not what is in
/// them. With an empty grouping set it passes nothing, as that gives a group even for no rows.
fn passage_through_groups(group_by: &PhysicalGroupBy) -> Passage {
    let sets = group_by.groups();
    let has_empty_set = sets.iter().any(|nulls| nulls.iter().all(|null| *null));
    if group_by.is_true_no_grouping() || has_empty_set {
        return Passage::closed();
    }
    let in_all = |at: usize| sets.iter().all(|nulls| nulls.get(at) != Some(&true));
    let keys = group_by.expr().iter().map(|(key, _)| Arc::clone(key)).enumerate();
    Passage::open(keys.filter(|(at, key)| in_all(*at) && !is_volatile(key)))
}

/// Filters pass to a side whose rows the join does not pad with nulls. Filters on the keys of a
/// semi join reach the other side too, where rows without such keys do not matter; the join's
/// output still has to be filtered.
fn passage_through_join(join: &HashJoinExec, child: usize) -> Passage {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (side, input) =
        if child == 0 { (JoinSide::Left, &left) } else { (JoinSide::Right, &right) };
    let (_, origins) = build_join_schema(&left, &right, join.join_type());
    let all = || (0..origins.len()).collect();
    let outputs: Vec<usize> = join.projection.as_ref().map_or_else(all, |kept| kept.to_vec());
    let origins = outputs.iter().filter_map(|at| origins.get(*at)).enumerate();
    let preserved = match join.join_type() {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            side == JoinSide::Left
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            side == JoinSide::Right
        }
        JoinType::Full => false,
    };
    if preserved {
        let from_side = origins.filter(|(_, origin)| origin.side == side);
        return Passage::open(from_side.map(|(at, origin)| (at, column(input, origin.index))));
    }
    let semi = matches!(
        (join.join_type(), side),
        (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left)
    );
    if !semi {
        return Passage::closed();
    }
    let equal = |index: usize| {
        join.on().iter().find_map(|(left, right)| {
            let (there, here) = if side == JoinSide::Right { (left, right) } else { (right, left) };
            let there = there.downcast_ref::<Column>()?;
            (there.index() == index).then(|| Arc::clone(here))
        })
    };
    let columns = origins.filter_map(|(at, origin)| Some((at, equal(origin.index)?)));
    Passage { columns: columns.collect(), is_exact: false }
}

/// Whether the dynamic filters of a node would lose rows below it:
/// - the filter of a join with float keys tells 0.0 from -0.0, which the join does not, and a
///   filter or a sort below applies it;
/// - the filter of `min` and `max` ignores aggregates whose values are all null so far or are
///   computed: beside `min(a)`, it drops rows that `max(b)` or `max(b + 1)` needs.
fn has_misleading_filters(node: &Plan) -> DataFusionResult<bool> {
    if node.is::<AggregateExec>() {
        return Ok(true);
    }
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(false) };
    let schema = join.left().schema();
    for (key, _) in join.on() {
        if key.data_type(&schema)?.is_floating() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A filter of a node itself, with the column names of the child.
fn with_child_names(filter: &Filter, schema: &Schema) -> DataFusionResult<Option<Filter>> {
    if is_volatile(filter) {
        return Ok(None);
    }
    let by_position =
        |at: &Column| (at.index() < schema.fields().len()).then(|| column(schema, at.index()));
    replaced(filter, by_position)
}

fn column(schema: &Schema, at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.fields().get(at).map_or("", |field| field.name()), at))
}

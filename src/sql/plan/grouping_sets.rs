//! Groups rows by all keys first, and the groups by each grouping set then.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion decides what has to
//! be sorted and spread over threads. For ROLLUP, CUBE and GROUPING SETS, DataFusion (55.2) groups
//! every row once for each set. Where one of the sets has all keys, its groups have what the
//! others need. Here rows are grouped by all keys, [`SetsExec`] repeats the states of these groups
//! for each set, with nulls for the keys that the set lacks, and the final aggregate merges them.
//! (Gray et al., "Data Cube", 1996, compute the sets of a cube from each other like this.)

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, PhysicalGroupBy, evaluate_group_by,
};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    replace_children_if_necessary,
};
use futures::{StreamExt, TryStreamExt, future, stream};

use crate::sql::run::settings::Settings;
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(in crate::sql) struct GroupByAllKeysFirst;

impl PhysicalOptimizerRule for GroupByAllKeysFirst {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        if !Settings::of(config).native {
            return Ok(plan);
        }
        Ok(plan.transform_up(in_two_steps)?.data)
    }

    fn name(&self) -> &'static str {
        "group_by_all_keys_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn in_two_steps(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(node));
    };
    let sets = aggregate.group_expr();
    let has_all_keys = |set: &Vec<bool>| set.iter().all(|lacks| !lacks);
    let suits = *aggregate.mode() == AggregateMode::Partial
        && sets.groups().len() > 1
        && sets.groups().iter().any(has_all_keys);
    if !suits || !has_small_states(aggregate.aggr_expr())? {
        return Ok(Transformed::no(node));
    }
    let groups = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(sets.expr().to_vec()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(Transformed::yes(Arc::new(SetsExec::new(aggregate, Arc::new(groups))?)))
}

/// Whether the state of each function is a few values, not a list of its input, and its result does
/// not depend on the order of rows.
fn has_small_states(functions: &[Arc<AggregateFunctionExpr>]) -> DataFusionResult<bool> {
    for function in functions {
        let states = function.state_fields()?;
        let small = states.iter().all(|state| !state.data_type().is_nested());
        // `first_value` and the like say so of themselves; `string_agg` keeps all texts.
        let by_order = function.fun().order_sensitivity().is_beneficial()
            || function.fun().name() == "string_agg"
            || !function.order_bys().is_empty();
        if !small || by_order || function.is_distinct() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the states of groups by all keys, and gives them out once for each grouping set.
#[derive(Debug)]
pub(super) struct SetsExec {
    input: Plan,
    /// The grouping sets, with keys that are columns of the input.
    sets: Arc<PhysicalGroupBy>,
    /// The groups if there are no rows: the set without keys has one.
    of_no_rows: Plan,
    properties: Arc<PlanProperties>,
}

impl SetsExec {
    /// `input` groups by the keys of `aggregate`, which stands for all of its sets.
    fn new(aggregate: &AggregateExec, input: Plan) -> DataFusionResult<SetsExec> {
        let nothing: Plan = Arc::new(EmptyExec::new(aggregate.input().schema()));
        let of_no_rows = replace_children_if_necessary(Arc::new(aggregate.clone()), vec![nothing])?;
        let sets = aggregate.group_expr();
        let column = |(at, (_, name)): (usize, &(_, String))| {
            (Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>, name.clone())
        };
        let keys = sets.expr().iter().enumerate().map(column).collect();
        let (nulls, groups) = (sets.null_expr().to_vec(), sets.groups().to_vec());
        let sets = Arc::new(PhysicalGroupBy::new(keys, nulls, groups, true));
        Ok(SetsExec::from_parts(input, sets, of_no_rows))
    }

    /// The grouping sets, with keys that are columns of the input.
    pub(super) fn sets(&self) -> &PhysicalGroupBy {
        &self.sets
    }

    fn from_parts(input: Plan, sets: Arc<PhysicalGroupBy>, of_no_rows: Plan) -> SetsExec {
        let below = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(of_no_rows.schema()),
            // Rows of a set that lacks a key come from all partitions.
            Partitioning::UnknownPartitioning(below.partitioning.partition_count()),
            below.emission_type,
            below.boundedness,
        )
        .with_evaluation_type(below.evaluation_type)
        .with_scheduling_type(below.scheduling_type);
        SetsExec { input, sets, of_no_rows, properties: Arc::new(properties) }
    }

    fn over(&self, input: Plan) -> DataFusionResult<SetsExec> {
        Ok(SetsExec::from_parts(input, Arc::clone(&self.sets), Arc::clone(&self.of_no_rows)))
    }
}

/// The states of a batch of groups for each set.
fn for_each_set(
    batch: &RecordBatch,
    sets: &PhysicalGroupBy,
    schema: &SchemaRef,
) -> DataFusionResult<Vec<RecordBatch>> {
    let states = &batch.columns()[sets.expr().len()..];
    let of_set = |keys: Vec<_>| {
        let columns = keys.into_iter().chain(states.iter().cloned()).collect();
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    };
    evaluate_group_by(sets, batch)?.into_iter().map(of_set).collect()
}

impl DisplayAs for SetsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: sets={}", self.name(), self.sets.groups().len())
    }
}

impl ExecutionPlan for SetsExec {
    fn name(&self) -> &'static str {
        "SetsExec"
    }

    unary_methods!(no expressions);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let (schema, sets) = (self.schema(), Arc::clone(&self.sets));
        let of_no_rows = Arc::clone(&self.of_no_rows);
        let has_rows = |batch: &DataFusionResult<RecordBatch>| {
            future::ready(batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))
        };
        let input = self.input.execute(partition, Arc::clone(&context))?.filter(has_rows);
        let given = Arc::clone(&schema);
        let rows = async move {
            let mut input = Box::pin(input.peekable());
            if input.as_mut().peek().await.is_none() {
                return of_no_rows.execute(0, context);
            }
            let expanded = input.map(move |batch| {
                let batches = for_each_set(&batch?, &sets, &given)?;
                Ok::<_, DataFusionError>(stream::iter(batches).map(Ok))
            });
            let expanded = expanded.try_flatten();
            Ok(Box::pin(RecordBatchStreamAdapter::new(of_no_rows.schema(), expanded)) as _)
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

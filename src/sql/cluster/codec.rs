//! Tasks as bytes, and the operators that a machine makes of them. The plan of a task is in
//! DataFusion's encoding, which has the name of a table and nothing else of it.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF, TableScan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::merge::MergeExec;
use super::node::OfNode;
use crate::error::Error;
use crate::query::{Fragment, Output};
use crate::sql::plan::lower::scan_conditions;
use crate::sql::plan::lower::sent::{lower_first_rows, lower_groups};
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::table::StoreTable;
use crate::sql::run::task::{RemoteExec, Task, TaskKind};
use crate::sql::types::integer_means::exact_mean_function;
use crate::sql::write::{matched, value_set};

/// Stands behind the name of an aggregate function.
const OF_INTEGERS: u8 = 1;

/// The most partitions of a scan.
const MOST_PARTITIONS: usize = 4096;

/// A part of a logical plan, as bytes.
pub(super) fn encoded(plan: &LogicalPlan) -> DataFusionResult<Bytes> {
    logical_plan_to_bytes_with_extension_codec(plan, &TableCodec(None))
}

/// The same of a scan.
pub(super) fn encoded_scan(scan: &TableScan) -> DataFusionResult<Bytes> {
    encoded(&LogicalPlan::TableScan(scan.clone()))
}

/// The part of a plan that [`encoded`] has written, over a table of this machine.
pub(super) fn decoded(
    bytes: &[u8],
    functions: &TaskContext,
    zone: Option<&str>,
    table: &Arc<StoreTable>,
) -> DataFusionResult<LogicalPlan> {
    let codec = TableCodec(Some(Arc::clone(table)));
    let in_zone = zone.map(|zone| in_zone(functions, zone));
    let functions = in_zone.as_ref().unwrap_or(functions);
    logical_plan_from_bytes_with_extension_codec(bytes, functions, &codec)
}

/// Writes a table as nothing, because its name stands beside it, and reads it as a part of this
/// machine.
#[derive(Debug)]
struct TableCodec(Option<Arc<StoreTable>>);

impl LogicalExtensionCodec for TableCodec {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[LogicalPlan],
        _: &TaskContext,
    ) -> DataFusionResult<Extension> {
        internal_err!("machines send each other no nodes of their own")
    }

    fn try_encode(&self, node: &Extension, _: &mut Vec<u8>) -> DataFusionResult<()> {
        internal_err!("{} is not sent to other machines", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        match &self.0 {
            Some(table) => Ok(Arc::new(StoreProvider::new(Arc::clone(table)))),
            None => internal_err!("a table of no part"),
        }
    }

    /// Means of integers, which have the name of another function, are marked.
    fn try_encode_udaf(&self, function: &AggregateUDF, out: &mut Vec<u8>) -> DataFusionResult<()> {
        if *function == **exact_mean_function() {
            out.push(OF_INTEGERS);
        }
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, mark: &[u8]) -> DataFusionResult<Arc<AggregateUDF>> {
        match mark {
            [OF_INTEGERS] => Ok(Arc::clone(exact_mean_function())),
            _ => plan_err!("there is no aggregate function {name} here"),
        }
    }

    /// A function that looks values up in a set is its values, one of matched rows these rows.
    fn try_encode_udf(&self, function: &ScalarUDF, out: &mut Vec<u8>) -> DataFusionResult<()> {
        let written = match value_set::written(function)? {
            None => matched::written(function)?,
            written => written,
        };
        out.extend(written.unwrap_or_default());
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> DataFusionResult<Arc<ScalarUDF>> {
        match matched::read(name, bytes)? {
            Some(function) => Ok(Arc::new(function)),
            None => value_set::read(name, bytes).map(Arc::new),
        }
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        _: Arc<dyn TableProvider>,
        _: &mut Vec<u8>,
    ) -> DataFusionResult<()> {
        Ok(())
    }
}

/// Writes tasks for other machines, and makes operators of those that this one runs.
#[derive(Debug)]
pub(in crate::sql) struct Codec;

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let Some(node) = context.session_config().get_extension::<OfNode>() else {
            return internal_err!("this machine does nothing for others");
        };
        operator(&node, Task::read(bytes)?, inputs)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<()> {
        let of_part = plan.downcast_ref::<RemoteExec>().map(|remote| &remote.task);
        match of_part.or(plan.downcast_ref::<MergeExec>().map(MergeExec::task)) {
            Some(task) => {
                out.extend(task.write());
                Ok(())
            }
            None => internal_err!("{} is not sent to other machines", plan.name()),
        }
    }
}

/// The operator of a task over the part of this machine, or over what comes from others.
fn operator(
    node: &OfNode,
    task: Task,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let table = match task.kind {
        // Only the columns matter, which are those of all parts.
        TaskKind::Merge => node.table(&task.table)?,
        _ => node.part(&task)?,
    };
    let plan = decoded(&task.plan, node.functions(), task.zone.as_deref(), &table)?;
    let refused = |why: String| -> DataFusionError {
        Error::Unsupported(format!("the task over {}: {why}", task.table)).into()
    };
    let props = ExecutionProps::new();
    let fragment = match task.kind {
        TaskKind::Rows { partitions, filtered, limit } => {
            let LogicalPlan::TableScan(scan) = &plan else {
                return Err(refused("no scan".into()));
            };
            let mut provider = StoreProvider::new(table);
            if filtered {
                let conditions = scan_conditions(&plan, &props);
                let refused = || refused("its filter".into());
                provider = provider.filtered(conditions.ok_or_else(refused)?);
            }
            let partitions = usize::try_from(partitions).unwrap_or(1).clamp(1, MOST_PARTITIONS);
            let projection = scan.projection.as_ref();
            return Ok(Arc::new(provider.scan_in(projection, &scan.filters, limit, partitions)?));
        }
        TaskKind::States => {
            let states = lower_groups(&plan, &props).map_err(refused)?.with_states();
            states.ok_or_else(|| refused("groups without states".into()))?
        }
        TaskKind::Groups => (*lower_groups(&plan, &props).map_err(refused)?).clone(),
        TaskKind::First => {
            let mut fragment = Fragment::clone(&*lower_first_rows(&plan, &props).map_err(refused)?);
            // Rows are skipped where those of all machines are merged.
            if let Output::Top { skip, .. } = &mut fragment.output {
                *skip = 0;
            }
            fragment
        }
        TaskKind::Merge => {
            let fragment = lower_groups(&plan, &props).map_err(refused)?;
            let [states] = inputs else { return Err(refused("groups of no states".into())) };
            return Ok(Arc::new(MergeExec::new(&fragment, Arc::clone(states), task)));
        }
    };
    let session = Arc::clone(node.session());
    Ok(Arc::new(FragmentExec::new(Arc::new(fragment), table, session, None)))
}

/// The same functions as those of a session in another zone.
pub(super) fn in_zone(context: &TaskContext, zone: &str) -> TaskContext {
    let mut options = context.session_config().options().as_ref().clone();
    options.execution.time_zone = Some(zone.to_owned());
    let functions = context.scalar_functions().iter().map(|(name, function)| {
        let updated = function.inner().with_updated_config(&options);
        (name.clone(), updated.map_or_else(|| Arc::clone(function), Arc::new))
    });
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        functions.collect(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}

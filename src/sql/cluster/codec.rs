//! What machines are told, as bytes: plans are in DataFusion's encoding, in which a table is its
//! name. What comes back is an operator over this machine's part.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{Extension, LogicalPlan, TableScan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::node::OfNode;
use crate::error::Error;
use crate::query::{Fragment, Output};
use crate::sql::plan::lower::{scan_conditions, told_groups, told_rows};
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::table::StoreTable;
use crate::sql::run::told::{Made, RemoteExec, Told};

/// A part of a logical plan, as bytes.
pub(super) fn encoded(plan: &LogicalPlan) -> DataFusionResult<Bytes> {
    logical_plan_to_bytes_with_extension_codec(plan, &TableNames)
}

/// The same of a scan.
pub(super) fn encoded_scan(scan: &TableScan) -> DataFusionResult<Bytes> {
    encoded(&LogicalPlan::TableScan(scan.clone()))
}

/// Writes a table as nothing: its name stands beside it.
#[derive(Debug)]
struct TableNames;

impl LogicalExtensionCodec for TableNames {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[LogicalPlan],
        _: &TaskContext,
    ) -> DataFusionResult<Extension> {
        internal_err!("no node of its own is sent to other machines")
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
        internal_err!("a table of no part")
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

/// Reads a table as the part that this machine has.
#[derive(Debug)]
struct OwnPart(Arc<StoreTable>);

impl LogicalExtensionCodec for OwnPart {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[LogicalPlan],
        _: &TaskContext,
    ) -> DataFusionResult<Extension> {
        internal_err!("no node of its own comes from other machines")
    }

    fn try_encode(&self, _: &Extension, _: &mut Vec<u8>) -> DataFusionResult<()> {
        internal_err!("what a machine was told is not sent on")
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        Ok(Arc::new(StoreProvider::new(Arc::clone(&self.0))))
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        _: Arc<dyn TableProvider>,
        _: &mut Vec<u8>,
    ) -> DataFusionResult<()> {
        internal_err!("what a machine was told is not sent on")
    }
}

/// Writes what a machine is told, and makes an operator of what this one is told.
#[derive(Debug)]
pub(in crate::sql) struct Codec;

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let Some(node) = context.session_config().get_extension::<OfNode>() else {
            return internal_err!("this machine does nothing for others");
        };
        let told = Told::read(bytes)?;
        let table = node.part(&told)?;
        let codec = OwnPart(Arc::clone(&table));
        let in_zone = told.zone.as_ref().map(|zone| in_zone(context, zone));
        let context = in_zone.as_ref().unwrap_or(context);
        let plan = logical_plan_from_bytes_with_extension_codec(&told.plan, context, &codec)?;
        let refused = |why: String| -> DataFusionError {
            Error::Unsupported(format!("what it was told about {}: {why}", told.table)).into()
        };
        let props = ExecutionProps::new();
        match told.made {
            Made::Rows { partitions, filtered, limit } => {
                let LogicalPlan::TableScan(scan) = &plan else {
                    return Err(refused("no scan".into()));
                };
                let mut provider = StoreProvider::new(table);
                if filtered {
                    let conditions = scan_conditions(&plan, &props);
                    let refused = || refused("its filter".into());
                    provider = provider.filtered(conditions.ok_or_else(refused)?);
                }
                let partitions = usize::try_from(partitions).unwrap_or(1).clamp(1, 4096);
                Ok(Arc::new(provider.scan_in(
                    scan.projection.as_ref(),
                    &scan.filters,
                    limit,
                    partitions,
                )?))
            }
            Made::States => {
                let fragment = told_groups(&plan, &props).map_err(refused)?;
                let states = fragment.with_states();
                let states = states.ok_or_else(|| refused("groups without states".into()))?;
                Ok(Arc::new(FragmentExec::new(
                    Arc::new(states),
                    table,
                    Arc::clone(node.session()),
                    None,
                )))
            }
            Made::First => {
                let mut fragment = Fragment::clone(&*told_rows(&plan, &props).map_err(refused)?);
                if let Output::Top { skip, .. } = &mut fragment.output {
                    *skip = 0;
                }
                Ok(Arc::new(FragmentExec::new(
                    Arc::new(fragment),
                    table,
                    Arc::clone(node.session()),
                    None,
                )))
            }
        }
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> DataFusionResult<()> {
        match plan.downcast_ref::<RemoteExec>() {
            Some(remote) => {
                out.extend(remote.told.write());
                Ok(())
            }
            None => internal_err!("{} is not sent to other machines", plan.name()),
        }
    }
}

/// The same functions as those of a session in another zone.
fn in_zone(context: &TaskContext, zone: &str) -> TaskContext {
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

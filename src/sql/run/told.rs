//! What a machine is told to do with its part of a table: a leaf of the plan, which stands for an
//! operator on the other machine.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::bytes::{Cursor, Writer};
use crate::error::Result;
use crate::limits;
use crate::sql::run::leaf::leaf_methods;
use crate::sql::run::parts::{Part, Share, TableState, check_protocol, write_protocol};

/// The longest plan.
const MOST_BYTES: usize = 256 << 20;

/// What is made of the rows of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Made {
    /// The rows of a scan, in some partitions.
    Rows { partitions: u32, filtered: bool, limit: Option<u64> },
    /// The states of groups.
    States,
    /// The first rows of an order.
    First,
}

/// What a machine is told.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Told {
    /// The name of the table there.
    pub(in crate::sql) table: Box<str>,
    pub(in crate::sql) state: TableState,
    pub(in crate::sql) share: Option<Share>,
    pub(in crate::sql) made: Made,
    /// The zone of the session that asks, if it has set one.
    pub(in crate::sql) zone: Option<Arc<str>>,
    /// A part of a logical plan, encoded.
    pub(in crate::sql) plan: Bytes,
}

impl Told {
    pub(in crate::sql) fn write(&self) -> Vec<u8> {
        let mut out = Writer::new();
        write_protocol(&mut out);
        out.blob(self.table.as_bytes());
        self.state.write(&mut out);
        out.u8(u8::from(self.share.is_some()));
        if let Some(share) = self.share {
            out.u32(share.number);
            out.u32(share.of);
        }
        match self.made {
            Made::Rows { partitions, filtered, limit } => {
                out.u8(0);
                out.u32(partitions);
                out.u8(u8::from(filtered));
                out.u64(limit.unwrap_or(u64::MAX));
            }
            Made::States => out.u8(1),
            Made::First => out.u8(2),
        }
        out.blob(self.zone.as_deref().unwrap_or_default().as_bytes());
        out.blob(&self.plan);
        out.into_vec()
    }

    pub(in crate::sql) fn read(bytes: &[u8]) -> Result<Told> {
        let mut from = Cursor::new(bytes);
        check_protocol(&mut from)?;
        let table = from.text(limits::MAX_NAME_BYTES)?.into();
        let state = TableState::read(&mut from)?;
        let share = match from.u8()? {
            0 => None,
            _ => Some(Share { number: from.u32()?, of: from.u32()? }),
        };
        let made = match from.u8()? {
            0 => Made::Rows {
                partitions: from.u32()?,
                filtered: from.u8()? > 0,
                limit: Some(from.u64()?).filter(|limit| *limit != u64::MAX),
            },
            1 => Made::States,
            2 => Made::First,
            other => return Err(from.corrupt(format!("{other} is no kind of work"))),
        };
        let zone = Some(from.text(limits::MAX_NAME_BYTES)?);
        let zone = zone.filter(|zone| !zone.is_empty()).map(Arc::from);
        let plan = Bytes::copy_from_slice(from.blob(MOST_BYTES)?);
        from.finish()?;
        Ok(Told { table, state, share, made, zone, plan })
    }
}

/// Stands for an operator on another machine.
#[derive(Debug)]
pub(in crate::sql) struct RemoteExec {
    pub(in crate::sql) part: Part,
    pub(in crate::sql) told: Told,
    /// The line of EXPLAIN of what runs there.
    shown: Arc<str>,
    properties: Arc<PlanProperties>,
}

impl RemoteExec {
    pub(in crate::sql) fn new(
        part: Part,
        told: Told,
        shown: Arc<str>,
        properties: Arc<PlanProperties>,
    ) -> RemoteExec {
        RemoteExec { part, told, shown, properties }
    }
}

impl DisplayAs for RemoteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, node={}", self.shown, self.part.node.name)
    }
}

impl ExecutionPlan for RemoteExec {
    fn name(&self) -> &'static str {
        "RemotePart"
    }

    leaf_methods!(no expressions);

    fn execute(
        &self,
        _: usize,
        _: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        internal_err!("{} does not run here", self.shown)
    }
}

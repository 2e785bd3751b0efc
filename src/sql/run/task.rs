//! What another machine does with its part of a table, as bytes that are sent to it; and the leaf
//! of the plan that stands for the operator there.

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
use crate::sql::run::homes::Home;
use crate::sql::run::leaf::leaf_methods;
use crate::sql::run::parts::{Part, Share, TableState, check_protocol, write_protocol};

/// The longest plan.
const MOST_BYTES: usize = 256 << 20;

/// What a task makes of the rows of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum TaskKind {
    /// The rows of a scan, in some partitions.
    Rows { partitions: u32, filtered: bool, limit: Option<u64> },
    /// The states of groups.
    States,
    /// Groups of which no other machine has rows.
    Groups,
    /// The first rows of an order.
    First,
    /// The groups of states that come from all machines. The part is not read.
    Merge,
}

/// A part of a statement that one machine runs.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Task {
    /// The name of the table there.
    pub(in crate::sql) table: Box<str>,
    pub(in crate::sql) state: TableState,
    pub(in crate::sql) share: Option<Share>,
    /// A partition that is not read.
    pub(in crate::sql) without: Option<Arc<str>>,
    pub(in crate::sql) kind: TaskKind,
    /// The zone of the session that asks, if it has set one.
    pub(in crate::sql) zone: Option<Arc<str>>,
    /// A part of a logical plan, encoded.
    pub(in crate::sql) plan: Bytes,
}

impl Task {
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
        out.u8(u8::from(self.without.is_some()));
        self.without.iter().for_each(|partition| out.blob(partition.as_bytes()));
        match self.kind {
            TaskKind::Rows { partitions, filtered, limit } => {
                out.u8(0);
                out.u32(partitions);
                out.u8(u8::from(filtered));
                out.u64(limit.unwrap_or(u64::MAX));
            }
            TaskKind::States => out.u8(1),
            TaskKind::First => out.u8(2),
            TaskKind::Merge => out.u8(3),
            TaskKind::Groups => out.u8(4),
        }
        out.blob(self.zone.as_deref().unwrap_or_default().as_bytes());
        out.blob(&self.plan);
        out.into_vec()
    }

    pub(in crate::sql) fn read(bytes: &[u8]) -> Result<Task> {
        let mut from = Cursor::new(bytes);
        check_protocol(&mut from)?;
        let table = from.text(limits::MAX_NAME_BYTES)?.into();
        let state = TableState::read(&mut from)?;
        let share = match from.u8()? {
            0 => None,
            _ => Some(Share { number: from.u32()?, of: from.u32()? }),
        };
        let without = match from.u8()? {
            0 => None,
            _ => Some(Arc::from(from.text(limits::MAX_NAME_BYTES)?)),
        };
        let kind = match from.u8()? {
            0 => TaskKind::Rows {
                partitions: from.u32()?,
                filtered: from.u8()? > 0,
                limit: Some(from.u64()?).filter(|limit| *limit != u64::MAX),
            },
            1 => TaskKind::States,
            2 => TaskKind::First,
            3 => TaskKind::Merge,
            4 => TaskKind::Groups,
            other => return Err(from.corrupt(format!("{other} is no kind of work"))),
        };
        let zone = Some(from.text(limits::MAX_NAME_BYTES)?);
        let zone = zone.filter(|zone| !zone.is_empty()).map(Arc::from);
        let plan = Bytes::copy_from_slice(from.blob(MOST_BYTES)?);
        from.finish()?;
        Ok(Task { table, state, share, without, kind, zone, plan })
    }
}

/// Stands for an operator on another machine.
#[derive(Debug)]
pub(in crate::sql) struct RemoteExec {
    pub(in crate::sql) part: Part,
    pub(in crate::sql) task: Task,
    /// The line of EXPLAIN of what runs there.
    shown: Arc<str>,
    properties: Arc<PlanProperties>,
    /// Where the rows of all machines are that run it, each on its part.
    homes: Arc<[Home]>,
}

impl RemoteExec {
    pub(in crate::sql) fn new(
        part: Part,
        task: Task,
        shown: Arc<str>,
        properties: Arc<PlanProperties>,
        homes: Arc<[Home]>,
    ) -> RemoteExec {
        RemoteExec { part, task, shown, properties, homes }
    }

    pub(in crate::sql) fn homes(&self) -> &[Home] {
        &self.homes
    }
}

impl DisplayAs for RemoteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
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

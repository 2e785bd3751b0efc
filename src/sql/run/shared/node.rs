//! A place of a shared part, as a node of logical plans.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use datafusion::common::{DFSchemaRef, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::logical_plan::InvariantLevel;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;

use crate::sql::run::shared::SharedExec;
use crate::sql::run::shared::rows::SharedRows;

/// A part of a plan that stands at several places.
#[derive(Debug)]
pub(crate) struct SharedPart {
    /// By which EXPLAIN names it.
    number: usize,
    schema: DFSchemaRef,
    /// Known once the part is planned, which is before any of its places is.
    rows: OnceLock<Arc<SharedRows>>,
}

impl SharedPart {
    pub(crate) fn new(number: usize, plan: &LogicalPlan) -> Arc<Self> {
        let schema = Arc::clone(plan.schema());
        Arc::new(SharedPart { number, schema, rows: OnceLock::new() })
    }

    /// What stands at one of its places.
    pub(crate) fn place(self: &Arc<Self>) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(SharedNode(Arc::clone(self))) })
    }

    /// Tells what computes its rows.
    pub(crate) fn set_plan(&self, plan: Arc<dyn ExecutionPlan>) {
        self.rows.get_or_init(|| Arc::new(SharedRows::new(self.number, plan)));
    }
}

/// What stands at a place of a shared part.
pub(crate) struct SharedNode(Arc<SharedPart>);

impl SharedNode {
    /// The operator that reads the rows here.
    pub(crate) fn planned(&self) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let rows = self.0.rows.get().ok_or_else(|| {
            internal_datafusion_err!("part {} of the plan is not planned", self.0.number)
        })?;
        Ok(Arc::new(SharedExec::new(Arc::clone(rows))))
    }
}

/// EXPLAIN FORMAT pgjson shows nodes by this.
impl fmt::Debug for SharedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl UserDefinedLogicalNode for SharedNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &'static str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }

    fn check_invariants(&self, _: InvariantLevel) -> DataFusionResult<()> {
        Ok(())
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: part={}", self.0.number)
    }

    fn with_exprs_and_inputs(
        &self,
        _: Vec<Expr>,
        _: Vec<LogicalPlan>,
    ) -> DataFusionResult<Arc<dyn UserDefinedLogicalNode>> {
        Ok(Arc::new(SharedNode(Arc::clone(&self.0))))
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        self.0.number.hash(&mut state);
    }

    fn dyn_eq(&self, other: &dyn UserDefinedLogicalNode) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }

    fn dyn_ord(&self, other: &dyn UserDefinedLogicalNode) -> Option<Ordering> {
        self.0.number.partial_cmp(&other.as_any().downcast_ref::<Self>()?.0.number)
    }
}

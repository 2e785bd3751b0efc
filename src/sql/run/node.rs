//! A fragment as a node of logical plans.
//!
//! Where this stands on the road of a query: `plan::lower` puts nodes into a plan, and
//! `plan::planner` asks them for their operators.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::logical_plan::InvariantLevel;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Limit, LogicalPlan, Sort, SortExpr, UserDefinedLogicalNode, lit,
};
use datafusion::physical_expr::{LexOrdering, create_physical_sort_exprs};
use datafusion::physical_plan::ExecutionPlan;

use crate::query::{Aggregate, ByColumn, FirstGroups, Fragment, Output, run};
use crate::sql::run::describe::describe;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::table::StoreTable;
use crate::sql::work::handle::SessionHandle;

/// What stands for a part of a plan that runs in our own code.
pub(crate) struct FragmentNode {
    fragment: Arc<Fragment>,
    table: Arc<StoreTable>,
    /// The part of the plan. Two nodes are equal where these are.
    replaced: LogicalPlan,
    /// The order in which rows come, over the node's own columns.
    order: Vec<SortExpr>,
}

impl FragmentNode {
    pub(crate) fn new(
        fragment: Fragment,
        table: &Arc<StoreTable>,
        replaced: LogicalPlan,
        order: Vec<SortExpr>,
    ) -> Self {
        FragmentNode { fragment: Arc::new(fragment), table: Arc::clone(table), replaced, order }
    }

    /// The same groups, or fewer: at least the first `limit` of an order, whose columns are the
    /// node's. `None` if these are not groups of keys, or are the first already.
    pub(crate) fn first_groups(&self, order: Vec<ByColumn>, limit: usize) -> Option<FragmentNode> {
        let Output::Aggregate { keys, aggregates, first: None } = &self.fragment.output else {
            return None;
        };
        if keys.is_empty() {
            return None;
        }
        let columns = self.schema().columns();
        let key = |by: &ByColumn| {
            let column = Expr::Column(columns.get(by.column)?.clone());
            Some(column.sort(!by.descending, by.nulls_first))
        };
        // Plan equality must see what is left out.
        let input = Arc::new(self.replaced.clone());
        let replaced = match order.iter().map(key).collect::<Option<Vec<_>>>()? {
            any if any.is_empty() => {
                let fetch = Some(Box::new(lit(i64::try_from(limit).ok()?)));
                LogicalPlan::Limit(Limit { skip: None, fetch, input })
            }
            expr => LogicalPlan::Sort(Sort { expr, input, fetch: Some(limit) }),
        };
        let (keys, aggregates) = (keys.clone(), aggregates.clone());
        let first = Some(FirstGroups { order, limit });
        let output = Output::Aggregate { keys, aggregates, first };
        let fragment = Fragment { output, ..(*self.fragment).clone() };
        Some(FragmentNode::new(fragment, &self.table, replaced, self.order.clone()))
    }

    /// Why the executor cannot run it; `None` if it can.
    pub(crate) fn refusal(&self) -> Option<String> {
        let distinct = |aggregate: &Aggregate| aggregate.distinct;
        match &self.fragment.output {
            Output::Aggregate { aggregates, .. }
                if !self.table.is_here() && aggregates.iter().any(distinct) =>
            {
                Some("distinct values on several machines".into())
            }
            _ => run::refusal(&self.fragment),
        }
    }

    /// What it runs.
    #[cfg(feature = "cluster")]
    pub(crate) fn into_fragment(self) -> Arc<Fragment> {
        self.fragment
    }

    /// The operator that runs it.
    pub(crate) fn planned(
        &self,
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let Some(handle) = SessionHandle::of(session.config_options()) else {
            return internal_err!("a fragment of no session");
        };
        let order = create_physical_sort_exprs(
            &self.order,
            self.schema(),
            session.execution_props(),
            context,
        )?;
        let exec = FragmentExec::new(
            Arc::clone(&self.fragment),
            Arc::clone(&self.table),
            Arc::clone(handle),
            LexOrdering::new(order),
        );
        Ok(Arc::new(match self.table.is_here() {
            true => exec,
            false => exec.with_logical(self.replaced.clone()),
        }))
    }
}

/// EXPLAIN FORMAT pgjson shows nodes by this.
impl fmt::Debug for FragmentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl UserDefinedLogicalNode for FragmentNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &'static str {
        "StoreFragment"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.replaced.schema()
    }

    fn check_invariants(&self, _: InvariantLevel) -> DataFusionResult<()> {
        Ok(())
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(&self.fragment, self.table.name(), f)
    }

    fn with_exprs_and_inputs(
        &self,
        _: Vec<Expr>,
        _: Vec<LogicalPlan>,
    ) -> DataFusionResult<Arc<dyn UserDefinedLogicalNode>> {
        Ok(Arc::new(FragmentNode {
            fragment: Arc::clone(&self.fragment),
            table: Arc::clone(&self.table),
            replaced: self.replaced.clone(),
            order: self.order.clone(),
        }))
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        self.replaced.hash(&mut state);
    }

    fn dyn_eq(&self, other: &dyn UserDefinedLogicalNode) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.replaced == other.replaced)
    }

    fn dyn_ord(&self, other: &dyn UserDefinedLogicalNode) -> Option<Ordering> {
        self.replaced.partial_cmp(&other.as_any().downcast_ref::<Self>()?.replaced)
    }
}

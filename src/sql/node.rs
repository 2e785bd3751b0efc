//! A fragment as a node of logical plans, and the planner that makes physical plans of such.
//!
//! Where this stands on the road of a query: `lower` puts nodes into a plan once DataFusion's logical rules are done
//! with it, here in [`Planner`], so that whatever leads to a physical plan (a statement, EXPLAIN, EXPLAIN ANALYZE)
//! passes through it.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::logical_plan::InvariantLevel;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, UserDefinedLogicalNode};
use datafusion::physical_expr::{LexOrdering, create_physical_sort_exprs};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::{Engine, FragmentExec};
use super::lower::lower;
use super::table::StoreTable;
use crate::query::{Condition, Fragment, OrderBy, Output, run};

/// What stands for a part of a plan that runs in our own code.
#[derive(Debug)]
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

    /// Why the executor cannot run it; `None` if it can.
    pub(crate) fn refusal(&self) -> Option<String> {
        run::refusal(&self.fragment)
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
        describe(&self.fragment, self.table.snapshot().table_name(), f)
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

/// A fragment on one line, as EXPLAIN shows it.
pub(crate) fn describe(fragment: &Fragment, table: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "StoreFragment: table={table}")?;
    match &fragment.output {
        Output::Aggregate { keys, aggregates } => {
            list(f, "group", keys.iter().map(|key| &*key.text))?;
            list(f, "aggregates", aggregates.iter().map(|aggregate| &*aggregate.text))?;
        }
        Output::Top { order, limit, expressions } => {
            let order: Vec<String> = order.iter().map(OrderBy::to_string).collect();
            list(f, "order", order.iter().map(String::as_str))?;
            write!(f, ", limit={limit}")?;
            list(f, "columns", expressions.iter().map(|expression| &*expression.text))?;
        }
    }
    list(f, "filter", fragment.conditions.iter().map(|Condition { expression, .. }| &*expression.text))
}

fn list<'a>(f: &mut fmt::Formatter<'_>, name: &str, items: impl Iterator<Item = &'a str>) -> fmt::Result {
    let items: Vec<&str> = items.collect();
    if items.is_empty() { Ok(()) } else { write!(f, ", {name}=[{}]", items.join(", ")) }
}

/// Plans statements: fragments to our executor, the rest to DataFusion's operators.
#[derive(Debug)]
pub(crate) struct Planner(pub(crate) Arc<Engine>);

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let plan = lower(plan.clone(), session)?;
        let fragments = FragmentPlanner(Arc::clone(&self.0));
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(fragments)])
            .create_physical_plan(&plan, session)
            .await
    }
}

struct FragmentPlanner(Arc<Engine>);

#[async_trait]
impl ExtensionPlanner for FragmentPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<FragmentNode>() else { return Ok(None) };
        let order = create_physical_sort_exprs(&node.order, node.schema(), session.execution_props(), context)?;
        Ok(Some(Arc::new(FragmentExec::new(
            Arc::clone(&node.fragment),
            Arc::clone(&node.table),
            Arc::clone(&self.0),
            LexOrdering::new(order),
        ))))
    }
}

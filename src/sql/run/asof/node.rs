//! An ASOF JOIN as a node of logical plans.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, JoinType, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema};
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::ExecutionPlan;

use super::exec::AsofJoinExec;
use super::order::Match;

/// The join of two sides by columns that are equal, and a time behind them.
pub(in crate::sql) struct AsofNode {
    left: LogicalPlan,
    right: LogicalPlan,
    /// Columns of both sides, in pairs.
    compared: Vec<(Expr, Expr)>,
    which: Match,
    /// Whether rows of the left side without another one stay.
    is_outer: bool,
    schema: DFSchemaRef,
}

impl AsofNode {
    pub(in crate::sql) fn new(
        left: LogicalPlan,
        right: LogicalPlan,
        compared: Vec<(Expr, Expr)>,
        which: Match,
        is_outer: bool,
    ) -> DataFusionResult<AsofNode> {
        let join_type = if is_outer { JoinType::Left } else { JoinType::Inner };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(AsofNode { left, right, compared, which, is_outer, schema })
    }

    /// The operator, over those of the inputs.
    pub(in crate::sql) fn planned(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let [left, right] = inputs else {
            return internal_err!("{} over {} inputs", self.name(), inputs.len());
        };
        let column = |expr: &Expr, side: &LogicalPlan| match expr {
            Expr::Column(column) => {
                let at = side.schema().index_of_column(column)?;
                Ok(PhysicalColumn::new(&column.name, at))
            }
            other => internal_err!("{} compares {other}", self.name()),
        };
        let pairs = self.compared.iter();
        let pairs = pairs.map(|(of_left, of_right)| {
            Ok((column(of_left, &self.left)?, column(of_right, &self.right)?))
        });
        let (of_left, of_right) = pairs.collect::<DataFusionResult<(Vec<_>, Vec<_>)>>()?;
        Ok(Arc::new(AsofJoinExec::new(
            [Arc::clone(left), Arc::clone(right)],
            [of_left, of_right],
            self.which,
            self.is_outer,
            Arc::clone(self.schema.inner()),
        )))
    }

    /// What two nodes are compared by. The schema is that of the inputs.
    fn parts(&self) -> (&LogicalPlan, &LogicalPlan, &[(Expr, Expr)], Match, bool) {
        (&self.left, &self.right, &self.compared, self.which, self.is_outer)
    }
}

/// EXPLAIN FORMAT pgjson shows nodes by this.
impl fmt::Debug for AsofNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl PartialEq for AsofNode {
    fn eq(&self, other: &AsofNode) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for AsofNode {}

impl PartialOrd for AsofNode {
    fn partial_cmp(&self, other: &AsofNode) -> Option<Ordering> {
        self.parts().partial_cmp(&other.parts())
    }
}

impl Hash for AsofNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl UserDefinedLogicalNodeCore for AsofNode {
    fn name(&self) -> &'static str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.compared.iter().flat_map(|(left, right)| [left.clone(), right.clone()]).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join_type = if self.is_outer { "Left" } else { "Inner" };
        write!(f, "AsofJoin: {join_type}, match={:?}, on=[", self.which)?;
        for (at, (left, right)) in self.compared.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}({left}, {right})")?;
        }
        write!(f, "]")
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> DataFusionResult<AsofNode> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs)
            .or_else(|inputs| internal_err!("{} over {} inputs", self.name(), inputs.len()))?;
        let mut exprs = exprs.into_iter();
        let mut compared = Vec::with_capacity(self.compared.len());
        while let Some((left, right)) = exprs.next().zip(exprs.next()) {
            compared.push((left, right));
        }
        AsofNode::new(left, right, compared, self.which, self.is_outer)
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let of_left = self.left.schema().fields().len();
        let mut columns = [Vec::new(), Vec::new()];
        for (left, right) in &self.compared {
            for (side, (expr, plan)) in
                columns.iter_mut().zip([(left, &self.left), (right, &self.right)])
            {
                side.push(plan.schema().maybe_index_of_column(expr.try_as_col()?)?);
            }
        }
        let [left, right] = &mut columns;
        for column in output {
            match column.checked_sub(of_left) {
                None => left.push(*column),
                Some(column) => right.push(column),
            }
        }
        for side in &mut columns {
            side.sort_unstable();
            side.dedup();
        }
        Some(columns.into())
    }
}

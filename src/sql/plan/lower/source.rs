//! The input of a candidate: one scan of a stored table, below projections, filters and aliases.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, TableReference};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, TableScan, Volatility};

use crate::sql::run::provider::store_provider;
use crate::sql::run::table::StoreTable;
use crate::sql::walks::{rewrite_down, rewrite_up};

/// Why a candidate is not taken, for EXPLAIN.
pub(super) type Refusal = String;

/// The most plan nodes between a candidate and its scan.
const MAX_DEPTH: usize = 64;
/// The most nodes of an expression after projections are inlined: sums of sums double in size at
/// each level.
const MAX_NODES: usize = 4096;

/// The rows that a candidate sees, in terms of the columns of one table.
pub(super) struct Input {
    pub(super) table: Arc<StoreTable>,
    /// The name by which expressions qualify the table's columns.
    pub(super) relation: TableReference,
    /// The conditions on a row, in the order in which they would be tested.
    pub(super) conditions: Vec<Expr>,
    /// The columns that the candidate sees, as functions of the table's.
    pub(super) outputs: Vec<Expr>,
    /// The names of these columns.
    schema: DFSchemaRef,
}

impl Input {
    /// The table, columns and conditions that give the rows of `plan`.
    pub(super) fn new(plan: &LogicalPlan) -> Result<Input, Refusal> {
        let mut chain = Vec::new();
        let mut node = plan;
        let mut input = loop {
            if chain.len() > MAX_DEPTH {
                return Err("nested too deeply".into());
            }
            let below = match node {
                LogicalPlan::TableScan(scan) => break Input::scan(scan)?,
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::Filter(filter) => &filter.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                other => return Err(format!("over {}", kind(other))),
            };
            chain.push(node);
            node = below;
        };
        for node in chain.into_iter().rev() {
            input.stack(node)?;
        }
        if let LogicalPlan::TableScan(scan) = node {
            input.add_pushed_down(scan)?;
        }
        Ok(input)
    }

    fn scan(scan: &TableScan) -> Result<Input, Refusal> {
        let Some(provider) = store_provider(scan) else {
            return Err("not a table of the store".into());
        };
        if scan.fetch.is_some() {
            return Err("over a limit".into());
        }
        let schema = Arc::clone(&scan.projected_schema);
        let column = |field: &Arc<_>| table_column(&scan.table_name, field);
        Ok(Input {
            table: Arc::clone(&provider.table),
            relation: scan.table_name.clone(),
            conditions: Vec::new(),
            outputs: schema.fields().iter().map(column).collect(),
            schema,
        })
    }

    /// Adds one node on top.
    fn stack(&mut self, node: &LogicalPlan) -> Result<(), Refusal> {
        match node {
            LogicalPlan::Projection(Projection { expr, schema, .. }) => {
                self.outputs =
                    expr.iter().map(|expr| self.resolve(expr)).collect::<Result<_, _>>()?;
                self.schema = Arc::clone(schema);
            }
            LogicalPlan::Filter(Filter { predicate, .. }) => {
                let condition = self.resolve(predicate)?;
                self.add_conditions(condition);
            }
            other => self.schema = Arc::clone(other.schema()),
        }
        Ok(())
    }

    fn add_conditions(&mut self, condition: Expr) {
        for part in split_conjunction_owned(condition) {
            if !self.conditions.contains(&part) {
                self.conditions.push(part);
            }
        }
    }

    /// Adds the filters that the scan itself has. A filter above repeats them, since tables apply
    /// pushed-down filters only as far as they can.
    fn add_pushed_down(&mut self, scan: &TableScan) -> Result<(), Refusal> {
        for filter in &scan.filters {
            let filter = without_aliases(filter)?;
            check(&filter)?;
            self.add_conditions(filter);
        }
        Ok(())
    }

    /// Translates an expression over the columns that the candidate sees into one over the table's
    /// columns, if it can be evaluated row by row, any number of times.
    pub(super) fn resolve(&self, expr: &Expr) -> Result<Expr, Refusal> {
        let replace = |expr: Expr| match &expr {
            Expr::Column(column) => {
                let position = self.schema.index_of_column(column)?;
                let output = self.outputs.get(position).cloned();
                let output = output
                    .ok_or_else(|| DataFusionError::Internal(format!("no column {column}")))?;
                Ok(Transformed::new(output, true, TreeNodeRecursion::Jump))
            }
            _ => Ok(Transformed::no(expr)),
        };
        check(expr)?;
        let plain = without_aliases(expr)?;
        let resolved = rewrite_down(plain, replace).map_err(|error| error.strip_backtrace())?.data;
        let mut nodes = 0;
        let counted = resolved.apply(|_| {
            nodes += 1;
            Ok(if nodes > MAX_NODES {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        });
        match counted {
            Ok(_) if nodes <= MAX_NODES => Ok(resolved),
            _ => Err("an expression is too large".into()),
        }
    }
}

/// The expression below any aliases.
pub(super) fn without_alias(mut expr: &Expr) -> &Expr {
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    expr
}

fn without_aliases(expr: &Expr) -> Result<Expr, Refusal> {
    let plain = rewrite_up(expr.clone(), |expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    });
    plain.map(|plain| plain.data).map_err(|error| error.strip_backtrace())
}

fn table_column(relation: &TableReference, field: &Arc<arrow_schema::Field>) -> Expr {
    Expr::Column(Column::new(Some(relation.clone()), field.name()))
}

/// Refuses what is not a pure function of one row.
fn check(expr: &Expr) -> Result<(), Refusal> {
    let mut refusal = None;
    let visited = expr.apply(|expr| {
        refusal = impure(expr);
        Ok(if refusal.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match (refusal, visited) {
        (Some(refusal), _) => Err(refusal),
        (None, Err(error)) => Err(error.strip_backtrace()),
        (None, Ok(_)) => Ok(()),
    }
}

fn impure(expr: &Expr) -> Option<Refusal> {
    match expr {
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => None,
        Expr::ScalarFunction(function) if function.func.as_async().is_some() => {
            Some(format!("{} is asynchronous", function.func.name()))
        }
        Expr::ScalarFunction(function)
            if function.func.signature().volatility == Volatility::Volatile =>
        {
            Some(format!("{} is volatile", function.func.name()))
        }
        Expr::ScalarFunction(_) => None,
        Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => Some("a subquery".into()),
        Expr::OuterReferenceColumn(..) => Some("a column of the outer query".into()),
        Expr::GroupingSet(_) => Some("grouping sets".into()),
        other => Some(format!("an expression of kind {}", other.variant_name())),
    }
}

fn kind(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => "an aggregate",
        LogicalPlan::Join(_) => "a join",
        LogicalPlan::Union(_) => "a union",
        LogicalPlan::Window(_) => "a window",
        LogicalPlan::Sort(_) => "a sort",
        LogicalPlan::Limit(_) => "a limit",
        LogicalPlan::Unnest(_) => "an unnest",
        LogicalPlan::RecursiveQuery(_) => "a recursive query",
        _ => "something other than a stored table",
    }
}

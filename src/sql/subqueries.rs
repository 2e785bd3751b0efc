//! Subqueries of DELETE and UPDATE: answered first, and put into the expressions as what they have answered.
//!
//! `id IN (SELECT …)` becomes a list of values or a look into a set of them, `EXISTS` a truth, a subquery in the place of a value
//! this value. So statistics rule segments out by the answers as they do by constants. A subquery that looks at the row which is
//! to be changed has no answer of its own, and is refused.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::expr::{InList, InSubquery};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, lit,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, InListExpr};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::convert::from_datafusion;
use crate::error::{Error, Result};

/// The most values that stand in an expression one by one.
const LISTED: usize = 1024;

/// Whether there are subqueries in an expression.
pub(super) fn asked_in(expression: &Expr) -> bool {
    let is_asked = |node: &Expr| {
        Ok(matches!(node, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    };
    expression.exists(is_asked).unwrap_or(true)
}

/// The expression with its subqueries answered. `schema` is that of the rows it looks at.
pub(super) async fn answered(expression: &Expr, schema: &DFSchema, state: &SessionState) -> Result<Expr> {
    let mut answers = HashMap::new();
    for (subquery, what) in subqueries(expression)? {
        let plan = Arc::as_ptr(&subquery.subquery);
        if let std::collections::hash_map::Entry::Vacant(place) = answers.entry(plan) {
            place.insert(answer(&subquery, what, state).await?);
        }
    }
    if answers.is_empty() {
        return Ok(expression.clone());
    }
    let put_in = |expr: Expr| match expr {
        Expr::ScalarSubquery(subquery) => value(answers.get(&Arc::as_ptr(&subquery.subquery))),
        Expr::Exists(exists) => {
            let rows = answers.get(&Arc::as_ptr(&exists.subquery.subquery)).map_or(0, |answer| answer.len());
            Ok(Transformed::yes(lit((rows > 0) != exists.negated)))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let Some(values) = answers.get(&Arc::as_ptr(&subquery.subquery)) else { return unanswered() };
            let is_in = among(*expr, values, schema)?;
            Ok(Transformed::yes(if negated { !is_in } else { is_in }))
        }
        other => Ok(Transformed::no(other)),
    };
    expression.clone().transform_up(put_in).map(|changed| changed.data).map_err(from_datafusion)
}

/// What is asked of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// One value.
    Value,
    /// Whether there is a row.
    Rows,
    /// Its distinct values.
    Set,
}

fn subqueries(expression: &Expr) -> Result<Vec<(Subquery, Asked)>> {
    let (mut found, mut refused) = (Vec::new(), None);
    let visited = expression.apply(|node| {
        match node {
            Expr::ScalarSubquery(subquery) => found.push((subquery.clone(), Asked::Value)),
            Expr::Exists(exists) => found.push((exists.subquery.clone(), Asked::Rows)),
            Expr::InSubquery(is_in) => found.push((is_in.subquery.clone(), Asked::Set)),
            Expr::SetComparison(_) => refused = Some("a comparison with ANY or ALL rows of a subquery in DELETE or UPDATE; IN, or min() and max() in the subquery, do the same"),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_err(from_datafusion)?;
    if found.iter().any(|(subquery, _)| !subquery.outer_ref_columns.is_empty()) {
        refused = Some(
            "a subquery in DELETE or UPDATE that looks at the row to be changed; IN (SELECT …) compares with it from outside",
        );
    }
    match refused {
        Some(what) => Err(Error::Unsupported(what.into())),
        None => Ok(found),
    }
}

/// The first column of what a subquery gives.
async fn answer(subquery: &Subquery, asked: Asked, state: &SessionState) -> Result<ArrayRef> {
    let plan = LogicalPlan::clone(&subquery.subquery);
    let builder = LogicalPlanBuilder::from(plan);
    let builder = match asked {
        // One more than there may be.
        Asked::Value => builder.limit(0, Some(2)),
        Asked::Rows => builder.limit(0, Some(1)),
        Asked::Set => builder.distinct(),
    };
    let plan = builder.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let plan = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
    let data_type = plan.schema().fields().first().map_or(DataType::Null, |field| field.data_type().clone());
    let memory = MemoryConsumer::new("Subquery").register(&state.runtime_env().memory_pool);
    let mut stream = execute_stream(plan, state.task_ctx()).map_err(from_datafusion)?;
    let mut arrays: Vec<ArrayRef> = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(from_datafusion)?;
        let Some(first) = batch.columns().first() else { continue };
        memory.try_grow(first.get_array_memory_size()).map_err(from_datafusion)?;
        arrays.push(Arc::clone(first));
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    if arrays.is_empty() {
        return Ok(arrow_array::new_empty_array(&data_type));
    }
    arrow_select::concat::concat(&arrays).map_err(|error| from_datafusion(error.into()))
}

fn value(answer: Option<&ArrayRef>) -> DataFusionResult<Transformed<Expr>> {
    match answer {
        None => unanswered(),
        Some(answer) if answer.len() > 1 => {
            datafusion::common::exec_err!("a subquery that stands for one value gave more than one row")
        }
        Some(answer) if answer.is_empty() => Ok(Transformed::yes(lit(ScalarValue::try_from(answer.data_type())?))),
        Some(answer) => Ok(Transformed::yes(lit(ScalarValue::try_from_array(answer, 0)?))),
    }
}

fn unanswered<T>() -> DataFusionResult<T> {
    datafusion::common::internal_err!("a subquery was not answered")
}

/// `expr IN (values)`.
fn among(expr: Expr, values: &ArrayRef, schema: &DFSchema) -> DataFusionResult<Expr> {
    let of = expr.get_type(schema)?;
    let Some(common) = comparison_coercion(&of, values.data_type()) else {
        return datafusion::common::plan_err!(
            "{expr} is {of}, and cannot be among values of {}",
            values.data_type()
        );
    };
    let values = arrow_cast::cast(values, &common)?;
    let expr = expr.cast_to(&common, schema)?;
    if values.len() <= LISTED {
        let list = (0..values.len()).map(|at| ScalarValue::try_from_array(&values, at).map(lit));
        return Ok(Expr::InList(InList::new(Box::new(expr), list.collect::<DataFusionResult<_>>()?, false)));
    }
    let bounds = bounds(&values)?;
    let is_in = ScalarUDF::from(Among::new(values)?).call(vec![expr.clone()]);
    // What it says of blocks and segments. A null among the values makes null of no.
    Ok(match bounds {
        Some((least, greatest)) => expr.between(lit(least), lit(greatest)).and(is_in),
        None => is_in,
    })
}

/// The least and the greatest of values among which is no null; none of floats, of which NaN has no agreed place.
fn bounds(values: &ArrayRef) -> DataFusionResult<Option<(ScalarValue, ScalarValue)>> {
    let data_type = values.data_type();
    if values.logical_null_count() > 0 || data_type.is_floating() || data_type.is_nested() {
        return Ok(None);
    }
    let (mut least, mut greatest) = (MinAccumulator::try_new(data_type)?, MaxAccumulator::try_new(data_type)?);
    least.update_batch(std::slice::from_ref(values))?;
    greatest.update_batch(std::slice::from_ref(values))?;
    Ok(Some((least.evaluate()?, greatest.evaluate()?)))
}

/// Whether a value is among many: a function in the place of a list, which no rule of the optimiser has to walk through.
#[derive(Debug)]
struct Among {
    signature: Signature,
    schema: Arc<ArrowSchema>,
    list: InListExpr,
}

impl Among {
    fn new(values: ArrayRef) -> DataFusionResult<Among> {
        let schema = Arc::new(ArrowSchema::new(vec![Field::new(NAME, values.data_type().clone(), true)]));
        let signature = Signature::exact(vec![values.data_type().clone()], Volatility::Immutable);
        let list = InListExpr::try_new_from_array(Arc::new(Column::new(NAME, 0)), values, false, &schema)?;
        Ok(Among { signature, schema, list })
    }
}

const NAME: &str = "is_among";

impl PartialEq for Among {
    fn eq(&self, other: &Among) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Among {}

impl Hash for Among {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl ScalarUDFImpl for Among {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.into_iter().map(|argument| argument.into_array(rows));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<DataFusionResult<_>>()?)?;
        self.list.evaluate(&batch)
    }
}

//! Subqueries of DELETE and UPDATE: answered first, and put into the expressions as what they have
//! answered.
//!
//! `id IN (SELECT …)` becomes a list of values or a look into a set of them, `EXISTS` a truth, a
//! subquery in the place of a value this value, and `(a, b) IN (SELECT …)` a list of comparisons
//! (`row_answers`). So statistics rule segments out by the answers as they do by constants. A
//! subquery that looks at the row which is to be changed has no answer of its own, and is refused.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::DataType;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::expr::{InList, InSubquery};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, cast, lit,
};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, Result};
use crate::sql::convert::from_datafusion;
use crate::sql::run::provider::StoreProvider;
use crate::sql::types::zeros;
use crate::sql::walks::rewrite_up;
use crate::sql::write::row_answers::Compared;

/// The most values that stand in an expression one by one.
const LISTED: usize = 1024;

/// Whether an answer in an expression depends on what is in a table of the store.
pub(in crate::sql) fn depends_on(expression: &Expr, table: &str) -> Result<bool> {
    let mut depends = false;
    for subquery in subqueries(expression)? {
        let visited = subquery.subquery.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                // A view may look at any table.
                depends |= scan.source.get_logical_plan().is_some();
                let provider = source_as_provider(&scan.source)?;
                depends |= provider
                    .downcast_ref::<StoreProvider>()
                    .is_some_and(|found| found.table.snapshot().table_name() == table);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        visited.map_err(from_datafusion)?;
    }
    Ok(depends)
}

/// The expression with its subqueries answered. `schema` is that of the rows it looks at; `memory`
/// is grown by what sets take.
pub(in crate::sql) async fn answered(
    expression: &Expr,
    schema: &DFSchema,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<Expr> {
    let mut answers = HashMap::new();
    for subquery in subqueries(expression)? {
        let answer = match subquery.of {
            Asked::Value => Answer::Value(value(subquery.subquery, state).await?),
            Asked::Rows => Answer::Rows(has_rows(subquery.subquery, state).await?),
            Asked::RowsWith(compared) => Answer::Any(compared.answer(LISTED, state).await?),
            Asked::SetFor(expr) => {
                let of = expr.get_type(schema).map_err(from_datafusion)?;
                Answer::Set(Arc::new(Set::of(subquery.subquery, &of, state, memory).await?))
            }
        };
        answers.insert(Arc::as_ptr(subquery.subquery), answer);
    }
    if answers.is_empty() {
        return Ok(expression.clone());
    }
    let answer_of = |subquery: &Subquery| answers.get(&Arc::as_ptr(&subquery.subquery));
    let put_in = |expr: Expr| match &expr {
        Expr::ScalarSubquery(subquery) => match answer_of(subquery) {
            Some(Answer::Value(value)) => Ok(Transformed::yes(lit(value.clone()))),
            _ => internal_err!("a subquery was not answered"),
        },
        Expr::Exists(exists) => match answer_of(&exists.subquery) {
            Some(Answer::Rows(found)) => Ok(Transformed::yes(lit(*found != exists.negated))),
            Some(Answer::Any(found)) if exists.negated => Ok(Transformed::yes(!found.clone())),
            Some(Answer::Any(found)) => Ok(Transformed::yes(found.clone())),
            _ => internal_err!("a subquery was not answered"),
        },
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => match answer_of(subquery) {
            Some(Answer::Set(set)) => {
                let is_in = among(expr, set, schema)?;
                Ok(Transformed::yes(if *negated { !is_in } else { is_in }))
            }
            _ => internal_err!("a subquery was not answered"),
        },
        _ => Ok(Transformed::no(expr)),
    };
    rewrite_up(expression.clone(), put_in).map(|changed| changed.data).map_err(from_datafusion)
}

/// A subquery of an expression.
struct Found<'a> {
    subquery: &'a Arc<LogicalPlan>,
    of: Asked<'a>,
}

/// What is asked of it.
enum Asked<'a> {
    /// One value.
    Value,
    /// Whether there is a row.
    Rows,
    /// Whether one of its rows is equal to that to be changed.
    RowsWith(Compared<'a>),
    /// Its distinct values, to look for those of an expression among them.
    SetFor(&'a Expr),
}

/// What it answers.
enum Answer {
    Value(ScalarValue),
    Rows(bool),
    /// An expression over the row to be changed.
    Any(Expr),
    Set(Arc<Set>),
}

fn subqueries(expression: &Expr) -> Result<Vec<Found<'_>>> {
    let (mut found, mut refused) = (Vec::new(), None);
    let visited = expression.apply(|node| {
        let (subquery, of) = match node {
            Expr::ScalarSubquery(subquery) => (subquery, Asked::Value),
            Expr::Exists(exists) => match Compared::of(&exists.subquery.subquery) {
                Some(compared) => {
                    found.push(Found { subquery: &exists.subquery.subquery, of: Asked::RowsWith(compared) });
                    return Ok(TreeNodeRecursion::Continue);
                }
                None => (&exists.subquery, Asked::Rows),
            },
            Expr::InSubquery(is_in) => (&is_in.subquery, Asked::SetFor(&is_in.expr)),
            Expr::SetComparison(_) => {
                refused = Some(
                    "a comparison with ANY or ALL rows of a subquery in DELETE or UPDATE; IN, or min() and max() in \
                     the subquery, do the same",
                );
                return Ok(TreeNodeRecursion::Continue);
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if !subquery.outer_ref_columns.is_empty() {
            refused = Some(
                "a subquery in DELETE or UPDATE that looks at the row to be changed; IN (SELECT …) compares with it \
                 from outside",
            );
        }
        found.push(Found { subquery: &subquery.subquery, of });
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_err(from_datafusion)?;
    match refused {
        Some(what) => Err(Error::Unsupported(what.into())),
        None => Ok(found),
    }
}

/// The first column of what a plan gives, batch by batch.
async fn for_each(
    plan: LogicalPlan,
    state: &SessionState,
    mut each: impl FnMut(&ArrayRef) -> Result<()>,
) -> Result<()> {
    let plan = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
    let mut stream = execute_stream(plan, state.task_ctx()).map_err(from_datafusion)?;
    while let Some(batch) = stream.next().await {
        if let Some(first) = batch.map_err(from_datafusion)?.columns().first() {
            each(first)?;
        }
    }
    Ok(())
}

fn limited(plan: &LogicalPlan, rows: usize) -> Result<LogicalPlan> {
    let builder = LogicalPlanBuilder::from(plan.clone()).limit(0, Some(rows));
    builder.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

async fn has_rows(plan: &LogicalPlan, state: &SessionState) -> Result<bool> {
    let mut rows = 0;
    let count = |array: &ArrayRef| {
        rows += array.len();
        Ok(())
    };
    for_each(limited(plan, 1)?, state, count).await?;
    Ok(rows > 0)
}

/// The value that a subquery stands for; null where it has no row.
async fn value(plan: &LogicalPlan, state: &SessionState) -> Result<ScalarValue> {
    let none = plan.schema().fields().first().map_or(&DataType::Null, |field| field.data_type());
    let mut values = Vec::new();
    let keep = |array: &ArrayRef| {
        for row in 0..array.len() {
            values.push(ScalarValue::try_from_array(array, row).map_err(from_datafusion)?);
        }
        Ok(())
    };
    // One more than there may be.
    for_each(limited(plan, 2)?, state, keep).await?;
    match (values.pop(), values.pop()) {
        (Some(_), Some(_)) => {
            exec_err!("a subquery that stands for one value gave more than one row")
                .map_err(from_datafusion)
        }
        (Some(value), None) => Ok(value),
        (None, _) => ScalarValue::try_from(none).map_err(from_datafusion),
    }
}

/// Different values as bytes that are the same for equal values, and compare as these do.
struct Set {
    data_type: DataType,
    converter: RowConverter,
    rows: Rows,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    has_null: bool,
}

impl Set {
    /// The values of a subquery in the type in which they are compared with values of type `of`.
    async fn of(
        plan: &LogicalPlan,
        of: &DataType,
        state: &SessionState,
        memory: &MemoryReservation,
    ) -> Result<Set> {
        let Some((qualifier, field)) = plan.schema().iter().next() else {
            return Err(Error::InvalidInput("a subquery without a column".into()));
        };
        let members = field.data_type();
        // As in queries, decimals are doubles beside such (see `decimals`).
        let mixed =
            of.is_decimal() && members.is_floating() || of.is_floating() && members.is_decimal();
        let common = if mixed { Some(DataType::Float64) } else { comparison_coercion(of, members) };
        let Some(common) = common else {
            let what = format!("{of} cannot be among values of {}", field.data_type());
            return plan_err!("{what}").map_err(from_datafusion);
        };
        let column = cast(Expr::from((qualifier, field)), common.clone());
        let distinct = LogicalPlanBuilder::from(plan.clone())
            .project([column])
            .and_then(LogicalPlanBuilder::distinct);
        let plan = distinct.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
        let failed = |error: arrow_schema::ArrowError| from_datafusion(error.into());
        let converter = RowConverter::new(vec![SortField::new(common.clone())]).map_err(failed)?;
        let mut set = Set {
            data_type: common,
            rows: converter.empty_rows(0, 0),
            converter,
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            has_null: false,
        };
        let before = memory.size();
        let add = |array: &ArrayRef| {
            set.add(array).map_err(from_datafusion)?;
            memory.try_resize(before + set.size()).map_err(from_datafusion)
        };
        for_each(plan, state, add).await?;
        Ok(set)
    }

    fn add(&mut self, values: &ArrayRef) -> DataFusionResult<()> {
        let values = zeros::one_zero(&arrow_cast::cast(values, &self.data_type)?);
        let values = match values.logical_nulls() {
            Some(nulls) => {
                self.has_null = true;
                arrow_select::filter::filter(&values, &BooleanArray::new(nulls.into_inner(), None))?
            }
            None => values,
        };
        let first = self.rows.num_rows();
        self.converter.append(&mut self.rows, &[values])?;
        let Set { rows, places, hasher, .. } = self;
        let hash = |place: &u32| hasher.hash_one(rows.row(*place as usize).as_ref());
        for place in first..rows.num_rows() {
            let Ok(number) = u32::try_from(place) else {
                return exec_err!("a subquery with more than 2³² values");
            };
            let row = rows.row(place);
            let same = |known: &u32| rows.row(*known as usize) == row;
            if places.find(hash(&number), same).is_none() {
                places.insert_unique(hash(&number), number, hash);
            }
        }
        Ok(())
    }

    /// Bytes.
    fn size(&self) -> usize {
        self.rows.size() + self.places.capacity() * 8
    }

    fn has(&self, row: Row<'_>) -> bool {
        let hash = self.hasher.hash_one(row.as_ref());
        self.places.find(hash, |known| self.rows.row(*known as usize) == row).is_some()
    }

    /// Some values, as literals.
    fn literals<'a>(
        &'a self,
        rows: impl IntoIterator<Item = Row<'a>>,
    ) -> DataFusionResult<Vec<Expr>> {
        let columns = self.converter.convert_rows(rows)?;
        let values = columns.iter().flat_map(|array| (0..array.len()).map(move |row| (array, row)));
        values.map(|(array, row)| ScalarValue::try_from_array(array, row).map(lit)).collect()
    }

    /// The least and the greatest; none of floats, of which NaN has no agreed place.
    fn bounds(&self) -> DataFusionResult<Option<[Expr; 2]>> {
        let (least, greatest) = (self.rows.iter().min(), self.rows.iter().max());
        match least.zip(greatest) {
            Some((least, greatest)) if !self.data_type.is_floating() => {
                Ok(self.literals([least, greatest])?.try_into().ok())
            }
            _ => Ok(None),
        }
    }

    /// For each value, whether it is in the set: null for null, and for what is not there, if null
    /// is.
    fn find(&self, values: &ArrayRef) -> DataFusionResult<BooleanArray> {
        let rows = self.converter.convert_columns(&[zeros::one_zero(values)])?;
        let nulls = values.logical_nulls();
        let find = |(at, row): (usize, Row<'_>)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                return None;
            }
            let found = self.has(row);
            (found || !self.has_null).then_some(found)
        };
        Ok(rows.iter().enumerate().map(find).collect())
    }
}

/// `expr IN (values)`.
fn among(expr: &Expr, set: &Arc<Set>, schema: &DFSchema) -> DataFusionResult<Expr> {
    if set.places.is_empty() && !set.has_null {
        // Not even null is unknown among nothing.
        return Ok(lit(false));
    }
    let expr = expr.clone().cast_to(&set.data_type, schema)?;
    if set.places.len() <= LISTED {
        let mut list =
            set.literals(set.places.iter().map(|place| set.rows.row(*place as usize)))?;
        if set.has_null {
            list.push(lit(ScalarValue::try_from(&set.data_type)?));
        }
        return Ok(Expr::InList(InList::new(Box::new(expr), list, false)));
    }
    let is_in = ScalarUDF::from(Among::new(Arc::clone(set))).call(vec![expr.clone()]);
    // What it says of blocks and segments. Beside a null among the values, what is beyond them is
    // not certainly missing.
    Ok(match set.bounds()?.filter(|_| !set.has_null) {
        Some([least, greatest]) => expr.between(least, greatest).and(is_in),
        None => is_in,
    })
}

/// Whether a value is among many: a function in the place of a list, which no rule of the optimiser
/// has to walk through.
struct Among {
    signature: Signature,
    set: Arc<Set>,
}

impl Among {
    fn new(set: Arc<Set>) -> Among {
        Among {
            signature: Signature::exact(vec![set.data_type.clone()], Volatility::Immutable),
            set,
        }
    }
}

impl std::fmt::Debug for Among {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Among").field("values", &self.set.places.len()).finish_non_exhaustive()
    }
}

impl PartialEq for Among {
    fn eq(&self, other: &Among) -> bool {
        Arc::ptr_eq(&self.set, &other.set)
    }
}

impl Eq for Among {}

impl Hash for Among {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.set).hash(state);
    }
}

impl ScalarUDFImpl for Among {
    fn name(&self) -> &str {
        "is_among"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let Some(values) = arguments.args.into_iter().next() else {
            return internal_err!("is_among without a value");
        };
        Ok(ColumnarValue::Array(Arc::new(self.set.find(&values.into_array(rows)?)?)))
    }
}

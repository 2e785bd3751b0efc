//! The values that INSERT, UPDATE and CREATE TABLE (…) AS give to columns, in the types of the
//! expressions themselves.
//!
//! DataFusion casts stored values to the column's type, and the cast silently cuts off what does
//! not fit. So its casts are removed again, and values are assigned exactly (`ingest::assign`). A
//! mark tells its casts from the user's: before a statement is planned, each value that might be
//! the user's cast is wrapped in a function that does nothing.
//!
//! Rows that come from a query are planned as that query alone: below an INSERT, DataFusion would
//! read all VALUES, even in subqueries, with the types of the table's columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column as ColumnName, DFSchema, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    ColumnarValue, CreateMemoryTable, DdlStatement, Expr, ExprSchemable as _, LogicalPlan,
    Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Values, Volatility,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, CreateTable, Insert, ObjectNamePart, Query, SetExpr,
    Statement as SqlStatement,
};

use crate::ingest::assign::{LEAST_UNCERTAIN, assign, is_exact};
use crate::model::{Column, DataType, Schema};
use crate::sql::syntax::marks::{mark, unmarked};
use crate::sql::syntax::{scopes, whole_rows};
use crate::sql::types::decimals::exact_literal;
use crate::sql::walks::has_part;
use crate::sql::write::joining::{self, parse_query, plan_sql};

/// Plans a statement. Rows to be stored have the types of their query.
pub(in crate::sql) async fn plan(
    state: &SessionState,
    statement: &Statement,
) -> Result<LogicalPlan> {
    let resolved = scopes::resolve(state, statement).await?;
    plan_resolved(state, resolved.as_ref().unwrap_or(statement)).await
}

/// Plans a statement whose names have been resolved (`syntax::scopes`).
pub(in crate::sql) async fn plan_resolved(
    state: &SessionState,
    statement: &Statement,
) -> Result<LogicalPlan> {
    let parsed = match statement {
        Statement::Statement(parsed) => parsed,
        Statement::Explain(explain) => {
            let query = match explain.statement.as_ref() {
                Statement::Statement(sql) => joining::explained(sql)?,
                _ => None,
            };
            let Some(query) = query else { return whole_rows::plan(state, statement).await };
            let mut explain = explain.clone();
            *explain.statement = Statement::Statement(Box::new(query));
            let explain = Statement::Explain(explain);
            let resolved = scopes::resolve(state, &explain).await?;
            return whole_rows::plan(state, resolved.as_ref().unwrap_or(&explain)).await;
        }
        _ => return whole_rows::plan(state, statement).await,
    };
    match parsed.as_ref() {
        SqlStatement::Insert(insert) => match source_query(insert) {
            Some(query) => {
                let rows = plan_sql(state, SqlStatement::Query(Box::new(query.clone()))).await?;
                insert_rows(state, insert, rows).await
            }
            None => plan_sql(state, SqlStatement::Insert(with_marks(insert))).await,
        },
        // Whether it is one of the session is seen to once it is planned.
        SqlStatement::CreateTable(create) if create.temporary => {
            let lasting = CreateTable { temporary: false, ..create.clone() };
            let lasting = Statement::Statement(Box::new(SqlStatement::CreateTable(lasting)));
            Box::pin(plan_resolved(state, &lasting)).await
        }
        SqlStatement::CreateTable(create) if !create.columns.is_empty() => {
            let mut shell = create.clone();
            let Some(query) = shell.query.take() else {
                return plan_sql(state, *parsed.clone()).await;
            };
            let rows = plan_sql(state, SqlStatement::Query(query)).await?;
            create_rows(plan_sql(state, SqlStatement::CreateTable(shell)).await?, rows)
        }
        SqlStatement::Update(update) => {
            check_targets(&update.assignments)?;
            if let Some(plan) = joining::update(state, update).await? {
                return Ok(plan);
            }
            let mut marked = update.clone();
            marked.assignments.iter_mut().for_each(|assignment| mark(&mut assignment.value));
            plan_sql(state, SqlStatement::Update(marked)).await
        }
        SqlStatement::Delete(delete) => match joining::delete(state, delete).await? {
            Some(plan) => Ok(plan),
            None => whole_rows::plan(state, statement).await,
        },
        _ => whole_rows::plan(state, statement).await,
    }
}

/// Refuses an UPDATE that gives a column two values: DataFusion (55.2) takes the last one.
fn check_targets(assignments: &[Assignment]) -> Result<()> {
    let mut names = HashSet::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
        let Some(column) = name.0.last().and_then(ObjectNamePart::as_ident) else { continue };
        let name = match column.quote_style {
            Some(_) => column.value.clone(),
            None => column.value.to_ascii_lowercase(),
        };
        if !names.insert(name) {
            return plan_err!(
                "column {column} is set twice in one UPDATE; leave one of the values out"
            );
        }
    }
    Ok(())
}

/// The query whose rows an INSERT adds; `None` where they are VALUES.
fn source_query(insert: &Insert) -> Option<&Query> {
    let source = insert.source.as_deref()?;
    let mut body = source.body.as_ref();
    while let SetExpr::Query(inner) = body {
        body = inner.body.as_ref();
    }
    (!matches!(body, SetExpr::Values(_))).then_some(source)
}

/// An INSERT of the rows of a plan. An INSERT of a query of NULLs shows which column of the plan
/// goes where.
async fn insert_rows(
    state: &SessionState,
    insert: &Insert,
    rows: LogicalPlan,
) -> Result<LogicalPlan> {
    let names: Vec<String> =
        (0..rows.schema().fields().len()).map(|at| format!("NULL AS \"c{at}\"")).collect();
    let mut shell = insert.clone();
    shell.source = Some(Box::new(parse_query(&format!("SELECT {}", names.join(", ")))?));
    let LogicalPlan::Dml(planned) = plan_sql(state, SqlStatement::Insert(shell)).await? else {
        return plan_err!("an INSERT of this form");
    };
    let LogicalPlan::Projection(projection) = planned.input.as_ref() else {
        return plan_err!("an INSERT of this form");
    };
    let position = |expr: &Expr| -> Option<usize> {
        let columns = expr.column_refs();
        columns.iter().next()?.name.strip_prefix('c')?.parse().ok()
    };
    let exprs =
        projection.expr.iter().zip(projection.schema.fields()).map(|(expr, field)| match position(
            expr,
        ) {
            Some(at) => Expr::Column(ColumnName::from(rows.schema().qualified_field(at)))
                .alias(field.name()),
            None => expr.clone(),
        });
    let input =
        Projection::try_new(exprs.collect(), Arc::new(rows)).map(LogicalPlan::Projection)?;
    Ok(LogicalPlan::Dml(DmlStatement::new(
        planned.table_name,
        planned.target,
        planned.op,
        Arc::new(input),
    )))
}

/// A CREATE TABLE of declared columns with the rows of a plan.
fn create_rows(shell: LogicalPlan, rows: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = shell else { return Ok(shell) };
    let (columns, found) = (create.input.schema().fields().clone(), rows.schema().fields().len());
    if columns.len() != found {
        return plan_err!(
            "Mismatch: {} columns specified, but result has {found} columns",
            columns.len()
        );
    }
    let named = columns.iter().enumerate().map(|(at, field)| {
        Expr::Column(ColumnName::from(rows.schema().qualified_field(at))).alias(field.name())
    });
    let input =
        Projection::try_new(named.collect(), Arc::new(rows)).map(LogicalPlan::Projection)?;
    Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(CreateMemoryTable {
        input: Arc::new(input),
        ..create
    })))
}

/// The INSERT with its VALUES marked.
fn with_marks(insert: &Insert) -> Insert {
    let mut insert = insert.clone();
    let mut body = insert.source.as_mut().map(|source| source.body.as_mut());
    while let Some(SetExpr::Query(inner)) = body {
        body = Some(inner.body.as_mut());
    }
    if let Some(SetExpr::Values(values)) = body {
        values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(mark);
    }
    insert
}

/// The value to be stored, without DataFusion's cast to the column's type, and without the mark.
pub(in crate::sql) fn without_cast(stored: &Expr) -> Expr {
    match stored {
        Expr::Cast(cast) => unmarked(&cast.expr).unwrap_or_else(|| cast.expr.as_ref().clone()),
        other => unmarked(other).unwrap_or_else(|| other.clone()),
    }
}

/// Assigns each of the VALUES of an INSERT exactly. Rows of a query are assigned when they arrive.
pub(in crate::sql) fn with_exact_values(
    rows: &LogicalPlan,
    columns: &Schema,
) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = rows else { return Ok(rows.clone()) };
    let Some(values) = values_below(&projection.input) else { return Ok(rows.clone()) };
    // The column to which each of the values goes.
    let mut targets = vec![None; values.schema.fields().len()];
    for (expr, column) in projection.expr.iter().zip(columns.columns()) {
        for used in expr.column_refs() {
            if let Some(target) =
                values.schema.maybe_index_of_column(used).and_then(|at| targets.get_mut(at))
            {
                *target = Some(column);
            }
        }
    }
    let mut assign_array = Vec::with_capacity(values.values.len());
    for row in &values.values {
        let cells = row.iter().zip(&targets).map(|(cell, target)| match target {
            Some(column) => assigned_cell(cell, column),
            None => Ok(cell.clone()),
        });
        assign_array.push(cells.collect::<Result<Vec<_>>>()?);
    }
    let fields = values.schema.iter().zip(&targets).map(|((table, field), target)| {
        let field = match target {
            Some(column) => field.as_ref().clone().with_data_type(column.data_type.to_arrow()),
            None => field.as_ref().clone(),
        };
        (table.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), values.schema.metadata().clone())?;
    let new = LogicalPlan::Values(Values { schema: Arc::new(schema), values: assign_array });
    let input = replace_values(&projection.input, new)?;
    Projection::try_new_with_schema(
        projection.expr.clone(),
        Arc::new(input),
        Arc::clone(&projection.schema),
    )
    .map(LogicalPlan::Projection)
}

/// Whether the rows of an INSERT are VALUES.
pub(in crate::sql) fn has_values(rows: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = rows else { return false };
    values_below(&projection.input).is_some()
}

/// The VALUES that a plan sorts or limits, if it does nothing else.
fn values_below(plan: &LogicalPlan) -> Option<&Values> {
    match plan {
        LogicalPlan::Values(values) => Some(values),
        LogicalPlan::Sort(sort) => values_below(&sort.input),
        LogicalPlan::Limit(limit) => values_below(&limit.input),
        _ => None,
    }
}

fn replace_values(plan: &LogicalPlan, new: LogicalPlan) -> Result<LogicalPlan> {
    let mut new = Some(new);
    let replaced = plan.clone().transform_down(|node| match (&node, new.is_some()) {
        (LogicalPlan::Values(_), true) => Ok(Transformed::yes(new.take().unwrap_or(node))),
        _ => Ok(Transformed::no(node)),
    });
    replaced.map(|replaced| replaced.data)
}

/// Assigns a literal at once, and anything else when it is computed. A placeholder stays until it
/// has a value.
fn assigned_cell(cell: &Expr, column: &Column) -> Result<Expr> {
    if has_part(cell, |part| matches!(part, Expr::Placeholder(_))) {
        return Ok(cell.clone());
    }
    // The value of a parameter keeps the parameter's name, and has a type of its own.
    let cell = &cell.clone().unalias();
    let value = without_cast(cell).unalias();
    let is_cast = matches!(cell, Expr::Cast(_));
    if !is_cast && value.get_type(&DFSchema::empty())? == column.data_type.to_arrow() {
        return Ok(value);
    }
    match as_exact_literal(value, column) {
        Expr::Literal(value, metadata) => {
            let array = assign_array(column, &value.to_array()?)?;
            Ok(Expr::Literal(ScalarValue::try_from_array(&array, 0)?, metadata))
        }
        other => Ok(ScalarUDF::from(AssignFunction::new(column)).call(vec![other])),
    }
}

/// Turns a literal that is a large double into the decimal that was written, if the column is
/// exact: `1e18` has lost nothing.
pub(in crate::sql) fn as_exact_literal(expr: Expr, column: &Column) -> Expr {
    let is_large = match &expr {
        Expr::Literal(ScalarValue::Float64(Some(double)), _) => double.abs() >= LEAST_UNCERTAIN,
        _ => false,
    };
    match exact_literal(&expr).filter(|_| is_large && is_exact(&column.data_type)) {
        Some(decimal) => Expr::Literal(decimal, None),
        None => expr,
    }
}

/// Assigns values to a column, in exactly the Arrow type that queries see.
fn assign_array(column: &Column, values: &arrow_array::ArrayRef) -> Result<arrow_array::ArrayRef> {
    let array = assign(column, values)?;
    Ok(arrow_cast::cast(&array, &column.data_type.to_arrow())?)
}

/// The function that assigns values to a column.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AssignFunction {
    name: String,
    data_type: String,
    signature: Signature,
}

impl AssignFunction {
    fn new(column: &Column) -> Self {
        AssignFunction {
            name: column.name.to_string(),
            data_type: column.data_type.to_string(),
            // Volatile, so that it is not computed before the statement runs, nor for rows that are
            // not stored.
            signature: Signature::any(1, Volatility::Volatile),
        }
    }

    fn column(&self) -> Result<Column> {
        let data_type: DataType = self.data_type.parse()?;
        let schema = Schema::from_names(vec![(self.name.as_str(), data_type)])?;
        schema
            .columns()
            .first()
            .cloned()
            .ok_or_else(|| DataFusionError::Plan("a column without a name".into()))
    }
}

impl ScalarUDFImpl for AssignFunction {
    fn name(&self) -> &'static str {
        "assign"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.column()?.data_type.to_arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let Some(first) = arguments.args.into_iter().next() else {
            return plan_err!("assign() takes one argument");
        };
        Ok(ColumnarValue::Array(assign_array(&self.column()?, &first.into_array(rows)?)?))
    }
}

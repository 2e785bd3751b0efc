//! What INSERT, UPDATE and CREATE TABLE (…) AS give to columns, in the types of the expressions
//! themselves.
//!
//! DataFusion casts what is stored to the column's type, and the cast says nothing of what it cuts
//! off. So its casts are taken out again, and values are assigned exactly (`ingest::assign`). Which
//! casts are its own is told by a mark: before a statement is planned, each value that might be a
//! cast of the user's is wrapped in a function that is nothing else.
//!
//! Rows that come from a query are planned as that query alone: DataFusion would read all VALUES
//! below an INSERT, in subqueries too, with the types of the table's columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column as ColumnName, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{
    ColumnarValue, CreateMemoryTable, DdlStatement, Expr, LogicalPlan, Projection,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Values, Volatility,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Insert, ObjectNamePart, Query, SetExpr, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::ingest::assign::{LEAST_UNCERTAIN, assign, is_exact};
use crate::model::{Column, Schema};
use crate::sql::convert::external;
use crate::sql::syntax::marks::{mark, unmarked};
use crate::sql::syntax::wildcards::WildcardExpander;
use crate::sql::types::decimals::exact_literal;
use crate::sql::walks::has_part;

/// Plans a statement; rows to be stored have the types of their query.
pub(in crate::sql) async fn plan(
    state: &SessionState,
    statement: &Statement,
    stars: &mut WildcardExpander,
) -> Result<LogicalPlan> {
    let written_out = stars.expand(state, statement).await?;
    let statement = written_out.as_ref().unwrap_or(statement);
    let Statement::Statement(parsed) = statement else {
        return state.statement_to_plan(statement.clone()).await;
    };
    match parsed.as_ref() {
        SqlStatement::Insert(insert) => match queried(insert) {
            Some(query) => {
                let rows = plan_sql(state, SqlStatement::Query(Box::new(query.clone()))).await?;
                insert_rows(state, insert, rows).await
            }
            None => plan_sql(state, SqlStatement::Insert(with_marks(insert))).await,
        },
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
            let mut marked = update.clone();
            marked.assignments.iter_mut().for_each(|assignment| mark(&mut assignment.value));
            plan_sql(state, SqlStatement::Update(marked)).await
        }
        _ => state.statement_to_plan(statement.clone()).await,
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

async fn plan_sql(state: &SessionState, statement: SqlStatement) -> Result<LogicalPlan> {
    state.statement_to_plan(Statement::Statement(Box::new(statement))).await
}

/// The query whose rows an INSERT adds; `None` where they are VALUES.
fn queried(insert: &Insert) -> Option<&Query> {
    let source = insert.source.as_deref()?;
    let mut body = source.body.as_ref();
    while let SetExpr::Query(inner) = body {
        body = inner.body.as_ref();
    }
    (!matches!(body, SetExpr::Values(_))).then_some(source)
}

/// An INSERT of the rows of a plan: where each column comes from is found out with a query of NULLs
/// in its place.
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
    let place = |expr: &Expr| -> Option<usize> {
        let columns = expr.column_refs();
        columns.iter().next()?.name.strip_prefix('c')?.parse().ok()
    };
    let exprs = projection.expr.iter().zip(projection.schema.fields()).map(|(expr, field)| {
        match place(expr) {
            Some(at) => Expr::Column(ColumnName::from(rows.schema().qualified_field(at)))
                .alias(field.name()),
            None => expr.clone(),
        }
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

fn parse_query(sql: &str) -> Result<Query> {
    match Parser::parse_sql(&DuckDbDialect {}, sql)?.pop() {
        Some(SqlStatement::Query(query)) => Ok(*query),
        _ => plan_err!("{sql} is no query"),
    }
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

/// The INSERT with marks on its VALUES.
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

/// The value that is stored, without DataFusion's cast to the column's type, and without the mark.
pub(in crate::sql) fn given(stored: &Expr) -> Expr {
    match stored {
        Expr::Cast(cast) => unmarked(&cast.expr).unwrap_or_else(|| cast.expr.as_ref().clone()),
        other => unmarked(other).unwrap_or_else(|| other.clone()),
    }
}

/// The rows of an INSERT of VALUES with each value assigned exactly; those of a query are assigned
/// when they come.
pub(in crate::sql) fn exactly(rows: &LogicalPlan, columns: &Schema) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = rows else { return Ok(rows.clone()) };
    let Some(values) = values_below(&projection.input) else { return Ok(rows.clone()) };
    // The column that each of the values is for.
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
    let mut assigned = Vec::with_capacity(values.values.len());
    for row in &values.values {
        let cells = row.iter().zip(&targets).map(|(cell, target)| match target {
            Some(column) => assigned_cell(cell, column),
            None => Ok(cell.clone()),
        });
        assigned.push(cells.collect::<Result<Vec<_>>>()?);
    }
    let new = LogicalPlan::Values(Values { schema: Arc::clone(&values.schema), values: assigned });
    let input = replace_values(&projection.input, new)?;
    Projection::try_new_with_schema(
        projection.expr.clone(),
        Arc::new(input),
        Arc::clone(&projection.schema),
    )
    .map(LogicalPlan::Projection)
}

/// The VALUES that a plan orders or cuts, if it does nothing else.
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

/// A literal at once, anything else when it is computed. What has no value yet stays as it is until
/// it has one.
fn assigned_cell(cell: &Expr, column: &Column) -> Result<Expr> {
    if has_part(cell, |part| matches!(part, Expr::Placeholder(_))) {
        return Ok(cell.clone());
    }
    let Expr::Cast(_) = cell else { return Ok(given(cell)) };
    match as_said(given(cell), column) {
        Expr::Literal(value, metadata) => {
            let array = assigned(column, &value.to_array()?)?;
            Ok(Expr::Literal(ScalarValue::try_from_array(&array, 0)?, metadata))
        }
        other => Ok(ScalarUDF::from(Assign::to(column)).call(vec![other])),
    }
}

/// A literal that is a large double, as the decimal that it says where the column is exact: `1e18`
/// has lost nothing.
pub(in crate::sql) fn as_said(expr: Expr, column: &Column) -> Expr {
    let is_large = matches!(&expr, Expr::Literal(ScalarValue::Float64(Some(double)), _) if double.abs() >= LEAST_UNCERTAIN);
    match exact_literal(&expr).filter(|_| is_large && is_exact(&column.data_type)) {
        Some(decimal) => Expr::Literal(decimal, None),
        None => expr,
    }
}

/// In exactly the Arrow type that queries see.
fn assigned(column: &Column, values: &arrow_array::ArrayRef) -> Result<arrow_array::ArrayRef> {
    let array = assign(column, values).map_err(external)?;
    Ok(arrow_cast::cast(&array, &column.data_type.to_arrow())?)
}

/// Assigns values to a column.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Assign {
    name: String,
    data_type: String,
    signature: Signature,
}

impl Assign {
    fn to(column: &Column) -> Self {
        Assign {
            name: column.name.to_string(),
            data_type: column.data_type.to_string(),
            // Not computed before the statement runs, nor for rows that are not stored.
            signature: Signature::any(1, Volatility::Volatile),
        }
    }

    fn column(&self) -> Result<Column> {
        let data_type = self.data_type.parse().map_err(external)?;
        let schema = Schema::from_names(vec![(self.name.as_str(), data_type)]).map_err(external)?;
        schema
            .columns()
            .first()
            .cloned()
            .ok_or_else(|| DataFusionError::Plan("a column without a name".into()))
    }
}

impl ScalarUDFImpl for Assign {
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
        Ok(ColumnarValue::Array(assigned(&self.column()?, &first.into_array(rows)?)?))
    }
}

//! SQL expressions over the columns of rows that are being stored: what a table is partitioned by.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_schema::{Field, Schema as ArrowSchema};
use datafusion::common::DFSchema;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::error::{Error, Result};
use crate::expr::{Expression, Traits};
use crate::ingest::partition::Compile;
use crate::model::Column;
use crate::sql::convert::{PhysicalFunction, from_arrow};
use crate::sql::functions::dates;
use crate::sql::functions::formats;
use crate::sql::functions::growing;
use crate::sql::keys::allowed;
use crate::sql::keys::bounded::Bounded;
use crate::sql::rules::lists;
use crate::sql::rules::opaque;
use crate::sql::syntax::{dialect, function_aliases, precedence, quantified};
use crate::sql::types::decimals;
use crate::sql::types::intervals;
use crate::sql::types::rounding;
use crate::sql::types::times;
use crate::sql::types::zeros;
use crate::sql::types::zones;

/// Compiles expressions with the meaning that they have in queries.
pub struct SqlExpressions {
    state: SessionState,
    cancelled: Arc<AtomicBool>,
}

impl Default for SqlExpressions {
    fn default() -> Self {
        SqlExpressions::stopped_by(Arc::default())
    }
}

impl SqlExpressions {
    /// Expressions that stop with [`Error::Cancelled`] once this is set.
    pub fn stopped_by(cancelled: Arc<AtomicBool>) -> Self {
        let mut state = SessionStateBuilder::new_with_default_features()
            .with_config(dialect::session_config())
            .build();
        let texts = formats::functions().filter(|function| function.name() == "to_char");
        let own = dates::functions().chain([zones::function(), times::date_trunc()]).chain(texts);
        // All other functions stay DataFusion's: their values decide where rows have been stored.
        for function in own {
            // Registering returns the function that it replaces.
            let _ = datafusion::execution::FunctionRegistry::register_udf(
                &mut state,
                Arc::new(function),
            );
        }
        SqlExpressions { state, cancelled }
    }
}

impl std::fmt::Debug for SqlExpressions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqlExpressions")
    }
}

impl Compile for SqlExpressions {
    fn compile(&self, expression: &str, columns: &[Column]) -> Result<Expression> {
        let fields = columns
            .iter()
            .map(|column| Field::new(&*column.name, column.data_type.to_arrow(), true));
        let schema = ArrowSchema::new(fields.collect::<Vec<_>>());
        let schema = DFSchema::try_from(schema)?;
        Ok(self.simplified(expression, &schema)?.1)
    }
}

impl SqlExpressions {
    /// An expression in the form that the optimiser gives it in plans, and compiled.
    pub(in crate::sql) fn simplified(
        &self,
        expression: &str,
        schema: &DFSchema,
    ) -> Result<(Expr, Expression)> {
        let dialect = self.state.config_options().sql_parser.dialect;
        allowed::check_text(expression, dialect)?;
        let mut parsed = dialect::parse_expression(expression, dialect)?;
        function_aliases::translate(&mut parsed.expr);
        precedence::correct(&mut parsed.expr);
        quantified::as_lists(&mut parsed.expr);
        zones::rewrite_at_time_zone(&mut parsed.expr);
        let logical = self.state.create_logical_expr_from_sql_expr(parsed, schema)?;
        if logical.is_volatile() {
            return Err(Error::InvalidInput(format!(
                "'{expression}' is not the same each time it is computed, so it cannot say where \
                 a row belongs"
            )));
        }
        allowed::check(expression, &logical)?;
        let simplified = simplify(logical, schema, &self.state)?;
        let mut compiled = compile_simplified(simplified.clone(), schema, &self.state)?;
        if let Some(function) = compiled.function.take() {
            let cancelled = Arc::clone(&self.cancelled);
            let bounded = Bounded::new(function, &simplified, schema, cancelled);
            compiled.function = Some(Arc::new(bounded));
        }
        Ok((simplified, compiled))
    }
}

/// Simplifies an expression of a statement as the rules of a session do.
pub(in crate::sql) fn simplify_statement_expr(
    expression: Expr,
    schema: &DFSchema,
    state: &SessionState,
) -> Result<Expr> {
    let expression = rounding::mark_casts(expression, schema)?.data;
    let expression = decimals::unify_numbers(expression, schema)?.data;
    let expression = times::write_out_texts(expression, schema)?.data;
    simplify(expression, schema, state)
}

/// Simplifies an expression that keys of partitions may have.
fn simplify(expression: Expr, schema: &DFSchema, state: &SessionState) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    Ok(apply_rules(expression, schema, &simplifier)?)
}

/// Applies the analyzer rules of a session to an expression, and simplifies it.
fn apply_rules(
    expression: Expr,
    schema: &DFSchema,
    simplifier: &ExprSimplifier,
) -> DataFusionResult<Expr> {
    let expression = intervals::compare_by_length(expression, schema)?.data;
    let expression = times::compare_exactly(expression, schema)?.data;
    let expression = decimals::mark_user_casts(expression)?.data;
    let expression = rounding::unmark_casts(simplifier.coerce(expression, schema)?, schema)?.data;
    let expression = decimals::with_exact_numbers(expression, schema)?;
    let expression = lists::unite(expression)?.data;
    let expression = zeros::compare_values(expression, schema)?.data;
    let expression = zones::cast_through_local_time(expression, schema)?.data;
    let expression = opaque::hidden(expression, schema)?.data;
    Ok(zeros::add_missing_zeros(simplifier.simplify(expression)?)?.data)
}

/// Compiles an expression over the columns of a schema that is simplified already.
pub(in crate::sql) fn compile_simplified(
    expression: Expr,
    schema: &DFSchema,
    state: &SessionState,
) -> Result<Expression> {
    let text = expression.to_string().into();
    let most = growing::most_bytes(&expression)?;
    let physical = state.create_physical_expr(expression, schema)?;
    let mut inputs: Vec<usize> =
        collect_columns(&physical).iter().map(|column| column.index()).collect();
    inputs.sort_unstable();
    let schema = schema.as_arrow().project(&inputs).map_err(from_arrow)?;
    let schema = Arc::new(schema);
    let physical = reassign_expr_columns(physical, &schema)?;
    let function = PhysicalFunction::new(physical, &schema)?.within(most);
    Ok(Expression {
        inputs,
        data_type: function.data_type().clone(),
        function: Some(Arc::new(function)),
        traits: Traits::default(),
        choice: None,
        text,
    })
}

//! Prepared statements of a session: PREPARE keeps a statement as parsed, EXECUTE plans it with its
//! values.
//!
//! Where this stands on the road of a query: before planning. DataFusion (55.2) would keep an
//! optimised plan instead, with the generation of the tables at that time, and which its logical
//! rules have seen before types are coerced.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::parser::{ExplainStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr as SqlExpr, ExprWithAlias, Statement as SqlStatement, Value,
    ValueWithSpan,
};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::keys::expressions;
use crate::sql::names::lock;
use crate::sql::names::parameters::Parameters;
use crate::sql::syntax::folded;
use crate::sql::walks::visit_expressions;

/// The prepared statements of a session by name, with the types of their parameters if declared.
#[derive(Debug, Default)]
pub(in crate::sql) struct Prepared {
    statements: Mutex<HashMap<String, Template>>,
}

#[derive(Clone, Debug)]
struct Template {
    types: Vec<DataType>,
    statement: SqlStatement,
}

/// What becomes of a statement that is about prepared ones.
#[derive(Debug)]
pub(in crate::sql) enum Step {
    /// Nothing more: a statement was prepared or removed.
    Done,
    /// This statement is to be run.
    Run(Box<Statement>, Parameters),
}

impl Prepared {
    /// Prepares, removes or finds a statement; `None` for other statements.
    pub(in crate::sql) fn step(
        &self,
        statement: &Statement,
        session_values: &Parameters,
        state: &SessionState,
    ) -> Result<Option<Step>> {
        let statement = match statement {
            Statement::Statement(statement) => statement,
            Statement::Explain(explain) => {
                let step = match explain.statement.as_ref() {
                    Statement::Statement(inner) => self.execute(inner, session_values, state)?,
                    _ => None,
                };
                return Ok(step.map(|(statement, parameters)| {
                    let explain =
                        ExplainStatement { statement: Box::new(statement), ..explain.clone() };
                    Step::Run(Box::new(Statement::Explain(explain)), parameters)
                }));
            }
            _ => return Ok(None),
        };
        match statement.as_ref() {
            SqlStatement::Prepare { name, data_types, statement } => {
                let template =
                    Template { types: data_types.clone(), statement: statement.as_ref().clone() };
                lock(&self.statements).insert(folded(name), template);
                Ok(Some(Step::Done))
            }
            SqlStatement::Deallocate { name, .. }
                if name.quote_style.is_none() && folded(name) == "all" =>
            {
                lock(&self.statements).clear();
                Ok(Some(Step::Done))
            }
            SqlStatement::Deallocate { name, .. } => {
                let mut statements = lock(&self.statements);
                match statements.remove(&folded(name)) {
                    Some(_) => Ok(Some(Step::Done)),
                    None => Err(missing(&folded(name), &statements)),
                }
            }
            other => {
                let found = self.execute(other, session_values, state)?;
                Ok(found.map(|(statement, parameters)| Step::Run(Box::new(statement), parameters)))
            }
        }
    }

    /// What an EXECUTE runs; `None` for other statements.
    fn execute(
        &self,
        statement: &SqlStatement,
        session_values: &Parameters,
        state: &SessionState,
    ) -> Result<Option<(Statement, Parameters)>> {
        let SqlStatement::Execute { name: Some(name), parameters, using, immediate: false, .. } =
            statement
        else {
            return Ok(None);
        };
        let name = name
            .0
            .iter()
            .filter_map(|part| part.as_ident())
            .map(folded)
            .collect::<Vec<_>>()
            .join(".");
        let statements = lock(&self.statements);
        let template = statements.get(&name).ok_or_else(|| missing(&name, &statements))?;
        let values = parameters.iter().chain(using.iter().map(|ExprWithAlias { expr, .. }| expr));
        let parameters = template.parameters(&name, values, session_values, state)?;
        Ok(Some((Statement::Statement(Box::new(template.statement.clone())), parameters)))
    }
}

impl Template {
    /// The values of the placeholders: `$1`, `$2` and so on from the EXECUTE, others from the
    /// session.
    fn parameters<'a>(
        &self,
        name: &str,
        values: impl Iterator<Item = &'a SqlExpr>,
        session_values: &Parameters,
        state: &SessionState,
    ) -> Result<Parameters> {
        let mut parameters = session_values.clone();
        let mut count = 0;
        for value in values {
            let value = match self.types.get(count) {
                Some(data_type) => SqlExpr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(value.clone()),
                    data_type: data_type.clone(),
                    array: false,
                    format: None,
                },
                None => value.clone(),
            };
            count += 1;
            parameters.set(&count.to_string(), constant(&value, state)?);
        }
        let expected = match self.types.len() {
            0 => most_placeholders(&self.statement),
            declared => declared,
        };
        // Without declared types, missing values may be those of the session.
        if count > expected || count < self.types.len() {
            return Err(Error::InvalidInput(format!(
                "EXECUTE {name} has {count} values, and the statement was prepared for {expected}"
            )));
        }
        Ok(parameters)
    }
}

/// The highest number of a placeholder that has one.
pub(super) fn most_placeholders(statement: &SqlStatement) -> usize {
    let mut most = 0;
    let _ = visit_expressions(statement, |expr| {
        if let SqlExpr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr {
            most = most.max(name.get(1..).and_then(|number| number.parse().ok()).unwrap_or(0));
        }
        ControlFlow::<()>::Continue(())
    });
    most
}

/// The value of an expression without columns.
fn constant(value: &SqlExpr, state: &SessionState) -> Result<ScalarValue> {
    let empty = DFSchema::empty();
    let unnamed = ExprWithAlias { expr: value.clone(), alias: None };
    let planned = state.create_logical_expr_from_sql_expr(unnamed, &empty)?;
    match expressions::simplify_statement_expr(planned, &empty, state)? {
        Expr::Literal(value, _) => Ok(value),
        _ => Err(Error::InvalidInput(format!(
            "{value} is not a constant, as the values of an EXECUTE must be"
        ))),
    }
}

fn missing(name: &str, statements: &HashMap<String, Template>) -> Error {
    let mut known: Vec<&str> = statements.keys().map(String::as_str).collect();
    known.sort_unstable();
    let known = match known.is_empty() {
        true => "PREPARE makes one".to_owned(),
        false => format!("there are {}", listed(known.into_iter())),
    };
    Error::NotFound(format!("no statement is prepared under the name '{name}'; {known}"))
}

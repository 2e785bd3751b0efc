//! What a statement takes and gives, before it runs: the types of its placeholders, and the columns
//! of its answer. Protocols in which clients prepare statements ask for both.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use super::divided::DividedAnswer;
use super::kept::Template;
use super::planned::Planned;
use super::prepared::most_placeholders;
use super::statement::StatementPlanner;
use super::{Session, Statement};
use crate::error::Result;
use crate::sql::names::parameters::Parameters;
use crate::sql::syntax::sql_in;
use crate::sql::write::assignments;

/// What a statement takes and gives.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// The types of `$1`, `$2` and so on: as declared, or else as the statement uses them; `None`
    /// where it does not tell.
    pub parameters: Vec<Option<ArrowType>>,
    /// The columns of the answer; `None` if the statement writes, or only changes the session.
    pub answer: Option<SchemaRef>,
}

impl Session {
    /// Plans a statement as far as is needed to say what it takes and gives; nothing is read but
    /// statistics, and nothing changes. `declared` are types of `$1`, `$2` and so on.
    pub fn describe(
        &self,
        statement: &Statement,
        declared: &[Option<ArrowType>],
    ) -> Result<Described> {
        let described = self.described(statement, declared, None);
        // What was opened for this is not what the next statement means.
        self.tables.end_statement();
        Ok(described?.0)
    }

    /// The same of a statement without parameters, with its answer in parts, `most` of them, if it
    /// is large and consists of rows of one table.
    pub fn describe_in_parts(
        &self,
        statement: &Statement,
        most: usize,
    ) -> Result<(Described, Option<DividedAnswer>)> {
        let template = Template::default();
        let divided = match self.described(statement, &[], Some(&template)) {
            Ok((described, Some(plan))) if described.parameters.is_empty() => {
                self.divided(statement, most, &plan, template).map(|parts| (described, parts))
            }
            Ok((described, _)) => Ok((described, None)),
            Err(error) => Err(error),
        };
        self.tables.end_statement();
        divided
    }

    /// What a statement takes and gives, and the plan of its answer.
    fn described(
        &self,
        statement: &Statement,
        declared: &[Option<ArrowType>],
        template: Option<&Template>,
    ) -> Result<(Described, Option<Arc<dyn ExecutionPlan>>)> {
        let parsed = &statement.parsed.statement;
        let count = sql_in(parsed).map_or(0, most_placeholders).min(MOST_PARAMETERS);
        let mut parameters: Vec<_> = declared.iter().take(MOST_PARAMETERS).cloned().collect();
        parameters.resize(count.max(parameters.len()), None);
        if parameters.iter().any(Option::is_none) {
            self.own.workers.expect_levels(statement.parsed.levels);
            let planner = StatementPlanner::new(&self.context, &self.tables, &self.prepared);
            let inferring = Box::pin(planner.parameter_types(parsed));
            let inferred = self.own.workers.run(&self.own.canceller, inferring)?;
            for (at, known) in parameters.iter_mut().enumerate() {
                if known.is_none() {
                    *known = inferred.get(&format!("${}", at + 1)).cloned().flatten();
                }
            }
        }
        if statement.changes_session() && !may_answer(parsed) {
            return Ok((Described { parameters, answer: None }, None));
        }
        let mut values = Parameters::default();
        for (at, known) in parameters.iter().enumerate() {
            let null = match known {
                Some(known) => ScalarValue::try_from(known)?,
                None => ScalarValue::Utf8View(None),
            };
            values.set(&(at + 1).to_string(), null);
        }
        let plan = match self.plan(statement, &values, template)? {
            Planned::Answer(plan) => Some(plan),
            _ => None,
        };
        let answer = plan.as_ref().map(|plan| plan.schema());
        let answer = answer.filter(|schema| !schema.fields().is_empty());
        Ok((Described { parameters, answer }, plan))
    }
}

/// The most parameters of a statement.
const MOST_PARAMETERS: usize = u16::MAX as usize;

/// Whether a statement may have an answer although it is among those that may change the session:
/// it tells of something, which planning does not change, or runs what was prepared under a name.
fn may_answer(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    matches!(
        **statement,
        SqlStatement::Execute { .. }
            | SqlStatement::Explain { .. }
            | SqlStatement::ShowCreate { .. }
            | SqlStatement::ShowFunctions { .. }
    )
}

impl StatementPlanner<'_> {
    /// The types of placeholders, as far as DataFusion finds them where they stand.
    async fn parameter_types(&self, statement: &Parsed) -> HashMap<String, Option<ArrowType>> {
        let state = self.context.state();
        let respelled = self.in_any_case(statement).await;
        let words = respelled.as_ref().map_or(statement, |respelled| &respelled.statement);
        types_in(&state, words).await
    }
}

async fn types_in(state: &SessionState, statement: &Parsed) -> HashMap<String, Option<ArrowType>> {
    // A statement that cannot be planned is refused when it is planned with values.
    let Ok(plan) = assignments::plan(state, statement).await else { return HashMap::new() };
    let mut found = plan.get_parameter_types().unwrap_or_default();
    // What DataFusion (55.2) leaves open: the argument of a cast, an array, and how many rows.
    let mut add = |expr: &Expr, known: &ArrowType| {
        if let Expr::Placeholder(Placeholder { id, .. }) = expr {
            let place = found.entry(id.clone()).or_default();
            place.get_or_insert_with(|| known.clone());
        }
    };
    let walked = plan.apply_with_subqueries(|node| {
        let of_input = |expr: &Expr| {
            node.inputs().into_iter().find_map(|input| expr.get_type(input.schema().as_ref()).ok())
        };
        if let LogicalPlan::Limit(limit) = node {
            let counts = limit.skip.iter().chain(&limit.fetch);
            counts.for_each(|expr| add(without_cast(expr), &ArrowType::Int64));
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::Cast(cast) => add(&cast.expr, cast.field.data_type()),
                    Expr::TryCast(cast) => add(&cast.expr, cast.field.data_type()),
                    // `x = ANY($1)`
                    Expr::ScalarFunction(call) if call.func.name() == "array_has" => {
                        if let [array, item] = call.args.as_slice()
                            && let Some(item) = of_input(item).filter(|item| !item.is_null())
                        {
                            add(array, &ArrowType::new_list(item, true));
                        }
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    match walked {
        Ok(_) => found,
        Err(_) => HashMap::new(),
    }
}

fn without_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => without_cast(&cast.expr),
        other => other,
    }
}

//! Statements that are refused before they run, and what to write instead.
//!
//! Where this stands on the road of a query: between DataFusion's first plan and what is done with
//! it.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, SetVariable, Statement as PlannedStatement,
};
use datafusion::prelude::SessionConfig;

use super::defaults::begun_with;
use super::memory_settings;
use crate::error::{Error, Result};
use crate::sql::convert::suggestion;
use crate::sql::names::catalog::files_refused;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::syntax::macros;
use crate::sql::walks::any_node;

/// The error of a statement of a kind that does not run, with what to write instead.
pub(super) fn refuse<T>(what: &str, instead: &str) -> Result<T> {
    Err(Error::Unsupported(format!("{what}; {instead}")))
}

/// What the names of our own settings begin with.
const OURS: &str = "sty.";

/// Refuses statements that cannot run. An INSERT is explained by the query that gives its rows.
/// `config` is that of the session.
pub(super) fn check_supported(plan: LogicalPlan, config: &SessionConfig) -> Result<LogicalPlan> {
    // Also within EXPLAIN ANALYZE, which runs what it explains.
    if any_node(&plan, |node| matches!(node, LogicalPlan::Copy(_))) {
        return refuse(
            "COPY … TO does not write files",
            "use `sty query --format` and redirect its output",
        );
    }
    match plan {
        LogicalPlan::Explain(mut explain) => {
            explain.plan = match explain.plan.as_ref() {
                LogicalPlan::Dml(statement) => Arc::clone(&statement.input),
                LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                    Arc::clone(&create.input)
                }
                _ => explain.plan,
            };
            Ok(LogicalPlan::Explain(explain))
        }
        // DataFusion (55.2) would make one in memory, whose tables nobody could write or keep.
        LogicalPlan::Ddl(DdlStatement::CreateCatalog(mut create)) => {
            if !create.if_not_exists || ![CATALOG, SCHEMA].contains(&create.catalog_name.as_str()) {
                let what =
                    format!("CREATE DATABASE {}: a store is one database", create.catalog_name);
                return refuse(&what, "another directory is another store, which ATTACH reads");
            }
            CATALOG.clone_into(&mut create.catalog_name);
            Ok(LogicalPlan::Ddl(DdlStatement::CreateCatalog(create)))
        }
        LogicalPlan::Analyze(analyze)
            if matches!(*analyze.input, LogicalPlan::Dml(_) | LogicalPlan::Ddl(_)) =>
        {
            refuse("EXPLAIN ANALYZE does not write", "use it on the query alone")
        }
        LogicalPlan::Statement(PlannedStatement::SetVariable(set)) => {
            memory_settings::check_set(&set.variable, &set.value)?;
            Ok(LogicalPlan::Statement(PlannedStatement::SetVariable(set)))
        }
        LogicalPlan::Statement(PlannedStatement::ResetVariable(reset)) => {
            memory_settings::check_reset(&reset.variable)?;
            let variable = reset.variable.to_ascii_lowercase();
            // DataFusion (55.2) does not reset what an extension sets, and gives others its own
            // defaults.
            let value = match variable.starts_with(OURS) {
                true => Some("default".to_owned()),
                false => begun_with(config, &variable),
            };
            Ok(LogicalPlan::Statement(match value {
                Some(value) => PlannedStatement::SetVariable(SetVariable { variable, value }),
                None => PlannedStatement::ResetVariable(reset),
            }))
        }
        other => Ok(other),
    }
}

/// Refuses what reaches files outside the store by other ways than the name of a table.
pub(super) fn refuse_files(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => {
            Err(files_refused(&format!("CREATE EXTERNAL TABLE {}", create.name)))
        }
        LogicalPlan::Statement(PlannedStatement::SetVariable(set))
            if set.variable.to_ascii_lowercase().starts_with("datafusion.runtime.") =>
        {
            Err(files_refused(&format!("SET {}", set.variable)))
        }
        _ => Ok(()),
    }
}

/// The message about a function that is not known, with the nearest of all that are.
pub(super) fn unknown_function(what: &str, state: &SessionState) -> Option<String> {
    let (name, rest) = what.strip_prefix("Invalid function '")?.split_once('\'')?;
    let place = rest.rfind(" (line ").and_then(|at| rest.get(at..)).unwrap_or_default();
    if state.window_functions().contains_key(name) {
        return Some(format!(
            "{name} is a function of windows: {name}(…) OVER (ORDER BY …){place}"
        ));
    }
    let (scalar, aggregate) = (state.scalar_functions(), state.aggregate_functions());
    let known = scalar.keys().chain(aggregate.keys()).chain(state.window_functions().keys());
    let known = known.map(String::as_str).filter(|known| !known.starts_with("sty__"));
    let mut known: Vec<&str> = known.collect();
    macros::names().for_each(|name| known.push(name));
    let near = suggestion(name, known.into_iter());
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "docs/sql.md lists what is there".to_owned(),
    };
    Some(format!("no function {name}; {hint}{place}"))
}

//! Corrections of statements between the parser and the planner.
//!
//! Where this stands on the road of a query: first. `parse` lists, in order, the corrections that
//! every statement goes through; the others are tried if a statement cannot be planned as it is
//! written.

pub(in crate::sql) mod any_case;
#[cfg(test)]
mod any_case_tests;
pub(in crate::sql) mod array_queries;
pub(in crate::sql) mod chains;
pub(in crate::sql) mod column_aliases;
pub(in crate::sql) mod changing;
pub(in crate::sql) mod columns;
pub(in crate::sql) mod date_parts;
pub(in crate::sql) mod dialect;
pub(in crate::sql) mod file_functions;
pub(in crate::sql) mod frames;
pub(in crate::sql) mod from_first;
pub(in crate::sql) mod json_rows;
pub(in crate::sql) mod lateral_aliases;
pub(in crate::sql) mod lexemes;
pub(in crate::sql) mod ignored;
pub(in crate::sql) mod implicit_groups;
pub(in crate::sql) mod join_words;
pub(in crate::sql) mod limit_by;
pub(in crate::sql) mod literals;
pub(in crate::sql) mod macros;
pub(in crate::sql) mod marks;
pub(in crate::sql) mod misspelt;
pub(in crate::sql) mod named_tables;
pub(in crate::sql) mod named_windows;
pub(in crate::sql) mod nesting;
pub(in crate::sql) mod operators;
pub(in crate::sql) mod order_names;
pub(in crate::sql) mod outer_names;
pub(in crate::sql) mod outer_tables;
pub(in crate::sql) mod ordinals;
pub(in crate::sql) mod function_aliases;
pub(in crate::sql) mod output_names;
pub(in crate::sql) mod parse;
pub(in crate::sql) mod pivots;
pub(in crate::sql) mod placeholders;
pub(in crate::sql) mod precedence;
pub(in crate::sql) mod qualified;
pub(in crate::sql) mod quantified;
pub(in crate::sql) mod recursive;
pub(in crate::sql) mod repeated;
pub(in crate::sql) mod rewrite;
pub(in crate::sql) mod row_values;
pub(in crate::sql) mod samples;
pub(in crate::sql) mod scopes;
pub(in crate::sql) mod shadowed;
pub(in crate::sql) mod short_forms;
pub(in crate::sql) mod show;
pub(in crate::sql) mod similar;
pub(in crate::sql) mod sites;
pub(in crate::sql) mod size;
pub(in crate::sql) mod slices;
pub(in crate::sql) mod standard;
pub(in crate::sql) mod table_functions;
pub(in crate::sql) mod underscores;
pub(in crate::sql) mod used_schema;
pub(in crate::sql) mod values;
pub(in crate::sql) mod volatile;
pub(in crate::sql) mod whole_rows;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Statement as SqlStatement};

/// The SQL statement, or the one that is explained or prepared. DataFusion's own statements have
/// none.
pub(in crate::sql) fn sql_of(statement: &mut Statement) -> Option<&mut SqlStatement> {
    match statement {
        Statement::Statement(statement) => match statement.as_mut() {
            SqlStatement::Prepare { statement, .. } => Some(statement),
            other => Some(other),
        },
        Statement::Explain(explain) => sql_of(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => None,
    }
}

/// The syntax tree of a statement; for EXPLAIN, that of the statement it explains.
pub(in crate::sql) fn sql_in(statement: &Statement) -> Option<&SqlStatement> {
    match statement {
        Statement::Statement(sql) => Some(sql),
        Statement::Explain(explain) => sql_in(&explain.statement),
        _ => None,
    }
}

/// Whether an expression is a subquery, or a test that has one.
fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
    )
}

/// A name as SQL reads it: in lower case unless it is quoted.
pub(in crate::sql) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

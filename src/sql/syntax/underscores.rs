//! Refuses numbers written with underscores: `1_000`.
//!
//! Where this stands on the road of a query: after parsing. sqlparser (0.62) reads `1_000` as `1 AS
//! _000` in DuckDB's dialect.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, Spanned, Statement, Visitor,
};

use crate::error::{Error, Result};
use crate::sql::walks::visit;

/// Refuses a statement that has such a number.
pub(in crate::sql) fn check(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Underscores) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(number) => Err(Error::InvalidInput(format!(
            "{number}: numbers are written without underscores; write {}",
            number.replace('_', "")
        ))),
    }
}

struct Underscores;

impl Visitor for Underscores {
    type Break = String;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && let Some(number) = number(expr, alias)
            {
                return ControlFlow::Break(number);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The number that was meant, if an alias directly follows an expression that ends with digits.
fn number(expr: &Expr, alias: &Ident) -> Option<String> {
    let is_rest =
        alias.value.starts_with('_') && alias.value.chars().all(|c| c == '_' || c.is_ascii_digit());
    if alias.quote_style.is_some() || !is_rest || expr.span().end != alias.span.start {
        return None;
    }
    let text = expr.to_string();
    let before = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
    let digits = text
        .strip_prefix(before)
        .filter(|digits| digits.ends_with(|c: char| c.is_ascii_digit()))?;
    Some(format!("{digits}{}", alias.value))
}

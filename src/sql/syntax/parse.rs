//! Parses text into statements, and corrects what DataFusion would understand differently.
//!
//! Where this stands on the road of a query: first. Everything that changes each statement between
//! the parser and the planner is listed here, in order.

use datafusion::common::config::Dialect;
use datafusion::sql::parser::{DFParserBuilder, Statement};

use crate::error::Result;
use crate::sql::syntax::placeholders::allow_names;
use crate::sql::syntax::{
    dialect, frames, from_first, function_aliases, nesting, order_names, precedence, quantified,
    repeated, row_values, similar, sql_of, standard, underscores, values,
};
use crate::sql::types::decimals;
use crate::sql::types::times;
use crate::sql::types::zones;

/// How deeply a statement may be nested. Each level takes some kilobytes of stack, which grows on
/// the heap.
const MAX_NESTING: usize = 400;

/// Splits a text into statements at `;`.
pub(in crate::sql) fn statements(sql: &str, dialect: Dialect) -> Result<Vec<Statement>> {
    let dialect = dialect::from_name(dialect)?;
    let mut statements = DFParserBuilder::new(sql)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(MAX_NESTING)
        .build()
        .and_then(|mut parser| parser.parse_statements())?;
    for statement in &mut statements {
        if let Some(sql) = sql_of(statement) {
            nesting::check(sql)?;
            from_first::complete(sql);
            values::as_selects(sql);
            function_aliases::translate(sql);
            similar::as_regexes(sql)?;
            precedence::correct(sql);
            quantified::as_lists(sql);
            standard::reword(sql);
            row_values::expand(sql);
            frames::write_out(sql);
            decimals::keep_digits(sql);
            repeated::remove(sql);
            order_names::number_distinct(sql);
            zones::rewrite_at_time_zone(sql);
            times::correct_literals(sql);
            allow_names(sql);
            underscores::check(sql)?;
        }
    }
    Ok(statements.into())
}

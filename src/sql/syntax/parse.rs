//! Parses text into statements, and corrects what DataFusion would understand differently.
//!
//! Where this stands on the road of a query: first. Everything that changes each statement between
//! the parser and the planner is listed here, in order.

use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::Dialect as Syntax;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, Tokenizer};

use crate::error::Result;
use crate::sql::stack::with_syntax_levels;
use crate::sql::syntax::placeholders::allow_names;
use crate::sql::syntax::{
    chains, dialect, file_functions, frames, from_first, function_aliases, nesting, order_names,
    output_names, precedence, quantified, repeated, row_values, show, similar, size, sql_of,
    standard, underscores, values,
};
use crate::sql::types::decimals;
use crate::sql::types::times;
use crate::sql::types::zones;

/// How deeply a statement may be nested. Each level takes some kilobytes of stack, which grows on
/// the heap.
const MAX_NESTING: usize = 400;

/// A statement, and how many levels deep an expression of it may become when it is planned.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Parsed {
    pub(in crate::sql) statement: Statement,
    /// The statement as it is written, but for blanks and case.
    pub(in crate::sql) text: String,
    pub(in crate::sql) levels: usize,
}

/// Splits a text into statements at `;`. Each may use `memory` bytes.
pub(in crate::sql) fn statements(sql: &str, dialect: Dialect, memory: u64) -> Result<Vec<Parsed>> {
    let dialect = dialect::from_name(dialect, sql.len())?;
    let tokens = Tokenizer::new(dialect.as_ref(), sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| {
        DataFusionError::SQL(Box::new(ParserError::TokenizerError(error.to_string())), None)
    })?;
    size::check_words(&tokens, memory)?;
    let levels = chains::most_levels(&tokens)?;
    with_syntax_levels(levels, || corrected(tokens, dialect.as_ref()))
}

fn corrected(tokens: Vec<TokenWithSpan>, dialect: &dyn Syntax) -> Result<Vec<Parsed>> {
    let statements = DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(MAX_NESTING)
        .build()
        .and_then(|mut parser| parser.parse_statements())?;
    let mut parsed = Vec::with_capacity(statements.len());
    for mut statement in statements {
        let (mut levels, text) = (0, statement.to_string());
        if let Some(sql) = sql_of(&mut statement) {
            levels = chains::limit(sql)?;
            nesting::check(sql)?;
            size::check(sql)?;
            from_first::complete(sql);
            show::reword(sql);
            output_names::set(sql);
            file_functions::as_names(sql);
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
        parsed.push(Parsed { statement, text, levels });
    }
    Ok(parsed)
}

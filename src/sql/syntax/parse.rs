//! Parses text into statements, and corrects what DataFusion would understand differently.
//!
//! Where this stands on the road of a query: first. Everything that changes each statement between
//! the parser and the planner is listed here, in order.

use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, Value};
use datafusion::sql::sqlparser::dialect::Dialect as Syntax;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::{Error, Result};
use crate::sql::stack::with_syntax_levels;
use crate::sql::syntax::placeholders::allow_names;
use crate::sql::syntax::{
    array_queries, chains, changing, column_aliases, date_parts, dialect, file_functions, frames,
    from_first, function_aliases, ignored, join_words, limit_by, macros, misspelt, named_windows,
    nesting, operators, order_names, outer_names, output_names, precedence, qualified, quantified,
    recursive, repeated, row_values, samples, shadowed, short_forms, show, similar, size, slices,
    sql_of, standard, table_functions, underscores, values,
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
    /// Where the rows go, if the statement is a COPY … TO.
    pub(in crate::sql) copy: Option<CopyTarget>,
    /// What else a CREATE VIEW says.
    pub(in crate::sql) view: Option<CreatedView>,
}

/// What a CREATE VIEW says that is not for DataFusion to plan.
#[derive(Clone, Debug)]
pub(in crate::sql) struct CreatedView {
    /// The whole statement, word for word.
    pub(in crate::sql) text: String,
    /// Whether the view ends with its session.
    pub(in crate::sql) temporary: bool,
    pub(in crate::sql) if_not_exists: bool,
}

impl CreatedView {
    fn of(statement: &Statement, text: &str) -> Option<CreatedView> {
        let Statement::Statement(statement) = statement else { return None };
        let SqlStatement::CreateView(view) = statement.as_ref() else { return None };
        let (temporary, if_not_exists) = (view.temporary, view.if_not_exists);
        Some(CreatedView { text: text.to_owned(), temporary, if_not_exists })
    }
}

/// The file of a COPY … TO, and its options, with names in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTarget {
    /// The name of the file.
    pub file: String,
    /// Such as `format` and `header`.
    pub options: Vec<(String, String)>,
}

/// The query whose rows a COPY … TO writes, and where they go.
fn copied(statement: Statement, dialect: &dyn Syntax) -> Result<(Statement, Option<CopyTarget>)> {
    let Statement::CopyTo(copy) = statement else { return Ok((statement, None)) };
    let query = match copy.source {
        CopyToSource::Query(query) => query,
        CopyToSource::Relation(name) => {
            let sql = format!("SELECT * FROM {name}");
            let parsed = Parser::new(dialect).try_with_sql(&sql);
            let parsed = parsed.and_then(|mut parser| parser.parse_query());
            parsed.map_err(|error| DataFusionError::SQL(Box::new(error), None))?
        }
    };
    let mut options: Vec<(String, String)> = copy
        .options
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                Value::SingleQuotedString(text) => text,
                other => other.to_string(),
            };
            (name.to_ascii_lowercase(), value)
        })
        .collect();
    options.extend(copy.stored_as.map(|format| ("format".to_owned(), format)));
    if !copy.partitioned_by.is_empty() {
        options.push(("partition_by".to_owned(), copy.partitioned_by.join(",")));
    }
    let query = Statement::Statement(Box::new(SqlStatement::Query(query)));
    Ok((query, Some(CopyTarget { file: copy.target, options })))
}

/// Splits a text into statements at `;`. Each may use `memory` bytes.
pub(in crate::sql) fn statements(sql: &str, dialect: Dialect, memory: u64) -> Result<Vec<Parsed>> {
    size::check_bytes(sql, memory)?;
    let dialect = dialect::from_name(dialect, sql.len())?;
    let tokens = Tokenizer::new(dialect.as_ref(), sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| {
        DataFusionError::SQL(Box::new(ParserError::TokenizerError(error.to_string())), None)
    })?;
    tokens.iter_mut().for_each(|token| plain_text(&mut token.token));
    size::check_words(&tokens, memory)?;
    let written = match short_forms::may_hide_text(&tokens) || tokens.iter().any(is_view) {
        true => texts(&tokens, sql),
        false => Vec::new(),
    };
    let tokens = short_forms::write_out(tokens)?;
    let levels = chains::most_levels(&tokens)?;
    with_syntax_levels(levels, || corrected(tokens, written, dialect.as_ref()))
        .map_err(|error| with_hint(error, sql, dialect.as_ref()))
}

/// A message of the parser with the keyword that may be meant at its place.
fn with_hint(error: Error, sql: &str, dialect: &dyn Syntax) -> Error {
    let Error::InvalidInput(what) = &error else { return error };
    let place = what.rsplit_once("(line ").and_then(|(_, place)| {
        let (line, column) = place.strip_suffix(')')?.split_once(", column ")?;
        Some((line.parse().ok()?, column.parse().ok()?))
    });
    let at_end = what.ends_with("found: the end of the statement");
    let Some((line, column)) = place.or(at_end.then_some((u64::MAX, 0))) else { return error };
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize_with_location() else { return error };
    match what.starts_with("Expected: ").then(|| misspelt::hint(&tokens, line, column)).flatten() {
        Some(hint) => Error::InvalidInput(format!("{what}; {hint}")),
        None => error,
    }
}

/// Texts with escapes are texts: their escapes have been read, and they stand wherever others do.
fn plain_text(token: &mut Token) {
    if let Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) = token {
        *token = Token::SingleQuotedString(std::mem::take(text));
    }
}

fn is_view(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == Keyword::VIEW)
}

/// The statements as they are written, from the first word to the last.
fn texts(tokens: &[TokenWithSpan], sql: &str) -> Vec<String> {
    let is_blank = |one: &&TokenWithSpan| matches!(one.token, Token::Whitespace(_) | Token::EOF);
    let mut places = Places::new(sql);
    let statements = tokens.split(|token| token.token == Token::SemiColon);
    let texts = statements.filter_map(|tokens| {
        let mut words = tokens.iter().filter(|one| !is_blank(one));
        let first = words.next()?;
        let last = words.next_back().unwrap_or(first);
        let start = places.find(first.span.start);
        sql.get(start..places.find(last.span.end)).map(str::to_owned)
    });
    texts.collect()
}

/// From lines and columns to offsets in a text, in rising order.
struct Places<'s> {
    characters: std::str::CharIndices<'s>,
    length: usize,
    line: u64,
    column: u64,
}

impl<'s> Places<'s> {
    fn new(sql: &'s str) -> Self {
        Places { characters: sql.char_indices(), length: sql.len(), line: 1, column: 1 }
    }

    fn find(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.characters.next() {
                Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => return self.length,
            }
        }
        self.characters.offset()
    }
}

fn corrected(
    tokens: Vec<TokenWithSpan>,
    written: Vec<String>,
    dialect: &dyn Syntax,
) -> Result<Vec<Parsed>> {
    let statements = DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(MAX_NESTING)
        .build()
        .and_then(|mut parser| parser.parse_statements())?;
    let mut parsed = Vec::with_capacity(statements.len());
    let mut written = written.into_iter();
    for mut statement in statements {
        let (mut levels, mut text) = (0, statement.to_string());
        let copy;
        (statement, copy) = copied(statement, dialect)?;
        let written = written.next();
        let view = CreatedView::of(&statement, written.as_ref().unwrap_or(&text));
        // Words of ours are none of the statement as it is written.
        let has_ours = text.contains("sty__") || text.contains(short_forms::ASOF);
        if let Some(written) = written.filter(|_| has_ours) {
            text = written;
        }
        if let Some(sql) = sql_of(&mut statement) {
            levels = chains::limit(sql)?;
            nesting::check(sql)?;
            size::check(sql)?;
            ignored::refuse(sql)?;
            changing::reword(sql)?;
            from_first::complete(sql);
            join_words::reword(sql)?;
            show::reword(sql);
            short_forms::restore_calls(sql);
            output_names::set(sql);
            shadowed::rename(sql);
            recursive::keep_clauses(sql)?;
            array_queries::write_out(sql);
            qualified::alias(sql)?;
            operators::as_calls(sql)?;
            slices::close(sql);
            samples::as_queries(sql)?;
            file_functions::as_names(sql);
            table_functions::name_columns(sql);
            outer_names::keep(sql);
            values::as_selects(sql);
            column_aliases::in_from(sql);
            function_aliases::translate(sql);
            date_parts::as_calls(sql);
            macros::expand(sql)?;
            similar::as_regexes(sql)?;
            precedence::correct(sql);
            quantified::as_lists(sql);
            limit_by::as_filters(sql)?;
            standard::reword(sql)?;
            row_values::expand(sql)?;
            named_windows::write_out(sql)?;
            frames::write_out(sql);
            decimals::keep_digits(sql);
            repeated::remove(sql);
            order_names::number_distinct(sql);
            zones::rewrite_at_time_zone(sql);
            times::correct_literals(sql);
            allow_names(sql);
            underscores::check(sql)?;
        }
        parsed.push(Parsed { statement, text, levels, copy, view });
    }
    Ok(parsed)
}

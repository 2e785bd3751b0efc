//! The dialect of statements and expressions: DuckDB's with PostgreSQL's `a ^@ b`, `a && b`,
//! `x BETWEEN SYMMETRIC a AND b` and texts with escapes (`E'…'` and `U&'…'`), and texts that go on
//! behind a line end (`'a'⏎'b'`), except that the argument of `f(a = 1)` is a comparison, and that
//! `||` binds less tightly than arithmetic and `^` more tightly, as they do in DuckDB itself. `->`
//! and the other operators of JSON texts bind as tightly as `||`, as in PostgreSQL, and `a -> b` is
//! a lambda only where a function takes one.
//!
//! Where this stands on the road of a query: first, in the parser. In DuckDB's dialect, sqlparser
//! (0.62) takes `a = 1` for a named argument, in aggregates too, and refuses `count(a = 1)`. Named
//! arguments are written with `=>` and `:=`. sqlparser also lets `||` bind as tightly as `*`, so
//! that `'a' || 2 * 3` multiplies a text. Where an expression can be read in two ways, sqlparser
//! tries one after the other: of `INTERVAL INTERVAL INTERVAL …` and `CAST(CAST(CAST( …` that end in
//! an error it tries 2ⁿ, so this dialect counts. Otherwise it equals `DuckDbDialect`, and passes
//! for it wherever sqlparser asks for the type of the dialect.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::common::config::Dialect as Name;
use datafusion::execution::config::SessionConfig;
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, ExprWithAlias, Ident, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, DuckDbDialect, Precedence, dialect_from_str};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{Error, Result};
use crate::sql::walks::function_call;

/// How often the parser may try to read an expression: this often for each byte of the text, and
/// this often beside that. Valid SQL needs fewer than ten attempts a byte.
const ATTEMPTS: u64 = 64;
const MORE_ATTEMPTS: u64 = 1 << 14;

/// The dialect for a text of this many bytes.
pub(in crate::sql) fn from_name(name: Name, bytes: usize) -> Result<Box<dyn Dialect>> {
    match name {
        Name::DuckDB => Ok(Box::new(StylobateDialect::new(bytes))),
        other => dialect_from_str(other)
            .ok_or_else(|| Error::InvalidInput(format!("unknown SQL dialect {other}"))),
    }
}

pub(in crate::sql) fn parse_expression(sql: &str, name: Name) -> Result<ExprWithAlias> {
    let dialect = from_name(name, sql.len())?;
    let expression = DFParserBuilder::new(sql)
        .with_dialect(dialect.as_ref())
        .build()
        .and_then(|mut parser| parser.parse_into_expr())?;
    Ok(expression)
}

/// The dialect that is understood unless a session chooses another one.
#[derive(Debug)]
pub(in crate::sql) struct StylobateDialect {
    /// Attempts at an expression that are left.
    attempts: Cell<u64>,
}

impl StylobateDialect {
    /// For one text of this many bytes.
    pub(in crate::sql) fn new(bytes: usize) -> Self {
        let attempts = (bytes as u64).saturating_mul(ATTEMPTS).saturating_add(MORE_ATTEMPTS);
        StylobateDialect { attempts: Cell::new(attempts) }
    }
}

/// Functions that take a lambda behind a list.
const OF_LAMBDAS: [&str; 11] = [
    "any_match",
    "array_any_match",
    "array_apply",
    "array_filter",
    "array_first",
    "array_transform",
    "list_any_match",
    "list_apply",
    "list_filter",
    "list_first",
    "list_transform",
];
/// How many tokens are looked at for the call that an expression is an argument of.
const TOKENS: usize = 1 << 16;

/// A name, or a name or text in parentheses, that `->` follows without beginning a lambda, and the
/// number of its tokens.
fn before_field(parser: &Parser) -> Option<(Expr, usize)> {
    let peek = |at| &parser.peek_nth_token_ref(at).token;
    let place = usize::from(*peek(0) == Token::LParen);
    let end = match (place, peek(place + 1)) {
        (0, Token::Arrow) => 1,
        (1, Token::RParen) if *peek(3) == Token::Arrow => 3,
        _ => return None,
    };
    let json = match peek(place) {
        Token::Word(name) if !LITERALS.contains(&name.keyword) => Expr::Identifier(Ident {
            value: name.value.clone(),
            quote_style: name.quote_style,
            span: parser.peek_nth_token_ref(place).span,
        }),
        Token::SingleQuotedString(text) if place == 1 => {
            Expr::value(Value::SingleQuotedString(text.clone()))
        }
        _ => return None,
    };
    let json = if place == 1 { Expr::Nested(Box::new(json)) } else { json };
    (!may_be_lambda(parser)).then_some((json, end))
}

/// Words that are values.
const LITERALS: [Keyword; 3] = [Keyword::FALSE, Keyword::NULL, Keyword::TRUE];
/// Keywords that an argument has only within parentheses of its own.
const CLAUSES: [Keyword; 4] = [Keyword::FROM, Keyword::HAVING, Keyword::SELECT, Keyword::WHERE];

/// Whether an expression that comes next may be a lambda: the argument of `COLUMNS`, or one behind
/// the first of the others that take any.
fn may_be_lambda(parser: &Parser) -> bool {
    let last = parser.get_current_index();
    let mut tokens = (0..=last).rev().take(TOKENS).map(|at| &parser.token_at(at).token);
    let (mut depth, mut is_first) = (0_usize, true);
    for token in tokens.by_ref() {
        match token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LBracket | Token::LBrace if depth == 0 => return false,
            Token::LParen | Token::LBracket | Token::LBrace => depth -= 1,
            Token::Comma if depth == 0 => is_first = false,
            Token::Word(word) if depth == 0 && CLAUSES.contains(&word.keyword) => return false,
            Token::SemiColon => return false,
            _ => {}
        }
    }
    match tokens.find(|token| !matches!(token, Token::Whitespace(_))) {
        Some(Token::Word(name)) if is_first => name.value.eq_ignore_ascii_case("columns"),
        Some(Token::Word(name)) => {
            OF_LAMBDAS.iter().any(|known| known.eq_ignore_ascii_case(&name.value))
        }
        _ => false,
    }
}

/// What stands before the first bound of `x BETWEEN SYMMETRIC a AND b`, which `macros` writes out.
pub(in crate::sql) const SYMMETRIC: &str = "SYMMETRIC";
/// What BETWEEN means without a word.
const ASYMMETRIC: &str = "ASYMMETRIC";

/// `x BETWEEN SYMMETRIC a AND b`, `x NOT BETWEEN ASYMMETRIC a AND b`.
fn between(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Option<std::result::Result<Expr, ParserError>> {
    let is_word = |at: usize, word: &str| match &parser.peek_nth_token_ref(at).token {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let negated = is_word(0, "NOT");
    let at = usize::from(negated);
    let is_symmetric = is_word(at + 1, SYMMETRIC);
    let has_word = is_symmetric || is_word(at + 1, ASYMMETRIC);
    if !is_word(at, "BETWEEN") || !has_word || is_word(at + 2, "AND") {
        return None;
    }
    (0..at + 2).for_each(|_| parser.advance_token());
    let bounds = parser.parse_subexpr(precedence).and_then(|low| {
        parser.expect_keyword(Keyword::AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    });
    Some(bounds.map(|(low, high)| {
        let low = match is_symmetric {
            true => Expr::Prefixed { prefix: Ident::new(SYMMETRIC), value: Box::new(low) },
            false => low,
        };
        let (low, high) = (Box::new(low), Box::new(high));
        Expr::Between { expr: Box::new(left.clone()), negated, low, high }
    }))
}

/// Defines methods that return true.
macro_rules! yes {
    ($($method:ident)*) => {
        $(fn $method(&self) -> bool {
            true
        })*
    };
}

impl Dialect for StylobateDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<DuckDbDialect>()
    }

    fn is_identifier_start(&self, character: char) -> bool {
        DuckDbDialect {}.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        DuckDbDialect {}.is_identifier_part(character)
    }

    /// `a STRAIGHT_JOIN b` is what `short_forms` makes of an ASOF JOIN.
    fn is_table_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        *keyword != Keyword::STRAIGHT_JOIN && !RESERVED_FOR_TABLE_ALIAS.contains(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<std::result::Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::StringConcat
            | Token::Arrow
            | Token::LongArrow
            | Token::HashArrow
            | Token::HashLongArrow => Some(Ok(self.prec_value(Precedence::PlusMinus) - 1)),
            Token::Caret => Some(Ok(self.prec_value(Precedence::MulDivModOp) + 1)),
            Token::CaretAt | Token::Overlap => Some(Ok(self.prec_value(Precedence::PgOther))),
            _ => None,
        }
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<std::result::Result<Expr, ParserError>> {
        let Some(left) = self.attempts.get().checked_sub(1) else {
            // The only error after which the parser does not try something else.
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.attempts.set(left);
        if let Some((json, tokens)) = before_field(parser) {
            (0..tokens).for_each(|_| parser.advance_token());
            return Some(Ok(json));
        }
        // The parser takes texts with escapes in other dialects only.
        let (Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text)) =
            &parser.peek_token_ref().token
        else {
            return None;
        };
        let text = Value::SingleQuotedString(text.clone());
        parser.advance_token();
        Some(Ok(Expr::value(text)))
    }

    /// `a ^@ b` is `starts_with(a, b)`; `a && b` is of PostgreSQL; and what is between bounds in
    /// either order.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<std::result::Result<Expr, ParserError>> {
        let is_overlap = match parser.peek_token_ref().token {
            Token::CaretAt => false,
            Token::Overlap => true,
            _ => return between(parser, left, precedence),
        };
        parser.advance_token();
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| match is_overlap {
            true => Expr::BinaryOp {
                left: Box::new(left.clone()),
                op: BinaryOperator::PGOverlap,
                right: Box::new(right),
            },
            false => function_call("starts_with", vec![left.clone(), right]),
        }))
    }

    // All that `DuckDbDialect` has, except supports_named_fn_args_with_eq_operator, and more.
    yes! {
        supports_nested_comments
        supports_string_literal_concatenation_with_newline
        supports_select_wildcard_rename
        supports_limit_by
        supports_group_by_with_modifier
        supports_trailing_commas
        supports_filter_during_aggregation
        supports_group_by_expr
        supports_bitwise_shift_operators
        supports_named_fn_args_with_assignment_operator
        supports_dictionary_syntax
        support_map_literal_syntax
        supports_lambda_functions
        allow_extract_single_quotes
        supports_explain_with_utility_options
        supports_load_extension
        supports_array_typedef_with_brackets
        supports_from_first_select
        supports_order_by_all
        supports_select_wildcard_exclude
        supports_notnull_operator
        supports_install
        supports_detach
        supports_select_wildcard_replace
        supports_comma_separated_trim
        supports_window_function_null_treatment_arg
        allow_extract_custom
        supports_string_escape_constant
        supports_unicode_string_literal
    }
}

/// A configuration with our dialect: the most liberal one with both PostgreSQL's and DuckDB's
/// everyday syntax.
pub(in crate::sql) fn session_config() -> SessionConfig {
    let mut config = SessionConfig::new();
    let options = &mut config.options_mut().sql_parser;
    options.dialect = Name::DuckDB;
    // `rules::inner_orders` drops the orders that nobody sees.
    options.enable_subquery_sort_elimination = false;
    config
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::sql::sqlparser::dialect::{Dialect, DuckDbDialect};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::{Name, StylobateDialect, parse_expression};

    #[test]
    fn all_but_named_arguments_is_parsed_as_in_duckdb() {
        assert!((&StylobateDialect::new(0) as &dyn Dialect).is::<DuckDbDialect>());
        for sql in [
            "FROM t",
            "SELECT {'a': 1}, MAP {1: 2}, f(a := 1), x NOTNULL, * EXCLUDE (a), FROM t ORDER BY ALL",
        ] {
            let read = |dialect: &dyn Dialect| Parser::parse_sql(dialect, sql).unwrap();
            assert_eq!(read(&StylobateDialect::new(sql.len())), read(&DuckDbDialect {}), "{sql}");
        }
    }

    #[test]
    fn readings_that_double_at_each_level_end() {
        for (open, close) in [
            ("INTERVAL ", "CAST(INTERVAL )"),
            ("CAST(", "IS NOT NULL NOT NOT"),
            ("CASE WHEN ", "THEN THEN"),
            ("EXTRACT(", "FROM FROM"),
            ("SUBSTRING(", "FROM FROM"),
            ("NOT EXISTS (SELECT ", "SELECT SELECT"),
            ("x IN (", ")) )"),
        ] {
            let sql = open.repeat(48) + close;
            assert!(parse_expression(&sql, Name::DuckDB).is_err(), "{sql}");
        }
        let nested = "CAST(".repeat(40) + "1" + &" AS BIGINT)".repeat(40);
        parse_expression(&nested, Name::DuckDB).unwrap();
    }
}

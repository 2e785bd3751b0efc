//! `lag(upper(s) IGNORE NULLS)`: sqlparser gives IGNORE NULLS behind a call to that call, which for
//! most functions is then ignored. Where it is the last thing among the arguments of a function
//! that takes it, it is that function's; parentheses around the argument say so, which are taken
//! off again once the statement is parsed.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{Replacement, is_one_of, is_sign, is_word, span_of, unquoted, words};

/// Takes the parentheses off again.
pub(super) fn restore(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let is_treatment = |clause: &FunctionArgumentClause| {
        matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_))
    };
    if list.clauses.iter().any(is_treatment)
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.last_mut()
        && let Expr::Nested(nested) = argument
        && let Expr::Function(Function { name, args: FunctionArguments::List(marked), .. }) =
            nested.as_ref()
        && name.to_string() == ARGUMENT
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = marked.args.as_slice()
    {
        *argument = inner.clone();
    }
}

/// The function of such an argument, until the statement is parsed.
const ARGUMENT: &str = "sty__argument";

/// The functions that take IGNORE NULLS and RESPECT NULLS.
const TAKE_IT: [&str; 10] = [
    "arbitrary",
    "array_agg",
    "first",
    "first_value",
    "lag",
    "last",
    "last_value",
    "lead",
    "list",
    "nth_value",
];

/// The argument before an IGNORE or RESPECT at this place, in parentheses.
pub(super) fn argument(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let (before, behind) = (at.checked_sub(1)?, text.get(at + 2));
    let ends = is_sign(behind, &Token::RParen) || is_one_of(behind, &["ORDER", "LIMIT"]);
    if !is_word(text.get(at + 1), "NULLS") || !is_sign(text.get(before), &Token::RParen) || !ends {
        return None;
    }
    let (open, comma) = around(text, at)?;
    let name = unquoted(text.get(open.checked_sub(1)?))?.to_ascii_lowercase();
    if !TAKE_IT.contains(&name.as_str()) {
        return None;
    }
    let mut from = comma.unwrap_or(open) + 1;
    if is_word(text.get(from), "DISTINCT") {
        from += 1;
    }
    let span = span_of(text, before);
    let mut argument = words(&format!("( {ARGUMENT} ("), span);
    argument.extend(text.get(from..at)?.iter().cloned());
    argument.extend(words(") )", span));
    Some((from..at, argument))
}

/// The parenthesis around a token, and the last comma between the two at that depth.
fn around(text: &[TokenWithSpan], at: usize) -> Option<(usize, Option<usize>)> {
    let (mut depth, mut comma) = (0_usize, None);
    for place in (0..at).rev() {
        match text.get(place)?.token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen if depth == 0 => return Some((place, comma)),
            Token::LParen | Token::LBracket | Token::LBrace => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 0 && comma.is_none() => comma = Some(place),
            Token::SemiColon => return None,
            _ => {}
        }
    }
    None
}

//! ClickHouse's `quantile(0.9)(x)`: its parameters become the first argument.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{Replacement, is_sign, is_word, opening, span_of, unquoted, words};

/// The function of the parameters.
pub(in crate::sql) const PARAMETERS: &str = "sty__parameters";

/// Whether a word is the name of a function with parameters.
pub(super) fn is_name(token: Option<&TokenWithSpan>) -> bool {
    unquoted(token).is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.starts_with("quantile") || name.starts_with("topk")
    })
}

/// For the parenthesis that closes the parameters.
pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    if !is_sign(text.get(at + 1), &Token::LParen) {
        return None;
    }
    let open = opening(text, at)?;
    let name = open.checked_sub(1)?;
    // `INSERT INTO topk (a) (SELECT …)` names a table and its columns.
    let into = is_word(name.checked_sub(1).and_then(|before| text.get(before)), "INTO");
    if into || !is_name(text.get(name)) {
        return None;
    }
    let span = span_of(text, at);
    let mut written = words(&format!("( {PARAMETERS} ("), span);
    written.extend(text.get(open + 1..at)?.iter().cloned());
    written.extend(words(") ,", span));
    Some((open..at + 2, written))
}

/// Makes the first arguments the parameters of their calls, which are written so.
pub(super) fn restore(call: &mut Function) {
    if let FunctionArguments::List(list) = &mut call.args
        && let Some(parameters) = list.args.first().and_then(parameters)
    {
        call.parameters = parameters;
        list.args.remove(0);
    }
}

fn parameters(argument: &FunctionArg) -> Option<FunctionArguments> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(Function {
            name,
            args,
            ..
        }))) if name.to_string() == PARAMETERS => Some(args.clone()),
        _ => None,
    }
}

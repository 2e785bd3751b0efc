//! Operators that sqlparser does not read: `a ** b`, which is `a ^ b`, and `a GLOB 'x*'`, as a
//! pattern of LIKE, or of SIMILAR TO where it has a set of characters.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{
    BEFORE_NAMES, Replacement, is_one_of, is_sign, is_word, sign, span_of, text_literal, word,
    words,
};
use crate::error::{Error, Result};

/// `a ** b`, from its second sign on.
pub(super) fn power(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let first = at.checked_sub(1)?;
    let (one, two) = (text.get(first)?, text.get(at)?);
    let is_pair = one.token == Token::Mul && one.span.end == two.span.start;
    let ends_operand = matches!(
        text.get(first.checked_sub(1)?)?.token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::RParen
            | Token::RBracket
    );
    (is_pair && ends_operand).then(|| (first..at + 1, vec![sign(Token::Caret, one.span)]))
}

/// `GLOB 'x*'`, where it is an operator.
pub(super) fn glob(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    let Some(before) = at.checked_sub(1).and_then(|before| text.get(before)) else {
        return Ok(None);
    };
    let follows_operand = match &before.token {
        Token::Word(_) => !is_one_of(Some(before), &BEFORE_NAMES) || is_not(before),
        Token::SingleQuotedString(_) | Token::RParen | Token::RBracket => true,
        _ => false,
    };
    let next = text.get(at + 1);
    let begins_operand = match next.map(|next| &next.token) {
        Some(Token::SingleQuotedString(_) | Token::Number(..)) => true,
        Some(Token::Word(_)) => !is_one_of(next, &AFTER_NAMES),
        _ => false,
    };
    if !follows_operand || !begins_operand {
        return Ok(None);
    }
    let Some(Token::SingleQuotedString(pattern)) = next.map(|next| &next.token) else {
        return Err(Error::Unsupported(
            "GLOB takes a pattern in quotes, as in name GLOB 'a*'; for others there are LIKE and ~"
                .into(),
        ));
    };
    if is_sign(text.get(at + 2), &Token::StringConcat) {
        return Err(Error::Unsupported(
            "GLOB takes one pattern in quotes, and no || behind it; for patterns that are put \
             together there are LIKE and ~"
                .into(),
        ));
    }
    let span = span_of(text, at);
    let written = match pattern.contains('[') {
        false => vec![word("LIKE", span), text_literal(&like(pattern), span)],
        true => {
            let mut written = words("SIMILAR TO", span);
            written.push(text_literal(&similar(pattern)?, span));
            written
        }
    };
    Ok(Some((at..at + 2, written)))
}

fn is_not(token: &TokenWithSpan) -> bool {
    is_word(Some(token), "NOT")
}

/// Words that stand behind a name `glob`, and begin no operand.
const AFTER_NAMES: [&str; 30] = [
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "DESC",
    "ELSE",
    "END",
    "EXCEPT",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INTERSECT",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULLS",
    "ON",
    "OR",
    "ORDER",
    "QUALIFY",
    "RIGHT",
    "THEN",
    "UNION",
    "USING",
    "WHEN",
    "WHERE",
];

/// A pattern of LIKE.
fn like(glob: &str) -> String {
    let mut pattern = String::new();
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '\\' => literal(&mut pattern, characters.next().unwrap_or('\\'), "%_\\"),
            other => literal(&mut pattern, other, "%_\\"),
        }
    }
    pattern
}

/// A pattern of SIMILAR TO.
fn similar(glob: &str) -> Result<String> {
    const SIGNS: &str = "%_\\|*+?{}()[]";
    let mut pattern = String::new();
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '\\' => literal(&mut pattern, characters.next().unwrap_or('\\'), SIGNS),
            '[' => {
                let rest = characters.as_str();
                let set = rest.char_indices().skip(1).find(|(_, one)| *one == ']');
                let set = set.and_then(|(end, _)| Some((rest.get(..end)?, rest.get(end + 1..)?)));
                let Some((set, rest)) = set else {
                    return Err(Error::InvalidInput(format!(
                        "the pattern of GLOB '{glob}' has a [ without a ]"
                    )));
                };
                pattern.push('[');
                let others = set.strip_prefix('!');
                pattern.push_str(if others.is_some() { "^" } else { "" });
                for one in others.unwrap_or(set).chars() {
                    literal(&mut pattern, one, "\\[]^");
                }
                pattern.push(']');
                characters = rest.chars();
            }
            other => literal(&mut pattern, other, SIGNS),
        }
    }
    Ok(pattern)
}

fn literal(pattern: &mut String, character: char, signs: &str) {
    if signs.contains(character) {
        pattern.push('\\');
    }
    pattern.push(character);
}

/// `LIMIT 50%` and `LIMIT 50 PERCENT`, as a marked number.
pub(super) fn percent(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    const AFTER: [&str; 6] = ["OFFSET", "UNION", "INTERSECT", "EXCEPT", "FETCH", "FORMAT"];
    let number = text.get(at + 1).filter(|one| matches!(one.token, Token::Number(..)))?;
    let is_percent = is_sign(text.get(at + 2), &Token::Mod) || is_word(text.get(at + 2), "PERCENT");
    let is_last = match text.get(at + 3).map(|next| &next.token) {
        None | Some(Token::EOF | Token::SemiColon | Token::RParen) => true,
        _ => is_one_of(text.get(at + 3), &AFTER),
    };
    let span = number.span;
    let marked = [
        word("sty__value", span),
        sign(Token::LParen, span),
        number.clone(),
        sign(Token::Comma, span),
        text_literal("PERCENT", span),
        sign(Token::RParen, span),
    ];
    (is_percent && is_last).then(|| (at + 1..at + 3, marked.into()))
}

/// `ASOF JOIN` as `STRAIGHT_JOIN`, and `ASOF LEFT JOIN` as `GLOBAL STRAIGHT_JOIN`: the parser knows
/// both, and they mean nothing else here.
pub(super) fn asof(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let is_left = is_word(text.get(at + 1), "LEFT");
    let mut next = at + 1;
    while is_one_of(text.get(next), &["LEFT", "INNER", "OUTER"]) {
        next += 1;
    }
    let words_of = if is_left { "GLOBAL STRAIGHT_JOIN" } else { "STRAIGHT_JOIN" };
    is_word(text.get(next), "JOIN").then(|| (at..next + 1, words(words_of, span_of(text, at))))
}

/// STRAIGHT_JOIN, what the frame of a window leaves out, and AUTO_INCREMENT, over which the parser
/// skips, are refused with what to write instead.
pub(super) fn refused(text: &[TokenWithSpan], at: usize) -> Result<()> {
    let what = match text.get(at) {
        // FROM a STRAIGHT_JOIN b
        straight if is_word(straight, "STRAIGHT_JOIN") => {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            let follows_table = match before.map(|before| &before.token) {
                Some(Token::Word(_)) => !is_one_of(before, &BEFORE_NAMES),
                Some(Token::RParen) => true,
                _ => false,
            };
            let next = text.get(at + 1).map(|next| &next.token);
            let begins_table = matches!(next, Some(Token::Word(_) | Token::LParen));
            (follows_table && begins_table)
                .then_some("STRAIGHT_JOIN is not supported; write JOIN, whose order is chosen here")
        }
        column if is_one_of(column, &["AUTO_INCREMENT", "AUTOINCREMENT"]) => {
            let begins = |token: &TokenWithSpan| token.token == Token::SemiColon;
            let before = text.get(..at).unwrap_or_default();
            let start = before.iter().rposition(begins).map_or(0, |end| end + 1);
            let begin = text.get(start..at).unwrap_or_default();
            let is_column = is_word(begin.first(), "CREATE")
                && matches!(begin.last().map(|last| &last.token), Some(Token::Word(_)))
                && !begin.iter().any(|token| is_word(Some(token), "SELECT"));
            is_column.then_some(
                "AUTO_INCREMENT would number no rows; number them as they come in, by INSERT INTO \
                 … SELECT row_number() OVER (), …",
            )
        }
        // … BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES
        exclude if is_word(exclude, "EXCLUDE") => {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            let ends_frame = is_one_of(before, &["ROW", "PRECEDING", "FOLLOWING"]);
            let next = ["CURRENT", "GROUP", "TIES", "NO"];
            let is_frame =
                is_one_of(text.get(at + 1), &next) && !is_sign(text.get(at + 1), &Token::LParen);
            (ends_frame && is_frame).then_some(
                "EXCLUDE in the frame of a window is not supported; take the row away from the \
                 whole, as in sum(x) OVER w - x, or use two frames, one before the row and one \
                 after it",
            )
        }
        _ => None,
    };
    what.map_or(Ok(()), |what| Err(Error::Unsupported(what.into())))
}

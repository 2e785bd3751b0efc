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

/// `ASOF JOIN`, what the frame of a window leaves out, and AUTO_INCREMENT, over which the parser
/// skips, are refused with what to write instead.
pub(super) fn refused(text: &[TokenWithSpan], at: usize) -> Result<()> {
    let what = match text.get(at) {
        asof if is_word(asof, "ASOF") => {
            let mut next = at + 1;
            while is_one_of(text.get(next), &["LEFT", "INNER", "OUTER"]) {
                next += 1;
            }
            is_word(text.get(next), "JOIN").then_some(
                "ASOF JOIN is not supported; join with all earlier rows and keep the last of them: \
                 FROM a JOIN b ON a.k = b.k AND a.t >= b.t QUALIFY row_number() OVER (PARTITION BY \
                 a.k, a.t ORDER BY b.t DESC) = 1",
            )
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

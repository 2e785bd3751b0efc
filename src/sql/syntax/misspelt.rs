//! Keywords that may be meant where a text cannot be parsed: `SELCT`, `FORM`, `WEHRE`.
//!
//! Where this stands on the road of a query: when the parser has failed.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

const BEGINNINGS: [&str; 22] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "WITH",
    "FROM",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW",
    "SET",
    "COPY",
    "SUMMARIZE",
    "PIVOT",
    "UNPIVOT",
    "VALUES",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "ATTACH",
    "DETACH",
];
const CLAUSES: [&str; 20] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "JOIN",
    "INNER", "LEFT", "RIGHT", "CROSS", "USING", "UNION", "VALUES", "INTO", "TABLE", "DISTINCT",
];

/// The keyword that is meant by a word at or before a place in a text, if there is one, with the
/// word.
pub(in crate::sql) fn hint(tokens: &[TokenWithSpan], line: u64, column: u64) -> Option<String> {
    let words: Vec<&TokenWithSpan> =
        tokens.iter().filter(|one| !matches!(one.token, Token::Whitespace(_))).collect();
    let place = |one: &&TokenWithSpan| (one.span.start.line, one.span.start.column);
    let at = words.iter().position(|one| place(one) >= (line, column)).unwrap_or(words.len());
    // The word before it may have been taken for an alias, and so may the one before that.
    (at.saturating_sub(2)..=at).rev().find_map(|at| {
        let Token::Word(word) = &words.get(at)?.token else { return None };
        if word.quote_style.is_some() || word.keyword != Keyword::NoKeyword {
            return None;
        }
        let begins = at.checked_sub(1).is_none_or(|before| {
            words.get(before).is_some_and(|one| one.token == Token::SemiColon)
        });
        let known: &[&str] = if begins { &BEGINNINGS } else { &CLAUSES };
        let meant = known.iter().find(|known| is_near(&word.value.to_ascii_uppercase(), known))?;
        Some(format!("did you mean {meant} in the place of {}?", word.value))
    })
}

/// Whether a word has the letters of another in another order, or differs from it by one.
fn is_near(word: &str, known: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    if known.len() < 4 || word.len().abs_diff(known.len()) > 1 {
        return false;
    }
    if sorted(word) == sorted(known) {
        return true;
    }
    let (short, long) = if word.len() < known.len() { (word, known) } else { (known, word) };
    let before = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str, skip: usize| text.bytes().skip(skip).collect::<Vec<_>>();
    match short.len() == long.len() {
        true => rest(short, before + 1) == rest(long, before + 1),
        false => rest(short, before) == rest(long, before + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::is_near;

    #[test]
    fn one_letter_or_another_order() {
        for (word, known) in
            [("SELCT", "SELECT"), ("FORM", "FROM"), ("WEHRE", "WHERE"), ("GROPU", "GROUP")]
        {
            assert!(is_near(word, known), "{word}");
        }
        assert!(!is_near("FRAME", "FROM") && !is_near("USERS", "USING"));
    }
}

//! `USING SAMPLE …` at the end of a SELECT, and `TABLESAMPLE …` behind a table, in all of DuckDB's
//! spellings: as `TABLESAMPLE method (n PERCENT) REPEATABLE (seed)` behind the table.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{
    Replacement, find, is_one_of, is_sign, is_word, span_of, unquoted, word, words,
};
use crate::error::{Error, Result};

pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    let using = is_word(text.get(at), "USING");
    if using && !is_word(text.get(at + 1), "SAMPLE") {
        return Ok(None);
    }
    let start = if using { at + 2 } else { at + 1 };
    if !using && !follows_table(text, at) {
        return Ok(None);
    }
    let Some((spec, end)) = Spec::read(text, start) else {
        return Err(Error::InvalidInput(
            "a sample is written as USING SAMPLE 10%, USING SAMPLE 1000 ROWS or \
             TABLESAMPLE SYSTEM (10 PERCENT) REPEATABLE (42)"
                .into(),
        ));
    };
    let written = spec.written(text, at);
    if !using {
        return Ok(Some((at..end, written)));
    }
    let Some(place) = end_of_from(text, at)? else {
        return Err(Error::InvalidInput("USING SAMPLE samples the table of a FROM".into()));
    };
    // What is between the table and the sample stays behind it.
    let mut all = written;
    all.extend(text.get(place..at).unwrap_or_default().iter().cloned());
    Ok(Some((place..end, all)))
}

/// Whether a TABLESAMPLE samples what stands before it, and is not a name itself.
fn follows_table(text: &[TokenWithSpan], at: usize) -> bool {
    const CLAUSES: [&str; 8] = ["SELECT", "DISTINCT", "AS", "BY", "WHERE", "ON", "AND", "OR"];
    let Some(before) = at.checked_sub(1).and_then(|before| text.get(before)) else { return false };
    let ends_table = match &before.token {
        Token::Word(_) => !is_one_of(Some(before), &CLAUSES),
        Token::RParen | Token::SingleQuotedString(_) => true,
        _ => false,
    };
    let next = text.get(at + 1);
    let begins_spec = is_sign(next, &Token::LParen)
        || matches!(next.map(|next| &next.token), Some(Token::Number(..)))
        || unquoted(next).and_then(method_of).is_some();
    ends_table && begins_spec
}

/// Where the FROM of a SELECT ends that ends before `at`.
fn end_of_from(text: &[TokenWithSpan], at: usize) -> Result<Option<usize>> {
    let mut depth = 0_usize;
    let mut end = at;
    for before in (0..at).rev() {
        let token = text.get(before);
        match token.map(|token| &token.token) {
            Some(Token::RParen) => depth += 1,
            Some(Token::LParen) => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return Ok(None),
            },
            Some(Token::SemiColon) => return Ok(None),
            _ if depth > 0 => {}
            _ if is_one_of(token, &["WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY"]) => {
                end = before;
            }
            // IS [NOT] DISTINCT FROM
            _ if is_word(token, "FROM")
                && is_word(before.checked_sub(1).and_then(|at| text.get(at)), "DISTINCT")
                && is_one_of(before.checked_sub(2).and_then(|at| text.get(at)), &["IS", "NOT"]) => {
            }
            _ if is_word(token, "FROM") => {
                let many = find(text, before + 1, |token| {
                    token.token == Token::Comma || is_word(Some(token), "JOIN")
                });
                if many < end {
                    return Err(Error::InvalidInput(
                        "USING SAMPLE samples one table; in a join, write TABLESAMPLE behind the \
                         table that is meant: FROM a TABLESAMPLE SYSTEM (10 PERCENT) JOIN b …"
                            .into(),
                    ));
                }
                return Ok(Some(end));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// What is sampled and how.
struct Spec {
    method: &'static str,
    number: Token,
    unit: &'static str,
    seed: Option<Token>,
}

impl Spec {
    /// The specification that begins at a token, and where it ends.
    fn read(text: &[TokenWithSpan], start: usize) -> Option<(Spec, usize)> {
        let mut at = start;
        let mut method = None;
        let named = unquoted(text.get(at)).and_then(method_of);
        if named.is_some() {
            method = named;
            at += 1;
        }
        let in_parentheses = is_sign(text.get(at), &Token::LParen);
        at += usize::from(in_parentheses);
        let number = match &text.get(at)?.token {
            number @ Token::Number(..) => number.clone(),
            _ => return None,
        };
        at += 1;
        let unit = match text.get(at) {
            sign if is_sign(sign, &Token::Mod) || is_one_of(sign, &["PERCENT"]) => {
                at += 1;
                Some("PERCENT")
            }
            rows if is_one_of(rows, &["ROWS", "ROW"]) => {
                at += 1;
                Some("ROWS")
            }
            _ => None,
        };
        if in_parentheses {
            is_sign(text.get(at), &Token::RParen).then_some(())?;
            at += 1;
        }
        let mut seed = None;
        // 10% (bernoulli, 42)
        if method.is_none() && is_sign(text.get(at), &Token::LParen) {
            method = Some(method_of(unquoted(text.get(at + 1))?)?);
            at += 2;
            if is_sign(text.get(at), &Token::Comma) {
                seed = Some(text.get(at + 1)?.token.clone());
                at += 2;
            }
            is_sign(text.get(at), &Token::RParen).then_some(())?;
            at += 1;
        }
        if is_one_of(text.get(at), &["REPEATABLE", "SEED"]) {
            is_sign(text.get(at + 1), &Token::LParen).then_some(())?;
            seed = Some(text.get(at + 2)?.token.clone());
            is_sign(text.get(at + 3), &Token::RParen).then_some(())?;
            at += 4;
        }
        // A number alone is one of rows, unless the method is one of shares.
        let unit = unit.unwrap_or(match method {
            Some("SYSTEM" | "BERNOULLI") => "PERCENT",
            _ => "ROWS",
        });
        let method = method.unwrap_or(if unit == "ROWS" { "ROW" } else { "SYSTEM" });
        Some((Spec { method, number, unit, seed }, at))
    }

    fn written(&self, text: &[TokenWithSpan], at: usize) -> Vec<TokenWithSpan> {
        let span = span_of(text, at);
        let mut written = words(&format!("TABLESAMPLE {} (", self.method), span);
        written.push(TokenWithSpan::new(self.number.clone(), span));
        written.push(word(self.unit, span));
        written.extend(words(")", span));
        if let Some(seed) = &self.seed {
            written.extend(words("REPEATABLE (", span));
            written.push(TokenWithSpan::new(seed.clone(), span));
            written.extend(words(")", span));
        }
        written
    }
}

fn method_of(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "system" | "block" => Some("SYSTEM"),
        "bernoulli" => Some("BERNOULLI"),
        "reservoir" | "row" => Some("ROW"),
        _ => None,
    }
}

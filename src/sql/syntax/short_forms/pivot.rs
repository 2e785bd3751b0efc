//! `PIVOT t ON a USING sum(b) GROUP BY c` and `UNPIVOT t ON a, b INTO NAME n VALUE v`: calls in a
//! FROM that hold their parts. `pivots` makes queries of them once the columns are known.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::words::{
    Replacement, begins_query, begins_table, find, is_one_of, is_sign, is_word, span_of, split,
    text_literal, words,
};
use crate::error::{Error, Result};

/// The functions that stand for the statements: of a query, and then of their parts.
pub(in crate::sql) const PIVOT: &str = "sty__pivot";
pub(in crate::sql) const UNPIVOT: &str = "sty__unpivot";
/// The same with rows whose value is null.
pub(in crate::sql) const UNPIVOT_NULLS: &str = "sty__unpivot_nulls";
/// A key, and the values that it may have.
pub(in crate::sql) const ON: &str = "sty__on";
/// An aggregate, and its name; the columns of names and values.
pub(in crate::sql) const USING: &str = "sty__using";
/// The columns to group by.
pub(in crate::sql) const KEYS: &str = "sty__keys";

const AFTER: [&str; 3] = ["ORDER", "LIMIT", "OFFSET"];

/// The table or the query that is turned, as a query, and where its ON is.
fn source(text: &[TokenWithSpan], at: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    if !begins_query(text, at) || !begins_table(text.get(at + 1)) {
        return None;
    }
    let on = find(text, at + 1, |token| is_one_of(Some(token), &["ON", "USING"]));
    is_one_of(text.get(on), &["ON", "USING"]).then_some(())?;
    let span = span_of(text, at);
    let mut query = words("( SELECT * FROM", span);
    query.extend(text.get(at + 1..on)?.iter().cloned());
    query.extend(words(")", span));
    Some((query, on))
}

/// PIVOT.
pub(super) fn wider(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    let Some((query, on)) = source(text, at) else { return Ok(None) };
    let span = span_of(text, at);
    if !is_word(text.get(on), "ON") {
        return Err(Error::InvalidInput(
            "PIVOT needs the column whose values become columns: PIVOT t ON year USING sum(n)"
                .into(),
        ));
    }
    let clause = |from: usize, others: &[&str]| {
        find(text, from, |token| is_one_of(Some(token), others) || is_one_of(Some(token), &AFTER))
    };
    let using = clause(on + 1, &["USING", "GROUP"]);
    let group = match is_word(text.get(using), "USING") {
        true => clause(using + 1, &["GROUP"]),
        false => using,
    };
    let end = match is_word(text.get(group), "GROUP") {
        true => clause(group + 2, &[]),
        false => group,
    };
    let mut written = words(&format!("SELECT * FROM {PIVOT} ("), span);
    written.extend(query);
    for key in split(text.get(on + 1..using).unwrap_or_default()) {
        let list = find(key, 0, |token| is_word(Some(token), "IN"));
        written.extend(words(&format!(", {ON} ("), span));
        written.extend(key.get(..list).unwrap_or_default().iter().cloned());
        if let Some(values) = key.get(list + 2..key.len().saturating_sub(1))
            && is_sign(key.get(list + 1), &Token::LParen)
        {
            written.extend(words(",", span));
            written.extend(values.iter().cloned());
        }
        written.extend(words(")", span));
    }
    if is_word(text.get(using), "USING") {
        for aggregate in split(text.get(using + 1..group).unwrap_or_default()) {
            written.extend(words(&format!(", {USING} ("), span));
            written.extend(with_alias_as_text(aggregate));
            written.extend(words(")", span));
        }
    } else {
        written.extend(words(&format!(", {USING} ( count ( * ) )"), span));
    }
    if is_word(text.get(group), "GROUP") {
        written.extend(words(&format!(", {KEYS} ("), span));
        written.extend(text.get(group + 2..end).unwrap_or_default().iter().cloned());
        written.extend(words(")", span));
    }
    written.extend(words(")", span));
    Ok(Some((at..end, written)))
}

/// `sum(a) AS total` and `sum(a) total` as `sum(a), 'total'`.
fn with_alias_as_text(aggregate: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is_alias = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
    let mut written = aggregate.to_vec();
    if let [.., before, alias] = aggregate
        && is_alias(alias)
        && (is_word(Some(before), "AS") || before.token == Token::RParen)
        && let Token::Word(Word { value, .. }) = &alias.token
    {
        let span = alias.span;
        written.truncate(aggregate.len() - 1 - usize::from(is_word(Some(before), "AS")));
        written.extend(words(",", span));
        written.push(text_literal(value, span));
    }
    written
}

/// UNPIVOT.
pub(super) fn longer(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    let Some((mut query, on)) = source(text, at) else { return Ok(None) };
    let span = span_of(text, at);
    // INCLUDE NULLS stands behind the table.
    let nulls = query.len() > 3
        && is_word(query.get(query.len() - 3), "INCLUDE")
        && is_word(query.get(query.len() - 2), "NULLS");
    if nulls {
        query.drain(query.len() - 3..query.len() - 1);
    }
    let into =
        find(text, on + 1, |token| is_word(Some(token), "INTO") || is_one_of(Some(token), &AFTER));
    let (mut end, mut names) = (into, words("name , value", span));
    if is_word(text.get(into), "INTO") {
        end = find(text, into + 1, |token| is_one_of(Some(token), &AFTER));
        let value = find(text, into + 1, |token| is_word(Some(token), "VALUE"));
        if !is_word(text.get(into + 1), "NAME") || value >= end {
            return Err(Error::InvalidInput(
                "UNPIVOT names the columns of its answer: UNPIVOT t ON a, b INTO NAME n VALUE v"
                    .into(),
            ));
        }
        names = text.get(into + 2..value).unwrap_or_default().to_vec();
        names.extend(words(",", span));
        names.extend(text.get(value + 1..end).unwrap_or_default().iter().cloned());
    }
    let function = if nulls { UNPIVOT_NULLS } else { UNPIVOT };
    let mut written = words(&format!("SELECT * FROM {function} ("), span);
    written.extend(query);
    for column in split(text.get(on + 1..into).unwrap_or_default()) {
        written.extend(words(&format!(", {ON} ("), span));
        written.extend(column.iter().cloned());
        written.extend(words(")", span));
    }
    written.extend(words(&format!(", {USING} ("), span));
    written.extend(names);
    written.extend(words(") )", span));
    Ok(Some((at..end, written)))
}

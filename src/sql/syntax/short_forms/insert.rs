//! `INSERT INTO t BY NAME SELECT …`: a list of columns that stands for the names of the query.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{
    Replacement, begins_statement, find, is_one_of, is_sign, is_word, span_of, words,
};
use crate::error::{Error, Result};

/// The only column of such a list.
pub(in crate::sql) const BY_NAME: &str = "sty__by_name";

pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    if !begins_statement(text, at) {
        return Ok(None);
    }
    let rows = ["BY", "SELECT", "FROM", "VALUES", "WITH", "DEFAULT", "SET"];
    let by = find(text, at + 1, |token| is_one_of(Some(token), &rows));
    if !is_word(text.get(by), "BY") {
        return Ok(None);
    }
    let span = span_of(text, by);
    let written = match text.get(by + 1) {
        name if is_word(name, "NAME") => words(&format!("( {BY_NAME} )"), span),
        name if is_word(name, "POSITION") => Vec::new(),
        _ => return Ok(None),
    };
    if !written.is_empty() && is_sign(text.get(by.saturating_sub(1)), &Token::RParen) {
        return Err(Error::InvalidInput(
            "INSERT … BY NAME takes the names of its columns from the query; leave out the list"
                .into(),
        ));
    }
    Ok(Some((by..by + 2, written)))
}

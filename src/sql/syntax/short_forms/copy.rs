//! `COPY t TO 'x.csv' (HEADER, DELIMITER ';')` with its options as DataFusion's parser reads them,
//! and `COPY t FROM 'x.csv' (…)` as an INSERT.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::words::{
    Replacement, begins_statement, find, is_one_of, is_sign, is_word, sign, span_of, split,
    text_literal, words,
};
use crate::error::{Error, Result};

/// The options that say whether `key=value` directories are columns.
const PATH_OPTIONS: [&str; 2] = ["partition_columns", "hive_partitioning"];

pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    if !begins_statement(text, at) {
        return Ok(None);
    }
    let direction = find(text, at + 1, |token| is_one_of(Some(token), &["TO", "FROM"]));
    let file = direction + 1;
    let end = find(text, file, |_| false);
    let span = span_of(text, at);
    let options = Options::read(text, file + 1, end)?;
    if is_word(text.get(direction), "TO") {
        let Some((options, from)) = options else { return Ok(None) };
        let mut written = words("OPTIONS (", span);
        for (number, (name, value)) in options.iter().enumerate() {
            if number > 0 {
                written.extend(words(",", span));
            }
            written.push(text_literal(name, span));
            written.push(text_literal(&plain(value), span));
        }
        written.extend(words(")", span));
        return Ok(Some((from..end, written)));
    }
    if !is_word(text.get(direction), "FROM") {
        return Ok(None);
    }
    let Some(Token::SingleQuotedString(name)) = text.get(file).map(|token| &token.token) else {
        return Err(Error::InvalidInput(
            "COPY … FROM takes the name of a file: COPY t FROM 'rows.csv'".into(),
        ));
    };
    let (options, _) = options.unwrap_or_default();
    let mut format = None;
    let mut arguments = Vec::new();
    // The columns are those of the table, by position: not those of directories.
    let is_named = |(option, _): &(String, _)| PATH_OPTIONS.contains(&option.as_str());
    if !options.iter().any(is_named) {
        arguments.extend(words(", partition_columns => false", span));
    }
    for (name, value) in options {
        match name.as_str() {
            "format" => format = Some(plain(&value).to_ascii_lowercase()),
            _ => {
                arguments.extend(words(",", span));
                arguments.extend(words(&name, span));
                arguments.push(sign(Token::RArrow, span));
                arguments.extend(value);
            }
        }
    }
    let format = format.unwrap_or_else(|| format_of(name).to_owned());
    let mut written = words("INSERT INTO", span);
    written.extend(text.get(at + 1..direction).unwrap_or_default().iter().cloned());
    written.extend(words("SELECT * FROM", span));
    written.extend(words(&format!("read_{format} ("), span));
    written.extend(text.get(file).cloned());
    written.extend(arguments);
    written.extend(words(")", span));
    Ok(Some((at..end, written)))
}

/// The format of a file by its name.
fn format_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let has = |ending: &str| name.contains(ending);
    match () {
        () if has(".parquet") => "parquet",
        () if has(".arrow") || has(".feather") || has(".ipc") => "arrow",
        () if has(".json") || has(".ndjson") => "json",
        () => "csv",
    }
}

/// A value of an option as text: `';'`, `csv`, `true`.
fn plain(value: &[TokenWithSpan]) -> String {
    match value {
        [TokenWithSpan { token: Token::SingleQuotedString(text), .. }] => text.clone(),
        other => other.iter().map(|token| token.token.to_string()).collect(),
    }
}

struct Options;

/// The names of options in lower case, with their values, and where the list begins.
type Listed = (Vec<(String, Vec<TokenWithSpan>)>, usize);

impl Options {
    /// `(FORMAT csv, HEADER)`, perhaps after a WITH.
    fn read(text: &[TokenWithSpan], from: usize, end: usize) -> Result<Option<Listed>> {
        let open = from + usize::from(is_word(text.get(from), "WITH"));
        if !is_sign(text.get(open), &Token::LParen) {
            return Ok(None);
        }
        let inner = text.get(open + 1..end.saturating_sub(1)).unwrap_or_default();
        let mut options = Vec::new();
        for part in split(inner) {
            let Some((TokenWithSpan { token: Token::Word(Word { value: name, .. }), .. }, value)) =
                part.split_first()
            else {
                return Err(Error::InvalidInput(
                    "options of COPY are written as (FORMAT csv, HEADER true, DELIMITER ';')"
                        .into(),
                ));
            };
            let value = match value {
                [] => words("true", span_of(part, 0)),
                given => given.to_vec(),
            };
            options.push((name.to_ascii_lowercase(), value));
        }
        Ok(Some((options, from)))
    }
}

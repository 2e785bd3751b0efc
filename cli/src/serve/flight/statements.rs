//! Statements as clients write them, before they run: their placeholders, what they take, and what
//! their answers have.

use arrow_schema::DataType;
use stylobate::internal::sql::{LexemeKind, lexemes};
use stylobate::{Described, DividedAnswer};

use super::description::Description;
use super::errors::Stop;
use super::types::sent_schema;
use super::work::Used;

/// The statement with `$1`, `$2` and so on in the places of `?`, or of names, which follow in this
/// order.
pub(super) fn numbered(sql: &str) -> (String, Vec<String>) {
    let words = match sql.contains(['?', '$']) {
        true => lexemes(sql),
        false => return (sql.to_owned(), Vec::new()),
    };
    let (mut text, mut marks, mut names) = (String::with_capacity(sql.len()), 0, Vec::new());
    for word in words {
        let kind = word.kind;
        let word = sql.get(word.range).unwrap_or_default();
        let name = word.strip_prefix('$').filter(|name| {
            kind == LexemeKind::Parameter && !name.starts_with(|c: char| c.is_ascii_digit())
        });
        let place = match name {
            Some(name) => {
                let known = names.iter().position(|known| known == name);
                known.unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                })
            }
            None if word == "?" && kind == LexemeKind::Parameter => {
                marks += 1;
                marks - 1
            }
            None => {
                text.push_str(word);
                continue;
            }
        };
        text.push_str(&format!("${}", place + 1));
    }
    (text, names)
}

/// Says what a statement takes and gives. `declared` are types of its parameters that are known.
pub(super) fn describe(
    used: &Used,
    sql: &str,
    declared: &[Option<DataType>],
) -> Result<Description, Stop> {
    let (sql, names) = numbered(sql);
    let statement = used.parse(&sql)?;
    Ok(description(used.session.describe(&statement, declared)?, names))
}

/// The same of a statement without parameters, with its answer in parts, `most` of them, if it is
/// of many rows.
pub(super) fn describe_in_parts(
    used: &Used,
    sql: &str,
    most: usize,
) -> Result<(Description, Option<DividedAnswer>), Stop> {
    let (sql, names) = numbered(sql);
    let (described, divided) = used.session.describe_in_parts(&used.parse(&sql)?, most)?;
    Ok((description(described, names), divided))
}

fn description(described: Described, names: Vec<String>) -> Description {
    let answer = described.answer.map(|columns| sent_schema(&columns));
    Description { parameters: described.parameters, names, answer }
}

/// What an INSERT of parameters fills: `INSERT INTO t (a, b) VALUES (?, ?)`, where each value is a
/// parameter, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) table: String,
    /// All columns if there are none.
    pub(super) columns: Vec<String>,
    pub(super) values: usize,
}

/// Reads such an INSERT; `None` for all other statements.
pub(super) fn insert_of_parameters(sql: &str) -> Option<Filled> {
    let words: Vec<(LexemeKind, &str)> = lexemes(sql)
        .into_iter()
        .filter(|word| !matches!(word.kind, LexemeKind::Blank | LexemeKind::Comment))
        .map(|word| Some((word.kind, sql.get(word.range)?)))
        .collect::<Option<_>>()?;
    let mut words = words.as_slice();
    take_word(&mut words, "insert")?;
    take_word(&mut words, "into")?;
    let mut table = take_name(&mut words)?;
    if words.first().is_some_and(|(kind, _)| *kind == LexemeKind::Period) {
        take(&mut words, LexemeKind::Period)?;
        if table != "public" {
            return None;
        }
        table = take_name(&mut words)?;
    }
    let mut columns = Vec::new();
    if words.first().is_some_and(|(kind, _)| *kind == LexemeKind::Open) {
        columns = take_list(&mut words, take_name)?;
    }
    take_word(&mut words, "values")?;
    let values = take_list(&mut words, |words| take(words, LexemeKind::Parameter))?;
    let in_order = |(place, value): (usize, &&str)| {
        *value == "?" || value.strip_prefix('$') == Some((place + 1).to_string().as_str())
    };
    let is_one_kind = values.iter().all(|it| *it == "?") || !values.contains(&"?");
    let ends = words.iter().all(|(kind, _)| *kind == LexemeKind::Semicolon);
    let fits = columns.is_empty() || columns.len() == values.len();
    let is_it = ends && fits && is_one_kind && values.iter().enumerate().all(in_order);
    is_it.then_some(Filled { table, columns, values: values.len() })
}

type Words<'a, 'b> = &'a mut &'b [(LexemeKind, &'b str)];

fn take<'b>(words: Words<'_, 'b>, kind: LexemeKind) -> Option<&'b str> {
    let (first, rest) = words.split_first().filter(|(first, _)| first.0 == kind)?;
    *words = rest;
    Some(first.1)
}

fn take_word(words: Words<'_, '_>, word: &str) -> Option<()> {
    take(words, LexemeKind::Word)?.eq_ignore_ascii_case(word).then_some(())
}

fn take_name(words: Words<'_, '_>) -> Option<String> {
    if let Some(word) = take(words, LexemeKind::Word) {
        return Some(word.to_lowercase());
    }
    let quoted = take(words, LexemeKind::QuotedName)?;
    let name = quoted.strip_prefix('"')?.strip_suffix('"')?;
    Some(name.replace("\"\"", "\""))
}

fn take_list<'b, T>(
    words: Words<'_, 'b>,
    item: impl Fn(Words<'_, 'b>) -> Option<T>,
) -> Option<Vec<T>> {
    take(words, LexemeKind::Open)?;
    let mut items = Vec::new();
    loop {
        items.push(item(words)?);
        if take(words, LexemeKind::Comma).is_none() {
            take(words, LexemeKind::Close)?;
            return Some(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_become_numbers() {
        let of = |sql| numbered(sql).0;
        assert_eq!(of("SELECT ?, '?' -- ?\n, \"?\", ?"), "SELECT $1, '?' -- ?\n, \"?\", $2");
        assert_eq!(of("SELECT $1, $$a?$$"), "SELECT $1, $$a?$$");
        assert_eq!(of("SELECT 'open ?"), "SELECT 'open ?");
        let (sql, names) = numbered("SELECT $b, $a, '$c', $b");
        assert_eq!(sql, "SELECT $1, $2, '$c', $1");
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn inserts_of_parameters_are_read() {
        let of = |sql: &str| insert_of_parameters(sql).map(|it| (it.table, it.columns.join("|")));
        let is = |table: &str, columns: &str| Some((table.to_owned(), columns.to_owned()));
        assert_eq!(of("INSERT INTO t VALUES (?, ?)"), is("t", ""));
        assert_eq!(of("insert into public.\"A\" (a, \"B\") values ($1,$2);"), is("A", "a|B"));
        for other in [
            "INSERT INTO t VALUES (?, 1)",
            "INSERT INTO t VALUES ($2, $1)",
            "INSERT INTO t VALUES (?), (?)",
            "INSERT INTO t (a) VALUES (?, ?)",
            "INSERT INTO o.t VALUES (?)",
            "INSERT INTO t SELECT ?",
            "INSERT INTO t VALUES (?",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

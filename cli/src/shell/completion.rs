//! What may stand at the cursor: columns of the tables that the statement names, tables,
//! functions, keywords, files, and the shell's own commands.

use std::collections::HashMap;
use std::ops::Range;

use stylobate::internal::sql::{LexemeKind, lexemes};

use super::dot::COMMANDS;
use super::keywords::{BEGINNINGS, KEYWORDS, written};
use super::known::Names;
use super::lists;
use super::paths;
use super::plot;
use super::scope::{Named, Word, queries, tables_at, unquoted, words_around};

/// What may be put in place of a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The text that is put there.
    pub(super) text: String,
    /// What is shown for it, if that is more than the text.
    pub(super) shown: Option<String>,
    /// What it is.
    pub(super) about: String,
    /// Whether a blank follows.
    pub(super) then_blank: bool,
}

impl Candidate {
    fn new(text: String, about: impl Into<String>) -> Candidate {
        Candidate { text, shown: None, about: about.into(), then_blank: false }
    }
}

/// The most tables whose columns are offered where no table is named yet.
const MOST_TABLES: usize = 8;

/// Longer texts are not completed, so that a key is answered at once.
const MOST_BYTES: usize = 256 << 10;

/// What may stand at byte `at` of a text, and the part of the text that it replaces.
pub(super) fn complete(
    text: &str,
    at: usize,
    names: &mut dyn Names,
) -> (Range<usize>, Vec<Candidate>) {
    let Some(before) = text.get(..at).filter(|_| text.len() <= MOST_BYTES) else {
        return (at..at, Vec::new());
    };
    if text.trim_start().starts_with('.') {
        return command(before, names);
    }
    let found = lexemes(text);
    let touched = found.iter().find(|word| word.range.start < at && at <= word.range.end);
    let mut words = words_around(text, &found, at);
    let (start, kind) = touched.map_or((at, None), |word| (word.range.start, Some(word.kind)));
    let typed = before.get(start..).unwrap_or_default();
    if kind == Some(LexemeKind::Word) {
        // What is being typed is no name of a table yet.
        words.retain(|word| word.start != start);
    }
    let earlier = words.iter().rposition(|word| word.start < start.min(at)).map_or(0, |at| at + 1);
    let earlier = words.get(..earlier).unwrap_or_default();
    match kind {
        Some(LexemeKind::Comment | LexemeKind::Number | LexemeKind::Parameter) => {
            (at..at, Vec::new())
        }
        Some(LexemeKind::Text | LexemeKind::Unfinished) if typed.starts_with('\'') => {
            let typed = typed.trim_start_matches('\'');
            // At the end of a text that is closed, nothing is missing.
            let is_closed =
                touched.is_some_and(|w| w.kind == LexemeKind::Text && w.range.end == at);
            match names_file(earlier) && !is_closed {
                true => (at - typed.len()..at, files(typed)),
                false => (at..at, Vec::new()),
            }
        }
        Some(LexemeKind::Unfinished | LexemeKind::QuotedName) if typed.starts_with('"') => {
            let mut found = named(&words, earlier, at, typed.trim_start_matches('"'), names);
            found.retain(|candidate| candidate.about != KEYWORD && candidate.shown.is_none());
            for candidate in &mut found {
                if !candidate.text.starts_with('"') {
                    candidate.text = format!("\"{}\"", candidate.text);
                }
            }
            let end = touched.filter(|word| word.kind == LexemeKind::QuotedName);
            (start..end.map_or(at, |word| word.range.end), found)
        }
        Some(LexemeKind::Word) => {
            let end = touched.map_or(at, |word| word.range.end);
            (start..end, named(&words, earlier, at, typed, names))
        }
        // After a sign or a blank, something begins.
        _ => {
            let all = words.iter().rposition(|word| word.start < at).map_or(0, |last| last + 1);
            let earlier = words.get(..all).unwrap_or_default();
            (at..at, named(&words, earlier, at, "", names))
        }
    }
}

const KEYWORD: &str = "keyword";

/// Names and keywords that begin as what is typed, after the words before it.
fn named(
    words: &[Word<'_>],
    earlier: &[Word<'_>],
    at: usize,
    typed: &str,
    names: &mut dyn Names,
) -> Vec<Candidate> {
    if let [before @ .., qualifier, period] = earlier
        && period.kind == LexemeKind::Period
    {
        let qualifier = unquoted(qualifier.text, '"');
        return match wants_table(before) {
            true => tables_in(&qualifier, typed, names),
            false => columns_of(schema_before(before), &qualifier, words, at, typed, names),
        };
    }
    if earlier.last().is_some_and(|last| last.is_any(&["USE", "DETACH"])) {
        return schemas(typed, "", names);
    }
    if wants_table(earlier) {
        return tables(words, typed, names);
    }
    let mut found = Vec::new();
    if earlier.is_empty() {
        found.extend(keywords(&BEGINNINGS, typed));
        return found;
    }
    let scope = tables_at(words, at);
    if scope.is_empty() && !typed.is_empty() {
        // What is missing first of all is a table.
        found.extend(keywords(&["FROM"], typed));
    }
    columns(&scope, typed, names, &mut found);
    for table in &scope {
        let name = table.alias.as_ref().unwrap_or(&table.table);
        if !typed.is_empty() && begins(name, typed) && !name.contains(['/', '.']) {
            found.push(Candidate::new(written(name, true), "table"));
        }
    }
    if typed.is_empty() {
        return found;
    }
    for function in names.functions().iter().filter(|function| begins(&function.name, typed)) {
        found.push(Candidate {
            text: format!("{}(", function.name),
            shown: Some(shortened(&function.signature, 48)),
            about: shortened(&function.description, 60),
            then_blank: false,
        });
    }
    let is_new =
        |candidate: &Candidate| !(scope.is_empty() && candidate.text.eq_ignore_ascii_case("FROM"));
    found.extend(keywords(&KEYWORDS, typed).filter(is_new));
    if found.is_empty() {
        inside(&scope, typed, names, &mut found);
    }
    found
}

/// Whether a table is what comes after these words.
fn wants_table(earlier: &[Word<'_>]) -> bool {
    let Some(last) = earlier.last() else { return false };
    if last.is_any(&["FROM", "JOIN", "INTO", "UPDATE", "DESCRIBE", "SUMMARIZE", "TABLE"]) {
        // Of EXTRACT(year FROM x), the FROM names no table.
        return !matches!(earlier, [.., name, open, _, _]
            if name.is("EXTRACT") && open.kind == LexemeKind::Open);
    }
    // A comma between tables: nothing but names since FROM.
    last.kind == LexemeKind::Comma
        && earlier
            .iter()
            .rev()
            .skip(1)
            .find(|word| {
                let is_name = matches!(
                    word.kind,
                    LexemeKind::QuotedName
                        | LexemeKind::Text
                        | LexemeKind::Comma
                        | LexemeKind::Period
                );
                !is_name
                    && (word.kind != LexemeKind::Word || super::keywords::is_keyword(word.text))
                    && !word.is("AS")
            })
            .is_some_and(|word| word.is("FROM"))
}

/// Whether a text that begins after these words is the name of a file.
fn names_file(earlier: &[Word<'_>]) -> bool {
    let reads = |word: &Word<'_>| word.text.to_ascii_lowercase().starts_with("read_");
    wants_table(earlier)
        || earlier.last().is_some_and(|word| word.is_any(&["LOCATION", "COPY", "TO", "ATTACH"]))
        || matches!(earlier, [.., name, open] if open.kind == LexemeKind::Open && reads(name))
}

fn tables(words: &[Word<'_>], typed: &str, names: &mut dyn Names) -> Vec<Candidate> {
    let all = names.tables();
    let queries = queries(words).into_iter().map(|name| Candidate::new(name, "query"));
    let mut found: Vec<Candidate> = queries.filter(|query| begins(&query.text, typed)).collect();
    let spelled = Spellings::new(all.iter().map(String::as_str));
    for name in all.iter().filter(|name| begins(name, typed)) {
        found.push(Candidate::new(written(name, spelled.only(name)), "table"));
    }
    let reads = |name: &str| name.starts_with("read_") || name.starts_with("generate_series");
    found.extend(schemas(typed, ".", names));
    for function in names.functions().iter().filter(|function| reads(&function.name)) {
        if !typed.is_empty() && begins(&function.name, typed) {
            found.push(Candidate::new(format!("{}(", function.name), "table function"));
        }
    }
    if !typed.is_empty() {
        found.extend(keywords(&["SELECT", "LATERAL", "EXISTS", "IF", "ONLY"], typed));
    }
    found
}

/// Schemas that begin as what is typed, with what comes after each.
fn schemas(typed: &str, after: &str, names: &dyn Names) -> Vec<Candidate> {
    let begun = names.schemas().into_iter().filter(|schema| begins(schema, typed));
    begun
        .map(|schema| Candidate::new(format!("{}{after}", written(&schema, true)), "store"))
        .collect()
}

/// The tables of a schema.
fn tables_in(schema: &str, typed: &str, names: &dyn Names) -> Vec<Candidate> {
    let all = names.tables_in(&schema.to_lowercase());
    let spelled = Spellings::new(all.iter().map(String::as_str));
    let begun = all.iter().filter(|name| begins(name, typed));
    begun.map(|name| Candidate::new(written(name, spelled.only(name)), "table")).collect()
}

/// The schema of a qualifier that comes after these words.
fn schema_before(before: &[Word<'_>]) -> Option<String> {
    match before {
        [.., schema, period] if period.kind == LexemeKind::Period => {
            Some(unquoted(schema.text, '"').to_lowercase())
        }
        _ => None,
    }
}

/// The columns of the table that a qualifier means; of a schema, its tables that the statement
/// names.
fn columns_of(
    schema: Option<String>,
    qualifier: &str,
    words: &[Word<'_>],
    at: usize,
    typed: &str,
    names: &mut dyn Names,
) -> Vec<Candidate> {
    let scope = tables_at(words, at);
    let is_meant =
        |table: &&Named| table.is_called(qualifier) && (schema.is_none() || schema == table.schema);
    let meant: Vec<Named> = scope.iter().filter(is_meant).cloned().collect();
    let mut found = Vec::new();
    if !meant.is_empty() {
        columns(&meant, typed, names, &mut found);
        return found;
    }
    let of_schema = |table: &&Named| {
        table.alias.is_none()
            && table.schema.as_ref().is_some_and(|schema| schema.eq_ignore_ascii_case(qualifier))
    };
    for table in scope.iter().filter(of_schema).filter(|table| begins(&table.table, typed)) {
        found.push(Candidate::new(written(&table.table, !table.is_quoted), "table"));
    }
    if found.is_empty() {
        let table = qualifier.to_owned();
        let table = Named { schema, table, alias: None, is_quoted: false };
        columns(&[table], typed, names, &mut found);
    }
    found
}

/// The columns of tables that begin as what is typed.
fn columns(scope: &[Named], typed: &str, names: &mut dyn Names, found: &mut Vec<Candidate>) {
    let is_one = scope.len() == 1;
    each_column(scope, names, |table, name, data_type, is_only| {
        if begins(name, typed) {
            let about = if is_one { String::new() } else { format!(" · {table}") };
            found.push(Candidate::new(written(name, is_only), format!("{data_type}{about}")));
        }
    });
}

/// The columns that have what is typed in the middle.
fn inside(scope: &[Named], typed: &str, names: &mut dyn Names, found: &mut Vec<Candidate>) {
    let typed = typed.to_lowercase();
    each_column(scope, names, |_, name, data_type, is_only| {
        if name.to_lowercase().contains(&typed) {
            found.push(Candidate::new(written(name, is_only), data_type));
        }
    });
}

/// Calls `each` with every column of tables; where none is named yet, of the store's first tables.
fn each_column(
    scope: &[Named],
    names: &mut dyn Names,
    mut each: impl FnMut(&str, &str, &str, bool),
) {
    let guessed: Vec<Named> = match scope {
        [] => {
            let all = names.tables();
            let few = if all.len() <= MOST_TABLES { all.as_slice() } else { &[] };
            let named = |table: &String| Named {
                schema: None,
                table: table.clone(),
                alias: None,
                is_quoted: true,
            };
            few.iter().map(named).collect()
        }
        _ => Vec::new(),
    };
    for table in scope.iter().chain(&guessed) {
        let columns = names.columns(table.schema.as_deref(), &table.table, table.is_quoted);
        let spelled = Spellings::new(columns.iter().map(|column| column.name.as_str()));
        let label = table.alias.as_ref().unwrap_or(&table.table);
        for column in columns.iter() {
            each(label, &column.name, &column.data_type, spelled.only(&column.name));
        }
    }
}

/// Names in lower case, and how often each occurs.
struct Spellings(HashMap<String, usize>);

impl Spellings {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Spellings {
        let mut counts = HashMap::new();
        names.for_each(|name| *counts.entry(name.to_lowercase()).or_insert(0) += 1);
        Spellings(counts)
    }

    /// Whether no other name differs just in case.
    fn only(&self, name: &str) -> bool {
        self.0.get(&name.to_lowercase()).is_none_or(|count| *count == 1)
    }
}

/// Keywords that begin as what is typed, in the same case.
fn keywords<'a>(all: &'a [&str], typed: &'a str) -> impl Iterator<Item = Candidate> + 'a {
    let is_lower = typed.starts_with(|c: char| c.is_ascii_lowercase());
    let begun = all.iter().filter(move |word| begins(word, typed));
    begun.map(move |word| {
        let text = if is_lower { word.to_ascii_lowercase() } else { (*word).to_owned() };
        Candidate { then_blank: true, ..Candidate::new(text, KEYWORD) }
    })
}

fn files(typed: &str) -> Vec<Candidate> {
    let found = paths::beginning_with(typed).into_iter();
    found
        .map(|path| {
            let about = if path.ends_with('/') { "directory" } else { "file" };
            let text = if path.ends_with('/') { path } else { format!("{path}'") };
            Candidate::new(text, about)
        })
        .collect()
}

/// What may stand in a line with one of the shell's commands.
fn command(line: &str, names: &mut dyn Names) -> (Range<usize>, Vec<Candidate>) {
    let at = line.len();
    let start = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let typed = line.get(start..).unwrap_or_default();
    let name = line.split_whitespace().next().unwrap_or_default();
    let begun = |all: Vec<String>, about: &str| -> Vec<Candidate> {
        let begun = all.into_iter().filter(|text| text.starts_with(typed));
        begun.map(|text| Candidate::new(text, about)).collect()
    };
    let found = match name {
        _ if start <= line.len() - line.trim_start().len() => {
            let begun = COMMANDS.iter().filter(|known| known.name.starts_with(typed));
            begun
                .map(|known| Candidate {
                    then_blank: !known.arguments.is_empty(),
                    ..Candidate::new(known.name.to_owned(), known.summary)
                })
                .collect()
        }
        ".help" => {
            let all = COMMANDS.iter().map(|known| known.name.to_owned());
            begun(all.collect(), "command")
        }
        ".tables" | ".schema" => begun(lists::all_names(names), "table"),
        ".mode" => begun(names.formats(), "format"),
        ".plot" => begun(plot::WORDS.map(str::to_owned).to_vec(), ""),
        ".timer" | ".stats" | ".pager" => begun(vec!["on".to_owned(), "off".to_owned()], ""),
        ".read" | ".output" => begun(paths::beginning_with(typed), "file"),
        ".explain" => {
            let sql = line.trim_start().len() - ".explain".len();
            let offset = line.len() - sql;
            let (range, found) = complete(line.get(offset..).unwrap_or_default(), sql, names);
            return (range.start + offset..range.end + offset, found);
        }
        _ => Vec::new(),
    };
    (start..at, found)
}

/// Whether a name begins as what is typed, in any case.
fn begins(name: &str, typed: &str) -> bool {
    name.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
}

/// The beginning of a text.
fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;

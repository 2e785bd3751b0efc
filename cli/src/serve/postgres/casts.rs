//! Casts to types of PostgreSQL's catalogs. Relations, types, schemas and roles are numbers there
//! and here; where one of them is shown, or made a text, PostgreSQL gives its name.

use super::calls::push_text;
use super::known::Known;
use super::marks::Marks;
use super::relations;
use super::type_rows::{SCHEMAS, schema_oid, type_name_of, type_oid};
use super::words::{Kind, text_of};

/// Our type in the place of one that only PostgreSQL's catalogs have.
pub(super) fn type_of_catalogs(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "oid" | "xid" => Some("BIGINT"),
        "name" | "\"char\"" | "regtype" | "regclass" | "regproc" | "regprocedure"
        | "regnamespace" | "regrole" => Some("VARCHAR"),
        _ => None,
    }
}

/// Where the name of a type stands behind `::` at a token.
fn cast_at(words: &Marks, begin: usize) -> Option<usize> {
    if words.word(begin) != ":" || words.word(begin + 1) != ":" {
        return None;
    }
    Some(match words.is_in_schema(begin + 2, "pg_catalog") {
        true => begin + 4,
        false => begin + 2,
    })
}

/// A cast that begins here to a type of PostgreSQL's catalogs, in our words, and how many tokens
/// it has.
pub(super) fn cast(words: &Marks, at: usize) -> Option<(String, usize)> {
    let kind = words.tokens.get(at)?.kind;
    let is_text = kind == Kind::Text;
    let is_value = is_text || kind == Kind::Word && words.word(at).starts_with('$');
    let begin = at + usize::from(is_value);
    let name = cast_at(words, begin)?;
    let length = name + 1 - at;
    let number = |number: Option<i64>| Some((number?.to_string(), length));
    let text = || text_of(words.word(at));
    let target = match words.name_at(name).as_str() {
        "regclass" if is_text => return number(Some(relations::oid_in(&text()))),
        "regnamespace" if is_text => return number(schema_oid(&relations::named_in(&text()))),
        "regtype" if is_text && type_oid(&text()).is_some() => return number(type_oid(&text())),
        "regclass" if is_value => {
            return Some((relations::lookup("regclass", words.word(at))?, length));
        }
        name => type_of_catalogs(name)?,
    };
    let before = if is_value { words.word(at) } else { "" };
    Some((format!("{before}::{target}"), length))
}

/// A column or text that begins here and is shown as what a number of the catalogs names, and how
/// many tokens that has.
pub(super) fn shown(words: &Marks, at: usize, known: &Known) -> Option<(String, usize)> {
    let behind = operand(words, at)?;
    let name = cast_at(words, behind)?;
    let length = name + 1 - at;
    let becomes_text = || {
        let target = cast_at(words, name + 1).map(|at| words.name_at(at)).unwrap_or_default();
        matches!(target.as_str(), "text" | "varchar" | "name")
    };
    if !becomes_text() && !words.is_column_with_name(at, length) {
        return None;
    }
    let first = words.tokens.get(at)?;
    let mut value = String::new();
    match first.kind {
        Kind::Text => push_text(&text_of(words.word(at)), &mut value),
        _ => {
            let end = words.tokens.get(behind - 1)?.range.end;
            value.push_str(words.text.get(first.range.start..end)?);
        }
    }
    let is_text = first.kind == Kind::Text;
    let shown = match words.name_at(name).as_str() {
        "regclass" => relations::lookup(relations::NAME_OF, &value)?,
        "regtype" if is_text => {
            type_name_of(&type_oid(&text_of(words.word(at)))?.to_string(), None)
        }
        "regtype" => type_name_of(&value, None),
        "regnamespace" if !is_text => {
            let cases = SCHEMAS.iter().map(|(oid, name)| format!(" WHEN {oid} THEN '{name}'"));
            format!("(CASE {value}{} END)", cases.collect::<String>())
        }
        "regrole" if !is_text => {
            let mut user = String::new();
            push_text(known.user, &mut user);
            user
        }
        _ => return None,
    };
    Some((shown, length))
}

/// The token behind a column or text that begins here.
fn operand(words: &Marks, at: usize) -> Option<usize> {
    let is_name = |at: usize| {
        let first = words.word(at).chars().next();
        match words.tokens.get(at).map(|token| token.kind) {
            Some(Kind::Name) => true,
            Some(Kind::Word) => first.is_some_and(|c| c.is_alphabetic() || c == '_'),
            _ => false,
        }
    };
    if words.tokens.get(at)?.kind == Kind::Text {
        return Some(at + 1);
    }
    if !is_name(at) || at > 0 && words.word(at - 1) == "." {
        return None;
    }
    let mut end = at + 1;
    while words.word(end) == "." && is_name(end + 1) {
        end += 2;
    }
    Some(end)
}

/// The name of the column that a cast is: that of the column, or of the type.
pub(super) fn column_name(words: &Marks, at: usize, length: usize) -> String {
    let of = match words.tokens.get(at).map(|token| token.kind) {
        Some(Kind::Text) => at + length - 1,
        _ => operand(words, at).map_or(at, |end| end - 1),
    };
    words.plain_name(of).replace('"', "\"\"")
}

//! Messages of the planner in other words: what is wrong, and what to type instead.

/// Our words for a message of DataFusion (55.2); `None` where its own will do.
pub(super) fn advice(message: &str) -> Option<String> {
    let quoted = |rest: &str| rest.split(['"', '\'']).next().unwrap_or_default().to_owned();
    if let Some(rest) = message.strip_prefix("Cannot coerce arithmetic expression ") {
        let types = rest.split(" to valid types").next()?;
        return Some(format!("there is no {types}; a cast may help, as in `x::bigint`"));
    }
    let concatenated = "Cannot infer common string type for string concat operation ";
    if let Some(types) = message.strip_prefix(concatenated) {
        return Some(format!("there is no {types}; || joins texts: a::text || b::text"));
    }
    let logical = "Cannot infer common argument type for logical boolean operation ";
    if let Some(types) = message.strip_prefix(logical) {
        return Some(format!("there is no {types}; AND and OR join conditions, such as `x <> 0`"));
    }
    if message.starts_with("Cannot access field at argument ") {
        let data_type = message.split(": type ").nth(1)?.split(" is not").next()?;
        let data_type = data_type.to_ascii_lowercase();
        return Some(format!(
            "a column of type {data_type} has no fields; in a.b, a is a table, or a column that is \
             a struct; a ->> 'b' reads a field of a JSON text"
        ));
    }
    if message.starts_with("There isn't a common type to coerce ") && message.contains("LIKE") {
        return Some("LIKE compares texts; cast what is none: x::text LIKE '1%'".to_owned());
    }
    if let Some(rest) = message.strip_prefix("Order by column out of bounds, specified: ") {
        let (position, columns) = rest.split_once(", max: ")?;
        return Some(format!("ORDER BY {position}: the SELECT has {columns} columns"));
    }
    if let Some(rest) = message.strip_prefix("Inconsistent data length across values list: got ") {
        let (given, rest) = rest.split_once(" values in row ")?;
        let (row, expected) = rest.split_once(" but expected ")?;
        let row = row.parse::<u64>().ok()?.saturating_add(1);
        return Some(format!("row {row} of VALUES has {given} values, but expected {expected}"));
    }
    if let Some(rest) = message.strip_prefix("could not find config namespace for key \"") {
        return Some(format!("there is no setting {}; SHOW ALL lists them", quoted(rest)));
    }
    if let Some(rest) = message.strip_prefix("Config value \"") {
        return Some(format!("there is no setting {}; SHOW ALL lists them", quoted(rest)));
    }
    if let Some(name) = message.strip_prefix("No value found for placeholder with name ") {
        let bare = name.trim_start_matches('$');
        return Some(format!("no value for {name}; give it one with -p {bare}=VALUE"));
    }
    None
}

/// Our words for what DataFusion does not do.
pub(super) fn instead(message: &str) -> Option<String> {
    let statement = message.strip_prefix("Unsupported SQL statement: ");
    let begins = |words: &[&str]| {
        statement.is_some_and(|statement| words.iter().any(|word| statement.starts_with(word)))
    };
    let ends = message.contains("TransactionEnd") || message.contains("TransactionStart");
    if ends || begins(&["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT"]) {
        return Some("there are no transactions; each statement is one commit".to_owned());
    }
    if message.contains("CreateIndex") {
        return Some(
            "there are no indexes; tables that are sorted are searched fast: sty compact \
             STORE/TABLE --sort-by COLUMN"
                .to_owned(),
        );
    }
    if begins(&["ALTER TABLE"]) {
        return Some("SQL does not alter tables; `sty alter STORE/TABLE add …` does".to_owned());
    }
    if message.starts_with("Physical plan does not support logical expression WindowFunction") {
        return Some(
            "a function of windows in WHERE, GROUP BY, HAVING or ON, which are computed before \
             windows are; write QUALIFY, or compute it in a subquery"
                .to_owned(),
        );
    }
    if message.starts_with("Dot access not supported") {
        return Some("a field of a struct is written as x['field']".to_owned());
    }
    None
}

/// A schema error in other words.
pub(super) fn names(message: &str) -> Option<String> {
    if let Some(name) = message.strip_prefix("Ambiguous reference to unqualified field ") {
        return Some(format!(
            "{name} is a column of several tables; name the table, too, as in t.{name}"
        ));
    }
    let name = message.strip_prefix("Schema contains duplicate qualified field name ")?;
    let table = name.rsplit_once('.').map_or(name, |(table, _)| table);
    Some(format!(
        "two tables of the FROM are called {table}; give one another name: {table} JOIN {table} u"
    ))
}

//! Lists that the shell itself makes: tables, and the columns of all of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use stylobate::Session;

use super::known::Names;
use crate::errors::Failure;

/// A table, and how it is written.
struct Listed {
    schema: Option<String>,
    table: String,
    written: String,
}

/// Tables that need no schema, then those of the other schemas.
fn listed(known: &mut (impl Names + ?Sized)) -> Vec<Listed> {
    let short = known.tables();
    let short = short.iter().map(|table| Listed {
        schema: None,
        table: table.clone(),
        written: table.clone(),
    });
    let mut all: Vec<Listed> = short.collect();
    for schema in known.schemas().into_iter().filter(|schema| *schema != known.schema_in_use()) {
        all.extend(known.tables_in(&schema).into_iter().map(|table| Listed {
            schema: Some(schema.clone()),
            written: format!("{schema}.{table}"),
            table,
        }));
    }
    all
}

/// How all tables are written.
pub(super) fn all_names(known: &mut dyn Names) -> Vec<String> {
    listed(known).into_iter().map(|listed| listed.written).collect()
}

/// The tables whose names fit a pattern.
pub(super) fn tables(
    known: &mut impl Names,
    session: &Session,
    pattern: Option<&str>,
) -> Result<RecordBatch, Failure> {
    let fits = |name: &Listed| pattern.is_none_or(|pattern| is_like(&name.written, pattern));
    let names: Vec<Listed> = listed(known).into_iter().filter(fits).collect();
    let count = |name: &Listed| session.stored_size(name.schema.as_deref(), &name.table);
    let counts: Vec<Option<(u64, u64)>> = names.iter().map(count).collect();
    let rows = counts.iter().map(|count| count.map(|(rows, _)| rows));
    let columns = counts.iter().map(|count| count.map(|(_, columns)| columns));
    let names = names.iter().map(|name| name.written.as_str());
    let list: [(&str, ArrayRef); 3] = [
        ("table", Arc::new(StringArray::from_iter_values(names))),
        ("rows", Arc::new(rows.collect::<UInt64Array>())),
        ("columns", Arc::new(columns.collect::<UInt64Array>())),
    ];
    Ok(RecordBatch::try_from_iter(list)?)
}

/// The columns of all tables.
pub(super) fn columns(known: &mut impl Names) -> Result<RecordBatch, Failure> {
    let mut rows: [Vec<String>; 3] = Default::default();
    for name in listed(known) {
        for column in known.columns(name.schema.as_deref(), &name.table, true).iter() {
            let row = [&name.written, &column.name, &column.data_type];
            rows.iter_mut().zip(row).for_each(|(list, text)| list.push(text.clone()));
        }
    }
    let column = |list: Vec<String>| Arc::new(StringArray::from(list)) as ArrayRef;
    let titles = ["table", "column", "type"].into_iter();
    Ok(RecordBatch::try_from_iter(titles.zip(rows.map(column)))?)
}

/// The name of a table in a statement, if a text is one with a schema.
pub(super) fn with_schema(name: &str, known: &impl Names) -> Option<String> {
    let (schema, table) = name.split_once('.')?;
    let schema = known.schemas().into_iter().find(|known| known.eq_ignore_ascii_case(schema))?;
    Some(format!("{}.{}", quoted(&schema), quoted(table)))
}

/// A name in double quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a name has a text in it; or is like a pattern in which `%` is any text.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.to_lowercase(), pattern.to_lowercase());
    if !pattern.contains('%') {
        return name.contains(&pattern);
    }
    let parts: Vec<&str> = pattern.split('%').collect();
    let [first, between @ .., last] = parts.as_slice() else { return name == pattern };
    let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn patterns_are_parts_or_have_wildcards() {
        assert!(is_like("Trips", "rip") && is_like("trips", "tr%") && is_like("trips", "%p%s"));
        assert!(!is_like("trips", "tx") && !is_like("trips", "%x%") && !is_like("trips", "s%t"));
    }
}

//! Lists that the shell itself makes: tables, and the columns of all of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use stylobate::Store;

use super::known::Names;
use crate::errors::Failure;

/// The tables whose names fit a pattern.
pub(super) fn tables(
    store: Option<&Store>,
    known: &mut impl Names,
    pattern: Option<&str>,
) -> Result<RecordBatch, Failure> {
    let names = known.tables();
    let fits = |name: &&String| pattern.is_none_or(|pattern| is_like(name, pattern));
    let names: Vec<&String> = names.iter().filter(fits).collect();
    let count = |name: &&String| -> Option<(u64, u64)> {
        let snapshot = store?.table(name).ok()?.snapshot().ok()?;
        Some((snapshot.rows(), snapshot.schema().columns().len() as u64))
    };
    let counts: Vec<Option<(u64, u64)>> = names.iter().map(count).collect();
    let rows = counts.iter().map(|count| count.map(|(rows, _)| rows));
    let columns = counts.iter().map(|count| count.map(|(_, columns)| columns));
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
    for name in known.tables().iter() {
        for column in known.columns(name, true).iter() {
            let row = [name, &column.name, &column.data_type];
            rows.iter_mut().zip(row).for_each(|(list, text)| list.push(text.clone()));
        }
    }
    let column = |list: Vec<String>| Arc::new(StringArray::from(list)) as ArrayRef;
    let titles = ["table", "column", "type"].into_iter();
    Ok(RecordBatch::try_from_iter(titles.zip(rows.map(column)))?)
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

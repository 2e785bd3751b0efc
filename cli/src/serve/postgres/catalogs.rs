//! Which catalogs of PostgreSQL there are, with their columns (`catalogs.txt`), and how rows become
//! one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, new_null_array,
};
use arrow_schema::{DataType, Field, TimeUnit};

use super::errors::PgError;

/// The columns of each catalog, with their types.
static CATALOGS: LazyLock<BTreeMap<&str, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let (mut all, mut last) = (BTreeMap::new(), None);
    for line in include_str!("catalogs.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            last = words.next();
        }
        let Some(name) = last else { continue };
        let columns: &mut Vec<(&str, &str)> = all.entry(name).or_default();
        columns.extend(words.filter_map(|column| column.split_once(':')));
    }
    all
});

/// What begins the names of the catalogs of information_schema.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema.";

/// A value of a catalog.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    Bool(bool),
    Null,
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// The values of a row by column; others are null, false or 0.
pub(super) type Row = Vec<(&'static str, Value)>;

/// Whether a name is that of a catalog.
pub(super) fn is_catalog(name: &str) -> bool {
    CATALOGS.contains_key(name)
}

/// Whether the values of a column are arrays.
pub(super) fn has_array(column: &str) -> bool {
    let mut columns = CATALOGS.values().flatten();
    columns.any(|(name, kind)| *name == column && matches!(*kind, "a" | "n"))
}

/// The names of all catalogs.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CATALOGS.keys().copied()
}

/// Rows as the catalog of this name.
pub(super) fn batch(name: &str, rows: &[Row]) -> Result<RecordBatch, PgError> {
    let columns = CATALOGS.get(name).map(Vec::as_slice).unwrap_or_default();
    let made = columns.iter().map(|(name, kind)| (*name, column(name, kind, rows), true));
    let made = RecordBatch::try_from_iter_with_nullable(made);
    made.map_err(|error| PgError::of("XX000", error.to_string()))
}

fn column(name: &str, kind: &str, rows: &[Row]) -> ArrayRef {
    let of = |row: &Row| row.iter().find(|(known, _)| *known == name).map(|(_, it)| it.clone());
    let int = |row: &Row| match of(row) {
        Some(Value::Int(value)) => Some(value),
        _ => None,
    };
    let ints = rows.iter().map(|row| int(row).unwrap_or_default());
    let nothing = |data_type: &DataType| new_null_array(data_type, rows.len());
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    match kind {
        "i" => Arc::new(ints.collect::<Int64Array>()),
        "j" => Arc::new(ints.map(|value| value as i32).collect::<Int32Array>()),
        "k" => {
            let values = rows.iter().map(|row| int(row).map(|value| value as i32));
            Arc::new(values.collect::<Int32Array>())
        }
        "s" => Arc::new(ints.map(|value| value as i16).collect::<Int16Array>()),
        "f" => Arc::new(ints.map(|value| value as f32).collect::<Float32Array>()),
        "a" => nothing(&list(DataType::Utf8)),
        "n" => nothing(&list(DataType::Int64)),
        "z" => nothing(&DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        "b" => {
            let value = |row| matches!(of(row), Some(Value::Bool(true)));
            Arc::new(rows.iter().map(|row| Some(value(row))).collect::<BooleanArray>())
        }
        _ => {
            let value = |row| match of(row) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            };
            Arc::new(rows.iter().map(value).collect::<StringArray>())
        }
    }
}

/// Whether each value of rows stands in a column that the catalog has.
#[cfg(test)]
pub(super) fn fits(name: &str, rows: &[Row]) -> bool {
    let columns = &CATALOGS[name];
    rows.iter().flatten().all(|(of, _)| columns.iter().any(|(known, _)| known == of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_catalogs_can_be_made() {
        assert!(names().count() > 100);
        for name in names() {
            assert!(batch(name, &[]).unwrap().num_columns() > 0, "{name}");
        }
        let row: Row = vec![("oid", 7.into()), ("typname", "x".into()), ("typbyval", true.into())];
        let made = batch("pg_type", &[row]).unwrap();
        assert_eq!(made.num_rows(), 1);
        assert!(is_catalog("information_schema.columns") && !is_catalog("columns"));
    }
}

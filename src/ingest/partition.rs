//! Which partition a row belongs to: the values of a few expressions, and the directory that they
//! name.
//!
//! Where this stands on the road: batches that have found their columns come here before they are
//! collected for segments, if the table has partitions. The expressions are given as functions
//! ([`Compile`]); plain columns need none.
//!
//! A directory is named `key=value/key=value`, as Hive does: the value as SQL shows it, bytes other
//! than letters, digits and `_ - . : +` as `%XX`, null as `__HIVE_DEFAULT_PARTITION__`. The text of
//! a value does not depend on the width of its type, so a column may widen.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;
use hashbrown::HashMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::error::{Error, Result};
use crate::expr::Function;
use crate::limits;
use crate::model::{Column, ColumnId, DataType, PartitionKey, Schema};

/// What stands for null in the name of a directory.
pub const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The bytes that are written as `%XX` in the name of a directory.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b':').remove(b'+');

/// An expression made ready: the positions of the columns that it reads, the function (`None` for a
/// column as it is), and the type of its values.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Columns, by position in the schema that it was compiled for.
    pub inputs: Vec<usize>,
    /// Over the values of those columns, in the types of the schema.
    pub function: Option<Arc<dyn Function>>,
    /// Of the result.
    pub data_type: ArrowType,
}

/// What makes functions of SQL expressions.
pub trait Compile: Debug + Send + Sync {
    /// Compiles an expression over columns.
    fn compile(&self, expression: &str, columns: &[Column]) -> Result<Compiled>;
}

/// Knows columns by name and no other expressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnsOnly;

impl Compile for ColumnsOnly {
    fn compile(&self, expression: &str, columns: &[Column]) -> Result<Compiled> {
        let at = columns.iter().position(|column| &*column.name == expression);
        let Some((at, column)) = at.and_then(|at| Some((at, columns.get(at)?))) else {
            return Err(Error::NotFound(format!(
                "there is no column '{expression}' to partition by"
            )));
        };
        Ok(Compiled { inputs: vec![at], function: None, data_type: column.data_type.to_arrow() })
    }
}

/// The keys of a table for an expression list such as `year(pickup) AS year, vendor_id`, one text
/// for each.
pub fn keys(
    requests: &[String],
    schema: &Schema,
    compile: &dyn Compile,
) -> Result<Vec<PartitionKey>> {
    let mut keys: Vec<PartitionKey> = Vec::with_capacity(requests.len());
    for request in requests {
        let (expression, name) = split_alias(request);
        let compiled = compile.compile(expression, schema.columns())?;
        let data_type = DataType::from_arrow(&compiled.data_type).ok_or_else(|| {
            Error::Unsupported(format!(
                "'{expression}' has type {}: no partition key",
                compiled.data_type
            ))
        })?;
        let columns = compiled.inputs.iter().filter_map(|at| schema.columns().get(*at));
        let columns: Vec<_> = columns.map(|column| (Arc::clone(&column.name), column.id)).collect();
        let name: Arc<str> = name.map_or_else(|| plain_name(expression), str::to_owned).into();
        if keys.iter().any(|key| key.name == name) {
            return Err(Error::InvalidInput(format!(
                "two partition keys are named '{name}'; name one with AS"
            )));
        }
        keys.push(PartitionKey { name, expression: expression.into(), columns, data_type });
    }
    if keys.len() > limits::MAX_PARTITION_KEYS {
        return Err(Error::LimitExceeded(format!(
            "{} partition keys; at most {}",
            keys.len(),
            limits::MAX_PARTITION_KEYS
        )));
    }
    Ok(keys)
}

/// `expression AS name` as its two parts.
fn split_alias(request: &str) -> (&str, Option<&str>) {
    let lower = request.to_ascii_lowercase();
    let at = lower.rfind(" as ").filter(|at| {
        let name = request.get(at + 4..).unwrap_or_default().trim();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    match at {
        Some(at) => {
            (request.get(..at).unwrap_or_default().trim(), request.get(at + 4..).map(str::trim))
        }
        None => (request.trim(), None),
    }
}

/// A name of letters, digits and underscores for an expression.
fn plain_name(expression: &str) -> String {
    let mut name = String::new();
    for c in expression.chars() {
        if c.is_alphanumeric() || c == '_' {
            name.push(c);
        } else if !name.ends_with('_') && !name.is_empty() {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// The partitions of a load: numbers for them, in the order in which they first occur.
#[derive(Debug)]
pub struct Partitions {
    keys: Vec<PartitionKey>,
    compile: Arc<dyn Compile>,
    /// For the types that the columns had when the keys were compiled.
    compiled: Option<CompiledKeys>,
    numbers: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    paths: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    names: Vec<Arc<str>>,
}

/// Keys for columns of certain types.
#[derive(Debug)]
struct CompiledKeys {
    types: Vec<(ColumnId, DataType)>,
    keys: Vec<Compiled>,
    converter: RowConverter,
}

impl Partitions {
    /// Of these keys.
    pub fn new(keys: Vec<PartitionKey>, compile: Arc<dyn Compile>) -> Self {
        Partitions {
            keys,
            compile,
            compiled: None,
            numbers: HashMap::default(),
            paths: HashMap::default(),
            names: Vec::new(),
        }
    }

    /// The path of a partition.
    pub fn path(&self, number: u32) -> Arc<str> {
        self.names.get(number as usize).cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// The number of the partition of each row. The batch's columns are those of the schema with
    /// these ids.
    pub fn of(
        &mut self,
        batch: &RecordBatch,
        ids: &[ColumnId],
        schema: &Schema,
    ) -> Result<Vec<u32>> {
        let columns = self.columns(schema)?;
        let types: Vec<(ColumnId, DataType)> =
            columns.iter().map(|c| (c.id, c.data_type.clone())).collect();
        if self.compiled.as_ref().is_none_or(|compiled| compiled.types != types) {
            let compile = |key: &PartitionKey| self.compile.compile(&key.expression, &columns);
            let all = self.keys.iter().map(compile).collect::<Result<Vec<_>>>()?;
            let fields =
                all.iter().map(|compiled| SortField::new(compiled.data_type.clone())).collect();
            let converter = RowConverter::new(fields)
                .map_err(|error| Error::InvalidInput(error.to_string()))?;
            // Bytes of rows depend on types; the paths do not.
            self.numbers.clear();
            self.compiled = Some(CompiledKeys { types, keys: all, converter });
        }
        let Some(CompiledKeys { keys: compiled, converter, .. }) = &self.compiled else {
            return Ok(Vec::new());
        };
        let rows = batch.num_rows();
        let arrays =
            columns.iter().map(|column| input(batch, ids, column)).collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(compiled.len());
        for (key, compiled) in self.keys.iter().zip(compiled) {
            let inputs: Vec<ArrayRef> =
                compiled.inputs.iter().filter_map(|at| arrays.get(*at).cloned()).collect();
            values.push(match &compiled.function {
                Some(function) => function
                    .evaluate(&inputs, rows)
                    .map_err(|error| failed(&key.expression, error))?,
                None => inputs
                    .into_iter()
                    .next()
                    .unwrap_or_else(|| new_null_array(&compiled.data_type, rows)),
            });
        }
        let encoded = converter
            .convert_columns(&values)
            .map_err(|error| Error::InvalidInput(error.to_string()))?;
        let mut numbers = Vec::with_capacity(rows);
        let mut before: Option<(u32, usize)> = None;
        for row in 0..rows {
            let bytes = encoded.row(row);
            let number = match before {
                Some((number, same)) if encoded.row(same) == bytes => number,
                _ => match self.numbers.get(bytes.as_ref()) {
                    Some(number) => *number,
                    None => {
                        let path = path(&self.keys, &values, row)?;
                        let next = self.names.len() as u32;
                        let number = *self.paths.entry(Arc::clone(&path)).or_insert(next);
                        if number == next {
                            self.names.push(path);
                        }
                        self.numbers.insert(bytes.as_ref().into(), number);
                        number
                    }
                },
            };
            before = Some((number, row));
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// The columns that keys read, each under the name that the keys know it by.
    fn columns(&self, schema: &Schema) -> Result<Vec<Column>> {
        let mut columns: Vec<Column> = Vec::new();
        for (name, id) in self.keys.iter().flat_map(|key| &key.columns) {
            if columns.iter().any(|column| column.name == *name) {
                continue;
            }
            let Some(column) = schema.columns().iter().find(|column| column.id == *id) else {
                return Err(Error::NotFound(format!(
                    "the column '{name}' that the table is partitioned by is gone"
                )));
            };
            columns.push(Column { name: Arc::clone(name), ..column.clone() });
        }
        Ok(columns)
    }
}

/// A column of a batch in the type of the table.
fn input(batch: &RecordBatch, ids: &[ColumnId], column: &Column) -> Result<ArrayRef> {
    let to = column.data_type.to_arrow();
    let Some(array) = ids.iter().position(|id| *id == column.id).map(|at| batch.column(at)) else {
        return Ok(new_null_array(&to, batch.num_rows()));
    };
    if *array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    arrow_cast::cast(array, &to).map_err(|error| {
        Error::InvalidInput(format!("column '{}' does not convert to {to}: {error}", column.name))
    })
}

fn failed(expression: &str, error: Error) -> Error {
    match error {
        Error::InvalidInput(what) => {
            Error::InvalidInput(format!("--partition-by '{expression}': {what}"))
        }
        other => other,
    }
}

/// The directory of a row's partition.
fn path(keys: &[PartitionKey], values: &[ArrayRef], row: usize) -> Result<Arc<str>> {
    let mut path = String::new();
    for (key, values) in keys.iter().zip(values) {
        if !path.is_empty() {
            path.push('/');
        }
        path.extend(percent_encode(key.name.as_bytes(), ESCAPED));
        path.push('=');
        let start = path.len();
        match shown(&values.slice(row, 1))? {
            None => path.push_str(NULL_PARTITION),
            Some(text) if text == NULL_PARTITION.as_bytes() => {
                path.push_str(&NULL_PARTITION.replace('_', "%5F"))
            }
            Some(text) => path.extend(percent_encode(&text, ESCAPED)),
        }
        if path.len() - start > limits::MAX_PARTITION_VALUE_BYTES {
            return Err(Error::LimitExceeded(format!(
                "a partition is a directory, and '{}' is too long for its name: at most {} bytes; partition by a \
                 shorter expression than {}",
                path.get(start..).unwrap_or_default().chars().take(60).collect::<String>() + "…",
                limits::MAX_PARTITION_VALUE_BYTES,
                key.expression
            )));
        }
    }
    Ok(path.into())
}

/// A value as SQL shows it, and one of bytes as these; `None` for null.
fn shown(value: &ArrayRef) -> Result<Option<Vec<u8>>> {
    let is_bytes = DataType::from_arrow(value.data_type()) == Some(DataType::Binary);
    let text =
        if is_bytes { Ok(Arc::clone(value)) } else { arrow_cast::cast(value, &ArrowType::Utf8) };
    let bytes = text.and_then(|text| arrow_cast::cast(&text, &ArrowType::Binary));
    let bytes = bytes.map_err(|error| Error::Unsupported(format!("no partition key: {error}")))?;
    let bytes = bytes.as_binary::<i32>();
    Ok(bytes.is_valid(0).then(|| bytes.value(0).to_vec()))
}

/// The keys of a path and their values, in order: the bytes of texts (or of a value of bytes),
/// `None` for null.
pub fn parse_path(path: &str) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let parts = path.split('/').filter_map(|part| part.split_once('='));
    parts
        .map(|(key, value)| (unescape(key), (value != NULL_PARTITION).then(|| unescape(value))))
        .collect()
}

fn unescape(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, Date32Array, Int32Array, StringArray};

    use super::*;

    fn partitions(columns: Vec<(&str, ArrayRef)>, requests: &[&str]) -> (Vec<u32>, Vec<String>) {
        let names = columns
            .iter()
            .map(|(name, array)| (*name, DataType::from_arrow(array.data_type()).unwrap()));
        let schema = Schema::from_names(names).unwrap();
        let ids: Vec<ColumnId> = schema.columns().iter().map(|column| column.id).collect();
        let requests: Vec<String> = requests.iter().map(ToString::to_string).collect();
        let keys = keys(&requests, &schema, &ColumnsOnly).unwrap();
        let mut partitions = Partitions::new(keys, Arc::new(ColumnsOnly));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let numbers = partitions.of(&batch, &ids, &schema).unwrap();
        (numbers, partitions.names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn paths_say_the_values_and_give_them_back() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a/b"),
            Some(".."),
            Some(""),
            None,
            Some(NULL_PARTITION),
            Some("a/b"),
            Some("ü %"),
        ]));
        let bytes: ArrayRef =
            Arc::new(BinaryArray::from(vec![Some(&b"\xff/"[..]), None, Some(b"a"), Some(b"\xfe")]));
        let (numbers, paths) = partitions(vec![("b", bytes)], &["b"]);
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!(paths, ["b=%FF%2F", &format!("b={NULL_PARTITION}"), "b=a", "b=%FE"]);
        assert_eq!(parse_path(&paths[0]), [(b"b".to_vec(), Some(b"\xff/".to_vec()))]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![
            Some(0),
            Some(0),
            Some(1),
            Some(1),
            None,
            Some(0),
            Some(0),
        ]));
        let (numbers, paths) =
            partitions(vec![("t", texts), ("day of trip", days)], &["t AS x", "day of trip"]);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 0, 5]);
        assert_eq!(paths[0], "x=a%2Fb/day_of_trip=1970-01-01");
        assert_eq!(paths[3], format!("x={NULL_PARTITION}/day_of_trip=1970-01-02"));
        let back: Vec<_> = paths.iter().map(|path| parse_path(path)[0].1.clone()).collect();
        let values = [Some("a/b"), Some(".."), Some(""), None, Some(NULL_PARTITION), Some("ü %")];
        assert_eq!(back, values.map(|value| value.map(|text| text.as_bytes().to_vec())));
        assert_eq!(parse_path(&paths[4])[1], (b"day_of_trip".to_vec(), None));
        paths.iter().for_each(|path| crate::manifest::layout::check_partition(path).unwrap());
    }

    #[test]
    fn a_type_that_widens_keeps_the_partitions() {
        let schema = |data_type| Schema::from_names([("k", data_type)]).unwrap();
        let keys = keys(&["k".to_owned()], &schema(DataType::Int32), &ColumnsOnly).unwrap();
        let mut partitions = Partitions::new(keys, Arc::new(ColumnsOnly));
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![7, 8, 7]));
        let batch = RecordBatch::try_from_iter([("k", narrow)]).unwrap();
        assert_eq!(
            partitions.of(&batch, &[ColumnId(0)], &schema(DataType::Int32)).unwrap(),
            [0, 1, 0]
        );
        assert_eq!(
            partitions.of(&batch, &[ColumnId(0)], &schema(DataType::Int64)).unwrap(),
            [0, 1, 0]
        );
        assert_eq!(&*partitions.path(1), "k=8");
    }

    #[test]
    fn names_of_keys() {
        assert_eq!(split_alias("year(a) AS y"), ("year(a)", Some("y")));
        assert_eq!(split_alias("cast(a as int)"), ("cast(a as int)", None));
        assert_eq!(plain_name("date_trunc('month', t)"), "date_trunc_month_t");
    }
}

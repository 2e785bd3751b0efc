//! Numbers the partitions of a load.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_row::{RowConverter, SortField};
use hashbrown::HashMap;

use super::keys::Compile;
use super::path::partition_path;
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::model::{Column, ColumnId, DataType, PartitionKey, Schema};

/// Numbers the partitions of a load in the order of their first rows.
#[derive(Debug)]
pub struct Partitions {
    keys: Vec<PartitionKey>,
    compile: Arc<dyn Compile>,
    /// Valid for the column types at the time of compilation.
    compiled: Option<CompiledKeys>,
    numbers: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    paths: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    pub(super) names: Vec<Arc<str>>,
}

/// Keys compiled for certain column types.
#[derive(Debug)]
struct CompiledKeys {
    types: Vec<(ColumnId, DataType)>,
    keys: Vec<Expression>,
    converter: RowConverter,
}

impl Partitions {
    /// No partitions yet.
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

    /// The partition number of each row. `ids` are the column ids of the batch.
    pub fn number_rows(
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
            let converter = RowConverter::new(fields).or_invalid()?;
            // Encoded rows depend on the column types; paths do not.
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
            let value = compiled.evaluate(&inputs, rows);
            values.push(value.map_err(|error| key_error(&key.expression, error))?);
        }
        let encoded = converter.convert_columns(&values).or_invalid()?;
        let mut numbers = Vec::with_capacity(rows);
        let mut before: Option<(u32, usize)> = None;
        for row in 0..rows {
            let bytes = encoded.row(row);
            let number = match before {
                Some((number, same)) if encoded.row(same) == bytes => number,
                _ => match self.numbers.get(bytes.as_ref()) {
                    Some(number) => *number,
                    None => {
                        let path = partition_path(&self.keys, &values, row)?;
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

    /// The columns that the keys read, each under the name that the keys use.
    fn columns(&self, schema: &Schema) -> Result<Vec<Column>> {
        let mut columns: Vec<Column> = Vec::new();
        for (name, id) in self.keys.iter().flat_map(|key| &key.columns) {
            if columns.iter().any(|column| column.name == *name) {
                continue;
            }
            let Some(column) = schema.columns().iter().find(|column| column.id == *id) else {
                return Err(Error::NotFound(format!(
                    "the column '{name}' that the table is partitioned by no longer exists"
                )));
            };
            columns.push(Column { name: Arc::clone(name), ..column.clone() });
        }
        Ok(columns)
    }
}

/// A column of a batch in the table's type; nulls if the batch lacks it.
fn input(batch: &RecordBatch, ids: &[ColumnId], column: &Column) -> Result<ArrayRef> {
    let to = column.data_type.to_arrow();
    let Some(array) = ids.iter().position(|id| *id == column.id).map(|at| batch.column(at)) else {
        return Ok(new_null_array(&to, batch.num_rows()));
    };
    if *array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    arrow_cast::cast(array, &to)
        .or_invalid_with(format_args!("column '{}' does not convert to {to}", column.name))
}

fn key_error(expression: &str, error: Error) -> Error {
    match error {
        Error::InvalidInput(what) => {
            Error::InvalidInput(format!("--partition-by '{expression}': {what}"))
        }
        other => other,
    }
}

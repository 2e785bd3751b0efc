//! The operations, and what each of them does to the rows.

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType as ArrowType;

use super::model::{Model, State};
use crate::error::{Error, Result};
use crate::expr::{Expression, Function, Predicate, Traits};
use crate::ingest::arrange::{Arrange, SortBy};
use crate::ingest::load::{LoadOptions, load, load_batches};
use crate::ingest::resume::{CommitEvery, IfLoaded};
use crate::ingest::sources::Input;
use crate::maintain::{
    Alteration, CompactOptions, Modification, ModifyOptions, RepairOptions, alter, compact,
    drop_partitions, modify, repair,
};
use crate::model::Schema;
use crate::query::Condition;
use crate::store::{Table, TableOptions};

/// A year, so that generations are kept until they are collected.
const KEEP: u64 = 365 * 24 * 3_600_000;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// CSV from a pipe; makes the table if there is none.
    Ingest {
        from: i64,
        count: i64,
    },
    /// CSV files, with a commit after each.
    IngestFiles {
        files: Vec<PathBuf>,
        from: i64,
        count: i64,
    },
    /// A batch from memory.
    Append {
        from: i64,
        count: i64,
    },
    /// Takes out the rows whose id is a multiple.
    Delete {
        divisor: i64,
    },
    /// Changes value and partition of the rows whose id is a multiple.
    Update {
        divisor: i64,
    },
    Compact,
    /// Adds a column, or drops it if it is there, and keeps generations.
    Alter,
    DropPartition {
        kind: String,
    },
    /// Frees all generations but the one in force.
    Gc,
    /// Leaves a sound table as it is; `repairs.rs` has it repair damaged ones.
    Repair,
}

impl Operation {
    /// A short name.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Operation::Ingest { .. } => "ingest",
            Operation::IngestFiles { .. } => "ingest files",
            Operation::Append { .. } => "append",
            Operation::Delete { .. } => "delete",
            Operation::Update { .. } => "update",
            Operation::Compact => "compact",
            Operation::Alter => "alter",
            Operation::DropPartition { .. } => "drop partition",
            Operation::Gc => "gc",
            Operation::Repair => "repair",
        }
    }

    /// The states that it commits one after the other, after the one that it begins with.
    pub(super) fn states(&self, before: &State) -> Vec<State> {
        let mut after = before.clone().unwrap_or_else(|| Model {
            columns: ["id", "kind", "value"].map(str::to_owned).to_vec(),
            ..Model::default()
        });
        match self {
            Operation::Ingest { from, count } | Operation::Append { from, count } => {
                after.rows.extend(rows(*from, *count));
            }
            Operation::IngestFiles { files, from, count } => {
                let mut states = vec![before.clone()];
                for file in 0..files.len() as i64 {
                    after.rows.extend(rows(from + file * count, *count));
                    states.push(Some(after.clone()));
                }
                return states;
            }
            Operation::Delete { divisor } => after.rows.retain(|id, _| id % divisor != 0),
            Operation::Update { divisor } => {
                for (_, row) in after.rows.iter_mut().filter(|(id, _)| **id % divisor == 0) {
                    *row = ("moved".to_owned(), row.1 + 1000);
                }
            }
            Operation::Alter => match after.columns.iter().position(|name| name == "extra") {
                Some(at) => drop(after.columns.remove(at)),
                None => after.columns.push("extra".to_owned()),
            },
            Operation::DropPartition { kind } => after.rows.retain(|_, row| row.0 != *kind),
            Operation::Compact | Operation::Gc | Operation::Repair => {}
        }
        vec![before.clone(), Some(after)]
    }

    pub(super) fn run(&self, table: &Table) -> Result<()> {
        let created = || Some((Schema::default(), TableOptions::default()));
        match self {
            Operation::Ingest { from, count } => {
                let text = Cursor::new(csv(*from, *count).into_bytes());
                let input = Input::reader("x.csv", Box::new(text));
                load(table.writer(created())?, vec![input], &options()).map(|_| ())
            }
            Operation::IngestFiles { files, .. } => {
                let inputs = files.iter().map(Input::path).collect();
                let options = LoadOptions {
                    commit_every: Some(CommitEvery::Rows(1)),
                    if_loaded: IfLoaded::Skip,
                    ..options()
                };
                load(table.writer(created())?, inputs, &options).map(|_| ())
            }
            Operation::Append { from, count } => {
                let batch = std::iter::once(Ok(batch(*from, *count)));
                load_batches(table.writer(created())?, batch, &options()).map(|_| ())
            }
            Operation::Delete { divisor } => change(table, *divisor, None),
            Operation::Update { divisor } => {
                let plus = computed(vec![2], Arc::new(Plus(1000)), ArrowType::Int64);
                let moved = computed(vec![], Arc::new(Constant("moved")), ArrowType::Utf8);
                change(table, *divisor, Some(vec![(1, moved), (2, plus)]))
            }
            Operation::Compact => {
                let id = SortBy { column: "id".into(), descending: false, nulls_first: false };
                let sort_by = vec![id];
                let options =
                    CompactOptions { threads: 1, all: true, sort_by, ..CompactOptions::default() };
                compact(table, &options).map(|_| ())
            }
            Operation::Alter => {
                let schema = table.snapshot()?.schema().clone();
                let name = || "extra".to_owned();
                let change = match schema.expect("extra") {
                    Ok(_) => Alteration::Drop { name: name() },
                    Err(_) => Alteration::Add { name: name(), data_type: "int64".parse()? },
                };
                alter(table, &[change, Alteration::Keep(KEEP)]).map(|_| ())
            }
            Operation::DropPartition { kind } => {
                drop_partitions(table, &[format!("kind={kind}")]).map(|_| ())
            }
            Operation::Gc => table.writer(None)?.free(0).map(|_| ()),
            Operation::Repair => {
                let mut options = RepairOptions::default();
                options.verify.threads = 1;
                repair(table, &options).map(|_| ())
            }
        }
    }
}

/// Writes the files of [`Operation::IngestFiles`].
pub(super) fn files(dir: &std::path::Path, from: i64, count: i64, number: i64) -> Operation {
    let file = |at: i64| {
        let path = dir.join(format!("{}.csv", from + at * count));
        let text = csv(from + at * count, count);
        fs::File::create_new(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    };
    Operation::IngestFiles { files: (0..number).map(file).collect(), from, count }
}

/// Rows of three kinds.
fn rows(from: i64, count: i64) -> impl Iterator<Item = (i64, (String, i64))> {
    (from..from + count).map(|id| (id, (format!("k{}", id % 3), id * 7)))
}

fn csv(from: i64, count: i64) -> String {
    let lines = rows(from, count).map(|(id, (kind, value))| format!("{id},{kind},{value}\n"));
    "id,kind,value\n".to_owned() + &lines.collect::<String>()
}

fn batch(from: i64, count: i64) -> RecordBatch {
    let rows: Vec<_> = rows(from, count).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let kinds: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.1.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1.1)));
    RecordBatch::try_from_iter([("id", ids), ("kind", kinds), ("value", values)]).unwrap()
}

fn options() -> LoadOptions {
    let arrange = Arrange { partition_by: vec!["kind".to_owned()], ..Arrange::default() };
    LoadOptions { threads: 1, arrange, memory_limit: Some(256 << 20), ..LoadOptions::default() }
}

fn change(table: &Table, divisor: i64, set: Option<Vec<(usize, Expression)>>) -> Result<()> {
    let schema = table.snapshot()?.schema().clone();
    let multiple = computed(vec![0], Arc::new(Multiple(divisor)), ArrowType::Boolean);
    let modification = Modification {
        columns: schema.columns().to_vec(),
        conditions: vec![Condition::new(multiple, Predicate::Unknown)],
        set,
        ..Modification::default()
    };
    let options = ModifyOptions { threads: 1, ..ModifyOptions::default() };
    modify(table, table.writer(None)?, &modification, &options).map(|_| ())
}

fn computed(inputs: Vec<usize>, function: Arc<dyn Function>, data_type: ArrowType) -> Expression {
    let (traits, function) = (Traits::default(), Some(function));
    Expression { inputs, function, data_type, traits, choice: None, text: "".into() }
}

fn ints(inputs: &[ArrayRef]) -> Result<&Int64Array> {
    let first = inputs.first().and_then(|input| input.as_primitive_opt::<Int64Type>());
    first.ok_or_else(|| Error::InvalidInput("an integer is needed".into()))
}

#[derive(Debug)]
struct Multiple(i64);

impl Function for Multiple {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let is_multiple = |id: Option<i64>| id.map(|id| id % self.0 == 0);
        Ok(Arc::new(ints(inputs)?.iter().map(is_multiple).collect::<BooleanArray>()))
    }
}

#[derive(Debug)]
struct Plus(i64);

impl Function for Plus {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let plus = |value: Option<i64>| value.map(|value| value + self.0);
        Ok(Arc::new(ints(inputs)?.iter().map(plus).collect::<Int64Array>()))
    }
}

#[derive(Debug)]
struct Constant(&'static str);

impl Function for Constant {
    fn evaluate(&self, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from(vec![self.0; rows])))
    }
}

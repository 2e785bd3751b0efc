//! Several small tables that share column names, some with other types, and values, so that joins
//! find partners. Each is stored in its own way: in one commit or many, sorted, partitioned,
//! compacted.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use stylobate::{
    Arrange, CompactOptions, DataType, LoadOptions, Profile, Schema, SortBy, Store, TableOptions,
    compact, load_batches,
};

use super::random::Random;
use super::tables::{Database, Table};
use super::types;
use super::values::Values;

const TABLES: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 8] = ["id", "k", "n", "x", "s", "v", "w", "y"];

/// Makes two to four tables.
pub(crate) fn generate(r: &mut Random) -> Database {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("db"));
    let shared: Vec<(DataType, Values)> =
        NAMES.iter().map(|_| (types::any(r), Values::few(r))).collect();
    let whole = [DataType::Int32, DataType::Int64];
    let (mut tables, mut text) = (Vec::new(), String::new());
    let large = r.below(16);
    for (number, name) in TABLES.iter().enumerate().take(2 + r.below(3)) {
        let rows = if number == large { 2_000 + r.below(3_000) } else { size(r) };
        text += &format!("{}table {name}: {rows} rows", if number > 0 { "\n" } else { "" });
        let mut columns = Vec::new();
        for (at, (column, (data_type, values))) in NAMES.iter().zip(&shared).enumerate() {
            if !r.chance(if at < 3 { 85 } else { 50 }) {
                continue;
            }
            let data_type = match r.below(10) {
                0 => types::any(r),
                _ if at < 2 => r.choose(&whole),
                _ => data_type.clone(),
            };
            let values = values.again(r, &data_type);
            text += &format!("\n  {column} {data_type}: {values:?}");
            columns.push((*column, data_type, values));
        }
        if columns.is_empty() {
            columns.push(("id", DataType::Int32, Values::few(r)));
        }
        tables.push(keep(&store, name, &columns, rows, &mut text, r));
    }
    Database { tables, store, text, little_memory: r.chance(50), _directory: directory }
}

fn size(r: &mut Random) -> usize {
    match r.below(14) {
        0 => 0,
        1 | 2 => 1 + r.below(3),
        3..=9 => 3 + r.below(20),
        _ => 20 + r.below(80),
    }
}

/// Stores random rows.
fn keep(
    store: &Store,
    name: &str,
    columns: &[(&str, DataType, Values)],
    rows: usize,
    text: &mut String,
    r: &mut Random,
) -> Table {
    let mut schema = Schema::default();
    for (column, data_type, _) in columns {
        schema.add(column, data_type.clone()).unwrap();
    }
    let start = r.below(500);
    let arrays =
        columns.iter().map(|(_, data_type, values)| values.array(r, data_type, start, rows));
    let all = RecordBatch::try_new(schema.to_arrow(), arrays.collect()).unwrap();
    let pieces = if rows < 2 { 1 } else { r.choose(&[1, 1, 2, 3, 5]).min(rows) };
    let cut = |at: usize| rows * at / pieces;
    let batches: Vec<RecordBatch> =
        (0..pieces).map(|at| all.slice(cut(at), cut(at + 1) - cut(at))).collect();
    let keys = columns
        .iter()
        .zip(all.columns())
        .filter(|((_, t, _), values)| is_key(t) && is_short(values));
    let keys: Vec<&str> = keys.map(|((column, ..), _)| *column).collect();
    let options = how(columns, &keys, text, r);
    let created = TableOptions { block_rows: 1024, ..TableOptions::default() };
    let table = store.table(name).unwrap();
    if rows == 0 {
        table
            .writer(Some((schema.clone(), created)))
            .unwrap()
            .commit(schema.clone(), Vec::new())
            .unwrap();
        return Table::new(name, &schema, batches, r);
    }
    for batch in &batches {
        let writer = table.writer(Some((schema.clone(), created))).unwrap();
        load_batches(writer, std::iter::once(Ok(batch.clone())), &options).unwrap();
    }
    if r.chance(20) {
        *text += "; compacted";
        compact(&table, &CompactOptions { all: true, threads: 1, ..CompactOptions::default() })
            .unwrap();
    }
    *text += &format!("; in {pieces} commits");
    Table::new(name, &schema, batches, r)
}

fn is_key(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Bool | DataType::Utf8 | DataType::Date)
}

/// Whether every text fits into the name of a partition's directory, where a byte may take three.
fn is_short(values: &ArrayRef) -> bool {
    values
        .as_string_view_opt()
        .is_none_or(|texts| texts.iter().flatten().all(|text| text.len() <= 60))
}

/// Chooses order, partitions and profile.
fn how(
    columns: &[(&str, DataType, Values)],
    keys: &[&str],
    text: &mut String,
    r: &mut Random,
) -> LoadOptions {
    let mut arrange = Arrange::default();
    if r.chance(30) {
        for _ in 0..1 + r.below(2) {
            let column = columns[r.below(columns.len())].0.to_owned();
            if arrange.sort_by.iter().all(|key: &SortBy| key.column != column) {
                arrange.sort_by.push(SortBy {
                    column,
                    descending: r.chance(30),
                    nulls_first: r.chance(50),
                });
            }
        }
        *text += &format!("\n  sorted by {:?}", arrange.sort_by);
    }
    if r.chance(25) && !keys.is_empty() {
        arrange.partition_by.push(keys[r.below(keys.len())].to_owned());
        *text += &format!("\n  partitioned by {:?}", arrange.partition_by);
    }
    let profile = r.choose(&[Profile::Fast, Profile::Balanced, Profile::Small]);
    *text += &format!("\n  {profile:?}");
    LoadOptions { arrange, profile: Some(profile), threads: 1, ..LoadOptions::default() }
}

//! Any text, or any sequence of words of SQL, as the expression that a table is partitioned by: an
//! error, or a partition for each row that does not depend on the rows around it.

use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use stylobate::internal::ingest::{Compile, Partitions, partition_keys};
use stylobate::{Result, Schema, Session, SessionOptions, SqlExpressions, Store};

use super::{store, words};

/// Rows of both tables, with the schemas of the tables.
fn rows() -> &'static [(Schema, RecordBatch)] {
    static ROWS: OnceLock<Vec<(Schema, RecordBatch)>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        store::create(&path);
        let store = Store::open(&path);
        let session = Session::open(&store, &SessionOptions::default()).unwrap();
        let rows = |table: &str| {
            let schema = store.table(table).unwrap().snapshot().unwrap().schema().clone();
            let sql = format!("SELECT * FROM {table} WHERE n % 997 IN (0, 5, 77) ORDER BY n");
            (schema, store::ask(&session, &sql).unwrap().swap_remove(0))
        };
        vec![rows("numbers"), rows("words")]
    })
}

/// The target.
pub fn run(bytes: &[u8]) {
    let Some(text) = words::text(bytes) else { return };
    let compile: Arc<dyn Compile> = Arc::new(SqlExpressions::default());
    for (schema, batch) in rows() {
        let Ok(together) = paths(&text, schema, batch, &compile) else { continue };
        assert_eq!(together.len(), batch.num_rows());
        for (row, path) in together.iter().enumerate() {
            let alone = paths(&text, schema, &batch.slice(row, 1), &compile).unwrap();
            assert_eq!(alone, [Arc::clone(path)], "{text}");
        }
    }
}

/// The path of the partition of each row.
fn paths(
    expression: &str,
    schema: &Schema,
    batch: &RecordBatch,
    compile: &Arc<dyn Compile>,
) -> Result<Vec<Arc<str>>> {
    let keys = partition_keys(&[expression.to_owned()], schema, &**compile)?;
    let mut partitions = Partitions::new(keys, Arc::clone(compile));
    let ids: Vec<_> = schema.columns().iter().map(|column| column.id).collect();
    let numbers = partitions.number_rows(batch, &ids, schema)?;
    Ok(numbers.into_iter().map(|number| partitions.path(number)).collect())
}

//! Random tables, stored by the library's own writer, with the same rows as Arrow batches.

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType as ArrowType, SchemaRef};
use stylobate::internal::encoding::Options;
use stylobate::internal::segment::{InputColumn, SegmentInput, encode};
use stylobate::internal::store::NewSegment;
use stylobate::{DataType, Schema, Store, TableOptions};

use super::random::Random;
use super::values::array;

/// Tables in their own store.
pub(crate) struct Database {
    pub(crate) tables: Vec<Table>,
    pub(crate) store: Store,
    /// A description for failures.
    pub(crate) text: String,
    /// Whether one of the engines has so little memory that groups are spilled.
    pub(crate) little_memory: bool,
    pub(crate) _directory: tempfile::TempDir,
}

/// A table, and its rows.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// What statements need to know about a column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its name in a statement, which may have an alias.
    pub(crate) name: String,
    /// Its name in the table.
    pub(crate) bare: String,
    pub(crate) data_type: DataType,
    /// Some of its values, as SQL.
    pub(crate) samples: Vec<String>,
}

/// A segment to be stored: the type and values of each column that it has.
pub(crate) struct Part {
    pub(crate) columns: Vec<Option<(DataType, ArrayRef)>>,
    pub(crate) rows: usize,
    pub(crate) options: Options,
    /// Whether it is the last of a commit.
    pub(crate) commits: bool,
}

/// Stores the segments as table `t`.
pub(crate) fn store(
    schema: &Schema,
    block_rows: usize,
    parts: Vec<Part>,
    text: String,
    r: &mut Random,
) -> Database {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("db"));
    let options = TableOptions { block_rows: block_rows as u32, ..TableOptions::default() };
    let mut writer = store.table("t").unwrap().writer(Some((schema.clone(), options))).unwrap();
    let readable = schema.to_arrow();
    let (mut batches, mut pending) = (Vec::new(), Vec::new());
    let last = parts.len() - 1;
    for (number, part) in parts.into_iter().enumerate() {
        let widened =
            part.columns.iter().zip(readable.fields()).map(|(column, field)| match column {
                Some((_, values)) => arrow_cast::cast(values, field.data_type()).unwrap(),
                None => new_null_array(field.data_type(), part.rows),
            });
        batches.push(RecordBatch::try_new(readable.clone(), widened.collect()).unwrap());
        let columns = part.columns.into_iter().zip(schema.columns());
        let columns = columns.filter_map(|(column, known)| {
            let (data_type, values) = column?;
            Some(InputColumn { id: known.id, data_type, arrays: vec![values] })
        });
        let input = SegmentInput { rows: part.rows, block_rows, columns: columns.collect() };
        let encoded = encode(&input, &part.options).unwrap();
        let mut file = writer.new_data_file().unwrap();
        encoded.parts.iter().for_each(|bytes| file.write_all(bytes).unwrap());
        pending.push(NewSegment {
            file: file.uuid(),
            offset: 0,
            length: encoded.len,
            uuid: encoded.uuid,
            footer_crc: encoded.footer_crc,
            rows: encoded.rows,
            stats: encoded.stats,
        });
        drop(file);
        if part.commits || number == last {
            writer.commit(schema.clone(), std::mem::take(&mut pending)).unwrap();
        }
    }
    drop(writer);
    let tables = vec![Table::new("t", schema, batches, r)];
    Database { tables, store, text, little_memory: r.chance(50), _directory: directory }
}

impl Table {
    pub(crate) fn new(
        name: &str,
        schema: &Schema,
        batches: Vec<RecordBatch>,
        r: &mut Random,
    ) -> Table {
        let columns =
            (0..schema.columns().len()).map(|at| column(schema, &batches, at, r)).collect();
        Table { name: name.to_owned(), columns, schema: schema.to_arrow(), batches }
    }

    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows in two partitions, for DataFusion.
    pub(crate) fn partitions(&self) -> Vec<Vec<RecordBatch>> {
        let mut partitions = vec![Vec::new(), Vec::new()];
        for (at, batch) in self.batches.iter().enumerate() {
            partitions[at % 2].push(batch.clone());
        }
        partitions
    }
}

fn column(schema: &Schema, batches: &[RecordBatch], at: usize, r: &mut Random) -> Column {
    let known = &schema.columns()[at];
    let filled: Vec<&ArrayRef> =
        batches.iter().map(|batch| batch.column(at)).filter(|values| !values.is_empty()).collect();
    let mut samples = Vec::new();
    for _ in 0..if filled.is_empty() { 0 } else { 10 } {
        let values = filled[r.below(filled.len())];
        let row = r.below(values.len());
        if values.is_valid(row) {
            samples.push(literal(&known.data_type, values, row, r));
        }
    }
    if samples.is_empty() {
        let null = array(&known.data_type, &[Some(3)]);
        samples.push(literal(&known.data_type, &null, 0, r));
    }
    let name = known.name.to_string();
    Column { bare: name.clone(), name, data_type: known.data_type.clone(), samples }
}

/// Whether a number loses nothing when DataFusion casts it to 15 digits after the point.
fn is_short(number: &str) -> bool {
    number.trim_start_matches(['-', '0', '.']).trim_end_matches(['0', '.']).len() <= 6
}

/// A value as SQL.
fn literal(data_type: &DataType, values: &ArrayRef, row: usize, r: &mut Random) -> String {
    let shown = array_value_to_string(values, row).unwrap();
    match data_type {
        DataType::Float32 | DataType::Float64 if shown.contains(['N', 'i']) => {
            format!("CAST('{shown}' AS DOUBLE)")
        }
        DataType::Float32 if r.chance(50) => format!("CAST({shown} AS REAL)"),
        DataType::Int64 if shown == "-9223372036854775808" => format!("CAST('{shown}' AS BIGINT)"),
        DataType::Decimal { precision, scale }
            if *scale >= 0 && (r.chance(70) || !is_short(&shown)) =>
        {
            format!("CAST('{shown}' AS DECIMAL({precision},{scale}))")
        }
        DataType::Date => format!("DATE '{shown}'"),
        DataType::Timestamp { .. } | DataType::Time { .. } => match values.data_type() {
            ArrowType::Timestamp(unit, Some(zone)) => {
                format!("arrow_cast('{shown}', 'Timestamp({unit:?}, Some(\"{zone}\"))')")
            }
            other => format!("arrow_cast('{shown}', '{other:?}')"),
        },
        DataType::Utf8 | DataType::Uuid => format!("'{}'", shown.replace('\'', "''")),
        DataType::Binary => format!("X'{shown}'"),
        _ => shown,
    }
}

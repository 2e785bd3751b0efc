//! Random tables: stored by the library's own writer, and the same rows as Arrow batches.

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType as ArrowType, SchemaRef};
use stylobate::encoding::{Encoding, Options, Profile};
use stylobate::model::{DataType, Schema};
use stylobate::segment::writer::{InputColumn, SegmentInput, encode};
use stylobate::store::{NewSegment, Store, TableOptions};

use super::random::Random;
use super::values::{Values, array};

/// A table `t` in a store of its own.
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) schema: SchemaRef,
    /// A batch for each segment.
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) store: Store,
    /// What it is, for whom a failure concerns.
    pub(crate) text: String,
    /// Whether one of the ways has so little memory that groups are spilled.
    pub(crate) little_memory: bool,
    _directory: tempfile::TempDir,
}

/// What statements need to know of a column.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Some of its values, as SQL.
    pub(crate) samples: Vec<String>,
}

/// A segment to be stored: of each column the type and the values, unless it has not got the column.
pub(crate) struct Part {
    pub(crate) columns: Vec<Option<(DataType, ArrayRef)>>,
    pub(crate) rows: usize,
    pub(crate) options: Options,
    /// Whether it is the last of a commit.
    pub(crate) commits: bool,
}

const TYPES: [&str; 25] = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "float64",
    "float64",
    "decimal(12,2)",
    "decimal(38,10)",
    "date",
    "timestamp(s)",
    "timestamp(us)",
    "timestamp(ns)",
    "timestamp(ms,UTC)",
    "time(us)",
    "utf8",
    "utf8",
    "binary",
];

/// Types that widen to this one, whatever the values.
fn narrower(name: &str) -> &'static [&'static str] {
    match name {
        "int16" => &["null", "int8", "uint8"],
        "int32" => &["null", "int8", "int16", "uint8", "uint16"],
        "int64" => &["null", "int8", "int16", "int32", "int32", "uint8", "uint16", "uint32"],
        "uint16" => &["null", "uint8"],
        "uint32" => &["null", "uint8", "uint16"],
        "uint64" => &["null", "uint8", "uint16", "uint32"],
        "float32" => &["null", "int8", "int16", "uint8"],
        "float64" => &["null", "int8", "int16", "int32", "uint16", "uint32", "float32"],
        "decimal(12,2)" => &["null", "decimal(5,2)", "decimal(6,1)", "decimal(4,0)"],
        "decimal(38,10)" => &["null", "decimal(20,5)", "decimal(9,9)"],
        "timestamp(us)" | "timestamp(ns)" => &["null", "date", "timestamp(s)", "timestamp(ms)"],
        "timestamp(ms,UTC)" => &["null", "timestamp(s,UTC)"],
        "time(us)" => &["null", "time(s)", "time(ms)"],
        _ => &["null"],
    }
}

/// The table of a seed.
pub(crate) fn generate(seed: u64) -> Table {
    let r = &mut Random::new(seed);
    let block_rows = r.of_these(&[1024, 1024, 2048, 65536]);
    let sizes: Vec<usize> = (0..1 + r.below(5)).map(|_| size(r)).collect();
    let mut schema = Schema::default();
    let mut text = format!("blocks of {block_rows} rows; segments of {sizes:?} rows");
    let mut kinds = Vec::new();
    for at in 0..5 + r.below(8) {
        let name = r.pick(&TYPES);
        let values = Values::random(r);
        text += &format!("\n  c{at} {name}: {values:?}");
        schema.add(&format!("c{at}"), name.parse().unwrap()).unwrap();
        // From which segment on it is there, and until which it is narrow.
        let there = if r.chance(15) { r.below(sizes.len() + 1) } else { 0 };
        let wide = if r.chance(30) { r.below(sizes.len() + 1) } else { 0 };
        kinds.push((name, values, there, wide));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (number, rows) in sizes.iter().copied().enumerate() {
        let mut columns = Vec::new();
        for (at, (name, values, there, wide)) in kinds.iter().enumerate() {
            let stored = if number < *wide { r.pick(narrower(name)) } else { *name };
            let data_type: DataType = stored.parse().unwrap();
            let column = (number >= *there).then(|| {
                if stored != *name {
                    text += &format!("\n  c{at} is {stored} in segment {number}");
                }
                (data_type.clone(), values.array(r, &data_type, start, rows))
            });
            if column.is_none() {
                text += &format!("\n  c{at} is missing in segment {number}");
            }
            columns.push(column);
        }
        let profile = r.of_these(&[Profile::Fast, Profile::Balanced, Profile::Balanced, Profile::Small]);
        let force = if r.chance(60) { Some(r.of_these(Encoding::ALL)) } else { None };
        let options = Options { force, ..Options::new(profile) };
        text += &format!("\n  segment {number}: {profile:?}, {force:?}");
        parts.push(Part { columns, rows, options, commits: r.chance(50) });
        start += rows;
    }
    store(&schema, block_rows, parts, text, r)
}

fn size(r: &mut Random) -> usize {
    match r.below(12) {
        0 => 1,
        1 => 1 + r.below(10),
        2 => 1023 + r.below(3),
        3..=5 => 100 + r.below(900),
        6 => 8_000 + r.below(3_000),
        _ => 1_000 + r.below(3_000),
    }
}

/// Stores the segments.
pub(crate) fn store(schema: &Schema, block_rows: usize, parts: Vec<Part>, text: String, r: &mut Random) -> Table {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("db"));
    let options = TableOptions { block_rows: block_rows as u32, ..TableOptions::default() };
    let mut writer = store.table("t").unwrap().writer(Some((schema.clone(), options))).unwrap();
    let readable = schema.to_arrow();
    let (mut batches, mut pending) = (Vec::new(), Vec::new());
    let last = parts.len() - 1;
    for (number, part) in parts.into_iter().enumerate() {
        let widened = part.columns.iter().zip(readable.fields()).map(|(column, field)| match column {
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
    let columns = (0..schema.columns().len()).map(|at| column(schema, &batches, at, r)).collect();
    let little_memory = r.chance(50);
    Table { columns, schema: readable, batches, store, text, little_memory, _directory: directory }
}

fn column(schema: &Schema, batches: &[RecordBatch], at: usize, r: &mut Random) -> Column {
    let known = &schema.columns()[at];
    let mut samples = Vec::new();
    for _ in 0..10 {
        let values = batches[r.below(batches.len())].column(at);
        let row = r.below(values.len());
        if values.is_valid(row) {
            samples.push(literal(&known.data_type, values, row, r));
        }
    }
    if samples.is_empty() {
        let null = array(&known.data_type, &[Some(3)]);
        samples.push(literal(&known.data_type, &null, 0, r));
    }
    Column { name: known.name.to_string(), data_type: known.data_type.clone(), samples }
}

/// A value as SQL.
fn literal(data_type: &DataType, values: &ArrayRef, row: usize, r: &mut Random) -> String {
    let shown = array_value_to_string(values, row).unwrap();
    match data_type {
        DataType::Float32 | DataType::Float64 if shown.contains(['N', 'i']) => format!("CAST('{shown}' AS DOUBLE)"),
        DataType::Float32 if r.chance(50) => format!("CAST({shown} AS REAL)"),
        DataType::Int64 if shown == "-9223372036854775808" => format!("CAST('{shown}' AS BIGINT)"),
        DataType::Decimal { precision, scale } if r.chance(70) => {
            format!("CAST('{shown}' AS DECIMAL({precision},{scale}))")
        }
        DataType::Date => format!("DATE '{shown}'"),
        DataType::Timestamp { zone: None, .. } if r.chance(50) => format!("TIMESTAMP '{shown}'"),
        DataType::Timestamp { .. } | DataType::Time { .. } => match values.data_type() {
            ArrowType::Timestamp(unit, Some(zone)) => {
                format!("arrow_cast('{shown}', 'Timestamp({unit:?}, Some(\"{zone}\"))')")
            }
            other => format!("arrow_cast('{shown}', '{other:?}')"),
        },
        DataType::Utf8 => format!("'{}'", shown.replace('\'', "''")),
        DataType::Binary => format!("X'{shown}'"),
        _ => shown,
    }
}

impl Table {
    /// One of the columns that `wanted` is true of.
    pub(crate) fn column(&self, r: &mut Random, wanted: impl Fn(&DataType) -> bool) -> Option<&Column> {
        let fitting: Vec<&Column> = self.columns.iter().filter(|column| wanted(&column.data_type)).collect();
        if fitting.is_empty() { None } else { Some(fitting[r.below(fitting.len())]) }
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

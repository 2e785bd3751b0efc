//! Every value of real files: a table returns what another reader finds in the file. The files lie
//! beside the checkout and are not part of it; without them these tests say so and pass.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use stylobate::{CsvOptions, Input, LoadOptions, Profile, Snapshot, Table};

use super::loading::{Database, each_block, options};

use crate::project;

const PROFILES: [Profile; 3] = [Profile::Fast, Profile::Balanced, Profile::Small];

fn real_file(name: &str) -> Option<PathBuf> {
    let path = project().join("../shared/data").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

/// Compares a column with the other reader's batches, which are cast to the table's type if that is
/// lossless.
fn assert_column(snapshot: &Snapshot, column: usize, batches: &[RecordBatch]) {
    let name = &*snapshot.schema().columns()[column].name;
    let parts: Vec<&dyn Array> =
        batches.iter().map(|batch| batch.column_by_name(name).unwrap().as_ref()).collect();
    let expected = arrow_select::concat::concat(&parts).unwrap();
    let mut row = 0;
    each_block(snapshot, column, |block| {
        let expected: ArrayRef = expected.slice(row, block.len());
        let expected = arrow_cast::cast(&expected, block.data_type()).unwrap();
        assert!(
            block.to_data() == expected.to_data(),
            "column '{name}', rows {row} to {}",
            row + block.len()
        );
        row += block.len();
    });
    assert_eq!(row, expected.len(), "column '{name}'");
}

fn assert_table(table: &Table, batches: &[RecordBatch]) {
    let snapshot = table.snapshot().unwrap();
    let schema = batches[0].schema();
    let names: Vec<&str> = snapshot.schema().columns().iter().map(|c| &*c.name).collect();
    assert_eq!(names, schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>());
    assert_eq!(snapshot.rows(), batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    (0..names.len()).for_each(|column| assert_column(&snapshot, column, batches));
}

#[test]
fn flights_are_what_the_parquet_reader_gives() {
    let Some(path) = real_file("flights-3m.parquet") else { return };
    let file = std::fs::File::open(&path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let db = Database::new();
    // Through a pipe, for which a temporary copy is made.
    let pipe = Input::reader("pipe", Box::new(std::fs::File::open(&path).unwrap()));
    assert_eq!(
        db.load("pipe", vec![pipe], &options()).unwrap().bytes_in,
        path.metadata().unwrap().len()
    );
    assert_table(&db.table("pipe"), &batches);
    for profile in PROFILES {
        let table = format!("{profile}");
        let options = LoadOptions { profile: Some(profile), ..options() };
        let report = db.load(&table, vec![Input::path(&path)], &options).unwrap();
        assert_eq!(report.rows_stored, 3_000_000);
        assert_eq!(report.bytes_in, path.metadata().unwrap().len());
        assert_table(&db.table(&table), &batches);
    }
}

/// The columns of the trips, in the order of the file.
const TRIP_COLUMNS: &str = "trip_id,vendor_id,pickup_datetime,dropoff_datetime,store_and_fwd_flag,\
    rate_code_id,\
    pickup_longitude,pickup_latitude,dropoff_longitude,dropoff_latitude,passenger_count,\
    trip_distance,fare_amount,\
    extra,mta_tax,tip_amount,tolls_amount,ehail_fee,improvement_surcharge,total_amount,\
    payment_type,trip_type,pickup,\
    dropoff,cab_type,precipitation,snow_depth,snowfall,max_temperature,min_temperature,\
    average_wind_speed,\
    pickup_nyct2010_gid,pickup_ctlabel,pickup_borocode,pickup_boroname,pickup_ct2010,\
    pickup_boroct2010,\
    pickup_cdeligibil,pickup_ntacode,pickup_ntaname,pickup_puma,dropoff_nyct2010_gid,\
    dropoff_ctlabel,\
    dropoff_borocode,dropoff_boroname,dropoff_ct2010,dropoff_boroct2010,dropoff_cdeligibil,\
    dropoff_ntacode,\
    dropoff_ntaname,dropoff_puma";

/// The expected types of some columns that are easy to get wrong.
const TRIP_TYPES: [(&str, &str); 8] = [
    ("trip_id", "int64"),
    ("pickup_datetime", "timestamp(us)"),
    ("store_and_fwd_flag", "utf8"),
    ("pickup_longitude", "float64"),
    ("total_amount", "float64"),
    ("pickup", "utf8"),
    ("pickup_ntaname", "utf8"),
    ("passenger_count", "int64"),
];

/// The rows as `arrow-csv` reads them under this schema, with text for types that `arrow-csv`
/// formats in another way.
fn read_csv(text: &[u8], schema: &Schema) -> Vec<RecordBatch> {
    let plain = |field: &Arc<Field>| match field.data_type() {
        ArrowType::Utf8View => Field::new(field.name(), ArrowType::Utf8, true),
        other => Field::new(field.name(), other.clone(), true),
    };
    let schema: SchemaRef =
        Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()));
    let reader = arrow_csv::ReaderBuilder::new(schema).with_header(false).build(text).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn trips_are_what_another_csv_reader_gives() {
    let Some(path) = real_file("nyc-taxi.csv.gz") else { return };
    let names: Vec<String> = TRIP_COLUMNS.split(',').map(str::to_string).collect();
    assert_eq!(names.len(), 51);
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(&path).unwrap())
        .read_to_end(&mut text)
        .unwrap();
    let db = Database::new();
    for profile in PROFILES {
        let table = db.table(&profile.to_string());
        let csv =
            CsvOptions { header: Some(false), names: Some(names.clone()), ..CsvOptions::default() };
        let options = LoadOptions { csv, profile: Some(profile), ..options() };
        let report = db.load(table.name(), vec![Input::path(&path)], &options).unwrap();
        assert_eq!((report.rows_stored, report.bytes_in), (10_000, path.metadata().unwrap().len()));
        let snapshot = table.snapshot().unwrap();
        for (name, expected) in TRIP_TYPES {
            let column = &snapshot.schema().columns()[snapshot.schema().position(name).unwrap()];
            assert_eq!(column.data_type.to_string(), expected, "{name}");
        }
        assert_table(&table, &read_csv(&text, &snapshot.schema().to_arrow()));
    }
}

//! What the generator promises of its trips.

use std::sync::atomic::AtomicBool;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_select::concat::concat_batches;

use crate::generator::Generator;
use crate::{Error, Format, arrays, text, write, write_stream};

fn lines(generator: &Generator, steps: &[u64]) -> String {
    let mut out = Vec::new();
    for pair in steps.windows(2) {
        text::write_csv(generator, pair[0]..pair[1], &mut out);
    }
    String::from_utf8(out).unwrap()
}

fn sample() -> (Generator, RecordBatch) {
    let generator = Generator::new(3, 5_000, 4);
    let batch = arrays::batch(&generator, 0..5_000).unwrap();
    (generator, batch)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a dyn Array {
    batch.column_by_name(name).unwrap().as_ref()
}

#[test]
fn any_split_gives_the_same_rows() {
    let (generator, whole) = sample();
    assert_eq!(
        lines(&generator, &[0, 5_000]),
        lines(&generator, &[0, 1, 700, 1_250, 3_333, 5_000])
    );
    let parts: Vec<RecordBatch> =
        [0..900, 900..901, 901..5_000].map(|rows| arrays::batch(&generator, rows).unwrap()).into();
    assert_eq!(concat_batches(&arrays::schema(), &parts).unwrap(), whole);
    assert_ne!(lines(&Generator::new(4, 5_000, 4), &[0, 100]), lines(&generator, &[0, 100]));
}

#[test]
fn every_line_has_51_fields_that_parse_to_the_batch() {
    let (generator, batch) = sample();
    let text = lines(&generator, &[0, 5_000]);
    assert_eq!(text.lines().count(), 5_000);
    for (row, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 51, "{line}");
        for (field, array) in fields.iter().zip(batch.columns()) {
            assert_eq!(field.is_empty(), array.is_null(row), "{line}");
            if field.is_empty() {
                continue;
            }
            if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
                assert_eq!(
                    field.parse::<f64>().unwrap().to_bits(),
                    floats.value(row).to_bits(),
                    "{field}"
                );
            } else if let Some(integers) = array.as_primitive_opt::<Int64Type>() {
                assert_eq!(field.parse::<i64>().unwrap(), integers.value(row));
            } else if let Some(strings) = array.as_string_opt::<i32>() {
                assert_eq!(*field, strings.value(row));
            }
        }
    }
}

#[test]
fn totals_add_up() {
    let (_, batch) = sample();
    let cents = |name: &str, row: usize| {
        let array = column(&batch, name).as_primitive::<Float64Type>();
        if array.is_null(row) { 0 } else { (array.value(row) * 100.0).round() as i64 }
    };
    let parts =
        ["fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge"];
    for row in 0..batch.num_rows() {
        let sum: i64 = parts.iter().map(|name| cents(name, row)).sum();
        assert_eq!(sum, cents("total_amount", row));
    }
}

#[test]
fn points_hold_the_coordinates() {
    let (_, batch) = sample();
    for place in ["pickup", "dropoff"] {
        let points = column(&batch, place).as_string::<i32>();
        let longitudes =
            column(&batch, &format!("{place}_longitude")).as_primitive::<Float64Type>();
        let latitudes = column(&batch, &format!("{place}_latitude")).as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            assert_eq!(points.is_null(row), longitudes.is_null(row));
            if points.is_null(row) {
                continue;
            }
            let double = |digits: &str| {
                f64::from_bits(u64::from_str_radix(digits, 16).unwrap().swap_bytes())
            };
            assert_eq!(double(&points.value(row)[18..34]), longitudes.value(row));
            assert_eq!(double(&points.value(row)[34..]), latitudes.value(row));
        }
    }
}

#[test]
fn ids_rise_and_files_follow_one_another() {
    let (generator, batch) = sample();
    let ids = column(&batch, "trip_id").as_primitive::<Int64Type>();
    assert!(ids.values().windows(2).all(|pair| pair[0] < pair[1]));
    let pickups =
        column(&batch, "pickup_datetime").as_primitive::<TimestampMicrosecondType>().values();
    assert!(!pickups.is_sorted(), "local disorder is part of the data");
    let mut before = i64::MIN;
    for file in 0..generator.files() {
        let rows = generator.file_rows(file);
        let times = &pickups[rows.start as usize..rows.end as usize];
        assert!(times.iter().all(|&time| time >= before));
        before = times.iter().copied().max().unwrap();
    }
}

#[test]
fn files_hold_the_stream_and_are_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let generator = Generator::new(5, 40_000, 3);
    let go_on = AtomicBool::new(false);
    let (paths, bytes) =
        write(&generator, Format::Csv, false, directory.path(), |_| (), &go_on).unwrap();
    let files: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let mut stream = Vec::new();
    write_stream(&generator, false, &mut stream).unwrap();
    assert!(files == stream && bytes == stream.len() as u64 && paths.len() == 3);
    let stopped = AtomicBool::new(true);
    for (number, format) in [Format::Csv, Format::CsvGz, Format::Parquet].into_iter().enumerate() {
        let other = directory.path().join(number.to_string());
        let ended = write(&generator, format, false, &other, |_| (), &stopped);
        assert!(matches!(ended, Err(Error::Cancelled)) && other.read_dir().unwrap().count() == 0);
    }
    let again = write(&generator, Format::Csv, false, directory.path(), |_| (), &go_on);
    assert!(matches!(again, Err(Error::Exists(path)) if path == paths[0]));
}

//! Tests from text to batches.

mod errors;
mod grammar;
mod inference;
mod properties;
mod values;

use std::io::Cursor;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};

use super::*;
use crate::error::{Error, Result};
use crate::model::DataType;

fn chunks(text: &[u8], options: &CsvOptions, size: usize) -> Result<Vec<CsvChunk>> {
    let bytes = Box::new(Cursor::new(text.to_vec()));
    CsvChunks::new(Path::new("t.csv"), bytes, options).with_chunk_bytes(size).collect()
}

/// The batches of a text whose schema is inferred from the whole text.
fn read_in(text: &[u8], options: &CsvOptions, size: usize) -> Result<Vec<RecordBatch>> {
    let whole = chunks(text, options, 1 << 20)?;
    let schema = infer(Path::new("t.csv"), options, whole.first())?;
    chunks(text, options, size)?.iter().map(|chunk| parse_chunk(&schema, chunk)).collect()
}

/// Every cell as text; nulls as `∅`.
fn cells(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let formatted: Vec<Vec<String>> =
            batch.columns().iter().map(|column| show(column)).collect();
        for row in 0..batch.num_rows() {
            rows.push(formatted.iter().map(|column| column[row].clone()).collect());
        }
    }
    rows
}

fn show(array: &dyn Array) -> Vec<String> {
    use arrow_schema::DataType as ArrowType;
    if let ArrowType::Timestamp(unit, Some(_)) = array.data_type() {
        let clock = arrow_cast::cast(array, &ArrowType::Timestamp(*unit, None)).unwrap();
        return show(&clock).iter().map(|text| format!("{text}Z")).collect();
    }
    let text = arrow_cast::cast(array, &ArrowType::Utf8).unwrap();
    text.as_string::<i32>().iter().map(|v| v.unwrap_or("∅").to_owned()).collect()
}

fn types(batch: &RecordBatch) -> Vec<String> {
    let fields = batch.schema().fields().clone();
    fields.iter().map(|f| DataType::from_arrow(f.data_type()).unwrap().to_string()).collect()
}

fn read(text: &str, options: &CsvOptions) -> (Vec<String>, Vec<Vec<String>>) {
    let batches = read_in(text.as_bytes(), options, 1 << 20).unwrap();
    (types(&batches[0]), cells(&batches))
}

fn no_header() -> CsvOptions {
    CsvOptions { header: Some(false), ..CsvOptions::default() }
}

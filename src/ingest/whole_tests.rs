//! Thousands of mutants of small Parquet and Arrow files: each ends in batches or an error of its
//! kind, without a panic that leaves the guard.
//!
//! `STY_MUTANTS=50000 STY_MUTANTS_SEED=7 cargo test --no-default-features --features parquet --lib
//! mutants` tries more. Under `ulimit -v 4000000` an allocation that a length claims ends the run.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float64Array,
    Int64Array, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use super::*;
use crate::ingest::mutants::Mutants;

/// The memory limit of the readers.
const MEMORY: u64 = 256 << 20;
/// Mutants of each file in an ordinary run.
const MUTANTS: usize = 150;

fn batch(nested: bool) -> RecordBatch {
    let rows = 300;
    let keyed: DictionaryArray<Int32Type> =
        (0..rows).map(|row| (row % 5 > 0).then_some(["x", "a longer text"][row % 2])).collect();
    let texts = || (0..rows).map(|row| (row % 7 > 0).then(|| format!("text number {row}")));
    let fixed = (0..rows).map(|row| [row as u8; 5]);
    let decimals = Decimal128Array::from_iter_values((0..rows as i128).map(|row| row * 1001));
    let times = TimestampMicrosecondArray::from_iter_values((0..rows as i64).map(|row| row << 30));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        (
            "n",
            Arc::new(
                (0..rows as i64).map(|row| (row % 9 > 0).then_some(row)).collect::<Int64Array>(),
            ),
        ),
        ("f", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 10.0)))),
        ("b", Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 0))))),
        ("t", Arc::new(StringArray::from_iter(texts()))),
        ("v", Arc::new(StringViewArray::from_iter(texts()))),
        ("keyed", Arc::new(keyed)),
        ("d", Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())),
        ("ts", Arc::new(times)),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter(fixed).unwrap())),
    ];
    if nested {
        let mut lists = ListBuilder::new(Int32Builder::new());
        (0..rows as i32).for_each(|row| lists.append_value((0..row % 4).map(Some)));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let field = Arc::new(Field::new("n", DataType::Int64, false));
        columns.push(("lists", Arc::new(lists.finish())));
        columns.push(("nothing", Arc::new(NullArray::new(rows))));
        columns.push(("struct", Arc::new(StructArray::from(vec![(field, numbers)]))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet(properties: WriterProperties) -> Vec<u8> {
    let (mut bytes, batch) = (Vec::new(), batch(true));
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.flush().unwrap();
    writer.write(&batch.slice(0, 100)).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow(file: bool, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let (mut bytes, batch) = (Vec::new(), batch(true));
    if file {
        let schema = batch.schema();
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch.slice(0, 100)).unwrap();
        writer.finish().unwrap();
    } else {
        let schema = batch.schema();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    bytes
}

/// Files in all ways of writing.
pub(crate) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
    ];
    let mut files = Vec::new();
    for (at, codec) in codecs.into_iter().enumerate() {
        let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][at % 2];
        let statistics = [EnabledStatistics::Page, EnabledStatistics::None][at / 5];
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_writer_version(version)
            .set_dictionary_enabled(at != 1)
            .set_statistics_enabled(statistics)
            .set_data_page_row_count_limit(64)
            .set_write_batch_size(64)
            .set_bloom_filter_enabled(at == 2);
        files.push(("m.parquet", parquet(properties.build())));
    }
    for encoding in [Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_column_encoding("t".into(), encoding)
            .set_column_encoding("v".into(), encoding)
            .set_column_encoding("n".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding("f".into(), Encoding::BYTE_STREAM_SPLIT);
        files.push(("m.parquet", parquet(properties.build())));
    }
    for codec in [None, Some(CompressionType::ZSTD), Some(CompressionType::LZ4_FRAME)] {
        files.push(("m.arrow", arrow(true, codec)));
        files.push(("m.arrow", arrow(false, codec)));
    }
    files
}

fn read(name: &str, bytes: &[u8]) -> Result<u64> {
    let input = || Input::reader(name, Box::new(Cursor::new(bytes.to_vec())));
    let (plain, coded) = (read_whole(input(), MEMORY, false), read_whole(input(), MEMORY, true));
    if let (Ok(plain), Ok(coded)) = (&plain, &coded) {
        assert!(same_rows(plain, coded), "{name}: codes are other rows");
    }
    plain.map(|batches| batches.iter().map(|batch| batch.num_rows() as u64).sum())
}

#[test]
fn mutants_end_in_rows_or_an_error() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let files = files();
    let count = number("STY_MUTANTS").map_or(MUTANTS, |all: usize| all / files.len());
    let seed = number("STY_MUTANTS_SEED").unwrap_or(1) as u64;
    let (mut refused, mut read_all) = (0, 0);
    for (at, (name, whole)) in files.iter().enumerate() {
        assert!(read(name, whole).unwrap() >= 300);
        for (n, mutant) in Mutants::new(whole, seed ^ (at as u64) << 32).take(count).enumerate() {
            match read(name, &mutant) {
                Ok(_) => read_all += 1,
                Err(
                    Error::InvalidInput(what)
                    | Error::Unsupported(what)
                    | Error::LimitExceeded(what),
                ) => {
                    assert!(what.starts_with(name), "file {at}, mutant {n}: {what}");
                    refused += 1;
                }
                Err(other) => panic!("file {at}, mutant {n}: {other}"),
            }
        }
    }
    println!("{refused} mutants refused, {read_all} read");
    assert!(refused > 0);
}

/// A footer that claims 2^31 row groups in a few bytes ended the process.
#[test]
fn false_counts_in_a_footer_are_refused() {
    let whole = parquet(WriterProperties::default());
    let end = whole.len() - 8;
    let footer = end - u32::from_le_bytes(whole[end..end + 4].try_into().unwrap()) as usize;
    // The footer begins with its version (field 1), the schema (field 2) and its length.
    assert_eq!(whole[footer..footer + 3], [0x15, 2, 0x19]);
    let mut claims = whole[..footer + 3].to_vec();
    claims.extend([0xfc, 0xff, 0xff, 0xff, 0xff, 7]);
    let length = (claims.len() - footer) as u32;
    claims.extend(length.to_le_bytes());
    claims.extend(b"PAR1");
    let error = read("m.parquet", &claims).unwrap_err().to_string();
    assert!(error.contains("a list claims 2147483647 items"), "{error}");
}

/// A compressed buffer that claims more than the limit, and a batch that claims more than the file.
#[test]
fn a_batch_beyond_the_memory_limit_is_refused() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 40 << 20]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let mut bytes = Vec::new();
    let options =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert!(bytes.len() < 1 << 20);
    let error = read("m.arrow", &bytes).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)), "{error}");
    assert!(error.to_string().contains("m.arrow: a batch of 335544320 bytes"), "{error}");
}

//! Every format, against what ClickHouse writes and what other readers read.

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::samples::every_type;
use super::{Finished, Format, Writer};
use crate::errors::Failure;

fn try_written(format: Format, batches: &[RecordBatch], revision: u32) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::new(format, &batches[0].schema(), revision)?;
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out)?;
    }
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let finished = Finished { rows, seconds: 0.25, rows_read: 7, bytes_read: 99 };
    writer.finish(&finished, &mut out)?;
    Ok(out)
}

fn written(format: Format, batches: &[RecordBatch]) -> Vec<u8> {
    try_written(format, batches, 0).unwrap()
}

fn text(format: Format, batches: &[RecordBatch]) -> String {
    String::from_utf8(written(format, batches)).unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn in_file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats of which `golden/` has the sample as ClickHouse 26.9 wrote it, after it had read it in
/// `Native`; only the statistics at the end of JSON are our own. It lays out wide tables for people
/// in another way.
fn has_golden(format: Format) -> bool {
    use Format::{Arrow, ArrowStream, Null, Parquet, Pretty, PrettyCompact};
    !matches!(format, Arrow | ArrowStream | Parquet | Pretty | PrettyCompact | Null)
}

#[test]
fn the_sample_is_written_as_clickhouse_writes_it() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("src/serve/clickhouse/formats/golden");
    for format in Format::ALL.into_iter().filter(|format| has_golden(*format)) {
        let own = written(format, &[every_type()]);
        let expected = std::fs::read(folder.join(format.name())).unwrap();
        if own != expected {
            let at = own.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let end = bytes.len().min(at + 60);
                String::from_utf8_lossy(&bytes[at.saturating_sub(60).min(end)..end]).into_owned()
            };
            panic!("{format:?} at {at}:\n{:?}\n{:?}", around(&own), around(&expected));
        }
    }
}

/// What is before and between the rows does not depend on the batches in which they come. A block
/// of `Native` is a batch.
#[test]
fn rows_may_come_in_any_batches() {
    let all = every_type();
    let parts = [all.slice(0, 1), all.slice(1, 0), all.slice(1, 2), all.slice(3, 1)];
    let formats = Format::ALL.into_iter();
    for format in formats.filter(|format| has_golden(*format) && *format != Format::Native) {
        assert!(
            written(format, &parts) == written(format, std::slice::from_ref(&all)),
            "{format:?}"
        );
    }
    for format in [Format::Pretty, Format::PrettyCompact] {
        assert!(
            written(format, &parts) == written(format, std::slice::from_ref(&all)),
            "{format:?}"
        );
    }
}

/// Bytes from ClickHouse 26.9, except for the block of `Native`, which it leaves out.
#[test]
fn answers_without_rows() {
    let list = Arc::new(Field::new("item", DataType::Int8, false));
    let fields = vec![
        Field::new("a\tb", DataType::UInt8, false),
        Field::new("c", DataType::List(list), true),
    ];
    let empty = [RecordBatch::new_empty(Arc::new(Schema::new(fields)))];
    for (format, expected) in [
        (Format::TabSeparated, ""),
        (Format::TabSeparatedWithNamesAndTypes, "a\\tb\tc\nUInt8\tArray(Int8)\n"),
        (Format::TabSeparatedRawWithNamesAndTypes, "a\tb\tc\nUInt8\tArray(Int8)\n"),
        (Format::Csv, ""),
        (Format::CsvWithNames, "\"a\tb\",\"c\"\n"),
        (Format::JsonEachRow, ""),
        (Format::JsonCompactEachRowWithNames, "[\"a\\tb\", \"c\"]\n"),
        (Format::Values, ""),
        (Format::RowBinary, ""),
        (Format::RowBinaryWithNamesAndTypes, "\x02\x03a\tb\x01c\x05UInt8\x0bArray(Int8)"),
        (Format::Native, "\x02\0\x03a\tb\x05UInt8\x01c\x0bArray(Int8)"),
        (Format::Markdown, "| a\\tb | c |\n|-:|:-|\n"),
        (Format::Pretty, ""),
        (Format::PrettyCompact, ""),
        (Format::Vertical, ""),
        (Format::Null, ""),
    ] {
        assert_eq!(text(format, &empty), expected, "{format:?}");
        let mut out = Vec::new();
        let writer = Writer::new(format, &empty[0].schema(), 0).unwrap();
        writer.finish(&Finished::default(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{format:?} without a batch");
    }
    let json = text(Format::JsonCompact, &empty);
    assert!(json.ends_with(
        "\"data\":\n\t[\n\n\t],\n\n\t\"rows\": 0,\n\n\t\"statistics\":\n\t{\n\t\t\"elapsed\": \
         0.250000000,\n\t\t\"rows_read\": 7,\n\t\t\"bytes_read\": 99\n\t}\n}\n"
    ));
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
}

/// From the first revision on, blocks have a head, and from 54454 on columns have a byte.
#[test]
fn native_blocks_of_each_revision() {
    let numbers = [batch(vec![("n", Arc::new(Int32Array::from(vec![1, -2])))])];
    let bytes = |revision| hex(&try_written(Format::Native, &numbers, revision).unwrap());
    let data = "01000000feffffff";
    assert_eq!(bytes(0), format!("0102016e05496e743332{data}"));
    assert_eq!(bytes(54_405), format!("010002ffffffff000102016e05496e743332{data}"));
    assert_eq!(bytes(54_453), bytes(54_405));
    assert_eq!(bytes(54_454), format!("010002ffffffff000102016e05496e74333200{data}"));
    assert_eq!(bytes(54_460), bytes(54_454));
}

/// As ClickHouse 26.9 draws them.
#[test]
fn tables_for_people() {
    let words = StringArray::from(vec![Some("wörter\t"), None, Some("日本")]);
    let rows = [batch(vec![
        ("n", Arc::new(UInt64Array::from(vec![0, 1_000_000, 2_000_000]))),
        ("na|me", Arc::new(words)),
    ])];
    assert_eq!(
        text(Format::PrettyCompact, &rows),
        "   ┌───────n─┬─na|me────┐\n\
         1. │       0 │ wörter\\t │\n\
         2. │ 1000000 │ ᴺᵁᴸᴸ     │\n\
         3. │ 2000000 │ 日本     │\n   \
            └─────────┴──────────┘\n"
    );
    assert_eq!(
        text(Format::Pretty, &rows),
        "   ┏━━━━━━━━━┳━━━━━━━━━━┓\n   \
            ┃       n ┃ na|me    ┃\n   \
            ┡━━━━━━━━━╇━━━━━━━━━━┩\n\
         1. │       0 │ wörter\\t │\n   \
            ├─────────┼──────────┤\n\
         2. │ 1000000 │ ᴺᵁᴸᴸ     │\n   \
            ├─────────┼──────────┤\n\
         3. │ 2000000 │ 日本     │\n   \
            └─────────┴──────────┘\n"
    );
    let many: Vec<i64> = (0..2_000).collect();
    let many = [batch(vec![("number", Arc::new(Int64Array::from(many)))])];
    let compact = text(Format::PrettyCompact, &many);
    assert!(compact.starts_with("      ┌─number─┐\n   1. │      0 │\n"));
    assert!(
        compact.ends_with("1000. │    999 │\n      └─number─┘\nShowed 1000 out of 2000 rows.\n")
    );
    let full = text(Format::Pretty, &many);
    let end = "      ┢━━━━━━━━┪\n      ┃ number ┃\n      ┗━━━━━━━━┛\n";
    assert!(full.contains(end));
    assert_eq!(text(Format::Vertical, &many).matches("Row ").count(), 2_000);
}

#[test]
fn long_values_of_tables_for_people_lose_their_end() {
    let long = [batch(vec![("x", Arc::new(StringArray::from(vec!["z".repeat(20_000)])))])];
    let table = text(Format::PrettyCompact, &long);
    let row = table.lines().nth(1).unwrap();
    assert!(row.contains(&format!(" {}⋯ ", "z".repeat(10_000))));
}

#[test]
fn arrow_and_parquet_are_read_back() {
    let all = every_type();
    let plain = |batch: &RecordBatch| written(Format::TabSeparated, std::slice::from_ref(batch));
    let parts = [all.slice(0, 3), all.slice(3, 1)];
    let expected = [plain(&all.slice(0, 3)), plain(&all.slice(3, 1))];
    let stream = Cursor::new(written(Format::ArrowStream, &parts));
    let stream = arrow_ipc::reader::StreamReader::try_new(stream, None).unwrap();
    assert!(
        stream
            .schema()
            .fields()
            .iter()
            .all(|field| !matches!(field.data_type(), DataType::Dictionary(..)))
    );
    let read: Vec<Vec<u8>> = stream.map(|batch| plain(&batch.unwrap())).collect();
    assert!(read == expected);
    let file = Cursor::new(written(Format::Arrow, &parts));
    let file = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let read: Vec<Vec<u8>> = file.map(|batch| plain(&batch.unwrap())).collect();
    assert!(read == expected);

    // Parquet has no seconds.
    let kept: Vec<usize> = (0..all.num_columns())
        .filter(|at| !matches!(all.schema().field(*at).name().as_str(), "s" | "berlin"))
        .collect();
    let parts = parts.map(|part| part.project(&kept).unwrap());
    let file = in_file(&written(Format::Parquet, &parts));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let read: Vec<Vec<u8>> = reader.map(|batch| plain(&batch.unwrap())).collect();
    assert!(read.concat() == plain(&all.project(&kept).unwrap()));
    let every = in_file(&written(Format::Parquet, &[every_type()]));
    let every = ParquetRecordBatchReaderBuilder::try_new(every);
    assert_eq!(every.unwrap().metadata().file_metadata().num_rows(), 4);
}

/// Nothing is written that would be read as another value.
#[test]
fn values_that_their_type_does_not_have_are_errors() {
    let money =
        Decimal128Array::from(vec![10_i128.pow(20)]).with_precision_and_scale(5, 2).unwrap();
    let money = [batch(vec![("d", Arc::new(money))])];
    for format in [Format::Native, Format::RowBinary] {
        let failure = try_written(format, &money, 0).unwrap_err();
        assert!(failure.message.contains("too large"), "{}", failure.message);
        // Batches of other schemas than were announced.
        let narrow = Schema::new(vec![Field::new("d", DataType::Decimal128(20, 2), false)]);
        let mut writer = Writer::new(format, &Arc::new(narrow), 0).unwrap();
        let failure = writer.write(&money[0], &mut Vec::new()).unwrap_err();
        assert!(failure.message.contains("Decimal(20, 2)"), "{}", failure.message);
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, false)]);
        let mut writer = Writer::new(format, &Arc::new(schema), 0).unwrap();
        let null = batch(vec![("s", Arc::new(StringArray::from(vec![None::<&str>])))]);
        let failure = writer.write(&null, &mut Vec::new()).unwrap_err();
        assert!(failure.message.contains("null"), "{}", failure.message);
    }
}

/// An offset from UTC is shown by the zone that its type names.
#[test]
fn times_are_shown_in_the_zone_that_clients_know() {
    let stamps = |zone: &str| {
        let stamps = arrow_array::TimestampSecondArray::from(vec![0]).with_timezone(zone);
        text(Format::TabSeparatedWithNamesAndTypes, &[batch(vec![("t", Arc::new(stamps))])])
    };
    assert_eq!(stamps("+02:00"), "t\nDateTime64(0, \\'Etc/GMT-2\\')\n1970-01-01 02:00:00\n");
    assert_eq!(stamps("-03:30"), "t\nDateTime64(0, \\'UTC\\')\n1970-01-01 00:00:00\n");
}

#[test]
fn formats_are_known_by_all_their_names() {
    for format in Format::ALL {
        assert_eq!(Format::named(format.name()).unwrap(), format);
        assert_eq!(Format::named(&format.name().to_uppercase()).unwrap(), format);
    }
    for (name, format) in [
        ("TSV", Format::TabSeparated),
        ("TSVRaw", Format::TabSeparatedRaw),
        ("TSVWithNamesAndTypes", Format::TabSeparatedWithNamesAndTypes),
        ("NDJSON", Format::JsonEachRow),
        ("JSONLines", Format::JsonEachRow),
        ("PrettyCompactMonoBlock", Format::PrettyCompact),
    ] {
        assert_eq!(Format::named(name).unwrap(), format);
    }
    let failure = Format::named("Protobuf").unwrap_err();
    assert!(failure.message.contains("Protobuf") && failure.hint.is_some());
}

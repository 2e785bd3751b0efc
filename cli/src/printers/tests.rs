//! One expected text per format over every type, and tests that printed values read back unchanged.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    StructArray, Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray,
    TimestampSecondArray,
};

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::samples::every_type;
use super::{Format, PrintOptions, Printer};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

fn options() -> PrintOptions {
    PrintOptions { threads: 2, ..PrintOptions::new(Look::default()) }
}

/// The batches as the format prints them to a file.
fn print(format: Format, batches: &[RecordBatch], options: &PrintOptions) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let output = Output::open(Some(&path), false).unwrap();
    let mut printer = Printer::new(format, &batches[0].schema(), options, output).unwrap();
    for batch in batches {
        if printer.write(batch).unwrap() == ControlFlow::Break(()) {
            break;
        }
    }
    printer.finish().unwrap().output.commit().unwrap();
    std::fs::read(&path).unwrap()
}

fn text(format: Format, batches: &[RecordBatch]) -> String {
    String::from_utf8(print(format, batches, &options())).unwrap()
}

fn one_column(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

#[test]
fn csv_of_every_type() {
    insta::assert_snapshot!(text(Format::Csv, &[every_type()]));
}

#[test]
fn vertical_of_every_type() {
    insta::assert_snapshot!(text(Format::Vertical, &[every_type()]));
    let name = "a column whose name is longer than what others would wait for";
    let texts = StringArray::from(vec![Some("one\ntwo\t\x1b[31m"), None]);
    let short: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = [("x", short), (name, Arc::new(texts) as ArrayRef)];
    let batch = RecordBatch::try_from_iter_with_nullable(batch.map(|(n, a)| (n, a, true))).unwrap();
    insta::assert_snapshot!(text(Format::Vertical, &[batch]));
}

#[test]
fn tsv_of_every_type() {
    insta::assert_snapshot!(text(Format::Tsv, &[every_type()]));
}

#[test]
fn json_of_every_type() {
    insta::assert_snapshot!(text(Format::Json, &[every_type()]));
}

#[test]
fn jsonl_of_every_type() {
    insta::assert_snapshot!(text(Format::Jsonl, &[every_type()]));
}

#[test]
fn markdown_of_every_type() {
    insta::assert_snapshot!(text(Format::Markdown, &[every_type()]));
}

#[test]
fn table_of_every_type() {
    insta::assert_snapshot!(text(Format::Table, &[every_type()]));
}

#[test]
fn table_on_a_terminal_of_80_columns() {
    let look = Look { color: true, width: Some(80), ..Look::default() };
    let batch = every_type();
    let narrow = batch.project(&[1, 9, 10, 11, 15]).unwrap();
    let shown = |batch: &RecordBatch| {
        let bytes =
            print(Format::Table, std::slice::from_ref(batch), &PrintOptions { look, ..options() });
        String::from_utf8(bytes).unwrap().replace('\x1b', "␛")
    };
    insta::assert_snapshot!(format!("{}{}", shown(&narrow), shown(&batch)));
}

#[test]
fn csv_reads_back() {
    let batch = every_type();
    for (format, delimiter) in [(Format::Csv, b','), (Format::Tsv, b'\t')] {
        let printed = print(format, &[batch.clone(), batch.slice(1, 2)], &options());
        let strings =
            (0..batch.num_columns()).map(|at| Field::new(at.to_string(), DataType::Utf8, true));
        let strings = Schema::new(strings.collect::<Vec<_>>());
        let reader = arrow_csv::ReaderBuilder::new(Arc::new(strings))
            .with_header(true)
            .with_delimiter(delimiter);
        let read: Vec<RecordBatch> =
            reader.build(printed.as_slice()).unwrap().map(Result::unwrap).collect();
        let field = |row: usize, name: &str| {
            let at = batch.schema().index_of(name).unwrap();
            let array = read[0].column(at).as_string::<i32>();
            (!array.is_null(row)).then(|| array.value(row).to_owned())
        };
        assert_eq!(read[0].num_rows(), 6);
        for row in 0..3 {
            let int = batch.column(1).as_primitive::<Int64Type>().value(row);
            assert_eq!(field(row, "int").unwrap().parse::<i64>().unwrap(), int);
            let uint = batch.column(2).as_primitive::<UInt64Type>().value(row);
            assert_eq!(field(row, "uint").unwrap().parse::<u64>().unwrap(), uint);
            let float = batch.column(3).as_primitive::<Float64Type>().value(row);
            assert_eq!(
                field(row, "float").unwrap().parse::<f64>().unwrap().to_bits(),
                float.to_bits()
            );
        }
        assert_eq!(field(1, "text").as_deref(), Some("a,b\t\"c\"\nd|\\"));
        assert_eq!(field(3, "int"), None);
    }
}

#[test]
fn json_is_valid_and_exact() {
    let printed = text(Format::Json, &[every_type(), every_type()]);
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&printed).unwrap();
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[0]["uint"].as_u64(), Some(9_007_199_254_740_993));
    assert_eq!(rows[1]["int"].as_i64(), Some(i64::MIN));
    assert_eq!(rows[1]["text"], "a,b\t\"c\"\nd|\\");
    assert_eq!(rows[2]["float"], "NaN");
    assert_eq!(rows[1]["real"], "Infinity");
    assert_eq!(rows[0]["list"], serde_json::json!([1, null]));
    assert!(rows[3].iter().all(|(name, value)| name == "pair" || value.is_null()));
    let lines = text(Format::Jsonl, &[every_type()]);
    assert_eq!(
        lines
            .lines()
            .filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
            .count(),
        4
    );
}

#[test]
fn arrow_and_parquet_read_back() {
    // The null type has no Parquet values of its own, and views come back as plain text.
    let batch = every_type();
    let plain =
        super::plain_types::plain_batch(&batch, &super::plain_types::plain_schema(&batch.schema()))
            .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    std::fs::File::create_new(&path).unwrap();
    for format in [Format::Arrow, Format::Parquet] {
        let output = Output::open(Some(&path), true).unwrap();
        let mut printer = Printer::new(format, &batch.schema(), &options(), output).unwrap();
        assert!(printer.write(&batch).unwrap().is_continue());
        printer.finish().unwrap().output.commit().unwrap();
        let file = File::open(&path).unwrap();
        let read: Vec<RecordBatch> = if format == Format::Arrow {
            arrow_ipc::reader::FileReader::try_new(file, None)
                .unwrap()
                .map(Result::unwrap)
                .collect()
        } else {
            let builder =
                parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
                    .unwrap();
            builder.build().unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(read.len(), 1);
        let plain = match format {
            Format::Arrow => {
                let values = super::plain_types::without_dictionaries(&plain.schema());
                super::plain_types::plain_batch(&plain, &values).unwrap()
            }
            _ => plain.clone(),
        };
        for (name, (read, written)) in
            plain.schema().fields().iter().zip(read[0].columns().iter().zip(plain.columns()))
        {
            // Parquet has no seconds.
            let is_seconds = format == Format::Parquet && name.name() == "instant";
            let in_millis =
                DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into()));
            let expected = if is_seconds {
                arrow_cast::cast(written, &in_millis).unwrap()
            } else {
                written.clone()
            };
            let same = read.to_data() == expected.to_data();
            // NaN is not equal to itself.
            assert!(same || name.name() == "float", "{format:?} {name}");
        }
    }
}

#[test]
fn many_rows_are_in_order_whatever_the_threads() {
    let rows = 150_000i64;
    let numbers: Int64Array = (0..rows).map(|row| (row % 7 != 0).then_some(row)).collect();
    let texts: StringArray = (0..rows).map(|row| Some(format!("text {}", row % 1000))).collect();
    let items = StructArray::from(vec![
        (Arc::new(Field::new("n", DataType::Int64, true)), Arc::new(numbers.clone()) as ArrayRef),
        (Arc::new(Field::new("t", DataType::Utf8, true)), Arc::new(texts.clone()) as ArrayRef),
    ]);
    let columns: Vec<(&str, ArrayRef)> =
        vec![("n", Arc::new(numbers)), ("both", Arc::new(items)), ("t", Arc::new(texts))];
    let whole = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let parts: Vec<RecordBatch> = (0..rows as usize)
        .step_by(40_000)
        .map(|at| whole.slice(at, 40_000.min(rows as usize - at)))
        .collect();
    let written = |format, threads| print(format, &parts, &PrintOptions { threads, ..options() });
    for format in [Format::Csv, Format::Tsv, Format::Json, Format::Jsonl, Format::Markdown] {
        let bytes = written(format, 3);
        assert!(bytes == written(format, 1), "{format:?}");
        let rows_of = |part: &RecordBatch| print(format, std::slice::from_ref(part), &options());
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        let around = lines(&rows_of(&whole.slice(0, 1))) - 1;
        assert_eq!(lines(&bytes), rows as usize + around, "{format:?}");
    }
    let bytes = written(Format::Parquet, 3);
    assert_eq!(bytes, written(Format::Parquet, 1));
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file);
    let reader = reader.unwrap().with_batch_size(rows as usize).build().unwrap();
    let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(read.as_slice(), [whole]);
}

#[test]
fn rows_have_the_same_text_alone_and_among_others() {
    let one = every_type();
    let (schema, rows) = (one.schema(), one.num_rows());
    let many = arrow_select::concat::concat_batches(&schema, &vec![one; 200]).unwrap();
    let long = "a \"long\", quoted text ".repeat(3);
    let texts = (0..many.num_rows()).map(|row| match row % 11 {
        0 => None,
        1 => Some(long[..row % long.len()].to_owned()),
        _ => Some(format!("{}{}", row % 3, &long[..row % 5 * 8])),
    });
    let texts: StringViewArray = texts.collect();
    let numbers: Int64Array = (0..many.num_rows() as i64)
        .map(|row| (row % 5 > 0).then_some((row % 7 - 3) << 60))
        .collect();
    let extra = [("views", Arc::new(texts) as ArrayRef), ("numbers", Arc::new(numbers))];
    let fields = schema.fields().iter().cloned();
    let more = extra
        .iter()
        .map(|(name, array)| Arc::new(Field::new(*name, array.data_type().clone(), true)));
    let schema = Arc::new(Schema::new(fields.chain(more).collect::<Vec<_>>()));
    let columns = many.columns().iter().cloned().chain(extra.map(|(_, array)| array)).collect();
    let many = RecordBatch::try_new(schema, columns).unwrap();
    let alone: Vec<_> = (0..many.num_rows()).map(|row| many.slice(row, 1)).collect();
    assert!(many.num_rows() >= 200 * rows && rows > 1);
    for format in [Format::Csv, Format::Tsv, Format::Json, Format::Jsonl, Format::Markdown] {
        assert_eq!(text(format, std::slice::from_ref(&many)), text(format, &alone), "{format:?}");
    }
}

/// Writes an array as Parquet, and reads it as one who knows nothing of Arrow.
fn through_parquet(array: ArrayRef) -> ArrayRef {
    use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    let bytes = print(Format::Parquet, &[one_column("c", array)], &options());
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, plain);
    reader.unwrap().build().unwrap().next().unwrap().unwrap().column(0).clone()
}

#[test]
fn types_that_parquet_lacks_are_cast() {
    let stamps: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(-1), None]));
    let expected: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(-1000), None]));
    assert_eq!(&through_parquet(stamps), &expected);
    let times: ArrayRef = Arc::new(Time32SecondArray::from(vec![86_399]));
    let expected: ArrayRef = Arc::new(Time32MillisecondArray::from(vec![86_399_000]));
    assert_eq!(&through_parquet(times), &expected);
    let hundreds = Decimal128Array::from(vec![12_345]).with_precision_and_scale(5, -2).unwrap();
    let expected = Decimal128Array::from(vec![1_234_500]).with_precision_and_scale(7, 0).unwrap();
    assert_eq!(&through_parquet(Arc::new(hundreds)), &(Arc::new(expected) as ArrayRef));
    let far = one_column("far", Arc::new(TimestampSecondArray::from(vec![i64::MAX / 1000 + 1])));
    let output = Output::open(Some(Path::new("/dev/null")), false).unwrap();
    let mut printer = Printer::new(Format::Parquet, &far.schema(), &options(), output).unwrap();
    let error = printer.write(&far).err().or_else(|| printer.finish().err()).unwrap();
    assert!(
        format!("{error:?}")
            .contains("column 'far' of type Timestamp(s) is written as Timestamp(ms)"),
        "{error:?}"
    );
}

#[test]
fn no_rows() {
    let empty = every_type().slice(0, 0).project(&[0, 1]).unwrap();
    assert_eq!(text(Format::Csv, std::slice::from_ref(&empty)), "bool,int\n");
    assert_eq!(text(Format::Json, std::slice::from_ref(&empty)), "[]\n");
    assert_eq!(text(Format::Jsonl, std::slice::from_ref(&empty)), "");
    assert_eq!(
        text(Format::Markdown, std::slice::from_ref(&empty)),
        "| bool | int |\n| --- | ---: |\n"
    );
    assert_eq!(
        text(Format::Table, &[empty]),
        "┌──────┬─────┐\n│ bool │ int │\n├──────┼─────┤\n└──────┴─────┘\n"
    );
}

#[test]
fn max_rows_cuts_and_says_so() {
    let batch = one_column("n", Arc::new(Int64Array::from_iter_values(0..10)));
    let output = Output::open(Some(Path::new("/dev/null")), false).unwrap();
    let limited = PrintOptions { max_rows: Some(15), ..options() };
    let mut printer = Printer::new(Format::Csv, &batch.schema(), &limited, output).unwrap();
    assert_eq!(printer.write(&batch).unwrap(), ControlFlow::Continue(()));
    assert_eq!(printer.write(&batch).unwrap(), ControlFlow::Break(()));
    let finished = printer.finish().unwrap();
    assert_eq!((finished.rows, finished.cut), (15, true));
}

#[test]
fn a_table_keeps_its_widths_after_the_sample() {
    let long = one_column("n", Arc::new(Int64Array::from_iter_values(0..25_000)));
    let printed = text(
        Format::Table,
        &[long.slice(0, 8_000), long.slice(8_000, 8_000), long.slice(16_000, 9_000)],
    );
    assert_eq!(printed.lines().count(), 25_000 + 4);
    assert_eq!(printed.lines().nth(3), Some("│    0 │"));
    assert_eq!(printed.lines().nth(25_002), Some("│ 24999 │"));
    assert!(printed.ends_with("└──────┘\n"));
}

#[test]
fn a_closed_pipe_is_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let batch = one_column("s", Arc::new(StringViewArray::from_iter_values(["x"; 100])));
    for format in
        [Format::Csv, Format::Json, Format::Markdown, Format::Arrow, Format::Parquet, Format::Table]
    {
        let output =
            Output::Stream(File::from(std::os::fd::OwnedFd::from(writer.try_clone().unwrap())));
        let failure: Failure = (|| {
            let mut printer = Printer::new(format, &batch.schema(), &options(), output)?;
            let _more = printer.write(&batch)?;
            printer.finish().map(|_| ())
        })()
        .unwrap_err();
        assert!(failure.exit.is_success(), "{format:?}: {failure:?}");
    }
}

#[test]
fn batches_with_dictionaries_of_their_own_fit_into_one_arrow_file() {
    let coded = |values: [&str; 2]| {
        let array: arrow_array::DictionaryArray<arrow_array::types::Int32Type> =
            [Some(values[0]), None, Some(values[1])].into_iter().collect();
        one_column("s", Arc::new(array))
    };
    let bytes = print(Format::Arrow, &[coded(["a", "b"]), coded(["c", "d"])], &options());
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
    let mut read = Vec::new();
    for batch in reader {
        let texts = arrow_cast::cast(batch.unwrap().column(0), &DataType::Utf8).unwrap();
        let texts = texts.as_any().downcast_ref::<StringArray>().unwrap().clone();
        read.extend(texts.iter().map(|text| text.map(str::to_owned)));
    }
    let expected = [Some("a"), None, Some("b"), Some("c"), None, Some("d")];
    assert_eq!(read, expected.map(|text| text.map(str::to_owned)));
}

//! Parquet files as other programs write them: batch sizes and shared values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, TimestampMicrosecondType};
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Date64Array, DictionaryArray, Int64Array, LargeStringArray,
    StringArray,
};
use parquet::arrow::ArrowWriter;
use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use super::super::Input;
use super::super::supported::Others;
use super::*;
use crate::ingest::load::{LoadOptions, load};
use crate::model::DataType;
use crate::store::Store;

fn write(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> tempfile::NamedTempFile {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = tempfile::NamedTempFile::with_suffix(".parquet").unwrap();
    let to = file.reopen().unwrap();
    let mut writer = ArrowWriter::try_new(to, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn open(file: &tempfile::NamedTempFile) -> ParquetSource {
    open_with(file, false)
}

fn open_with(file: &tempfile::NamedTempFile, codes: bool) -> ParquetSource {
    let opened = Input::path(file.path()).open().unwrap();
    let wanted = Wanted::Supported(Others::Refuse);
    ParquetSource::open(Spooled::new(opened).unwrap(), wanted, 1 << 30, codes).unwrap().0
}

fn read(source: &ParquetSource) -> Vec<RecordBatch> {
    let all = source.read(0, 2).unwrap().read_all().unwrap();
    let mut rows = source.read(0, 3).unwrap();
    let one_by_one: Vec<RecordBatch> = std::iter::from_fn(|| rows.next_batch().unwrap()).collect();
    assert_eq!(all, one_by_one);
    all
}

#[test]
fn columns_of_codes_alone_are_read_as_codes() {
    let few: Vec<Option<&str>> = (0..5000).map(|i| [Some("a"), None, Some("")][i % 3]).collect();
    let many: Vec<String> = (0..5000).map(|i| format!("a text of its own {i}")).collect();
    let few_bytes = few.iter().map(|text| text.map(str::as_bytes)).collect();
    let file = write(
        vec![
            ("few", Arc::new(StringArray::from(few.clone())) as ArrayRef),
            ("bytes", Arc::new(BinaryArray::from_opt_vec(few_bytes))),
            // Its dictionary is given up on the way.
            ("many", Arc::new(StringArray::from(many.clone()))),
        ],
        WriterProperties::builder().set_dictionary_page_size_limit(1000).build(),
    );
    let source = open_with(&file, true);
    let schema = source.schema().unwrap();
    assert_eq!(schema.field(0).data_type(), &ArrowType::Utf8View);
    let batch = read(&source).remove(0);
    let is_coded = |at: usize| crate::block::coded(batch.column(at)).is_some();
    assert_eq!([0, 1, 2].map(is_coded), [true, true, false]);
    for (at, view) in [(0, ArrowType::Utf8View), (1, ArrowType::BinaryView)] {
        let plain = arrow_cast::cast(batch.column(at), &view).unwrap();
        assert_eq!(&plain, read(&open(&file)).remove(0).column(at), "{at}");
    }
    assert_eq!(batch.column(2), read(&open(&file)).remove(0).column(2));
    // Of files that do not tell the encodings of their pages, all are views.
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let plain = write(vec![("few", Arc::new(StringArray::from(few)) as ArrayRef)], properties);
    assert!(crate::block::coded(read(&open_with(&plain, true)).remove(0).column(0)).is_none());
}

#[test]
fn texts_of_every_layout_are_read_as_views() {
    let text = vec![Some("a text that is too long for a view"), None, Some("")];
    let keyed: DictionaryArray<Int32Type> = text.iter().copied().collect();
    let file = write(
        vec![
            ("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
            ("small", Arc::new(StringArray::from(text.clone()))),
            ("large", Arc::new(LargeStringArray::from(text.clone()))),
            ("keyed", Arc::new(keyed)),
            ("bytes", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\xff"), None, Some(b"")]))),
        ],
        WriterProperties::default(),
    );
    let batch = read(&open(&file)).remove(0);
    for name in ["small", "large", "keyed"] {
        let column = batch.column_by_name(name).unwrap();
        assert_eq!(column.as_string_view().iter().collect::<Vec<_>>(), text, "{name}");
    }
    let bytes: Vec<Option<&[u8]>> = batch.column(4).as_binary_view().iter().collect();
    assert_eq!(bytes, [Some(&b"\xff"[..]), None, Some(b"")]);
}

#[test]
fn a_text_that_all_rows_share_is_in_memory_once() {
    let long = "x".repeat(1 << 20);
    let keyed = DictionaryArray::new(
        vec![0; 1000].into(),
        Arc::new(StringArray::from(vec![long.as_str()])),
    );
    let keyed: DictionaryArray<Int32Type> = keyed;
    let file = write(vec![("t", Arc::new(keyed))], WriterProperties::default());
    let source = open(&file);
    let batches = read(&source);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1000]);
    assert!(batches[0].get_array_memory_size() < 4 << 20);
    assert!(batches[0].column(0).as_string_view().iter().all(|text| text == Some(&long)));
}

#[test]
fn batches_of_wide_rows_have_few_of_them() {
    let wide: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..2000).map(|i| format!("{i:020000}"))));
    let narrow: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let rows = |columns, properties| read(&open(&write(columns, properties)))[0].num_rows();
    let many = rows(vec![("t", wide.clone()), ("n", narrow.clone())], plain().build());
    assert!((700..900).contains(&many), "{many} rows of 20 KB");
    assert_eq!(rows(vec![("n", narrow)], plain().build()), 2000);
    // With delta encoding, a text is stored without the prefix that it shares with the previous
    // one; without statistics, its length is unknown.
    let delta = || plain().set_encoding(Encoding::DELTA_BYTE_ARRAY);
    let many = rows(vec![("t", wide.clone())], delta().build());
    assert!((700..900).contains(&many), "{many} rows of 20 KB");
    let many =
        rows(vec![("t", wide)], delta().set_statistics_enabled(EnabledStatistics::None).build());
    assert!((UNKNOWN_ROWS..900).contains(&many), "{many} rows of unknown width");
}

/// The values of a column of fixed bytes and, where it is optional, which rows have one.
type Fixed<'v> = (Vec<Vec<u8>>, Option<&'v [i16]>);

/// A file of such columns.
fn write_fixed(schema: &str, columns: &[Fixed<'_>]) -> tempfile::NamedTempFile {
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let file = tempfile::NamedTempFile::with_suffix(".parquet").unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (values, levels) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<_> = values.iter().cloned().map(FixedLenByteArray::from).collect();
        column.typed::<FixedLenByteArrayType>().write_batch(&values, *levels, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

/// The types of a table that a file of two rows was loaded into, and its rows.
fn loaded(file: &tempfile::NamedTempFile) -> (Vec<DataType>, RecordBatch) {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    let options = LoadOptions { threads: 1, ..LoadOptions::default() };
    let writer = table.writer(Some((crate::model::Schema::default(), Default::default()))).unwrap();
    load(writer, vec![Input::path(file.path())], &options).unwrap();
    let snapshot = table.snapshot().unwrap();
    let columns = snapshot.schema().columns().to_vec();
    let entry = snapshot.segments().unwrap().iter().next().unwrap().clone();
    let segment = snapshot.open_segment(&entry).unwrap();
    let batch = crate::ingest::rewrite::decode(&segment, 0, 0..2, &columns).unwrap();
    (columns.into_iter().map(|column| column.data_type).collect(), batch)
}

/// Spark and Hive write timestamps of 96 bits, and 9999-12-31 for no end.
#[test]
fn timestamps_of_96_bits_reach_beyond_nanoseconds() {
    /// The Julian day of 1970-01-01, and the days from there to 9999-12-31.
    const EPOCH: u32 = 2_440_588;
    const LAST: u32 = 2_932_896;
    let text = "message m { required int96 t; }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(text).unwrap());
    let file = tempfile::NamedTempFile::with_suffix(".parquet").unwrap();
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let values = [EPOCH + LAST, EPOCH].map(|day| {
        let mut value = Int96::new();
        value.set_data(1_500_000, 0, day);
        value
    });
    column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let (types, rows) = loaded(&file);
    assert_eq!(types[0].to_string(), "timestamp(us)");
    let micros: Vec<i64> =
        rows.column(0).as_primitive::<TimestampMicrosecondType>().values().to_vec();
    assert_eq!(micros, [i64::from(LAST) * 86_400_000_000 + 1500, 1500]);
}

/// Beside a column that Parquet calls UUIDs there is one that is merely as long.
#[test]
fn uuids_are_marked() {
    let schema = "message m { OPTIONAL FIXED_LEN_BYTE_ARRAY (16) id (UUID); \
                  REQUIRED FIXED_LEN_BYTE_ARRAY (16) bytes; }";
    let ids = (vec![vec![0xab; 16]], Some(&[1_i16, 0][..]));
    let file = write_fixed(schema, &[ids, (vec![vec![1; 16], vec![2; 16]], None)]);
    let (types, batch) = loaded(&file);
    assert_eq!(types, [DataType::Uuid, DataType::Binary]);
    let texts = batch.column(0).as_string_view().iter().collect::<Vec<_>>();
    assert_eq!(texts, [Some("abababab-abab-abab-abab-abababababab"), None]);
}

/// The months of an interval are not lost.
#[test]
fn intervals_have_all_their_parts() {
    let schema = "message m { OPTIONAL FIXED_LEN_BYTE_ARRAY (12) d (INTERVAL); \
                  REQUIRED FIXED_LEN_BYTE_ARRAY (12) bytes; }";
    let interval = vec![14, 0, 0, 0, 3, 0, 0, 0, 0xDC, 5, 0, 0];
    let spans = (vec![interval.clone()], Some(&[0_i16, 1][..]));
    let file = write_fixed(schema, &[spans, (vec![interval; 2], None)]);
    let (types, batch) = loaded(&file);
    assert_eq!(types, [DataType::Interval, DataType::Binary]);
    let shown = |row| arrow_cast::display::array_value_to_string(batch.column(0), row).unwrap();
    assert_eq!([shown(0), shown(1)], ["", "14 mons 3 days 1.500000000 secs"]);
}

/// Arrow has two types of dates, and Parquet one.
#[test]
fn days_are_dates_whatever_the_writer_had_in_memory() {
    let days = Date64Array::from(vec![Some(0), None, Some(-86_400_000)]);
    let file = write(
        vec![("day", Arc::new(days) as ArrayRef)],
        WriterProperties::builder().set_coerce_types(true).build(),
    );
    let batches = read(&open(&file));
    assert_eq!(*batches[0].column(0).data_type(), ArrowType::Date32);
    assert_eq!(
        *batches[0].column(0).as_primitive::<Date32Type>(),
        Date32Array::from(vec![Some(0), None, Some(-1)])
    );
}

//! Both formats, all kinds of columns, and damaged bytes.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    BooleanArray, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int32Array, Int64Array,
    ListArray, NullArray, RecordBatchOptions, StringArray, StringViewArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use proptest::prelude::*;

use super::super::supported::Others;
use super::*;

const SUPPORTED: Wanted<'static> = Wanted::Supported(Others::Refuse);
/// The memory limit.
const MEMORY: u64 = 1 << 30;

fn batch() -> RecordBatch {
    let keyed: DictionaryArray<Int32Type> =
        [Some("x"), None, Some("a longer text"), Some("x")].into_iter().collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]))),
        ("keyed", Arc::new(keyed)),
        (
            "text",
            Arc::new(StringArray::from(vec!["a".repeat(100), "b".into(), "c".into(), "d".into()])),
        ),
        ("nothing", Arc::new(NullArray::new(4))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn written(file: bool, compression: Option<CompressionType>, batches: &[RecordBatch]) -> Vec<u8> {
    written_with(
        file,
        IpcWriteOptions::default().try_with_compression(compression).unwrap(),
        batches,
    )
}

fn written_with(file: bool, options: IpcWriteOptions, batches: &[RecordBatch]) -> Vec<u8> {
    let (mut bytes, schema) = (Vec::new(), batches[0].schema());
    if file {
        let mut writer = FileWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
    bytes
}

fn read(bytes: &[u8], skip: bool) -> Result<(Vec<RecordBatch>, Vec<String>)> {
    let (batches, skipped) = ArrowBatches::open(
        Path::new("t.arrow"),
        Box::new(Cursor::new(bytes.to_vec())),
        None,
        Wanted::Supported(if skip { Others::Skip } else { Others::Refuse }),
        MEMORY,
    )?;
    Ok((batches.collect::<Result<_>>()?, skipped))
}

#[test]
fn both_formats_with_and_without_compression() {
    for file in [false, true] {
        for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let bytes = written(file, compression, &[batch(), batch().slice(1, 2)]);
            let (batches, skipped) = read(&bytes, false).unwrap();
            assert!(skipped.is_empty());
            assert_eq!(batches, [batch(), batch().slice(1, 2)], "{file} {compression:?}");
        }
    }
    // A stream may end without its mark.
    let bytes = written(false, None, &[batch()]);
    assert_eq!(read(&bytes[..bytes.len() - 8], false).unwrap().0, [batch()]);
    let empty = written(true, None, &[batch().slice(0, 0)]);
    assert_eq!(read(&empty, false).unwrap().0.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[test]
fn columns_that_a_table_cannot_hold() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch =
        RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef), ("n", numbers.clone())])
            .unwrap();
    let bytes = written(true, None, &[batch]);
    let error = read(&bytes, false).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("'l'")), "{error}");
    let (batches, skipped) = read(&bytes, true).unwrap();
    assert_eq!(
        (batches[0].num_columns(), batches[0].column(0), skipped),
        (1, &numbers, vec!["l".to_owned()])
    );
}

#[test]
fn truncations() {
    for file in [false, true] {
        let bytes = written(file, Some(CompressionType::ZSTD), &[batch(), batch()]);
        for end in 0..bytes.len() {
            match read(&bytes[..end], false) {
                // A stream may end after any batch.
                Ok((batches, _)) => {
                    assert!(!file && batches.iter().all(|b| *b == batch()), "{end}")
                }
                Err(Error::InvalidInput(_)) => {}
                Err(other) => panic!("{end}: {other}"),
            }
        }
    }
}

/// A file as Polars writes it: what is at its front is no message.
fn without_front(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[8..16].copy_from_slice(&[4, 0, 0, 0, 0xf2, 0xff, 0xff, 0xff]);
    bytes
}

#[test]
#[expect(clippy::disallowed_methods, reason = "an input of a test")]
fn files_that_only_their_footer_describes() {
    let bytes = without_front(written(true, None, &[batch(), batch().slice(1, 2)]));
    assert_eq!(read(&bytes, false).unwrap().0, [batch(), batch().slice(1, 2)]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.arrow");
    std::fs::write(&path, &bytes).unwrap();
    // A pipe whose file is known, a file, and parts of a file.
    let pipe = Box::new(Cursor::new(bytes.clone()));
    let (batches, _) = ArrowBatches::open(&path, pipe, Some(&path), SUPPORTED, MEMORY).unwrap();
    assert_eq!(batches.collect::<Result<Vec<_>>>().unwrap(), [batch(), batch().slice(1, 2)]);
    let open = || ArrowBatches::open_file(&path, File::open(&path).unwrap(), MEMORY).unwrap();
    assert_eq!(open().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [4, 2]);
    let length = bytes.len() as u64;
    let rows = |part| -> usize {
        open().select(vec![0], Some(part)).map(|batch| batch.unwrap().num_rows()).sum()
    };
    let parts: Vec<usize> = (0..length).step_by(100).map(|at| rows(at..at + 100)).collect();
    assert_eq!(parts.iter().sum::<usize>(), 6, "{parts:?}");
    for end in 0..bytes.len() {
        assert!(matches!(read(&bytes[..end], false), Err(Error::InvalidInput(_))), "{end}");
    }
    // A pipe is kept as a whole, within the limit.
    let mut long = bytes;
    long.splice(16..16, vec![0; 257 << 20]);
    let pipe = Box::new(Cursor::new(long));
    match ArrowBatches::open(Path::new("t.arrow"), pipe, None, SUPPORTED, 1) {
        Err(Error::LimitExceeded(what)) => assert!(what.contains("does not fit"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_polars() {
    let read = |bytes: &[u8]| {
        let (batches, _) = read(bytes, false).unwrap();
        arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap()
    };
    let batch = read(include_bytes!("../../../../tests/inputs/polars.arrow"));
    let texts: Vec<Option<&str>> = batch.column(1).as_string_view().iter().collect();
    assert_eq!((batch.num_rows(), texts), (3, vec![Some("x"), Some("y"), None]));
    let batch = read(include_bytes!("../../../../tests/inputs/polars-categories.arrow"));
    for (column, expected) in batch.columns().iter().zip([["a", "b", "a"], ["x", "y", "x"]]) {
        let plain = arrow_cast::cast(column, &DataType::Utf8).unwrap();
        assert_eq!(plain.as_string::<i32>(), &StringArray::from(expected.to_vec()));
    }
    let empty = include_bytes!("../../../../tests/inputs/polars-empty.arrow");
    let (batches, _) =
        ArrowBatches::open(Path::new("e"), Box::new(Cursor::new(empty)), None, SUPPORTED, MEMORY)
            .unwrap();
    assert_eq!(batches.columns().unwrap().fields().len(), 3);
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 0);
}

/// Flipping any bit of either format gives an error or some batches.
#[test]
fn damage() {
    for (file, compression, has_front) in [
        (false, None, true),
        (true, Some(CompressionType::LZ4_FRAME), true),
        (true, None, true),
        (true, None, false),
    ] {
        let small = batch().project(&[0, 1, 2]).unwrap();
        let bytes = written(file, compression, &[small]);
        let bytes = if has_front { bytes } else { without_front(bytes) };
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Ok((batches, _)) = read(&damaged, true) {
                    let texts = |batch: &RecordBatch| {
                        let text = batch
                            .columns()
                            .iter()
                            .find_map(|column| column.as_string_opt::<i32>().cloned());
                        text.map_or(0, |text| text.iter().flatten().map(str::len).sum::<usize>())
                    };
                    assert!(batches.iter().map(texts).sum::<usize>() <= bytes.len());
                }
            }
        }
    }
}

#[test]
fn lengths_are_not_believed() {
    let long = |claim: i32| {
        let mut bytes = CONTINUATION.to_vec();
        bytes.extend_from_slice(&claim.to_le_bytes());
        bytes.extend_from_slice(&[0; 64]);
        bytes
    };
    for claim in [i32::MAX, -1, 1 << 27, 64, 5] {
        assert!(matches!(read(&long(claim), false), Err(Error::InvalidInput(_))), "{claim}");
    }
}

/// The kind of a column in the random inputs.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Null,
    Int,
    Bool,
    Text,
    View,
    Nothing,
    Keyed,
    KeyedAnew,
    List,
}

const KINDS: [Kind; 9] = [
    Kind::Null,
    Kind::Int,
    Kind::Bool,
    Kind::Text,
    Kind::View,
    Kind::Nothing,
    Kind::Keyed,
    Kind::KeyedAnew,
    Kind::List,
];

impl Kind {
    fn data_type(self) -> DataType {
        let keyed = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        match self {
            Kind::Null => DataType::Null,
            Kind::Int => DataType::Int64,
            Kind::Bool => DataType::Boolean,
            Kind::Text => DataType::Utf8,
            Kind::View => DataType::Utf8View,
            Kind::Nothing => DataType::FixedSizeBinary(0),
            Kind::Keyed => keyed(DataType::Int8),
            Kind::KeyedAnew => keyed(DataType::Int32),
            Kind::List => DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
        }
    }

    /// Rows of the batch with this number. The dictionaries of `Keyed` grow from batch to batch,
    /// those of `KeyedAnew` have other words each time.
    fn array(self, rows: usize, batch: usize) -> ArrayRef {
        let some = |row: usize| !(row * 7 + batch).is_multiple_of(5);
        let word =
            |row: usize| some(row).then(|| format!("{}{row}", "a long word ".repeat(row % 3)));
        let words = |from: usize, count: usize| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(
                (from..from + count).map(|n| format!("word {n}")),
            ))
        };
        match self {
            Kind::Null => Arc::new(NullArray::new(rows)),
            Kind::Int => Arc::new(Int64Array::from_iter(
                (0..rows).map(|row| some(row).then_some(row as i64)),
            )),
            Kind::Bool => Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(some(row))))),
            Kind::Text => Arc::new(StringArray::from_iter((0..rows).map(word))),
            Kind::View => Arc::new(StringViewArray::from_iter((0..rows).map(word))),
            Kind::Nothing => {
                let empty = Buffer::from_vec(Vec::<u8>::new());
                Arc::new(FixedSizeBinaryArray::try_new_with_len(0, empty, None, rows).unwrap())
            }
            Kind::Keyed => {
                let count = 1 + 2 * batch;
                let keys = Int8Array::from_iter(
                    (0..rows).map(|row| some(row).then_some((row % count) as i8)),
                );
                Arc::new(DictionaryArray::new(keys, words(0, count)))
            }
            Kind::KeyedAnew => {
                let keys = Int32Array::from_iter(
                    (0..rows).map(|row| some(row).then_some((row % 2) as i32)),
                );
                Arc::new(DictionaryArray::new(keys, words(100 * batch, 2)))
            }
            Kind::List => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                (0..rows).map(|row| some(row).then(|| vec![Some(1); row % 3])),
            )),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever the columns and batch sizes, all rows of all batches are read.
    #[test]
    fn rows_out_are_rows_in(
        kinds in proptest::collection::vec(proptest::sample::select(&KINDS[..]), 0..4),
        sizes in proptest::collection::vec(prop_oneof![Just(0_usize), Just(1), 0..40_usize], 0..6),
        file in any::<bool>(),
        delta in any::<bool>(),
        compression in proptest::option::of(proptest::sample::select(
            &[CompressionType::LZ4_FRAME, CompressionType::ZSTD][..],
        )),
    ) {
        // A file has one dictionary per field, which may grow.
        let kept = |kind: &Kind| {
            !file || !matches!(kind, Kind::KeyedAnew) && (delta || !matches!(kind, Kind::Keyed))
        };
        let kinds: Vec<Kind> = kinds.into_iter().filter(kept).collect();
        let field =
            |(at, kind): (usize, &Kind)| Field::new(format!("c{at}"), kind.data_type(), true);
        let fields = kinds.iter().enumerate().map(field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = |(number, rows): (usize, &usize)| {
            let arrays = kinds.iter().map(|kind| kind.array(*rows, number)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(*rows));
            RecordBatch::try_new_with_options(schema.clone(), arrays, &options).unwrap()
        };
        let batches: Vec<RecordBatch> = sizes.iter().enumerate().map(batch).collect();
        let handling = if delta { DictionaryHandling::Delta } else { DictionaryHandling::Resend };
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let options = options.with_dictionary_handling(handling);
        let first = [RecordBatch::new_empty(schema.clone())];
        let bytes =
            written_with(file, options, if batches.is_empty() { &first } else { &batches });
        let flat = kinds.iter().enumerate().filter(|(_, kind)| !matches!(kind, Kind::List));
        let flat: Vec<usize> = flat.map(|(at, _)| at).collect();
        let expected: Vec<RecordBatch> =
            batches.iter().map(|batch| batch.project(&flat).unwrap()).collect();
        let (found, skipped) = read(&bytes, true).unwrap();
        prop_assert_eq!(skipped.len(), kinds.len() - flat.len());
        prop_assert_eq!(if batches.is_empty() { &found[1..] } else { &found }, &expected[..]);
    }
}

/// Millions of rows without bytes come from null columns, and are returned in slices.
#[test]
fn null_columns_of_any_length() {
    let batch =
        RecordBatch::try_from_iter([("n", Arc::new(NullArray::new(5_000_000)) as ArrayRef)])
            .unwrap();
    for file in [false, true] {
        let (batches, _) =
            read(&written(file, None, &[batch.clone(), batch.slice(0, 3)]), false).unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= SLICE_ROWS));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 5_000_003);
    }
}

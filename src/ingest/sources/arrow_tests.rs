//! Both formats, what they hold, and every damage.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, ListArray, NullArray, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

use super::*;

fn batch() -> RecordBatch {
    let keyed: DictionaryArray<Int32Type> =
        [Some("x"), None, Some("a longer text"), Some("x")].into_iter().collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]))),
        ("keyed", Arc::new(keyed)),
        ("text", Arc::new(StringArray::from(vec!["a".repeat(100), "b".into(), "c".into(), "d".into()]))),
        ("nothing", Arc::new(NullArray::new(4))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn written(file: bool, compression: Option<CompressionType>, batches: &[RecordBatch]) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
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
    let (batches, skipped) = ArrowBatches::open(Path::new("t.arrow"), Box::new(Cursor::new(bytes.to_vec())), skip)?;
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
    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef), ("n", numbers.clone())]).unwrap();
    let bytes = written(true, None, &[batch]);
    let error = read(&bytes, false).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("'l'")), "{error}");
    let (batches, skipped) = read(&bytes, true).unwrap();
    assert_eq!((batches[0].num_columns(), batches[0].column(0), skipped), (1, &numbers, vec!["l".to_owned()]));
}

#[test]
fn truncations() {
    for file in [false, true] {
        let bytes = written(file, Some(CompressionType::ZSTD), &[batch(), batch()]);
        for end in 0..bytes.len() {
            match read(&bytes[..end], false) {
                // A stream may end behind any batch.
                Ok((batches, _)) => assert!(!file && batches.iter().all(|b| *b == batch()), "{end}"),
                Err(Error::InvalidInput(_)) => {}
                Err(other) => panic!("{end}: {other}"),
            }
        }
    }
}

/// Every bit of both formats turned over is an error or some batches.
#[test]
fn damage() {
    for (file, compression) in [(false, None), (true, Some(CompressionType::LZ4_FRAME)), (true, None)] {
        let small = batch().project(&[0, 1, 2]).unwrap();
        let bytes = written(file, compression, &[small]);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Ok((batches, _)) = read(&damaged, true) {
                    let texts = |batch: &RecordBatch| {
                        let text = batch.columns().iter().find_map(|column| column.as_string_opt::<i32>().cloned());
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

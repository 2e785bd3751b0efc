//! What reads bytes in ClickHouse's formats, for fuzzing: rows within the bound, or an error.

use std::io::Read as _;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::blocks::{BlockReader, checksum};
use super::rows_in::{self, BodyFormat, Reader};
use super::types::Type;

/// What a batch may take.
const MOST_BATCH: u64 = 1 << 20;
/// What the arrays of a batch have beside: offsets, and columns that the body lacks.
const MOST_TIMES: usize = 64;

const FORMATS: [BodyFormat; 9] = [
    BodyFormat::Native,
    BodyFormat::RowBinary,
    BodyFormat::RowBinaryWithNames,
    BodyFormat::RowBinaryWithNamesAndTypes,
    BodyFormat::Values,
    BodyFormat::TabSeparated,
    BodyFormat::TabSeparatedWithNames,
    BodyFormat::TabSeparatedWithNamesAndTypes,
    BodyFormat::TabSeparatedRaw,
];

/// The name of a type: what is read is shown as a name that means the same.
pub(crate) fn type_name(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else { return };
    if let Ok(found) = Type::parse(name) {
        let shown = found.to_string();
        assert_eq!(Type::parse(&shown).ok().as_ref(), Some(&found), "{shown}");
        assert!(found.has_bytes_of(&found), "{shown}");
        let _ = found.arrow();
    }
}

/// The value of a parameter, behind a line with its type.
pub(crate) fn parameter(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let name = parts.next().map(String::from_utf8_lossy).unwrap_or_default();
    if let (Ok(found), Some(text)) = (Type::parse(&name), parts.next())
        && let Ok(value) = rows_in::parameter(&found, text)
    {
        assert_eq!(value.len(), 1, "{found}");
    }
}

/// Compressed blocks, as they are, and one with the checksum that it should have.
pub(crate) fn blocks(bytes: &[u8]) {
    let read = |bytes: &[u8]| {
        let mut unpacked = Vec::new();
        let _ = BlockReader::new(bytes).take(64 << 20).read_to_end(&mut unpacked);
    };
    read(bytes);
    // The length is made right, too, or every change of it would be found by the checksum.
    let mut block = bytes.to_vec();
    if let Some(size) = block.get_mut(1..5) {
        size.copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    read(&[&checksum(&block)[..], &block].concat());
}

/// The body of an INSERT behind three bytes: its format, the revision, the columns of the table.
pub(crate) fn body(bytes: &[u8]) {
    let [format, revision, columns, body @ ..] = bytes else { return };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    let revision = if revision & 1 == 0 { 0 } else { 54_460 };
    let declared = declared(*columns);
    let mut reader = Reader::new(format, &declared, revision, MOST_BATCH, body);
    while let Ok(Some(batch)) = reader.next_batch() {
        assert_eq!(batch.schema(), declared);
        assert!(batch.num_rows() > 0);
        let taken = batch.get_array_memory_size();
        assert!(taken <= MOST_TIMES * MOST_BATCH as usize, "{format:?} {taken}");
    }
}

fn declared(kind: u8) -> SchemaRef {
    let zone = Some("Europe/Berlin".into());
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let pair = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)];
    let types: &[DataType] = match kind % 4 {
        0 => &[DataType::Int64, DataType::Utf8View, DataType::Float64],
        1 => &[
            DataType::UInt8,
            DataType::Boolean,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Decimal128(20, 4),
            DataType::Binary,
        ],
        2 => &[
            DataType::Timestamp(TimeUnit::Nanosecond, zone),
            DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
            DataType::Decimal256(76, 20),
            DataType::FixedSizeBinary(16),
        ],
        _ => &[DataType::List(item), DataType::Struct(pair.into()), DataType::LargeUtf8],
    };
    let fields = types.iter().enumerate();
    // The first must not be null.
    let fields = fields.map(|(at, of)| Field::new(format!("c{at}"), of.clone(), at > 0));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

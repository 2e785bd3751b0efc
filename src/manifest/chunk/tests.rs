//! Round trips, merges and damage of chunks.

use super::reader::parse_segment;
use super::*;
use crate::block::{Bound, Stats};
use crate::bytes::Cursor;
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::manifest::ChunkRef;
use crate::manifest::columns::{ColumnStats, parse_column};
use crate::model::{DataType, Scalar};

fn entry(i: u8, partition: &str) -> SegmentEntry {
    SegmentEntry {
        file: [i; 16],
        partition: Arc::from(partition),
        offset: 64,
        length: 1000,
        uuid: [i + 100; 16],
        footer_crc: 77,
        rows: 10,
    }
}

fn ints(min: i128, max: i128) -> ColumnStats {
    let bound = |v| Some(Bound { value: Scalar::Int(v), exact: true });
    let stats = Stats {
        rows: 10,
        nulls: 1,
        min: bound(min),
        max: bound(max),
        sum: Some(min + max),
        ..Stats::default()
    };
    ColumnStats { data_type: DataType::Int32, stats }
}

fn text(value: &str) -> ColumnStats {
    let bound = Some(Bound { value: Scalar::Bytes(value.as_bytes().into()), exact: true });
    let stats =
        Stats { rows: 10, min: bound.clone(), max: bound, distinct: Some(1), ..Stats::default() };
    ColumnStats { data_type: DataType::Utf8, stats }
}

fn sample() -> ChunkBuilder {
    let mut builder = ChunkBuilder::default();
    builder.push(entry(1, "b"), [(ColumnId(0), ints(-5, 9)), (ColumnId(7), text("short"))]);
    builder.push(entry(2, ""), [(ColumnId(0), ints(3, 4))]);
    builder.push(entry(3, "a/c"), [(ColumnId(7), text("much too long"))]);
    builder
}

fn open(bytes: &[u8], reference: &ChunkRef) -> Result<Chunk> {
    Chunk::open(Arc::new(Mapped::from_bytes(bytes)), reference)
}

type Everything = (Vec<SegmentEntry>, Vec<Option<Vec<Option<ColumnStats>>>>);

/// Everything that a chunk stores.
fn everything(bytes: &[u8], reference: &ChunkRef) -> Result<Everything> {
    let chunk = open(bytes, reference)?;
    let columns = (0..9).map(|id| chunk.column_stats(ColumnId(id))).collect::<Result<Vec<_>>>()?;
    Ok((chunk.segments()?, columns))
}

#[test]
fn round_trips() {
    let (bytes, reference) = sample().encode([9; 16]);
    assert_eq!((reference.segments, reference.rows), (3, 30));
    assert_eq!((&*reference.first_partition, &*reference.last_partition), ("", "b"));
    let chunk = open(&bytes, &reference).unwrap();
    chunk.verify(&reference).unwrap();
    assert_eq!(chunk.segments().unwrap(), [entry(1, "b"), entry(2, ""), entry(3, "a/c")]);
    let known = chunk.column_stats(ColumnId(0)).unwrap().unwrap();
    assert_eq!(known, [Some(ints(-5, 9)), Some(ints(3, 4)), None]);
    let known = chunk.column_stats(ColumnId(7)).unwrap().unwrap();
    assert_eq!(known[0], Some(text("short")));
    let cut = &known[2].as_ref().unwrap().stats;
    let bound = |text: &[u8]| Some(Bound { value: Scalar::Bytes(text.into()), exact: false });
    assert_eq!((&cut.min, &cut.max), (&bound(b"much too"), &bound(b"much top")));
    assert!(chunk.column_stats(ColumnId(1)).unwrap().is_none());
}

#[test]
fn merging_keeps_everything() {
    let (bytes, reference) = sample().encode([9; 16]);
    let chunk = open(&bytes, &reference).unwrap();
    let mut merged = ChunkBuilder::default();
    merged.append(&chunk).unwrap();
    assert_eq!(merged.encode([9; 16]).0, bytes);
    merged.absorb(sample());
    let (bytes, reference) = merged.encode([8; 16]);
    let (segments, columns) = everything(&bytes, &reference).unwrap();
    let first = columns[0].as_ref().unwrap();
    assert_eq!((segments.len(), &first[..3]), (6, &first[3..]));
}

#[test]
fn damage_is_an_error_or_changes_nothing() {
    let (bytes, reference) = sample().encode([9; 16]);
    let whole = everything(&bytes, &reference).unwrap();
    for at in 0..bytes.len() {
        assert!(everything(&bytes[..at], &reference).is_err());
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            match everything(&flipped, &reference) {
                Ok(found) => assert_eq!(found, whole, "byte {at} bit {bit}"),
                // Not a newer version, either.
                Err(Error::Corrupt { .. }) => {}
                Err(other) => panic!("byte {at} bit {bit}: {other}"),
            }
            assert!(open(&flipped, &reference).and_then(|chunk| chunk.verify(&reference)).is_err());
        }
    }
}

#[test]
fn only_whole_chunks_are_newer() {
    let (bytes, reference) = sample().encode([9; 16]);
    for at in [8, 16] {
        let mut newer = bytes.clone();
        newer[at] += 1;
        let crc = crc32fast::hash(&newer);
        let refusal = open(&newer, &ChunkRef { crc, ..reference.clone() }).unwrap_err();
        assert!(matches!(refusal, Error::Unsupported(_)), "{refusal}");
    }
}

/// Parsing a section with any bytes must succeed or fail, but not panic.
#[test]
fn damaged_sections_never_panic() {
    let (bytes, reference) = sample().encode([9; 16]);
    let segments = open(&bytes, &reference).unwrap().rows().unwrap();
    let section = open(&bytes, &reference).unwrap();
    let (payload, _) = section.section(COLUMN, ColumnId(7)).unwrap().unwrap();
    for at in 0..payload.len() {
        assert!(parse_column(&payload[..at], &segments).is_err());
        for value in [0, 1, 0x40, 0x7F, 0xFF] {
            let mut changed = payload.to_vec();
            changed[at] = value;
            let _ = parse_column(&changed, &segments);
        }
    }
}

#[test]
fn deletion_vectors_are_refused() {
    let mut bytes = vec![0; SEGMENT_BYTES];
    bytes[64] = 1;
    let parsed = parse_segment(&mut Cursor::new(&bytes), &[Arc::from("")]);
    assert!(matches!(parsed, Err(Error::Unsupported(_))));
}

//! Round trips and damage of roots.

use super::*;
use crate::model::{ColumnId, DataType, PartitionKey, SortKey};

fn sample() -> Root {
    let utc = DataType::Timestamp {
        unit: crate::model::TimeUnit::Microsecond,
        zone: Some(Arc::from("UTC")),
    };
    let mut schema =
        Schema::from_names([("id", DataType::Int64), ("when", utc), ("name", DataType::Utf8)])
            .unwrap();
    schema.require(0);
    schema.require(2);
    let chunk = ChunkRef {
        id: [7; 16],
        length: 1000,
        crc: 0xABCD,
        segments: 3,
        rows: 30,
        first_partition: Arc::from(""),
        last_partition: Arc::from("year=2015"),
    };
    let year = PartitionKey {
        name: Arc::from("year"),
        expression: Arc::from("date_part('year', \"when\")"),
        columns: vec![(Arc::from("when"), ColumnId(1))],
        data_type: DataType::Int32,
    };
    let by_name = SortKey { column: ColumnId(2), descending: true, nulls_first: true };
    Root {
        generation: 3,
        table: [1; 16],
        schema,
        options: TableOptions::default(),
        arrangement: Arrangement { partition_by: vec![year], sort_by: vec![by_name] },
        history: History { committed: 1_700_000_000_000, keep: 60_000 },
        ledger: crate::manifest::ledger::tests::sample(),
        write_volume: WriteVolume { loaded: 1000, written: 2345 },
        rows: 30,
        chunks: vec![chunk],
        unknown: 0,
    }
}

#[cfg(feature = "cluster")]
#[test]
fn checksums_tell_roots_from_each_other() {
    let root = sample();
    let mut other = root.clone();
    assert_eq!(root.checksum(), other.checksum());
    other.chunks[0].crc += 1;
    assert_ne!(root.checksum(), other.checksum());
}

#[test]
fn a_chunk_occurs_once() {
    let mut root = sample();
    root.chunks.push(ChunkRef { rows: 0, ..root.chunks[0].clone() });
    let refused = Root::parse(&root.encode(), 3).unwrap_err().to_string();
    assert!(refused.contains("is listed twice"), "{refused}");
}

#[test]
fn a_key_reads_no_more_columns_than_an_expression_names() {
    let mut root = sample();
    let names = &mut root.arrangement.partition_by[0].columns;
    *names = vec![names[0].clone(); limits::MAX_EXPRESSION_COLUMNS];
    assert!(Root::parse(&root.encode(), 3).is_ok());
    let names = &mut root.arrangement.partition_by[0].columns;
    names.push(names[0].clone());
    assert!(Root::parse(&root.encode(), 3).is_err());
}

#[test]
fn round_trips_and_refuses_damage() {
    let root = sample();
    let bytes = root.encode();
    assert_eq!(Root::parse(&bytes, 3).unwrap(), root);
    assert!(Root::parse(&bytes, 4).is_err());
    for at in 0..bytes.len() {
        assert!(Root::parse(&bytes[..at], 3).is_err());
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            // Not a newer version, either.
            let refusal = Root::parse(&flipped, 3).unwrap_err();
            assert!(matches!(refusal, Error::Corrupt { .. }), "byte {at} bit {bit}: {refusal}");
        }
    }
}

/// Damaged bytes with a correct checksum, as a faulty or hostile writer could make them.
#[test]
fn damage_with_a_correct_checksum_never_panics() {
    let body = sample().encode();
    let body = &body[..body.len() - 4];
    let sealed = |bytes: &[u8]| [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
    for at in 0..body.len() {
        let _ = Root::parse(&sealed(&body[..at]), 3);
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut changed = body.to_vec();
            changed[at] = value;
            let _ = Root::parse(&sealed(&changed), 3);
        }
    }
}

#[test]
fn newer_files_are_refused_and_unknown_sections_skipped() {
    let bytes = sample().encode();
    let body = &bytes[..bytes.len() - 4];
    let sealed = |bytes: &[u8]| [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
    for at in [8, 16] {
        let mut newer = body.to_vec();
        newer[at] += 1;
        assert!(matches!(Root::parse(&sealed(&newer), 3), Err(Error::Unsupported(_))));
    }
    let mut extended = body.to_vec();
    extended[48] += 1;
    extended.extend_from_slice(&[99, 0, 0, 0, 2, 0, 0, 0, 5, 5]);
    assert_eq!(Root::parse(&sealed(&extended), 3).unwrap(), sample());
}

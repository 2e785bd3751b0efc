//! Arbitrary bytes as a root, a chunk, a ledger file or `CURRENT`, chosen by their first bytes.

use std::sync::Arc;

use stylobate::internal::disk::Mapped;
use stylobate::internal::manifest::{
    Chunk, ChunkRef, LedgerRef, Root, parse_ledger, read_current, write_current,
};

/// Offset of a root's generation, and of the id and count of a chunk or ledger: just after the
/// envelope of 40 bytes.
const BODY: usize = 40;

/// The target.
pub fn run(bytes: &[u8]) {
    match bytes.first_chunk::<8>() {
        Some(b"STYROOT\0") => root(bytes),
        Some(b"STYCHNK\0") => chunk(bytes),
        Some(b"STYLEDG\0") => ledger(bytes),
        _ => {
            if let Ok(generation) = read_current(bytes) {
                assert_eq!(write_current(generation), bytes);
            }
        }
    }
}

fn root(bytes: &[u8]) {
    let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    for generation in [1, 2].into_iter().chain(number(BODY)) {
        let Ok(root) = Root::parse(bytes, generation) else { continue };
        // What was parsed is written again unchanged, except unknown flags, which a writer never
        // writes.
        let root = Root { unknown: 0, ..root };
        assert_eq!(Root::parse(&root.encode(), generation).unwrap(), root);
    }
}

fn ledger(bytes: &[u8]) {
    let Some((id, rest)) = bytes.get(BODY..).and_then(|body| body.split_first_chunk::<16>()) else {
        return;
    };
    let Some(sources) = rest.first_chunk() else { return };
    let sources = u32::from_le_bytes(*sources);
    let expected = LedgerRef { id: *id, length: bytes.len() as u64, crc: 0, sources };
    if let Ok(found) = parse_ledger(bytes, &expected) {
        assert_eq!(found.len(), sources as usize);
    }
}

fn chunk(bytes: &[u8]) {
    let Some((id, rest)) = bytes.get(BODY..).and_then(|body| body.split_first_chunk::<16>()) else {
        return;
    };
    let Some(segments) = rest.first_chunk() else { return };
    let segments = u32::from_le_bytes(*segments);
    let mut expected = ChunkRef {
        id: *id,
        segments,
        length: bytes.len() as u64,
        rows: 0,
        crc: 0,
        first_partition: "".into(),
        last_partition: "".into(),
    };
    let Ok(chunk) = Chunk::open(Arc::new(Mapped::from_bytes(bytes)), &expected) else { return };
    if let Ok(entries) = chunk.segments() {
        assert_eq!(entries.len(), segments as usize);
        expected.rows = entries.iter().fold(0, |sum: u64, entry| sum.wrapping_add(entry.rows));
    }
    for column in chunk.columns() {
        if let Ok(Some(stats)) = chunk.column_stats(column) {
            assert_eq!(stats.len(), segments as usize);
        }
    }
    let _ = chunk.verify(&expected);
}

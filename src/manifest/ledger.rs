//! The ledger: which sources were loaded, how far, and when.
//!
//! An ingest looks here before it reads a file, so that none is loaded twice unasked, and after a
//! crash so that it goes on where the last commit ended. The newest entries stand in the root; when
//! they are many, a commit moves them to a file, and files merge in tiers as chunks do, so that a
//! commit never writes the whole ledger.
//!
//! ```text
//! in the root    files u32 · { uuid 16 · length u64 · crc u32 · sources u32 }… · sources
//! a file         envelope · uuid 16 · sources · crc32 of all before
//! sources        count u32 · { path · size u64 · modified u64 · hash 16 · load 16 · rows u64 · rejected u64 · pieces u64 ·
//!                generation u64 · flags u8: 1 done, 2 hashed }…
//! ```

use std::sync::Arc;

use super::codec::{read_envelope, seal, unseal, write_envelope};
use super::{Id, layout};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;

const MAGIC: &[u8; 8] = b"STYLEDG\0";
const DONE: u8 = 1;
const HASHED: u8 = 2;
/// Bytes of an entry without its path.
const SOURCE_BYTES: usize = 93;
/// Bytes of a reference to a file.
const REF_BYTES: usize = 32;
/// More entries than this in the root move to a file with the next commit.
const RECENT: usize = 128;
/// Entries of a file at most, whose paths may be long.
pub(super) const FILE_SOURCES: usize = 4096;
/// The longest file that is read: so many entries with the longest paths.
pub(super) const MAX_BYTES: u64 = 512 << 20;
/// The most files, and the most entries of one.
const MAX_COUNT: usize = 1 << 20;

/// One source of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Absolute path.
    pub path: Arc<str>,
    /// Bytes as it lay there.
    pub size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified: i64,
    /// XXH3-128 of its bytes, where all of them were read.
    pub hash: Option<Id>,
    /// Rows read, those rejected among them.
    pub rows: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Pieces that it was read in: chunks of text, row groups, batches. A load that was stopped
    /// goes on after them.
    pub pieces: u64,
    /// Names the load, all of whose commits have it.
    pub load: Id,
    /// The generation that put (the last of) the rows in force.
    pub generation: u64,
    /// Whether all of it was loaded; otherwise a load was stopped after a commit.
    pub done: bool,
}

/// What a root says of a file of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRef {
    /// Names the file.
    pub id: Id,
    /// Its length in bytes.
    pub length: u64,
    /// CRC32 of the whole file.
    pub crc: u32,
    /// Its entries.
    pub sources: u32,
}

/// The ledger of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Older entries, all of them done.
    pub files: Vec<LedgerRef>,
    /// The newest entries.
    pub recent: Vec<Source>,
}

impl Ledger {
    /// Adds what a commit loads. An unfinished entry of the same source is replaced.
    pub(super) fn add(&mut self, new: Vec<Source>) {
        let continued =
            |known: &Source| !known.done && new.iter().any(|source| source.path == known.path);
        self.recent.retain(|known| !continued(known));
        self.recent.extend(new);
    }

    /// Takes out what should move to a file: the finished entries, once they are many.
    pub(super) fn overflow(&mut self) -> Vec<Source> {
        if self.recent.len() <= RECENT {
            return Vec::new();
        }
        let (done, open) =
            std::mem::take(&mut self.recent).into_iter().partition(|source| source.done);
        self.recent = open;
        done
    }

    /// The part that stands in the root.
    pub(super) fn encode(&self) -> Writer {
        let mut out = Writer::new();
        out.count(self.files.len());
        for file in &self.files {
            out.put(&file.id);
            out.u64(file.length);
            out.u32(file.crc);
            out.u32(file.sources);
        }
        write_sources(&self.recent, &mut out);
        out
    }

    /// Reads the part that stands in the root.
    pub(super) fn parse(payload: &[u8]) -> Result<Ledger> {
        let mut cursor = Cursor::new(payload);
        let mut files = Vec::new();
        for _ in 0..cursor.count(REF_BYTES, MAX_COUNT)? {
            let id = cursor.uuid()?;
            files.push(LedgerRef {
                id,
                length: cursor.u64()?,
                crc: cursor.u32()?,
                sources: cursor.u32()?,
            });
        }
        let recent = read_sources(&mut cursor)?;
        cursor.finish()?;
        Ok(Ledger { files, recent })
    }
}

/// A new file of these entries, and what a root says of it.
pub(super) fn encode_file(sources: &[Source]) -> (Vec<u8>, LedgerRef) {
    let id = layout::new_id();
    let mut out = Writer::new();
    write_envelope(MAGIC, 0, &mut out);
    out.put(&id);
    write_sources(sources, &mut out);
    let bytes = seal(out);
    let reference = LedgerRef {
        id,
        length: bytes.len() as u64,
        crc: crc32fast::hash(&bytes),
        sources: sources.len() as u32,
    };
    (bytes, reference)
}

/// The entries of a file that a root names.
pub fn parse_file(bytes: &[u8], expected: &LedgerRef) -> Result<Vec<Source>> {
    read_envelope(MAGIC, "ledger", &mut Cursor::new(bytes))?;
    let mut cursor = Cursor::new(unseal(bytes)?);
    read_envelope(MAGIC, "ledger", &mut cursor)?;
    if cursor.uuid()? != expected.id || bytes.len() as u64 != expected.length {
        return Err(Error::corrupt(40, "this is not the ledger that the root names"));
    }
    let sources = read_sources(&mut cursor)?;
    cursor.finish()?;
    if sources.len() != expected.sources as usize {
        return Err(cursor.corrupt(format!(
            "{} entries, and {} by the root",
            sources.len(),
            expected.sources
        )));
    }
    Ok(sources)
}

fn write_sources(sources: &[Source], out: &mut Writer) {
    out.count(sources.len());
    for source in sources {
        out.blob(source.path.as_bytes());
        out.u64(source.size);
        out.u64(source.modified as u64);
        out.put(&source.hash.unwrap_or_default());
        out.put(&source.load);
        for number in [source.rows, source.rejected, source.pieces, source.generation] {
            out.u64(number);
        }
        out.u8(if source.done { DONE } else { 0 } | if source.hash.is_some() { HASHED } else { 0 });
    }
}

fn read_sources(cursor: &mut Cursor<'_>) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for _ in 0..cursor.count(SOURCE_BYTES, MAX_COUNT)? {
        let path = Arc::from(cursor.text(limits::MAX_PATH_BYTES)?);
        let (size, modified, hash) = (cursor.u64()?, cursor.u64()? as i64, cursor.uuid()?);
        let load = cursor.uuid()?;
        let (rows, rejected, pieces) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let (generation, flags) = (cursor.u64()?, cursor.u8()?);
        let (done, hash) = (flags & DONE != 0, (flags & HASHED != 0).then_some(hash));
        sources.push(Source {
            path,
            size,
            modified,
            hash,
            rows,
            rejected,
            pieces,
            load,
            generation,
            done,
        });
    }
    Ok(sources)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn source(i: u64, done: bool) -> Source {
        Source {
            path: Arc::from(format!("/data/{i}.csv")),
            size: 1000 + i,
            modified: -5,
            hash: done.then_some([i as u8; 16]),
            rows: 10 * i,
            rejected: 1,
            pieces: 900,
            load: [12; 16],
            generation: i,
            done,
        }
    }

    pub(crate) fn sample() -> Ledger {
        let file = LedgerRef { id: [3; 16], length: 77, crc: 5, sources: 2 };
        Ledger { files: vec![file], recent: vec![source(1, true), source(2, false)] }
    }

    #[test]
    fn files_round_trip_and_damage_is_found() {
        let sources: Vec<Source> = (0..5).map(|i| source(i, i % 2 == 0)).collect();
        let (bytes, reference) = encode_file(&sources);
        assert_eq!(parse_file(&bytes, &reference).unwrap(), sources);
        for at in 0..bytes.len() {
            assert!(parse_file(&bytes[..at], &reference).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(parse_file(&flipped, &reference).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn an_unfinished_source_is_replaced_and_stays_at_hand() {
        let mut ledger = Ledger::default();
        ledger.add(vec![source(7, false)]);
        ledger.add(vec![Source { rows: 99, ..source(7, false) }]);
        assert_eq!(ledger.recent.iter().map(|source| source.rows).collect::<Vec<_>>(), [99]);
        ledger.add((100..100 + RECENT as u64).map(|i| source(i, true)).collect());
        let moved = ledger.overflow();
        assert_eq!((moved.len(), ledger.recent.len()), (RECENT, 1));
        ledger.add(vec![source(7, true)]);
        assert!(ledger.recent.iter().all(|source| source.done) && ledger.overflow().is_empty());
    }
}

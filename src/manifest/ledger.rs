//! The ledger: which sources were loaded, how far, and when.
//!
//! An ingest consults it before it reads a file, so that no file is loaded twice by mistake, and so
//! that a load that was stopped resumes after its last commit. The newest entries are in the root;
//! when there are many, a commit moves them to a file, and files are merged in tiers as chunks are,
//! so that a commit never writes the whole ledger.
//!
//! ```text
//! in the root    files u32 · { uuid 16 · length u64 · crc u32 · sources u32 }… · sources
//! a file         envelope · uuid 16 · sources · crc32 of all before
//! sources        count u32 · { path · size u64 · modified u64 · hash 16 · load 16 · rows u64 ·
//!                rejected u64 · pieces u64 · generation u64 · flags u8 }…
//! flags          1 done, 2 hashed, 4 selected
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use super::codec::{read_envelope, seal, unseal, write_envelope};
use super::{Id, layout};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;

const MAGIC: &[u8; 8] = b"STYLEDG\0";
const DONE: u8 = 1;
const HASHED: u8 = 2;
const SELECTED: u8 = 4;
/// Bytes of an entry without its path.
const SOURCE_BYTES: usize = 85;
/// Bytes of a reference to a file.
const REF_BYTES: usize = 32;
/// If the root has more entries than this, the next commit moves them to a file.
const RECENT: usize = 128;
/// The most entries that are written to a file.
pub(super) const FILE_SOURCES: usize = 4096;
/// The longest file that is read: enough for that many entries with the longest paths.
pub(super) const MAX_BYTES: u64 = 512 << 20;
/// The most files, and the most entries of one.
const MAX_COUNT: usize = 1 << 20;

/// A source of rows that was loaded, at least in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedSource {
    /// Absolute path.
    pub path: Arc<str>,
    /// Bytes of the file as stored.
    pub size: u64,
    /// When the file was last modified, in nanoseconds since 1970.
    pub modified: i64,
    /// XXH3-128 of its bytes, if all of them were read; of a source that is not done, of the bytes
    /// before the rows that the load takes, if those were loaded before.
    pub hash: Option<Id>,
    /// Rows read, including rejected ones.
    pub rows: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Pieces that were loaded: chunks of text, row groups, batches. A load that was stopped
    /// resumes after them.
    pub pieces: u64,
    /// Identifier of the load, common to all of its commits.
    pub load: Id,
    /// Whether a selection chose what is stored of its rows, by which the load's identifier ends.
    pub selected: bool,
    /// The generation that added the (last) rows.
    pub generation: u64,
    /// Whether the whole source was loaded; if not, the load was stopped after a commit.
    pub done: bool,
}

/// A root's reference to a file of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRef {
    /// Identifier, which names the file.
    pub id: Id,
    /// Length in bytes.
    pub length: u64,
    /// CRC32 of the whole file.
    pub crc: u32,
    /// Number of entries.
    pub sources: u32,
}

/// The ledger of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Files of older entries, all of them done.
    pub files: Vec<LedgerRef>,
    /// The newest entries.
    pub recent: Vec<LoadedSource>,
}

impl Ledger {
    /// Adds the sources of a commit. They replace unfinished entries of the same source.
    pub(super) fn add(&mut self, new: Vec<LoadedSource>) {
        let paths: HashSet<&str> = new.iter().map(|source| &*source.path).collect();
        self.recent.retain(|known| known.done || !paths.contains(&*known.path));
        self.recent.extend(new);
    }

    /// Removes and returns the entries to move to a file: the finished ones, if there are many.
    pub(super) fn take_overflow(&mut self) -> Vec<LoadedSource> {
        if self.recent.len() <= RECENT {
            return Vec::new();
        }
        let (done, open) =
            std::mem::take(&mut self.recent).into_iter().partition(|source| source.done);
        self.recent = open;
        done
    }

    /// The stored form in the root.
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

    /// Reads the stored form in the root.
    pub(super) fn parse(payload: &[u8]) -> Result<Ledger> {
        let mut cursor = Cursor::new(payload);
        let (mut files, mut ids) = (Vec::new(), HashSet::new());
        for _ in 0..cursor.count(REF_BYTES, MAX_COUNT)? {
            let id = cursor.uuid()?;
            if !ids.insert(id) {
                return Err(cursor.corrupt("a file of the ledger is listed twice"));
            }
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

/// A new file of these entries, and a root's reference to it.
pub(super) fn encode_file(sources: &[LoadedSource]) -> (Vec<u8>, LedgerRef) {
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

/// The entries of a file that a root refers to.
pub fn parse_file(bytes: &[u8], expected: &LedgerRef) -> Result<Vec<LoadedSource>> {
    let mut cursor = Cursor::new(unseal(bytes)?);
    read_envelope(MAGIC, "ledger", &mut cursor)?;
    if cursor.uuid()? != expected.id || bytes.len() as u64 != expected.length {
        return Err(Error::corrupt(40, "this is not the ledger that the root names"));
    }
    let sources = read_sources(&mut cursor)?;
    cursor.finish()?;
    if sources.len() != expected.sources as usize {
        return Err(cursor.corrupt(format!(
            "{} entries, but {} in the root",
            sources.len(),
            expected.sources
        )));
    }
    Ok(sources)
}

fn write_sources(sources: &[LoadedSource], out: &mut Writer) {
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
        let flags =
            [(source.done, DONE), (source.hash.is_some(), HASHED), (source.selected, SELECTED)];
        out.u8(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
    }
}

fn read_sources(cursor: &mut Cursor<'_>) -> Result<Vec<LoadedSource>> {
    let mut sources = Vec::new();
    for _ in 0..cursor.count(SOURCE_BYTES, MAX_COUNT)? {
        let path = Arc::from(cursor.text(limits::MAX_PATH_BYTES)?);
        let (size, modified, hash) = (cursor.u64()?, cursor.u64()? as i64, cursor.uuid()?);
        let load = cursor.uuid()?;
        let (rows, rejected, pieces) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let (generation, flags) = (cursor.u64()?, cursor.u8()?);
        let (done, hash) = (flags & DONE != 0, (flags & HASHED != 0).then_some(hash));
        sources.push(LoadedSource {
            path,
            size,
            modified,
            hash,
            rows,
            rejected,
            pieces,
            load,
            selected: flags & SELECTED != 0,
            generation,
            done,
        });
    }
    Ok(sources)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn source(i: u64, done: bool) -> LoadedSource {
        LoadedSource {
            path: Arc::from(format!("/data/{i}.csv")),
            size: 1000 + i,
            modified: -5,
            hash: done.then_some([i as u8; 16]),
            rows: 10 * i,
            rejected: 1,
            pieces: 900,
            load: [12; 16],
            selected: i.is_multiple_of(3),
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
        let sources: Vec<LoadedSource> = (0..5).map(|i| source(i, i % 2 == 0)).collect();
        let (bytes, reference) = encode_file(&sources);
        assert_eq!(parse_file(&bytes, &reference).unwrap(), sources);
        for at in 0..bytes.len() {
            assert!(parse_file(&bytes[..at], &reference).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let refusal = parse_file(&flipped, &reference).unwrap_err();
                assert!(matches!(refusal, Error::Corrupt { .. }), "byte {at} bit {bit}: {refusal}");
            }
        }
    }

    #[test]
    fn an_unfinished_source_is_replaced_and_stays_in_the_root() {
        let mut ledger = Ledger::default();
        ledger.add(vec![source(7, false)]);
        ledger.add(vec![LoadedSource { rows: 99, ..source(7, false) }]);
        assert_eq!(ledger.recent.iter().map(|source| source.rows).collect::<Vec<_>>(), [99]);
        ledger.add((100..100 + RECENT as u64).map(|i| source(i, true)).collect());
        let moved = ledger.take_overflow();
        assert_eq!((moved.len(), ledger.recent.len()), (RECENT, 1));
        ledger.add(vec![source(7, true)]);
        assert!(
            ledger.recent.iter().all(|source| source.done) && ledger.take_overflow().is_empty()
        );
    }
}

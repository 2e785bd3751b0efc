//! A generation of a table as its files, on their way to a copy of the table on another machine.
//! The copy becomes the same table: its identity, its generation, and each byte.
//!
//! Where `transfer` adds segments to a table that has rows of its own, this makes one table of two
//! stores the same, and only sends the files that the copy lacks.
//!
//! ```text
//! before      is there u8 · { generation u64 · checksum u32 }: what the copy is to be now; none if
//!             there is to be no table
//! after       generation u64 · root
//! files       files u32 · { kind u8: 0 a chunk, 1 a file of the ledger, 2 a file of segments ·
//!             uuid 16 · length u64 · partition }…
//! ```
//!
//! The bytes of the files follow, in this order, and their XXH3-128.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::transfer::{MOST_BYTES, PIECE, read_root, streamed, write_root};
use crate::bytes::{Cursor, Writer};
use crate::disk::{Io, missing_is_damage};
use crate::error::{Error, Result};
use crate::ingest::sources::counted::hasher;
use crate::limits;
use crate::manifest::{Id, Root};
use crate::model::Schema;
use crate::store::{SegmentEntry, Table, TableWriter};

/// The most files that come at once.
const MOST_FILES: usize = 1 << 24;
/// Bytes of a file in the stored form, at least.
const FILE_BYTES: usize = 29;

/// What a copy needs to become a generation.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// What the copy is before; `None` if there is none.
    pub(crate) before: Option<State>,
    /// The generation.
    pub(crate) after: Root,
    /// The files of it that the copy lacks.
    pub(crate) files: Vec<ReplicaFile>,
}

/// The number of a generation, and the checksum of its root.
pub(crate) type State = (u64, u32);

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaFile {
    pub(crate) kind: Kind,
    id: Id,
    /// Bytes of it that the generation needs.
    pub(crate) length: u64,
    partition: Arc<str>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A part of the manifest.
    Chunk,
    /// A part of the ledger.
    Ledger,
    /// Segments.
    Data,
}

/// The state of a generation.
pub(crate) fn state_of(root: &Root) -> State {
    (root.generation, root.checksum())
}

impl Replica {
    /// What a copy of a state needs: a generation with all its segments, and what the copy has.
    pub(crate) fn new(
        before: Option<(&Root, &[SegmentEntry])>,
        after: &Root,
        segments: &[SegmentEntry],
    ) -> Replica {
        let had: HashSet<Id> = before
            .iter()
            .flat_map(|(root, segments)| files(root, segments))
            .map(|file| file.id)
            .collect();
        let files = files(after, segments).into_iter().filter(|file| !had.contains(&file.id));
        let before = before.map(|(root, _)| state_of(root));
        Replica { before, files: files.collect(), after: after.clone() }
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    /// Writes the stored form, without the bytes of files.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(u8::from(self.before.is_some()));
        if let Some((generation, checksum)) = self.before {
            out.u64(generation);
            out.u32(checksum);
        }
        write_root(&self.after, out);
        out.count(self.files.len());
        for file in &self.files {
            out.u8(file.kind as u8);
            out.put(&file.id);
            out.u64(file.length);
            out.blob(file.partition.as_bytes());
        }
    }

    /// Reads the stored form.
    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<Replica> {
        let before = if from.u8()? > 0 { Some((from.u64()?, from.u32()?)) } else { None };
        let after = read_root(from)?;
        let mut files = Vec::new();
        for _ in 0..from.count(FILE_BYTES, MOST_FILES)? {
            let kind = match from.u8()? {
                0 => Kind::Chunk,
                1 => Kind::Ledger,
                2 => Kind::Data,
                _ => return Err(from.corrupt("a file of an unknown kind")),
            };
            let (id, length) = (from.uuid()?, from.u64()?);
            let partition = from.text(limits::MAX_NAME_BYTES)?.into();
            files.push(ReplicaFile { kind, id, length, partition });
        }
        Ok(Replica { before, after, files })
    }

    /// Opens the copy, which must be what the sender takes it for.
    pub(crate) fn open(&self, copy: &Table) -> Result<TableWriter> {
        let create = self.before.is_none().then(|| (Schema::default(), self.after.options));
        let writer = copy.writer(create)?;
        if writer.base().map(state_of) == self.before {
            return Ok(writer);
        }
        Err(Error::InvalidInput(format!(
            "table {} was written in the meantime; try again",
            copy.name()
        )))
    }

    /// Writes the files, whose bytes come from `bytes`, and compares their hash.
    pub(crate) fn arrive(&self, writer: &TableWriter, bytes: &mut dyn Read) -> Result<()> {
        let (files, mut hasher) = (writer.data_files(), hasher());
        let broken = |error: std::io::Error| Error::io("the request", error);
        let mut piece = vec![0; PIECE];
        for ReplicaFile { kind, id, length, partition } in &self.files {
            if *kind != Kind::Data {
                let mut whole = Vec::new();
                let most = (*length).min(MOST_BYTES as u64);
                Read::take(&mut *bytes, most).read_to_end(&mut whole).map_err(broken)?;
                hasher.write(&whole);
                writer.put_manifest_file(*id, *kind == Kind::Ledger, &whole)?;
                continue;
            }
            let mut file = match writer.has_data_file(partition, *id)? {
                true => None,
                false => Some(files.create_as(partition, *id)?),
            };
            let mut left = *length;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                let piece = piece.get_mut(..most).unwrap_or_default();
                bytes.read_exact(piece).map_err(broken)?;
                hasher.write(piece);
                if let Some(file) = &mut file {
                    file.write_all(piece)?;
                }
                left -= most as u64;
            }
            if let Some(file) = &mut file {
                file.sync()?;
            }
        }
        let mut hash = [0; size_of::<Id>()];
        bytes.read_exact(&mut hash).map_err(broken)?;
        if hash != hasher.finish_128().to_le_bytes() {
            return Err(Error::InvalidInput("the files have changed on their way".into()));
        }
        let new = self.files.iter().filter(|file| file.kind == Kind::Data);
        writer.check_arrived(&self.after, &new.map(|file| file.id).collect())
    }
}

/// All files of a generation.
fn files(root: &Root, segments: &[SegmentEntry]) -> Vec<ReplicaFile> {
    let file = |kind, id, length| ReplicaFile { kind, id, length, partition: "".into() };
    let chunks = root.chunks.iter().map(|chunk| file(Kind::Chunk, chunk.id, chunk.length));
    let ledger = root.ledger.files.iter().map(|it| file(Kind::Ledger, it.id, it.length));
    // A file may have several segments, and some that the generation does not need.
    let mut data = BTreeMap::<Id, ReplicaFile>::new();
    for entry in segments {
        let new = || ReplicaFile {
            partition: Arc::clone(&entry.partition),
            ..file(Kind::Data, entry.file, 0)
        };
        let known = data.entry(entry.file).or_insert_with(new);
        known.length = known.length.max(entry.offset.saturating_add(entry.length));
    }
    chunks.chain(ledger).chain(data.into_values()).collect()
}

/// The bytes of files of a table, in pieces, and then their hash.
pub(crate) fn bytes_of<'t>(
    table: &'t Table,
    files: &'t [ReplicaFile],
    cancelled: &'t AtomicBool,
) -> impl Iterator<Item = Result<Vec<u8>>> + 't {
    let ranges = files.iter().map(move |file| {
        let path = match file.kind {
            Kind::Chunk => table.dir().chunk(&file.id),
            Kind::Ledger => table.dir().ledger(&file.id),
            Kind::Data => table.dir().data_file(&file.partition, &file.id),
        };
        let mapped = table.disk().map(&path, Io::Mmap);
        let mapped = mapped.map_err(|error| missing_is_damage(error, &path))?;
        Ok((Arc::new(mapped), 0, file.length))
    });
    streamed(ranges, cancelled)
}

//! The paths and names of a table's files.

use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

use super::Id;
use crate::disk::durable::TEMPORARY;
use crate::error::{Error, Result};
use crate::limits;

const ROOT: &str = ".root";
const CHUNK: &str = ".chunk";
const LEDGER: &str = ".ledger";
const DATA: &str = ".sty";
const CREATING: &str = "CREATING";
const UNSWEPT: &str = "UNSWEPT";
const MOVING: &str = "MOVING";

/// The directory of a table.
#[derive(Clone, Debug)]
pub struct TableDir {
    path: PathBuf,
}

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Root(u64),
    Chunk(Id),
    Ledger(Id),
    Data(Id),
    /// Marks a table whose first commit is not done; meaningless if there is a `CURRENT`.
    Creating,
    /// Marks a table that may have files which the generation in force does not need.
    Unswept,
    /// A file that was not renamed to its final name.
    Temporary,
    /// A file that is not ours and is left alone.
    Foreign,
}

impl TableDir {
    /// The table in `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TableDir { path: path.into() }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("?")
    }

    /// The file that names the generation in force.
    pub fn current(&self) -> PathBuf {
        self.path.join("CURRENT")
    }

    /// The writer's lock.
    pub fn lock(&self) -> PathBuf {
        self.path.join("LOCK")
    }

    /// The marker file of a table whose first commit is not done.
    pub fn creating(&self) -> PathBuf {
        self.path.join(CREATING)
    }

    /// The marker file of a table that may have files which the generation in force does not need.
    pub fn unswept(&self) -> PathBuf {
        self.path.join(UNSWEPT)
    }

    /// The file that marks the table while one of its partitions moves to another machine.
    pub fn moving(&self) -> PathBuf {
        self.path.join(MOVING)
    }

    /// The directory of roots, chunks and ledger files.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest")
    }

    /// The directory of segment files.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The root of a generation.
    pub fn root(&self, generation: u64) -> PathBuf {
        self.manifest().join(format!("{generation:020}{ROOT}"))
    }

    /// A chunk.
    pub fn chunk(&self, id: &Id) -> PathBuf {
        self.manifest().join(format!("{}{CHUNK}", Uuid::from_bytes(*id)))
    }

    /// A file of the ledger.
    pub fn ledger(&self, id: &Id) -> PathBuf {
        self.manifest().join(format!("{}{LEDGER}", Uuid::from_bytes(*id)))
    }

    /// The directory of a partition; the empty path stands for `data` itself.
    pub fn partition(&self, partition: &str) -> PathBuf {
        if partition.is_empty() { self.data() } else { self.data().join(partition) }
    }

    /// The directory of what a repair took out of the table.
    pub fn damaged(&self) -> PathBuf {
        self.path.join("damaged")
    }

    /// A segment file.
    pub fn data_file(&self, partition: &str, id: &Id) -> PathBuf {
        self.partition(partition).join(format!("{}{DATA}", Uuid::from_bytes(*id)))
    }
}

/// A new identifier for a file; they ascend with time, so that listings are in order of creation.
pub(crate) fn new_id() -> Id {
    Uuid::now_v7().into_bytes()
}

pub(crate) fn file_kind(name: &str) -> FileKind {
    let id = |stem: &str| {
        Uuid::try_parse(stem).ok().filter(|id| id.to_string() == stem).map(Uuid::into_bytes)
    };
    if name.ends_with(TEMPORARY) {
        return FileKind::Temporary;
    }
    if name == CREATING {
        return FileKind::Creating;
    }
    if name == UNSWEPT {
        return FileKind::Unswept;
    }
    if let Some(stem) = name.strip_suffix(ROOT) {
        let number = stem.parse().ok().filter(|number: &u64| format!("{number:020}") == stem);
        return number.map_or(FileKind::Foreign, FileKind::Root);
    }
    if let Some(stem) = name.strip_suffix(CHUNK) {
        return id(stem).map_or(FileKind::Foreign, FileKind::Chunk);
    }
    if let Some(stem) = name.strip_suffix(LEDGER) {
        return id(stem).map_or(FileKind::Foreign, FileKind::Ledger);
    }
    name.strip_suffix(DATA).and_then(id).map_or(FileKind::Foreign, FileKind::Data)
}

/// Refuses partition paths that would lead out of the table's data directory.
pub(crate) fn check_partition(partition: &str) -> Result<()> {
    let plain = Path::new(partition).components().all(|part| matches!(part, Component::Normal(_)));
    if plain && partition.len() <= limits::MAX_NAME_BYTES && !partition.contains('\0') {
        return Ok(());
    }
    Err(Error::InvalidInput(format!("'{partition}' is not a partition path")))
}

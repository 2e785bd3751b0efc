//! Whether a directory holds a table: the generation in force, no table, or one that lost its
//! `CURRENT`.
//!
//! This is the first step of every command, query and ingest. A directory without `CURRENT` is
//! taken for no table, and so for one that may be created, only if nothing in it was ever
//! committed. What shows that something was:
//!
//! | left without `CURRENT` | says |
//! | --- | --- |
//! | a root, a chunk or a file of the ledger in `manifest/` | there was a commit |
//! | a segment file in `data/` or in a partition below it | there were rows |
//! | either of them, and `CREATING` | only that a first commit has begun: a root above the generation that `CREATING` names, or above 1, says more |
//!
//! What the system refuses to tell (no permission, an error of the disk) is none of these, and an
//! error of its own.

use std::ops::ControlFlow;
use std::path::Path;

use super::layout::{FileKind, file_kind};
use super::listing::{self, list};
use super::{TableDir, codec};
use crate::disk::{Disk, is_missing};
use crate::error::{Error, Result};

/// `CURRENT` is one short line.
const CURRENT_BYTES: u64 = 256;
/// How often a directory is looked at before it counts as damaged: a first commit may put `CURRENT`
/// in place while a reader looks for other files.
const LOOKS: usize = 3;

/// The generation in force; `None` if the directory holds no table.
pub(crate) fn current(disk: &dyn Disk, dir: &TableDir) -> Result<Option<u64>> {
    let mut found = Remains::Nothing;
    for _ in 0..LOOKS {
        if let Some(generation) = read_current(disk, dir)? {
            return Ok(Some(generation));
        }
        found = remains(disk, dir)?;
        // A first commit writes the generation that its marker names. The marker was durable before
        // any other file, and may outlive it, because its removal is not synced.
        let is_begun = begun(disk, dir)?.is_some_and(|first| match found {
            Remains::Root(newest) => newest <= first,
            _ => true,
        });
        if found == Remains::Nothing || is_begun {
            return Ok(None);
        }
    }
    Err(lost_current(&found).in_file(dir.current(), 0))
}

/// Whether a directory is that of a table, also of one that is damaged or being created, as far as
/// a quick look tells. A `CURRENT` of another program is none of ours.
pub(crate) fn looks_like_table(disk: &dyn Disk, dir: &TableDir) -> bool {
    let named = matches!(read_current(disk, dir), Ok(Some(_)) | Err(Error::Unsupported(_)));
    let has = |path: &Path| disk.exists(path).unwrap_or(false);
    let ours = |path: &Path| {
        list(disk, path).unwrap_or_default().iter().any(|entry| {
            let kind = file_kind(&entry.name);
            !entry.is_dir && !matches!(kind, FileKind::Foreign | FileKind::Temporary)
        })
    };
    named || has(&dir.creating()) || ours(&dir.manifest()) || ours(&dir.data())
}

/// The generation that `CURRENT` names, `None` if there is no such file.
pub(crate) fn read_current(disk: &dyn Disk, dir: &TableDir) -> Result<Option<u64>> {
    use std::io::ErrorKind;
    let path = dir.current();
    match disk.read(&path, CURRENT_BYTES) {
        Ok(bytes) => codec::read_current(&bytes).map(Some).map_err(|error| error.in_file(path, 0)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::IsADirectory => {
            Err(Error::corrupt(0, "it is not the line that names a generation").in_file(path, 0))
        }
        Err(error) => Err(error),
    }
}

/// The generation that a first commit is to put in force, by its marker: 1 unless that says
/// otherwise, as where a copy of a table comes into being. `None` if there is no marker.
pub(crate) fn begun(disk: &dyn Disk, dir: &TableDir) -> Result<Option<u64>> {
    let marker = match disk.read(&dir.creating(), CURRENT_BYTES) {
        Ok(marker) => marker,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(String::from_utf8_lossy(&marker).trim().parse().unwrap_or(1)))
}

/// What is left of a table without `CURRENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remains {
    Nothing,
    /// Roots, and the newest generation among them.
    Root(u64),
    /// No root, but this file, as a path in the table's directory.
    File(String),
}

fn remains(disk: &dyn Disk, dir: &TableDir) -> Result<Remains> {
    let mut found = Remains::Nothing;
    for entry in list(disk, &dir.manifest())? {
        match (file_kind(&entry.name), &found) {
            (FileKind::Root(generation), Remains::Root(newest)) if generation <= *newest => {}
            (FileKind::Root(generation), _) => found = Remains::Root(generation),
            (FileKind::Chunk(_) | FileKind::Ledger(_), Remains::Nothing) => {
                found = Remains::File(format!("manifest/{}", entry.name));
            }
            _ => {}
        }
    }
    if found != Remains::Nothing {
        return Ok(found);
    }
    listing::data_files(disk, dir, &mut |path, _| {
        let inside = path.strip_prefix(dir.path()).unwrap_or(&path);
        found = Remains::File(inside.display().to_string());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The error of a table that lost `CURRENT`.
fn lost_current(found: &Remains) -> Error {
    let what = match found {
        Remains::Root(generation) => {
            format!(
                "it is missing, and manifest/ has generation {generation}: it was lost, and \
                 nothing was changed; sty repair goes on with the newest generation that can be \
                 read"
            )
        }
        Remains::File(file) => format!(
            "it is missing, and so are the roots in manifest/, but there is {file}: this was a \
             table, and nothing was changed; restore them from a copy, or move the directory away \
             to begin a new table"
        ),
        Remains::Nothing => "it is missing".to_owned(),
    };
    Error::corrupt(0, what)
}

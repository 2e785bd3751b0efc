//! Decides what a load reads: inputs that were loaded before are left out, and a stopped load
//! continues where it stopped.
//!
//! An input is identified by path, size and modification time; a moved one by name and bytes. A
//! load of several commits records with each commit how far it has come, so that the same command
//! resumes there.
//!
//! Progress is counted in pieces (chunks of text, row groups), which the ledger notes for each
//! input. Pieces are cut by the bytes of the input alone, so the next load leaves out exactly those
//! that were committed. A commit falls between two pieces and counts those that the coordinator has
//! taken, not those that workers have begun: the same on any number of threads. Pieces in flight
//! stay in flight over the commit.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::rejects::PriorRejects;
use super::sources::input::{Input, hasher};
use crate::error::{Error, IoResult, Result};
use crate::manifest::{Id, LoadedSource, layout};

/// What to do with an input that was loaded before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfLoaded {
    /// Fail before anything is read.
    #[default]
    Error,
    /// Leave it out.
    Skip,
    /// Load it once more.
    Again,
}

/// When a load commits before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitEvery {
    /// After about this many rows.
    Rows(u64),
    /// After about this many uncompressed bytes of input.
    Bytes(u64),
}

/// The inputs of a load and their ledger entries.
#[derive(Debug, Default)]
pub(super) struct LoadPlan {
    /// The inputs to read.
    pub(super) inputs: Vec<Input>,
    /// The ledger entry of each of them once it is read; `None` for an input that is no file.
    pub(super) sources: Vec<Option<LoadedSource>>,
    /// Inputs that are left out because they were loaded before.
    pub(super) skipped: Vec<String>,
    /// Inputs that were partly loaded before.
    pub(super) resumed: Vec<String>,
    /// What the committed part of this load rejected.
    pub(super) prior_rejects: PriorRejects,
}

/// Compares the inputs with the `known` entries of the ledger.
pub(super) fn plan_load(
    inputs: Vec<Input>,
    known: &[LoadedSource],
    if_loaded: IfLoaded,
) -> Result<LoadPlan> {
    let mut found = Vec::with_capacity(inputs.len());
    for input in inputs {
        let identity = identity(&input)?;
        found.push((input, identity));
    }
    let load = stopped_load(found.iter().map(|(_, new)| new.as_ref()), known, if_loaded);
    let id = load.unwrap_or_else(layout::new_id);
    // The ledger has no entries for pipes: with one among the inputs, it cannot tell which rows
    // were rejected before.
    let all_known = found.iter().all(|(_, new)| new.is_some());
    let prior_rejects = PriorRejects {
        load: id,
        rejected: load.map_or_else(Vec::new, |load| rejected_by(load, known, all_known)),
    };
    let mut plan = LoadPlan { prior_rejects, ..LoadPlan::default() };
    let mut named = HashSet::new();
    for (input, new) in found {
        let name = input.name().display().to_string();
        let Some(new) = new else {
            plan.inputs.push(input);
            plan.sources.push(None);
            continue;
        };
        if !named.insert(Arc::clone(&new.path)) {
            if if_loaded == IfLoaded::Skip {
                plan.skipped.push(name);
                continue;
            }
            return Err(Error::InvalidInput(format!(
                "{name} is named twice, perhaps through a link; --if-loaded skip reads it once"
            )));
        }
        let open = known.iter().rev().find(|source| !source.done && same_path(Some(&new), source));
        if let Some(open) = open.filter(|_| if_loaded != IfLoaded::Again) {
            if (open.size, open.modified) != (new.size, new.modified) {
                return Err(Error::InvalidInput(format!(
                    "{name} has changed since {} rows of it were loaded; --if-loaded again loads \
                     all of it in addition",
                    open.rows
                )));
            }
            if open.pieces > 0 {
                plan.resumed.push(name);
            }
            plan.inputs.push(input);
            plan.sources.push(Some(open.clone()));
            continue;
        }
        let before = if if_loaded == IfLoaded::Again {
            None
        } else {
            find_loaded(&new, known, input.name())?
        };
        match before {
            Some(before) if Some(before.load) == load || if_loaded == IfLoaded::Skip => {
                plan.skipped.push(name)
            }
            Some(before) => return Err(loaded_before(&name, &new, before)),
            None => {
                plan.inputs.push(input);
                plan.sources.push(Some(LoadedSource { load: id, ..new }));
            }
        }
    }
    Ok(plan)
}

/// The stopped load that these inputs belong to, if any.
fn stopped_load<'a>(
    inputs: impl Iterator<Item = Option<&'a LoadedSource>> + Clone,
    known: &[LoadedSource],
    if_loaded: IfLoaded,
) -> Option<Id> {
    let is_open =
        |source: &&LoadedSource| !source.done && inputs.clone().any(|new| same_path(new, source));
    known
        .iter()
        .rev()
        .find(is_open)
        .map(|source| source.load)
        .filter(|_| if_loaded != IfLoaded::Again)
}

/// The rows that a load has rejected, by input.
fn rejected_by(load: Id, known: &[LoadedSource], all_known: bool) -> Vec<(Arc<str>, u64)> {
    let of_load =
        known.iter().filter(|source| source.load == load && source.rejected > 0 && all_known);
    of_load.map(|source| (Arc::clone(&source.path), source.rejected)).collect()
}

/// See [`super::load::rejected_before`].
pub(super) fn rejected_before(
    inputs: &[Input],
    known: &[LoadedSource],
    if_loaded: IfLoaded,
) -> Result<u64> {
    let found = inputs.iter().map(identity).collect::<Result<Vec<_>>>()?;
    let load = stopped_load(found.iter().map(Option::as_ref), known, if_loaded);
    let rows = load
        .map_or_else(Vec::new, |load| rejected_by(load, known, found.iter().all(Option::is_some)));
    Ok(rows.iter().map(|(_, rows)| rows).sum())
}

fn same_path(new: Option<&LoadedSource>, known: &LoadedSource) -> bool {
    new.is_some_and(|new| new.path == known.path)
}

/// The entry of an input that was loaded completely.
fn find_loaded<'a>(
    new: &LoadedSource,
    known: &'a [LoadedSource],
    path: &Path,
) -> Result<Option<&'a LoadedSource>> {
    let same_size: Vec<&LoadedSource> =
        known.iter().filter(|source| source.done && source.size == new.size).collect();
    let same = |source: &&&LoadedSource| source.path == new.path && source.modified == new.modified;
    if let Some(same) = same_size.iter().find(same) {
        return Ok(Some(same));
    }
    // A file of the same size and name may be the same one, moved or touched.
    let name = |source: &LoadedSource| source.path.rsplit('/').next().map(str::to_owned);
    let namesake = |source: &&LoadedSource| source.hash.is_some() && name(source) == name(new);
    let namesakes: Vec<&LoadedSource> = same_size.into_iter().filter(namesake).collect();
    if namesakes.is_empty() {
        return Ok(None);
    }
    let hash = hash(path)?;
    Ok(namesakes.into_iter().find(|source| source.hash == Some(hash)))
}

fn loaded_before(name: &str, new: &LoadedSource, before: &LoadedSource) -> Error {
    let other =
        if new.path == before.path { String::new() } else { format!(" as {}", before.path) };
    Error::InvalidInput(format!(
        "{name} was loaded before{other}: {} rows, in generation {}; nothing was changed; \
         --if-loaded skip leaves it out, --if-loaded again adds its rows once more",
        before.rows - before.rejected.min(before.rows),
        before.generation
    ))
}

/// A new ledger entry for an input that is a regular file; `None` for others.
fn identity(input: &Input) -> Result<Option<LoadedSource>> {
    if input.size().is_none() {
        return Ok(None);
    }
    let path = input.name();
    let found = std::fs::metadata(path).with_path(path)?;
    let absolute = std::fs::canonicalize(path).with_path(path)?;
    let modified = found.modified().ok().map(|at| match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    });
    let path: Arc<str> = as_text(&absolute).into();
    Ok(Some(LoadedSource {
        path,
        size: found.len(),
        modified: modified.unwrap_or(0),
        ..LoadedSource::default()
    }))
}

/// A path as UTF-8, with bytes that are none as `\xff`. Where there are such, `\` is written `\\`:
/// two such paths are never the same text.
fn as_text(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// XXH3-128 of a file's bytes.
pub(super) fn hash(path: &Path) -> Result<Id> {
    let mut file = File::open(path).with_path(path)?;
    file.rewind().with_path(path)?;
    let (mut hasher, mut buffer) = (hasher(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).with_path(path)? {
            0 => return Ok(hasher.finish_128().to_le_bytes()),
            n => hasher.write(buffer.get(..n).unwrap_or_default()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn paths_that_are_not_utf_8_stay_apart() {
        let text = |bytes: &[u8]| as_text(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(text(b"/a\xff/b.csv"), "/a\\xff/b.csv");
        assert_eq!(text(b"/a\xfe/b.csv"), "/a\\xfe/b.csv");
        assert_eq!(text(b"/\\xfe\xff"), "/\\\\xfe\\xff");
        assert_eq!(text("/ä\\/b.csv".as_bytes()), "/ä\\/b.csv");
    }
}

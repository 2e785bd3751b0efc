//! Decides what a load reads: inputs that were loaded before are left out, those that have changed
//! since are noticed, and a stopped load continues where it stopped.
//!
//! A load of several commits records with each commit how far it has come, so that the same command
//! resumes there.
//!
//! Progress is counted in pieces (chunks of text, row groups), which the ledger notes for each
//! input. Pieces are cut by the bytes of the input alone, so the next load leaves out exactly those
//! that were committed. A commit falls between two pieces and counts those that the coordinator has
//! taken, not those that workers have begun: the same on any number of threads. Pieces in flight
//! stay in flight over the commit.
//!
//! Rows that were added to a text since it was loaded are one piece, and an entry of their own: a
//! load takes all of them in one commit, or none.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::loaded::{Known, LoadedSources, identity};
use super::rejects::PriorRejects;
use super::sources::Input;
use super::sources::added::{Added, begins_with};
use super::sources::counted::hasher;
use crate::error::{Error, Result};
use crate::manifest::{Id, LoadedSource, layout};

/// What to do with an input that was loaded before, as it is or with other bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfLoaded {
    /// Fail before anything is read.
    #[default]
    Error,
    /// Leave it out.
    Skip,
    /// Load it once more.
    Again,
    /// Load the rows that were added to a text since, and nothing of an input that has not changed.
    NewRows,
}

/// An input that has other bytes than those that were loaded from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedInput {
    /// Name of the input.
    pub name: String,
    /// Bytes of the file when it was loaded.
    pub bytes_loaded: u64,
    /// Bytes of the file now; where only added rows are read, up to their last whole line.
    pub bytes: u64,
}

/// When a load commits before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitEvery {
    /// After about this many rows.
    Rows(u64),
    /// After about this many uncompressed bytes of input.
    Bytes(u64),
    /// After this time, if there are rows. A pipe may then go on for ever: the load ends when
    /// [`super::options::LoadOptions::end_input`] is set.
    Time(Duration),
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
    /// Inputs that have other bytes than when they were loaded, and are read as a whole.
    pub(super) replaced: Vec<ChangedInput>,
    /// Inputs that have the bytes of another file that was loaded, whose path is beside them.
    pub(super) same_bytes: Vec<(String, String)>,
    /// Inputs that are left out although they have changed since they were loaded.
    pub(super) changed: Vec<ChangedInput>,
    /// Inputs that have grown since they were loaded: only their new rows are read.
    pub(super) added: Vec<ChangedInput>,
    /// Inputs that were partly loaded before.
    pub(super) resumed: Vec<String>,
    /// Inputs that the stopped load has read completely.
    pub(super) done: Vec<Input>,
    /// What the committed part of this load rejected.
    pub(super) prior_rejects: PriorRejects,
    /// Something that the committed part of this load has stored.
    stored: Option<LoadedSource>,
    /// The ledger entries of inputs that have grown since; only their added rows are read.
    grown: Vec<LoadedSource>,
}

/// What tells a selection from others: its text, and the columns that it reads.
#[derive(Debug)]
pub(super) struct SelectionMark {
    pub(super) text: String,
    /// `name:type`, by name.
    pub(super) columns: Vec<String>,
    /// Whether the user has named all of their types.
    pub(super) are_named: bool,
}

impl SelectionMark {
    /// How the identifiers of loads end that have it: hashes of the text, and of the columns.
    fn bytes(&self) -> [[u8; 4]; 2] {
        let hash = |texts: &mut dyn Iterator<Item = &String>| {
            let mut hasher = hasher();
            texts.for_each(|text| hasher.write(format!("{text}\0").as_bytes()));
            let [a, b, c, d, ..] = hasher.finish_128().to_le_bytes();
            [a, b, c, d]
        };
        [hash(&mut std::iter::once(&self.text)), hash(&mut self.columns.iter())]
    }
}

/// The mark of the selection that chose what is stored of a source.
fn mark_of(source: &LoadedSource) -> Option<[[u8; 4]; 2]> {
    let [.., a, b, c, d, e, f, g, h] = source.load;
    source.selected.then_some([[a, b, c, d], [e, f, g, h]])
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
    let is_stored = |source: &&LoadedSource| Some(source.load) == load && source.rows > 0;
    let stored = known.iter().find(is_stored).cloned();
    let mut plan = LoadPlan { prior_rejects, stored, ..LoadPlan::default() };
    let (mut named, loaded) = (HashSet::new(), LoadedSources::new(known));
    let open: HashMap<&str, &LoadedSource> =
        known.iter().filter(|source| !source.done).map(|source| (&*source.path, source)).collect();
    for (input, new) in found {
        let name = input.name().display().to_string();
        let Some(new) = new else {
            plan.take(input, None);
            continue;
        };
        if !named.insert(Arc::clone(&new.path)) {
            if matches!(if_loaded, IfLoaded::Skip | IfLoaded::NewRows) {
                plan.skipped.push(name);
                continue;
            }
            return Err(Error::InvalidInput(format!(
                "{name} is named twice, perhaps through a link; --if-loaded skip reads it once"
            )));
        }
        let source = LoadedSource { load: id, ..new };
        if if_loaded == IfLoaded::Again {
            plan.take(input, Some(source));
            continue;
        }
        // Of an input with a hash, this load has not read added rows.
        if let Some(open) = open.get(&*source.path).filter(|open| open.hash.is_none()) {
            if (open.size, open.modified) == (source.size, source.modified) {
                if open.pieces > 0 {
                    plan.resumed.push(name);
                }
                plan.take(input, Some((*open).clone()));
                continue;
            }
            if open.pieces > 0 {
                return Err(changed_while_stopped(&name, open));
            }
        }
        match (loaded.find(&source, input.name())?, if_loaded) {
            (Known::New, _) => plan.take(input, Some(source)),
            (Known::Loaded(before), _) if Some(before.load) == load => {
                plan.skipped.push(name);
                plan.done.push(input);
            }
            (Known::Loaded(before), IfLoaded::Error) => {
                if file_name(&before.path) == file_name(&source.path) {
                    return Err(loaded_before(&name, &source, before));
                }
                // Files of few bytes are often equal.
                plan.same_bytes.push((name, before.path.to_string()));
                plan.take(input, Some(source));
            }
            (Known::Loaded(_), _) => plan.skipped.push(name),
            (Known::Changed(before), IfLoaded::Skip) => plan.changed.push(ChangedInput {
                name,
                bytes_loaded: before.size,
                bytes: source.size,
            }),
            (Known::Changed(before), IfLoaded::NewRows) => {
                plan.take_added(input, source, before, name)?;
            }
            (Known::Changed(before), _) => {
                if before.rows > 0 && has_grown(input.name(), &source, before)? {
                    return Err(grown(&name, &source, before));
                }
                let (bytes_loaded, bytes) = (before.size, source.size);
                plan.replaced.push(ChangedInput { name, bytes_loaded, bytes });
                plan.take(input, Some(source));
            }
        }
    }
    Ok(plan)
}

impl LoadPlan {
    /// Takes what selects the rows. Refuses to go on with a load whose stored part was selected
    /// otherwise, or had other types, by which the same expressions have other values.
    pub(super) fn take_selection(&mut self, mark: Option<SelectionMark>) -> Result<()> {
        let new = mark.as_ref().map(SelectionMark::bytes);
        if let Some(stored) = &self.stored
            && mark_of(stored) != new
        {
            return Err(other_selection(stored, &mark));
        }
        let Some((mark, [text, types])) = mark.as_ref().zip(new) else { return Ok(()) };
        // Another text is another wish, and so are types that are named.
        let is_other = |before: &&LoadedSource| {
            mark_of(before).is_some_and(|[same, other]| same == text && other != types)
        };
        if let Some(before) = self.grown.iter().find(is_other).filter(|_| !mark.are_named) {
            let (path, columns) = (&before.path, &mark.columns);
            return Err(Error::InvalidInput(format!(
                "{path} was loaded with the same --select over columns of other types than they \
                 have now ({}); name their types for the new rows: --schema '{}'",
                columns.join(", "),
                columns.join(",")
            )));
        }
        let mut id = self.prior_rejects.load;
        let end = id.iter_mut().skip(8);
        end.zip(text.iter().chain(&types)).for_each(|(byte, new)| *byte = *new);
        self.prior_rejects.load = id;
        for source in self.sources.iter_mut().flatten() {
            (source.load, source.selected) = (id, true);
        }
        Ok(())
    }

    fn take(&mut self, input: Input, source: Option<LoadedSource>) {
        self.inputs.push(input);
        self.sources.push(source);
    }

    /// Takes the rows that were added to an input since `before`.
    fn take_added(
        &mut self,
        input: Input,
        source: LoadedSource,
        before: &LoadedSource,
        name: String,
    ) -> Result<()> {
        let refused = |why: &str| {
            Err(Error::InvalidInput(format!(
                "{}, and the rows that are new cannot be told: {why}; nothing was changed; \
                 --if-loaded skip leaves it out, --if-loaded again adds all of its rows once more",
                how_changed(&name, &source, before)
            )))
        };
        if source.size < before.size {
            return refused("it has become shorter");
        }
        let found = Added::find(input.name(), input.encoding(), before.size, before.hash)?;
        let added = match found {
            Ok(added) => added,
            Err(why) => return refused(why),
        };
        self.grown.push(before.clone());
        let (bytes_loaded, bytes) = (before.size, added.to);
        self.added.push(ChangedInput { name, bytes_loaded, bytes });
        // Until they are read, the entry has the hash of the bytes before them.
        self.take(input.only_added(added), Some(LoadedSource { hash: before.hash, ..source }));
        Ok(())
    }
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

/// What loads of these inputs have rejected that have read all of theirs.
pub(super) fn ended_loads(inputs: &[Input], known: &[LoadedSource]) -> Result<Vec<PriorRejects>> {
    let found = inputs.iter().map(identity).collect::<Result<Vec<_>>>()?;
    let paths: HashSet<Arc<str>> = found.into_iter().flatten().map(|new| new.path).collect();
    let open: HashSet<Id> =
        known.iter().filter(|source| !source.done).map(|source| source.load).collect();
    let loads: HashSet<Id> = known
        .iter()
        .filter(|source| source.rejected > 0 && paths.contains(&source.path))
        .map(|source| source.load)
        .filter(|load| !open.contains(load))
        .collect();
    let of_load = |load| PriorRejects { load, rejected: rejected_by(load, known, true) };
    Ok(loads.into_iter().map(of_load).collect())
}

fn same_path(new: Option<&LoadedSource>, known: &LoadedSource) -> bool {
    new.is_some_and(|new| new.path == known.path)
}

/// What has become of an input since it was loaded.
fn how_changed(name: &str, new: &LoadedSource, before: &LoadedSource) -> String {
    match before.size {
        size if size == new.size => {
            format!("{name} was loaded before and has been changed since, though not its size")
        }
        1 => format!("{name} was loaded before with 1 byte and has {} now", new.size),
        size => format!("{name} was loaded before with {size} bytes and has {} now", new.size),
    }
}

/// Whether a file begins with the bytes that were loaded, so that all of its rows would be in the
/// table twice.
fn has_grown(path: &Path, new: &LoadedSource, before: &LoadedSource) -> Result<bool> {
    match before.hash {
        Some(hash) if new.size > before.size => begins_with(path, before.size, hash),
        _ => Ok(false),
    }
}

fn grown(name: &str, new: &LoadedSource, before: &LoadedSource) -> Error {
    Error::InvalidInput(format!(
        "{}; nothing was changed; --if-loaded new-rows takes only the rows that were added to it, \
         --if-loaded skip leaves it out, --if-loaded again adds all of its rows once more",
        how_changed(name, new, before)
    ))
}

/// The error for a load that would go on with another selection.
#[cold]
fn other_selection(stored: &LoadedSource, mark: &Option<SelectionMark>) -> Error {
    let what = format!("{} rows of {} are stored by a load", stored.rows, stored.path);
    let again = "--if-loaded again loads all rows in addition";
    let text = |[text, _]: [[u8; 4]; 2]| text;
    let [before, now] = [mark_of(stored).map(text), mark.as_ref().map(|one| text(one.bytes()))];
    match (before, now, mark) {
        (Some(before), Some(now), Some(mark)) if before == now => Error::InvalidInput(format!(
            "{what} that was stopped, whose --select had columns of other types than they have now \
             ({}); name the types that they had with --schema; {again}",
            mark.columns.join(", ")
        )),
        (Some(_), None, _) => Error::InvalidInput(format!(
            "{what} that was stopped, which had a --select; it goes on with the same; {again}"
        )),
        (None, _, _) => Error::InvalidInput(format!(
            "{what} that was stopped, which had no --select; it goes on without; {again}"
        )),
        _ => Error::InvalidInput(format!(
            "{what} that was stopped, which had another --select; it goes on with the same; {again}"
        )),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn changed_while_stopped(name: &str, open: &LoadedSource) -> Error {
    Error::InvalidInput(format!(
        "{name} has changed since {} rows of it were loaded; --if-loaded again loads all of it in \
         addition",
        open.rows
    ))
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

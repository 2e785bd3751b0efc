//! Commits: checks changes, makes data files durable, and puts the changes in force.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::begun::Begun;
use super::{Changes, Commit, CommitState, NewSegment, TableWriter, unix_millis};
use crate::error::{Error, Result};
use crate::manifest::commit::{self, Change, Edit};
use crate::manifest::recover::Scope;
use crate::manifest::{ColumnStats, History, Id, Root, SegmentEntry, WriteVolume};
use crate::model::{Column, ColumnId, Schema};

/// How many commits of this process have begun and not ended; [`FORBIDDEN`] once none may begin.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// How many have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// No commit begins any more.
const FORBIDDEN: usize = usize::MAX;

/// How many commits of this process have ended, well or not.
pub fn commits_ended() -> usize {
    ENDED.load(Ordering::Acquire)
}

/// Forbids all commits from now on; false, and nothing forbidden, while one runs. A process that
/// ends itself calls it first: during a commit, its caller could not know whether the rows are in
/// force.
pub fn forbid_commits() -> bool {
    let none = RUNNING.compare_exchange(0, FORBIDDEN, Ordering::AcqRel, Ordering::Acquire);
    none.is_ok() || none == Err(FORBIDDEN)
}

/// Whether no commit begins any more.
pub(super) fn are_forbidden() -> bool {
    RUNNING.load(Ordering::Acquire) == FORBIDDEN
}

/// A commit that has begun and not ended.
pub(super) struct RunningCommit;

impl RunningCommit {
    fn begin() -> Result<Self> {
        let one_more = |running: usize| (running < FORBIDDEN).then(|| running + 1);
        let begun = RUNNING.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        begun.map(|_| RunningCommit).map_err(|_| Error::Cancelled)
    }
}

impl Drop for RunningCommit {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::AcqRel);
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}

impl TableWriter {
    /// Adds segments and puts `schema` in force, all or nothing; see
    /// [`TableWriter::commit_changes`].
    #[doc(hidden)]
    pub fn commit(&mut self, schema: Schema, segments: Vec<NewSegment>) -> Result<Commit> {
        let mut changes = Changes { schema, ..self.changes() };
        if !segments.is_empty() {
            changes.edits.push(Edit { at: self.count(), remove: 0, insert: segments });
        }
        self.commit_changes(changes)
    }

    /// Puts changes in force, all or nothing. When it returns, they survive a loss of power. New
    /// files that no edit names are removed.
    ///
    /// After an error the old generation is in force, except after [`Error::Unconfirmed`]: then the
    /// new one is. Either way this writer cannot write any more; the next one finds out what is in
    /// force, and makes it durable before anything else.
    #[doc(hidden)]
    pub fn commit_changes(&mut self, changes: Changes) -> Result<Commit> {
        self.check_known()?;
        let Changes { schema, arrangement, keep, edits, sources, loaded } = changes;
        self.check_schema(&schema)?;
        let unchanged = edits.is_empty() && sources.is_empty();
        let is_same = |base: &&Root| {
            unchanged
                && base.schema == schema
                && base.arrangement == arrangement
                && base.history.keep == keep
        };
        if let Some(base) = self.base.as_ref().filter(is_same) {
            let (generation, write_volume) = (base.generation, base.write_volume);
            return Ok(Commit { generation, metadata_bytes: 0, written_bytes: 0, write_volume });
        }
        let sources = sources.into_iter().chain(self.elsewhere.clone()).collect();
        let new = || edits.iter().flat_map(|edit| &edit.insert);
        new().try_for_each(|segment| check_required(&schema, segment))?;
        let named: HashSet<Id> = new().map(|segment| segment.file).collect();
        self.remove_new_files_except(&named);
        let to_entries = |edit: Edit<NewSegment>| {
            let insert = edit
                .insert
                .into_iter()
                .map(|segment| self.entry(segment, &schema))
                .collect::<Result<_>>()?;
            Ok(Edit { at: edit.at, remove: edit.remove, insert })
        };
        let edits = edits.into_iter().map(to_entries).collect::<Result<Vec<_>>>()?;
        let _running = self.begin_commit()?;
        let written = std::mem::take(&mut self.files.lock().bytes);
        let change = Change {
            base: self.base.as_ref(),
            schema,
            options: self.options,
            arrangement,
            history: History { committed: unix_millis(), keep },
            edits,
            sources,
            write_volume: WriteVolume { loaded, written },
        };
        let done = commit::commit(&*self.disk, &self.dir, change)?;
        let (generation, write_volume) = (done.root.generation, done.root.write_volume);
        self.end_commit(done.root);
        self.retire(generation.saturating_sub(1), &done.removed);
        // Best effort: the next commit or the next writer removes what is left.
        let _ = self.sweep(Scope::Manifest, keep);
        Ok(Commit {
            generation,
            metadata_bytes: done.bytes,
            written_bytes: written + done.bytes,
            write_volume,
        })
    }

    /// Refuses to write if a commit has failed half way.
    pub(super) fn check_known(&self) -> Result<()> {
        match self.state {
            CommitState::Known => Ok(()),
            CommitState::Unknown => Err(Error::InvalidInput(
                "a commit failed before; open the table for writing again".into(),
            )),
        }
    }

    /// Begins a commit, which makes all data files durable.
    pub(super) fn begin_commit(&mut self) -> Result<RunningCommit> {
        let running = RunningCommit::begin()?;
        self.state = CommitState::Unknown;
        self.begun = None;
        self.files.sync()?;
        Ok(running)
    }

    /// Ends a commit after which a generation is in force.
    pub(super) fn end_commit(&mut self, root: Root) {
        self.state = CommitState::Known;
        self.files.lock().made.clear();
        // It is refused where the process ends, which removes nothing of a commit.
        self.begun = Begun::new(&self.files, false).ok();
        self.schema = root.schema.clone();
        self.base = Some(root);
    }

    /// Checks that column ids are permanent: the ids of dropped columns are not used again.
    fn check_schema(&self, schema: &Schema) -> Result<()> {
        let next = self.base.as_ref().map_or(0, |root| root.schema.next_id());
        let old: Vec<u32> =
            self.base.iter().flat_map(|root| root.schema.columns()).map(|c| c.id.0).collect();
        let reused = schema.columns().iter().find(|c| c.id.0 < next && !old.contains(&c.id.0));
        if schema.next_id() < next || reused.is_some() {
            return Err(Error::InvalidInput(
                "column ids are permanent: a dropped one cannot come back".into(),
            ));
        }
        Ok(())
    }

    /// The manifest entry of a new segment.
    fn entry(&self, segment: NewSegment, schema: &Schema) -> Result<commit::SegmentWithStats> {
        let Some(partition) = self.files.lock().made.get(&segment.file).cloned() else {
            return Err(Error::InvalidInput(
                "a segment is in a file that this writer did not make".into(),
            ));
        };
        let known = |id: &ColumnId| schema.columns().iter().any(|column| column.id == *id);
        let stats = segment.stats.into_iter().filter(|(id, ..)| known(id));
        let stats =
            stats.map(|(id, data_type, stats)| (id, ColumnStats { data_type, stats })).collect();
        let NewSegment { file, offset, length, uuid, footer_crc, rows, .. } = segment;
        Ok((SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows }, stats))
    }
}

/// Refuses nulls in NOT NULL columns.
fn check_required(schema: &Schema, segment: &NewSegment) -> Result<()> {
    // A segment without the column has no value in any row.
    let complete: HashSet<ColumnId> =
        segment.stats.iter().filter(|(.., stats)| stats.nulls == 0).map(|(id, ..)| *id).collect();
    let lacks = |column: &&Column| !column.nullable && !complete.contains(&column.id);
    match schema.columns().iter().find(lacks).filter(|_| segment.rows > 0) {
        Some(column) => Err(missing_value(&column.name)),
        None => Ok(()),
    }
}

/// The error for a null in a NOT NULL column.
pub(crate) fn missing_value(column: &str) -> Error {
    Error::InvalidInput(format!(
        "column '{column}' is NOT NULL, but a row has no value in it; nothing was stored"
    ))
}

//! Checking a whole generation: every byte of the manifest, and every block of every segment.

use std::sync::Arc;

use super::snapshot::open_segment;
use super::{SegmentEntry, Snapshot};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::manifest::recover;

/// What a check found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Chunks checked.
    pub chunks: u64,
    /// Segments checked.
    pub segments: u64,
    /// Rows that the manifest lists.
    pub rows: u64,
    /// Bytes of the manifest and of the segments.
    pub bytes: u64,
    /// Everything that is wrong, in order; empty for a sound table.
    pub problems: Vec<Error>,
}

/// Checks the root and all chunks against their checksums, that files are as long as the manifest
/// says, and every segment: checksums, identity, and that each value decodes. Goes on after a
/// problem, to find all.
pub fn verify(snapshot: &Snapshot) -> VerifyReport {
    verify_with(snapshot, &mut |entry, mapped| verify_segment(snapshot, entry, mapped))
}

/// Opened anew, past the cache: what was verified before counts for nothing.
fn verify_segment(snapshot: &Snapshot, entry: &SegmentEntry, mapped: &Arc<Mapped>) -> Result<()> {
    let segment = open_segment(entry, Arc::clone(mapped), snapshot.path(entry))?;
    segment.verify().map(|_| ())
}

/// Checks a segment's bytes, given its entry and the mapped file.
type SegmentCheck<'a> = dyn FnMut(&SegmentEntry, &Arc<Mapped>) -> Result<()> + 'a;

/// As [`verify`], with a segment check of the caller's.
pub(super) fn verify_with(snapshot: &Snapshot, check: &mut SegmentCheck<'_>) -> VerifyReport {
    let mut report = VerifyReport::default();
    // Read again: the snapshot's own copy was checked when it was opened.
    match recover::read_root(snapshot.disk(), snapshot.dir(), snapshot.generation()) {
        Ok(root) if root != *snapshot.root() => {
            let error = Error::corrupt(0, "the root has changed since it was opened");
            report.problems.push(error.at(snapshot.dir().root(snapshot.generation()), 0));
        }
        Ok(_) => {}
        Err(error) => report.problems.push(error),
    }
    // Files of the ledger are read whole, and checked as they are.
    report.problems.extend(snapshot.sources().err());
    for at in 0..snapshot.chunks().len() {
        if let Err(error) = verify_chunk(snapshot, at, check, &mut report) {
            report.problems.push(error);
        }
    }
    report
}

fn verify_chunk(
    snapshot: &Snapshot,
    at: usize,
    check: &mut SegmentCheck<'_>,
    report: &mut VerifyReport,
) -> Result<()> {
    let Some((chunk, reference)) = snapshot.chunk(at)?.zip(snapshot.chunks().get(at)) else {
        return Ok(());
    };
    let path = snapshot.dir().chunk(&reference.id);
    report.chunks += 1;
    report.bytes += reference.length;
    let sound = chunk.verify(reference).map_err(|error| error.at(&path, 0));
    for segment in &chunk.segments().map_err(|error| error.at(&path, 0))? {
        report.segments += 1;
        report.rows += segment.rows;
        report.bytes += segment.length;
        let checked = snapshot.map(segment).and_then(|mapped| {
            let end = segment.offset.saturating_add(segment.length);
            if end > mapped.as_slice().len() as u64 {
                let what = format!("the file ends here; a segment of it reaches to byte {end}");
                return Err(Error::corrupt(mapped.as_slice().len() as u64, what));
            }
            check(segment, &mapped)
        });
        if let Err(error) = checked {
            report.problems.push(error.at(snapshot.path(segment), 0));
        }
    }
    sound
}

//! Verifies a whole generation: every byte of the manifest, and every block of every segment.

use std::sync::Arc;

use super::snapshot::open_segment;
use super::{SegmentEntry, Snapshot};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::manifest::recover;

/// The result of a verification.
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
    /// All problems found, in order; empty for a sound table.
    pub problems: Vec<Error>,
}

/// Verifies the checksums of the root and all chunks, the lengths of files, and of every segment
/// its checksums, its identity, and that each value decodes. It continues after a problem, to find
/// all.
pub fn verify(snapshot: &Snapshot) -> VerifyReport {
    verify_with(snapshot, &mut |entry, mapped| verify_segment(snapshot, entry, mapped))
}

/// Bypasses the cache of open segments, which remember what was verified before.
fn verify_segment(snapshot: &Snapshot, entry: &SegmentEntry, mapped: &Arc<Mapped>) -> Result<()> {
    let segment =
        open_segment(entry, Arc::clone(mapped), snapshot.path(entry), snapshot.budget().clone())?;
    segment.verify().map(|_| ())
}

/// Verifies a segment's bytes, given its entry and the mapped file.
type SegmentCheck<'a> = dyn FnMut(&SegmentEntry, &Arc<Mapped>) -> Result<()> + 'a;

/// [`verify`] with the caller's check of segments.
pub(super) fn verify_with(snapshot: &Snapshot, check: &mut SegmentCheck<'_>) -> VerifyReport {
    let mut report = VerifyReport::default();
    // The root is read again, because the snapshot's copy was verified when it was opened.
    match recover::read_root(snapshot.disk(), snapshot.dir(), snapshot.generation()) {
        Ok(root) if root != *snapshot.root() => {
            let error = Error::corrupt(0, "the root has changed since it was opened");
            report.problems.push(error.in_file(snapshot.dir().root(snapshot.generation()), 0));
        }
        Ok(_) => {}
        Err(error) => report.problems.push(error),
    }
    // Reading the files of the ledger verifies them.
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
    let sound = chunk.verify(reference).map_err(|error| error.in_file(&path, 0));
    for segment in &chunk.segments().map_err(|error| error.in_file(&path, 0))? {
        report.segments += 1;
        report.rows += segment.rows;
        report.bytes += segment.length;
        let checked = snapshot.map(segment).and_then(|mapped| {
            let end = segment.offset.saturating_add(segment.length);
            if end > mapped.len() as u64 {
                let what = format!("the file ends here, but a segment in it ends at byte {end}");
                return Err(Error::corrupt(mapped.len() as u64, what));
            }
            check(segment, &mapped)?;
            mapped.check_length()
        });
        if let Err(error) = checked {
            report.problems.push(error.in_file(snapshot.path(segment), 0));
        }
    }
    sound
}

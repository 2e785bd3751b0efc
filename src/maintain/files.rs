//! Whether the data files that a generation names are there, by their lengths alone.

use std::collections::HashMap;

use crate::disk::missing_is_damage;
use crate::error::{Error, Result};
use crate::store::{SegmentEntry, Snapshot};

/// Fails if a file is missing, or too short for its segments. No data is read, so this is quick even
/// for thousands of files; `verify` reads every byte.
pub fn check_files(snapshot: &Snapshot) -> Result<()> {
    let segments = snapshot.segments()?;
    // For each file the segment that ends last.
    let mut last: HashMap<_, &SegmentEntry> = HashMap::new();
    let end = |segment: &SegmentEntry| segment.offset.saturating_add(segment.length);
    for segment in segments.iter() {
        let known = last.entry((&segment.partition, segment.file)).or_insert(segment);
        if end(segment) > end(known) {
            *known = segment;
        }
    }
    let check = |segment: &SegmentEntry| {
        let path = snapshot.path(segment);
        let length = snapshot.disk().len(&path).map_err(|error| missing_is_damage(error, &path))?;
        match length < end(segment) {
            true => Err(Error::corrupt(
                length,
                format!("it ends here, but the manifest names {} bytes", end(segment)),
            )
            .in_file(path, 0)),
            false => Ok(()),
        }
    };
    let mut failed: Vec<(&SegmentEntry, Error)> =
        last.into_values().filter_map(|segment| Some((segment, check(segment).err()?))).collect();
    failed.sort_by_key(|(segment, _)| (segment.partition.clone(), segment.file));
    let more = failed.len().saturating_sub(1);
    match failed.into_iter().next() {
        Some((_, Error::Corrupt { file, offset, what })) if more > 0 => Err(Error::Corrupt {
            file,
            offset,
            what: format!("{what}; {more} more of its files are missing or too short"),
        }),
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

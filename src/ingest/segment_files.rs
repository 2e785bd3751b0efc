//! Writes encoded segments to files.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::error::Result;
use crate::segment::EncodedSegment;
use crate::store::{DataFile, DataFiles, NewSegment};

/// Small parts are written together in buffers of up to this many bytes.
const WRITE_BYTES: usize = 8 << 20;
/// Files from this size on are synced by the thread that writes them; smaller ones together, by the
/// commit.
const SYNC_BYTES: u64 = 4 << 20;

/// The writing thread: writes each segment to a file of its own, in large writes. Returns the
/// segments by partition, and within a partition in row order.
pub(super) fn store_segments(
    files: &DataFiles,
    encoded: Receiver<(Arc<str>, EncodedSegment)>,
) -> Result<Vec<(Arc<str>, NewSegment)>> {
    let mut segments = Vec::new();
    for (partition, segment) in encoded {
        segments.push((Arc::clone(&partition), store_segment(files, &partition, segment)?));
    }
    segments.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(segments)
}

/// Writes a segment to a file of its own.
pub(crate) fn store_segment(
    files: &DataFiles,
    partition: &str,
    segment: EncodedSegment,
) -> Result<NewSegment> {
    let mut file = files.create_in(partition)?;
    write_parts(&mut file, segment.parts)?;
    if segment.len >= SYNC_BYTES {
        file.sync()?;
    }
    Ok(NewSegment {
        file: file.uuid(),
        offset: 0,
        length: segment.len,
        uuid: segment.uuid,
        footer_crc: segment.footer_crc,
        rows: segment.rows,
        stats: segment.stats,
    })
}

/// Writes small parts together and large ones directly, and frees each as soon as it is written.
pub(crate) fn write_parts(file: &mut DataFile, parts: Vec<Vec<u8>>) -> Result<()> {
    let mut together = Vec::new();
    for part in parts {
        if !together.is_empty() && together.len() + part.len() > WRITE_BYTES {
            file.write_all(&together)?;
            together.clear();
        }
        if part.len() > WRITE_BYTES {
            file.write_all(&part)?;
        } else {
            together.extend_from_slice(&part);
        }
    }
    if together.is_empty() { Ok(()) } else { file.write_all(&together) }
}

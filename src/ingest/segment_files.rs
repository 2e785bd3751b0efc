//! Encoded segments into files.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::error::Result;
use crate::segment::EncodedSegment;
use crate::store::{DataFile, DataFiles, NewSegment};

/// Bytes of a write, unless a part of a segment is longer.
const WRITE_BYTES: usize = 8 << 20;
/// A file of at least so many bytes is made durable by the thread that writes it; smaller ones by
/// the commit, together.
const SYNC_BYTES: u64 = 4 << 20;

/// The writing thread: each segment becomes a file of its own, in large writes. They come back by
/// partition, and within each in the order of their rows.
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

/// Writes small parts together and large ones as they are, and lets go of each as soon as it is
/// written.
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

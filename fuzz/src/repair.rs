//! Repairs the checksums of a mutant, so that what lies behind them is reached in builds that
//! compare them.

/// Bytes of a segment's tail: length and checksum of the footer, magic number.
const TAIL_BYTES: usize = 16;

/// Writes the checksum of a root or file of the ledger, which end in one, or of a segment's footer.
/// Other bytes stay as they are.
pub fn repair(bytes: &mut [u8]) {
    if bytes.starts_with(b"STYROOT\0") || bytes.starts_with(b"STYLEDG\0") {
        if let Some((body, checksum)) = bytes.split_last_chunk_mut::<4>() {
            *checksum = crc32fast::hash(body).to_le_bytes();
        }
    } else if bytes.starts_with(b"STYSEG1\0") {
        repair_footer(bytes);
    }
}

fn repair_footer(bytes: &mut [u8]) -> Option<()> {
    let (body, tail) = bytes.split_last_chunk_mut::<TAIL_BYTES>()?;
    let length = u32::from_le_bytes(*tail.first_chunk()?) as usize;
    let footer = body.get(body.len().checked_sub(length)?..)?;
    tail[4..8].copy_from_slice(&crc32fast::hash(footer).to_le_bytes());
    Some(())
}

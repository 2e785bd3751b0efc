//! What a message claims, compared with its bytes and with the memory limit before the decoder
//! allocates it.

use arrow_ipc::{Message, MessageHeader, RecordBatch as Layout};

/// How many rows a batch may have beyond those for which it has bytes: null columns need none.
const ROWS_WITHOUT_BYTES: u64 = 1 << 32;

/// Why a message is not decoded.
#[derive(Debug)]
pub(super) enum Refused {
    /// It contradicts itself.
    Damaged(String),
    /// Its arrays have this many bytes, more than fit.
    TooLarge(u64),
}

impl From<&str> for Refused {
    fn from(what: &str) -> Self {
        Refused::Damaged(what.to_owned())
    }
}

/// Refuses claims that the decoder would trust.
pub(super) fn check(message: Message<'_>, body: &[u8], most: u64) -> Result<(), Refused> {
    let (layout, what) = match message.header_type() {
        MessageHeader::RecordBatch => (message.header_as_record_batch(), "a batch"),
        MessageHeader::DictionaryBatch => {
            (message.header_as_dictionary_batch().and_then(|batch| batch.data()), "a dictionary")
        }
        MessageHeader::Schema if message.header_as_schema().is_some() => return Ok(()),
        other => {
            return Err(Refused::Damaged(format!("a message of an unknown kind ({})", other.0)));
        }
    };
    let layout = layout.ok_or_else(|| Refused::Damaged(format!("{what} without a description")))?;
    let bytes = checked_bytes(&layout, body)?;
    if bytes > most {
        return Err(Refused::TooLarge(bytes));
    }
    let most_rows = bytes.saturating_mul(8).saturating_add(ROWS_WITHOUT_BYTES);
    let fits = |length: i64| u64::try_from(length).is_ok_and(|length| length <= most_rows);
    let nodes = layout.nodes();
    let mut counts = nodes
        .iter()
        .flat_map(|nodes| nodes.iter())
        .flat_map(|node| [node.length(), node.null_count()]);
    if !fits(layout.length()) || !counts.all(fits) {
        return Err(Refused::Damaged(format!("{what} claims more rows than it has bytes for")));
    }
    Ok(())
}

/// Decompressed bytes of all buffers. Checks that each lies within the body.
fn checked_bytes(layout: &Layout<'_>, body: &[u8]) -> Result<u64, Refused> {
    let compressed = layout.compression().is_some();
    let mut bytes = 0_u64;
    for buffer in layout.buffers().iter().flat_map(|buffers| buffers.iter()) {
        let range =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let part = range.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let part = part.ok_or("a buffer is not within its batch")?;
        let length = match part.first_chunk::<8>().filter(|_| compressed) {
            // -1 marks an uncompressed buffer.
            Some(length) => u64::try_from(i64::from_le_bytes(*length)).unwrap_or(part.len() as u64),
            None if compressed && !part.is_empty() => {
                return Err("a compressed buffer has no length".into());
            }
            None => part.len() as u64,
        };
        bytes = bytes.saturating_add(length);
    }
    Ok(bytes)
}

//! Values → the bytes of a block.
//!
//! ```text
//! ┌──────────────────────────────────────────────┬──────┬─────────────────────────────┐
//! │ head: validity kind u8 │ [validity] │ values │ pad  │ payload: buffers, 16-aligned│
//! └──────────────────────────────────────────────┴──────┴─────────────────────────────┘
//!   covered by the CRC in the column record        to 16  covered by the CRCs in the head
//! ```
//!
//! A block stores neither its length nor its number of rows: the column record has both, and is
//! verified first.
//!
//! The head's CRC is mixed with the CRC of its identity (segment, column, block). CRC32 is linear,
//! so the mixing can happen once the identity is known, after encoding.

use super::values::{Gathered, Values};
use crate::bytes::Writer;
use crate::encoding::{Options, Sink, bools, buffer::ALIGN, floats, ints, strings, wide};
use crate::error::Result;
use crate::model::Physical;

/// Every row has a value.
pub(super) const ALL_VALID: u8 = 0;
/// Every row is null; no value stream follows.
pub(super) const ALL_NULL: u8 = 1;
/// A stream of booleans precedes the values.
pub(super) const STREAM: u8 = 2;
/// Values are dictionary codes, and code 0 is null.
pub(super) const BY_CODE: u8 = 3;

/// A block without its place in a segment.
#[derive(Debug)]
pub(crate) struct EncodedBlock {
    /// The head, and padding if there is a payload.
    pub head: Vec<u8>,
    /// The payload: its bytes are not copied behind the head, because there may be many.
    pub payload: Vec<u8>,
    /// Length of the head without padding.
    pub head_len: u32,
    /// CRC32 of the head, before its identity is mixed in; see [`placed_crc`].
    pub head_crc: u32,
}

impl EncodedBlock {
    /// Length of the block.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&*self.head, &*self.payload].concat()
    }
}

/// Encodes plain values.
pub(crate) fn encode(
    gathered: &Gathered<'_>,
    physical: Physical,
    options: &Options,
) -> Result<EncodedBlock> {
    let mut sink = Sink::new();
    match &gathered.validity {
        None if gathered.rows > 0 && matches!(gathered.values, Values::Null) => {
            sink.head().u8(ALL_NULL)
        }
        None => sink.head().u8(ALL_VALID),
        Some(_) if gathered.nulls() == gathered.rows => sink.head().u8(ALL_NULL),
        Some(validity) => {
            sink.head().u8(STREAM);
            bools::encode(validity, &options.child(), &mut sink);
        }
    }
    if gathered.nulls() < gathered.rows {
        encode_values(&gathered.values, physical, options, &mut sink)?;
    }
    Ok(frame(sink))
}

/// Encodes dictionary codes, 0 for null.
pub(crate) fn encode_codes(codes: &[u32], options: &Options) -> EncodedBlock {
    let mut sink = Sink::new();
    sink.head().u8(BY_CODE);
    ints::encode(codes, false, options, &mut sink);
    frame(sink)
}

fn encode_values(
    values: &Values<'_>,
    physical: Physical,
    options: &Options,
    sink: &mut Sink,
) -> Result<()> {
    let signed = matches!(physical, Physical::Word { signed: true, .. });
    match values {
        Values::Null => {}
        Values::Bool(bits) => bools::encode(bits, options, sink),
        Values::W8(v) => ints::encode(v, signed, options, sink),
        Values::W16(v) => ints::encode(v, signed, options, sink),
        Values::W32(v) => ints::encode(v, signed, options, sink),
        Values::W64(v) => ints::encode(v, signed, options, sink),
        Values::F32(v) => floats::encode(v, options, sink),
        Values::F64(v) => floats::encode(v, options, sink),
        Values::Wide(v) => wide::encode(v, options, sink),
        Values::Bytes(v) => strings::encode(v, options, sink)?,
    }
    Ok(())
}

fn frame(sink: Sink) -> EncodedBlock {
    let (mut head, mut payload) = sink.into_parts();
    payload.shrink_to_fit();
    let (head_len, head_crc) = (head.len() as u32, crc32fast::hash(&head));
    if !payload.is_empty() {
        head.resize(head.len().next_multiple_of(ALIGN), 0);
    }
    EncodedBlock { head, payload, head_len, head_crc }
}

/// The checksum of bytes in their place: their CRC32, xored with that of their identity, so that an
/// intact block in the wrong place is detected. The two can be computed at different times.
pub(crate) fn placed_crc(bytes_crc: u32, segment: &[u8; 16], column: u32, block: u32) -> u32 {
    let mut identity = Writer::new();
    identity.put(segment);
    identity.u32(column);
    identity.u32(block);
    bytes_crc ^ crc32fast::hash(identity.as_slice())
}

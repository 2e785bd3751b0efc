//! Where the values of texts, lists and maps end, as Arrow has it.

use arrow_buffer::OffsetBuffer;

use crate::errors::Failure;
use crate::serve::clickhouse::refusals::too_large;

/// Offsets of values that end at these places, which never decrease.
pub(super) fn offsets(ends: &[usize]) -> Result<OffsetBuffer<i32>, Failure> {
    let ends = ends.iter().map(|end| i32::try_from(*end));
    let offsets: Result<Vec<i32>, _> = std::iter::once(Ok(0)).chain(ends).collect();
    match offsets {
        Ok(offsets) => Ok(OffsetBuffer::new(offsets.into())),
        Err(_) => Err(too_large("a column of a block has more than 2³¹ bytes or items")
            .hint("send the rows in several smaller blocks")),
    }
}

//! Every maximum that a reader accepts. A length read from a file is compared with these, and with
//! the bytes that are really there, before anything is allocated for it.

/// Values in a vector, the unit of packing and of random access.
pub(crate) const VECTOR: usize = 1024;
/// Rows of a block by default.
pub(crate) const BLOCK_ROWS: usize = 65_536;
/// The most rows that a block may have.
pub(crate) const MAX_BLOCK_ROWS: usize = 1 << 20;
/// The most rows that a segment may have, and by default the number at which it is closed.
pub(crate) const SEGMENT_ROWS: usize = 1 << 20;
/// Uncompressed bytes of a chunk inside a block, unless a single vector is larger.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// The most uncompressed bytes that one chunk may claim (a vector of huge strings).
pub(crate) const MAX_CHUNK_BYTES: usize = 1 << 30;
/// The longest single text or binary value.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 20;
/// The longest row of text that a reader takes for certain, whatever the memory limit is.
const LEAST_ROW_BYTES: usize = 1 << 20;
/// The share of the memory limit that a row of text may have: it is held a few times, as it is read
/// on, parsed and stored.
pub(crate) const ROW_SHARE: u64 = 8;
/// The most columns of a table.
pub(crate) const MAX_COLUMNS: usize = 65_536;
/// How deep fields of objects and structs become columns of their own; what is below is a text.
pub(crate) const MAX_FLAT_DEPTH: usize = 32;
/// The longest column name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 1024;
/// The longest statement of a view, in bytes.
pub(crate) const MAX_VIEW_BYTES: usize = 1 << 20;
/// The longest table name, in bytes: it names a directory.
pub(crate) const MAX_TABLE_NAME_BYTES: usize = 255;
/// The most bytes of text or binary values that one call decodes. A vector always fits.
pub(crate) const MAX_BATCH_BYTES: usize = MAX_CHUNK_BYTES;
/// The most bytes of a dictionary's values.
pub(crate) const MAX_DICTIONARY_BYTES: usize = 64 << 20;
/// The most bytes of decoded words in all streams of a block, at every level of nesting. It bounds
/// what an open block caches of them (runs, patches, unpacked codes). The longest hexadecimal text
/// in the largest block needs half.
pub(crate) const MAX_STREAM_BYTES: usize = 512 << 20;
/// How deep encodings may nest (run-length of delta of …).
pub(crate) const MAX_ENCODING_DEPTH: usize = 6;
/// The most buffers of a block.
pub(crate) const MAX_BUFFERS: usize = 4096;
/// The most segments of one chunk of the manifest.
pub(crate) const MAX_CHUNK_SEGMENTS: usize = 4096;
/// The most chunks that a root lists.
pub(crate) const MAX_ROOT_CHUNKS: usize = 1 << 20;
/// Text bounds (min, max) are cut to this many bytes.
pub(crate) const BOUND_BYTES: usize = 64;
/// The most values in a segment's dictionary.
pub(crate) const MAX_DICTIONARY_VALUES: usize = SEGMENT_ROWS;
/// The most expressions that a table is partitioned by.
pub(crate) const MAX_PARTITION_KEYS: usize = 16;
/// The most columns that a table is sorted by.
pub(crate) const MAX_SORT_KEYS: usize = 64;
/// The longest text of an expression in a manifest.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 << 10;
/// The most columns that the expression of a partition key reads.
pub(crate) const MAX_EXPRESSION_COLUMNS: usize = 256;
/// The longest text or binary value that names a partition, in bytes: it names a directory.
pub(crate) const MAX_PARTITION_VALUE_BYTES: usize = 200;
/// The longest path of a source in a ledger.
pub(crate) const MAX_PATH_BYTES: usize = 64 << 10;

/// The longest row of text under a memory limit.
pub(crate) fn row_bytes(memory: u64) -> usize {
    let share = usize::try_from(memory / ROW_SHARE).unwrap_or(usize::MAX);
    share.clamp(LEAST_ROW_BYTES, MAX_VALUE_BYTES)
}

/// What a row of text is refused for that is longer than `limit`, a result of [`row_bytes`].
pub(crate) fn too_long(limit: usize) -> String {
    let size = limit >> 20;
    match limit < MAX_VALUE_BYTES {
        true => format!(
            "is longer than {size} MiB, an eighth of the memory limit; raise --memory-limit if it \
             is meant to be"
        ),
        false => format!("is longer than {size} MiB"),
    }
}

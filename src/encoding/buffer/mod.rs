//! Buffers: the runs of bytes that an encoding leaves in a block, and the two ends of the pipe that
//! carries them.
//!
//! ```text
//! descriptor (in the block's head)                    payload (behind the head, 16-byte aligned)
//! ┌───────┬────────┬────────┬───┬──────────────────┐  ┌─────────┬─────────┬─────┐
//! │ codec │ raw    │ offset │ n │ n × raw, stored, │→ │ chunk 0 │ chunk 1 │ …   │
//! │ u8    │ len u64│ u64    │u32│     crc32 (u32)  │  └─────────┴─────────┴─────┘
//! └───────┴────────┴────────┴───┴──────────────────┘
//! ```
//!
//! A buffer is cut at vector boundaries into chunks of at most 256 KiB (a single larger vector
//! makes a larger chunk), each compressed and checksummed separately, so that reading a few rows
//! touches a few chunks. Uncompressed chunks lie back to back, so an uncompressed buffer is one
//! slice of the mapping.
//!
//! | file | holds |
//! | --- | --- |
//! | `sink.rs` | the writing end: cuts buffers into chunks |
//! | `source.rs` | the reading end: parses descriptors |
//! | `chunked.rs` | [`Buffer`], whose chunks are decompressed on demand |
//! | `codec.rs` | LZ4 and zstd |
//!
//! Compression is here and not in `block`, because the choice between two encodings depends on what
//! LZ4 or zstd makes of each: the estimate needs the codec, and `encoding` may not import `block`.

mod chunked;
mod codec;
mod sink;
mod source;

pub(crate) use chunked::Buffer;
pub use sink::Sink;
pub use source::Source;

/// Alignment of a buffer in its block, and of blocks in their segment.
pub(crate) const ALIGN: usize = 16;

/// Where a buffer may be cut into chunks.
#[derive(Clone, Copy, Debug)]
pub enum Cuts<'a> {
    /// Every vector has this many bytes (the last may be shorter).
    Every(usize),
    /// Vector `i` starts at byte `starts[i]`; the first is 0.
    At(&'a [u32]),
}

/// Whether to compress a buffer on top of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Bytes that hardly repeat (packed codes): only the small profile tries.
    Packed,
    /// Bytes that often repeat (plain values, text): tried unless the profile is fast.
    Plain,
    /// Bytes laid out for entropy coding: always zstd when it saves anything.
    Entropy,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Options, Profile};
    use crate::error::Result;

    #[test]
    fn ranges_of_chunked_buffers_are_the_bytes_written() {
        let bytes: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for profile in [Profile::Fast, Profile::Balanced, Profile::Small] {
            let options = Options::new(profile);
            let mut sink = Sink::new();
            sink.buffer(&bytes, Cuts::Every(4096), Compression::Plain, &options);
            let starts: Vec<u32> = (0..40).map(|i| i * 100_000).collect();
            sink.buffer(&bytes, Cuts::At(&starts), Compression::Entropy, &options);
            let (head, payload) = sink.into_parts();
            let mut source = Source::new(&head, &payload);
            for _ in 0..2 {
                let buffer = source.buffer().unwrap();
                buffer.verify().unwrap();
                assert_eq!(&*buffer.bytes().unwrap(), &bytes[..]);
                for range in [0..1, 262_143..262_145, 999_999..3_000_001, 4_000_000..4_000_000] {
                    assert_eq!(&*buffer.range(range.clone()).unwrap(), &bytes[range]);
                }
                assert!(buffer.range(0..4_000_001).is_err());
            }
        }
    }

    #[test]
    fn buffers_neither_overlap_nor_leave_gaps() {
        let mut sink = Sink::new();
        let start = |sink: &Sink| sink.mark().head + 9;
        for length in [5, 0, 40] {
            sink.buffer(
                &vec![7; length],
                Cuts::Every(8),
                Compression::Plain,
                &Options::new(Profile::Fast),
            );
        }
        let second = start(&sink);
        sink.buffer(b"more", Cuts::Every(8), Compression::Plain, &Options::new(Profile::Fast));
        let (head, payload) = sink.into_parts();
        let read = |head: &[u8]| -> Result<Vec<usize>> {
            let mut source = Source::new(head, &payload);
            (0..4).map(|_| Ok(source.buffer()?.len())).collect()
        };
        assert_eq!(read(&head).unwrap(), [5, 0, 40, 4]);
        assert_eq!(head[second], 64);
        for offset in [0, 16, 48, 63, 65, 80] {
            let mut moved = head.clone();
            moved[second] = offset;
            assert!(read(&moved).is_err(), "{offset}");
        }
    }
}

//! The codecs of chunks, and whether they pay.

use std::cell::RefCell;
use std::ops::Range;

use super::Compression;
use crate::encoding::{Options, Profile};

pub(super) const CODEC_NONE: u8 = 0;
pub(super) const CODEC_LZ4: u8 = 1;
pub(super) const CODEC_ZSTD: u8 = 2;

/// The codec and, unless it is none, the stored chunks.
pub(super) fn compress(
    bytes: &[u8],
    chunks: &[Range<usize>],
    compression: Compression,
    options: &Options,
) -> (u8, Vec<Vec<u8>>) {
    let none = (CODEC_NONE, Vec::new());
    // The codec, and the largest stored size that is worth it, in sixteenths of the raw size.
    let (codec, most) = match (compression, options.profile) {
        (Compression::Entropy, _) => (CODEC_ZSTD, 16),
        (_, Profile::Small) => (CODEC_ZSTD, 15),
        (Compression::Plain, Profile::Balanced) if options.heavy => (CODEC_ZSTD, 14),
        (Compression::Plain, Profile::Balanced) => (CODEC_LZ4, 12),
        _ => return none,
    };
    if bytes.len() < 64 {
        return none;
    }
    let level = options.zstd_level();
    let pack = |chunk: &Range<usize>| match codec {
        CODEC_LZ4 => Some(lz4_flex::block::compress(&bytes[chunk.clone()])),
        _ => zstd(&bytes[chunk.clone()], level).ok(),
    };
    let stored: Option<Vec<Vec<u8>>> = chunks.iter().map(pack).collect();
    match stored {
        Some(stored) if stored.iter().map(Vec::len).sum::<usize>() < bytes.len() / 16 * most => {
            (codec, stored)
        }
        _ => none,
    }
}

/// Whether a chunk can be as long as it claims: LZ4 and zstd stay within these ratios, so a few
/// bytes cannot make a reader allocate gigabytes.
pub(super) fn ratio_is_possible(codec: u8, raw: u32, stored: u32) -> bool {
    match codec {
        CODEC_NONE => raw == stored,
        CODEC_LZ4 => u64::from(raw) <= u64::from(stored) * 255,
        _ => u64::from(raw) <= u64::from(stored) << 15,
    }
}

thread_local! {
    /// Kept because making a context costs as much as decompressing a small chunk with it.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
    /// With its level; its context costs even more.
    static COMPRESSOR: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> =
        const { RefCell::new(None) };
}

/// The output does not depend on what was compressed before.
fn zstd(bytes: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|context| {
        let (_, compressor) = match context {
            Some(cached) if cached.0 == level => cached,
            _ => context.insert((level, zstd::bulk::Compressor::new(level)?)),
        };
        compressor.compress(bytes)
    })
}

pub(super) fn unzstd(stored: &[u8], raw_len: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|context| match context {
        Some(context) => context.decompress(stored, raw_len),
        None => context.insert(zstd::bulk::Decompressor::new()?).decompress(stored, raw_len),
    })
}

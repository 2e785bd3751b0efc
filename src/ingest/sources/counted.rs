//! Counts and hashes what is read of an input, before it is decompressed.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

use super::stream::Bytes;
use crate::manifest::Id;

/// The XXH3-128 hasher of inputs, and of segments on their way.
pub(crate) type Hasher = RawHasher<&'static [u8; 192]>;

pub(crate) fn hasher() -> Hasher {
    RawHasher::new(SecretBuffer::default())
}

/// Counts and hashes the bytes that are read.
pub(super) struct Counted {
    raw: Bytes,
    consumed: Arc<AtomicU64>,
    hasher: Hasher,
    hash: Arc<OnceLock<Id>>,
}

impl Counted {
    /// Goes on after the bytes that were counted and hashed before.
    pub(super) fn new(
        raw: Bytes,
        consumed: Arc<AtomicU64>,
        hasher: Hasher,
        hash: Arc<OnceLock<Id>>,
    ) -> Self {
        Counted { raw, consumed, hasher, hash }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(buffer)?;
        self.consumed.fetch_add(n as u64, Ordering::Relaxed);
        self.hasher.write(buffer.get(..n).unwrap_or_default());
        if n == 0 && !buffer.is_empty() {
            // The end of the input. Reading it again gives the same hash.
            let _ = self.hash.set(self.hasher.finish_128().to_le_bytes());
        }
        Ok(n)
    }
}

//! A checked little-endian cursor and its writer twin: the only parser of integers in the project.
//!
//! Lists in the format are `u32` counts followed by items; [`Cursor::count`] refuses a count whose
//! items could not fit in the remaining bytes, so that no allocation depends on an unchecked
//! number.

mod checksum;
mod key_head;

pub(crate) use self::checksum::checksum_holds;
pub(crate) use self::key_head::{KeyHead, key_head};
use crate::error::{Error, Result};

/// Reads little-endian values from a slice; errors name the offset of the failure.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// A corruption error at this position.
    pub fn corrupt(&self, what: impl Into<String>) -> Error {
        Error::corrupt(self.at as u64, what)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.corrupt(format!("{n} bytes needed, {} left", self.remaining())));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Sixteen bytes, signed.
    pub fn i128(&mut self) -> Result<i128> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    /// Sixteen bytes of an identifier.
    pub fn uuid(&mut self) -> Result<[u8; 16]> {
        self.array()
    }

    /// A `u32` count of items of at least `item_bytes` (one or more) each; refuses more than
    /// `limit`, or than fit in the remaining bytes.
    pub fn count(&mut self, item_bytes: usize, limit: usize) -> Result<usize> {
        let at = self.at;
        let n = self.u32()? as usize;
        if n > limit || n.saturating_mul(item_bytes.max(1)) > self.remaining() {
            return Err(Error::corrupt(at as u64, format!("count {n} is too large")));
        }
        Ok(n)
    }

    /// A `u32` length and as many bytes.
    pub fn blob(&mut self, limit: usize) -> Result<&'a [u8]> {
        let n = self.count(1, limit)?;
        self.take(n)
    }

    /// A `u32` length and as many bytes of UTF-8.
    pub fn text(&mut self, limit: usize) -> Result<&'a str> {
        let at = self.at;
        std::str::from_utf8(self.blob(limit)?)
            .map_err(|_| Error::corrupt(at as u64, "text is not UTF-8"))
    }

    /// Refuses bytes that are left over.
    pub fn finish(&self) -> Result<()> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(self.corrupt(format!("{} bytes left over", self.remaining())))
        }
    }
}

/// Writes what [`Cursor`] reads.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends raw bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.bytes.push(v);
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }

    /// Sixteen bytes, signed.
    pub fn i128(&mut self, v: i128) {
        self.put(&v.to_le_bytes());
    }

    /// A count or length as `u32`; the writers' own limits keep it in range.
    pub fn count(&mut self, n: usize) {
        debug_assert!(u32::try_from(n).is_ok());
        self.u32(n as u32);
    }

    /// A `u32` length and the bytes.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    /// Zeros up to a multiple of `alignment`.
    pub fn align(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    /// Discards everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// The bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written, by value.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

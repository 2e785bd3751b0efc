//! Memory that a query holds: told to the session's pool before it grows, and given back when it is
//! let go.

use super::context::Context;
use crate::error::Result;

/// Bytes reserved of a query's memory; given back when it is dropped.
pub(crate) struct Reservation<'a> {
    context: &'a Context<'a>,
    bytes: usize,
}

impl<'a> Reservation<'a> {
    /// Of nothing yet.
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Reservation { context, bytes: 0 }
    }

    /// Bytes that are reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` bytes in all; if that is refused, the reservation stays as it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.bytes {
            (self.context.reserve)(bytes - self.bytes)?;
        } else if bytes < self.bytes {
            (self.context.release)(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Reserves more bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Gives bytes back, at most all.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 {
            (self.context.release)(bytes);
            self.bytes -= bytes;
        }
    }

    /// Takes over what another one has reserved.
    pub(crate) fn join(&mut self, mut other: Reservation<'_>) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.shrink(usize::MAX);
    }
}

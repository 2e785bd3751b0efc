//! The bytes of an Arrow input: a pipe, or a file in which bodies can be skipped.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};

use super::super::stream::{Bytes, read_full};

pub(super) struct Source {
    /// Bytes that were looked at and are to be read again.
    again: Cursor<Vec<u8>>,
    rest: Rest,
    /// Offset of the next byte.
    at: u64,
}

enum Rest {
    Pipe(Bytes),
    File(BufReader<File>),
}

impl Source {
    pub(super) fn pipe(bytes: Bytes) -> Self {
        Source { again: Cursor::default(), rest: Rest::Pipe(bytes), at: 0 }
    }

    pub(super) fn file(file: File) -> Self {
        Source { again: Cursor::default(), rest: Rest::File(BufReader::new(file)), at: 0 }
    }

    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Reads until the buffer is full or the input ends.
    pub(super) fn read_full(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_full(self, buffer)
    }

    /// Makes the bytes that were read last the next ones again.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        self.at -= bytes.len() as u64;
        self.again = Cursor::new(bytes.to_vec());
    }

    /// Passes over bytes. In a file they may reach beyond its end; the next read tells.
    pub(super) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let again = self.again.get_ref().len() as u64 - self.again.position();
        match (&mut self.rest, i64::try_from(bytes)) {
            (Rest::File(file), Ok(distance)) if again == 0 => {
                file.seek_relative(distance)?;
                self.at = self.at.saturating_add(bytes);
                Ok(())
            }
            _ => io::copy(&mut self.take(bytes), &mut io::sink()).map(|_| ()),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut n = self.again.read(buffer)?;
        if n == 0 {
            n = match &mut self.rest {
                Rest::Pipe(bytes) => bytes.read(buffer)?,
                Rest::File(file) => file.read(buffer)?,
            };
        }
        self.at += n as u64;
        Ok(n)
    }
}

//! The bytes of an Arrow input: a pipe, or a file in which bodies can be skipped.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::stream::{Bytes, read_full};

pub(super) struct Source {
    /// Bytes that were looked at and are to be read again.
    again: Cursor<Vec<u8>>,
    rest: Rest,
    /// Offset of the next byte.
    at: u64,
}

enum Rest {
    /// Bytes as they come, and the file that they come from, if it can be opened once more.
    Pipe(Bytes, Option<PathBuf>),
    File(BufReader<Box<dyn Whole>>),
}

/// A file, or all bytes of a pipe.
pub(super) trait Whole: Read + Seek + Send {}

impl<T: Read + Seek + Send> Whole for T {}

impl Source {
    pub(super) fn pipe(bytes: Bytes, path: Option<&Path>) -> Self {
        let rest = Rest::Pipe(bytes, path.map(Path::to_path_buf));
        Source { again: Cursor::default(), rest, at: 0 }
    }

    pub(super) fn file(file: Box<dyn Whole>) -> Self {
        Source { again: Cursor::default(), rest: Rest::File(BufReader::new(file)), at: 0 }
    }

    /// The same bytes for reading at any place. For a pipe of no known file, all bytes that are
    /// left are kept in memory; `None` if they are more than `most`.
    pub(super) fn whole(&mut self, most: u64) -> io::Result<Option<Box<dyn Whole>>> {
        let read = self.at + self.left_again();
        match &mut self.rest {
            Rest::Pipe(_, Some(path)) => Ok(Some(Box::new(File::open(path)?))),
            Rest::Pipe(bytes, None) => {
                // What was read already is not asked for again.
                let mut all = vec![0; usize::try_from(read).unwrap_or(usize::MAX)];
                bytes.take(most.saturating_add(1)).read_to_end(&mut all)?;
                if all.len() as u64 - read > most {
                    return Ok(None);
                }
                let all: Arc<[u8]> = all.into();
                let mut rest = Cursor::new(Arc::clone(&all));
                rest.set_position(read);
                *bytes = Box::new(rest);
                Ok(Some(Box::new(Cursor::new(all))))
            }
            Rest::File(file) => {
                Ok(Some(std::mem::replace(file, BufReader::new(empty())).into_inner()))
            }
        }
    }

    /// Gives back what [`Source::whole`] lent.
    pub(super) fn give_back(&mut self, mut whole: Box<dyn Whole>) -> io::Result<()> {
        let read = self.at + self.left_again();
        if let Rest::File(file) = &mut self.rest {
            whole.seek(SeekFrom::Start(read))?;
            *file = BufReader::new(whole);
        }
        Ok(())
    }

    /// Goes to a place of a file.
    pub(super) fn go_to(&mut self, place: u64) -> io::Result<()> {
        self.again = Cursor::default();
        self.at = place;
        match &mut self.rest {
            Rest::File(file) => file.seek(SeekFrom::Start(place)).map(|_| ()),
            Rest::Pipe(..) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    /// The file, if that is what it is.
    pub(super) fn into_whole(self) -> Box<dyn Whole> {
        match self.rest {
            Rest::File(file) => file.into_inner(),
            Rest::Pipe(..) => empty(),
        }
    }

    fn left_again(&self) -> u64 {
        self.again.get_ref().len() as u64 - self.again.position()
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
        let again = self.left_again();
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

fn empty() -> Box<dyn Whole> {
    Box::new(Cursor::new([0; 0]))
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut n = self.again.read(buffer)?;
        if n == 0 {
            n = match &mut self.rest {
                Rest::Pipe(bytes, _) => bytes.read(buffer)?,
                Rest::File(file) => file.read(buffer)?,
            };
        }
        self.at += n as u64;
        Ok(n)
    }
}

//! `MOVING`: the file that marks a table while one of its partitions moves to another machine.
//!
//! It is there from before the other machine commits the rows until they have left this table.
//! Whoever reads the tables of several machines then asks the other one whether it has the rows,
//! and counts them once. Nobody else writes the table meanwhile.
//!
//! ```text
//! envelope · move's uuid 16 · partition · name of the other machine · crc32 of all before
//! ```

use std::sync::Arc;

use super::codec::{read_envelope, seal, unseal, write_envelope};
use super::{Id, TableDir};
use crate::bytes::{Cursor, Writer};
use crate::disk::{Disk, durable, is_missing};
use crate::error::{Error, Result};
use crate::limits;

const MAGIC: &[u8; 8] = b"STYMOVE\0";
/// The longest mark.
const MOST_BYTES: u64 = 1 << 20;

/// A partition on its way to another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    /// Identifier of the move, which the other table's ledger has once it has the rows.
    pub id: Id,
    /// The partition, with those inside it.
    pub partition: Arc<str>,
    /// The name of the other machine.
    pub to: Arc<str>,
}

impl Moving {
    /// Appends the fields.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.put(&self.id);
        out.blob(self.partition.as_bytes());
        out.blob(self.to.as_bytes());
    }

    /// Reads the fields.
    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<Moving> {
        let id = from.uuid()?;
        let partition = Arc::from(from.text(limits::MAX_NAME_BYTES)?);
        let to = Arc::from(from.text(limits::MAX_NAME_BYTES)?);
        Ok(Moving { id, partition, to })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        write_envelope(MAGIC, 0, &mut out);
        self.write(&mut out);
        seal(out)
    }

    fn parse(bytes: &[u8]) -> Result<Moving> {
        let mut from = Cursor::new(unseal(bytes)?);
        read_envelope(MAGIC, "mark of a move", &mut from)?;
        let moving = Moving::read(&mut from)?;
        from.finish()?;
        Ok(moving)
    }
}

/// The mark of a table, if there is one.
pub(crate) fn read(disk: &dyn Disk, dir: &TableDir) -> Result<Option<Moving>> {
    let path = dir.moving();
    match disk.read(&path, MOST_BYTES) {
        Ok(bytes) => Moving::parse(&bytes).map(Some).map_err(|error| error.in_file(path, 0)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Marks a table, durably.
pub(crate) fn write(disk: &dyn Disk, dir: &TableDir, moving: &Moving) -> Result<()> {
    durable::swap(disk, &dir.moving(), &moving.encode())?;
    disk.sync_dir(dir.path())
}

/// Removes the mark, durably.
pub(crate) fn remove(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    match disk.remove(&dir.moving()) {
        Err(error) if !is_missing(&error) => return Err(error),
        _ => {}
    }
    disk.sync_dir(dir.path())
}

/// How errors name what moves of a table.
pub(crate) fn what_moves(table: &str, partition: &str) -> String {
    match partition {
        "" => format!("the part of {table} that is in no partition"),
        path => format!("partition {path} of {table}"),
    }
}

/// The error for a writer that comes while a partition moves.
pub(crate) fn refuse(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let Some(moving) = read(disk, dir)? else { return Ok(()) };
    Err(Error::InvalidInput(format!(
        "{} is on its way to node {}, which nobody interrupts; if that has stopped, sty cluster \
         move goes on with it",
        what_moves(dir.name(), &moving.partition),
        moving.to
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_round_trips_and_damage_is_found() {
        let moving = Moving { id: [7; 16], partition: "year=2015".into(), to: "b".into() };
        let bytes = moving.encode();
        assert_eq!(Moving::parse(&bytes).unwrap(), moving);
        for at in 0..bytes.len() {
            assert!(Moving::parse(&bytes[..at]).is_err());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(matches!(Moving::parse(&flipped), Err(Error::Corrupt { .. })));
        }
    }
}

//! Where the parts of a table are, if they are on other machines, and which state of them a
//! statement has seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;

use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::manifest::Id;

/// The number of what machines say to each other. Those of other releases may say it otherwise.
const PROTOCOL: u8 = 7;

/// Writes that number.
pub(crate) fn write_protocol(out: &mut Writer) {
    out.u8(PROTOCOL);
}

/// Refuses what a machine of another release says.
pub(crate) fn check_protocol(from: &mut Cursor<'_>) -> Result<()> {
    match from.u8()? {
        PROTOCOL => Ok(()),
        other => Err(Error::Unsupported(format!(
            "nodes speak version {PROTOCOL} here and version {other} there: all nodes, and who asks \
             them, need the same release of sty"
        ))),
    }
}

/// A machine of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name in messages.
    pub name: Box<str>,
    /// Where it listens for other machines.
    pub url: Url,
}

impl Node {
    /// A machine at an address such as `http://10.0.0.1:8815`.
    pub fn new(name: &str, address: &str) -> Result<Node> {
        let url = Url::parse(address).ok().filter(|url| {
            ["http", "https"].contains(&url.scheme()) && url.host().is_some() && url.path() == "/"
        });
        let url = url.ok_or_else(|| {
            let what = format!("node {name}: '{address}' is no address such as http://HOST:8815");
            Error::InvalidInput(what)
        })?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Error::InvalidInput(format!(
                "'{name}' is no name of a node: it has blanks"
            )));
        }
        Ok(Node { name: name.into(), url })
    }
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The machine that reads it.
    pub(crate) node: Arc<Node>,
    pub(crate) state: TableState,
    /// Which of the segments there are in it, if several machines share them.
    pub(crate) share: Option<Share>,
    /// A partition that is not read here: it has moved, and its rows are still here.
    pub(crate) without: Option<Arc<str>>,
    /// The machines that have the same rows, this one among them; empty if there is no other.
    pub(crate) copies: Arc<[Arc<Node>]>,
}

/// The position of the part that has the rows of each value of a partition key, by the text of the
/// value.
pub(crate) type Places = BTreeMap<Option<Vec<u8>>, usize>;

/// What a table was when a statement was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableState {
    /// Identity of the table.
    pub(crate) table: Id,
    pub(crate) generation: u64,
    /// The checksum of the root, which has those of all chunks, which have those of all segments.
    pub(crate) checksum: u64,
}

impl TableState {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.put(&self.table);
        out.u64(self.generation);
        out.u64(self.checksum);
    }

    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<TableState> {
        let (table, generation, checksum) = (from.uuid()?, from.u64()?, from.u64()?);
        Ok(TableState { table, generation, checksum })
    }
}

/// Of each `of` segments the one with number `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) number: u32,
    pub(crate) of: u32,
}

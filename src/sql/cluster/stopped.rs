//! Loads that some of their machines have, and others have not: the entry of the ledger that says
//! so, and what a load that goes on must have in common with it.
//!
//! ```text
//! divided among nodes NAME NAME…: digest of all segments and their places
//! ```

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::manifest::{Id, Root};
use crate::sql::run::parts::Node;
use crate::store::LoadedSource;

/// How the path of the entry begins.
const DIVIDED: &str = "divided among nodes ";

/// A load that some of its machines have, and others have not.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) load: Id,
    /// Of all its segments, and their places.
    digest: String,
    /// The machines that lack it, by number.
    pub(super) lacking: Vec<usize>,
}

/// The entry of a load for these machines.
pub(super) fn record(nodes: &[Arc<Node>], digest: &str, load: Id) -> LoadedSource {
    let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
    let path = format!("{DIVIDED}{}: {digest}", names.join(" ")).into();
    LoadedSource { path, load, done: true, ..LoadedSource::default() }
}

/// The names of the machines in such an entry, and the digest.
fn read_record(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(DIVIDED)?.split_once(": ")
}

/// A load that has stopped, by the ledgers of these machines.
pub(super) fn stopped(nodes: &[Arc<Node>], known: &[Option<Root>]) -> Option<Stopped> {
    for source in known.iter().flatten().flat_map(|root| &root.ledger.recent) {
        let Some((names, digest)) = read_record(&source.path) else { continue };
        let lacks = |root: &Option<Root>| {
            let mut sources = root.iter().flat_map(|root| &root.ledger.recent);
            !sources.any(|other| other.load == source.load)
        };
        let lacking = nodes.iter().zip(known).enumerate().filter(|(_, (node, root))| {
            names.split(' ').any(|name| *name == *node.name) && lacks(root)
        });
        let lacking: Vec<usize> = lacking.map(|(at, _)| at).collect();
        if !lacking.is_empty() {
            return Some(Stopped { load: source.load, digest: digest.to_owned(), lacking });
        }
    }
    None
}

/// The entries of a load in the ledger of a machine that has it, and its table.
pub(super) fn entries(known: &[Option<Root>], load: Id) -> Option<(&Root, Vec<&LoadedSource>)> {
    known.iter().flatten().find_map(|root| {
        let sources = root.ledger.recent.iter().filter(|source| source.load == load);
        let sources: Vec<_> = sources.collect();
        (!sources.is_empty()).then_some((root, sources))
    })
}

/// The entries of files among those of a load.
pub(super) fn files<'s>(sources: &[&'s LoadedSource]) -> impl Iterator<Item = &'s LoadedSource> {
    sources.iter().copied().filter(|source| read_record(&source.path).is_none())
}

impl Stopped {
    /// Refuses to go on with other files, or with those that give other segments or places now.
    pub(super) fn check(
        &self,
        known: &[Option<Root>],
        digest: &str,
        sources: &[LoadedSource],
        table: &str,
    ) -> Result<()> {
        let before = entries(known, self.load).map(|(_, sources)| sources).unwrap_or_default();
        let same = |source: &&LoadedSource| {
            let of = |it: &LoadedSource| (it.size, it.hash, it.rows, it.rejected, it.selected);
            files(&before).any(|known| known.path == source.path && of(known) == of(source))
        };
        let what = match sources.iter().find(|source| !same(source)) {
            Some(source) => format!("{} gives other rows than those", source.path),
            None if digest != self.digest => "rows are divided otherwise than those".to_owned(),
            None => return Ok(()),
        };
        Err(Error::InvalidInput(format!(
            "{what} that some nodes have already of the load that has stopped; nothing was changed: \
             it has to be the same command, with the same files and file of the cluster (or give \
             the rows up: sty cluster forget {table})"
        )))
    }
}

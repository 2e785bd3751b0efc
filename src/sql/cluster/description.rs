//! Which machines there are, and which of them has what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sql::run::parts::Node;

/// A cluster, as its file describes it.
#[derive(Clone)]
pub struct ClusterDescription {
    /// The machines.
    pub nodes: Vec<Arc<Node>>,
    /// What machines know each other by.
    pub secret: Arc<str>,
    /// The certificates, in PEM, that vouch for machines whose addresses begin with `https`.
    pub authorities: Option<Arc<[u8]>>,
    /// Where tables are that have no entry of their own.
    pub placement: Placement,
    /// Where the others are, by name.
    pub tables: BTreeMap<String, PlacedTable>,
}

/// Where a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedTable {
    /// How it is spread.
    pub placement: Placement,
    /// The names of the machines that have it; `None` for all.
    pub nodes: Option<Vec<String>>,
    /// The machines to which a load takes the rows of some partitions, by the paths of these.
    pub partitions: BTreeMap<String, String>,
}

/// How a table is spread over machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each machine has rows of its own, in a table of its own.
    #[default]
    Spread,
    /// All machines read one directory, and share the work.
    Shared,
    /// Each machine has all rows, and one of them is asked.
    Copies,
}

impl Placement {
    /// All of them, by the words in the file.
    pub const ALL: [(&'static str, Placement); 3] = [
        ("spread", Placement::Spread),
        ("shared", Placement::Shared),
        ("copies", Placement::Copies),
    ];
}

/// Without the secret.
impl fmt::Debug for ClusterDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterDescription")
            .field("nodes", &self.nodes)
            .field("placement", &self.placement)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

impl ClusterDescription {
    /// Refuses a description that is none.
    pub fn check(&self) -> Result<()> {
        if self.nodes.is_empty() {
            return Err(Error::InvalidInput("a cluster has at least one node".into()));
        }
        let is_https = |node: &&Arc<Node>| node.url.scheme() == "https";
        if let Some(node) = self.nodes.iter().find(is_https)
            && self.authorities.is_none()
        {
            return Err(Error::InvalidInput(format!(
                "node {} is at {}, and nothing vouches for its certificate: ca_file is missing",
                node.name, node.url
            )));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(same) =
                self.nodes.iter().take(at).find(|it| it.name == node.name || it.url == node.url)
            {
                let what =
                    format!("nodes {} and {} have one name or one address", same.name, node.name);
                return Err(Error::InvalidInput(what));
            }
        }
        for (table, placed) in &self.tables {
            if placed.nodes.as_ref().is_some_and(Vec::is_empty) {
                return Err(Error::InvalidInput(format!("table {table} is on no node")));
            }
            for name in placed.nodes.iter().flatten().chain(placed.partitions.values()) {
                if !self.nodes.iter().any(|node| *node.name == **name) {
                    let what = format!("table {table} is on node {name}, and there is none");
                    return Err(Error::InvalidInput(what));
                }
            }
            let has = |name: &String| placed.nodes.as_ref().is_none_or(|it| it.contains(name));
            if let Some((path, name)) = placed.partitions.iter().find(|(_, name)| !has(name)) {
                return Err(Error::InvalidInput(format!(
                    "partition {path} of table {table} is on node {name}, which is not one of its nodes"
                )));
            }
        }
        Ok(())
    }

    /// How a table is spread, and over which machines.
    pub(in crate::sql) fn placed(&self, table: &str) -> (Placement, Vec<Arc<Node>>) {
        let known = self.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
        let Some((_, placed)) = known else { return (self.placement, self.nodes.clone()) };
        let has = |node: &&Arc<Node>| {
            placed.nodes.as_ref().is_none_or(|names| names.iter().any(|name| **name == *node.name))
        };
        (placed.placement, self.nodes.iter().filter(has).cloned().collect())
    }
}

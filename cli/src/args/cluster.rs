//! `--cluster`: the file that says which machines there are, and which of them has what.
//!
//! ```toml
//! secret = "…"                 # what the machines know each other by; or secret_file = "…"
//! ca_file = "ca.pem"           # vouches for the machines whose addresses begin with https
//! placement = "spread"         # where tables are that have no entry of their own
//!
//! [nodes]                      # the machines: a name, and where it serves Flight
//! a = "http://10.0.0.1:8815"
//! b = "http://10.0.0.2:8815"
//! # or: nodes_of_name = "http://sty.example:8815", all addresses that DNS has for a name
//!
//! [tables.cities]
//! placement = "copies"         # or "shared", or "spread"
//! nodes = ["a", "b"]           # all of them, unless it says so
//!
//! [tables.trips.partitions]    # where a load takes rows of partitions; others are spread evenly
//! "year=2015" = "a"
//! ```

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use stylobate::{ClusterDescription, Node, PlacedTable, Placement};
use toml::Spanned;
use toml::de::{DeString, DeValue};

use crate::config::TomlFile;
use crate::errors::{Failure, IoResult as _};

/// The shortest secret: what is shorter can be guessed.
const LEAST_SECRET: usize = 16;

/// `--cluster`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArg {
    /// A TOML file of machines and what they have: tables are those of the cluster
    #[arg(long, value_name = "FILE", env = "STY_CLUSTER", hide_env = true)]
    pub(crate) cluster: Option<PathBuf>,
}

impl ClusterArg {
    /// The cluster, if there is one.
    pub(crate) fn read(&self) -> Result<Option<ClusterDescription>, Failure> {
        self.cluster.as_deref().map(read).transpose()
    }
}

/// The cluster that a file describes.
pub(crate) fn read(path: &Path) -> Result<ClusterDescription, Failure> {
    let file = TomlFile::read(path)?;
    let mut parts = Parts::default();
    let wrong = |at: &Key<'_>, what: String| file.place(at.span()).failure(&what);
    for (key, value) in file.table()?.get_ref() {
        parts.add(key, value.get_ref(), &wrong)?;
    }
    // Files that it names are beside it.
    let beside = |name: String| path.parent().unwrap_or(Path::new("")).join(name);
    let secret = match (parts.secret, parts.secret_file) {
        (Some(secret), None) => secret,
        (None, Some(name)) => {
            let name = beside(name);
            std::fs::read_to_string(&name).with_path(&name)?.trim().to_owned()
        }
        (None, None) => {
            let hint = "secret = \"…\" or secret_file = \"…\", the same on all machines";
            return Err(file.failure("it has no secret").hint(hint));
        }
        (Some(_), Some(_)) => {
            return Err(file.failure("secret and secret_file exclude each other"));
        }
    };
    if secret.len() < LEAST_SECRET || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("the secret must be at least {LEAST_SECRET} letters, digits and signs");
        return Err(file.failure(&what).hint("sty serve --new-token prints one"));
    }
    let authorities = parts.ca_file.map(beside).map(|name| std::fs::read(&name).with_path(&name));
    let description = ClusterDescription {
        nodes: parts.nodes,
        authorities: authorities.transpose()?.map(Arc::from),
        secret: secret.into(),
        placement: parts.placement,
        tables: parts.tables,
    };
    description.check().map_err(|error| file.failure(&error.to_string()))?;
    Ok(description)
}

type Key<'t> = Spanned<DeString<'t>>;

#[derive(Default)]
struct Parts {
    secret: Option<String>,
    secret_file: Option<String>,
    ca_file: Option<String>,
    placement: Placement,
    nodes: Vec<Arc<Node>>,
    tables: BTreeMap<String, PlacedTable>,
}

impl Parts {
    /// Adds a top-level entry of the file; `wrong` makes an error with the place of a key.
    fn add<'t>(
        &mut self,
        key: &Key<'t>,
        value: &DeValue<'t>,
        wrong: &impl Fn(&Key<'t>, String) -> Failure,
    ) -> Result<(), Failure> {
        match (&**key.get_ref(), value) {
            ("secret", DeValue::String(text)) => self.secret = Some(text.to_string()),
            ("secret_file", DeValue::String(text)) => self.secret_file = Some(text.to_string()),
            ("ca_file", DeValue::String(text)) => self.ca_file = Some(text.to_string()),
            ("placement", DeValue::String(text)) => {
                self.placement = placement(text).map_err(|what| wrong(key, what))?;
            }
            ("nodes_of_name", DeValue::String(url)) => {
                self.nodes.extend(nodes_of_name(url).map_err(|what| wrong(key, what))?);
            }
            ("nodes", DeValue::Table(nodes)) => {
                for (name, url) in nodes {
                    let DeValue::String(url) = url.get_ref() else {
                        let what =
                            format!("nodes.{} is an address, http://HOST:PORT", name.get_ref());
                        return Err(wrong(name, what));
                    };
                    let node = Node::new(name.get_ref(), url);
                    self.nodes
                        .push(Arc::new(node.map_err(|error| wrong(name, error.to_string()))?));
                }
            }
            ("tables", DeValue::Table(tables)) => {
                for (name, value) in tables {
                    let placed = placed_table(name, value.get_ref(), self.placement, wrong)?;
                    self.tables.insert(name.get_ref().to_string(), placed);
                }
            }
            (other, _) => {
                let what = format!(
                    "'{other}' means nothing here; there are secret, secret_file, ca_file, \
                     placement, nodes_of_name, [nodes] and [tables.NAME]"
                );
                return Err(wrong(key, what));
            }
        }
        Ok(())
    }
}

/// A node for each address that DNS has for the host of an address such as
/// `http://sty.example:8815`, which is its name, in order.
fn nodes_of_name(address: &str) -> Result<Vec<Arc<Node>>, String> {
    let node = Node::new(address, address).map_err(|error| error.to_string())?;
    let (host, port) = (node.url.host_str().unwrap_or_default(), node.url.port_or_known_default());
    let found = (host, port.unwrap_or_default()).to_socket_addrs();
    let found = found.map_err(|error| format!("{host} has no address: {error}"))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort();
    addresses.dedup();
    let node = |of: SocketAddr| {
        let node = Node::new(&of.ip().to_string(), &format!("{}://{of}", node.url.scheme()));
        node.map(Arc::new).map_err(|error| error.to_string())
    };
    addresses.into_iter().map(node).collect()
}

fn placement(text: &str) -> Result<Placement, String> {
    let known = Placement::ALL.iter().find(|(word, _)| *word == text);
    known.map(|(_, placement)| *placement).ok_or_else(|| {
        let words: Vec<&str> = Placement::ALL.iter().map(|(word, _)| *word).collect();
        format!("placement is one of {}, not '{text}'", words.join(", "))
    })
}

fn placed_table<'t>(
    name: &Key<'t>,
    value: &DeValue<'t>,
    usual: Placement,
    wrong: &impl Fn(&Key<'t>, String) -> Failure,
) -> Result<PlacedTable, Failure> {
    let (heading, name) = (name, name.get_ref());
    let DeValue::Table(parts) = value else {
        return Err(wrong(heading, format!("tables.{name} is a table: placement, nodes")));
    };
    let mut placed = PlacedTable { placement: usual, nodes: None, partitions: BTreeMap::new() };
    for (key, value) in parts {
        match (&**key.get_ref(), value.get_ref()) {
            ("placement", DeValue::String(text)) => {
                placed.placement = placement(text).map_err(|what| wrong(key, what))?;
            }
            ("nodes", DeValue::Array(nodes)) => {
                let text = |node: &Spanned<DeValue<'_>>| match node.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    _ => Err(wrong(key, format!("tables.{name}.nodes are names of nodes"))),
                };
                placed.nodes = Some(nodes.iter().map(text).collect::<Result<_, _>>()?);
            }
            ("partitions", DeValue::Table(partitions)) => {
                for (path, node) in partitions {
                    let DeValue::String(node) = node.get_ref() else {
                        return Err(wrong(path, format!("tables.{name}.partitions are nodes")));
                    };
                    let path = path.get_ref().to_string();
                    placed.partitions.insert(path, node.to_string());
                }
            }
            (other, _) => {
                let what = "means nothing; there are placement, nodes and partitions";
                return Err(wrong(key, format!("tables.{name}.{other} {what}")));
            }
        }
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn parsed(text: &str) -> Result<ClusterDescription, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        read(file.path())
    }

    #[test]
    fn a_file_says_who_has_what() {
        let read = parsed(
            "secret = '0123456789abcdef'\n[nodes]\na = 'http://h:1'\nb = 'http://i:2'\n\
             [tables.t]\nplacement = 'copies'\nnodes = ['b']\npartitions.'d=1' = 'b'\n",
        )
        .unwrap();
        assert_eq!(read.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["a", "b"]);
        let partitions = BTreeMap::from([("d=1".to_owned(), "b".to_owned())]);
        let nodes = Some(vec!["b".to_owned()]);
        let placed = PlacedTable { placement: Placement::Copies, nodes, partitions };
        assert_eq!(read.tables.get("t"), Some(&placed));
    }

    #[test]
    fn a_name_has_the_nodes_of_its_addresses() {
        let secret = "secret = '0123456789abcdef'\n";
        let read = parsed(&format!("{secret}nodes_of_name = 'http://127.0.0.1:8815'\n")).unwrap();
        let node = &read.nodes[0];
        assert_eq!((&*node.name, node.url.as_str()), ("127.0.0.1", "http://127.0.0.1:8815/"));
        let wrong = parsed(&format!("{secret}nodes_of_name = 'http://no.such.invalid:1'\n"));
        let wrong = wrong.unwrap_err().message;
        assert!(wrong.contains(":2:1: no.such.invalid has no address"), "{wrong}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let nodes = "secret = '0123456789abcdef'\n[nodes]\na = 'http://h:1'\n";
        for (text, says) in [
            ("[nodes]\na = 'http://h:1'\n".to_owned(), "no secret"),
            ("secret = 'short'\n[nodes]\na = 'http://h:1'\n".to_owned(), "at least 16"),
            ("secret = '0123456789abcdef'\n".to_owned(), "at least one node"),
            (format!("{nodes}b = 'h:1'\n"), ":4:1: node b: 'h:1' is no address"),
            (format!("{nodes}'b c' = 'http://h:2'\n"), ":4:1: 'b c' is no name of a node"),
            (format!("{nodes}b = 'https://h:2'\n"), "ca_file is missing"),
            (format!("{nodes}b = 'http://h:1'\n"), "one name or one address"),
            (format!("{nodes}[tables.t]\nnodes = ['c']\n"), "node c, and there is none"),
            (format!("{nodes}[tables.t]\nplacement = 'far'\n"), "one of spread, shared, copies"),
            (format!("{nodes}[tables.t]\nnodes = []\n"), "table t is on no node"),
            (format!("{nodes}[tables.t.partitions]\n'd=1' = 'c'\n"), "node c, and there is none"),
            (format!("{nodes}[others]\n"), "'others' means nothing"),
            (format!("{nodes}b =\n"), ":4:"),
        ] {
            let failure = parsed(&text).unwrap_err();
            assert!(failure.message.contains(says), "{text}: {}", failure.message);
        }
    }
}

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
//!
//! [tables.cities]
//! placement = "copies"         # or "shared", or "spread"
//! nodes = ["a", "b"]           # all of them, unless it says so
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use stylobate::{ClusterDescription, Node, PlacedTable, Placement};
use toml::de::{DeTable, DeValue};

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

fn read(path: &Path) -> Result<ClusterDescription, Failure> {
    let text = std::fs::read_to_string(path).with_path(path)?;
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let table = DeTable::parse(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        wrong(format!("line {line}: {}", error.message().trim_end()))
    })?;
    let mut parts = Parts::default();
    for (key, value) in table.get_ref() {
        parts.add(key.get_ref(), value.get_ref()).map_err(wrong)?;
    }
    let secret = match (parts.secret, parts.secret_file) {
        (Some(secret), None) => secret,
        (None, Some(file)) => {
            // Beside the file that names it.
            let file = path.parent().unwrap_or(Path::new("")).join(file);
            std::fs::read_to_string(&file).with_path(&file)?.trim().to_owned()
        }
        (None, None) => {
            return Err(wrong("it has no secret".to_owned())
                .hint("secret = \"…\" or secret_file = \"…\", the same on all machines"));
        }
        (Some(_), Some(_)) => {
            return Err(wrong("secret and secret_file exclude each other".into()));
        }
    };
    if secret.len() < LEAST_SECRET || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("the secret must be at least {LEAST_SECRET} letters, digits and signs");
        return Err(wrong(what).hint("sty serve --new-token prints one"));
    }
    let authorities = parts.ca_file.map(|file| {
        let file = path.parent().unwrap_or(Path::new("")).join(file);
        std::fs::read(&file).with_path(&file)
    });
    let description = ClusterDescription {
        nodes: parts.nodes,
        authorities: authorities.transpose()?.map(Arc::from),
        secret: secret.into(),
        placement: parts.placement,
        tables: parts.tables,
    };
    description.check().map_err(|error| wrong(error.to_string()))?;
    Ok(description)
}

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
    fn add(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), String> {
        match (key, value) {
            ("secret", DeValue::String(text)) => self.secret = Some(text.to_string()),
            ("secret_file", DeValue::String(text)) => self.secret_file = Some(text.to_string()),
            ("ca_file", DeValue::String(text)) => self.ca_file = Some(text.to_string()),
            ("placement", DeValue::String(text)) => self.placement = placement(text)?,
            ("nodes", DeValue::Table(nodes)) => {
                for (name, url) in nodes {
                    let name = name.get_ref().to_string();
                    let DeValue::String(url) = url.get_ref() else {
                        return Err(format!("nodes.{name} is an address, http://HOST:PORT"));
                    };
                    self.nodes.push(Arc::new(Node::new(&name, url).map_err(|e| e.to_string())?));
                }
            }
            ("tables", DeValue::Table(tables)) => {
                for (name, placed) in tables {
                    let name = name.get_ref().to_string();
                    let placed = placed_table(&name, placed.get_ref(), self.placement)?;
                    self.tables.insert(name, placed);
                }
            }
            (key, _) => {
                return Err(format!(
                    "'{key}' means nothing here; there are secret, secret_file, ca_file, placement, \
                     [nodes] and [tables.NAME]"
                ));
            }
        }
        Ok(())
    }
}

fn placement(text: &str) -> Result<Placement, String> {
    let known = Placement::ALL.iter().find(|(word, _)| *word == text);
    known.map(|(_, placement)| *placement).ok_or_else(|| {
        let words: Vec<&str> = Placement::ALL.iter().map(|(word, _)| *word).collect();
        format!("placement is one of {}, not '{text}'", words.join(", "))
    })
}

fn placed_table(name: &str, value: &DeValue<'_>, usual: Placement) -> Result<PlacedTable, String> {
    let DeValue::Table(parts) = value else { return Err(format!("tables.{name} is a table")) };
    let mut placed = PlacedTable { placement: usual, nodes: None };
    for (key, value) in parts {
        match (&**key.get_ref(), value.get_ref()) {
            ("placement", DeValue::String(text)) => placed.placement = placement(text)?,
            ("nodes", DeValue::Array(nodes)) => {
                let text = |node: &toml::Spanned<DeValue<'_>>| match node.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    _ => Err(format!("tables.{name}.nodes are names of nodes")),
                };
                placed.nodes = Some(nodes.iter().map(text).collect::<Result<_, _>>()?);
            }
            (key, _) => {
                let there_are = "there are placement and nodes";
                return Err(format!("tables.{name}.{key} means nothing; {there_are}"));
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
             [tables.t]\nplacement = 'copies'\nnodes = ['b']\n",
        )
        .unwrap();
        assert_eq!(read.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["a", "b"]);
        let placed = PlacedTable { placement: Placement::Copies, nodes: Some(vec!["b".into()]) };
        assert_eq!(read.tables.get("t"), Some(&placed));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let nodes = "secret = '0123456789abcdef'\n[nodes]\na = 'http://h:1'\n";
        for (text, says) in [
            ("[nodes]\na = 'http://h:1'\n".to_owned(), "no secret"),
            ("secret = 'short'\n[nodes]\na = 'http://h:1'\n".to_owned(), "at least 16"),
            ("secret = '0123456789abcdef'\n".to_owned(), "at least one node"),
            (format!("{nodes}b = 'h:1'\n"), "is no address"),
            (format!("{nodes}b = 'https://h:2'\n"), "ca_file is missing"),
            (format!("{nodes}b = 'http://h:1'\n"), "one name or one address"),
            (format!("{nodes}[tables.t]\nnodes = ['c']\n"), "node c, and there is none"),
            (format!("{nodes}[tables.t]\nplacement = 'far'\n"), "one of spread, shared, copies"),
            (format!("{nodes}[others]\n"), "'others' means nothing"),
            (format!("{nodes}b =\n"), "line 4"),
        ] {
            let failure = parsed(&text).unwrap_err();
            assert!(failure.message.contains(says), "{text}: {}", failure.message);
        }
    }
}

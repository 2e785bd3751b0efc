//! What the machines of a cluster have: `sty cluster status`.
//!
//! ```text
//! question  version u8
//! answer    version u8 · tables u32 · { name · generation u64 · rows u64 · segments u64 ·
//!           bytes u64 · is a partition on its way u8 · { which } · what is wrong with it, or
//!           nothing }…
//! ```

use std::sync::Arc;

use futures::future::join_all;

use super::description::ClusterDescription;
use super::nodes::Nodes;
use super::state::{Answer, MOST_TABLES, STATE, names_question, question, read_answer};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::maintain::{Partition, partitions};
use crate::manifest::moving::Moving;
use crate::sql::convert::listed;
use crate::sql::run::parts::{Node, check_protocol, write_protocol};
use crate::store::{Snapshot, Store};

/// Where a machine is asked for its tables.
pub(in crate::sql) const TABLES: &str = "/sty.Node/Tables";
/// Bytes of a table in an answer, at least.
const TABLE_BYTES: usize = 41;
/// The longest description of what is wrong.
const MOST_DAMAGE: usize = 1 << 20;

/// A table of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOnNode {
    /// Its name.
    pub name: String,
    /// The generation in force.
    pub generation: u64,
    /// Rows.
    pub rows: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// The partition that is on its way to another machine, and the name of that one.
    pub moving: Option<(String, String)>,
    /// Why nothing else is known of it.
    pub damage: Option<String>,
}

/// What each machine says, or why it says nothing.
pub type OfNodes<T> = Vec<(Arc<Node>, Result<T>)>;

/// The tables that each machine has.
pub fn cluster_tables(description: ClusterDescription) -> Result<OfNodes<Vec<TableOnNode>>> {
    let nodes = Nodes::new(description)?;
    let question = names_question();
    let all = nodes.description.nodes.iter();
    let asked = all.clone().map(|node| nodes.ask(node, TABLES, question.clone()));
    let answers = nodes.wait(join_all(asked))?;
    let read = |answer: Result<bytes::Bytes>| read_tables(&answer?);
    Ok(all.cloned().zip(answers.into_iter().map(read)).collect())
}

/// The partitions of a table that each machine has.
pub fn cluster_partitions(
    description: ClusterDescription,
    table: &str,
) -> Result<OfNodes<Vec<Partition>>> {
    let (_, of_table) = description.placed(table);
    let nodes = Nodes::new(description)?;
    let asked = of_table.iter().map(|node| nodes.ask(node, STATE, question(table, None)));
    let answers = nodes.wait(join_all(asked))?;
    let mut is_known = false;
    let read = |answer: Result<bytes::Bytes>| match read_answer(&answer?, None) {
        Ok(Answer::Changed(table)) => {
            is_known = true;
            partitions(&Snapshot::remote(&table.name, table.root, table.chunks))
        }
        // The question knew of no table.
        Ok(Answer::None | Answer::AsKnown(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let all: OfNodes<_> = of_table.into_iter().zip(answers.into_iter().map(read)).collect();
    if !is_known && all.iter().all(|(_, answer)| answer.is_ok()) {
        let names = listed(all.iter().map(|(node, _)| &*node.name));
        return Err(Error::NotFound(format!("there is no table {table} on the nodes {names}")));
    }
    Ok(all)
}

/// What this machine answers about its tables.
pub(in crate::sql) fn tables(store: &Store, question: &[u8]) -> Result<Vec<u8>> {
    let mut from = Cursor::new(question);
    check_protocol(&mut from)?;
    from.finish()?;
    let mut out = Writer::new();
    write_protocol(&mut out);
    let names = store.tables()?;
    out.count(names.len());
    for name in names {
        out.blob(name.as_bytes());
        let look = || {
            let table = store.table(&name)?;
            let snapshot = table.snapshot()?;
            let segments = snapshot.segments()?;
            let bytes = segments.iter().map(|segment| segment.length).sum();
            let numbers = [snapshot.generation(), snapshot.rows(), segments.len() as u64, bytes];
            Ok((numbers, table.moving()?))
        };
        let seen: Result<_> = look();
        let damage = seen.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let (numbers, moving) = seen.unwrap_or_default();
        numbers.into_iter().for_each(|number| out.u64(number));
        out.u8(u8::from(moving.is_some()));
        moving.iter().for_each(|moving| moving.write(&mut out));
        out.blob(damage.as_bytes());
    }
    Ok(out.into_vec())
}

fn read_tables(answer: &[u8]) -> Result<Vec<TableOnNode>> {
    let mut from = Cursor::new(answer);
    check_protocol(&mut from)?;
    let mut all = Vec::new();
    for _ in 0..from.count(TABLE_BYTES, MOST_TABLES)? {
        let name = from.text(limits::MAX_NAME_BYTES)?.to_owned();
        let (generation, rows) = (from.u64()?, from.u64()?);
        let (segments, bytes) = (from.u64()?, from.u64()?);
        let moving = if from.u8()? > 0 { Some(Moving::read(&mut from)?) } else { None };
        let moving = moving.map(|it| (it.partition.to_string(), it.to.to_string()));
        let damage = Some(from.text(MOST_DAMAGE)?.to_owned()).filter(|it| !it.is_empty());
        all.push(TableOnNode { name, generation, rows, segments, bytes, moving, damage });
    }
    from.finish()?;
    Ok(all)
}

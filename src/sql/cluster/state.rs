//! What a machine says of a table, as bytes; and the table that several parts are together.
//!
//! ```text
//! question  version u8 · name · known u8 · { table uuid 16 · generation u64 · checksum u64 } ·
//!           chunks u32 · { uuid 16 }…: those that the asking machine has
//! answer    version u8 · kind u8: 0 there is no such table, 1 it is as known, 2 there is more ·
//!           is a partition on its way (`manifest/moving`) u8 · { which }
//!           of 2: table's name · root · chunks u32 · { uuid 16 · bytes }…: those that it lacks
//! ```
//!
//! Who loads rows asks for the ledger, and is answered with a root that has all of it:
//!
//! ```text
//! question  version u8 · name · whether to wait for who writes the table u8
//! answer    version u8 · is there u8 · { name · generation u64 · root }
//! ```
//!
//! Who lists tables asks for their names:
//!
//! ```text
//! question  version u8
//! answer    version u8 · names u32 · { name }…
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::join_all;

use super::nodes::Nodes;
use crate::bytes::{Cursor, Writer};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::ingest::partition::parse_path;
use crate::limits;
use crate::maintain::partitions::is_within;
use crate::maintain::transfer::{read_root, root_for_others, write_root};
use crate::manifest::moving::Moving;
use crate::manifest::{Chunk, ChunkRef, Id, Root};
use crate::model::PartitionKey;
use crate::sql::run::parts::{Node, Part, Places, TableState, check_protocol, write_protocol};
use crate::sql::run::table::StoreTable;
use crate::store::Snapshot;

/// Where a machine is asked for the state of a table.
pub(in crate::sql) const STATE: &str = "/sty.Node/Table";
/// Where it is asked for what was loaded into it.
pub(in crate::sql) const LEDGER: &str = "/sty.Node/Ledger";
/// Where it is asked for the names of its tables.
pub(in crate::sql) const NAMES: &str = "/sty.Node/Names";
/// The most tables of a machine.
pub(super) const MOST_TABLES: usize = 1 << 20;
/// The longest root or chunk.
const MOST_BYTES: usize = 1 << 30;

/// A table of another machine: what its manifest says.
#[derive(Clone, Debug)]
pub(super) struct RemoteTable {
    pub(super) name: Box<str>,
    pub(super) state: TableState,
    pub(super) root: Root,
    pub(super) chunks: Vec<(ChunkRef, Arc<Chunk>)>,
    /// A partition that is on its way to another machine.
    pub(super) moving: Option<Moving>,
}

impl RemoteTable {
    /// Whether the newest entries of its ledger, or its mark, name a move.
    pub(super) fn knows(&self, id: Id) -> bool {
        let is_marked = self.moving.as_ref().is_some_and(|moving| moving.id == id);
        is_marked || self.root.ledger.recent.iter().any(|source| source.load == id)
    }
}

/// What a machine answers.
pub(super) enum Answer {
    None,
    AsKnown(Option<Moving>),
    Changed(Box<RemoteTable>),
}

/// The state of a generation.
pub(super) fn state_of(root: &Root) -> TableState {
    let checksum = u64::from(root.checksum());
    TableState { table: root.table, generation: root.generation, checksum }
}

/// The question for a table.
pub(super) fn question(name: &str, known: Option<&RemoteTable>) -> Vec<u8> {
    let mut out = Writer::new();
    write_protocol(&mut out);
    out.blob(name.as_bytes());
    out.u8(u8::from(known.is_some()));
    if let Some(known) = known {
        known.state.write(&mut out);
    }
    let chunks = known.map(|known| known.chunks.as_slice()).unwrap_or_default();
    out.count(chunks.len());
    chunks.iter().for_each(|(reference, _)| out.put(&reference.id));
    out.into_vec()
}

/// What this machine answers: `find` finds its own tables, and `moving` says what of them moves.
pub(super) fn answer(
    question: &[u8],
    find: impl Fn(&str) -> Result<Option<Arc<StoreTable>>>,
    moving: impl Fn(&str) -> Result<Option<Moving>>,
) -> Result<Vec<u8>> {
    let mut from = Cursor::new(question);
    check_protocol(&mut from)?;
    let name = from.text(limits::MAX_NAME_BYTES)?;
    let known = if from.u8()? > 0 { Some(TableState::read(&mut from)?) } else { None };
    let mut has = Vec::new();
    for _ in 0..from.count(size_of::<Id>(), limits::MAX_ROOT_CHUNKS)? {
        has.push(from.uuid()?);
    }
    from.finish()?;
    let mut out = Writer::new();
    write_protocol(&mut out);
    let Some(table) = find(name)? else {
        out.u8(0);
        return Ok(out.into_vec());
    };
    let snapshot = table.snapshot();
    let root = snapshot.root();
    let is_known = known == Some(state_of(root));
    out.u8(if is_known { 1 } else { 2 });
    let moving = moving(snapshot.table_name())?;
    out.u8(u8::from(moving.is_some()));
    moving.iter().for_each(|moving| moving.write(&mut out));
    if is_known {
        return Ok(out.into_vec());
    }
    out.blob(snapshot.table_name().as_bytes());
    out.u64(root.generation);
    out.blob(&root.encode());
    let lacks = |chunk: &&ChunkRef| !has.contains(&chunk.id);
    out.count(root.chunks.iter().filter(lacks).count());
    for chunk in root.chunks.iter().filter(lacks) {
        out.put(&chunk.id);
        out.blob(&snapshot.chunk_bytes(chunk)?);
    }
    Ok(out.into_vec())
}

/// Reads an answer; `known` is what the question knew.
pub(super) fn read_answer(answer: &[u8], known: Option<&RemoteTable>) -> Result<Answer> {
    let mut from = Cursor::new(answer);
    check_protocol(&mut from)?;
    let kind = from.u8()?;
    if kind == 0 {
        return Ok(Answer::None);
    }
    let moving = if from.u8()? > 0 { Some(Moving::read(&mut from)?) } else { None };
    match kind {
        1 => return Ok(Answer::AsKnown(moving)),
        2 => {}
        other => return Err(Error::Unsupported(format!("an answer of kind {other}"))),
    }
    let name = from.text(limits::MAX_NAME_BYTES)?.into();
    let generation = from.u64()?;
    let root = Root::parse(from.blob(MOST_BYTES)?, generation)?;
    let known = known.map(|known| known.chunks.as_slice()).unwrap_or_default();
    let mut chunks: HashMap<Id, Arc<Chunk>> =
        known.iter().map(|(reference, chunk)| (reference.id, Arc::clone(chunk))).collect();
    for _ in 0..from.count(size_of::<Id>(), limits::MAX_ROOT_CHUNKS)? {
        let (id, bytes) = (from.uuid()?, from.blob(MOST_BYTES)?);
        let reference = root.chunks.iter().find(|chunk| chunk.id == id);
        let reference = reference.ok_or_else(|| from.corrupt("a chunk that no root has"))?;
        let chunk = Chunk::open(Arc::new(Mapped::from_bytes(bytes)), reference)?;
        chunks.insert(id, Arc::new(chunk));
    }
    from.finish()?;
    let all = root.chunks.iter().map(|reference| {
        let chunk = chunks.get(&reference.id).cloned();
        chunk
            .map(|chunk| (reference.clone(), chunk))
            .ok_or_else(|| Error::corrupt(0, "a chunk of the table is missing in the answer"))
    });
    let chunks = all.collect::<Result<_>>()?;
    let state = state_of(&root);
    Ok(Answer::Changed(Box::new(RemoteTable { name, state, root, chunks, moving })))
}

/// The question for what a table's columns are, and what was loaded into it, once those who write
/// it now are done if `waits`.
pub(super) fn ledger_question(name: &str, waits: bool) -> Vec<u8> {
    let mut out = Writer::new();
    write_protocol(&mut out);
    out.blob(name.as_bytes());
    out.u8(u8::from(waits));
    out.into_vec()
}

/// What this machine answers to that; `wait` waits for who writes a table.
pub(super) fn ledger_answer(
    question: &[u8],
    find: impl Fn(&str) -> Result<Option<Arc<StoreTable>>>,
    wait: impl Fn(&str) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut from = Cursor::new(question);
    check_protocol(&mut from)?;
    let (name, waits) = (from.text(limits::MAX_NAME_BYTES)?, from.u8()? > 0);
    from.finish()?;
    if waits {
        wait(name)?;
    }
    let mut out = Writer::new();
    write_protocol(&mut out);
    let table = find(name)?;
    out.u8(u8::from(table.is_some()));
    if let Some(table) = table {
        let snapshot = table.snapshot();
        out.blob(snapshot.table_name().as_bytes());
        write_root(&root_for_others(snapshot.root(), snapshot.sources()?), &mut out);
    }
    Ok(out.into_vec())
}

/// Reads that answer: the table's name there, and a root with the whole ledger and without rows.
pub(super) fn read_ledger_answer(answer: &[u8]) -> Result<Option<(String, Root)>> {
    let mut from = Cursor::new(answer);
    check_protocol(&mut from)?;
    if from.u8()? == 0 {
        return Ok(None);
    }
    let name = from.text(limits::MAX_NAME_BYTES)?.to_owned();
    let root = read_root(&mut from)?;
    from.finish()?;
    Ok(Some((name, root)))
}

/// Asks all machines what they have of a table, whose name becomes that which they have.
pub(super) fn hear(
    nodes: &Nodes,
    of: &[Arc<Node>],
    table: &mut String,
) -> Result<Vec<Option<Root>>> {
    let question = ledger_question(table, false);
    let asked = of.iter().map(|node| nodes.ask(node, LEDGER, question.clone()));
    let mut known = Vec::new();
    for answer in nodes.wait(join_all(asked))? {
        let found = read_ledger_answer(&answer?)?;
        known.push(found.map(|(name, root)| {
            *table = name;
            root
        }));
    }
    Ok(known)
}

/// The question for the names of all tables.
pub(super) fn names_question() -> Vec<u8> {
    let mut out = Writer::new();
    write_protocol(&mut out);
    out.into_vec()
}

/// What this machine answers to that.
pub(super) fn names_answer(question: &[u8], names: &[String]) -> Result<Vec<u8>> {
    let mut from = Cursor::new(question);
    check_protocol(&mut from)?;
    from.finish()?;
    let mut out = Writer::new();
    write_protocol(&mut out);
    out.count(names.len());
    names.iter().for_each(|name| out.blob(name.as_bytes()));
    Ok(out.into_vec())
}

/// Reads that answer.
pub(super) fn read_names(answer: &[u8]) -> Result<Vec<String>> {
    let mut from = Cursor::new(answer);
    check_protocol(&mut from)?;
    let count = from.count(size_of::<u32>(), MOST_TABLES)?;
    let names = (0..count).map(|_| Ok(from.text(limits::MAX_NAME_BYTES)?.to_owned()));
    let names = names.collect::<Result<_>>()?;
    from.finish()?;
    Ok(names)
}

/// The table that parts are together; each is named by its machine in errors. `tables` are the
/// different ones among them: several machines may share one.
pub(super) fn united(tables: &[&RemoteTable], parts: Vec<Part>) -> Result<StoreTable> {
    let [first, others @ ..] = tables else {
        return Err(Error::InvalidInput("a table of no parts".into()));
    };
    for other in others {
        check_same_columns(first, other, &parts)?;
    }
    let mut root = first.root.clone();
    // Rows of a part are in partitions that others may not have by the same keys.
    if others.iter().any(|other| other.root.arrangement != root.arrangement) {
        root.arrangement = Default::default();
    }
    root.generation = tables.iter().map(|table| table.root.generation).max().unwrap_or_default();
    let chunks = tables.iter().flat_map(|table| table.chunks.iter().cloned()).collect();
    let snapshot = Snapshot::remote(&first.name, root, chunks);
    // Machines that share all segments have those of each partition.
    let keys = match tables.len() == parts.len() && parts.len() > 1 {
        true => snapshot.root().arrangement.partition_by.clone(),
        false => Vec::new(),
    };
    if keys.is_empty() && parts.iter().all(|part| part.without.is_none()) {
        return Ok(StoreTable::of_parts(snapshot, parts, Box::default()));
    }
    let mut places = vec![Some(Places::new()); keys.len()];
    // Rows that another part has, too.
    let mut twice = BTreeSet::new();
    let all = snapshot.segments()?;
    let mut numbered = (0..).zip(all.iter());
    for table in tables {
        let segments: usize = table.chunks.iter().map(|(chunk, _)| chunk.segments as usize).sum();
        let at = parts.iter().position(|part| part.state == table.state).unwrap_or_default();
        let without = parts.get(at).and_then(|part| part.without.as_deref());
        for (number, segment) in numbered.by_ref().take(segments) {
            match without.is_some_and(|partition| is_within(&segment.partition, partition)) {
                true => drop(twice.insert(number)),
                false => place(&mut places, &keys, &segment.partition, at),
            }
        }
    }
    let snapshot = if twice.is_empty() { snapshot } else { snapshot.without(&twice)? };
    let places = places.into_iter().map(|places| places.map(Arc::new)).collect();
    Ok(StoreTable::of_parts(snapshot, parts, places))
}

/// Notes that a part has rows of a partition.
fn place(places: &mut [Option<Places>], keys: &[PartitionKey], path: &str, part: usize) {
    let mut path = parse_path(path).into_iter();
    for (places, key) in places.iter_mut().zip(keys) {
        let step = path.next();
        let is_elsewhere = |known: &mut Places| match step {
            Some((name, value)) if *name == *key.name.as_bytes() => {
                *known.entry(value).or_insert(part) != part
            }
            // The segment is older than the key.
            _ => true,
        };
        if places.as_mut().is_some_and(is_elsewhere) {
            *places = None;
        }
    }
}

fn check_same_columns(one: &RemoteTable, other: &RemoteTable, parts: &[Part]) -> Result<()> {
    let (left, right) = (one.root.schema.columns(), other.root.schema.columns());
    let node = |table: &RemoteTable| {
        let part = parts.iter().find(|part| part.state == table.state);
        part.map_or_else(String::new, |part| part.node.name.to_string())
    };
    let differs = left.iter().zip(right).find(|(left, right)| {
        left.id != right.id || left.name != right.name || left.data_type != right.data_type
    });
    let what = match differs {
        None if left.len() == right.len() => return Ok(()),
        None => format!("{} columns and {}", left.len(), right.len()),
        Some((left, right)) => {
            let shown = |column: &crate::model::Column| {
                format!("{} {} (column {})", column.name, column.data_type, column.id.0)
            };
            format!("{} and {}", shown(left), shown(right))
        }
    };
    Err(Error::InvalidInput(format!(
        "table {}: nodes {} and {} have different columns: {what}; make them the same with \
         sty alter, or by the same command where a load over all nodes has stopped",
        one.name,
        node(one),
        node(other)
    )))
}

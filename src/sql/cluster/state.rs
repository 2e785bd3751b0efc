//! What a machine says of a table, as bytes; and the table that several parts are together.
//!
//! ```text
//! question  version u8 · name · known u8 · { table uuid 16 · generation u64 · checksum u64 } ·
//!           chunks u32 · { uuid 16 }…: those that the asking machine has
//! answer    version u8 · kind u8: 0 there is no such table, 1 it is as known, 2 the following
//!           table's name · root · chunks u32 · { uuid 16 · bytes }…: those that it lacks
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::bytes::{Cursor, Writer};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::{Chunk, ChunkRef, Id, Root};
use crate::sql::run::parts::{Part, TableState, check_protocol, write_protocol};
use crate::sql::run::table::StoreTable;
use crate::store::Snapshot;

/// The longest root or chunk.
const MOST_BYTES: usize = 1 << 30;

/// A table of another machine: what its manifest says.
#[derive(Clone, Debug)]
pub(super) struct RemoteTable {
    pub(super) name: Box<str>,
    pub(super) state: TableState,
    pub(super) root: Root,
    pub(super) chunks: Vec<(ChunkRef, Arc<Chunk>)>,
}

/// What a machine answers.
pub(super) enum Answer {
    None,
    AsKnown,
    Changed(Box<RemoteTable>),
}

/// The state of a generation.
pub(super) fn state_of(root: &Root) -> TableState {
    let checksum = u64::from(crc32fast::hash(&root.encode()));
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

/// What this machine answers: `find` finds its own tables.
pub(super) fn answer(
    question: &[u8],
    find: impl Fn(&str) -> Result<Option<Arc<StoreTable>>>,
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
    if known == Some(state_of(root)) {
        out.u8(1);
        return Ok(out.into_vec());
    }
    out.u8(2);
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
    match from.u8()? {
        0 => return Ok(Answer::None),
        1 => return Ok(Answer::AsKnown),
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
    Ok(Answer::Changed(Box::new(RemoteTable { name, state, root, chunks })))
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
    Ok(StoreTable::of_parts(Snapshot::remote(&first.name, root, chunks), parts))
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
        "table {}: nodes {} and {} have different columns: {what}; make them the same with sty alter",
        one.name,
        node(one),
        node(other)
    )))
}

//! A partition that moves from one machine to another: `sty cluster move`. The rows of a table
//! without partitions are one whose path is empty.
//!
//! ```text
//! request   head's length u64 · head: version u8 · the table's name · the move's uuid 16 ·
//!           partition · name of the other machine · words u8…
//! answer    BEGUN: is there u8 · { an earlier move that has stopped }
//!   GO      MANIFEST: a transfer (`maintain/transfer`) · PIECE…: bytes of its segments, their hash
//!   MARK    DONE: the table is marked (`manifest/moving`)
//!   KEEP    DONE: it is marked no more, and has its rows
//!   DROP    DROPPED: the rows are gone, and the mark after them; generation u64
//! ```
//!
//! The machine that has the rows holds the writer's lock as long as the call lasts. The other one
//! takes them as those of a load (`storing`), and has the move in its ledger. At each instant, who
//! reads both machines counts the rows once ([`Moves`]):
//!
//! | the first machine | the other one | the rows count |
//! | --- | --- | --- |
//! | has them | lacks them | on the first |
//! | has them, and is marked | has the move in its ledger | on the other |
//! | has the move in its ledger | has it, too | on the other |
//!
//! Machines are not asked at one instant. If one of them knows of a move and the other does not,
//! that one is asked once more (`tables`): it may have been asked before the move.
//!
//! If whoever moves them stops after the mark, the same command goes on: it asks the other machine
//! whether it has the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::calls::{Answer, Answering, Asked, Asking, call};
use super::description::{ClusterDescription, Placement};
use super::nodes::Nodes;
use super::state::{
    Answer as Told, LEDGER, RemoteTable, STATE, ledger_question, question, read_answer,
    read_ledger_answer,
};
use super::storing::{Delivery, PIECE, STORE, pass};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::maintain::partitions::{edits_without_partition, is_within};
use crate::maintain::transfer::{Transfer, ledger_digest, pieces, root_for_others};
use crate::manifest::moving::{Moving, what_moves};
use crate::manifest::{Id, Root, layout};
use crate::sql::convert::listed;
use crate::sql::run::parts::{Node, check_protocol, write_protocol};
use crate::store::{Changes, LoadedSource, Snapshot, Store, Table, TableWriter};

/// Where a machine gives a partition away.
pub(in crate::sql) const MOVE: &str = "/sty.Node/Move";

/// How long a move is tried again while others write the table on the machine that gets the rows.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(150);

const GO: u8 = b'G';
const MARK: u8 = b'M';
const KEEP: u8 = b'K';
const DROP: u8 = b'D';

const BEGUN: u8 = 1;
const MANIFEST: u8 = 2;
const DONE: u8 = 4;
const DROPPED: u8 = 5;

/// How the paths of entries in a ledger begin that are moves and no files.
const MOVED_TO: &str = "moved to node ";
const MOVED_FROM: &str = "moved from node ";

/// A move that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The machine that had the rows.
    pub from: String,
    /// Rows that have moved.
    pub rows: u64,
    /// Their segments, and bytes of these.
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// The generation without them on the first machine.
    pub left: u64,
    /// Whether an earlier move had stopped, and this one has only finished it.
    pub was_begun: bool,
}

/// An entry of the ledger for a move.
fn entry(begin: &str, node: &str, moving: &Moving, rows: u64) -> LoadedSource {
    LoadedSource {
        path: format!("{begin}{node}: {}", moving.partition).into(),
        load: moving.id,
        rows,
        done: true,
        ..LoadedSource::default()
    }
}

/// The moves that the newest entries of a table's ledger name, and the other machine of each.
pub(super) fn named_moves(root: &Root) -> impl Iterator<Item = (Id, &str)> {
    root.ledger.recent.iter().filter_map(|source| {
        let path = source.path.strip_prefix(MOVED_TO);
        let (other, _) = path.or_else(|| source.path.strip_prefix(MOVED_FROM))?.split_once(": ")?;
        Some((source.load, other))
    })
}

/// The generation by which a table has got the rows of a move, by its entries of the ledger.
fn received(root: &Root, id: Id) -> Option<u64> {
    let is_it = |source: &&LoadedSource| source.load == id && source.path.starts_with(MOVED_FROM);
    root.ledger.recent.iter().find(is_it).map(|source| source.generation)
}

/// The generation by which a machine has got the rows of a move, by its whole ledger; once those
/// are done who write the table, if it `waits`.
pub(super) async fn has_received(
    nodes: &Nodes,
    node: &Node,
    table: &str,
    id: Id,
    waits: bool,
) -> Result<Option<u64>> {
    let answer = nodes.ask(node, LEDGER, ledger_question(table, waits)).await?;
    Ok(read_ledger_answer(&answer)?.and_then(|(_, root)| received(&root, id)))
}

/// Moves a partition, with those inside it, to another machine; from the only one that has it,
/// unless one is named. The empty one has the rows that are in no partition.
pub fn move_partition(
    description: ClusterDescription,
    table: &str,
    partition: &str,
    from: Option<&str>,
    to: &str,
    cancelled: &AtomicBool,
) -> Result<Moved> {
    let (placement, of_table) = description.placed(table);
    if placement != Placement::Spread {
        return Err(Error::Unsupported(format!(
            "each node has all rows of {table}: there is nothing to move"
        )));
    }
    let find = |name: &str| {
        let found = of_table.iter().find(|node| *node.name == *name).cloned();
        found.ok_or_else(|| {
            let names = listed(of_table.iter().map(|node| &*node.name));
            Error::NotFound(format!("{name} is none of the nodes of {table}: {names}"))
        })
    };
    let (to, from) = (find(to)?, from.map(find).transpose()?);
    let nodes = Nodes::new(description)?;
    let partition = partition.trim_matches('/');
    let mover = Mover { nodes: &nodes, table, partition, to: &to, cancelled };
    let from = match from {
        Some(from) => from,
        None => nodes.wait(mover.find(&of_table))??,
    };
    if from == to {
        let what = mover.what();
        return Err(Error::InvalidInput(format!("{what} is on node {} already", to.name)));
    }
    let begun = Instant::now();
    loop {
        match nodes.wait(mover.run(&from))? {
            // Whoever writes the table there may wait for the machine that we hold.
            Err(Error::Busy(_)) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            done => return done,
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
    }
}

/// A move that runs.
struct Mover<'m> {
    nodes: &'m Nodes,
    table: &'m str,
    partition: &'m str,
    to: &'m Arc<Node>,
    cancelled: &'m AtomicBool,
}

impl Mover<'_> {
    /// What moves.
    fn what(&self) -> String {
        what_moves(self.table, self.partition)
    }

    /// The machine that has the partition.
    async fn find(&self, of_table: &[Arc<Node>]) -> Result<Arc<Node>> {
        let asked =
            of_table.iter().map(|node| self.nodes.ask(node, STATE, question(self.table, None)));
        let mut have = Vec::new();
        for (node, answer) in of_table.iter().zip(join_all(asked).await) {
            let Told::Changed(table) = read_answer(&answer?, None)? else { continue };
            let is_it = |moving: &Moving| &*moving.partition == self.partition;
            if table.moving.as_ref().is_some_and(is_it) {
                // An earlier move has stopped.
                return Ok(Arc::clone(node));
            }
            if has_partition(*table, self.partition)? {
                have.push(node);
            }
        }
        match have[..] {
            [] => Err(Error::NotFound(format!(
                "no node has {what}; sty cluster status {table} lists the partitions",
                what = self.what(),
                table = self.table
            ))),
            [one] => Ok(Arc::clone(one)),
            ref several => Err(Error::InvalidInput(format!(
                "nodes {} have rows of {}; say which of them with --from",
                listed(several.iter().map(|node| &*node.name)),
                self.what()
            ))),
        }
    }

    async fn run(&self, from: &Arc<Node>) -> Result<Moved> {
        let moving = Moving {
            id: layout::new_id(),
            partition: self.partition.into(),
            to: (*self.to.name).into(),
        };
        let mut head = Writer::new();
        write_protocol(&mut head);
        head.blob(self.table.as_bytes());
        moving.write(&mut head);
        let (mut asking, answering) = call(self.nodes, from, MOVE);
        let (answer, sent) = futures::join!(answering, asking.put_head(head.into_vec()));
        let mut source = Source { asking, answer: answer? };
        let begun = source.answer.expect(BEGUN).await?;
        sent?;
        let mut begun = Cursor::new(&begun);
        if begun.u8()? > 0 {
            let before = Moving::read(&mut begun)?;
            if self.is_received(&before).await? {
                let left = source.drop().await?;
                if before.partition == moving.partition && before.to == moving.to {
                    let from = from.name.to_string();
                    let (rows, segments, bytes) = (0, 0, 0);
                    return Ok(Moved { from, rows, segments, bytes, left, was_begun: true });
                }
                if before.partition == moving.partition {
                    return Err(Error::InvalidInput(format!(
                        "an earlier move had taken {} to node {} and had stopped; that is finished \
                         now, and the same command moves it from there",
                        self.what(),
                        before.to
                    )));
                }
            } else {
                source.done(KEEP).await?;
            }
        }
        source.asking.put(&[GO][..]).await?;
        let transfer = source.answer.expect(MANIFEST).await?;
        let mut transfer = Cursor::new(&transfer);
        let mut transfer = Transfer::read(&mut transfer)?;
        let (rows, bytes) = (transfer.rows(), transfer.bytes());
        let segments = transfer.segments.len() as u64;
        let had = self.nodes.ask(self.to, LEDGER, ledger_question(self.table, false)).await?;
        let had = read_ledger_answer(&had)?.map(|(_, root)| root);
        if let Some(had) = &had {
            check_alike(had, &transfer.after, from, self.to, self.table)?;
            transfer.ledger = ledger_digest(&had.ledger.recent);
        }
        transfer.before = had.map(|root| root_for_others(&root, Vec::new()));
        transfer.after.ledger.recent = vec![entry(MOVED_FROM, &from.name, &moving, rows)];
        let no_wait = Some(Duration::ZERO);
        let what = transfer.encode();
        let begun = Delivery::begin(self.nodes, self.to, STORE, self.table, &what, no_wait);
        let mut delivery = begun.await?;
        let passed = pass(&mut source.answer, &mut delivery, bytes, self.cancelled).await;
        if let Err(error) = passed {
            delivery.break_off(&error).await;
            return Err(error);
        }
        delivery.arrived().await?;
        source.done(MARK).await?;
        // Whether or not the other machine says so: it may have the rows from now on.
        let stored = delivery.commit().await;
        if let Err(error) = stored {
            return Err(self.has_stopped(error));
        }
        let left = source.drop().await.map_err(|error| self.has_stopped(error))?;
        let from = from.name.to_string();
        Ok(Moved { from, rows, segments, bytes, left, was_begun: false })
    }

    /// Whether the other machine of a move that has stopped has got the rows.
    async fn is_received(&self, before: &Moving) -> Result<bool> {
        let of_name = |node: &&Arc<Node>| *node.name == *before.to;
        let node = self.nodes.description.nodes.iter().find(of_name).ok_or_else(|| {
            Error::NotFound(format!(
                "{} was on its way to node {}, which the file of the cluster does not name; if that \
                 is gone for good, remove the file MOVING in the table's directory: the rows are \
                 where they were",
                what_moves(self.table, &before.partition),
                before.to
            ))
        })?;
        let received = has_received(self.nodes, node, self.table, before.id, true).await?;
        Ok(received.is_some())
    }

    fn has_stopped(&self, error: Error) -> Error {
        let what = format!(
            "{error}; the move of {} has stopped in the middle, and no row is lost or counted \
             twice: the same command goes on with it",
            self.what()
        );
        match error {
            Error::Unreachable(_) => Error::Unreachable(what),
            _ => Error::InvalidInput(what),
        }
    }
}

/// The machine that gives a partition away.
struct Source {
    asking: Asking,
    answer: Answer,
}

impl Source {
    /// Has something done.
    async fn done(&mut self, word: u8) -> Result<()> {
        self.asking.put(vec![word]).await?;
        self.answer.expect(DONE).await.map(drop)
    }

    /// Has the rows dropped; the generation without them.
    async fn drop(&mut self) -> Result<u64> {
        self.asking.put(&[DROP][..]).await?;
        let dropped = self.answer.expect(DROPPED).await?;
        Cursor::new(&dropped).u64()
    }
}

fn has_partition(table: RemoteTable, partition: &str) -> Result<bool> {
    let snapshot = Snapshot::remote(&table.name, table.root, table.chunks);
    Ok(snapshot.segments()?.iter().any(|segment| is_within(&segment.partition, partition)))
}

/// Refuses machines whose tables differ in more than their rows.
fn check_alike(had: &Root, sent: &Root, from: &Node, to: &Node, table: &str) -> Result<()> {
    let what = match () {
        () if had.schema != sent.schema => "have different columns; sty alter makes them the same",
        () if had.arrangement != sent.arrangement => "are partitioned or sorted differently",
        () => return Ok(()),
    };
    Err(Error::InvalidInput(format!(
        "the tables {table} of nodes {} and {} {what}",
        from.name, to.name
    )))
}

/// Gives a partition of the store away.
pub(in crate::sql) fn give(store: &Store, request: &mut Asked, say: &mut Answering) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    check_protocol(&mut from)?;
    let table = store.table(from.text(limits::MAX_NAME_BYTES)?)?;
    let new = Moving::read(&mut from)?;
    from.finish()?;
    let mut writer = table.mover()?;
    let mut moving = table.moving()?;
    let mut begun = Writer::new();
    begun.u8(u8::from(moving.is_some()));
    moving.iter().for_each(|moving| moving.write(&mut begun));
    say.say(BEGUN, begun.as_slice())?;
    loop {
        match (request.word(), &moving) {
            (Some(GO), None) => {
                let snapshot = table.snapshot()?;
                let transfer = of_partition(&snapshot, &new.partition)?;
                say.say(MANIFEST, &transfer.encode())?;
                for piece in pieces(&snapshot, &transfer.segments, &AtomicBool::default()) {
                    say.say(PIECE, &piece?)?;
                }
            }
            (Some(MARK), None) => {
                table.mark_moving(&new)?;
                moving = Some(new.clone());
                say.say(DONE, &[])?;
            }
            (Some(KEEP), Some(_)) => {
                table.unmark_moving()?;
                moving = None;
                say.say(DONE, &[])?;
            }
            (Some(DROP), Some(of)) => {
                let generation = drop_moved(&table, &mut writer, of)?;
                table.unmark_moving()?;
                moving = None;
                say.say(DROPPED, &generation.to_le_bytes())?;
            }
            _ => return Ok(()),
        }
    }
}

/// The segments of a partition.
fn of_partition(snapshot: &Snapshot, partition: &str) -> Result<Transfer> {
    let (root, mut segments) = (snapshot.root(), Vec::new());
    for at in 0..root.chunks.len() {
        let Some(chunk) = snapshot.chunk(at)? else { continue };
        let all = chunk.segments_with_stats()?.into_iter();
        segments.extend(all.filter(|(segment, _)| is_within(&segment.partition, partition)));
    }
    if segments.is_empty() {
        let what = what_moves(snapshot.table_name(), partition);
        return Err(Error::NotFound(format!("there is no row of {what} here")));
    }
    let after = root_for_others(root, Vec::new());
    Ok(Transfer { before: None, ledger: ledger_digest(&[]), after, segments })
}

/// Drops what the other machine has. It may have been dropped before.
fn drop_moved(table: &Table, writer: &mut TableWriter, moving: &Moving) -> Result<u64> {
    let (edits, rows) = edits_without_partition(&writer.segments()?, &moving.partition);
    let is_dropped = writer.sources()?.iter().any(|source| source.load == moving.id);
    if is_dropped && let Some(generation) = table.generation()? {
        return Ok(generation);
    }
    let sources = vec![entry(MOVED_TO, &moving.to, moving, rows)];
    let changes = Changes { edits, sources, ..writer.changes() };
    Ok(writer.commit_changes(changes)?.generation)
}

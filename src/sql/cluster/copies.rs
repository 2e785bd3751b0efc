//! Tables in copies: each machine has all rows, in the same files. How a copy becomes what another
//! one is (`sty cluster copy`), and how a load comes to all of them.
//!
//! ```text
//! request   head's length u64 · head: version u8 · the table's name · a replica
//!           (`maintain/replica`): the generation that is to be in force, and the files that are
//!           asked for
//! answer    PIECE…: their bytes, and their hash
//! ```
//!
//! A load over several machines makes segments in a table of its own (`loads`). Of a table in
//! copies, that one has the manifest which the copies have, so that its next generation can be
//! theirs: the new files go to all machines, and each puts the same root in force. If something
//! stops between two of these commits, the copies differ, which statements refuse; the next load,
//! or `sty cluster copy`, brings those up that are behind.
//!
//! **No copy loses what others lack.** A copy becomes a newer generation only if that one came from
//! it: a load has written the generation of the copies, and its checksum, into its ledger, or the
//! machine with the newer generation still keeps that of the copy.
//!
//! ```text
//! loaded into copies of generation N with checksum C
//! ```

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::future::join_all;

use super::calls::{Answer as Streamed, Answering, Asked, call};
use super::description::{ClusterDescription, Placement};
use super::nodes::Nodes;
use super::state::{
    Answer, LEDGER, RemoteTable, STATE, ledger_question, question, read_answer, read_ledger_answer,
};
use super::storing::{
    BECOME, Delivery, NodeStored, Outcomes, PIECE, check_done, commit_all, pass, send,
};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::maintain::replica::{Replica, bytes_of, state_of};
use crate::manifest::{Id, layout};
use crate::model::Schema;
use crate::sql::convert::listed;
use crate::sql::run::parts::{Node, TableState, check_protocol, write_protocol};
use crate::store::{LoadedSource, SegmentEntry, Snapshot, Store, Table, TableOptions, TableWriter};

/// Where a machine gives files of a table.
pub(in crate::sql) const GIVE: &str = "/sty.Node/Give";

/// How often machines whose states of a table differ are asked again, and after which pause: a
/// commit on all of them may have come between two answers.
pub(super) const LOOKS: usize = 15;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A copy that has become what another one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The machine that has it.
    pub node: String,
    /// The machine that it came from.
    pub from: String,
    /// The generation.
    pub generation: u64,
    /// Files that it lacked.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Brings the copies of a table to the newest generation among them, or to that of the machine
/// `from`: all of them, or the one on the machine `to`. With `force`, it replaces a copy even where
/// the generation may not have come from it.
pub fn copy_table(
    description: ClusterDescription,
    table: &str,
    from: Option<&str>,
    to: Option<&str>,
    force: bool,
    cancelled: &AtomicBool,
) -> Result<Vec<Copied>> {
    let (placement, of_table) = description.placed(table);
    if placement != Placement::Copies {
        return Err(Error::Unsupported(format!(
            "{table} is not in copies, by the file of the cluster: [tables.{table}] placement = \
             \"copies\""
        )));
    }
    let is_known = |name: &str| of_table.iter().any(|node| *node.name == *name);
    if let Some(other) = from.into_iter().chain(to).find(|name| !is_known(name)) {
        let names = listed(of_table.iter().map(|node| &*node.name));
        return Err(Error::NotFound(format!("{other} is none of the nodes of {table}: {names}")));
    }
    // Of two machines that are named, no other one needs to answer.
    let is_asked = |node: &Arc<Node>| match (from, to) {
        (Some(from), Some(to)) => [from, to].contains(&&*node.name),
        _ => true,
    };
    let asked = of_table.into_iter().filter(is_asked).collect();
    let nodes = Nodes::new(description)?;
    nodes.wait(async {
        let copies = Copies::hear(&nodes, asked, table).await?;
        let way = Way { from, to, force };
        copies.bring_up(&nodes, &way, cancelled).await
    })?
}

/// Which copies become what which one is: all of them what the newest one is, unless it says
/// otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way<'w> {
    from: Option<&'w str>,
    to: Option<&'w str>,
    force: bool,
}

/// The copies of a table, as their machines have them.
#[derive(Debug)]
pub(super) struct Copies {
    /// The name that the table has, or is to have.
    pub(super) table: String,
    known: Vec<(Arc<Node>, Option<RemoteTable>)>,
}

impl Copies {
    /// Asks machines for their copies, again and again for a moment if these differ.
    pub(super) async fn hear(nodes: &Nodes, of: Vec<Arc<Node>>, table: &str) -> Result<Copies> {
        for _ in 0..LOOKS {
            let copies = Copies::hear_once(nodes, of.clone(), table).await?;
            let known = || copies.known.iter().filter_map(|(_, table)| table.as_ref());
            let differ = |it: &RemoteTable| known().any(|other| other.state != it.state);
            if !known().any(differ) {
                return Ok(copies);
            }
            nodes.pause(PAUSE).await;
        }
        Copies::hear_once(nodes, of, table).await
    }

    async fn hear_once(nodes: &Nodes, mut of: Vec<Arc<Node>>, table: &str) -> Result<Copies> {
        // Two commands begin to write in the same order, and do not wait for each other.
        of.sort_by(|one, other| one.name.cmp(&other.name));
        let asked = of.iter().map(|node| nodes.ask(node, STATE, question(table, None)));
        let answers = join_all(asked).await;
        let mut copies = Copies { table: table.to_owned(), known: Vec::new() };
        for (node, answer) in of.into_iter().zip(answers) {
            let known = match read_answer(&answer?, None)? {
                Answer::Changed(table) => Some(*table),
                // The question knew of no table.
                Answer::None | Answer::AsKnown(_) => None,
            };
            known.iter().for_each(|known| copies.table = known.name.to_string());
            copies.known.push((node, known));
        }
        Ok(copies)
    }

    /// The newest generation, and a machine that has it; none if nobody has the table.
    pub(super) fn newest(&self) -> Option<(&Arc<Node>, &RemoteTable)> {
        let there = self.known.iter().filter_map(|(node, table)| Some((node, table.as_ref()?)));
        there.max_by_key(|(_, table)| table.state.generation)
    }

    /// The machines whose copies are not what another one is.
    pub(super) fn behind(&self) -> Vec<&str> {
        let newest = self.newest().map(|(_, table)| table.state);
        let differ = self.known.iter().filter(|(_, it)| it.as_ref().map(|it| it.state) != newest);
        differ.map(|(node, _)| &*node.name).collect()
    }

    /// Makes copies what another one is. All have their files before the first one is put in force.
    pub(super) async fn bring_up(
        &self,
        nodes: &Nodes,
        way: &Way<'_>,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Copied>> {
        let source = match way.from {
            None => self.newest(),
            Some(from) => {
                let of_name = self.known.iter().find(|(node, _)| *node.name == *from);
                of_name.and_then(|(node, table)| Some((node, table.as_ref()?)))
            }
        };
        let (from, source) = source.ok_or_else(|| {
            let nodes = self.known.iter().map(|(node, _)| &*node.name);
            let names = way.from.map_or_else(|| listed(nodes), str::to_owned);
            Error::NotFound(format!("there is no table {} on the nodes {names}", self.table))
        })?;
        let segments = segments_of(source)?;
        let mut lacking = Vec::new();
        for (node, had) in &self.known {
            let is_meant = way.to.is_none_or(|to| *node.name == *to);
            if !is_meant || had.as_ref().is_some_and(|had| had.state == source.state) {
                continue;
            }
            let replica = match had {
                None => Replica::new(None, &source.root, &segments),
                Some(had) => {
                    let of_copy = segments_of(had)?;
                    self.check(nodes, (node, had), (from, source), way.force).await?;
                    Replica::new(Some((&had.root, &of_copy)), &source.root, &segments)
                }
            };
            lacking.push((node, replica));
        }
        let mut begun = Vec::new();
        for (node, replica) in lacking {
            let given = self.ask_for(nodes, from, &replica).await?;
            let delivery = self.begin(nodes, node, &replica, Some(Duration::ZERO)).await?;
            begun.push((given, delivery, replica));
        }
        let arrived = begun.into_iter().map(|(mut given, mut delivery, replica)| async move {
            let passed = pass(&mut given, &mut delivery, replica.bytes(), cancelled).await;
            if let Err(error) = passed {
                delivery.break_off(&error).await;
                return Err(error);
            }
            delivery.arrived().await?;
            Ok((delivery, replica))
        });
        let arrived = join_all(arrived).await.into_iter().collect::<Result<Vec<_>>>()?;
        let (sent, replicas): (Vec<_>, Vec<_>) = arrived.into_iter().unzip();
        let generations = commit_all(sent).await;
        let then = "the same command goes on with the others";
        check_done(&generations, "the new generation", then)?;
        let copied = generations.into_iter().zip(replicas).map(|((node, generation), replica)| {
            let (from, generation) = (from.name.to_string(), generation?);
            let (files, bytes) = (replica.files.len() as u64, replica.bytes());
            Ok(Copied { node, from, generation, files, bytes })
        });
        copied.collect()
    }

    /// Refuses a copy from which the generation did not come that it is to become.
    async fn check(
        &self,
        nodes: &Nodes,
        (node, had): (&Arc<Node>, &RemoteTable),
        (from, source): (&Arc<Node>, &RemoteTable),
        is_allowed: bool,
    ) -> Result<()> {
        let (old, new) = (had.state.generation, source.state.generation);
        let (table, node, name) = (&self.table, &node.name, &from.name);
        if had.state.table != source.state.table {
            return Err(Error::InvalidInput(format!(
                "the tables {table} of nodes {node} and {name} are not copies of each other: each \
                 was made by itself; drop the one on node {node}, while that is stopped, to get a \
                 copy of the other"
            )));
        }
        if old > new {
            return Err(Error::InvalidInput(format!(
                "node {node} has generation {old} of {table}, and node {name} an older one, {new}: \
                 copies do not become older ones"
            )));
        }
        if old == new {
            return Err(Error::InvalidInput(format!(
                "nodes {node} and {name} have each written their copy of {table}, and have different \
                 generations {new}; drop the one that is not to be kept, while its node is stopped"
            )));
        }
        if is_allowed {
            return Ok(());
        }
        let of_load = path_of_load(&had.state);
        let is_of_load = |source: &LoadedSource| *source.path == *of_load;
        if ledger(nodes, from, table).await?.iter().any(is_of_load) {
            return Ok(());
        }
        let older = question(&format!("{table}@{old}"), None);
        match nodes.ask(from, STATE, older).await.and_then(|answer| read_answer(&answer, None)) {
            Ok(Answer::Changed(older)) if older.state == had.state => Ok(()),
            Ok(_) | Err(Error::NotFound(_)) => Err(Error::InvalidInput(format!(
                "generation {new} of {table} on node {name} may not have come from generation {old}, \
                 which node {node} has, and node {name} does not have that one any more: if node \
                 {name} is right, sty cluster copy {table} --from {name} --to {node} --force"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Asks a machine for the files of a replica.
    async fn ask_for(
        &self,
        nodes: &Nodes,
        from: &Arc<Node>,
        replica: &Replica,
    ) -> Result<Streamed> {
        let mut head = Writer::new();
        write_protocol(&mut head);
        head.blob(self.table.as_bytes());
        replica.write(&mut head);
        let (mut asking, answering) = call(nodes, from, GIVE);
        let (answer, sent) = futures::join!(answering, asking.put_head(head.into_vec()));
        let answer = answer?;
        // If it was not sent, the answer says why.
        drop(sent);
        Ok(answer)
    }

    async fn begin(
        &self,
        nodes: &Nodes,
        node: &Arc<Node>,
        replica: &Replica,
        wait: Option<Duration>,
    ) -> Result<Delivery> {
        let mut what = Writer::new();
        replica.write(&mut what);
        Delivery::begin(nodes, node, BECOME, &self.table, what.as_slice(), wait).await
    }

    /// The sources of the load that the newest copy has and others may lack. There is one at most:
    /// a load begins with copies that are the same.
    pub(super) async fn newest_sources(&self, nodes: &Nodes) -> Result<Vec<LoadedSource>> {
        let Some((node, newest)) = self.newest() else { return Ok(Vec::new()) };
        let mut sources = ledger(nodes, node, &self.table).await?;
        sources.retain(|source| source.generation == newest.state.generation && source.done);
        Ok(sources)
    }

    /// Makes a table that has the manifest of the copies, which are the same, and none of their
    /// segments; or a `new` one with these columns and options, if there are no copies. Returns its
    /// generation, too.
    pub(super) fn stage(
        &self,
        nodes: &Nodes,
        staged: &Table,
        new: (Schema, TableOptions),
    ) -> Result<(TableWriter, u64)> {
        let Some((from, newest)) = self.newest() else {
            return Ok((staged.writer(Some(new))?, 0));
        };
        let manifest = Replica::new(None, &newest.root, &[]);
        let bytes = nodes.wait(async {
            let mut given = self.ask_for(nodes, from, &manifest).await?;
            let all = manifest.bytes().saturating_add(size_of::<Id>() as u64);
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < all {
                bytes.extend_from_slice(&given.expect(PIECE).await?);
            }
            Ok::<_, Error>(bytes)
        })??;
        let mut writer = manifest.open(staged)?;
        manifest.arrive(&writer, &mut &bytes[..])?;
        writer.adopt(manifest.after)?;
        writer.leave_segments_out(entry_of_load(&newest.state));
        Ok((writer, newest.state.generation))
    }

    /// Makes a table that is a copy of the newest one, with all its segments; `None` if there is no
    /// table. The next commit notes from which generation it came.
    pub(super) fn fetch(
        &self,
        nodes: &Nodes,
        staged: &Table,
        cancelled: &AtomicBool,
    ) -> Result<Option<TableWriter>> {
        let Some((from, newest)) = self.newest() else { return Ok(None) };
        let replica = Replica::new(None, &newest.root, &segments_of(newest)?);
        let answer = nodes.wait(self.ask_for(nodes, from, &replica))??;
        let mut bytes = Given { nodes, answer, came: Bytes::new(), cancelled };
        let mut writer = replica.open(staged)?;
        replica.arrive(&writer, &mut bytes)?;
        writer.adopt(replica.after)?;
        writer.leave_segments_out(entry_of_load(&newest.state));
        Ok(Some(writer))
    }

    /// Has all copies become the newest generation of a table that [`Copies::stage`] has made: for
    /// each machine its generation, or why not; and what each of them has stored.
    pub(super) fn store(
        &self,
        nodes: &Nodes,
        staged: &Table,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
    ) -> Result<(Outcomes, NodeStored)> {
        let snapshot = staged.snapshot()?;
        let (root, segments) = (snapshot.root(), snapshot.segments()?);
        let newest = self.newest().map(|(_, table)| table);
        let of_copies = newest.map(segments_of).transpose()?;
        let before = newest.map(|table| &table.root).zip(of_copies.as_deref().map(Vec::as_slice));
        let replica = Replica::new(before, root, &segments);
        let (old, had) = before.map_or((0, &[][..]), |(root, had)| (root.rows, had));
        let had: HashSet<Id> = had.iter().map(|segment| segment.file).collect();
        let new = || segments.iter().filter(|segment| !had.contains(&segment.file));
        let stored = NodeStored {
            rows: root.rows.saturating_sub(old),
            segments: new().count() as u64,
            bytes: new().map(|segment| segment.length).sum(),
            ..NodeStored::default()
        };
        let sent = nodes.wait_unless(cancelled, async {
            let mut begun = Vec::new();
            for (node, _) in &self.known {
                begun.push(self.begin(nodes, node, &replica, wait).await?);
            }
            let files = &replica.files;
            let sending = begun.into_iter().map(|it| send(it, bytes_of(staged, files, cancelled)));
            join_all(sending).await.into_iter().collect::<Result<Vec<_>>>()
        })?;
        Ok((nodes.wait(commit_all(sent))?, stored))
    }
}

fn segments_of(table: &RemoteTable) -> Result<Arc<Vec<SegmentEntry>>> {
    Snapshot::remote(&table.name, table.root.clone(), table.chunks.clone()).segments()
}

/// The ledger of a machine's copy.
async fn ledger(nodes: &Nodes, node: &Node, table: &str) -> Result<Vec<LoadedSource>> {
    let answer = nodes.ask(node, LEDGER, ledger_question(table, false)).await?;
    let root = read_ledger_answer(&answer)?.map(|(_, root)| root);
    Ok(root.map(|root| root.ledger.recent).unwrap_or_default())
}

/// The bytes of files that a machine gives, for who reads them on a thread that may wait.
struct Given<'n> {
    nodes: &'n Nodes,
    answer: Streamed,
    came: Bytes,
    cancelled: &'n AtomicBool,
}

impl Read for Given<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.came.is_empty() {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other(Error::Cancelled));
            }
            let piece = self.nodes.wait(self.answer.expect(PIECE)).map_err(io::Error::other)?;
            self.came = piece.map_err(io::Error::other)?;
        }
        let count = buffer.len().min(self.came.len());
        self.came.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// The entry in the ledger of what is made of copies of a state.
fn entry_of_load(state: &TableState) -> LoadedSource {
    let (path, load) = (path_of_load(state).into(), layout::new_id());
    LoadedSource { path, load, done: true, ..LoadedSource::default() }
}

/// The path of that entry.
fn path_of_load(state: &TableState) -> String {
    let TableState { generation, checksum, .. } = state;
    format!("loaded into copies of generation {generation} with checksum {checksum:x}")
}

/// Gives files of a table of the store.
pub(in crate::sql) fn give_files(
    store: &Store,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    check_protocol(&mut from)?;
    let table = store.table(from.text(limits::MAX_NAME_BYTES)?)?;
    let replica = Replica::read(&mut from)?;
    from.finish()?;
    // Its files stay as long as it is held.
    let snapshot = table.snapshot()?;
    if state_of(snapshot.root()) != state_of(&replica.after) {
        let what = format!("table {} was written in the meantime; try again", table.name());
        return Err(Error::InvalidInput(what));
    }
    for piece in bytes_of(&table, &replica.files, &AtomicBool::default()) {
        say.say(PIECE, &piece?)?;
    }
    Ok(())
}

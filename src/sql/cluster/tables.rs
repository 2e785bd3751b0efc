//! What names mean in a cluster: the machines that have a table are asked for its state, each time
//! that a statement names it. Manifests come once, and then what is new of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::copies::{LOOKS, PAUSE};
use super::description::Placement;
use super::moves::{has_received, named_moves};
use super::nodes::Nodes;
use super::state::{
    Answer, NAMES, RemoteTable, STATE, names_question, question, read_answer, read_names, united,
};
use crate::error::{Error, Result};
use crate::manifest::Id;
use crate::sql::convert::listed;
use crate::sql::names::lock;
use crate::sql::run::parts::{Node, Part, Share};
use crate::sql::run::table::StoreTable;

/// A machine that takes longer than this to say that it cannot be reached is not asked by
/// statements any more, until a look finds it again: none waits for it then.
const SLOW: Duration = Duration::from_millis(100);
/// How long it is until the next look.
const LOOK: Duration = Duration::from_millis(200);
/// How long a list of names waits for machines, and how long it holds.
const LISTING: Duration = Duration::from_secs(1);
const STILL_LISTED: Duration = Duration::from_millis(200);
/// How many moves one after the other a statement waits for.
const MOST_MOVES: usize = 32;

/// The names of a machine and of a table.
type TableOfNode = (Box<str>, String);

/// What sessions over a cluster share.
#[derive(Debug)]
pub(in crate::sql) struct ClusterTables {
    nodes: Arc<Nodes>,
    /// What machines have said last, by machine and table.
    heard: Mutex<HashMap<TableOfNode, Arc<RemoteTable>>>,
    /// Tables by name, as long as their parts stay the same.
    made: Mutex<HashMap<String, Arc<StoreTable>>>,
    /// Which of several copies is asked next.
    turn: AtomicUsize,
    /// Machines that statements do not ask, and what was said of them.
    lost: Arc<Mutex<HashMap<Box<str>, String>>>,
    /// Moves of partitions that are over: the machine whose newest entries of the ledger do not
    /// name them was asked after them.
    settled: Mutex<HashSet<Id>>,
    /// The names of tables, and when they were asked for.
    listed: Mutex<Option<(Instant, Vec<String>)>>,
}

/// A table of one machine, or why it is not known.
type Heard = (Arc<Node>, Result<Option<Arc<RemoteTable>>>);

impl ClusterTables {
    pub(in crate::sql) fn new(nodes: Arc<Nodes>) -> ClusterTables {
        ClusterTables {
            nodes,
            heard: Mutex::default(),
            made: Mutex::default(),
            turn: AtomicUsize::new(0),
            lost: Arc::default(),
            settled: Mutex::default(),
            listed: Mutex::default(),
        }
    }

    /// The machines.
    pub(in crate::sql) fn nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.nodes)
    }

    /// The names of the tables that the description of the cluster has, and of those that machines
    /// have which answer soon.
    pub(in crate::sql) fn names(&self) -> Vec<String> {
        if let Some((since, names)) = &*lock(&self.listed)
            && since.elapsed() < STILL_LISTED
        {
            return names.clone();
        }
        let lost: HashSet<Box<str>> = lock(&self.lost).keys().cloned().collect();
        let (tell, told) = mpsc::channel();
        for node in self.nodes.description.nodes.iter().filter(|it| !lost.contains(&it.name)) {
            let (nodes, node, tell) = (Arc::clone(&self.nodes), Arc::clone(node), tell.clone());
            self.nodes.spawn(async move {
                let asked = nodes.ask(&node, NAMES, names_question());
                if let Ok(Ok(answer)) = tokio::time::timeout(LISTING, asked).await {
                    let _ = tell.send(read_names(&answer).unwrap_or_default());
                }
            });
        }
        // It ends when all have answered or failed.
        drop(tell);
        let mut names = BTreeSet::from_iter(self.nodes.description.tables.keys().cloned());
        let begun = Instant::now();
        while let Ok(told) = told.recv_timeout(LISTING.saturating_sub(begun.elapsed())) {
            names.extend(told);
        }
        let names = Vec::from_iter(names);
        *lock(&self.listed) = Some((Instant::now(), names.clone()));
        names
    }

    /// The names of all machines, as messages list them.
    pub(in crate::sql) fn node_names(&self) -> String {
        listed(self.nodes.description.nodes.iter().map(|node| &*node.name))
    }

    /// The table of a name. With `partial`, machines that do not answer are left out, and it is
    /// called with a note for each of them.
    pub(in crate::sql) async fn find(
        &self,
        name: &str,
        partial: Option<&(dyn Fn(String) + Sync)>,
    ) -> Result<Option<Arc<StoreTable>>> {
        let (placement, nodes) = self.nodes.description.placed(name);
        let mut heard = self.hear_all(&nodes, name).await;
        if placement != Placement::Spread {
            for _ in 0..LOOKS {
                if are_same(&heard) {
                    break;
                }
                self.nodes.pause(PAUSE).await;
                heard = self.hear_all(&nodes, name).await;
            }
        }
        let part = |node: Arc<Node>, table: Arc<RemoteTable>, share| {
            let (state, copies) = (table.state, Arc::default());
            (Part { node, state, share, without: None, copies }, table)
        };
        let parts: Parts = match placement {
            Placement::Spread => {
                let moved = self.after_moves(name, &mut heard).await?;
                spread(name, heard, moved, partial)?
            }
            Placement::Shared => {
                let same = same_everywhere(name, heard, "")?;
                let of = u32::try_from(same.len()).unwrap_or(u32::MAX);
                let shared = (0..).zip(same).map(|(number, (node, table))| {
                    part(node, table, (of > 1).then_some(Share { number, of }))
                });
                shared.collect()
            }
            Placement::Copies => {
                let then = format!(": sty cluster copy {name} makes them the same");
                let mut same = same_everywhere(name, heard, &then)?;
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let copies: Arc<[_]> = same.iter().map(|(node, _)| Arc::clone(node)).collect();
                let chosen = turn.checked_rem(same.len()).map(|at| same.swap_remove(at));
                let chosen = chosen.map(|(node, table)| part(node, table, None));
                let of_all = |(part, table)| (Part { copies, ..part }, table);
                chosen.map(of_all).into_iter().collect()
            }
        };
        match parts.len() {
            0 => Ok(None),
            2.. if is_older(name) && placement == Placement::Spread => {
                Err(Error::Unsupported(format!(
                    "{name}: each node has generations of its own, which were never one table; ask \
                     the store of a node"
                )))
            }
            _ => self.table(name, parts).map(Some),
        }
    }

    /// Sees to it that rows which move between machines count once (`moves`): asks machines again
    /// that were asked before they had them. Returns the partitions that do not count on a machine,
    /// by its name: another one has them, and they are still there.
    async fn after_moves(
        &self,
        name: &str,
        heard: &mut [Heard],
    ) -> Result<HashMap<Box<str>, Arc<str>>> {
        let (mut asked, mut moved) = (HashSet::new(), HashMap::new());
        for _ in 0..MOST_MOVES {
            let mut again: Vec<Box<str>> = Vec::new();
            let all =
                || heard.iter().filter_map(|(node, it)| Some((node, it.as_ref().ok()?.as_ref()?)));
            let of_name = |name: &str| all().find(|(node, _)| *node.name == *name);
            for (node, table) in all() {
                // Of two machines, the one that does not know of a move may have been asked before
                // it.
                for (id, other) in named_moves(&table.root) {
                    let knows = of_name(other).is_none_or(|(_, other)| other.knows(id));
                    if !knows && !lock(&self.settled).contains(&id) && asked.insert(id) {
                        again.push(other.into());
                    }
                }
                if let Some(moving) = &table.moving
                    && let Some((to, it)) = of_name(&moving.to)
                    && let Some(since) =
                        has_received(&self.nodes, to, name, moving.id, false).await?
                {
                    moved.insert(node.name.clone(), Arc::clone(&moving.partition));
                    if it.state.generation < since {
                        again.push(to.name.clone());
                    }
                }
            }
            if again.is_empty() {
                lock(&self.settled).extend(asked);
                return Ok(moved);
            }
            for (node, heard) in heard.iter_mut().filter(|(node, _)| again.contains(&node.name)) {
                *heard = self.hear(node, name).await;
            }
            moved.clear();
        }
        Err(Error::Busy(format!("partitions of {name} move faster than nodes can be asked")))
    }

    /// The table of some parts: the same as before, if they are.
    fn table(&self, name: &str, parts: Parts) -> Result<Arc<StoreTable>> {
        let wanted: Vec<Part> = parts.iter().map(|(part, _)| part.clone()).collect();
        let known = lock(&self.made).get(name).cloned();
        if let Some(known) = known.filter(|known| known.parts().is_some_and(|it| **it == *wanted)) {
            return Ok(known);
        }
        let mut tables: Vec<&RemoteTable> = Vec::new();
        for (part, table) in &parts {
            if part.share.is_none_or(|share| share.number == 0) {
                tables.push(table);
            }
        }
        let made = Arc::new(united(&tables, wanted)?);
        if !is_older(name) {
            lock(&self.made).insert(name.to_owned(), Arc::clone(&made));
        }
        Ok(made)
    }

    async fn hear_all(&self, nodes: &[Arc<Node>], name: &str) -> Vec<Heard> {
        let all = nodes.iter().map(|node| async {
            let heard = self.hear(node, name).await;
            (Arc::clone(node), heard)
        });
        join_all(all).await
    }

    /// Leaves a machine out until it answers again.
    fn look_for(&self, node: &Arc<Node>, what: &str) {
        if lock(&self.lost).insert(node.name.clone(), what.to_owned()).is_some() {
            return;
        }
        let (nodes, lost) = (Arc::downgrade(&self.nodes), Arc::clone(&self.lost));
        let node = Arc::clone(node);
        self.nodes.spawn(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(nodes) = nodes.upgrade() else { return };
                let answer = nodes.ask(&node, STATE, question("", None)).await;
                if !matches!(answer, Err(Error::Unreachable(_))) {
                    break;
                }
            }
            lock(&lost).remove(&node.name);
        });
    }

    /// What a machine says of a table.
    async fn hear(&self, node: &Arc<Node>, name: &str) -> Result<Option<Arc<RemoteTable>>> {
        let key = (node.name.clone(), name.to_owned());
        let known = lock(&self.heard).get(&key).cloned();
        if let Some(what) = lock(&self.lost).get(&node.name) {
            return Err(Error::Unreachable(what.clone()));
        }
        let (question, begun) = (question(name, known.as_deref()), Instant::now());
        let answer = self.nodes.ask(node, STATE, question).await;
        if let Err(Error::Unreachable(what)) = &answer
            && begun.elapsed() > SLOW
        {
            self.look_for(node, what);
        }
        let answer = answer?;
        match read_answer(&answer, known.as_deref())? {
            Answer::None => Ok(None),
            Answer::AsKnown(moving) => match known {
                Some(known) if known.moving != moving => {
                    let table = Arc::new(RemoteTable { moving, ..(*known).clone() });
                    lock(&self.heard).insert(key, Arc::clone(&table));
                    Ok(Some(table))
                }
                known => Ok(known),
            },
            Answer::Changed(table) => {
                let table = Arc::<RemoteTable>::from(table);
                if !is_older(name) {
                    lock(&self.heard).insert(key, Arc::clone(&table));
                }
                Ok(Some(table))
            }
        }
    }
}

/// Parts, and what is known of each.
type Parts = Vec<(Part, Arc<RemoteTable>)>;

/// Whether a name means a generation: there may be any number of such names.
fn is_older(name: &str) -> bool {
    name.rsplit_once('@').is_some_and(|(_, it)| it.parse::<u64>().is_ok())
}

/// The parts of a table of which each machine has rows of its own.
fn spread(
    name: &str,
    heard: Vec<Heard>,
    mut moved: HashMap<Box<str>, Arc<str>>,
    partial: Option<&(dyn Fn(String) + Sync)>,
) -> Result<Parts> {
    let (mut parts, mut without, mut left_out) = (Parts::new(), Vec::new(), None);
    for (node, heard) in heard {
        match (heard, partial) {
            (Ok(Some(table)), _) => {
                let (state, without) = (table.state, moved.remove(&node.name));
                let copies = Arc::default();
                parts.push((Part { node, state, share: None, without, copies }, table));
            }
            (Ok(None), _) => without.push(node),
            (Err(error @ Error::Unreachable(_)), Some(note)) => {
                note(format!("the answer leaves out rows of {name}: {error}"));
                left_out = Some(error);
            }
            (Err(error), _) => return Err(error),
        }
    }
    // Without any machine, nothing is known of the table.
    if let Some(error) = left_out.filter(|_| parts.is_empty()) {
        return Err(error);
    }
    for (at, (part, table)) in parts.iter().enumerate() {
        let node = &part.node;
        let is_same = |(it, _): &&(Part, _)| it.state == part.state;
        let same = parts.iter().take(at).find(is_same).filter(|_| table.root.rows > 0);
        if let Some((Part { node: other, .. }, _)) = same {
            return Err(Error::InvalidInput(format!(
                "nodes {} and {} have the same rows of {name}, which would count twice: if they are \
                 copies, say so in the file of the cluster: [tables.{name}] placement = \"copies\"",
                other.name, node.name
            )));
        }
    }
    match without.first().filter(|_| !parts.is_empty()) {
        None => Ok(parts),
        Some(node) => Err(Error::NotFound(format!(
            "node {} has no table {name}, and others have; name those that have it in the file of \
             the cluster: [tables.{name}] nodes = […]",
            node.name
        ))),
    }
}

/// Whether all machines that say something of a table have the same generation of it, or different
/// tables, which stay so.
fn are_same(heard: &[Heard]) -> bool {
    let known = || heard.iter().filter_map(|(_, heard)| heard.as_ref().ok()?.as_ref());
    let Some(first) = known().next() else { return true };
    known().all(|it| it.state == first.state || it.state.table != first.state.table)
}

/// The machines that have a table, which must be the same on all. Those that do not answer are left
/// out, as long as one does. `then` says what to do if the machines differ.
fn same_everywhere(
    name: &str,
    heard: Vec<Heard>,
    then: &str,
) -> Result<Vec<(Arc<Node>, Arc<RemoteTable>)>> {
    let (mut same, mut failure) = (Vec::<(Arc<Node>, Arc<RemoteTable>)>::new(), None);
    for (node, heard) in heard {
        let table = match heard {
            Ok(Some(table)) => table,
            Ok(None) => continue,
            Err(error @ Error::Unreachable(_)) => {
                failure.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some((first, of_first)) = same.first()
            && of_first.state != table.state
        {
            return Err(Error::InvalidInput(format!(
                "table {name} is not the same on all nodes: {} has generation {}, and {} has \
                 {}{}{then}",
                first.name,
                of_first.state.generation,
                node.name,
                table.state.generation,
                match () {
                    () if of_first.state.table != table.state.table => " of another table",
                    () if of_first.state.generation == table.state.generation =>
                        ", with other rows",
                    () => "",
                }
            )));
        }
        same.push((node, table));
    }
    match failure.filter(|_| same.is_empty()) {
        Some(failure) => Err(failure),
        None => Ok(same),
    }
}

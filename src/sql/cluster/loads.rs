//! A load whose rows go to the machines of a cluster: `sty ingest --cluster`.
//!
//! Where this stands on the road of a byte: the load runs as on one machine, into a table of its
//! own in a temporary store (`ingest/load`), which has the columns and the ledger of the cluster's
//! table and none of its rows. What comes out are segments, which are divided among the machines
//! (`placing`) and sent to them (`storing`). All machines have everything before the first of them
//! commits; each commits once, with the same columns and the same entries of the ledger.
//!
//! **A load that stops between two of these commits is finished by the same command.** Its
//! identifier is in the ledger of the machines that have it, with a mark of how rows were placed.
//! Reading the same files once more gives the same segments, and those of the machines that lack
//! them are sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::join_all;
use tempfile::TempDir;

use super::description::{ClusterDescription, PlacedTable, Placement};
use super::nodes::Nodes;
use super::placing::{Placing, is_of_cluster};
use super::state::{LEDGER, ledger_question, read_ledger_answer};
use super::storing::{Delivery, deliver};
use crate::error::{Error, Result};
use crate::ingest::load::{LoadOptions, pipeline_options};
use crate::ingest::loaded::identity;
use crate::ingest::sources::Input;
use crate::maintain::transfer::{Transfer, pieces, root_for_others};
use crate::manifest::{Id, Root, layout};
use crate::model::Schema;
use crate::sql::convert::listed;
use crate::store::{Changes, LoadedSource, Store, Table, TableOptions, TableWriter, check_name};

/// A load into a table of a cluster.
#[derive(Debug)]
pub struct ClusterLoad {
    nodes: Nodes,
    table: String,
    placing: Placing,
    /// What each machine has of the table: its columns and its whole ledger.
    known: Vec<Option<Root>>,
    staging: TempDir,
    /// How often rows were staged.
    staged: u64,
    /// Files of stopped loads that this one has finished.
    finished: HashSet<Arc<str>>,
}

/// A part of a load: some of its inputs go to some of the machines, in one commit on each.
#[derive(Debug)]
pub struct ClusterRound {
    /// What is said of a stopped load that it finishes.
    pub finishes: Option<String>,
    /// Whether there are more inputs than these.
    pub is_last: bool,
    table: Table,
    /// The stopped load.
    load: Option<Id>,
    /// The machines, by number.
    to: Vec<usize>,
    /// The last generation of the table before the load.
    before: u64,
    segment_bytes: usize,
}

/// What a machine has stored of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStored {
    /// Its name.
    pub node: String,
    /// The generation that has the rows.
    pub generation: u64,
    /// Rows.
    pub rows: u64,
    /// Segments, before any was merged with others.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl ClusterLoad {
    /// Asks all machines what they have of a table, which need not exist. Segments wait in a
    /// directory below `temporary` until all machines have them.
    pub fn begin(
        description: ClusterDescription,
        table: &str,
        temporary: Option<&Path>,
    ) -> Result<ClusterLoad> {
        check_name(table)?;
        let placing = placing(&description, table)?;
        let nodes = Nodes::new(description)?;
        let known = hear(&nodes, &placing, table)?;
        let temporary = temporary.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let staging = TempDir::with_prefix_in("sty-load-", &temporary)
            .map_err(|error| Error::io(&temporary, error))?;
        let (staged, finished) = (0, HashSet::new());
        Ok(ClusterLoad {
            nodes,
            table: table.to_owned(),
            placing,
            known,
            staging,
            staged,
            finished,
        })
    }

    /// Where segments wait, for a process that ends in the middle.
    pub fn staging(&self) -> &Path {
        self.staging.path()
    }

    /// The files that some of the machines have by a load of the cluster, and others have not; they
    /// are to be loaded together.
    fn stopped(&self, segment_bytes: usize) -> Option<(Id, Vec<&LoadedSource>, Vec<usize>)> {
        let mut having = BTreeMap::<Id, BTreeSet<usize>>::new();
        let sources = |root: &'_ Root| root.ledger.recent.clone();
        for (at, root) in self.known.iter().enumerate() {
            for source in root.iter().flat_map(sources) {
                if is_of_cluster(source.load) && self.placing.has_placed(source.load, segment_bytes)
                {
                    having.entry(source.load).or_default().insert(at);
                }
            }
        }
        let all = self.known.len();
        let (load, has) = having.into_iter().find(|(_, has)| has.len() < all)?;
        let first = has.first().and_then(|at| self.known.get(*at)).and_then(Option::as_ref);
        let of_load = first.into_iter().flat_map(|root| &root.ledger.recent);
        let files = of_load.filter(|source| source.load == load).collect();
        Some((load, files, (0..all).filter(|at| !has.contains(at)).collect()))
    }

    /// Begins to load `inputs`, or those among them of which some machines have the rows already:
    /// what is returned of them is to be loaded by the writer, and then
    /// [`ClusterLoad::finish_round`] called. A table that does not exist will have these options.
    pub fn begin_round(
        &mut self,
        inputs: Vec<Input>,
        options: TableOptions,
        load_options: &LoadOptions,
    ) -> Result<(ClusterRound, TableWriter, Vec<Input>)> {
        if load_options.commit_every.is_some() {
            let what = "each machine commits once for a load over several; load the files one \
                        after the other instead";
            return Err(Error::Unsupported(what.into()));
        }
        if self.staged > 0 {
            self.known = hear(&self.nodes, &self.placing, &self.table)?;
        }
        let mut named = Vec::with_capacity(inputs.len());
        for input in inputs {
            let path = identity(&input)?.map(|source| source.path);
            if path.as_ref().is_none_or(|path| !self.finished.contains(path)) {
                named.push((input, path));
            }
        }
        self.refuse_open(&named)?;
        let all = self.known.iter().flatten().next();
        let options = all.map_or(options, |root| root.options);
        let segment_bytes = pipeline_options(options, load_options).segment.bytes;
        let (mut load, mut to) = (None, (0..self.known.len()).collect::<Vec<_>>());
        let mut finishes = None;
        let count = named.len();
        if let Some((stopped, files, lacking)) = self.stopped(segment_bytes) {
            let paths: HashSet<Arc<str>> = files.iter().map(|it| Arc::clone(&it.path)).collect();
            let is_named = |path: &Arc<str>| named.iter().any(|(_, it)| it.as_ref() == Some(path));
            let names = listed(paths.iter().map(|path| &**path));
            let nodes = listed(lacking.iter().filter_map(|at| self.name(*at)));
            if !paths.iter().all(is_named) {
                return Err(Error::InvalidInput(format!(
                    "the load of {names} has stopped before nodes {nodes} had it; nothing was \
                     changed: load these files once more, which stores them there alone, with the \
                     same options"
                )));
            }
            named.retain(|(_, path)| path.as_ref().is_some_and(|path| paths.contains(path)));
            finishes = Some(format!("{names}: going on with nodes {nodes}, which lack the rows"));
            (load, to) = (Some(stopped), lacking);
        }
        let is_last = named.len() == count;
        let inputs = named.into_iter().map(|(input, _)| input).collect();
        self.staged += 1;
        let store = Store::open(self.staging.path().join(self.staged.to_string()));
        let table = store.table(&self.table)?;
        let (writer, before) = self.prime(&table, &to, load, options)?;
        let round = ClusterRound { finishes, is_last, table, load, to, before, segment_bytes };
        Ok((round, writer, inputs))
    }

    /// Refuses files of which one machine has the first rows by a load of its own.
    fn refuse_open(&self, named: &[(Input, Option<Arc<str>>)]) -> Result<()> {
        for (at, root) in self.known.iter().enumerate() {
            let open = root.iter().flat_map(|root| &root.ledger.recent).find(|source| {
                !source.done && named.iter().any(|(_, path)| path.as_ref() == Some(&source.path))
            });
            if let Some(open) = open {
                return Err(Error::InvalidInput(format!(
                    "a load of {} into node {} alone has stopped in the middle; finish it there \
                     first, with sty ingest STORE/{}",
                    open.path,
                    self.name(at).unwrap_or_default(),
                    self.table
                )));
            }
        }
        Ok(())
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.placing.nodes.get(at).map(|node| &*node.name)
    }

    /// An empty table with the columns and the ledger of the machines' tables.
    fn prime(
        &self,
        table: &Table,
        to: &[usize],
        load: Option<Id>,
        options: TableOptions,
    ) -> Result<(TableWriter, u64)> {
        let Some(like) = self.common(to)? else {
            return Ok((table.writer(Some((Schema::default(), options)))?, 0));
        };
        let mut writer = table.writer(Some((like.schema.clone(), like.options)))?;
        let (mut sources, mut seen) = (Vec::new(), HashSet::new());
        for source in self.known.iter().flatten().flat_map(|root| &root.ledger.recent) {
            let is_new = seen.insert((Arc::clone(&source.path), source.load));
            if is_new && source.done && Some(source.load) != load {
                sources.push(source.clone());
            }
        }
        let arrangement = like.arrangement.clone();
        let commit = writer.commit_changes(Changes { arrangement, sources, ..writer.changes() })?;
        Ok((writer, commit.generation))
    }

    /// What the tables of these machines have in common, those that there are.
    fn common(&self, to: &[usize]) -> Result<Option<&Root>> {
        let mut tables = to.iter().filter_map(|at| Some((*at, self.known.get(*at)?.as_ref()?)));
        let Some((first, like)) = tables.next() else { return Ok(None) };
        for (at, other) in tables {
            let what = match () {
                () if other.schema != like.schema => "have different columns",
                () if other.arrangement != like.arrangement => {
                    "are partitioned or sorted differently"
                }
                () if other.options != like.options => "have segments of different kinds",
                () => continue,
            };
            return Err(Error::InvalidInput(format!(
                "the tables {} of nodes {} and {} {what}",
                self.table,
                self.name(first).unwrap_or_default(),
                self.name(at).unwrap_or_default()
            )));
        }
        Ok(Some(like))
    }

    /// Sends what a round has loaded to its machines, and has them commit. `None` if it has loaded
    /// nothing.
    pub fn finish_round(
        &mut self,
        round: ClusterRound,
        cancelled: &AtomicBool,
    ) -> Result<Option<Vec<NodeStored>>> {
        let snapshot = round.table.snapshot()?;
        let root = snapshot.root();
        if root.generation == round.before {
            return Ok(None);
        }
        let mut sources = snapshot.sources()?;
        sources.retain(|source| source.generation > round.before);
        let is_partitioned = !root.arrangement.partition_by.is_empty();
        let segment_bytes = (!is_partitioned).then_some(round.segment_bytes);
        let load = self.identify(round.load, segment_bytes, &mut sources)?;
        let mut segments: Vec<_> = self.known.iter().map(|_| Vec::new()).collect();
        let mut number = 0;
        for at in 0..root.chunks.len() {
            let Some(chunk) = snapshot.chunk(at)? else { continue };
            for (segment, stats) in chunk.segments_with_stats()? {
                let place = match is_partitioned {
                    true => self.placing.of_partition(&segment.partition),
                    false => self.placing.in_turn(load, number),
                };
                number += 1;
                segments
                    .get_mut(place)
                    .into_iter()
                    .for_each(|of| of.push((segment.clone(), stats.clone())));
            }
        }
        let after = root_for_others(root, sources.clone());
        let mut transfers = Vec::new();
        for at in &round.to {
            let known = self.known.get(*at).cloned().flatten();
            transfers.push(Transfer {
                before: known.map(|root| root_for_others(&root, Vec::new())),
                after: after.clone(),
                segments: segments.get_mut(*at).map(std::mem::take).unwrap_or_default(),
            });
        }
        let to = round.to.iter().filter_map(|at| self.placing.nodes.get(*at));
        let sending = to.zip(&transfers).map(|(node, transfer)| {
            let pieces = pieces(&snapshot, &transfer.segments, cancelled);
            deliver(&self.nodes, node, &self.table, transfer, pieces)
        });
        let delivered = self.nodes.wait(join_all(sending))?;
        let delivered = delivered.into_iter().collect::<Result<Vec<Delivery>>>()?;
        let nodes: Vec<_> = delivered.iter().map(|it| it.node().name.to_string()).collect();
        let committed = self.nodes.wait(join_all(delivered.into_iter().map(Delivery::commit)))?;
        check_all(&nodes, &committed, sources.iter().any(|source| source.done))?;
        self.finished
            .extend(sources.into_iter().filter(|_| round.load.is_some()).map(|it| it.path));
        let stored = nodes.into_iter().zip(committed).zip(&transfers);
        let stored = stored.map(|((node, generation), transfer)| {
            let (rows, bytes) = (transfer.rows(), transfer.bytes());
            let segments = transfer.segments.len() as u64;
            Ok(NodeStored { node, generation: generation?, rows, segments, bytes })
        });
        stored.collect::<Result<Vec<_>>>().map(Some)
    }

    /// Gives the new entries of the ledger the identifier of the load: a new one, or that of the
    /// stopped load, whose files must be what they were.
    fn identify(
        &self,
        stopped: Option<Id>,
        segment_bytes: Option<usize>,
        sources: &mut [LoadedSource],
    ) -> Result<Id> {
        let new = sources.first().map_or_else(layout::new_id, |source| source.load);
        let Some(stopped) = stopped else {
            let load = self.placing.marked(new, segment_bytes);
            sources.iter_mut().for_each(|source| source.load = load);
            return Ok(load);
        };
        let before: HashMap<Arc<str>, &LoadedSource> = self
            .known
            .iter()
            .flatten()
            .flat_map(|root| &root.ledger.recent)
            .filter(|source| source.load == stopped)
            .map(|source| (Arc::clone(&source.path), source))
            .collect();
        for source in sources.iter_mut() {
            let of = |it: &LoadedSource| (it.size, it.hash, it.rows, it.rejected, it.selected);
            let selection = |it: &LoadedSource| it.selected.then_some(it.load[8..].to_vec());
            let known = before.get(&source.path);
            if known.is_none_or(|known| {
                of(known) != of(source) || selection(known) != selection(source)
            }) {
                return Err(Error::InvalidInput(format!(
                    "{} gives other rows than those that some nodes have already of the load that \
                     has stopped; nothing was changed: it has to be the same file, with the same \
                     options",
                    source.path
                )));
            }
            source.load = stopped;
        }
        if before.len() != sources.len() {
            let what = "other files were loaded than those of the load that has stopped";
            return Err(Error::InvalidInput(what.into()));
        }
        Ok(stopped)
    }
}

/// Where rows of a table go.
fn placing(description: &ClusterDescription, table: &str) -> Result<Placing> {
    let (placement, mut nodes) = description.placed(table);
    match placement {
        Placement::Spread => {}
        // They have one directory.
        Placement::Shared => nodes.truncate(1),
        Placement::Copies => {
            return Err(Error::Unsupported(format!(
                "{table} is in copies, which are to stay the same: load it into the store of one \
                 node, with sty ingest STORE/{table}, and copy its directory to the others"
            )));
        }
    }
    let of_table = description.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
    let pinned = of_table.map(|(_, PlacedTable { partitions, .. })| partitions.clone());
    Ok(Placing { nodes, pinned: pinned.unwrap_or_default() })
}

/// Asks all machines what they have of a table.
fn hear(nodes: &Nodes, placing: &Placing, table: &str) -> Result<Vec<Option<Root>>> {
    let question = ledger_question(table);
    let asked = placing.nodes.iter().map(|node| nodes.ask(node, LEDGER, question.clone()));
    let answers = nodes.wait(join_all(asked))?;
    answers.into_iter().map(|answer| read_ledger_answer(&answer?)).collect()
}

/// An error that says which machines have stored the rows and which have not, unless all have.
fn check_all(nodes: &[String], committed: &[Result<u64>], has_files: bool) -> Result<()> {
    let Some(Err(first)) = committed.iter().find(|it| it.is_err()) else { return Ok(()) };
    let stored = nodes.iter().zip(committed).filter(|(_, it)| it.is_ok()).map(|(node, _)| node);
    let stored: Vec<&str> = stored.map(String::as_str).collect();
    let what = match (stored.is_empty(), has_files) {
        (true, _) => format!("{first}; no other node has stored its rows"),
        (false, true) => format!(
            "{first}; nodes {} have stored their rows: the same command goes on with the others",
            listed(stored.iter().copied())
        ),
        (false, false) => format!(
            "{first}; nodes {} have stored their rows, and the others have not: what came through \
             a pipe cannot be read again",
            listed(stored.iter().copied())
        ),
    };
    Err(match first {
        Error::Unreachable(_) => Error::Unreachable(what),
        _ => Error::InvalidInput(what),
    })
}

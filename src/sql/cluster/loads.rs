//! A load whose rows go to the machines of a cluster: `sty ingest --cluster`.
//!
//! Where this stands on the road of a byte: the load runs as on one machine, into a table of its
//! own in a temporary store (`ingest/load`), which has the columns and the ledger of the cluster's
//! table and none of its rows. What comes out are segments, which are divided among the machines
//! (`placing`) and sent to them (`storing`). All machines have everything before the first of them
//! commits; each commits once, with the same columns and the same entries of the ledger.
//!
//! **A load that stops between two of these commits is finished by the same command.** The ledgers
//! of the machines that have it say which machines are to have it, and have a digest of all its
//! segments and their places (`stopped`). Reading the same files once more gives the same segments,
//! and those of the machines that lack them are sent.
//!
//! A machine takes nothing if something was loaded into its table since its ledger was read here:
//! two loads at the same time cannot both find that a file is new.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::join_all;

use super::copies::{Copies, Way};
use super::description::ClusterDescription;
use super::nodes::Nodes;
use super::placing::Placing;
use super::rounds::keep_first;
use super::state::hear;
use super::stopped::{Stopped, entries, files, record, stopped};
use super::storing::{Delivery, NodeStored, Outcomes, STORE, check_all, commit_all, send};
use crate::disk::temporary_dir::TemporaryDir;
use crate::error::{Error, Result};
use crate::ingest::load::LoadOptions;
use crate::ingest::loaded::identity;
use crate::ingest::resume::CommitEvery;
use crate::ingest::sources::Input;
use crate::ingest::sources::counted::hasher;
use crate::maintain::transfer::{Transfer, ledger_digest, pieces, root_for_others};
use crate::manifest::commit::SegmentWithStats;
use crate::manifest::{Id, Root, layout};
use crate::model::Schema;
use crate::sql::convert::listed;
use crate::store::{Changes, LoadedSource, Store, Table, TableOptions, TableWriter, check_name};

/// What to do about a load that some machines have stored.
pub(super) const GOES_ON: &str = "the same command goes on with the others";

/// A load into a table of a cluster.
#[derive(Debug)]
pub struct ClusterLoad {
    pub(super) nodes: Arc<Nodes>,
    pub(super) table: String,
    pub(super) placing: Placing,
    /// What each machine has of the table: its columns and its whole ledger.
    pub(super) known: Vec<Option<Root>>,
    /// The copies of a table that is in copies. Nothing else is known of it then.
    pub(super) copies: Option<Copies>,
    staging: TemporaryDir,
    /// How often rows were staged.
    pub(super) staged: u64,
    /// Whether nothing is to be stored.
    pub(super) only_looks: bool,
    /// Whether files are stored one after the other.
    every: Option<CommitEvery>,
    /// Files of earlier parts of this load: they are not read once more.
    finished: HashSet<Arc<str>>,
    /// The same of a table in copies: they have come from another machine, and are not read.
    came: Vec<LoadedSource>,
    /// Whether some machines may have stored a load, and others have not.
    pub(super) is_partly_stored: bool,
}

/// A part of a load: some of its inputs go to some of the machines, in one commit on each.
#[derive(Debug)]
pub struct ClusterRound {
    /// What is said of a stopped load that it finishes.
    pub finishes: Option<String>,
    /// Whether there are more inputs than these.
    pub is_last: bool,
    pub(super) table: Table,
    pub(super) stopped: Option<Stopped>,
    /// Its files.
    pub(super) files: Vec<Arc<str>>,
    /// The machines, by number.
    pub(super) to: Vec<usize>,
    /// The last generation of the table before the load.
    pub(super) before: u64,
    /// What to do if only some of them have stored their rows, of a statement.
    pub(super) then: Option<String>,
}

impl ClusterLoad {
    /// Asks all machines what they have of a table, which need not exist. Segments wait in a
    /// directory below `temporary` until all machines have them.
    pub fn begin(
        description: ClusterDescription,
        table: &str,
        temporary: Option<&Path>,
    ) -> Result<ClusterLoad> {
        let temporary = temporary.map_or_else(std::env::temp_dir, Path::to_path_buf);
        ClusterLoad::over(Arc::new(Nodes::new(description)?), table, &temporary)
    }

    /// The same, over connections that there are.
    pub(super) fn over(nodes: Arc<Nodes>, table: &str, temporary: &Path) -> Result<ClusterLoad> {
        check_name(table)?;
        let (placing, is_copied) = Placing::of(&nodes.description, table);
        let staging = TemporaryDir::new(temporary, "sty-load-")?;
        let (staged, finished) = (0, HashSet::new());
        let (table, known, copies) = (table.to_owned(), Vec::new(), None);
        let mut load = ClusterLoad {
            nodes,
            table,
            placing,
            known,
            copies,
            staging,
            staged,
            only_looks: false,
            every: None,
            finished,
            came: Vec::new(),
            is_partly_stored: false,
        };
        match is_copied {
            true => load.copies = Some(load.hear_copies()?),
            false => load.known = hear(&load.nodes, &load.placing.nodes, &mut load.table)?,
        }
        Ok(load)
    }

    /// Asks all machines for their copies of the table.
    fn hear_copies(&mut self) -> Result<Copies> {
        let heard = Copies::hear(&self.nodes, self.placing.nodes.clone(), &self.table);
        let copies = self.nodes.wait(heard)??;
        self.table.clone_from(&copies.table);
        Ok(copies)
    }

    /// Makes the copies of the table the same, if a load has stopped before all had it, and says
    /// so.
    pub(super) fn bring_up_copies(&mut self) -> Result<Option<String>> {
        if self.copies.is_none() || self.only_looks {
            return Ok(None);
        }
        let copies = self.hear_copies()?;
        let behind = copies.behind();
        if behind.is_empty() {
            self.copies = Some(copies);
            return Ok(None);
        }
        let mut said = format!(
            "{}: nodes {} are behind the others, and get what they lack",
            self.table,
            listed(behind.into_iter())
        );
        let (all, cancelled) = (Way::default(), AtomicBool::default());
        self.nodes.wait(copies.bring_up(&self.nodes, &all, &cancelled))??;
        let came = self.nodes.wait(copies.newest_sources(&self.nodes))??;
        let rejected: u64 = came.iter().map(|source| source.rejected).sum();
        if rejected > 0 {
            said +=
                &format!("; of the newest load, {rejected} rejected rows are not written again");
        }
        self.came.extend(came);
        self.copies = Some(self.hear_copies()?);
        Ok(Some(said))
    }

    /// Where segments wait, for a process that ends in the middle.
    pub fn staging(&self) -> &Path {
        self.staging.path()
    }

    /// Whether some machines may have stored what was loaded, after an error that says so.
    pub fn is_partly_stored(&self) -> bool {
        self.is_partly_stored
    }

    /// Loads the files in several commits: one for each file, or one for the files up to this size
    /// together.
    pub fn commit_every(&mut self, every: CommitEvery) {
        self.every = Some(every);
    }

    /// Begins to load `inputs`, or the files of the next commit: those of a load that some machines
    /// have already, or those that [`ClusterLoad::commit_every`] asks for. The caller gives the
    /// returned ones to the writer and then calls [`ClusterLoad::finish_round`]. A new table gets
    /// these options.
    pub fn begin_round(
        &mut self,
        inputs: Vec<Input>,
        options: TableOptions,
        load_options: &LoadOptions,
    ) -> Result<(ClusterRound, TableWriter, Vec<Input>)> {
        if load_options.commit_every.is_some() && !self.only_looks {
            let what = "commits within a file, by machines of a cluster; they commit whole files";
            return Err(Error::Unsupported(what.into()));
        }
        if self.staged > 0 && self.copies.is_none() {
            self.known = hear(&self.nodes, &self.placing.nodes, &mut self.table)?;
        }
        let mut finishes = self.bring_up_copies()?;
        let mut named = Vec::with_capacity(inputs.len());
        for input in inputs {
            let source = identity(&input)?;
            let is_done = source.as_ref().is_some_and(|source| {
                let is_it = |it: &LoadedSource| {
                    it.path == source.path
                        && it.size == source.size
                        && it.modified == source.modified
                };
                self.finished.contains(&source.path) || self.came.iter().any(is_it)
            });
            if !is_done {
                named.push((input, source.map(|source| source.path)));
            }
        }
        let pipes = named.iter().filter(|(_, path)| path.is_none()).count();
        if pipes > 0 && pipes < named.len() {
            let what = "files and a pipe in one load over several machines; a load of files that \
                        stops goes on, and a pipe cannot be read again: load them one after the other";
            return Err(Error::InvalidInput(what.into()));
        }
        if pipes > 0 && self.every.is_some() {
            let what = "--commit-every of a pipe over a cluster, because what came through a pipe \
                        cannot be read again where only some nodes have it; write it to files, and \
                        load these, or leave the option out";
            return Err(Error::Unsupported(what.into()));
        }
        self.refuse_open(&named)?;
        let all = self.known.iter().flatten().next();
        let options = all.map_or(options, |root| root.options);
        let (stopped, count) = (stopped(&self.placing.nodes, &self.known), named.len());
        let mut to = (0..self.known.len()).collect::<Vec<_>>();
        if let Some(Stopped { load, lacking, .. }) = &stopped {
            let sources =
                entries(&self.known, *load).map(|(_, sources)| sources).unwrap_or_default();
            let paths: HashSet<Arc<str>> = files(&sources).map(|it| Arc::clone(&it.path)).collect();
            let is_named = |path: &Arc<str>| named.iter().any(|(_, it)| it.as_ref() == Some(path));
            let names = listed(paths.iter().map(|path| &**path));
            let nodes = listed(lacking.iter().filter_map(|at| self.name(*at)));
            if !paths.iter().all(is_named) {
                return Err(self.has_stopped(&names, &nodes));
            }
            named.retain(|(_, path)| path.as_ref().is_some_and(|path| paths.contains(path)));
            finishes = Some(format!("{names}: going on with nodes {nodes}, which lack the rows"));
            to.clone_from(lacking);
        }
        if let Some(every) = self.every.filter(|_| stopped.is_none() && !self.only_looks) {
            keep_first(&mut named, every);
        }
        let is_last = named.len() == count;
        let (inputs, files): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let files = files.into_iter().flatten().collect();
        let table = self.next_staged()?;
        let load = stopped.as_ref().map(|stopped| stopped.load);
        let new = (Schema::default(), options);
        let (writer, before) = match &self.copies {
            Some(copies) => copies.stage(&self.nodes, &table, new)?,
            None => self.prime(&table, &to, load, new)?,
        };
        let then = None;
        let round = ClusterRound { finishes, is_last, table, stopped, files, to, before, then };
        Ok((round, writer, inputs))
    }

    /// Where the next rows are staged.
    pub(super) fn next_staged(&mut self) -> Result<Table> {
        self.staged += 1;
        let store = Store::open(self.staging.path().join(self.staged.to_string()));
        store.table(&self.table)
    }

    /// The error for a load of files that only some machines have.
    pub(super) fn has_stopped(&self, files: &str, lacking: &str) -> Error {
        Error::InvalidInput(format!(
            "the load of {files} has stopped before nodes {lacking} had it; nothing was changed: \
             load these files once more by the same command, which stores them there alone (or \
             give the rows up: sty cluster forget {})",
            self.table
        ))
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

    pub(super) fn name(&self, at: usize) -> Option<&str> {
        self.placing.nodes.get(at).map(|node| &*node.name)
    }

    /// An empty table with the columns and the ledger of the machines' tables.
    fn prime(
        &self,
        table: &Table,
        to: &[usize],
        load: Option<Id>,
        new: (Schema, TableOptions),
    ) -> Result<(TableWriter, u64)> {
        let Some(like) = self.common(to)? else { return Ok((table.writer(Some(new))?, 0)) };
        let mut writer = table.writer(Some((like.schema.clone(), like.options)))?;
        let (mut sources, mut seen) = (Vec::new(), HashSet::new());
        for source in self.known.iter().flatten().flat_map(|root| &root.ledger.recent) {
            let is_new = seen.insert((Arc::clone(&source.path), source.load));
            if is_new && source.done && Some(source.load) != load {
                sources.push(source.clone());
            }
        }
        // Of two entries of one file, the later one is the newer: identifiers begin with the time.
        sources.sort_by_key(|source| source.load.first_chunk::<6>().copied());
        let arrangement = like.arrangement.clone();
        let commit = writer.commit_changes(Changes { arrangement, sources, ..writer.changes() })?;
        Ok((writer, commit.generation))
    }

    /// What the tables of these machines have in common, those that there are.
    pub(super) fn common(&self, to: &[usize]) -> Result<Option<&Root>> {
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
    /// nothing. Machines wait this long for other writers, or as long as they do otherwise.
    pub fn finish_round(
        &mut self,
        mut round: ClusterRound,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
    ) -> Result<Option<Vec<NodeStored>>> {
        let files = std::mem::take(&mut round.files);
        let stored = self.store_round(round, wait, cancelled)?;
        self.finished.extend(files);
        Ok(stored)
    }

    fn store_round(
        &mut self,
        round: ClusterRound,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
    ) -> Result<Option<Vec<NodeStored>>> {
        let snapshot = round.table.snapshot()?;
        let root = snapshot.root();
        if root.generation == round.before {
            return match round.stopped {
                None => Ok(None),
                Some(_) => Err(Error::InvalidInput(
                    "nothing was loaded of what some nodes lack; nothing was changed: give the \
                     same command as for the load that has stopped, with the same --if-loaded"
                        .into(),
                )),
            };
        }
        if self.copies.is_some() {
            let then = "sty cluster copy brings them to the others, as the same command does \
                        where it loads files";
            let then = round.then.as_deref().unwrap_or(then);
            return self.store_copies(&round.table, then, wait, cancelled).map(Some);
        }
        let mut sources = snapshot.sources()?;
        sources.retain(|source| source.generation > round.before);
        let new = sources.first().map_or_else(layout::new_id, |source| source.load);
        let load = round.stopped.as_ref().map_or(new, |stopped| stopped.load);
        let is_partitioned = !root.arrangement.partition_by.is_empty();
        let mut segments: Vec<_> = self.known.iter().map(|_| Vec::new()).collect();
        let (mut number, mut digest) = (0, hasher());
        for at in 0..root.chunks.len() {
            let Some(chunk) = snapshot.chunk(at)? else { continue };
            for segment in chunk.segments_with_stats()? {
                let place = match is_partitioned {
                    true => self.placing.of_partition(&segment.0.partition),
                    false => self.placing.in_turn(load, number),
                };
                number += 1;
                let name = self.name(place).unwrap_or_default();
                digest.write(format!("{name}\0{}\0", segment.0.partition).as_bytes());
                digest.write(&segment.0.rows.to_le_bytes());
                digest.write(&segment.0.uuid);
                segments.get_mut(place).into_iter().for_each(|of| of.push(segment.clone()));
            }
        }
        let digest = format!("{:032x}", digest.finish_128());
        if let Some(stopped) = &round.stopped {
            stopped.check(&self.known, &digest, &sources, &self.table)?;
        }
        sources.iter_mut().for_each(|source| source.load = load);
        if !sources.is_empty() {
            sources.push(record(&self.placing.nodes, &digest, load));
        }
        let has_files = !sources.is_empty();
        let mut to = round.to;
        if round.then.is_some() {
            // A statement has nothing to tell to a machine that gets no rows of it.
            let gets = |at: &usize| {
                let is_same = |known: &Root| {
                    known.schema == root.schema && known.arrangement == root.arrangement
                };
                let known = self.known.get(*at).and_then(Option::as_ref);
                !known.is_some_and(is_same) || segments.get(*at).is_some_and(|it| !it.is_empty())
            };
            to.retain(gets);
        }
        let transfers = self.transfers(&to, &root_for_others(root, sources), &mut segments);
        let bytes = transfers.iter().map(|it| pieces(&snapshot, &it.segments, cancelled)).collect();
        let generations = self.deliver(&to, &transfers, wait, bytes, cancelled)?;
        let then = match (&round.then, has_files) {
            (Some(then), _) => then,
            (None, true) => GOES_ON,
            (None, false) => "what came through a pipe cannot be read again",
        };
        check_all(&generations, then)?;
        let stored =
            generations.into_iter().zip(&transfers).map(|((node, generation), transfer)| {
                let (rows, bytes) = (transfer.rows(), transfer.bytes());
                let segments = transfer.segments.len() as u64;
                Ok(NodeStored { node, generation: generation?, rows, segments, bytes })
            });
        stored.collect::<Result<Vec<_>>>().map(Some)
    }

    /// What these machines get: `segments` has those of each machine.
    pub(super) fn transfers(
        &self,
        to: &[usize],
        after: &Root,
        segments: &mut [Vec<SegmentWithStats>],
    ) -> Vec<Transfer> {
        let transfer = |at: &usize| {
            let known = self.known.get(*at).and_then(Option::as_ref);
            Transfer {
                before: known.map(|root| root_for_others(root, Vec::new())),
                ledger: ledger_digest(known.map_or(&[], |root| &root.ledger.recent)),
                after: after.clone(),
                segments: segments.get_mut(*at).map(std::mem::take).unwrap_or_default(),
            }
        };
        to.iter().map(transfer).collect()
    }

    /// Has machines take what they get, and then commit: the generation of each, or why not.
    pub(super) fn deliver<P: Iterator<Item = Result<Vec<u8>>>>(
        &self,
        to: &[usize],
        transfers: &[Transfer],
        wait: Option<Duration>,
        bytes: Vec<P>,
        cancelled: &AtomicBool,
    ) -> Result<Outcomes> {
        let nodes = to.iter().filter_map(|at| self.placing.nodes.get(*at));
        let mut order: Vec<_> = nodes.zip(transfers).zip(bytes).collect();
        order.sort_by_key(|((node, _), _)| &node.name);
        let sent = self.nodes.wait_unless(cancelled, async {
            let mut begun = HashMap::new();
            for ((node, transfer), bytes) in order {
                let what = transfer.encode();
                let delivery = Delivery::begin(&self.nodes, node, STORE, &self.table, &what, wait);
                begun.insert(&node.name, send(delivery.await?, bytes));
            }
            let nodes = to.iter().filter_map(|at| self.placing.nodes.get(*at));
            let sending: Vec<_> = nodes.filter_map(|node| begun.remove(&node.name)).collect();
            join_all(sending).await.into_iter().collect::<Result<Vec<_>>>()
        })?;
        self.nodes.wait(commit_all(sent))
    }
}

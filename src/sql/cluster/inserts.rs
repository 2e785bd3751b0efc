//! Rows that statements store in tables of a cluster (INSERT, CREATE TABLE), and changes of tables
//! in copies.
//!
//! Where this stands on the road of a byte: the rows of a statement are staged and sent as those of
//! a load are (`loads`), so that each comes to the machine that the table's rule names, and all
//! machines have everything before the first of them commits. Machines that get no row, and have
//! the columns already, are not asked: an INSERT of few rows is one commit on one machine.
//!
//! A statement has no entry in the ledgers. If it stops between two commits, its error says which
//! machines have their rows.
//!
//! A table in copies is changed here, in a copy that is made for it, and the copies of all machines
//! become the same as that one: they get the new files, and put one manifest in force.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::loads::{ClusterLoad, ClusterRound};
use super::nodes::Nodes;
use super::stopped::{Stopped, entries, files, stopped};
use super::storing::{NodeStored, check_all};
use crate::error::{Error, Result};
use crate::model::Schema;
use crate::sql::convert::listed;
use crate::store::{Changes, Table, TableOptions, TableWriter, exists};

/// Rows of a statement that are on their way to machines of a cluster.
#[derive(Debug)]
pub(in crate::sql) struct ClusterWrite(ClusterLoad);

impl ClusterWrite {
    /// Asks all machines what they have of a table. Rows wait in a directory below `temporary`.
    pub(in crate::sql) fn begin(
        nodes: &Arc<Nodes>,
        table: &str,
        temporary: &Path,
    ) -> Result<ClusterWrite> {
        ClusterLoad::over(Arc::clone(nodes), table, temporary).map(ClusterWrite)
    }

    /// Whether there is such a table. An error if there is one on some of its machines only.
    pub(in crate::sql) fn exists(&self) -> Result<bool> {
        let load = &self.0;
        if let Some(copies) = &load.copies {
            return Ok(copies.newest().is_some());
        }
        let of = |is_there: bool| {
            let known = load.placing.nodes.iter().zip(&load.known);
            listed(known.filter(|(_, it)| it.is_some() == is_there).map(|(node, _)| &*node.name))
        };
        let there = load.known.iter().flatten().count();
        if there > 0 && there < load.known.len() {
            return Err(Error::InvalidInput(format!(
                "nodes {} have a table {}, and nodes {} have none; DROP TABLE drops it where it is",
                of(true),
                load.table,
                of(false)
            )));
        }
        Ok(there > 0)
    }

    /// Begins to store rows in a table, or in a new one with these columns. What is returned takes
    /// the rows, and then [`ClusterWrite::finish`] is called.
    pub(in crate::sql) fn rows(
        &mut self,
        created: Option<&Schema>,
    ) -> Result<(ClusterRound, TableWriter)> {
        self.ready()?;
        let is_there = self.exists()?;
        let load = &mut self.0;
        match created {
            Some(_) if is_there => return Err(exists(&load.table)),
            None if !is_there => {
                return Err(Error::NotFound(format!("there is no table {} any more", load.table)));
            }
            _ => {}
        }
        let table = load.next_staged()?;
        let new = (created.cloned().unwrap_or_default(), TableOptions::default());
        let to: Vec<usize> = (0..load.known.len()).collect();
        let (writer, before) = match &load.copies {
            Some(copies) => copies.stage(&load.nodes, &table, new)?,
            None => staged(load, &table, &to, new)?,
        };
        let name = &load.table;
        let then = match created {
            Some(_) => format!("DROP TABLE {name} drops it where it is"),
            None if load.copies.is_some() => {
                format!("sty cluster copy {name} brings the rows to all of them")
            }
            None => "the same statement would add these rows once more".to_owned(),
        };
        let (finishes, stopped, files, is_last) = (None, None, Vec::new(), true);
        let then = Some(then);
        Ok((ClusterRound { finishes, is_last, table, stopped, files, to, before, then }, writer))
    }

    /// Sends the rows to their machines, and has them commit. Machines wait this long for other
    /// writers, or as long as they do otherwise.
    pub(in crate::sql) fn finish(
        &mut self,
        round: ClusterRound,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
    ) -> Result<()> {
        self.0.finish_round(round, wait, cancelled).map(drop)
    }

    /// Changes a table in copies: `change` commits to a copy of it that is here, and says how many
    /// rows it has changed. `None` if it says that the table is not what it takes it for.
    pub(in crate::sql) fn change_copies(
        &mut self,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
        change: impl FnOnce(&Table, TableWriter) -> Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        self.0.bring_up_copies()?;
        let load = &mut self.0;
        let table = load.next_staged()?;
        let fetched =
            load.copies.as_ref().map(|copies| copies.fetch(&load.nodes, &table, cancelled));
        let Some(writer) = fetched.transpose()?.flatten() else {
            return Err(Error::NotFound(format!("there is no table {} any more", load.table)));
        };
        let before = table.generation()?;
        let rows = change(&table, writer)?;
        if rows.is_some() && table.generation()? != before {
            let then = format!("sty cluster copy {} brings the change to all of them", load.table);
            load.store_copies(&table, &then, wait, cancelled)?;
        }
        Ok(rows)
    }

    /// Makes copies the same after a load that has stopped. Refuses to store rows where one of
    /// files has stopped that spreads them.
    fn ready(&mut self) -> Result<()> {
        let load = &mut self.0;
        load.bring_up_copies()?;
        let Some(Stopped { load: id, lacking, .. }) = stopped(&load.placing.nodes, &load.known)
        else {
            return Ok(());
        };
        let sources = entries(&load.known, id).map(|(_, sources)| sources).unwrap_or_default();
        let names = listed(files(&sources).map(|source| &*source.path));
        let nodes = listed(lacking.iter().filter_map(|at| load.name(*at)));
        Err(load.has_stopped(&names, &nodes))
    }
}

/// An empty table with the columns of the machines' tables, or a new one; and its generation.
fn staged(
    load: &ClusterLoad,
    table: &Table,
    to: &[usize],
    new: (Schema, TableOptions),
) -> Result<(TableWriter, u64)> {
    let Some(like) = load.common(to)? else { return Ok((table.writer(Some(new))?, 0)) };
    let mut writer = table.writer(Some((like.schema.clone(), like.options)))?;
    let arrangement = like.arrangement.clone();
    let commit = writer.commit_changes(Changes { arrangement, ..writer.changes() })?;
    Ok((writer, commit.generation))
}

impl ClusterLoad {
    /// Has all copies become what was staged.
    pub(super) fn store_copies(
        &mut self,
        staged: &Table,
        then: &str,
        wait: Option<Duration>,
        cancelled: &AtomicBool,
    ) -> Result<Vec<NodeStored>> {
        let Some(copies) = &self.copies else { return Ok(Vec::new()) };
        let (generations, of_each) = copies.store(&self.nodes, staged, wait, cancelled)?;
        let may_be_stored = |it: &Result<u64>| matches!(it, Ok(_) | Err(Error::Unreachable(_)));
        self.is_partly_stored = generations.iter().any(|(_, it)| may_be_stored(it));
        check_all(&generations, then)?;
        let stored = |(node, generation): (String, Result<u64>)| {
            Ok(NodeStored { node, generation: generation?, ..of_each.clone() })
        };
        generations.into_iter().map(stored).collect()
    }
}

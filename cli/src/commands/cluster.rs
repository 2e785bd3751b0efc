//! `sty cluster`: what the machines of a cluster have, and partitions that move between them.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::{Args, ValueEnum};
use stylobate::{
    ClusterLoad, Error, Node, OfNodes, Partition, TableOnNode, cluster_partitions, cluster_tables,
    copy_table, move_partition,
};

use crate::args::choices::ListFormat;
use crate::args::cluster::read;
use crate::context::Context;
use crate::errors::Failure;
use crate::signals;
use crate::units::{show_counted, show_size};

/// See what the machines of a cluster have, move partitions between them, and copy tables
///
/// status lists the tables of each machine, or with TABLE the partitions that each has of it. If a
/// machine does not answer, its line says so, and the exit code is 1.
///
/// move takes a partition, with those inside it, to another machine: its segments are copied as
/// they are, compared by their checksums and committed there, and then dropped where they were.
/// Statements count its rows once at all times. Nobody else writes the table on the first machine
/// meanwhile. If a move is stopped in the middle, the same command goes on with it. Without
/// PARTITION, it takes the rows of a table that has no partitions.
///
/// copy makes the copies of a table the same (placement = "copies" in the file): those that lack it
/// or are behind get the files that they lack of the newest generation, or of that which --from
/// has. All machines have everything before the first of them has the new generation in force. If
/// one of them has a copy from which that generation may not have come, it says so and changes
/// nothing, unless --force is given.
///
/// forget gives up a load of sty ingest --cluster that has stopped before all machines had it,
/// where its files are gone: the machines that lack its rows do not get them.
///
/// Examples:
///   sty cluster status --cluster nodes.toml
///   sty cluster status trips --cluster nodes.toml --format json
///   sty cluster move trips year=2015 --to c --cluster nodes.toml
///   sty cluster move log --from a --to c --cluster nodes.toml
///   sty cluster copy zones --cluster nodes.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ClusterArgs {
    /// What to do
    #[arg(value_name = "ACTION", value_enum)]
    action: Action,
    /// A table of the cluster
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    /// The partition to move, as sty partitions names it [default: the rows that are in none]
    #[arg(value_name = "PARTITION")]
    partition: Option<String>,
    /// A TOML file of machines and what they have
    #[arg(long, value_name = "FILE", env = "STY_CLUSTER", hide_env = true)]
    cluster: PathBuf,
    /// The machine that gets the partition, or the only one whose copy changes
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    /// The machine that has it, if several have
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Copy over a copy from which the newest generation may not have come
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    list: ListFormat,
}

/// What `sty cluster` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// List what the machines have
    Status,
    /// Move a partition to another machine
    Move,
    /// Make the copies of a table the same
    Copy,
    /// Give up a load that has stopped
    Forget,
}

/// Runs `sty cluster`.
pub(crate) fn run(args: &ClusterArgs, context: &Context) -> Result<(), Failure> {
    if args.force && args.action != Action::Copy {
        return Err(Failure::usage("--force is for sty cluster copy"));
    }
    match (args.action, &args.table, &args.partition, &args.to) {
        (Action::Status, table, None, None) if args.from.is_none() => {
            status(args, table.as_deref(), context)
        }
        (Action::Status, ..) => {
            Err(Failure::usage("sty cluster status takes a table, and no more"))
        }
        (Action::Move, Some(table), partition, Some(to)) => {
            let (from, partition) = (args.from.as_deref(), partition.as_deref().unwrap_or(""));
            let what = if partition.is_empty() { table.as_str() } else { partition };
            let cluster = read(&args.cluster)?;
            let stop = signals::cancellation();
            let moved = move_partition(cluster, table, partition, from, to, &stop)?;
            context.note(&match moved.was_begun {
                true => format!(
                    "{what} had come to node {to} before; it is gone from node {}, generation {}",
                    moved.from, moved.left
                ),
                false => format!(
                    "{what}: {}, {} in {}, from node {} to node {to}",
                    show_counted(moved.rows, "row"),
                    show_size(moved.bytes),
                    show_counted(moved.segments, "segment"),
                    moved.from
                ),
            });
            context.note(&match partition {
                "" => format!(
                    "later loads and statements spread rows over all nodes of the table; which \
                     these are, the file of the cluster says: [tables.{table}] nodes = […]"
                ),
                _ => format!(
                    "later loads take its rows there if the file of the cluster says so: \
                     [tables.{table}.partitions] \"{partition}\" = \"{to}\""
                ),
            });
            Ok(())
        }
        (Action::Copy, Some(table), None, to) => {
            let (from, to) = (args.from.as_deref(), to.as_deref());
            let cluster = read(&args.cluster)?;
            let stop = signals::cancellation();
            let copied = copy_table(cluster, table, from, to, args.force, &stop)?;
            for it in &copied {
                context.note(&format!(
                    "node {}: generation {} from node {}, {} in {}",
                    it.node,
                    it.generation,
                    it.from,
                    show_size(it.bytes),
                    show_counted(it.files, "file")
                ));
            }
            if copied.is_empty() {
                context.note(&match from.is_some() || to.is_some() {
                    true => format!("there is nothing to copy of {table} between these nodes"),
                    false => format!("the copies of {table} are the same"),
                });
            }
            Ok(())
        }
        (Action::Copy, ..) => {
            Err(Failure::usage("sty cluster copy takes a table, and no partition"))
        }
        (Action::Forget, Some(table), None, None) if args.from.is_none() => {
            let forgotten = ClusterLoad::begin(read(&args.cluster)?, table, None)?.forget()?;
            for (files, nodes) in &forgotten {
                context.note(&format!("{files}: given up for nodes {nodes}, which lack the rows"));
            }
            if forgotten.is_empty() {
                context.note(&format!(
                    "no load of {table} has stopped that could be given up (copies are made the same \
                     by sty cluster copy)"
                ));
            }
            Ok(())
        }
        (Action::Forget, ..) => {
            Err(Failure::usage("sty cluster forget takes a table, and no more"))
        }
        (Action::Move, ..) => {
            let what = "sty cluster move needs a table and the node that gets its rows";
            Err(Failure::usage(what).hint("sty cluster move TABLE [PARTITION] --to NODE"))
        }
    }
}

fn status(args: &ClusterArgs, table: Option<&str>, context: &Context) -> Result<(), Failure> {
    let cluster = read(&args.cluster)?;
    let (batch, gone) = match table {
        Some(table) => of_partitions(cluster_partitions(cluster, table)?)?,
        None => of_tables(cluster_tables(cluster)?)?,
    };
    context.print_batch(&batch, args.list.format)?;
    gone.map_or(Ok(()), |error| Err(error.into()))
}

/// A line for each table of each machine, and the first failure.
fn of_tables(all: OfNodes<Vec<TableOnNode>>) -> Result<(RecordBatch, Option<Error>), Failure> {
    /// A machine, whether it answers, and a table.
    type Line = (Arc<Node>, String, Option<TableOnNode>);
    let (mut lines, mut gone) = (Vec::<Line>::new(), None);
    for (node, tables) in all {
        match tables {
            Ok(tables) if tables.is_empty() => lines.push((node, "ok".to_owned(), None)),
            Ok(tables) => {
                let line = |table: TableOnNode| {
                    let state = table.damage.clone().unwrap_or_else(|| "ok".to_owned());
                    (Arc::clone(&node), state, Some(table))
                };
                lines.extend(tables.into_iter().map(line));
            }
            Err(error) => {
                lines.push((node, error.to_string(), None));
                gone.get_or_insert(error);
            }
        }
    }
    let text = |of: fn(&Line) -> Option<String>| -> ArrayRef {
        Arc::new(lines.iter().map(of).collect::<StringArray>())
    };
    let number = |of: fn(&TableOnNode) -> u64| -> ArrayRef {
        Arc::new(lines.iter().map(|(.., table)| table.as_ref().map(of)).collect::<UInt64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("node", text(|(node, ..)| Some(node.name.to_string()))),
        ("address", text(|(node, ..)| Some(node.url.to_string()))),
        ("state", text(|(_, state, _)| Some(state.clone()))),
        ("table", text(|(.., table)| Some(table.as_ref()?.name.clone()))),
        ("generation", number(|table| table.generation)),
        ("rows", number(|table| table.rows)),
        ("segments", number(|table| table.segments)),
        ("bytes", number(|table| table.bytes)),
        (
            "moving",
            text(|(.., table)| {
                let (partition, to) = table.as_ref()?.moving.as_ref()?;
                Some(format!("{partition} to {to}").trim_start().to_owned())
            }),
        ),
    ];
    Ok((RecordBatch::try_from_iter_with_nullable(nullable(columns))?, gone))
}

/// A line for each partition on each machine, and the first failure.
fn of_partitions(all: OfNodes<Vec<Partition>>) -> Result<(RecordBatch, Option<Error>), Failure> {
    /// A machine, whether it answers, and a partition.
    type Line = (Arc<Node>, String, Option<Partition>);
    let (mut lines, mut gone) = (Vec::<Line>::new(), None);
    for (node, partitions) in all {
        match partitions {
            Ok(partitions) => {
                let line = |it| (Arc::clone(&node), "ok".to_owned(), Some(it));
                lines.extend(partitions.into_iter().map(line));
            }
            Err(error) => {
                lines.push((node, error.to_string(), None));
                gone.get_or_insert(error);
            }
        }
    }
    let text = |of: fn(&Line) -> Option<String>| -> ArrayRef {
        Arc::new(lines.iter().map(of).collect::<StringArray>())
    };
    let number = |of: fn(&Partition) -> u64| -> ArrayRef {
        Arc::new(lines.iter().map(|(.., it)| it.as_ref().map(of)).collect::<UInt64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("node", text(|(node, ..)| Some(node.name.to_string()))),
        ("state", text(|(_, state, _)| Some(state.clone()))),
        ("partition", text(|(.., it)| it.as_ref().map(|it| it.path.to_string()))),
        ("rows", number(|it| it.rows)),
        ("segments", number(|it| it.segments)),
        ("bytes", number(|it| it.bytes)),
    ];
    Ok((RecordBatch::try_from_iter_with_nullable(nullable(columns))?, gone))
}

fn nullable(columns: Vec<(&str, ArrayRef)>) -> impl Iterator<Item = (&str, ArrayRef, bool)> {
    columns.into_iter().map(|(name, column)| (name, column, true))
}

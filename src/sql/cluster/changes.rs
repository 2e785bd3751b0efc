//! DELETE, UPDATE and DROP TABLE over machines of a cluster.
//!
//! ```text
//! request   as that of a load (`storing`), with one of these in the place of the transfer
//! CHANGE    the state of the table u8…: its identity, generation and checksum · is it to be
//!           exactly this u8 · a root, for its columns · has zone u8 · { zone } · which rows u8:
//!           0 all, 1 those of a scan, 2 those of a filter · { plan } · has values u8 ·
//!           { columns u32 · { position u32 }… · plan }
//! answer    BEGUN · READY with the number of rows u64 · STORED with a generation u64
//! DROP      the table's identity 16 · is it only to be closed u8
//! answer    BEGUN · READY · STORED with 0
//! ```
//!
//! A table in copies is changed otherwise (`inserts`), so that the copies stay the same.
//!
//! Each machine holds the writer's lock from BEGUN on, and has written all that changes before it
//! says READY; the first one commits after the last one has said so. They are begun one after the
//! other in the order of their names, as loads are, so that two statements do not wait for each
//! other, and a row that moves between machines is on one of them at that time.
//!
//! Where the rows or the values come from the table that is changed, by a subquery, its parts have
//! to be exactly those that were read. Otherwise others may have stored rows since.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use futures::future::join_all;

use super::calls::{Answering, Asked};
use super::codec::{decoded, encoded, in_zone};
use super::description::Placement;
use super::nodes::{CHANGED, Nodes};
use super::state::{Answer, STATE, question, read_answer, state_of};
use super::storing::{BEGUN, COMMIT, Delivery, READY, STORED, check_done, table_of};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::ingest::partition::Compile;
use crate::maintain::transfer::{read_root, root_for_others, write_root};
use crate::maintain::{Dropping, Modification, ModifyOptions, prepare};
use crate::manifest::Id;
use crate::model::Schema;
use crate::sql::functions::in_doubles::computes_as;
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::names::catalog::Tables;
use crate::sql::rules::opaque::is_identity;
use crate::sql::run::parts::{Node, Part, TableState};
use crate::sql::run::table::StoreTable;
use crate::sql::work::handle::OfSession;
use crate::sql::write::modify::{RemoteChange, RemoteRows, remote_values};
use crate::sql::write::{matched, value_set};
use crate::store::{Store, Table, TableWriter};

/// Where a machine changes rows of a table.
pub(in crate::sql) const CHANGE: &str = "/sty.Node/Change";
/// Where it drops a table.
pub(in crate::sql) const DROP: &str = "/sty.Node/Drop";

/// The longest plan, and the most columns that get values.
const MOST_PLAN: usize = 1 << 30;
const MOST_COLUMNS: usize = 1 << 20;

/// How long a machine waits for who still reads a table that is dropped. After that, its own tasks
/// no longer count: what remains of those that have ended goes with later ones.
const READING: Duration = Duration::from_secs(1);

/// Machines that have prepared what they are to do.
pub(in crate::sql) struct Begun {
    machines: Vec<Delivery>,
    /// Rows that change.
    pub(in crate::sql) rows: u64,
}

impl Begun {
    /// Has all of them commit. `what` says what they have done then, and `then` what to do if some
    /// have not.
    pub(in crate::sql) async fn commit(self, what: &str, then: &str) -> Result<()> {
        let names: Vec<_> = self.machines.iter().map(|it| it.node().name.to_string()).collect();
        let committed = join_all(self.machines.into_iter().map(Delivery::commit)).await;
        let outcomes: Vec<_> = names.into_iter().zip(committed).collect();
        check_done(&outcomes, what, then)
    }
}

/// A change of rows, as it is sent.
pub(in crate::sql) struct SentChange {
    table: Arc<StoreTable>,
    is_exact: bool,
    /// What follows the state of the part.
    rest: Vec<u8>,
}

impl SentChange {
    /// Writes a change. It is refused if other machines may not understand it. `is_exact` says that
    /// the parts of the table have to be what they were when the statement was planned.
    pub(in crate::sql) fn new(
        change: &RemoteChange,
        is_exact: bool,
        zone: Option<&str>,
        functions: &TaskContext,
    ) -> Result<SentChange> {
        check_places(change)?;
        let zoned = zone.map(|zone| in_zone(functions, zone));
        let functions = zoned.as_ref().unwrap_or(functions);
        let mut rest = Writer::new();
        let root = change.table.snapshot().root();
        write_root(&root_for_others(root, Vec::new()), &mut rest);
        rest.u8(u8::from(zone.is_some()));
        zone.iter().for_each(|zone| rest.blob(zone.as_bytes()));
        let plan = |plan: &LogicalPlan, rest: &mut Writer| -> Result<()> {
            check_known(plan, functions)?;
            rest.blob(&encoded(plan)?);
            Ok(())
        };
        let (kind, rows) = match &change.rows {
            RemoteRows::All => (0, None),
            RemoteRows::Scanned(rows) => (1, Some(rows)),
            RemoteRows::Filtered(rows) => (2, Some(rows)),
        };
        rest.u8(kind);
        rows.map(|rows| plan(rows, &mut rest)).transpose()?;
        rest.u8(u8::from(change.set.is_some()));
        if let Some((places, values)) = &change.set {
            rest.count(places.len());
            places.iter().for_each(|at| rest.u32(u32::try_from(*at).unwrap_or(u32::MAX)));
            plan(values, &mut rest)?;
        }
        let table = Arc::clone(&change.table);
        Ok(SentChange { table, is_exact, rest: rest.into_vec() })
    }

    /// What the machine of a part is sent.
    fn of_part(&self, part: &Part) -> Vec<u8> {
        let mut out = Writer::new();
        part.state.write(&mut out);
        out.u8(u8::from(self.is_exact));
        out.put(&self.rest);
        out.into_vec()
    }

    /// Has all machines prepare the change, which wait this long for other writers, or as long as
    /// they do otherwise.
    pub(in crate::sql) async fn begin(
        &self,
        nodes: &Nodes,
        wait: Option<Duration>,
    ) -> Result<Begun> {
        // Of machines that share a directory, one writes it.
        let writes = |part: &&Part| part.share.is_none_or(|share| share.number == 0);
        let parts = self.table.parts().into_iter().flat_map(|parts| parts.iter());
        let mut parts: Vec<&Part> = parts.filter(writes).collect();
        parts.sort_by_key(|part| &part.node.name);
        let name = self.table.snapshot().table_name();
        let mut begun = Vec::new();
        for part in parts {
            let what = self.of_part(part);
            begun.push(Delivery::begin(nodes, &part.node, CHANGE, name, &what, wait).await?);
        }
        let preparing = begun.into_iter().map(|mut delivery| async {
            let rows = delivery.arrived().await?;
            Ok((Cursor::new(&rows).u64()?, delivery))
        });
        let prepared = join_all(preparing).await.into_iter().collect::<Result<Vec<_>>>()?;
        let rows = prepared.iter().map(|(rows, _)| rows).sum();
        // The others have nothing to commit.
        let changing = prepared.into_iter().filter(|(rows, _)| *rows > 0);
        Ok(Begun { machines: changing.map(|(_, delivery)| delivery).collect(), rows })
    }
}

/// Refuses new values of what a table is partitioned by: rows would have to change their machines.
fn check_places(change: &RemoteChange) -> Result<()> {
    let root = change.table.snapshot().root();
    let keys = || root.arrangement.partition_by.iter().flat_map(|key| &key.columns);
    let columns = root.schema.columns();
    let set = change.set.iter().flat_map(|(places, _)| places);
    let of_key =
        set.filter_map(|at| columns.get(*at)).find(|column| keys().any(|(_, id)| *id == column.id));
    let is_spread = change
        .table
        .parts()
        .is_some_and(|parts| parts.iter().filter(|part| part.share.is_none()).count() > 1);
    match of_key.filter(|_| is_spread) {
        None => Ok(()),
        Some(column) => Err(Error::Unsupported(format!(
            "UPDATE of column {}, by which {} is partitioned, over a cluster: rows would have to \
             go to other nodes; insert them with their new values, and delete the old ones",
            column.name,
            change.table.name()
        ))),
    }
}

/// Refuses functions that have another meaning on other machines, or none.
fn check_known(plan: &LogicalPlan, functions: &TaskContext) -> Result<()> {
    let mut unknown = None;
    let mut look = |expr: &Expr| {
        if let Expr::ScalarFunction(call) = expr {
            let known = functions.scalar_functions().get(call.func.name());
            let is_known = known.is_some_and(|known| computes_as(known, &call.func))
                || is_identity(&call.func)
                || value_set::is_set(&call.func)
                || matched::is_match(&call.func);
            if !is_known {
                unknown = Some(call.func.name().to_owned());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(|node| node.apply_expressions(|expr| expr.apply(&mut look)))?;
    match unknown {
        None => Ok(()),
        Some(name) => Err(Error::Unsupported(format!(
            "{name} in DELETE or UPDATE over a cluster; run the statement on the store of each node"
        ))),
    }
}

/// What a machine needs to change rows.
pub(in crate::sql) struct OfChange {
    pub(in crate::sql) tables: Arc<Tables>,
    pub(in crate::sql) functions: Arc<TaskContext>,
    pub(in crate::sql) state: SessionState,
    pub(in crate::sql) options: ModifyOptions,
    /// The session, which is cancelled with the call as long as it is held.
    pub(in crate::sql) _session: Arc<OfSession>,
}

/// Changes rows of a table of the store.
pub(in crate::sql) fn change(
    mut of: OfChange,
    store: &Store,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    let table = table_of(store, &mut from)?;
    let (state, is_exact) = (TableState::read(&mut from)?, from.u8()? > 0);
    let root = read_root(&mut from)?;
    let writer = table.writer(None)?;
    check_table(&table, &writer, &state, &root.schema, is_exact)?;
    say.say(BEGUN, &[])?;
    // The writer's lock is held: this is the generation that the commit will follow.
    let here = Arc::new(StoreTable::new(table.snapshot()?, None));
    let zone = if from.u8()? > 0 { Some(from.text(MOST_PLAN)?) } else { None };
    if let Some(zone) = zone {
        of.state.config_mut().options_mut().execution.time_zone = Some(zone.to_owned());
    }
    let plan = |from: &mut Cursor<'_>| -> Result<LogicalPlan> {
        Ok(decoded(from.blob(MOST_PLAN)?, &of.functions, zone, &here)?)
    };
    let rows = match from.u8()? {
        0 => RemoteRows::All,
        1 => RemoteRows::Scanned(plan(&mut from)?),
        2 => RemoteRows::Filtered(plan(&mut from)?),
        _ => return Err(from.corrupt("rows of an unknown kind")),
    };
    let mut set = None;
    if from.u8()? > 0 {
        let mut places = Vec::new();
        for _ in 0..from.count(size_of::<u32>(), MOST_COLUMNS)? {
            places.push(from.u32()? as usize);
        }
        set = Some(remote_values(&places, &plan(&mut from)?, &of.state)?);
    }
    from.finish()?;
    let conditions = rows.conditions(&here, &of.state)?;
    let compile: Arc<dyn Compile> = Arc::new(SqlExpressions::default());
    let modification = Modification {
        columns: conditions.columns,
        conditions: conditions.conditions,
        set,
        compile: Some(compile),
    };
    drop((rows, here));
    of.tables.release(table.name());
    let prepared = prepare(&table, writer, &modification, &of.options)?;
    say.say(READY, &prepared.report.rows.to_le_bytes())?;
    // Without that word, nothing is stored.
    if request.word() == Some(COMMIT) {
        let (commit, _) = prepared.commit()?;
        let generation = commit.map_or(state.generation, |commit| commit.generation);
        say.say(STORED, &generation.to_le_bytes())?;
    }
    Ok(())
}

/// Refuses a table that is not what the statement was planned for.
fn check_table(
    table: &Table,
    writer: &TableWriter,
    state: &TableState,
    columns: &Schema,
    is_exact: bool,
) -> Result<()> {
    let is_same = writer.base().is_some_and(|root| match is_exact {
        true => state_of(root) == *state,
        false => root.table == state.table,
    });
    let (one, other) = (writer.schema().columns(), columns.columns());
    let are_same = one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.id == other.id && one.name == other.name && one.data_type == other.data_type
        });
    if is_same && are_same {
        return Ok(());
    }
    let name = table.name();
    Err(Error::Busy(format!("table {name} is not the one {CHANGED}; try again")))
}

/// Has the machines that have a table close it for all but this, so that it can be dropped; `None`
/// if none of them has it. They wait this long for other writers, or as long as they do otherwise.
pub(in crate::sql) async fn begin_drop(
    nodes: &Nodes,
    name: &str,
    wait: Option<Duration>,
) -> Result<Option<Begun>> {
    let (placement, mut of_table) = nodes.description.placed(name);
    of_table.sort_by(|one, other| one.name.cmp(&other.name));
    let asked = of_table.iter().map(|node| nodes.ask(node, STATE, question(name, None)));
    let mut have: Vec<(&Arc<Node>, String, Id)> = Vec::new();
    for (node, answer) in of_table.iter().zip(join_all(asked).await) {
        if let Answer::Changed(table) = read_answer(&answer?, None)? {
            have.push((node, table.name.to_string(), table.state.table));
        }
    }
    let begin = |(node, name, id): (&Arc<Node>, String, Id), only_closes: bool| {
        let node = Arc::clone(node);
        async move {
            let mut what = Writer::new();
            what.put(&id);
            what.u8(u8::from(only_closes));
            let what = what.into_vec();
            let mut begun = Delivery::begin(nodes, &node, DROP, &name, &what, wait).await?;
            begun.arrived().await?;
            Ok::<_, Error>(begun)
        }
    };
    let mut machines = Vec::new();
    let mut have = have.into_iter();
    if placement == Placement::Shared {
        // They have one directory, which the first of them drops.
        let first = have.next();
        for other in have.by_ref() {
            begin(other, true).await?;
        }
        have = first.into_iter().collect::<Vec<_>>().into_iter();
    }
    for one in have {
        machines.push(begin(one, false).await?);
    }
    Ok((!machines.is_empty()).then_some(Begun { machines, rows: 0 }))
}

/// Drops a table of the store, or only closes it.
pub(in crate::sql) fn drop_here(
    tables: &Tables,
    store: &Store,
    request: &mut Asked,
    say: &mut Answering,
) -> Result<()> {
    let head = request.head()?;
    let mut from = Cursor::new(&head);
    let table = table_of(store, &mut from)?;
    let (id, only_closes) = (from.uuid()?, from.u8()? > 0);
    from.finish()?;
    let begun = Instant::now();
    let close = || {
        tables.release(table.name());
        if begun.elapsed() >= READING {
            tables.let_go(table.name());
        }
    };
    let mut dropping = None;
    if only_closes {
        close();
    } else {
        let writer = table.writer(None)?;
        if writer.base().is_none_or(|root| root.table != id) {
            let name = table.name();
            return Err(Error::Busy(format!("table {name} is not the one {CHANGED}; try again")));
        }
        dropping = Some(Dropping::begin(store, &table, writer, READING * 2, close)?);
    }
    say.say(BEGUN, &[])?;
    say.say(READY, &[])?;
    // Without that word, it stays.
    if request.word() == Some(COMMIT)
        && let Some(dropping) = dropping
    {
        dropping.finish()?;
        say.say(STORED, &0_u64.to_le_bytes())?;
    }
    Ok(())
}

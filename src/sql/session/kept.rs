//! Statements and plans that are kept for the next time that they come.
//!
//! Where this stands on the road of a query: in front of parsing and of planning. Clients of a
//! server send the same texts again and again, and many a statement is answered in less time than
//! it is planned in. So an engine that is told to keeps what texts were parsed into, for all of its
//! sessions, and plans, each for the session that has made it:
//!
//! - the plan of an answer, which answers again for the same values of parameters while all names
//!   mean the same tables at the same generations;
//! - the logical plan before it is given its parameters, from which the rest of planning begins for
//!   other values.
//!
//! A text or plan is kept the second time that it comes. Most texts have literals of their own and
//! never come again; to keep them would push out those that do.
//!
//! A plan keeps its tables open: [`KeptPlans::forget_unused`] closes those that nothing has used
//! for a while, and who writes to a table forgets the plans that read it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::planned::Planned;
use super::{Session, Statement};
use crate::error::Result;
use crate::sql::names::lock;
use crate::sql::names::meaning::Meanings;
use crate::sql::names::parameters::Parameters;
use crate::sql::rules::null_rows::NullRowsExec;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;
use crate::sql::run::sort::ExternalSortExec;
use crate::sql::syntax::parse::Parsed;

type Plan = Arc<dyn ExecutionPlan>;

/// What planning finds out about a statement that may come again.
#[derive(Debug, Default)]
pub(in crate::sql) struct Template(Mutex<Found>);

#[derive(Debug, Default)]
enum Found {
    #[default]
    Nothing,
    /// The plan of the answer, and of what it was made, if that has placeholders.
    Plans { answer: Plan, unbound: Option<Arc<LogicalPlan>> },
    /// It was written out by what tables have in them.
    Never,
}

impl Template {
    /// Notes what came of the statement, the last time that it was planned.
    pub(super) fn note(&self, unbound: Option<Arc<LogicalPlan>>, answer: &Plan) {
        let mut found = lock(&self.0);
        if !matches!(*found, Found::Never) {
            *found = Found::Plans { answer: Arc::clone(answer), unbound };
        }
    }

    /// Forgets what came of the statement before: it is planned in other words.
    pub(super) fn begin(&self) {
        let mut found = lock(&self.0);
        if !matches!(*found, Found::Never) {
            *found = Found::Nothing;
        }
    }

    /// Notes that the statement is to be planned each time.
    pub(super) fn refuse(&self) {
        *lock(&self.0) = Found::Never;
    }

    /// Whether a plan may be kept, and of what it may be made with other parameters: of what came
    /// before it, unless its columns were given other names in the end.
    pub(super) fn of(self, plan: &Plan) -> Option<Option<Arc<LogicalPlan>>> {
        let found = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Found::Plans { answer, unbound } = found else { return None };
        Some(unbound.filter(|_| Arc::ptr_eq(&answer, plan)))
    }
}

/// The longest text that is kept, in bytes, and its most levels; the most texts, and the most plans
/// of all sessions and of one.
const LONGEST_TEXT: usize = 4096;
const MOST_LEVELS: usize = 100;
const MOST_TEXTS: usize = 512;
const MOST_PLANS: usize = 2048;
const MOST_OF_SESSION: usize = 32;
/// How many texts and statements are remembered to have come.
const MOST_SEEN: usize = 4096;

/// What the sessions of an engine keep.
#[derive(Debug, Default)]
pub(super) struct KeptPlans {
    texts: Mutex<HashMap<String, Text>>,
    plans: Mutex<Plans>,
    sessions: AtomicU64,
    seen: Seen,
}

/// What has come of late, by its hash: a doorkeeper, as TinyLFU (Einziger, Friedman, Manes) has it.
#[derive(Debug)]
struct Seen {
    hasher: RandomState,
    hashes: Box<[AtomicU64]>,
}

impl Default for Seen {
    fn default() -> Seen {
        let hashes = (0..MOST_SEEN).map(|_| AtomicU64::new(0)).collect();
        Seen { hasher: RandomState::new(), hashes }
    }
}

/// What is to be kept.
#[derive(Hash)]
enum Kind {
    Text,
    Plan,
}

impl Seen {
    /// Whether it has come before, unless others have taken its place; it has from now on.
    fn again(&self, kind: Kind, text: &str) -> bool {
        let hash = self.hasher.hash_one((kind, text));
        let slot = self.hashes.get(hash as usize % MOST_SEEN);
        slot.is_some_and(|slot| slot.swap(hash, Ordering::Relaxed) == hash)
    }
}

#[derive(Debug)]
struct Text {
    dialect: Dialect,
    statements: Vec<Statement>,
    used: Instant,
}

#[derive(Debug, Default)]
struct Plans {
    /// Those of each session, by its number.
    of: HashMap<u64, Vec<Kept>>,
    count: usize,
}

/// A plan of a statement.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// Its address tells statements apart.
    pub(super) parsed: Arc<Parsed>,
    pub(super) parameters: Parameters,
    /// What answers, which no one runs: copies of it are run.
    pub(super) plan: Plan,
    /// What comes of the statement before it has parameters, if it has some.
    pub(super) unbound: Option<Arc<LogicalPlan>>,
    /// What its names mean.
    pub(super) tables: Meanings,
    /// The number of changes to the names of the session.
    pub(super) changes: u64,
    pub(super) used: Instant,
}

impl KeptPlans {
    /// The number of a new session.
    pub(super) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// The statements of a text that was parsed before.
    pub(super) fn parsed(&self, sql: &str, dialect: Dialect) -> Option<Vec<Statement>> {
        let mut texts = lock(&self.texts);
        let text = texts.get_mut(sql).filter(|text| text.dialect == dialect)?;
        text.used = Instant::now();
        Some(text.statements.clone())
    }

    /// Keeps the statements of a text, if they are queries and it comes again.
    pub(super) fn keep_parsed(&self, sql: &str, dialect: Dialect, statements: &[Statement]) {
        if sql.len() > LONGEST_TEXT
            || !statements.iter().all(Statement::is_query)
            || !self.seen.again(Kind::Text, sql)
        {
            return;
        }
        let mut texts = lock(&self.texts);
        if texts.len() >= MOST_TEXTS {
            let oldest = median(texts.values().map(|text| text.used));
            texts.retain(|_, text| text.used > oldest);
        }
        let (statements, used) = (statements.to_vec(), Instant::now());
        texts.insert(sql.to_owned(), Text { dialect, statements, used });
    }

    /// The plan of a statement of a session, with parameters that may be others.
    pub(super) fn get(&self, session: u64, parsed: &Arc<Parsed>, of: &Parameters) -> Option<Kept> {
        let mut plans = lock(&self.plans);
        let known = plans.of.get_mut(&session)?;
        let same = |kept: &Kept| Arc::ptr_eq(&kept.parsed, parsed);
        let exactly = known.iter().position(|kept| same(kept) && kept.parameters.are_same(of));
        let at = exactly.or_else(|| known.iter().position(same))?;
        let kept = known.get_mut(at)?;
        kept.used = Instant::now();
        Some(kept.clone())
    }

    /// Keeps a plan, in place of another one of the same statement.
    pub(super) fn keep(&self, session: u64, kept: Kept) {
        // Files are unmapped while nobody waits for the lock.
        let mut forgotten = Vec::new();
        let mut plans = lock(&self.plans);
        if plans.count >= MOST_PLANS {
            let oldest = median(plans.of.values().flatten().map(|kept| kept.used));
            forgotten = plans.take(|kept| kept.used <= oldest);
        }
        let known = plans.of.entry(session).or_default();
        let before = known.len();
        known.retain(|other| !Arc::ptr_eq(&other.parsed, &kept.parsed));
        if known.len() >= MOST_OF_SESSION {
            let oldest = known.iter().enumerate().min_by_key(|(_, kept)| kept.used);
            oldest.map(|(at, _)| at).map(|at| known.swap_remove(at));
        }
        known.push(kept);
        let after = known.len();
        plans.count = plans.count + after - before;
        drop(plans);
        drop(forgotten);
    }

    /// Forgets the plans of a session: names may mean something else.
    pub(super) fn forget_session(&self, session: u64) {
        let mut plans = lock(&self.plans);
        let forgotten = plans.of.remove(&session).unwrap_or_default();
        plans.count -= forgotten.len();
        drop(plans);
        drop(forgotten);
    }

    /// Forgets the plans that read a table, which is about to change.
    pub(super) fn forget_table(&self, name: &str) {
        let of_table = |kept: &Kept| kept.tables.iter().any(|(_, table)| table.name() == name);
        let forgotten = lock(&self.plans).take(of_table);
        drop(forgotten);
    }

    /// How many plans a session has kept.
    #[cfg(test)]
    pub(super) fn count(&self, session: u64) -> usize {
        lock(&self.plans).of.get(&session).map_or(0, Vec::len)
    }

    /// Forgets what no statement has used for a while.
    pub(super) fn forget_unused(&self, time: Duration) {
        let forgotten = lock(&self.plans).take(|kept| kept.used.elapsed() >= time);
        drop(forgotten);
    }
}

impl Plans {
    fn take(&mut self, which: impl Fn(&Kept) -> bool) -> Vec<Kept> {
        let of_session = |known: &mut Vec<Kept>| known.extract_if(.., |kept| which(kept)).collect();
        let taken: Vec<Vec<Kept>> = self.of.values_mut().map(of_session).collect();
        self.of.retain(|_, known| !known.is_empty());
        self.count -= taken.iter().map(Vec::len).sum::<usize>();
        taken.into_iter().flatten().collect()
    }
}

impl Session {
    /// Plans a statement, or finds what became of it before.
    pub(super) fn plan_or_find(
        &self,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Result<Planned> {
        let Some(kept) = &self.kept else { return self.plan(statement, parameters, None) };
        if !statement.is_query() || !is_small(statement, parameters) {
            if statement.changes_session() {
                kept.forget_session(self.number);
            }
            return self.plan(statement, parameters, None);
        }
        if let Some(plan) = self.found(kept, statement, parameters) {
            return Ok(Planned::Answer(plan));
        }
        if !kept.seen.again(Kind::Plan, &statement.parsed.text) {
            return self.plan(statement, parameters, None);
        }
        let template = Template::default();
        let planned = self.plan(statement, parameters, Some(&template))?;
        if let Planned::Answer(plan) = &planned
            && let Some(unbound) = template.of(plan)
            && let Some(tables) = self.tables.looked_up()
            && let Some(plan) = copied(plan)?
        {
            let (parsed, parameters) = (Arc::clone(&statement.parsed), parameters.clone());
            let (changes, used) = (self.tables.changes(), Instant::now());
            let kept_plan = Kept { parsed, parameters, plan, unbound, tables, changes, used };
            kept.keep(self.number, kept_plan);
        }
        Ok(planned)
    }

    /// The plan of a statement that was planned before, if its names mean the same.
    fn found(
        &self,
        kept: &KeptPlans,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Option<Plan> {
        let known = kept.get(self.number, &statement.parsed, parameters)?;
        self.tables.begin_statement();
        if known.changes != self.tables.changes()
            || !known.tables.iter().all(|(name, table)| self.tables.still_means(name, table))
        {
            return None;
        }
        self.own.workers.expect_levels(statement.parsed.levels);
        if known.parameters.are_same(parameters) {
            return copied(&known.plan).ok().flatten();
        }
        // If it cannot be planned with these values, the error is that of the whole statement.
        let bound = parameters.bind(LogicalPlan::clone(known.unbound.as_ref()?)).ok()?;
        let state = self.context.state();
        let planning = Box::pin(state.create_physical_plan(&bound));
        self.own.workers.run(&self.own.canceller, planning).ok()?.ok()
    }

    /// Closes a table of the store that is about to change, here and in plans of other sessions.
    pub(super) fn release(&self, table: &str) {
        self.tables.release(table);
        self.kept.iter().for_each(|kept| kept.forget_table(table));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kept.iter().for_each(|kept| kept.forget_session(self.number));
    }
}

/// Whether it is worth keeping what becomes of a statement: plans are dropped on any thread, whose
/// stack deep ones would overflow, and no memory is counted for them.
fn is_small(statement: &Statement, parameters: &Parameters) -> bool {
    let Parsed { text, levels, .. } = &*statement.parsed;
    text.len() <= LONGEST_TEXT && *levels <= MOST_LEVELS && parameters.bytes() <= LONGEST_TEXT
}

/// The median of points in time; now, if there are none.
fn median(times: impl Iterator<Item = Instant>) -> Instant {
    let mut times: Vec<Instant> = times.collect();
    let middle = times.len() / 2;
    match times.is_empty() {
        true => Instant::now(),
        false => *times.select_nth_unstable(middle).1,
    }
}

/// Whether a plan means the same whenever it is planned: it calls nothing that depends on the time,
/// on chance, or on the session.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> bool {
    let mut repeatable = true;
    let mut visit = |expr: &Expr| {
        repeatable &= match expr {
            Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
            Expr::AggregateFunction(call) => {
                call.func.signature().volatility == Volatility::Immutable
            }
            Expr::WindowFunction(call) => call.fun.signature().volatility == Volatility::Immutable,
            Expr::ScalarVariable(..) => false,
            _ => true,
        };
        Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    };
    let visited = plan.apply_with_subqueries(|node| {
        // What views and files stand for is looked up while a statement is planned.
        node.apply_expressions(|expr| expr.apply(&mut visit))
    });
    visited.is_ok() && repeatable
}

/// A copy of a plan that was not run, to be run; `None` if an operator of it keeps what it has
/// found out where copies would share it.
pub(super) fn copied(plan: &Plan) -> DataFusionResult<Option<Plan>> {
    if let Some(fragment) = plan.downcast_ref::<FragmentExec>() {
        return Ok(fragment.copied().map(|copy| Arc::new(copy) as _));
    }
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(scan.copied().map(|copy| Arc::new(copy) as _));
    }
    if !is_copied(plan) {
        return Ok(None);
    }
    let mut children = Vec::new();
    for child in plan.children() {
        let Some(child) = copied(child)? else { return Ok(None) };
        children.push(child);
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Some(Arc::clone(plan).replace_children(children, same)?.reset_state()?))
}

/// Operators that keep nothing but counts.
fn is_copied(plan: &Plan) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<SortExec>()
        || plan.is::<ExternalSortExec>()
        || plan.is::<NullRowsExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan.is::<EmptyExec>()
}

//! An engine: what the sessions over a store share, and how a session is made of it.
//!
//! Where this stands on the road of a query: before it. An engine configures DataFusion once, with
//! the rules and functions that plan and answer statements, and has one memory, the threads that
//! statements borrow, and the tables that are open. A session adds what is its caller's own.

use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::config::ConfigNonZeroUsize;
#[cfg(feature = "cluster")]
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::{SessionConfig, SessionContext};

#[cfg(feature = "cluster")]
use super::cluster;
use super::defaults::Beginning;
use super::kept::KeptPlans;
use super::pool::{StatementMemory, environment, within};
use super::{Session, SessionOptions, check_store_exists, decoded, neighbours, rules, views};
use crate::disk::{LockWait, memory};
use crate::error::Result;
#[cfg(feature = "cluster")]
use crate::ingest::load::LoadOptions;
use crate::maintain::restore_replaced;
#[cfg(feature = "cluster")]
use crate::sql::cluster::{
    distribute::Functions,
    functions::{hidden, hidden_aggregates},
    nodes::Nodes,
    tables::ClusterTables,
};
use crate::sql::functions::bounds::MostBytes;
use crate::sql::functions::elements::ElementsOfLists;
use crate::sql::functions::json::{self, JsonOperators};
use crate::sql::functions::{aggregates, dates, growing, lead, nearest, patterns, rankings, text};
use crate::sql::names::attached::Schemas;
use crate::sql::names::catalog::Tables;
use crate::sql::names::stored::OpenTables;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::plan::planner::Planner;
use crate::sql::plan::summarize::Summaries;
use crate::sql::rules::decorrelate::Laterals;
use crate::sql::run::progress::StatementProgress;
use crate::sql::run::range_join::JoinByRanges;
use crate::sql::run::settings::Settings;
use crate::sql::syntax::column_aliases::ColumnAliases;
use crate::sql::syntax::whole_rows::WholeRows;
use crate::sql::syntax::{dialect, marks, similar};
use crate::sql::types::booleans::BooleanComparison;
use crate::sql::types::decimals::DecimalArithmetic;
use crate::sql::types::intervals::IntervalArithmetic;
use crate::sql::types::names::SqlTypes;
use crate::sql::types::times::{self, TimeOfDayComparison};
use crate::sql::types::uuids;
use crate::sql::types::zones;
use crate::sql::work::cancel::Canceller;
use crate::sql::work::crews::Crews;
use crate::sql::work::handle::{OfSession, SessionHandle, Widest};
use crate::sql::work::workers::Workers;
use crate::sql::write::group::Groups;
use crate::store::Store;

/// What sessions share: the memory, the threads, the tables of a store that are open, and what
/// plans are made with. Clones are the same engine.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Option<Store>,
    options: SessionOptions,
    /// How statements wait for writers of other processes, unless a setting says otherwise.
    wait: LockWait,
    threads: usize,
    /// Bytes for one statement.
    memory: u64,
    /// The tables of the store that sessions have opened.
    open: OpenTables,
    kept: Arc<KeptPlans>,
    crews: Arc<Crews>,
    /// Small inserts that wait for a commit.
    groups: Arc<Groups>,
    /// The tables of a cluster, if it has one.
    #[cfg(feature = "cluster")]
    cluster: Option<Arc<ClusterTables>>,
    /// Of which the states of sessions are made.
    state: SessionState,
}

impl Engine {
    /// An engine over the tables of a store, which must exist unless the options allow creating it.
    pub fn open(store: &Store, options: &SessionOptions) -> Result<Engine> {
        if !options.create || options.read_only {
            check_store_exists(store)?;
        }
        // Statements wait before they are planned once more, and not within.
        let wait = store.wait().clone();
        let store = store.clone().with_wait(LockWait::default());
        if !options.read_only {
            // Best effort: a statement that creates the table says what is wrong.
            let _ = restore_replaced(&store);
        }
        Engine::over(Some(store), options, wait)
    }

    /// An engine without a store: constants, and files by name.
    pub fn new(options: &SessionOptions) -> Result<Engine> {
        Engine::over(None, options, LockWait::default())
    }

    fn over(store: Option<Store>, options: &SessionOptions, wait: LockWait) -> Result<Engine> {
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let all = options.memory_limit.unwrap_or_else(memory::default_limit);
        let memory = options.statement_memory.map_or(all, |most| most.min(all));
        let environment = environment(options.temp_dir.as_deref(), all)?;
        if let Some(store) = &store {
            if let Some(io) = options.io {
                store.set_io(io);
            }
            decoded::count(store, all, &environment.memory_pool);
        }
        #[cfg(feature = "cluster")]
        let nodes = options.cluster.clone().map(|it| Nodes::new(it).map(Arc::new)).transpose()?;
        #[cfg(feature = "cluster")]
        let known = Functions::default();
        let builder = SessionStateBuilder::new_with_default_features()
            .with_config(configuration(threads, memory, wait.most)?)
            .with_runtime_env(environment)
            .with_analyzer_rules(rules::analyzer_rules(MostBytes::new(memory)))
            .with_optimizer_rules(rules::logical_rules())
            .with_physical_optimizer_rules(rules::physical_rules(memory))
            .with_query_planner(Arc::new(Planner { shares: true }))
            .with_type_planner(Arc::new(SqlTypes))
            .with_relation_planners(vec![
                Arc::new(Laterals),
                Arc::new(Summaries),
                Arc::new(ColumnAliases),
                Arc::new(WholeRows),
            ]);
        #[cfg(feature = "cluster")]
        let builder = match &nodes {
            Some(nodes) => cluster::over(builder, nodes, Arc::clone(&known))?,
            None => builder.with_physical_optimizer_rule(Arc::new(JoinByRanges)),
        };
        #[cfg(not(feature = "cluster"))]
        let builder = builder.with_physical_optimizer_rule(Arc::new(JoinByRanges));
        let state = builder.build();
        let (open, crews) = (OpenTables::default(), Arc::new(Crews::new(threads)));
        let (state, options) = (with_functions(state, memory)?, options.clone());
        // Nodes are asked for the state of their tables each time that a statement is planned.
        #[cfg(feature = "cluster")]
        let options =
            SessionOptions { keep_plans: options.keep_plans && nodes.is_none(), ..options };
        let (groups, kept) = (Arc::default(), Arc::default());
        let shared = Shared {
            store,
            options,
            wait,
            threads,
            memory,
            open,
            kept,
            crews,
            groups,
            #[cfg(feature = "cluster")]
            cluster: nodes.map(|nodes| Arc::new(ClusterTables::new(nodes))),
            state,
        };
        let engine = Engine(Arc::new(shared));
        #[cfg(feature = "cluster")]
        known.get_or_init(|| engine.functions());
        Ok(engine)
    }

    /// A new session, with nothing of any other.
    pub fn session(&self) -> Result<Session> {
        #[cfg_attr(not(feature = "cluster"), expect(unused_mut, reason = "it has no cluster"))]
        let mut session = self.own_session()?;
        #[cfg(feature = "cluster")]
        if let Some(cluster) = &self.0.cluster {
            session.over_cluster = Some(self.clone());
            // Set once, when the session is made.
            let _ = session.tables.cluster.set(cluster::names(cluster));
        }
        Ok(session)
    }

    /// The threads of a statement.
    #[cfg(feature = "cluster")]
    pub(super) fn threads(&self) -> usize {
        self.0.threads
    }

    /// The store and how it is written for other machines; `None` if it is only read.
    #[cfg(feature = "cluster")]
    pub(super) fn writing(&self) -> Option<(Store, LoadOptions)> {
        let Shared { store, wait, threads, memory, options, .. } = &*self.0;
        let load = LoadOptions {
            threads: *threads,
            memory_limit: Some(*memory),
            ..LoadOptions::default()
        };
        let store = store.as_ref().filter(|_| !options.read_only)?;
        Some((store.clone().with_wait(wait.clone()), load))
    }

    /// A session over the engine's own tables, and not those of a cluster.
    pub(super) fn own_session(&self) -> Result<Session> {
        let Shared { options, wait, threads, memory, kept, groups, state, .. } = &*self.0;
        let Begun { tables, own, config, environment, memory_used } = self.begin();
        let canceller = own.canceller.clone();
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(Schemas(Arc::clone(&tables))));
        let state = SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_runtime_env(environment)
            .with_catalog_list(Arc::new(catalogs))
            .build();
        let context = SessionContext::new_with_state(state);
        let weak = context.state_weak_ref();
        let find_state = move || Some(weak.upgrade()?.read().clone());
        tables.set_view_planner(views::planner(find_state.clone(), &tables));
        tables.set_state(find_state);
        Ok(Session {
            context,
            tables,
            prepared: Arc::default(),
            kept: options.keep_plans.then(|| Arc::clone(kept)),
            number: kept.session(),
            own,
            wait: LockWait { cancelled: canceller.flag(), ..wait.clone() },
            progress: StatementProgress::default(),
            memory_used,
            groups: Arc::clone(groups),
            #[cfg(feature = "cluster")]
            over_cluster: None,
            threads: *threads,
            memory: *memory,
            shares_memory: options.statement_memory.is_some(),
            read_only: options.read_only,
            only_reads: AtomicBool::new(false),
        })
    }

    /// What a session begins with, also one for a task of another machine.
    pub(super) fn begin(&self) -> Begun {
        let Shared { store, options, threads, memory, open, crews, state, .. } = &*self.0;
        let mut tables = match store {
            Some(store) => Tables::new(store, open),
            None => Tables::default(),
        };
        tables.no_files = options.no_files;
        tables.io = options.io;
        let canceller = Canceller::default();
        if options.skip_damaged {
            tables.skip_damaged(*threads, canceller.flag());
        }
        let own = Arc::new(OfSession {
            canceller,
            workers: Arc::new(Workers::new(Arc::clone(crews))),
            widest: Widest::default(),
            temp_dir: options.temp_dir.clone().unwrap_or_else(std::env::temp_dir),
        });
        let mut config = state.config().clone();
        config.options_mut().extensions.insert(SessionHandle(Arc::clone(&own)));
        let memory_used = StatementMemory::default();
        let environment = match options.statement_memory {
            Some(_) => within(state.runtime_env(), *memory, &memory_used),
            None => Arc::clone(state.runtime_env()),
        };
        Beginning::note(&mut config, &environment);
        Begun { tables: Arc::new(tables), own, config, environment, memory_used }
    }

    /// The machines of the cluster whose tables statements read.
    #[cfg(feature = "cluster")]
    pub(super) fn nodes(&self) -> Option<Arc<Nodes>> {
        Some(self.0.cluster.as_ref()?.nodes())
    }

    /// The functions that plans of other machines may name.
    #[cfg(feature = "cluster")]
    pub(super) fn functions(&self) -> Arc<TaskContext> {
        let mut builder = SessionStateBuilder::new_from_existing(self.0.state.clone());
        let functions = builder.scalar_functions().get_or_insert_default();
        functions.extend(hidden(self.0.memory).map(Arc::new));
        builder.aggregate_functions().get_or_insert_default().extend(hidden_aggregates());
        builder.build().task_ctx()
    }

    /// Tells in which directories operators have spilled so far, for a process that ends in the
    /// middle of statements.
    #[doc(hidden)]
    pub fn spill_directories(&self) -> impl Fn() -> Vec<PathBuf> + Send + 'static {
        let environment = Arc::clone(self.0.state.runtime_env());
        move || environment.disk_manager.temp_dir_paths()
    }

    /// Closes tables that no statement reads, and none has read for this long, so that other
    /// processes may drop them, and remove the files of their older generations. Plans that none
    /// has used for this long are forgotten before. Threads that wait for statements for this long
    /// are ended, and the memory that is kept for them with them.
    pub fn close_unused(&self, time: Duration) {
        self.0.kept.forget_unused(time);
        self.0.open.close_unused(time);
        self.0.crews.end_unused(time);
    }
}

/// What a session begins with.
pub(super) struct Begun {
    pub(super) tables: Arc<Tables>,
    pub(super) own: Arc<OfSession>,
    pub(super) config: SessionConfig,
    pub(super) environment: Arc<RuntimeEnv>,
    memory_used: StatementMemory,
}

/// A state with the functions that statements may call.
fn with_functions(state: SessionState, memory: u64) -> Result<SessionState> {
    let most = MostBytes::new(memory);
    let mut context = SessionContext::new_with_state(state);
    context.register_expr_planner(Arc::new(IntervalArithmetic))?;
    context.register_expr_planner(Arc::new(DecimalArithmetic))?;
    context.register_expr_planner(Arc::new(TimeOfDayComparison))?;
    context.register_expr_planner(Arc::new(BooleanComparison))?;
    context.register_expr_planner(Arc::new(JsonOperators))?;
    dates::functions().for_each(|function| context.register_udf(function));
    aggregates::functions(memory).for_each(|function| context.register_udaf(function));
    let windows = lead::functions().into_iter().chain(nearest::functions());
    windows.chain(rankings::functions()).for_each(|function| context.register_udwf(function));
    context.register_udf(marks::function());
    context.register_udf(zones::function());
    context.register_udf(similar::function());
    let uuid = context.udf("uuid")?;
    context.register_udf(uuids::function(uuid));
    json::functions().for_each(|function| context.register_udf(function.as_ref().clone()));
    text::functions().for_each(|function| context.register_udf(function));
    let growing = growing::functions(|name| context.udf(name).ok(), &most);
    growing.into_iter().for_each(|function| context.register_udf(function));
    let patterns = patterns::functions(|name| context.udf(name).ok());
    patterns.into_iter().for_each(|function| context.register_udf(function));
    neighbours::register(&context);
    let times = times::immutable_functions().into_iter().chain(times::stable_functions());
    times.for_each(|function| context.register_udf(function));
    let series = times::series(context.state_ref().read().table_functions());
    series.into_iter().for_each(|(name, function)| context.register_udtf(name, function));
    let state = context.state();
    let (array_agg, first_value) = (state.udaf("array_agg")?, state.udaf("first_value")?);
    let elements: Arc<dyn ExprPlanner> = Arc::new(ElementsOfLists { array_agg, first_value });
    // Planners are asked in turn, and DataFusion's would answer first.
    let planners = iter::once(elements).chain(state.expr_planners().iter().cloned()).collect();
    Ok(SessionStateBuilder::new_from_existing(state).with_expr_planners(planners).build())
}

/// The part of the memory that may be read ahead of a merge, and the most bytes for one thread.
const READ_AHEAD_SHARE: u64 = 32;
const READ_AHEAD_BYTES: u64 = 16 << 20;

fn configuration(threads: usize, memory: u64, wait: Duration) -> Result<SessionConfig> {
    let mut config = dialect::session_config()
        .with_target_partitions(threads)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_option_extension(Settings { wait, usual_wait: wait, ..Settings::default() });
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    options.explain.logical_plan_only = false;
    // A third pass of the logical rules changes nothing in TPC-H, TPC-DS and ClickBench but numbers
    // in names, and takes a fifth of the time of planning.
    options.optimizer.max_passes = 2;
    // Readers of stored order run this far ahead of the merge above them, at most. By default it is
    // a gigabyte each, under any memory limit, and the merge finds no memory.
    let ahead = memory / READ_AHEAD_SHARE / threads.max(1) as u64;
    options.execution.sort_pushdown_buffer_capacity = ahead.clamp(1, READ_AHEAD_BYTES) as usize;
    // Each batch that `RepartitionExec` spills gets a file of its own. A reader waits for more of
    // an unfinished file even if the next file has what it needs, and the writers may wait for
    // the reader.
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;
    // DataFusion's logical and physical planner do not always agree which columns of an aggregate
    // are nullable, which is no reason to refuse the statement.
    options.execution.skip_physical_aggregate_schema_check = true;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state that is made of another one registers its functions in any order, each by its name
    /// and its other names.
    #[test]
    fn other_names_of_functions_are_those_of_the_same_functions() {
        let engine = Engine::new(&SessionOptions::default()).unwrap();
        let state = &engine.0.state;
        let mut wrong = Vec::new();
        for (key, function) in state.scalar_functions() {
            if state.scalar_functions().get(function.name()) != Some(function) {
                wrong.push(format!("{key} is not {}", function.name()));
            }
        }
        for (key, function) in state.aggregate_functions() {
            if state.aggregate_functions().get(function.name()) != Some(function) {
                wrong.push(format!("{key} is not {}", function.name()));
            }
        }
        for (key, function) in state.window_functions() {
            if state.window_functions().get(function.name()) != Some(function) {
                wrong.push(format!("{key} is not {}", function.name()));
            }
        }
        wrong.sort();
        assert_eq!(wrong, [""; 0]);
    }
}

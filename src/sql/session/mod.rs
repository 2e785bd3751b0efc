//! A session: configures DataFusion, once and quickly; parses, plans and starts statements.

mod attach;
mod decoded;
mod described;
pub(in crate::sql) mod dry_run;
mod execution;
mod expansion;
mod frugal;
pub(in crate::sql) mod known;
mod memory_settings;
mod neighbours;
mod planned;
mod pool;
pub(in crate::sql) mod prepared;
pub(in crate::sql) mod rules;
pub(in crate::sql) mod selection;
pub(in crate::sql) mod statement;
pub(in crate::sql) mod writes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::disk::{Io, LockWait, memory};
use crate::error::{Error, Result};
use crate::maintain::restore_replaced;
use crate::sql::functions::aggregates;
use crate::sql::functions::bounds::{MostBytes, Widest};
use crate::sql::functions::dates;
use crate::sql::functions::growing;
use crate::sql::functions::lead;
use crate::sql::functions::patterns;
use crate::sql::functions::text;
use crate::sql::names::attached::Schemas;
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::plan::planner::Planner;
use crate::sql::plan::summarize::Summaries;
use crate::sql::run::cancel::{Canceller, Workers};
use crate::sql::run::exec::Engine;
use crate::sql::run::progress::StatementProgress;
use crate::sql::run::settings::Settings;
use crate::sql::run::stream::BatchStream;
use crate::sql::session::pool::environment;
use crate::sql::session::prepared::Prepared;
use crate::sql::syntax::parse::{self, CopyTarget, Parsed};
use crate::sql::syntax::whole_rows::WholeRows;
use crate::sql::syntax::{dialect, marks, similar};
use crate::sql::types::decimals::DecimalArithmetic;
use crate::sql::types::intervals::IntervalArithmetic;
use crate::sql::types::names::SqlTypes;
use crate::sql::types::times::{self, TimeOfDayComparison};
use crate::sql::types::zones::{self};
use crate::store::Store;

/// What a session may use of the machine.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The number of worker threads; as many as the machine allows if `None`.
    pub threads: Option<usize>,
    /// Bytes of memory for sorts, joins and groups before they spill or fail, and for what is
    /// decoded of stored data, beyond a quarter of the limit (16 to 128 MiB) that is free for it;
    /// 70 % of the memory of the machine or the cgroup if `None`, or 256 MiB less than all of it.
    pub memory_limit: Option<u64>,
    /// The directory for spilled data; the system's directory for temporary files if `None`.
    pub temp_dir: Option<PathBuf>,
    /// How the store's data files are read; as the store says if `None`.
    pub io: Option<Io>,
    /// Whether a CREATE TABLE creates a store that does not exist. Until then, only settings work.
    pub create: bool,
    /// Whether statements read around damage: each table is verified when a statement first names a
    /// generation of it, and segments in which anything is damaged are left out, which a note says.
    pub skip_damaged: bool,
    /// Whether statements that would write to the store are refused. Views and settings still
    /// work: they are the session's own.
    pub read_only: bool,
    /// Whether statements are kept from files outside the store: as tables, as external tables, as
    /// the standard input, and from choosing where to spill.
    pub no_files: bool,
}

/// One statement, parsed but not yet planned: statements before it may change what its names mean.
#[derive(Clone, Debug)]
pub struct Statement {
    parsed: Parsed,
}

impl Statement {
    /// Whether the statement works before there is a store.
    fn needs_no_store(&self) -> bool {
        let sets = |statement: &SqlStatement| {
            matches!(
                statement,
                SqlStatement::CreateTable(_)
                    | SqlStatement::Set(_)
                    | SqlStatement::AttachDuckDBDatabase { .. }
                    | SqlStatement::DetachDuckDBDatabase { .. }
                    | SqlStatement::Use(_)
            )
        };
        matches!(&self.parsed.statement, parser::Statement::Statement(statement) if sets(statement))
    }
}

impl Statement {
    /// Where the rows of the statement go, if it is a COPY … TO. A session answers such a statement
    /// with the rows, and its caller writes them.
    pub fn copy_target(&self) -> Option<&CopyTarget> {
        self.parsed.copy.as_ref()
    }
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parsed.text.fmt(f)
    }
}

/// SQL over one store. Views and settings live as long as the session.
pub struct Session {
    context: SessionContext,
    tables: Arc<Tables>,
    prepared: Arc<Prepared>,
    workers: Arc<Workers>,
    canceller: Canceller,
    /// How statements wait for the writer of another process, unless a setting says otherwise.
    wait: LockWait,
    progress: StatementProgress,
    threads: usize,
    /// Bytes of memory that statements may use.
    memory: u64,
    /// Whether statements that write are refused.
    read_only: bool,
    /// The row that was too wide for the statement.
    widest: Arc<Widest>,
    /// Where operators spill.
    temp_dir: PathBuf,
}

impl Session {
    /// A session over the tables of a store, which must exist unless the options allow creating it.
    /// A table is opened when a statement first names it.
    pub fn open(store: &Store, options: &SessionOptions) -> Result<Session> {
        if !options.create || options.read_only {
            check_store_exists(store)?;
        }
        // Statements wait before they are planned once more, and not within.
        let wait = store.wait().clone();
        let store = &store.clone().with_wait(LockWait::default());
        if !options.read_only {
            // Best effort: a statement that creates the table says what is wrong.
            let _ = restore_replaced(store);
        }
        Session::with_tables(Tables::new(store), options, wait)
    }

    /// A session without a store: constants, and files by name.
    pub fn new(options: &SessionOptions) -> Result<Session> {
        Session::with_tables(Tables::default(), options, LockWait::default())
    }

    fn with_tables(
        mut tables: Tables,
        options: &SessionOptions,
        wait: LockWait,
    ) -> Result<Session> {
        tables.no_files = options.no_files;
        tables.io = options.io;
        let tables = Arc::new(tables);
        let threads = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(Schemas(Arc::clone(&tables))));
        let canceller = Canceller::default();
        if options.skip_damaged {
            tables.skip_damaged(threads, canceller.flag());
        }
        let memory = options.memory_limit.unwrap_or_else(memory::default_limit);
        let widest = Arc::new(Widest::default());
        let most = MostBytes::new(memory, Arc::clone(&widest));
        let engine = Arc::new(Engine::new(threads, options.temp_dir.clone(), canceller.clone()));
        let state = SessionStateBuilder::new_with_default_features()
            .with_config(
                configuration(threads, memory, wait.most)?.with_extension(Arc::clone(&widest)),
            )
            .with_runtime_env(environment(options.temp_dir.as_deref(), memory)?)
            .with_catalog_list(Arc::new(catalogs))
            .with_analyzer_rules(rules::analyzer_rules(most.clone()))
            .with_optimizer_rules(rules::logical_rules(&canceller.flag()))
            .with_physical_optimizer_rules(rules::physical_rules(memory, &canceller))
            .with_query_planner(Arc::new(Planner(engine)))
            .with_type_planner(Arc::new(SqlTypes))
            .with_relation_planners(vec![Arc::new(Summaries), Arc::new(WholeRows)])
            .build();
        let mut context = SessionContext::new_with_state(state);
        context.register_expr_planner(Arc::new(IntervalArithmetic))?;
        context.register_expr_planner(Arc::new(DecimalArithmetic))?;
        context.register_expr_planner(Arc::new(TimeOfDayComparison))?;
        dates::functions().for_each(|function| context.register_udf(function));
        aggregates::functions(memory).for_each(|function| context.register_udaf(function));
        lead::functions().into_iter().for_each(|function| context.register_udwf(function));
        context.register_udf(marks::function());
        context.register_udf(zones::function());
        context.register_udf(similar::function());
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
        let weak = context.state_weak_ref();
        tables.set_state(move || Some(weak.upgrade()?.read().clone()));
        if let Some(store) = tables.store() {
            if let Some(io) = options.io {
                store.set_io(io);
            }
            decoded::count(store, memory, &context.runtime_env().memory_pool);
        }
        let workers = Arc::new(Workers::new(threads)?);
        Ok(Session {
            context,
            tables,
            prepared: Arc::default(),
            workers,
            wait: LockWait { cancelled: canceller.flag(), ..wait },
            canceller,
            progress: StatementProgress::default(),
            threads,
            memory,
            read_only: options.read_only,
            widest,
            temp_dir: options.temp_dir.clone().unwrap_or_else(std::env::temp_dir),
        })
    }

    /// Splits a text into statements at `;`. A syntax error anywhere in it is found before anything
    /// runs.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let dialect = self.context.state_ref().read().config_options().sql_parser.dialect;
        let parsed = parse::statements(sql, dialect, self.memory)?;
        Ok(parsed.into_iter().map(|parsed| Statement { parsed }).collect())
    }

    /// Plans a statement and starts it. A statement that writes has done so when this returns. All
    /// scans of one table see the same generation.
    pub fn execute(&self, statement: &Statement, parameters: &Parameters) -> Result<BatchStream> {
        self.run_statement(statement, parameters, false)
    }

    /// Executes a statement like [`Session::execute`], but measures the time of each step for
    /// [`BatchStream::statistics`], at a small cost.
    #[doc(hidden)]
    pub fn execute_timed(
        &self,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Result<BatchStream> {
        self.run_statement(statement, parameters, true)
    }

    /// Parses a text and runs its statements in order, each to its end before the next; stops at
    /// the first error.
    pub fn run(
        &self,
        sql: &str,
        parameters: &Parameters,
        mut each: impl FnMut(BatchStream) -> Result<()>,
    ) -> Result<()> {
        self.parse(sql)?.iter().try_for_each(|statement| each(self.execute(statement, parameters)?))
    }

    /// Says that the session answers one statement, so that little is kept of what is decoded for
    /// it.
    #[doc(hidden)]
    pub fn answers_once(&self) {
        self.tables.store().iter().for_each(|store| store.budget().keep_at_most(KEPT_ONCE));
    }

    /// The notes about the statements since the last call, such as what was guessed about a file.
    #[doc(hidden)]
    pub fn take_notes(&self) -> Vec<String> {
        self.tables.take_notes()
    }

    /// Tells in which directories operators have spilled so far, for a process that ends in the
    /// middle of a statement.
    #[doc(hidden)]
    pub fn spill_directories(&self) -> impl Fn() -> Vec<PathBuf> + Send + 'static {
        let environment = self.context.runtime_env();
        move || environment.disk_manager.temp_dir_paths()
    }

    /// Tells how far the statement is that runs, from any thread.
    #[doc(hidden)]
    pub fn progress(&self) -> StatementProgress {
        self.progress.clone()
    }

    /// A handle that stops this session's work from another thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Bytes of dictionaries that are kept for one statement, unless it needs some of them again.
const KEPT_ONCE: usize = 64 << 20;
/// The part of the memory that may be read ahead of a merge, and the most bytes for one thread.
const READ_AHEAD_SHARE: u64 = 32;
const READ_AHEAD_BYTES: u64 = 16 << 20;

fn configuration(threads: usize, memory: u64, wait: Duration) -> Result<SessionConfig> {
    let mut config = dialect::session_config()
        .with_target_partitions(threads)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_option_extension(Settings { wait, ..Settings::default() });
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

fn check_store_exists(store: &Store) -> Result<()> {
    if store.exists()? {
        return Ok(());
    }
    let path = store.path().display();
    Err(Error::NotFound(format!(
        "there is no store at '{path}'; `sty ingest` or CREATE TABLE makes one"
    )))
}

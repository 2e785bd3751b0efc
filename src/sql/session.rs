//! A session: DataFusion configured once, quickly; statements parsed, planned and started.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList};
use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::dialect::dialect_from_str;

use super::catalog::Tables;
use super::convert::from_datafusion;
use super::exec::Engine;
use super::from_first;
use super::node::Planner;
use super::parameters::Parameters;
use super::settings::Settings;
use super::stream::{BatchStream, Canceller, Workers};
use crate::error::{Error, Result};
use crate::store::Store;

/// What a session may use of the machine.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Worker threads; as many as the machine allows where `None`.
    pub threads: Option<usize>,
    /// Bytes of memory for sorts, joins and groups before they spill or fail; 70 % of what the machine or the cgroup
    /// has where `None`.
    pub memory_limit: Option<u64>,
    /// Where spilled data goes; the system's directory for temporary files where `None`.
    pub temp_dir: Option<PathBuf>,
}

/// One statement, parsed but not yet planned: those before it may change what its names mean.
#[derive(Clone, Debug)]
pub struct Statement {
    parsed: datafusion::sql::parser::Statement,
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parsed.fmt(f)
    }
}

/// SQL over one store. Views and settings live as long as the session.
pub struct Session {
    context: SessionContext,
    tables: Arc<Tables>,
    workers: Arc<Workers>,
    canceller: Canceller,
}

impl Session {
    /// A session over the tables of a store, which must exist. No table is opened before a statement names it.
    pub fn open(store: &Store, options: &SessionOptions) -> Result<Session> {
        if !store.exists()? {
            return Err(Error::NotFound(format!("there is no store at '{}'", store.path().display())));
        }
        Session::with_tables(Arc::new(Tables::of(store)), options)
    }

    /// A session without a store: constants, and files by name.
    pub fn new(options: &SessionOptions) -> Result<Session> {
        Session::with_tables(Arc::new(Tables::default()), options)
    }

    fn with_tables(tables: Arc<Tables>, options: &SessionOptions) -> Result<Session> {
        let threads =
            options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::clone(&tables) as _).map_err(from_datafusion)?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        let canceller = Canceller::default();
        let engine = Arc::new(Engine::new(threads, options.temp_dir.clone(), canceller.clone()));
        let state = SessionStateBuilder::new_with_default_features()
            .with_config(configuration(threads))
            .with_runtime_env(environment(options)?)
            .with_catalog_list(Arc::new(catalogs))
            .with_optimizer_rules(logical_rules())
            .with_query_planner(Arc::new(Planner(engine)))
            .build();
        let context = SessionContext::new_with_state(state);
        let weak = context.state_weak_ref();
        tables.belong_to(move || Some(weak.upgrade()?.read().clone()));
        Ok(Session { context, tables, workers: Arc::new(Workers::new(threads)?), canceller })
    }

    /// Splits a text into statements at `;`. A syntax error anywhere in it is found before anything runs.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let state = self.context.state_ref();
        let state = state.read();
        let options = &state.config_options().sql_parser;
        let dialect = dialect_from_str(options.dialect)
            .ok_or_else(|| Error::InvalidInput(format!("unknown SQL dialect {}", options.dialect)))?;
        let parsed = DFParserBuilder::new(sql)
            .with_dialect(dialect.as_ref())
            .with_recursion_limit(options.recursion_limit.get())
            .build()
            .and_then(|mut parser| parser.parse_statements())
            .map_err(from_datafusion)?;
        let completed = |mut parsed| {
            from_first::complete(&mut parsed);
            Statement { parsed }
        };
        Ok(parsed.into_iter().map(completed).collect())
    }

    /// Plans a statement and starts it. All its scans of one table see the same generation.
    pub fn execute(&self, statement: &Statement, parameters: &Parameters) -> Result<BatchStream> {
        self.tables.begin_statement();
        let started = self.workers.run(&self.canceller, async {
            let plan = self.plan(statement, parameters).await?;
            let stream = execute_stream(Arc::clone(&plan), self.context.task_ctx()).map_err(from_datafusion)?;
            Ok((plan, stream))
        });
        let (plan, stream) = started??;
        Ok(BatchStream::new(stream, plan, Arc::clone(&self.workers), self.canceller.clone()))
    }

    /// Parses a text and runs its statements in order, each to its end before the next; stops at the first error.
    pub fn run(
        &self,
        sql: &str,
        parameters: &Parameters,
        mut each: impl FnMut(BatchStream) -> Result<()>,
    ) -> Result<()> {
        self.parse(sql)?.iter().try_for_each(|statement| each(self.execute(statement, parameters)?))
    }

    /// A handle that stops this session's work from another thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    async fn plan(&self, statement: &Statement, parameters: &Parameters) -> Result<Arc<dyn ExecutionPlan>> {
        let state = self.context.state();
        let plan = match state.statement_to_plan(statement.parsed.clone()).await {
            Ok(plan) => plan,
            Err(error) => return Err(self.unresolved(&state, statement, error).await),
        };
        check_allowed(&plan)?;
        let planned = async {
            let plan =
                if has_placeholders(&plan)? { plan.with_param_values(parameters.to_datafusion())? } else { plan };
            self.context.execute_logical_plan(plan).await?.create_physical_plan().await
        };
        planned.await.map_err(from_datafusion)
    }

    /// Why a statement could not be planned: where a table is missing, that, with what there is.
    async fn unresolved(&self, state: &SessionState, statement: &Statement, error: DataFusionError) -> Error {
        let error = from_datafusion(error);
        if !matches!(&error, Error::InvalidInput(what) if what.contains("not found")) {
            return error;
        }
        let Ok(names) = state.resolve_table_references(&statement.parsed) else { return error };
        for name in names.iter().filter(|name| name.schema().is_none_or(|schema| schema == SCHEMA)) {
            match self.tables.find(name.table()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.tables.missing(name.table()),
                Err(error) => return error,
            }
        }
        error
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Names under which the information schema shows a store's tables.
const CATALOG: &str = "stylobate";
const SCHEMA: &str = "public";

fn configuration(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_option_extension(Settings::default());
    let options = config.options_mut();
    // The most liberal dialect that has both PostgreSQL's and DuckDB's everyday syntax.
    options.sql_parser.dialect = Dialect::DuckDB;
    options.sql_parser.collect_spans = true;
    options.explain.logical_plan_only = false;
    config
}

/// DataFusion's, but for the one that hides count(DISTINCT …) from `lower`, which applies it to what it leaves.
fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    rules.retain(|rule| rule.name() != "single_distinct_aggregation_to_group_by");
    rules
}

fn environment(options: &SessionOptions) -> Result<Arc<RuntimeEnv>> {
    let limit = options.memory_limit.unwrap_or_else(default_memory);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let pool = TrackConsumersPool::new(FairSpillPool::new(limit), NonZeroUsize::MIN);
    let mut builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
    if let Some(directory) = &options.temp_dir {
        builder = builder.with_temp_file_path(directory);
    }
    builder.build_arc().map_err(from_datafusion)
}

/// 70 % of the memory of the machine, or of the cgroup where that is less.
fn default_memory() -> u64 {
    super::memory::available() / 10 * 7
}

/// What would write is refused before it starts.
fn check_allowed(plan: &LogicalPlan) -> Result<()> {
    let refuse = |what: &str, instead: &str| Err(Error::Unsupported(format!("{what}; {instead}")));
    match plan {
        LogicalPlan::Dml(_) => refuse("SQL does not write to tables yet", "add rows with `sty ingest`"),
        LogicalPlan::Copy(_) => {
            refuse("COPY … TO does not write files", "use `sty query --format` and redirect its output")
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_)) => {
            refuse("SQL does not create tables yet", "use CREATE VIEW, or `sty ingest`")
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(_)) => {
            refuse("SQL does not drop tables yet", "only views can be dropped")
        }
        LogicalPlan::Explain(explain) => check_allowed(&explain.plan),
        LogicalPlan::Analyze(analyze) => check_allowed(&analyze.input),
        _ => Ok(()),
    }
}

fn has_placeholders(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    plan.get_parameter_names().map(|names| !names.is_empty())
}

//! A session: configures DataFusion, once and quickly; parses, plans and starts statements.

mod anew;
mod attach;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_writes;
mod decoded;
mod defaults;
pub(in crate::sql) mod describe;
mod described;
pub(in crate::sql) mod divided;
pub(in crate::sql) mod dry_run;
mod engine;
mod execution;
mod expansion;
mod frugal;
mod gather;
mod insert;
mod kept;
#[cfg(test)]
mod kept_tests;
pub(in crate::sql) mod known;
mod memory_settings;
mod neighbours;
mod planned;
pub(in crate::sql) mod pool;
pub(in crate::sql) mod prepared;
mod refused;
pub(in crate::sql) mod rules;
pub(in crate::sql) mod selection;
pub(in crate::sql) mod statement;
mod temporary;
mod views;
pub(in crate::sql) mod writes;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::prelude::SessionContext;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

#[cfg(feature = "cluster")]
pub use self::cluster::NodeService;
pub use self::engine::Engine;
use self::kept::KeptPlans;
use self::pool::StatementMemory;
use self::prepared::Prepared;
use crate::disk::{Io, LockWait};
use crate::error::{Error, Result};
#[cfg(feature = "cluster")]
use crate::sql::cluster::description::ClusterDescription;
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::progress::StatementProgress;
use crate::sql::run::stream::BatchStream;
use crate::sql::syntax::parse::{self, CopyTarget, Parsed};
use crate::sql::work::cancel::Canceller;
use crate::sql::work::handle::OfSession;
use crate::sql::write::group::Groups;
use crate::store::Store;

/// What an engine and its sessions may use of the machine.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The number of worker threads; as many as the machine allows if `None`.
    pub threads: Option<usize>,
    /// Bytes of memory for sorts, joins and groups before they spill or fail, and for what is
    /// decoded of stored data, beyond a quarter of the limit (16 to 128 MiB) that is free for it;
    /// 70 % of the memory of the machine or the cgroup if `None`, or 256 MiB less than all of it.
    pub memory_limit: Option<u64>,
    /// Bytes of these for one statement, where several run at a time; all of them if `None`.
    pub statement_memory: Option<u64>,
    /// The directory for spilled data; the system's directory for temporary files if `None`.
    pub temp_dir: Option<PathBuf>,
    /// How the store's data files are read; as the store says if `None`.
    pub io: Option<Io>,
    /// Whether a CREATE TABLE creates a store that does not exist. Until then, only settings work.
    pub create: bool,
    /// Whether statements read around damage: each table is verified when a statement first names a
    /// generation of it, and segments in which anything is damaged are left out, which a note says.
    pub skip_damaged: bool,
    /// Whether statements that would write to the store are refused. Temporary views and settings
    /// still work: they are the session's own.
    pub read_only: bool,
    /// Whether statements are kept from files outside the store: as tables, as external tables, as
    /// the standard input, and from choosing where to spill.
    pub no_files: bool,
    /// Whether plans of queries are kept for the next time that these come. They keep their tables
    /// open until [`Engine::close_unused`].
    pub keep_plans: bool,
    /// The cluster whose tables statements read, before those of the store.
    #[cfg(feature = "cluster")]
    pub cluster: Option<ClusterDescription>,
}

/// One statement, parsed but not yet planned: statements before it may change what its names mean.
#[derive(Clone, Debug)]
pub struct Statement {
    parsed: Arc<Parsed>,
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
    /// Whether later statements of the session may mean something else after this one: it sets,
    /// names, prepares or attaches something.
    pub fn changes_session(&self) -> bool {
        let parser::Statement::Statement(statement) = &self.parsed.statement else {
            // EXPLAIN changes nothing; an external table, and the like, belong to the session.
            return !matches!(self.parsed.statement, parser::Statement::Explain(_));
        };
        !matches!(
            statement.as_ref(),
            SqlStatement::Query(_)
                | SqlStatement::Insert(_)
                | SqlStatement::Delete(_)
                | SqlStatement::Update(_)
                | SqlStatement::Truncate(_)
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowDatabases { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ExplainTable { .. }
        )
    }

    /// Whether the statement only answers.
    fn is_query(&self) -> bool {
        let parser::Statement::Statement(statement) = &self.parsed.statement else { return false };
        self.parsed.copy.is_none() && matches!(statement.as_ref(), SqlStatement::Query(_))
    }

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

/// SQL over one store, for one caller, who runs one statement at a time. Temporary views, settings
/// and prepared statements live as long as the session; memory, threads and open tables are those
/// of its [`Engine`].
pub struct Session {
    context: SessionContext,
    tables: Arc<Tables>,
    prepared: Arc<Prepared>,
    /// The plans of its engine, if these are kept, and its number among the sessions.
    kept: Option<Arc<KeptPlans>>,
    number: u64,
    /// What plans know of the session.
    own: Arc<OfSession>,
    /// How statements wait for the writer of another process, unless a setting says otherwise.
    wait: LockWait,
    progress: StatementProgress,
    memory_used: StatementMemory,
    /// Small inserts that wait, of all sessions.
    groups: Arc<Groups>,
    /// The engine, if statements read and write tables of a cluster.
    #[cfg(feature = "cluster")]
    over_cluster: Option<Engine>,
    threads: usize,
    /// Bytes of memory that statements may use.
    memory: u64,
    /// Whether others have a part of the same memory.
    shares_memory: bool,
    /// Whether statements that write are refused: always, and for now.
    read_only: bool,
    only_reads: AtomicBool,
}

impl Session {
    /// A session over the tables of a store, which must exist unless the options allow creating it.
    /// A table is opened when a statement first names it.
    pub fn open(store: &Store, options: &SessionOptions) -> Result<Session> {
        Engine::open(store, options)?.session()
    }

    /// A session without a store: constants, and files by name.
    pub fn new(options: &SessionOptions) -> Result<Session> {
        Engine::new(options)?.session()
    }

    /// The same session; statements that write to the store are refused.
    #[must_use]
    pub fn read_only(mut self) -> Session {
        self.read_only = true;
        self
    }

    /// Refuses statements that write to the store from now on, or does not any more.
    pub fn only_read(&self, yes: bool) {
        self.only_reads.store(yes, Ordering::Relaxed);
    }

    /// From now on, all statements read the same generation of a table as the first that names it,
    /// until this is taken back: what others commit in between is not seen. What the session itself
    /// writes is, with all that was committed before; a change by what a statement has read is
    /// refused as busy if another has changed the table since.
    pub fn keep_generations(&self, yes: bool) {
        self.tables.keep_generations(yes && self.can_keep_generations());
    }

    /// Whether statements can be made to read the same generations: not over a cluster, whose
    /// tables are read as its machines have them.
    pub fn can_keep_generations(&self) -> bool {
        !self.tables.has_cluster()
    }

    /// Whether statements that write are refused.
    fn refuses_writes(&self) -> bool {
        self.read_only || self.only_reads.load(Ordering::Relaxed)
    }

    /// The same session; of the store, there are only the tables whose names fit one of these, with
    /// `*` and `?`. An error if one is no pattern.
    pub fn only_tables(self, names: &[String]) -> Result<Session> {
        let pattern = |name: &String| {
            let parsed = glob::Pattern::new(name);
            parsed.map_err(|error| Error::InvalidInput(format!("tables '{name}': {error}")))
        };
        self.tables.show_only(names.iter().map(pattern).collect::<Result<_>>()?);
        Ok(self)
    }

    /// Splits a text into statements at `;`. A syntax error anywhere in it is found before anything
    /// runs.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let dialect = self.context.state_ref().read().config_options().sql_parser.dialect;
        if let Some(known) = self.kept.as_ref().and_then(|kept| kept.parsed(sql, dialect)) {
            return Ok(known);
        }
        let parsed = parse::statements(sql, dialect, self.memory)?;
        let parsed = parsed.into_iter().map(|parsed| Statement { parsed: Arc::new(parsed) });
        let parsed: Vec<Statement> = parsed.collect();
        self.kept.iter().for_each(|kept| kept.keep_parsed(sql, dialect, &parsed));
        Ok(parsed)
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

    /// Tells how much memory the last statement has taken, or the one that runs.
    #[doc(hidden)]
    pub fn memory_used(&self) -> StatementMemory {
        self.memory_used.clone()
    }

    /// A handle that stops this session's work from another thread.
    pub fn canceller(&self) -> Canceller {
        self.own.canceller.clone()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Bytes of dictionaries that are kept for one statement, unless it needs some of them again.
const KEPT_ONCE: usize = 64 << 20;

/// What is said of views in a session over a cluster.
fn views_are_of_one_node() -> Error {
    Error::InvalidInput(
        "a session over a cluster makes and drops no stored views: they are those of one node; use \
         its store by itself, without --cluster; CREATE TEMP VIEW makes one that ends with the \
         session"
            .into(),
    )
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

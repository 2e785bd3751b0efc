//! From a parsed statement to what it does: compute an answer, or write.
//!
//! DataFusion plans every statement. What it would do to tables by itself (create them in memory,
//! write through a provider) is done here instead: tables are those of the store.

use std::sync::{Arc, Mutex};

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, DmlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

use crate::error::{Error, Result};
use crate::sql::names::SCHEMA;
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::settings::Settings;
use crate::sql::session::described::described;
use crate::sql::session::kept::{self, Template};
use crate::sql::session::planned::Planned;
use crate::sql::session::prepared::{Prepared, Step};
use crate::sql::session::refused::{check_supported, refuse, refuse_files, unknown_function};
use crate::sql::syntax::any_case::{KnownColumns, Respelled};
use crate::sql::syntax::file_functions::STDIN;
use crate::sql::syntax::named_tables::named_tables;
use crate::sql::syntax::parse::CreatedView;
use crate::sql::syntax::{
    any_case, file_functions, ignored, implicit_groups, lateral_aliases, order_names, outer_tables,
    rewrite, scopes, sql_in,
};
use crate::sql::write::modify::Modify;
use crate::sql::write::{assignments, empty_answer};

/// Why a statement could not be planned.
pub(super) enum Failure {
    /// Perhaps it can be planned in other words.
    DataFusion(DataFusionError),
    Ours(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::DataFusion(error) => error.into(),
            Failure::Ours(error) => error,
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Failure::DataFusion(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Ours(error)
    }
}

/// Plans the statements of a session.
pub(in crate::sql) struct StatementPlanner<'a> {
    pub(in crate::sql) context: &'a SessionContext,
    pub(in crate::sql) tables: &'a Tables,
    pub(in crate::sql) prepared: &'a Prepared,
    /// Where it notes what can be kept, if anything is.
    pub(in crate::sql) template: Option<&'a Template>,
    /// The parts of a CREATE VIEW that DataFusion does not plan, if the statement is one.
    pub(in crate::sql) view: Option<&'a CreatedView>,
    /// Where the plan of a stored view goes, whose statement is planned for one that names it.
    pub(in crate::sql) of_view: Option<&'a Mutex<Option<LogicalPlan>>>,
}

impl<'a> StatementPlanner<'a> {
    /// A planner for statements that create no view and whose plans are not kept.
    pub(in crate::sql) fn new(
        context: &'a SessionContext,
        tables: &'a Tables,
        prepared: &'a Prepared,
    ) -> StatementPlanner<'a> {
        StatementPlanner { context, tables, prepared, template: None, view: None, of_view: None }
    }
}

impl StatementPlanner<'_> {
    pub(in crate::sql) async fn plan(
        &self,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Result<Planned> {
        let state = self.context.state();
        let is_free = || self.tables.stored_name(STDIN.0).map(|name| name.is_none());
        let piped = match file_functions::with_stdin(statement) {
            Some(piped) if !self.tables.in_session(STDIN.0) && is_free()? => Some(piped),
            _ => None,
        };
        let statement = piped.as_ref().unwrap_or(statement);
        if let Some(shown) = self.shown_tables(statement)? {
            return Box::pin(self.plan(&shown, parameters)).await;
        }
        if let Some(planned) = self.attachment(statement, &state)? {
            return Ok(planned);
        }
        let of_used = self.in_used_schema(statement)?;
        let statement = of_used.as_ref().unwrap_or(statement);
        match self.prepared.step(statement, parameters, &state)? {
            Some(Step::Done) => Ok(Planned::Answer(empty_answer())),
            Some(Step::Run(statement, parameters)) => {
                self.plan_unprepared(&statement, &parameters, &state).await
            }
            None => self.plan_unprepared(statement, parameters, &state).await,
        }
    }

    /// Plans a statement that is not about prepared ones.
    pub(super) async fn plan_unprepared(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        if let Some(planned) = self.drop_several(statement)? {
            return Ok(planned);
        }
        if let Some(sql) = sql_in(statement) {
            let is_scalar = |name: &str| {
                state.scalar_functions().contains_key(name)
                    && !state.aggregate_functions().contains_key(name)
                    && !state.window_functions().contains_key(name)
            };
            ignored::refuse_of_scalars(sql, &is_scalar)?;
        }
        let mut parameters = parameters.clone();
        let expanded = self.expanded(statement, &mut parameters, state).await?;
        if expanded.is_some() {
            self.template.iter().for_each(|template| template.refuse());
        }
        let parameters = &parameters;
        let mut grouped = None;
        if Settings::of(state.config_options()).implicit_groups {
            let mut statement = expanded.as_ref().unwrap_or(statement).clone();
            let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
            implicit_groups::group(&mut statement, &is_aggregate);
            grouped = Some(statement);
        }
        let statement = grouped.as_ref().or(expanded.as_ref()).unwrap_or(statement);
        let respelled = self.in_any_case(statement).await;
        let mut failed = None;
        if let Some(respelled) = respelled.as_ref().filter(|respelled| respelled.is_needed) {
            match self.plan_respelled(respelled, parameters, state).await {
                Err(error @ (Error::InvalidInput(_) | Error::NotFound(_))) => failed = Some(error),
                done => return done,
            }
        }
        let error = match self.plan_with_order(statement, parameters, state).await {
            Err(error @ (Error::InvalidInput(_) | Error::NotFound(_))) => error,
            done => return done,
        };
        let Some(respelled) = respelled else { return Err(error) };
        let other = match failed {
            Some(failed) => failed,
            None => match self.plan_respelled(&respelled, parameters, state).await {
                Err(failed) => failed,
                planned => return planned,
            },
        };
        // The error should be about the statement as written, unless it is only of the spelling.
        Err(if respelled.mends(&error, &other) { other } else { error })
    }

    /// Plans a statement with other spellings of names; its answer has the names as written.
    async fn plan_respelled(
        &self,
        respelled: &Respelled,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        match self.plan_with_order(&respelled.statement, parameters, state).await? {
            Planned::Answer(plan) => {
                let schema = plan.schema();
                let names = schema.fields().iter().map(|field| field.name().as_str()).collect();
                Ok(Planned::Answer(rewrite::rename(plan, &respelled.names(names))?))
            }
            planned => Ok(planned),
        }
    }

    /// The statement with the columns that it names as they are spelled, if it spells some of them
    /// in another case.
    pub(super) async fn in_any_case(&self, statement: &Statement) -> Option<Respelled> {
        let (mut columns, mut unknown) = (Vec::new(), Vec::new());
        for named in named_tables(statement) {
            // What cannot be opened, and names of subqueries, have no columns here.
            let schema = named.schema.as_deref();
            let Ok(Some(table)) = self.tables.find_in(schema, &named.table).await else {
                unknown.push(named.table);
                continue;
            };
            let schema = table.schema();
            let names = schema.fields().iter().map(|field| field.name().clone());
            columns.push(KnownColumns::new(Some(named.qualifier), names));
        }
        any_case::respelled(statement, columns, &unknown)
    }

    /// Plans a statement, with what it orders by below its DISTINCT where that is possible.
    async fn plan_with_order(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        if let Some(selected) = order_names::selected_below(statement)
            && let Ok(planned) = self.plan_in_any_words(&selected, parameters, state).await
        {
            return self.with_names_of(planned, statement, state).await;
        }
        self.plan_in_any_words(statement, parameters, state).await
    }

    /// An answer with the names that its columns have in the statement as written.
    async fn with_names_of(
        &self,
        planned: Planned,
        statement: &Statement,
        state: &SessionState,
    ) -> Result<Planned> {
        match (planned, assignments::plan(state, statement).await) {
            (Planned::Answer(plan), Ok(asked)) => {
                let names: Vec<&str> =
                    asked.schema().fields().iter().map(|field| field.name().as_str()).collect();
                Ok(Planned::Answer(rewrite::rename(plan, &names)?))
            }
            (planned, _) => Ok(planned),
        }
    }

    /// Plans a statement as it is written, or in other words that mean the same.
    async fn plan_in_any_words(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        let resolved = match scopes::resolve(state, statement).await {
            Ok(resolved) => resolved,
            Err(error) => {
                return match lateral_aliases::written_out(state, statement, &error)? {
                    Some(next) => Box::pin(self.plan_in_any_words(&next, parameters, state)).await,
                    None => Err(self.unresolved(state, statement, error).await),
                };
            }
        };
        let words = resolved.as_ref().unwrap_or(statement);
        let error = match self.plan_in_words(words, statement, parameters, state).await {
            Ok((_, planned)) => return Ok(planned),
            Err(Failure::Ours(error)) => return Err(error),
            Err(Failure::DataFusion(error)) => error,
        };
        if let Some(attempt) = order_names::written_out(words, &error)
            && let Ok((_, planned)) =
                self.plan_in_words(&attempt, &attempt, parameters, state).await
        {
            return Ok(planned);
        }
        if let Some(next) = lateral_aliases::written_out(state, statement, &error)? {
            return Box::pin(self.plan_in_any_words(&next, parameters, state)).await;
        }
        if let Some(attempt) = outer_tables::written_out(words, &error)
            && let Ok((_, planned)) =
                self.plan_in_words(&attempt, &attempt, parameters, state).await
        {
            return Ok(planned);
        }
        let mut besides = None;
        for attempt in rewrite::candidates(words, &error) {
            let other = &attempt.statement;
            match self.plan_in_words(other, other, parameters, state).await {
                Ok((plan, planned)) => return planned.with_names(&attempt.names(&plan)?),
                // What the other words do not mend is wrong as it is written.
                Err(Failure::DataFusion(error)) if is_mendable(words, &error) => {}
                Err(failure) => besides = besides.or(Some(failure)),
            }
        }
        // What they mend is not to be told, but what is wrong besides.
        match besides.unwrap_or(Failure::DataFusion(error)) {
            Failure::DataFusion(error) => Err(self.unresolved(state, statement, error).await),
            Failure::Ours(error) => Err(error),
        }
    }

    /// Plans a statement in `words` that mean the same as those in which it is written. Returns
    /// DataFusion's first plan, and what the statement does.
    async fn plan_in_words(
        &self,
        words: &Statement,
        written: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<(LogicalPlan, Planned), Failure> {
        let plan = assignments::plan_resolved(state, words).await?;
        let planned = self.plan_read(plan.clone(), written, parameters, state).await?;
        Ok((plan, planned))
    }

    /// What a statement does, by its logical plan.
    async fn plan_read(
        &self,
        plan: LogicalPlan,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned, Failure> {
        let plan = check_supported(plan, state.config())?;
        if self.tables.refuses_files() {
            refuse_files(&plan)?;
        }
        if let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) = &plan {
            self.own_name(&create.name)?;
        }
        self.template.iter().for_each(|template| template.begin());
        let template = self.template.filter(|_| kept::is_repeatable(&plan));
        let (plan, unbound) = match !plan.get_parameter_names()?.is_empty() {
            true => {
                let unbound = template.map(|_| Arc::new(plan.clone()));
                (parameters.bind(plan)?, unbound)
            }
            false => (plan, None),
        };
        Ok(match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                self.create(create, statement).await?
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => {
                self.view(view, statement, parameters, state).await?
            }
            LogicalPlan::Ddl(DdlStatement::DropView(drop)) => {
                self.drop_view(self.own_name(&drop.name)?, drop.if_exists)?
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(drop))
                if self.tables.means_view(self.own_name(&drop.name)?)? =>
            {
                let name = drop.name.table();
                refuse(&format!("{name} is a view, not a table"), &format!("DROP VIEW {name}"))?
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(drop))
                if !self.tables.in_session(drop.name.table()) =>
            {
                self.drop_stored(drop.name.table(), drop.if_exists)?
            }
            LogicalPlan::DescribeTable(describe) => Planned::Answer(described(&describe.schema)?),
            LogicalPlan::Dml(statement)
                if self.is_old(self.own_name(&statement.table_name)?)? =>
            {
                refuse(
                    &format!(
                        "{} is a generation of the past, and stays as it is",
                        statement.table_name.table()
                    ),
                    "leave out its number",
                )?
            }
            LogicalPlan::Dml(statement) if self.is_only_here(&statement)? => {
                let name = statement.table_name.table();
                refuse(
                    &format!("{name} is a table of this store, and not of the cluster"),
                    "run the statement without --cluster",
                )?
            }
            LogicalPlan::Dml(statement) => match Modify::plan(&statement, state).await? {
                Some(modify) => Planned::Modify(Box::new(modify)),
                None => self.run(LogicalPlan::Dml(statement), state).await?,
            },
            other => {
                let planned = self.run(other, state).await?;
                if let (Some(template), Planned::Answer(answer)) = (template, &planned) {
                    template.note(unbound, answer);
                }
                planned
            }
        })
    }

    /// Whether a statement of a session over a cluster changes a table of its own store.
    fn is_only_here(&self, statement: &DmlStatement) -> Result<bool> {
        let provider = source_as_provider(&statement.target)?;
        let stored = provider.downcast_ref::<StoreProvider>();
        Ok(self.tables.has_cluster() && stored.is_some_and(|it| it.table.is_here()))
    }

    /// Whether a name means an older generation of a table of the store.
    fn is_old(&self, name: &str) -> Result<bool> {
        Ok(name.contains('@')
            && !self.tables.in_session(name)
            && self.tables.stored_name(name)?.is_none())
    }

    /// Lets DataFusion execute a plan, unless it turns out to write.
    pub(super) async fn run(
        &self,
        plan: LogicalPlan,
        state: &SessionState,
    ) -> Result<Planned, Failure> {
        match plan {
            LogicalPlan::Dml(statement) => Ok(self.insert(&statement).await?),
            // These change the session.
            plan @ (LogicalPlan::Ddl(_) | LogicalPlan::Statement(_)) => {
                let frame = self.context.execute_logical_plan(plan).await?;
                Ok(Planned::Answer(frame.create_physical_plan().await?))
            }
            plan => Ok(Planned::Answer(state.create_physical_plan(&plan).await?)),
        }
    }

    /// The error of a statement that could not be planned. If a table is missing, it says so, and
    /// which tables there are.
    pub(super) async fn unresolved(
        &self,
        state: &SessionState,
        statement: &Statement,
        error: DataFusionError,
    ) -> Error {
        let error = Error::from(error);
        if let Error::InvalidInput(what) = &error
            && let Some(ours) = unknown_function(what, state)
        {
            return Error::InvalidInput(ours);
        }
        if !matches!(&error, Error::InvalidInput(what) if what.contains("not found")) {
            return error;
        }
        let Ok(names) = state.resolve_table_references(statement) else { return error };
        if let Some(file) = names.iter().find_map(unquoted_file) {
            return Error::NotFound(format!(
                "no table {file}; a file is named in quotes: FROM '{file}'"
            ));
        }
        for name in names.iter().filter(|name| name.schema() != Some(INFORMATION_SCHEMA)) {
            // A table to be created is not missing.
            if !matches!(&error, Error::InvalidInput(what) if what.contains(name.table())) {
                continue;
            }
            let schema = name.schema().filter(|schema| *schema != SCHEMA);
            match self.tables.find_in(schema, name.table()).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    return match schema {
                        None => self.tables.missing(name.table()),
                        Some(schema) => self.tables.missing_in(schema, name.table()),
                    };
                }
                Err(error) => return error,
            }
        }
        error
    }
}

/// Whether a statement failed for something that its rewrites may mend.
fn is_mendable(statement: &Statement, error: &DataFusionError) -> bool {
    !rewrite::candidates(statement, error).is_empty()
}

/// What stands at the end of names of files.
const EXTENSIONS: [&str; 14] = [
    "csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "arrow", "feather", "gz", "zst",
    "bz2", "lz4", "zip",
];

/// The name of a file that was read as that of a table in a schema.
fn unquoted_file(name: &TableReference) -> Option<String> {
    name.schema()?;
    EXTENSIONS.contains(&name.table()).then(|| name.to_string())
}

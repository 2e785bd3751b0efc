//! From a parsed statement to what is to be done: an answer to compute, or something to write.
//!
//! DataFusion plans every statement. What it would do to tables by itself (make them in memory,
//! write through a provider) is taken from it here: tables are the store's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateMemoryTable, CreateView, DdlStatement, DmlStatement, Expr, LogicalPlan, Projection,
    Values, WriteOp,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{CreateTable, Statement as SqlStatement};

use crate::error::{Error, Result};
use crate::sql::convert::{from_datafusion, listed};
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::names::views;
use crate::sql::names::{CATALOG, SCHEMA};
use crate::sql::run::provider::StoreProvider;
use crate::sql::session::prepared::{Prepared, Step};
use crate::sql::syntax::wildcards::WildcardExpander;
use crate::sql::syntax::{order_names, rewrite, using_names};
use crate::sql::write::assignments;
use crate::sql::write::modify::Modify;
use crate::sql::write::{
    Create, Write, create_table, exists, nothing, required_columns, table_columns,
};
use crate::store::check_name;

/// The most times that a statement with an ambiguous name is planned in other words.
const MOST_CANDIDATES: usize = 32;

/// What a statement is to do.
#[derive(Debug)]
pub(in crate::sql) enum Planned {
    /// Give what this plan gives.
    Answer(Arc<dyn ExecutionPlan>),
    /// Write to a table.
    Write(Box<Write>),
    /// Delete or change rows of one.
    Modify(Box<Modify>),
}

impl Planned {
    /// The same with other names for some columns of the answer.
    fn under(self, names: &HashMap<String, String>) -> Result<Planned> {
        match self {
            Planned::Answer(plan) => {
                rewrite::restore(plan, names).map(Planned::Answer).map_err(from_datafusion)
            }
            other => Ok(other),
        }
    }
}

/// Why a statement could not be planned.
enum Failure {
    /// Perhaps it can be in other words.
    DataFusion(DataFusionError),
    Own(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Failure::DataFusion(error) => from_datafusion(error),
            Failure::Own(error) => error,
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
        Failure::Own(error)
    }
}

/// Plans the statements of a session.
pub(in crate::sql) struct StatementPlanner<'a> {
    pub(in crate::sql) context: &'a SessionContext,
    pub(in crate::sql) tables: &'a Tables,
    pub(in crate::sql) prepared: &'a Prepared,
}

impl StatementPlanner<'_> {
    pub(in crate::sql) async fn plan(
        &self,
        statement: &Statement,
        parameters: &Parameters,
    ) -> Result<Planned> {
        let state = self.context.state();
        match self.prepared.step(statement, parameters, &state)? {
            Some(Step::Done) => Ok(Planned::Answer(nothing())),
            Some(Step::Run(statement, parameters)) => {
                self.plan_plain(&statement, &parameters, &state).await
            }
            None => self.plan_plain(statement, parameters, &state).await,
        }
    }

    /// Plans a statement that is not about prepared ones.
    async fn plan_plain(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        if let Some(selected) = order_names::selected_below(statement)
            && let Ok(planned) = self.plan_any_words(&selected, parameters, state).await
        {
            return self.with_names_of(planned, statement, state).await;
        }
        self.plan_any_words(statement, parameters, state).await
    }

    /// An answer under the names that it has without a query below.
    async fn with_names_of(
        &self,
        planned: Planned,
        statement: &Statement,
        state: &SessionState,
    ) -> Result<Planned> {
        match (planned, assignments::plan(state, statement, &mut WildcardExpander::default()).await)
        {
            (Planned::Answer(plan), Ok(asked)) => {
                let names: Vec<&str> =
                    asked.schema().fields().iter().map(|field| field.name().as_str()).collect();
                rewrite::rename(plan, &names).map(Planned::Answer).map_err(from_datafusion)
            }
            (planned, _) => Ok(planned),
        }
    }

    /// Plans a statement as it is worded, or in other words that mean the same.
    async fn plan_any_words(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        let mut stars = WildcardExpander::default();
        for again in using_names::columns_in_having(statement) {
            if let Ok((_, planned)) = self.plan_words(&again, parameters, state, &mut stars).await {
                return Ok(planned);
            }
        }
        let error = match self.plan_words(statement, parameters, state, &mut stars).await {
            Ok((_, planned)) => return Ok(planned),
            Err(Failure::Own(error)) => return Err(error),
            Err(Failure::DataFusion(error)) => error,
        };
        let mut candidates = VecDeque::from(using_names::candidates(statement, &error));
        for _ in 0..MOST_CANDIDATES {
            let Some(again) = candidates.pop_front() else { break };
            match self.plan_words(&again, parameters, state, &mut stars).await {
                Ok((_, planned)) => return Ok(planned),
                Err(Failure::Own(error)) => return Err(error),
                // There may be another name.
                Err(Failure::DataFusion(error)) => {
                    candidates.extend(using_names::candidates(&again, &error))
                }
            }
        }
        if let Some(again) = order_names::written_out(statement, &error)
            && let Ok((_, planned)) = self.plan_words(&again, parameters, state, &mut stars).await
        {
            return Ok(planned);
        }
        for again in rewrite::candidates(statement, &error) {
            // Where the other words fail too, the error is about what was written.
            if let Ok((plan, planned)) =
                self.plan_words(&again.statement, parameters, state, &mut stars).await
            {
                return planned.under(&again.names(&plan).map_err(from_datafusion)?);
            }
        }
        Err(self.unresolved(state, statement, error).await)
    }

    /// Plans a statement as it is worded: DataFusion's first plan, and what is to be done.
    async fn plan_words(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
        stars: &mut WildcardExpander,
    ) -> Result<(LogicalPlan, Planned), Failure> {
        let plan = assignments::plan(state, statement, stars).await?;
        let planned = self.plan_read(plan.clone(), statement, parameters, state).await?;
        Ok((plan, planned))
    }

    /// What is to be done, from a logical plan of the statement.
    async fn plan_read(
        &self,
        plan: LogicalPlan,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned, Failure> {
        let plan = allowed(plan)?;
        let plan = match has_placeholders(&plan)? {
            true => plan.with_param_values(parameters.to_datafusion())?,
            false => plan,
        };
        Ok(match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                self.create(create, statement).await?
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => {
                self.view(view, statement, parameters, state).await?
            }
            LogicalPlan::Ddl(DdlStatement::DropView(drop))
                if self.tables.drop_view(drop.name.table()) =>
            {
                Planned::Answer(nothing())
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(drop))
                if !self.tables.in_session(drop.name.table()) =>
            {
                self.drop_stored(drop.name.table(), drop.if_exists)?
            }
            LogicalPlan::Dml(statement) if self.is_old(statement.table_name.table())? => refuse(
                &format!(
                    "{} is a generation of the past, and stays as it is",
                    statement.table_name.table()
                ),
                "leave out its number",
            )?,
            LogicalPlan::Dml(statement) => match Modify::of(&statement, state).await? {
                Some(modify) => Planned::Modify(Box::new(modify)),
                None => self.run(LogicalPlan::Dml(statement)).await?,
            },
            other => self.run(other).await?,
        })
    }

    /// Whether a table of the store is meant as it was.
    fn is_old(&self, name: &str) -> Result<bool> {
        Ok(name.contains('@')
            && !self.tables.in_session(name)
            && self.tables.stored_name(name)?.is_none())
    }

    /// What DataFusion does with a plan, unless that turns out to write.
    async fn run(&self, plan: LogicalPlan) -> Result<Planned, Failure> {
        let frame = self.context.execute_logical_plan(plan).await?;
        if let LogicalPlan::Dml(statement) = frame.logical_plan() {
            return Ok(self.insert(statement).await?);
        }
        Ok(Planned::Answer(frame.create_physical_plan().await?))
    }

    /// Where rows to be stored come from.
    async fn rows(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        self.context.state().create_physical_plan(plan).await.map_err(from_datafusion)
    }

    async fn create(&self, create: CreateMemoryTable, statement: &Statement) -> Result<Planned> {
        // Without it, this is SELECT … INTO.
        let parsed = create_table(statement);
        let required = parsed.map_or(Ok(Vec::new()), required_columns)?;
        let name = stored_name(&create.name)?;
        let how = Create { if_not_exists: create.if_not_exists };
        if self.tables.in_session(name) || self.tables.stored_name(name)?.is_some() {
            return exists(name, how).map(|()| Planned::Answer(nothing()));
        }
        let has_rows = parsed.is_none_or(|parsed| parsed.query.is_some());
        let rows = if has_rows { Some(self.rows(&create.input).await?) } else { None };
        let columns = match (parsed.filter(|parsed| !parsed.columns.is_empty()), &rows) {
            (Some(declared), Some(_)) => table_columns(&self.declared(declared).await?, &required)?,
            (_, Some(rows)) => table_columns(&rows.schema(), &required)?,
            (_, None) => table_columns(create.input.schema().as_arrow(), &required)?,
        };
        Ok(Planned::Write(Box::new(Write {
            table: name.to_owned(),
            create: Some(how),
            columns,
            rows,
        })))
    }

    /// The columns that a CREATE TABLE names, without the rows of its query.
    async fn declared(&self, parsed: &CreateTable) -> Result<ArrowSchema> {
        let alone = SqlStatement::CreateTable(CreateTable { query: None, ..parsed.clone() });
        let plan =
            self.context.state().statement_to_plan(Statement::Statement(Box::new(alone))).await;
        match plan.map_err(from_datafusion)? {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                Ok(create.input.schema().as_arrow().clone())
            }
            _ => refuse("CREATE TABLE of this form", "name the columns, or the query alone"),
        }
    }

    async fn insert(&self, statement: &DmlStatement) -> Result<Planned> {
        let name = statement.table_name.table();
        match statement.op {
            WriteOp::Insert(InsertOp::Append) => {}
            WriteOp::MergeInto(_) => {
                return refuse("MERGE is not known", "use UPDATE and INSERT INTO … SELECT");
            }
            WriteOp::Truncate => {
                return refuse("TRUNCATE is not known", "DELETE FROM takes all rows out");
            }
            _ => {
                return refuse(
                    "INSERT does not replace rows",
                    "INSERT INTO adds some; UPDATE changes them",
                );
            }
        }
        let provider = source_as_provider(&statement.target).map_err(from_datafusion)?;
        let Some(provider) = provider.downcast_ref::<StoreProvider>() else {
            return Err(Error::InvalidInput(format!(
                "{name} is not a table of the store: no rows can be added to it"
            )));
        };
        let snapshot = provider.table.snapshot();
        if let Some(note) = other_order(&statement.input) {
            self.tables.note(note);
        }
        let rows = assignments::exactly(&statement.input, snapshot.schema())
            .and_then(|rows| with_nulls(&rows));
        Ok(Planned::Write(Box::new(Write {
            table: snapshot.table_name().to_owned(),
            create: None,
            columns: snapshot.schema().clone(),
            rows: Some(self.rows(&rows.map_err(from_datafusion)?).await?),
        })))
    }

    /// DataFusion makes the view; what it was made from is kept, to make it again.
    async fn view(
        &self,
        view: CreateView,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        let name = stored_name(&view.name)?.to_owned();
        let names = state.resolve_table_references(statement).map_err(from_datafusion)?;
        let names: Vec<String> = names.iter().map(|name| name.table().to_owned()).collect();
        self.tables.check_acyclic(&name, &names)?;
        let input = views::coerced(Arc::unwrap_or_clone(view.input)).map_err(from_datafusion)?;
        let view = CreateView { input: Arc::new(input), ..view };
        let planned = self
            .run(LogicalPlan::Ddl(DdlStatement::CreateView(view)))
            .await
            .map_err(Failure::into_error)?;
        self.tables.define(&name, statement.clone(), parameters, names);
        Ok(planned)
    }

    fn drop_stored(&self, name: &str, if_exists: bool) -> Result<Planned> {
        match self.tables.stored_name(name)? {
            Some(_) => {
                refuse("SQL does not drop tables of a store yet", "only views can be dropped")
            }
            None if if_exists => Ok(Planned::Answer(nothing())),
            None => Err(self.tables.missing(name)),
        }
    }

    /// Why a statement could not be planned: where a table is missing, that, with what there is.
    async fn unresolved(
        &self,
        state: &SessionState,
        statement: &Statement,
        error: DataFusionError,
    ) -> Error {
        let error = from_datafusion(error);
        if !matches!(&error, Error::InvalidInput(what) if what.contains("not found")) {
            return error;
        }
        let Ok(names) = state.resolve_table_references(statement) else { return error };
        for name in names.iter().filter(|name| name.schema().is_none_or(|schema| schema == SCHEMA))
        {
            // The name of a table to be made is missing as it should.
            if !matches!(&error, Error::InvalidInput(what) if what.contains(name.table())) {
                continue;
            }
            match self.tables.find(name.table()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.tables.missing(name.table()),
                Err(error) => return error,
            }
        }
        error
    }
}

/// The name in the store of a table or view to be made.
fn stored_name(name: &TableReference) -> Result<&str> {
    let elsewhere = name.schema().is_some_and(|schema| schema != SCHEMA)
        || name.catalog().is_some_and(|catalog| catalog != CATALOG);
    if elsewhere {
        return Err(Error::InvalidInput(format!("{name}: a store has one schema, {SCHEMA}")));
    }
    check_name(name.table())?;
    Ok(name.table())
}

fn refuse<T>(what: &str, instead: &str) -> Result<T> {
    Err(Error::Unsupported(format!("{what}; {instead}")))
}

/// What cannot be done is refused before it starts. To explain an INSERT is to explain where its
/// rows come from.
fn allowed(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Copy(_) => refuse(
            "COPY … TO does not write files",
            "use `sty query --format` and redirect its output",
        ),
        LogicalPlan::Explain(mut explain) => {
            explain.plan = match explain.plan.as_ref() {
                LogicalPlan::Dml(statement) => Arc::clone(&statement.input),
                LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                    Arc::clone(&create.input)
                }
                _ => explain.plan,
            };
            Ok(LogicalPlan::Explain(explain))
        }
        LogicalPlan::Analyze(analyze)
            if matches!(*analyze.input, LogicalPlan::Dml(_) | LogicalPlan::Ddl(_)) =>
        {
            refuse("EXPLAIN ANALYZE does not write", "use it on the query alone")
        }
        other => Ok(other),
    }
}

/// A note where a query has the columns that it fills by name, and other ones of them by position.
fn other_order(rows: &LogicalPlan) -> Option<String> {
    let LogicalPlan::Projection(projection) = rows else { return None };
    let (mut given, mut filled) = (Vec::new(), Vec::new());
    for (expr, field) in projection.expr.iter().zip(projection.schema.fields()) {
        let Expr::Alias(alias) = expr else { return None };
        if let Expr::Column(column) = alias.expr.as_ref() {
            given.push(column.name.as_str());
            filled.push(field.name().as_str());
        }
    }
    let sorted = |names: &[&str]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.join(",")
    };
    if given == filled || sorted(&given) != sorted(&filled) {
        return None;
    }
    Some(format!(
        "INSERT goes by position, not by name: {} get the values of {}; INSERT INTO t (columns) SELECT … says the order",
        listed(filled.iter().copied()),
        listed(given.iter().copied()),
    ))
}

/// The rows of an INSERT, of which VALUES may be null although the column is not: to refuse them
/// with the column's name is for whoever stores them.
fn with_nulls(rows: &LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let LogicalPlan::Projection(projection) = rows else { return Ok(rows.clone()) };
    let LogicalPlan::Values(values) = projection.input.as_ref() else { return Ok(rows.clone()) };
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let fields: Vec<Field> = values.schema.fields().iter().map(nullable).collect();
    let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
    let values = LogicalPlan::Values(Values { schema, values: values.values.clone() });
    Projection::try_new(projection.expr.clone(), Arc::new(values)).map(LogicalPlan::Projection)
}

fn has_placeholders(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    plan.get_parameter_names().map(|names| !names.is_empty())
}

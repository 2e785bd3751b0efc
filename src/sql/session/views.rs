//! CREATE VIEW and DROP VIEW, and what a view of the store is when a statement names it.
//!
//! Where this stands on the road of a query: a view of the store is kept as the text of its
//! statement (`store/views`), which is planned anew in each statement that names it, as that of a
//! session in which nothing was set. `CREATE TEMP VIEW`, and any view where there is no store, ends
//! with its session.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use datafusion::common::{SchemaError, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{CreateView, DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::FutureExt;

use crate::error::{Error, Result};
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::names::views::{self, PlanView};
use crate::sql::names::{CATALOG, SCHEMA, files, lock};
use crate::sql::run::settings::Settings;
use crate::sql::session::planned::Planned;
use crate::sql::session::prepared::Prepared;
use crate::sql::session::refused::refuse;
use crate::sql::session::statement::StatementPlanner;
use crate::sql::syntax::parse::CreatedView;
use crate::sql::syntax::{dialect, sql_of, used_schema};
use crate::sql::write::empty_answer;
use crate::store::{check_name, exists};

impl StatementPlanner<'_> {
    /// Makes a view of the session, or says that one of the store is to be kept.
    pub(super) async fn view(
        &self,
        view: CreateView,
        statement: &Statement,
        parameters: &Parameters,
        state: &SessionState,
    ) -> Result<Planned> {
        if let Some(plan) = self.of_view {
            let mut names = HashSet::new();
            if let Some(twice) =
                view.input.schema().fields().iter().find(|field| !names.insert(field.name()))
            {
                let name = twice.name().clone();
                let error = SchemaError::DuplicateUnqualifiedField { name };
                return Err(DataFusionError::SchemaError(Box::new(error), Box::new(None)).into());
            }
            *lock(plan) = Some(views::coerced(Arc::unwrap_or_clone(view.input))?);
            return Ok(Planned::Answer(empty_answer()));
        }
        let name = self.own_name(&view.name)?.to_owned();
        check_name(&name)?;
        let names = state.resolve_table_references(statement)?;
        let created = self.view.filter(|_| self.tables.store().is_some());
        if self.view.is_none() && self.tables.store().is_some() {
            return refuse("EXECUTE makes no view of the store", "write the CREATE VIEW itself");
        }
        if let Some(created) = self.view.filter(|created| created.if_not_exists) {
            if view.or_replace {
                return Err(Error::InvalidInput(
                    "a view is replaced (OR REPLACE) or left as it is (IF NOT EXISTS), not both"
                        .into(),
                ));
            }
            let is_there = match created.temporary {
                true => self.tables.is_view(&name),
                false => self.tables.means_view(&name)?,
            };
            if is_there {
                return Ok(Planned::Answer(empty_answer()));
            }
        }
        if created.is_some_and(|created| created.temporary)
            && !self.tables.in_session(&name)
            && (self.tables.stored_name(&name)?.is_some() || self.tables.means_view(&name)?)
        {
            return Err(exists(&name));
        }
        if let Some(created) = created.filter(|created| !created.temporary) {
            return self.stored_view(&name, created, view.or_replace, &names).await;
        }
        self.tables.check_acyclic(&name, &names)?;
        let input = views::coerced(Arc::unwrap_or_clone(view.input))?;
        let view = CreateView { input: Arc::new(input), ..view };
        let planned = self.run(LogicalPlan::Ddl(DdlStatement::CreateView(view)), state).await?;
        self.tables.define(&name, statement.clone(), parameters, names);
        Ok(planned)
    }

    /// A view of the store: it is made of what is in the store, and of files.
    async fn stored_view(
        &self,
        name: &str,
        created: &CreatedView,
        replaces: bool,
        names: &[TableReference],
    ) -> Result<Planned> {
        if self.tables.in_session(name) {
            return refuse(
                &format!("{name} is a temporary view of this session, which hides others"),
                &format!("DROP VIEW {name} comes first"),
            );
        }
        if self.tables.stored_name(name)?.is_some() {
            return refuse(
                &format!("there is a table {name} already"),
                "give the view another name",
            );
        }
        let known = self.tables.stored_view_name(name)?;
        if known.is_some() && !replaces {
            return Err(exists(name));
        }
        let refused = |what: String| {
            refuse(&what, "CREATE TEMP VIEW makes a view that ends with the session")
        };
        for made_of in names {
            let of = made_of.table();
            match made_of.schema().filter(|schema| *schema != SCHEMA) {
                Some(schema) if self.tables.attached_as(schema).is_some() => {
                    return refused(format!(
                        "a view of the store cannot be made of {made_of}: {schema} is attached to \
                         this session only"
                    ));
                }
                None if self.tables.in_session(of) => {
                    return refused(format!(
                        "a view of the store cannot be made of {of}, which ends with the session"
                    ));
                }
                None if files::is_stdin(of) => {
                    return refused("a view of the store cannot read the standard input".into());
                }
                _ => {}
            }
        }
        let spelled = known.as_deref().unwrap_or(name);
        self.tables.planned_view(spelled, &created.text).await?;
        let (name, statement) = (spelled.to_owned(), created.text.clone());
        let replaced = match (replaces, created.if_not_exists) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        Ok(Planned::KeepView { name, statement, replaced })
    }

    pub(super) fn drop_view(&self, name: &str, if_exists: bool) -> Result<Planned> {
        if self.tables.drop_view(name) {
            return Ok(Planned::Answer(empty_answer()));
        }
        match self.tables.in_session(name) || self.tables.stored_name(name)?.is_some() {
            true => {
                refuse(&format!("{name} is a table, not a view"), &format!("DROP TABLE {name}"))
            }
            false if let Some(stored) = self.tables.stored_view_name(name)? => {
                Ok(Planned::DropView(stored))
            }
            false if if_exists => Ok(Planned::Answer(empty_answer())),
            false => Err(Error::NotFound(format!("no view {name}"))),
        }
    }
}

/// Plans views of stores for a session, whose state and tables these are.
pub(super) fn planner(
    state: impl Fn() -> Option<SessionState> + Send + Sync + 'static,
    tables: &Arc<Tables>,
) -> PlanView {
    let tables = Arc::downgrade(tables);
    Box::new(move |parsed, schema| {
        let (state, tables) = (state(), tables.upgrade());
        async move {
            let (Some(state), Some(tables)) = (state, tables) else {
                return Err(Error::Cancelled);
            };
            let context = without_settings(state);
            plan(parsed.statement, schema.as_deref(), &context, &tables).await
        }
        .boxed()
    })
}

/// The same state with nothing set that changes how a text is read.
fn without_settings(mut state: SessionState) -> SessionContext {
    let options = state.config_mut().options_mut();
    options.sql_parser = dialect::session_config().options().sql_parser.clone();
    options.sql_parser.collect_spans = true;
    CATALOG.clone_into(&mut options.catalog.default_catalog);
    SCHEMA.clone_into(&mut options.catalog.default_schema);
    if let Some(settings) = options.extensions.get_mut::<Settings>() {
        settings.implicit_groups = false;
    }
    SessionContext::new_with_state(state)
}

async fn plan(
    mut statement: Statement,
    schema: Option<&str>,
    context: &SessionContext,
    tables: &Tables,
) -> Result<LogicalPlan> {
    let (planned, prepared) = (Mutex::new(None), Prepared::default());
    let planner = StatementPlanner {
        context,
        tables,
        prepared: &prepared,
        template: None,
        view: None,
        of_view: Some(&planned),
    };
    if let (Some(schema), Some(sql)) = (schema, sql_of(&mut statement)) {
        used_schema::qualify(sql, schema, Some(SCHEMA), &|name| planner.is_in(schema, name))?;
    }
    let parameters = Parameters::default();
    planner.plan_unprepared(&statement, &parameters, &context.state()).await?;
    let planned = lock(&planned).take();
    planned.ok_or_else(|| Error::InvalidInput("its text does not create a view".into()))
}

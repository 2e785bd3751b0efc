//! Views: the statement that made each, which is planned again when what it names has changed.
//!
//! A plan keeps the generation of each table that it scans, and keeps the table open. So a view has
//! a plan only while a statement runs that names it; the next statement plans it again. Within a
//! statement it is planned again where another view was made or dropped.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::empty::EmptyTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::sql::names::parameters::Parameters;
use crate::sql::run::provider::store_provider;
use crate::sql::run::table::StoreTable;
use crate::sql::syntax::parse::Parsed;
use crate::sql::types::decimals::{ExactNumbers, NumbersBesideDecimals, UserCasts};
use crate::sql::types::intervals::Intervals;
use crate::sql::types::rounding::{MarkCasts, RoundCasts};
use crate::sql::types::times::Times;
use crate::sql::write::assignments;

/// Plans the statement of a view of a store, whose tables are in this schema if the store is
/// attached: in the words of a session with nothing set.
pub(in crate::sql) type PlanView =
    Box<dyn Fn(Parsed, Option<String>) -> BoxFuture<'static, Result<LogicalPlan>> + Send + Sync>;

/// A view of a store: the name under which the store is attached, if it is, and the view's own.
pub(super) type ViewKey = (Option<String>, String);

/// A view of a store in the statement in progress: planned, or why it cannot be.
pub(super) type Outcome = Result<Arc<dyn TableProvider>, Arc<Error>>;

/// The definition of a view.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Definition {
    /// The whole CREATE VIEW.
    pub(in crate::sql) statement: Statement,
    /// The values of its placeholders.
    pub(in crate::sql) parameters: Parameters,
    /// The tables and views that it names.
    pub(in crate::sql) names: Vec<TableReference>,
    /// The number of changes to views when its plan was made.
    pub(in crate::sql) changes: u64,
}

impl Definition {
    /// Plans the view again from its statement.
    pub(in crate::sql) async fn plan(
        &self,
        state: &SessionState,
    ) -> Result<Arc<dyn TableProvider>> {
        let mut plan = assignments::plan(state, &self.statement).await?;
        if !self.parameters.is_empty() {
            plan = self.parameters.bind(plan)?;
        }
        let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = plan else {
            return Err(Error::Unsupported(
                "the statement of a view does not create a view".into(),
            ));
        };
        let coerced = coerced(Arc::unwrap_or_clone(view.input))?;
        Ok(Arc::new(ViewTable::new(coerced, view.definition)))
    }
}

/// The most nodes of a view's plan, those of the views that it names counted wherever they are.
const MAX_PARTS: usize = 1 << 14;

/// The most views each of which names the one before.
pub(super) const MAX_LEVELS: usize = 256;

/// How many nodes a plan has with those of the views in it: beyond [`MAX_PARTS`] if there are more,
/// or more than [`MAX_LEVELS`] on top of each other.
fn parts(plan: &LogicalPlan, level: usize) -> usize {
    if level > MAX_LEVELS {
        return MAX_PARTS + 1;
    }
    let mut count = 0;
    // The walk fails only where its visitor does.
    let _ = plan.apply_with_subqueries(|node| {
        count += 1;
        if let LogicalPlan::TableScan(scan) = node
            && let Some(view) = scan.source.get_logical_plan()
        {
            count += parts(&view, level + 1);
        }
        Ok(if count > MAX_PARTS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    count
}

/// The plan of a view with the final types of its columns, by the rules that coerce types and those
/// that must run before. An error if it stands on too many others.
pub(in crate::sql) fn coerced(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    if parts(&plan, 0) > MAX_PARTS {
        let what = format!(
            "a view has more than {MAX_PARTS} parts once the views that it names stand in the \
             place of their names, or {MAX_LEVELS} on top of each other; CREATE TABLE … AS keeps \
             what one returns"
        );
        return Err(Error::LimitExceeded(what).into());
    }
    // Floats beside decimals are corrected at once, while coercion's casts can be told from the
    // user's.
    let rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(Intervals),
        Arc::new(MarkCasts),
        Arc::new(NumbersBesideDecimals),
        Arc::new(Times),
        Arc::new(UserCasts),
        Arc::new(TypeCoercion::new()),
        Arc::new(RoundCasts),
        Arc::new(ExactNumbers),
    ];
    Analyzer::with_rules(rules).execute_and_check(plan, &ConfigOptions::default(), |_, _| {})
}

/// A table with a view's columns, which scans nothing.
pub(in crate::sql) fn without_plan(view: &dyn TableProvider) -> Arc<dyn TableProvider> {
    Arc::new(EmptyTable::new(view.schema()))
}

/// Whether every stored table that a view's plan scans is the one that `newest` gives.
pub(in crate::sql) fn scans_newest(
    view: &dyn TableProvider,
    newest: impl Fn(&StoreTable) -> Result<Option<Arc<StoreTable>>>,
) -> Result<bool> {
    let Some(plan) = view.get_logical_plan() else { return Ok(true) };
    let mut all = Ok(true);
    let visited = plan.apply_with_subqueries(|node| {
        let scanned = match node {
            LogicalPlan::TableScan(scan) => store_provider(scan).map(|provider| provider.table),
            _ => None,
        };
        if let Some(scanned) = scanned {
            all = newest(&scanned)
                .map(|newest| newest.is_some_and(|newest| Arc::ptr_eq(&newest, &scanned)));
        }
        Ok(if matches!(all, Ok(true)) {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    visited?;
    all
}

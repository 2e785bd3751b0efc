//! `TABLESAMPLE`: a table of which a statement sees only some rows.
//!
//! Where this stands on the road of a query: the first analyzer rule. `syntax::samples` has put a
//! marked condition above each table that is sampled. A table of the store is replaced by a sample
//! of it, which its scans and fragments know by the places of its rows; of anything else, rows are
//! drawn as they come.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{TableReference, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math::expr_fn::random;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, TableScan, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::expr::{Choosing, MAX_SAMPLE_ROWS};
use crate::sql::run::provider::{StoreProvider, store_provider};
use crate::sql::syntax::marks;
use crate::sql::walks::{any_node, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct Samples;

impl AnalyzerRule for Samples {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let is_sample = |node: &LogicalPlan| match node {
            LogicalPlan::Filter(filter) => marks::sample(&filter.predicate).is_some(),
            _ => false,
        };
        if !any_node(&plan, is_sample) {
            return Ok(plan);
        }
        // Each time that a statement runs, its samples are others.
        let random = RandomState::new();
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Filter(filter) => match Asked::of(&filter.predicate, &random)? {
                Some(asked) => Ok(Transformed::yes(asked.sampled(filter)?)),
                None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
            },
            other => Ok(Transformed::no(other)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "samples"
    }
}

/// A sample that is asked for.
struct Asked {
    choosing: Choosing,
    seed: u64,
    is_repeatable: bool,
    /// How EXPLAIN shows it.
    text: String,
    /// The same, different from others without a seed.
    name: String,
}

impl Asked {
    /// What a marked condition asks for.
    fn of(predicate: &Expr, random: &RandomState) -> DataFusionResult<Option<Asked>> {
        let Some(how) = marks::sample(predicate) else { return Ok(None) };
        let text = |at: usize| match how.get(at) {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten(),
            _ => None,
        };
        let (Some(method), Some(digits), Some(unit), Some(own)) =
            (text(0), text(1), text(2), text(4))
        else {
            return plan_err!("a sample without a method");
        };
        let number: f64 = digits.parse().unwrap_or(0.0);
        let choosing = match (unit, method) {
            ("ROWS", _) => Choosing::Rows(number as u64),
            (_, "BERNOULLI") => Choosing::Each(number / 100.0),
            (_, "RESERVOIR") => Choosing::Evenly(number / 100.0),
            _ => Choosing::Units(number / 100.0),
        };
        let given = text(3).and_then(|seed| seed.parse::<u64>().ok());
        let repeatable = given.map(|seed| format!(" REPEATABLE ({seed})")).unwrap_or_default();
        let text = format!("TABLESAMPLE {method} ({digits} {unit}){repeatable}");
        let other = given.map_or_else(|| format!(" #{own}"), |_| String::new());
        Ok(Some(Asked {
            choosing,
            seed: given.unwrap_or_else(|| random.hash_one(own)),
            is_repeatable: given.is_some(),
            name: format!("{text}{other}"),
            text,
        }))
    }

    fn sampled(&self, marked: Filter) -> DataFusionResult<LogicalPlan> {
        let mut input = Arc::unwrap_or_clone(marked.input);
        if self.choose_below(&mut input)? {
            return Ok(input);
        }
        if self.is_repeatable {
            return match self.choosing {
                Choosing::Rows(rows) if rows > MAX_SAMPLE_ROWS => plan_err!(
                    "a repeatable sample has at most {MAX_SAMPLE_ROWS} ROWS; ask for a share \
                     instead: TABLESAMPLE RESERVOIR (10 PERCENT) REPEATABLE (42)"
                ),
                _ => plan_err!(
                    "only a sample of a stored table is repeatable; keep the rows in a table \
                     first, CREATE TABLE t AS SELECT …, or leave out REPEATABLE"
                ),
            };
        }
        let input = LogicalPlanBuilder::from(input);
        match self.choosing {
            Choosing::Units(share) | Choosing::Evenly(share) | Choosing::Each(share) => {
                input.filter(random().lt(lit(share)))?
            }
            Choosing::Rows(rows) => input
                .sort([random().sort(true, false)])?
                .limit(0, Some(usize::try_from(rows).unwrap_or(usize::MAX)))?,
        }
        .build()
    }

    /// Replaces the stored table whose rows a plan gives by a sample of it; false if there is none.
    /// A share of what passes a filter is what passes of a share.
    fn choose_below(&self, plan: &mut LogicalPlan) -> DataFusionResult<bool> {
        let is_share = !matches!(self.choosing, Choosing::Rows(_));
        let input = match plan {
            LogicalPlan::SubqueryAlias(alias) => &mut alias.input,
            LogicalPlan::Projection(projection) => &mut projection.input,
            LogicalPlan::Filter(filter) if is_share => &mut filter.input,
            LogicalPlan::TableScan(scan) => {
                let Some(sampled) = self.of_stored(scan)? else { return Ok(false) };
                *plan = sampled;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let mut below = input.as_ref().clone();
        let chosen = self.choose_below(&mut below)?;
        if chosen {
            *input = Arc::new(below);
        }
        Ok(chosen)
    }

    /// A sample of a stored table; `None` of others. Plan equality ignores what a scan reads, so
    /// that each sample has a name of its own.
    fn of_stored(&self, scan: &TableScan) -> DataFusionResult<Option<LogicalPlan>> {
        let Some(provider) = store_provider(scan) else { return Ok(None) };
        let is_whole = scan.fetch.is_none()
            && scan.filters.is_empty()
            && !provider.is_filtered()
            && provider.table.sample_condition().is_none();
        let is_held = !matches!(self.choosing, Choosing::Rows(rows) if rows > MAX_SAMPLE_ROWS);
        if !is_whole || !is_held {
            return Ok(None);
        }
        let table = provider.table.sampled(self.choosing, self.seed, &self.text)?;
        let source = provider_as_source(Arc::new(StoreProvider::new(Arc::new(table))));
        let name = TableReference::bare(format!("{} {}", scan.table_name, self.name));
        LogicalPlanBuilder::scan(name, source, scan.projection.clone())?
            .alias(scan.table_name.clone())?
            .build()
            .map(Some)
    }
}

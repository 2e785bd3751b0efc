//! The engines that answer a statement: the executor, DataFusion's operators on the same stored
//! tables, and DataFusion on the rows that were stored. The last one pushes no filters from one
//! operator to another, so that it is right where the others confuse the columns of a filter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use stylobate::{Parameters, Session, SessionOptions};

#[cfg(feature = "cluster")]
use super::nodes::Nodes;
use super::tables::Database;

/// An answer, or the message of the error.
pub(crate) type Answer = Result<RecordBatch, String>;

/// The text in the message of a panic.
pub(crate) const PANIC: &str = "panicked";
/// The least memory that a session is promised to work with.
const LITTLE_MEMORY: u64 = 64 << 20;

/// All engines over some tables.
pub(crate) struct Engines {
    /// The executor, on three threads.
    pub(crate) native: Session,
    /// The executor on one thread; for half of the tables with so little memory that groups are
    /// spilled.
    pub(crate) one_thread: Session,
    /// The executor on four threads and in little memory.
    pub(crate) in_little_memory: Session,
    /// DataFusion's operators on the stored tables.
    pub(crate) off: Session,
    memory: SessionContext,
    /// The same, where a number with a decimal point is a decimal.
    decimals: SessionContext,
    /// Two nodes of a cluster.
    #[cfg(feature = "cluster")]
    pub(crate) nodes: Nodes,
    /// Whether a column has floats, whose NaN may have a sign bit in DataFusion.
    pub(crate) has_floats: bool,
    /// Whether a column has a zone other than UTC: there DataFusion takes dates for days in UTC.
    pub(crate) has_zones: bool,
    runtime: tokio::runtime::Runtime,
}

impl Engines {
    pub(crate) fn open(database: &Database) -> Engines {
        let open = |threads, memory| {
            let options = SessionOptions {
                threads: Some(threads),
                memory_limit: Some(memory),
                ..SessionOptions::default()
            };
            Session::open(&database.store, &options).unwrap()
        };
        let set = |session: &Session, setting: &str| {
            let none = Parameters::default();
            session.run(setting, &none, |mut stream| stream.try_for_each(|b| b.map(drop))).unwrap();
        };
        let (off, one_thread) = (open(2, 1 << 30), open(1, 1 << 30));
        set(&off, "SET sty.native = off");
        set(&off, "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0");
        if database.little_memory {
            set(&one_thread, "SET sty.group_memory = 20000");
        }
        let (memory, decimals) = (independent(false), independent(true));
        for table in &database.tables {
            let rows =
                Arc::new(MemTable::try_new(table.schema.clone(), table.partitions()).unwrap());
            for context in [&memory, &decimals] {
                context.register_table(table.name.as_str(), rows.clone()).unwrap();
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let has = |test: fn(&DataType) -> bool| {
            database
                .tables
                .iter()
                .any(|table| table.schema.fields().iter().any(|field| test(field.data_type())))
        };
        Engines {
            native: open(3, 1 << 30),
            one_thread,
            in_little_memory: open(4, LITTLE_MEMORY),
            off,
            memory,
            decimals,
            #[cfg(feature = "cluster")]
            nodes: Nodes::open(&database.store),
            has_floats: has(DataType::is_floating),
            has_zones: has(|data_type| match data_type {
                DataType::Timestamp(_, Some(zone)) => zone.as_ref() != "UTC",
                _ => false,
            }),
            runtime,
        }
    }

    /// Asks DataFusion on the rows in memory.
    pub(crate) fn memory(&self, sql: &str) -> Answer {
        self.collect(&self.memory, sql)
    }

    /// The same, where a number with a decimal point is a decimal.
    pub(crate) fn with_decimals(&self, sql: &str) -> Answer {
        self.collect(&self.decimals, sql)
    }

    /// Whether DataFusion casts in a way that `sty` does not: doubles to the decimals beside them,
    /// and times before 1970 to a coarser unit, up.
    pub(crate) fn casts_otherwise(&self, sql: &str) -> bool {
        let plan = self.runtime.block_on(async {
            let (state, plan) = self.memory.sql(sql).await?.into_parts();
            state.optimize(&plan)
        });
        let Ok(plan) = plan else { return false };
        let mut found = false;
        let walked = plan.apply_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Cast(cast) = expr
                        && let Ok(from) = cast.expr.get_type(&schema)
                    {
                        found |= is_cast_otherwise(&from, cast.field.data_type());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        walked.is_ok() && found
    }

    fn collect(&self, context: &SessionContext, sql: &str) -> Answer {
        let run = async {
            let (state, plan) = context.sql(sql).await?.into_parts();
            let plan = state.create_physical_plan(&with_one_zero(plan)?).await?;
            let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
            let schema = batches.first().map_or(plan.schema(), |batch| batch.schema());
            Ok::<_, DataFusionError>(concat_batches(&schema, &batches)?)
        };
        let caught = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(run)));
        caught
            .map_or_else(|_| Err(PANIC.into()), |answer| answer.map_err(|error| error.to_string()))
    }
}

fn is_cast_otherwise(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => to < from,
        _ => from.is_floating() && to.is_decimal(),
    }
}

/// A plan whose sorts take zeros for equal, as everything else does.
fn with_one_zero(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let sorted = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Sort(mut sort) = node else { return Ok(Transformed::no(node)) };
        for key in &mut sort.expr {
            match key.expr.get_type(sort.input.schema())? {
                DataType::Float64 => key.expr = key.expr.clone() + lit(0.0_f64),
                DataType::Float32 => key.expr = key.expr.clone() + lit(0.0_f32),
                _ => {}
            }
        }
        Ok(Transformed::yes(LogicalPlan::Sort(sort)))
    });
    Ok(sorted?.data)
}

/// DataFusion without the rules that push filters down to scans, and without those that take nulls
/// for equal.
fn independent(decimals: bool) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().sql_parser.dialect = Dialect::DuckDB;
    config.options_mut().sql_parser.parse_float_as_decimal = decimals;
    config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    let mut logical = Optimizer::new().rules;
    logical.retain(|rule| {
        !["extract_equijoin_predicate", "eliminate_cross_join"].contains(&rule.name())
    });
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_optimizer_rules(logical).with_physical_optimizer_rules(rules);
    SessionContext::new_with_state(builder.build())
}

/// The answer of a session, and how much of it came from fragments.
pub(crate) fn ask(session: &Session, sql: &str) -> (Answer, Native) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut native = Native::default();
        let mut answer = Err("no answer".to_owned());
        let run = session.run(sql, &Parameters::default(), |mut stream| {
            let schema = stream.schema();
            let batches = stream.by_ref().collect::<stylobate::Result<Vec<_>>>();
            native = Native::in_plan(&stream.explain());
            let batches = batches?;
            let schema = batches.first().map_or(schema, |batch| batch.schema());
            answer = concat_batches(&schema, &batches).map_err(|error| error.to_string());
            Ok(())
        });
        (run.map_err(|error| error.to_string()).and(answer), native)
    }));
    caught.unwrap_or_else(|_| (Err(PANIC.into()), Native::default()))
}

/// How much of a plan the executor ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Native {
    /// The plan had a fragment, or a scan that filters.
    pub(crate) partly: bool,
    /// The plan had no aggregate of DataFusion's.
    pub(crate) sums: bool,
}

impl Native {
    fn in_plan(plan: &str) -> Native {
        Native {
            partly: plan.contains("StoreFragment") || plan.contains("filter=["),
            sums: !plan.contains("AggregateExec"),
        }
    }
}

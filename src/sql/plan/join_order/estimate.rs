//! How many rows an operator gives, about, and how many values their columns have.
//!
//! Scans and fragments of stored tables know best: they have the manifest's statistics and have
//! looked at a sample. What other operators make of them is computed by the classic formulas, which
//! suppose that conditions do not depend on each other and that the smaller set of values is
//! contained in the larger.

use datafusion::common::stats::Precision;
use datafusion::common::{JoinSide, JoinType, Statistics};
use datafusion::physical_expr::expressions::{CastExpr, Column as Name};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;

use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;
use crate::sql::run::shared::SharedExec;

/// The share of rows that a condition of unknown effect leaves.
pub(super) const UNKNOWN: f64 = 0.25;

/// What is known of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// Distinct values, of the rows that there are and of those of the table that they come from.
    pub(super) distinct: f64,
    pub(super) in_table: f64,
    /// Rows of that table.
    pub(super) table_rows: f64,
    /// Whether no two rows of the table have the same.
    pub(super) is_unique: bool,
}

/// What is known of the rows of an operator.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) rows: f64,
    pub(super) columns: Vec<Values>,
}

/// Columns of which nothing is known.
fn unknown(rows: f64) -> Values {
    Values { distinct: rows, in_table: rows, table_rows: rows, is_unique: false }
}

/// About how many of `distinct` values are left where `kept` of `rows` rows are.
pub(super) fn left_of(distinct: f64, rows: f64, kept: f64) -> f64 {
    if kept >= rows || distinct <= 1.0 {
        return distinct.min(kept.max(1.0));
    }
    let share = 1.0 - (1.0 - kept / rows).powf(rows / distinct);
    (distinct * share).clamp(1.0, kept.max(1.0))
}

impl Estimate {
    fn of_table(known: &Statistics, rows: f64) -> Option<Self> {
        let table_rows = *known.num_rows.get_value()? as f64;
        let values = |column: &datafusion::common::ColumnStatistics| {
            let in_table = match column.distinct_count {
                Precision::Exact(n) | Precision::Inexact(n) => {
                    (n as f64).clamp(1.0, table_rows.max(1.0))
                }
                Precision::Absent => table_rows,
            };
            let distinct = left_of(in_table, table_rows, rows);
            Values { distinct, in_table, table_rows, is_unique: false }
        };
        Some(Estimate { rows, columns: known.column_statistics.iter().map(values).collect() })
    }

    /// The same with fewer rows.
    fn with_rows(mut self, rows: f64) -> Self {
        for column in &mut self.columns {
            column.distinct = left_of(column.distinct, self.rows, rows);
        }
        self.rows = rows;
        self
    }

    fn picked(&self, columns: &[usize]) -> Option<Self> {
        let columns = columns.iter().map(|at| self.columns.get(*at).copied());
        Some(Estimate { rows: self.rows, columns: columns.collect::<Option<_>>()? })
    }
}

/// About how many pairs of rows have equal keys. Each key has what is known of it on both sides.
pub(super) fn matches(left: f64, right: f64, keys: &[(Values, Values)]) -> f64 {
    let (mut one, mut two) = (Keys::default(), Keys::default());
    for (a, b) in keys {
        one.add(a);
        two.add(b);
    }
    let values = match (one.may_be_unique(), two.may_be_unique()) {
        // Which side has each key once? Where nothing tells, between the two.
        (true, true) => match (one.is_unique, two.is_unique) {
            (true, true) => one.table_rows.max(two.table_rows),
            (true, false) => one.table_rows,
            (false, true) => two.table_rows,
            (false, false) => (one.table_rows * two.table_rows).sqrt(),
        },
        _ => one.distinct.min(left).max(two.distinct.min(right)),
    };
    left * right / values.max(1.0)
}

/// About which share of the rows of one side have a partner on the other.
pub(super) fn partnered(left: f64, right: f64, keys: &[(Values, Values)]) -> f64 {
    let (mut one, mut two) = (Keys::default(), Keys::default());
    for (a, b) in keys {
        one.add(a);
        two.add(b);
    }
    let (here, there) = (one.distinct.min(left).max(1.0), two.distinct.min(right));
    (there / here).min(1.0)
}

/// The keys of one side together.
struct Keys {
    distinct: f64,
    in_table: f64,
    table_rows: f64,
    is_unique: bool,
}

impl Default for Keys {
    fn default() -> Self {
        Keys { distinct: 1.0, in_table: 1.0, table_rows: 1.0, is_unique: false }
    }
}

impl Keys {
    fn add(&mut self, values: &Values) {
        self.distinct *= values.distinct;
        self.in_table *= values.in_table;
        self.table_rows = self.table_rows.max(values.table_rows);
        self.is_unique |= values.is_unique;
    }

    fn may_be_unique(&self) -> bool {
        self.is_unique || self.in_table >= 0.9 * self.table_rows
    }
}

/// What is known of the rows of a plan; `None` if it is too little to plan by.
pub(super) fn estimate(plan: &dyn ExecutionPlan) -> Option<Estimate> {
    let found = of_operator(plan)?;
    Some(match plan.fetch() {
        Some(most) if (most as f64) < found.rows => found.with_rows(most as f64),
        _ => found,
    })
}

fn of_operator(plan: &dyn ExecutionPlan) -> Option<Estimate> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return of_scan(scan);
    }
    if let Some(fragment) = plan.downcast_ref::<FragmentExec>() {
        let rows = fragment.expected_rows() as f64;
        let columns = fragment.distinct_values().into_iter();
        let values = |n: Option<u64>| unknown(n.map_or(rows, |n| (n as f64).min(rows).max(1.0)));
        let mut found = Estimate { rows, columns: columns.map(values).collect() };
        if let [only] = found.columns.as_mut_slice() {
            only.is_unique = true;
        }
        return Some(found);
    }
    if let Some(shared) = plan.downcast_ref::<SharedExec>() {
        return estimate(shared.part().as_ref());
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_hash_join(join);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let pairs = both(join.left().as_ref(), join.right().as_ref())?;
        let rows = (pairs.rows * UNKNOWN).max(1.0);
        return sided(join.join_type(), &pairs.with_rows(rows), join.left(), join.right())?
            .picked_or_all(join.projection().as_deref());
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        return both(join.left().as_ref(), join.right().as_ref());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = estimate(projection.input().as_ref())?;
        let values = projection.expr().iter().map(|projected| {
            // A cast that never fails keeps values apart.
            let cast = projected.expr.downcast_ref::<CastExpr>().map(CastExpr::expr);
            let read = cast.unwrap_or(&projected.expr);
            let at = read.downcast_ref::<Name>().map(Name::index);
            at.and_then(|at| below.columns.get(at).copied()).unwrap_or_else(|| unknown(below.rows))
        });
        return Some(Estimate { rows: below.rows, columns: values.collect() });
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let below = estimate(filter.input().as_ref())?;
        let rows = (below.rows * UNKNOWN).max(1.0);
        return below.with_rows(rows).picked_or_all(filter.projection().as_deref());
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate);
    }
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let inputs = union
            .children()
            .into_iter()
            .map(|input| estimate(input.as_ref()))
            .collect::<Option<Vec<_>>>()?;
        let rows = inputs.iter().map(|input| input.rows).sum();
        return Some(Estimate { rows, columns: vec![unknown(rows); plan.schema().fields().len()] });
    }
    match plan.children().as_slice() {
        [] => {
            let known = plan.statistics_from_inputs(&[], &StatisticsArgs::new()).ok()?;
            let rows = *known.num_rows.get_value()? as f64;
            Estimate::of_table(&known, rows)
        }
        [input] => {
            let below = estimate(input.as_ref())?;
            let mut columns = below.columns;
            columns.resize(plan.schema().fields().len(), unknown(below.rows));
            Some(Estimate { rows: below.rows, columns })
        }
        _ => None,
    }
}

impl Estimate {
    fn picked_or_all(self, columns: Option<&[usize]>) -> Option<Self> {
        match columns {
            Some(columns) => self.picked(columns),
            None => Some(self),
        }
    }
}

fn of_scan(scan: &ScanExec) -> Option<Estimate> {
    let table = scan.table_statistics().ok()?;
    let mut found = Estimate::of_table(&table, scan.expected_rows())?;
    for (at, column) in found.columns.iter_mut().enumerate() {
        column.is_unique = scan.is_unique(at);
    }
    Some(found)
}

/// All pairs of rows.
fn both(left: &dyn ExecutionPlan, right: &dyn ExecutionPlan) -> Option<Estimate> {
    let (left, right) = (estimate(left)?, estimate(right)?);
    let rows = left.rows * right.rows;
    Some(Estimate { rows, columns: [left.columns, right.columns].concat() })
}

/// Those columns of both sides that a join has.
fn sided(
    join_type: &JoinType,
    pairs: &Estimate,
    left: &std::sync::Arc<dyn ExecutionPlan>,
    right: &std::sync::Arc<dyn ExecutionPlan>,
) -> Option<Estimate> {
    let (_, origins) = build_join_schema(&left.schema(), &right.schema(), join_type);
    let width = left.schema().fields().len();
    let columns = origins.iter().map(|origin| match origin.side {
        JoinSide::Left => pairs.columns.get(origin.index).copied(),
        JoinSide::Right => pairs.columns.get(width + origin.index).copied(),
        JoinSide::None => Some(unknown(2.0)),
    });
    Some(Estimate { rows: pairs.rows, columns: columns.collect::<Option<_>>()? })
}

fn of_hash_join(join: &HashJoinExec) -> Option<Estimate> {
    let (left, right) = (estimate(join.left().as_ref())?, estimate(join.right().as_ref())?);
    let values =
        |side: &Estimate, key: &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
            let at = key.downcast_ref::<Name>().map(Name::index);
            at.and_then(|at| side.columns.get(at).copied()).unwrap_or_else(|| unknown(side.rows))
        };
    let keys: Vec<(Values, Values)> =
        join.on().iter().map(|(l, r)| (values(&left, l), values(&right, r))).collect();
    let turned: Vec<(Values, Values)> = keys.iter().map(|(a, b)| (*b, *a)).collect();
    let share = if join.filter().is_some() { UNKNOWN } else { 1.0 };
    let inner = matches(left.rows, right.rows, &keys) * share;
    let of_left = || left.rows * partnered(left.rows, right.rows, &keys) * share;
    let of_right = || right.rows * partnered(right.rows, left.rows, &turned) * share;
    let rows = match join.join_type() {
        JoinType::Inner => inner,
        JoinType::Left => inner.max(left.rows),
        JoinType::Right => inner.max(right.rows),
        JoinType::Full => inner.max(left.rows + right.rows),
        JoinType::LeftSemi => of_left(),
        JoinType::RightSemi => of_right(),
        JoinType::LeftAnti => left.rows - of_left() * 0.9,
        JoinType::RightAnti => right.rows - of_right() * 0.9,
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
    }
    .max(1.0);
    let capped = |side: &Estimate| {
        side.columns.iter().map(|c| Values { distinct: c.distinct.min(rows), ..*c }).collect()
    };
    let columns: [Vec<Values>; 2] = [capped(&left), capped(&right)];
    sided(
        join.join_type(),
        &Estimate { rows, columns: columns.concat() },
        join.left(),
        join.right(),
    )?
    .picked_or_all(join.projection.as_deref())
}

fn of_aggregate(aggregate: &AggregateExec) -> Option<Estimate> {
    let below = estimate(aggregate.input().as_ref())?;
    let width = aggregate.schema().fields().len();
    let keys = aggregate.group_expr().expr().iter().map(|(key, _)| {
        let at = key.downcast_ref::<Name>().map(Name::index);
        at.and_then(|at| below.columns.get(at).copied()).unwrap_or_else(|| unknown(below.rows))
    });
    let keys: Vec<Values> = keys.collect();
    let groups = keys.iter().fold(1.0, |all, key| all * key.distinct);
    let rows = groups.min(below.rows).max(1.0);
    let value = |key: &Values| unknown(key.distinct.min(rows));
    let mut columns: Vec<Values> = keys.iter().map(value).collect();
    for column in &mut columns {
        column.table_rows = rows;
        column.is_unique = keys.len() == 1;
    }
    columns.resize(width, unknown(rows));
    Some(Estimate { rows, columns })
}

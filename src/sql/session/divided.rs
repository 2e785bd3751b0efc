//! Divides an answer into parts, which several readers fetch at the same time.
//!
//! A statement that filters and projects the rows of one stored table can be divided: each part is
//! the answer over some of the table's segments. All parts read the generation that was in force
//! when the answer was divided. It stays readable as long as the [`DividedAnswer`] lives.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::execution::Run;
use super::kept::Template;
use super::planned::Planned;
use super::{Session, Statement};
use crate::error::{Error, Result};
use crate::sql::names::parameters::Parameters;
use crate::sql::run::scan::{ScanExec, ScanOrder};
use crate::sql::run::stream::BatchStream;
use crate::sql::run::table::StoreTable;
use crate::store::Snapshot;

/// About the least rows of a part: each is planned by itself.
const PART_ROWS: f64 = (1 << 18) as f64;

/// An answer that can be read in parts. It keeps its table from being dropped.
#[derive(Clone, Debug)]
pub struct DividedAnswer {
    statement: Statement,
    table: Arc<StoreTable>,
    parts: usize,
}

impl DividedAnswer {
    /// The text of the statement.
    pub fn text(&self) -> &str {
        &self.statement.parsed.text
    }

    /// How many parts there are, at least two. Together they have all rows once, in any order.
    pub fn parts(&self) -> usize {
        self.parts
    }
}

impl Session {
    /// Divides the answer of a statement with this plan into `most` parts or fewer; `None` if the
    /// answer is small, or if the statement does more than filter and project one table.
    pub(super) fn divided(
        &self,
        statement: &Statement,
        most: usize,
        plan: &Arc<dyn ExecutionPlan>,
        template: Template,
    ) -> Result<Option<DividedAnswer>> {
        // The answer must depend on nothing but the generation of the table, such as the time.
        let (Some(_), Some(tables)) = (template.of(plan), self.tables.looked_up()) else {
            return Ok(None);
        };
        let ([(_, table)], Some(scan)) = (&*tables, scan_of_rows(plan)) else {
            return Ok(None);
        };
        if !Arc::ptr_eq(table, &scan.scan().table) {
            return Ok(None);
        }
        let segments = table.snapshot().segments()?.len();
        let large = (scan.expected_rows() / PART_ROWS) as usize;
        let parts = most.min(segments).min(large);
        let (statement, table) = (statement.clone(), Arc::clone(table));
        Ok((parts > 1).then_some(DividedAnswer { statement, table, parts }))
    }

    /// Executes one part of an answer, numbered from 0.
    pub fn execute_part(&self, answer: &DividedAnswer, part: usize) -> Result<BatchStream> {
        if part >= answer.parts {
            let parts = answer.parts;
            return Err(Error::InvalidInput(format!("there is no part {part} of {parts}")));
        }
        let (statement, none) = (&answer.statement, Parameters::default());
        self.memory_used.begin();
        let run = Run::new(self, statement, &none);
        let rows = part_of(answer.table.snapshot(), part, answer.parts)?;
        self.tables.pin_own(Arc::new(StoreTable::new(rows, None)));
        let planned = self.plan_pinned(statement, &none, None)?;
        match planned {
            Planned::Answer(plan) if scan_of_rows(&plan).is_some() => {
                let pins = self.tables.pins();
                self.answer(plan, pins, &run)
            }
            _ => Err(Error::InvalidInput(
                "the names of the statement have got another meaning since its answer was divided"
                    .into(),
            )),
        }
    }
}

/// The scan of a plan that gives rows of it, one by one.
fn scan_of_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let of = scan.scan();
        let is_whole = of.limit.is_none() && of.dynamic.is_empty();
        return (is_whole && matches!(of.order, ScanOrder::Stored)).then_some(scan);
    }
    let fetches = |filter: &FilterExec| filter.fetch().is_some();
    let passes = plan.is::<ProjectionExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<FilterExec>().is_some_and(|filter| !fetches(filter))
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|it| it.fetch().is_none());
    match plan.children().as_slice() {
        [input] if passes => scan_of_rows(input),
        _ => None,
    }
}

/// The table with the segments of a part: each is in the part that its middle row is in.
fn part_of(snapshot: &Snapshot, part: usize, parts: usize) -> Result<Snapshot> {
    let rows = snapshot.rows().max(1);
    let (mut before, mut others) = (0, BTreeSet::new());
    for (number, segment) in (0..).zip(snapshot.segments()?.iter()) {
        let middle = u128::from(before + segment.rows / 2);
        before += segment.rows;
        if middle * parts as u128 / u128::from(rows) != part as u128 {
            others.insert(number);
        }
    }
    snapshot.without(&others)
}

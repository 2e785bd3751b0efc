//! How the keys of a small filtered relation are spread over a large one.
//!
//! The formulas of `estimate` suppose that a key that passes a filter is as frequent as others.
//! Data are not so: the one keyword that a statement asks for is in one row of a hundred, the one
//! company in a third of all. Where few keys are left of a relation, they are looked up while the
//! statement is planned, and counted in the sample of the other side that conditions are tried on.

use std::collections::HashSet;

use datafusion::common::ScalarValue;

use super::estimate::{Estimate, Values, matches};
use super::graph::{Graph, Place};
use crate::sql::run::scan::ScanExec;

/// The most keys that are looked up, and of how many rows of a table they must be.
const MOST_KEYS: f64 = 256.0;
const OF_ROWS: f64 = 16.0;

/// Relations with fewer rows are no trouble in any order.
const LARGE: f64 = 50_000.0;

/// Two relations that are joined by a key, and how many times as many pairs there are as the
/// formulas say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skew {
    pub(super) one: usize,
    pub(super) other: usize,
    pub(super) factor: f64,
}

/// What can be found out about the joins of a graph.
pub(super) fn skews(graph: &Graph, known: &[Estimate]) -> Vec<Skew> {
    let mut found = Vec::new();
    for class in &graph.classes {
        let sides = class.places.iter().filter_map(|place| Side::of(graph, known, *place));
        let sides: Vec<Side<'_>> = sides.collect();
        let are_large = |side: &&Side<'_>| side.rows >= LARGE;
        for small in sides.iter().filter(|side| side.is_small()) {
            let mut large = sides.iter().filter(are_large).peekable();
            if large.peek().is_none() {
                continue;
            }
            let at = small.place.column;
            let Some(keys) = small.scan.few_values(at, MOST_KEYS as usize) else { continue };
            for large in large {
                let factor = small.factor(&keys, large);
                let (one, other) = (small.place.relation, large.place.relation);
                found.extend(factor.map(|factor| Skew { one, other, factor }));
            }
        }
    }
    found
}

/// A key of a stored table.
struct Side<'g> {
    place: Place,
    scan: &'g ScanExec,
    rows: f64,
    values: Values,
}

impl<'g> Side<'g> {
    fn of(graph: &'g Graph, known: &[Estimate], place: Place) -> Option<Self> {
        let scan = graph.relations.get(place.relation)?.plan.downcast_ref::<ScanExec>()?;
        let known = known.get(place.relation)?;
        let values = *known.columns.get(place.column)?;
        Some(Side { place, scan, rows: known.rows, values })
    }

    fn is_small(&self) -> bool {
        self.rows <= MOST_KEYS && self.values.table_rows >= self.rows * OF_ROWS
    }

    /// How many times as many pairs these keys make with another side as the formulas say.
    fn factor(&self, keys: &[ScalarValue], large: &Side<'_>) -> Option<f64> {
        let distinct: HashSet<&ScalarValue> = keys.iter().collect();
        let times = keys.len() as f64 / (distinct.len() as f64).max(1.0);
        let distinct: Vec<ScalarValue> = distinct.into_iter().cloned().collect();
        let by_formula = matches(self.rows, large.rows, &[(self.values, large.values)]).max(1.0);
        // What a sample does not have may yet be there.
        let by_sample = large.scan.rows_with(large.place.column, &distinct)?.max(1.0);
        Some(by_sample * times / by_formula)
    }
}

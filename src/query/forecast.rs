//! What a run would read, by the manifest and zone maps alone: no block is read.
//!
//! Where this stands on the road of a query: beside `open`, with the same statistics. What later
//! steps may leave out besides is said as a reason why less may be read.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::metadata;
use super::open::opener::{partitions, predicate};
use super::prune::Verdict;
use super::prune::blocks::{judge, matching_blocks};
use super::prune::segments::matching_segments;
use super::stats::Counters;
use super::{Condition, Fragment, Output};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::{Column, ColumnId};
use crate::store::Snapshot;

/// What would be read of a table.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    /// What statistics rule out, and what is left to be read.
    pub counters: Counters,
    /// The blocks that are left, segment by segment.
    pub segments: Vec<SegmentForecast>,
    /// Why less may be read; all figures are exact if there is no reason.
    pub reasons: Vec<&'static str>,
}

/// The blocks of a segment that would be read.
#[derive(Clone, Debug)]
pub struct SegmentForecast {
    /// Its place in the table.
    pub number: usize,
    /// Its file.
    pub file: PathBuf,
    /// Its place in the file.
    pub offset: u64,
    /// The blocks.
    pub blocks: Vec<usize>,
    /// The stored bytes of the columns that are read of them.
    pub bytes: u64,
}

/// The rows that something reads.
pub(crate) struct Reader<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) conditions: &'a [Condition],
    /// What statistics are held against.
    pub(crate) predicate: Predicate,
    /// Columns that are read of the rows that pass, by position.
    pub(crate) output: Vec<usize>,
}

impl Reader<'_> {
    /// What would be read of one generation of the table.
    pub(crate) fn forecast(&self, snapshot: &Snapshot) -> Result<Forecast> {
        let mut counters = Counters::new(self.conditions.len());
        let entries = snapshot.segments()?;
        let partitions = partitions(self.conditions);
        let numbers =
            matching_segments(&self.predicate, &partitions, snapshot, &entries, &mut counters)?;
        let (mut segments, mut is_tested) = (Vec::new(), false);
        for number in numbers {
            let Some(entry) = entries.get(number) else { continue };
            let segment = snapshot.open_segment(entry)?;
            let (predicate, columns) = (&self.predicate, self.columns);
            let blocks =
                matching_blocks(predicate, &segment, number, columns, true, &mut counters)?;
            if blocks.is_empty() {
                continue;
            }
            let stored = self.columns.iter().map(|column| segment.column(column.id));
            let stored = stored.collect::<Result<Vec<_>>>()?;
            let known = |id: ColumnId| {
                let at = self.columns.iter().position(|column| column.id == id)?;
                Some(stored.get(at)?.as_deref())
            };
            let mut bytes = 0;
            for block in &blocks {
                let mut read: BTreeSet<usize> = self.output.iter().copied().collect();
                for condition in self.conditions {
                    if judge(&condition.predicate, &segment, *block, known) != Verdict::Always {
                        read.extend(&condition.expression.inputs);
                        is_tested = true;
                    }
                }
                let of_block = |at: &usize| Some(stored.get(*at)?.as_ref()?.block_bytes(*block));
                bytes += read.iter().filter_map(of_block).sum::<u64>();
                let rows = segment.block_range(*block);
                counters.scan.rows_out += rows.end - rows.start;
            }
            counters.segments_read += 1;
            counters.blocks_read += blocks.len() as u64;
            counters.bytes_read += bytes;
            let (file, offset) = (snapshot.path(entry), entry.offset);
            segments.push(SegmentForecast { number, file, offset, blocks, bytes });
        }
        let reasons = if is_tested { vec!["rows are tested"] } else { Vec::new() };
        Ok(Forecast { counters, segments, reasons })
    }
}

/// What a fragment would read.
pub(crate) fn forecast(fragment: &Fragment, snapshot: &Snapshot) -> Result<Forecast> {
    let mut reason = "only the first rows are wanted";
    if let Output::Aggregate { keys, aggregates, .. } = &fragment.output {
        if keys.is_empty()
            && fragment.conditions.is_empty()
            && metadata::answer(fragment, aggregates, snapshot)?.is_some()
        {
            let counters = metadata::counters(snapshot, true, Duration::ZERO)?;
            return Ok(Forecast { counters, ..Forecast::default() });
        }
        reason = "zone maps and dictionaries may answer for whole blocks";
    }
    let mut output: Vec<usize> = fragment.output.read_by_row().collect();
    if let Output::Top { expressions, .. } = &fragment.output {
        output.extend(expressions.iter().flat_map(|expression| expression.inputs.iter().copied()));
    }
    let (columns, conditions) = (&fragment.columns, &fragment.conditions);
    let reader = Reader { columns, conditions, predicate: predicate(conditions), output };
    let mut forecast = reader.forecast(snapshot)?;
    if forecast.counters.blocks_read > 0 {
        forecast.reasons.push(reason);
    }
    Ok(forecast)
}

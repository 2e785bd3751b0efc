//! Bars: one for each row, for each label and series, or for how often a label occurs.

use std::collections::HashMap;

use super::skipped::Skipped;
use crate::charts::figure::{BarSeries, Bars};
use crate::units::show_counted;

/// Labels that are kept. More are not drawn.
const MAX_LABELS: usize = 1_000;
/// Labels whose rows are counted.
const MAX_COUNTED: usize = 100_000;
/// Series of bars.
const MAX_SERIES: usize = 8;
/// The label of null.
const NULL: &str = "NULL";

/// Collects bars whose values are columns.
#[derive(Debug)]
pub(super) struct BarsCollector {
    bars: Bars,
    log: bool,
    /// Where each label, with a hue, or each series is.
    labels: HashMap<String, usize>,
    series: HashMap<String, usize>,
    repeats: bool,
    other_series: u64,
    pub(super) skipped: Skipped,
}

impl BarsCollector {
    /// Bars of these columns; without any, series come from rows ([`BarsCollector::add_cell`]).
    pub(super) fn new(category: String, columns: &[String], log: bool) -> Self {
        let series =
            columns.iter().map(|name| BarSeries { name: name.clone(), values: Vec::new() });
        let bars = Bars { category, series: series.collect(), ..Bars::default() };
        BarsCollector {
            bars,
            log,
            labels: HashMap::new(),
            series: HashMap::new(),
            repeats: false,
            other_series: 0,
            skipped: Skipped::default(),
        }
    }

    /// A row: a bar of each series.
    pub(super) fn add_row(
        &mut self,
        label: Option<String>,
        values: impl Iterator<Item = Option<f64>>,
    ) {
        if self.bars.labels.len() >= MAX_LABELS {
            self.bars.more += 1;
            return;
        }
        let label = label.unwrap_or_else(|| NULL.into());
        self.repeats |= self.labels.insert(label.clone(), 0).is_some();
        self.bars.labels.push(label);
        for (series, value) in self.bars.series.iter_mut().zip(values) {
            // What has no length is shown as a text.
            if value.is_some() {
                self.skipped.number(value, self.log);
            }
            series.values.push(value);
        }
    }

    /// A row of a label and a series: one bar.
    pub(super) fn add_cell(
        &mut self,
        label: Option<String>,
        series: Option<String>,
        value: Option<f64>,
    ) {
        let (label, series) =
            (label.unwrap_or_else(|| NULL.into()), series.unwrap_or_else(|| NULL.into()));
        let Bars { labels, series: all, more, .. } = &mut self.bars;
        let known = self.labels.get(&label).copied();
        if known.is_none() && labels.len() >= MAX_LABELS {
            *more += 1;
            return;
        }
        let row = known.unwrap_or_else(|| {
            labels.push(label.clone());
            self.labels.insert(label, labels.len() - 1);
            labels.len() - 1
        });
        let known = self.series.get(&series).copied();
        if known.is_none() && all.len() >= MAX_SERIES {
            self.other_series += 1;
            return;
        }
        let at = known.unwrap_or_else(|| {
            all.push(BarSeries { name: series.clone(), values: Vec::new() });
            self.series.insert(series, all.len() - 1);
            all.len() - 1
        });
        let Some(series) = all.get_mut(at) else { return };
        if series.values.len() <= row {
            series.values.resize(row + 1, None);
        }
        if let Some(place) = series.values.get_mut(row) {
            self.repeats |= place.is_some();
            if value.is_some() {
                self.skipped.number(value, self.log);
            }
            *place = value;
        }
    }

    /// The bars, and what is to be said of them.
    pub(super) fn finish(mut self) -> (Bars, Vec<String>) {
        for series in &mut self.bars.series {
            series.values.resize(self.bars.labels.len(), None);
        }
        let mut notes = Vec::new();
        if self.repeats {
            let what = &self.bars.category;
            notes.push(format!(
                "values of '{what}' repeat: the bars are of rows; GROUP BY makes one of each value"
            ));
        }
        if self.other_series > 0 {
            notes.push(format!(
                "not drawn: {} of other series",
                show_counted(self.other_series, "row")
            ));
        }
        (self.bars, notes)
    }
}

/// Counts the rows of each label.
#[derive(Debug, Default)]
pub(super) struct CountsCollector {
    category: String,
    counts: HashMap<String, u64>,
    others: u64,
}

impl CountsCollector {
    pub(super) fn new(category: String) -> Self {
        CountsCollector { category, ..CountsCollector::default() }
    }

    pub(super) fn add(&mut self, label: Option<String>) {
        let label = label.unwrap_or_else(|| NULL.into());
        if let Some(count) = self.counts.get_mut(&label) {
            *count += 1;
        } else if self.counts.len() < MAX_COUNTED {
            self.counts.insert(label, 1);
        } else {
            self.others += 1;
        }
    }

    /// The most frequent labels, and what is to be said of them.
    pub(super) fn finish(self) -> (Bars, Vec<String>) {
        let mut counts: Vec<(String, u64)> = self.counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let more = counts.len().saturating_sub(MAX_LABELS) as u64;
        counts.truncate(MAX_LABELS);
        let mut notes = Vec::new();
        if self.others > 0 {
            let rows = show_counted(self.others, "row");
            notes.push(format!("not drawn: {rows} of values that came after {MAX_COUNTED} others"));
        }
        let values = counts.iter().map(|(_, count)| Some(*count as f64)).collect();
        let series = vec![BarSeries { name: "rows".into(), values }];
        let labels = counts.into_iter().map(|(label, _)| label).collect();
        (Bars { category: self.category, labels, series, more }, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_from_rows_fill_a_grid() {
        let mut all = BarsCollector::new("k".into(), &[], false);
        for (label, series, value) in
            [("a", "x", 1.0), ("b", "y", 2.0), ("a", "y", 3.0), ("b", "z", 0.5)]
        {
            all.add_cell(Some(label.into()), Some(series.into()), Some(value));
        }
        let (bars, notes) = all.finish();
        assert_eq!(bars.labels, ["a", "b"]);
        let values: Vec<&[Option<f64>]> = bars.series.iter().map(|s| &*s.values).collect();
        assert_eq!(values, [&[Some(1.0), None][..], &[Some(3.0), Some(2.0)], &[None, Some(0.5)]]);
        assert!(notes.is_empty());
    }

    #[test]
    fn labels_are_counted_the_most_frequent_first() {
        let mut all = CountsCollector::new("k".into());
        for label in ["b", "a", "b", "c", "b", "a"] {
            all.add(Some(label.into()));
        }
        all.add(None);
        let (bars, _) = all.finish();
        assert_eq!(bars.labels, ["b", "a", "NULL", "c"]);
        assert_eq!(bars.series[0].values, [Some(3.0), Some(2.0), Some(1.0), Some(1.0)]);
    }

    #[test]
    fn rows_beyond_the_limit_and_labels_that_repeat_are_said() {
        let mut all = BarsCollector::new("k".into(), &["n".into()], false);
        for at in 0..1_500 {
            all.add_row(Some(format!("{}", at % 999)), std::iter::once(Some(1.0)));
        }
        let (bars, notes) = all.finish();
        assert_eq!((bars.labels.len(), bars.more), (1_000, 500));
        assert!(notes[0].contains("'k' repeat"), "{notes:?}");
    }
}

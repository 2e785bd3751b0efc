//! The cells of a heat map: a value for each pair of keys. Where a pair repeats, its mean.

use std::collections::HashMap;

use super::skipped::Skipped;
use crate::charts::figure::Cells;
use crate::units::show_counted;

/// Keys along each axis.
const MAX_KEYS: usize = 1_000;
/// Cells that are kept.
const MAX_CELLS: usize = 200_000;

/// Collects the cells of a heat map.
#[derive(Debug)]
pub(super) struct CellsCollector {
    names: [String; 3],
    /// Whether cells have values; otherwise, their rows are counted.
    has_values: bool,
    log: bool,
    columns: Keys,
    rows: Keys,
    cells: HashMap<(usize, usize), (f64, u64)>,
    not_kept: u64,
    repeats: bool,
    pub(super) skipped: Skipped,
}

/// The keys of an axis, in the order in which they come.
#[derive(Debug, Default)]
struct Keys {
    places: HashMap<String, usize>,
    all: Vec<(String, Option<f64>)>,
    last: Option<usize>,
    /// Whether the rows of each key follow each other.
    grouped: bool,
}

/// A key: its text, and what it is ordered by, if it is a number or a time.
pub(super) type Key = (Option<String>, Option<f64>);

impl Keys {
    fn new() -> Self {
        Keys { grouped: true, ..Keys::default() }
    }

    fn place(&mut self, (text, number): Key) -> Option<usize> {
        let text = text.unwrap_or_else(|| "NULL".into());
        let known = self.places.get(&text).copied();
        if known.is_none() && self.all.len() >= MAX_KEYS {
            return None;
        }
        self.grouped &= known.is_none() || known == self.last;
        let at = known.unwrap_or_else(|| {
            self.all.push((text.clone(), number));
            self.places.insert(text, self.all.len() - 1);
            self.all.len() - 1
        });
        self.last = Some(at);
        Some(at)
    }

    /// The places of the keys in the order in which they are drawn.
    fn order(&self, keep_texts: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        if self.all.iter().any(|(_, number)| number.is_some()) {
            let number = |at: &usize| self.all.get(*at).and_then(|key| key.1).unwrap_or(f64::NAN);
            order.sort_by(|a, b| number(a).total_cmp(&number(b)));
        } else if !keep_texts {
            let text = |at: &usize| self.all.get(*at).map(|key| &*key.0);
            order.sort_by(|a, b| text(a).cmp(&text(b)));
        }
        order
    }
}

impl CellsCollector {
    pub(super) fn new(names: [String; 3], has_values: bool, log: bool) -> Self {
        CellsCollector {
            names,
            has_values,
            log,
            columns: Keys::new(),
            rows: Keys::new(),
            cells: HashMap::new(),
            not_kept: 0,
            repeats: false,
            skipped: Skipped::default(),
        }
    }

    pub(super) fn add(&mut self, column: Key, row: Key, value: Option<f64>) {
        let value = if self.has_values { value } else { Some(1.0) };
        let Some(value) = self.skipped.number(value, self.log) else { return };
        let (Some(column), Some(row)) = (self.columns.place(column), self.rows.place(row)) else {
            self.not_kept += 1;
            return;
        };
        let count = self.cells.len();
        let cell = self.cells.get_mut(&(row, column));
        match cell {
            Some((sum, count)) => {
                *sum += value;
                *count += 1;
                self.repeats = true;
            }
            None if count < MAX_CELLS => {
                self.cells.insert((row, column), (value, 1));
            }
            None => self.not_kept += 1,
        }
    }

    /// The cells, and what is to be said of them.
    pub(super) fn finish(self) -> (Cells, Vec<String>) {
        let mut notes = Vec::new();
        if self.repeats && self.has_values {
            let [x, y, value] = &self.names;
            notes.push(format!("pairs of '{x}' and '{y}' repeat: cells are means of '{value}'"));
        }
        if self.not_kept > 0 {
            let rows = show_counted(self.not_kept, "row");
            notes.push(format!("not drawn: {rows} of keys beyond the first {MAX_KEYS} of an axis"));
        }
        // The order of the answer is kept where its rows are in an order.
        let (rows, columns) = (self.rows.order(self.rows.grouped), self.columns.order(false));
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        for row in &rows {
            for column in &columns {
                values.push(self.cells.get(&(*row, *column)).map(|(sum, count)| {
                    if self.has_values { sum / *count as f64 } else { *count as f64 }
                }));
            }
        }
        let texts = |keys: &Keys, order: &[usize]| {
            order.iter().filter_map(|at| keys.all.get(*at)).map(|key| key.0.clone()).collect()
        };
        let (columns, rows) = (texts(&self.columns, &columns), texts(&self.rows, &rows));
        (Cells { names: self.names, columns, rows, values }, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        (Some(text.into()), text.parse().ok())
    }

    #[test]
    fn numbers_are_ordered_and_rows_of_texts_stay_as_they_come() {
        let names = ["hour", "day", "n"].map(str::to_owned);
        let mut all = CellsCollector::new(names, true, false);
        for (day, hour, n) in
            [("Mon", "10", 1.0), ("Mon", "9", 2.0), ("Fri", "9", 3.0), ("Fri", "9", 5.0)]
        {
            all.add(key(hour), key(day), Some(n));
        }
        let (cells, notes) = all.finish();
        assert_eq!(
            (cells.columns, cells.rows),
            (vec!["9".into(), "10".into()], vec!["Mon".to_string(), "Fri".to_string()])
        );
        assert_eq!(cells.values, [Some(2.0), Some(1.0), Some(4.0), None]);
        assert_eq!(notes, ["pairs of 'hour' and 'day' repeat: cells are means of 'n'"]);
    }

    #[test]
    fn rows_without_values_are_counted() {
        let mut all = CellsCollector::new(Default::default(), false, false);
        for (x, y) in [("b", "p"), ("a", "q"), ("b", "p"), ("a", "p")] {
            all.add(key(x), key(y), None);
        }
        let (cells, _) = all.finish();
        assert_eq!(
            (&*cells.columns, &*cells.rows),
            (&["a".to_string(), "b".into()][..], &["p".to_string(), "q".into()][..])
        );
        assert_eq!(cells.values, [Some(1.0), Some(2.0), Some(1.0), None]);
    }
}

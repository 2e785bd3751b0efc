//! Values that have no place in a chart, counted so that they can be said.

use crate::charts::steps::{MAX_NUMBER, MAX_SECONDS};
use crate::units::show_counted;

/// Rows whose values are not drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skipped {
    nulls: u64,
    not_finite: u64,
    not_positive: u64,
    too_large: u64,
}

impl Skipped {
    /// The value, if it can be drawn on a scale of numbers.
    pub(super) fn number(&mut self, value: Option<f64>, log: bool) -> Option<f64> {
        let value = self.finite(value)?;
        if log && value <= 0.0 {
            self.not_positive += 1;
            return None;
        }
        if value.abs() > MAX_NUMBER {
            self.too_large += 1;
            return None;
        }
        Some(value)
    }

    /// The value, if it can be drawn on an axis of numbers or of times.
    pub(super) fn axis(&mut self, value: Option<f64>, is_time: bool) -> Option<f64> {
        let value = self.number(value, false)?;
        if is_time && value.abs() > MAX_SECONDS {
            self.too_large += 1;
            return None;
        }
        Some(value)
    }

    fn finite(&mut self, value: Option<f64>) -> Option<f64> {
        match value {
            None => self.nulls += 1,
            Some(value) if !value.is_finite() => self.not_finite += 1,
            Some(value) => return Some(value),
        }
        None
    }

    /// The note for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        let all = [
            (self.nulls, "null", ""),
            (self.not_finite, "value", " (NaN or infinite)"),
            (self.not_positive, "value", " (zero or less, on a logarithmic scale)"),
            (self.too_large, "value", " (too large for an axis)"),
        ];
        let all = all.iter().filter(|(count, _, _)| *count > 0);
        all.map(|(count, noun, why)| format!("not drawn: {}{why}", show_counted(*count, noun)))
            .collect()
    }
}

//! A chart as it is drawn, in the terminal or as SVG: series, bins and cells, without any sizes.

use super::steps::MAX_NUMBER;

/// A chart of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figure {
    pub(super) title: Option<String>,
    pub(super) body: Body,
    /// Whether the axis of values is logarithmic.
    pub(super) log: bool,
    /// What the chart does not show, for people.
    pub(super) notes: Vec<String>,
}

impl Figure {
    /// What the chart does not show, for people.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Body {
    /// Nothing to draw.
    #[default]
    Empty,
    Bars(Bars),
    Points(Points),
    Bins(Bins),
    Cells(Cells),
    Sparks(Sparks),
}

/// Bars of categories, side by side if there are several series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bars {
    /// What the labels are.
    pub(super) category: String,
    pub(super) labels: Vec<String>,
    pub(super) series: Vec<BarSeries>,
    /// Categories beyond those that were kept.
    pub(super) more: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BarSeries {
    pub(super) name: String,
    /// A value for each label; those that have no length are there, too ([`has_length`]).
    pub(super) values: Vec<Option<f64>>,
}

/// Whether a value can be drawn as a bar.
pub(super) fn has_length(value: f64, log: bool) -> bool {
    value.abs() <= MAX_NUMBER && (value > 0.0 || !log)
}

/// Points of one or several series, connected or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Points {
    pub(super) x: Axis,
    /// The name of the y axis.
    pub(super) y: String,
    pub(super) series: Vec<PointSeries>,
    pub(super) connected: bool,
}

/// The x axis of points and bins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) kind: AxisKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AxisKind {
    #[default]
    Number,
    /// Seconds since 1970.
    Time,
    /// Seconds since midnight.
    TimeOfDay,
}

impl AxisKind {
    pub(super) fn is_time(self) -> bool {
        self != AxisKind::Number
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PointSeries {
    pub(super) name: String,
    /// In the order of x, if they are connected.
    pub(super) points: Vec<(f64, f64)>,
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bins {
    pub(super) x: Axis,
    /// Where each bin begins, and where the last one ends.
    pub(super) edges: Vec<f64>,
    pub(super) counts: Vec<u64>,
    /// Whether each bin holds one whole number.
    pub(super) whole: bool,
}

/// A heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cells {
    /// The names of the two keys and of the value.
    pub(super) names: [String; 3],
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<String>,
    /// Row by row.
    pub(super) values: Vec<Option<f64>>,
}

/// Small lines, one below the other, each with a scale of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sparks {
    pub(super) lines: Vec<Spark>,
    /// Lines beyond those that were kept.
    pub(super) more: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spark {
    pub(super) label: String,
    pub(super) values: Vec<Option<f64>>,
}

//! What a chart is asked to be.

use clap::{Args, ValueEnum};

/// The kinds of chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// By the types and the shape of the answer
    Auto,
    /// A bar for each category
    Bar,
    /// Lines over time, or over a number
    Line,
    /// How often values occur
    Hist,
    /// A coloured cell for each pair of keys
    Heat,
    /// A small line for each row or series
    Spark,
    /// A point for each row
    Scatter,
}

/// Options of a chart.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChartOptions {
    /// Kind of chart [default: auto, by the columns of the answer]
    #[arg(long = "chart", value_name = "KIND", value_enum, help_heading = "Charts")]
    pub(crate) kind: Option<Kind>,
    /// The column of the horizontal axis, or of the labels of bars
    #[arg(long, value_name = "COLUMN", help_heading = "Charts")]
    pub(crate) x: Option<String>,
    /// The columns of the vertical axis, or of the lengths of bars
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', help_heading = "Charts")]
    pub(crate) y: Vec<String>,
    /// The column that colours show: series of lines, points and bars, cells of a heat map
    #[arg(long, value_name = "COLUMN", help_heading = "Charts")]
    pub(crate) hue: Option<String>,
    /// A line above the chart
    #[arg(long, value_name = "TEXT", help_heading = "Charts")]
    pub(crate) title: Option<String>,
    /// Width, in characters or in pixels of SVG
    #[arg(long, value_name = "N", help_heading = "Charts")]
    #[arg(value_parser = clap::value_parser!(u32).range(20..=10_000))]
    pub(crate) width: Option<u32>,
    /// Height, in lines or in pixels of SVG
    #[arg(long, value_name = "N", help_heading = "Charts")]
    #[arg(value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) height: Option<u32>,
    /// A logarithmic scale of values
    #[arg(long, help_heading = "Charts")]
    pub(crate) log: bool,
    /// Bars of a histogram at most; their widths are round numbers
    #[arg(long, value_name = "N", help_heading = "Charts")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) bins: Option<u32>,
    /// Draw with ASCII characters only
    #[arg(long, help_heading = "Charts")]
    pub(crate) ascii: bool,
}

impl ChartOptions {
    /// Whether any of them is given.
    pub(crate) fn any(&self) -> bool {
        let texts = self.x.is_some() || self.hue.is_some() || self.title.is_some();
        let numbers = self.width.is_some() || self.height.is_some() || self.bins.is_some();
        self.kind.is_some() || !self.y.is_empty() || texts || numbers || self.log || self.ascii
    }
}

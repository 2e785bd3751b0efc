//! From the rows of an answer, as they come, to a figure: one collector for each kind of chart, all
//! of them in bounded memory.

mod bars;
mod bins;
mod cells;
mod points;
mod skipped;

use bars::{BarsCollector, CountsCollector};
use bins::BinsCollector;
use cells::{CellsCollector, Key};
use points::PointsCollector;
use skipped::Skipped;

use super::choice::{Plan, Sample, choose};
use super::figure::{Axis, AxisKind, BarSeries, Bars, Body, Figure, Points, Spark, Sparks};
use super::options::{ChartOptions, Kind};
use super::rows::{Class, Column, Rows};
use crate::errors::Failure;
use crate::units::show_count;

/// Lines and clouds of points.
const MAX_SERIES: usize = 12;
/// Sparklines: each series is one line of text.
const MAX_SPARKS: usize = 1_000;
/// Small lines with an axis of x.
const MAX_SPARK_SERIES: usize = 200;
/// Values of a small line.
const MAX_SPARK_VALUES: usize = 100_000;
/// Bars of a histogram, if nothing else is asked for.
const DEFAULT_BINS: usize = 36;

/// Draws one answer, whose rows come in parts.
#[derive(Debug)]
pub(crate) struct Collector {
    plan: Plan,
    columns: Vec<Column>,
    title: Option<String>,
    log: bool,
    rows: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Bars(BarsCollector),
    Counts(CountsCollector),
    Points(PointsCollector),
    Bins(BinsCollector),
    Cells(CellsCollector),
    Sparks { sparks: Sparks, skipped: Skipped },
}

impl Collector {
    /// Chooses a chart by the first rows, which are to be added like all others.
    pub(crate) fn new(
        columns: Vec<Column>,
        options: &ChartOptions,
        first: &[Box<dyn Rows + '_>],
        complete: bool,
    ) -> Result<Self, Failure> {
        let plan = choose(&columns, options, &Sample { parts: first, complete })?;
        let state = State::new(&plan, &columns, options);
        let title = options.title.clone();
        Ok(Collector { plan, columns, title, log: options.log, rows: 0, state })
    }

    /// Adds rows.
    pub(crate) fn add(&mut self, rows: &dyn Rows) {
        self.rows += rows.count() as u64;
        for row in 0..rows.count() {
            self.add_row(rows, row);
        }
    }

    fn add_row(&mut self, rows: &dyn Rows, row: usize) {
        let Plan { x, y, hue, .. } = &self.plan;
        let (x, hue) = (*x, *hue);
        let number_of_row = self.rows - rows.count() as u64 + row as u64 + 1;
        let text = |column: Option<usize>| column.and_then(|column| rows.text(column, row));
        let number = |column: Option<usize>| column.and_then(|column| rows.number(column, row));
        match &mut self.state {
            State::Counts(counts) => counts.add(text(x)),
            State::Bars(bars) if hue.is_some() => {
                bars.add_cell(text(x), text(hue), number(y.first().copied()));
            }
            State::Bars(bars) => {
                let label = if x.is_some() { text(x) } else { Some(show_count(number_of_row)) };
                bars.add_row(label, y.iter().map(|column| rows.number(*column, row)));
            }
            State::Bins(bins) => bins.add(number(x)),
            State::Cells(cells) => {
                let key = |column: Option<usize>| -> Key { (text(column), number(column)) };
                cells.add(key(x), key(y.first().copied()), number(hue));
            }
            State::Points(points) => {
                for column in y {
                    let of_hue = hue.map(|_| text(hue).unwrap_or_else(|| "NULL".into()));
                    let name = self.columns.get(*column).map_or("", |column| &*column.name);
                    let series = match of_hue {
                        Some(hue) if y.len() > 1 => format!("{hue}, {name}"),
                        Some(hue) => hue,
                        None => name.to_owned(),
                    };
                    points.add(&series, number(x), rows.number(*column, row));
                }
            }
            State::Sparks { sparks, skipped } => {
                if sparks.lines.len() >= MAX_SPARKS {
                    sparks.more += 1;
                    return;
                }
                let list = y.first().copied().filter(|at| is_list(&self.columns, *at));
                let values: Vec<Option<f64>> = match list {
                    Some(list) => rows.list(list, row).unwrap_or_default(),
                    None => y.iter().map(|column| rows.number(*column, row)).collect(),
                };
                let values = values.into_iter().take(MAX_SPARK_VALUES);
                let values = values.map(|value| skipped.number(value, self.log)).collect();
                let label =
                    x.map_or_else(String::new, |_| text(x).unwrap_or_else(|| "NULL".into()));
                sparks.lines.push(Spark { label, values });
            }
        }
    }

    /// The figure, once all rows are added.
    pub(crate) fn finish(self) -> Figure {
        let (x_name, is_spark) = (self.plan.x, self.plan.kind == Kind::Spark);
        let (body, skipped, mut notes) = match self.state {
            State::Bars(bars) => {
                let skipped = bars.skipped;
                let (bars, notes) = bars.finish();
                let bars =
                    if x_name.is_none() && bars.labels.len() == 1 { turned(bars) } else { bars };
                (Body::Bars(bars), skipped, notes)
            }
            State::Counts(counts) => {
                let (bars, notes) = counts.finish();
                (Body::Bars(bars), Skipped::default(), notes)
            }
            State::Bins(bins) => {
                let skipped = bins.skipped;
                (Body::Bins(bins.finish()), skipped, Vec::new())
            }
            State::Cells(cells) => {
                let skipped = cells.skipped;
                let (cells, notes) = cells.finish();
                (Body::Cells(cells), skipped, notes)
            }
            State::Points(points) => {
                let skipped = points.skipped;
                let (points, notes) = points.finish();
                let body =
                    if is_spark { Body::Sparks(sparks(points)) } else { Body::Points(points) };
                (body, skipped, notes)
            }
            State::Sparks { sparks, skipped } => (Body::Sparks(sparks), skipped, Vec::new()),
        };
        notes.splice(0..0, skipped.notes());
        notes.extend(left_out(&self.plan, &self.columns));
        let body = if self.rows == 0 { Body::Empty } else { body };
        Figure { title: self.title, body, log: self.log, notes }
    }
}

impl State {
    fn new(plan: &Plan, columns: &[Column], options: &ChartOptions) -> State {
        let name = |at: Option<usize>| {
            at.and_then(|at| columns.get(at)).map_or_else(String::new, |column| column.name.clone())
        };
        let log = options.log;
        let class = plan.x.and_then(|at| columns.get(at)).map(|column| column.class);
        let axis = || {
            let kind = match class {
                Some(Class::Time) => AxisKind::Time,
                Some(Class::TimeOfDay) => AxisKind::TimeOfDay,
                _ => AxisKind::Number,
            };
            Axis { name: name(plan.x), kind }
        };
        let y: Vec<String> = plan.y.iter().map(|at| name(Some(*at))).collect();
        match plan.kind {
            Kind::Hist => {
                let bins = options.bins.map_or(DEFAULT_BINS, |bins| bins as usize);
                let whole = class == Some(Class::Number { whole: true });
                State::Bins(BinsCollector::new(axis(), whole, bins))
            }
            Kind::Heat => {
                let value = if plan.hue.is_some() { name(plan.hue) } else { "rows".into() };
                let names = [name(plan.x), y.first().cloned().unwrap_or_default(), value];
                State::Cells(CellsCollector::new(names, plan.hue.is_some(), log))
            }
            Kind::Bar if plan.y.is_empty() => State::Counts(CountsCollector::new(name(plan.x))),
            Kind::Bar | Kind::Auto => {
                let series = if plan.hue.is_some() { &[][..] } else { &y };
                State::Bars(BarsCollector::new(name(plan.x), series, log))
            }
            Kind::Spark if plan.hue.is_none() && !class.is_some_and(has_axis) => {
                State::Sparks { sparks: Sparks::default(), skipped: Skipped::default() }
            }
            Kind::Line | Kind::Scatter | Kind::Spark => {
                let is_spark = plan.kind == Kind::Spark;
                let series = if is_spark { MAX_SPARK_SERIES } else { MAX_SERIES };
                let connected = plan.kind != Kind::Scatter;
                State::Points(PointsCollector::new(axis(), y.join(", "), connected, log, series))
            }
        }
    }
}

fn has_axis(class: Class) -> bool {
    class.is_number() || class.is_time()
}

fn is_list(columns: &[Column], at: usize) -> bool {
    columns.get(at).is_some_and(|column| column.class == Class::List)
}

/// The bars of one row: a label for each column.
fn turned(bars: Bars) -> Bars {
    let labels = bars.series.iter().map(|series| series.name.clone()).collect();
    let values = bars.series.iter().map(|series| series.values.first().copied().flatten());
    let series = BarSeries { name: String::new(), values: values.collect() };
    Bars { category: String::new(), labels, series: vec![series], more: 0 }
}

fn sparks(points: Points) -> Sparks {
    let lines = points.series.into_iter().map(|series| Spark {
        label: series.name,
        values: series.points.into_iter().map(|point| Some(point.1)).collect(),
    });
    Sparks { lines: lines.collect(), more: 0 }
}

/// Says which columns have no place in the chart.
fn left_out(plan: &Plan, columns: &[Column]) -> Option<String> {
    let is_drawn = |at: usize| plan.x == Some(at) || plan.hue == Some(at) || plan.y.contains(&at);
    let names: Vec<&str> = columns
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_drawn(*at))
        .map(|(_, column)| &*column.name)
        .collect();
    let (&[first, ..], shown) = (&*names, names.len().min(5)) else { return None };
    if let [_] = &*names {
        return Some(format!("not drawn: column {first}"));
    }
    let list = names.get(..shown).unwrap_or_default().join(", ");
    let more = names.len() - shown;
    let more =
        if more > 0 { format!(" and {} more", show_count(more as u64)) } else { String::new() };
    Some(format!("not drawn: columns {list}{more}"))
}

//! One expected drawing for each kind of chart, with Unicode and with ASCII, and the choice of
//! charts by the columns of an answer.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use arrow_schema::SchemaRef;

use super::chart::screen;
use super::figures::FigureBuilder;
use crate::charts::{ChartOptions, draw_text};
use crate::errors::Failure;
use crate::terminal::Look;
use clap::Parser as _;

#[derive(Debug, clap::Parser)]
struct Options {
    #[command(flatten)]
    chart: ChartOptions,
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<StringArray>())
}

fn days(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(values))
}

/// Draws an answer that is there as a whole. Returns the chart, and notes on what it does not show.
fn chart_of_batches(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: &ChartOptions,
    look: Look,
) -> Result<(String, Vec<String>), Failure> {
    let mut builder = FigureBuilder::new(schema, options);
    for batch in batches {
        builder.write(batch)?;
    }
    let figure = builder.finish()?;
    Ok((draw_text(&figure, &screen(options, look)), figure.notes().to_vec()))
}

/// The chart, and under it what is said of it.
fn draw_with(batch: &RecordBatch, line: &str, look: Look) -> String {
    let words = std::iter::once("chart").chain(line.split_whitespace());
    let options = Options::try_parse_from(words).unwrap().chart;
    let batches = std::slice::from_ref(batch);
    let (text, notes) = chart_of_batches(&batch.schema(), batches, &options, look).unwrap();
    notes.iter().fold(text, |text, note| text + "! " + note + "\n")
}

fn draw(batch: &RecordBatch, line: &str) -> String {
    draw_with(batch, line, Look { width: Some(60), height: Some(16), ..Look::default() })
}

/// With Unicode and with ASCII.
fn both(batch: &RecordBatch, line: &str) -> String {
    let ascii = draw(batch, &format!("{line} --ascii"));
    let is_plain = |c: char| c.is_ascii() || c.is_alphabetic();
    assert!(ascii.chars().all(is_plain), "{ascii}");
    format!("{}\n{ascii}", draw(batch, line))
}

fn carriers() -> RecordBatch {
    let delays = [Some(-7.5), Some(12.25), None, Some(f64::NAN), Some(30.0)];
    batch(vec![
        ("carrier", texts(["AS", "United Air Lines Incorporated", "日本航空", "AA\n", "FL"])),
        ("delay", Arc::new(Float64Array::from(delays.to_vec()))),
    ])
}

fn waves() -> RecordBatch {
    let wave = |phase: f64| (0..120).map(move |day| (f64::from(day) / 15.0 + phase).sin() * 100.0);
    batch(vec![
        ("day", days((0..120).chain(0..120).map(|day| 16_000 + day))),
        ("city", texts(std::iter::repeat_n("Rome", 120).chain(std::iter::repeat_n("Oslo", 120)))),
        ("degrees", floats(wave(0.0).chain(wave(1.5)))),
    ])
}

fn hours() -> RecordBatch {
    let all = || (0..4).flat_map(|day| (0..24).map(move |hour| (day, hour)));
    let name = |day: i64| ["Mon", "Tue", "Wed", "Thu"][day as usize];
    batch(vec![
        ("day", texts(all().map(|(day, _)| name(day)))),
        ("hour", ints(all().map(|(_, hour)| hour))),
        ("n", ints(all().map(|(day, hour)| (hour - 12) * (hour - 12) * (day + 1)))),
    ])
}

/// Numbers around 50, as a bell.
fn bell() -> RecordBatch {
    let spread = |at: i64| (0..4).map(|bit| (at * [7, 31, 57, 97][bit]) % 25).sum::<i64>();
    batch(vec![("score", ints((0..10_000).map(spread)))])
}

#[test]
fn bars() {
    insta::assert_snapshot!(both(&carriers(), ""));
}

#[test]
fn bars_of_several_columns() {
    let batch = batch(vec![
        ("quarter", texts(["first", "second"])),
        ("sold", ints([1_200_000, 900_000])),
        ("returned", ints([100_000, 350_000])),
        ("price", floats([1.5, 2.5])),
    ]);
    insta::assert_snapshot!(both(&batch, "--title Year"));
}

#[test]
fn lines() {
    insta::assert_snapshot!(both(&waves(), ""));
}

#[test]
fn histogram() {
    insta::assert_snapshot!(both(&bell(), "--bins 20"));
}

#[test]
fn heat_map() {
    insta::assert_snapshot!(both(&hours(), "--chart heat"));
}

#[test]
fn small_lines() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value((0..30).map(|at| Some(at * at)));
    lists.append_value([Some(5), None, Some(-3)]);
    lists.append_null();
    let batch = batch(vec![
        ("name", texts(["squares", "gap", "nothing"])),
        ("values", Arc::new(lists.finish())),
    ]);
    insta::assert_snapshot!(format!(
        "{}{}",
        both(&batch, ""),
        draw(&waves(), "--chart spark --hue city")
    ));
}

#[test]
fn scatter_plot() {
    let at = || (0..200).map(|at| f64::from(at * 37 % 200));
    let batch = batch(vec![("x", floats(at())), ("y", floats(at().map(|x| x * x + 1.0)))]);
    insta::assert_snapshot!(both(&batch, "--log"));
}

#[test]
fn colours() {
    let look = Look { color: true, width: Some(40), height: Some(12), ..Look::default() };
    let shown = |batch: &RecordBatch, line| draw_with(batch, line, look).replace('\x1b', "␛");
    insta::assert_snapshot!(format!(
        "{}{}",
        shown(&carriers(), ""),
        shown(&hours(), "--chart heat")
    ));
}

/// The first line, by which charts can be told.
fn kind(batch: &RecordBatch) -> &'static str {
    let text = draw(batch, "");
    let has = |what: &[char]| text.contains(what);
    let braille = text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    match () {
        () if has(&['░', '▒', '▓']) => "heat",
        () if braille || text.contains('*') => "points",
        () if text.contains('┬') => "histogram",
        () if text.contains('│') => "bars",
        () => "sparks",
    }
}

#[test]
fn the_chart_follows_the_columns() {
    let n = || ints(0..60);
    let scattered = || ints((0..60).map(|at| at * 37 % 61 / 2));
    let names: Vec<String> = (0..60).map(|at| format!("name {at}")).collect();
    let groups: Vec<String> = (0..60).map(|at| format!("group {}", at % 4)).collect();
    let unique = || texts(names.iter().map(String::as_str));
    let repeated = || texts(groups.iter().map(String::as_str));
    let times = || -> ArrayRef { Arc::new(TimestampSecondArray::from_iter_values(0..60)) };
    let few: ArrayRef = ints([3, 1, 2]);
    for (columns, expected) in [
        (vec![("n", n())], "histogram"),
        (vec![("t", times())], "histogram"),
        (vec![("t", times()), ("n", n())], "points"),
        (vec![("n", n()), ("t", times()), ("g", repeated())], "points"),
        (vec![("s", unique()), ("n", n())], "bars"),
        (vec![("s", repeated())], "bars"),
        (vec![("n", n()), ("m", scattered())], "points"),
        (vec![("m", scattered()), ("n", n())], "points"),
        (vec![("k", few.clone()), ("n", few)], "bars"),
        (vec![("g", repeated()), ("h", repeated()), ("n", n())], "heat"),
        (vec![("g", repeated()), ("h", repeated())], "heat"),
    ] {
        let names: Vec<&str> = columns.iter().map(|column| column.0).collect();
        assert_eq!(kind(&batch(columns)), expected, "{names:?}");
    }
    let one_row = batch(vec![("min", ints([1])), ("max", ints([40])), ("avg", ints([20]))]);
    assert_eq!(draw(&one_row, "").lines().count(), 3);
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let refused = |batch: &RecordBatch, line: &str| {
        let options = Options::try_parse_from(std::iter::once("c").chain(line.split(' '))).unwrap();
        let batches = std::slice::from_ref(batch);
        let drawn = chart_of_batches(&batch.schema(), batches, &options.chart, Look::default());
        format!("{:?}", drawn.unwrap_err())
    };
    assert!(refused(&carriers(), "--x nothing").contains("no column 'nothing'"));
    assert!(refused(&carriers(), "--chart line --x carrier").contains("neither a number nor"));
    assert!(refused(&carriers(), "--chart bar --y carrier").contains("is no number"));
    assert!(
        refused(&carriers().slice(0, 1).project(&[0]).unwrap(), "--chart line").contains("needs")
    );
    let none = carriers().slice(0, 0);
    assert_eq!(draw(&none, "").lines().next(), Some("no rows to draw"));
}

#[test]
fn bars_beyond_the_height_are_counted() {
    let names: Vec<String> = (0..2_000).map(|at| format!("n{at}")).collect();
    let many = batch(vec![("s", texts(names.iter().map(String::as_str))), ("n", ints(0..2_000))]);
    let text = draw(&many, "--height 10");
    assert_eq!(text.lines().count(), 12);
    assert!(text.contains("… and 1,990 more bars"), "{text}");
}

#[test]
fn every_type_and_any_size_is_drawn() {
    let every = super::samples::every_type();
    for kind in ["auto", "bar", "line", "hist", "heat", "spark", "scatter"] {
        for size in ["--width 20 --height 5", "--width 300 --height 40 --ascii", "--log"] {
            for column in every.schema().fields() {
                let line = format!("--chart {kind} {size} --x {}", column.name());
                let words = std::iter::once("c").chain(line.split(' '));
                let options = Options::try_parse_from(words).unwrap().chart;
                let batches = std::slice::from_ref(&every);
                // Some cannot be drawn, which is said; none panics.
                let _ = chart_of_batches(&every.schema(), batches, &options, Look::default());
            }
        }
    }
}

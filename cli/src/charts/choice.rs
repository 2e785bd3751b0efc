//! Which chart an answer gets, and which column goes where: by the options, else by the types of
//! the columns and by the first rows.

use std::collections::HashSet;

use super::options::{ChartOptions, Kind};
use super::rows::{Class, Column, Rows};
use crate::errors::Failure;

/// Series that stand for columns, at most.
const MAX_COLUMNS: usize = 8;
/// Integers with at most this number of rows label bars instead of an axis.
const MAX_LABELS: usize = 50;
const MAX_ASCENDING_LABELS: usize = 25;
/// Keys of a heat map along each axis, if it is chosen by itself.
const MAX_KEYS: usize = 200;
/// Columns whose greatest numbers differ by a greater factor do not share a scale unless they are
/// asked to.
const ONE_SIZE: f64 = 30.0;
/// Series of lines, if they are chosen by themselves.
const MAX_SERIES: usize = 5;

/// A chart and the columns that it draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// The horizontal axis, or the labels.
    pub(super) x: Option<usize>,
    /// The values; without any, rows are counted.
    pub(super) y: Vec<usize>,
    /// The series, or the values of a heat map's cells.
    pub(super) hue: Option<usize>,
}

/// The first rows of an answer.
pub(super) struct Sample<'a> {
    pub(super) parts: &'a [Box<dyn Rows + 'a>],
    /// Whether there are no others.
    pub(super) complete: bool,
}

impl Sample<'_> {
    fn count(&self) -> usize {
        self.parts.iter().map(|rows| rows.count()).sum()
    }

    fn rows(&self) -> impl Iterator<Item = (&dyn Rows, usize)> {
        self.parts.iter().flat_map(|rows| (0..rows.count()).map(move |row| (&**rows, row)))
    }

    fn numbers(&self, column: usize) -> impl Iterator<Item = Option<f64>> {
        self.rows().map(move |(rows, row)| rows.number(column, row))
    }

    /// The number of different texts of these columns.
    fn distinct(&self, columns: &[usize]) -> usize {
        let key = |(rows, row): (&dyn Rows, usize)| -> Vec<Option<String>> {
            columns.iter().map(|column| rows.text(*column, row)).collect()
        };
        self.rows().map(key).collect::<HashSet<_>>().len()
    }

    fn is_unique(&self, columns: &[usize]) -> bool {
        self.distinct(columns) == self.count()
    }

    fn ascends(&self, column: usize) -> bool {
        let mut before = f64::NEG_INFINITY;
        self.numbers(column).all(|number| {
            let ascends = number.is_some_and(|number| number > before);
            before = number.unwrap_or(before);
            ascends
        })
    }
}

/// Chooses the chart of an answer.
pub(super) fn choose(
    columns: &[Column],
    options: &ChartOptions,
    sample: &Sample<'_>,
) -> Result<Plan, Failure> {
    let named = |name: &String| find(columns, name.as_str());
    let x = options.x.as_ref().map(named).transpose()?;
    let y = options.y.iter().map(named).collect::<Result<Vec<usize>, Failure>>()?;
    let hue = options.hue.as_ref().map(named).transpose()?;
    let free: Vec<usize> = (0..columns.len())
        .filter(|at| x != Some(*at) && !y.contains(at) && hue != Some(*at))
        .collect();
    let choice = Choice { columns, x, y, hue, free, sample };
    let kind = match options.kind {
        None | Some(Kind::Auto) => return choice.auto(),
        Some(kind) => kind,
    };
    choice.of_kind(kind)
}

fn find(columns: &[Column], name: &str) -> Result<usize, Failure> {
    let exact = columns.iter().position(|column| column.name == name);
    let any_case = || columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    exact.or_else(any_case).ok_or_else(|| {
        let names: Vec<&str> = columns.iter().take(20).map(|column| &*column.name).collect();
        let more = if columns.len() > names.len() { ", …" } else { "" };
        Failure::usage(format!("the answer has no column '{name}' to draw"))
            .hint(format!("its columns are {}{more}", names.join(", ")))
    })
}

/// What a choice is made of.
struct Choice<'a> {
    columns: &'a [Column],
    x: Option<usize>,
    y: Vec<usize>,
    hue: Option<usize>,
    /// The columns that no option names.
    free: Vec<usize>,
    sample: &'a Sample<'a>,
}

impl Choice<'_> {
    fn class(&self, column: usize) -> Class {
        self.columns.get(column).map_or(Class::Category, |column| column.class)
    }

    fn free_of(&self, is_wanted: impl Fn(Class) -> bool) -> Vec<usize> {
        self.free.iter().copied().filter(|at| is_wanted(self.class(*at))).collect()
    }

    /// A kind that is asked for, with the columns that fit it best.
    fn of_kind(mut self, kind: Kind) -> Result<Plan, Failure> {
        let times = self.free_of(Class::is_time);
        let categories = self.free_of(|class| class == Class::Category);
        match kind {
            Kind::Hist => {
                let named = self.x.take().or_else(|| self.y.first().copied());
                let any = self.free_of(Class::is_number).first().copied();
                let x = named.or(any).or(times.first().copied());
                let x = x.ok_or_else(|| self.lacks("a histogram", "a number or a time"))?;
                self.check_axis(x)?;
                return Ok(Plan { kind, x: Some(x), y: Vec::new(), hue: None });
            }
            Kind::Heat => return self.heat(),
            Kind::Spark if self.list().is_some() => {
                let x = self.x.or(categories.first().copied()).or(times.first().copied());
                let y = self.list().into_iter().collect();
                return Ok(Plan { kind, x, y, hue: None });
            }
            Kind::Line | Kind::Scatter | Kind::Spark => {
                let rows_are_lines = kind == Kind::Spark && times.is_empty() && self.hue.is_none();
                if self.x.is_none() && (!rows_are_lines || categories.is_empty()) {
                    self.x = times.first().copied().or_else(|| self.first_axis());
                    self.free.retain(|at| Some(*at) != self.x);
                }
            }
            Kind::Bar if self.x.is_none() => {
                let numbers = self.free_of(Class::is_number).len() + self.y.len();
                let number =
                    (numbers > 1 && !self.is_one_row()).then(|| self.first_axis()).flatten();
                self.x = categories.first().or(times.first()).copied().or(number);
                self.free.retain(|at| Some(*at) != self.x);
            }
            Kind::Bar | Kind::Auto => {}
        }
        if kind == Kind::Spark && self.x.is_none() {
            self.x = categories.first().copied();
        }
        if self.y.is_empty() {
            self.y = self.of_one_size(self.free_of(Class::is_number));
        }
        if let Some(wrong) = self.y.iter().find(|at| !self.class(**at).is_number()) {
            let name = self.columns.get(*wrong).map_or("", |column| &*column.name);
            return Err(Failure::usage(format!("column '{name}' is no number and cannot be --y")));
        }
        if self.y.is_empty() && kind != Kind::Bar {
            return Err(self.lacks("this chart", "a number"));
        }
        if matches!(kind, Kind::Line | Kind::Scatter) {
            match self.x {
                Some(x) => self.check_axis(x)?,
                None => {
                    return Err(self.lacks("this chart", "a time or a number, and another number"));
                }
            }
            if self.hue.is_none() && self.y.len() == 1 {
                self.hue = categories.first().copied().filter(|at| Some(*at) != self.x);
            }
        }
        self.y.truncate(MAX_COLUMNS);
        Ok(Plan { kind, x: self.x, y: self.y, hue: self.hue })
    }

    fn heat(self) -> Result<Plan, Failure> {
        let mut keys = self.free.clone();
        keys.retain(|at| self.class(*at) != Class::List);
        let mut value = self.hue;
        if value.is_none() && keys.len() + usize::from(self.x.is_some()) + self.y.len() > 2 {
            value = keys.iter().rev().find(|at| self.class(**at).is_number()).copied();
            keys.retain(|at| Some(*at) != value);
        }
        let mut keys = keys.into_iter();
        // The first key has the rows, as in a table.
        let y = self.y.first().copied().or_else(|| keys.next());
        let x = self.x.or_else(|| keys.next());
        match (x, y) {
            (Some(x), Some(y)) => Ok(Plan { kind: Kind::Heat, x: Some(x), y: vec![y], hue: value }),
            _ => Err(self.lacks("a heat map", "two keys")),
        }
    }

    /// The numbers that one scale can show: the first, and others that are about as large.
    fn of_one_size(&self, mut numbers: Vec<usize>) -> Vec<usize> {
        let largest = |at: usize| {
            let finite = self.sample.numbers(at).flatten().filter(|number| number.is_finite());
            finite.fold(0.0_f64, |largest, number| largest.max(number.abs()))
        };
        let Some(first) = numbers.first().map(|at| largest(*at)) else { return numbers };
        if first > 0.0 && !self.is_one_row() {
            let sizes = first / ONE_SIZE..=first * ONE_SIZE;
            numbers.retain(|at| sizes.contains(&largest(*at)));
        }
        numbers
    }

    fn first_axis(&self) -> Option<usize> {
        let numbers = self.free_of(Class::is_number);
        // A number that is the only one belongs to the other axis.
        if numbers.len() + self.y.len() > 1 { numbers.first().copied() } else { None }
    }

    fn list(&self) -> Option<usize> {
        let named = self.y.first().copied().filter(|at| self.class(*at) == Class::List);
        named.or_else(|| self.free_of(|class| class == Class::List).first().copied())
    }

    fn is_one_row(&self) -> bool {
        self.sample.complete && self.sample.count() == 1
    }

    fn check_axis(&self, column: usize) -> Result<(), Failure> {
        let class = self.class(column);
        if class.is_number() || class.is_time() {
            return Ok(());
        }
        let name = self.columns.get(column).map_or("", |column| &*column.name);
        let what = format!("column '{name}' is neither a number nor a time, and has no axis");
        Err(Failure::usage(what).hint("--chart bar draws texts as labels of bars"))
    }

    fn lacks(&self, chart: &str, what: &str) -> Failure {
        Failure::usage(format!("{chart} needs {what}, which the answer does not have"))
            .hint("--x, --y and --hue name its columns; --format table shows them")
    }

    /// The kind that fits the columns and their first rows.
    fn auto(self) -> Result<Plan, Failure> {
        // What the options name comes first; other numbers only if they name none.
        let keep = |at: &usize| self.y.is_empty() || !self.class(*at).is_number();
        let all: Vec<usize> =
            self.x.into_iter().chain(self.free.iter().copied().filter(keep)).collect();
        let of = |is_wanted: fn(Class) -> bool| -> Vec<usize> {
            all.iter().copied().filter(|at| is_wanted(self.class(*at))).collect()
        };
        let (times, mut numbers) = (of(Class::is_time), of(Class::is_number));
        let categories = of(|class| class == Class::Category);
        numbers.extend(&self.y);
        let (sample, complete) = (self.sample, self.sample.complete);
        let is_whole = |at: usize| sample.numbers(at).flatten().all(|number| number.fract() == 0.0);
        let kind = if self.list().is_some() && numbers.is_empty() {
            Kind::Spark
        } else if self.is_one_row() && !numbers.is_empty() {
            Kind::Bar
        } else {
            match (&*times, &*categories, &*numbers) {
                ([_, ..], _, [_, ..]) => Kind::Line,
                ([_, ..], _, []) => Kind::Hist,
                (_, [], [_]) => Kind::Hist,
                (_, [_, _, ..], []) => Kind::Heat,
                (_, _, []) => Kind::Bar,
                (_, [first, ..], _) if self.x == Some(*first) || sample.is_unique(&[*first]) => {
                    Kind::Bar
                }
                (_, [first, second, ..], _) => {
                    return Ok(Plan {
                        kind: Kind::Heat,
                        x: Some(*second),
                        y: vec![*first],
                        hue: numbers.first().copied(),
                    });
                }
                (_, [_], [_]) => Kind::Bar,
                (_, [key], [x, y, ..]) => {
                    let pairs = sample.is_unique(&[*key, *x]);
                    if pairs && sample.distinct(&[*key]) > MAX_SERIES && is_whole(*x) {
                        let (x, y) = (Some(*x), vec![*key]);
                        return Ok(Plan { kind: Kind::Heat, x, y, hue: numbers.get(1).copied() });
                    }
                    let kind = if pairs { Kind::Line } else { Kind::Scatter };
                    let (x, y) = (Some(*x), vec![*y]);
                    return Ok(Plan { kind, x, y, hue: self.hue.or(Some(*key)) });
                }
                (_, [], [x, rest @ ..]) => {
                    let (rows, whole) = (sample.count(), is_whole(*x) && complete);
                    if sample.ascends(*x) {
                        let few = whole && rows <= MAX_ASCENDING_LABELS;
                        if few { Kind::Bar } else { Kind::Line }
                    } else if whole && rows <= MAX_LABELS && sample.is_unique(&[*x]) {
                        Kind::Bar
                    } else {
                        if let ([y, value], true) = (rest, whole)
                            && is_grid(sample, *x, *y)
                            && is_whole(*y)
                        {
                            let (x, y) = (Some(*x), vec![*y]);
                            return Ok(Plan { kind: Kind::Heat, x, y, hue: Some(*value) });
                        }
                        Kind::Scatter
                    }
                }
            }
        };
        let mut choice = self;
        if kind == Kind::Scatter && choice.y.is_empty() {
            // Further numbers have other meanings, and one cloud is what can be read.
            choice.x = choice.x.or_else(|| numbers.first().copied());
            choice.y =
                numbers.iter().copied().find(|at| Some(*at) != choice.x).into_iter().collect();
        }
        if kind == Kind::Line && choice.hue.is_none() && !categories.is_empty() {
            choice.y = numbers.first().copied().into_iter().collect();
        }
        choice.of_kind(kind)
    }
}

/// Whether whole numbers are the two keys of a grid of values.
fn is_grid(sample: &Sample<'_>, x: usize, y: usize) -> bool {
    let (columns, rows) = (sample.distinct(&[x]), sample.distinct(&[y]));
    let repeats = columns < sample.count() && rows < sample.count();
    repeats && columns <= MAX_KEYS && rows <= MAX_KEYS && sample.is_unique(&[x, y])
}

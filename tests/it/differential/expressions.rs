//! Random SQL expressions over columns.

use stylobate::DataType;

use super::random::Random;
use super::spelling::Spelling;
use super::tables::{Column, Table};

/// A query that has a name.
#[derive(Clone, Debug)]
pub(crate) struct NamedQuery {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

/// Makes expressions and statements, by the random choices of `r`.
pub(crate) struct Maker<'a> {
    pub(crate) r: &'a mut Random,
    pub(crate) tables: &'a [Table],
    pub(crate) spelling: Spelling,
    /// Queries that FROM can name.
    pub(crate) with: Option<NamedQuery>,
    /// Tables.
    pub(crate) from: String,
    /// The columns in scope.
    pub(crate) columns: Vec<Column>,
    /// The number of aliases so far.
    pub(crate) named: usize,
    /// The number of subqueries that conditions may still have.
    pub(crate) asks: usize,
    /// The table and the column of the last subquery, so that the next one may differ only in its
    /// filter.
    pub(crate) asked: Option<(usize, String)>,
}

pub(crate) fn is_number(t: &DataType) -> bool {
    t.is_integer() || matches!(t, DataType::Float32 | DataType::Float64 | DataType::Decimal { .. })
}

pub(crate) fn is_moment(t: &DataType) -> bool {
    matches!(t, DataType::Date | DataType::Timestamp { .. })
}

impl<'a> Maker<'a> {
    pub(crate) fn new(r: &'a mut Random, tables: &'a [Table], spelling: Spelling) -> Self {
        let (from, columns) = (String::new(), Vec::new());
        Maker { r, tables, spelling, with: None, from, columns, named: 0, asks: 0, asked: None }
    }

    /// A column for which `wanted` is true.
    pub(crate) fn column(&mut self, wanted: impl Fn(&DataType) -> bool) -> Option<&Column> {
        let fitting: Vec<usize> =
            (0..self.columns.len()).filter(|at| wanted(&self.columns[*at].data_type)).collect();
        if fitting.is_empty() {
            None
        } else {
            self.columns.get(fitting[self.r.below(fitting.len())])
        }
    }

    pub(crate) fn name(&mut self, wanted: impl Fn(&DataType) -> bool) -> Option<String> {
        self.column(wanted).map(|column| column.name.clone())
    }

    pub(crate) fn sample(&mut self, column: &str) -> String {
        let known = self.columns.iter().find(|known| known.name == column);
        known.map_or_else(|| "1".into(), |known| self.r.choose(&known.samples))
    }

    /// A small number for arithmetic. Beside decimals it has no decimal point, since only
    /// DataFusion would take it for a double then.
    fn small(&mut self) -> &'static str {
        if self.columns.iter().any(|column| matches!(column.data_type, DataType::Decimal { .. })) {
            return self
                .r
                .pick(&["1", "2", "3", "5", "7", "10", "-1", "-3", "100", "1000", "3600"]);
        }
        self.r.pick(&[
            "1", "2", "3", "5", "7", "10", "-1", "-3", "100", "1000", "0.5", "2.5", "-0.1", "3600",
        ])
    }

    /// A number.
    pub(crate) fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.r.chance(35) {
            return self.name(is_number).unwrap_or_else(|| "7".into());
        }
        let d = depth - 1;
        match self.r.below(18) {
            17 => self.amount(),
            0 | 1 => {
                let op = self.r.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.number(d), self.small())
            }
            2 => format!("({} {} {})", self.small(), self.r.pick(&["+", "-", "*"]), self.number(d)),
            3 => format!(
                "({} {} {})",
                self.number(d),
                self.r.pick(&["+", "-", "*", "/", "%"]),
                self.number(d)
            ),
            4 | 5 => format!("({} {} {})", self.number(d), self.r.pick(&["/", "%"]), self.small()),
            6 => {
                let to = self.r.pick(&[
                    "BIGINT",
                    "INT",
                    "SMALLINT",
                    "DOUBLE",
                    "REAL",
                    "BIGINT UNSIGNED",
                    "TINYINT",
                ]);
                let cast = if self.r.chance(70) { "TRY_CAST" } else { "CAST" };
                format!("{cast}({} AS {to})", self.number(d))
            }
            7 | 8 => format!(
                "{}({})",
                self.r.pick(&["round", "floor", "ceil", "abs", "trunc"]),
                self.number(d)
            ),
            // For decimals, DataFusion computes another scale than it declared to CASE and coalesce
            // around it.
            9 => format!(
                "round(CAST({} AS DOUBLE), {})",
                self.number(d),
                self.r.pick(&["0", "1", "-1", "2"])
            ),
            10 => format!(
                "{}({})",
                self.r.pick(&["length", "character_length", "ascii"]),
                self.text(d)
            ),
            11 | 12 => self.part(d),
            13 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.condition(d),
                self.number(d),
                self.number(d)
            ),
            14 => format!("coalesce({}, {})", self.number(d), self.small()),
            15 => format!("nullif({}, {})", self.number(d), self.small()),
            _ => format!("(-{})", self.number(d)),
        }
    }

    /// Arithmetic over decimals of few digits, or over what stands in their place.
    fn amount(&mut self) -> String {
        let short = |t: &DataType| {
            matches!(t, DataType::Decimal { precision: ..=19, .. })
                || (t.is_integer() && *t != DataType::UInt64)
        };
        let mut column = || self.name(short).unwrap_or_else(|| "7".into());
        let (a, b, c) = (column(), column(), column());
        let (small, inner) = (self.small(), self.r.pick(&["+", "-", "*"]));
        match self.r.below(3) {
            0 => format!("({a} * ({small} {inner} {b}))"),
            1 => format!("({a} * ({small} - {b}) * ({small} + {c}))"),
            _ => format!("({a} {inner} {b})"),
        }
    }

    /// A part of a date or timestamp.
    fn part(&mut self, depth: usize) -> String {
        let moment = self.moment(depth);
        let part = self.r.pick(&[
            "year", "month", "day", "dow", "doy", "quarter", "week", "hour", "minute", "second",
        ]);
        match self.r.below(3) {
            0 => format!("extract({part} FROM {moment})"),
            _ => format!("date_part('{part}', {moment})"),
        }
    }

    /// A date or timestamp.
    pub(crate) fn moment(&mut self, depth: usize) -> String {
        // TIMESTAMP '…' has microseconds here, and nanoseconds in DataFusion's own sessions.
        let literal = || "arrow_cast('2020-02-29T12:34:56', 'Timestamp(Microsecond, None)')".into();
        let column = self.name(is_moment).unwrap_or_else(literal);
        if depth == 0 {
            return column;
        }
        match self.r.below(6) {
            0 | 1 => {
                let grain = self
                    .r
                    .pick(&["year", "quarter", "month", "week", "day", "hour", "minute", "second"]);
                format!("date_trunc('{grain}', {column})")
            }
            2 => format!("CAST({column} AS DATE)"),
            3 => format!("arrow_cast({column}, 'Timestamp(Microsecond, None)')"),
            4 => format!("coalesce({column}, {})", self.sample(&column)),
            _ => column,
        }
    }

    /// A text.
    pub(crate) fn text(&mut self, depth: usize) -> String {
        if depth == 0 || self.r.chance(45) {
            return self.name(|t| *t == DataType::Utf8).unwrap_or_else(|| "'text'".into());
        }
        let d = depth - 1;
        match self.r.below(11) {
            0 | 1 => {
                format!("{}({})", self.r.pick(&["lower", "upper", "trim", "reverse"]), self.text(d))
            }
            2 => format!("substr({}, {})", self.text(d), 1 + self.r.below(6)),
            3 => format!("substr({}, {}, {})", self.text(d), self.r.below(6), self.r.below(6)),
            4 => format!("({} || {})", self.text(d), self.r.pick(&["'x'", "''", "'-é'"])),
            5 => format!("concat({}, '-', {})", self.text(d), self.text(d)),
            6 => format!(
                "CAST({} AS VARCHAR)",
                self.name(|t| t.is_integer()).unwrap_or_else(|| "12".into())
            ),
            7 => format!("coalesce({}, 'none')", self.text(d)),
            8 => format!("CASE WHEN {} THEN {} ELSE 'other' END", self.condition(d), self.text(d)),
            9 => format!("left({}, {})", self.text(d), self.r.below(5)),
            _ => format!("nullif({}, '')", self.text(d)),
        }
    }

    /// One of a few values.
    fn choice(&mut self, depth: usize) -> String {
        let values: &[&str] = match self.r.below(3) {
            0 => &["1", "2", "-7", "NULL"],
            _ => &["'a'", "'b'", "''", "NULL"],
        };
        let mut sql = "CASE".to_owned();
        for _ in 0..1 + self.r.below(3) {
            let (condition, value) = (self.condition(depth.min(1)), self.r.pick(values));
            sql += &format!(" WHEN {condition} THEN {value}");
        }
        if self.r.chance(60) {
            sql += &format!(" ELSE {}", self.r.pick(values));
        }
        sql + " END"
    }

    /// An expression that can be grouped and sorted by.
    pub(crate) fn key(&mut self, depth: usize) -> String {
        match self.r.below(13) {
            12 => self.choice(depth),
            0..=4 => self.name(|_| true).unwrap_or_else(|| "1".into()),
            5..=7 => self.number(depth),
            8 | 9 => self.text(depth),
            10 => self.moment(depth),
            _ => self.condition(depth),
        }
    }

    /// An argument for min and max.
    pub(crate) fn ordered(&mut self, depth: usize) -> String {
        match self.r.below(8) {
            0..=3 => {
                let column = self.name(|t| !matches!(t, DataType::Binary | DataType::Bool));
                column.unwrap_or_else(|| "1".into())
            }
            4 | 5 => self.number(depth),
            6 => self.text(depth),
            _ => self.moment(depth),
        }
    }

    /// A boolean.
    pub(crate) fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.r.chance(35) {
            let d = depth - 1;
            return match self.r.below(6) {
                0 | 1 => format!("({} AND {})", self.condition(d), self.condition(d)),
                2 | 3 => format!("({} OR {})", self.condition(d), self.condition(d)),
                4 => format!("NOT ({})", self.condition(d)),
                _ => {
                    let is = self.r.pick(&[
                        "IS TRUE",
                        "IS NOT TRUE",
                        "IS FALSE",
                        "IS NOT FALSE",
                        "IS NULL",
                    ]);
                    format!("({}) {is}", self.condition(d))
                }
            };
        }
        if self.asks > 0 && self.r.chance(20) {
            self.asks -= 1;
            return self.subquery_condition();
        }
        match self.r.below(15) {
            0..=3 => self.comparison(),
            4 => {
                let number = self.number(depth.min(2));
                let value =
                    self.name(is_number).map_or_else(|| "3".into(), |column| self.sample(&column));
                format!("{number} {} {value}", self.operator())
            }
            5 => format!(
                "{} {} {}",
                self.number(depth.min(1)),
                self.operator(),
                self.number(depth.min(1))
            ),
            6 => {
                let (a, b) = (self.text(depth.min(1)), self.text(1));
                format!("{a} {} {b}", self.operator())
            }
            7 | 8 => self.pattern(depth),
            9 => self.list(),
            10 => self.between(),
            11 => {
                let any = self.key(depth.min(1));
                format!("({any}) IS {}", self.r.pick(&["NULL", "NOT NULL"]))
            }
            12 => {
                let bool = self.name(|t| *t == DataType::Bool);
                bool.unwrap_or_else(|| "TRUE".into())
            }
            13 => {
                let moment = self.moment(depth.min(1));
                let other = self.name(is_moment).map(|column| self.sample(&column));
                format!(
                    "{moment} {} {}",
                    self.operator(),
                    other.unwrap_or_else(|| "DATE '2000-01-01'".into())
                )
            }
            _ => {
                let column = self.name(|_| true).unwrap_or_else(|| "1".into());
                let is = self.r.pick(&["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                // Without its own parentheses, it would absorb an AND that follows.
                format!("({column} {is} {})", self.sample(&column))
            }
        }
    }

    pub(crate) fn operator(&mut self) -> &'static str {
        self.r.pick(&["=", "<>", "<", "<=", ">", ">="])
    }

    /// A comparison of a column with one of its values.
    fn comparison(&mut self) -> String {
        let column = self.name(|_| true).unwrap_or_else(|| "1".into());
        let value = self.sample(&column);
        match self.r.chance(85) {
            true => format!("{column} {} {value}", self.operator()),
            false => format!("{value} {} {column}", self.operator()),
        }
    }

    fn list(&mut self) -> String {
        let column = self.name(|_| true).unwrap_or_else(|| "1".into());
        let mut values: Vec<String> =
            (0..1 + self.r.below(6)).map(|_| self.sample(&column)).collect();
        if self.r.chance(15) {
            values.push("NULL".into());
        }
        // The rows in memory are asked by DataFusion, which tells the zeros apart in long lists.
        let zeros = ["0.0", "-0.0"].map(str::to_owned);
        if values.iter().any(|value| zeros.contains(value)) {
            values.extend(zeros);
        }
        let not = self.r.pick(&["", "", "NOT "]);
        if self.spelling.plain {
            let each: Vec<String> =
                values.iter().map(|value| format!("{column} = {value}")).collect();
            return format!("({not}({}))", each.join(" OR "));
        }
        format!("{column} {not}IN ({})", values.join(", "))
    }

    fn between(&mut self) -> String {
        let column = self.name(|t| *t != DataType::Bool).unwrap_or_else(|| "1".into());
        let (a, b) = (self.sample(&column), self.sample(&column));
        let not = self.r.pick(&["", "", "NOT "]);
        if self.spelling.plain {
            return format!("({not}({column} >= {a} AND {column} <= {b}))");
        }
        format!("{column} {not}BETWEEN {a} AND {b}")
    }

    fn pattern(&mut self, depth: usize) -> String {
        let text = self.text(depth.min(1));
        let column = self.name(|t| *t == DataType::Utf8);
        let sample = column.map_or_else(|| "'text'".into(), |column| self.sample(&column));
        let inner: String = sample.trim_matches('\'').chars().filter(|c| *c != '\'').collect();
        let from = self.r.below(4);
        let part: String = inner.chars().skip(from).take(1 + self.r.below(4)).collect();
        let start: String = inner.chars().take(1 + self.r.below(8)).collect();
        let like = self.r.pick(&["LIKE", "LIKE", "NOT LIKE", "ILIKE"]);
        match self.r.below(8) {
            0 | 1 => format!("{text} {like} '%{part}%'"),
            2 => format!("{text} {like} '{start}%'"),
            3 => format!("{text} {like} '%{part}'"),
            4 => format!("{text} {like} '_{part}%'"),
            5 => format!("starts_with({text}, '{start}')"),
            6 => format!(
                "{text} {} '^[a-z]*{}'",
                self.r.pick(&["~", "!~", "~*"]),
                self.r.pick(&["", "$", ".", "[0-9]"])
            ),
            _ => format!("{text} {like} '{inner}'"),
        }
    }
}

//! Random statements of the kinds that the executor covers.

use super::expressions::Maker;
use super::random::Random;
use super::shapes::is_exact;
use super::spelling::Spelling;
use super::tables::Database;

/// The relative difference that sums of floats may have to DataFusion's.
const CLOSE: f64 = 1e-9;

/// A statement, and how its answers are compared.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    /// The same with sums of absolute values instead of sums, which tell how far off sums of floats
    /// may be.
    pub(crate) sizes: Option<String>,
    /// Other ways to write the statement, for when DataFusion is wrong: its min and max if floats
    /// are NaN or all infinite, its top-n if zeros have signs.
    pub(crate) detours: Vec<Detour>,
    /// Columns of the answer that may be sums of floats.
    pub(crate) sums: Vec<usize>,
    /// The relative difference that these may have.
    pub(crate) close: f64,
    pub(crate) order: Order,
    /// Whether a row that does not count in the end could have been evaluated, and have failed.
    pub(crate) may_hide_errors: bool,
    /// Whether answers may differ in the sign of a zero, since any of several equal rows may
    /// represent them all.
    pub(crate) zeros_are_one: bool,
}

/// Some rows of the answer to another statement.
#[derive(Clone, Debug)]
pub(crate) struct Detour {
    pub(crate) sql: String,
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

/// The order of an answer's rows.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// No order.
    Any,
    /// An order by everything that could differ.
    Total,
    /// An order by these columns. Rows with equal keys are in any order, and those with the last
    /// key are any of several.
    By(Vec<usize>),
    /// No order, and any of the rows of the answer to this statement.
    Some(String),
}

impl Statement {
    pub(crate) fn plain(sql: String) -> Statement {
        Statement {
            sql,
            sizes: None,
            detours: Vec::new(),
            sums: Vec::new(),
            close: CLOSE,
            order: Order::Any,
            may_hide_errors: true,
            zeros_are_one: false,
        }
    }
}

/// A statement over some of the tables, in one of the spellings.
pub(crate) fn generate(
    seed: u64,
    number: u64,
    database: &Database,
    spelling: Spelling,
) -> Statement {
    let r = &mut Random::for_item(seed, number);
    let maker = &mut Maker::new(r, &database.tables, spelling);
    let with = maker.begin();
    let mut statement = maker.statement(database.tables.len() > 1);
    let marked = with.clone() + &std::mem::take(&mut statement.sql);
    let lazy = ["WHERE", "CASE", "LIMIT", "HAVING", " AND ", " OR ", "coalesce", "JOIN"];
    statement.may_hide_errors = lazy.iter().any(|word| marked.contains(word));
    statement.detours = detours(&marked);
    statement.sql = unmarked(&marked, false);
    statement.sizes = statement.sizes.map(|sql| unmarked(&(with.clone() + &sql), false));
    if let Order::Some(all) = &mut statement.order {
        *all = unmarked(&(with.clone() + all), false);
    }
    statement.zeros_are_one |= database.tables.len() > 1 || !matches!(statement.order, Order::Any);
    statement
}

fn detours(marked: &str) -> Vec<Detour> {
    let mut detours = Vec::new();
    if let Some((whole, limit)) = marked.rsplit_once(" LIMIT ") {
        let (limit, skip) = limit.split_once(" OFFSET ").unwrap_or((limit, "0"));
        if let (Ok(limit), Ok(skip)) = (limit.parse(), skip.parse()) {
            detours.push(Detour { sql: unmarked(whole, false), skip, limit });
            detours.push(Detour { sql: unmarked(whole, true), skip, limit });
        }
    }
    if marked.contains(['⟨', '⟪']) {
        detours.push(Detour { sql: unmarked(marked, true), skip: 0, limit: usize::MAX });
    }
    detours
}

/// Writes `min⟨x⟩` as `min(x)`, or as the first of x in order, and `⟪x⟫` as `x`, or with one zero.
fn unmarked(sql: &str, first: bool) -> String {
    let one_zero =
        |(x, rest): (&str, &str)| format!("(CASE WHEN {x} = 0 THEN 0 ELSE {x} END){rest}");
    let parts = sql.split('⟪').map(|part| match part.split_once('⟫') {
        Some((x, rest)) if first => one_zero((x, rest)),
        _ => part.replace('⟫', ""),
    });
    let sql: String = parts.collect();
    let mut text = String::new();
    for part in sql.split_inclusive('⟩') {
        let Some((before, argument)) = part.split_once('⟨').filter(|_| first) else {
            text += &part.replace('⟨', "(").replace('⟩', ")");
            continue;
        };
        let (argument, order) =
            (argument.trim_end_matches('⟩'), if before.ends_with("max") { "DESC" } else { "ASC" });
        let before = before.trim_end_matches("max").trim_end_matches("min");
        text += &format!("{before}first_value({argument} ORDER BY {argument} {order} NULLS LAST)");
    }
    text
}

/// An aggregate, the same of absolute values, and whether it may be a sum of floats.
struct Call {
    sql: String,
    sizes: String,
    sums: bool,
}

impl Maker<'_> {
    /// Chooses the tables and columns of the statement, and returns the text before SELECT.
    pub(crate) fn begin(&mut self) -> String {
        let tables = self.tables;
        let [table] = tables else {
            if self.r.chance(30) {
                self.with = Some(self.named_query());
            }
            let leaves = self.r.choose(&[1, 2, 2, 2, 3, 3, 4]);
            let source = self.source(leaves);
            (self.from, self.columns) = (source.sql, source.columns);
            let with = self.with.as_ref().filter(|_| !self.spelling.inlined);
            return with
                .map_or_else(String::new, |with| format!("WITH {} AS ({}) ", with.name, with.sql));
        };
        if self.spelling.renamed {
            (self.from, self.columns) = self.leaf_of(0, "t");
        } else {
            (self.from, self.columns) = (table.name.clone(), table.columns.clone());
        }
        String::new()
    }

    fn statement(&mut self, several: bool) -> Statement {
        let kinds: [usize; 12] = if several {
            [12, 10, 26, 5, 4, 4, 10, 7, 5, 8, 6, 3]
        } else {
            [38, 15, 9, 5, 6, 5, 6, 4, 3, 3, 4, 2]
        };
        let mut kind = self.r.below(kinds.iter().sum());
        let number = kinds.iter().position(|weight| {
            let here = kind < *weight;
            kind = kind.wrapping_sub(*weight);
            here
        });
        match number {
            Some(0) => self.grouped(),
            Some(1) => self.top(),
            Some(2) => self.rows(),
            Some(3) => self.distinct(),
            Some(4) => self.joined(),
            Some(5) => self.united(),
            Some(6) => self.windowed(),
            Some(7) => self.grouping_sets(),
            Some(8) => self.distinct_on(),
            Some(9) => self.set_operations(),
            Some(10) => self.side_by_side(),
            _ => self.scalars(),
        }
    }

    /// A WHERE in `percent` of a hundred cases, perhaps with subqueries.
    pub(crate) fn filter(&mut self, percent: usize) -> String {
        self.asks = self.r.choose(&[0, 1, 1, 2, 3]);
        if self.is_large() && !self.r.chance(5) {
            self.asks = 0;
        }
        let text = self.conditions(percent);
        self.asks = 0;
        text
    }

    /// Whether comparing each row with each row of the same table takes long.
    pub(crate) fn is_large(&self) -> bool {
        self.tables.len() == 1 && self.tables.iter().any(|table| table.rows() > 2_500)
    }

    fn conditions(&mut self, percent: usize) -> String {
        if self.r.chance(percent) {
            let mut text = format!(" WHERE {}", self.condition(3));
            while self.r.chance(25) {
                text += &format!(" AND {}", self.condition(2));
            }
            return text;
        }
        String::new()
    }

    fn call(&mut self) -> Call {
        let plain = |sql: String| Call { sizes: sql.clone(), sql, sums: false };
        let filter = match self.r.chance(20) {
            true => format!(" FILTER (WHERE {})", self.condition(1)),
            false => String::new(),
        };
        let call = match self.r.below(17) {
            0 | 1 => plain("count(*)".into()),
            2 => plain(format!("count({})", self.key(1))),
            3..=7 => {
                let (function, argument) = (self.r.pick(&["sum", "sum", "avg"]), self.number(2));
                let size = format!("{function}(abs(CAST({argument} AS DOUBLE)))");
                Call { sql: format!("{function}({argument})"), sizes: size, sums: true }
            }
            8..=10 => plain(format!("{}⟨{}⟩", self.r.pick(&["min", "max"]), self.ordered(2))),
            11 | 12 => plain(format!("count(DISTINCT ⟪{}⟫)", self.number(1))),
            13 => {
                let arguments = [self.text(1), self.moment(1), format!("({})", self.condition(1))];
                plain(format!("count(DISTINCT {})", self.r.choose(&arguments)))
            }
            // Equal keys have equal values.
            14 => {
                let x = self.name(is_exact).unwrap_or_else(|| "1".into());
                let function = self.r.pick(&["first_value", "last_value"]);
                plain(format!("{function}({x} ORDER BY {x}{})", self.direction()))
            }
            _ => return self.variance(&filter),
        };
        Call { sql: call.sql + &filter, sizes: call.sizes + &filter, ..call }
    }

    fn variance(&mut self, filter: &str) -> Call {
        let function =
            self.r.pick(&["stddev", "stddev_pop", "var", "var_pop", "stddev_samp", "var_samp"]);
        let argument = self.number(2);
        let squares =
            format!("avg(CAST({argument} AS DOUBLE) * CAST({argument} AS DOUBLE)){filter}");
        let sizes = if function.starts_with("var") { squares } else { format!("sqrt({squares})") };
        Call { sql: format!("{function}({argument}){filter}"), sizes, sums: true }
    }

    /// An aggregate that is exact and has an order.
    pub(crate) fn exact(&mut self) -> String {
        match self.r.below(4) {
            0 | 1 => "count(*)".into(),
            2 => format!("count({})", self.key(1)),
            _ => format!("{}⟨{}⟩", self.r.pick(&["min", "max"]), self.ordered(1)),
        }
    }

    pub(crate) fn direction(&mut self) -> &'static str {
        self.r.pick(&["", " ASC", " DESC", " DESC", " DESC NULLS LAST", " ASC NULLS FIRST"])
    }

    pub(crate) fn limit(&mut self) -> String {
        let limit = self.r.choose(&[0, 1, 2, 5, 10, 10, 100, 1000, 5000]);
        format!(" LIMIT {limit}{}", if self.r.chance(10) { " OFFSET 3" } else { "" })
    }

    fn grouped(&mut self) -> Statement {
        let from = self.from.clone();
        let depth = self.r.below(3);
        let keys: Vec<String> =
            (0..self.r.choose(&[0, 0, 1, 1, 1, 2, 2, 3, 4])).map(|_| self.key(depth)).collect();
        let calls: Vec<Call> = (0..1 + self.r.below(4)).map(|_| self.call()).collect();
        let (filter, named) = (self.filter(60), keys.len());
        let sums = (0..calls.len()).filter(|at| calls[*at].sums).map(|at| at + named).collect();
        let mut tail = filter;
        if named > 0 {
            let all: Vec<String> = (1..=named).map(|at| at.to_string()).collect();
            tail += &if self.r.chance(20) {
                " GROUP BY ALL".into()
            } else {
                format!(" GROUP BY {}", all.join(", "))
            };
        }
        if self.r.chance(15) {
            tail += &format!(
                " HAVING count(*) {} {}",
                self.r.pick(&[">", "<", ">="]),
                1 + self.r.below(30)
            );
        }
        let mut order = Order::Any;
        if named > 0 && self.r.chance(30) {
            let mut by: Vec<String> =
                (0..named).map(|at| format!("g{at}{}", self.direction())).collect();
            if self.r.chance(50) {
                by.insert(0, format!("{}{}", self.exact(), self.direction()));
            }
            tail += &format!(" ORDER BY {}", by.join(", "));
            order = Order::Total;
            if self.r.chance(70) {
                tail += &self.limit();
            }
        }
        let select = |sql_of: &dyn Fn(&Call) -> String| {
            let items = keys.iter().cloned().chain(calls.iter().map(sql_of));
            let items: Vec<String> =
                items.enumerate().map(|(at, item)| format!("{item} AS g{at}")).collect();
            format!("SELECT {} FROM {from}{tail}", items.join(", "))
        };
        Statement {
            sizes: Some(select(&|call| call.sizes.clone())),
            sums,
            order,
            ..Statement::plain(select(&|call| call.sql.clone()))
        }
    }

    pub(crate) fn items(&mut self, most: usize) -> Vec<String> {
        let depth = self.r.below(3);
        (0..1 + self.r.below(most)).map(|_| self.key(depth)).collect()
    }

    fn top(&mut self) -> Statement {
        let from = self.from.clone();
        let items = self.items(4);
        let text: Vec<String> =
            items.iter().enumerate().map(|(at, item)| format!("{item} AS x{at}")).collect();
        let start = format!("SELECT {} FROM {from}{}", text.join(", "), self.filter(50));
        let total = self.r.chance(60);
        let most = if total { items.len() } else { 1 + self.r.below(items.len()) };
        let first = self.r.below(items.len());
        let order: Vec<usize> = (0..most).map(|at| (first + at) % items.len()).collect();
        let by: Vec<String> = order.iter().map(|at| format!("x{at}{}", self.direction())).collect();
        let sql = format!("{start} ORDER BY {}{}", by.join(", "), self.limit());
        let skips = sql.contains("OFFSET");
        match total {
            true => Statement { order: Order::Total, ..Statement::plain(sql) },
            // Any of the equal rows may be skipped.
            false if skips => Statement { order: Order::Some(start), ..Statement::plain(sql) },
            false => Statement { order: Order::By(order), ..Statement::plain(sql) },
        }
    }

    fn rows(&mut self) -> Statement {
        let from = self.from.clone();
        let items = self.items(5);
        let text: Vec<String> =
            items.iter().enumerate().map(|(at, item)| format!("{item} AS x{at}")).collect();
        let sql = format!("SELECT {} FROM {from}{}", text.join(", "), self.filter(85));
        if self.r.chance(25) {
            let limited = format!("{sql}{}", self.limit());
            return Statement { order: Order::Some(sql), ..Statement::plain(limited) };
        }
        if self.r.chance(30) {
            let by: Vec<usize> = (0..1 + self.r.below(items.len())).collect();
            let keys: Vec<String> =
                by.iter().map(|at| format!("x{at}{}", self.direction())).collect();
            let ordered = format!("{sql} ORDER BY {}", keys.join(", "));
            return Statement { order: Order::By(by), ..Statement::plain(ordered) };
        }
        Statement::plain(sql)
    }

    fn distinct(&mut self) -> Statement {
        let from = self.from.clone();
        let items = self.items(3);
        let text: Vec<String> =
            items.iter().enumerate().map(|(at, item)| format!("{item} AS x{at}")).collect();
        Statement::plain(format!(
            "SELECT DISTINCT {} FROM {from}{}",
            text.join(", "),
            self.filter(60)
        ))
    }

    fn joined(&mut self) -> Statement {
        let from = self.from.clone();
        let (depth, kind) =
            (self.r.below(2), self.r.pick(&["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"]));
        let key = self.key(depth);
        let (a, b) = (self.filter(60), self.filter(60));
        let (x, y) = (self.exact(), self.exact());
        let right = format!("(SELECT {key} AS k, {y} AS y FROM {from}{b} GROUP BY 1) AS b");
        Statement::plain(match self.r.below(6) {
            // The join and the sort above it push dynamic filters down to the scan. Above outer
            // joins, DataFusion takes constants of one side for constants.
            4 => {
                let (x, by) = (self.key(1), [self.direction(), self.direction(), self.direction()]);
                let sql = format!(
                    "SELECT a.k AS c0, a.x AS c1, b.y AS c2 FROM (SELECT {key} AS k, {x} AS x \
                     FROM {from}{a}) AS a JOIN {right} ON a.k = b.k ORDER BY c1{}, c0{}, c2{}{}",
                    by[0],
                    by[1],
                    by[2],
                    self.limit()
                );
                return Statement { order: Order::Total, ..Statement::plain(sql) };
            }
            5 => format!(
                "SELECT a.k AS c0, a.x AS c1, b.y AS c2 FROM (SELECT {key} AS k, {} AS x FROM \
                 {from}{a}) AS a {kind} {right} ON a.k = b.k",
                self.key(1)
            ),
            0 => {
                let min = self.ordered(1);
                format!(
                    "SELECT count(*) AS c0, min⟨a.x⟩ AS c1, max⟨b.y⟩ AS c2 \
                     FROM (SELECT {key} AS k, {min} AS x FROM {from}{a}) AS a {kind} {right} ON \
                     a.k = b.k"
                )
            }
            1 => format!(
                "SELECT count(*) AS c0, {x} AS c1 FROM {from} WHERE ({key}) IN (SELECT DISTINCT \
                 {key} FROM {from}{b})"
            ),
            _ => format!(
                "SELECT a.k AS c0, a.x AS c1, b.k AS c2, b.y AS c3 \
                 FROM (SELECT {key} AS k, {x} AS x FROM {from}{a} GROUP BY 1) AS a {kind} {right} \
                 ON a.k = b.k"
            ),
        })
    }

    fn united(&mut self) -> Statement {
        let from = self.from.clone();
        let (key, call) = (self.key(1), self.exact());
        let half = |filter: String| {
            format!("SELECT {key} AS c0, {call} AS c1 FROM {from}{filter} GROUP BY 1")
        };
        let (a, b) = (half(self.filter(80)), half(self.filter(80)));
        let union = self.r.pick(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT"]);
        Statement::plain(format!("{a} {union} {b}"))
    }
}
